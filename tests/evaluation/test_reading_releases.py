"""Reading releases, the NIST excerpt and files that studies name; the same rows in any form are coded the same."""

from __future__ import annotations

import json
from datetime import datetime

import duckdb
import numpy as np
import pandas as pd
import pytest
from fixtures.nist import NIST, needs_nist, nist_rows
from fixtures.pipeline import ROOT
from fixtures.release import SUPPORTS, TABLES, build_release, expanded, make_table

import engine.store.opening
from engine.errors import DamagedRelease, DataError
from engine.evaluation.data.aligned import align, distinct, unshown
from engine.evaluation.data.reading import (
    columns_in,
    kind_of_column,
    notes_of,
    on_grid_sql,
    read_like,
    read_original,
    read_subject,
    released_columns,
)
from engine.evaluation.study import (
    BLANK_LABEL,
    Study,
    labels_of,
    read_study,
    with_files,
)
from engine.schema import Column, Resolution
from engine.source import grid_code
from engine.store import manifest_path
from engine.store.decode import grid_value

OF_N = Study(title="", nulls=("N",))
BARE = Study(title="")
PEERS = ("aindo", "cart", "mwem_pgm", "sample40")


@pytest.fixture(scope="module")
def release(tmp_path_factory):
    return build_release(tmp_path_factory.mktemp("release") / "r.duckdb")


@pytest.fixture
def rows(tmp_path):
    """Rows of which the release is one, as a file."""
    path = tmp_path / "x.csv"
    path.write_text("AGE,SEX,TOWN,INCOME,id\n7,f,Bath,-2.5,1\n40.0,m,N,N,2\nN,f,Ely,0,3\n")
    return path


# Releases.


def test_a_release_is_read_with_numbers_cards_and_hash(release, rows):
    original = read_original(rows, OF_N, like=released_columns(release))
    subject = read_subject(release, original, OF_N, "r")
    assert subject.kind == "release"
    assert set(subject.tables) == set(subject.cards) == set(TABLES)
    assert subject.placeholders == {"TOWN": ("(other)",)}
    record = json.loads(manifest_path(release).read_text())["accepts"][0]
    assert subject.content_hash == record["content_hash"]
    assert subject.cards["AGE", "SEX"]["columns"] == ["AGE", "SEX"]
    assert "it has no id: not evaluated" not in subject.notes, "the data may have more columns"
    for columns in TABLES:
        table, made = subject.tables[columns], make_table(columns)
        assert table.n.sum() == made.n_rows == len(expanded(made))
        assert table.measured.sum() == made.measured.sum()
    got = align(original, subject.tables, OF_N)
    assert got.values["AGE"].tolist() == [7, 40, 41]
    assert got.original.codes["AGE"].tolist() == [0, 1, 3]
    assert set(got.values) == {"AGE", "SEX", "TOWN", "INCOME"}
    assert len(SUPPORTS["TOWN"]) - 1 + 1 == len(got.values["TOWN"]), "and Ely of the original"


def test_a_release_is_opened_once(release, rows, monkeypatch):
    """Between two openings somebody might replace it."""
    opened, opening = [], engine.store.opening.open_release
    monkeypatch.setattr(
        engine.store.opening, "open_release", lambda *a, **k: opened.append(1) or opening(*a, **k)
    )
    original = read_original(rows, OF_N)
    assert read_subject(release, original, OF_N, "r").kind == "release"
    assert len(opened) == 1


def test_types_of_the_release_decide_for_the_original(release, tmp_path):
    path = tmp_path / "x.csv"
    path.write_text("TOWN,AGE\n1,7\n2,8\n")
    assert read_original(path, OF_N)["TOWN"].dtype == np.float64
    like = released_columns(release)
    assert read_original(path, OF_N, like=like)["TOWN"].tolist() == ["1", "2"]
    path.write_text("TOWN,AGE\na,secret\nb,8\n")
    with pytest.raises(DataError, match="AGE") as refused:
        read_original(path, OF_N, like=like)
    assert "secret" not in str(refused.value)


@pytest.mark.ci
def test_tables_with_columns_of_one_side_are_left_out(release):
    original = read_original(pd.DataFrame({"AGE": [7, 40], "SEX": ["f", "m"]}), OF_N)
    subject = read_subject(release, original, OF_N, "r")
    assert set(subject.tables) == set(subject.cards) == {("AGE",), ("SEX",), ("AGE", "SEX")}
    assert "the data has no INCOME, TOWN: left out" in subject.notes
    left_out = (
        "4 tables with such columns are left out; --spec reads the data as the release's spec says"
    )
    assert left_out in subject.notes
    other = read_original(pd.DataFrame({"AGE": ["x", "y"], "SEX": ["f", "m"]}), OF_N)
    subject = read_subject(release, other, OF_N, "r")
    assert set(subject.tables) == {("SEX",)}
    assert "AGE: of another type than in the data" in subject.notes
    with pytest.raises(DataError, match="no table in common"):
        read_subject(release, pd.DataFrame({"z": [1.0]}), OF_N, "r")


def test_a_release_is_no_original_and_needs_its_manifest(release, tmp_path):
    with pytest.raises(DataError, match="is a release"):
        read_original(release, OF_N)
    cut = tmp_path / "r.duckdb"
    cut.write_bytes(release.read_bytes()[:-100])
    manifest_path(cut).write_text(manifest_path(release).read_text())
    with pytest.raises(DamagedRelease, match="size"):
        read_subject(cut, pd.DataFrame({"AGE": [1.0]}), OF_N, "r")


# Control rows, and frames that were not read by us.


def test_control_rows_have_the_kinds_of_the_original(tmp_path):
    original = read_original(pd.DataFrame({"a": ["x", "1"], "b": [1, 2]}), BARE)
    control = read_like(pd.DataFrame({"b": ["1.0", "nan"], "a": ["1.0", "2"]}), original, BARE)
    assert [kind_of_column(control[c]) for c in ("a", "b")] == ["text", "number"]
    assert control["a"].tolist() == ["1", "2"]
    tables = {("a", "b"): distinct(original)}
    got = align(original, tables, BARE, control=control)
    assert got.control.codes["a"].tolist() == [0, 1]
    assert got.values["a"].tolist() == ["1", "2", "x"]


# Files that a study names.


def test_a_schema_gives_orders_texts_and_blanks(tmp_path):
    schema = {
        "size": {"dtype": "object", "null_value": "N", "values": ["N", "S", "M", "L"]},
        "code": {"dtype": "object", "null_value": "N", "values": ["N", "1", "2"]},
        "age": {"dtype": "int64", "min": 0, "max": 9},
    }
    (tmp_path / "s.json").write_text(json.dumps({"schema": schema}))
    study = Study(title="", schema_file="s.json", nulls=("-",), order={"z": ["q"]})
    got = with_files(study, [tmp_path])
    assert got.nulls == ("-", "N")
    assert got.texts == ("size",)
    assert got.order == {"z": ["q"], "size": ["S", "M", "L"]}
    own = study.model_copy(update={"order": {"size": ["L", "M", "S"]}})
    assert with_files(own, [tmp_path]).order["size"] == ["L", "M", "S"]
    assert with_files(BARE, []) is BARE


# The NIST excerpt.


@pytest.mark.slow
@needs_nist
def test_peers_are_read_by_their_study_as_with_types_given():
    folders = [ROOT / "releases", NIST]
    study = with_files(
        read_study(ROOT / "releases" / "nist-acs.study.toml", beside=[NIST]).model_copy(
            update={"schema_file": "schema.json", "dictionary": "data_dictionary.json"}
        ),
        folders,
    )
    assert study.texts == ("PUMA",)
    assert study.nulls == ("N",)
    original = read_original(NIST / "national2019.csv", study)
    assert notes_of(original) == ()
    assert {c for c in original if kind_of_column(original[c]) == "text"} == {"PUMA"}
    for name in PEERS:
        path = NIST / "peers" / f"{name}.csv"
        subject = read_subject(path, original, study, name)
        (table,) = subject.tables.values()
        wanted = nist_rows(name)
        assert set(wanted) == set(table.frame)
        for column in wanted:
            same = table.frame[column].astype(object).fillna(-1) == wanted[column].fillna(-1)
            assert same.all(), (name, column)
    labels, values = labels_of(study, folders)
    assert labels["AGEP"] == "Person's age"
    assert values["MSP"][BLANK_LABEL].startswith("N/A")
    assert "AGEP" not in values, "its dictionary has limits only"
    assert {"0", BLANK_LABEL} <= set(values["NOC"])
    assert "min" not in values["NOC"]


# Grids.


def test_numbers_lie_on_the_grid_of_the_release(release):
    """INCOME has steps of 0.1: whoever reads the original finds it where the build put it."""
    given = pd.DataFrame({"INCOME": [-2.4999999, 0.3000000004, 0.04, 7.0, None], "AGE": [7] * 5})
    like = released_columns(release)
    original = read_original(given, BARE, like=like)
    assert original["INCOME"].tolist()[:4] == [-2.5, 0.3, 0.0, 7.0]
    assert original["INCOME"].isna().tolist() == [False] * 4 + [True]
    assert read_like(given, original, BARE)["INCOME"].equals(original["INCOME"]), "non_members, too"
    assert read_original(given, BARE)["INCOME"][0] == -2.4999999, "no release, no grid"


@pytest.mark.parametrize(
    ("kind", "step", "values"),
    [
        ("real", Resolution(base=2, exponent=-15), [23.437499999999996, -0.1, 1e300, 5e-5]),
        ("real", Resolution(base=10, exponent=2), [149.0, 150.0, 250.0, -1.0]),
        ("decimal", Resolution(base=10, exponent=-2), [1.015, 2.675, -0.005, 1e15]),
        ("timestamp", None, ["2020-01-01 00:00:01.7", "1969-12-31 23:59:59.5"]),
        ("integer", None, [1.0, 2.5]),
    ],
)
def test_grids_are_those_of_builds(kind, step, values):
    column = Column(name="x", kind=kind, value_type=kind, resolution=step)
    cast = "TIMESTAMP" if kind == "timestamp" else "DOUBLE"
    for value in values:
        typed = f"CAST('{value}' AS {cast})"
        with duckdb.connect() as con:
            ((got,),) = con.execute(f"SELECT {on_grid_sql(column, typed)}").fetchall()
        if kind == "timestamp":
            assert got == datetime.fromisoformat(value).replace(microsecond=0)
        elif step is None or abs(value) > 1e17:
            assert got == value
        else:
            assert got == float(grid_value(column, grid_code(column, value)))


# Blanks.


def test_blanks_are_those_of_the_release_column_by_column(release, tmp_path):
    """N is how AGE and TOWN write a blank; id is no column of the release."""
    path = tmp_path / "x.csv"
    path.write_text("AGE,SEX,TOWN,id\n7,f,N,N\nN,m,Bath,a\n")
    original = read_original(path, BARE, like=released_columns(release))
    assert original["AGE"].isna().tolist() == [False, True]
    assert original["TOWN"].isna().tolist() == [True, False]
    assert original["id"].tolist() == ["N", "a"]


def test_what_the_release_shows_as_a_value_is_no_blank():
    """A column of a Parquet file whose text form would write -8 for a blank, and holds it as a number."""
    with duckdb.connect() as con:
        con.execute("CREATE SCHEMA catalog")
        con.execute(
            "CREATE TABLE catalog.columns AS SELECT name, 'BIGINT' AS sql_type, 'integer' AS kind, "
            "'integer' AS value_type, NULL AS placeholder, NULL AS resolution, "
            "spelled AS null_spelling, 1 AS position "
            "FROM (VALUES ('shown', '-8.0'), ('blank', '-8.0'), ('empty', '')) AS t(name, spelled)"
        )
        con.execute(
            "CREATE TABLE catalog.codes AS SELECT * FROM (VALUES ('shown', '-8', 'negative'), "
            "('blank', NULL, 'null'), ('blank', '3', 'value')) AS t(column_name, value, kind)"
        )
        # Of a version whose cards do not say how the source was read.
        con.execute("CREATE TABLE catalog.tables (columns VARCHAR[], card VARCHAR, width BIGINT)")
        nulls = {c: one.column.nulls for c, one in columns_in(con).items()}
    assert nulls == {"shown": ("",), "blank": ("-8.0", ""), "empty": ("",)}


@pytest.mark.parametrize(("of_seven", "found"), [(0, ["a"]), (1, [])])
def test_what_many_have_and_no_table_shows_is_found(of_seven, found):
    """Forty of 140 have a 7 that no table shows; that one has a 9 is nothing to speak of."""
    original = pd.DataFrame({"a": [1.0] * 99 + [7.0] * 40 + [9.0], "b": [1.0] * 140})
    table = pd.DataFrame({"a": [1.0] * 100 + [7.0] * of_seven, "b": [1.0] * (100 + of_seven)})
    aligned = align(original, {("a", "b"): distinct(table)}, BARE)
    assert unshown(aligned) == found
