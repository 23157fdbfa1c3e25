"""Builds that are killed, or run out of disk: the old release serves, or the new one is whole."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from pathlib import Path

import duckdb
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

import engine.store.staging
from engine.errors import InternalError, StoreError
from engine.store import Staging, verify_release
from engine.store.manifest import read_manifest
from engine.store.target import staging_folder

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


# Run with every module imported; forks a child for each build, and kills it at a random instant.
TRIALS = """
import os, random, shutil, signal, sys, time
from pathlib import Path
sys.path.insert(0, "tests")
from fixtures.release import many
from fixtures.release import build_release
from engine.store import staging
from engine.store.manifest import verify_release, manifest_path

folder, trials, seed = Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3])
if sys.argv[4] == "often":  # nearly every transaction goes from the log into the file at once
    staging._WAL_LIMIT, staging.BATCH_S = "1KB", 0.0
header, supports = many()
def start(path, seed):
    child = os.fork()
    if child == 0:
        code = 1
        try:
            build_release(path, header=header, supports=supports, seed=seed)
            code = 0
        finally:
            os._exit(code)
    return child
def build(path, seed):
    begun = time.monotonic()
    assert os.waitpid(start(path, seed), 0)[1] == 0
    return time.monotonic() - begun
old, new = folder / "old.duckdb", folder / "new.duckdb"
build(old, 0)
wall = build(new, 1)
hashes = {verify_release(p).content_hash for p in (old, new)}
assert len(hashes) == 2
rng = random.Random(seed)
path = folder / "r.duckdb"
finished = 0
for trial in range(trials):
    shutil.copy(old, path)
    shutil.copy(manifest_path(old), manifest_path(path))
    for attempt in range(2):  # the resume is killed too
        child = start(path, 1)
        time.sleep(rng.uniform(0, 1.1 * wall))
        os.kill(child, signal.SIGKILL)
        finished += os.waitpid(child, 0)[1] == 0
        assert verify_release(path, verify="hash").content_hash in hashes, trial
    build(path, 1)
    assert verify_release(path, verify="hash").tables == verify_release(new).tables, trial
    assert verify_release(path).content_hash == verify_release(new).content_hash, trial
    assert sorted(p.name for p in folder.iterdir() if p.name.startswith("r.")) == [
        "r.duckdb", "r.duckdb.manifest.json"], trial
print("finished", finished)
"""


def kill_trials(tmp_path, trials, seed, packed):
    given = [str(tmp_path), str(trials), str(seed), packed]
    done = subprocess.run(
        [sys.executable, "-W", "ignore::DeprecationWarning", "-c", TRIALS, *given],
        cwd=REPO, env={**os.environ, "PYTHONPATH": str(REPO)}, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-3000:]
    assert int(done.stdout.split()[-1]) < 2 * trials  # some were killed at work


@pytest.mark.parametrize("packed", ["once", "often"])
def test_killed_at_random_instants(tmp_path, packed):
    kill_trials(tmp_path, 12, 1, packed)


@pytest.mark.slow
@pytest.mark.parametrize("packed", ["once", "often"])
def test_killed_at_many_random_instants(tmp_path, packed):
    kill_trials(tmp_path, 60, 2, packed)


@pytest.mark.parametrize("step", range(5))
def test_killed_between_the_steps_of_publishing(tmp_path, monkeypatch, step):
    """Stops before each of: manifest of both, rename, sync, final manifest, removal of staging."""
    path = build_release(tmp_path / "r.duckdb")
    old = verify_release(path).content_hash
    clean = build_release(tmp_path / "clean.duckdb", seed=1)
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


class Clock:
    """In the place of `time`, for batches."""

    def __init__(self):
        self.now = 100.0

    def monotonic(self):
        return self.now


@pytest.fixture
def clock(monkeypatch):
    clock = Clock()
    monkeypatch.setattr(engine.store.staging, "time", clock)
    return clock


@pytest.fixture
def begun(tmp_path, clock):
    """A build whose columns are stored, and the numbers of tables of each transaction since."""
    batches = []
    with (
        pytest.MonkeyPatch.context() as patch,
        Staging.open(tmp_path / "r.duckdb", HEADER, build_id="build 1") as staging,
    ):
        real = engine.store.staging.insert_tables

        def insert(con, entries, carriers):
            batches.append(len(entries))
            real(con, entries, carriers)

        patch.setattr(engine.store.staging, "insert_tables", insert)
        for support in SUPPORTS.values():
            staging.put_support(support)
        yield staging, batches


def put(staging, *tables):
    for columns in tables:
        table = make_table(columns)
        staging.put_table(table, make_card(table))


def test_tables_that_come_quickly_are_written_together(begun, clock, monkeypatch):
    staging, batches = begun
    put(staging, *TABLES[:2])
    assert batches == []
    assert staging.finished() == frozenset()  # not safe yet
    with pytest.raises(InternalError, match="stored already"):
        put(staging, TABLES[0])
    clock.now += 0.25
    put(staging, TABLES[2])
    assert staging.finished() == frozenset(TABLES[:3])
    assert batches == [3]
    clock.now += 10.0
    put(staging, TABLES[3])  # slow ones do not wait
    assert staging.finished() == frozenset(TABLES[:4])
    assert batches == [3, 1]
    monkeypatch.setattr(engine.store.staging, "BATCH_CELLS", 1)
    put(staging, TABLES[4])  # nor large ones
    assert staging.finished() == frozenset(TABLES[:5])
    assert batches == [3, 1, 1]
    monkeypatch.undo()
    put(staging, *TABLES[5:])
    staging.finish()
    assert sum(batches) == len(TABLES)
    whole = build_release(staging.path.with_name("whole.duckdb"), seed=0)
    assert verify_release(staging.path).tables == verify_release(whole).tables


def test_a_batch_is_written_whole_or_not_at_all(begun, clock, monkeypatch):
    staging, batches = begun
    clock.now += 1.0
    put(staging, TABLES[0])
    assert staging.finished() == {TABLES[0]}
    real = engine.store.staging.insert_tables

    def insert(con, entries, carriers):
        real(con, entries, carriers)
        con.execute("SELECT error('stop')")

    monkeypatch.setattr(engine.store.staging, "insert_tables", insert)
    put(staging, TABLES[1])
    clock.now += 1.0
    put(staging, TABLES[2])
    with pytest.raises(InternalError, match="staging failed"):
        staging.finished()
    assert staging.finished() == {TABLES[0]}
    monkeypatch.setattr(engine.store.staging, "insert_tables", real)
    put(staging, *TABLES[1:])
    staging.finish()
    assert batches[:2] == [1, 2]
    assert sum(batches[2:]) == len(TABLES) - 1


@pytest.fixture
def slow(begun, clock, monkeypatch):
    """A build whose next batch is not written until an event is set."""
    staging, _ = begun
    let = threading.Event()
    real = engine.store.staging.insert_tables

    def insert(con, entries, carriers):
        assert let.wait(60)
        real(con, entries, carriers)

    monkeypatch.setattr(engine.store.staging, "insert_tables", insert)
    clock.now += 1.0
    yield staging, let
    let.set()


def test_tables_come_while_others_are_written(slow, begun, clock):
    (staging, let), (_, batches) = slow, begun
    put(staging, TABLES[0])  # handed over
    clock.now += 1.0
    put(staging, TABLES[1])  # waits, since the thread is at work
    staging.put_support(SUPPORTS["AGE"])  # known: nothing to be written
    for columns in TABLES[:2]:
        with pytest.raises(InternalError, match="stored already"):
            put(staging, columns)
    assert batches == []
    let.set()
    assert staging.finished() == {TABLES[0]}
    put(staging, TABLES[2])
    assert staging.finished() == frozenset(TABLES[:3])
    assert batches == [1, 2]


def test_a_build_that_is_left_while_tables_are_written_keeps_them(slow, clock):
    staging, let = slow
    put(staging, *TABLES[:2])
    threading.Timer(0.05, let.set).start()
    staging.close()
    with Staging.open(staging.path, HEADER, build_id="build 1") as again:
        assert again.finished() == frozenset(TABLES[:2])


@pytest.fixture
def failed(begun, clock, monkeypatch):
    """Make a build fail to write its first table: gives its staging, and a function that takes what is to be raised."""
    staging, _ = begun
    real = engine.store.staging.insert_tables

    def fail(error):
        is_at_it = threading.Event()

        def insert(con, entries, carriers):
            is_at_it.set()
            raise error("x")

        monkeypatch.setattr(engine.store.staging, "insert_tables", insert)
        clock.now += 1.0
        put(staging, TABLES[0])
        assert is_at_it.wait(60)
        monkeypatch.setattr(engine.store.staging, "insert_tables", real)

    return staging, fail


@pytest.mark.parametrize("error", [duckdb.IOException, MemoryError, ValueError])
def test_an_error_of_tables_before_does_not_lose_those_that_wait(error, failed, clock):
    """Nor does it hide what ended the build, or keep anything open."""
    staging, fail = failed

    def end_early():
        with staging:
            fail(error)
            clock.now = 0.0
            put(staging, TABLES[1])
            raise KeyError("the first error")

    with pytest.raises(KeyError, match="the first error"):
        end_early()
    with Staging.open(staging.path, HEADER, build_id="build 1") as again:
        assert again.finished() == {TABLES[1]}


def test_whoever_writes_is_told_of_tables_before(failed, clock):
    staging, fail = failed
    fail(duckdb.IOException)
    clock.now = 0.0
    put(staging, TABLES[1])
    with pytest.raises(StoreError, match="cannot be written"):
        staging.write()
    assert staging.finished() == frozenset()
    with pytest.raises(InternalError, match="stored already"):
        put(staging, TABLES[1])  # waits still
    staging.write()
    put(staging, TABLES[0])
    staging.write()
    assert staging.finished() == frozenset(TABLES[:2])


def test_a_known_column_tells_of_tables_before(failed):
    """So that no further table is fitted in vain."""
    staging, fail = failed
    fail(duckdb.IOException)

    def put_until_told():
        for _ in range(600):
            staging.put_support(SUPPORTS["AGE"])
            threading.Event().wait(0.1)

    with pytest.raises(StoreError, match="cannot be written"):
        put_until_told()


def test_whoever_leaves_a_build_keeps_what_waits(tmp_path, clock):
    path = tmp_path / "r.duckdb"
    with Staging.open(path, HEADER, build_id="build 1") as staging:
        for support in SUPPORTS.values():
            staging.put_support(support)
        put(staging, *TABLES[:2])
    with Staging.open(path, HEADER, build_id="build 1") as staging:
        assert staging.finished() == frozenset(TABLES[:2])


def test_a_kill_loses_the_last_batch_and_no_more(tmp_path, clock):
    path = tmp_path / "r.duckdb"
    child = os.fork()
    if child == 0:
        try:
            staging = Staging.open(path, HEADER, build_id="build 0")
            for support in SUPPORTS.values():
                staging.put_support(support)
            put(staging, TABLES[0])
            clock.now += 1.0
            put(staging, *TABLES[1:4])
            staging.finished()
        finally:
            os._exit(0)  # as SIGKILL: nothing is closed
    assert os.waitpid(child, 0)[1] == 0
    with Staging.open(path, HEADER, build_id="build 0") as staging:
        assert staging.finished() == frozenset(TABLES[:2])
    build_release(path, seed=0)
    whole = build_release(tmp_path / "whole.duckdb", seed=0)
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


@pytest.mark.parametrize("share", [0.05, 0.4, 0.8])
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
