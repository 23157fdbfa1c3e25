"""Decoding: rows that are known to lie in ranges of a column get values, each value as often as published.

Takes ranges with numbers of rows, and values with the rows that are there for them; gives each row a value. From the
finest ranges up, the rows of a range share what is left of its values. Where there are more rows than that, which
noise brings about, those over it look in the next larger range: first those that have left one already, then such
as no measurement is sure of. So a row leaves a range only where others that are known to lie in it have all its values.
Seeded by the sampling key; whole numbers only. Cost follows rows and values, not their product; what is kept of each
row is as small as it can be, about 60 bytes at the most.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from engine.fit.fine.boxes import ALIKE, EVERYTHING, places_of
from engine.ranges import ROOT_LEVEL, bit_length
from engine.schema import (
    KIND_NEGATIVE,
    KIND_NONNEGATIVE,
    BoolArray,
    Int64Array,
    Support,
    UInt8Array,
    UInt64Array,
)
from engine.sticky_prf import siphash

_KEY_BITS = 63
"""Of a sort key: the node, a lot, and the row."""
Rows = NDArray[np.signedinteger[Any]]
"""Numbers of rows, or of what each of them is in."""
_AWAY, _LOOSE, _SURE = 0, 1, 2
"""Who leaves a crowded range first: rows that have left one already, those that no measurement is sure of, others."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Supply:
    """Values that rows may get.

    Attributes
    ----------
    support : Support
        Of the column.
    value : ndarray of int64, shape (n_places,)
        Its codes, ascending within a class.
    of_class : ndarray of int64, shape (n_places,)
        Ascending: rows get values of their own class, as long as there are any.
    n : ndarray of int64, shape (n_places,)
        Rows that have the value.
    """

    support: Support
    value: Int64Array
    of_class: Int64Array
    n: Int64Array


@dataclass(frozen=True, kw_only=True, slots=True)
class Wanted:
    """Rows that want a value, in items of one range and one class.

    Attributes
    ----------
    kind, level : ndarray of uint8, shape (n_items,)
    index : ndarray of int64, shape (n_items,)
    of_class : ndarray of int64, shape (n_items,)
    n : ndarray of int64, shape (n_items,)
        Rows of each item, one item's behind the other's.
    loose : ndarray of bool, shape (n_rows,)
        Rows that are the first to leave their range.
    """

    kind: UInt8Array
    level: UInt8Array
    index: Int64Array
    of_class: Int64Array
    n: Int64Array
    loose: BoolArray


def supply_of(support: Support) -> Supply:
    """All values of a column, as its own table says."""
    none = np.zeros(len(support), dtype=np.int64)
    return Supply(support=support, value=np.arange(len(support)), of_class=none, n=support.n)


def decoded(wanted: Wanted, supply: Supply, key: bytes, column: int) -> NDArray[np.int32]:
    """Give each row a value.

    Parameters
    ----------
    key : bytes
        Sampling key of the table.
    column : int
        Its number: draws differ by it.

    Returns
    -------
    ndarray of int32, shape (n_rows,)
        Codes.
    """
    n_rows = int(wanted.n.sum())
    small = np.int32 if n_rows < 1 << 31 else np.int64
    level, at = _anchored(wanted, supply)
    by_level = np.argsort(level, kind="stable")
    begin = (np.cumsum(wanted.n) - wanted.n)[by_level]
    count = wanted.n[by_level]
    rows_by_level = np.repeat((begin - np.cumsum(count) + count).astype(small), count)
    rows_by_level += np.arange(n_rows, dtype=small)
    upto = np.cumsum(np.bincount(level[by_level], weights=count, minlength=EVERYTHING + 1))
    anchor = np.repeat(at.astype(np.int32), wanted.n)
    stays = np.where(wanted.loose, np.int8(_LOOSE), np.int8(_SURE))
    stays[np.repeat(level > wanted.level, wanted.n)] = _AWAY
    number = np.arange(n_rows, dtype=np.uint64)
    lots = _Lots(siphash(key, [number, np.broadcast_to(np.uint64(column), n_rows)]))
    del number
    parts = _parting(supply)
    place = np.full(n_rows, -1, dtype=np.int32)
    left, waiting, done = supply.n.copy(), rows_by_level[:0], 0
    highest = int(level[level <= ROOT_LEVEL].max(initial=0))
    for here in (*range(highest + 1), ROOT_LEVEL, ALIKE, EVERYTHING):
        end = int(upto[here])
        rows = np.concatenate([waiting, rows_by_level[done:end]])
        done = max(done, end)
        if not len(rows):
            waiting = rows
            continue
        node = (np.cumsum(parts > here) - 1).astype(np.int32)
        served, waiting = _served(rows, node[anchor[rows]], node, left, lots, stays)
        stays[waiting] = _AWAY
        _matched(served, node[anchor[served]], node, left, lots, place)
    return supply.value.astype(np.int32)[place]


def _anchored(wanted: Wanted, supply: Supply) -> tuple[Int64Array, Int64Array]:
    """Level of the smallest range around each item's that has a value, and the place of its first value there."""
    level, index = wanted.level.astype(np.int64), wanted.index.copy()
    at = np.zeros(len(level), dtype=np.int64)
    size = len(supply.support)
    composite = supply.of_class * size + supply.value
    looking = np.flatnonzero(level < ALIKE)
    is_valued = (wanted.kind == KIND_NEGATIVE) | (wanted.kind == KIND_NONNEGATIVE)
    while len(looking):
        first, end = places_of(
            supply.support, wanted.kind[looking], level[looking].astype(np.uint8), index[looking]
        )
        of = wanted.of_class[looking] * size
        found = np.searchsorted(composite, of + first)
        has_value = found < np.searchsorted(composite, of + end)
        at[looking[has_value]] = found[has_value]
        looking = looking[~has_value]
        up = is_valued[looking] & (level[looking] < ROOT_LEVEL)
        level[looking] = np.where(up, level[looking] + 1, ALIKE)
        index[looking] >>= 1
        looking = looking[up]
    alike = np.flatnonzero(level == ALIKE)
    of = wanted.of_class[alike]
    at[alike] = np.searchsorted(supply.of_class, of)
    missing = alike[np.searchsorted(supply.of_class, of, side="right") == at[alike]]
    level[missing], at[missing] = EVERYTHING, 0
    return level, at


def _parting(supply: Supply) -> Int64Array:
    """Smallest level at whose ranges each place lies in another one than the place before."""
    support, value = supply.support, supply.value
    kind = support.kind[value]
    magnitude = np.where(kind == KIND_NEGATIVE, ~support.grid[value], support.grid[value])
    parts = np.full(len(value), EVERYTHING + 1, dtype=np.int64)
    differ = (magnitude[1:] ^ magnitude[:-1]).view(np.uint64)
    between = np.zeros(len(differ), dtype=np.int64)
    between[differ > 0] = bit_length(differ[differ > 0])
    between[kind[1:] != kind[:-1]] = ALIKE
    between[supply.of_class[1:] != supply.of_class[:-1]] = EVERYTHING
    parts[1:] = between
    return parts


def _served(
    rows: Rows,
    of: NDArray[np.int32],
    node: NDArray[np.int32],
    left: Int64Array,
    lots: _Lots,
    stays: NDArray[np.int8],
) -> tuple[Rows, Rows]:
    """Rows for which there is a value in their nodes, and those that are too many, by lot."""
    n_nodes = int(node[-1]) + 1
    there = np.bincount(node, weights=left, minlength=n_nodes).astype(np.int64)
    over = np.maximum(np.bincount(of, minlength=n_nodes) - there, 0)
    crowded = over[of] > 0
    if not crowded.any():
        return rows, rows[:0]
    some, count = rows[crowded], np.bincount(of[crowded], minlength=n_nodes)
    order = lots.sorted(of[crowded] * np.int64(3) + stays[some], some)
    # Of each node's rows, now next to each other, the first are over.
    both = np.column_stack([np.minimum(over, count), np.maximum(count - over, 0)]).ravel()
    leaves = np.zeros(len(lots), dtype=bool)
    leaves[order[np.repeat(np.tile([True, False], n_nodes), both)]] = True
    return rows[~leaves[rows]], rows[leaves[rows]]


def _matched(
    rows: Rows,
    of: NDArray[np.int32],
    node: NDArray[np.int32],
    left: Int64Array,
    lots: _Lots,
    place: NDArray[np.int32],
) -> None:
    """Give rows values of their nodes by lot, spread evenly over what is left there; both booked in place."""
    if not len(rows):
        return
    order = lots.sorted(of, rows)
    wanted = np.bincount(of, minlength=int(node[-1]) + 1)
    busy = np.flatnonzero(wanted[node] > 0)
    at, units = node[busy], left[busy]
    running = np.cumsum(units)
    heads = np.flatnonzero(np.diff(at, prepend=-1))
    sizes = np.diff(np.append(heads, len(at)))
    base = np.repeat(running[heads] - units[heads], sizes)
    there = np.repeat(np.add.reduceat(units, heads), sizes)
    begin = order[
        np.cumsum(wanted[at[heads]]) - wanted[at[heads]]
    ]  # the bits of a node's first row
    first = np.repeat(lots.numbers(begin), sizes) % there
    share, after = wanted[at], running - base
    taken = (after * share + first) // there - ((after - units) * share + first) // there
    left[busy] -= taken
    place[order] = np.repeat(busy.astype(np.int32), taken)


class _Lots:
    """Random bits of each row."""

    def __init__(self, bits: UInt64Array) -> None:
        self._bits = bits
        self._row_bits = len(bits).bit_length()

    def __len__(self) -> int:
        return len(self._bits)

    def numbers(self, rows: Rows) -> Int64Array:
        """A whole number >= 0 for each row."""
        return (self._bits[rows] >> np.uint64(1)).view(np.int64)

    def sorted(self, group: Rows, rows: Rows) -> Int64Array:
        """Rows by their group, and within it by lot; a sort of whole numbers, no two of them equal."""
        lot_bits = _KEY_BITS - self._row_bits - int(group.max(initial=0)).bit_length()
        lot = self._bits[rows]
        lot >>= np.uint64(64 - lot_bits)
        ranked = group.astype(np.int64)
        ranked <<= lot_bits
        ranked |= lot.view(np.int64)
        del lot
        ranked <<= self._row_bits
        ranked |= rows
        ranked.sort()
        ranked &= (1 << self._row_bits) - 1
        return ranked
