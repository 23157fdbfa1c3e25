from __future__ import annotations

from dataclasses import replace
from itertools import combinations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from engine.cell_keys import KEY_LIMIT, CodeSpan, cell_keys, comparable_keys, distinct_cells
from engine.errors import SpecError
from engine.fit import related
from engine.params import PROFILES, PrivacyParams
from engine.ranges import ROOT_LEVEL, code_bounds, levels_at, split_codes
from engine.relations import Relation
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


def relation(finer, coarser, *, is_copy=False, of=(1, 2, 3), to=None) -> Relation:
    to = (of if is_copy else [0] * len(of)) if to is None else to
    return Relation(finer=finer, coarser=coarser, of=np.array(of), to=np.array(to), is_copy=is_copy)


NAMES = ("area", "code", "county", "state", "sex", "zone")
RELATIONS = related(
    [
        relation("area", "code", is_copy=True, of=(1, 2, 3, 4), to=(8, 6, 7, 5)),
        relation("code", "county", of=(5, 6, 7, 8), to=(1, 1, 2, 3)),
        relation("county", "state", of=(1, 2, 3), to=(0, 0, 1)),
        relation("state", "zone", is_copy=True, of=(0, 1), to=(20, 10)),
    ],
    NAMES,
)


@pytest.mark.parametrize(
    ("columns", "base"),
    [
        (("area",), ("area",)),
        (("code",), ("area",)),
        (("area", "code"), ("area",)),
        (("code", "county", "sex"), ("area", "sex")),
        (("county", "zone"), ("county",)),
        (("sex", "zone"), ("sex", "state")),
        (("area", "county", "sex", "state"), ("area", "sex")),
        (("sex",), ("sex",)),
    ],
)
def test_the_base_of_a_column_set(columns, base):
    assert RELATIONS.base(columns) == base


def test_the_source_of_each_implied_column():
    sources = {
        ("code", ("area", "sex")): ("area", [8, 6, 7, 5]),
        ("county", ("area", "sex")): ("area", [3, 1, 2, 1]),
        ("state", ("area",)): ("area", [1, 0, 0, 0]),
        ("zone", ("area",)): ("area", [10, 20, 20, 20]),
        ("zone", ("sex", "state")): ("state", [20, 10]),
        ("state", ("county",)): ("county", [0, 0, 1]),
    }
    for (name, base), (finer, to) in sources.items():
        one = RELATIONS.source(name, base)
        assert (one.finer, one.coarser, list(one.to)) == (finer, name, to)
    assert RELATIONS.source("sex", ("area", "sex")) is None


def test_tables_are_locked_to_the_next_coarser():
    coarse = {
        columns: {c for _, c in RELATIONS.coarsened(columns)}
        for columns in [
            ("area", "sex"),
            ("county", "sex"),
            ("sex", "state"),
        ]
    }
    assert coarse == {
        ("area", "sex"): {("county", "sex")},
        ("county", "sex"): {("sex", "state")},
        ("sex", "state"): set(),
    }


def test_what_a_table_is_locked_to_comes_before_it():
    for width in (1, 2, 3):
        for published in combinations(NAMES, width):
            needed = RELATIONS.needed([published])
            assert len(set(needed)) == len(needed)
            for at, columns in enumerate(needed):
                assert RELATIONS.base(columns) == columns
                before = {*needed[:at], *((name,) for name in NAMES)}
                assert before.issuperset(combinations(columns, len(columns) - 1))
                assert before.issuperset(c for _, c in RELATIONS.coarsened(columns))
            base = RELATIONS.base(published)
            assert len(base) < 2 or needed[-1] == base


def test_the_first_by_precedence_represents_its_one_to_one_columns():
    copies = [
        relation("b", "a", is_copy=True, of=(1, 2), to=(4, 3)),
        relation("c", "b", is_copy=True, of=(7, 8), to=(2, 1)),
    ]
    one = related(copies, ("c", "a", "b"))
    assert {name: (r.finer, list(r.of), list(r.to)) for name, r in one.copies.items()} == {
        "a": ("c", [7, 8], [3, 4]),
        "b": ("c", [7, 8], [2, 1]),
    }
    other = related(copies, ("a", "b", "c"))
    assert {name: (r.finer, list(r.of), list(r.to)) for name, r in other.copies.items()} == {
        "b": ("a", [3, 4], [2, 1]),
        "c": ("a", [3, 4], [7, 8]),
    }


def test_a_table_is_wide_by_its_base():
    """Implied columns need nothing but the tables to which those of the finer column are locked."""
    names = ("area", "code", "county", "sex", "state", "zone")
    assert RELATIONS.base(names) == ("area", "sex")
    assert ("area", "sex") in RELATIONS.needed([names])
    assert max(map(len, RELATIONS.needed([names]))) == 2


def test_fingerprints_of_earlier_versions_are_unchanged():
    """Their journals contain these digests: a change would force a new vintage, an independent release."""
    assert {name: params.fingerprint() for name, params in PROFILES.items()} == {
        "standard": "561bd49ae3b117127b44df314f7de495",
        "strict": "5aaa26cb9165099543adcc24eb7fc663",
    }
    former = PrivacyParams(profile="strict", threshold_mean=6, layer_sd=2)  # until 0.3.0
    assert former.fingerprint() == "d2e496429995c7e6c4e16181d0d257e8"
    assert PrivacyParams(low_threshold=4).fingerprint() == "08e7bc155a4cba4cc1222b194cc39d7b"


def test_the_limit_of_rows_is_part_of_the_fingerprint():
    plain = PrivacyParams()
    assert replace(plain, max_rows=1).fingerprint() == plain.fingerprint()
    marked = replace(plain, max_rows=8, detected=("max_rows",))
    assert marked.fingerprint() == replace(plain, max_rows=8).fingerprint()
    found = {replace(plain, max_rows=n).fingerprint() for n in (None, 2, 4, 8)}
    assert len(found) == 4


@pytest.mark.parametrize("max_rows", [0, -4, 3, 1 << 21])
def test_the_limit_of_rows_is_a_power_of_two(max_rows):
    with pytest.raises(SpecError, match=r"privacy\.max_rows: "):
        PrivacyParams(max_rows=max_rows)
