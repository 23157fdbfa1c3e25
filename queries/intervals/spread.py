"""Ends of figures, from what each of them is on replays of the table that answers.

Takes the figures of a column, row by row: as released, on imagined data and on the replay of each, and on replays at
twice the threshold. Gives low and high ends and statuses; of figures that replays cannot tell, the reason.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from engine.schema import KIND_OTHER, FloatArray
from queries.intervals.buckets import TableBuckets
from queries.intervals.estimates import Estimates, statuses

MEASURED = 0.99
"""Share of a column's values that must have been measured where single values of it decide."""
ENOUGH = 0.9
"""Share of replays in which a row must stand, and of values that a column must share with the answer to name rows."""
_Z = 1.959964
_SAME = 1e-9


@dataclass(frozen=True, kw_only=True, slots=True)
class Spread:
    """The figures of one column with their ends."""

    # low, high: shape (n_rows,): NaN: none.
    low: FloatArray
    high: FloatArray
    status: Sequence[str]
    is_whole: bool


@dataclass(frozen=True, kw_only=True, slots=True)
class Figures:
    """One column of an answer on all variants of a table; NaN: no such row.

    doublings: See `Replays`.
    """

    value: FloatArray  # shape (n_rows,): As answered
    again: FloatArray  # shape (n_rows,): The same from the released rows once more
    # imagined, replayed: shape (n_rows, n_replays)
    imagined: FloatArray
    replayed: FloatArray
    doubled: FloatArray  # shape (n_rows, n_doubled)
    doublings: float


def measured_share(table: TableBuckets) -> float:
    """Share of a table's rows whose combination of values was measured; the placeholder of rare values is none."""
    is_known = table.row_measured.copy()
    for j, column in enumerate(table.released):
        is_known &= column.kind[table.rows[:, j]] != KIND_OTHER
    return float(table.n[is_known].sum() / max(int(table.n.sum()), 1))


def unfit(figures: Figures) -> str | None:
    """Why a figure has no interval by replays, or None."""
    shown, again = figures.value, figures.again
    endless = ~np.isfinite(shown)
    off = np.abs(np.where(endless, np.nan, again) - np.where(endless, 0.0, shown))
    is_same = (off <= _SAME * np.maximum(np.abs(shown), 1.0)) | (again == shown)
    if not (is_same | (np.isnan(shown) & np.isnan(again))).all():
        return "computed once more from the released rows it is another figure"
    both = np.isfinite(figures.imagined) & np.isfinite(figures.replayed)
    if not both.any():
        return "its rows stand in no replay of the table, as those that a figure chooses or joins"
    moved = both & (figures.replayed != figures.imagined)
    return None if moved.any() else "it is the same in every replay of the table"


def spread_of(figures: Figures, *, is_whole: bool) -> Spread:
    """Ends of figures: as far as replays are off, and as far as doubling what is hidden moves them.

    The error of a replay has the spread of that of the release. What filling does on average it does to every
    replay alike, as the imagined rows are spread like the filled ones: each doubling of what is hidden, from one person
    to the threshold, moves a figure by about as much as the last one does.
    """
    value = np.where(np.isfinite(figures.value), figures.value, np.nan)
    imagined, replayed = (
        np.where(np.isfinite(of), of, np.nan) for of in (figures.imagined, figures.replayed)
    )
    error = replayed - imagined
    there = np.isfinite(error)
    n = there.sum(axis=1)
    mean_square = np.where(there, error**2, 0.0).sum(axis=1) / np.maximum(n, 1)
    half = np.sqrt(_student(n) ** 2 * mean_square + _squared_shift(figures))
    low, high = value - half, value + half
    if is_whole:
        low, high = np.floor(low + _SAME), np.ceil(high - _SAME)
    known = np.isfinite(value)
    # 0 in the release and in every replay: nothing is released there, and no replay tells how much that may be.
    is_any = there & ((imagined != 0) | (replayed != 0))
    is_nothing = (value == 0) & ~is_any.any(axis=1)
    is_sure = known & (there.mean(axis=1) >= ENOUGH) & ~is_nothing
    low, high = np.where(is_sure, low, np.nan), np.where(is_sure, high, np.nan)
    sd = np.where(is_sure, half / _Z, np.nan)
    given = Estimates(value=value, low=low, high=high, sd=sd, known=known)
    status = [*statuses(given, np.zeros(len(value), dtype=bool))]
    return Spread(low=low, high=high, status=status, is_whole=is_whole)


def _squared_shift(figures: Figures) -> FloatArray:
    """Square of what hiding moves a figure by on average, less what chance adds to the square of a mean."""
    doubled, value = (
        np.where(np.isfinite(of), of, np.nan) for of in (figures.doubled, figures.value)
    )
    off = doubled - value[:, None]
    there = np.isfinite(off)
    n = there.sum(axis=1)
    off = np.where(there, off, 0.0)
    mean = off.sum(axis=1) / np.maximum(n, 1)
    variance = np.where(there, (off - mean[:, None]) ** 2, 0.0).sum(axis=1) / np.maximum(n - 1, 1)
    square = np.maximum(mean**2 - variance / np.maximum(n, 1), 0.0)
    return np.where(n > 1, square, 0.0) * figures.doublings**2


def _student(n: FloatArray) -> FloatArray:
    """The 97.5 % quantile of Student's t with n degrees of freedom, right to .1 % from 6 on (Cornish and Fisher)."""
    n, z = np.maximum(n, 1).astype(np.float64), _Z
    return (
        z
        + (z**3 + z) / (4 * n)
        + (5 * z**5 + 16 * z**3 + 3 * z) / (96 * n**2)
        + (3 * z**7 + 19 * z**5 + 17 * z**3 - 15 * z) / (384 * n**3)
    )
