from __future__ import annotations

import math
from dataclasses import replace
from fractions import Fraction
from itertools import permutations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from engine.errors import InternalError, SpecError
from engine.levels import HALF
from engine.measure.dp import Cost, accounting, cost, shares
from engine.measure.dp.accounting import composed, decimal, promising, rho_of, score_share
from engine.measure.dp.conversion import delta_of, epsilon_of_rho
from engine.measure.dp.noise import epsilon_by_moments, guarantee_of
from engine.params import DPParams

PLAIN = DPParams(
    epsilon=1.0,
    columns=("AGE", "OWN", "SEX"),
    margins=(("AGE", "OWN"), ("AGE", "SEX"), ("OWN", "SEX")),
)
GAUSS = replace(PLAIN, noise="gaussian", delta=1e-6)
BIT = 1e-10  # what the slack and the search for rho leave unspent, relative


def test_equal_shares_by_hand():
    total, *margins = shares(PLAIN, {})
    assert (total.columns, total.depths, total.branching) == ((), 1, 0)
    assert total.epsilon == pytest.approx(0.02, rel=BIT)
    assert total.scale == pytest.approx(50, rel=BIT)
    assert [m.columns for m in margins] == [("AGE", "OWN"), ("AGE", "SEX"), ("OWN", "SEX")]
    for one in margins:
        assert one.epsilon == pytest.approx(0.98 / 3, rel=BIT)
        assert one.scale == pytest.approx(3 / 0.98, rel=BIT)
        assert (one.rho, one.noise) == (0.0, "laplace")
        assert one.variance == pytest.approx(2 * (3 / 0.98) ** 2, rel=0.01)


def test_a_tree_counts_once_a_depth():
    # 100 leaves by 16: 7 nodes above them, then the root, which is the total: two depths are measured.
    params = replace(PLAIN, ranges=(("AGE", 16),))
    total, age, *wide = shares(params, {"AGE": 100})
    assert (age.columns, age.branching, age.depths) == (("AGE",), 16, 2)
    assert age.epsilon == pytest.approx(2 * 0.98 / 5, rel=BIT)
    assert age.scale == wide[0].scale == pytest.approx(5 / 0.98, rel=BIT)
    assert total.epsilon == pytest.approx(0.02, rel=BIT)
    # 100 leaves by 2: 50, 25, 13, 7, 4, 2 nodes and the leaves.
    assert shares(replace(PLAIN, ranges=(("AGE", 2),)), {"AGE": 100})[1].depths == 7
    assert shares(replace(PLAIN, ranges=(("AGE", 200),)), {"AGE": 100})[1].depths == 1


def test_a_sum_is_one_more_margin_whose_rows_weigh_more():
    params = replace(PLAIN, sum_tables=(("AGE", ()), ("AGE", ("SEX",))))
    margin, *_, whole, by_sex = shares(params, {})[1:]
    assert (whole.measured, by_sex.measured) == (((), "AGE"), (("SEX",), "AGE"))
    assert margin.epsilon == whole.epsilon == by_sex.epsilon == pytest.approx(0.98 / 5, rel=BIT)
    assert margin.scale == pytest.approx(5 / 0.98, rel=BIT)
    assert whole.scale == pytest.approx(HALF * 5 / 0.98, rel=BIT)


def test_strata_are_columns_of_every_margin_and_cost_nothing():
    params = replace(PLAIN, margins=(("AGE",), ("SEX",)), strata=("OWN",))
    total, age, sex = shares(params, {})
    assert (total.columns, age.columns, sex.columns) == ((), ("AGE", "OWN"), ("OWN", "SEX"))
    assert age.scale == sex.scale == pytest.approx(2 / 0.98, rel=BIT)


def test_a_public_total_is_not_measured():
    found = shares(replace(PLAIN, public_n=True, total_share=0.0), {})
    assert [s.columns for s in found] == list(PLAIN.margins)
    assert found[0].scale == pytest.approx(3, rel=BIT)


def test_noise_grows_with_the_rows_of_an_entity():
    for params in (PLAIN, GAUSS):
        one, five = shares(params, {}), shares(replace(params, max_rows=5), {})
        for a, b in zip(one, five, strict=True):
            assert b.scale == pytest.approx(5 * a.scale, rel=BIT)
            assert (b.epsilon, b.rho) == pytest.approx((a.epsilon, a.rho), rel=BIT)


def test_gaussian_shares_by_hand():
    rho = rho_of(1.0, 1e-6)
    total, *margins = shares(GAUSS, {})
    assert total.rho == pytest.approx(0.02 * rho, rel=BIT)
    assert margins[0].scale == pytest.approx(1 / math.sqrt(2 * 0.98 * rho / 3), rel=BIT)
    assert {(m.epsilon, m.noise) for m in margins} == {(0.0, "gaussian")}
    assert margins[0].variance == pytest.approx(margins[0].scale ** 2, rel=0.01)


def test_without_a_guarantee_nothing_is_added_and_the_cost_says_so():
    params = replace(PLAIN, epsilon=None)
    found = shares(params, {})
    assert {(s.epsilon, s.rho, s.scale, s.noise, s.variance) for s in found} == {
        (math.inf, 0.0, 0.0, None, 0.0)
    }
    assert cost(params) == Cost(epsilon=math.inf)
    assert composed([cost(PLAIN), cost(params)], 0.0) == math.inf


@pytest.mark.ci
@settings(max_examples=10)
@given(
    epsilon=st.floats(0.001, 50),
    n_margins=st.integers(1, 60),
    max_rows=st.integers(1, 9),
    total_share=st.floats(0.001, 0.9),
    fan=st.integers(2, 20),
    public_n=st.booleans(),
    gaussian=st.booleans(),
)
def test_what_is_granted_never_adds_up_to_more_than_the_cost(
    epsilon, n_margins, max_rows, total_share, fan, public_n, gaussian
):
    params = DPParams(
        epsilon=epsilon,
        noise="gaussian" if gaussian else "laplace",
        delta=1e-6 if gaussian else 0.0,
        margins=tuple((f"c{i:02}", "x") for i in range(n_margins)),
        ranges=(("x", fan),),
        max_rows=max_rows,
        total_share=total_share,
        public_n=public_n,
    )
    found, whole = shares(params, {"x": 77}), cost(params)
    limit = Fraction(whole.rho) if gaussian else decimal(epsilon)
    granted = sum(s.depths * Fraction(guarantee_of(s.noise, s.scale, max_rows)) for s in found)
    stated = sum(Fraction(s.rho if gaussian else s.epsilon) for s in found)
    assert limit * (1 - Fraction(1, 10**9)) < granted <= limit
    assert limit * (1 - Fraction(1, 10**9)) < stated <= limit
    assert len(found) == n_margins + 1 + (not public_n)
    assert composed([whole], params.delta) <= epsilon


def test_cost_of_both_noises():
    assert cost(PLAIN) == Cost(epsilon=1.0)
    spent = cost(GAUSS)
    assert (spent.epsilon, spent.delta) == (1.0, 1e-6)
    assert 1 - 1e-8 < epsilon_of_rho(spent.rho, 1e-6) <= 1.0


@pytest.mark.parametrize(("epsilon", "delta"), [(1e-4, 1e-6), (1.0, 1e-12), (200.0, 0.05)])
def test_rho_is_the_largest_that_stays_within(epsilon, delta):
    rho = rho_of(epsilon, delta)
    assert epsilon_of_rho(rho, delta) <= epsilon < epsilon_of_rho(rho * (1 + 1e-6), delta)
    assert composed([Cost(epsilon=epsilon, delta=delta, rho=rho)], delta) <= epsilon


def test_pure_epsilons_add_as_decimals():
    assert composed([], 0.0) == 0.0
    assert composed([Cost(epsilon=0.1)] * 3, 0.0) == 0.3  # in floats 0.30000000000000004
    assert composed([Cost(epsilon=0.5), Cost(epsilon=2.0), Cost(epsilon=0.25)], 1e-6) == 2.75


def test_rhos_add_before_they_are_converted():
    one = cost(GAUSS)
    three = composed([one] * 3, 1e-6)
    assert three == pytest.approx(epsilon_of_rho(3 * one.rho, 1e-6), rel=1e-9)
    assert three >= epsilon_of_rho(3 * one.rho, 1e-6) * (1 - 1e-12)
    assert 1.0 < three < 2.0  # far less than 3
    assert composed([one], 1e-9) > 1.0 > composed([one], 1e-3)
    assert composed([one], 0.0) == math.inf


def test_both_noises_together():
    gauss = [cost(GAUSS)] * 2
    mixed = composed([Cost(epsilon=0.75), *gauss, Cost(epsilon=0.5)], 1e-6)
    assert mixed == pytest.approx(1.25 + composed(gauss, 1e-6), rel=1e-12)
    assert mixed >= 1.25 + composed(gauss, 1e-6) - 1e-15


@pytest.mark.parametrize(
    "epsilon", [0.0, -1.0, math.nan, math.inf, 5e-324, 9e-10, 500.1, 1e6, 1.7e308]
)
def test_epsilon_out_of_range_is_refused(epsilon):
    for params in (replace(PLAIN, epsilon=epsilon), replace(GAUSS, epsilon=epsilon)):
        for ask in (cost, lambda p: shares(p, {})):
            with pytest.raises(SpecError, match=r"dp\.epsilon must lie"):
                ask(params)


@pytest.mark.parametrize("delta", [0.0, 1.0, -0.1, math.nan])
def test_delta_out_of_range_is_refused(delta):
    with pytest.raises(SpecError, match=r"dp\.delta must lie"):
        cost(replace(GAUSS, delta=delta))


@pytest.mark.parametrize("noise", ["laplace", "gaussian"])
def test_noise_is_never_so_little_that_a_count_would_be_called_exact(noise):
    delta = 0.99 if noise == "gaussian" else 0.0
    params = replace(
        PLAIN, epsilon=500.0, noise=noise, delta=delta, margins=(("AGE",),), public_n=True
    )
    (only,) = shares(params, {})
    assert only.variance > 0


def test_opendp_has_the_last_word(monkeypatch):
    accounting._scale.cache_clear()
    monkeypatch.setattr(accounting, "guarantee_of", lambda *_: 2.0)
    with pytest.raises(InternalError, match="OpenDP grants less"):
        shares(PLAIN, {})
    accounting._scale.cache_clear()


def test_allocation_by_cells():
    """Laplace: epsilon goes with the cube root of the cells, so a margin of 8 times the cells gets twice as much."""
    sizes = {"AGE": 8, "SEX": 1}
    params = replace(
        PLAIN, columns=("AGE", "SEX"), margins=(("AGE",), ("SEX",)), allocation="cells"
    )
    total, age, sex = shares(params, sizes)
    assert age.epsilon == pytest.approx(2 * sex.epsilon, rel=1e-6)
    assert total.epsilon + age.epsilon + sex.epsilon <= params.epsilon
    assert total.epsilon + age.epsilon + sex.epsilon == pytest.approx(params.epsilon)
    gauss = replace(params, noise="gaussian", delta=1e-6)
    _, age, sex = shares(gauss, {"AGE": 9, "SEX": 1})
    assert age.rho == pytest.approx(3 * sex.rho, rel=1e-6)
    with pytest.raises(InternalError, match="levels of AGE"):
        shares(params, {"SEX": 1})


# --- margins chosen among candidates
CHOOSING = replace(
    PLAIN,
    margins=(("AGE",), ("OWN",), ("SEX",)),
    candidates=(("AGE", "OWN"), ("AGE", "SEX"), ("OWN", "SEX")),
)


def test_shares_of_what_is_chosen_by_hand():
    total, *found = shares(CHOOSING, {}, [("AGE", "SEX"), ("OWN", "SEX")])
    assert total.epsilon == pytest.approx(0.02, rel=BIT)
    # Of the other .98 a tenth for three columns, a twentieth for three scores, the rest for the two that were chosen.
    assert [one.epsilon for one in found] == pytest.approx([0.098 / 3] * 3 + [0.833 / 2] * 2)
    scores = score_share(CHOOSING)
    assert (scores.depths, scores.epsilon) == (3, pytest.approx(0.049, rel=BIT))
    assert scores.scale == pytest.approx(3 / 0.049, rel=BIT)
    assert len(shares(CHOOSING, {})) == 1 + 3 + 3


@settings(max_examples=60, deadline=None)
@given(data=st.data(), gaussian=st.booleans(), rows=st.integers(1, 5), public=st.booleans())
def test_whatever_is_chosen_no_more_is_spent_than_is_charged(data, gaussian, rows, public):
    names = tuple("ABCDE")
    pairs = tuple((a, b) for i, a in enumerate(names) for b in names[i + 1 :])
    extra = data.draw(st.sets(st.sampled_from(pairs), max_size=3))
    params = DPParams(
        epsilon=data.draw(st.sampled_from([0.01, 0.3, 2.0, 17.0])),
        noise="gaussian" if gaussian else "laplace",
        delta=1e-7 if gaussian else 0.0,
        columns=names,
        margins=(*((name,) for name in names), *sorted(extra)),
        candidates=tuple(pair for pair in pairs if pair not in extra),
        allocation=data.draw(st.sampled_from(["cells", "equal"])),
        sum_tables=data.draw(st.sampled_from([(), (("A", ()), ("A", ("B",)))])),
        max_rows=rows,
        public_n=public,
    )
    sizes = {name: data.draw(st.integers(1, 40)) for name in names}
    scores = [data.draw(st.integers(-200, 2000)) for _ in params.candidates]
    chosen = promising(params, sizes, scores, 1000.0)
    assert chosen
    assert {*chosen} <= {*params.candidates}
    spent = [score_share(params), *shares(params, sizes, chosen)]
    # Each figure is charged what OpenDP says of its scale, whatever formula made it.
    for one in spent:
        most = rows * HALF if one.sum_of else rows
        said = one.depths * Fraction(guarantee_of(one.noise, one.scale, most))
        assert float(said) == (one.rho if gaussian else one.epsilon)
    whole = cost(params)
    assert sum(Fraction(one.rho if gaussian else one.epsilon) for one in spent) <= (
        Fraction(whole.rho) if gaussian else decimal(whole.epsilon)
    )


def test_what_promises_most_by_hand():
    # Equal shares, Laplace noise: .833 shared by n margins of 4 cells have n / .833 as their mean noise.
    params, sizes = replace(CHOOSING, allocation="equal"), dict.fromkeys(PLAIN.columns, 2)

    def gain(*off: float) -> float:
        noise = 4 * len(off) / 0.833
        return sum(e * (1 - noise / math.hypot(e, noise)) for e in off)

    assert gain(100, 60) > gain(100, 60, 5) > gain(100)
    assert promising(params, sizes, [60, 5, 100], 1e6) == (("AGE", "OWN"), ("OWN", "SEX"))
    assert promising(params, sizes, [60, 50, 100], 1e6) == params.candidates
    # Noise takes scores below 0; one margin is measured whatever they say.
    assert promising(params, sizes, [-3, -9, -8], 1e6) == (("AGE", "OWN"),)
    # What is large costs more of the budget: it must be farther off.
    cells = replace(params, allocation="cells"), {"AGE": 1000, "OWN": 2, "SEX": 2}
    assert promising(*cells, [60, 5, 60], 1e6) == (("OWN", "SEX"),)


def true_delta(epsilon: float, counts: list[tuple[float, int]]) -> float:
    """Delta of integer Gaussian noise on a few counts, each with its scale and shift, by adding up all outcomes."""
    loss, probability = np.zeros(1), np.ones(1)
    for scale, shift in counts:
        x = np.arange(-math.ceil(9 * scale), math.ceil(9 * scale) + 1)
        p = np.exp(-((x / scale) ** 2) / 2)
        of_one = shift * (shift - 2 * x) / (2 * scale**2)
        loss = np.add.outer(loss, of_one).ravel()
        probability = np.multiply.outer(probability, p / p.sum()).ravel()
    return float((probability * -np.expm1(np.minimum(epsilon - loss, 0))).sum())


def gaussian_delta(epsilon: float, scale: float) -> float:
    """Delta of continuous Gaussian noise on one count (Balle and Wang 2018, theorem 8)."""

    def below(x: float) -> float:
        return math.erfc(-x / math.sqrt(2)) / 2

    one = 1 / scale
    return below(one / 2 - epsilon / one) - math.exp(epsilon) * below(-one / 2 - epsilon / one)


def test_the_scale_for_epsilon_1_is_that_of_the_analytic_gaussian_mechanism():
    # 4.2248 at delta 1e-6, as Balle and Wang's own program gives it; 4.531 in zCDP.
    assert gaussian_delta(1.0, 4.2248) == pytest.approx(1e-6, rel=1e-3)
    scale = 1 / math.sqrt(2 * rho_of(1.0, 1e-6))
    assert 4.2248 < scale < 4.2248 * 1.008
    narrow = 1 / math.sqrt(2 * rho_of(0.1, 1e-6))
    assert gaussian_delta(0.1, narrow / 1.001) > 1e-6 > gaussian_delta(0.1, narrow)


@settings(max_examples=60, deadline=None)
@given(
    counts=st.lists(
        st.tuples(st.floats(0.7, 6), st.sampled_from([-2, -1, 0, 1, 3])), min_size=1, max_size=3
    ),
    epsilon=st.floats(0.01, 6),
)
def test_delta_is_never_below_the_true_one(counts, epsilon):
    rho = sum(shift**2 / (2 * scale**2) for scale, shift in counts)
    if rho > 0:
        assert delta_of(epsilon, rho) >= true_delta(epsilon, counts) * (1 - 1e-9) - 1e-15


@pytest.mark.parametrize(("epsilon", "scale"), [(0.1, 40.0), (0.5, 9.0), (1.0, 4.3)])
def test_delta_is_near_the_true_one(epsilon, scale):
    assert true_delta(epsilon, [(scale, 1)]) > 0.7 * delta_of(epsilon, 1 / (2 * scale**2))


@given(
    rho=st.floats(1e-9, 20), more=st.floats(1.001, 3), delta=st.sampled_from([1e-12, 1e-6, 1e-3])
)
@settings(max_examples=40, deadline=None)
def test_epsilon_grows_with_rho_falls_with_delta_and_is_never_above_that_of_moments(
    rho, more, delta
):
    found = epsilon_of_rho(rho, delta)
    assert found <= epsilon_by_moments(rho, delta)
    assert found <= epsilon_of_rho(rho * more, delta)
    assert found >= epsilon_of_rho(rho, 2 * delta)


def test_the_order_of_builds_does_not_matter():
    builds = [Cost(epsilon=1, delta=1e-6, rho=r) for r in (0.01, 0.0303, 0.2)] + [Cost(epsilon=0.3)]
    assert len({composed(order, 1e-6) for order in permutations(builds)}) == 1


def test_ends():
    assert epsilon_of_rho(0.0, 1e-6) == 0.0
    assert epsilon_of_rho(0.5, 0.0) == math.inf
    assert epsilon_of_rho(math.inf, 0.5) == math.inf
    assert epsilon_of_rho(9.0, 1e-6) == epsilon_by_moments(9.0, 1e-6)  # next to no noise
    for rho, delta in ((-1.0, 0.1), (math.nan, 0.1), (1.0, 1.0), (1.0, -0.1), (1.0, math.nan)):
        with pytest.raises(InternalError, match="rho"):
            epsilon_of_rho(rho, delta)


def test_builds_of_older_ledgers_spend_no_more_than_they_stated():
    """They hold the rho that OpenDP's conversion gave for epsilon 1 at delta 1e-6."""
    older = Cost(epsilon=1.0, delta=1e-6, rho=0.02435)
    assert epsilon_by_moments(older.rho, 1e-6) == pytest.approx(1, rel=1e-3)
    assert composed([older], 1e-6) == pytest.approx(0.935, rel=5e-3)
