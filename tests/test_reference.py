"""Reference pages: every public name; every key of the spec, in the committed page."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest
import reference_pages
from reference_pages import ROOT

import engine
import queries
from engine.spec.model import NESTED, SECTIONS


def test_the_names_that_users_import_have_pages(tmp_path):
    pytest.importorskip("pdoc")
    code = f"from reference_pages import *; api(Path({str(tmp_path)!r}))"
    folders = os.pathsep.join([str(ROOT / "scripts"), str(ROOT), os.environ.get("PYTHONPATH", "")])
    subprocess.run(
        [sys.executable, "-c", code], check=True, env=os.environ | {"PYTHONPATH": folders}
    )
    for module in (engine, queries):
        text = (tmp_path / f"{module.__name__}.html").read_text("utf-8")
        for name in module.__all__:
            assert f'id="{name}"' in text, name
    assert 'id="Release.sql"' in (tmp_path / "engine.html").read_text("utf-8")


def test_the_committed_spec_reference_is_current():
    committed = (reference_pages.ROOT / reference_pages.SPEC).read_text("utf-8")
    assert committed == reference_pages.spec_reference(), "run ./scripts/reference --spec"


def test_every_key_of_the_spec_is_in_its_reference():
    rows = reference_pages.spec_reference().splitlines()
    keys = [
        key for section in (*SECTIONS.values(), *NESTED.values()) for key in section.model_fields
    ]
    for key in keys:
        assert sum(row.startswith(f"| `{key}` |") for row in rows) == keys.count(key), key
