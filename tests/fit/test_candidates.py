from __future__ import annotations

from itertools import combinations, product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from oracles.fit_oracles import joined

from engine import cell_keys
from engine.fit import candidates
from engine.fit.candidates import (
    Narrower,
    exact_bounds,
    join_candidates,
    lexicographic,
    position_in,
    sums_in,
)

SIZES = {2: (4, 7), 3: (5, 2, 6), 4: (3, 5, 2, 4)}
LASTS = [(k, last) for k in SIZES for last in range(k)]


def narrower(table: dict[tuple, int], width: int) -> Narrower:
    cells = sorted(table)
    n = np.array([table[c] for c in cells], dtype=np.int64)
    return Narrower(
        codes=np.array(cells, dtype=np.int32).reshape(len(cells), width), n=n, measured=n > 4
    )


@st.composite
def random_tables(draw, sizes):
    """A table of one column less for each column left out, each with its own cells: few, most, or all."""
    rng = np.random.default_rng(draw(st.integers(0, 10**6)))
    out = []
    for j in range(len(sizes)):
        cells = product(*(range(s) for i, s in enumerate(sizes) if i != j))
        share = draw(st.sampled_from([0.3, 0.8, 1.0]))
        out.append({cell: int(rng.integers(1, 10)) for cell in cells if rng.random() < share})
    return out


def check(tables, sizes, last):
    k = len(sizes)
    found = join_candidates([narrower(t, k - 1) for t in tables], sizes, last)
    cells = [tuple(cell) for cell in found.codes.tolist()]
    assert found.last == last
    assert sorted(cells) == joined(tables, sizes)
    # Cells that share all columns but the last one are neighbours, in the order of that one.
    fibres = [cell[:last] + cell[last + 1 :] for cell in cells]
    runs = [f for i, f in enumerate(fibres) if not i or f != fibres[i - 1]]
    assert len(runs) == len(set(runs))
    assert all(cells[i] < cells[i + 1] for i in range(len(cells) - 1) if fibres[i] == fibres[i + 1])
    assert found.codes.dtype == np.int32
    assert found.codes.shape == (len(cells), k)
    assert len(found.at) == k
    for j in range(k):
        known = sorted(tables[j])
        assert [known[i] for i in found.at[j]] == [cell[:j] + cell[j + 1 :] for cell in cells]


@pytest.mark.parametrize("dense_limit", [1 << 24, 0])
@pytest.mark.parametrize(("k", "last"), LASTS)
def test_join_equals_brute_force(k, last, dense_limit, monkeypatch):
    monkeypatch.setattr(candidates, "DENSE_LIMIT", dense_limit)

    @given(random_tables(SIZES[k]))
    @settings(max_examples=25)
    def run(tables):
        check(tables, SIZES[k], last)

    run()


def test_join_where_combinations_are_too_many_for_one_number(monkeypatch):
    """Lookups then number the combinations that occur, and orders are taken column by column."""
    monkeypatch.setattr(cell_keys, "KEY_LIMIT", 4)

    @given(random_tables(SIZES[3]), st.integers(0, 2))
    @settings(max_examples=25)
    def run(tables, last):
        check(tables, SIZES[3], last)

    run()


def test_pairs_are_all_combinations():
    codes = [np.arange(s, dtype=np.int32)[:, None] for s in (3, 2)]
    columns = [
        Narrower(codes=x, n=np.arange(1, len(x) + 1), measured=np.ones(len(x), dtype=bool))
        for x in codes
    ]
    found = join_candidates([columns[1], columns[0]], (3, 2), 1)
    assert found.codes.tolist() == [[0, 0], [0, 1], [1, 0], [1, 1], [2, 0], [2, 1]]
    assert found.at[1].tolist() == [0, 0, 1, 1, 2, 2]  # without the last column: the first's
    assert found.at[0].tolist() == [0, 1, 0, 1, 0, 1]
    found = join_candidates([columns[1], columns[0]], (3, 2), 0)
    assert found.codes.tolist() == [[0, 0], [1, 0], [2, 0], [0, 1], [1, 1], [2, 1]]
    assert found.at[0].tolist() == [0, 0, 0, 1, 1, 1]


def test_a_pair_ruled_out_below_stays_ruled_out():
    full = {cell: 1 for cell in product(range(2), range(3))}
    tables = [
        full,
        {c: 1 for c in product(range(4), range(3))},
        {c: 1 for c in product(range(4), range(2))},
    ]
    del tables[0][1, 2]  # B = 1 with C = 2
    for last in range(3):
        found = join_candidates([narrower(t, 2) for t in tables], (4, 2, 3), last)
        assert len(found.codes) == 4 * 2 * 3 - 4
        assert not ((found.codes[:, 1] == 1) & (found.codes[:, 2] == 2)).any()


@pytest.mark.parametrize("dense_limit", [1 << 24, 0])
@pytest.mark.parametrize(("k", "last"), LASTS)
def test_no_candidates(k, last, dense_limit, monkeypatch):
    monkeypatch.setattr(candidates, "DENSE_LIMIT", dense_limit)
    check([{} for _ in range(k)], (0,) * k, last)
    check([{} for _ in range(k)], SIZES[k], last)
    held = {cell: 1 for cell in combinations(range(5), k - 1)}
    check([{}] + [held] * (k - 1), (5,) * k, last)


THREE = Narrower(
    codes=np.array([[0, 2], [1, 0], [3, 1]], dtype=np.int32),
    n=np.array([5, 6, 7]),
    measured=np.array([True, False, True]),
)


def test_lookup_of_combinations_too_many_for_one_number(monkeypatch):
    codes = np.array([[3, 1], [0, 2], [2, 2], [0, 2], [2, 2]], dtype=np.int32)
    n = np.array([1, 2, 3, 4, 5])
    plain = sums_in(THREE, codes, n)
    monkeypatch.setattr(cell_keys, "KEY_LIMIT", 4)
    numbered = sums_in(THREE, codes, n)
    for sums, outside in (plain, numbered):
        assert sums.tolist() == [6, 0, 1]
        assert outside == 8


@pytest.mark.parametrize(("key_limit", "dense_limit"), [(1 << 62, 1 << 21), (1 << 62, 0), (4, 0)])
def test_position_of_combinations(key_limit, dense_limit, monkeypatch):
    """By direct position, by search, and by the combinations that occur."""
    monkeypatch.setattr(cell_keys, "KEY_LIMIT", key_limit)
    monkeypatch.setattr(candidates, "DENSE_LIMIT", dense_limit)
    codes = np.array([[3, 1], [0, 0], [3, 2], [0, 2], [1, 0], [2, 1]], dtype=np.int32)
    assert position_in(THREE, codes, (4, 3)).tolist() == [2, -1, -1, 0, 1, -1]
    empty = Narrower(codes=codes[:0], n=np.zeros(0, dtype=np.int64), measured=np.zeros(0, bool))
    assert position_in(empty, codes, (4, 3)).tolist() == [-1] * 6
    assert position_in(THREE, codes[:0], (4, 3)).tolist() == []


@given(
    st.integers(1, 4).flatmap(
        lambda k: st.lists(st.tuples(*[st.integers(0, 3)] * k), min_size=1, max_size=12)
    ),
    st.booleans(),
)
def test_lexicographic_is_the_order_of_tuples_and_stable(cells, is_long):
    codes = np.array(cells, dtype=np.int32)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(cell_keys, "KEY_LIMIT", 1 if is_long else 1 << 62)
        order = lexicographic(codes)
    assert order.tolist() == sorted(range(len(cells)), key=lambda i: cells[i])


def test_lexicographic_of_nothing():
    assert lexicographic(np.zeros((0, 3), dtype=np.int32)).tolist() == []


def test_a_margin_that_is_known_has_equal_bounds():
    margin = exact_bounds(np.array([0, 1, 1]), np.array([4, 0]))
    assert (margin.low == margin.high).all()
    assert margin.low.tolist() == [4, 0]
