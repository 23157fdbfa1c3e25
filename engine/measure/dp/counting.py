"""Counting in mode dp: exact counts of combinations of public levels. Confidential; only `margins` asks for them.

Takes the opened source, the parameters and the public levels; gives for every column set one dense array. An entity
of several rows has at most `max_rows` of them counted. Which ones follows from its own rows and the key alone, so
adding or removing an entity changes nothing of the others: a margin changes by at most `max_rows` in all, over all
strata together, and so does every depth of a tree. The order of rows never matters.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from hashlib import blake2b

import numpy as np

from engine.errors import InternalError
from engine.levels import Levels, Margin, inner_depths, level_of, n_cells, positions
from engine.measure import coded_cells
from engine.measure.dp.accounting import Share
from engine.mechanism import Cells, PairedEntities
from engine.params import DPParams
from engine.progress import Progress
from engine.schema import ColumnSet, Int64Array, column_set
from engine.source import Opened
from engine.sticky_prf import siphash, siphash128

Count = Callable[[ColumnSet, str], Int64Array]
"""Gives the exact counts of a column set, or sums of a column's positions, one axis a column."""


def counter(
    opened: Opened, params: DPParams, levels: Mapping[str, Levels], secret: bytes | None
) -> Count:
    """Code the rows as public levels, ready to be counted.

    secret: Decides which rows of an entity count; None: all of them.
    """
    columns = tuple(c for c in opened.ingested.columns if c.name in params.columns)
    values: dict[str, Mapping[int, object]] = {
        c.name: dict(enumerate(levels[c.name].values or ())) for c in columns if c.is_ranked
    }
    # Entities of one row each are bounded already: no need to look at them.
    several = tuple(entity for entity in opened.entities if entity.tokens is not None)
    bounded = several if secret is not None else ()
    source = coded_cells(opened.ingested, columns, values, bounded)
    if secret is None or not bounded:

        def count(wanted: ColumnSet, sum_of: str) -> Int64Array:
            cells = source.cells(column_set((*wanted, sum_of)) if sum_of else wanted)
            return _dense(cells, _places(cells, levels), cells.n_rows, wanted, sum_of, levels)

        return count
    everything = source.cells(tuple(column.name for column in columns))
    n, places = bounded_rows(everything, params.max_rows, secret), _places(everything, levels)
    return lambda wanted, sum_of: _dense(everything, places, n, wanted, sum_of, levels)


def bounded_rows(cells: Cells, max_rows: int, secret: bytes) -> Int64Array:
    """Rows of each cell once every entity has at most so many in all.

    An entity's rows are put in the order of a keyed hash of its token, the row's own codes and its number among its
    equals, and the first ones count: a uniform choice that no other entity has a part in.
    """
    (pairs,) = cells.entities
    if not isinstance(pairs, PairedEntities):
        raise InternalError("rows are chosen for entities of several rows only")
    key = blake2b(b"rows that count", key=secret, digest_size=16).digest()
    words = [np.ascontiguousarray(codes).view(np.uint64) for codes in cells.codes.T]
    cell_hash = siphash128(key, words)  # the cell by its codes, never by its position
    row = np.repeat(np.arange(len(pairs.cell)), pairs.n_rows)
    first = np.cumsum(pairs.n_rows) - pairs.n_rows
    number = (np.arange(len(row)) - first[row]).astype(np.uint64)
    cell, entity = pairs.cell[row], pairs.entity[row]
    token = pairs.tokens[entity]
    lot = siphash(key, [token[:, 0], token[:, 1], cell_hash[cell, 0], cell_hash[cell, 1], number])
    order = np.lexsort((lot, entity))
    starts = np.searchsorted(entity[order], np.arange(len(pairs.tokens)))
    rank = np.arange(len(order)) - starts[entity[order]]
    return np.bincount(cell[order[rank < max_rows]], minlength=len(cells.n_rows)).astype(np.int64)


def _places(cells: Cells, levels: Mapping[str, Levels]) -> Int64Array:
    """Level indexes of each cell, shape (n_cells, n_columns)."""
    places = np.empty(cells.codes.shape, dtype=np.int64)
    for j, name in enumerate(cells.columns):
        places[:, j] = level_of(cells.codes[:, j], levels[name])
    return places


def _dense(
    cells: Cells,
    places: Int64Array,
    n: Int64Array,
    columns: ColumnSet,
    sum_of: str,
    levels: Mapping[str, Levels],
) -> Int64Array:
    """Sums of n, or of n times a column's positions, over the combinations of levels, one axis a column."""
    sizes = tuple(len(levels[name]) for name in columns)
    places = places[:, [cells.columns.index(name) for name in columns]]
    if sum_of:
        n = n * positions(cells.codes[:, cells.columns.index(sum_of)], levels[sum_of])
    out = np.zeros(n_cells(sizes), dtype=np.int64)
    place = np.ravel_multi_index(tuple(places.T), sizes) if sizes else np.zeros(len(n), np.int64)
    np.add.at(out, place, n)
    return out.reshape(sizes)


def counted(
    count: Count, planned: tuple[Share, ...], params: DPParams, n_rows: int, report: Progress
) -> tuple[Margin, ...]:
    """Exact counts of the total, then of every margin, as margins of variance 0."""
    wanted = [share for share in planned if share.columns or share.sum_of]
    exact = Margin(columns=(), n=np.array(n_rows, dtype=np.int64), variance=0.0)
    if not params.public_n:
        exact = Margin(columns=(), n=count((), ""), variance=0.0)
    out = [exact]
    for done, share in enumerate(wanted):
        columns = share.columns
        n = count(columns, share.sum_of)
        tree: tuple[Int64Array, ...] = ()
        if share.branching:
            ranged = [name for name, _ in params.ranges if params.measured((name,)) == columns]
            tree = inner_depths(n, share.branching, columns.index(ranged[0]))
        out.append(
            Margin(
                columns=columns,
                n=n,
                variance=0.0,
                branching=share.branching,
                tree=tree,
                sum_of=share.sum_of,
            )
        )
        report("margins", done + 1, len(wanted))
    return tuple(out)
