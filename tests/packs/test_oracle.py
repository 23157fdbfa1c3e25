"""Figures of a pack against a slow oracle, cell by cell, in every format: intervals, areas, shares, what is hidden."""

from __future__ import annotations

import json
import math
import warnings
from dataclasses import replace

import numpy as np
import pytest
from fixtures.pack import AREAS, DIMENSIONS, rows_of

from queries.intervals import tabulate
from queries.packs import pack_spec_from, preview
from queries.packs.model import STATUSES

FIGURES = ("value", "low", "high")


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
    assert all(pd.api.types.is_numeric_dtype(frame[f]) for f in FIGURES)
    return {
        tuple(row[c] for c in columns): tuple(number(row[f]) for f in FIGURES)
        for row in frame.to_dict("records")
    }


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
    assert len(raw["status"]) == len(raw["value"])
    return {
        tuple(axis[i] for axis, i in zip(axes, place, strict=False)): tuple(values[place])
        for place in np.ndindex(*raw["size"][:-1])
    }


def in_px(pack, table, *columns, language="en"):
    pyaxis = pytest.importorskip("pyaxis.pyaxis")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        parsed = pyaxis.parse(str(pack / f"px/{table}.px"), encoding="utf-8", lang=language)
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
    return {place: tuple(figures) for place, figures in out.items()}


FORMATS = (in_csv, in_parquet, in_sdmx, in_json_stat, in_px)


def alike(a, b):
    return all(
        (x is None and y is None)
        or (x is not None and y is not None and math.isclose(x, y, rel_tol=1e-9, abs_tol=1e-9))
        for x, y in zip(a, b, strict=True)
    )


@pytest.mark.parametrize("table", DIMENSIONS)
def test_all_formats_have_the_same_figures_also_of_what_is_not_released(pack, table):
    names = DIMENSIONS[table]
    first = in_csv(pack, table, *names)
    for read in FORMATS[1:]:
        other = read(pack, table, *names)
        assert other.keys() == first.keys()
        assert all(alike(other[k], first[k]) for k in first), read.__name__
    if table == "P2":
        hidden = [figures for figures in first.values() if figures[0] is None]
        assert len(hidden) > 10
        assert all(low == 0 and high > 0 for _, low, high in hidden)


def test_px_has_the_figures_in_each_language(pack):
    assert in_px(pack, "T1", "region", "sex", language="de") == in_px(pack, "T1", "region", "sex")


def test_districts_add_up_to_regions_and_those_to_the_country(pack):
    for table, read in (("T1", in_csv), ("T1", in_px)):
        found = read(pack, table, "region", "sex")
        for sex in ("_T", "Female", "Male"):
            for area, parts in AREAS.items():
                assert found[area, sex][0] == sum(found[part, sex][0] for part in parts)
        for area in {area for area, _ in found}:
            assert found[area, "_T"][0] == found[area, "Female"][0] + found[area, "Male"][0]


def test_figures_and_intervals_are_those_of_the_release(pack, opened):
    expected = tabulate(opened, ["region", "sex"])
    mine = {(r["region"], r["sex"]): r for r in rows_of(pack / "tables/T1.csv")}
    for i, key in enumerate(expected.keys):
        row = mine[key]
        assert [float(row[f]) for f in FIGURES] == [getattr(expected, f)[i] for f in FIGURES]
        assert row["status"] == expected.status[i]


def limits(area):
    """The regions of an area, by hand."""
    if area == "_T":
        return {}
    parts = [area]
    while any(p in AREAS for p in parts):
        parts = [q for p in parts for q in AREAS.get(p, [p])]
    return {"region": parts}


def test_percentages_are_those_of_a_slow_oracle(pack, opened):
    found = in_csv(pack, "P1", "region", "sex")
    assert len(found) == 13 * 3
    for (area, sex), got in found.items():
        if sex == "_T":
            assert got == (100, 100, 100)
            continue
        if area == "_T" or area not in AREAS:  # without groups, the share that `tabulate` gives
            own = tabulate(opened, ["sex"], where=limits(area), measure="share", beside=["region"])
            i = own.keys.index((sex,))
            expected = [100 * getattr(own, f)[i] for f in FIGURES]
        else:
            whole = tabulate(opened, ["sex"], where=limits(area), beside=["region"])
            total = tabulate(opened, [], where=limits(area), beside=["region", "sex"])
            i = whole.keys.index((sex,))
            part = (whole.value[i], whole.low[i], whole.high[i])
            of = (total.value[0], total.low[0], total.high[0])
            expected = (100 * part[0] / of[0], 100 * part[1] / of[2], 100 * part[2] / of[1])
        assert got == pytest.approx(expected, abs=0.0051), (area, sex)


def strays(release, raw, alter=lambda table: table) -> tuple[int, list]:
    """Number of listed cells, and those whose figures are not what `tabulate` gives for them."""
    n, out = 0, []
    for table in map(alter, preview(release, pack_spec_from(raw)).tables):
        assert table.is_listed
        answer = tabulate(release, [d.name for d in table.dimensions])
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


def listed(*tables):
    return {"pack": {"max_cells": 1}, "tables": [{"columns": list(t)} for t in tables]}


def test_listed_cells_have_the_intervals_of_tabulate(opened):
    raw = listed(("age", "region", "sex"), ("age", "region"), ("birth_country", "education"))
    n, out = strays(opened, raw)
    assert n > 100
    assert out == []

    def wider(table):
        return replace(table, high=table.high + (np.arange(len(table)) == 3))

    assert len(strays(opened, raw, wider)[1]) == 3  # one a table
