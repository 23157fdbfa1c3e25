"""How margins are packed for fitting: columns of margins in, a tree of blocks out.

Raking a large table to each margin in turn reads and writes it once a margin. A block is a union of columns whose own
table is much smaller: the large table is summed to it once, the margins inside are raked on it one after the other,
and the factor they make together goes into the large table once. The same holds within a block, so blocks nest. The
updates, and their order, are those of the textbook.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import log, prod

import numpy as np

from engine.schema import ColumnSet

SHRINK = 8
"""A block's table is at most this part of the table it is summed from."""
SMALL = 4096
"""Cells of a table that is not worth blocks."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Block:
    """Columns, and what is raked on their table.

    Attributes
    ----------
    columns : ColumnSet
        In the order of the table's axes.
    parts : tuple of Block
        Raked first, in this order.
    targets : tuple of int
        Places of the targets with just these columns; raked last.
    """

    columns: ColumnSet
    parts: tuple[Block, ...]
    targets: tuple[int, ...]


def blocks_of(
    columns: ColumnSet,
    margins: Sequence[ColumnSet],
    sizes: Mapping[str, int],
    limit: int | None = None,
) -> Block:
    """Pack margins into a tree of blocks.

    Parameters
    ----------
    columns : ColumnSet
        Of the whole table, in the order of its axes.
    margins : sequence of ColumnSet
        Each within the columns.
    sizes : mapping of str to int
    limit : int, optional
        Most cells of a block at the top (one margin alone may have more); default a part of the table's cells.

    Returns
    -------
    Block
    """
    return _packed(columns, tuple(enumerate(margins)), sizes, limit)


def raking_order(block: Block) -> tuple[int, ...]:
    """Places of the targets in the order in which one cycle rakes to them."""
    inner = tuple(place for part in block.parts for place in raking_order(part))
    return inner + block.targets


def axes_together(block: Block, sizes: Mapping[str, int]) -> ColumnSet:
    """The columns in an order that keeps those side by side which the same blocks sum over; the largest runs last."""
    runs: dict[tuple[bool, ...], list[str]] = {}
    for name in block.columns:
        runs.setdefault(tuple(name in part.columns for part in block.parts), []).append(name)
    by_size = sorted(runs.values(), key=lambda run: prod(sizes[name] for name in run))
    return tuple(name for run in by_size for name in run)


def _packed(
    columns: ColumnSet,
    margins: tuple[tuple[int, ColumnSet], ...],
    sizes: Mapping[str, int],
    limit: int | None = None,
) -> Block:
    own = tuple(place for place, margin in margins if set(margin) == set(columns))
    rest = tuple((place, margin) for place, margin in margins if place not in set(own))
    cells = prod(sizes[name] for name in columns)
    limit = cells // SHRINK if limit is None else limit
    groups: list[list[int]]
    if cells <= SMALL:
        groups = [[k] for k in range(len(rest))]
    else:
        groups = _groups([margin for _, margin in rest], sizes, limit)
    parts = []
    for group in groups:
        named = {name for k in group for name in rest[k][1]}
        inside = tuple(name for name in columns if name in named)
        parts.append(_packed(inside, tuple(rest[k] for k in group), sizes))
    return Block(columns=columns, parts=tuple(parts), targets=own)


def _groups(margins: list[ColumnSet], sizes: Mapping[str, int], limit: int) -> list[list[int]]:
    """Share margins out to groups whose union has few cells: grow each by the margin that enlarges it least."""
    names = sorted({name for margin in margins for name in margin})
    holds = np.array([[name in margin for name in names] for margin in margins], dtype=bool)
    logs = np.array([log(sizes[name]) for name in names])
    cells = holds @ logs
    most = log(max(limit, 1)) + 1e-9
    left = np.ones(len(margins), dtype=bool)
    groups = []
    while left.any():
        start = int(np.argmax(np.where(left, cells, -1.0)))
        block = holds[start].copy()
        while True:
            outside = holds & ~block
            growth = np.where(left & outside.any(axis=1), outside @ logs, np.inf)
            best = int(np.argmin(growth))
            if not np.isfinite(growth[best]) or block @ logs + growth[best] > most:
                break
            block |= holds[best]
        inside = left & ~(holds & ~block).any(axis=1)
        groups.append([int(k) for k in np.flatnonzero(inside)])
        left &= ~inside
    return groups
