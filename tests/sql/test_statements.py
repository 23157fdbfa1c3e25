"""Statements and their routing, answers, warnings and refusals: see tests/statements/*.toml."""

from __future__ import annotations

import json
import tomllib
from pathlib import Path

import duckdb
import pandas as pd
import pytest
from fixtures.pipeline import ACCEPTED, CENSUS, make_census, write_spec

from engine.errors import NotAnswerable, QueryRefused
from engine.release import build
from engine.spec import read_spec
from queries.release import open_release
from queries.sql import export, file_stem
from queries.sql.advice import LOOK_UP, NUMBERED, SAMPLED, SELF_JOIN

FOLDER = Path(__file__).parents[1] / "statements"
ANSWERED = tomllib.loads((FOLDER / "answered.toml").read_text("utf-8"))["statement"]
REFUSED = tomllib.loads((FOLDER / "refused.toml").read_text("utf-8"))["statement"]
WARNINGS = {
    "self-join": SELF_JOIN,
    "numbered": NUMBERED,
    "look-up": LOOK_UP,
    "sampled": SAMPLED,
}
TABLES = (
    *((name,) for name in CENSUS if name != "person_id"),
    ("age", "sex"),
    ("age", "region"),
    ("region", "sex"),
    ("carer", "sex"),
    ("education", "region"),
    ("income", "region"),
    ("income", "sex"),
    ("age", "income"),
    ("region", "rent_weekly"),
    ("age", "region", "sex"),
    ("income", "region", "sex"),
)
AREAS = pd.DataFrame(
    {
        "code": [f"R{i}" for i in range(1, 11)],
        "name": [f"Area {i % 4}" for i in range(10)],
        "area": [1.5 * i for i in range(1, 11)],
    }
)


@pytest.fixture(scope="module")
def release(tmp_path_factory):
    folder = tmp_path_factory.mktemp("statements")
    people = make_census(folder / "census") / "people.parquet"
    spec = write_spec(folder, people, CENSUS, TABLES, privacy=ACCEPTED)
    build(read_spec(spec), folder / "r.duckdb")
    with open_release(folder / "r.duckdb", threads=1) as release:
        yield release


@pytest.fixture(scope="module")
def exported(release, tmp_path_factory):
    """Each table as files, by its columns."""
    folder = tmp_path_factory.mktemp("exported")
    for form in ("csv", "parquet"):
        export(release, folder / form, format=form)
    return folder


def source(release, exported, columns, form):
    """SQL of the logical table over one exported file; columns that it lacks are there to be named, and blank."""
    path = exported / form / f"{file_stem(columns)}.{form}"
    types = ", ".join(f"'{c}': '{release.columns[c]}'" for c in release.columns if c in columns)
    read = (
        f"read_csv('{path}', header = true, columns = {{{types}}})"
        if form == "csv"
        else f"read_parquet('{path}')"
    )
    listed = [
        f'"{c}"' if c in columns else f'CAST(NULL AS {type_}) AS "{c}"'
        for c, type_ in release.columns.items()
    ]
    return f"SELECT {', '.join(listed)} FROM {read}"


def plainly(release, exported, sql, columns, form, own):
    """Columns and rows that plain DuckDB gives on the exported table."""
    with duckdb.connect(config={"threads": 1}) as con:
        if own:
            con.register("areas", AREAS)
        con.execute(f"CREATE VIEW data AS {source(release, exported, columns, form)}")
        rows = con.execute(sql).fetchall()
        return tuple(d[0] for d in con.description), rows


def asked(release, item):
    return release.sql(item["sql"], tables={"areas": AREAS} if item.get("own") else None)


def is_ordered(sql):
    return "ORDER BY" in sql.rsplit(")", 1)[-1]


def test_there_are_enough():
    assert len(ANSWERED) >= 100
    assert len(REFUSED) >= 20
    texts = [item["sql"] for item in (*ANSWERED, *REFUSED)]
    assert len(set(texts)) == len(texts) >= 120


@pytest.mark.parametrize(
    ("item", "form"),
    [(item, ("csv", "parquet")[i % 2]) for i, item in enumerate(ANSWERED)],
    ids=[item["sql"][:60] for item in ANSWERED],
)
def test_answered_and_explained(release, exported, item, form):
    result = asked(release, item)
    table = tuple(item["table"]) if "table" in item else None
    warnings = item.get("warnings", [])
    assert result.table == table
    assert [w for w in WARNINGS if WARNINGS[w] in result.warnings] == warnings
    assert len(result.warnings) == len(warnings)
    columns, rows = plainly(
        release, exported, item["sql"], table or ("carer",), form, item.get("own")
    )
    assert result.columns == columns
    if is_ordered(item["sql"]):
        assert result.rows == rows
    else:
        assert sorted(result.rows, key=repr) == sorted(rows, key=repr)
    routing = release.explain(item["sql"], tables={"areas": AREAS} if item.get("own") else None)
    assert routing.table == table
    assert set(routing.columns) <= set(table or ())
    assert (routing.card is None) == (table is None)
    foreseen = " ".join(routing.warnings)
    assert all(WARNINGS[w] in foreseen for w in warnings)


@pytest.mark.parametrize("item", REFUSED, ids=[i["sql"][:60] for i in REFUSED])
def test_refused(release, item):
    for ask in (release.sql, release.explain):
        with pytest.raises(QueryRefused) as refused:
            ask(item["sql"]).rows  # noqa: B018
        assert item["says"] in str(refused.value)
        assert isinstance(refused.value, NotAnswerable) == item.get("not_answerable", False)
        assert refused.value.exit_code == 5
        if "missing" in item:
            assert list(refused.value.missing) == item["missing"]


def test_one_question_one_figure(release):
    """Two scans with other columns are answered from one table, and one figure is the same wherever it is asked."""
    both = release.sql(
        "SELECT (SELECT count(*) FROM data WHERE sex = 'Female'), (SELECT count(*) FROM data WHERE age < 18)"
    )
    assert both.table == ("age", "sex")
    women = release.sql("SELECT count(*) FROM data WHERE sex = 'Female'")
    assert women.table == ("sex",)
    assert both.rows[0][0] == women.rows[0][0]


SPELLINGS = (
    "SELECT count(*) FROM data WHERE {c} = {v}",
    "SELECT count(*) FILTER ({c} = {v}) FROM data",
    "SELECT count_if({c} = {v}) FROM data",
    "SELECT sum(CASE WHEN {c} = {v} THEN 1 ELSE 0 END) FROM data",
    "SELECT (SELECT count(*) FROM data WHERE {c} = {v})",
    "WITH t AS (SELECT * FROM data) SELECT count(*) FROM t WHERE {c} = {v}",
    "SELECT n FROM (SELECT {c}, count(*) AS n FROM data GROUP BY {c}) WHERE {c} = {v}",
    "SELECT len(list({c})) FROM data WHERE {c} = {v}",
    "SELECT max(n) FROM (SELECT {c}, count(*) OVER (PARTITION BY {c}) AS n FROM data) WHERE {c} = {v}",
    "SELECT histogram({c})[{v}] FROM data",
    "SELECT count(*) FROM data JOIN (VALUES ({v})) AS w(x) ON {c} = x",
    "SELECT count(*) FROM data WHERE {c} IN (SELECT {v})",
    'SELECT "{v}" FROM (PIVOT (SELECT {c} FROM data) ON {c} USING count(*))',
    "SELECT count(COLUMNS('^{c}$')) FROM data WHERE {c} = {v}",
    "WITH RECURSIVE t AS (SELECT {v} AS x UNION SELECT x FROM t) SELECT count(*) FROM t JOIN data ON {c} = x",
)


@pytest.mark.ci
@pytest.mark.parametrize("column", ["sex", "age"])
def test_one_figure_however_it_is_spelled(release, column):
    """And whichever table is asked by name: wider tables are locked to narrower ones."""
    measured = [(v, n) for v, _, n in release.values(column) if v is not None]
    for value, n in measured[:: max(1, len(measured) // 3)]:
        as_text = isinstance(value, str)
        for spelling in SPELLINGS:
            bare = '"{v}"' in spelling
            text = f"'{value}'" if as_text and not bare else str(value)
            result = release.sql(spelling.format(c=column, v=text))
            assert (result.table, int(result.rows[0][0])) == ((column,), n), spelling
        for table in release.tables:
            if column in table:
                asked_by_name = f'SELECT count(*) FROM "{".".join(table)}" WHERE {column} = '
                text = f"'{value}'" if as_text else str(value)
                assert release.sql(asked_by_name + text).rows == [(n,)]


def test_a_planted_fault_is_caught(release, exported):
    """The comparison with plain DuckDB sees one row more in the exported file."""
    columns, sql = ("sex",), "SELECT sex, count(*) FROM data GROUP BY sex"
    assert sorted(release.sql(sql).rows) == sorted(
        plainly(release, exported, sql, columns, "csv", False)[1]
    )
    path = exported / "csv" / "sex.csv"
    held = path.read_text()
    try:
        path.write_text(held + "Male\n")
        wrong = plainly(release, exported, sql, columns, "csv", False)[1]
    finally:
        path.write_text(held)
    assert sorted(release.sql(sql).rows) != sorted(wrong)


def test_answers_travel_with_their_warnings(release):
    result = release.sql("SELECT age FROM data LIMIT 1")
    assert json.loads(result.to_json())["warnings"] == [LOOK_UP]
    assert f"Warning: {LOOK_UP}" in repr(result)
