"""Borders that declared universes draw: which codes lie inside, and which combinations cannot be.

A code of a column is marked, for each universe, as of rows inside (1), outside (-1), or of either (0). Two codes
one of which is inside and the other outside never meet in a row: a structural zero by rule. And a column that is null
exactly outside has as many nulls as the deciding column has rows outside, so that the tables of both can agree.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from engine.errors import SpecError
from engine.fit.support import largest_remainder, with_counts
from engine.fit.tree import Codes
from engine.schema import (
    KIND_NULL,
    KIND_OTHER,
    BoolArray,
    CodedUniverse,
    FloatArray,
    Int64Array,
    Support,
)

Marks = dict[tuple[Any, ...], NDArray[np.int8]]
"""By universe (its condition): the mark of each code of a column."""
TOLERATED, SURE = 0.01, 8.0
"""A declaration is refused if it is off by more than this share of the rows and so many standard deviations."""
Universes = dict[str, CodedUniverse]
"""By name of the column that has the universe."""


def marks_of(support: Support, universes: Universes) -> Marks:
    """Mark the codes of a column in every universe that it decides or has."""
    name = support.column.name
    marks: Marks = {}
    for universe in universes.values():
        if universe.declared.column == name:
            marks[universe.declared.condition] = _sides(support, universe)
    own = universes.get(name)
    if own is None:
        return marks
    outside, unknown = _says_outside(support, own), _may_say_outside(support, own)
    not_inside = -1 if own.declared.complete else 0
    mark = np.where(unknown, 0, np.where(outside, not_inside, 1)).astype(np.int8)
    marks[own.declared.condition] = mark
    above = universes.get(own.declared.column)
    while above is not None and above.declared.outside is None:
        # Whoever is inside has a value in the deciding column, so is inside that one's universe too.
        marks[above.declared.condition] = np.maximum(mark, 0)
        above = universes.get(above.declared.column)
    return marks


def possible(codes: Codes, marks: tuple[Marks, ...]) -> BoolArray:
    """Whether no universe rules a combination out."""
    out = np.ones(len(codes), dtype=bool)
    for condition in {c for of_column in marks for c in of_column}:
        lowest = np.ones(len(codes), dtype=np.int8)
        highest = -lowest
        for j, of_column in enumerate(marks):
            if condition in of_column:
                mark = of_column[condition][codes[:, j]]
                lowest, highest = np.minimum(lowest, mark), np.maximum(highest, mark)
        out &= (lowest >= 0) | (highest <= 0)
    return out


def classes_of(n_values: int, marks: Marks) -> tuple[Int64Array, Int64Array]:
    """Number values of a column that all universes mark alike; and the first value of each number."""
    if not marks:
        return np.zeros(n_values, dtype=np.int64), np.zeros(1, dtype=np.int64)
    together = np.column_stack([marks[condition] for condition in marks])
    _, first, of = np.unique(together, axis=0, return_index=True, return_inverse=True)
    return of.ravel().astype(np.int64), first.astype(np.int64)


def allowed_pairs(firsts: list[Int64Array], marks: tuple[Marks, ...]) -> BoolArray:
    """Which classes of two columns may meet in a row, shape (n_classes, n_classes)."""
    shape = (len(firsts[0]), len(firsts[1]))
    if not marks:
        return np.ones(shape, dtype=bool)
    pairs = np.stack(np.meshgrid(*firsts, indexing="ij"), axis=-1).reshape(-1, 2)
    return possible(pairs.astype(np.int32), marks).reshape(shape)


def with_rows_outside(
    support: Support, universe: CodedUniverse, decider: Support, variance: float
) -> Support:
    """Give a column as many nulls as there are rows outside its universe; at least, where it may be null inside.

    The other codes share the difference, each by its noise variance.

    Returns: With the same total.
    """
    sides = _sides(decider, universe)
    if (sides == 0).any() or _may_say_outside(support, universe).any():
        return support  # unreleased values hide who is outside
    support = _with_code_for_outside(support, universe)
    says = _says_outside(support, universe)
    wanted, have = int(decider.n[sides < 0].sum()), int(support.n[says].sum())
    if not universe.declared.complete:
        wanted = max(wanted, have)
    total = int(support.n.sum())
    parts = _widest_cover(int(np.count_nonzero(sides < 0)))
    doubt = parts * decider.noise_sd**2 + support.noise_sd**2
    if not says.any() or abs(wanted - have) > TOLERATED * total + SURE * doubt**0.5:
        raise SpecError(
            [
                f"columns.{support.column.name}.universe: the released counts contradict it: about {have:,} rows "
                f"say that they are outside, but about {wanted:,} should"
            ]
        )
    n = support.n.copy()
    n[says] = wanted
    n[~says] = _shared(support.n[~says].astype(np.float64), total - wanted, variance)
    # The rows outside are a sum over the deciding column: its codes' errors add up.
    squares = support.noise_sd**2 * (len(n) - 1) + parts * decider.noise_sd**2
    return with_counts(support, n, max(support.noise_sd, (squares / len(n)) ** 0.5))


def _with_code_for_outside(support: Support, universe: CodedUniverse) -> Support:
    """A column without nulls gets a code for them: there may be rows outside all the same."""
    if universe.declared.outside is not None or (support.kind == KIND_NULL).any():
        return support
    return replace(
        support,
        kind=np.concatenate([np.array([KIND_NULL], dtype=np.uint8), support.kind]),
        grid=np.concatenate([[0], support.grid]),
        n=np.concatenate([[0], support.n]),
        measured=np.concatenate([[False], support.measured]),
    )


def _widest_cover(codes: int) -> int:
    """Most ranges of a tree that it takes to cover so many neighbouring codes."""
    return min(max(2 * codes.bit_length() - 2, 1), codes)


def _shared(n: FloatArray, total: int, variance: float) -> NDArray[np.int64]:
    """Bring counts to a total; each gives way by its variance, none by more than it has."""
    weight = np.minimum(n, variance)
    sums = float(np.cumsum(weight)[-1])
    moved = np.maximum(n + weight * ((total - float(np.cumsum(n)[-1])) / max(sums, 1e-9)), n / 4)
    return largest_remainder(
        np.zeros(len(n), dtype=np.int64), moved, np.array([total], dtype=np.int64)
    )


def _sides(support: Support, universe: CodedUniverse) -> NDArray[np.int8]:
    """Codes of the deciding column: 1 inside, -1 outside, 0 where unreleased values may be either."""
    inside = _is_value(support)
    if universe.low is not None:
        inside &= support.grid >= universe.low
    if universe.high is not None:
        inside &= support.grid <= universe.high
    values = universe.declared.values
    if values is not None:
        inside &= _is_one_of(support, values)
    out = np.where(inside, 1, -1).astype(np.int8)
    folded = support.kind == KIND_OTHER
    if values is None:
        out[folded] = 1  # any value will do, an unreleased one too
    elif not set(values) <= set(support.values or ()):
        out[folded] = 0
    return out


def _may_say_outside(support: Support, universe: CodedUniverse) -> BoolArray:
    """The placeholder of a column whose value for outside was not released."""
    outside = universe.declared.outside
    hidden = outside is not None and outside not in (support.values or ())
    folded: BoolArray = (support.kind == KIND_OTHER) & hidden
    return folded


def _says_outside(support: Support, universe: CodedUniverse) -> BoolArray:
    """Codes of a column that say that a row is outside its universe."""
    outside = universe.declared.outside
    if outside is not None:
        return _is_value(support) & _is_one_of(support, (outside,))
    null: BoolArray = support.kind == KIND_NULL
    return null


def _is_value(support: Support) -> BoolArray:
    """Codes that are neither null nor the placeholder."""
    valued: BoolArray = (support.kind != KIND_NULL) & (support.kind != KIND_OTHER)
    return valued


def _is_one_of(support: Support, values: tuple[Any, ...]) -> BoolArray:
    """Codes of a column with a list of values that are some of these."""
    ranks = [rank for rank, value in enumerate(support.values or ()) if value in values]
    matches: BoolArray = np.isin(support.grid, ranks)
    return matches
