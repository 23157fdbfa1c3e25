from __future__ import annotations

import datetime
import decimal

import duckdb
import numpy as np
import pytest
from fixtures.release import make_support
from hypothesis import given
from hypothesis import strategies as st

from engine.schema import (
    KIND_NEGATIVE,
    KIND_NONNEGATIVE,
    KIND_NULL,
    KIND_OTHER,
    Column,
    Resolution,
)
from engine.store.catalogue import columns_of_name, table_name
from engine.store.decode import carrier, decode_values, sql_type, support_type


def kind_of(code: int) -> int:
    return KIND_NEGATIVE if code < 0 else KIND_NONNEGATIVE


def column(kind, value_type=None, **more) -> Column:
    return Column(name="C", kind=kind, value_type=value_type or kind, **more)


def through_duckdb(support):
    c = carrier(support)
    arrays = {"c": c.array, "z": c.is_null, "i": np.arange(len(c.array))}
    with duckdb.connect() as con:
        con.execute("SET pandas_analyze_sample = 0")
        sql = f"SELECT CASE WHEN NOT z THEN {c.expression.format('c')} END AS v FROM arrays ORDER BY i"
        assert arrays["i"].shape == c.is_null.shape
        types = con.execute(f"SELECT DISTINCT typeof(v) FROM ({sql})").fetchall()
        return [v for (v,) in con.execute(sql).fetchall()], {t for (t,) in types}, c.sql_type


GRID = [
    (column("integer"), [-(2**63), -3, 0, 2**53 + 1, 2**63 - 1], "BIGINT"),
    (column("boolean"), [0, 1], "BOOLEAN"),
    (column("real", resolution=Resolution(base=10, exponent=-1)), [-25, 0, 27312], "DOUBLE"),
    (column("real", resolution=Resolution(base=2, exponent=-3)), [-1, 0, 9], "DOUBLE"),
    (column("real", resolution=Resolution(base=10, exponent=2)), [-7, 0, 12], "DOUBLE"),
    (
        column("decimal", resolution=Resolution(base=10, exponent=-2)),
        [-125, 5, 90000],
        "DECIMAL(18,2)",
    ),
    (
        column("decimal", resolution=Resolution(base=10, exponent=0)),
        [0, 2**63 - 1],
        "DECIMAL(38,0)",
    ),
    (column("date"), [-200_000, 0, 19_000], "DATE"),
    (column("timestamp"), [-5_000_000_000, 0, 1_700_000_000], "TIMESTAMP"),
    (column("time"), [0, 74_701, 86_399], "TIME"),
]


@pytest.mark.parametrize(("col", "codes", "type_"), GRID, ids=lambda v: getattr(v, "kind", None))
def test_grid_values_reach_duckdb_unchanged(col, codes, type_):
    support = make_support(col, [(KIND_NULL, 0)] + [(kind_of(c), c) for c in codes])
    values, types, stated = through_duckdb(support)
    assert values == decode_values(support)
    assert values[0] is None
    assert types == {type_} == {stated}


@given(st.lists(st.integers(-(2**54), 2**54), max_size=5), st.integers(-16, 2), st.booleans())
def test_reals_reach_duckdb_as_they_are_decoded(codes, exponent, is_small):
    """Many at once by numpy as long as floats hold the codes, else one by one: the same bits, nulls apart."""
    wanted = sorted({code >> 30 if is_small else code for code in codes})
    col = column("real", resolution=Resolution(base=10, exponent=exponent))
    cells = [(KIND_NULL, 0), *((kind_of(code), code) for code in wanted)]
    support = make_support(col, cells)
    found = carrier(support)
    assert found.is_null.tolist() == [True] + [False] * len(wanted)
    assert found.array[1:].tolist() == decode_values(support)[1:]
    assert (found.sql_type, found.expression) == ("DOUBLE", "{}")


@pytest.mark.parametrize("kind", ["date", "timestamp"])
def test_nulls_of_dates_and_times_are_null(kind):
    support = make_support(column(kind), [(KIND_NULL, 0), (1, -3), (2, 5)])
    found = carrier(support)
    assert found.is_null.tolist() == [v is None for v in decode_values(support)]
    assert found.array[1:].tolist() == [-3, 5]


def test_dates_and_times_outside_pythons_years_survive():
    far = make_support(column("date"), [(1, -1_000_000), (2, 3_000_000)])
    assert decode_values(far) == [np.datetime64(-1_000_000, "D"), np.datetime64(3_000_000, "D")]
    c = carrier(far)
    arrays = {"c": c.array}
    with duckdb.connect() as con:
        days = con.execute(
            f"SELECT {c.expression.format('c')} - DATE '1970-01-01' FROM arrays"
        ).fetchall()
    assert days == [(d,) for d in arrays["c"].tolist()]
    late = make_support(column("timestamp"), [(2, 300_000_000_000)])
    assert decode_values(late) == [np.datetime64(300_000_000_000, "s")]


def test_ranked_values_and_placeholder():
    text = column("text", placeholder=None)
    a = make_support(text, [(KIND_NULL, 0), (2, 1), (KIND_OTHER, 0)], values=("x", "y\0'z"))
    assert decode_values(a) == [None, "y\0'z", "(other)"]
    assert through_duckdb(a)[0] == [None, "y\0'z", "(other)"]
    own = column("category", "text", placeholder="andere")
    assert decode_values(make_support(own, [(KIND_OTHER, 0)], values=())) == ["andere"]
    numbers = column("category", "integer")
    b = make_support(numbers, [(2, 1), (2, 0), (KIND_OTHER, 0)], values=(5, -7))
    assert decode_values(b) == [-7, 5, None]
    assert through_duckdb(b) == ([-7, 5, None], {"BIGINT"} | {"BIGINT"}, "BIGINT")


@pytest.mark.parametrize(
    ("value_type", "values", "type_"),
    [
        ("integer", (2**63, -5), "HUGEINT"),
        ("real", (0.1, -2.5), "DOUBLE"),
        ("boolean", (False, True), "BOOLEAN"),
        ("decimal", (decimal.Decimal("1.005"), decimal.Decimal("-20")), "DECIMAL(18,3)"),
        ("date", (datetime.date(1850, 5, 4), datetime.date(2020, 2, 29)), "DATE"),
        (
            "timestamp",
            (datetime.datetime(1850, 5, 4, 3, 2), datetime.datetime(2020, 1, 1)),
            "TIMESTAMP",
        ),
    ],
)
def test_categories_keep_their_type(value_type, values, type_):
    support = make_support(column("category", value_type), [(2, 0), (2, 1)], values=values)
    decoded, types, stated = through_duckdb(support)
    assert decoded == list(values)
    assert types == {type_}
    assert stated == support_type(support) == type_


def test_sql_type_by_declaration():
    assert sql_type(column("text")) == "VARCHAR"
    assert sql_type(column("decimal", resolution=Resolution(exponent=-2))) == "DECIMAL(18,2)"
    assert sql_type(column("decimal", resolution=Resolution(exponent=-17))) == "DECIMAL(38,17)"
    assert sql_type(column("decimal", resolution=Resolution(exponent=3))) == "DECIMAL(18,0)"
    domain = (decimal.Decimal("0.125"), decimal.Decimal(3))
    assert sql_type(column("category", "decimal", domain=domain)) == "DECIMAL(18,3)"
    assert sql_type(column("category", "decimal")) == "DECIMAL(18,0)"


@given(st.sets(st.text(st.sampled_from("ab.%2E5"), min_size=1), min_size=1, max_size=4))
def test_the_name_of_a_table_tells_its_columns(names):
    assert columns_of_name(table_name(names)) == tuple(sorted(names))
