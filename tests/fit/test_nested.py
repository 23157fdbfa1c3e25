"""Mode dp: columns whose levels lie in those of others, such as areas in regions, are reconciled by variance."""

from __future__ import annotations

import numpy as np
import pytest

from engine.fit.joint import synthesise
from engine.fit.joint.margins import reconcile
from engine.levels import Levels, Margin, StructuralZero
from engine.params import DPParams
from engine.schema import Column


def within(of, n_regions):
    """An area can be in its own region only."""
    cells = np.ones((len(of), n_regions), dtype=bool)
    cells[np.arange(len(of)), of] = False
    return StructuralZero(columns=("area", "region"), cells=cells, why="a hierarchy")


def margin(columns, n, variance):
    return Margin(columns=columns, n=np.rint(n).astype(np.int64), variance=variance)


def total(n):
    return Margin(columns=(), n=np.array(n, dtype=np.int64), variance=0.0)


def test_the_least_squares_estimate_of_two_regions_of_two_areas():
    # Areas say that regions differ by 30 - 70 with variance 4, regions themselves by 33 - 68 with variance 2: by
    # -36.67 together. The total is 100, so regions have 31.67 and 68.33, and areas give way alike.
    areas = margin(("area",), [12, 18, 33, 37], 1.0)
    regions = margin(("region",), [33, 68], 1.0)
    zeros = [within(np.array([0, 0, 1, 1]), 2)]
    one, other = reconcile([areas, regions], total(100), post="wls", zeros=zeros)
    assert other.n == pytest.approx([95 / 3, 205 / 3], abs=1e-5)
    assert one.n == pytest.approx(
        np.array([12, 18, 33, 37]) + np.repeat([5 / 6, -5 / 6], 2), abs=1e-5
    )


def of_pairs(area, of, n_regions, sd, rng):
    """Noisy counts by area and sex, and by region and sex."""
    sex = rng.integers(0, 2, len(area))
    counts = np.zeros((len(of), 2))
    np.add.at(counts, (area, sex), 1)
    above = np.zeros((n_regions, 2))
    np.add.at(above, of, counts)
    noisy = [n + rng.normal(0, sd, n.shape) for n in (counts, above)]
    return above, [
        margin(c, n, sd**2)
        for c, n in zip([("area", "sex"), ("region", "sex")], noisy, strict=True)
    ]


@pytest.mark.parametrize("seed", range(3))
def test_targets_of_finer_columns_add_up_to_those_of_coarser_ones(seed):
    rng = np.random.default_rng(seed)
    of = np.sort(rng.integers(0, 6, 80))
    area = rng.choice(80, 4_000, p=rng.dirichlet(np.full(80, 0.3)))
    _, margins = of_pairs(area, of, 6, 4.0, rng)
    fine, coarse = reconcile(margins, total(4_000), post="wls", zeros=[within(of, 6)])
    sums = np.zeros((6, 2))
    np.add.at(sums, of, fine.n)
    assert sums == pytest.approx(coarse.n, abs=1e-6)
    assert fine.n.min() >= 0


def levels_of(name, n):
    codes = np.arange(n, dtype=np.int64)
    column = Column(name=name, kind="integer", value_type="int")
    return Levels(column=column, low=codes, high=codes, has_null=False)


@pytest.mark.parametrize("spread", [1.0, 0.05])
def test_a_sum_of_100_areas_is_as_accurate_as_one_measurement(spread):
    """Twenty regions of 100 areas: added up alone, 100 areas have ten times the noise of one count."""
    sd, found = 10.0, []
    for seed in range(4):
        rng = np.random.default_rng(seed)
        of = np.repeat(np.arange(20), 100)
        weight = rng.gamma(spread, 1, 2_000) * np.repeat(rng.gamma(3, 1, 20), 100)
        area = rng.choice(2_000, 30_000, p=weight / weight.sum())
        true = np.bincount(of[area], minlength=20)
        exact = [np.bincount(area, minlength=2_000), true]
        names = ("area",), ("region",)
        made = synthesise(
            [
                margin(c, n + rng.normal(0, sd, len(n)), sd**2)
                for c, n in zip(names, exact, strict=True)
            ],
            total(30_000),
            params=DPParams(columns=("area", "region"), margins=names, epsilon=1.0),
            levels={"area": levels_of("area", 2_000), "region": levels_of("region", 20)},
            zeros=[within(of, 20)],
            rng=rng,
        )
        assert (of[made.cells[:, 0]] == made.cells[:, 1]).all()
        found.append((np.bincount(made.cells[:, 1], made.n, 20) - true) / sd)
    # The root mean square of 80 errors of sd at most 1.
    assert np.sqrt(np.mean(np.square(found))) < 1 + 3 / np.sqrt(2 * 80)


def test_exact_figures_come_back_where_regions_have_unequal_numbers_of_areas():
    of = np.repeat([0, 1, 2], [1, 3, 8])
    rng = np.random.default_rng(1)
    area_sex = rng.integers(50, 500, (12, 2)).astype(np.float64)
    area_region = np.zeros((12, 3))
    area_region[np.arange(12), of] = area_sex.sum(axis=1)
    region_sex = np.zeros((3, 2))
    np.add.at(region_sex, of, area_sex)
    exact = {
        ("area", "region"): area_region,
        ("area", "sex"): area_sex,
        ("region", "sex"): region_sex,
    }
    found = reconcile(
        [margin(columns, n, 1e-6) for columns, n in exact.items()],
        total(int(area_sex.sum())),
        post="wls",
        zeros=[within(of, 3)],
    )
    for target in found:
        assert target.n == pytest.approx(exact[target.columns], abs=1e-3)


@pytest.mark.parametrize("more", [(), (("sex",),)])
def test_a_target_of_both_columns_is_kept(more):
    of = np.repeat([0, 1, 2], 4)
    area = np.arange(1, 13) * 100
    both = np.zeros((12, 3))
    both[np.arange(12), of] = area
    names = ("area", "region", *(name for (name,) in more))
    made = synthesise(
        [margin(("area", "region"), both, 1.0)]
        + [margin(columns, [3_800, 4_000], 1.0) for columns in more],
        total(area.sum()),
        params=DPParams(columns=names, margins=(("area", "region"), *more), epsilon=1.0),
        levels={"area": levels_of("area", 12), "region": levels_of("region", 3)}
        | {name: levels_of(name, 2) for (name,) in more},
        zeros=[within(of, 3)],
        rng=np.random.default_rng(1),
    )
    assert np.bincount(made.cells[:, 0], made.n, 12) == pytest.approx(area, abs=5)
    assert (of[made.cells[:, 0]] == made.cells[:, 1]).all()


def test_a_region_without_areas_has_no_rows():
    areas = margin(("area",), [12, 18, 33, 37], 1.0)
    regions = margin(("region",), [28, 60, 12], 1.0)
    zeros = [within(np.array([0, 0, 1, 1]), 3)]
    fine, coarse = reconcile([areas, regions], total(100), post="wls", prior=3.0, zeros=zeros)
    assert coarse.n[2] == 0
    assert fine.n.reshape(2, 2).sum(axis=1) == pytest.approx(coarse.n[:2], abs=1e-6)
