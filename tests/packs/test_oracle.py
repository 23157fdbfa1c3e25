"""Figures of a pack against a slow oracle, cell by cell, in every format: intervals, areas, shares, what is hidden."""

from __future__ import annotations

import json
import math
import warnings
from dataclasses import replace

import intervals
import numpy as np
import pytest
from fixtures.nist import needs_nist
from fixtures.pack import SPEC, make_pack, rows_of, shared_release
from fixtures.release_dp import spec_in

from engine.release import build
from queries.intervals import tabulate
from queries.packs import pack_spec_from, preview
from queries.packs.model import STATUSES
from queries.release import open_release

pytest.importorskip("pyarrow")
pytest.importorskip("gptables")
pytest.importorskip("jinja2")

MORE = """
[[tables]]
id = "P1"
rows = ["region"]
cols = ["sex"]
totals = ["region", "sex"]
subtotals = ["region"]
percent = "row"

[[tables]]
id = "P2"
rows = ["birth_country"]
cols = ["education"]
totals = ["birth_country", "education"]
percent = "total"
"""
AREAS = {
    "North": ["R1", "R2", "R3", "R4"],
    "South": ["R5", "R6", "R7", "R8", "R9"],
    "Country": ["North", "South"],
    "_T": ["Country"],
}
FIGURES = ("value", "low", "high")


@pytest.fixture(scope="module")
def release(census, tmp_path_factory):
    return shared_release(tmp_path_factory, census)


@pytest.fixture(scope="module")
def pack(release):
    return make_pack(release.parent, release, SPEC + MORE, "oracle")


def number(text):
    return None if text in (None, "", '".."', "..") or text != text else float(text)


def in_csv(pack, table, *columns):
    return {
        tuple(r[c] for c in columns): tuple(number(r[f]) for f in FIGURES)
        for r in rows_of(pack / f"tables/{table}.csv")
    }


def in_parquet(pack, table, *columns):
    import pandas as pd

    frame = pd.read_parquet(pack / f"tables/{table}.parquet")
    out = {}
    for row in frame.to_dict("records"):
        expected = tuple(None if math.isnan(row[f]) else float(row[f]) for f in FIGURES)
        out[tuple(row[c] for c in columns)] = expected
    return out


def in_sdmx(pack, table, *columns):
    keys = {
        c: {r["sdmx_key"]: r["code"] for r in rows_of(pack / f"codelists/{c}.csv")} for c in columns
    }
    return {
        tuple(keys[c][r[c]] for c in columns): tuple(
            number(r[f]) for f in ("OBS_VALUE", "NOISE_LOW", "NOISE_HIGH")
        )
        for r in rows_of(pack / f"sdmx/{table}.csv")
    }


def in_json_stat(pack, table, *columns):
    raw = json.loads((pack / f"jsonstat/{table}.json").read_text("utf-8"))
    axes = [raw["dimension"][c]["category"]["index"] for c in raw["id"]]
    values = np.array(raw["value"], dtype=object).reshape(raw["size"])
    assert raw["id"] == [*columns, "figure"]
    return {
        tuple(axis[i] for axis, i in zip(axes, place, strict=False)): tuple(values[place])
        for place in np.ndindex(*raw["size"][:-1])
    }


def in_px(pack, table, *columns):
    pyaxis = pytest.importorskip("pyaxis.pyaxis")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        parsed = pyaxis.parse(str(pack / f"px/{table}.px"), encoding="utf-8")
    names = [*parsed["METADATA"]["STUB"], *parsed["METADATA"]["HEADING"]]
    codes = [
        dict(
            zip(parsed["METADATA"][f"VALUES({n})"], parsed["METADATA"][f"CODES({n})"], strict=True)
        )
        for n in names
    ]
    out: dict = {}
    for row in parsed["DATA"].itertuples(index=False):
        place = tuple(code[label] for code, label in zip(codes[:-1], row[:-2], strict=True))
        out.setdefault(place, []).append(number(row[-1]))
    return {place: tuple(expected) for place, expected in out.items()}


FORMATS = (in_csv, in_parquet, in_sdmx, in_json_stat, in_px)


def alike(a, b):
    return all(
        (x is None and y is None)
        or (x is not None and y is not None and math.isclose(x, y, abs_tol=1e-9))
        for x, y in zip(a, b, strict=True)
    )


@pytest.mark.parametrize("table", ["T1", "P1", "P2"])
def test_all_formats_hold_the_same_ends_also_of_what_is_not_released(pack, table):
    names = ("birth_country", "education") if table == "P2" else ("region", "sex")
    first = in_csv(pack, table, *names)
    for read in FORMATS[1:]:
        other = read(pack, table, *names)
        assert other.keys() == first.keys()
        assert all(alike(other[k], first[k]) for k in first), read.__name__
    if table == "P2":
        hidden = [expected for expected in first.values() if expected[0] is None]
        assert len(hidden) > 10
        assert all(low == 0 and high > 0 for _, low, high in hidden)


@pytest.mark.parametrize("read", FORMATS)
def test_districts_add_up_to_regions_and_those_to_the_country(pack, read):
    found = read(pack, "T1", "region", "sex")
    for sex in ("_T", "Female", "Male"):
        for area, parts in AREAS.items():
            assert found[area, sex][0] == sum(found[part, sex][0] for part in parts)
    for area in (*AREAS, "R1"):
        assert found[area, "_T"][0] == found[area, "Female"][0] + found[area, "Male"][0]


def test_areas_stand_below_what_they_are_part_of_in_the_workbook(pack):
    openpyxl = pytest.importorskip("openpyxl")
    rows = [[c.value for c in row] for row in openpyxl.load_workbook(pack / "pack.xlsx")["T1"]]
    shown = {row[0]: row[1] for row in rows}
    for area, parts in (AREAS | {"Total": ["Country"]}).items():
        if area != "_T":
            assert shown[area] == sum(shown[part] for part in parts)
    order = [row[0] for row in rows if row[0] in shown and row[0] in (*AREAS, "Total", "R1", "R5")]
    assert order == ["Total", "Country", "North", "R1", "South", "R5"]


def limits(area):
    """The regions of an area, by hand."""
    if area == "_T":
        return {}
    parts = [area]
    while any(p in AREAS for p in parts):
        parts = [q for p in parts for q in AREAS.get(p, [p])]
    return {"region": parts}


def test_percentages_are_those_of_a_slow_oracle(pack, release):
    found = in_csv(pack, "P1", "region", "sex")
    assert len(found) == 13 * 3
    with open_release(release) as opened:
        for (area, sex), expected in found.items():
            if sex == "_T":
                assert expected == (100, 100, 100)
                continue
            if (
                area == "_T" or area not in AREAS
            ):  # without groups, the share that everyone gets who asks for it
                own = tabulate(opened, ["sex"], where=limits(area), measure="share")
                i = own.keys.index((sex,))
                expected = [100 * getattr(own, f)[i] for f in FIGURES]
                assert expected == pytest.approx(expected, abs=0.0051), (area, sex)
                continue
            whole = tabulate(opened, ["sex"], where=limits(area))
            total = tabulate(opened, [], where=limits(area))
            i = whole.keys.index((sex,))
            part = (whole.value[i], whole.low[i], whole.high[i])
            of = (total.value[0], total.low[0], total.high[0])
            expected = (100 * part[0] / of[0], 100 * part[1] / of[2], 100 * part[2] / of[1])
            assert expected == pytest.approx(expected, abs=0.0051), (area, sex)


def strays(release, raw, alter=lambda table: table) -> tuple[int, list]:
    """Number of listed cells, and those whose figures are not what `tabulate` gives for them."""
    n, out = 0, []
    with open_release(release) as opened:
        for table in map(alter, preview(opened, pack_spec_from(raw)).tables):
            assert table.is_listed
            answer = tabulate(opened, [d.name for d in table.dimensions])
            at = {key: i for i, key in enumerate(answer.keys)}
            values = [[item.value for item in d.items] for d in table.dimensions]
            for row, place in enumerate(table.index.tolist()):
                n += 1
                i = at[tuple(v[p] for v, p in zip(values, place, strict=True))]
                mine = [getattr(table, f)[row] for f in FIGURES]
                theirs = [getattr(answer, f)[i] for f in FIGURES]
                same = np.array_equal(mine, theirs, equal_nan=True)
                if not same or STATUSES[table.status[row]] != answer.status[i]:
                    out.append((table.id, place, mine, theirs))
    return n, out


def listed(*tables, cells=1):
    return {"pack": {"max_cells": cells}, "tables": [{"columns": list(t)} for t in tables]}


def test_listed_cells_have_the_intervals_that_tabulate_gives_them(release):
    raw = listed(("age", "region", "sex"), ("age", "region"), ("birth_country", "education"))
    n, out = strays(release, raw)
    assert n > 100
    assert out == []

    def wider(table):
        return replace(table, high=table.high + (np.arange(len(table)) == 3))

    assert len(strays(release, raw, wider)[1]) == 3  # one a table


def test_listed_cells_of_a_dp_release_have_the_intervals_that_tabulate_gives_them(tmp_path):
    build(spec_in(tmp_path), tmp_path / "r.duckdb", jobs=1)
    n, out = strays(tmp_path / "r.duckdb", {"pack": {"max_cells": 1}})
    assert n > 10
    assert out == []


@needs_nist
def test_listed_cells_of_nist_tables_have_the_intervals_of_tabulate(tmp_path):
    wide = (("AGEP", "PUMA", "SEX"), ("AGEP", "MSP", "SEX"), ("AGEP", "EDU", "PUMA"))
    for _ in intervals.releases("nist", tmp_path, 1, wide):
        pass
    n, out = strays(tmp_path / "nist-0.duckdb", listed(*wide))
    assert n > 500
    assert out == []
