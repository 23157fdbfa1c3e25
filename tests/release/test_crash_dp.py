"""kill -9 at any instant of a dp build: what was kept is used again, what was charged stays, and nothing else changes.

The isolation of the process that fits is looked at from inside, too.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import time
from pathlib import Path

import pytest
from fixtures.pipeline import (
    COMMAND,
    environment,
    left_of_the_wall,
    left_over,
    places_of,
    table_hashes,
    tablepack,
)
from fixtures.release_dp import N, spec_in

import engine
from engine.measure.dp import balance, ledger_path

pytest.importorskip("opendp")
pytestmark = pytest.mark.skipif(
    not Path("/proc/self/stat").exists(), reason="needs /proc to see processes"
)
EPSILON, BUDGET = 0.5, 100.0


def start(folder: Path) -> subprocess.Popen:
    return subprocess.Popen(
        [*COMMAND, "build", "release.toml", "-o", "r.duckdb"],
        cwd=folder,
        env=environment(folder / "scratch"),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )


def whole_build(folder: Path, out: str) -> None:
    # The build may have ended before the kill: hence --force, which goes on from staging all the same.
    words = ("build", "release.toml", "-o", out, "--force")
    done = tablepack(*words, cwd=folder, tmp=folder / "scratch")
    assert done.returncode == 0, done.stderr


def kill_when(folder: Path, is_time) -> None:
    """Kill a build, its own processes with it, as soon as `is_time()`, or once it has ended."""
    running = start(folder)
    while not is_time() and running.poll() is None:
        time.sleep(0.005)
    if running.poll() is None:
        os.killpg(running.pid, signal.SIGKILL)
    running.wait()


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
    kill_when(tmp_path, lambda: b"charged" in ledger_path(spec.key_path).read_bytes())
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
