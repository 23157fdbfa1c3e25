"""Spellings of null: read as null where that is plain, kept where the source tells null from text or NA is a code."""

from __future__ import annotations

import contextlib
import random
import sqlite3

import duckdb
import pandas as pd
import pytest
from fixtures.detect import EXACTLY_TEN, accepted
from fixtures.source import connection

from engine.schema import SourceSpec
from engine.source import cell_sql, open_source
from engine.source.detection.detect import detect
from engine.spec import read_spec

CODES = {
    "continent": ["NA", "EU", "AS", "AF", "SA"],
    "country": ["NA", "DE", "FR", "NO", "NL"],
    "state": ["NA", "TX", "CA", "NY", "OH"],
    "answer": ["NA", "often", "never"],
    "first": ["nan", "ann", "null", "bob", ""],
    "amount": ["NA", "12", "17", "25"],
    "word": ["-", "missing", "left", "right"],
}


@pytest.fixture(scope="module")
def frame():
    r = random.Random(1)
    return pd.DataFrame({name: [r.choice(of) for _ in range(600)] for name, of in CODES.items()})


def nulls_of(detection) -> dict[str, tuple[str, ...]]:
    return {column.name: column.nulls for column in detection.columns}


def test_text_files(frame, tmp_path):
    path = tmp_path / "codes.csv"
    frame.to_csv(path, index=False)
    detection = detect(SourceSpec(path=str(path), format="csv"), thresholds=EXACTLY_TEN)
    assert nulls_of(detection) == {
        "continent": ("",),
        "country": ("",),
        "state": ("NA", ""),
        "answer": ("NA", ""),
        "first": ("nan", "null", ""),
        "amount": ("NA", ""),
        "word": ("",),
    }
    marked = {c.name for c in detection.columns if "nulls" in c.detected}
    assert marked == {"state", "answer", "first", "amount"}
    # In rounded terms, and which spellings.
    (told,) = (text for text in detection.column_remarks["answer"] if "NA" in text)
    assert "about 200 rows" in told
    for name in ("continent", "country", "word"):
        assert any("null" in text for text in detection.column_remarks[name])


TEXTS = {"text": ["", "NA", "nan", "null", "None", "a"], "number": ["1", "2", "NA"]}
KNOW_NULL = {
    "csv": False,
    "xlsx": False,
    "parquet": True,
    "duckdb": True,
    "sqlite": True,
    "sav": True,
}


@pytest.mark.parametrize("form", KNOW_NULL)
def test_a_spec_that_says_no_spelling_has_that_of_its_source(tmp_path, form):
    """A hand-written one: the empty text is null in text files, and in others a value of texts, but of nothing else."""
    kinds = {"text": "category", "more": "text", "number": "integer", "day": "date", "id": "text"}
    sections = "".join(f'[columns.{name}]\nkind = "{kind}"\n' for name, kind in kinds.items())
    head = '[release]\nvintage = "1"\nkey = "k.key"\n[source]\nentities = ["id"]\n'
    path = tmp_path / "r.toml"
    path.write_text(f'{head}path = "x.{form}"\n{sections}[[tables]]\ncolumns = ["text"]\n')
    columns = read_spec(path, check_key=False).columns
    of_texts = () if KNOW_NULL[form] else ("",)
    assert {c.name: c.nulls for c in columns} == {
        "text": of_texts,
        "more": of_texts,
        "number": ("",),
        "day": ("",),
        "id": ("",),
    }
    path.write_text(path.read_text().replace("entities", 'nulls = ["-"]\nentities'))
    assert {c.nulls for c in read_spec(path, check_key=False).columns} == {("-",)}


@pytest.mark.parametrize("form", ["csv", "parquet", "duckdb", "sqlite", "frame"])
def test_which_texts_are_null(tmp_path, form):
    held = pd.DataFrame({"text": TEXTS["text"] * 60, "number": TEXTS["number"] * 120})
    held.loc[::10, "text"] = None
    source, found = written(held, tmp_path, form)
    detection = detect(source, found, thresholds=EXACTLY_TEN)
    of = {c.name: cell_sql(c, "VARCHAR") for c in detection.columns}
    con = connection()
    open_source(con, source, found)
    null = {
        name: {
            cell
            for (cell,) in con.execute(
                f"SELECT {name} FROM source WHERE ({sql}) IS NULL"
            ).fetchall()
        }
        for name, sql in of.items()
    }
    taken = {"", "NA", "nan", "null"} if form == "csv" else {None}
    assert null == {"text": taken, "number": {"NA"}}
    told = " ".join(detection.column_remarks.get("text", ()))
    assert ("about 100 rows" in told) == (form == "csv")
    if form != "frame":  # no file can name one
        assert [c.nulls for c in accepted(tmp_path, detection).columns] == [
            c.nulls for c in sorted(detection.columns, key=lambda c: c.name)
        ]


def written(held, folder, form):
    """A frame in a file, or as it is."""
    path = folder / f"x.{form}"
    if form == "frame":
        return SourceSpec(path=None, format="frame"), held
    if form == "csv":
        held.to_csv(path, index=False)
    elif form == "parquet":
        held.to_parquet(path)
    elif form == "duckdb":
        with duckdb.connect(str(path)) as con:
            con.execute("CREATE TABLE t AS SELECT * FROM held")
    else:
        with contextlib.closing(sqlite3.connect(path)) as con:
            held.to_sql("t", con, index=False)
            con.commit()
    return SourceSpec(path=str(path), format=form), None
