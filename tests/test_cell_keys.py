"""Keys of combinations are equal and ordered as the combinations, however many are possible."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from engine.cell_keys import KEY_LIMIT, CodeSpan, cell_keys, comparable_keys, distinct_cells
from engine.schema import NULL_CODE, OTHER_CODE

HUGE = 2**31


@st.composite
def cells(draw):
    """Some combinations, few of them distinct, and the sizes of their columns: small, or far beyond one int64."""
    sizes = draw(st.lists(st.sampled_from([1, 2, 3, 1000, HUGE]), min_size=1, max_size=6))
    column = [sorted({0, 1 % size, size // 2, size - 1}) for size in sizes]
    rows = draw(st.lists(st.tuples(*map(st.sampled_from, column)), max_size=20))
    return np.array(rows, dtype=np.int64).reshape(-1, len(sizes)), sizes


@given(cells())
@settings(deadline=None, max_examples=40)
def test_keys_compare_as_combinations_do(given_cells):
    codes, sizes = given_cells
    keys, n_keys = cell_keys(codes.T, sizes)
    assert ((keys >= 0) & (keys < n_keys)).all()
    rows = list(map(tuple, codes.tolist()))
    for i, key in enumerate(keys.tolist()):
        for j, other in enumerate(keys.tolist()):
            assert (key < other, key == other) == (rows[i] < rows[j], rows[i] == rows[j])


@given(cells(), st.integers(0, 20))
@settings(deadline=None, max_examples=40)
def test_two_lists_are_numbered_alike(given_cells, cut):
    codes, sizes = given_cells
    one, other, n_keys = comparable_keys(codes[:cut], codes[cut:], sizes)
    assert max([-1, *one.tolist(), *other.tolist()]) < n_keys
    for i, row in enumerate(codes[:cut].tolist()):
        for j, another in enumerate(codes[cut:].tolist()):
            assert (one[i] < other[j], one[i] == other[j]) == (row < another, row == another)


@given(cells())
@settings(deadline=None, max_examples=40)
def test_distinct_cells_give_back_every_combination(given_cells):
    codes, sizes = given_cells
    found, number = distinct_cells(codes.T, sizes)
    distinct = list(zip(*(column.tolist() for column in found), strict=True))
    assert distinct == sorted(set(map(tuple, codes.tolist())))
    assert [distinct[i] for i in number.tolist()] == list(map(tuple, codes.tolist()))


def test_mixed_radix_as_long_as_it_fits():
    keys, n_keys = cell_keys([np.array([0, 1]), np.array([2, 0])], (2, 3))
    assert (keys.tolist(), n_keys) == ([2, 3], 6)
    assert cell_keys([np.array([1]), np.array([HUGE - 1])], (HUGE, HUGE))[1] == KEY_LIMIT
    assert cell_keys([np.array([5])] * 3, (HUGE,) * 3)[1] == HUGE  # numbered: one occurs


@pytest.mark.parametrize("n", [0, 3])
def test_no_column_has_one_combination(n):
    keys, n_keys = cell_keys([], (), n=n)
    assert (keys.tolist(), n_keys) == ([0] * n, 1)


@pytest.mark.parametrize(
    ("high", "held"),
    [(-1, "uint8"), (253, "uint8"), (254, "uint16"), (65_533, "uint16"), (65_534, "uint32")],
)
def test_codes_as_the_smallest_numbers_that_hold_them(high, held):
    span = CodeSpan(low=0, high=high)
    codes = np.array([NULL_CODE, OTHER_CODE, *([0, high] if high > 0 else [])])
    numbers = span.numbers(codes)
    assert numbers.dtype == held
    assert span.codes(numbers).tolist() == codes.tolist()


def test_codes_that_no_small_number_holds_stay():
    span = CodeSpan(low=-1, high=1 << 32)
    assert span.sql_type is None
    assert span.numbers(np.array([NULL_CODE, 1 << 32])).tolist() == [NULL_CODE, 1 << 32]
