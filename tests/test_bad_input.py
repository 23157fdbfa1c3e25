"""Bad input, end to end: a clear error and exit code 2 or 3, no value of the data in it, nothing half-written.
And odd input that must work."""

from __future__ import annotations

import contextlib
import datetime
import itertools
import os
import shutil
import subprocess
import textwrap
import threading
import time

import duckdb
import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pipeline_fixture import (
    CENSUS,
    COMMAND,
    counts,
    environment,
    left_over,
    process,
    table_hashes,
    tablepack,
    write_spec,
)

import engine
from engine.cli import main

CANARY = "Zr7qCanaryValue0x51c3"
NUMBER_CANARY = 987123654321
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


def check_refused(done, folder, scratch, *, code=2, said):
    """The command ended as it must, said what is wrong and nothing else, and left nothing."""
    assert done.returncode == code, done.stderr
    assert said in " ".join(done.stderr.split())
    assert done.stdout == ""
    for shown in (CANARY, str(NUMBER_CANARY), "Traceback", "duckdb.", "Error:"):
        assert shown not in done.stderr
    left = {p.name for p in folder.iterdir()} - {"scratch"}
    assert not [name for name in left if name.startswith("r.duckdb")]
    assert left_over(scratch) == []


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
    columns = {"c": TEXT, "x": INTEGER}
    done = build(tmp_path, scratch, csv_file(tmp_path, text), columns, [("c",), ("c", "x")])
    assert done.returncode == 0, done.stderr
    shown = counts(tmp_path / "r.duckdb", "c")
    assert set(shown) == {("often",), ("(other)",)}
    assert abs(shown[("(other)",)] - 100_000) < 12
    assert b"v12345" not in (tmp_path / "r.duckdb").read_bytes()


def test_entities_of_many_rows(tmp_path, scratch):
    text = many(n=400, id=lambda i: i // 4, x=lambda i: i % 5)
    columns = {"id": INTEGER, "x": INTEGER}
    done = build(tmp_path, scratch, csv_file(tmp_path, text), columns, [("x",)], entities=("id",))
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


# The disk.


@contextlib.contextmanager
def small_disk(folder, size, options=""):
    """A file system of so many kilobytes, where we may mount one."""
    folder.mkdir()
    mounted = shutil.which("mount") and subprocess.run(
        ["mount", "-t", "tmpfs", "-o", f"size={size}k{options}", "none", str(folder)],
        capture_output=True,
    )
    if not mounted or mounted.returncode:
        pytest.skip(
            "no small file system can be mounted here; see the test with a limit on file sizes"
        )
    try:
        yield folder
    finally:
        subprocess.run(["umount", str(folder)], check=True)


@pytest.fixture
def census_spec(tmp_path, census):
    tables = [(a, b) for a in CENSUS for b in ("age", "income") if a < b and a != "person_id"]
    return write_spec(tmp_path, census / "people.parquet", CENSUS, tables)


@pytest.mark.parametrize("kilobytes", [4, 120, 350])
def test_a_full_disk(tmp_path, census_spec, scratch, kilobytes):
    """At the beginning, while tables are written, and at the end; afterwards, with room, it goes on."""
    with small_disk(tmp_path / "disk", kilobytes) as disk:
        done = tablepack("build", census_spec, "-o", disk / "r.duckdb", cwd=tmp_path, tmp=scratch)
        assert done.returncode == 2, done.stderr
        assert "cannot be written" in done.stderr
        assert "Traceback" not in done.stderr
        assert not (disk / "r.duckdb").exists()
        subprocess.run(["mount", "-o", "remount,size=20000k", str(disk)], check=True)
        done = tablepack("build", census_spec, "-o", disk / "r.duckdb", cwd=tmp_path, tmp=scratch)
        assert done.returncode == 0, done.stderr
        assert not (disk / "r.duckdb.tmp").exists()
        found = table_hashes(disk / "r.duckdb")
    assert tablepack("build", census_spec, "-o", "r.duckdb", cwd=tmp_path).returncode == 0
    assert found == table_hashes(tmp_path / "r.duckdb")
    assert left_over(scratch) == []


LIMITED = textwrap.dedent("""
    import resource, signal, sys
    size = int(sys.argv.pop(1))
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, size))
    from engine.cli import main
    main()
""")


def test_a_limit_on_file_sizes(tmp_path, census_spec, scratch):
    """The old release stays as it was; a later build without the limit is whole."""
    out = tmp_path / "r.duckdb"
    assert tablepack("build", census_spec, "-o", out, cwd=tmp_path).returncode == 0
    before = out.read_bytes()
    census_spec.write_text(census_spec.read_text() + '[[tables]]\ncolumns = ["carer", "sex"]\n')
    words = ["build", str(census_spec), "-o", str(out)]
    done = subprocess.run(
        [COMMAND[0], "-c", LIMITED, str(100 * 1024), *words],
        cwd=tmp_path, env=environment(scratch), capture_output=True, text=True,
    )  # fmt: skip
    assert done.returncode == 2, done.stderr
    assert "cannot be written" in done.stderr
    assert "Traceback" not in done.stderr
    assert out.read_bytes() == before
    engine.open(out).close()
    assert left_over(scratch) == []
    assert tablepack(*words, cwd=tmp_path).returncode == 0
    assert ("carer", "sex") in table_hashes(out)


def test_no_room_for_temporary_files(tmp_path, census_spec):
    with small_disk(tmp_path / "disk", 4, options=",nr_inodes=2") as disk:
        done = tablepack("build", census_spec, "-o", "r.duckdb", cwd=tmp_path, tmp=disk)
    assert done.returncode == 2
    assert "scratch folder" in done.stderr
    assert not (tmp_path / "r.duckdb").exists()


def test_a_large_source_that_fills_the_scratch_disk(tmp_path, census, census_spec, monkeypatch):
    """Sources above a size are worked on in a file: here every source is."""
    monkeypatch.setattr("engine.opening.ON_DISK_BYTES", 0)
    with small_disk(tmp_path / "disk", 200) as disk:
        done = tablepack("build", census_spec, "-o", "r.duckdb", cwd=tmp_path, tmp=disk)
        assert left_over(disk) == []
    assert done.returncode == 2, done.stderr
    assert "full" in done.stderr or "cannot be made" in done.stderr
    assert not (tmp_path / "r.duckdb").exists()


def test_a_source_worked_on_in_a_file_gives_the_same(tmp_path, census_spec, scratch, monkeypatch):
    assert tablepack("build", census_spec, "-o", "a.duckdb", cwd=tmp_path).returncode == 0
    monkeypatch.setattr("engine.opening.ON_DISK_BYTES", 0)
    done = tablepack("build", census_spec, "-o", "b.duckdb", cwd=tmp_path, tmp=scratch)
    assert done.returncode == 0, done.stderr
    assert table_hashes(tmp_path / "a.duckdb") == table_hashes(tmp_path / "b.duckdb")
    assert left_over(scratch) == []


# Folders and files in the way.


def test_a_folder_that_cannot_be_written(tmp_path, census_spec, scratch):
    """A path under a file: permission bits would not stop root."""
    (tmp_path / "file").write_text("")
    done = tablepack("build", census_spec, "-o", "file/r.duckdb", cwd=tmp_path, tmp=scratch)
    check_refused(done, tmp_path, scratch, said="folder does not exist")


def test_a_read_only_folder(tmp_path, census_spec, scratch):
    """Permission bits mean nothing to root: for root, a file system mounted read-only."""
    with contextlib.ExitStack() as stack:
        if os.geteuid() == 0:
            folder = stack.enter_context(small_disk(tmp_path / "disk", 4000))
            subprocess.run(["mount", "-o", "remount,ro", str(folder)], check=True)
        else:
            folder = tmp_path / "disk"
            folder.mkdir(mode=0o555)
        done = tablepack("build", census_spec, "-o", folder / "r.duckdb", cwd=tmp_path, tmp=scratch)
        assert list(folder.iterdir()) == []
    assert done.returncode == 2, done.stderr
    assert "cannot be written" in done.stderr
    assert left_over(scratch) == []


def test_a_python_that_cannot_be_started(tmp_path, census_spec, scratch, monkeypatch):
    monkeypatch.setattr("sys.executable", str(tmp_path / "gone"))
    done = tablepack("build", census_spec, "-o", "r.duckdb", cwd=tmp_path, tmp=scratch)
    check_refused(done, tmp_path, scratch, said="the fit process cannot be started")


def test_a_file_in_the_way_is_never_replaced(tmp_path, census_spec, scratch):
    (tmp_path / "thesis.txt").write_text("ten years of work")
    done = tablepack("build", census_spec, "-o", "thesis.txt", cwd=tmp_path, tmp=scratch)
    assert done.returncode == 2
    assert "is not a release" in done.stderr
    assert (tmp_path / "thesis.txt").read_text() == "ten years of work"
    (tmp_path / "folder").mkdir()
    done = tablepack("build", census_spec, "-o", "folder", cwd=tmp_path, tmp=scratch)
    assert done.returncode == 2
    assert "directory" in done.stderr


def test_a_module_in_the_folder_of_the_release_is_not_ours(tmp_path, census_spec, scratch):
    """The fit process must not import what lies beside the release."""
    (tmp_path / "out").mkdir()
    for name in ("numpy", "duckdb", "engine", "json"):
        (tmp_path / "out" / f"{name}.py").write_text("raise SystemExit(9)")
    done = tablepack("build", census_spec, "-o", "out/r.duckdb", cwd=tmp_path, tmp=scratch)
    assert done.returncode == 0, done.stderr


def test_two_builds_of_one_release_at_once(tmp_path, census_spec, scratch):
    """One is refused while the other is at work, or comes after it; the release is whole in either case."""
    ended = []

    def run():
        ended.append(process("build", census_spec, "-o", "r.duckdb", cwd=tmp_path, tmp=scratch))

    threads = [threading.Thread(target=run) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    codes = sorted(done.returncode for done in ended)
    assert codes in ([0, 2], [0, 0])
    for done in ended:
        if done.returncode:
            assert "another build of this release is at work" in done.stderr
    engine.open(tmp_path / "r.duckdb").close()
    assert not (tmp_path / "r.duckdb.tmp").exists()
    assert left_over(scratch) == []


def test_a_build_is_refused_while_another_holds_its_staging(tmp_path, census_spec, scratch):
    running = subprocess.Popen(
        [*COMMAND, "build", str(census_spec), "-o", "r.duckdb"],
        cwd=tmp_path, env=environment(scratch), stdout=subprocess.PIPE, stderr=subprocess.PIPE,
    )  # fmt: skip
    lock = tmp_path / "r.duckdb.tmp" / "lock"
    while not lock.exists() and running.poll() is None:
        time.sleep(0.005)
    os.kill(running.pid, 19)  # stopped: it goes on holding what it holds
    try:
        done = tablepack("build", census_spec, "-o", "r.duckdb", cwd=tmp_path, tmp=scratch)
    finally:
        os.kill(running.pid, 18)
        running.communicate(timeout=60)
    assert done.returncode == 2
    assert "another build of this release is at work" in done.stderr
    assert running.returncode == 0
    engine.open(tmp_path / "r.duckdb").close()


# Keys.


@pytest.mark.parametrize(
    ("harm", "said"),
    [
        (lambda key: key.unlink(), "does not exist"),
        (lambda key: key.write_bytes(b"short"), "does not hold exactly 32 bytes"),
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
    ).write_text(m.read_text().replace('"format_version": 1', '"format_version": 99')),
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

    from pipeline_fixture import ROOT

    scripts = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["scripts"]
    assert scripts == {"tablepack": f"{main.__module__}:{main.__name__}"}
