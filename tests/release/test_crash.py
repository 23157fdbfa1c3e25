"""kill -9 at any instant: what was released goes on serving, a resume ends with the same content, nothing stays."""

from __future__ import annotations

import json
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
    left_of_the_wall,
    left_over,
    places_of,
    process,
    table_hashes,
    tablepack,
    write_spec,
)
from fixtures.release_dp import N, spec_in

import engine
from engine.keys import MasterKey
from engine.measure.dp import balance, ledger_path

pytest.importorskip("opendp")
pytestmark = pytest.mark.skipif(
    not Path("/proc/self/stat").exists(), reason="needs /proc to see processes"
)
EPSILON, BUDGET = 0.5, 100.0

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
        return started(self.folder, self.spec, target, "--force")


def started(folder: Path, spec: Path | str, target: Path | str, *words: str) -> subprocess.Popen:
    """A build in a session of its own."""
    return subprocess.Popen(
        [*COMMAND, "build", str(spec), "-o", str(target), *words],
        cwd=folder,
        env=environment(folder / "scratch"),
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


def kill_when(running: subprocess.Popen, is_time, *, everybody: bool = True) -> None:
    """Kill a build as soon as `is_time()`, or once it has ended; and the processes it had started, or they end."""
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


def check_ends_well(stage: Stage, target: Path) -> None:
    """The build said again ends with the whole release, and nothing else is left."""
    done = stage.rebuilt(stage.spec, target)
    assert done.returncode == 0, done.stderr
    assert hash_of(target) == stage.new
    left = sorted(p.name for p in target.parent.iterdir())
    assert left == ["r.duckdb", "r.duckdb.manifest.json"]
    assert left_over(stage.scratch) == []


@pytest.mark.ci
def test_killed_while_it_reads(stage):
    target = stage.target(0)
    kill_when(stage.start(target), lambda: left_over(stage.scratch), everybody=False)
    assert hash_of(target) == stage.old
    check_ends_well(stage, target)


@pytest.mark.ci
def test_killed_while_it_writes_and_killed_again(stage):
    """Killed while it fits, and its resume while that reads; what a killed build leaves is closed to others.

    Staging holds released numbers only, scratch holds rows: both of mode 0700, the key is in neither.
    """
    target = stage.target(1)
    staging = target.with_name("r.duckdb.tmp")
    key = (stage.folder / "my.key").read_bytes()
    derived = MasterKey(key).derive("sampling", "2021")
    for moment in (staging.exists, lambda: left_over(stage.scratch)):
        kill_when(stage.start(target), moment)
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
def test_killed_when_the_release_is_put_in_place(stage):
    target = stage.target(2)
    before = target.stat().st_ino

    def is_replaced() -> bool:
        try:
            return target.stat().st_ino != before
        except FileNotFoundError:
            return True

    kill_when(stage.start(target), is_replaced)
    assert hash_of(target) == stage.new
    check_ends_well(stage, target)


def whole_build(folder: Path, out: str) -> None:
    # The build may have ended before the kill: hence --force, which goes on from staging all the same.
    words = ("build", "release.toml", "-o", out, "--force")
    done = tablepack(*words, cwd=folder, tmp=folder / "scratch")
    assert done.returncode == 0, done.stderr


def prepared(folder: Path):
    folder.mkdir(exist_ok=True)
    (folder / "scratch").mkdir()
    return spec_in(folder, dp=f"epsilon = {EPSILON}\nbudget = {BUDGET}")


def check_it_goes_on(folder: Path, spec) -> None:
    """After a kill: charged once or not at all; a second draw is charged again; then nothing more."""
    charged = balance(spec.key_path).spent if spec.key_path.exists() else 0.0
    assert charged in (0.0, pytest.approx(EPSILON))
    if (folder / "r.duckdb").exists() and not (folder / "r.duckdb.tmp").exists():
        with engine.open(folder / "r.duckdb") as release:
            assert release.sql("SELECT count(*) FROM data").rows[0][0] > N / 2
    whole_build(folder, "r.duckdb")
    spent = balance(spec.key_path).spent
    assert spent in (pytest.approx(EPSILON), pytest.approx(charged + EPSILON))
    whole_build(folder, "again.duckdb")  # by the counts that are kept
    assert balance(spec.key_path).spent == spent
    assert table_hashes(folder / "r.duckdb") == table_hashes(folder / "again.duckdb")
    assert not (folder / "r.duckdb.tmp").exists()
    assert left_over(folder / "scratch") == []


@pytest.mark.ci
def test_killed_once_it_is_charged(tmp_path):
    """Charged before the draw: the charge stays, whether the counts were kept or are drawn again."""
    spec = prepared(tmp_path)
    kill_when(
        started(tmp_path, "release.toml", "r.duckdb"),
        lambda: b"charged" in ledger_path(spec.key_path).read_bytes(),
    )
    assert balance(spec.key_path).spent == pytest.approx(EPSILON)
    check_it_goes_on(tmp_path, spec)


SPY = """
import json, os, pathlib, sys
if 'engine.release.fit_process' in ' '.join(sys.orig_argv):
    import engine.store.staging
    real = engine.store.staging.Staging.complete
    def finish(self, *ledger, **more):
        fds = {n: os.readlink(f'/proc/self/fd/{n}') for n in os.listdir('/proc/self/fd')
               if os.path.exists(f'/proc/self/fd/{n}')}
        pathlib.Path(__file__).with_name('seen.json').write_text(json.dumps({
            'modules': sorted(m for m in sys.modules if m.startswith(('engine', 'queries', 'opendp'))),
            'argv': sys.orig_argv,
            'environment': dict(os.environ),
            'files': fds,
            'folder': os.getcwd(),
            'maps': open('/proc/self/maps').read(),
        }))
        return real(self, *ledger, **more)
    engine.store.staging.Staging.complete = finish
"""


@pytest.mark.ci
def test_the_joint_fit_holds_no_handle_on_the_data(tmp_path):
    """Looked at from inside, just before it writes the release."""
    spec = prepared(tmp_path)
    spied = tmp_path / "spied"
    spied.mkdir()
    (spied / "sitecustomize.py").write_text(SPY)
    done = subprocess.run(
        [*COMMAND, "build", "release.toml", "-o", str(spied / "r.duckdb")],
        cwd=tmp_path,
        env=environment(
            tmp_path / "scratch",
            PYTHONPATH=f"{spied}{os.pathsep}{environment()['PYTHONPATH']}",
            SECRET_OF_THE_SESSION="do not pass on",
        ),
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    seen = json.loads((spied / "seen.json").read_text())
    assert left_of_the_wall(seen["modules"]) == []
    assert not any(m.startswith("opendp") for m in seen["modules"])
    assert "engine.release.joint_fitter" in seen["modules"]
    opened = "\n".join(seen["files"].values()) + seen["maps"]
    for path in ("rows.parquet", spec.key_path.name, str(tmp_path / "scratch")):
        assert path not in opened
    told = json.dumps([seen["argv"], seen["environment"]])
    assert "do not pass on" not in told
    assert "rows.parquet" not in told
    assert places_of([spec.key_path.read_bytes()], {"told": told.encode()}) == []
    assert Path(seen["folder"]) == spied
