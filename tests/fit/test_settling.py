"""What is far off a narrower table is spread out, and no column's counts change."""

from __future__ import annotations

import numpy as np
import pytest
from fixtures.fit import KEY, narrower_of
from hypothesis import given, settings
from hypothesis import strategies as st
from oracles.fit_oracles import rounding_penalty

from engine.fit.candidates import Narrower, join_candidates
from engine.fit.coarse import Coarse
from engine.fit.locking import table_gap
from engine.fit.whole.settling import FAR, settle


def cells_of(table: np.ndarray):
    codes = np.argwhere(table > 0).astype(np.int32)
    return codes, table[tuple(codes.T)].astype(np.int64)


def dense(codes, n, shape) -> np.ndarray:
    out = np.zeros(shape, dtype=np.int64)
    np.add.at(out, tuple(codes.T), n)
    return out


def settled(start: np.ndarray, without, coarse=(), key=KEY) -> np.ndarray:
    candidates = join_candidates(without, start.shape, 2)
    codes, n = settle(*cells_of(start), candidates, without, key, coarse)
    assert codes.dtype == np.int32
    assert n.dtype == np.int64
    assert (n > 0).all()
    rows = [tuple(c) for c in codes.tolist()]
    assert rows == sorted(set(rows))
    return dense(codes, n, start.shape)


def gap(table: np.ndarray, without, coarse=()) -> int:
    return table_gap(*cells_of(table), tuple(without), tuple(coarse))


def penalty(table: np.ndarray, without) -> int:
    """What all sums cost that a narrower table has or should have; a count below 3 was filled in."""
    cost = 0
    for j, margin in enumerate(without):
        sums, wanted = table.sum(axis=j), dense(margin.codes, margin.n, np.delete(table.shape, j))
        filled = dense(margin.codes, ~margin.measured, np.delete(table.shape, j))
        cost += sum(map(rounding_penalty, filled.ravel(), (sums - wanted).ravel()))
    return cost


def one_ways(table: np.ndarray) -> list[list[int]]:
    axes = range(table.ndim)
    return [table.sum(axis=tuple(a for a in axes if a != j)).tolist() for j in axes]


SHAPE = (4, 3, 5)


@given(st.integers(0, 10**6))
@settings(max_examples=60)
def test_no_column_changes_and_no_gap_grows(seed):
    """Of any start and any margins: the same rows of every code, none where a narrower table has none."""
    rng = np.random.default_rng(seed)
    table = rng.integers(0, 9, SHAPE) * (rng.random(SHAPE) < 0.7)
    table[0, 0, 0] = 3
    start = table.copy()
    for _ in range(12):  # rows exchange codes of a column, so that column counts stay
        occupied = np.argwhere(start)
        a, b = occupied[rng.integers(0, len(occupied), 2)]
        j = rng.integers(0, 3)
        to_a, to_b = a.copy(), b.copy()
        to_a[j], to_b[j] = b[j], a[j]
        if (a != b).any():
            start[tuple(a)] -= 1
            start[tuple(b)] -= 1
            start[tuple(to_a)] += 1
            start[tuple(to_b)] += 1
    without = narrower_of(table)
    out = settled(start, without)
    assert one_ways(out) == one_ways(start)
    assert gap(out, without) <= max(gap(start, without), FAR)
    assert penalty(out, without) <= penalty(start, without)
    held = np.zeros(SHAPE, dtype=bool)
    held[tuple(join_candidates(without, SHAPE, 2).codes.T)] = True
    assert not (out[~held] > start[~held]).any()


def noisy_districts(off: int):
    """Children have no income, and nobody else has none; in district 0 the tables disagree by `off` children.

    Axes: age (8 of children, 8 of adults), income (none, 4 kinds), district (3).
    """
    table = np.zeros((16, 5, 3), dtype=np.int64)
    table[:8, 0] = 20
    table[8:, 1:] = 10
    without = narrower_of(table)
    n = without[0].n.copy()  # (income, district)
    cell = [tuple(c) for c in without[0].codes.tolist()]
    n[cell.index((0, 0))] += off
    n[cell.index((1, 0))] -= off
    n[cell.index((0, 1))] -= off
    n[cell.index((1, 1))] += off
    without[0] = Narrower(codes=without[0].codes, n=n, measured=without[0].measured)
    return table, without


@pytest.mark.parametrize("off", [3, 6, 8])
def test_a_contradiction_is_spread_over_the_others(off):
    """All of it in one cell before; eight ages can each give one."""
    table, without = noisy_districts(off)
    assert gap(table, without) == off
    out = settled(table, without)
    assert gap(out, without) <= 2
    assert one_ways(out) == one_ways(table)
    assert not out[:8, 1:].any()
    assert not out[8:, 0].any()


def test_what_is_near_stays_and_the_key_decides_the_rest():
    table, without = noisy_districts(1)
    assert (settled(table, without) == table).all()
    table, without = noisy_districts(6)
    one, again, other = (settled(table, without, key=key) for key in (KEY, KEY, KEY[::-1]))
    assert (one == again).all()
    assert (one != other).any()


def test_tables_of_coarser_columns_are_weighed_too():
    """The first column tells whether one is a child: a table of that and districts, measured, holds settling back."""
    table, without = noisy_districts(6)
    told = (np.arange(16) >= 8).astype(np.int64)
    counts = np.stack([table[:8].sum(axis=(0, 1)), table[8:].sum(axis=(0, 1))])
    codes = np.argwhere(counts).astype(np.int32)
    n = counts[tuple(codes.T)]
    coarse = Coarse(
        table=Narrower(codes=codes, n=n, measured=n > 0), at=(0, 2), replaced=0, told=told
    )
    free, held = settled(table, without), settled(table, without, [coarse])
    assert gap(free, without) <= 2
    assert gap(free, without, [coarse]) > gap(held, without, [coarse])
    assert one_ways(held) == one_ways(table)


def test_nothing_to_settle():
    nothing = np.zeros(SHAPE, dtype=np.int64)
    without = narrower_of(nothing)
    assert not settled(nothing, without).any()


def test_rows_outside_their_tables_come_back():
    """Three rows where a narrower table has none, put there by repair: two exchange their way back."""
    table = np.full((3, 3, 3), 4)
    table[0, 0] = 0
    start = table.copy()
    for a, b in (((0, 1, 0), (1, 0, 0)), ((0, 1, 1), (1, 0, 1)), ((0, 1, 2), (1, 0, 2))):
        start[a] -= 1
        start[b] -= 1
        start[0, 0, a[2]] += 1
        start[1, 1, a[2]] += 1
    without = narrower_of(table)
    out = settled(start, without)
    assert out[0, 0].sum() < 3
    assert one_ways(out) == one_ways(table)
    assert gap(out, without) < gap(start, without)
