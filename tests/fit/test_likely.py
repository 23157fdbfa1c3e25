"""Remainders of tables of two columns: weighed against what is expected of them."""

from __future__ import annotations

from dataclasses import replace
from decimal import Decimal, localcontext

import numpy as np
import pytest
from fixtures.fit import Fits, gaussian, measured, tree_of
from hypothesis import example, given, settings
from hypothesis import strategies as st
from oracles.fit_oracles import fitted_tree

from engine.fit.expected import LEAST_LEFT, expected_rows
from engine.fit.placement import Placement
from engine.fit.tree import fit_tree, likeliest
from engine.schema import KIND_NONNEGATIVE, KIND_NULL


def one(x: float, variance: float, expected: float) -> float:
    """`likeliest` of a single number; whatever overflows or divides by zero is an error."""
    with np.errstate(all="raise"):
        (found,) = likeliest(np.array([x]), np.array([variance]), np.array([expected]))
    return float(found)


@pytest.mark.parametrize(
    ("x", "variance", "expected", "y"),
    [
        (3.0, 2.0, 1.0, 2.0),  # y^2 - y - 2
        (0.0, 2.0, 2.0, 1.0),  # y^2 + y - 2
        (-3.0, 4.0, 1.0, (65**0.5 - 7) / 2),  # y^2 + 7 y - 4
        (25.0, 96.0, 20 / 7, 6.4),
        (25.0, 96.0, 6.4, 16.0),
        (7.0, 5.0, 7.0, 7.0),  # as expected
        (5.0, 0.0, 3.0, 5.0),  # without noise x itself ...
        (-5.0, 0.0, 3.0, 0.0),
        (0.0, 0.0, 3.0, 0.0),
        (5.0, 0.0, 0.0, 5.0),  # ... whatever is expected
    ],
)
def test_likeliest_by_hand(x, variance, expected, y):
    assert one(x, variance, expected) == pytest.approx(y, rel=1e-14, abs=0)


@pytest.mark.parametrize(
    ("x", "variance", "expected", "y"),
    [
        (1e9, 50.0, 1e3, 1e9),  # large beside the noise: x
        (0.0, 50.0, 1e-6, 1e-6),  # little is expected: that
        (20.0, 50.0, 1e-6, 1e-6),
        (-20.0, 50.0, 1e-6, 1e-6),
        (0.0, 50.0, 1e12, 50**0.5),  # nothing is found, much is expected: the noise
        (-1e6, 50.0, 1e12, 50 / 1e6),  # far below zero: small, not zero
    ],
)
def test_likeliest_at_its_limits(x, variance, expected, y):
    assert one(x, variance, expected) == pytest.approx(y, rel=1e-4)


WHOLE = st.integers(-(10**12), 10**12)
NOISE = st.integers(1, 10**12)
ROWS = st.floats(1e-8, 1e12)


@given(WHOLE, NOISE, ROWS)
@example(10**12, 1, 1e-8)
@example(-(10**12), 10**12, 1e12)
def test_likeliest_is_the_root_in_many_digits(x, variance, expected):
    with localcontext(prec=80):
        lower = Decimal(x) - Decimal(variance) / Decimal(expected)
        y = (lower + (lower * lower + 4 * Decimal(variance)).sqrt()) / 2
    # What x and variance / expected have in common is lost before the root is taken, relative to the larger of both.
    lost = 1e-15 * max(abs(x), variance / expected) / float((lower * lower + 4 * variance).sqrt())
    assert one(x, variance, expected) == pytest.approx(float(y), rel=1e-13 + 4 * lost)
    assert one(x, variance, expected) > 0


@given(st.integers(-300, 300), st.integers(1, 400), st.floats(0.01, 500))
def test_likeliest_is_the_mode(x, variance, expected):
    def log_density(y: float) -> float:
        return float(np.log(y) - y / expected - (y - x) ** 2 / (2 * variance))

    y = one(x, variance, expected)
    assert all(log_density(y) >= log_density(y * other) - 1e-9 for other in (0.5, 0.99, 1.01, 2))


@given(st.integers(-300, 300), st.integers(1, 400), st.floats(0.01, 500))
def test_likeliest_lies_between_and_grows_with_both(x, variance, expected):
    y = one(x, variance, expected)
    assert one(x + 1, variance, expected) > y
    assert one(x, variance, expected * 1.5) > y
    if x > 0:
        slack = 1e-12 * max(x, expected)
        assert min(x, expected) - slack <= y <= max(x, expected) + slack


def test_nothing_expected_overflows_nothing():
    # Noise of 2^40 rows, and next to nothing expected.
    assert 0 < one(-(2.0**60), 2.0**80, 1e-18) < 1e-8
    assert 0 < one(0.0, 2.0, 5e-324) < 1e-8


def fitted(tree, total, room, expected, *, most=None, layer_sd=1):
    return fit_tree(
        tree,
        noisy_total=total,
        total=float(total),
        has_room=np.array(room),
        floor=3,
        layer_sd=layer_sd,
        most=most,
        expected=np.array(expected),
    )


def sure_tree():
    """100 less 30 and 45: 25 beyond, with noise of variance (1 + 2) * 2 * 4**2 = 96."""
    tree = tree_of([(0, KIND_NULL, 0, 0, -1, 30), (0, KIND_NONNEGATIVE, 0, 0, -1, 45)])
    return replace(tree, scale=np.array([4]))


def test_a_remainder_by_hand():
    # First all of the depth: 6.4 of 25 found and 20 / 7 expected; then 16 of 25 found and 6.4 expected.
    found = fitted(sure_tree(), 100, [True, False, False], [20 / 7, 0.0, 0.0])
    rate = 9 / (30 + 32 + 16)
    assert found.mass == pytest.approx([100, 30 * (1 + rate), 45 + 32 * rate])
    assert found.remainder == pytest.approx([16 * (1 + rate), 0, 0])


def test_a_remainder_holds_no_more_than_can_be_unreleased():
    most = np.array([4.5, 0.0, 0.0])
    found = fitted(sure_tree(), 100, [True, False, False], [20 / 7, 0.0, 0.0], most=most)
    rate = 20.5 / (30 + 32 + 4.5)
    assert found.remainder[0] == pytest.approx(4.5 * (1 + rate))


def test_noise_alone_makes_no_remainder_zero_and_none_is_made_where_there_is_no_room():
    # 70 less 30 and 45: -5.
    found = fitted(sure_tree(), 70, [True, False, False], [8.0, 0.0, 0.0])
    assert found.remainder[0] > 1
    assert fitted(sure_tree(), 70, [False] * 3, [0.0] * 3).remainder.tolist() == [0, 0, 0]


def test_without_noise_the_remainder_is_what_is_left():
    for n, left in ((100, 25), (75, 0), (70, 0)):
        found = fitted(sure_tree(), n, [True, False, False], [8.0, 0.0, 0.0], layer_sd=0)
        assert found.remainder[0] == left


def test_what_is_expected_of_one_depth_is_nothing_to_another():
    nodes = [(0, KIND_NONNEGATIVE, 1, i, -1, 60) for i in range(2)]
    nodes += [(1, KIND_NONNEGATIVE, 0, 2 * i, i, 40) for i in range(2)]
    room = [True, True, True, False, False]
    few = fitted(tree_of(nodes), 125, room, [1e-3, 2.0, 4.0, 0.0, 0.0])
    many = fitted(tree_of(nodes), 125, room, [1e3, 2.0, 4.0, 0.0, 0.0])
    assert many.remainder[0] > 4 * few.remainder[0]
    part = [one.remainder[1:3] / one.mass[1:3] for one in (few, many)]
    assert part[0] == pytest.approx(part[1], rel=0.05)
    assert few.remainder[2] > few.remainder[1]


@given(
    st.lists(st.tuples(st.integers(-9, 30), st.integers(-3, 5)), min_size=1, max_size=60),
    st.integers(0, 10**6),
    st.integers(1, 4),
    st.integers(0, 2),
    st.booleans(),
    st.data(),
)
@settings(max_examples=80)
def test_tree_equals_the_dictionary_oracle(rows, seed, threshold, layer_sd, is_capped, data):
    tree = measured(("A", "B"), rows, (5, 3), threshold=threshold, noise=gaussian(seed), scale=2)
    size = tree.n_nodes + 1
    room = data.draw(st.lists(st.booleans(), min_size=size, max_size=size))
    expected = data.draw(st.lists(st.floats(1e-6, 60), min_size=size, max_size=size))
    expected = [e * r for e, r in zip(expected, room, strict=True)]
    most = [4.5] * size if is_capped else None
    found = fit_tree(
        tree,
        noisy_total=len(rows) + 1,
        total=71.5,
        has_room=np.array(room),
        floor=3,
        layer_sd=layer_sd,
        most=None if most is None else np.array(most),
        expected=np.array(expected),
    )
    mass, left = fitted_tree(
        tree, len(rows) + 1, 71.5, room, 3, layer_sd, expected=expected, most=most
    )
    assert found.mass == pytest.approx([mass[i - 1] for i in range(size)], abs=1e-8)
    assert found.remainder == pytest.approx([left[i - 1] for i in range(size)], abs=1e-8)
    parents = np.bincount(tree.parent + 1, minlength=size) > 0
    if layer_sd:
        assert (found.remainder[parents & np.array(room)] > 0).all()


class Expecting:
    """Two columns of two values, all four cells candidates: 15 rows, 10 and 5 of A, 9 and 6 of B."""

    codes = np.array([[0, 0], [0, 1], [1, 0], [1, 1]], dtype=np.int32)
    weight = np.array([90.0, 60.0, 45.0, 30.0])

    def __init__(self) -> None:
        rows = [(0, 0)] * 7 + [(0, 1)] * 3 + [(1, 0)] * 2 + [(1, 1)] * 3
        fits = Fits({"A": [a for a, _ in rows], "B": [b for _, b in rows]})
        fits.table("A", "B")
        self.supports = (fits.supports["A"], fits.supports["B"])

    def rows(self, node, released, n, *, turned=False, order=slice(None), times=1.0):
        """Rows expected in each node; candidates lie in `node`, nodes 1, 2, ... have counts `n`."""
        tree = tree_of([(0, KIND_NONNEGATIVE, 0, i, -1, count) for i, count in enumerate(n)])
        placement = Placement(node=np.array(node)[order], released=np.array(released)[order])
        turn = slice(None, None, -1) if turned else slice(None)
        return expected_rows(
            tree,
            placement,
            self.weight[order] * times,
            self.codes[order][:, turn],
            self.supports[turn],
        )


SOME = ([1, 0, 0, 2], [True, False, False, False], [7, 5])


def test_expected_by_hand():
    # 7 in the first cell leave 3 and 5 of A and 2 and 6 of B: 8 rows. Its neighbours weigh 60, 45 and 30: 3, 3 and 2
    # by A and then 3.6, 2 and 2.4 by B; 4, 2 and 2 by B and then 3, 2.5 and 2.5 by A.
    assert Expecting().rows(*SOME) == pytest.approx([3.3 + 2.25, 0, 2.45])


@pytest.mark.parametrize("turned", [False, True])
def test_values_are_brought_to_what_is_left_of_one_column_and_the_other_in_both_orders(turned):
    expecting = Expecting()
    expecting.weight = np.array([1.0, 6.0, 24.0, 2.0])
    # 3 of the last cell leave 10 and 2 of A and 9 and 3 of B: 12 rows. By A and then by B 3.75, 3 and 5.25; by B and
    # then by A 15/14, 125/14 and 2.
    found = expecting.rows([1, 2, 3, 4], [False, False, False, True], [9, 9, 9, 3], turned=turned)
    assert found == pytest.approx([0, 135 / 56, 167 / 28, 29 / 8, 0])


def test_separate_blocks_keep_their_rows():
    """Both columns ask for the same of a block: done at once for both it would count twice."""
    expecting = Expecting()
    expecting.supports = tuple(replace(one, n=np.array([900, 100])) for one in expecting.supports)
    expecting.weight = np.array([900.0 * 900, 0, 0, 100.0 * 100])
    found = expecting.rows([0, 0, 0, 1], [False] * 4, [9], order=[0, 3])
    assert found == pytest.approx([900, 100])


def test_with_nothing_released_all_rows_are_expected_as_if_columns_were_independent():
    nothing = ([0, 1, 1, 1], [False] * 4, [9])
    assert Expecting().rows(*nothing) == pytest.approx([15 * 90 / 225, 15 * 135 / 225])


@pytest.mark.parametrize("n", [[10, 5], [12, 5], [10, 4]])
def test_next_to_nothing_is_expected_where_released_cells_have_all_rows_of_a_value(n):
    # Cells 0 and 3 are released; the first has all of A's 10, and of B's 9 none are left.
    found = Expecting().rows([1, 0, 0, 2], [True, False, False, True], n)
    assert found[0] == pytest.approx(max(15 - sum(n), LEAST_LEFT))
    assert found[1:].tolist() == [0, 0]


def test_next_to_nothing_is_expected_beside_others_of_which_there_are_more():
    # 10 in the first cell are all of A's 10, and more than B's 9: what is left is in the last one, 5 rows.
    found = Expecting().rows([4, 1, 2, 3], [True, False, False, False], [0, 0, 0, 10])
    assert found == pytest.approx([0, 0, 0, 5, 0], abs=1e-5)
    assert (found[1:4] > 0).all()


def test_as_many_are_expected_as_released_cells_leave_of_all():
    # 11 and 2 of 15; noise may leave more of the values of each column, of which some have too many.
    rows = [1, 0, 0, 2], [True, False, False, True], [11, 2]
    for found in (Expecting().rows(*rows), Expecting().rows(*rows, turned=True)):
        assert found[0] == pytest.approx(2)
    too_many = Expecting().rows([1, 0, 0, 2], [True, False, False, True], [14, 5])
    assert too_many[0] == pytest.approx(LEAST_LEFT)


@pytest.mark.parametrize("order", [[3, 1, 0, 2], [2, 3, 1, 0]])
def test_expected_is_the_same_in_another_order_of_cells_and_columns_and_with_all_weights_doubled(
    order,
):
    plain = Expecting().rows(*SOME)
    assert Expecting().rows(*SOME, order=order) == pytest.approx(plain, rel=1e-12)
    assert Expecting().rows(*SOME, turned=True) == pytest.approx(plain, rel=1e-12)
    assert Expecting().rows(*SOME, times=2.0) == pytest.approx(plain, rel=1e-12)


def test_nothing_to_expect_is_no_mistake():
    with np.errstate(all="raise"):
        every = Expecting().rows([1, 2, 3, 4], [True] * 4, [7, 3, 2, 3])
        none = Expecting().rows([0] * 4, [True] * 4, [7] * 4, order=slice(0, 0))
    assert every.tolist() == none.tolist() == [0.0] * 5


def skewed(seed: int) -> dict[str, np.ndarray]:
    """Numbers most of which are rare, and a group of one in twenty-five that has only those below 64."""
    rng = np.random.default_rng(seed)
    number = rng.gamma(1.5, 200, 3000).astype(np.int64)
    rare = rng.random(3000) < 0.04
    number[rare] = rng.integers(0, 64, rare.sum())
    return {"I": number, "G": rare.astype(np.int64)}


@pytest.mark.parametrize("columns", [("I", "G"), ("G", "I")])
def test_a_rare_group_gets_no_values_that_it_does_not_have(columns):
    """Where a remainder was zero by noise, a third of the group came to have numbers that none in it has."""
    high = []
    for seed in range(8):
        fits = Fits(skewed(seed), threshold=4, noise=gaussian(seed), floor=3, layer_sd=1)
        named = [dict(zip(columns, cell, strict=True)) for cell in fits.counts(*columns)]
        rows = fits.counts(*columns).values()
        high.append(
            sum(n for v, n in zip(named, rows, strict=True) if v["G"] == 1 and v["I"] >= 128)
        )
    assert max(high) <= 10
    assert sum(high) <= 40
