from __future__ import annotations

from itertools import combinations

import numpy as np
import pytest
from fit_fixture import KEY, Locking, distances, locking_of
from hypothesis import given, settings
from hypothesis import strategies as st
from oracles.fit_oracles import rounding_penalty

from engine import rounding
from engine.candidates import Margin, exactly
from engine.ipf import rake
from engine.rounding import ALL_ROUNDS, NARROWER, ONE_WAY_LAST, controlled_rounding

EXACT, BY_ONE, EITHER = 0, 1, 2


def rounded(x, fibres, others=(), one_way=None, boxes=None, key=KEY):
    one_way = one_way or exactly(np.zeros(len(x), dtype=np.int64), np.array([fibres.low.sum()]))
    boxes = np.zeros(len(x), dtype=np.int64) if boxes is None else np.array(boxes)
    n = controlled_rounding(x, fibres, others, one_way, boxes, key)
    assert n.dtype == np.int64
    assert (n >= 0).all()
    return n


def raked(it: Locking, rng, boxes=None):
    """Random fitted rows that meet the margins as nearly as raking brings them, and these rounded."""
    n = len(it.found.letters)
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
@settings(max_examples=150, deadline=None)
def test_two_columns_are_exact(rows, columns, seed, size, zeros, last):
    it = locking_of(random_table(seed, (rows, columns), size, zeros), last)
    _, n = raked(it, np.random.default_rng(seed))
    assert distances(n, [it.fibres]) == [0]
    assert distances(n, [it.one_way]) == [0]


@given(*TABLES, st.sampled_from([3, 4]), st.integers(0, 3))
@settings(max_examples=80, deadline=None, derandomize=True)
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
@settings(max_examples=60, deadline=None)
def test_fibres_are_exact_whatever_the_rest_asks_for(seed, size, zeros, k, last):
    """Counts of another table in all margins but the fibres, fitted rows that meet none, boxes at random."""
    shape, last = SHAPE[:k], last % k
    it = locking_of(random_table(seed, shape, size, zeros), last)
    rng = np.random.default_rng(seed)

    def strange(margin):
        return exactly(margin.of, rng.permutation(margin.low))

    x = rng.random(len(it.found.letters)) * rng.integers(0, 2, len(it.found.letters)) * 5
    boxes = rng.integers(0, 4, len(x))
    n = rounded(x, it.fibres, [strange(m) for m in it.others], strange(it.one_way), boxes)
    assert distances(n, [it.fibres]) == [0]


@given(st.integers(0, 10**6), st.sampled_from([2, 3]))
@settings(deadline=None)
def test_whole_numbers_that_fit_are_left_alone(seed, k):
    table = random_table(seed, (4, 3, 5)[:k], 3, 0.2)
    it = locking_of(table, seed % k)
    x = table[tuple(it.found.letters.T)].astype(float)
    boxes = np.random.default_rng(seed).integers(0, 5, len(x))
    assert (rounded(x, it.fibres, it.others, it.one_way, boxes) == x).all()


def test_three_margins_that_leave_two_solutions():
    x = np.array([0.5] * 8)
    letters = np.indices((2, 2, 2)).reshape(3, -1)
    fibres, *others = (
        exactly(letters[a] * 2 + letters[b], np.ones(4, dtype=np.int64))
        for a, b in combinations(range(3), 2)
    )
    for i in range(30):
        n = rounded(
            x, fibres, others, exactly(letters[2], np.array([2, 2])), key=i.to_bytes(16, "big")
        )
        assert distances(n, [fibres]) == [0]
        assert max(distances(n, others)) <= 1


def test_moves_mend_the_second_margin():
    # Two fibres of 2 + 2; columns want 3 and 1.
    x = np.array([1.5, 0.5, 1.5, 0.5])
    fibres = exactly(np.array([0, 0, 1, 1]), np.array([2, 2]))
    one_way = exactly(np.array([0, 1, 0, 1]), np.array([3, 1]))
    for i in range(20):
        n = rounded(x, fibres, one_way=one_way, key=i.to_bytes(16, "big"))
        assert distances(n, [fibres, one_way]) == [0, 0]


# The start.


def test_every_cell_is_within_one_of_its_fitted_value_before_moves():
    x = np.array([0.25, 0.25, 0.25, 0.25, 1.5, 2.5])
    only = exactly(np.array([0, 0, 0, 0, 1, 1]), np.array([1, 4]))
    n = rounded(x, only)
    assert (np.abs(n - x) < 1).all()
    assert distances(n, [only]) == [0]


def test_the_key_decides_ties_and_nothing_else_does():
    x = np.full(40, 0.25)
    fibres = exactly(np.repeat(np.arange(10), 4), np.ones(10, dtype=np.int64))
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
    n = rounded(x, exactly(np.zeros(200, dtype=np.int64), np.array([100])))
    assert np.abs(np.cumsum(n) - np.cumsum(x)).max() <= 1 + 1e-4


def test_runs_of_one_box_are_rounded_together():
    """Cells of a fibre that lie in one box are neighbours before it is rounded, so that the box is within 1."""
    boxes = np.tile([3, 1], 50)
    x = np.random.default_rng(2).random(100)
    x *= 60 / x.sum()
    for i in range(20):
        n = rounded(
            x,
            exactly(np.zeros(100, dtype=np.int64), np.array([60])),
            boxes=boxes,
            key=bytes([i] * 16),
        )
        for box in (1, 3):
            assert abs(n[boxes == box].sum() - x[boxes == box].sum()) < 1


def test_nothing_to_round():
    empty = exactly(np.zeros(0, dtype=np.int64), np.zeros(0, dtype=np.int64))
    assert rounded(np.zeros(0), empty, [empty, empty], empty).tolist() == []


def test_no_rows_to_place():
    fibres = exactly(np.array([0, 0, 1]), np.array([0, 0]))
    one_way = exactly(np.array([0, 1, 0]), np.array([0, 0]))
    assert rounded(np.array([0.4, 0.2, 0.1]), fibres, one_way=one_way).tolist() == [0, 0, 0]


@pytest.mark.parametrize("width", [1, 3])
def test_a_fibre_that_raking_emptied_gets_its_rows(width):
    """In its last cell, from where moves take them to where they are wanted."""
    x = np.concatenate([np.zeros(width), [2.0, 1.0]])
    fibres = exactly(np.array([0] * width + [1, 1]), np.array([4, 3]))
    n = rounded(x, fibres)
    assert n[:width].sum() == 4
    assert n[width:].tolist() == [2, 1]
    letter = np.array([*range(width), 0, width - 1])
    wanted = exactly(letter, np.bincount(letter, weights=[4, *[0] * (width - 1), 2, 1]).astype(int))
    assert rounded(x, fibres, one_way=wanted)[:width].sum() == 4
    assert distances(rounded(x, fibres, one_way=wanted), [wanted]) == [0]


def test_fitted_rows_next_to_nothing():
    """As raking leaves them where it took nearly all away: too small to scale up."""
    x = np.array([1e-310, 3e-310, 2.0])
    assert rounded(x, exactly(np.array([0, 0, 1]), np.array([3, 2]))).tolist() == [0, 3, 2]


# Penalties.


def test_penalties_by_hand():
    """A unit off costs 1, the next 5, then 9, then 13 each; the first is free by one, the next number either way."""
    whole = {EXACT: [28, 15, 6, 1, 0, 1, 6, 15, 28], BY_ONE: [27, 14, 5, 0, 0, 0, 5, 14, 27],
             EITHER: [28, 15, 6, 1, 0, 0, 1, 6, 15]}  # fmt: skip
    for kind, penalty in whole.items():
        assert [rounding_penalty(kind, off) for off in range(-4, 5)] == penalty


@pytest.mark.parametrize("kind", [EXACT, BY_ONE, EITHER])
@pytest.mark.parametrize("weight", [1, 4, 8])
def test_costs_of_a_unit_equal_differences_of_the_penalty(kind, weight):
    """Of every distance, those beyond reach too: there every unit costs the same."""
    offs = np.arange(-12, 13)
    sums = rounding._Sums(
        np.arange(len(offs)), np.full(len(offs), 20), np.full(len(offs), kind), 20 + offs
    )
    lost, gained = sums.costs(weight)
    for i, off in enumerate(offs.tolist()):
        now = rounding_penalty(kind, off)
        assert lost[i] >> 49 == weight * (rounding_penalty(kind, off - 1) - now)
        assert gained[i] >> 49 == weight * (rounding_penalty(kind, off + 1) - now)
    assert ((lost & ((1 << 49) - 1)) == 0).all()
    assert (lost + gained >= 0).all()  # convex: to take a unit out and put it back never helps


def penalty_of(judged, n) -> int:
    """What the sums of all margins cost, counted anew and part by part."""
    cost = 0
    for sums, weight in judged:
        have = np.bincount(sums.of, weights=n, minlength=len(sums._target)).astype(int)
        kinds = (sums._kind // rounding._WIDTH).tolist()
        for kind, off in zip(kinds, (have - sums._target).tolist(), strict=True):
            cost += weight * rounding_penalty(kind, off)
    return cost


class Watched:
    """Looks at all rounds of moves while a table is rounded."""

    def __init__(self, monkeypatch):
        self.real = rounding._best_moves
        self.rounds = []
        monkeypatch.setattr(rounding, "_best_moves", self)

    def __call__(self, n, held, x, judged, runs, lots):
        source, target = self.real(n, held, x, judged, runs, lots)
        assert (held == (n > 0)).all()
        assert (n[source] > 0).all()
        assert (runs.of[source] == runs.of[target]).all()  # in one fibre, or in one box of it
        assert len(np.unique(runs.of[source])) == len(source)
        # A move inside a box leaves it as it is: boxes are judged in every other round.
        assert len(judged) - len(self.rounds[0]["judged"] if self.rounds else judged) == -(
            len(self.rounds) % 2
        )
        before, after = penalty_of(judged, n), n.copy()
        for s, t in zip(source.tolist(), target.tolist(), strict=True):
            alone = n.copy()
            alone[s] -= 1
            alone[t] += 1
            assert penalty_of(judged, alone) < before
            after[s] -= 1
            after[t] += 1
        self.rounds.append(
            {
                "n": n.copy(), "after": after, "judged": judged, "runs": runs, "moves": (source, target),
                "phase": judged[len(judged) - 1 if len(self.rounds) % 2 else -2][1],
                "before": before, "behind": penalty_of(judged, after),
            }
        )  # fmt: skip
        return source, target


def watched_table(seed):
    """A random table, contradictory in every third case, and random boxes."""
    rng = np.random.default_rng(seed)
    k = int(rng.integers(2, 5))
    it = locking_of(random_table(seed, (4, 3, 5, 2)[:k], 8, 0.3), seed % k)
    x = rake(rng.random(len(it.found.letters)) + 0.3, [it.one_way, *it.others, it.fibres]).x
    others = it.others
    if seed % 3 == 0:
        others = [exactly(m.of, rng.permutation(m.low)) for m in others]
    return it, x, others, rng.integers(0, max(len(x) // 4, 1), len(x))


def test_every_move_helps_and_together_they_help_in_each_phase(monkeypatch):
    """Alone each move of a round lowers the penalty. Those of one round can be in each other's way, rarely and by
    little; over the rounds with the same weights the penalty only falls."""
    rounds, risen = 0, 0
    for seed in range(24):
        it, x, others, boxes = watched_table(seed)
        with monkeypatch.context() as patch:
            seen = Watched(patch)
            rounded(x, it.fibres, others, it.one_way, boxes, key=bytes([seed] * 16))
        assert len(seen.rounds) <= ALL_ROUNDS
        for phase in {one["phase"] for one in seen.rounds}:
            of_phase = [one for one in seen.rounds if one["phase"] == phase]
            judged = max((one["judged"] for one in of_phase), key=len)  # the boxes too
            assert penalty_of(judged, of_phase[-1]["after"]) <= penalty_of(judged, of_phase[0]["n"])
        for one in seen.rounds:
            assert (np.diff(fibre_sums(it, one["n"], boxes)) == 0).all()
        rounds += len(seen.rounds)
        risen += sum(one["behind"] > one["before"] for one in seen.rounds)
    assert rounds > 200
    assert risen <= 0.1 * rounds


def fibre_sums(it, n, boxes):
    """Sums of the fibres in the order in which they are rounded, beside those asked for."""
    fibre = np.cumsum(np.diff(it.fibres.of, prepend=-1) != 0) - 1
    order = np.lexsort((boxes, fibre))
    have = np.bincount(fibre[order], weights=n)
    first = np.flatnonzero(np.diff(fibre, prepend=-1))
    return np.array([have, it.fibres.low[it.fibres.of[first]]]).T


def test_no_single_move_is_left_that_would_help(monkeypatch):
    """Where the rounds ended by themselves: every pair of cells of every fibre tried."""
    ended = 0
    for seed in range(16):
        it, x, others, boxes = watched_table(seed + 100)
        with monkeypatch.context() as patch:
            seen = Watched(patch)
            rounded(x, it.fibres, others, it.one_way, boxes)
        if len(seen.rounds) == ALL_ROUNDS:
            continue
        ended += 1
        final = max(seen.rounds[-2:], key=lambda one: len(one["judged"]))
        judged, n = final["judged"], seen.rounds[-1]["after"]
        fibre = next(one["runs"].of for one in seen.rounds if len(one["judged"]) == len(judged))
        least = penalty_of(judged, n)
        for s in np.flatnonzero(n):
            for t in np.flatnonzero(fibre == fibre[s]):
                moved = n.copy()
                moved[s] -= 1
                moved[t] += 1
                assert penalty_of(judged, moved) >= least
    assert ended >= 12


def test_moves_that_want_the_same_slot_keep_one():
    """Two moves out of a part that is off by one collide; of a part off by three as many as have slots of their own."""
    of, lots = np.array([0, 0, 0, 1, 2, 3]), np.arange(6)
    for surplus, most in ((1, 1), (0, 1), (3, 3)):
        target = np.array([6 - surplus, 0, 0, 0])
        sums = rounding._Sums(of, target, np.zeros(4, dtype=np.int64), np.array([2, 2, 2, 0, 0, 0]))
        for lot in ([0, 0, 0], [0, 1, 2], [5, 5, 4]):
            listed = lots.copy()
            listed[:3] |= np.array(lot) << 32
            source, into = rounding._without_collisions(
                np.array([0, 1, 2]), np.array([3, 4, 5]), [(sums, NARROWER)], listed
            )
            assert len(source) == len({one % most for one in lot})
            assert (into - source == 3).all()
            light, _ = rounding._without_collisions(
                np.array([0, 1, 2]), np.array([3, 4, 5]), [(sums, NARROWER - 1)], listed
            )
            assert len(light) == 3  # of light penalties nobody is refused


def test_of_moves_that_all_collide_one_is_kept():
    """So that rounds come to an end: the first and second want one part, the second and third another."""
    lots = np.zeros(6, dtype=np.int64)
    sums = [
        rounding._Sums(
            np.array(of), np.zeros(4, int), np.zeros(4, int), np.array([1, 1, 1, 0, 0, 0])
        )
        for of in ([0, 0, 1, 2, 2, 3], [0, 1, 1, 2, 3, 3])
    ]
    source, _ = rounding._without_collisions(
        np.array([0, 1, 2]), np.array([3, 4, 5]), [(s, NARROWER) for s in sums], lots
    )
    assert source.tolist() == [2]


# Phases.


def test_one_off_is_free_in_the_second_phase(monkeypatch):
    """Narrower tables that contradict each other by one: both end one off, and the column's counts are met.

    A = C says one table, B = C the other, and A is never B: 4 cells, each asked for 1 row by both or neither.
    """
    letters = np.indices((2, 2, 2)).reshape(3, -1)
    fibres = exactly(letters[0] * 2 + letters[1], np.array([0, 1, 1, 0]))
    same = np.array([1, 0, 0, 1])
    others = [
        exactly(letters[0] * 2 + letters[2], same),
        exactly(letters[1] * 2 + letters[2], same),
    ]
    one_way = exactly(letters[2], np.array([1, 1]))
    for i in range(20):
        with monkeypatch.context() as patch:
            seen = Watched(patch)
            n = rounded(np.full(8, 0.25), fibres, others, one_way, key=bytes([i] * 16))
        assert distances(n, [fibres, one_way]) == [0, 0]
        assert max(distances(n, others)) <= 1
        assert [weight for _, weight in seen.rounds[0]["judged"]] == [NARROWER, NARROWER, 1, 1]
        final = next(one for one in seen.rounds[::-1] if len(one["judged"]) == 4)
        assert [weight for _, weight in final["judged"]] == [NARROWER, NARROWER, ONE_WAY_LAST, 1]
        assert penalty_of(final["judged"][:2], seen.rounds[-1]["after"]) == 0


def test_bounds_of_one_off_are_free_from_the_start():
    """Counts that were filled in may be off by one, those at 0 by one more; measured ones are asked for."""
    it = watched_table(1)[0]
    n = it.fibres.low
    sums = rounding._target(Margin(of=it.fibres.of, low=np.maximum(n - 1, 0), high=n + 1))
    assert sums[0].tolist() == n.tolist()
    assert (sums[1] == BY_ONE).all()
    assert (rounding._target(it.fibres)[1] == EXACT).all()


# Boxes.


def box_sums(x, n, boxes):
    return np.bincount(boxes, weights=n) - np.bincount(boxes, weights=x)


def test_boxes_stay_at_their_fitted_rows_where_nothing_else_forces_them():
    """Ten fibres of four letters, two boxes in each, of 3 and 1 rows; the letters' counts can be met beside them."""
    x = np.tile([1.5, 1.5, 0.5, 0.5], 10)
    fibres = exactly(np.repeat(np.arange(10), 4), np.full(10, 4))
    one_way = exactly(np.tile(np.arange(4), 10), np.array([15, 15, 5, 5]))
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
        fibres = exactly(
            np.repeat(np.arange(6), 10), np.rint(x.reshape(6, 10).sum(axis=1)).astype(int)
        )
        x = rake(x, [fibres], max_cycles=1).x
        n = rounded(x, fibres, boxes=boxes, key=bytes([i] * 16))
        assert np.abs(box_sums(x, n, boxes)).max() < 1


def test_boxes_that_cross_fibres_are_held_too():
    """Boxes of two letters in each of 16 fibres, of 8 and 24 rows; other letters in other fibres."""
    fibre, letter = np.divmod(np.arange(64), 4)
    boxes = (letter // 2 + fibre) % 2
    x = np.where(boxes, 0.75, 0.25)
    fibres, one_way = exactly(fibre, np.full(16, 2)), exactly(letter, np.full(4, 8))
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
    fibres = exactly(np.zeros(2, dtype=np.int64), np.array([3]))
    one_way = exactly(np.array([0, 1]), np.array([1, 2]))
    assert rounded(np.array([2.0, 1.0]), fibres, one_way=one_way, boxes=[0, 1]).tolist() == [1, 2]
