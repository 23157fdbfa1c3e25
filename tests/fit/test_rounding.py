from __future__ import annotations

from dataclasses import dataclass
from itertools import combinations

import numpy as np
import pytest
from fixtures.fit import KEY, Locking, distances, locking_of
from hypothesis import given, settings
from hypothesis import strategies as st
from oracles.fit_oracles import rounding_penalty

from engine.fit.candidates import MarginBounds, exact_bounds
from engine.fit.rake import rake
from engine.fit.whole import rounding
from engine.fit.whole.rounding import controlled_rounding


def rounded(x, fibres, others=(), one_way=None, boxes=None, key=KEY):
    one_way = one_way or exact_bounds(
        np.zeros(len(x), dtype=np.int64), np.array([fibres.low.sum()])
    )
    boxes = np.zeros(len(x), dtype=np.int64) if boxes is None else np.array(boxes)
    n = controlled_rounding(x, fibres, others, one_way, boxes, key)
    assert n.dtype == np.int64
    assert (n >= 0).all()
    return n


def raked(it: Locking, rng, boxes=None):
    """Random fitted rows that meet the margins as nearly as raking brings them, and these rounded."""
    n = len(it.candidates.codes)
    x = rake(rng.random(n) + 0.5, [it.one_way, *it.others, it.fibres], max_cycles=60).x
    boxes = np.zeros(n, dtype=np.int64) if boxes is None else boxes
    return x, rounded(x, it.fibres, it.others, it.one_way, boxes, rng.bytes(16))


def random_table(seed: int, shape, size: int, zeros: float) -> np.ndarray:
    rng = np.random.default_rng(seed)
    return rng.integers(0, size + 1, shape) * (rng.random(shape) >= zeros)


SHAPE = (5, 4, 6, 3)
TABLES = (st.integers(0, 10**6), st.integers(1, 12), st.floats(0, 0.8))


# Margins.


@given(st.integers(1, 9), st.integers(1, 6), *TABLES, st.integers(0, 1))
@settings(max_examples=150)
def test_two_columns_are_exact(rows, columns, seed, size, zeros, last):
    it = locking_of(random_table(seed, (rows, columns), size, zeros), last)
    _, n = raked(it, np.random.default_rng(seed))
    assert distances(n, [it.fibres]) == [0]
    assert distances(n, [it.one_way]) == [0]


@given(*TABLES, st.sampled_from([3, 4]), st.integers(0, 3))
@settings(max_examples=80, derandomize=True)
def test_wider_tables_keep_fibres_and_come_near_elsewhere(seed, size, zeros, k, last):
    it = locking_of(random_table(seed, SHAPE[:k], size, zeros), last % k)
    _, n = raked(it, np.random.default_rng(seed))
    assert distances(n, [it.fibres]) == [0]
    assert max(distances(n, it.others)) <= 2  # 1 in all of 3,000 tables
    assert distances(n, [it.one_way])[0] <= 1  # 0 but in 1 of 4,000


def test_gap_of_wider_tables_is_mostly_one_at_most():
    largest = []
    for seed in range(100):
        it = locking_of(random_table(seed, SHAPE[: 3 + seed % 2], 9, 0.2), seed % 3)
        _, n = raked(it, np.random.default_rng(seed))
        largest.append(max(distances(n, it.others)))
    assert np.mean(np.array(largest) <= 1) >= 0.95
    assert max(largest) <= 2


@given(*TABLES, st.sampled_from([2, 3, 4]), st.integers(0, 3))
@settings(max_examples=60)
def test_fibres_are_exact_whatever_the_rest_asks_for(seed, size, zeros, k, last):
    """Counts of another table in all margins but the fibres, fitted rows that meet none, boxes at random."""
    shape, last = SHAPE[:k], last % k
    it = locking_of(random_table(seed, shape, size, zeros), last)
    rng = np.random.default_rng(seed)

    def strange(margin):
        return exact_bounds(margin.of, rng.permutation(margin.low))

    x = rng.random(len(it.candidates.codes)) * rng.integers(0, 2, len(it.candidates.codes)) * 5
    boxes = rng.integers(0, 4, len(x))
    n = rounded(x, it.fibres, [strange(m) for m in it.others], strange(it.one_way), boxes)
    assert distances(n, [it.fibres]) == [0]


@given(st.integers(0, 10**6), st.sampled_from([2, 3]))
def test_whole_numbers_that_fit_are_left_alone(seed, k):
    table = random_table(seed, (4, 3, 5)[:k], 3, 0.2)
    it = locking_of(table, seed % k)
    x = table[tuple(it.candidates.codes.T)].astype(float)
    boxes = np.random.default_rng(seed).integers(0, 5, len(x))
    assert (rounded(x, it.fibres, it.others, it.one_way, boxes) == x).all()


def test_three_margins_that_leave_two_solutions():
    x = np.array([0.5] * 8)
    codes = np.indices((2, 2, 2)).reshape(3, -1)
    fibres, *others = (
        exact_bounds(codes[a] * 2 + codes[b], np.ones(4, dtype=np.int64))
        for a, b in combinations(range(3), 2)
    )
    for i in range(30):
        n = rounded(
            x, fibres, others, exact_bounds(codes[2], np.array([2, 2])), key=i.to_bytes(16, "big")
        )
        assert distances(n, [fibres]) == [0]
        assert max(distances(n, others)) <= 1


def test_moves_mend_the_second_margin():
    # Two fibres of 2 + 2; columns want 3 and 1.
    x = np.array([1.5, 0.5, 1.5, 0.5])
    fibres = exact_bounds(np.array([0, 0, 1, 1]), np.array([2, 2]))
    one_way = exact_bounds(np.array([0, 1, 0, 1]), np.array([3, 1]))
    for i in range(20):
        n = rounded(x, fibres, one_way=one_way, key=i.to_bytes(16, "big"))
        assert distances(n, [fibres, one_way]) == [0, 0]


# The start.


def test_every_cell_is_within_one_of_its_fitted_value_before_moves():
    x = np.array([0.25, 0.25, 0.25, 0.25, 1.5, 2.5])
    only = exact_bounds(np.array([0, 0, 0, 0, 1, 1]), np.array([1, 4]))
    n = rounded(x, only)
    assert (np.abs(n - x) < 1).all()
    assert distances(n, [only]) == [0]


def test_the_key_decides_ties_and_nothing_else_does():
    x = np.full(40, 0.25)
    fibres = exact_bounds(np.repeat(np.arange(10), 4), np.ones(10, dtype=np.int64))
    one = rounded(x, fibres)
    assert (one == rounded(x, fibres)).all()
    assert (one != rounded(x, fibres, key=KEY[::-1])).any()
    # Rounded fairly: over many keys each cell gets its share.
    mean = np.mean([rounded(x, fibres, key=i.to_bytes(16, "little")) for i in range(400)], axis=0)
    assert np.abs(mean - 0.25).max() < 5 * (0.25 * 0.75 / 400) ** 0.5


def test_running_sums_keep_every_run_of_neighbours_within_one():
    rng = np.random.default_rng(5)
    x = rng.random(200)
    x *= 100 / x.sum()
    n = rounded(x, exact_bounds(np.zeros(200, dtype=np.int64), np.array([100])))
    assert np.abs(np.cumsum(n) - np.cumsum(x)).max() <= 1 + 1e-4


def test_runs_of_one_box_are_rounded_together():
    """Cells of a fibre that lie in one box are neighbours before it is rounded, so that the box is within 1."""
    boxes = np.tile([3, 1], 50)
    x = np.random.default_rng(2).random(100)
    x *= 60 / x.sum()
    for i in range(20):
        n = rounded(
            x,
            exact_bounds(np.zeros(100, dtype=np.int64), np.array([60])),
            boxes=boxes,
            key=bytes([i] * 16),
        )
        for box in (1, 3):
            assert abs(n[boxes == box].sum() - x[boxes == box].sum()) < 1


def test_nothing_to_round():
    empty = exact_bounds(np.zeros(0, dtype=np.int64), np.zeros(0, dtype=np.int64))
    assert rounded(np.zeros(0), empty, [empty, empty], empty).tolist() == []


def test_no_rows_to_place():
    fibres = exact_bounds(np.array([0, 0, 1]), np.array([0, 0]))
    one_way = exact_bounds(np.array([0, 1, 0]), np.array([0, 0]))
    assert rounded(np.array([0.4, 0.2, 0.1]), fibres, one_way=one_way).tolist() == [0, 0, 0]


@pytest.mark.parametrize("width", [1, 3])
def test_a_fibre_that_raking_emptied_gets_its_rows(width):
    """In its last cell, from where moves take them to where they are wanted."""
    x = np.concatenate([np.zeros(width), [2.0, 1.0]])
    fibres = exact_bounds(np.array([0] * width + [1, 1]), np.array([4, 3]))
    n = rounded(x, fibres)
    assert n[:width].sum() == 4
    assert n[width:].tolist() == [2, 1]
    code = np.array([*range(width), 0, width - 1])
    wanted = exact_bounds(
        code, np.bincount(code, weights=[4, *[0] * (width - 1), 2, 1]).astype(int)
    )
    assert rounded(x, fibres, one_way=wanted)[:width].sum() == 4
    assert distances(rounded(x, fibres, one_way=wanted), [wanted]) == [0]


def test_fitted_rows_next_to_nothing():
    """As raking leaves them where it took nearly all away: too small to scale up."""
    x = np.array([1e-310, 3e-310, 2.0])
    assert rounded(x, exact_bounds(np.array([0, 0, 1]), np.array([3, 2]))).tolist() == [0, 3, 2]


# Penalties.


@dataclass(frozen=True, kw_only=True)
class Rounding:
    """What is rounded: a random table, contradictory in every third case, with random boxes."""

    x: np.ndarray
    fibres: MarginBounds
    others: list[MarginBounds]
    one_way: MarginBounds
    boxes: np.ndarray

    def rounded(self, key=KEY, others=None):
        others = self.others if others is None else others
        return rounded(self.x, self.fibres, others, self.one_way, self.boxes, key)

    def penalty(self, n) -> int:
        """What the margins cost, counted part by part."""
        cost = 0
        for margin in (*self.others, self.one_way):
            off = np.bincount(margin.of, weights=n, minlength=len(margin.low)) - margin.low
            cost += sum(rounding_penalty(0, int(units)) for units in off)
        return cost


def random_rounding(seed: int) -> Rounding:
    rng = np.random.default_rng(seed)
    k = int(rng.integers(2, 5))
    it = locking_of(random_table(seed, (4, 3, 5, 2)[:k], 8, 0.3), seed % k)
    x = rake(rng.random(len(it.candidates.codes)) + 0.3, [it.one_way, *it.others, it.fibres]).x
    others = list(it.others)
    if seed % 3 == 0:
        others = [exact_bounds(m.of, rng.permutation(m.low)) for m in others]
    boxes = rng.integers(0, max(len(x) // 4, 1), len(x))
    return Rounding(x=x, fibres=it.fibres, others=others, one_way=it.one_way, boxes=boxes)


def test_moves_lower_the_penalty():
    """Fibres that are rounded with an eye on the other narrower tables cost less than those rounded without."""
    blind = seeing = 0
    for seed in (seed for seed in range(40) if seed % 3):
        it = random_rounding(seed)
        blind += it.penalty(it.rounded(others=[]))
        seeing += it.penalty(it.rounded())
    assert seeing < 0.1 * blind


def loosely(margin: MarginBounds, rng) -> MarginBounds:
    """The same margin with half of its counts filled in: they may be anything from one below to one above."""
    slack = rng.integers(0, 2, len(margin.low))
    return MarginBounds(
        of=margin.of, low=np.maximum(margin.low - slack, 0), high=margin.low + slack
    )


def test_where_whole_numbers_meet_all_margins_they_are_found():
    """Also counts that were filled in; every table has a solution, the one it was made of."""
    met, tables, k = 0, 60, 3
    for seed in range(tables):
        rng = np.random.default_rng(seed)
        it = locking_of(random_table(seed, SHAPE[:k], int(rng.integers(2, 9)), 0.4), seed % k)
        others = [loosely(m, rng) for m in it.others]
        x = rake(rng.random(len(it.candidates.codes)) + 0.5, [it.one_way, *others, it.fibres]).x
        n = rounded(x, it.fibres, others, it.one_way, rng.integers(0, 9, len(x)), rng.bytes(16))
        met += not any(distances(n, [it.fibres, it.one_way, *it.others]))
    assert met >= 0.9 * tables


def test_what_cannot_be_met_costs_boxes_nothing(monkeypatch):
    """All or nothing: with filled counts that nobody can meet it ends as if they had not been asked for."""
    rounds = []
    real = rounding._Walk.go_on
    monkeypatch.setattr(
        rounding._Walk, "go_on", lambda walk, most: (rounds.append(most), real(walk, most))[1]
    )
    for seed in range(12):
        rng = np.random.default_rng(seed)
        it = locking_of(random_table(seed, SHAPE[:3], 6, 0.3), 0)
        x = rake(rng.random(len(it.candidates.codes)) + 0.5, [*it.others, it.fibres]).x
        others = [loosely(m, rng) for m in it.others]
        at = int(np.flatnonzero(others[0].low < others[0].high)[0])
        others[0].high[at] += 2  # the number in the middle is one more than there are rows for
        boxes = np.arange(len(x)) // 2
        bold = rounded(x, it.fibres, others, it.one_way, boxes)
        with monkeypatch.context() as patch:
            patch.setattr(rounding._Walk, "be_bold", lambda _: None)
            careful = rounded(x, it.fibres, others, it.one_way, boxes)
        assert (bold == careful).all()
    assert set(rounding.BOLD) <= set(rounds)


def test_narrower_tables_that_contradict_each_other_by_one_end_one_off():
    """The column's counts are met all the same.

    A = C says one table, B = C the other, and A is never B: 4 cells, each asked for 1 row by both or neither.
    """
    codes = np.indices((2, 2, 2)).reshape(3, -1)
    fibres = exact_bounds(codes[0] * 2 + codes[1], np.array([0, 1, 1, 0]))
    same = np.array([1, 0, 0, 1])
    others = [exact_bounds(codes[j] * 2 + codes[2], same) for j in (0, 1)]
    one_way = exact_bounds(codes[2], np.array([1, 1]))
    for i in range(20):
        n = rounded(np.full(8, 0.25), fibres, others, one_way, key=bytes([i] * 16))
        assert distances(n, [fibres, one_way]) == [0, 0]
        assert max(distances(n, others)) <= 1


# Boxes.


def box_sums(x, n, boxes):
    return np.bincount(boxes, weights=n) - np.bincount(boxes, weights=x)


def test_boxes_stay_at_their_fitted_rows_where_nothing_else_forces_them():
    """Ten fibres of four codes, two boxes in each, of 3 and 1 rows; the codes' counts can be met beside them."""
    x = np.tile([1.5, 1.5, 0.5, 0.5], 10)
    fibres = exact_bounds(np.repeat(np.arange(10), 4), np.full(10, 4))
    one_way = exact_bounds(np.tile(np.arange(4), 10), np.array([15, 15, 5, 5]))
    boxes = np.repeat(np.arange(20), 2)
    off = []
    for i in range(30):
        n = rounded(x, fibres, one_way=one_way, boxes=boxes, key=bytes([i] * 16))
        assert distances(n, [fibres, one_way]) == [0, 0]
        off.append(np.abs(box_sums(x, n, boxes)))
    # To mend two boxes that are one off in two fibres takes two moves, the first of which helps nobody.
    assert np.max(off) <= 1
    assert np.mean(off) <= 0.1


def test_boxes_that_are_not_whole_end_at_the_number_below_or_above():
    rng = np.random.default_rng(8)
    for i in range(20):
        x = rng.random(60)
        boxes = np.repeat(np.arange(12), 5)
        fibres = exact_bounds(
            np.repeat(np.arange(6), 10), np.rint(x.reshape(6, 10).sum(axis=1)).astype(int)
        )
        x = rake(x, [fibres], max_cycles=1).x
        n = rounded(x, fibres, boxes=boxes, key=bytes([i] * 16))
        assert np.abs(box_sums(x, n, boxes)).max() < 1


def test_boxes_that_cross_fibres_are_held_too():
    """Boxes of two codes in each of 16 fibres, of 8 and 24 rows; other codes in other fibres."""
    fibre, code = np.divmod(np.arange(64), 4)
    boxes = (code // 2 + fibre) % 2
    x = np.where(boxes, 0.75, 0.25)
    fibres, one_way = exact_bounds(fibre, np.full(16, 2)), exact_bounds(code, np.full(4, 8))
    free = set()
    for i in range(20):
        n = rounded(x, fibres, one_way=one_way, boxes=boxes, key=bytes([i] * 16))
        assert distances(n, [fibres, one_way]) == [0, 0]
        assert np.bincount(boxes, weights=n).tolist() == [8, 24]
        n = rounded(x, fibres, one_way=one_way, key=bytes([i] * 16))
        free.add(int(n[boxes == 0].sum()))
    assert len(free) > 2  # without the boxes


def test_counts_of_the_column_go_before_boxes():
    """The fitted rows say 2 and 1, the column's table 1 and 2."""
    fibres = exact_bounds(np.zeros(2, dtype=np.int64), np.array([3]))
    one_way = exact_bounds(np.array([0, 1]), np.array([1, 2]))
    assert rounded(np.array([2.0, 1.0]), fibres, one_way=one_way, boxes=[0, 1]).tolist() == [1, 2]
