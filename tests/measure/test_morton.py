from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.measure.morton import morton_order
from engine.ranges import levels_at
from engine.schema import KIND_NULL, KIND_OTHER


def node_of(kind, magnitude, tops, depth):
    """The label of a cell's node, computed plainly."""
    levels = levels_at(tops, depth)
    return tuple(
        (k, 0 if k in (KIND_NULL, KIND_OTHER) else m >> level)
        for k, m, level in zip(kind, magnitude, levels, strict=True)
    )


def check(kind, magnitude, tops):
    order, parts = morton_order(kind, magnitude, tops)
    assert sorted(order.tolist()) == list(range(len(kind)))
    cells = [(kind[i].tolist(), magnitude[i].tolist()) for i in order]
    if cells:
        assert parts[0] == 0
    for at in range(1, len(cells)):
        differ = [
            d
            for d in range(max(tops) + 1)
            if node_of(*cells[at], tops, d) != node_of(*cells[at - 1], tops, d)
        ]
        assert parts[at] == (differ[0] if differ else max(tops) + 1)
    for depth in range(max(tops) + 1):  # every node is one run
        labels = [node_of(*cell, tops, depth) for cell in cells]
        runs = [label for i, label in enumerate(labels) if i == 0 or label != labels[i - 1]]
        assert len(runs) == len(set(labels))


@st.composite
def cell_sets(draw):
    n_columns = draw(st.integers(1, 4))
    tops = draw(st.tuples(*[st.sampled_from([0, 1, 2, 5, 31, 32, 33, 62, 63])] * n_columns))
    magnitude = st.one_of(
        st.integers(0, 9), st.integers(0, 2**63 - 1), st.sampled_from([2**31, 2**32, 2**62])
    )
    one = st.tuples(*[st.tuples(st.integers(0, 3), magnitude)] * n_columns)
    cells = draw(st.lists(one, max_size=9))
    kind = np.array([[k for k, _ in c] for c in cells], dtype=np.uint8)
    size = np.array([[m if k in (1, 2) else 0 for k, m in c] for c in cells], dtype=np.int64)
    shape = (len(cells), n_columns)
    return kind.reshape(shape), size.reshape(shape), tops


@given(cell_sets())
def test_nodes_are_runs_and_neighbours_part_where_they_should(drawn):
    check(*drawn)


@given(cell_sets(), st.randoms(use_true_random=False))
def test_the_order_of_distinct_cells_is_their_own(drawn, random):
    kind, magnitude, tops = drawn
    distinct = sorted(
        set(zip(map(tuple, kind.tolist()), map(tuple, magnitude.tolist()), strict=True))
    )
    if not distinct:
        return
    shuffled = distinct[:]
    random.shuffle(shuffled)
    seen = []
    for cells in (distinct, shuffled):
        k = np.array([c[0] for c in cells], dtype=np.uint8)
        m = np.array([c[1] for c in cells], dtype=np.int64)
        order, parts = morton_order(k, m, tops)
        seen.append(([cells[i] for i in order], parts.tolist()))
    assert seen[0] == seen[1]


def test_one_column_by_hand():
    kind = np.array([[2], [2], [1], [2], [0], [3]], dtype=np.uint8)
    magnitude = np.array([[5], [0], [0], [4], [0], [0]], dtype=np.int64)
    order, parts = morton_order(kind, magnitude, (3,))
    assert order.tolist() == [4, 2, 1, 3, 0, 5]
    # 0 and 4 part at depth 1 of 3 (halves of 0..7 are 0..3 and 4..7), 4 and 5 at the single values
    assert parts.tolist() == [0, 0, 0, 1, 3, 0]


def test_two_columns_interleave():
    magnitude = np.array([[x, y] for x in range(4) for y in range(4)], dtype=np.int64)
    kind = np.full_like(magnitude, 2).astype(np.uint8)
    order, parts = morton_order(kind, magnitude, (2, 2))
    assert magnitude[order][:8].tolist() == [
        [0, 0], [0, 1], [1, 0], [1, 1], [0, 2], [0, 3], [1, 2], [1, 3],
    ]  # fmt: skip
    assert parts.tolist() == [0, 2, 2, 2, 1, 2, 2, 2, 1, 2, 2, 2, 1, 2, 2, 2]


@pytest.mark.parametrize("n", [0, 1])
def test_no_cells_and_one(n):
    check(np.full((n, 3), 2, dtype=np.uint8), np.zeros((n, 3), dtype=np.int64), (63, 0, 2))


def test_four_full_columns_take_several_words():
    rng = np.random.default_rng(1)
    magnitude = rng.integers(0, 2**63 - 1, size=(40, 4))
    magnitude[20:, :3] = magnitude[:20, :3]  # neighbours that part in the last column only
    magnitude[20:, 3] = magnitude[:20, 3] ^ 1
    check(np.full((40, 4), 2, dtype=np.uint8), magnitude, (63, 62, 63, 40))
