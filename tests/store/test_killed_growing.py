"""A copy of a release that grows is killed: the old release is served, or the new one is complete."""

from __future__ import annotations

import os
import shutil
from dataclasses import replace
from multiprocessing import get_context
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
    "check_total_text",
    "write_manifest",
    "sync_directory",
    "remove_folder",
)


def grow(path: Path) -> None:
    """Add tables as `tablepack add` does."""
    earlier = (path, file_hash(path))
    with Staging.open(path, HEADER, build_id="grown", force=True, earlier=earlier) as staging:
        stage(staging, HEADER, SUPPORTS)
        staging.finish()


def grow_until(path: Path, step: int) -> None:
    """Grow in this process, which ends, as if killed, at a step."""
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


def killed_at(path: Path, step: int) -> bool:
    """Grow in a process that is killed at a step; False: it finished before."""
    # Not a fork: threads of DuckDB in this process are not in a fork of it.
    child = get_context("spawn").Process(target=grow_until, args=(path, step))
    child.start()
    child.join()
    assert child.exitcode in (0, 9)
    return child.exitcode == 9


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


def served_after_a_kill(ready, path, step):
    """Kill a growing release at a step, check what is on disk, and grow it again; what was served after the kill.

    Returns: The release served, and whether the process was killed.
    """
    old, whole = ready
    hashes = {verify_release(p, verify="hash").content_hash: p for p in ready}
    shutil.copy(old, path)
    shutil.copy(manifest_path(old), manifest_path(path))
    was_killed = killed_at(path, step)
    served = hashes[verify_release(path, verify="hash").content_hash]
    if was_killed:
        grow(path)
        record, wanted = verify_release(path, verify="hash"), verify_release(whole)
        assert (record.content_hash, record.tables) == (wanted.content_hash, wanted.tables), step
        assert names_of(old) < names_of(path), step  # it was a copy that grew
        assert {p.name for p in path.parent.iterdir()} == {path.name, manifest_path(path).name}
    return served, was_killed


@pytest.mark.ci
@pytest.mark.parametrize("step", [2, 7, 12])
def test_killed_while_growing(ready, tmp_path, step):
    """While the old file is copied, while tables are written, and near the end of that."""
    assert served_after_a_kill(ready, tmp_path / "r.duckdb", step) == (ready[0], True)


def test_a_copy_that_has_begun_to_grow_is_resumed(ready, tmp_path):
    """Tables stored before are still there, under their numbers."""
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
