"""Processes of Spark that are killed in the middle: the build ends with the right release, or with a clear error."""

from __future__ import annotations

import os
import shutil
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import pytest
from fixtures.pipeline import ACCEPTED, COMMAND, ROOT, environment, left_over, write_spec

pyspark = pytest.importorskip("pyspark")
HAS_JAVA = shutil.which("java") is not None
if not HAS_JAVA and os.environ.get("CI") != "true":
    pytest.skip("no Java on this machine", allow_module_level=True)
if not Path("/proc/self/stat").exists():
    pytest.skip("needs /proc to find processes", allow_module_level=True)
pytestmark = pytest.mark.slow
HOME = Path(pyspark.__file__).parent
COLUMNS = {
    "person_id": {"kind": "integer"},
    "age": {"kind": "integer", "domain": {"min": 0, "max": 105}},
    "sex": {"kind": "category"},
}
TABLES = [("age",), ("sex",), ("age", "sex")]
SECONDS = 300
"""A build takes some 20 on a calm machine."""
DEFAULTS = """
spark.io.encryption.enabled true
spark.authenticate true
spark.authenticate.secret 0123456789abcdef
spark.network.crypto.enabled true
spark.ui.enabled false
spark.log.level OFF
spark.sql.shuffle.partitions 2
spark.executor.memory 512m
spark.driver.memory 512m
"""


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


def executors(of: int) -> list[int]:
    return [pid for pid in descendants(of) if "CoarseGrainedExecutorBackend" in command_of(pid)]


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


def free_port() -> int:
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return int(one.getsockname()[1])


@pytest.fixture
def cluster(tmp_path):
    """A master and a worker of Spark's own kind, of two cores; gives the master's address, the settings, the worker."""
    settings = tmp_path / "conf"
    settings.mkdir()
    (settings / "spark-defaults.conf").write_text(DEFAULTS)
    port = free_port()
    env = environment(
        tmp_path / "scratch",
        SPARK_HOME=str(HOME),
        SPARK_CONF_DIR=str(settings),
        SPARK_LOCAL_IP="127.0.0.1",
        PYSPARK_PYTHON=sys.executable,
    )
    (tmp_path / "scratch").mkdir(exist_ok=True)
    base = [str(HOME / "bin" / "spark-class"), "org.apache.spark.deploy"]
    words = {
        "master.Master": ["--host", "127.0.0.1", "--port", str(port), "--webui-port", "0"],
        "worker.Worker": ["--cores", "2", "--memory", "1g", "--host", "127.0.0.1", "--webui-port",
                          "0", "--work-dir", str(tmp_path / "work"), f"spark://127.0.0.1:{port}"],
    }  # fmt: skip
    running = []
    try:
        for name, given in words.items():
            log = (tmp_path / f"{name}.log").open("w")
            running.append(
                subprocess.Popen(
                    [base[0], f"{base[1]}.{name}", *given],
                    env=env,
                    cwd=ROOT,
                    stdout=log,
                    stderr=log,
                )
            )
            log.close()
            if name == "master.Master":
                wait_for(port)
        yield f"spark://127.0.0.1:{port}", str(settings), running[1]
    finally:
        for process in reversed(running):
            for pid in [*descendants(process.pid), process.pid]:
                try:
                    os.kill(pid, signal.SIGKILL)
                except ProcessLookupError:
                    continue
            process.wait()


def wait_for(port: int) -> None:
    deadline = time.monotonic() + SECONDS
    while time.monotonic() < deadline:
        try:
            socket.create_connection(("127.0.0.1", port), 1).close()
        except OSError:
            time.sleep(0.1)
        else:
            return
    raise TimeoutError("the master does not answer")


def test_an_executor_that_is_killed_is_made_anew(tmp_path, census, plain, cluster):
    master, settings, worker = cluster
    build = Build(
        tmp_path,
        census,
        "spark",
        master=master,
        SPARK_CONF_DIR=settings,
        SPARK_LOCAL_IP="127.0.0.1",
    )

    # While a task of ours runs on it.
    def busy() -> list[int]:
        return executors(worker.pid) if python_workers(worker.pid) else []

    assert kill_once(busy, build.process)
    code, said = build.ended()
    check_end(build, plain, code, said)
    assert code == 0, said
    assert not build.scratch.joinpath("spark").exists()
