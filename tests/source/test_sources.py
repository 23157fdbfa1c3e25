"""CSV, Parquet, DuckDB and data frames as sources: what is read, and what is refused in our words only."""

from __future__ import annotations

import duckdb
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from fixtures.source import connection

from engine.errors import DataError, SpecError, StoreError
from engine.schema import SourceSpec
from engine.source import fetch, open_source
from engine.source.detection import make_spec

WEIRD = ["a b", "SELECT", 'he said "hi"', "it's", "x.y", "größe", "{n}", "%s"]


@pytest.fixture
def con():
    with duckdb.connect(":memory:", config={"python_enable_replacements": "false"}) as connection:
        connection.execute("SET TimeZone = 'UTC'")
        yield connection


def opened(con, path, **kwargs):
    suffix = str(path).partition(".")[2]
    form = {"csv": "csv", "csv.gz": "csv", "parquet": "parquet", "duckdb": "duckdb"}[suffix]
    return open_source(con, SourceSpec(path=str(path), format=form, **kwargs))


def framed(con, frame):
    return open_source(con, SourceSpec(path=None, format="frame"), frame)


def rows(con):
    return con.execute("SELECT * FROM source").fetchall()


def write(path, text):
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return path


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "the file is empty"),
        ("a,b\n", "has no rows"),
        ("a,b\n1\n", "more or fewer fields"),
        ('a,b\n"1,2\n3,4\n', "a quoted field is not closed, .*; it is among rows 1 to 1,000"),
        (
            'a,b\n"x"y,2\n',
            "a quoted field is not closed, or has text after .*; it is among rows 1 to 1,000",
        ),
        (
            'a,b\n"1\n1",2\n"3,4\n',
            "a quoted field is not closed, .*; it is among rows 1 to 1,000, the header",
        ),
        ("a,b\r\n1,2\n3,4\r\n", "its lines end in different ways"),
        ("a,b\n" + "1,2\n" * 5_000 + "3,4\r\n", "its lines end in different ways"),
        ("a,a\n1,2\n", "'a' and 'a' are the same"),
        ("a,A\n1,2\n", "'a' and 'A' are the same"),
        ("a,,c, \n1,2,3,4\n", "column 2 has no name"),
        (b"a,b\n\xe9,2\n", "is not UTF-8"),
        (b"a,b\n" + b"1,2\n" * 100_000 + b"\xe9,2\n", "is not UTF-8"),
        ("a,b\n1," + "x" * 3_000_000 + "\n", "longer than 2 MB"),
        ("x" * 200_000 + ",b\n1,2\n", "first line is not CSV"),
    ],
)
def test_bad_csv(con, tmp_path, text, message):
    with pytest.raises(DataError, match=message):
        opened(con, write(tmp_path / "d.csv", text))


def test_of_a_file_that_was_cut_off_the_message_does_not_give_the_number_of_rows(con, tmp_path):
    path = write(tmp_path / "d.csv", "a,b\n" + "1,2\n" * 2_345 + "9")
    with pytest.raises(DataError, match="among lines 2,001 to 3,000") as refused:
        opened(con, path)
    assert "2345" not in str(refused.value)


def test_weird_names_from_every_source(con, tmp_path):
    frame = pd.DataFrame({name: [str(number)] for number, name in enumerate(WEIRD)})
    frame.to_csv(tmp_path / "d.csv", index=False)
    pq.write_table(pa.Table.from_pandas(frame), tmp_path / "d.parquet")
    with duckdb.connect(tmp_path / "d.duckdb") as other:
        other.register("f", frame)
        other.execute("CREATE TABLE t AS SELECT * FROM f")
    for name in ("d.csv", "d.parquet", "d.duckdb"):
        assert opened(con, tmp_path / name).columns == tuple(WEIRD)
        assert rows(con) == [tuple("01234567")]
        kind = "TABLE" if name == "d.csv" else "VIEW"
        con.execute(f"DROP {kind} source")
    assert framed(con, frame).columns == tuple(WEIRD)


def test_parquet_glob_unites_by_name(con, tmp_path):
    pq.write_table(pa.table({"a": [1], "b": ["x"]}), tmp_path / "p1.parquet")
    pq.write_table(pa.table({"b": ["y"], "c": [2.5]}), tmp_path / "p2.parquet")
    source = opened(con, tmp_path / "p*.parquet")
    assert source.columns == ("a", "b", "c")
    assert sorted(rows(con), key=str) == [(1, "x", None), (None, "y", 2.5)]


def test_bad_parquet(con, tmp_path):
    path = tmp_path / "d.parquet"
    path.touch()
    with pytest.raises(DataError, match="the file is empty"):
        opened(con, path)
    pq.write_table(pa.table({"a": list(range(1000))}), path)
    whole = path.read_bytes()
    for n_bytes in (len(whole) // 2, len(whole) - 1, 3, 20):
        path.write_bytes(whole[:n_bytes])
        with pytest.raises(DataError, match="cut, damaged or of another format"):
            opened(con, path)
    pq.write_table(pa.table({"a": pa.array([], pa.int64())}), path)
    with pytest.raises(DataError, match="has no rows"):
        opened(con, path)


def test_tables_of_a_duckdb_file(con, tmp_path):
    path = tmp_path / "d.duckdb"
    with duckdb.connect(path) as other:
        other.execute(
            "CREATE SCHEMA s; CREATE TABLE t AS SELECT 1 AS a; CREATE TABLE s.u AS SELECT 2 AS b"
        )
        other.execute("CREATE VIEW v AS SELECT 3 AS c")
    for table, answer in (("t", 1), ("main.t", 1), ("s.u", 2), ("v", 3)):
        opened(con, path, table=table)
        assert rows(con) == [(answer,)]
    for table in ("x", None, "u"):
        with pytest.raises(SpecError, match=r"holds: t, v, s\.u"):
            opened(con, path, table=table)


def test_the_duckdb_file_is_not_written(con, tmp_path):
    path = tmp_path / "d.duckdb"
    with duckdb.connect(path) as other:
        other.execute("CREATE TABLE t AS SELECT 1 AS a")
    before = path.read_bytes()
    opened(con, path)
    with pytest.raises(duckdb.Error, match="read-only"):
        con.execute("INSERT INTO tablepack_source.t VALUES (2)")
    assert path.read_bytes() == before


def test_pandas_columns_that_cannot_be_read_are_set_aside(con):
    frame = pd.DataFrame(
        {
            "ok": [1, 2],
            "mixed": [1, "CANARY"],
            "flag": pd.Series([True, 1], dtype=object),
            "lists": [[1], [2]],
            "numbers": pd.Series([1, 2.5], dtype=object),
            "period": pd.period_range("2020", periods=2, freq="Y"),
            "complex": [1j, 2j],
            "sparse": pd.array([1, 2], dtype="Sparse[int64]"),
        }
    )
    source = framed(con, frame)
    assert set(source.unreadable) == {"mixed", "flag", "lists", "complex"}
    assert source.mixed_numbers == {"numbers"}
    assert "CANARY" not in str(source.unreadable)
    assert source.columns == tuple(frame.columns)


@pytest.mark.parametrize(
    ("frame", "error", "message"),
    [
        (pd.DataFrame({1: [1]}), DataError, "must be text"),
        (pd.DataFrame([[1, 2]], columns=["a", "A"]), DataError, "the same"),
        (pd.DataFrame([[1, 2]], columns=["a", "a"]), DataError, "the same"),
        (pd.DataFrame({"": [1]}), DataError, "column 1 has no name"),
        (pd.DataFrame({"a": []}), DataError, "has no rows"),
        (pd.DataFrame(), DataError, "has no columns"),
        (pa.table([pa.array([1]), pa.array([2])], names=["a", "a"]), DataError, "the same"),
        ([1, 2], SpecError, "must be a path"),
        (None, SpecError, "must be a path"),
    ],
)
def test_bad_frames(con, frame, error, message):
    with pytest.raises(error, match=message):
        framed(con, frame)


def test_errors_are_told_in_our_words_only(con):
    with pytest.raises(DataError, match="cannot be read") as caught:
        fetch(con, "SELECT CAST('CANARY' AS INTEGER)", "here")
    error = caught.value
    assert "CANARY" not in str(error)
    assert error.__context__ is None
    assert error.__cause__ is None
    con.execute("SET memory_limit = '10MB'; SET temp_directory = ''")
    with pytest.raises(StoreError, match="memory or the scratch disk is full"):
        fetch(con, "SELECT list(i) FROM range(30000000) t(i) GROUP BY i % 1000000", "here")


def frame(**columns):
    return pd.DataFrame({"sex": ["f", "m"] * 150} | columns)


def taken(held):
    con = connection()
    opened = open_source(con, SourceSpec(path=None, format="frame"), held)
    return opened, [
        v for (v,) in con.execute("SELECT DISTINCT v FROM source ORDER BY v").fetchall()
    ]


def test_columns_of_frames_keep_their_meaning():
    vienna = pd.Timestamp("2021-07-01 08:00", tz="Europe/Vienna")
    of_arrow = pd.ArrowDtype(pa.timestamp("us", "Europe/Vienna"))
    for held in (
        frame(v=[vienna] * 300),
        frame(v=pd.Series([vienna] * 300, dtype=of_arrow)),
        pa.Table.from_pandas(frame(v=[vienna] * 300)),
    ):
        assert taken(held)[1] == [vienna.tz_localize(None)]
    assert taken(frame(v=pd.period_range("2021-01", periods=300, freq="M")))[1][1].month == 2
    assert taken(frame(v=pd.to_timedelta([90] * 300, unit="s")))[1] == [90.0]
    assert taken(frame(v=pd.arrays.SparseArray([1] * 300)))[1] == [1]
    bands = pd.cut(pd.Series(range(300)), [-1, 150, 300])
    opened, values = taken(frame(v=bands))
    assert values == ["(-1, 150]", "(150, 300]"]
    assert opened.orders == {"v": ("(-1, 150]", "(150, 300]")}
    assert taken(frame(v=bands.astype(object)))[1] == ["(-1, 150]", "(150, 300]"]


@pytest.mark.parametrize("as_arrow", [False, True])
def test_ordered_categoricals_keep_their_order(as_arrow):
    order = ["low", "mid", "high"]
    held = frame(v=pd.Categorical(order * 100, categories=order, ordered=True))
    spec = make_spec(
        pa.Table.from_pandas(held) if as_arrow else held,
        tables=1,
        key="k",
        entities=[],
        check_key=False,
    )
    column = next(c for c in spec.columns if c.name == "v")
    assert column.domain == ("low", "mid", "high")
    assert (column.public, "domain" in column.detected) == (False, True)
