"""Bounds of columns that declare none: where their released ranges end.

A snapped range reaches to the next power of two, so beyond the data: days of 2021 lie in a range that begins in 2020.
Nothing is drawn beyond the outermost released range of a column, and of that range only its inner end: whoever is in it
stands there or further out. So no value is drawn that is smaller than all of the data, or larger. All of it follows
from measurements, so it is no further look: which ranges are released hangs on noisy thresholds alone.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping

import numpy as np

from engine.fit.support import is_leaf
from engine.ranges import code_bounds
from engine.schema import KIND_NEGATIVE, KIND_NONNEGATIVE, Column, Measurement

ENDS_OF = 10
"""An outermost range with more than one in so many rows is drawn from in full: data so few have no tails."""
BOUNDED_KINDS = frozenset({"integer", "real", "decimal", "date", "timestamp"})


def found_limits(
    trees: Mapping[str, Measurement], columns: Iterable[Column], deciders: Collection[str] = ()
) -> dict[str, tuple[int, int]]:
    """Smallest and largest code to be drawn, of the columns on a grid that declare no bounds.

    Parameters
    ----------
    trees : mapping of str to Measurement
        One-way.
    columns : iterable of Column
        Of the release.
    deciders : collection of str
        Columns that decide a universe of any column of the source: they keep their outermost ranges whole, for the
        border may lie in one.
    """
    out = {}
    for column in columns:
        if column.kind not in BOUNDED_KINDS or column.bounds is not None:
            continue
        tree = trees[column.name]
        limits = _limits(tree, column.step, is_whole=column.name in deciders)
        if limits is not None:
            out[column.name] = limits
    return out


def _limits(tree: Measurement, step: int, *, is_whole: bool) -> tuple[int, int] | None:
    """Where the released ranges of one column end; None where it has none."""
    valued = (tree.kind[:, 0] == KIND_NEGATIVE) | (tree.kind[:, 0] == KIND_NONNEGATIVE)
    leaves = np.flatnonzero(valued & is_leaf(tree))
    if not len(leaves):
        return None
    low, high = code_bounds(tree.kind[leaves, 0], tree.level[leaves, 0], tree.index[leaves, 0])
    first, last = int(np.argmin(low)), int(np.argmax(high))
    total = int(tree.n[valued & (tree.depth == 0)].sum())
    few = [not is_whole and int(tree.n[leaves[end]]) * ENDS_OF <= total for end in (first, last)]
    smallest = _inner(int(low[first]), int(high[first]), step) if few[0] else int(low[first])
    largest = -_inner(-int(high[last]), -int(low[last]), step) if few[1] else int(high[last])
    return (smallest, largest) if smallest <= largest else (int(low[first]), int(high[last]))


def _inner(low: int, high: int, step: int) -> int:
    """The last multiple of the step in a range; its last code where it has none."""
    on_step = high // step * step
    return on_step if on_step >= low else high
