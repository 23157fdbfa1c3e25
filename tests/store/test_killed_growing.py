"""A copy of a release that grows, killed at every step: the old release serves, or the new one is whole."""

from __future__ import annotations

import os
import shutil
from dataclasses import replace
from pathlib import Path

import duckdb
import pytest
from fixtures.release import HEADER, SUPPORTS, TABLES, build_release, stage

import engine.store.staging
from engine.store import Staging, manifest_path, verify_release
from engine.store.manifest import file_hash

# Those of before need other numbers than these have in a release of all.
NEW = {("AGE",), ("SEX",), ("AGE", "TOWN")}
BEFORE = replace(HEADER, tables=tuple(table for table in TABLES if table not in NEW))
STEPS = (
    "sweep_folder",
    "copy_file",
    "can_grow",
    "open_again",
    "write_build_id",
    "insert_support",
    "insert_tables",
    "write_release",
    "check_room",
    "write_manifest",
    "sync_directory",
    "remove_folder",
)


def grow(path: Path) -> None:
    """What `add` does in the fit process."""
    earlier = (path, file_hash(path))
    with Staging.open(path, HEADER, build_id="grown", force=True, earlier=earlier) as staging:
        stage(staging, HEADER, SUPPORTS)
        staging.finish()


def killed_at(path: Path, step: int) -> bool:
    """Grow in a process that ends, as if it were killed, at a step; False: it came to its end before."""
    child = os.fork()
    if child:
        return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 9
    try:
        passed = iter(range(1_000))

        def pass_by() -> None:
            if next(passed) == step:
                os._exit(9)  # nothing is closed

        def stopping(real):
            def call(*args, **kwargs):
                pass_by()
                return real(*args, **kwargs)

            return call

        for name in STEPS:
            setattr(engine.store.staging, name, stopping(getattr(engine.store.staging, name)))
        engine.store.staging.BATCH_CELLS = 0  # a transaction a table, however fast they come
        real_copy, real_replace = shutil.copyfile, Path.replace

        def copy(source, target):
            Path(target).write_bytes(Path(source).read_bytes()[: 1 << 15])
            pass_by()  # half of it is there
            return real_copy(source, target)

        def put(self, target):
            if self.name == "staging.duckdb":
                pass_by()
            return real_replace(self, target)

        shutil.copyfile, Path.replace = copy, put
        grow(path)
        os._exit(0)
    finally:
        os._exit(1)


def names_of(path: Path) -> set[tuple[str, str]]:
    """Tables by their views and physical names."""
    with duckdb.connect(str(path), read_only=True) as con:
        return {*con.execute("SELECT name, physical FROM catalog.tables").fetchall()}


@pytest.fixture(scope="module")
def ready(tmp_path_factory):
    """The release to grow, and one of all tables."""
    folder = tmp_path_factory.mktemp("growing")
    old = build_release(folder / "old.duckdb", header=BEFORE)
    return old, build_release(folder / "whole.duckdb")


def test_killed_at_every_step_of_growing(ready, tmp_path):
    old, whole = ready
    hashes = {verify_release(p, verify="hash").content_hash: p for p in ready}
    assert len(hashes) == 2
    before, path = names_of(old), tmp_path / "r.duckdb"
    served = []
    for step in range(1_000):
        shutil.copy(old, path)
        shutil.copy(manifest_path(old), manifest_path(path))
        was_killed = killed_at(path, step)
        served.append(hashes[verify_release(path, verify="hash").content_hash])
        if not was_killed:
            break
        grow(path)
        record = verify_release(path, verify="hash")
        assert record.content_hash == verify_release(whole).content_hash, step
        assert record.tables == verify_release(whole).tables, step
        assert before < names_of(path), step  # it was a copy that grew
        assert {p.name for p in tmp_path.iterdir()} == {"r.duckdb", "r.duckdb.manifest.json"}, step
    assert served == sorted(served, key=(old, whole).index)  # once it is new, it stays new
    assert served.count(old) > len(STEPS)
    assert served.count(whole) == 4  # sync, manifest, removal of staging, and the end


def test_a_grown_copy_that_is_begun_is_not_begun_again(ready, tmp_path):
    """What was stored before the kill is there afterwards, under its numbers."""
    path = tmp_path / "r.duckdb"
    for source, target in zip(
        (ready[0], manifest_path(ready[0])), (path, manifest_path(path)), strict=True
    ):
        shutil.copy(source, target)
    earlier = (path, file_hash(path))
    with Staging.open(path, HEADER, build_id="grown", force=True, earlier=earlier) as staging:
        assert staging.finished() == {*BEFORE.tables}
        stage(staging, replace(HEADER, tables=(("AGE",),)), SUPPORTS)
    with Staging.open(path, HEADER, build_id="grown", force=True, earlier=earlier) as staging:
        assert staging.finished() == {*BEFORE.tables, ("AGE",)}
        stage(staging, HEADER, SUPPORTS)
        staging.finish()
    assert names_of(ready[0]) < names_of(path)
    assert verify_release(path).content_hash == verify_release(ready[1]).content_hash
