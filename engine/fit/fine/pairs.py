"""A table of two columns of many values: whole rows in released boxes, then each row's values.

Takes what `engine.fit.locking.lock_table` does; gives cells that show every value of both columns exactly as often as
published. Where one column tells a coarser one, the other's values are shared out as the coarser table says.
Where universes rule out what two rows hold, they exchange values with others.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from engine.fit.borders import Marks, allowed_pairs, classes_of
from engine.fit.cells import Coarse
from engine.fit.fine.boxes import Boxes, whole_boxes
from engine.fit.fine.decoding import Supply, Wanted, decoded, supply_of
from engine.fit.tree import Codes
from engine.schema import Int64Array, Measurement, Support

FINE = 400_000
"""Tables of two columns with more combinations of values are fitted here."""


PART = 1 << 22
"""Rows that are looked at together: what is kept of each of them meanwhile is kept of no more."""
Values = tuple[NDArray[np.int32], NDArray[np.int32]]
"""Codes of both columns of each row."""


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

    tree, supports, noisy_total, floor, layer_sd, key, marks, coarse: As in `engine.fit.locking.lock_table`;
        of several coarser tables the first is met exactly.

    Returns: codes: Distinct, in lexicographic order; n.
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
    one = coarse[0].at[coarse[0].replaced] if coarse else 0
    other = 1 - one
    first = decoded(_wanted(boxes, one), supply_of(supports[one]), key, one)
    if coarse:
        items = _told_apart(boxes, other, coarse[0].told, first)
        second = decoded(items, _told_supply(coarse[0], supports[other]), key, other)
    else:
        second = decoded(_wanted(boxes, other), supply_of(supports[other]), key, other)
    values = (second, first) if one else (first, second)
    _exchanged(values, supports, marks)
    return _counted(values, len(supports[1]))


def _counted(values: Values, n_others: int) -> tuple[Codes, Int64Array]:
    """Distinct pairs of codes of rows in lexicographic order, and how many rows have each."""
    keys, counts = [], []
    for start in range(0, max(len(values[0]), 1), PART):
        part = slice(start, start + PART)
        key = values[0][part] * np.int64(n_others)
        key += values[1][part]
        key.sort()
        heads = _heads(key)
        keys.append(key[heads])
        counts.append(np.diff(np.append(heads, len(key))))
    key, n = np.concatenate(keys), np.concatenate(counts)
    if len(keys) > 1:
        order = np.argsort(key, kind="stable")
        key, n = key[order], n[order]
        heads = _heads(key)
        key, n = key[heads], np.add.reduceat(n, heads)
    return np.column_stack(np.divmod(key, n_others)).astype(np.int32), n.astype(np.int64)


def _heads(key: Int64Array) -> Int64Array:
    """The first of each kind of equal ones next to each other."""
    return np.flatnonzero(np.append(True, key[1:] != key[:-1])[: len(key)])


def _wanted(boxes: Boxes, column: int) -> Wanted:
    """What the rows of all boxes want of a column."""
    return Wanted(
        kind=boxes.ranges.kind[:, column],
        level=boxes.ranges.level[:, column],
        index=boxes.ranges.index[:, column],
        of_class=np.zeros(len(boxes.n), dtype=np.int64),
        n=boxes.n,
        sure=np.minimum(boxes.sure, boxes.n),
    )


def _told_supply(coarse: Coarse, support: Support) -> Supply:
    """Values of a column by the code of the coarser one that they stand with in its table."""
    table = coarse.table
    of_class = table.codes[:, coarse.replaced].astype(np.int64)
    value = table.codes[:, 1 - coarse.replaced].astype(np.int64)
    order = np.lexsort((value, of_class))
    return Supply(support=support, value=value[order], of_class=of_class[order], n=table.n[order])


def _told_apart(boxes: Boxes, column: int, told: Int64Array, values: NDArray[np.int32]) -> Wanted:
    """What rows want of a column, those of each box told apart by the code of the coarser one.

    Their values of the other column are put in that order, in place, a part of the rows after the other.
    """
    n_told = int(told.max(initial=0)) + 1
    end = np.cumsum(boxes.n)
    last_sure = end - boxes.n + np.minimum(boxes.sure, boxes.n)
    labels, counts, sures = [], [], []
    for start in range(0, max(len(values), 1), PART):
        part = values[start : start + PART]
        row = np.arange(start, start + len(part))
        box = np.searchsorted(end, row, side="right")
        label = box * n_told + told[part]
        order = np.argsort(label, kind="stable")  # so that the sure ones of a box stay the first
        part[:] = part[order]
        heads = _heads(label[order])
        labels.append(label[order[heads]])
        counts.append(np.diff(np.append(heads, len(part))))
        sures.append(np.add.reduceat((row < last_sure[box])[order].astype(np.int64), heads))
    box, of_class = np.divmod(np.concatenate(labels), n_told)
    ranges = boxes.ranges.take(box)
    return Wanted(
        kind=ranges.kind[:, column],
        level=ranges.level[:, column],
        index=ranges.index[:, column],
        of_class=of_class,
        n=np.concatenate(counts),
        sure=np.concatenate(sures),
    )


def _exchanged(values: Values, supports: tuple[Support, ...], marks: tuple[Marks, ...]) -> None:
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
    small = np.min_scalar_type(allowed.size)
    pair = (classes[0].astype(small) * small.type(n_others))[values[0]]
    pair += classes[1].astype(small)[values[1]]
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
            values[0][rows], values[0][others] = values[0][others], values[0][rows]
            pair[rows] = classes[0][values[0][rows]] * n_others + j
            pair[others] = i * n_others + classes[1][values[1][others]]
