"""Ends and statuses of figures, from what each of them is on replays of the table that answers.

Takes figures as released, on imagined data and on the replay of each, and on replays at twice the threshold; gives low
and high ends, statuses, and of figures that replays cannot tell the reason.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np

from engine.schema import KIND_OTHER, BoolArray, FloatArray
from queries.intervals.buckets import TableBuckets

Status = Literal["reliable", "low", "unreliable", "not released", "structural zero"]
"""reliable: half of the interval is at most a tenth of the figure, and no table that the release does not rule out
moves it by more. low: released, and nothing or next to it.
unreliable: the noise is a larger share of the figure, or how far it may be off is not known. not released: suppressed,
or empty: we do not say which. structural zero: impossible by a declared rule."""
RELIABLE = 0.1
"""Half of the interval over the figure, up to which it is reliable: a coefficient of variation of about 5 %."""
LOW = 2.0
"""Standard deviations of the noise, up to which a figure is next to nothing."""
MEASURED = 0.99
"""Share of a column's values that must have been measured where single values of it decide."""
ENOUGH = 0.9
"""Share of replays in which a row must stand, and of values that a column must share with the answer to name rows."""
_Z = 1.959964
_SAME = 1e-9


@dataclass(frozen=True, kw_only=True, slots=True)
class Figures:
    """One column of an answer on all variants of a table; NaN: no such row, or no figure.

    doublings, of_none: See `Replays`.
    """

    value: FloatArray  # shape (n_rows,): As answered
    again: FloatArray  # shape (n_rows,): The same from the released rows once more
    placed: FloatArray  # shape (n_rows, n_placed)
    # imagined, replayed: shape (n_rows, n_replays)
    imagined: FloatArray
    replayed: FloatArray
    # shape (n_rows, n_doubled): The first replays at twice the threshold, all else the same
    doubled: FloatArray
    extreme: FloatArray  # shape (n_rows, n_extreme): On tables that the release does not rule out
    reworded: FloatArray  # shape (n_rows, n_reworded): With other texts for hidden values
    possible: FloatArray  # shape (n_rows, 1): With every possible combination once; (n_rows, 0): nothing is ruled out
    doublings: float
    of_none: float = np.nan

    def known(self, *, is_amount: bool) -> BoolArray:
        """Which figures rest on released buckets: they are there wherever imputed rows are placed in theirs.

        is_amount: 0 means that nothing is there, as with counts; else it does where the figure is another.
        """

        def is_there(figures: FloatArray) -> BoolArray:
            is_something = figures.T != 0
            is_something |= (self.value == 0) & (not is_amount)
            there: BoolArray = np.isfinite(figures) & is_something.T
            return there

        known = is_there(self.value)
        if np.isfinite(self.of_none):  # nothing is suppressed
            known |= np.isfinite(self.value)
        if self.placed.shape[1]:
            is_often = is_there(self.placed).mean(axis=1) >= ENOUGH
            known = np.where(is_often, known, False)
        return known

    def may_be_far_off(self) -> BoolArray:
        """Which figures some table that the release does not rule out moves by more than `RELIABLE` allows."""
        with np.errstate(invalid="ignore"):
            off = np.abs(np.hstack([self.extreme, self.reworded]) - self.value[:, None])
            is_far = ~(off <= RELIABLE * np.abs(self.value)[:, None])
        out: BoolArray = np.logical_or.reduce(is_far, axis=1)
        return out

    def ruled(self) -> BoolArray:
        """Which amounts are 0 by a declared rule: no possible combination counts in them."""
        if not self.possible.shape[1]:
            return np.zeros(len(self.value), dtype=bool)
        out: BoolArray = (self.value == 0) & ~(self.possible[:, 0] > 0)
        return out


def measured_share(table: TableBuckets) -> float:
    """Share of a table's rows whose combination of values was measured; what stands for rare values is none."""
    is_known = table.row_measured.copy()
    for j, column in enumerate(table.released):
        is_known &= ~(column.hidden | (column.kind == KIND_OTHER))[table.rows[:, j]]
    return float(table.n[is_known].sum() / max(int(table.n.sum()), 1))


def most_hidden(table: TableBuckets) -> int:
    """Rows that 95 of 100 combinations which were not released hold at most: the threshold is a draw about its mean."""
    card = table.card
    return (int(card.get("threshold_mean", 0)) + 1) * int(card.get("scale", 1))


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
    is_known = np.isfinite(figures.of_none) and (figures.value == 0).any()
    return None if moved.any() or is_known else "it is the same in every replay of the table"


def ends_of_figures(
    figures: Figures, *, is_whole: bool, is_count: bool = False
) -> tuple[FloatArray, FloatArray]:
    """Low and high ends: as far as replays are off, and as far as doubling what is hidden moves a figure; NaN: none.

    The error of a replay has the spread of that of the release. What imputation does on average it does to every
    replay alike, as imagined rows are spread like imputed ones: each doubling of what is hidden, from one person to the
    threshold, moves a figure by about as much as the last one does.

    is_count: Of others, the interval reaches to what they are with far outermost values, the first of the extreme
        tables: how heavy a tail is cannot be told from the rows that are released.
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
    for reworded in figures.reworded.T:  # each as uncertain as the figure itself
        other = np.where(np.isfinite(reworded), reworded, value)
        low, high = np.minimum(low, other - half), np.maximum(high, other + half)
    if figures.extreme.shape[1] and not is_count:
        stretched = np.where(np.isfinite(figures.extreme[:, 0]), figures.extreme[:, 0], value)
        low, high = np.minimum(low, stretched), np.maximum(high, stretched)
    if is_whole:  # inwards: between the ends are the same whole numbers
        low, high = np.ceil(low - _SAME), np.floor(high + _SAME)
    # 0 in the release and in every replay: nothing is released there, and no replay tells how much that may be.
    is_any = there & ((imagined != 0) | (replayed != 0))
    is_nothing = (value == 0) & ~is_any.any(axis=1)
    is_often = n >= ENOUGH * max(error.shape[1], 1)
    # What is the same in every replay was not computed from noisy figures, such as the -1 of `ifnull(avg(x), -1)`.
    is_fixed = (np.where(there, error, 0.0) == 0).all(axis=1) & (not is_count)
    is_sure = np.isfinite(value) & is_often & (n > 1) & ~is_nothing & ~is_fixed
    if is_count and np.isfinite(figures.of_none):
        low, high = np.where(is_nothing, 0.0, low), np.fmax(high, figures.of_none)
        is_sure |= is_nothing
    return np.where(is_sure, low, np.nan), np.where(is_sure, high, np.nan)


def ends_of_counts(
    value: FloatArray, low: FloatArray, high: FloatArray, known: BoolArray, most: int
) -> tuple[FloatArray, FloatArray]:
    """Ends of counts, which are never below 0; those that are not released reach from 0 to what may be hidden."""
    hidden = np.fmax(np.maximum(value, most), high)
    return np.where(known, np.maximum(low, 0.0), 0.0), np.where(known, high, hidden)


def statuses(
    value: FloatArray,
    low: FloatArray,
    high: FloatArray,
    known: BoolArray,
    ruled: BoolArray | None = None,
    *,
    far: BoolArray | bool = False,
    is_amount: bool = True,
) -> tuple[Status, ...]:
    """Give each figure its status.

    known: It rests on released buckets; ruled: a declared rule excludes it; far: it may be far off all the same;
    is_amount: 0 means nothing, as with counts, sums and shares.
    """
    with np.errstate(invalid="ignore"):
        half = (high - low) / 2
        towards_0 = np.where(value >= 0, value - low, high - value)
        is_low = is_amount & (np.abs(value) <= LOW * towards_0 / _Z)
        is_sure = (half <= RELIABLE * np.abs(value)) & ~np.asarray(far)
    number = np.where(is_sure, 0, 2)
    number = np.where(is_low, 1, number)
    number = np.where(np.isfinite(half), number, 2)
    number = np.where(known, number, 3)
    if ruled is not None:
        number = np.where(ruled, 4, number)
    words: tuple[Status, ...] = ("reliable", "low", "unreliable", "not released", "structural zero")  # fmt: skip
    return tuple(words[i] for i in number.tolist())


def _squared_shift(figures: Figures) -> FloatArray:
    """Square of what hiding moves a figure by on average, less what chance adds to the square of a mean."""
    with np.errstate(invalid="ignore"):
        off = figures.doubled - figures.replayed[:, : figures.doubled.shape[1]]
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
