"""`tablepack sql`: output formats, statements from standard input, the prompt, shell completion."""

from __future__ import annotations

import io
import json
import subprocess
import sys

import duckdb
import pytest
from fixtures.names import NAMES, make_named
from fixtures.pipeline import environment, tablepack
from fixtures.release import build_release, make_table

from engine.cli.sql import FIRST, HELP, NEXT, prompt, sql_command
from engine.errors import SpecError, StoreError
from engine.texts import names_text
from queries.release import open_release

COUNTS = "SELECT sex, count(*) AS n FROM data GROUP BY sex ORDER BY sex"


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("sql")
    build_release(folder / "r.duckdb")
    return folder


@pytest.mark.ci
def test_a_statement_comes_as_argument_or_on_standard_input(folder):
    for words, text in (((COUNTS,), ""), (("-",), COUNTS), ((), COUNTS + "\n")):
        done = tablepack("sql", "r.duckdb", *words, "--format", "csv", cwd=folder, text=text)
        assert done.returncode == 0
        assert done.stdout.startswith("SEX,n\nf,")
        assert "Answered from table SEX" in done.stderr


@pytest.mark.ci
def test_the_format_follows_the_suffix_of_the_file(folder, tmp_path):
    for name in ("a.csv", "a.CSV", "a.json", "a.md", "a.parquet", "a.txt"):
        done = tablepack("sql", "r.duckdb", COUNTS, "-o", tmp_path / name, cwd=folder)
        assert done.returncode == 0, done.stderr
    assert (tmp_path / "a.csv").read_text().startswith("SEX,n\n")
    assert (tmp_path / "a.CSV").read_bytes() == (tmp_path / "a.csv").read_bytes()
    assert (tmp_path / "a.json").read_text().startswith('{"columns"')
    assert (tmp_path / "a.md").read_text().startswith("| SEX | n |\n| --- | --: |\n| f |")
    assert len(duckdb.read_parquet(str(tmp_path / "a.parquet")).fetchall()) == 2
    assert "---" in (tmp_path / "a.txt").read_text()
    many = ("sql", "r.duckdb", "FROM range(500)", "-o", tmp_path / "all.txt")
    assert tablepack(*many, cwd=folder).returncode == 0
    assert len((tmp_path / "all.txt").read_text().splitlines()) == 500 + 3
    done = tablepack(
        "sql", "r.duckdb", COUNTS, "-o", tmp_path / "b.csv", "--format", "json", cwd=folder
    )
    assert (tmp_path / "b.csv").read_text().startswith('{"columns"')


def test_a_workbook(folder, tmp_path, monkeypatch):
    openpyxl = pytest.importorskip("openpyxl")
    odd = "SELECT '=1+1' AS t, count(*) AS n, 1.5 AS x, NULL AS z, true AS b, DATE '2020-02-03' AS d FROM data"
    assert tablepack("sql", "r.duckdb", odd, "-o", tmp_path / "t.XLSX", cwd=folder).returncode == 0
    book = openpyxl.load_workbook(tmp_path / "t.XLSX")
    heads, (text, n, x, z, b, d) = book["Table"].iter_rows(values_only=True)
    assert heads == ("t", "n", "x", "z", "b", "d")
    assert (text, x, z, b, d) == ("=1+1", 1.5, None, "true", "2020-02-03")
    assert n == 4
    assert book["Table"]["A2"].data_type == "s"
    assert "Answered from table" in str(list(book["Notes"].values))
    monkeypatch.setattr("engine.cli.sql.MOST_IN_A_SHEET", 1)
    done = tablepack("sql", "r.duckdb", "FROM range(2)", "-o", tmp_path / "long.xlsx", cwd=folder)
    assert done.returncode == 2
    assert ".parquet" in done.stderr
    for form in ("xlsx", "parquet"):
        assert f"--format {form} needs --output" in (
            tablepack("sql", "r.duckdb", COUNTS, "--format", form, cwd=folder).stderr
        )
    monkeypatch.undo()
    monkeypatch.setitem(sys.modules, "xlsxwriter", None)
    done = tablepack("sql", "r.duckdb", COUNTS, "-o", tmp_path / "u.xlsx", cwd=folder)
    assert "pip install 'tablepack[pack]'" in done.stderr
    assert sorted(p.name for p in tmp_path.iterdir()) == ["t.XLSX"]


def asked(release, *lines):
    """The prompts shown before each line, and the answers."""
    shown, answered = [], []
    rest = iter(lines)

    def read(before):
        shown.append(before)
        line = next(rest, EOFError)
        if isinstance(line, type):
            raise line
        return line

    def answer(text):
        if text.startswith("STOP"):
            raise KeyboardInterrupt
        if text.startswith("FAIL"):
            raise StoreError("no table of yours")
        answered.append(release.sql(text).rows)

    prompt(release, answer, read=read)
    return shown, answered


def test_a_prompt_answers_one_statement_after_another(folder, capsys):
    with open_release(folder / "r.duckdb") as release:
        shown, answered = asked(
            release, "SELECT count(*)", "FROM data;", "", "SELECT nope FROM data;", "SELECT 1 + 1;"
        )
        assert answered == [[(make_table(("SEX",)).n_rows,)], [(2,)]]
        assert shown == [FIRST, NEXT, FIRST, FIRST, FIRST, FIRST]
        assert "no column 'nope'" in capsys.readouterr().err
        shown, answered = asked(
            release, "SELECT a", KeyboardInterrupt, "STOP;", "SELECT 2;", ".quit"
        )
        assert answered == [[(2,)]]
        assert shown == [FIRST, NEXT, FIRST, FIRST, FIRST]
        lines = ("SELECT 'ä;", "b', 3 AS \"c;", 'd" -- e;', ";")  # only the last one ends it
        assert asked(release, *lines)[1] == [[("ä;\nb", 3)]]
        asked(release, ".tables", ".columns", ".notes", ".nonsense")
        out = capsys.readouterr().out
        for text in ("AGE, SEX\n", "AGE  BIGINT  Age in years\n", release.notes[0], HELP):
            assert text in out
        with pytest.raises(StoreError):
            asked(release, "FAIL;", "SELECT 3;")


class Terminal(io.StringIO):
    def isatty(self):
        return True


def test_the_prompt_writes_no_file(folder, monkeypatch, tmp_path):
    monkeypatch.setattr("sys.stdin", Terminal())
    with pytest.raises(SpecError, match="--output"):
        sql_command(release=folder / "r.duckdb", output=tmp_path / "x.csv")
    assert not list(tmp_path.iterdir())


COMPLETED = """
import os, sys
from engine.cli import main
sys.argv = ["tablepack"]
os.environ["_TABLEPACK_COMPLETE"] = "complete_bash"
for words in sys.stdin.read().splitlines():
    os.environ.update(COMP_WORDS=words, COMP_CWORD=str(words.count(" ")))
    try:
        main()
    except SystemExit:
        print("=", flush=True)
"""
WORDS = {
    "tablepack show r.duckdb --table AGE,S": ["AGE,SEX"],
    "tablepack export r.duckdb csv --table T": ["TOWN"],
    "tablepack show none.duckdb --table A": [],
    "tablepack show --table A": [],
    "tablepack sql r.duckdb --format m": ["markdown"],
}


@pytest.mark.ci
def test_the_shell_completes_tables(folder):
    done = subprocess.run(
        [sys.executable, "-c", COMPLETED],
        env=environment(), input="\n".join(WORDS), capture_output=True, text=True, cwd=folder,
    )  # fmt: skip
    assert done.stderr == ""
    assert [part.split() for part in done.stdout.split("=\n")] == [*WORDS.values(), []]


@pytest.fixture(scope="module")
def named(tmp_path_factory):
    return make_named(tmp_path_factory.mktemp("named"))


@pytest.mark.ci
@pytest.mark.parametrize("name", [name for name in NAMES if name != ","])
def test_show_takes_a_name_as_it_is_and_as_it_is_printed(named, name):
    cards = [
        json.loads(tablepack("show", named, "--table", given, "--json", cwd=named.parent).stdout)
        for given in (name, names_text([name]))
    ]
    assert [card["columns"] for card in cards] == [[name]] * 2
