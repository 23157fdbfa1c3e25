"""Forged catalogues that are consistent, but have impossible numbers: refused when computed with."""

from __future__ import annotations

import json
import os

import pytest
from fixtures.forged import _alter
from fixtures.tiny import tiny_release

from engine.errors import DamagedRelease
from engine.store.manifest import file_hash, manifest_path
from queries.release import open_release


@pytest.mark.parametrize(
    "sql",
    [
        f"UPDATE catalog.cell_ranges SET low_1 = {2**61} WHERE low_1 IS NOT NULL",
        "UPDATE catalog.tables SET card = '{}'",
    ],
)
def test_intervals_refuse_what_contradicts_itself(sql, tmp_path):
    path = tiny_release(tmp_path / "r.duckdb")
    _alter(path, sql, hashes=False)
    raw = json.loads(manifest_path(path).read_text())
    raw["accepts"][0] |= {"size": path.stat().st_size, "sha256": file_hash(path)}
    manifest_path(path).write_text(json.dumps(raw))
    with open_release(path) as opened, pytest.raises(DamagedRelease):
        opened.tabulate(["AGE", "SEX"])


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="the system has no pipes with names")
@pytest.mark.parametrize("ending", ["", ".manifest.json", ".sig"])
def test_a_pipe_is_not_waited_for(ending, tmp_path):
    path = tiny_release(tmp_path / "r.duckdb")
    beside = path.with_name(path.name + ending)
    beside.unlink(missing_ok=True)
    os.mkfifo(beside)
    with pytest.raises(DamagedRelease, match="cannot be read"):
        open_release(path)
