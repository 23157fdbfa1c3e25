"""Sums that move, single moves and exchanges: by hand, and against slow counting over random small tables."""

from __future__ import annotations

import numpy as np
import pytest
from fixtures.fit import moving_of
from hypothesis import given, settings
from hypothesis import strategies as st
from oracles.fit_oracles import rounding_penalty

from engine.fit.whole.sums import FILLED, LOOSE, MEASURED, FittedSums, Moving, Sums
from engine.fit.whole.walks import CellIndex, exchanges, single_moves, unshared

SEEDS = st.integers(0, 10**6)


def sums_off(off, kind) -> Sums:
    """One cell a part, each so many units off a target of 20."""
    n = np.array(off) + 20
    return Sums(np.arange(len(n)), np.full(len(n), 20), np.full(len(n), kind), n)


# Sums.


def test_penalties_by_hand():
    """A unit off costs 2, the next 10, then 18, then 26 each; the first of a filled count 1, of a loose one nothing."""
    whole = {MEASURED: [56, 30, 12, 2, 0, 2, 12, 30, 56], FILLED: [55, 29, 11, 1, 0, 1, 11, 29, 55],
             LOOSE: [54, 28, 10, 0, 0, 0, 10, 28, 54]}  # fmt: skip
    for kind, penalty in whole.items():
        assert [rounding_penalty(kind, off) for off in range(-4, 5)] == penalty
        assert [sums_off([off], kind).penalty() for off in range(-4, 5)] == penalty


@pytest.mark.parametrize("kind", [MEASURED, FILLED, LOOSE])
def test_what_a_unit_more_or_less_costs(kind):
    off = np.arange(-9, 10)
    sums, cells = sums_off(off, kind), np.arange(len(off))
    assert sums.penalty() == sum(rounding_penalty(kind, one) for one in off.tolist())
    for one, lost, gained in zip(off, sums.lost(cells), sums.gained(cells), strict=True):
        assert lost == rounding_penalty(kind, one - 1) - rounding_penalty(kind, one)
        assert gained == rounding_penalty(kind, one + 1) - rounding_penalty(kind, one)


def test_loose_counts_are_asked_for_later():
    sums = Sums(
        np.arange(4),
        np.full(4, 5),
        np.array([MEASURED, LOOSE, LOOSE, LOOSE]),
        np.array([6, 6, 4, 8]),
    )
    assert sums.off.tolist() == [1, 0, 0, 3]
    sums.ask_for_filled(FILLED)
    assert sums.off.tolist() == [1, 1, -1, 3]
    assert sums.penalty() == 2 + 1 + 1 + 29
    sums.ask_for_filled(LOOSE)
    assert sums.penalty() == 2 + 28


def test_boxes_cost_the_square_of_what_they_are_off():
    """In eighths: 3 rows where 2.5 were fitted cost 2; one less costs the same, one more 18."""
    boxes = FittedSums(np.array([0, 0, 1]), np.array([2.5, 4.0]), np.array([1, 2, 4]))
    cells = np.array([0, 1, 2])
    assert boxes.lost(cells).tolist() == [0, 0, 8]
    assert boxes.gained(cells).tolist() == [16, 16, 8]
    assert boxes.off.tolist() == [0, 0]
    boxes.move(np.array([2, 2]), np.array([0, 1]))
    assert boxes.off.tolist() == [2, -2]
    assert boxes.lost(cells).tolist() == [-32, -32, 40]
    assert boxes.cells_of(np.array([0])).tolist() == [0, 1]


@given(SEEDS)
def test_sums_after_moves_are_those_of_the_cells(seed):
    rng = np.random.default_rng(seed)
    of, n = rng.integers(0, 5, 17), rng.integers(1, 9, 17)
    target = rng.integers(0, 30, 6)  # the last part has no cell
    sums = Sums(of, target, np.zeros(6, dtype=np.int64), n)
    source, target_cells = rng.integers(0, 17, 8), rng.integers(0, 17, 8)
    sums.move(source, target_cells)
    np.subtract.at(n, source, 1)
    np.add.at(n, target_cells, 1)
    assert sums.off.tolist() == (np.bincount(of, weights=n, minlength=6) - target).tolist()
    parts = np.unique(rng.integers(0, 6, 3))
    assert sorted(sums.cells_of(parts)) == np.flatnonzero(np.isin(of, parts)).tolist()
    wanted = rng.integers(0, 6, 40)
    drawn = sums.draw(wanted, rng.integers(0, 1 << 20, 40))
    held = np.isin(wanted, of)
    assert (of[drawn[held]] == wanted[held]).all()
    assert (drawn[~held] == -1).all()


@given(SEEDS)
def test_moves_that_share_a_part_are_told(seed):
    rng = np.random.default_rng(seed)
    parts = [rng.integers(0, 20, 9), rng.integers(0, 20, 9)]
    number = rng.permutation(50)[:9]
    keep = unshared(parts, number, 20)
    for i in np.flatnonzero(keep):
        others = [j for j in np.flatnonzero(keep) if j != i]
        assert not {parts[0][i], parts[1][i]} & {p[j] for p in parts for j in others}
    assert keep[number.argmax()]  # two moves never rule each other out


# Moves.


def penalty(moving: Moving) -> int:
    return sum(margin.penalty() for margin in moving.asked)


@given(SEEDS, st.integers(0, 2))
@settings(max_examples=60)
def test_moves_keep_fibres_lower_the_penalty_and_do_not_collide(seed, last):
    """Judged alone each would lower it by so much; together they do, for no two touch the same sum."""
    rng = np.random.default_rng(seed)
    table = rng.integers(0, 4, (4, 3, 5)) + 1
    moving = moving_of(table, rng.permuted(table, axis=last), last)
    judged = [(margin, 1) for margin in moving.asked]
    for number in range(6):
        asked = moving.asked[number % 2]
        before, n = penalty(moving), moving.n.copy()
        source, target = single_moves(moving, asked, judged, -1, number)
        assert (moving.fibre[source] == moving.fibre[target]).all()
        assert len(np.unique(source)) == len(source)
        moving.move(source, target)
        assert (moving.n >= 0).all()
        assert penalty(moving) <= before - len(source)
        moving.move(target, source)
        assert (moving.n == n).all()
        moving.move(source, target)


@given(SEEDS, st.integers(0, 2), st.integers(0, 1))
@settings(max_examples=60)
def test_exchanges_keep_fibres_and_one_margin(seed, last, at):
    rng = np.random.default_rng(seed)
    table = rng.integers(0, 4, (4, 3, 5)) + 1
    moving = moving_of(table, rng.permuted(table, axis=last), last)
    judged = [(margin, 1) for margin in moving.asked]
    asked, kept = moving.asked[at], moving.asked[1 - at]
    index = CellIndex(moving)
    for number in range(4):
        before, off, n = penalty(moving), kept.off.copy(), moving.n.copy()
        source, target = exchanges(moving, asked, kept, judged, index, -1, number)
        moving.move(source, target)
        assert (moving.n >= 0).all()
        assert (kept.off == off).all()
        both = np.bincount(moving.fibre, weights=moving.n), np.bincount(moving.fibre, weights=n)
        assert (both[0] == both[1]).all()
        assert penalty(moving) <= before - len(source) // 2


def test_an_exchange_mends_what_no_single_move_can():
    """Code 0 is of men only, code 1 of women only, 2 of both: who is too many of 0 here is too few there.

    Axes: place, sex, code; fibres are (place, sex), the sums of (place, code) are off.
    """
    table = np.zeros((2, 2, 3), dtype=np.int64)
    table[:, 0, 0] = table[:, 1, 1] = 2
    table[:, :, 2] = 2
    start = table.copy()
    start[0, 0], start[1, 0] = [3, 0, 1], [1, 0, 3]
    moving = moving_of(table, start, 2)
    asked, kept = moving.asked[1], moving.asked[0]  # without sex; without place
    assert np.abs(asked.off).sum() == 4
    assert not kept.off.any()
    judged = [(margin, 1) for margin in moving.asked]
    for number in range(8):
        moving.move(*single_moves(moving, asked, judged, -1, number))
    index = CellIndex(moving)
    for number in range(8):
        moving.move(*exchanges(moving, asked, kept, judged, index, -1, number))
    assert penalty(moving) == 0


def test_columns_that_no_other_margin_tells_are_asked_for():
    table = np.arange(1, 25).reshape(4, 6)
    moving = moving_of(table, table, 1)
    assert moving.asked == (moving.one_way,)
    wider = moving_of(np.ones((2, 3, 4), dtype=np.int64), np.ones((2, 3, 4), dtype=np.int64), 0)
    assert wider.asked == wider.narrower


@given(SEEDS)
def test_cells_are_found_by_fibre_and_code(seed):
    rng = np.random.default_rng(seed)
    table = rng.integers(0, 2, (3, 4, 5)) * 2
    table[0, 0, 0] = 1
    moving = moving_of(table, table, 1)
    index, code = CellIndex(moving), moving.one_way.of
    assert index.find(moving.fibre, code).tolist() == list(range(len(code)))
    held = set(zip(moving.fibre.tolist(), code.tolist(), strict=True))
    missing = [
        (f, c) for f in range(moving.fibre.max() + 1) for c in range(4) if (f, c) not in held
    ]
    if missing:
        fibre, codes = np.array(missing).T
        assert (index.find(fibre, codes) == -1).all()
