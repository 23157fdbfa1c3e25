"""Bad input, end to end: a clear error and exit code 2 or 3, no value of the data in it, nothing half-written.
And odd input that must work."""

from __future__ import annotations

import datetime
import itertools
import os
import shutil

import duckdb
import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from fixtures.pipeline import (
    CENSUS,
    counts,
    table_hashes,
    tablepack,
    write_spec,
)
from fixtures.refused import CANARY, NUMBER_CANARY, check_refused

import engine
from engine.cli import main

INTEGER = {"kind": "integer"}
CATEGORY = {"kind": "category"}
TEXT = {"kind": "text"}


def build(folder, scratch, source, columns, tables=None, *, entities=(), out="r.duckdb", **more):
    """Build from a source file; gives how the command ended."""
    tables = tables or [(name,) for name in columns if name not in entities]
    spec = write_spec(folder, source, columns, tables, entities=entities, **more)
    return tablepack("build", spec, "-o", out, cwd=folder, tmp=scratch)


def csv_file(folder, text, name="d.csv"):
    (folder / name).write_text(text, encoding="utf-8")
    return name


def many(n=60, **columns):
    """A CSV text of n rows, each column given by a function of the row's number."""
    rows = [",".join(columns)]
    rows += [",".join(str(make(i)) for make in columns.values()) for i in range(n)]
    return "\n".join(rows) + "\n"


# Refused: files.


@pytest.mark.parametrize("name", ["d.csv", "d.parquet", "d.duckdb"])
def test_an_empty_file(tmp_path, scratch, name):
    (tmp_path / name).touch()
    done = build(tmp_path, scratch, name, {"x": INTEGER})
    check_refused(done, tmp_path, scratch, said="empty")


@pytest.mark.parametrize("kind", ["csv", "parquet", "duckdb"])
def test_a_header_only(tmp_path, scratch, kind):
    name = f"d.{kind}"
    if kind == "csv":
        csv_file(tmp_path, "x\n")
    elif kind == "parquet":
        pq.write_table(pa.table({"x": pa.array([], pa.int64())}), tmp_path / name)
    else:
        with duckdb.connect(str(tmp_path / name)) as con:
            con.execute("CREATE TABLE t (x BIGINT)")
    done = build(tmp_path, scratch, name, {"x": INTEGER})
    check_refused(done, tmp_path, scratch, said="has no rows")


def test_one_row(tmp_path, scratch):
    source = csv_file(tmp_path, f"x,y\n{NUMBER_CANARY},{CANARY}\n")
    done = build(tmp_path, scratch, source, {"x": INTEGER, "y": TEXT})
    check_refused(done, tmp_path, scratch, code=3, said="fewer entities than privacy.threshold")


@pytest.mark.parametrize("share", [0.02, 0.5, 0.97])
def test_a_truncated_parquet_file(tmp_path, scratch, share):
    frame = pd.DataFrame({"x": [CANARY] * 500 + ["a"] * 500})
    frame.to_parquet(tmp_path / "d.parquet")
    data = (tmp_path / "d.parquet").read_bytes()
    (tmp_path / "d.parquet").write_bytes(data[: int(len(data) * share)])
    done = build(tmp_path, scratch, "d.parquet", {"x": CATEGORY})
    check_refused(done, tmp_path, scratch, said="d.parquet")


def test_a_parquet_file_with_a_damaged_page(tmp_path, scratch):
    frame = pd.DataFrame({"x": [f"{CANARY}{i}" for i in range(5_000)]})
    frame.to_parquet(tmp_path / "d.parquet", compression="zstd")
    data = bytearray((tmp_path / "d.parquet").read_bytes())
    data[2_000:2_400] = bytes(400)
    (tmp_path / "d.parquet").write_bytes(data)
    done = build(tmp_path, scratch, "d.parquet", {"x": CATEGORY})
    said = "d.parquet: cannot be read; it may be cut, damaged or of another format"
    check_refused(done, tmp_path, scratch, said=said)
    done = tablepack("init", "d.parquet", "-o", "init.toml", cwd=tmp_path, tmp=scratch)
    check_refused(done, tmp_path, scratch, said=said)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("a,A\n1,2\n", "are the same"),
        ("a,a\n1,2\n", "are the same"),
        ("a,\n1,2\n", "column 2 has no name"),
        (f"a,b\n1,2\n{CANARY}\n", "more or fewer fields"),
        (f'a,b\n1,"{CANARY}\n', "quoted field is not closed"),
        (f"a,b\r\n1,2\r\n3,{CANARY}\n", "lines end in different ways"),
        (f"b,c\n1,{CANARY}\n", "columns.a: not in the source"),
    ],
)
def test_names_and_shapes_of_csv_files(tmp_path, scratch, text, said):
    done = build(tmp_path, scratch, csv_file(tmp_path, text), {"a": TEXT})
    check_refused(done, tmp_path, scratch, said=said)


def test_equal_names_in_a_parquet_file(tmp_path, scratch):
    table = pa.Table.from_arrays([pa.array([1]), pa.array([2])], names=["a", "a"])
    pq.write_table(table, tmp_path / "d.parquet")
    done = build(tmp_path, scratch, "d.parquet", {"a": INTEGER})
    check_refused(done, tmp_path, scratch, said="are the same")


def test_a_csv_file_of_another_encoding(tmp_path, scratch):
    (tmp_path / "d.csv").write_bytes("x\nGöteborg\n".encode("latin-1") * 30)
    done = build(tmp_path, scratch, "d.csv", {"x": CATEGORY})
    check_refused(done, tmp_path, scratch, said="UTF-8")


# Refused: values.


@pytest.mark.parametrize(
    ("value", "column", "said"),
    [
        (CANARY, INTEGER, "not whole numbers"),
        ("12.5", INTEGER, "not whole numbers"),
        (CANARY, {"kind": "real", "resolution": 0.5}, "not numbers"),
        ("inf", {"kind": "real", "resolution": 0.5}, "infinite"),
        ("-Infinity", {"kind": "decimal", "resolution": 0.01}, "infinite"),
        (str(2**63), INTEGER, "beyond 63 bits"),
        (str(-(2**64)), INTEGER, "beyond 63 bits"),
        ("1e300", {"kind": "real", "resolution": 0.001}, "beyond 63 bits"),
        (CANARY, {"kind": "date"}, "not dates"),
        ("2021-02-30", {"kind": "date"}, "not dates"),
        (CANARY, {"kind": "timestamp"}, "not timestamps"),
        (CANARY, {"kind": "boolean"}, "not true, false"),
        (
            CANARY,
            {"kind": "category", "domain": ["a", "1"], "public": True},
            "outside its declared",
        ),
        (
            str(NUMBER_CANARY),
            {"kind": "integer", "domain": {"min": 0, "max": 9}},
            "outside its declared",
        ),
    ],
)
def test_values_that_do_not_fit(tmp_path, scratch, value, column, said):
    good = {"date": "2020-01-05", "timestamp": "2020-01-05 10:00:00", "boolean": "true"}
    usual = good.get(column["kind"], "1")
    source = csv_file(tmp_path, many(x=lambda i: value if i == 40 else usual))
    done = build(tmp_path, scratch, source, {"x": column})
    check_refused(done, tmp_path, scratch, said=said)
    assert "column 'x'" in done.stderr


def test_all_columns_with_mistakes_are_told_at_once(tmp_path, scratch):
    source = csv_file(
        tmp_path, many(x=lambda i: CANARY if i == 3 else i, y=lambda i: f"{CANARY}{i}")
    )
    done = build(tmp_path, scratch, source, {"x": INTEGER, "y": INTEGER})
    check_refused(done, tmp_path, scratch, said="column 'x'")
    assert "column 'y'" in done.stderr


def test_a_null_entity_id(tmp_path, scratch):
    source = csv_file(tmp_path, many(id=lambda i: "" if i in (7, 9) else i, x=lambda i: i % 4))
    done = build(tmp_path, scratch, source, {"id": INTEGER, "x": INTEGER}, entities=("id",))
    check_refused(done, tmp_path, scratch, said="an entity id is null")
    assert "2" not in done.stderr.replace("r.duckdb", "")


def test_mixed_types_of_python_objects(tmp_path, scratch):
    engine.new_key(tmp_path / "my.key")
    frame = pd.DataFrame({"x": [1, CANARY, 2.5, None] * 20, "y": range(80)})
    with pytest.raises(engine.DataError) as refused:
        engine.build(
            frame, out=tmp_path / "r.duckdb", tables=[["x"]], key=tmp_path / "my.key",
            columns=[engine.schema.Column(name="x", kind="category", value_type="text")],
        )  # fmt: skip
    assert CANARY not in str(refused.value)
    assert "mixed types" in str(refused.value)
    assert not (tmp_path / "r.duckdb").exists()


def test_a_float_frame_beyond_2_to_53(tmp_path, scratch):
    engine.new_key(tmp_path / "my.key")
    frame = pd.DataFrame({"x": [float(2**60), 1.0] * 40})
    with pytest.raises(engine.DataError, match=r"beyond 2\*\*53"):
        engine.build(
            frame, out=tmp_path / "r.duckdb", tables=[["x"]], key=tmp_path / "my.key",
            columns=[engine.schema.Column(name="x", kind="integer", value_type="integer")],
        )  # fmt: skip


# Odd, but fine.


def test_an_all_null_column(tmp_path, scratch):
    source = csv_file(tmp_path, many(x=lambda i: "", y=lambda i: i % 3, t=lambda i: ""))
    columns = {"x": INTEGER, "y": INTEGER, "t": TEXT}
    done = build(tmp_path, scratch, source, columns, [("x",), ("t",), ("t", "x", "y")])
    assert done.returncode == 0, done.stderr
    assert set(counts(tmp_path / "r.duckdb", "x")) == {(None,)}
    assert set(counts(tmp_path / "r.duckdb", "t")) == {(None,)}
    assert {row[:2] for row in counts(tmp_path / "r.duckdb", "x", "t", "y")} == {(None, None)}


ODD_NAMES = (
    'has "quotes"', "it's", "dot.ted.name", "with space", "select", "TABLE", "Straße", "年齢", "🙂",
    "per%cent", "sla/sh", "back\\slash", "semi;colon--", "n", "rowid", "[b]markup[/b]", "data", "main",
    "c0", "columns", "-o", "new\tline",
)  # fmt: skip


def test_odd_names_work_to_the_end(tmp_path, scratch):
    frame = pd.DataFrame({name: np.arange(120) % (2 + k % 4) for k, name in enumerate(ODD_NAMES)})
    frame.to_parquet(tmp_path / "d.parquet")
    tables = [(name,) for name in ODD_NAMES]
    tables += [tuple(sorted(pair)) for pair in itertools.pairwise(ODD_NAMES)]
    done = build(tmp_path, scratch, "d.parquet", dict.fromkeys(ODD_NAMES, INTEGER), tables)
    assert done.returncode == 0, done.stderr
    assert set(table_hashes(tmp_path / "r.duckdb")) == set(tables)
    for words in (("show", "r.duckdb"), ("doctor", "r.duckdb"), ("export", "r.duckdb", "csv")):
        done = tablepack(*words, cwd=tmp_path)
        assert done.returncode == 0, done.stderr
    assert len(list((tmp_path / "csv").iterdir())) == len(tables)
    heads = {
        (tmp_path / "csv" / p).read_text().split("\n")[0] for p in os.listdir(tmp_path / "csv")
    }
    assert '"has ""quotes"""' in heads
    with engine.open(tmp_path / "r.duckdb") as release:
        assert set(release.columns) == set(ODD_NAMES)
        for k, name in enumerate(ODD_NAMES):
            spelled = '"' + name.replace('"', '""') + '"'
            rows = release.sql(f"SELECT {spelled}, count(*) FROM data GROUP BY 1").rows
            assert {value for value, _ in rows} >= set(range(2 + k % 4))
            assert release.card(name).columns == (name,)
            assert len(release.table(name)) > 60


def test_odd_names_in_a_csv_file(tmp_path, scratch):
    names = ('has "quotes"', "a,comma", "select", "Straße")
    head = ",".join('"' + name.replace('"', '""') + '"' for name in names)
    source = csv_file(tmp_path, head + "\n" + "1,2,x,y\n" * 50)
    columns = {names[0]: INTEGER, names[1]: INTEGER, names[2]: CATEGORY, names[3]: TEXT}
    done = build(tmp_path, scratch, source, columns, [names])
    assert done.returncode == 0, done.stderr
    assert tablepack("export", "r.duckdb", "csv", cwd=tmp_path).returncode == 0
    (file,) = (tmp_path / "csv").iterdir()
    assert list(pd.read_csv(file).columns) == list(names)


def test_values_of_10_000_characters(tmp_path, scratch):
    long, rare = "x" * 10_000, CANARY * 500
    source = csv_file(tmp_path, many(t=lambda i: rare if i == 5 else long if i % 2 else "y"))
    done = build(tmp_path, scratch, source, {"t": {"kind": "text"}})
    assert done.returncode == 0, done.stderr
    shown = {v for (v,) in counts(tmp_path / "r.duckdb", "t")}
    assert {long, "y"} <= shown
    assert not any(CANARY in v for v in shown)
    assert CANARY.encode() not in (tmp_path / "r.duckdb").read_bytes()


def test_nan_minus_zero_and_large_numbers(tmp_path, scratch):
    big = 2**62 + 12_345
    frame = pd.DataFrame(
        {
            "r": [float("nan"), -0.0, 0.0, 1.5] * 30,
            "i": pd.array([big, -big, 2**53 + 1, 0] * 30, dtype="int64"),
        }
    )
    pq.write_table(pa.Table.from_pandas(frame), tmp_path / "d.parquet")
    columns = {"r": {"kind": "real", "resolution": 0.5}, "i": INTEGER}
    done = build(tmp_path, scratch, "d.parquet", columns, [("r",), ("i",), ("i", "r")])
    assert done.returncode == 0, done.stderr
    shown = counts(tmp_path / "r.duckdb", "r")
    assert set(shown) == {(None,), (0.0,), (1.5,)}
    assert abs(shown[(0.0,)] - 60) < 10
    shown = counts(tmp_path / "r.duckdb", "i")
    assert {(big,), (-big,), (2**53 + 1,), (0,)} <= set(shown)
    assert sum(shown[v,] for v in (big, -big, 2**53 + 1, 0)) >= 96  # noise may fill a row between


def test_dates_of_all_ages(tmp_path, scratch):
    days = ["1066-10-14", "1899-12-31", "1970-01-01", "9999-12-31"]
    text = many(n=160, d=lambda i: days[i % 4], t=lambda i: f"{days[i % 4]} 12:30:00")
    columns = {"d": {"kind": "date"}, "t": {"kind": "timestamp"}}
    done = build(tmp_path, scratch, csv_file(tmp_path, text), columns)
    assert done.returncode == 0, done.stderr
    wanted = {datetime.date.fromisoformat(day) for day in days}
    shown = counts(tmp_path / "r.duckdb", "d")
    assert sum(shown[day,] for day in wanted) >= 136  # noise may fill a row between
    shown = counts(tmp_path / "r.duckdb", "t")
    at = [datetime.datetime.combine(day, datetime.time(12, 30)) for day in wanted]
    assert sum(shown[moment,] for moment in at) >= 136
    assert tablepack("export", "r.duckdb", "csv", cwd=tmp_path).returncode == 0
    assert "1066-10-14" in (tmp_path / "csv" / "d.csv").read_text()


def test_dates_after_9999(tmp_path, scratch):
    """Either shown as they are or refused in words; never cut."""
    with duckdb.connect(str(tmp_path / "d.duckdb")) as con:
        con.execute("CREATE TABLE t AS SELECT DATE '12345-06-07' AS d FROM range(60)")
    done = build(tmp_path, scratch, "d.duckdb", {"d": {"kind": "date"}})
    assert done.returncode == 0, done.stderr
    with duckdb.connect(str(tmp_path / "r.duckdb"), read_only=True) as con:
        assert con.execute("SELECT DISTINCT CAST(d AS VARCHAR) FROM main.d").fetchall() == [
            ("12345-06-07",)
        ]
    answer = tablepack("sql", "r.duckdb", "SELECT d, count(*) FROM data GROUP BY d", cwd=tmp_path)
    assert answer.returncode == 0, answer.stderr
    assert "12345-06-07" in answer.stdout
    exported = tablepack("export", "r.duckdb", "csv", cwd=tmp_path)
    assert exported.returncode == 0
    assert "12345-06-07" in (tmp_path / "csv" / "d.csv").read_text()


def test_100_000_distinct_categories_become_the_placeholder(tmp_path, scratch):
    text = many(n=100_600, c=lambda i: f"v{i}" if i >= 600 else "often", x=lambda i: i % 2)
    source, tables = csv_file(tmp_path, text), [("c",), ("c", "x")]
    done = build(tmp_path, scratch, source, {"c": TEXT, "x": INTEGER}, tables)
    assert done.returncode == 3
    assert "columns.c: nearly every value is of one row only" in done.stderr
    columns = {"c": {**TEXT, "release": "codes of a made-up list"}, "x": INTEGER}
    done = build(tmp_path, scratch, source, columns, tables)
    assert done.returncode == 0, done.stderr
    shown = counts(tmp_path / "r.duckdb", "c")
    assert set(shown) == {("often",), ("(other)",)}
    assert abs(shown[("(other)",)] - 100_000) < 12
    assert b"v12345" not in (tmp_path / "r.duckdb").read_bytes()


def test_entities_of_many_rows(tmp_path, scratch):
    text = many(n=400, id=lambda i: i // 4, x=lambda i: i % 5)
    columns = {"id": INTEGER, "x": INTEGER}
    privacy = {"max_rows": 16}
    source = csv_file(tmp_path, text)
    done = build(tmp_path, scratch, source, columns, [("x",)], entities=("id",), privacy=privacy)
    assert done.returncode == 0, done.stderr
    assert abs(sum(counts(tmp_path / "r.duckdb", "x").values()) - 400) < 60


def test_more_columns_than_rows(tmp_path, scratch):
    names = [f"k{i}" for i in range(60)]
    text = ",".join(names) + "\n" + "".join(",".join("1" * 60) + "\n" for _ in range(25))
    columns = dict.fromkeys(names, INTEGER)
    done = build(
        tmp_path,
        scratch,
        csv_file(tmp_path, text),
        columns,
        [(n,) for n in names[:50]] + [names[50:54]],
    )
    assert done.returncode == 0, done.stderr
    assert set(counts(tmp_path / "r.duckdb", "k3")) == {(1,)}


# Keys.


@pytest.mark.parametrize(
    ("harm", "said"),
    [
        (lambda key: key.unlink(), "does not exist"),
        (lambda key: key.write_bytes(b"short"), "32 bytes"),
        (lambda key: key.chmod(0o640), "can be read by others"),
        (lambda key: (key.unlink(), key.mkdir()), "is not a regular file"),
        (
            lambda key: (key.rename(key.with_name("k")), key.symlink_to("k")),
            "is not a regular file",
        ),
    ],
    ids=["missing", "short", "readable by others", "a folder", "a link"],
)
def test_keys(tmp_path, census_spec, scratch, harm, said):
    harm(tmp_path / "my.key")
    for words in (("plan", census_spec), ("build", census_spec, "-o", "r.duckdb")):
        done = tablepack(*words, cwd=tmp_path, tmp=scratch)
        check_refused(done, tmp_path, scratch, said=said)


# Damaged releases.


def flipped(place):
    def harm(path):
        data = bytearray(path.read_bytes())
        data[int(len(data) * place)] ^= 0x10
        path.write_bytes(data)

    return harm


def swapped(path):
    other = path.with_name("other.duckdb")
    other.write_bytes(path.read_bytes())
    with duckdb.connect(str(other)) as con:
        con.execute("CREATE TABLE x AS SELECT 1")
    other.replace(path)


HARMS = {
    "cut": lambda path: path.write_bytes(path.read_bytes()[:-4096]),
    "cut to nothing": lambda path: path.write_bytes(b""),
    "a bit at the start": flipped(0.001),
    "a bit in the middle": flipped(0.5),
    "a bit at the end": flipped(0.999),
    "swapped": swapped,
    "without manifest": lambda path: path.with_name(path.name + ".manifest.json").unlink(),
    "a manifest of another format": lambda path: (
        m := path.with_name(path.name + ".manifest.json")
    ).write_text(m.read_text().replace('"format_version": ', '"format_version": 9')),
    "a manifest cut short": lambda path: (
        m := path.with_name(path.name + ".manifest.json")
    ).write_text(m.read_text()[:50]),
    "a write-ahead log": lambda path: path.with_name(path.name + ".wal").write_bytes(b"x"),
}


@pytest.fixture(scope="module")
def good_release(tmp_path_factory, census):
    folder = tmp_path_factory.mktemp("good")
    spec = write_spec(folder, census / "people.parquet", CENSUS, [("age", "sex")])
    assert tablepack("build", spec, "-o", "r.duckdb", cwd=folder).returncode == 0
    return folder


@pytest.mark.parametrize("harm", HARMS.values(), ids=HARMS)
def test_a_damaged_release_is_refused_everywhere(tmp_path, good_release, harm):
    for name in ("r.duckdb", "r.duckdb.manifest.json"):
        shutil.copy(good_release / name, tmp_path)
    harm(tmp_path / "r.duckdb")
    for words in (
        ("doctor", "r.duckdb"),
        ("show", "r.duckdb"),
        ("sql", "r.duckdb", "SELECT 1"),
        ("export", "r.duckdb", "csv"),
    ):
        done = tablepack(*words, cwd=tmp_path)
        assert done.returncode == 6, (words, done.stdout, done.stderr)
        assert "r.duckdb" in done.stdout + done.stderr
    with pytest.raises(engine.DamagedRelease):
        engine.open(tmp_path / "r.duckdb")
    assert not (tmp_path / "csv").exists()


def test_main_is_the_command(monkeypatch):
    """The entry point of the package is what the tests run."""
    import tomllib

    from fixtures.pipeline import ROOT

    scripts = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["scripts"]
    assert scripts == {"tablepack": f"{main.__module__}:{main.__name__}"}
