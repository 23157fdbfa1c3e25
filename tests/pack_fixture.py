"""Helpers of the tests of packs: a small census release, a spec that uses everything, and its pack."""

from __future__ import annotations

import json
from pathlib import Path

import duckdb
from pipeline_fixture import CENSUS, write_spec

from engine.api_publish import publish_pack

SPEC = """
[pack]
title = {en = "Tables of a simulated census", cy = "Tablau"}
publisher = "Office of Tests"
licence = "CC-BY-4.0"
licence_url = "https://creativecommons.org/licenses/by/4.0/"
contact = "Desk"
email = "desk@example.org"
identifier = "https://example.org/pack"
issued = 2026-11-20
languages = ["en", "cy"]
keywords = ["census"]
max_cells = 1200
release_file = true

[words]
total = {en = "Total", cy = "Cyfanswm"}

[columns.region]
label = {en = "Region", cy = "Rhanbarth"}
parents = [
    {North = ["R1", "R2", "R3", "R4"], South = ["R5", "R6", "R7", "R8", "R9"]},
    {Country = ["North", "South"]},
]

[columns.sex]
values = {Female = {en = "Women; \\"she\\"", cy = "Benywod"}}

[columns.age]
groups = [
    {code = "0-39", range = [0, 39]},
    {code = "40+", label = "40 and over", range = [40, 105]},
]

[[tables]]
id = "T1"
title = {en = "People by region and sex", cy = "Pobl"}
rows = ["region"]
cols = ["sex"]
totals = ["region", "sex"]
subtotals = ["region"]
footnotes = ["Simulated."]

[[tables]]
id = "T2"
rows = ["age"]
cols = ["sex"]
only_groups = ["age"]
totals = ["age", "sex"]
percent = "column"

[[tables]]
id = "T3"
columns = ["age", "region"]

[[tables]]
id = "T4"
columns = ["region"]
measure = "mean"
of = "income"
totals = ["region"]

[[tables]]
id = "T5"
columns = ["birth_country", "education"]

[[tables]]
id = "T6"
columns = ["age", "region", "sex"]
"""
TABLES = (
    ("age",),
    ("region",),
    ("sex",),
    ("age", "sex"),
    ("age", "region"),
    ("region", "sex"),
    ("income", "region"),
    ("birth_country", "education"),
    ("age", "region", "sex"),
)


def make_release(folder: Path, census: Path) -> Path:
    """A release of few tables of the simulated census."""
    from engine.release import build
    from engine.spec import read_spec

    release = {"title": "Simulated census"}
    spec = write_spec(folder, census / "people.parquet", CENSUS, TABLES, release=release)
    path = folder / "census.duckdb"
    build(read_spec(spec), path, jobs=1)
    return path


def make_pack(folder: Path, release: Path, text: str = SPEC, name: str = "pack") -> Path:
    """The pack of a release, by a spec."""
    (folder / f"{name}.toml").write_text(text, encoding="utf-8")
    publish_pack(release, folder / name, spec=folder / f"{name}.toml")
    return folder / name


def shared_release(tmp_path_factory, census: Path) -> Path:
    """The release of all tests of packs that only read it; built once a run."""
    folder = tmp_path_factory.getbasetemp() / "shared-pack"
    folder.mkdir(exist_ok=True)
    path = folder / "census.duckdb"
    return path if path.exists() else make_release(folder, census)


def shared_pack(release: Path) -> Path:
    """The pack of the shared release; for tests that only read it."""
    path = release.parent / "pack"
    return path if path.exists() else make_pack(release.parent, release)


def rows_of(path: Path) -> list[dict]:
    """Rows of a CSV file, types as DuckDB detects them, text for codes."""
    con = duckdb.connect()
    found = con.execute(
        "SELECT * FROM read_csv(?, header = true, all_varchar = true, nullstr = '')", [str(path)]
    )
    names = [d[0] for d in found.description]
    return [dict(zip(names, row, strict=True)) for row in found.fetchall()]


def figures_of(pack: Path, table: str, *columns: str) -> dict[tuple, float | None]:
    """Values of a table by its codes."""
    return {
        tuple(r[c] for c in columns): None if r["value"] is None else float(r["value"])
        for r in rows_of(pack / f"tables/{table}.csv")
    }


def loaded(path: Path) -> dict:
    return json.loads(path.read_text("utf-8"))
