"""Rare values that are counted at a value which stands alone: over known keys, against the data."""

from __future__ import annotations

from itertools import count

import numpy as np
import pandas as pd
import pytest

import engine
from engine.source import begin_charges
from queries.intervals import estimates, extrapolation, tabulate

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
KEYS = 4


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


LIMITS = {"at 0": (None, 0), "above 0": (1, None), "0 itself": (0, 0)}


def held(releases):
    """Which intervals hold what the data say, by limits."""
    out = {}
    for name, (low, high) in LIMITS.items():
        true = sum(n for v, n in INCOMES.items() if v >= (low or 0) and (high is None or v <= high))
        found = [tabulate(release, [], where={"income": (low, high)}) for release in releases]
        out[name] = [bool(got.low[0] <= true <= got.high[0]) for got in found]
    return out


@pytest.mark.ci
def test_limits_beside_a_lone_value_hold_over_keys(releases, monkeypatch):
    assert all(sum(kept) >= KEYS - 1 for kept in held(releases).values())
    monkeypatch.setattr(
        estimates, "absorbed", lambda *given: np.zeros((1, given[0].region.n_groups))
    )
    assert sum(held(releases)["at 0"]) < KEYS - 1  # the check above sees it


@pytest.mark.ci
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


@pytest.mark.slow
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


@pytest.mark.slow
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


@pytest.mark.slow
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
