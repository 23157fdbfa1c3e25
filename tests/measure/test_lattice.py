"""Which column sets are summed from which: against what must hold of any choice, and by hand."""

from __future__ import annotations

import math
from itertools import combinations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.measure.lattice import FEWER, UNASKED_CELLS, UNASKED_FEWER, looks_at_rows, summed_from
from engine.schema import column_set

NAMES = "abcdefg"
SETS = st.lists(
    st.sets(st.sampled_from(NAMES), max_size=4).map(column_set), max_size=12, unique=True
)
SIZES = st.dictionaries(st.sampled_from(NAMES), st.integers(1, 300))


def cells(columns, sizes):
    return math.prod(sizes.get(name, math.inf) for name in columns)


@given(sets=SETS, sizes=SIZES, n_rows=st.sampled_from([0, 1, 50, 10_000, 10**8]))
def test_every_base_holds_its_set_and_is_small_enough_to_pay(sets, sizes, n_rows):
    bases = summed_from(sets, sizes, n_rows)
    assert len(bases) == len(sets)
    for columns, base in zip(sets, bases, strict=True):
        assert set(columns) <= set(base)
        assert base == column_set(base)
        if base != columns:
            asked = base in sets
            most = n_rows / FEWER if asked else min(n_rows / UNASKED_FEWER, UNASKED_CELLS)
            assert cells(base, sizes) <= most
            if asked:  # it is not summed from another in turn
                assert bases[sets.index(base)] == base
    assert len(set(bases)) <= len(set(sets))


@given(sets=SETS, sizes=SIZES, n_rows=st.sampled_from([0, 50, 10**8]))
def test_each_base_is_looked_at_once(sets, sizes, n_rows):
    bases, looks = summed_from(sets, sizes, n_rows), looks_at_rows(sets, sizes, n_rows)
    assert len(looks) == len(sets)
    at = [base for base, is_look in zip(bases, looks, strict=True) if is_look]
    assert at == list(dict.fromkeys(bases))


@given(sets=SETS, sizes=SIZES, n_rows=st.integers(0, 10**6), seed=st.randoms())
def test_the_order_of_asking_changes_nothing(sets, sizes, n_rows, seed):
    shuffled = list(sets)
    seed.shuffle(shuffled)
    chosen = dict(zip(sets, summed_from(sets, sizes, n_rows), strict=True))
    assert summed_from(shuffled, sizes, n_rows) == [chosen[columns] for columns in shuffled]


def test_pairs_are_summed_from_the_triple_that_is_asked_for():
    sets = [("a", "b"), ("a", "c"), ("b", "d"), ("a", "b", "c")]
    sizes = {"a": 10, "b": 20, "c": 30, "d": 500}
    triple = ("a", "b", "c")
    assert summed_from(sets, sizes, 48_000) == [triple, triple, ("b", "d"), triple]
    # Too few rows: the triple could have as many cells as there are rows.
    assert summed_from(sets, sizes, 47_999) == sets


def test_small_sets_are_counted_together():
    sets = [("a", "b"), ("a", "c"), ("b", "c"), ("d",)]
    sizes = dict.fromkeys("abcd", 10)
    together = ("a", "b", "c", "d")
    assert summed_from(sets, sizes, 64 * 10_000) == [together] * 4
    three = summed_from(sets, sizes, 64 * 10_000 - 1)
    assert three == [("a", "b", "c")] * 3 + [("d",)]


@pytest.mark.parametrize("n", [40, 120])
def test_many_pairs_need_few_looks(n):
    names = [f"c{i:03d}" for i in range(n)]
    pairs = list(combinations(names, 2))
    bases = summed_from(pairs, dict.fromkeys(names, 8), 10**8)
    assert (
        len(set(bases)) <= len(pairs) / 5
    )  # six of eight codes have 15 pairs; first come is less than best


def test_the_smallest_of_several_bases_serves():
    sets = [("a",), ("a", "b"), ("a", "c")]
    sizes = {"a": 3000, "b": 10, "c": 9}
    assert summed_from(sets, sizes, 10**6)[0] == ("a", "c")
