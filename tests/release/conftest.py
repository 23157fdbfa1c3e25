"""What several tests of builds share."""

from __future__ import annotations

import pytest
from fixtures.planted import CANARY, PLANT


@pytest.fixture
def planted(tmp_path, monkeypatch):
    """A module that workers find before ours and that makes them do as their jobs say; gives a folder for notes."""
    notes, folder = tmp_path / "notes", tmp_path / "site"
    notes.mkdir()
    folder.mkdir()
    (folder / "sitecustomize.py").write_text(PLANT.format(notes=str(notes), canary=CANARY))
    monkeypatch.syspath_prepend(folder)
    return notes
