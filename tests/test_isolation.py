"""Planted secrets: after good, failed, killed and resumed builds they are only in the source and the key.

And process isolation: the fit process has no access to the data.
"""

from __future__ import annotations

import os
import secrets
import signal
import subprocess
import sys
import time
from pathlib import Path

import duckdb
import numpy as np
import pandas as pd
import pytest
from fixtures.pipeline import (
    ACCEPTED,
    COMMAND,
    content_of,
    environment,
    files_under,
    left_of_the_wall,
    left_over,
    places_of,
    process,
    spellings,
    table_hashes,
    tablepack,
    write_spec,
)

import engine

N = 400
COLUMNS = {
    "person": {"kind": "text"},
    "city": {"kind": "category"},
    "remark": {"kind": "text"},
    "age": {"kind": "integer"},
    "income": {"kind": "integer"},
    "score": {"kind": "real", "resolution": 0.001},
    "born": {"kind": "date"},
}
TABLES = [
    *[(name,) for name in COLUMNS if name != "person"],
    ("age", "city"),
    ("age", "remark"),
    ("city", "income", "remark"),
    ("age", "born", "city", "score"),
]


def canary(kind: str) -> str:
    return f"{kind}~{secrets.token_hex(12)}"


class Planted:
    """A DuckDB file with secrets wherever a release must not take them from, and commands run on it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.out = folder / "out"
        self.tmp = folder / "tmp"
        self.secrets: list[bytes] = []
        self.shown: dict[str, bytes] = {}
        for path in (self.out, self.tmp):
            path.mkdir()
        self._plant()
        self.spec = write_spec(
            folder, "rows.duckdb", COLUMNS, TABLES, entities=("person",), privacy=ACCEPTED
        )
        engine.new_key(folder / "own.key")
        self.spec.write_text(self.spec.read_text().replace("my.key", "own.key"))
        self.key = (folder / "own.key").read_bytes()

    def _new(self, kind: str) -> str:
        made = canary(kind)
        self.secrets.append(made.encode())
        return made

    def _plant(self) -> None:
        rng = np.random.default_rng(5)
        frame = pd.DataFrame(
            {
                "person": [self._new("id") for _ in range(N)],
                "city": rng.choice(["Aberdeen", "Bath", "Crewe"], size=N),
                "remark": rng.choice(["none", "some"], size=N),
                "age": rng.integers(18, 60, size=N),
                "income": rng.integers(10, 40, size=N) * 1_000,
                "score": rng.integers(0, 2_000, size=N) / 1_000,
                "born": pd.Timestamp("1980-01-01") + pd.to_timedelta(rng.integers(0, 900, N), "D"),
            }
        )
        frame.loc[3, "city"] = self._new("city")
        frame.loc[[7, 8], "city"] = self._new("city")
        frame.loc[11, "remark"] = self._new("remark")
        frame.loc[[12, 13], "remark"] = self._new("remark") * 40
        frame.loc[17, "income"] = 7_360_194_528_371
        frame.loc[18, "income"] = -5_109_283_746_655
        frame.loc[19, "age"] = 6_482_913_705_117
        self.numbers = (7_360_194_528_371, 5_109_283_746_655, 6_482_913_705_117)
        self.secrets += [str(n).encode() for n in self.numbers]
        comments = [self._new("comment") for _ in range(3)]
        with duckdb.connect(str(self.folder / "rows.duckdb")) as con:
            con.register("frame", frame)
            con.execute(
                "CREATE TABLE people AS SELECT * REPLACE (CAST(born AS DATE) AS born) FROM frame"
            )
            con.execute(f"COMMENT ON TABLE people IS '{comments[0]}'")
            con.execute(f"COMMENT ON COLUMN people.city IS '{comments[1]}'")
            con.execute(f"COMMENT ON COLUMN people.person IS '{comments[2]}'")

    def run(self, name: str, *words: object, code: int = 0):
        # The output of the fit process is captured only if the build runs in a process of its own.
        how = process if words[0] == "build" else tablepack
        done = how(*words, cwd=self.folder, tmp=self.tmp)
        assert done.returncode == code, done.stderr
        self.shown[f"{name}: stdout"] = done.stdout.encode()
        self.shown[f"{name}: stderr"] = done.stderr.encode()
        return done

    def killed(self, *words: object, until) -> None:
        running = subprocess.Popen(
            [*COMMAND, *map(str, words)],
            cwd=self.folder,
            env=environment(self.tmp),
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )
        while not until() and running.poll() is None:
            time.sleep(0.002)
        os.kill(running.pid, signal.SIGKILL)
        out, err = running.communicate()
        self.shown["killed: stdout"], self.shown["killed: stderr"] = out, err


@pytest.fixture(scope="module")
def planted(tmp_path_factory):
    """A build, a failed one, a killed and resumed one, and every command that shows something of a release."""
    it = Planted(tmp_path_factory.mktemp("planted"))
    release, resumed = it.out / "r.duckdb", it.out / "resumed.duckdb"
    it.run("init", "init", "rows.duckdb", "-o", "out/found.toml", "--entity", "person")
    it.run("init", "init", "rows.duckdb", "-o", "out/guessed.toml")
    it.run("plan", "plan", it.spec, "--json")
    it.run("build", "build", it.spec, "-o", release)
    staging = resumed.with_name("resumed.duckdb.tmp") / "build.json"
    it.killed("build", it.spec, "-o", resumed, until=staging.exists)
    it.after_kill = content_of(it.out)
    it.run("resume", "build", it.spec, "-o", resumed)
    wrong = it.spec.read_text().replace(
        '[columns."city"]\nkind = "category"', '[columns."city"]\nkind = "integer"'
    )
    (it.folder / "wrong.toml").write_text(wrong)
    it.run("failed", "build", "wrong.toml", "-o", it.out / "failed.duckdb", code=2)
    it.run("show", "show", release, "--json")
    it.run("card", "show", release, "--table", "age,city")
    it.run("export", "export", release, it.out / "csv")
    for name in ("city", "remark", "income", "age"):
        it.run(
            f"sql {name}",
            "sql",
            release,
            f"SELECT {name}, count(*) FROM data GROUP BY 1",
            "--format",
            "csv",
        )
    it.run("refused", "sql", release, "SELECT person FROM data", code=5)
    it.run("doctor", "doctor", release)
    return it


@pytest.mark.ci
def test_the_search_finds_secrets(planted):
    """In the source, and in every spelling."""
    source = {"source": (planted.folder / "rows.duckdb").read_bytes()}
    assert places_of(planted.secrets[:20], source)
    secret = planted.secrets[0]
    for how, spelled in spellings(secret).items():
        assert (("x", how)) in places_of([secret], {"x": b"ab" + spelled + b"yz"})


@pytest.mark.ci
def test_no_secret_is_in_any_output(planted):
    content = content_of(planted.out, planted.tmp) | planted.shown
    assert any(name.endswith("r.duckdb") for name in content)
    assert any(name.endswith(".csv") for name in content)
    assert places_of(planted.secrets, content) == []


@pytest.mark.ci
def test_no_secret_is_in_the_journal(planted):
    journal = {p.name: p.read_bytes() for p in planted.folder.glob("own.key.*") if p.is_file()}
    assert "own.key.journal" in journal
    assert places_of(planted.secrets, journal) == []


@pytest.mark.ci
def test_no_secret_is_in_the_staging_of_a_killed_build(planted):
    assert planted.after_kill
    assert places_of(planted.secrets, planted.after_kill) == []


@pytest.mark.ci
def test_values_of_one_person_are_not_stored_as_numbers_either(planted):
    """Neither as little-endian integers in the file nor as values in a table."""
    data = (planted.out / "r.duckdb").read_bytes()
    for number in planted.numbers:
        for value in (number, -number):
            assert value.to_bytes(8, "little", signed=True) not in data
    with duckdb.connect(str(planted.out / "r.duckdb"), read_only=True) as con:
        for name in ("income", "age"):
            low, high = con.execute(f"SELECT min({name}), max({name}) FROM main.{name}").fetchone()
            assert {abs(low), abs(high)}.isdisjoint(planted.numbers)


@pytest.mark.ci
def test_the_key_is_only_in_its_file(planted):
    places = content_of(planted.folder, but=(planted.folder / "own.key",)) | planted.shown
    assert places_of([planted.key], places) == []
    for half in (planted.key[:16], planted.key[16:]):
        assert places_of([half], places) == []


@pytest.mark.ci
def test_nothing_is_left_behind(planted):
    assert left_over(planted.tmp) == []
    assert [p for p in files_under(planted.tmp) if p.stat().st_size] == []
    assert list(planted.out.glob("*.tmp")) == []
    assert not (planted.out / "failed.duckdb").exists()


@pytest.mark.ci
def test_a_resumed_build_is_the_same_release(planted):
    assert table_hashes(planted.out / "r.duckdb") == table_hashes(planted.out / "resumed.duckdb")


@pytest.mark.ci
def test_init_wrote_no_rare_value(planted):
    for name in ("found.toml", "guessed.toml"):
        text = (planted.out / name).read_text()
        assert "Aberdeen" in text or 'kind = "category"' in text
        assert "~" not in text


@pytest.mark.ci
def test_a_failed_build_names_only_the_column(planted):
    assert "column 'city'" in planted.shown["failed: stderr"].decode()


# Process isolation.

SPY = """
import sys
if '-m' in sys.orig_argv and 'engine.release.fit_process' in sys.orig_argv:
    import atexit, json, os
    from pathlib import Path
    def note():
        fds = {}
        for fd in os.listdir('/proc/self/fd'):
            try:
                fds[fd] = os.readlink(f'/proc/self/fd/{fd}')
            except OSError:
                pass
        Path(os.environ['PATH'].split(':')[-1], 'seen.json').write_text(json.dumps({
            'modules': sorted(m for m in sys.modules if m.startswith(('engine', 'queries'))),
            'argv': sys.orig_argv,
            'environment': dict(os.environ),
            'files': fds,
            'folder': os.getcwd(),
            'maps': Path('/proc/self/maps').read_text(),
        }))
    import engine.store.staging
    real = engine.store.staging.Staging.complete
    def finish(self, *args, **more):
        note()
        return real(self, *args, **more)
    engine.store.staging.Staging.complete = finish
"""


@pytest.mark.ci
@pytest.mark.skipif(not Path("/proc/self/fd").exists(), reason="needs /proc to see open files")
def test_the_fit_process_has_no_access_to_the_data(planted, tmp_path):
    """Seen from inside, just before it writes the release."""
    import json

    (tmp_path / "sitecustomize.py").write_text(SPY)
    spied = subprocess.run(
        [*COMMAND, "build", str(planted.spec), "-o", str(planted.out / "spied.duckdb")],
        cwd=planted.folder,
        env=environment(
            planted.tmp,
            PYTHONPATH=f"{tmp_path}{os.pathsep}{environment()['PYTHONPATH']}",
            PATH=f"{os.environ['PATH']}:{tmp_path}",
            SECRET_OF_THE_SESSION="do not pass on",
        ),
        capture_output=True,
        text=True,
    )
    assert spied.returncode == 0, spied.stderr
    seen = json.loads((tmp_path / "seen.json").read_text())
    assert left_of_the_wall(seen["modules"]) == []
    opened = "\n".join(seen["files"].values()) + seen["maps"]
    for path in ("rows.duckdb", "own.key", str(planted.tmp)):
        assert path not in opened
    passed = json.dumps([seen["argv"], seen["environment"]])
    assert "do not pass on" not in passed
    assert str(planted.tmp) not in passed
    assert "rows.duckdb" not in passed
    assert places_of([planted.key, *planted.secrets[-12:]], {"passed": passed.encode()}) == []
    assert Path(seen["folder"]) == planted.out


@pytest.mark.ci
def test_the_measurement_folder_holds_no_secret(planted):
    """Byte for byte, and number by number: also not in the plain text of a number or a key."""
    from engine.api.reading import read
    from engine.keys import MasterKey
    from engine.release import measure

    folder = measure(read(planted.spec), planted.folder / "measured")
    crossed = {path.name: path.read_bytes() for path in folder.iterdir()}
    assert len(crossed) > len(TABLES)
    assert places_of([*planted.secrets, planted.key], crossed) == []
    key = MasterKey(planted.key)
    for purpose in ("entity", "entity-set", "suppression", "fingerprint", "label"):
        assert places_of([key.derive(purpose, "2021")], crossed) == []
    assert places_of([key.derive("sampling", "2021")], crossed) != []
    for number in planted.numbers:
        assert not any(number.to_bytes(8, "little") in raw for raw in crossed.values())


def test_importing_the_package_imports_no_library():
    code = "import sys, engine; print([m for m in sys.modules if m.split('.')[0] in ('numpy', 'duckdb', 'pandas')])"
    done = subprocess.run(
        [sys.executable, "-c", code], env=environment(), capture_output=True, text=True, check=True
    )
    assert done.stdout.strip() == "[]"


@pytest.mark.ci
def test_the_working_file_of_a_large_source_holds_no_secret(planted, scratch, monkeypatch):
    """The file in which a large source is processed, its log and spills, while the build is running."""
    seen = {}

    def look(*_):
        seen.update(content_of(scratch))
        raise KeyboardInterrupt

    monkeypatch.setattr("engine.source.opening.ON_DISK_BYTES", 0)
    monkeypatch.setattr("engine.release.relating.measure_one_way", look)
    done = tablepack(
        "build", planted.spec, "-o", planted.out / "x.duckdb", cwd=planted.folder, tmp=scratch
    )
    assert done.returncode == 130
    assert any(name.endswith("confidential.duckdb") for name in seen)
    assert sum(map(len, seen.values())) > 10_000
    assert places_of([*planted.secrets, planted.key], seen) == []
    assert left_over(scratch) == []
