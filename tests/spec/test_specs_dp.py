"""The specs of mode dp in releases/: they can be planned without data, and their data break none of their rules.

Levels and zeros are looked up with pandas here, independently of the counting code.
"""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from fixtures.pipeline import ROOT, make_census

from engine.key_files import new_key
from engine.levels import Levels
from engine.measure.dp import levels_of, zeros_of
from engine.release import plan_dp
from engine.spec import read_spec

pytest.importorskip("opendp")
RELEASES = ROOT / "releases"
SD2011 = ROOT.parent / "shared" / "synthpop" / "SD2011.csv"
SPECS = {
    # columns, margins, counts in them, epsilon, what there is to spend
    "nist-dp": (24, 276, 1.0, 11.0),
    "sd2011-dp": (7, 21, 1.0, 4.0),
    "census-dp": (6, 6, 1.0, 4.0),
}


def planned(name: str, tmp_path):
    """A spec, read where there are no data, and its plan."""
    (tmp_path / f"{name}.toml").write_text((RELEASES / f"{name}.toml").read_text("utf-8"), "utf-8")
    spec = read_spec(tmp_path / f"{name}.toml", check_key=False)
    spec.key_path.parent.mkdir(parents=True)
    new_key(spec.key_path)
    return spec, plan_dp(spec)


def spec_of(name: str):
    return read_spec(RELEASES / f"{name}.toml", check_key=False)


def indexes(levels: Levels, values: pd.Series) -> np.ndarray:
    """Which level each text of a column is; -1 for none."""
    missing = values.isna().to_numpy()
    if levels.values is not None:
        kind = type(levels.values[0])
        typed = [None if m else kind(v) for v, m in zip(values, missing, strict=True)]
        found = pd.Index(levels.values).get_indexer(pd.Index(typed, dtype=object))
    else:
        grid = levels.column.resolution
        step = 1 if grid is None else float(grid.base) ** grid.exponent
        codes = np.rint(values.astype(float).fillna(0) / step)
        low, high = levels.low[levels.has_null :], levels.high[levels.has_null :]
        found = np.searchsorted(low, codes.to_numpy().astype(np.int64), side="right") - 1
        found[(found >= 0) & (codes.to_numpy() > high[found])] = -1
    if levels.has_null:
        return np.where(missing, 0, np.where(found < 0, -1, found + 1))
    return np.where(missing, -1, found)


def broken(spec, frame: pd.DataFrame) -> tuple[dict[str, int], dict[str, int], int]:
    """Values that are no level, by column; rows in declared zeros, by rule; number of rules."""
    columns = [c for c in spec.columns if c.name in spec.dp.columns]
    levels = {c.name: levels_of(c) for c in columns}
    at = {
        name: indexes(one, frame[name].mask(frame[name].isin(one.column.nulls)))
        for name, one in levels.items()
    }
    zeros = zeros_of(tuple(spec.columns), spec.zeros, levels)
    outside = {name: int((found < 0).sum()) for name, found in at.items()}
    inside = {z.why: int(z.cells[tuple(at[c] for c in z.columns)].sum()) for z in zeros}
    return (
        {k: v for k, v in outside.items() if v},
        {k: v for k, v in inside.items() if v},
        len(zeros),
    )


@pytest.mark.parametrize(
    "name",
    [*(pytest.param(n, marks=pytest.mark.slow) for n in ("nist-dp", "sd2011-dp")), "census-dp"],
)
def test_a_spec_can_be_planned_without_data(name, tmp_path):
    columns, margins, epsilon, budget = SPECS[name]
    spec, plan = planned(name, tmp_path)
    assert (len(spec.dp.columns), plan.margins) == (columns, margins)
    assert plan.cost.epsilon == pytest.approx(epsilon, rel=1e-3)
    assert plan.cost.epsilon <= epsilon
    assert (plan.budget, plan.spent, plan.left) == (budget, 0, budget)
    assert not [w for w in plan.warnings if "in no margin" in w]
    assert all(len(t.columns) <= columns for t in plan.tables)


@pytest.mark.nist
@pytest.mark.skipif(
    not SD2011.exists(), reason="SD2011 is not beside the checkout (../shared/synthpop)"
)
def test_sd2011_fits_its_levels():
    spec = spec_of("sd2011-dp")
    frame = pd.read_csv(SD2011, dtype=str, keep_default_na=False)
    assert broken(spec, frame)[:2] == ({}, {})


def test_the_simulated_census_fits_its_levels(tmp_path):
    people = pd.read_parquet(make_census(tmp_path / "data", 3_000) / "people.parquet")
    outside, inside, n_zeros = broken(spec_of("census-dp"), people)
    assert (outside, inside, n_zeros) == ({}, {}, 1)
