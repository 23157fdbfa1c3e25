"""Weights of a pair's candidates by what a first fit has near their values."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest
from fixtures.fit import integer_column, text_column
from hypothesis import example, given
from hypothesis import strategies as st

from engine.fit import expected
from engine.fit.expected import near_values, ordered_column, weighed_nearby
from engine.schema import KIND_NEGATIVE, KIND_NONNEGATIVE, KIND_NULL, KIND_OTHER, Support


def support(n, kind=None, values=None) -> Support:
    """Values of so many rows; all of 0 and more unless kinds are given."""
    n = np.array(n, dtype=np.int64)
    kind = np.full(len(n), KIND_NONNEGATIVE) if kind is None else np.array(kind)
    return Support(
        column=integer_column() if values is None else text_column(),
        kind=kind.astype(np.uint8),
        grid=np.arange(len(n), dtype=np.int64),
        n=n,
        measured=np.ones(len(n), dtype=bool),
        values=values,
    )


def is_valued(one: Support) -> list[bool]:
    return [kind in (KIND_NEGATIVE, KIND_NONNEGATIVE) for kind in one.kind.tolist()]


def ranges(one: Support) -> list[tuple[int, int]]:
    first, past = near_values(one)
    assert first.dtype == past.dtype == np.int64
    return list(zip(first.tolist(), past.tolist(), strict=True))


def slow_ranges(one: Support) -> list[tuple[int, int]]:
    """Each value's half of the window on either side of the middle of its rows, against every other value's rows."""
    valued = is_valued(one)
    end = np.cumsum(one.n).tolist()
    rows = [(e - n, e) for e, n in zip(end, one.n.tolist(), strict=True)]
    out = []
    for own, (start, stop) in enumerate(rows):
        low, high = (start + stop - expected.NEAR) / 2, (start + stop + expected.NEAR) / 2
        near = [
            other
            for other, (begin, end) in enumerate(rows)
            if other == own or (valued[own] and valued[other] and begin < high and end > low)
        ]
        out.append((near[0], near[-1] + 1))
    return out


def test_near_by_hand():
    # The middle of value 10 is 1050: from 650, which lies in value 6, to 1450, which lies in value 14.
    found = ranges(support([100] * 20))
    assert found[10] == (6, 15)
    assert found[0] == (0, 5)  # to 450
    assert found[19] == (15, 20)


def test_a_value_that_begins_where_the_window_ends_is_not_near():
    # The middle of value 2 is 450: from 50 to 850.
    assert ranges(support([50, 300, 200, 300, 50]))[2] == (1, 4)
    assert ranges(support([51, 299, 200, 299, 51]))[2] == (0, 5)


def test_a_value_of_more_rows_than_are_near_is_near_its_neighbours_and_none_is_near_it():
    assert ranges(support([10, 900, 10])) == [(0, 2), (1, 2), (1, 3)]


def test_null_and_other_have_none_near_and_are_near_none():
    kind = [KIND_NULL, KIND_NEGATIVE, KIND_NONNEGATIVE, KIND_NONNEGATIVE, KIND_OTHER]
    assert ranges(support([5] * 5, kind)) == [(0, 1), (1, 4), (1, 4), (1, 4), (4, 5)]
    assert ranges(support([5, 5], [KIND_NULL, KIND_OTHER])) == [(0, 1), (1, 2)]


def test_values_below_zero_lie_next_to_those_above():
    kind = [KIND_NEGATIVE] * 2 + [KIND_NONNEGATIVE] * 2
    assert ranges(support([300] * 4, kind)) == [(0, 2), (0, 3), (1, 4), (2, 4)]


@pytest.mark.parametrize("kind", [KIND_NULL, KIND_NEGATIVE, KIND_NONNEGATIVE, KIND_OTHER])
def test_one_value_is_near_itself(kind):
    assert ranges(support([7], [kind])) == [(0, 1)]
    assert ranges(support([7000], [kind])) == [(0, 1)]


def test_no_value_has_none_near():
    assert ranges(support([])) == []


COUNTS = st.lists(
    st.one_of(st.integers(1, 5), st.integers(1, 400), st.integers(1, 3000)), max_size=30
)


@st.composite
def supports_of(draw) -> Support:
    """Any values, with or without null, other and values below 0."""
    n = draw(COUNTS)
    below = draw(st.integers(0, len(n)))
    kind = [KIND_NEGATIVE] * below + [KIND_NONNEGATIVE] * (len(n) - below)
    rare = draw(st.lists(st.integers(1, 2000), max_size=1)), draw(st.lists(st.just(9), max_size=1))
    kind = [KIND_NULL] * len(rare[0]) + kind + [KIND_OTHER] * len(rare[1])
    return support(rare[0] + n + rare[1], kind)


@given(supports_of())
@example(support([400] * 5))
@example(support([1] * 900))
@example(support([10**15, 1, 10**15]))
def test_near_as_the_slow_way(one):
    assert ranges(one) == slow_ranges(one)


@given(supports_of())
def test_a_value_is_near_itself_and_ranges_never_go_back(one):
    first, past = near_values(one)
    own = np.arange(len(one))
    assert (first <= own).all()
    assert (own < past).all()
    inside = np.flatnonzero(is_valued(one))
    assert (np.diff(first[inside]) >= 0).all()
    assert (np.diff(past[inside]) >= 0).all()


ORDERED, RANKED = {m: support([1] * m) for m in (0, 1, 2, 3, 4, 9)}, ("a", "b", "c", "d", "e")


@pytest.mark.parametrize(
    ("pair", "column"),
    [
        ((ORDERED[4], ORDERED[9]), 1),  # the longer
        ((ORDERED[9], ORDERED[4]), 0),
        ((ORDERED[4], ORDERED[4]), 0),
        ((ORDERED[3], ORDERED[2]), 0),  # two values are no order
        ((ORDERED[2], ORDERED[3]), 1),
        ((ORDERED[2], ORDERED[2]), None),
        ((ORDERED[1], ORDERED[0]), None),
        ((ORDERED[3], support([1] * 5, values=RANKED)), 0),  # ranked ones never, though longer
        ((support([1] * 5, values=RANKED), ORDERED[3]), 1),
        ((ORDERED[2], support([1] * 5, values=RANKED)), None),
        ((support([1] * 5, values=RANKED), support([1] * 5, values=RANKED)), None),
        ((support([1] * 5, values=()), ORDERED[1]), None),
    ],
)
def test_which_column_is_ordered(pair, column):
    assert ordered_column(pair) == column


SQUARE = [(value, group) for value in range(3) for group in range(2)]


def three_values(monkeypatch, cells, fitted):
    """Weights of cells of three values of two rows each and two groups, where each weighs 6."""
    monkeypatch.setattr(expected, "NEAR", 4)  # so much as reaches the next value on each side
    monkeypatch.setattr(expected, "ALIKE", 1.0)
    pair = support([2, 2, 2]), support([3, 3])
    return weighed_nearby(np.full(len(cells), 6.0), np.array(fitted), np.array(cells), pair, 0)


def test_weights_by_hand(monkeypatch):
    # Near are 3, 3, 1 and 1, 3, 3 of the groups, where independence has one row in each cell: 2, 3, 2.
    found = three_values(monkeypatch, SQUARE, [2.0, 0.0, 1.0, 1.0, 0.0, 2.0])
    assert found == pytest.approx(
        6 * np.array([4 / 3, 2 / 3, 4 / 4, 4 / 4, 2 / 3, 4 / 3]), rel=1e-14
    )


def test_weights_by_hand_where_a_combination_is_ruled_out(monkeypatch):
    # Without (0, 1) each of five cells has 6/5 rows: near are 12/5, 18/5, 12/5 of the first group and 12/5, 12/5.
    cells = [cell for cell in SQUARE if cell != (0, 1)]
    found = three_values(monkeypatch, cells, [2.0, 1.0, 1.0, 0.0, 2.0])
    ratio = np.array([4 / (17 / 5), 4 / (23 / 5), 4 / (17 / 5), 2 / (17 / 5), 4 / (17 / 5)])
    assert found == pytest.approx(6 * ratio, rel=1e-14)


def test_no_candidates_have_no_weights():
    with np.errstate(all="raise"):
        found = weighed_nearby(
            np.zeros(0), np.zeros(0), np.zeros((0, 2), np.int32), (ORDERED[3], ORDERED[2]), 0
        )
    assert found.shape == (0,)


def random_pair(seed: int, one: Support, n_groups: int) -> SimpleNamespace:
    """Some of all combinations in any order, each with a weight and rows of a first fit, many without."""
    rng = np.random.default_rng(seed)
    pair = one, support(rng.integers(1, 900, n_groups))
    cells = np.argwhere(rng.random((len(one), n_groups)) < rng.choice([0.3, 0.9, 1.0]))
    codes = rng.permutation(cells).astype(np.int32)
    weight = pair[0].n[codes[:, 0]] * pair[1].n[codes[:, 1]] * rng.uniform(0.5, 2, len(codes))
    fitted = rng.gamma(0.3, 30, len(codes)) * (rng.random(len(codes)) < 0.7)
    return SimpleNamespace(weight=weight, fitted=fitted, codes=codes, pair=pair)


def weighed(it: SimpleNamespace, order=slice(None), turn=1, weight=1.0):
    with np.errstate(all="raise"):
        return weighed_nearby(
            it.weight[order] * weight, it.fitted[order], it.codes[order][:, ::turn],
            it.pair[::turn], int(turn < 0),
        )  # fmt: skip


ANY_PAIR = st.builds(random_pair, st.integers(0, 10**6), supports_of(), st.integers(1, 6))
CLOSE = {"rel": 1e-10, "abs": 0.0}


@given(ANY_PAIR)
def test_weights_as_the_slow_way(it):
    near, cells = slow_ranges(it.pair[0]), it.codes.tolist()
    all_rows, all_weights = sum(it.fitted.tolist()), sum(it.weight.tolist())
    wanted = []
    for own, (value, group) in enumerate(cells):
        found = alone = 0.0
        for other, (near_value, near_group) in enumerate(cells):
            if near_group == group and near[value][0] <= near_value < near[value][1]:
                found += it.fitted[other]
                alone += it.weight[other] * all_rows / all_weights
        wanted.append(it.weight[own] * (found + 10) / (alone + 10))
    assert weighed(it) == pytest.approx(np.array(wanted), **CLOSE)


@given(ANY_PAIR, st.randoms(use_true_random=False))
def test_weights_are_the_same_in_another_order_of_cells_and_columns(it, random):
    order = list(range(len(it.codes)))
    random.shuffle(order)
    assert weighed(it, order=order) == pytest.approx(weighed(it)[order], **CLOSE)
    assert weighed(it, turn=-1).tolist() == weighed(it).tolist()


@given(ANY_PAIR)
def test_weights_double_with_those_before_and_are_positive(it):
    found = weighed(it)
    assert (found > 0).all()
    assert np.isfinite(found).all()
    assert weighed(it, weight=2.0).tolist() == (2 * found).tolist()


@given(ANY_PAIR, st.floats(1e-9, 1e3))
def test_a_first_fit_of_independent_columns_changes_no_weights(it, times):
    it.fitted = it.weight * times
    assert weighed(it) == pytest.approx(it.weight, **CLOSE)
