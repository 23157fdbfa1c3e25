from __future__ import annotations

from collections import Counter

import numpy as np
import pytest
from fixtures.fit import narrower_of
from hypothesis import given, settings
from hypothesis import strategies as st

from engine.fit.candidates import Narrower
from engine.fit.locking import margin_gap
from engine.fit.whole import repair
from engine.fit.whole.repair import place_missing_rows, remove_surplus


def cells(*rows):
    return np.array(rows, dtype=np.int32)


def known(codes, n) -> Narrower:
    return Narrower(codes=codes, n=np.array(n), measured=np.ones(len(n), dtype=bool))


def one_way(table: np.ndarray, column: int) -> np.ndarray:
    return table.sum(axis=tuple(j for j in range(table.ndim) if j != column)).astype(np.int64)


def listed(codes, n) -> dict[tuple, int]:
    return {tuple(c): int(x) for c, x in zip(codes.tolist(), n.tolist(), strict=True)}


# Surplus.


def test_surplus_is_taken_from_the_smallest_cells():
    codes = cells((0, 1), (1, 1), (2, 1), (0, 0), (1, 0))
    n = np.array([5, 1, 2, 4, 3])
    out = remove_surplus(codes, n, 1, np.array([7, 4]))  # code 1 has 8 rows
    assert out.tolist() == [4, 0, 0, 4, 3]
    assert n.tolist() == [5, 1, 2, 4, 3]
    assert remove_surplus(codes, n, 0, np.array([9, 2, 2])).tolist() == [5, 0, 2, 4, 2]
    assert remove_surplus(codes, n, 1, np.array([0, 0])).tolist() == [0] * 5


def test_without_surplus_nothing_changes():
    codes, n = cells((0, 1), (1, 1), (2, 0)), np.array([5, 1, 2])
    assert remove_surplus(codes, n, 1, np.array([2, 6])) is n
    assert remove_surplus(codes, n, 1, np.array([3, 7])) is n  # too few is not its concern
    assert remove_surplus(codes[:0], n[:0], 1, np.array([2, 6])).tolist() == []


@given(
    st.lists(st.tuples(st.integers(0, 3), st.integers(0, 4), st.integers(0, 6)), max_size=14),
    st.lists(st.integers(0, 9), min_size=5, max_size=5),
)
def test_surplus_equals_the_slow_way(rows, counts):
    """Unit by unit: of a code with too many rows the smallest cell, the first of equals, gives all it has first."""
    codes = np.array([r[:2] for r in rows], dtype=np.int32).reshape(len(rows), 2)
    n = np.array([r[2] for r in rows], dtype=np.int64)
    expected = n.tolist()
    for code, count in enumerate(counts):
        own = sorted((i for i, r in enumerate(rows) if r[1] == code), key=lambda i: (rows[i][2], i))
        surplus = max(sum(rows[i][2] for i in own) - count, 0)
        for i in own:
            given_up = min(surplus, expected[i])
            expected[i] -= given_up
            surplus -= given_up
    assert remove_surplus(codes, n, 1, np.array(counts)).tolist() == expected


# Leftovers.


def test_leftover_rows_get_the_codes_that_are_short_of_rows():
    # A=0 with B=0 has 2 rows that no cell could hold; C=1 is short of 2.
    without = [
        known(cells((1, 0)), [3]),
        known(cells((0, 0), (0, 1)), [3, 2]),
        known(cells((0, 0), (0, 1)), [2, 3]),
    ]
    codes, n = place_missing_rows(cells((0, 1, 0)), np.array([3]), without, 2, np.array([3, 2]))
    assert codes.tolist() == [[0, 0, 1], [0, 1, 0]]
    assert n.tolist() == [2, 3]
    assert [margin_gap(codes, n, without[j], j) for j in (2, 1)] == [0, 0]
    assert codes.dtype == np.int32


@pytest.mark.parametrize("last", [0, 1, 2])
def test_leftovers_of_every_column(last):
    """The same with the columns in another order."""
    order = [j for j in range(3) if j != last] + [last]
    back = np.argsort(order)
    first = [
        known(cells((1, 0)), [3]),
        known(cells((0, 0), (0, 1)), [3, 2]),
        known(cells((0, 0), (0, 1)), [2, 3]),
    ]
    without = [None] * 3
    for role, column in enumerate(order):
        kept = [order.index(j) for j in range(3) if j != column]
        own = [j for j in range(3) if j != role]
        table = first[role]
        swapped = table.codes[:, [own.index(j) for j in kept]]
        at = np.lexsort(swapped.T[::-1])
        without[column] = known(swapped[at], table.n[at])
    codes, n = place_missing_rows(
        cells((0, 1, 0))[:, back], np.array([3]), without, last, np.array([3, 2])
    )
    expected = {(0, 0, 1): 2, (0, 1, 0): 3}
    assert listed(codes[:, order], n) == expected


def test_pairs_that_narrower_tables_allow_come_first():
    # Rows (0, 0) and (1, 1) are missing; codes 0 and 1 of C lack a row each. A=0 goes with C=1 only, and so on.
    without = [
        known(cells((0, 1), (1, 0)), [1, 1]),
        known(cells((0, 1), (1, 0)), [1, 1]),
        known(cells((0, 0), (1, 1)), [1, 1]),
    ]
    empty = np.zeros((0, 3), dtype=np.int32)
    codes, n = place_missing_rows(empty, np.zeros(0, dtype=np.int64), without, 2, np.array([1, 1]))
    assert listed(codes, n) == {(0, 0, 1): 1, (1, 1, 0): 1}


def test_a_pair_that_two_tables_allow_comes_before_one_that_one_allows():
    # The one missing row (0, 0) could get C=0, which A allows, or C=1, which A and B allow.
    without = [
        known(cells((0, 1)), [1]),
        known(cells((0, 0), (0, 1)), [1, 1]),
        known(cells((0, 0)), [1]),
    ]
    empty = np.zeros((0, 3), dtype=np.int32)
    codes, _ = place_missing_rows(empty, np.zeros(0, dtype=np.int64), without, 2, np.array([1, 1]))
    assert codes.tolist() == [[0, 0, 1]]


def test_pairs_that_universes_allow_come_first():
    """Tables of two columns have no narrower one that could say so. 0 of A is inside and 0 of B outside, and so on."""
    without = [known(cells((0,), (1,)), [2, 2]), known(cells((0,), (1,)), [2, 2])]
    empty = np.zeros((0, 2), dtype=np.int32)
    nobody = np.zeros(0, dtype=np.int64)
    marks = (
        {("A", 1): np.array([1, -1], dtype=np.int8)},
        {("A", 1): np.array([-1, 1], dtype=np.int8)},
    )
    placed = place_missing_rows(empty, nobody, without, 1, np.array([2, 2]), marks)
    assert listed(*placed) == {(0, 1): 2, (1, 0): 2}
    placed = place_missing_rows(empty, nobody, without, 1, np.array([2, 2]))
    assert listed(*placed) == {(0, 0): 2, (1, 1): 2}


def test_above_the_limit_rows_and_codes_are_put_together_in_order(monkeypatch):
    """The case above where the tables would have it otherwise: counts are met all the same."""
    without = [
        known(cells((0, 1), (1, 0)), [1, 1]),
        known(cells((0, 1), (1, 0)), [1, 1]),
        known(cells((0, 0), (1, 1)), [1, 1]),
    ]
    monkeypatch.setattr(repair, "PAIRINGS", 3)
    empty = np.zeros((0, 3), dtype=np.int32)
    codes, n = place_missing_rows(empty, np.zeros(0, dtype=np.int64), without, 2, np.array([1, 1]))
    assert listed(codes, n) == {(0, 0, 0): 1, (1, 1, 1): 1}


def test_rows_join_the_cell_that_is_there():
    without = [known(cells((0,), (1,)), [3, 4]), known(cells((0,)), [7])]
    codes, n = place_missing_rows(
        cells((0, 0), (0, 1)), np.array([1, 4]), without, 1, np.array([3, 4])
    )
    assert listed(codes, n) == {(0, 0): 3, (0, 1): 4}


def test_no_more_rows_than_codes_lack():
    """Tables of different totals: no code is ever above its count, no fibre above its own."""
    without = [known(cells((0,), (1,)), [1, 1]), known(cells((0,), (1,)), [5, 5])]
    codes, n = place_missing_rows(cells((0, 0)), np.array([1]), without, 1, np.array([1, 1]))
    assert n.sum() == 2
    assert np.bincount(codes[:, 1], weights=n).tolist() == [1, 1]


def test_without_leftovers_nothing_changes_but_the_order():
    table = np.array([[[1, 0], [2, 3]], [[0, 4], [0, 0]]])
    codes = np.argwhere(table > 0).astype(np.int32)
    n = table[tuple(codes.T)]
    for last in range(3):
        got = place_missing_rows(codes, n, narrower_of(table), last, one_way(table, last))
        assert (got[0] == codes).all()
        assert (got[1] == n).all()
        mixed = np.random.default_rng(last).permutation(len(n))
        got = place_missing_rows(
            codes[mixed], n[mixed], narrower_of(table), last, one_way(table, last)
        )
        assert (got[0] == codes).all()
        assert (got[1] == n).all()


def test_cells_that_surplus_emptied_are_gone():
    codes, n = cells((0, 0), (0, 1)), np.array([0, 2])
    without = [known(cells((1,)), [2]), known(cells((0,)), [2])]
    got = place_missing_rows(codes, n, without, 1, np.array([0, 2]))
    assert listed(*got) == {(0, 1): 2}


def test_nothing_at_all():
    nothing = known(np.zeros((0, 2), dtype=np.int32), np.zeros(0, dtype=np.int64))
    codes, n = place_missing_rows(
        np.zeros((0, 3), dtype=np.int32),
        np.zeros(0, dtype=np.int64),
        [nothing] * 3,
        2,
        np.zeros(0, dtype=np.int64),
    )
    assert codes.shape == (0, 3)
    assert n.tolist() == []


# Both together, as `lock_table` uses them.


def whole(codes, n, without, last, counts):
    return place_missing_rows(codes, remove_surplus(codes, n, last, counts), without, last, counts)


def rounded_badly(table, last, rng):
    """Cells with every fibre at most as full as it should be, anywhere in it: far off all other margins."""
    fibres = np.moveaxis(table, last, -1)
    sums = fibres.sum(axis=-1)
    kept = sums - rng.binomial(sums, rng.choice([0.0, 0.2, 0.7]))
    n = rng.multinomial(kept.ravel(), np.full(table.shape[last], 1 / table.shape[last]))
    dense = np.moveaxis(n.reshape(fibres.shape), -1, last)
    codes = np.argwhere(dense > 0).astype(np.int32)
    return codes, dense[tuple(codes.T)]


@pytest.mark.parametrize("limit", [repair.PAIRINGS, 10])
@given(
    seed=st.integers(0, 10**6),
    k=st.sampled_from([2, 3, 4]),
    size=st.integers(1, 6),
    last=st.integers(0, 3),
)
@settings(max_examples=60)
def test_afterwards_every_code_is_there_as_often_as_published(limit, seed, k, size, last):
    """Of any start: rows stay >= 0, cells come once and in order, fibres are not exceeded, one-way counts exact."""
    rng = np.random.default_rng(seed)
    last %= k
    table = rng.integers(0, size + 1, (3, 4, 5, 2)[:k]) * (rng.random((3, 4, 5, 2)[:k]) < 0.6)
    without = narrower_of(table)
    start = rounded_badly(table, last, rng)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(repair, "PAIRINGS", limit)
        codes, n = whole(*start, without, last, one_way(table, last))
    assert (n > 0).all()
    assert n.dtype == np.int64
    assert codes.dtype == np.int32
    rows = [tuple(c) for c in codes.tolist()]
    assert rows == sorted(set(rows))
    for j in range(k):
        have = np.bincount(codes[:, j], weights=n, minlength=table.shape[j])
        assert have.tolist() == one_way(table, j).tolist()
    assert margin_gap(codes, n, without[last], last) == 0


@given(st.integers(0, 10**6), st.integers(0, 2))
@settings(max_examples=60)
def test_rows_that_were_placed_stay_where_the_counts_allow(seed, last):
    """What is taken out is the surplus of codes and no more; all else of the start is still there."""
    rng = np.random.default_rng(seed)
    table = rng.integers(0, 5, (3, 4, 5))
    codes, n = rounded_badly(table, last, rng)
    counts = one_way(table, last)
    got = Counter(listed(*whole(codes, n, narrower_of(table), last, counts)))
    start = Counter(listed(codes, n))
    have = np.bincount(codes[:, last], weights=n, minlength=len(counts))
    assert (start - got).total() <= np.maximum(have - counts, 0).sum()


def ruled_out(placed, without) -> int:
    """Rows in combinations that a narrower table does not have, once for each such table."""
    broken = 0
    for j, table in enumerate(without):
        held = set(map(tuple, table.codes.tolist()))
        broken += sum(n for c, n in listed(*placed).items() if c[:j] + c[j + 1 :] not in held)
    return broken


def test_weighing_pairs_pays(monkeypatch):
    """A third of the cells of a table taken away: few of the rows that come back are where no table has any."""
    weighed, in_order, missing = 0, 0, 0
    for seed in range(60):
        rng = np.random.default_rng(seed)
        table = rng.integers(0, 4, (4, 4, 4)) * (rng.random((4, 4, 4)) < 0.5)
        without, last = narrower_of(table), seed % 3
        codes = np.argwhere(table > 0).astype(np.int32)
        n = table[tuple(codes.T)]
        kept = rng.random(len(n)) >= 0.3
        start = codes[kept], n[kept], without, last, one_way(table, last)
        weighed += ruled_out(whole(*start), without)
        with monkeypatch.context() as patch:
            patch.setattr(repair, "PAIRINGS", 0)
            in_order += ruled_out(whole(*start), without)
        missing += n[~kept].sum()
    assert weighed < 0.15 * missing
    assert in_order > 2 * weighed
