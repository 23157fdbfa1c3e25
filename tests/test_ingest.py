from __future__ import annotations

import datetime as dt
import math
from decimal import Decimal
from pathlib import Path

import duckdb
import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from engine.encoding import cell_class, grid_code
from engine.errors import DataError, SpecError
from engine.ingest import ingest
from engine.schema import NULL_CODE, OTHER_CODE, Column, Resolution, SourceSpec
from engine.sources import open_source

N = NULL_CODE
DAY = dt.date(1970, 1, 1)


def connection():
    con = duckdb.connect(":memory:", config={"python_enable_replacements": "false"})
    con.execute("SET TimeZone = 'UTC'")
    return con


def col(kind, name="v", value_type=None, **kwargs):
    if kind in ("category", "text"):
        value_type = value_type or "text"
    return Column(name=name, kind=kind, value_type=value_type or kind, **kwargs)


def load(frame, columns, entities=()):
    con = connection()
    source = open_source(con, SourceSpec(path=None, format="frame"), frame)
    return ingest(con, source, tuple(columns), tuple(entities))


def load_csv(path, columns, entities=()):
    con = connection()
    source = open_source(con, SourceSpec(path=str(path), format="csv"))
    return ingest(con, source, tuple(columns), tuple(entities))


def codes(ingested, name="v"):
    """Codes in the order of the rows; small in-memory tables keep it."""
    short = ingested.sql_names[name]
    return [
        code
        for (code,) in ingested.con.execute(f"SELECT {short} FROM rows ORDER BY rowid").fetchall()
    ]


def code_of(value, column):
    """Codes of one column of cells; the second column pins the row order through joins."""
    cells = value if isinstance(value, pd.Series | pa.Array) else pd.Series(value)
    order = np.arange(len(cells))
    frame = (
        pa.table({"v": cells, "order": order})
        if isinstance(cells, pa.Array)
        else pd.DataFrame({"v": cells, "order": order})
    )
    ingested = load(frame, [column, col("integer", "order")])
    found = ingested.con.execute("SELECT c1 FROM rows ORDER BY c0").fetchall()
    assert ingested.sql_names == {"order": "c0", "v": "c1"}
    return [code for (code,) in found]


def text(*cells):
    return pd.Series(cells, dtype=object)


CENT, EIGHTH, THOUSAND = (
    Resolution(exponent=-2),
    Resolution(base=2, exponent=-3),
    Resolution(exponent=3),
)


@pytest.mark.parametrize(
    ("column", "cells", "expected"),
    [
        (
            col("integer"),
            text("5", "-7", "15400.0", "", None, " 3", "+4", "1e3"),
            [5, -7, 15400, N, N, 3, 4, 1000],
        ),
        (col("integer"), [1.0, np.nan, -0.0, 2.0**53], [1, N, 0, 2**53]),
        (
            col("integer"),
            pd.array([2**63 - 2, None, -(2**63) + 2], dtype="Int64"),
            [2**63 - 2, N, -(2**63) + 2],
        ),
        (col("integer"), text(str(2**63 - 2), f"{2**63 - 2}.0"), [2**63 - 2, 2**63 - 2]),
        (col("integer"), pa.array([Decimal("3.00"), None]), [3, N]),
        (col("integer"), pa.array([1, 255], pa.uint8()), [1, 255]),
        (col("integer"), pd.Series([2**40, None, 7], dtype=object), [2**40, N, 7]),
        (col("integer"), pd.Series([4, None, 7], dtype=object).astype("category"), [4, N, 7]),
        (col("integer", nulls=("N", "")), text("1", "N", "", "2"), [1, N, N, 2]),
        (
            col("real", resolution=CENT),
            [0.1, -0.0, np.nan, 1.005, 0.125, 0.375],
            [10, 0, N, 100, 12, 38],
        ),
        (
            col("real", resolution=CENT),
            text("0.1", "-0.0", "", "1.005", "1e2"),
            [10, 0, N, 100, 10000],
        ),
        (col("real", resolution=CENT), pd.Series([0.1, 2.5], dtype="float32"), [10, 250]),
        (col("real", resolution=CENT), pd.Series([1, 2.5, None], dtype=object), [100, 250, N]),
        (col("real", resolution=EIGHTH), [0.125, -0.25, 0.1875], [1, -2, 2]),
        (col("real", resolution=THOUSAND), [1499.0, 2500.0, -3500.0], [1, 2, -4]),
        (col("real", resolution=Resolution()), [3, 4], [3, 4]),
        (
            col("decimal", resolution=CENT),
            text("1.015", "-1.015", "12.3", "7", "1e-1"),
            [102, -102, 1230, 700, 10],
        ),
        (
            col("decimal", resolution=CENT),
            [1.015, -1.015, 12.3, np.nan, -0.0],
            [102, -102, 1230, N, 0],
        ),
        (col("decimal", resolution=CENT), pa.array([Decimal("1.015"), None]), [102, N]),
        (col("decimal", resolution=CENT), [3, 4], [300, 400]),
        (col("decimal", resolution=THOUSAND), text("1499", "2500"), [1, 2]),
        (
            col("boolean"),
            text("true", "False", "1", "0", "T", "f", "1.0", ""),
            [1, 0, 1, 0, 1, 0, 1, N],
        ),
        (col("boolean"), [True, False], [1, 0]),
        (col("boolean"), [1.0, 0.0, np.nan], [1, 0, N]),
        (col("boolean"), pa.array([Decimal(1), None]), [1, N]),
        (col("boolean"), pd.Series([True, None, False], dtype=object), [1, N, 0]),
        (
            col("date"),
            text(
                "1970-01-02", "1969-12-31", "1890-01-01", "12000-01-01", "2020-01-01 00:00:00", ""
            ),
            [1, -1, -29219, 3663382, 18262, N],
        ),
        (col("date"), pd.to_datetime(pd.Series(["1970-01-02", None])), [1, N]),
        (col("date"), pd.Series([dt.date(9999, 12, 31), None], dtype=object), [2932896, N]),
        (col("date"), pa.array([1, -29219], pa.date32()), [1, -29219]),
        (col("date"), pd.to_datetime(pd.Series(["1970-01-02"])).dt.tz_localize("UTC"), [1]),
        (
            col("timestamp"),
            text(
                "1970-01-01 00:00:01.9",
                "1969-12-31 23:59:59.5",
                "1970-01-01T00:00:02Z",
                "1970-01-01",
            ),
            [1, -1, 2, 0],
        ),
        (col("timestamp"), text("1970-01-01 01:00:01+01:00", "1970-01-01 00:00:05-00"), [1, 5]),
        (col("timestamp"), pd.to_datetime(pd.Series(["1969-12-31 23:59:58.5", None])), [-2, N]),
        (col("timestamp"), pa.array([1, -1], pa.timestamp("ns")), [0, -1]),
        (col("timestamp"), pa.array([1], pa.date32()), [86400]),
        (
            col("timestamp"),
            pd.to_datetime(pd.Series(["1970-01-01 01:00"])).dt.tz_localize("Europe/Paris"),
            [0],
        ),
    ],
)
def test_grid_codes(column, cells, expected):
    assert code_of(cells, column) == expected


@pytest.mark.parametrize(
    ("column", "cells", "values", "expected"),
    [
        (col("text"), text("b", "", "é", "Z", None, "a"), ("Z", "a", "b", "é"), [2, N, 3, 0, N, 1]),
        (col("text"), text("\U0001f600", "\uffff"), ("\uffff", "\U0001f600"), [1, 0]),
        (col("text", nulls=()), text("b", "", None), ("", "b"), [1, 0, N]),
        (col("text"), [1.0, np.nan, 10.0, 2.5], ("1", "10", "2.5"), [0, N, 1, 2]),
        (col("text"), [1, 10, 2], ("1", "10", "2"), [0, 1, 2]),
        (col("text"), pa.array([2**64 - 1], pa.uint64()), (str(2**64 - 1),), [0]),
        (col("category"), text("x", "y", "x").astype("category"), ("x", "y"), [0, 1, 0]),
        (col("category"), pa.array(["x", "y", "x"]).dictionary_encode(), ("x", "y"), [0, 1, 0]),
        (
            col("category", value_type="integer"),
            text("10", "9.0", "", "-1"),
            (-1, 9, 10),
            [2, 1, N, 0],
        ),
        (col("category", value_type="integer"), [10.0, np.nan, 9.0], (9, 10), [1, N, 0]),
        (col("category", value_type="real"), text("-0.0", "0", "2.5"), (0.0, 2.5), [0, 0, 1]),
        (col("category", value_type="decimal"), pa.array([Decimal("2.50"), None]), (2.5,), [0, N]),
        (col("category", value_type="boolean"), text("1", "false", ""), (False, True), [1, 0, N]),
        (
            col("category", value_type="date"),
            text("2020-01-02", "1890-01-01"),
            (dt.date(1890, 1, 1), dt.date(2020, 1, 2)),
            [1, 0],
        ),
        (
            col("category", value_type="timestamp"),
            text("2020-01-02 00:00:01", ""),
            (dt.datetime(2020, 1, 2, 0, 0, 1),),
            [0, N],
        ),
        (col("category"), text(None, ""), (), [N, N]),
        (col("text", domain=("b", "a", "c")), text("a", "b"), ("a", "b"), [0, 1]),
    ],
)
def test_dictionaries(column, cells, values, expected):
    cells_in_order = code_of(cells, column)
    frame = pa.table({"v": cells}) if isinstance(cells, pa.Array) else pd.DataFrame({"v": cells})
    found = load(frame, [column]).dictionaries["v"]
    assert found == values
    assert [type(v) for v in found] == [type(v) for v in values]
    assert cells_in_order == expected


def test_sentinels_are_below_every_code():
    assert NULL_CODE < OTHER_CODE < -(2**63) + 2


@pytest.mark.parametrize(
    ("column", "cells", "message"),
    [
        (
            col("integer"),
            text("1", "CANARY"),
            'not whole numbers, as declared \\(kind = "integer"\\)',
        ),
        (col("integer"), [1.5, 2.0], "not whole numbers"),
        (col("integer"), text("1.5"), "not whole numbers"),
        (col("integer"), [True, False], "not whole numbers"),
        (col("integer"), pd.to_datetime(pd.Series(["2020-01-01"])), "not whole numbers"),
        (col("integer"), text("nan"), "not whole numbers"),
        (col("integer"), [1.0, math.inf], "infinite"),
        (col("integer"), text("1", "-inf"), "infinite"),
        (col("integer"), [2.0**53 + 2], r"beyond 2\*\*53"),
        (col("integer"), text(str(2**63 - 1)), "beyond 63 bits"),
        (col("integer"), text("1" + "0" * 400), "beyond 63 bits"),
        (col("integer"), pa.array([2**64 - 1], pa.uint64()), "beyond 63 bits"),
        (col("integer"), pa.array([-(2**63)]), "beyond 63 bits"),
        (col("integer"), pd.Series([2**63, 1], dtype=object), "beyond 63 bits"),
        (col("real", resolution=CENT), text("1", "x"), "not numbers"),
        (col("real", resolution=CENT), text("NaN"), "not numbers"),
        (col("real", resolution=CENT), [1.0, -math.inf], "infinite"),
        (col("real", resolution=CENT), [1e300], "beyond 63 bits"),
        (col("real", resolution=CENT), text("1e400"), "beyond 63 bits"),
        (col("real", resolution=CENT), [True], "not numbers"),
        (col("decimal", resolution=CENT), text("x"), "not decimal numbers"),
        (col("decimal", resolution=CENT), [math.inf], "infinite"),
        (col("decimal", resolution=CENT), text(str(2**63)), "beyond 63 bits"),
        (col("decimal", resolution=CENT), [True], "not decimal numbers"),
        (col("boolean"), text("true", "maybe"), "not true, false, 1 or 0"),
        (col("boolean"), [0, 2], "not true, false, 1 or 0"),
        (col("boolean"), text("2020-01-01"), "not true"),
        (col("date"), text("2020-13-01"), "not dates"),
        (col("date"), text("2020-01-01 10:00:00"), "not dates"),
        (col("date"), text("infinity"), "infinite"),
        (col("date"), [20200101], "not dates"),
        (col("date"), pd.to_datetime(pd.Series(["2020-01-01 10:00"])), "not dates"),
        (col("timestamp"), text("yesterday"), "not timestamps"),
        (col("timestamp"), text("-infinity"), "infinite"),
        (col("timestamp"), [1.5], "not timestamps"),
        (
            col("category", value_type="integer"),
            text("1", "x"),
            r'whole numbers, as declared \(type = "integer"\)',
        ),
        (col("category", value_type="real"), [math.inf], "infinite"),
        (col("category", value_type="date"), text("x"), "not dates"),
        (col("category", value_type="boolean"), [5], "not true"),
        (col("text"), [math.inf], "infinite"),
        (col("text"), pa.array([{"a": 1}]), "is of type STRUCT, which cannot be read"),
        (col("text"), pa.array([b"x"]), "is of type BLOB, which cannot be read"),
        (col("text", domain=("a",)), text("a", "CANARY"), 'outside its declared "domain"'),
        (
            col("category", value_type="integer", domain=(1, 2)),
            text("3"),
            'outside its declared "domain"',
        ),
        (col("integer", bounds=(0, 5)), [0, 6], r'"domain" \(min, max\)'),
        (col("real", resolution=CENT, bounds=(0.5, 1.5)), [0.4, 1.0], r'"domain" \(min, max\)'),
        (
            col("date", bounds=(DAY, dt.date(2020, 1, 1))),
            text("1969-12-31"),
            r'"domain" \(min, max\)',
        ),
        (col("integer"), pd.Series([1, "CANARY"], dtype=object), "several Python types"),
        (col("text"), pd.Series([1, 2.5], dtype=object), "whole and other numbers"),
    ],
)
def test_cells_that_do_not_fit(column, cells, message):
    frame = pa.table({"v": cells}) if isinstance(cells, pa.Array) else pd.DataFrame({"v": cells})
    with pytest.raises(DataError, match=message) as caught:
        load(frame, [column])
    assert str(caught.value).startswith("column 'v': ")
    assert "CANARY" not in str(caught.value)


def test_values_within_the_declared_bounds():
    assert code_of([0, None, 5], col("integer", bounds=(0, 5))) == [0, N, 5]
    assert code_of([None, None], col("integer", bounds=(0, 5))) == [N, N]


@pytest.mark.parametrize(
    "column",
    [
        col("integer"),
        col("real", resolution=CENT),
        col("decimal", resolution=CENT),
        col("boolean"),
        col("date"),
        col("timestamp"),
        col("text"),
        col("category", value_type="date"),
    ],
)
def test_an_all_null_column_fits_every_kind(column):
    for cells in ([None, None], [np.nan, np.nan], text("", None), pa.array([None, None])):
        assert code_of(cells, column) == [N, N]


def test_all_problems_are_told_together():
    frame = pd.DataFrame({"a": ["x"], "b": [math.inf], "c": [1], "id": [None]})
    columns = [
        col("integer", "a"),
        col("real", "b", resolution=CENT),
        col("integer", "c", bounds=(2, 3)),
    ]
    with pytest.raises(DataError) as caught:
        load(frame, [*columns, col("text", "id")], ["id"])
    lines = str(caught.value).splitlines()
    assert [line.split("'")[1] for line in lines] == ["a", "b", "id"]
    frame = pd.DataFrame({"a": ["x"], "c": [1]})
    with pytest.raises(DataError) as caught:
        load(frame, [col("text", "a", domain=("y",)), columns[2]])
    assert len(str(caught.value).splitlines()) == 2


def test_missing_columns_are_told_at_once():
    with pytest.raises(SpecError) as caught:
        load(
            pd.DataFrame({"a": [1], "b": [2]}),
            [col("text", name) for name in ("a", "x", "y")],
            ["z"],
        )
    assert len(caught.value.problems) == 3
    assert all("has: a, b" in problem for problem in caught.value.problems)


def test_an_entity_column_must_be_declared():
    with pytest.raises(SpecError, match=r"columns\.b: the entity column is not declared"):
        load(pd.DataFrame({"a": [1], "b": [2]}), [col("text", "a")], ["b"])


def test_entities_are_numbered_and_listed():
    frame = pd.DataFrame({"h": [7, 7, 9, 0], "p": ["x", "0", "y", "x"], "v": [1, 2, 3, 4]})
    ingested = load(frame, [col("integer"), col("integer", "h"), col("text", "p")], ["p", "h"])
    assert [c.name for c in ingested.columns] == ["v"]
    assert ingested.sql_names == {"v": "c0"}
    assert ingested.entity_names == ("p", "h")
    assert ingested.n_rows == 4
    ids = [[v for chunk in ingested.entity_ids(j, chunk=2) for v in chunk] for j in (0, 1)]
    assert set(ids[0]) == {"x", "0", "y"}
    assert set(ids[1]) == {7, 9, 0}
    found = ingested.con.execute("SELECT c0, e0, e1 FROM rows ORDER BY c0").fetchall()
    assert [(v, ids[0][p], ids[1][h]) for v, p, h in found] == [
        (1, "x", 7),
        (2, "0", 7),
        (3, "y", 9),
        (4, "x", 0),
    ]
    tables = {
        name
        for (name,) in ingested.con.execute("SELECT table_name FROM duckdb_tables()").fetchall()
    }
    assert tables == {"rows", "entity_0", "entity_1"}


@pytest.mark.parametrize(
    ("cells", "value_type", "expected"),
    [
        ([1.0, 2.0], "integer", {1, 2}),
        ([1.5, -0.0], "real", {1.5, 0.0}),
        ([True, False], "boolean", {True, False}),
        (text("2020-01-01", "2020-01-02"), "date", {dt.date(2020, 1, 1), dt.date(2020, 1, 2)}),
        (pa.array([b"x", b"y"]), "text", {b"x", b"y"}),
        (text("0", "é"), "text", {"0", "é"}),
        (pa.array([2**64 - 1, 0], pa.uint64()), "text", {str(2**64 - 1), "0"}),
    ],
)
def test_types_of_entity_ids(cells, value_type, expected):
    frame = pa.table({"v": cells}) if isinstance(cells, pa.Array) else pd.DataFrame({"v": cells})
    kind = value_type if value_type != "decimal" else "real"
    ingested = load(frame, [col(kind, value_type=value_type)], ["v"])
    found = {value for chunk in ingested.entity_ids(0) for value in chunk}
    assert found == expected
    assert {type(v) for v in found} == {type(v) for v in expected}


@pytest.mark.parametrize("cells", [text("a", None), text("a", ""), text("a", "N")])
def test_null_entity_ids_are_refused_without_a_number(cells):
    with pytest.raises(
        DataError, match="an entity id is null; every row must name its entity"
    ) as caught:
        load(pd.DataFrame({"v": cells}), [col("text", nulls=("N", ""))], ["v"])
    assert not any(sign.isdigit() for sign in str(caught.value))


def test_float_ids_that_are_null_or_too_large():
    with pytest.raises(DataError, match="entity id is null"):
        load(pd.DataFrame({"v": [1.0, np.nan]}), [col("integer")], ["v"])
    with pytest.raises(DataError, match=r"beyond 2\*\*53"):
        load(pd.DataFrame({"v": [1.0, 2.0**60]}), [col("integer")], ["v"])


def test_more_columns_than_rows_and_one_row():
    names = [f"n{number:03d}" for number in range(300)]
    ingested = load(
        pd.DataFrame([list(range(300))], columns=names), [col("integer", name) for name in names]
    )
    assert ingested.con.execute("SELECT * FROM rows").fetchone() == tuple(range(300))
    assert ingested.sql_names["n007"] == "c7"


def test_long_values_weird_names_and_many_categories(tmp_path):
    names = ["a b", "SELECT", 'he said "hi"', "it's", "x.y", "größe"]
    frame = pd.DataFrame({name: ["x" * 10_000, f"y{number}"] for number, name in enumerate(names)})
    frame.to_csv(tmp_path / "d.csv", index=False)
    ingested = load_csv(tmp_path / "d.csv", [col("text", name) for name in names])
    assert ingested.dictionaries["it's"] == ("x" * 10_000, "y3")
    assert [c.name for c in ingested.columns] == sorted(names)
    many = pd.DataFrame({"v": [f"v{number:06d}" for number in range(100_000)]})
    ingested = load(many, [col("category")])
    assert ingested.dictionaries["v"] == tuple(many["v"])
    assert codes(ingested)[::999] == list(range(100_000))[::999]


OUR_NAMES = [
    "cell",
    "n",
    "m",
    "v",
    "value",
    "source",
    "rows",
    "id",
    "c0",
    "e0",
    "frame",
    "c0_null",
    "rowid",
]


def test_columns_named_like_ours(tmp_path):
    frame = pd.DataFrame({name: [f"{name}1", f"{name}2"] for name in OUR_NAMES})
    with duckdb.connect(tmp_path / "d.duckdb") as other:
        other.register("f", frame)
        other.execute(
            "CREATE TABLE source AS SELECT * FROM f; CREATE TABLE rows AS SELECT * FROM f"
        )
    columns = [col("text", name) for name in OUR_NAMES]
    con = connection()
    spec = SourceSpec(path=str(tmp_path / "d.duckdb"), format="duckdb", table="source")
    of_file = ingest(con, open_source(con, spec), tuple(columns), ("id",))
    for found in (load(frame, columns, ["id"]), of_file):
        assert found.dictionaries["cell"] == ("cell1", "cell2")
        assert codes(found, "rowid") == codes(found, "value")
        assert sorted(codes(found, "c0_null")) == [0, 1]
    con.close()


def test_canaries_are_in_no_message(tmp_path):
    (tmp_path / "d.csv").write_text("id,CANARYNAME,v\nCANARY1,CANARY2,CANARY3\n,CANARY4,5\n")
    for kind in ("integer", "real", "decimal", "boolean", "date", "timestamp"):
        with pytest.raises(DataError) as caught:
            load_csv(
                tmp_path / "d.csv",
                [
                    col(kind, resolution=CENT),
                    col("text", "id"),
                    col("text", "CANARYNAME", domain=("x",)),
                ],
                ["id"],
            )
        error = caught.value
        assert "CANARY" not in str(error).replace("CANARYNAME", "")
        assert error.__context__ is None
        assert error.__cause__ is None


def three_ways(tmp_path, frame, columns, entities=()):
    """Sorted rows, dictionaries spelled out, from CSV, Parquet and pandas."""
    frame.to_csv(tmp_path / "d.csv", index=False)
    pq.write_table(pa.Table.from_pandas(frame, preserve_index=False), tmp_path / "d.parquet")
    out = []
    for source, given_frame in (
        (SourceSpec(path=str(tmp_path / "d.csv"), format="csv"), None),
        (SourceSpec(path=str(tmp_path / "d.parquet"), format="parquet"), None),
        (SourceSpec(path=None, format="frame"), frame),
        (SourceSpec(path=None, format="frame"), pa.Table.from_pandas(frame)),
    ):
        con = connection()
        found = ingest(con, open_source(con, source, given_frame), tuple(columns), entities)
        out.append((sorted(con.execute("SELECT * FROM rows").fetchall()), found.dictionaries))
        con.close()
    return out


@settings(max_examples=25, deadline=None)
@given(
    cells=st.lists(
        st.tuples(
            st.none() | st.integers(-(2**53), 2**53),
            st.none() | st.floats(-1e9, 1e9),
            st.none() | st.decimals(-1000, 1000, places=4),
            st.none() | st.booleans(),
            st.none() | st.dates(dt.date(1, 1, 1), dt.date(9999, 12, 31)),
            st.none() | st.datetimes(dt.datetime(1700, 1, 1), dt.datetime(2250, 1, 1)),
            st.none()
            | st.text(st.characters(codec="utf-8", exclude_characters="\0\r"), min_size=1),
        ),
        min_size=1,
        max_size=12,
    )
)
def test_csv_parquet_pandas_and_arrow_give_the_same_codes(tmp_path_factory, cells):
    frame = pd.DataFrame(cells, columns=list("irdbatx"), dtype=object)
    frame["i"] = frame["i"].astype("Int64")
    frame["r"] = frame["r"].astype(float)
    frame["b"] = frame["b"].astype("boolean")
    frame["t"] = pd.to_datetime(frame["t"])
    frame["x"] = frame["x"].astype("str")
    if frame["d"].isna().all():
        frame["d"] = frame["d"].astype(float)
    columns = [
        col("integer", "i"),
        col("real", "r", resolution=CENT),
        col("decimal", "d", resolution=CENT),
        col("boolean", "b"),
        col("date", "a"),
        col("timestamp", "t"),
        col("text", "x"),
    ]
    first, *others = three_ways(tmp_path_factory.mktemp("ways"), frame, columns)
    assert all(other == first for other in others)


@settings(max_examples=60, deadline=None)
@given(
    st.lists(st.floats(-1e12, 1e12), min_size=1, max_size=30),
    st.sampled_from([CENT, EIGHTH, THOUSAND]),
)
def test_reals_are_rounded_half_to_even(values, step):
    factor = float(step.base ** abs(step.exponent))
    scaled = np.array(values) * factor if step.exponent < 0 else np.array(values) / factor
    column = col("real", resolution=step)
    assert code_of(values, column) == np.rint(scaled).astype(np.int64).tolist()
    assert [grid_code(column, value) for value in values] == np.rint(scaled).astype(
        np.int64
    ).tolist()


@pytest.mark.parametrize(
    ("column", "value", "expected"),
    [
        (col("integer"), 5, 5),
        (col("boolean"), True, 1),
        (col("date"), dt.date(1969, 12, 31), -1),
        (col("timestamp"), dt.datetime(1970, 1, 1, 0, 0, 1, 900_000), 1),
        (col("timestamp"), dt.datetime(1969, 12, 31, 23, 59, 59, 500_000), -1),
        (col("timestamp"), dt.date(1970, 1, 2), 86400),
        (col("decimal", resolution=CENT), 1.015, 102),
        (col("decimal", resolution=CENT), -12.3, -1230),
        (col("decimal", resolution=THOUSAND), 2500, 2),
        (col("real", resolution=CENT), 0.125, 12),
    ],
)
def test_codes_of_spec_values(column, value, expected):
    assert grid_code(column, value) == expected


def test_classes_of_types():
    assert cell_class("DECIMAL(18,3)") == "decimal"
    assert cell_class("ENUM('a', 'b')") == "text"
    assert cell_class("STRUCT(a INTEGER)") == cell_class("INTEGER[]") == "other"


def test_a_source_larger_than_memory_streams(tmp_path):
    # Two million rows in 150 MB: a copy of all cells as text would not fit.
    path = tmp_path / "big.parquet"
    with duckdb.connect() as maker:
        maker.execute(
            f"COPY (SELECT i AS id, hash(i) % 90 AS a, 't' || (hash(i + 1) % 50) AS b, "
            f"(hash(i + 2) % 100000) / 100 AS c FROM range(2000000) t(i)) TO '{path}'"
        )
    con = duckdb.connect(
        ":memory:", config={"memory_limit": "150MB", "temp_directory": str(tmp_path / "t")}
    )
    con.execute(
        f"ATTACH '{tmp_path / 'work.duckdb'}' AS work; USE work; SET preserve_insertion_order = false"
    )
    source = open_source(con, SourceSpec(path=str(path), format="parquet"))
    ingested = ingest(
        con, source, (col("integer", "a"), col("text", "b"), col("real", "c", resolution=CENT)), ()
    )
    assert ingested.n_rows == 2_000_000
    assert len(ingested.dictionaries["b"]) == 50
    con.close()


@pytest.mark.nist
def test_the_nist_file():
    path = Path(__file__).resolve().parent.parent.parent / "shared" / "nist" / "national2019.csv"
    if not path.exists():
        pytest.skip("the NIST excerpt is not beside the checkout")
    names = path.read_text().partition("\n")[0].split(",")
    columns = [
        col("category", name, nulls=("N",)) for name in names if name not in ("PINCP", "AGEP")
    ]
    columns += [col("integer", "PINCP", nulls=("N",)), col("integer", "AGEP", nulls=("N",))]
    ingested = load_csv(path, columns)
    assert ingested.n_rows == 27_253
    assert ingested.dictionaries["SEX"] == ("1", "2")
    frame = pd.read_csv(path, usecols=["PINCP"], na_values=["N"])
    short = ingested.sql_names["PINCP"]
    total = ingested.con.execute(
        f"SELECT sum({short}) FILTER ({short} <> {N}) FROM rows"
    ).fetchone()
    assert total == (int(frame["PINCP"].sum()),)
