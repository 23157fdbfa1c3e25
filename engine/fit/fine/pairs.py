"""A table of two columns of many values: whole rows in released boxes, then each row's values.

Takes what `engine.fit.locking.lock_table` does; gives cells that show every value of both columns exactly as often as
published. Where one column tells a coarser one, the other's values are shared out as the coarser table says.
Where universes rule out what two rows hold, they exchange values with others.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from engine.fit.borders import Marks
from engine.fit.candidates import Codes
from engine.fit.coarse import Coarse
from engine.fit.fine.boxes import Boxes, allowed_pairs, classes_of, whole_boxes
from engine.fit.fine.decoding import Supply, Wanted, decoded, supply_of
from engine.schema import BoolArray, Int64Array, Measurement, Support

FINE = 400_000
"""Tables of two columns with more combinations of values are fitted here."""


def is_fine(sizes: Sequence[int]) -> bool:
    """Whether columns of so many values have so many combinations that they are not listed; only of two columns."""
    return len(sizes) == 2 and sizes[0] * sizes[1] > FINE


def fine_pair(
    tree: Measurement,
    supports: tuple[Support, ...],
    *,
    noisy_total: int,
    floor: int,
    layer_sd: int,
    key: bytes,
    marks: tuple[Marks, ...] = (),
    coarse: tuple[Coarse, ...] = (),
) -> tuple[Codes, Int64Array]:
    """Fit a table of two columns.

    Parameters
    ----------
    tree, supports, noisy_total, floor, layer_sd, key, marks, coarse
        As in `engine.fit.locking.lock_table`; of several coarser tables the first is met exactly.

    Returns
    -------
    codes : ndarray of int32, shape (n_cells, 2)
        Distinct, in lexicographic order.
    n : ndarray of int64, shape (n_cells,)
    """
    boxes = whole_boxes(
        tree,
        supports,
        noisy_total=noisy_total,
        floor=floor,
        layer_sd=layer_sd,
        key=key,
        marks=marks,
    )
    loose = _loose_rows(boxes)
    one = coarse[0].at[coarse[0].replaced] if coarse else 0
    values = np.empty((2, len(loose)), dtype=np.int32)
    none = np.zeros(len(boxes.n), dtype=np.int64)
    values[one] = decoded(_wanted(boxes, one, none, loose), supply_of(supports[one]), key, one)
    if coarse:
        supply, told = _told_supply(coarse[0], supports[1 - one]), coarse[0].told[values[one]]
        values[1 - one] = _within_told(boxes, loose, told, supply, key, 1 - one)
    else:
        values[1 - one] = decoded(
            _wanted(boxes, 1 - one, none, loose), supply_of(supports[1 - one]), key, 1 - one
        )
    _exchanged(values, supports, marks)
    return _counted(values, len(supports[1]))


def _loose_rows(boxes: Boxes) -> BoolArray:
    """Rows, one box's behind the other's, that no measurement is sure of: the last of each box."""
    sure = np.minimum(boxes.sure, boxes.n)
    both = np.column_stack([sure, boxes.n - sure]).ravel()
    return np.repeat(np.tile([False, True], len(boxes.n)), both)


def _counted(values: NDArray[np.int32], n_others: int) -> tuple[Codes, Int64Array]:
    """Distinct pairs of codes of rows in lexicographic order, and how many rows have each."""
    key = values[0] * np.int64(n_others)
    key += values[1]
    key.sort()
    heads = np.flatnonzero(np.diff(key, prepend=-1))
    n = np.diff(np.append(heads, len(key)))
    codes = np.column_stack(np.divmod(key[heads], n_others)).astype(np.int32)
    return codes, n.astype(np.int64)


def _wanted(boxes: Boxes, column: int, of_class: Int64Array, loose: BoolArray) -> Wanted:
    """What the rows of all boxes want of a column."""
    ranges = boxes.ranges
    return Wanted(
        kind=ranges.kind[:, column],
        level=ranges.level[:, column],
        index=ranges.index[:, column],
        of_class=of_class,
        n=boxes.n,
        loose=loose,
    )


def _told_supply(coarse: Coarse, support: Support) -> Supply:
    """Values of a column by the code of the coarser one that they stand with in its table."""
    table = coarse.table
    of_class = table.codes[:, coarse.replaced].astype(np.int64)
    value = table.codes[:, 1 - coarse.replaced].astype(np.int64)
    order = np.lexsort((value, of_class))
    return Supply(support=support, value=value[order], of_class=of_class[order], n=table.n[order])


def _within_told(
    boxes: Boxes,
    loose: BoolArray,
    told: Int64Array,
    supply: Supply,
    key: bytes,
    column: int,
) -> NDArray[np.int32]:
    """Values of the other column, the rows of each box told apart by the code of the coarser one."""
    box = np.repeat(np.arange(len(boxes.n)), boxes.n)
    label = box * (int(told.max(initial=0)) + 1) + told
    order = np.argsort(label, kind="stable")
    heads = np.flatnonzero(np.diff(label[order], prepend=-1))
    first = order[heads]
    items = Boxes(
        ranges=boxes.ranges.take(box[first]),
        n=np.diff(np.append(heads, len(order))),
        sure=boxes.sure[box[first]],
    )
    out = np.empty(len(order), dtype=np.int32)
    out[order] = decoded(_wanted(items, column, told[first], loose[order]), supply, key, column)
    return out


def _exchanged(
    values: NDArray[np.int32], supports: tuple[Support, ...], marks: tuple[Marks, ...]
) -> None:
    """Rows that universes rule out exchange their first column's value with others, in place."""
    classes, firsts = [], []
    for j, support in enumerate(supports):
        of, first = classes_of(len(support), marks[j] if marks else {})
        classes.append(of)
        firsts.append(first)
    allowed = allowed_pairs(firsts, marks)
    if allowed.all():
        return
    n_others = allowed.shape[1]
    pair = classes[0][values[0]] * n_others + classes[1][values[1]]
    for wrong in np.flatnonzero(~allowed.ravel()):
        i, j = divmod(int(wrong), n_others)
        # A row of classes (p, q) helps if (p, j) and (i, q) are allowed; first those that are wrong themselves.
        helps = allowed[:, [j]] & allowed[[i], :]
        for other in sorted(np.flatnonzero(helps.ravel()), key=lambda o: allowed.ravel()[o]):
            rows, others = np.flatnonzero(pair == wrong), np.flatnonzero(pair == other)
            count = min(len(rows), len(others))
            if not count:
                continue
            # Spread evenly over the rows, which stand in the order of the boxes.
            rows, others = rows[:count], others[np.arange(count) * len(others) // count]
            values[0, rows], values[0, others] = values[0, others], values[0, rows]
            pair[rows] = classes[0][values[0, rows]] * n_others + j
            pair[others] = i * n_others + classes[1][values[1, others]]
