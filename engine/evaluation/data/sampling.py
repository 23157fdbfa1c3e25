"""Samples of the original in the place of a release: the scale on which every score is read.

Takes a `Paired`; gives one whose tables are made from a sample of the original, without noise. Invariant: the
column sets are those of the release, so that the same measures read the same tables.
"""

from __future__ import annotations

import zlib
from collections.abc import Collection
from dataclasses import replace
from itertools import chain, combinations
from math import comb

import numpy as np

from engine.evaluation.data.paired import Coded, Numbers, Paired
from engine.schema import ColumnSet, column_set


def generator(seed: int, name: str) -> np.random.Generator:
    """Return the generator of one measure or attack: its draws depend on the seed and its name alone."""
    return np.random.default_rng([seed, zlib.crc32(name.encode())])


def rows_of(table: Coded, at: Numbers) -> Coded:
    """Return some rows of a table."""
    codes = {name: code[at] for name, code in table.codes.items()}
    measured = None if table.measured is None else table.measured[at]
    return Coded(columns=table.columns, codes=codes, n=table.n[at], measured=measured)


def of_columns(table: Coded, columns: ColumnSet) -> Coded:
    """Return some columns of a table; rows that now are equal stay apart."""
    return Coded(columns=columns, codes={c: table.codes[c] for c in columns}, n=table.n)


def published_as_is(paired: Paired, rows: Coded) -> dict[ColumnSet, Coded]:
    """Return the tables of a release as they would be if made from some rows without any protection."""
    return {columns: of_columns(rows, columns) for columns in paired.tables}


def sampled(paired: Paired, share: float, rng: np.random.Generator) -> Paired:
    """Return the comparison with a sample of the original in the place of the synthetic tables.

    share: 0 to 1; at least one row is taken of an original that has any.
    """
    n_rows = len(paired.original.n)
    taken = rng.permutation(n_rows)[: max(round(share * n_rows), 1)]
    rows = rows_of(paired.original, np.sort(taken))
    return replace(paired, tables=published_as_is(paired, rows))


def halves(paired: Paired, rng: np.random.Generator) -> tuple[Coded, Coded]:
    """Split the original at random into two halves."""
    order = rng.permutation(len(paired.original.n))
    middle = len(order) // 2
    first, second = np.sort(order[:middle]), np.sort(order[middle:])
    return rows_of(paired.original, first), rows_of(paired.original, second)


def column_sets(
    paired: Paired,
    columns: Collection[str],
    width: int,
    most: int,
    rng: np.random.Generator,
    *,
    beside: Collection[str] = (),
    most_listed: int = 500_000,
) -> tuple[list[ColumnSet], int]:
    """Return sets of some columns that a table shows, and how many there are; some are drawn where there are more.

    beside: Columns that the table must have, too.
    most_listed: Of more sets that the tables show, each counted as often as shown, some are drawn one by one.
    """
    free = [[c for c in t if c in columns] for t in paired.tables if set(beside) <= set(t)]
    n_shown = np.array([comb(len(c), width) for c in free], dtype=np.float64)
    if n_shown.sum() <= most_listed:
        listed = sorted(set(chain.from_iterable(combinations(c, width) for c in free)))
        if len(listed) <= most:
            return listed, len(listed)
        places = np.sort(rng.choice(len(listed), most, replace=False))
        return [listed[i] for i in places], len(listed)
    drawn: set[ColumnSet] = set()
    for at in rng.choice(len(free), 2 * most, p=n_shown / n_shown.sum()).tolist():
        picked = rng.choice(len(free[at]), width, replace=False).tolist()
        if len(drawn) < most:
            drawn.add(column_set([free[at][i] for i in picked]))
    return sorted(drawn), int(n_shown.sum())


def positions(n_rows: int, most: int, rng: np.random.Generator) -> Numbers:
    """Return the positions of at most so many rows, drawn without replacement, in order."""
    if n_rows <= most:
        return np.arange(n_rows)
    return np.sort(rng.choice(n_rows, most, replace=False))
