"""Evaluations read a source as its spec does: what is evaluated is what was released."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from fixtures.pipeline import ACCEPTED, write_spec

from engine.api.evaluate import evaluate
from engine.api.reading import read
from engine.errors import DataError, SpecError
from engine.evaluation.data.aligned import Reading
from engine.evaluation.data.reading import (
    Declared,
    ReleasedColumn,
    data_of,
    read_like,
    read_original,
    released_columns,
)
from engine.evaluation.study import Study, of_spec
from engine.release import build
from engine.schema import Column

COLUMNS = {
    "id": {"kind": "integer"},
    "town": {"kind": "category", "nulls": ["", "k.A."]},
    "cost": {"kind": "decimal", "resolution": 0.01, "nulls": ["", "k.A."]},
    "day": {"kind": "date"},
}
TABLES = [("town",), ("cost",), ("day",), ("cost", "town")]
N = 400


def rows() -> pd.DataFrame:
    rng = np.random.default_rng(3)
    cost = np.round(rng.lognormal(7, 1, N), 2)
    cost[::17] = np.nan
    return pd.DataFrame(
        {
            "id": np.arange(N),
            "town": rng.choice(["Köln", "Graz", "Bülach"], N),
            "cost": cost,
            "day": pd.Timestamp("2021-01-01") + pd.to_timedelta(rng.integers(0, 90, N), "D"),
        }
    )


def german(frame: pd.DataFrame) -> pd.DataFrame:
    """As people write it: 1.234,56 and 31.12.2021."""
    cost = [
        "k.A." if np.isnan(c) else f"{c:,.2f}".translate(str.maketrans(",.", ".,"))
        for c in frame.cost
    ]
    return frame.assign(cost=cost, day=frame.day.dt.strftime("%d.%m.%Y"))


WRITTEN = {"decimal": ",", "thousands": ".", "date_format": "%d.%m.%Y"}


def write(folder: Path, form: str) -> dict[str, object]:
    """The rows in one form; what `[source]` says of it."""
    frame, at = rows(), str(folder)
    if form == "german":
        german(frame).to_csv(f"{at}/a.csv", index=False, sep=";", encoding="cp1252")
        return {"path": f"{at}/a.csv", "encoding": "cp1252", "delimiter": ";", **WRITTEN}
    if form == "lines above":
        text = frame.to_csv(index=False)
        Path(f"{at}/a.csv").write_text(f"A report\n\n{text}", encoding="utf-8")
        return {"path": f"{at}/a.csv", "skip": 2}
    if form == "several":
        for part, name in ((frame[:150], "one"), (frame[150:], "two")):
            part.to_csv(f"{at}/{name}.csv", index=False)
        return {"path": [f"{at}/one.csv", f"{at}/two.csv"]}
    if form == "glob":
        for part, name in ((frame[:90], "part1"), (frame[90:], "part2")):
            part.to_parquet(f"{at}/{name}.parquet")
        return {"path": f"{at}/part*.parquet"}
    if form == "sql":
        frame[["id", "town"]].to_csv(f"{at}/towns.csv", index=False)
        frame.drop(columns="town").to_parquet(f"{at}/costs.parquet")
        sql = "SELECT id, town, cost, day FROM costs JOIN (SELECT CAST(id AS BIGINT) AS id, town FROM towns) USING (id)"
        return {"path": [f"{at}/costs.parquet", f"{at}/towns.csv"], "sql": sql}
    pytest.importorskip("openpyxl")
    frame.to_excel(f"{at}/a.xlsx", index=False, sheet_name="rows")
    return {"path": f"{at}/a.xlsx", "sheet": "rows"}


FORMS = ("german", "lines above", "several", "glob", "sql", "workbook")


def spec_of(folder: Path, form: str):
    source = write(folder, form)
    path = source.pop("path")
    text = write_spec(
        folder, "x.csv", COLUMNS, TABLES, entities=("id",), privacy=ACCEPTED, source=source
    )
    said = text.read_text("utf-8").replace('path = "x.csv"', f"path = {json.dumps(path)}", 1)
    text.write_text(said, "utf-8")
    return text, path


@pytest.mark.ci
@pytest.mark.parametrize("form", FORMS)
def test_rows_are_those_of_one_plain_file(tmp_path, form):
    text, _ = spec_of(tmp_path, form)
    spec = read(text)
    reading = of_spec(spec, Study(title=""))
    what = data_of(spec)
    assert isinstance(what, Declared)
    rows().to_parquet(tmp_path / "plain.parquet")
    like = {
        name: ReleasedColumn(
            sql_type=sql_type, column=Column(name=name, kind=kind, value_type=kind)
        )
        for name, kind, sql_type in (
            ("id", "integer", "BIGINT"),
            ("town", "text", "VARCHAR"),
            ("cost", "decimal", "DECIMAL(18,2)"),
            ("day", "date", "DATE"),
        )
    }
    found = read_original(what, reading, like=like).sort_values("id").reset_index(drop=True)
    plain = read_original(tmp_path / "plain.parquet", reading, like=like)
    assert found.columns.tolist() == plain.columns.tolist()
    for name in plain:
        have, want = found[name].astype(object), plain[name].astype(object)
        assert (have.isna() == want.isna()).all()
        assert have[have.notna()].tolist() == want[want.notna()].tolist()


@pytest.mark.ci
def test_a_release_is_evaluated_with_its_spec(tmp_path):
    pytest.importorskip("sklearn")
    text, path = spec_of(tmp_path, "several")
    release = build(read(text), tmp_path / "r.duckdb", jobs=1)
    found = evaluate(release, data=path[1], spec=text)  # one of several stands for all
    rows().to_parquet(tmp_path / "plain.parquet")
    plain = evaluate(release, data=tmp_path / "plain.parquet", spec=text)
    scores = [
        {n: v for s in one.results[0].scores.values() for n, v in s.values.items()}
        for one in (found, plain)
    ]
    assert scores[0] == pytest.approx(scores[1], nan_ok=True)


def test_cells_that_are_not_written_so_are_refused_without_them(tmp_path):
    text, path = spec_of(tmp_path, "german")
    spec = read(text)
    said = Path(path).read_text("cp1252").splitlines()
    said[3] = said[3].replace(said[3].split(";")[2], "SECRET 12")
    Path(path).write_text("\n".join(said), "cp1252")
    with pytest.raises(DataError, match="cost: cells that are not written") as refused:
        read_original(data_of(spec), Reading())
    assert "SECRET" not in str(refused.value)
    Path(path).unlink()
    with pytest.raises(SpecError, match="no file"):
        read_original(data_of(spec), Reading())


def test_nothing_is_left_in_the_scratch_folder(tmp_path, monkeypatch):
    text, _ = spec_of(tmp_path, "german")
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(scratch))
    read_original(data_of(read(text)), Reading())
    assert [p.name for p in scratch.rglob("*") if p.is_file()] == ["sweep.lock"]


@pytest.mark.ci
def test_a_release_says_how_its_source_is_read(tmp_path):
    text, path = spec_of(tmp_path, "german")
    spec = read(text)
    like = released_columns(build(spec, tmp_path / "r.duckdb", jobs=1))
    told = read_original(path, Reading(), like=like)
    declared = read_original(data_of(spec), of_spec(spec, Study(title="")), like=like)
    pd.testing.assert_frame_equal(told, declared, check_categorical=False)
    assert told.cost.isna().sum() == rows().cost.isna().sum()
    non_members = read_like(path, told, Reading(), is_control=True)
    pd.testing.assert_series_equal(non_members.cost, told.cost)
    rows().to_parquet(tmp_path / "typed.parquet")
    typed = read_original(tmp_path / "typed.parquet", Reading(), like=like)
    assert typed.cost.tolist() == pytest.approx(told.cost.tolist(), nan_ok=True)
