"""Processes of Spark that are killed in the middle: the build ends with the right release, or with a clear error."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import time
from pathlib import Path

import pytest
from fixtures.pipeline import ACCEPTED, COMMAND, environment, left_over, write_spec

pyspark = pytest.importorskip("pyspark")
HAS_JAVA = shutil.which("java") is not None
if not HAS_JAVA and os.environ.get("CI") != "true":
    pytest.skip("no Java on this machine", allow_module_level=True)
if not Path("/proc/self/stat").exists():
    pytest.skip("needs /proc to find processes", allow_module_level=True)
pytestmark = pytest.mark.slow
COLUMNS = {
    "person_id": {"kind": "integer"},
    "age": {"kind": "integer", "domain": {"min": 0, "max": 105}},
    "sex": {"kind": "category"},
}
TABLES = [("age",), ("sex",), ("age", "sex")]
SECONDS = 300
"""A build takes some 20 on a calm machine."""


def command_of(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode()
    except OSError:
        return ""


def parents() -> dict[int, int]:
    """The parent of each process."""
    found = {}
    for path in Path("/proc").glob("[0-9]*/stat"):
        try:
            found[int(path.parent.name)] = int(path.read_text().rpartition(") ")[2].split()[1])
        except OSError:
            continue
    return found


def descendants(of: int) -> list[int]:
    known = parents()
    found, left = [], [of]
    while left:
        here = left.pop()
        own = [pid for pid, parent in known.items() if parent == here]
        found += own
        left += own
    return found


def python_workers(of: int) -> list[int]:
    """Processes that run our tasks: children of the daemon that Spark forks them from."""
    family = descendants(of)
    daemons = [pid for pid in family if "pyspark.daemon" in command_of(pid)]
    known = parents()
    return [pid for pid in daemons if known.get(pid) in daemons]


class Build:
    """A build by Spark in a process of its own."""

    def __init__(self, folder: Path, census: Path, engine: str, **env: str) -> None:
        self.folder, self.scratch = folder, folder / "scratch"
        self.scratch.mkdir(exist_ok=True)
        write_spec(
            folder,
            census / "people.parquet",
            COLUMNS,
            TABLES,
            name=f"{engine}.toml",
            source={"engine": engine}
            | ({"master": env.pop("master")} if engine == "spark" else {}),
            privacy=ACCEPTED,
        )
        self.out = folder / f"{engine}.duckdb"
        self.process = subprocess.Popen(
            [*COMMAND, "build", str(folder / f"{engine}.toml"), "-o", str(self.out), "--jobs", "1"],
            cwd=folder,
            env=environment(self.scratch, **env),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )

    def ended(self) -> tuple[int, str]:
        try:
            said = self.process.communicate(timeout=SECONDS)[0]
        finally:
            self.process.kill()  # Spark ends with whoever started it
        return self.process.returncode, said


def kill_once(find, process: subprocess.Popen) -> bool:
    """Kill what is found first, as soon as it is there."""
    deadline = time.monotonic() + SECONDS
    while process.poll() is None and time.monotonic() < deadline:
        for pid in find():
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                continue
            return True
        time.sleep(0.005)
    return False


def hash_of(out: Path) -> str:
    import engine

    with engine.open(out) as release:
        return release.content_hash


@pytest.fixture
def plain(tmp_path, census):
    """What DuckDB makes of it."""
    built = Build(tmp_path, census, "duckdb")
    code, said = built.ended()
    assert code == 0, said
    return hash_of(built.out)


def check_end(build: Build, plain: str, code: int, said: str) -> None:
    """The right release, or a clear error with nothing half-written; nothing of Spark's stays in scratch."""
    if code == 0:
        assert hash_of(build.out) == plain
    else:
        assert code == 2, said
        assert "Spark" in said
        assert "Traceback" not in said
        assert not build.out.exists()
        assert not build.out.with_name(build.out.name + ".tmp").exists()
    assert left_over(build.scratch) == []


def test_a_worker_that_is_killed(tmp_path, census, plain):
    build = Build(tmp_path, census, "spark", master="local[2]")
    assert kill_once(lambda: python_workers(build.process.pid), build.process)
    code, said = build.ended()
    check_end(build, plain, code, said)
