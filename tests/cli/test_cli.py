"""The command line: help, exit codes, what goes to which stream, interrupted and resumed builds."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import time

import duckdb
import numpy as np
import pandas as pd
import pytest
from fixtures.pipeline import (
    CENSUS,
    COMMAND,
    environment,
    files_under,
    left_over,
    process,
    table_hashes,
    tablepack,
    write_spec,
)

from engine.cli import STOPPED

CANARY = "canary-5f0c9d41e7"
TABLES = [("age",), ("sex",), ("age", "sex"), ("income", "region")]


@pytest.fixture(scope="module")
def built(tmp_path_factory, census):
    """A folder with a spec, its key and its release."""
    folder = tmp_path_factory.mktemp("built")
    spec = write_spec(folder, census / "people.parquet", CENSUS, TABLES)
    done = tablepack("build", spec, "-o", "r.duckdb", "--json", cwd=folder)
    assert (done.returncode, done.stderr) == (0, "")
    assert json.loads(done.stdout)["tables"] == len(TABLES)
    return folder


# Exit codes, each by a real case.


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        (("sql", "r.duckdb", "SELECT count(*) FROM data", "--format", "csv"), 0, "Answered"),
        (("build",), 2, "Missing argument"),
        (("nothing",), 2, "No such command"),
        (("build", "release.toml", "-o", "x.duckdb", "--jobs", "0"), 2, "--jobs"),
        (("build", "missing.toml", "-o", "x.duckdb"), 2, "missing.toml"),
        (("show", "missing.duckdb"), 2, "missing.duckdb"),
        (("sql", "r.duckdb", "SELECT 1", "--format", "xml"), 2, "'xml'"),
        (("sql", "r.duckdb", "SELECT 1", "--format", "parquet"), 2, "--output"),
        (("export", "r.duckdb", "."), 2, "directory"),
        (("export", "r.duckdb", "x", "--table", "income,sex"), 5, "income, sex"),
        (("key", "new", "my.key"), 2, "my.key"),
        (("init", "missing.csv", "-o", "n.toml"), 2, "missing.csv"),
        (("init", "data.xyz", "-o", "n.toml"), 2, "data.xyz"),
        (("init", "missing.csv", "-o", "no/such/n.toml"), 2, "folder does not exist"),
        (("init", "missing.csv", "-o", "n.toml", "--width", "99"), 2, "--width 99"),
        (("simulate", "x", "--people", "5"), 2, "people"),
        (("sql", "r.duckdb", "SELECT income, age FROM data"), 5, "age, income"),
        (("sql", "r.duckdb", "SELECT nonsense FROM data"), 5, "nonsense"),
        (("sql", "r.duckdb", "DROP TABLE data"), 5, ""),
        (("sql", "r.duckdb", "SELECT * FROM read_csv('my.key')"), 5, ""),
        (("sql", "r.duckdb", "COPY data TO 'x.csv'"), 5, ""),
        (("show", "r.duckdb", "--table", "region"), 5, "region"),
        (("show", "release.toml"), 6, "manifest"),
        (("doctor", "release.toml"), 6, "manifest"),
        (("build", "release.toml", "-o", "release.toml"), 2, "is a spec"),
        (("build", "release.toml", "-o", "x.CSV"), 2, ".duckdb"),
    ],
)
def test_exit_codes(built, words, code, said):
    done = tablepack(*words, cwd=built)
    assert done.returncode == code, done.stderr
    assert said in done.stdout + done.stderr
    if code:
        assert (done.stdout if words[0] == "doctor" else done.stderr).strip()
        assert "Traceback" not in done.stderr
    assert not [name for name in ("x", "x.csv", "x.CSV", "n.toml") if (built / name).exists()]


def test_exit_code_3_if_there_are_too_few_entities(tmp_path):
    (tmp_path / "two.csv").write_text("id,x\n1,5\n2,5\n")
    columns = {"id": {"kind": "integer"}, "x": {"kind": "integer"}}
    spec = write_spec(tmp_path, "two.csv", columns, [("x",)], entities=("id",))
    for words in (("plan", spec), ("build", spec, "-o", "r.duckdb")):
        done = tablepack(*words, cwd=tmp_path)
        assert done.returncode == 3
        assert "privacy.threshold" in done.stderr
    assert not (tmp_path / "r.duckdb").exists()
    assert not (tmp_path / "r.duckdb.tmp").exists()


@pytest.mark.parametrize(
    ("error", "code", "said"),
    [
        (ValueError, 1, "InternalError: ValueError in opening.py"),
        (duckdb.ConversionException, 1, "InternalError: ConversionException in opening.py"),
        (duckdb.OutOfMemoryException, 2, "full"),
    ],
)
def test_the_text_of_a_foreign_error_is_never_shown(built, monkeypatch, error, code, said):
    def broken(*_, **__):
        raise error(CANARY)

    monkeypatch.setattr("engine.source.opening.add_tokens", broken)
    done = tablepack("build", "release.toml", "-o", "broken.duckdb", cwd=built)
    assert done.returncode == code
    assert said in done.stderr
    assert CANARY not in done.stdout + done.stderr
    assert not (built / "broken.duckdb.tmp").exists()


@pytest.mark.ci
def test_an_internal_error_of_the_fit_process_is_not_quoted(built, tmp_path):
    """The fault is planted in the child process: a module found before ours on its path."""
    (tmp_path / "sitecustomize.py").write_text(
        "import sys\n"
        "if '-m' in sys.orig_argv:\n"
        "    import engine.release.fitter\n"
        "    def broken(self):\n"
        f"        raise ValueError('{CANARY}')\n"
        "    engine.release.fitter.Fitter.fit = broken\n"
    )
    path = f"{tmp_path}{os.pathsep}{environment()['PYTHONPATH']}"
    done = process("build", "release.toml", "-o", "f.duckdb", cwd=built, PYTHONPATH=path)
    assert done.returncode == 1
    assert "InternalError: ValueError in fit_process.py" in done.stderr
    assert CANARY not in done.stdout + done.stderr
    assert "Traceback" not in done.stderr


# Streams.


@pytest.mark.ci
def test_names_with_markup_are_shown_as_they_are(tmp_path):
    (tmp_path / "d.csv").write_text("[bold]x[/bold]\n" + "".join(f"{i % 3}\n" for i in range(60)))
    columns = {"[bold]x[/bold]": {"kind": "integer"}}
    spec = write_spec(tmp_path, "d.csv", columns, [tuple(columns)], entities=())
    assert tablepack("build", spec, "-o", "r.duckdb", cwd=tmp_path).returncode == 0
    for words in (("plan", spec), ("show", "r.duckdb"), ("sql", "r.duckdb", "FROM data LIMIT 1")):
        assert "[bold]x[/bold]" in tablepack(*words, cwd=tmp_path).stdout
    done = tablepack("export", "r.duckdb", "[bold]csv", cwd=tmp_path)
    assert "[bold]csv" in done.stderr


# Interruption.


PAIRS = [(a, b) for a in CENSUS for b in CENSUS if a < b and "person_id" not in (a, b)][:9]


@pytest.mark.ci
def test_an_interrupted_build_can_be_resumed(tmp_path, census, scratch):
    """The signal goes to the whole foreground process group, as Ctrl-C does."""
    spec = write_spec(tmp_path, census / "people.parquet", CENSUS, PAIRS)
    words = ("build", spec, "-o", "r.duckdb")
    staging = tmp_path / "r.duckdb.tmp" / "build.json"
    running = subprocess.Popen(
        [*COMMAND, *map(str, words)], cwd=tmp_path, env=environment(scratch), stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True,
    )  # fmt: skip
    while not staging.exists() and running.poll() is None:
        time.sleep(0.002)
    os.killpg(running.pid, signal.SIGINT)
    out, err = running.communicate(timeout=60)
    assert (running.returncode, out) == (130, "")
    assert err.splitlines()[-1] == STOPPED
    assert left_over(scratch) == []
    assert not (tmp_path / "r.duckdb").exists()
    assert staging.exists()
    done = tablepack(*words, cwd=tmp_path, tmp=scratch)
    assert done.returncode == 0, done.stderr
    assert not staging.parent.exists()
    assert [p for p in files_under(scratch) if p.stat().st_size] == []
    assert len(table_hashes(tmp_path / "r.duckdb")) == len(PAIRS)


@pytest.mark.ci
def test_a_resumed_build_measures_only_what_is_missing(tmp_path, census, scratch, monkeypatch):
    from engine.release.folder import MeasurementFolder

    spec = write_spec(tmp_path, census / "people.parquet", CENSUS, TABLES)
    put, sent, resumed = MeasurementFolder.put, [], []

    def interrupted(self, measured):
        if len(measured.columns) > 1 and sent:
            raise KeyboardInterrupt
        put(self, measured)
        sent.extend([measured.columns] if len(measured.columns) > 1 else [])

    with monkeypatch.context() as patch:
        patch.setattr(MeasurementFolder, "put", interrupted)
        words = ("build", spec, "-o", "r.duckdb", "--jobs", 1)
        assert tablepack(*words, cwd=tmp_path).returncode == 130
    assert left_over(scratch) == []
    monkeypatch.setattr(
        MeasurementFolder, "put", lambda self, m: resumed.append(m.columns) or put(self, m)
    )
    assert tablepack("build", spec, "-o", "r.duckdb", cwd=tmp_path).returncode == 0
    assert len(sent) == 1
    assert [columns for columns in resumed if len(columns) > 1]
    assert not {*sent} & {*resumed}


# `init`.


@pytest.mark.ci
def test_a_spec_that_init_writes_builds_though_all_pairs_would_not(tmp_path):
    """Few people and many columns: pairs are left out, and told."""
    rng = np.random.default_rng(5)
    n, columns = 1_500, {f"c{i}": 60 - 6 * i for i in range(9)}
    rows = pd.DataFrame({name: rng.integers(0, size, n) for name, size in columns.items()})
    rows["near"] = rows["c0"] // 2
    rows.insert(0, "id", np.arange(n))
    rows.to_csv(tmp_path / "people.csv", index=False)
    done = tablepack("init", "people.csv", "-o", "my.toml", "--entity", "id", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert re.search(r"\d+ pairs of columns are left out", done.stderr)
    assert 'columns = ["c0", "near"]' in (tmp_path / "my.toml").read_text()
    for _ in range(2):
        tablepack("key", "new", "my.key", cwd=tmp_path)
        built = tablepack("build", "my.toml", "-o", "r.duckdb", "--force", cwd=tmp_path)
        assert built.returncode == 0, built.stderr
        for path in tmp_path.glob("my.key*"):
            path.unlink()
