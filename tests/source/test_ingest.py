from __future__ import annotations

import datetime as dt
import math

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from fixtures.source import CENT, N, code_of, col, connection, load, text
from hypothesis import given, settings
from hypothesis import strategies as st

import engine.source.ingest
from engine.errors import DataError
from engine.schema import SourceSpec, Writing
from engine.source import open_source
from engine.source.ingest import ingest
from engine.source.relation import Source

DAY = dt.date(1970, 1, 1)


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


@pytest.mark.ci
@pytest.mark.parametrize(
    ("column", "cells", "message"),
    [
        (
            col("integer"),
            text("1", "CANARY"),
            'not whole numbers, as declared or detected \\(kind = "integer"\\)',
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
        (
            col("date"),
            text("2020-13-01"),
            r"not dates \(YYYY-MM-DD\), .* want date_format, such as",
        ),
        (
            col("date", writing=Writing(date_format="%m/%d/%Y")),
            text("31/12/2020"),
            'not dates written as date_format = "%m/%d/%Y" has it, .* want date_format',
        ),
        (col("real", resolution=CENT), text("1,5"), 'not numbers, .* want decimal, such as ","'),
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
            r'whole numbers, as declared or detected \(type = "integer"\)',
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


@pytest.mark.parametrize(
    ("column", "cells"),
    [
        (col("integer"), text("9876500000000000000000")),
        (col("integer"), [98765e14]),
        (col("integer"), pa.array([9876500000000000000], pa.uint64())),
        (col("integer"), [98765.5]),
        (col("integer"), [98765.0, math.inf]),
        (col("real", resolution=CENT), text("98765e300")),
        (col("real", resolution=CENT), text("98765 kg")),
        (col("date"), text("98765-13-01")),
        (col("integer", bounds=(0, 5)), [98765]),
        (col("category", value_type="integer", domain=(1, 2)), text("98765")),
    ],
)
def test_no_number_of_the_data_is_quoted(column, cells):
    frame = pa.table({"v": cells}) if isinstance(cells, pa.Array) else pd.DataFrame({"v": cells})
    with pytest.raises(DataError) as caught:
        load(frame, [column])
    assert "98765" not in str(caught.value).replace(".", "")


@pytest.mark.ci
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


def test_entities_are_numbered_and_listed():
    frame = pd.DataFrame({"h": [7, 7, 9, 0], "p": ["x", "0", "y", "x"], "v": [1, 2, 3, 4]})
    ingested = load(frame, [col("integer"), col("integer", "h"), col("text", "p")], ["p", "h"])
    assert [c.name for c in ingested.columns] == ["v"]
    assert ingested.sql_names == {"v": "c0"}
    assert ingested.entity_names == ("p", "h")
    assert ingested.n_rows == 4
    ids = [[v for chunk in ingested.entity_ids(j, chunk=2) for v in chunk] for j in (0, 1)]
    assert ingested.own_ids == frozenset()
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


@pytest.mark.parametrize("cells", [text("a", None), text("a", ""), text("a", "N")])
def test_null_entity_ids_are_refused_without_a_number(cells):
    with pytest.raises(DataError, match="an entity id is null") as caught:
        load(pd.DataFrame({"v": cells}), [col("text", nulls=("N", ""))], ["v"])
    assert not any(sign.isdigit() for sign in str(caught.value))


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


@pytest.mark.ci
@settings(max_examples=5)
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


def test_a_source_whose_ids_change_between_two_looks_is_refused(monkeypatch):
    make = engine.source.ingest._store

    def another(con, select, coded, place):
        make(con, select, coded, place)
        con.execute("UPDATE rows SET e0 = 4 WHERE e0 = 7")

    monkeypatch.setattr(engine.source.ingest, "_store", another)
    with pytest.raises(DataError, match="changed while it was read; build again"):
        load(pd.DataFrame({"who": [4, 7, 9]}), [col("integer", "who")], ["who"])


@pytest.mark.parametrize(
    ("value_type", "domain", "cells"),
    [
        ("time", (dt.time(6), dt.time(14)), ["06:00:00", "14:00", None, "22:00", "noon"]),
        ("text", ("b", "a"), ["a", "b", None, "c", "d"]),
        ("integer", (10, 9), ["9", "10", None, "11", "x"]),
    ],
)
def test_values_outside_a_domain_have_no_code_in_mode_dp(value_type, domain, cells):
    column = col("category", value_type=value_type, domain=domain)
    con = connection()
    con.register("source", pd.DataFrame({"v": text(*cells)}))
    source = Source(columns=("v",), types={"v": "VARCHAR"})
    found = ingest(con, source, (column,), settle="drop")
    assert found.dictionaries["v"] == tuple(sorted(domain))
    assert found.unsettled["column v"] == 2
    assert codes(found) == [0, 1, N]


@pytest.mark.ci
def test_hundreds_of_columns_of_values_are_coded_in_one_look():
    rng = np.random.default_rng(3)
    held = {
        "text": [" ", "a", "A", "ä", "b b", "'"],
        "integer": [-7, 0, 3, 10, 200, 2**62],
        "real": [-0.5, 0.1, 1 / 3, 2.0, 1e300, 5e-324],
        "boolean": [False, True],
    }
    kinds = [list(held)[j % 4] for j in range(300)]
    frame = pd.DataFrame({f"v{j}": rng.choice(held[kind], 40) for j, kind in enumerate(kinds)})
    frame.loc[::9, "v0"] = None
    columns = [col("category", f"v{j}", value_type=kind) for j, kind in enumerate(kinds)]
    found = load(frame, columns)
    for name, values in found.dictionaries.items():
        assert list(values) == sorted(values)
        cells = [None if code == N else values[code] for code in codes(found, name)]
        assert cells == [None if pd.isna(cell) else cell for cell in frame[name].tolist()]
