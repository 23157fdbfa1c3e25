"""Reading anybody's data for an evaluation: kinds, blanks, columns of one side, files that are wrong."""

from __future__ import annotations

import contextlib
import datetime
import gzip
import sqlite3

import duckdb
import numpy as np
import pandas as pd
import pytest

from engine.errors import DataError, SpecError, StoreError, TablepackError
from engine.evaluation.data.aligned import align
from engine.evaluation.data.reading import notes_of, read_original, read_subject
from engine.evaluation.study import Study
from engine.schema import column_set

BARE = Study(title="")
OF_N = Study(title="", nulls=("N",))
HOSTILE = [
    '"quo"ted"',
    "br[ack]*et",
    "<script>alert(1)</script>",
    "two\nlines",
    "naïve 名",
    "a'b; --",
]


def csv(folder, text: str, name: str = "x.csv"):
    path = folder / name
    path.write_bytes(text.encode())
    return path


def plain(frame: pd.DataFrame) -> dict:
    """Values by column, blanks as None."""
    return {
        c: [None if v is pd.NaT or v != v or v is None else v for v in frame[c].astype(object)]
        for c in frame.columns
    }


def synthetic(what, original, study=BARE):
    """The frame and the notes of a subject that is one table."""
    subject = read_subject(what, original, study, "s")
    ((columns, table),) = subject.tables.items()
    assert columns == column_set(list(table.frame.columns))
    assert table.n.tolist() == [1] * len(table.frame)
    return plain(table.frame), " | ".join(subject.notes)


# Kinds of the original.


def test_a_column_is_what_all_of_its_values_are(tmp_path):
    text = (
        "n,t,d,s,b,x,z\n1,a,2020-01-31,2020-01-31 10:00:00,True,1,\n"
        "N,N,N,N,N,b,N\n-2.5e1,b,1999-12-01,2021-02-03,false,2,\n"
    )
    frame = read_original(csv(tmp_path, text), OF_N)
    assert plain(frame) == {
        "n": [1.0, None, -25.0],
        "t": ["a", None, "b"],
        "d": [datetime.datetime(2020, 1, 31), None, datetime.datetime(1999, 12, 1)],
        "s": [datetime.datetime(2020, 1, 31, 10), None, datetime.datetime(2021, 2, 3)],
        "b": [1.0, None, 0.0],
        "x": ["1", "b", "2"],
        "z": [None, None, None],
    }
    assert notes_of(frame) == ()
    assert isinstance(frame["t"].dtype, pd.CategoricalDtype)


def test_texts_that_look_like_numbers_stay_texts_where_the_study_says_so(tmp_path):
    path = csv(tmp_path, "a,b\n01,2\n1,N\n")
    study = Study(title="", nulls=("N",), texts=("a", "b"))
    assert plain(read_original(path, study)) == {"a": ["01", "1"], "b": ["2", None]}
    frame = pd.DataFrame({"a": [1.0, 2.5, np.nan], "b": [7, 8, 9]})
    assert plain(read_original(frame, study)) == {"a": ["1", "2.5", None], "b": ["7", "8", "9"]}


def test_numbers_no_float_can_hold_are_texts(tmp_path):
    large = [2**53 + 1, 2**53 + 2]
    path = csv(tmp_path, f"a,b\n{large[0]},1\n{large[1]},2\n")
    assert plain(read_original(path, BARE)) == {"a": list(map(str, large)), "b": [1.0, 2.0]}
    assert plain(read_original(pd.DataFrame({"a": large}), BARE)) == {"a": list(map(str, large))}
    underscored = csv(tmp_path, "a\n1_12\n11_2\n")
    assert plain(read_original(underscored, BARE)) == {"a": ["1_12", "11_2"]}


def test_usual_blanks_among_numbers_are_blanks_and_said_to_be(tmp_path):
    frame = read_original(csv(tmp_path, "a,b\n1,x\nNA,NA\nnan,y\ninf,z\n"), BARE)
    assert plain(frame) == {"a": [1.0, None, None, None], "b": ["x", "NA", "y", "z"]}
    assert [n for n in notes_of(frame) if n.startswith("a: ")]
    frame = read_original(pd.DataFrame({"a": [1.0, np.inf, np.nan]}), BARE)
    assert plain(frame) == {"a": [1.0, None, None]}
    assert "a: " in notes_of(frame)[0]


def test_blanks_spelled_as_numbers(tmp_path):
    study = Study(title="", nulls=("-8",), texts=("t",))
    original = read_original(csv(tmp_path, "n,t\n-8,-8\n3,4\n"), study)
    assert plain(original) == {"n": [None, 3.0], "t": [None, "4"]}
    assert synthetic(csv(tmp_path, "n,t\n-8.0,-8.0\n3.0,4.0\n"), original, study)[0] == {
        "n": [None, 3.0], "t": [None, "4"],
    }  # fmt: skip
    assert plain(read_original(pd.DataFrame({"n": [-8, 3]}), study)) == {"n": [None, 3.0]}


# The same rows in other forms.


@pytest.mark.ci
def test_all_forms_give_the_same_rows(tmp_path):
    frame = pd.DataFrame(
        {
            "n": [1.0, 2.5, np.nan, 4.0],
            "t": ["x", None, "é", "x"],
            "d": pd.to_datetime(["2020-01-01", None, "2021-05-06", "2020-01-01"]),
            "b": pd.Series([True, None, False, True], dtype="boolean"),
            "c": pd.Categorical(["u", "v", None, "u"]),
            "f": np.array([0.1, 0.2, 0.3, 0.1], np.float32),
        }
    )
    paths = {e: tmp_path / f"x.{e}" for e in ("csv", "csv.gz", "parquet", "tsv")}
    frame.to_csv(paths["csv"], index=False)
    frame.to_csv(paths["csv.gz"], index=False)
    frame.to_csv(paths["tsv"], index=False, sep="\t")
    with duckdb.connect() as con:
        con.register("frame", frame)
        con.execute(f"COPY (FROM frame) TO '{paths['parquet']}'")
    original = read_original(frame, BARE)
    wanted = plain(original)
    assert wanted["f"] == [0.1, 0.2, 0.3, 0.1]
    assert wanted["b"] == [1.0, None, 0.0, 1.0]
    arrow = pytest.importorskip("pyarrow").Table.from_pandas(frame)
    objects = frame.astype(dict.fromkeys("ntdbc", object))
    for what in (*paths.values(), arrow, frame, objects):
        assert plain(read_original(what, BARE)) == wanted
        assert synthetic(what, original) == (wanted, "")
    hashes = {read_subject(p, original, BARE, "s").content_hash for p in paths.values()}
    assert len(hashes) == len(paths)


def test_a_table_of_a_duckdb_file_is_an_original_but_no_subject(tmp_path):
    path = tmp_path / "x.duckdb"
    with duckdb.connect(path) as con:
        con.execute("CREATE TABLE one AS SELECT 1 AS a; CREATE TABLE two AS SELECT 2 AS a")
    original = read_original(path, BARE, table="two")
    assert plain(original) == {"a": [2.0]}
    with pytest.raises(SpecError, match="one, two"):
        read_original(path, BARE)
    with pytest.raises(StoreError, match=r"no release.*manifest"):
        read_subject(path, original, BARE, "s")


# Synthetic tables follow the original.


def test_other_tools_spellings_are_understood(tmp_path):
    study = Study(title="", nulls=("N",), texts=("code",))
    original = read_original(csv(tmp_path, "n,code,t\n1,1,one\n2,N,None\nN,3,two\n"), study)
    got, notes = synthetic(
        csv(tmp_path, "n,code,t\n1.0,1.0,one\nnan,N,None\nN,3,nan\nNone,,\n2,9.0,1.0\n"),
        original,
        study,
    )
    assert got == {
        "n": [1.0, None, None, None, 2.0],
        "code": ["1", None, "3", None, "9.0"],
        "t": ["one", "None", None, None, "1.0"],
    }
    assert notes.startswith("n: nan, NA")
    pointed = read_original(pd.DataFrame({"code": ["1.0", "2.0"]}), study)
    assert synthetic(csv(tmp_path, "code\n1\n2.00\n"), pointed, study)[0] == {
        "code": ["1.0", "2.00"]
    }


def test_values_of_another_type_leave_the_column_out_and_are_not_told(tmp_path):
    original = read_original(csv(tmp_path, "a,d,t\n1,2020-01-01,x\n"), BARE)
    got, notes = synthetic(csv(tmp_path, "a,d,t\n1,2020-01-01,x\nsecret,5,7\n"), original)
    assert got == {"t": ["x", "7"]}
    assert "a: text where the data has numbers; left out" in notes
    assert "d: text where the data has times; left out" in notes
    assert "secret" not in notes
    typed = pd.DataFrame({"a": pd.to_datetime(["2020-01-01"]), "d": [5.0], "t": [7.0]})
    got, notes = synthetic(typed, original)
    assert got == {"t": ["7"]}
    assert "a: times where the data has numbers" in notes
    assert "d: numbers where the data has times" in notes


def test_columns_of_one_side_are_named(tmp_path):
    original = read_original(csv(tmp_path, "a,b,Cat\n1,2,3\n"), BARE)
    got, notes = synthetic(csv(tmp_path, "target, cat,a\n9,8,7\n"), original)
    assert got == {"a": [7.0]}
    assert "the data has no target,  cat: left out" in notes
    assert "it has no b, Cat: not evaluated" in notes
    assert "' cat' is not 'Cat'" in notes
    with pytest.raises(DataError, match=r"y\.csv and .*x\.csv have no usable column in common"):
        read_subject(csv(tmp_path, "A ,B \n1,2\n", "y.csv"), original, BARE, "s")


def test_an_index_that_another_tool_wrote_is_dropped(tmp_path):
    frame = pd.DataFrame({"a": [5, 6], "b": ["x", "y"]})
    frame.to_csv(tmp_path / "i.csv")
    original = read_original(tmp_path / "i.csv", BARE)
    assert plain(original) == {"a": [5.0, 6.0], "b": ["x", "y"]}
    assert "index" in notes_of(original)[0]
    for what in (tmp_path / "i.csv", pd.read_csv(tmp_path / "i.csv")):
        got, notes = synthetic(what, original)
        assert got == plain(original)
        assert "index" in notes


def test_hostile_names_and_values(tmp_path):
    frame = pd.DataFrame({name: [name, "other", None] for name in HOSTILE})
    frame.to_csv(tmp_path / "x [1].csv", index=False)
    for what in (frame, tmp_path / "x [1].csv"):
        original = read_original(what, BARE)
        assert plain(original) == {name: [name, "other", None] for name in HOSTILE}
        subject = read_subject(what, original, BARE, "s")
        got = align(original, subject.tables, BARE)
        (table,) = got.tables.values()
        for name in HOSTILE:
            assert table.codes[name].tolist() == got.original.codes[name].tolist()
            assert table.codes[name][2] == len(got.values[name]) == 2


@pytest.mark.parametrize("form", ["cp1252", "lines above", "xlsx", "sqlite"])
def test_files_are_read_in_their_own_form(tmp_path, form):
    frame = pd.DataFrame({"town": ["Köln", "Graz"] * 30, "n": range(60)})
    path = tmp_path / f"x.{form if form in ('xlsx', 'sqlite') else 'csv'}"
    if form == "cp1252":
        frame.to_csv(path, index=False, encoding=form)
    elif form == "lines above":
        path.write_text("A title\n\n" + frame.to_csv(index=False))
    elif form == "xlsx":
        frame.to_excel(path, index=False, engine="xlsxwriter")
    else:
        with contextlib.closing(sqlite3.connect(path)) as con:
            frame.to_sql("t", con, index=False)
    assert plain(read_original(path, BARE)) == plain(read_original(frame, BARE))


# Files that are wrong.


@pytest.mark.ci
@pytest.mark.parametrize(
    ("name", "content", "words"),
    [
        ("x.csv", b"", "empty"),
        ("x.csv", b"a,b\n", "has no rows"),
        ("x.csv", b"a,a\n1,2\n", "are the same"),
        ("x.csv", b"a,,b\n1,2,3\n", "column 2 has no name"),
        ("x.csv", b",a,a\n0,1,2\n", "are the same"),
        ("x.csv", b",Unnamed: 0,b\n0,1,2\n", "column 1 has no name"),
        ("x.csv", b"a,b\n1,2\n1,2,3\n", "more or fewer fields"),
        ("x.csv", b'a,b\n1,"2\n', "x.csv"),
        ("x.csv", ("é" * 40 + "\nsecr\xff\n").encode() + b"\xff\n", "UTF-8"),
        ("x.csv.gz", gzip.compress(b"a\n" + b"secret\n" * 9999)[:-30], "x.csv.gz"),
        ("x.parquet", b"PAR1 secret", "cannot be read"),
        ("x.duckdb", b"secret" * 99, "DuckDB"),
        ("x.xlsx", b"PK", "no workbook"),
        ("x.rds", b"X", ".parquet"),
        ("x.csv", None, "no such file"),
    ],
)
def test_wrong_files_are_refused_by_name(tmp_path, name, content, words):
    if content is not None:
        (tmp_path / name).write_bytes(content)
    original = read_original(pd.DataFrame({"a": ["x"]}), BARE)
    for read in (
        lambda: read_original(tmp_path / name, BARE),
        lambda: read_subject(tmp_path / name, original, BARE, "s"),
    ):
        with pytest.raises(TablepackError) as refused:
            read()
        assert name in str(refused.value)
        assert "secr" not in str(refused.value).replace(str(tmp_path), "")
        assert refused.value.__context__ is None or refused.value.__suppress_context__
    with pytest.raises(TablepackError, match=words):
        read_original(tmp_path / name, BARE)
