"""Exports read back equal, are complete or not there, and have safe names."""

from __future__ import annotations

import csv
import dataclasses
import errno
import os
import shutil

import duckdb
import pandas as pd
import pytest
from fixtures.release import (
    HEADER,
    TABLES,
    build_release,
    expanded,
    make_support,
    make_table,
)
from fixtures.tiny import tiny_release
from hypothesis import given, settings
from hypothesis import strategies as st

import queries.sql.exports
from engine.errors import StoreError
from engine.schema import Column
from engine.store import manifest_path
from queries.release import open_release
from queries.sql import export, file_stem


@pytest.fixture(scope="module")
def built(tmp_path_factory):
    return tiny_release(tmp_path_factory.mktemp("exports") / "r.duckdb")


@pytest.fixture
def release(built, tmp_path):
    """A copy that a test may replace."""
    for path in (built, manifest_path(built)):
        shutil.copy(path, tmp_path)
    with open_release(tmp_path / built.name) as release:
        yield release


def test_csv_reads_back_equal(release, tmp_path):
    files = export(release, tmp_path / "out")
    assert [f.name for f in files] == [".".join(t) + ".csv" for t in TABLES]
    for columns, path in zip(TABLES, files, strict=True):
        frame = pd.read_csv(path, na_values=["N"], keep_default_na=False)
        assert list(frame.columns) == [c for c in ("TOWN", "AGE", "SEX", "INCOME") if c in columns]
        back = [
            tuple(None if pd.isna(v) else v for v in row)
            for row in frame[list(columns)].itertuples(index=False)
        ]
        assert back == expanded(make_table(columns))


def test_parquet_reads_back_equal(release, tmp_path):
    calls = []
    files = export(release, tmp_path / "out", format="parquet", progress=lambda *a: calls.append(a))
    with duckdb.connect() as con:
        for columns, path in zip(TABLES, files, strict=True):
            rows = con.execute(f"SELECT {', '.join(columns)} FROM '{path}'").fetchall()
            assert rows == expanded(make_table(columns))
    assert calls == [(i, len(TABLES)) for i in range(1, len(TABLES) + 1)]


SPELLINGS = ("", "N", "-9 'x'")


@pytest.fixture(scope="module")
def nulls(tmp_path_factory):
    """The exported files of a release whose columns spell missing values differently, its tables and supports."""
    folder = tmp_path_factory.mktemp("nulls")
    columns = tuple(
        Column(name=f"c{i}", kind="category", value_type="text", nulls=(s,))
        for i, s in enumerate(SPELLINGS)
    )
    supports = {
        c.name: make_support(c, [(0, 0), (2, 0), (2, 1)], values=("a,\"b'", " x\ny"))
        for c in columns
    }
    tables = (*((c.name,) for c in columns), tuple(c.name for c in columns))
    header = dataclasses.replace(HEADER, columns=columns, tables=tables)
    path = build_release(folder / "nulls.duckdb", header=header, supports=supports)
    with open_release(path) as release:
        export(release, folder / "out")
    return folder / "out", tables, supports


def test_every_column_has_its_own_spelling_of_null(nulls):
    out, tables, supports = nulls
    for columns in tables:
        with (out / f"{'.'.join(columns)}.csv").open(newline="") as file:
            head, *rows = csv.reader(file)
        own = {c: SPELLINGS[int(c[1])] for c in columns}
        wanted = [
            [own[c] if v is None else v for c, v in zip(columns, row, strict=True)]
            for row in expanded(make_table(columns, supports), supports)
        ]
        assert head == list(columns)
        assert [r or [""] for r in rows] == wanted


def test_a_blank_in_a_table_of_one_column_is_a_row_for_pandas_too(nulls):
    out, _, supports = nulls
    frame = pd.read_csv(out / "c0.csv")
    rows = expanded(make_table(("c0",), supports), supports)
    assert [None if pd.isna(v) else v for v in frame["c0"]] == [v for (v,) in rows]
    with duckdb.connect() as con:
        assert con.execute(f"FROM read_csv('{out}/c0.csv', nullstr='')").fetchall() == rows


def test_directory_must_be_empty_or_absent(release, tmp_path):
    (tmp_path / "empty").mkdir()
    assert len(export(release, tmp_path / "empty")) == len(TABLES)
    before = sorted(os.listdir(tmp_path / "empty"))
    with pytest.raises(StoreError, match="not an empty directory"):
        export(release, tmp_path / "empty", format="parquet")
    assert sorted(os.listdir(tmp_path / "empty")) == before
    with pytest.raises(StoreError, match="not an empty directory"):
        export(release, release.path)
    assert len(export(release, tmp_path / "deep" / "er")) == len(TABLES)


def test_nothing_half_written(release, tmp_path, monkeypatch):
    before = sorted(os.listdir(tmp_path))

    def stop(done, total):
        if done == 3:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    with pytest.raises(StoreError, match="No space left"):
        export(release, tmp_path / "out", progress=stop)
    assert sorted(os.listdir(tmp_path)) == before

    def refuse(*args, **more):
        raise duckdb.IOException("IO Error: could not write")

    monkeypatch.setattr(queries.sql.exports, "_write_all", refuse)
    with pytest.raises(StoreError, match="disk full, quota reached or folder read-only"):
        export(release, tmp_path / "out")
    assert sorted(os.listdir(tmp_path)) == before


def test_interrupt_leaves_nothing(release, tmp_path):
    def interrupt(done, total):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        export(release, tmp_path / "out", progress=interrupt)
    assert sorted(os.listdir(tmp_path)) == ["r.duckdb", "r.duckdb.manifest.json"]


def test_replaced_release(release, tmp_path):
    tiny_release(tmp_path / "r.duckdb", seed=1)
    with pytest.raises(StoreError, match="was replaced since it was opened"):
        export(release, tmp_path / "out")
    assert not (tmp_path / "out").exists()


names = st.frozensets(
    st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=8), min_size=1
)


@settings(max_examples=30)
@given(names, names)
def test_file_names_are_injective_and_safe(a, b):
    assert (file_stem(a) == file_stem(b)) == (a == b)
    stem = file_stem(a)
    assert not set(stem) & set('/\\\0\n:*?"<>|')
    assert stem.strip(".")
