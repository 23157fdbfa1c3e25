"""Rows move inside their levels until they add up to measured sums."""

from __future__ import annotations

import numpy as np
import pytest
from fixtures.measure import column
from hypothesis import given, settings
from hypothesis import strategies as st

from engine.fit.joint.positions import GroupSums, meeting
from engine.levels import HALF, Levels, positions, widest
from engine.schema import NULL_CODE


def held(share, width, group) -> np.ndarray:
    return np.bincount(group, 2 * HALF * (share - 0.5) * width)


def sums_of(group, n, variance=0.0) -> GroupSums:
    return GroupSums(group=np.array(group), n=np.array(n, dtype=float), variance=variance)


def test_positions_by_hand():
    levels = Levels(
        column=column("X", bounds=(0, 100), public=True),
        low=np.array([0, 0, 10, 50]), high=np.array([0, 9, 49, 100]), has_null=True,
    )  # fmt: skip
    assert widest(levels) == 50
    codes = np.array([NULL_CODE, 50, 75, 100, 10, 49, 0, 9, 4])
    half = [39 * HALF / 50, 9 * HALF / 50, HALF / 50]
    assert positions(codes, levels).tolist() == [
        0, -HALF, 0, HALF, *np.rint([-half[0], half[0], -half[1], half[1], -half[2]]),
    ]  # fmt: skip


@settings(max_examples=40, deadline=None)
@given(seed=st.integers(0, 2**32))
def test_exact_sums_are_met_and_nobody_leaves_a_level(seed):
    """Sums that some shares have: of all, and in groups."""
    rng = np.random.default_rng(seed)
    n, groups = 400, int(rng.integers(1, 6))
    group, width = rng.integers(0, groups, n), rng.choice([0.0, 0.1, 1.0], n)
    true, share = rng.beta(rng.uniform(0.5, 3), 2, n), rng.random(n)
    own = held(true, width, np.append(group, groups - 1)[:n])
    own = np.append(own, np.zeros(groups - len(own)))
    whole = np.zeros(n, dtype=np.int64)
    got = meeting(share, width, [sums_of(group, own), sums_of(whole, [own.sum()])])
    assert got.min() >= 0
    assert got.max() <= 1
    reached = np.bincount(group, 2 * HALF * (got - 0.5) * width, groups)
    assert np.abs(reached - own).max() < 1e-3 * HALF
    for level in np.unique(width):
        for one in range(groups):  # in order, as they were
            at = (width == level) & (group == one)
            assert (np.diff(got[at][np.argsort(share[at])]) >= 0).all()


def test_what_is_noise_is_not_met():
    share, group = np.linspace(0, 1, 100), np.zeros(100, dtype=np.int64)
    width = np.ones(100)
    far = meeting(share, width, [sums_of(group, [20 * HALF], variance=(10 * HALF) ** 2)])
    # Of 20 HALF a fourth is noise, by variances.
    assert held(far, width, group)[0] == pytest.approx(15 * HALF, rel=1e-6)
    near = meeting(share, width, [sums_of(group, [5 * HALF], variance=(10 * HALF) ** 2)])
    assert near.tolist() == pytest.approx(share.tolist())


def test_more_groups_leave_the_sum_of_fewer():
    rng = np.random.default_rng(1)
    group, share, width = np.repeat([0, 1], 200), rng.random(400), np.ones(400)
    whole = np.zeros(400, dtype=np.int64)
    got = meeting(
        share, width, [sums_of(group, [90 * HALF, 10 * HALF]), sums_of(whole, [40 * HALF])]
    )
    assert held(got, width, whole)[0] == pytest.approx(40 * HALF, rel=1e-3)
    one, other = held(got, width, group)
    assert one - other == pytest.approx(80 * HALF, rel=0.01)
