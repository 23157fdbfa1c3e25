from __future__ import annotations

import pytest
from pipeline_fixture import make_census


@pytest.fixture(scope="session")
def census(tmp_path_factory):
    """A folder with a simulated census of 1,500 people."""
    return make_census(tmp_path_factory.mktemp("census") / "census", csv=True)


@pytest.fixture
def scratch(tmp_path, monkeypatch):
    """A folder for temporary files that no other test uses."""
    folder = tmp_path / "scratch"
    folder.mkdir()
    monkeypatch.setenv("TMPDIR", str(folder))
    monkeypatch.setattr("tempfile.tempdir", None)
    return folder
