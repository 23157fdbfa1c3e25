"""Samples of the original in the place of a release: the scale on which every score is read.

Takes a `Comparison`; gives one whose tables are made from a sample of the original, without noise. Invariant: the
column sets are those of the release, so that the same measures read the same tables.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from engine.schema import ColumnSet
from engine.utility.comparison import Coded, Comparison, Numbers


def rows_of(table: Coded, at: Numbers) -> Coded:
    """Return some rows of a table.

    Parameters
    ----------
    table : Coded
    at : ndarray of int64
        Their positions.
    """
    codes = {name: code[at] for name, code in table.codes.items()}
    measured = None if table.measured is None else table.measured[at]
    return Coded(columns=table.columns, codes=codes, n=table.n[at], measured=measured)


def of_columns(table: Coded, columns: ColumnSet) -> Coded:
    """Return some columns of a table; rows that now are equal stay apart."""
    return Coded(columns=columns, codes={c: table.codes[c] for c in columns}, n=table.n)


def published_as_is(comparison: Comparison, rows: Coded) -> dict[ColumnSet, Coded]:
    """Return the tables of a release as they would be if made from some rows without any protection."""
    return {columns: of_columns(rows, columns) for columns in comparison.tables}


def sampled(comparison: Comparison, share: float, rng: np.random.Generator) -> Comparison:
    """Return the comparison with a sample of the original in the place of the synthetic tables.

    Parameters
    ----------
    comparison : Comparison
    share : float
        0 to 1; at least one row is taken of an original that has any.
    rng : numpy Generator
    """
    n_rows = len(comparison.original.n)
    taken = rng.permutation(n_rows)[: max(round(share * n_rows), 1)]
    rows = rows_of(comparison.original, np.sort(taken))
    return replace(comparison, tables=published_as_is(comparison, rows))


def halves(comparison: Comparison, rng: np.random.Generator) -> tuple[Coded, Coded]:
    """Split the original at random into two halves."""
    order = rng.permutation(len(comparison.original.n))
    middle = len(order) // 2
    first, second = np.sort(order[:middle]), np.sort(order[middle:])
    return rows_of(comparison.original, first), rows_of(comparison.original, second)


def positions(n_rows: int, most: int, rng: np.random.Generator) -> Numbers:
    """Return the positions of at most so many rows, drawn without replacement, in order."""
    if n_rows <= most:
        return np.arange(n_rows)
    return np.sort(rng.choice(n_rows, most, replace=False))
