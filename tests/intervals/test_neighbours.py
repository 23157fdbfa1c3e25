"""Rare values that are counted at a value which stands alone: by hand, and over known keys against the data."""

from __future__ import annotations

from dataclasses import replace
from itertools import count

import numpy as np
import pandas as pd
import pytest

import engine
from engine.schema import KIND_NEGATIVE, KIND_NONNEGATIVE
from engine.source import begin_charges
from queries.intervals import estimates, extrapolation, noise_model, tabulate
from queries.intervals.buckets import ReleasedValues
from queries.intervals.extrapolation import absorbed
from queries.intervals.model import Groups
from queries.intervals.neighbours import Neighbours, beside, rare_neighbours
from queries.intervals.regions import region_of

SPEC = """
[release]
title = "t"
vintage = "1"
key = "k.key"
[source]
path = "d.parquet"
entities = ["id"]
[columns.id]
kind = "integer"
[columns.income]
kind = "integer"
[[tables]]
columns = ["income"]
"""
RARE = {4: 3, 10: 4}
INCOMES = (
    {0: 900}
    | RARE
    | {20: 12, 30: 8, 40: 7, 50: 9, 100: 25, 110: 2, 125: 12, 150: 8, 200: 40, 250: 9, 300: 60}
)
KEYS = 12


@pytest.fixture(scope="module")
def releases(tmp_path_factory):
    """The same incomes under keys that are always the same: those next to 0 are rare."""
    folder, numbers = tmp_path_factory.mktemp("neighbours"), count(1)
    income = np.repeat(list(INCOMES), list(INCOMES.values()))
    pd.DataFrame({"id": range(len(income)), "income": income}).to_parquet(folder / "d.parquet")
    (folder / "s.toml").write_text(SPEC)
    made = []
    for number in range(KEYS):
        for old in folder.glob("k.key*"):
            old.unlink()
        (folder / "k.key").touch(mode=0o600)
        (folder / "k.key").write_bytes(next(numbers).to_bytes(32, "little"))
        begin_charges(folder / "k.key")
        made.append(engine.build(folder / "s.toml", out=folder / f"{number}.duckdb", jobs=1))
    yield made
    for release in made:
        release.close()


def table_of(releases, places, n, measured, *, kind=KIND_NONNEGATIVE):
    """A one-way table and its tree; a value that is not measured was filled in beside a released half."""
    model, size = noise_model(releases[0], ("income",)), len(places)
    grid = np.array(places) if kind == KIND_NONNEGATIVE else ~np.array(places)
    order = np.argsort(grid)
    values = ReleasedValues(
        name="income",
        sql_type="BIGINT",
        values=tuple(grid[order].tolist()),
        kind=np.full(size, kind),
        grid=grid[order],
        n=np.array(n)[order],
    )
    table = replace(
        model.table,
        released=(values,),
        rows=np.arange(size)[:, None],
        n=np.array(n)[order],
        row_measured=np.array(measured, dtype=bool)[order],
        measured=np.array(measured, dtype=bool)[order],
    )
    return table, replace(model.tree, row_bucket=np.arange(size), is_open=np.full(size, 0.5))


def likely(rows, *parts):
    """Rows of hidden parts of a range that is as dense as one that is released, where 5 make a threshold."""
    return sum(rows * part * 5 / (rows * part + 5) for part in parts)


@pytest.mark.parametrize(("kind", "up"), [(KIND_NONNEGATIVE, 1), (KIND_NEGATIVE, 0)])
def test_what_is_expected_beside_lone_values_by_hand(releases, kind, up):
    """0 is alone in 0 to 15, where 9 was filled in; 20 in 16 to 31; 40 and 41 are not alone."""
    places, n = (0, 9, 20, 40, 41), (3000, 2, 12, 9, 9)
    table, tree = table_of(releases, places, n, (1, 0, 1, 1, 1), kind=kind)
    found = rare_neighbours(table, tree, most=5)
    rows = {abs(table.released[0].grid[at]): found.rows[:, i] for i, at in enumerate(found.at)}
    zero, twenty = (0, 20) if kind == KIND_NONNEGATIVE else (1, 21)
    # Beside 0 as dense as 16 to 31, less those filled in.
    assert rows[zero][up] == pytest.approx(likely(12, 1 / 16, 1 / 8, 1 / 4, 1 / 2) - 2)
    assert rows[zero][1 - up] == 0
    # 16 to 19; 21, 22 to 23, and 24 to 31. Nothing was filled in.
    below = likely(3002, 1 / 4)
    above = [likely(3002, part) for part in (1 / 16, 1 / 8, 1 / 2)]
    wanted = below * 5 / (5 + below), sum(x * 5 / (5 + x) for x in above)
    assert rows[twenty] == pytest.approx(wanted if up else wanted[::-1])
    assert len(rows) == 2


@pytest.mark.parametrize("kind", [KIND_NONNEGATIVE, KIND_NEGATIVE])
@pytest.mark.parametrize("places", [(0, 10, 20, 30), (5, 15, 25)])
def test_values_with_no_room_beside_them_are_not_alone(releases, places, kind):
    """By tens: 0 and 10 leave nothing beside them, and no value is in 16 to 19, 21 to 23, 24 to 29; nor by 5 more."""
    table, tree = table_of(releases, places, (9,) * len(places), (1,) * len(places), kind=kind)
    assert not len(rare_neighbours(table, tree, most=5).at)


@pytest.mark.parametrize("kind", [KIND_NONNEGATIVE, KIND_NEGATIVE])
def test_the_largest_codes_have_neighbours_too(releases, kind):
    table, tree = table_of(releases, (0, 2**62 + 3, 2**62 + 9), (9, 9, 9), (1, 1, 1), kind=kind)
    found = rare_neighbours(table, tree, most=5)
    assert len(found.at) == 3
    assert (found.rows >= 0).all()
    assert np.isfinite(found.rows).all()


def test_room_is_what_an_interval_is_longer_by():
    places, noise = np.arange(4), np.array([3.0, 3.0, 3.0, 0.0])
    found = Neighbours(at=places, beside=places[None], rows=np.zeros((2, 4)), noise=noise)
    assert found.room(np.array([4.0, -4.0, 0.0, 4.0])).tolist() == [2.0, -2.0, 0.0, 4.0]


def moved(release, low, high, by=()):
    """Room that limits leave to be lower, and higher."""
    model = noise_model(release, ("income",))
    region = region_of(model.table, by, {"income": (low, high)})
    groups = Groups(release=release, model=model, region=region)
    shift = absorbed(groups, groups.row, np.ones(len(groups.row)))
    return np.maximum(shift, 0).sum(axis=0), np.maximum(-shift, 0).sum(axis=0)


def test_limits_leave_room_on_the_side_that_is_right(releases):
    release = releases[1]
    (lower,), (higher,) = moved(release, None, 0)
    assert lower > 2
    assert higher == 0
    assert moved(release, 1, None)[1][0] > 2  # who earns 4 is counted at 0
    of_each = moved(release, None, None, by=("income",))[0]
    assert of_each[0] == pytest.approx(moved(release, 0, 0)[0][0])


def test_totals_of_single_values_have_nothing_of_what_moved_between_them(releases):
    """All rows are as many, wherever they are counted: a share is off by its own value's."""
    model = noise_model(releases[0], ("income",))
    groups = Groups(
        release=releases[0], model=model, region=region_of(model.table, ("income",), {})
    )
    part = estimates.counted_part(groups)
    assert part.shift[0].any()
    none = np.zeros(groups.region.n_groups, dtype=np.int64)
    total = estimates.total_part(groups.region, part, none, np.ones(len(model.table.rows)))
    assert not total.shift[0].any()


LIMITS = {"at 0": (None, 0), "above 0": (1, None), "0 itself": (0, 0)}


def held(releases):
    """Which intervals hold what the data say, by limits."""
    out = {}
    for name, (low, high) in LIMITS.items():
        true = sum(n for v, n in INCOMES.items() if v >= (low or 0) and (high is None or v <= high))
        found = [tabulate(release, [], where={"income": (low, high)}) for release in releases]
        out[name] = [bool(got.low[0] <= true <= got.high[0]) for got in found]
    return out


def test_limits_beside_a_lone_value_hold_over_keys(releases, monkeypatch):
    assert all(sum(kept) >= KEYS - 1 for kept in held(releases).values())
    monkeypatch.setattr(
        estimates, "absorbed", lambda *given: np.zeros((1, given[0].region.n_groups))
    )
    assert sum(held(releases)["at 0"]) <= KEYS / 2


@pytest.mark.parametrize(
    "figure",
    [
        "count(*) FILTER (WHERE income <= 0)",
        "count(*) FILTER (WHERE income <= 0) / count(*)",
        "sum(income) FILTER (WHERE income >= 1)",
    ],
)
def test_statements_with_such_limits_hold_over_keys(releases, figure):
    n, poor = sum(INCOMES.values()), INCOMES[0]
    true = {"c": poor, "r": poor / n, "s": sum(v * k for v, k in INCOMES.items())}
    wanted = true["s" if "sum" in figure else "r" if "/" in figure else "c"]
    rows = [r.sql(f"SELECT {figure} AS f FROM data", intervals=True).rows[0] for r in releases]
    assert sum(low <= wanted <= high for _, low, high, *_ in rows) >= KEYS - 1


@pytest.fixture(scope="module")
def by_sex(tmp_path_factory):
    """The same incomes of women and men, three women to two men at every income."""
    folder = tmp_path_factory.mktemp("by_sex")
    income = np.repeat(list(INCOMES), list(INCOMES.values()))
    sex = np.where(np.arange(len(income)) % 5 < 3, "f", "m")
    frame = pd.DataFrame({"id": range(len(income)), "income": income, "sex": sex})
    frame.to_parquet(folder / "d.parquet")
    more = '[[tables]]\ncolumns = ["sex"]\n[[tables]]\ncolumns = ["income", "sex"]\n'
    told = SPEC.replace("[[tables]]", '[columns.sex]\nkind = "category"\n[[tables]]') + more
    (folder / "s.toml").write_text(told)
    made = []
    for number in range(1, 7):
        for old in folder.glob("k.key*"):
            old.unlink()
        (folder / "k.key").touch(mode=0o600)
        (folder / "k.key").write_bytes(number.to_bytes(32, "little"))
        begin_charges(folder / "k.key")
        made.append(engine.build(folder / "s.toml", out=folder / f"{number}.duckdb", jobs=1))
    yield frame, made
    for release in made:
        release.close()


def held_by_sex(frame, made, *, where, by):
    """How many intervals of counts hold what the data say."""
    kept = frame[frame["income"].between(*where)]
    true = kept.groupby(list(by))["id"].count()
    found = [tabulate(release, list(by), where={"income": where}) for release in made]
    return sum(
        bool(low <= true.get(key if len(by) > 1 else key[0], 0) <= high)
        for got in found
        for key, low, high in zip(got.keys, got.low, got.high, strict=True)
    )


@pytest.mark.parametrize(
    ("where", "by"), [((0, 0), ("income", "sex")), ((0, 0), ("sex",)), ((0, 3), ("sex",))]
)
def test_groups_of_a_wider_table_have_their_part_of_rare_neighbours(by_sex, monkeypatch, where, by):
    frame, made = by_sex
    known = held_by_sex(frame, made, where=where, by=by)
    assert known >= 11
    monkeypatch.setattr(
        extrapolation, "beside", lambda groups, *_: np.zeros((1, groups.region.n_groups))
    )
    assert held_by_sex(frame, made, where=where, by=by) < known


def test_parts_of_all_groups_are_what_the_value_has(by_sex):
    """A limit beside 0 leaves both sexes together as much room as it leaves everybody."""
    release = by_sex[1][1]

    def higher(columns, by):
        model = noise_model(release, columns)
        region = region_of(model.table, by, {"income": (None, 0)})
        groups = Groups(release=release, model=model, region=region)
        return beside(groups, groups.row, np.ones(len(groups.row))).sum()

    assert higher(("income", "sex"), ("sex",)) == pytest.approx(higher(("income",), ()))
    assert higher(("income",), ()) > 2


@pytest.mark.parametrize(
    "text",
    [
        "SELECT income, count(*) FILTER (WHERE income > 20) * 1.0 / count(*) AS f FROM data GROUP BY income",
        "SELECT income, sex, avg(CASE WHEN income > 20 THEN 1 ELSE 0 END) AS f FROM data GROUP BY income, sex",
        "SELECT income, count(*) - count(*) FILTER (WHERE income > 20 AND sex = 'm') AS f FROM data GROUP BY income",
    ],
)
def test_parts_that_are_kept_by_what_is_grouped_by_fit_together(by_sex, text):
    """A part by an expression knows no groups of values, but as many lone values as the others."""
    for release in by_sex[1][:2]:
        got = release.sql(text, intervals=True)
        assert got.columns[-3:] == ("f_low", "f_high", "f_status")
        assert all(low is None or low <= f <= high for *_, f, low, high, _ in got.rows)


def test_cells_that_are_not_released_are_not_by_an_expression_either(by_sex):
    """A box of one row may have others that nobody drew."""
    for release in by_sex[1]:
        plain, spelled = (
            release.sql(
                f"SELECT {key} AS k, sex, count(*) AS n, avg(income) AS m FROM data GROUP BY ALL",
                intervals=True,
            ).rows
            for key in ("income", "income + 0")
        )
        status = {row[:2]: (row[5], row[9]) for row in spelled}
        hidden = [row[:2] for row in plain if row[5] == "not released" and row[2] <= 6]
        assert hidden
        assert {one for key in hidden for one in status[key]} == {"not released"}
