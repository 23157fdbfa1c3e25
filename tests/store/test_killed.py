"""Builds killed or out of disk: the old release is served, or the new one is complete."""

from __future__ import annotations

import os
import subprocess
import sys
from multiprocessing import get_context
from pathlib import Path

import pytest
from fixtures.release import (
    HEADER,
    SUPPORTS,
    TABLES,
    build_release,
    make_card,
    make_table,
    many,
    stage,
)
from fixtures.tiny import tiny_release

import engine.store.staging
from engine.errors import InternalError
from engine.store import Staging, verify_release
from engine.store.manifest import read_manifest
from engine.store.staging import staging_folder

REPO = Path(__file__).resolve().parents[2]


@pytest.mark.skipif(not Path("/proc/self/fd").is_dir(), reason="no /proc on this system")
def test_the_file_is_flushed_before_it_is_in_place(tmp_path, monkeypatch):
    events = []

    def noting(real, name):
        def call(*args, **kwargs):
            events.append(name(args[0]))
            return real(*args, **kwargs)

        return call

    monkeypatch.setattr(
        os, "fsync", noting(os.fsync, lambda fd: os.readlink(f"/proc/self/fd/{fd}"))
    )
    monkeypatch.setattr(Path, "replace", noting(Path.replace, str))
    path = build_release(tmp_path / "r.duckdb")
    staged = str(staging_folder(path) / "staging.duckdb")
    first, last = events.index(staged), len(events) - 1 - events[::-1].index(staged)
    assert first < last
    assert str(staging_folder(path) / "manifest.part") in events[first:last]


@pytest.mark.ci
@pytest.mark.parametrize("step", [1, 2, 4])
def test_killed_between_the_steps_of_publishing(tmp_path, monkeypatch, step):
    """Of 0, manifest of both; 1, rename; 2, sync; 3, final manifest; 4, removal of staging: killed before one."""
    path = tiny_release(tmp_path / "r.duckdb")
    old = verify_release(path).content_hash
    clean = tiny_release(tmp_path / "clean.duckdb", seed=1)
    count = iter(range(100))

    class Killed(BaseException):
        pass

    def stopping(real):
        def call(*args, **kwargs):
            if next(count) == step:
                raise Killed
            return real(*args, **kwargs)

        return call

    real_replace = Path.replace

    def replace(self, target):
        if self.name == "staging.duckdb" and next(count) == step:
            raise Killed
        return real_replace(self, target)

    with (
        Staging.open(path, HEADER, build_id="build 1", force=True) as staging,
        monkeypatch.context() as patch,
    ):
        stage(staging, HEADER, SUPPORTS, seed=1)
        for name in ("write_manifest", "sync_directory", "remove_folder"):
            patch.setattr(engine.store.staging, name, stopping(getattr(engine.store.staging, name)))
        patch.setattr(Path, "replace", replace)
        with pytest.raises(Killed):
            staging.finish()
    served = verify_release(path, verify="hash").content_hash
    new = verify_release(clean).content_hash
    assert served == (old if step < 2 else new)
    build_release(path, seed=1)
    assert verify_release(path, verify="hash").content_hash == new
    assert len(read_manifest(path).accepts) == 1


class Build:
    """A build whose columns are stored, with a clock of its own and a hook in every transaction that writes tables."""

    def __init__(self, monkeypatch):
        self.staging, self.now = None, 100.0
        self.batches = []  # numbers of tables written together
        self.while_writing = lambda con: None
        real = engine.store.staging.insert_tables

        def insert(con, entries, carriers):
            real(con, entries, carriers)
            self.while_writing(con)
            self.batches.append(len(entries))

        monkeypatch.setattr(engine.store.staging, "insert_tables", insert)
        monkeypatch.setattr(engine.store.staging, "time", self)

    def begin(self, staging):
        self.staging = staging
        for support in SUPPORTS.values():
            staging.put_support(support)
        return self

    def monotonic(self):
        return self.now

    def put(self, *tables, after=0.0):
        self.now += after
        for columns in tables:
            table = make_table(columns)
            self.staging.put_table(table, make_card(table))

    def finished(self):
        return self.staging.finished()


@pytest.fixture
def begun(tmp_path, monkeypatch):
    build = Build(monkeypatch)
    with Staging.open(tmp_path / "r.duckdb", HEADER, build_id="build 1") as staging:
        yield build.begin(staging)


def test_a_batch_is_written_whole_or_not_at_all(begun):
    begun.put(TABLES[0], after=1.0)
    assert begun.finished() == {TABLES[0]}
    begun.while_writing = lambda con: con.execute("SELECT error('stop')")
    begun.put(TABLES[1])
    begun.put(TABLES[2], after=1.0)
    with pytest.raises(InternalError, match="staging failed"):
        begun.finished()
    assert begun.finished() == {TABLES[0]}
    begun.while_writing = lambda con: None
    begun.put(*TABLES[1:])
    begun.staging.finish()
    whole = tiny_release(begun.staging.path.with_name("whole.duckdb"))
    assert verify_release(begun.staging.path).tables == verify_release(whole).tables


def store_until_killed(path):
    """Store tables in this process, which then ends as if killed."""
    with pytest.MonkeyPatch.context() as monkeypatch:
        build = Build(monkeypatch)
        begun = build.begin(Staging.open(path, HEADER, build_id="build 0"))
        begun.put(TABLES[0])
        begun.put(*TABLES[1:4], after=1.0)
        begun.finished()
        os._exit(9)  # nothing is closed


def test_a_kill_loses_the_last_batch_and_no_more(tmp_path):
    path = tmp_path / "r.duckdb"
    child = get_context("spawn").Process(target=store_until_killed, args=(path,))
    child.start()
    child.join()
    assert child.exitcode == 9
    with Staging.open(path, HEADER, build_id="build 0") as staging:
        assert staging.finished() == frozenset(TABLES[:2])
    build_release(path, seed=0)
    whole = tiny_release(tmp_path / "whole.duckdb")
    assert verify_release(path).content_hash == verify_release(whole).content_hash


FULL = """
import resource, sys
sys.path.insert(0, "tests")
from fixtures.release import many
from fixtures.release import *
from engine.errors import StoreError
from pathlib import Path
header, supports = many()
staging = Staging.open(Path(sys.argv[1]), header, build_id="build 1", force=True)
resource.setrlimit(resource.RLIMIT_FSIZE, (int(sys.argv[2]), resource.RLIM_INFINITY))
try:
    stage(staging, header, supports, seed=1)
    staging.finish()
except StoreError as error:
    print("StoreError", error)
staging.close()
"""


@pytest.mark.parametrize(
    "share", [0.4, *(pytest.param(share, marks=pytest.mark.slow) for share in (0.05, 0.8))]
)
def test_full_disk(tmp_path, share):
    header, supports = many()
    path = build_release(tmp_path / "r.duckdb", header=header, supports=supports)
    old = verify_release(path)
    limit = int(share * old.size)
    done = subprocess.run(
        [sys.executable, "-c", FULL, str(path), str(limit)],
        cwd=REPO, env={**os.environ, "PYTHONPATH": str(REPO)}, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert "StoreError" in done.stdout, done.stderr[-2000:]
    assert "cannot be written" in done.stdout
    assert verify_release(path, verify="hash") == old
    build_release(path, header=header, supports=supports, seed=1)
    assert verify_release(path, verify="hash").content_hash != old.content_hash
