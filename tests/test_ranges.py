from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from engine.ranges import ROOT_LEVEL, code_bounds, levels_at, split_codes
from engine.schema import (
    KIND_NEGATIVE,
    KIND_NONNEGATIVE,
    KIND_NULL,
    KIND_OTHER,
    NULL_CODE,
    OTHER_CODE,
)

LARGEST = 2**63 - 2
values = st.integers(min_value=-LARGEST, max_value=LARGEST)


def one(kind, level, index):
    low, high = code_bounds(
        np.array([kind], dtype=np.uint8), np.array([level], dtype=np.uint8), np.array([index])
    )
    return int(low[0]), int(high[0])


def test_split_codes():
    codes = np.array([[NULL_CODE, OTHER_CODE, 0], [-1, 7, -8]], dtype=np.int64)
    before = codes.copy()
    kind, magnitude = split_codes(codes)
    assert kind.tolist() == [
        [KIND_NULL, KIND_OTHER, KIND_NONNEGATIVE],
        [KIND_NEGATIVE, KIND_NONNEGATIVE, KIND_NEGATIVE],
    ]
    assert magnitude.tolist() == [[0, 0, 0], [0, 7, 7]]
    assert (codes == before).all()
    assert split_codes(np.zeros((0, 3), dtype=np.int64))[0].shape == (0, 3)


def test_bounds_by_hand():
    assert one(KIND_NONNEGATIVE, 3, 2) == (16, 23)
    assert one(KIND_NEGATIVE, 3, 2) == (-24, -17)
    assert one(KIND_NEGATIVE, 0, 0) == (-1, -1)
    assert one(KIND_NONNEGATIVE, ROOT_LEVEL, 0) == (0, 2**63 - 1)
    assert one(KIND_NEGATIVE, ROOT_LEVEL, 0) == (-(2**63), -1)
    assert one(KIND_NONNEGATIVE, 62, 1) == (2**62, 2**63 - 1)
    assert one(KIND_NULL, 5, 3) == one(KIND_OTHER, 0, 0) == (0, 0)


@given(values, st.integers(min_value=0, max_value=ROOT_LEVEL))
def test_a_range_holds_its_codes_and_no_others(code, level):
    kind, magnitude = split_codes(np.array([code]))
    index = int(magnitude[0]) >> level
    low, high = one(int(kind[0]), level, index)
    assert low <= code <= high
    assert high - low + 1 == 2**level
    # absolute and anchored at 0: every end is a multiple of the size, whatever the data
    assert (low if code >= 0 else high + 1) % 2**level == 0
    for end in (low, high):
        if -LARGEST <= end <= LARGEST:
            k, m = split_codes(np.array([end]))
            assert (int(k[0]), int(m[0]) >> level) == (int(kind[0]), index)


@given(values, values, st.integers(min_value=0, max_value=ROOT_LEVEL - 1))
def test_halves_nest(a, b, level):
    kind, magnitude = split_codes(np.array([a, b]))
    fine, coarse = magnitude >> level, magnitude >> (level + 1)
    assert (coarse == fine >> 1).all()
    if kind[0] == kind[1] and fine[0] == fine[1]:
        assert coarse[0] == coarse[1]


def test_all_columns_halve_together():
    assert [levels_at((3, 0, 1), d) for d in range(5)] == [
        (3, 0, 1),
        (2, 0, 0),
        (1, 0, 0),
        (0, 0, 0),
        (0, 0, 0),
    ]
    assert levels_at((), 0) == ()
