"""Which table answers, and which columns a statement reads, as DuckDB plans it."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from engine.errors import NotAnswerable, QueryRefused
from engine.texts import spec_entry
from queries.sql import StatementReader, columns_read, nearest
from queries.sql.planner import StubPlanner
from queries.sql.refusals import Vocabulary
from queries.sql.router import route

TABLES = {
    ("a",): 3,
    ("b",): 9,
    ("c",): 3,
    ("a", "b"): 20,
    ("a", "c"): 10,
    ("a", "b", "c"): 50,
    ("a", "b", "d"): 40,
}


@pytest.mark.parametrize(
    ("asked", "answer"),
    [
        ((), ("a",)),  # fewest columns, then fewest rows, then name
        (("b",), ("b",)),
        (("d",), ("a", "b", "d")),
        (("b", "a"), ("a", "b")),
        (("c", "b"), ("a", "b", "c")),
    ],
)
def test_smallest_covering_table(asked, answer):
    assert route(asked, TABLES) == answer


def test_fewest_rows_decide_among_equal_widths():
    assert route(("x",), {("x", "z"): 5, ("x", "y"): 6}) == ("x", "z")
    assert route(("x",), {("x", "z"): 5, ("x", "y"): 5}) == ("x", "y")


def test_refusal_names_what_is_missing_and_how_to_add_it():
    with pytest.raises(NotAnswerable) as refused:
        route(("d", "c"), TABLES)
    error = refused.value
    assert error.exit_code == 5
    assert error.nearest == (("c",), ("a", "c"), ("a", "b", "c"))
    assert error.missing == ("d",)
    assert '[[tables]]\ncolumns = ["c", "d"]' in str(error)
    assert "a, c" in str(error)


def test_a_statement_that_could_be_asked_in_parts_says_so():
    parts = (("c",), ("a", "d"), ("c",))
    with pytest.raises(NotAnswerable) as refused:
        route("acd", TABLES, parts=parts)
    assert ": a, d; c. " in str(refused.value)
    assert refused.value.nearest == nearest(("a", "c", "d"), TABLES)
    assert refused.value.missing == ("d",)
    for whole in ((("a", "c", "d"),), (("a", "c", "d"), ("a",)), ()):
        with pytest.raises(NotAnswerable) as refused:
            route("acd", TABLES, parts=whole)
        assert "separately" not in str(refused.value)


def test_parts_of_a_statement(planner):
    union = "SELECT age FROM data UNION SELECT two FROM data WHERE owns"
    assert set(planner.read(union).parts) == {("age",), ("owns", "two")}


def test_spec_entry_is_toml_whatever_the_name():
    import tomllib

    names = ('q"uote', "d.ot", "é")
    assert tomllib.loads(spec_entry(names))["tables"] == [{"columns": list(names)}]


@settings(max_examples=30)
@given(st.frozensets(st.sampled_from("abcd")), st.permutations(list(TABLES)))
def test_route_does_not_depend_on_order(asked, order):
    try:
        expected = route(tuple(sorted(asked)), TABLES)
    except NotAnswerable:
        with pytest.raises(NotAnswerable):
            route(asked, {t: TABLES[t] for t in order})
    else:
        assert set(asked) <= set(expected)
        assert route(asked, {t: TABLES[t] for t in order}) == expected


COLUMNS = {
    "age": "BIGINT",
    "sex": "VARCHAR",
    "income": "DOUBLE",
    "region": "VARCHAR",
    "arrived": "DATE",
    "paid": "DECIMAL(18,2)",
    "seen": "TIMESTAMP",
    "owns": "BOOLEAN",
    'we"ird.na me': "BIGINT",
    "two\nlines": "BIGINT",
    "two": "BIGINT",
    "SELECT": "BIGINT",
}
ALL = tuple(sorted(COLUMNS))
STATEMENTS = [
    ("SELECT count(*) FROM data", ()),
    ("SELECT * FROM data", ALL),
    ("SELECT COLUMNS('(age|sex)') FROM data", ("age", "sex")),
    ("SELECT region, sum(COLUMNS('inc.*')) FROM data GROUP BY ALL", ("income", "region")),
    ("PIVOT data ON sex USING avg(income) GROUP BY region", ("income", "region", "sex")),
    ("PIVOT data ON sex IN ('f', 'm') USING count(*) GROUP BY age", ("age", "sex")),
    ("UNPIVOT data ON age, income", ALL),
    ("SUMMARIZE data", ALL),
    ("WITH t AS (SELECT * FROM data) SELECT sex, count(*) FROM t GROUP BY sex", ("sex",)),
    ("SELECT 1 WHERE EXISTS (SELECT * FROM data WHERE age = 1)", ("age",)),
    (
        "SELECT * EXCLUDE (income, region, arrived, paid, seen, owns, 'x') FROM data"
        .replace(", 'x'", ', "we""ird.na me", "two\nlines", two, "SELECT"'),
        ("age", "sex"),
    ),
    ("SELECT region, list(data) FROM data GROUP BY region", ALL),
    ("SELECT age, sex, count(*) FROM data GROUP BY GROUPING SETS ((age), (sex), ())", ("age", "sex")),
    ("SELECT age FROM data WHERE false", ("age",)),
    ('SELECT "we""ird.na me", "SELECT" FROM data', ("SELECT", 'we"ird.na me')),
    ('SELECT "two\nlines" FROM data', ("two\nlines",)),
    ("SELECT d.b FROM data AS d(a, b)", ("sex",)),
    ("-- why\nEXPLAIN ANALYZE SELECT owns FROM data", ("owns",)),
    ("EXPLAIN (FORMAT json) SELECT owns FROM data", ("owns",)),
    ("SELECT AGE, Sex FROM DATA", ("age", "sex")),
    ("WITH RECURSIVE r AS (SELECT two AS x FROM data UNION SELECT x + 1 FROM r WHERE x < 9) FROM r", ("two",)),
    ("WITH RECURSIVE r AS (SELECT 0 AS x UNION SELECT x FROM r) SELECT count(*) FROM r JOIN data ON x = age", ("age",)),
]  # fmt: skip


@pytest.fixture(scope="module")
def planner():
    planner = StubPlanner(Vocabulary(types=COLUMNS))
    yield planner
    planner.close()


@pytest.mark.parametrize(("sql", "expected"), STATEMENTS)
def test_columns_a_statement_reads(planner, sql, expected):
    assert planner.read(sql).columns == expected


@pytest.mark.parametrize(
    ("sql", "near"),
    [
        ("SELECT regoin FROM data", "Near: region"),
        ("SELECT d.regoin FROM data d", "Near: region"),
        ("SELECT * EXCLUDE (regoin) FROM data", "Near: region"),
        ("SELECT zzzzzz FROM data", "Columns: age, sex"),
    ],
)
def test_unknown_columns_name_near_ones(sql, near):
    with pytest.raises(NotAnswerable, match=near) as refused:
        columns_read(sql, COLUMNS)
    assert refused.value.missing in (("regoin",), ("zzzzzz",))


@pytest.mark.parametrize(
    ("sql", "why"),
    [
        ("", "^no statement"),
        ("INSTALL httpfs", "^INSTALL is not allowed"),
        ("/* why */ force install httpfs", "^INSTALL is not allowed"),
        ("LOAD httpfs", "^LOAD is not allowed"),
        ("-- why\nload httpfs", "^LOAD is not allowed"),
        ("SELEC 1", "syntax error"),
        ("SELECT 'open", "unterminated"),
        ("EXPLAIN COPY data TO 'x'", "COPY is not allowed"),
        ("EXPLAIN ANALYZE DELETE FROM data", "DELETE is not allowed"),
        ("SELECT age FROM person", "person does not exist"),
    ],
)
def test_refused(planner, sql, why):
    with pytest.raises(QueryRefused, match=why):
        planner.read(sql)


def test_many_statements_are_read_at_once_each_as_alone():
    asked = [
        "SELECT sex, count(*) FROM data GROUP BY ALL",
        "SELECT count(*) FROM data",
        "SELECT 1",
        "SELECT x FROM data",
        "SET threads = 1",
        "PIVOT data ON sex IN ('x', 'y') USING count(*) GROUP BY age",
    ]
    found = StatementReader().columns_of_each(asked, COLUMNS, "data")
    assert found[:2] == [("sex",), ()]
    assert [type(one).__name__ for one in found[2:5]] == [
        "QueryRefused",
        "NotAnswerable",
        "QueryRefused",
    ]
    assert str(found[2]) == "does not read data"
    for sql, one in zip(asked[3:5], found[3:5], strict=True):
        with pytest.raises(type(one)) as alone:
            columns_read(sql, COLUMNS)
        assert str(alone.value) == str(one)
    assert found[5] == columns_read(asked[5], COLUMNS)


def test_a_pivot_on_values_that_are_its_columns_is_not_guessed_at():
    (found,) = StatementReader().columns_of_each(
        ['SELECT "Male" FROM (PIVOT data ON sex USING count(*))'], COLUMNS, "data"
    )
    assert "only when it is run" in str(found)
