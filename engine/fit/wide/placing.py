"""Values within groups: a column that was searched in groups gets its values.

The rows of each group get the group's values, so that the column's counts are those locked; then rows of a group
exchange them, as in the search, until the pairs with all other columns come near to the targets.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from engine.fit.wide.board import Board, Target
from engine.fit.wide.levels import FINEST, Placed, packed
from engine.fit.wide.search import batch_size
from engine.fit.wide.shuffles import Shuffles
from engine.fit.wide.thinning import MOST_ROWS
from engine.schema import Int64Array, Support

SWEEPS = 3


def finest_groups(support: Support, placed: Placed) -> tuple[Int64Array, Int64Array]:
    """Finer groups within the groups of a column.

    Returns: fine: Ascending with the group, within it with the value; group: The group of each.
    """
    fine = np.empty(len(support), dtype=np.int64)
    group: list[int] = []
    for number in range(int(placed.group.max(initial=-1)) + 1):
        values = np.flatnonzero(placed.group == number)
        enough = 1 if len(values) <= FINEST else -(-int(support.n[values].sum()) // FINEST)
        own = packed(support.n[values], np.zeros(len(values), np.int64), enough)
        fine[values] = own + len(group)
        group += [number] * (int(own.max(initial=-1)) + 1)
    return fine, np.array(group, dtype=np.int64)


def placed_values(
    rows: Int64Array,
    sizes: Sequence[int],
    host: Int64Array,
    support: Support,
    fine: Int64Array,
    group: Int64Array,
    targets: Sequence[Target],
    shuffles: Shuffles,
) -> Int64Array:
    """Values of a column for rows whose groups are known.

    targets: Counts by a searched column and the finer groups, which have the place `len(rows)`.
    """
    count = np.bincount(fine, weights=support.n).astype(np.int64)
    own = np.empty(len(host), dtype=np.int64)
    own[shuffles.grouped(host)] = np.repeat(np.arange(len(group)), count)
    own_place = len(rows)
    board = Board(
        np.vstack([rows, own]), [*sizes, len(group)], targets, barred=0, movable=[own_place]
    )
    first = np.searchsorted(group, np.arange(int(group.max(initial=-1)) + 2))
    sweeps = SWEEPS if len(host) <= MOST_ROWS else 1
    for _ in range(sweeps if targets else 0):
        order = shuffles.grouped(host)
        starts = np.searchsorted(host[order], np.arange(len(first)))
        for number in range(len(first) - 1):
            inside = order[starts[number] : starts[number + 1]]
            if first[number + 1] - first[number] < 2:
                continue
            for batch in np.array_split(inside, max(len(inside) // batch_size(len(inside)), 1)):
                board.exchange(batch, own_place, first[number], first[number + 1])
    by_fine = np.argsort(fine, kind="stable")
    out = np.empty(len(host), dtype=np.int64)
    out[shuffles.grouped(board.rows[own_place])] = np.repeat(by_fine, support.n[by_fine])
    return out
