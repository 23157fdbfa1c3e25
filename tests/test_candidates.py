from __future__ import annotations

from itertools import combinations, product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from oracles.fit_oracles import joined

from engine import candidates
from engine.candidates import Narrower, join_candidates, sampled_pairs, sums_in

SIZES = {2: (4, 7), 3: (5, 2, 6), 4: (3, 5, 2, 4)}


def narrower(table: dict[tuple, int], width: int) -> Narrower:
    cells = sorted(table)
    return Narrower(
        letters=np.array(cells, dtype=np.int32).reshape(len(cells), width),
        n=np.array([table[c] for c in cells], dtype=np.int64),
    )


@st.composite
def random_tables(draw, sizes):
    """A table of one column less for each column left out, each with its own cells."""
    out = []
    for j in range(len(sizes)):
        cells = list(product(*(range(s) for i, s in enumerate(sizes) if i != j)))
        kept = draw(st.lists(st.sampled_from(cells), unique=True, max_size=len(cells)))
        out.append({cell: draw(st.integers(1, 9)) for cell in kept})
    return out


def check(tables, sizes):
    k = len(sizes)
    found = join_candidates([narrower(t, k - 1) for t in tables], sizes)
    cells = [tuple(cell) for cell in found.letters.tolist()]
    assert cells == sorted(cells)  # lexicographic
    assert cells == joined(tables, sizes)
    assert found.letters.dtype == np.int32
    assert found.letters.shape == (len(cells), k)
    assert len(found.margins) == k
    for place, j in enumerate(range(k - 1, -1, -1)):
        known = sorted(tables[j])
        margin = found.margins[place]
        assert margin.n.tolist() == [tables[j][c] for c in known]
        assert [known[i] for i in margin.of] == [cell[:j] + cell[j + 1 :] for cell in cells]


@pytest.mark.parametrize("dense_limit", [1 << 24, 0])
@pytest.mark.parametrize("k", [2, 3, 4])
def test_join_equals_brute_force(k, dense_limit, monkeypatch):
    monkeypatch.setattr(candidates, "DENSE_LIMIT", dense_limit)

    @given(random_tables(SIZES[k]))
    @settings(max_examples=40, deadline=None)
    def run(tables):
        check(tables, SIZES[k])

    run()


def test_pairs_are_all_combinations():
    letters = [np.arange(s, dtype=np.int32)[:, None] for s in (3, 2)]
    columns = [Narrower(letters=x, n=np.arange(1, len(x) + 1)) for x in letters]
    found = join_candidates([columns[1], columns[0]], (3, 2))
    assert found.letters.tolist() == [[0, 0], [0, 1], [1, 0], [1, 1], [2, 0], [2, 1]]
    assert found.margins[0].of.tolist() == [
        0,
        0,
        1,
        1,
        2,
        2,
    ]  # without the last column: the first's
    assert found.margins[1].of.tolist() == [0, 1, 0, 1, 0, 1]


def test_a_pair_ruled_out_below_stays_ruled_out():
    full = {cell: 1 for cell in product(range(2), range(3))}
    tables = [
        full,
        {c: 1 for c in product(range(4), range(3))},
        {c: 1 for c in product(range(4), range(2))},
    ]
    del tables[0][1, 2]  # B = 1 with C = 2
    found = join_candidates([narrower(t, 2) for t in tables], (4, 2, 3))
    assert len(found.letters) == 4 * 2 * 3 - 4
    assert not ((found.letters[:, 1] == 1) & (found.letters[:, 2] == 2)).any()


@pytest.mark.parametrize("dense_limit", [1 << 24, 0])
@pytest.mark.parametrize("k", [2, 3, 4])
def test_no_candidates(k, dense_limit, monkeypatch):
    monkeypatch.setattr(candidates, "DENSE_LIMIT", dense_limit)
    check([{} for _ in range(k)], (0,) * k)
    check([{} for _ in range(k)], SIZES[k])
    held = {cell: 1 for cell in combinations(range(5), k - 1)}
    check([{}] + [held] * (k - 1), (5,) * k)


@given(
    st.lists(st.integers(1, 6), min_size=1, max_size=7),
    st.lists(st.integers(1, 6), min_size=1, max_size=5),
    st.data(),
)
def test_sampled_pairs_lie_in_their_boxes(a, b, data):
    def span(size):
        low = data.draw(st.integers(0, size - 1))
        return low, data.draw(st.integers(low, size - 1))

    boxes = [
        (*span(len(a)), *span(len(b)), data.draw(st.integers(0, 9)))
        for _ in range(data.draw(st.integers(1, 4)))
    ]
    boxes = np.array(boxes, dtype=np.int64)
    rng = np.random.default_rng(7)
    bits = rng.integers(0, 2**64, (int(boxes[:, 4].sum()), 2), dtype=np.uint64)
    pairs = sampled_pairs(np.array(a), np.array(b), boxes, bits)
    listed = [tuple(p) for p in pairs.tolist()]
    assert listed == sorted(set(listed))
    for i, j in listed:
        assert any(lo <= i <= hi and lo2 <= j <= hi2 for lo, hi, lo2, hi2, n in boxes.tolist() if n)
    for lo, hi, lo2, hi2, n in boxes.tolist():
        inside = [1 for i, j in listed if lo <= i <= hi and lo2 <= j <= hi2]
        assert bool(n) <= bool(inside)


def test_sampled_pairs_follow_the_counts():
    bits = np.random.default_rng(3).integers(0, 2**64, (20000, 2), dtype=np.uint64)
    a, b = np.array([1, 10**6]), np.array([10**6, 1, 1])
    pairs = sampled_pairs(a, b, np.array([[0, 1, 0, 2, 20000]]), bits)
    assert [1, 0] in pairs.tolist()
    assert [0, 1] not in pairs.tolist()  # one in 10**12


def test_lookup_of_combinations_too_many_for_one_number(monkeypatch):
    table = Narrower(
        letters=np.array([[0, 2], [1, 0], [3, 1]], dtype=np.int32), n=np.array([5, 6, 7])
    )
    letters = np.array([[3, 1], [0, 2], [2, 2], [0, 2], [2, 2]], dtype=np.int32)
    n = np.array([1, 2, 3, 4, 5])
    plain = sums_in(table, letters, n)
    monkeypatch.setattr(candidates, "KEY_LIMIT", 4)
    numbered = sums_in(table, letters, n)
    for sums, outside in (plain, numbered):
        assert sums.tolist() == [6, 0, 1]
        assert outside == 8
