"""kill -9 at any instant: what was released goes on serving, a resume ends with the same content, nothing stays."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import time
from pathlib import Path

import pytest
from fixtures.pipeline import (
    ACCEPTED,
    CENSUS,
    COMMAND,
    environment,
    files_under,
    left_over,
    process,
    tablepack,
    write_spec,
)

import engine
from engine.keys import MasterKey

OLD_TABLES = [("age",), ("sex",)]
NEW_TABLES = [
    *OLD_TABLES,
    *[("age", other) for other in ("carer", "education", "income", "region", "travel_km")],
    ("age", "education", "region", "sex"),
]


class Stage:
    """A release to be replaced, and what its replacement must be."""

    def __init__(self, folder: Path, census: Path) -> None:
        self.folder = folder
        self.scratch = folder / "scratch"
        self.scratch.mkdir()
        source = census / "people.parquet"
        old = write_spec(folder, source, CENSUS, OLD_TABLES, name="old.toml", privacy=ACCEPTED)
        self.spec = write_spec(
            folder, source, CENSUS, NEW_TABLES, name="new.toml", privacy=ACCEPTED
        )
        self.old = self.built(old, "old.duckdb")
        began = time.monotonic()
        first = self.start(folder / "new.duckdb")
        while first.poll() is None and not left_over(self.scratch):
            time.sleep(0.005)
        self.begun = time.monotonic() - began  # until then Python loads, and nothing is written
        assert first.wait() == 0
        self.seconds = time.monotonic() - began
        self.new = hash_of(folder / "new.duckdb")
        assert self.old != self.new

    def built(self, spec: Path, name: str) -> str:
        done = process("build", spec, "-o", name, cwd=self.folder, tmp=self.scratch)
        assert done.returncode == 0, done.stderr
        return hash_of(self.folder / name)

    def rebuilt(self, spec: Path, target: Path):
        words = ("build", spec, "-o", target, "--force")
        return tablepack(*words, cwd=self.folder, tmp=self.scratch)

    def target(self, number: int) -> Path:
        """A folder of its own with the old release in it."""
        place = self.folder / f"{number}"
        place.mkdir()
        for ending in ("", ".manifest.json"):
            shutil.copy(self.folder / f"old.duckdb{ending}", place / f"r.duckdb{ending}")
        return place / "r.duckdb"

    def start(self, target: Path) -> subprocess.Popen:
        return subprocess.Popen(
            [*COMMAND, "build", str(self.spec), "-o", str(target), "--force"],
            cwd=self.folder,
            env=environment(self.scratch),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )


@pytest.fixture(scope="module")
def stage(tmp_path_factory, census):
    return Stage(tmp_path_factory.mktemp("crash"), census)


def hash_of(path: Path) -> str:
    """Open a release, ask it something, and give its content hash."""
    with engine.open(path) as release:
        assert release.sql("SELECT count(*) FROM data").rows[0][0] > 1000
        return release.content_hash


def stat_of(pid: int) -> list[str]:
    """State, parent, ... of a process; empty where it is gone."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(") ")[2].split()
    except OSError:
        return []


def is_alive(pid: int) -> bool:
    return stat_of(pid)[:1] not in ([], ["Z"])


def children_of(pid: int) -> list[int]:
    numbers = [int(p.name) for p in Path("/proc").iterdir() if p.name.isdigit()]
    return [n for n in numbers if (stat := stat_of(n)) and int(stat[1]) == pid]


def kill_when(stage: Stage, target: Path, is_time, *, everybody: bool) -> list[int]:
    """Kill a build as soon as `is_time()`, or once it has ended; gives the processes it had started."""
    running = stage.start(target)
    while not is_time() and running.poll() is None:
        time.sleep(0.005)
    children = children_of(running.pid)
    try:
        os.killpg(running.pid, signal.SIGKILL)
    except ProcessLookupError:  # it has ended by itself, and no process of it is left
        assert children == []
    if everybody:
        for child in children:
            try:
                os.kill(child, signal.SIGKILL)
            except ProcessLookupError:
                continue
    running.wait()
    deadline = time.monotonic() + 60
    while any(is_alive(child) for child in children):
        assert time.monotonic() < deadline, "an orphan of the build lives on"
        time.sleep(0.005)
    return children


def check_ends_well(stage: Stage, target: Path) -> None:
    """The build said again ends with the whole release, and nothing else is left."""
    done = stage.rebuilt(stage.spec, target)
    assert done.returncode == 0, done.stderr
    assert hash_of(target) == stage.new
    left = sorted(p.name for p in target.parent.iterdir())
    assert left == ["r.duckdb", "r.duckdb.manifest.json"]
    assert left_over(stage.scratch) == []


needs_proc = pytest.mark.skipif(
    not Path("/proc/self/stat").exists(), reason="needs /proc to find child processes"
)


@pytest.mark.ci
@needs_proc
def test_killed_while_it_reads(stage):
    target = stage.target(0)
    kill_when(stage, target, lambda: left_over(stage.scratch), everybody=False)
    assert hash_of(target) == stage.old
    check_ends_well(stage, target)


@pytest.mark.ci
@needs_proc
def test_killed_while_it_writes_and_killed_again(stage):
    """Killed while it fits, and its resume while that reads; what a killed build leaves is closed to others.

    Staging holds released numbers only, scratch holds rows: both of mode 0700, the key is in neither.
    """
    target = stage.target(1)
    staging = target.with_name("r.duckdb.tmp")
    key = (stage.folder / "my.key").read_bytes()
    derived = MasterKey(key).derive("sampling", "2021")
    for moment in (staging.exists, lambda: left_over(stage.scratch)):
        kill_when(stage, target, moment, everybody=True)
        assert hash_of(target) == stage.old
        assert staging.exists()
        folders = [*stage.scratch.glob("tablepack-*"), staging]
        for folder in folders:
            assert folder.stat().st_mode & 0o077 == 0
        for path in files_under(*folders):
            data = path.read_bytes()
            assert key not in data
            assert derived not in data
        tablepack("doctor", cwd=stage.folder, tmp=stage.scratch)  # sweeps
        assert left_over(stage.scratch) == []
    check_ends_well(stage, target)


@pytest.mark.ci
@needs_proc
def test_killed_when_the_release_is_put_in_place(stage):
    target = stage.target(2)
    before = target.stat().st_ino

    def is_replaced() -> bool:
        try:
            return target.stat().st_ino != before
        except FileNotFoundError:
            return True

    kill_when(stage, target, is_replaced, everybody=True)
    assert hash_of(target) == stage.new
    check_ends_well(stage, target)
