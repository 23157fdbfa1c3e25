"""The fit meets measured sums, changes no count of a column or group for them, and says the same sum everywhere."""

from __future__ import annotations

import numpy as np
import pytest
from attacks.trials import Trial, trial_of_rows
from fixtures.measure import EXACT, Noiseless
from hypothesis import given, settings
from hypothesis import strategies as st

from engine.fit.sums import Moments, aims, calibrate
from engine.schema import NULL_CODE

RELEASED = Noiseless(threshold=5)
"""Values of fewer are hidden; nothing else is noise."""


def people(n: int, seed: int = 0) -> dict[str, np.ndarray]:
    """Two columns of few values and incomes that depend on them; children have none."""
    rng = np.random.default_rng(seed)
    a, b = rng.integers(0, 4, n), rng.integers(0, 3, n)
    x = np.exp(rng.normal(6 + 0.3 * a - 0.2 * b, 0.8)).astype(np.int64)
    return {"a": a, "b": b, "x": np.where(rng.random(n) < 0.1, NULL_CODE, x)}


def sums_in(trial: Trial, table: tuple[str, ...], by: tuple[str, ...]) -> dict[tuple, int]:
    """Sums of x by some columns, as a table shows them."""
    held, out = trial.tables[table], {}
    values = {
        name: np.where(of.kind > 0, of.grid, 0)[held.codes[:, j]]
        for j, name in enumerate(table)
        for of in [trial.supports[name]]
    }
    for i in range(len(held.n)):
        key = tuple(int(values[name][i]) for name in by)
        out[key] = out.get(key, 0) + int(values["x"][i] * held.n[i])
    return out


def true_sums(codes, by) -> dict[tuple, int]:
    out: dict[tuple, int] = {}
    for i in range(len(codes["x"])):
        if codes["x"][i] != NULL_CODE:
            key = tuple(int(codes[name][i]) for name in by)
            out[key] = out.get(key, 0) + int(codes["x"][i])
    return out


def test_sums_of_groups_come_out_as_measured():
    """Without noise, but for what the fit doubts all the same, whole numbers and clipping: less than a person."""
    codes = people(3_000)
    trial = trial_of_rows(codes, [("a", "x"), ("b", "x")], 1, draws=RELEASED)
    for by in ("a", "b"):
        found, wanted = sums_in(trial, (by, "x"), (by,)), true_sums(codes, (by,))
        width = trial.measurements[by, "x"].sums[0].scale.max()
        assert max(abs(found[g] - wanted[g]) for g in wanted) < width


def test_a_planted_sum_of_another_column_is_missed():
    """That the fit listens to sums at all: told those of groups in reverse, it says these."""

    class Reversed(Noiseless):
        def of_sums(self, name):
            class Shifted(Noiseless):
                def label_noise(self, columns, kind, level, index, log2_scale):
                    shift = 30 * (1 << log2_scale)
                    return np.where(np.arange(len(kind)) % 2, shift, -shift)

            return Shifted()

    codes = people(3_000)
    trial = trial_of_rows(codes, [("a", "x")], 1, draws=Reversed(threshold=5))
    found, wanted = sums_in(trial, ("a", "x"), ("a",)), true_sums(codes, ("a",))
    width = trial.measurements["a", "x"].sums[0].scale.max()
    assert max(abs(found[g] - wanted[g]) for g in wanted) > 5 * width


@pytest.mark.parametrize("seed", range(3))
def test_a_sum_is_the_same_in_every_table(seed):
    """Over all groups of any table of two columns it is the column's own."""
    trial = trial_of_rows(people(1_500, seed), [("x",), ("a", "x"), ("b", "x")], seed)
    (total,) = sums_in(trial, ("x",), ()).values()
    for by in ("a", "b"):
        assert sum(sums_in(trial, (by, "x"), (by,)).values()) == total


def test_sums_of_three_columns_are_near_those_of_two():
    """As near as rounding comes, which meets counts first: about 1.4 times what one row can change (2 in squares)."""
    tables = [("a", "b"), ("a", "x"), ("b", "x"), ("a", "b", "x")]
    off = []
    for seed in range(3):
        trial = trial_of_rows(people(4_000), tables, seed)
        pairs = sums_in(trial, ("a", "x"), ("a",))
        wide = sums_in(trial, ("a", "b", "x"), ("a",))
        scale = trial.measurements["a", "x"].sums[0].scale.max()
        off += [(pairs[g] - wide[g]) / scale for g in pairs]
    assert np.mean(np.square(off)) < 5


def test_where_nothing_is_hidden_nothing_changes():
    """All values are shown one by one: no sum is measured, and every count is exact."""
    codes = {"a": np.arange(400) % 4, "x": np.arange(400) % 8}
    trial = trial_of_rows(codes, [("a", "x")], 1, draws=EXACT)
    assert not trial.measurements["a", "x"].sums
    assert sums_in(trial, ("a", "x"), ("a",)) == true_sums(codes, ("a",))


# Calibration, on cells by hand and at random.


def moments(group, value, box, sums, noise, variance=np.inf, parts=None) -> Moments:
    n_groups, n_boxes = len(sums), int(max(box)) + 1
    return Moments(
        np.array(group),
        np.array(value, dtype=np.float64),
        np.array(box),
        np.full(n_boxes, float(variance)),
        np.array(sums, dtype=np.float64),
        np.array(noise, dtype=np.float64),
        np.zeros((1, n_groups), dtype=np.int64) if parts is None else np.array(parts),
    )


def test_by_hand_two_groups_of_four_rows_meet_half_way():
    """Measured 4 too high in one and right in the other, as surely: each gives way by 2, for the total is known."""
    known = moments([0, 0, 1, 1], [0, 8, 0, 8], [0, 0, 1, 1], [20.0, 16.0], [1e-9, 1e-9])
    x = np.array([2.0, 2.0, 2.0, 2.0])
    aim = aims(x, known)
    assert aim == pytest.approx([18.0, 14.0])
    calibrate(x, known, aim)
    assert x == pytest.approx([1.75, 2.25, 2.25, 1.75])


def test_by_hand_an_uncertain_sum_counts_less():
    """What is known without it has variance 4 (2 x (4-2)**2 / ... = 64 / 4 a row), as much as its noise: half way.

    The group that was not measured takes what is left.
    """
    known = moments([0, 0, 1, 1], [0, 8, 0, 8], [0, 0, 1, 1], [24.0, 0.0], [64.0, np.inf])
    aim = aims(np.array([2.0, 2.0, 200.0, 200.0]), known)
    assert aim[0] == pytest.approx(20.0, abs=0.1)
    assert aim.sum() == pytest.approx(16.0 + 1600.0)


CELLS = st.lists(
    st.tuples(st.integers(0, 3), st.integers(-50, 50), st.integers(0, 2), st.floats(0.1, 9)),
    min_size=2,
    max_size=40,
)


@given(CELLS, st.lists(st.integers(-900, 900), min_size=4, max_size=4), st.floats(0.5, 1e4))
@settings(deadline=None)
def test_no_group_gains_or_loses_rows_and_aims_add_up_to_what_was(cells, sums, noise):
    group, value, box, rows = (list(of) for of in zip(*cells, strict=True))
    box = [3 * g + b for g, b in zip(group, box, strict=True)]
    known = moments(group, value, box, sums, [noise, noise, np.inf, noise], variance=2.0)
    x = np.array(rows)
    before = np.bincount(group, weights=x, minlength=4)
    aim = aims(x, known)
    assert aim.sum() == pytest.approx((x * np.array(value)).sum(), abs=1e-6 * (1 + np.abs(x).sum()))
    calibrate(x, known, aim)
    assert (x > 0).all()
    after = np.bincount(group, weights=x, minlength=4)
    is_clamped = (x / np.array(rows) <= 0.2500001) | (x / np.array(rows) >= 3.9999999)
    free = ~np.isin(np.arange(4), np.array(group)[is_clamped])
    assert after[free] == pytest.approx(before[free])
