from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from fixtures.spec import HEAD, TABLES, mistakes
from hypothesis import given
from hypothesis import strategies as st

from engine.errors import QueryRefused, SpecError
from engine.params import BOUNDS, PROFILES
from engine.schema import Column, Resolution
from engine.spec import format_of, read_spec, spec_of

COLUMNS = """
[columns.AGE]
kind = "integer"
[columns.SEX]
kind = "category"
[columns.PAY]
kind = "real"
resolution = 0.01
[columns.id]
kind = "text"
"""


def test_a_full_spec(write, tmp_path):
    spec = read_spec(
        write(
            """
[release]
title = "Census"
name = "people"
vintage = "2024-Q1"
key = "my.key"
mode = "sticky"
notes = ["a", "b"]
[source]
path = "d.duckdb"
table = "s.people"
entities = ["pid"]
nulls = ["N", ""]
[columns.pid]
kind = "integer"
nulls = []
[columns.SEX]
kind = "category"
type = "integer"
domain = [1, 2]
public = true
label = "Sex"
labels = { 1 = "male", 2 = "female" }
[columns."a b.c"]
kind = "text"
placeholder = "rest"
detected = ["kind"]
[columns.PAY]
kind = "decimal"
[privacy]
profile = "strict"
low_threshold = 4
[[tables]]
columns = ["SEX", "PAY"]
[[tables]]
all = 1
"""
        )
    )
    assert (spec.title, spec.logical_name, spec.vintage, spec.mode) == (
        "Census",
        "people",
        "2024-Q1",
        "sticky",
    )
    assert spec.key_path == tmp_path / "my.key"
    assert spec.notes == ("a", "b")
    assert spec.source.path == str(tmp_path / "d.duckdb")
    assert (spec.source.format, spec.source.table) == ("duckdb", "s.people")
    assert spec.source.entities == ("pid",)
    assert spec.privacy.low_threshold == 4
    assert spec.privacy.layer_sd == PROFILES["strict"].layer_sd
    assert [c.name for c in spec.columns] == ["PAY", "SEX", "a b.c", "pid"]
    assert [c.name for c in spec.columns if c.name not in spec.source.entities] == [
        "PAY",
        "SEX",
        "a b.c",
    ]
    pay, sex, text, pid = spec.columns
    assert pay == Column(
        name="PAY",
        kind="decimal",
        value_type="decimal",
        resolution=Resolution(exponent=-2),
        nulls=("N", ""),
    )
    assert sex == Column(
        name="SEX",
        kind="category",
        value_type="integer",
        domain=(1, 2),
        public=True,
        nulls=("N", ""),
        label="Sex",
        labels=(("1", "male"), ("2", "female")),
    )
    assert (text.placeholder, text.detected) == ("rest", ("kind",))
    assert pid.nulls == ()
    assert spec.tables == (("PAY",), ("SEX",), ("a b.c",), ("PAY", "SEX"))


def test_every_mistake_is_told_in_one_pass(write):
    found = mistakes(
        write(
            """
[release]
vintge = "1"
key = "none.key"
name = "1x"
[source]
path = "people.csv"
entities = ["pidd"]
[columns.AGE]
kind = "integr"
[columns.SEX]
kind = "category"
domain = ["m", "m"]
[columns.pid]
kind = "text"
[privacy]
low_treshold = 9
[[tables]]
columns = ["AGE", "SX"]
[[tables]]
columns = ["SEX", "AGE"]
[[tables]]
columns = ["AGE", "SEX"]
[tabels]
"""
        )
    )
    text = "\n".join(found)
    for sentence in (
        "tabels: unknown section; did you mean 'tables'?",
        "release.vintge: unknown key; did you mean 'vintage'?; the keys are: vintage, key",
        "release.vintage: is missing",
        "release.name: wants letters",
        "none.key does not exist",
        "source.entities: no section [columns.pidd]; did you mean 'pid'?",
        "columns.AGE.kind: wants 'integer', 'real'",
        "not 'integr'",
        "columns.SEX.domain: holds a value twice",
        "privacy.low_treshold: unknown key; did you mean 'low_threshold'?",
        "tables[1].columns: no column SX; did you mean 'SEX'?",
        "tables[3].columns: the same table as tables[2]",
    ):
        assert sentence in text
    assert len(found) == 11


@pytest.mark.parametrize(
    ("lines", "message"),
    [
        ('vintage = ""\nkey = "my.key"', "release.vintage: wants a short text"),
        (f'vintage = "{"x" * 65}"\nkey = "my.key"', "release.vintage: wants a short text"),
        ("vintage = 2024\nkey = 'my.key'", "release.vintage: wants a text"),
        (
            'vintage = "1"\nkey = "my.key"\nname = "a b"',
            "release.name: wants letters, digits and _ only",
        ),
        ('vintage = "1"\nkey = "my.key"\nmode = "ep"', 'release.mode: wants "sticky"'),
        (
            'vintage = "1"\nkey = "my.key"\nnotes = [1]',
            "release.notes: wants a list or table of texts only",
        ),
        ('vintage = "1"\nkey = "my.key"\nnotes = "x"', "release.notes: wants a list"),
        ('vintage = "1"\nkey = ""', "release.key: is empty"),
        ('vintage = "1"', "release.key: is missing"),
        ('vintage = "1"\nkey = "none.key"', "release.key: key file .*none.key does not exist"),
    ],
)
def test_release_mistakes(write, lines, message):
    text = HEAD.replace('vintage = "2024"\nkey = "my.key"', lines) + COLUMNS + TABLES
    found = mistakes(write(text))
    assert len(found) == 1
    assert re.search(message, found[0])


def test_the_key_file_is_checked_unless_told_not_to(write, tmp_path):
    path = write(HEAD + COLUMNS + TABLES)
    assert read_spec(path).key_path == tmp_path / "my.key"
    (tmp_path / "my.key").chmod(0o644)
    assert any("can be read by others" in problem for problem in mistakes(path))
    assert read_spec(path, check_key=False).vintage == "2024"


@pytest.mark.parametrize(
    ("lines", "message"),
    [
        ("", "source.path: is missing"),
        ('path = "people.xyz"', 'source.format: the name does not tell it; say "csv"'),
        (
            'path = "p.csv"\nformat = "xls"',
            "source.format: wants 'csv', 'parquet', 'xlsx', 'duckdb', 'sqlite', 'postgres' or 'mysql', not 'xls'",
        ),
        ('path = "p.csv"\ntable = "t"', "source.table: only a database has tables"),
        ('path = "p.csv"\nentities = ["id", "id"]', "source.entities: names a column twice"),
        ('path = "p.csv"\nidentity = ["AGE", "AGE"]', "source.identity: names a column twice"),
        (
            'path = "p.csv"\nidentity = ["AGF"]',
            "source.identity: no section [columns.AGF]; did you mean 'AGE'?",
        ),
        (
            'path = "p.csv"\nidentity = ["AGE"]\nentities = ["id"]',
            "source.identity: is for sources without",
        ),
        ('path = "p.csv"\nnulls = "N"', "source.nulls: wants a list"),
        (
            'path = "p.csv"\nmemory = "a lot"',
            "source.memory: 'a lot' is no size; say one of at least 200MB",
        ),
        ('path = "p.csv"\nmemory = "100 MB"', "source.memory: '100 MB' is no size"),
    ],
)
def test_source_mistakes(write, lines, message):
    found = mistakes(write(HEAD.replace('path = "people.csv"', lines) + COLUMNS + TABLES))
    assert [message in problem for problem in found] == [True]


@pytest.mark.parametrize(
    ("name", "form"),
    [
        ("a.CSV", "csv"),
        ("a.tsv", "csv"),
        ("a.csv.gz", "csv"),
        ("a*.parquet", "parquet"),
        ("a.db", "duckdb"),
        ("a.duckdb", "duckdb"),
        ("a.sas7bdat", None),
    ],
)
def test_formats(name, form):
    assert format_of(name) == form


def test_paths_are_relative_to_the_spec(tmp_path, write):
    folder = tmp_path / "a[1]"
    folder.mkdir()
    write("")
    for path, expected in (
        ("p.csv", f"{folder}/p.csv"),
        ("x*.csv", f"{tmp_path}/a[[]1]/x*.csv"),
        ("/abs/x*.csv", "/abs/x*.csv"),
    ):
        (folder / "r.toml").write_text(
            HEAD.replace("people.csv", path).replace("my.key", "../my.key") + COLUMNS + TABLES
        )
        assert read_spec(folder / "r.toml").source.path == expected
    (folder / "x*.csv").write_text("")
    (folder / "r.toml").write_text(
        HEAD.replace("people.csv", "x*.csv").replace("my.key", "../my.key") + COLUMNS + TABLES
    )
    assert read_spec(folder / "r.toml").source.path == f"{folder}/x*.csv"


@pytest.mark.parametrize(
    ("lines", "message"),
    [
        ('profile = "lax"', "privacy.profile: wants 'standard' or 'strict', not 'lax'"),
        ("low_threshold = 2", "privacy.low_threshold: 2 is below the floor of 3"),
        ("low_threshold = 9", "privacy.threshold_mean: must not be below"),
        ("layer_sd = 3", "privacy.layer_sd: must be a power of two"),
        ("layer_sd = 1.5", "privacy.layer_sd: wants a whole number"),
        (
            "refuse_at = 0.5",
            "privacy.refuse_at: 0.5 is more than 0.4, the bound of profile standard",
        ),
        ('profile = "strict"\nwarn_at = 0.15', "privacy.warn_at: 0.15 is more than 0.1"),
        ("max_looks = 9", "privacy.max_looks: 9 is more than 4"),
        ("max_looks = 0", "privacy.max_looks: wants a whole number of at least 1"),
        ("warn_at = 0.0", "privacy.warn_at: wants a number above 0"),
        ("accept_risk = true", "privacy.accept_risk: wants a text"),
        ("max_rows = 3", "privacy.max_rows: wants a power of two from 1 to 1,048,576"),
        ("max_rows = 0", "privacy.max_rows: wants a power of two"),
        ("max_rows = 2097152", "privacy.max_rows: wants a power of two"),
        ('detected = ["profile"]', "privacy.detected"),
        ("threshold_mean = true", "privacy.threshold_mean: wants a whole number"),
    ],
)
def test_privacy_mistakes(write, lines, message):
    found = mistakes(write(HEAD + COLUMNS + TABLES + f"[privacy]\n{lines}\n"))
    assert [message in problem for problem in found] == [True]


def test_bounds_of_exposure_are_those_of_the_profile_or_narrower(write):
    def bounds(lines):
        return read_spec(write(HEAD + COLUMNS + TABLES + f"[privacy]\n{lines}\n")).bounds

    assert bounds("") == BOUNDS["standard"]
    assert bounds('profile = "strict"') == BOUNDS["strict"]
    narrow = bounds('refuse_at = 0.12\nmax_looks = 1\naccept_risk = "agreed"')
    assert (narrow.warn_at, narrow.refuse_at, narrow.max_looks) == (0.12, 0.12, 1)
    assert narrow.accept_risk == "agreed"


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ('previous = "2024"', "release.previous: is this vintage itself"),
        ('previous = "2023"\nmode = "dp"', "release.previous: mode dp draws fresh noise"),
        ("previous = 2023", "release.previous: wants a text"),
    ],
)
def test_vintages_that_cannot_be_gone_on_from(write, line, message):
    head = HEAD.replace("[release]", f"[release]\n{line}", 1)
    found = mistakes(write(head + COLUMNS + TABLES))
    assert any(message in problem for problem in found), found


def test_several_privacy_mistakes(write):
    lines = "[privacy]\nlow_threshold = 1\nthreshold_mean = 1\n"
    assert len(mistakes(write(HEAD + COLUMNS + TABLES + lines))) == 2


@pytest.mark.parametrize(
    ("entry", "message"),
    [
        ("", "tables[1]: wants exactly one of columns, all, sql, file"),
        ('columns = ["AGE"]\nall = 1', "tables[1]: wants exactly one of"),
        ("columns = []", "tables[1].columns: names no column"),
        ('columns = ["AGE", "AGE"]', "tables[1].columns: names a column twice"),
        ('columns = ["id"]', "tables[1].columns: id names the entities"),
        (
            f"columns = {[f'c{i}' for i in range(65)]}",
            "tables[1].columns: 65 columns; at most 64, since all their pairs are measured (2,080 here)",
        ),
        ("columns = 5", 'tables[1].columns: wants a list of columns, such as ["A", "B"], or "all"'),
        ('columns = "every"', "tables[1].columns: wants a list of columns"),
        ('columns = ["AEG"]', "tables[1].columns: no column AEG; did you mean 'AGE'?"),
        ("all = 0", "tables[1].all: wants a number from 1 to the number of columns (3)"),
        ("all = 4", "tables[1].all: wants a number from 1 to the number of columns (3)"),
        ("all = 5", "tables[1].all: at most 4; a wider table is named by itself"),
        ('all = "x"', "tables[1].all: wants a whole number"),
        ('all = 1\nof = ["id"]', "tables[1].of: id names the entities"),
        ('all = 1\nof = ["AGE", "AGE"]', "tables[1].of: names a column twice"),
        ('columns = ["AGE"]\nof = ["SEX"]', 'tables[1].of: belongs to "all" only'),
        ("all = 1\nmax_width = 2", 'tables[1].max_width: belongs to "file" only'),
        ('sql = "SELECT 1"', "tables[1].sql: cannot be read here"),
        ('file = "none.json"', "tables[1].file: no file"),
    ],
)
def test_table_mistakes(write, entry, message):
    head = HEAD + 'entities = ["id"]\n'
    found = mistakes(write(head + COLUMNS + f"[[tables]]\n{entry}\n"))
    assert any(message in problem for problem in found), found


@pytest.mark.parametrize("tail", ["", "tables = 5\n", "tables = []\n"])
def test_no_tables(write, tail):
    assert mistakes(write(tail + HEAD + COLUMNS)) == [
        "tables: ask for at least one table in an entry [[tables]]"
    ]


def test_families_may_overlap_and_are_sorted(write):
    entries = (
        '[[tables]]\nall = 2\nof = ["SEX", "AGE", "PAY"]\n[[tables]]\nall = 2\n'
        '[[tables]]\ncolumns = ["SEX", "AGE"]\n[[tables]]\ncolumns = ["SEX"]\n'
    )
    spec = read_spec(write(HEAD + 'entities = ["id"]\n' + COLUMNS + entries))
    assert spec.tables == (("SEX",), ("AGE", "PAY"), ("AGE", "SEX"), ("PAY", "SEX"))


def test_tables_of_a_file(write, tmp_path):
    lists = [
        ["SEX", "AGE"],
        ["AGE", "SEX"],
        ["SEX"],
        ["AGE", "SEX", "PAY", "id", "X"],
        ["AGE", "SEX", "PAY"],
    ]
    (tmp_path / "w.json").write_text(json.dumps(lists))
    spec = read_spec(write(HEAD + COLUMNS + '[[tables]]\nfile = "w.json"\nmax_width = 2\n'))
    assert spec.tables == (("SEX",), ("AGE", "SEX"))
    found = mistakes(write(HEAD + COLUMNS + '[[tables]]\nfile = "w.json"\n'))
    assert len(found) == 2
    assert all("tables[1].file (w.json, list 4)" in problem for problem in found)
    for width in (0, 5):
        text = HEAD + COLUMNS + f'[[tables]]\nfile = "w.json"\nmax_width = {width}\n'
        assert "tables[1].max_width: wants a number from 1 to 4" in mistakes(write(text))
    for bad in ("{}", "[1]", '[["a", 1]]', "not json"):
        (tmp_path / "w.json").write_text(bad)
        found = mistakes(write(HEAD + COLUMNS + '[[tables]]\nfile = "w.json"\n'))
        assert "is not a JSON list of lists of column names" in found[0]
    (tmp_path / "w.json").write_text('[["SEX", "AGE", "PAY"]]')
    text = HEAD + COLUMNS + '[[tables]]\nfile = "w.json"\nmax_width = 2\n'
    assert "lists no table of the width" in mistakes(write(text))[0]


def test_tables_of_a_statement(write):
    seen = []

    class Reader:
        def columns(self, sql, types, name):
            seen.append((sql, dict(types), name))
            if "nothing" in sql:
                return ()
            if "bad" in sql:
                raise QueryRefused("one SELECT only")
            return ("SEX", "AGE")

    text = HEAD + 'entities = ["id"]\n' + COLUMNS + '[[tables]]\nsql = "{}"\n'
    spec = read_spec(write(text.format("SELECT x FROM data")), sql=Reader())
    assert spec.tables == (("AGE", "SEX"),)
    assert seen == [
        ("SELECT x FROM data", {"AGE": "BIGINT", "SEX": "VARCHAR", "PAY": "DOUBLE"}, "data")
    ]
    assert mistakes(write(text.format("bad")), sql=Reader()) == ["tables[1].sql: one SELECT only"]
    found = mistakes(write(text.format("nothing")), sql=Reader())
    assert found == ["tables[1].sql: reads no column of data"]
    broken = text.format("SELECT").replace('kind = "integer"', 'kind = "whole"')
    assert len(mistakes(write(broken), sql=Reader())) == 1
    assert len(seen) == 3


def test_files_that_are_no_spec(tmp_path):
    with pytest.raises(SpecError, match=r"no spec file .*; make one with: tablepack init"):
        read_spec(tmp_path / "none.toml")
    with pytest.raises(SpecError, match="cannot be read"):
        read_spec(tmp_path)
    (tmp_path / "r.toml").write_text("a = = 1")
    with pytest.raises(SpecError, match=r"is not TOML: .*line 1"):
        read_spec(tmp_path / "r.toml")
    (tmp_path / "r.toml").write_bytes(b"\xff\xfe")
    with pytest.raises(SpecError, match="is not UTF-8"):
        read_spec(tmp_path / "r.toml")


def test_a_spec_of_values(write, tmp_path):
    write("")
    base = read_spec(write(HEAD + COLUMNS + TABLES))
    spec = spec_of(
        release={"vintage": "2024", "key": str(tmp_path / "my.key")},
        source=base.source,
        columns=base.columns,
        tables=[{"all": 1}],
        privacy={},
    )
    assert spec == base
    with pytest.raises(SpecError) as caught:
        spec_of(release={}, source=base.source, columns=(), tables=[], privacy={"x": 1})
    assert len(caught.value.problems) == 4


@given(st.text(max_size=300) | st.binary(max_size=100).map(lambda raw: raw.decode("latin-1")))
def test_no_text_breaks_the_reader(tmp_path_factory, text):
    path = Path(tmp_path_factory.getbasetemp()) / "any.toml"
    path.write_text(text, encoding="utf-8", errors="replace")
    with pytest.raises(SpecError):
        read_spec(path)
