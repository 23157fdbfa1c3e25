from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from fixtures.spec import HEAD, TABLES, cases, mistakes, places
from hypothesis import given, settings
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


def test_every_mistake_is_reported_in_one_pass(write):
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
    assert places(found) == sorted(
        """tabels release.vintge release.vintage release.name release.key source.entities columns.AGE.kind
        columns.SEX.domain privacy.low_treshold tables[1].columns tables[3].columns""".split()
    )
    for meant in ("tables", "vintage", "pid", "low_threshold", "SEX"):
        assert any(f"did you mean {meant!r}?" in problem for problem in found)


@pytest.mark.parametrize(
    ("place", "lines"),
    cases(r"""
release.vintage | vintage = "" ; key = "my.key"
release.vintage | vintage = 2024 ; key = 'my.key'
release.name    | vintage = "1" ; key = "my.key" ; name = "a b"
release.mode    | vintage = "1" ; key = "my.key" ; mode = "ep"
release.notes   | vintage = "1" ; key = "my.key" ; notes = [1]
release.notes   | vintage = "1" ; key = "my.key" ; notes = "x"
release.key     | vintage = "1" ; key = ""
release.key     | vintage = "1"
release.key     | vintage = "1" ; key = "none.key"
"""),
)
def test_release_mistakes(write, place, lines):
    text = HEAD.replace('vintage = "2024"\nkey = "my.key"', lines) + COLUMNS + TABLES
    assert places(mistakes(write(text))) == [place]


@pytest.mark.parametrize(
    ("place", "lines"),
    cases(r"""
source.path     |
source.format   | path = "people.xyz"
source.format   | path = "p.csv" ; format = "xls"
source.table    | path = "p.csv" ; table = "t"
source.entities | path = "p.csv" ; entities = ["id", "id"]
source.entities | path = "p.csv" ; entities = [["id"], "id"]
source.entities | path = "p.csv" ; entities = [["id", "id"]]
source.entities | path = "p.csv" ; entities = [["id", "nobody"]]
source.entities | path = "p.csv" ; entities = [[]]
source.entities | path = "p.csv" ; entities = [[["id"]]]
source.identity | path = "p.csv" ; identity = ["AGE", "AGE"]
source.identity | path = "p.csv" ; identity = ["AGF"]
source.identity | path = "p.csv" ; identity = ["AGE"] ; entities = ["id"]
source.nulls    | path = "p.csv" ; nulls = "N"
source.memory   | path = "p.csv" ; memory = "a lot"
source.memory   | path = "p.csv" ; memory = "100 MB"
"""),
)
def test_source_mistakes(write, place, lines):
    text = HEAD.replace('path = "people.csv"', lines) + COLUMNS + TABLES
    assert places(mistakes(write(text))) == [place]


@pytest.mark.parametrize(
    ("name", "form"),
    [
        ("a.CSV", "csv"),
        ("a.tsv", "csv"),
        ("a.csv.gz", "csv"),
        ("a*.parquet", "parquet"),
        ("a.db", "duckdb"),
        ("a.duckdb", "duckdb"),
        ("a.sas7bdat", "sas7bdat"),
        ("a.zsav", "sav"),
        ("a.rds", None),
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
    ("place", "lines"),
    cases(r"""
privacy.profile        | profile = "lax"
privacy.low_threshold  | low_threshold = 2
privacy.threshold_mean | low_threshold = 9
privacy.threshold_mean | threshold_mean = true
privacy.layer_sd       | layer_sd = 3
privacy.layer_sd       | layer_sd = 1.5
privacy.refuse_at      | refuse_at = 0.5
privacy.warn_at        | profile = "strict" ; warn_at = 0.15
privacy.warn_at        | warn_at = 0.0
privacy.max_looks      | max_looks = 9
privacy.max_looks      | max_looks = 0
privacy.accept_risk    | accept_risk = true
privacy.max_rows       | max_rows = 3
privacy.max_rows       | max_rows = 0
privacy.max_rows       | max_rows = 2097152
privacy.detected       | detected = ["profile"]
"""),
)
def test_privacy_mistakes(write, place, lines):
    text = HEAD + COLUMNS + TABLES + f"[privacy]\n{lines}\n"
    assert places(mistakes(write(text))) == [place]


def test_bounds_of_exposure_are_those_of_the_profile_or_narrower(write):
    def bounds(lines):
        return read_spec(write(HEAD + COLUMNS + TABLES + f"[privacy]\n{lines}\n")).bounds

    assert bounds("") == BOUNDS["standard"]
    assert bounds('profile = "strict"') == BOUNDS["strict"]
    narrow = bounds('refuse_at = 0.12\nmax_looks = 1\naccept_risk = "agreed"')
    assert (narrow.warn_at, narrow.refuse_at, narrow.max_looks) == (0.12, 0.12, 1)
    assert narrow.accept_risk == "agreed"


@pytest.mark.parametrize(
    "line", ['previous = "2024"', 'previous = "2023"\nmode = "dp"', "previous = 2023"]
)
def test_previous_vintages_that_are_not_allowed(write, line):
    head = HEAD.replace("[release]", f"[release]\n{line}", 1)
    assert "release.previous" in places(mistakes(write(head + COLUMNS + TABLES)))


@pytest.mark.parametrize(
    ("place", "entry"),
    cases(r"""
tables[1]           |
tables[1]           | columns = ["AGE"] ; all = 1
tables[1].columns   | columns = []
tables[1].columns   | columns = ["AGE", "AGE"]
tables[1].columns   | columns = ["id"]
tables[1].columns   | columns = 5
tables[1].columns   | columns = "every"
tables[1].columns   | columns = ["AEG"]
tables[1].all       | all = 0
tables[1].all       | all = 4
tables[1].all       | all = 5
tables[1].all       | all = "x"
tables[1].of        | all = 1 ; of = ["id"]
tables[1].of        | all = 1 ; of = ["AGE", "AGE"]
tables[1].of        | columns = ["AGE"] ; of = ["SEX"]
tables[1].max_width | all = 1 ; max_width = 2
tables[1].sql       | sql = "SELECT 1"
tables[1].file      | file = "none.json"
"""),
)
def test_table_mistakes(write, place, entry):
    head = HEAD + 'entities = ["id"]\n'
    assert {*places(mistakes(write(head + COLUMNS + f"[[tables]]\n{entry}\n")))} == {place}


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
        assert "tables[1].max_width" in places(mistakes(write(text)))
    for bad in ("{}", "[1]", '[["a", 1]]', "not json"):
        (tmp_path / "w.json").write_text(bad)
        found = mistakes(write(HEAD + COLUMNS + '[[tables]]\nfile = "w.json"\n'))
        assert places(found) == ["tables[1].file"]
    (tmp_path / "w.json").write_text('[["SEX", "AGE", "PAY"]]')
    text = HEAD + COLUMNS + '[[tables]]\nfile = "w.json"\nmax_width = 2\n'
    assert places(mistakes(write(text))) == ["tables[1].file"]


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
    with pytest.raises(SpecError, match=r"none\.toml"):
        read_spec(tmp_path / "none.toml")
    with pytest.raises(SpecError, match=re.escape(str(tmp_path))):
        read_spec(tmp_path)
    (tmp_path / "r.toml").write_text("a = = 1")
    with pytest.raises(SpecError, match=r"TOML: .*line 1"):
        read_spec(tmp_path / "r.toml")
    (tmp_path / "r.toml").write_bytes(b"\xff\xfe")
    with pytest.raises(SpecError, match="UTF-8"):
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


@pytest.mark.ci
@settings(max_examples=40)
@given(st.text(max_size=300) | st.binary(max_size=100).map(lambda raw: raw.decode("latin-1")))
def test_no_text_breaks_the_reader(tmp_path_factory, text):
    path = Path(tmp_path_factory.getbasetemp()) / "any.toml"
    path.write_text(text, encoding="utf-8", errors="replace")
    with pytest.raises(SpecError):
        read_spec(path)
