"""The command line: help, exit codes, what goes to which stream, interruption."""

from __future__ import annotations

import json
import os
import pty
import re
import signal
import subprocess
import time

import duckdb
import pytest
from fixtures.pipeline import (
    CENSUS,
    COMMAND,
    environment,
    files_under,
    left_over,
    process,
    read_terminal,
    table_hashes,
    tablepack,
    write_spec,
)

from engine.cli import STOPPED

COMMANDS = (
    ("init",),
    ("key", "new"),
    ("plan",),
    ("build",),
    ("show",),
    ("sql",),
    ("export",),
    ("doctor",),
    ("simulate",),
)
CANARY = "canary-5f0c9d41e7"
ESCAPE = "\x1b["


@pytest.fixture(scope="module")
def built(tmp_path_factory, census):
    """A folder with a spec, its key and its release."""
    folder = tmp_path_factory.mktemp("built")
    tables = [("age",), ("sex",), ("age", "sex"), ("income", "region")]
    spec = write_spec(folder, census / "people.parquet", CENSUS, tables)
    done = tablepack("build", spec, "-o", "r.duckdb", cwd=folder)
    assert done.returncode == 0, done.stderr
    return folder


# Help.


def test_help_lists_every_command(tmp_path):
    done = tablepack("--help", cwd=tmp_path)
    assert done.returncode == 0
    for words in COMMANDS:
        assert re.search(rf"\b{words[0]}\b", done.stdout)


@pytest.mark.parametrize("words", COMMANDS, ids=" ".join)
def test_help_of_every_command_shows_an_example(tmp_path, words):
    done = tablepack(*words, "--help", cwd=tmp_path)
    assert done.returncode == 0
    assert f"Example: tablepack {' '.join(words)} " in done.stdout


def test_no_argument_shows_help(tmp_path):
    done = tablepack(cwd=tmp_path)
    assert "Usage" in done.stdout + done.stderr


# Exit codes, each by a real case.


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        (("sql", "r.duckdb", "SELECT count(*) FROM data", "--format", "csv"), 0, "Answered"),
        (("build",), 2, "Missing argument"),
        (("nothing",), 2, "No such command"),
        (("build", "release.toml", "-o", "x.duckdb", "--jobs", "0"), 2, "--jobs"),
        (("build", "missing.toml", "-o", "x.duckdb"), 2, "no spec file"),
        (("show", "missing.duckdb"), 2, "no such release"),
        (("sql", "r.duckdb", "SELECT 1", "--format", "xml"), 2, "'xml'"),
        (("sql", "r.duckdb", "SELECT 1", "--format", "parquet"), 2, "--output"),
        (("export", "r.duckdb", "x", "--format", "xml"), 2, "'xml'"),
        (("export", "r.duckdb", "."), 2, "is not an empty directory"),
        (("export", "r.duckdb", "x", "--table", "income,sex"), 5, "no table of income, sex"),
        (("key", "new", "my.key"), 2, "never overwritten"),
        (("init", "missing.csv", "-o", "n.toml"), 2, "no file"),
        (("init", "data.xyz", "-o", "n.toml"), 2, "data.xyz"),
        (("init", "missing.csv", "-o", "n.toml", "--width", "99"), 2, "--width 99: at most 4"),
        (("simulate", "x", "--people", "5"), 2, "people"),
        (("sql", "r.duckdb", "SELECT income, age FROM data"), 5, "No released table"),
        (("sql", "r.duckdb", "SELECT nonsense FROM data"), 5, "nonsense"),
        (("sql", "r.duckdb", "DROP TABLE data"), 5, ""),
        (("sql", "r.duckdb", "SELECT * FROM read_csv('my.key')"), 5, ""),
        (("sql", "r.duckdb", "COPY data TO 'x.csv'"), 5, ""),
        (("show", "r.duckdb", "--table", "region"), 5, "no table of region"),
        (("show", "release.toml"), 6, "manifest"),
        (("doctor", "release.toml"), 6, "manifest"),
        (("build", "release.toml", "-o", "no/such/folder/x.duckdb"), 2, "folder does not exist"),
        (("build", "release.toml", "-o", "release.toml"), 2, "is a spec"),
        (("build", "release.toml", "-o", "x.toml"), 2, "not written as .toml; end its name in"),
        (
            ("build", "release.toml", "-o", "x.CSV"),
            2,
            "not written as .csv; end its name in .duckdb",
        ),
    ],
)
def test_exit_codes(built, words, code, said):
    done = tablepack(*words, cwd=built)
    assert done.returncode == code, done.stderr
    assert said in done.stdout + done.stderr
    if code:
        told = done.stdout if words[0] == "doctor" else done.stderr
        assert told.strip()
        assert "Traceback" not in done.stderr
    assert not [name for name in ("x", "x.toml", "x.CSV") if (built / name).exists()]


def test_exit_code_3_where_too_few_entities_are_there(tmp_path):
    (tmp_path / "two.csv").write_text("id,x\n1,5\n2,5\n")
    columns = {"id": {"kind": "integer"}, "x": {"kind": "integer"}}
    spec = write_spec(tmp_path, "two.csv", columns, [("x",)], entities=("id",))
    for words in (("plan", spec), ("build", spec, "-o", "r.duckdb")):
        done = tablepack(*words, cwd=tmp_path)
        assert done.returncode == 3
        assert "fewer entities than privacy.threshold asks for" in done.stderr
    assert not (tmp_path / "r.duckdb").exists()
    assert not (tmp_path / "r.duckdb.tmp").exists()


def test_exit_code_1_says_where_and_nothing_else(built, monkeypatch):
    def broken(*_, **__):
        raise ValueError(CANARY)

    monkeypatch.setattr("engine.source.opening.add_tokens", broken)
    done = tablepack("build", "release.toml", "-o", "broken.duckdb", cwd=built)
    assert done.returncode == 1
    assert "InternalError: ValueError in opening.py" in done.stderr
    assert "please report it" in done.stderr
    assert CANARY not in done.stdout + done.stderr
    assert not (built / "broken.duckdb.tmp").exists()


def test_an_internal_error_of_duckdb_is_not_quoted(built, monkeypatch):
    def broken(con, *_, **__):
        raise duckdb.ConversionException(CANARY)

    monkeypatch.setattr("engine.source.opening.add_tokens", broken)
    done = tablepack("build", "release.toml", "-o", "broken.duckdb", cwd=built)
    assert done.returncode == 1
    assert "ConversionException" in done.stderr
    assert CANARY not in done.stderr


def test_a_full_working_database_is_no_bug_of_ours(built, monkeypatch):
    def full(*_, **__):
        raise duckdb.OutOfMemoryException(CANARY)

    monkeypatch.setattr("engine.source.opening.add_tokens", full)
    done = tablepack("build", "release.toml", "-o", "broken.duckdb", cwd=built)
    assert done.returncode == 2
    assert "memory or the scratch disk is full" in done.stderr


def test_an_internal_error_of_the_fit_process_is_not_quoted(built, tmp_path):
    """The fault is planted in the child: a module found before ours on its path."""
    (tmp_path / "sitecustomize.py").write_text(
        "import sys\n"
        "if '-m' in sys.orig_argv:\n"
        "    import engine.release.fitter\n"
        "    def broken(self, measurement):\n"
        f"        raise ValueError('{CANARY}')\n"
        "    engine.release.fitter.Fitter.begin = broken\n"
    )
    path = f"{tmp_path}{os.pathsep}{environment()['PYTHONPATH']}"
    done = process("build", "release.toml", "-o", "f.duckdb", cwd=built, PYTHONPATH=path)
    assert done.returncode == 1
    assert "InternalError: ValueError in fit_process.py" in done.stderr
    assert CANARY not in done.stdout + done.stderr
    assert "Traceback" not in done.stderr


# Streams.


def test_without_a_terminal_there_is_no_colour_and_no_bar(built, tmp_path):
    done = process("build", "release.toml", "-o", tmp_path / "r.duckdb", cwd=built)
    assert done.returncode == 0
    assert done.stdout == ""
    assert ESCAPE not in done.stderr
    *progress, wrote, exposure = done.stderr.splitlines()
    assert all(line.endswith(" ...") for line in progress)  # where it took long
    assert "content hash" in wrote
    assert "noisy figures per person" in exposure
    for words in (("show", "r.duckdb"), ("plan", "release.toml"), ("sql", "r.duckdb", "FROM data")):
        assert ESCAPE not in tablepack(*words, cwd=built).stdout


def on_a_terminal(words, cwd, *, code=0, **env) -> tuple[int, str]:
    """Run a command with standard error on a terminal, standard output not."""
    ours, theirs = pty.openpty()
    running = subprocess.Popen(
        [*COMMAND, *map(str, words)],
        cwd=cwd,
        env=environment(TERM="xterm-256color", **env),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=theirs,
    )
    os.close(theirs)
    shown = read_terminal(ours)
    out, _ = running.communicate()
    assert running.returncode == code, shown
    return out.decode(), shown.decode()


def test_progress_goes_to_standard_error_only(built, tmp_path):
    out, err = on_a_terminal(("build", "release.toml", "-o", tmp_path / "r.duckdb"), built)
    assert out == ""
    assert "tables" in err
    out, err = on_a_terminal(
        ("build", "release.toml", "-o", tmp_path / "r.duckdb", "--force", "--json"), built
    )
    assert json.loads(out)["tables"] == 4
    assert err == ""


def test_no_color(built):
    """An error is red on a terminal, unless somebody wishes otherwise."""
    words = ("sql", "r.duckdb", "SELECT income, age FROM data")
    _, coloured = on_a_terminal(words, built, code=5)
    _, plain = on_a_terminal(words, built, code=5, NO_COLOR="1")
    assert "\x1b[31m" in coloured
    assert "No released table" in plain
    assert "\x1b[31m" not in plain


def test_names_with_markup_are_shown_as_they_are(tmp_path):
    (tmp_path / "d.csv").write_text("[bold]x[/bold]\n" + "".join(f"{i % 3}\n" for i in range(60)))
    columns = {"[bold]x[/bold]": {"kind": "integer"}}
    spec = write_spec(tmp_path, "d.csv", columns, [tuple(columns)], entities=())
    assert tablepack("build", spec, "-o", "r.duckdb", cwd=tmp_path).returncode == 0
    for words in (("plan", spec), ("show", "r.duckdb"), ("sql", "r.duckdb", "FROM data LIMIT 1")):
        assert "[bold]x[/bold]" in tablepack(*words, cwd=tmp_path).stdout


def test_answers_wider_than_the_screen_are_printed_upright(built, tmp_path):
    wide = "SELECT 'a' AS first, NULL AS second, repeat('x', 90) AS third FROM range(2)"

    def asked(statement):
        return process("sql", built / "r.duckdb", statement, cwd=tmp_path, COLUMNS="80").stdout

    shown = asked(wide)
    block = f"first: a\nsecond: NULL\nthird: {'x' * 90}\n"
    assert shown == f"{block}\n{block}"
    narrow = asked(wide.replace("90", "9"))
    assert "first ┃ second ┃ third" in narrow
    for statement in ("SUMMARIZE SELECT age, sex FROM data", "FROM catalog.tables"):
        shown = asked(statement)
        assert "┃" not in shown
        assert re.search(r"^column_name: age$|^name: age.sex$", shown, re.MULTILINE)
    assert "first" in asked(f"{wide} WHERE false")


def test_no_rows_of_many_columns(built, tmp_path):
    asked = "SELECT " + ", ".join(f"1 AS a_long_name_{i}" for i in range(20)) + " WHERE false"
    shown = tablepack("sql", built / "r.duckdb", asked, cwd=tmp_path).stdout
    assert shown.startswith("no rows of: a_long_name_0, a_long_name_1, ")
    assert shown.count("\n") == 1


def test_one_file_is_no_files(built, tmp_path):
    done = tablepack("export", built / "r.duckdb", "one", "--table", "age", cwd=tmp_path)
    assert done.stderr == "wrote 1 file to one\n"
    done = tablepack("export", built / "r.duckdb", "all", cwd=tmp_path)
    assert done.stderr == "wrote 4 files to all\n"


def test_notes_are_not_broken_without_a_terminal(tmp_path):
    name = f"{'long_' * 20}.key"
    done = tablepack("key", "new", name, cwd=tmp_path)
    assert done.stderr.count("\n") == 1
    assert done.stderr.startswith(f"wrote {name} (mode 0600), key id ")


def test_init_names_the_key_that_its_spec_asks_for(tmp_path, census):
    (tmp_path / "in").mkdir()
    words = ("init", census / "people.csv", "-o", "in/my.toml", "--entity", "person_id")
    done = tablepack(*words, cwd=tmp_path)
    assert "then: tablepack key new in/my.key\n" in done.stderr
    assert tablepack("key", "new", "in/my.key", cwd=tmp_path).returncode == 0
    assert tablepack("plan", "in/my.toml", cwd=tmp_path).returncode == 0


def test_a_reader_that_stops_reading_is_no_error(built):
    running = subprocess.Popen(
        [
            *COMMAND,
            "sql",
            "r.duckdb",
            "SELECT age FROM data CROSS JOIN range(200)",
            "--format",
            "csv",
        ],
        cwd=built,
        env=environment(),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert running.stdout.readline()
    running.stdout.close()
    said = running.stderr.read()
    running.stderr.close()
    assert running.wait() == 0
    assert "Traceback" not in said
    assert "Error" not in said


# Interruption.


def started(words, cwd, tmp, *, until) -> subprocess.Popen:
    """Start a command in a session of its own, as a terminal would, and wait until something is there."""
    running = subprocess.Popen(
        [*COMMAND, *map(str, words)],
        cwd=cwd,
        env=environment(tmp),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    deadline = time.monotonic() + 60
    while not until() and running.poll() is None:
        assert time.monotonic() < deadline
        time.sleep(0.005)
    return running


PAIRS = [(a, b) for a in CENSUS for b in CENSUS if a < b and "person_id" not in (a, b)]


@pytest.fixture(scope="module")
def uninterrupted(tmp_path_factory, census):
    folder = tmp_path_factory.mktemp("uninterrupted")
    spec = write_spec(folder, census / "people.parquet", CENSUS, PAIRS)
    assert tablepack("build", spec, "-o", "r.duckdb", cwd=folder).returncode == 0
    return table_hashes(folder / "r.duckdb")


@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGTERM], ids=["Ctrl-C", "terminate"])
def test_an_interrupted_build_can_be_resumed(tmp_path, census, scratch, how, uninterrupted):
    """The signal goes to the whole foreground group, as Ctrl-C does. Nothing of the scratch is left."""
    spec = write_spec(tmp_path, census / "people.parquet", CENSUS, PAIRS)
    words = ("build", spec, "-o", "r.duckdb")
    staging = tmp_path / "r.duckdb.tmp" / "build.json"
    running = started(words, tmp_path, scratch, until=staging.exists)
    time.sleep(0.2)
    assert running.poll() is None, "the build was over before it could be interrupted"
    os.killpg(running.pid, how)
    out, err = running.communicate(timeout=60)
    assert running.returncode == 128 + how
    assert out == ""
    assert err.splitlines()[-1] == STOPPED
    assert left_over(scratch) == []
    assert not (tmp_path / "r.duckdb").exists()
    assert staging.exists()
    done = tablepack(*words, cwd=tmp_path, tmp=scratch)
    assert done.returncode == 0, done.stderr
    assert not staging.parent.exists()
    assert table_hashes(tmp_path / "r.duckdb") == uninterrupted
    assert [p for p in files_under(scratch) if p.stat().st_size] == []


def test_a_resume_builds_only_what_is_missing(tmp_path, census, scratch, monkeypatch):
    tables = [("age",), ("sex",), ("age", "sex"), ("income", "region")]
    spec = write_spec(tmp_path, census / "people.parquet", CENSUS, tables)
    sent = []

    def interrupted(self, measurement, *, ahead):
        if len(sent) == 6:
            raise KeyboardInterrupt
        sent.append(measurement.columns)
        return real(self, measurement, ahead=0)

    from engine.release.fit_process import FitProcess

    real = FitProcess.send
    with monkeypatch.context() as patch:
        patch.setattr(FitProcess, "send", interrupted)
        words = ("build", spec, "-o", "r.duckdb", "--jobs", 1)
        assert tablepack(*words, cwd=tmp_path).returncode == 130
    assert left_over(scratch) == []
    resumed = []
    monkeypatch.setattr(
        FitProcess,
        "send",
        lambda self, m, *, ahead: resumed.append(m.columns) or real(self, m, ahead=ahead),
    )
    assert tablepack("build", spec, "-o", "r.duckdb", cwd=tmp_path).returncode == 0
    done = set(sent) & {t for t in tables if len(t) > 1}
    assert done
    assert not done & set(resumed)


def test_init_does_not_overwrite_without_force(tmp_path, census):
    words = ("init", census / "people.csv", "-o", "spec.toml", "--entity", "person_id")
    assert tablepack(*words, cwd=tmp_path).returncode == 0
    (tmp_path / "spec.toml").write_text("mine")
    refused = tablepack(*words, cwd=tmp_path)
    assert refused.returncode == 2
    assert "--force" in refused.stderr
    assert (tmp_path / "spec.toml").read_text() == "mine"
    assert tablepack(*words, "--force", cwd=tmp_path).returncode == 0
    assert "[release]" in (tmp_path / "spec.toml").read_text()


def test_init_into_a_folder_that_is_not_there(tmp_path, census):
    done = tablepack("init", census / "people.csv", "-o", "no/such/spec.toml", cwd=tmp_path)
    assert done.returncode == 2
    assert "its folder does not exist" in done.stderr


def test_the_reason_of_the_fit_process_is_told_even_if_it_ended_some_messages_ago(
    built, monkeypatch
):
    """The second message is refused; the third finds a closed pipe, with an answer to the first still to read."""
    import engine.release.sticky

    real = engine.release.sticky.measurements

    def out_of_order(measured, column_sets, draws):
        total, *others = real(measured, column_sets, draws)
        yield total
        yield next(m for m in others if len(m.columns) == 2)
        time.sleep(1)
        yield from others

    monkeypatch.setattr("engine.release.sticky.measurements", out_of_order)
    monkeypatch.setattr("engine.exposure.Tally.add", lambda *_: None)  # it would notice first
    done = tablepack("build", "release.toml", "-o", "order.duckdb", cwd=built)
    assert done.returncode == 1
    assert "a table came before the narrower ones it is locked to" in done.stderr
    assert "please report it" in done.stderr
