"""Reconstruction: exact counts disclose secrets, noise protects as theory says, and planted faults are found."""

from __future__ import annotations

import tracemalloc

import numpy as np
import pandas as pd
import pytest
from attacks.predicted import told_of
from attacks.trials import trial_of_rows
from fixtures.attacks import FLAG, TARGET, HalvedNoise, build, checked, flagged, held_of, rng
from fixtures.measure import EXACT
from scipy.optimize import minimize

from engine.errors import SpecError
from engine.evaluation.attacks.protocol import UNRELEASED, Assumptions
from engine.evaluation.attacks.strong import (
    adaptive,
    chosen_targets,
    declared_targets,
    least_squares,
    linear,
    order_of,
    prior_of,
    reconstruction,
    settled,
    solve,
    system_of,
    widths,
)
from engine.evaluation.data.aligned import Reading, align, distinct
from engine.evaluation.findings import WHOLE
from engine.mechanism import StickyDraws


def right_of(given) -> dict[str, float]:
    solved = solve(given, TARGET)
    return {name: float(right.mean()) for name, right in solved.right.items()}


def exact(**more):
    columns, tables = flagged(**more)
    return columns, held_of(columns, trial_of_rows(columns, tables, 1, draws=EXACT))


def test_exact_counts_give_every_secret_away():
    _, given = exact(n_known=20, group=60)
    found = right_of(given)
    assert found["squares"] >= 0.97
    assert found["program"] >= 0.97
    assert found["guess"] <= 0.65


def test_the_system_is_what_plain_counting_gives():
    columns, given = exact(n_known=3, group=80)
    system = system_of(given, TARGET)
    inside = columns["flag"] == 1
    dense = system.matrix.toarray()
    at = 0
    for known in ("k00", "k01", "k02"):
        for value in np.unique(columns[known][inside]):
            here = columns[known][inside] == value
            assert (dense[at] == here).all()
            table = given.aligned.tables["flag", known, "secret"]
            code = np.searchsorted(given.aligned.values[known], value)
            for place, bit in enumerate(system.values):
                row = (table.codes["flag"] == 1) & (table.codes[known] == code)
                row &= table.codes["secret"] == bit
                assert system.shown[at, place] == table.n[row].sum()
                is_released = system.variance[at, place] < UNRELEASED
                assert is_released == table.measured[row].any()
            at += 1
    assert at == len(dense)
    assert (system.truth == columns["secret"][inside]).all()
    last = int(system.view.max())
    only = system.of_views(np.arange(last + 1) == last)
    assert (only.matrix.toarray() == dense[-8:]).all()
    assert system.released.sum() == (system.variance < UNRELEASED)[:, :2].sum()


@pytest.mark.parametrize("n_known", [2, pytest.param(12, marks=pytest.mark.slow)])
def test_least_squares_is_the_smallest_sum_of_squares(n_known):
    """More unknowns than equations, and fewer: no worse than a general minimiser's answer, and near it."""
    columns, tables = flagged(n_known=n_known, group=20, others=200)
    system = system_of(build(columns, tables), TARGET)
    prior = prior_of(system)
    own, noise = widths(system, prior)

    def cost(x):
        x = x.reshape(prior.shape)
        misfit = np.square(system.shown - system.matrix @ x) / noise
        return (misfit.sum() + (np.square(x - prior) / own).sum()) / 2

    whole = {"type": "eq", "fun": lambda x: x.reshape(prior.shape).sum(axis=1) - 1}
    best = minimize(
        cost, prior.reshape(-1), bounds=[(0, 1)] * prior.size, constraints=whole, method="SLSQP"
    )
    found = least_squares(system, prior)
    assert found.min() >= 0
    assert found.sum(axis=1) == pytest.approx(1)
    assert cost(found.reshape(-1)) <= best.fun * (1 + 1e-4)
    assert found.reshape(-1) == pytest.approx(best.x, abs=0.03)


@pytest.mark.slow
def test_halved_noise_is_found_out():
    """Means over eight keys; the sd of what halving adds is about .01 for squares, .02 for the program."""
    found = {}
    for kind in (StickyDraws, HalvedNoise):
        rates = []
        for seed in range(1, 9):
            columns, tables = flagged(n_known=20, seed=seed, group=150, others=300)
            rates.append(right_of(build(columns, tables, seed, kind=kind)))
        found[kind] = {
            way: np.mean([rate[way] for rate in rates]) for way in ("squares", "program")
        }
    assert max(found[StickyDraws].values()) <= 0.95
    assert found[HalvedNoise]["squares"] >= found[StickyDraws]["squares"] + 0.02
    assert found[HalvedNoise]["program"] >= found[StickyDraws]["program"] + 0.05


@pytest.mark.ci
def test_a_declared_group_is_attacked_and_reported():
    columns, tables = flagged(n_known=20)
    found = checked(reconstruction(build(columns, tables), FLAG, rng()))
    assert found.rate.n == 100
    assert found.values["groups"] == 1
    assert found.breakdown.loc[0, "group"] == "flag = 1"
    assert found.values["gain"] > 0.1
    assert found.values["worst"] == pytest.approx(found.values["gain"])
    assert found.baseline.value <= found.control.value < found.rate.value
    assert "a small group" in found.verdict


def test_targets_follow_from_what_is_published():
    """The flagged group is split by most tables for its size: it is found without being declared."""
    columns, tables = flagged()
    given = build(columns, tables)
    found = chosen_targets(given, Assumptions(secrets=("secret",), largest=150))
    assert found[0] == TARGET


def test_fine_columns_are_compared_without_listing_all_combinations():
    """A street tells its town, a town does not tell its street: 20,000 x 5,000 possible pairs, 20,000 that occur."""
    street = np.arange(20_000)
    frame = pd.DataFrame({"street": street, "town": street // 4})
    aligned = align(frame, {("street", "town"): distinct(frame)}, Reading())
    tracemalloc.start()
    try:
        assert settled(aligned) == {"town"}
        assert tracemalloc.get_traced_memory()[1] < 20 << 20
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize(
    ("where", "said"),
    [({"gone": "1"}, "gone"), ({"flag": "7"}, "attacks.groups.0.where.flag")],
)
def test_a_group_that_is_not_there_is_a_mistake(where, said):
    columns, tables = flagged(n_known=2)
    with pytest.raises(SpecError, match=said):
        declared_targets(build(columns, tables).aligned, Assumptions(groups=[{"where": where}]))


def released(n_known: int = 16, kind=StickyDraws, **more):
    columns, tables = flagged(n_known=n_known, **more)
    return build(columns, tables, kind=kind)


def asked_of(given, told=FLAG):
    return checked(adaptive(given, told, rng()))


def variance_left(system, views) -> float:
    """Sum of the variances of a Gaussian model after some views, from the whole covariance matrix."""
    rows = np.isin(system.view, views)
    matrix, noise = system.matrix.toarray()[rows], system.variance.mean(axis=1)[rows]
    own = (system.share * (1 - system.share)).mean()
    inverse = np.eye(matrix.shape[1]) / own + (matrix.T / noise) @ matrix
    return float(np.trace(np.linalg.inv(inverse)))


def test_each_table_asked_for_is_the_best_next_one():
    system = system_of(released(n_known=5, group=30, others=200), TARGET)
    views = np.unique(system.view).tolist()
    order = order_of(system, views)
    assert sorted(order) == views
    for i in range(len(order)):
        left = {view: variance_left(system, [*order[:i], view]) for view in order[i:]}
        assert left[order[i]] == pytest.approx(min(left.values()))


@pytest.mark.ci
def test_the_curve_rises_with_tables():
    """By more than two standard errors of a difference of rates among 80 victims; over three sets, below, by .3."""
    found = asked_of(released(n_known=24, group=80, others=200, values=4))
    curve = found.breakdown
    assert curve["right"].iloc[-1] - curve["right"].iloc[0] > 2 * (2 * 0.25 / 80) ** 0.5
    assert curve["tables"].tolist() == [0, 1, 2, 3, 5, 10, 20, 24]
    assert (curve["low"] <= curve["right"]).all()
    assert (curve["right"] <= curve["high"]).all()
    assert found.values["right"] == curve["right"].iloc[-1] == curve["random"].iloc[-1]
    assert found.control.value == curve["right"].iloc[0]


PEOPLE = 1_500
BIT = Assumptions(secrets=("bit",))


def columns_of(seed: int, k: int = 8) -> dict[str, np.ndarray]:
    draw = np.random.default_rng(seed)
    known = {f"c{i}": draw.integers(0, 30, PEOPLE) for i in range(k)}
    return known | {"bit": draw.integers(0, 2, PEOPLE)}


@pytest.fixture(scope="module")
def told():
    columns = columns_of(1)
    tables = [("bit", c) for c in columns if c != "bit"]
    return columns, trial_of_rows(columns, tables, 3)


def test_as_much_is_right_as_is_predicted(told):
    columns, trial = told
    found = checked(linear(held_of(columns, trial, non_members=columns_of(2)), BIT, rng()))
    predicted = told_of(trial, columns, "bit").of_all
    assert found.values["right"] == pytest.approx(predicted, abs=0.03)
    (row,) = found.breakdown.to_dict("records")
    assert row["real"] == pytest.approx(predicted, abs=0.04)
    assert row["non_members"] == pytest.approx(0.5, abs=0.04)
    assert found.values["gain"] > 0.05


def test_without_strangers_no_gain_is_told(told):
    columns, trial = told
    found = checked(linear(held_of(columns, trial), BIT, rng()))
    assert "gain" in found.why_not
    assert found.values["surest"] > found.values["right"]


def test_single_columns_give_no_system():
    columns = columns_of(1)
    found = checked(linear(held_of(columns, trial_of_rows(columns, [("bit",)], 1)), BIT, rng()))
    assert WHOLE in found.why_not
