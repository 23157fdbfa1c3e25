"""Figures of one table of a pack: blocks of tabulations put together on the codes of its dimensions.

Takes a release and which codes a table shows; gives places, values, intervals and statuses. Every figure is one of
`queries.uncertainty.tabulate`; of tables with too many combinations to list them all, only what was measured is
listed, with the same intervals. A block is one call: some dimensions over all their values, others held at a group or
at the total. Invariants: a combination that nothing is released of has status "not released" and no value, whatever the
reason; its interval says how much it may hide at most, where that is known.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from engine.schema import ColumnSet, FloatArray, Int64Array, column_set
from queries.estimates import Measure, Tabulation
from queries.figures import counts, statuses
from queries.noise_model import noise_model
from queries.packs.model import NOT_RELEASED, STATUSES, Dimension
from queries.regions import Region
from queries.session import Release
from queries.uncertainty import tabulate
from queries.universes import ruled_out

_OF_BOTH = (
    "Percentages of groups, and of sums, are figures over their total; the interval holds every percentage that the "
    "intervals of both allow."
)
_ONLY_MEASURED = (
    "There are too many combinations to list all: only those that were measured are listed, and nothing is told of the "
    "others."
)
ALL = -1
"""A dimension of a block over all its values; otherwise the place of its group, or 0: the total."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Figures:
    """Rows of a table; see `queries.packs.model.PackTable` for the arrays."""

    index: npt.NDArray[np.int32]
    value: FloatArray
    low: FloatArray
    high: FloatArray
    status: npt.NDArray[np.uint8]
    answered: ColumnSet
    words: str


@dataclass(frozen=True, kw_only=True, slots=True)
class Question:
    """What a table asks: everything of a tabulation but its columns.

    Attributes
    ----------
    measure : str
    of : str or None
    quantile : float
    where : dict
        Columns and the values they are held at, for the whole table.
    over : tuple of int
        Dimensions whose totals percentages are taken of; empty: no percentages.
    has_negative : bool
        What is summed can be less than nothing: a part may exceed its total.
    """

    measure: Measure = "count"
    of: str | None = None
    quantile: float = 0.5
    where: Mapping[str, Sequence[Any]] = field(default_factory=dict)
    over: tuple[int, ...] = ()
    has_negative: bool = False


@dataclass(frozen=True, kw_only=True, slots=True)
class _Block:
    """Figures of one block, an axis a dimension; one that is held has length 1."""

    value: FloatArray
    low: FloatArray
    high: FloatArray
    status: npt.NDArray[np.uint8]
    answered: ColumnSet
    words: str


def whole_figures(
    release: Release,
    dimensions: Sequence[Dimension],
    shown: Sequence[Sequence[int]],
    question: Question,
) -> Figures:
    """Return the figures of all combinations of the codes shown, in order.

    Parameters
    ----------
    release : Release
    dimensions : sequence of Dimension
    shown : sequence of sequence of int
        Per dimension, ALL for its values, and places of groups and the total.
    question : Question
    """
    cache: dict[tuple[int, ...], _Block] = {}

    def block(held: tuple[int, ...]) -> _Block:
        if held not in cache:
            cache[held] = _block(release, dimensions, held, question)
        return cache[held]

    def share(held: tuple[int, ...]) -> _Block:
        whole = tuple(0 if j in question.over else h for j, h in enumerate(held))
        if whole != held and question.of is None and max(held) <= 0:
            return _shares(release, dimensions, held, question)
        total = block(whole)
        is_part = not question.has_negative
        return _percent(block(held), total, is_all=whole == held, is_part=is_part)

    figure = share if question.over else block
    parts = [(_places(dimensions, held), figure(held)) for held in itertools.product(*shown)]
    is_divided = question.of is not None or any(max(s) > 0 for s in shown)
    index = np.concatenate([places for places, _ in parts])
    order = np.lexsort(index.T[::-1])
    widest = max((b for _, b in parts), key=lambda b: (len(b.answered), b.answered))

    def joined(name: Literal["value", "low", "high", "status"]) -> npt.NDArray[Any]:
        whole: npt.NDArray[Any] = np.concatenate([getattr(b, name).ravel() for _, b in parts])
        return whole[order]

    return Figures(
        index=index[order],
        value=joined("value"),
        low=joined("low"),
        high=joined("high"),
        status=joined("status"),
        answered=widest.answered,
        words=f"{widest.words} {_OF_BOTH}" if question.over and is_divided else widest.words,
    )


def _places(dimensions: Sequence[Dimension], held: Sequence[int]) -> npt.NDArray[np.int32]:
    """Places of all rows of a block, one column a dimension."""
    axes = [
        np.array(d.places("value", "blank") if h == ALL else [h], dtype=np.int32)
        for d, h in zip(dimensions, held, strict=True)
    ]
    grids = np.meshgrid(*axes, indexing="ij")
    return np.stack([g.ravel() for g in grids], axis=1)


def _block(
    release: Release,
    dimensions: Sequence[Dimension],
    held: Sequence[int],
    question: Question,
) -> _Block:
    """Ask for one block and lay it out."""
    free = [d for d, h in zip(dimensions, held, strict=True) if h == ALL]
    where: dict[str, Any] = dict(question.where)
    for d, h in zip(dimensions, held, strict=True):
        if h > 0:
            group = d.items[h]
            where[d.name] = group.limits or [d.items[m].value for m in group.members]
    found = tabulate(
        release,
        [d.name for d in free],
        where=where,
        measure=question.measure,
        of=question.of,
        quantile=question.quantile,
    )
    return _laid_out(found, free, [h == ALL for h in held])


def _shares(
    release: Release,
    dimensions: Sequence[Dimension],
    held: Sequence[int],
    question: Question,
) -> _Block:
    """Ask for the percentages of one block without groups: everywhere the same question has the same interval."""
    free = [j for j, h in enumerate(held) if h == ALL]
    found = tabulate(
        release,
        [dimensions[j].name for j in free],
        where=question.where,
        measure="share",
        over=[dimensions[j].name for j in free if j not in question.over],
    )
    out = _laid_out(found, [dimensions[j] for j in free], [h == ALL for h in held])
    return replace(out, value=100 * out.value, low=100 * out.low, high=100 * out.high)


def _laid_out(found: Tabulation, free: Sequence[Dimension], is_free: Sequence[bool]) -> _Block:
    """A tabulation on the grid of its dimensions; what it does not list is not released."""
    listed = [d.places("value", "blank") for d in free]
    axes = [{p: i for i, p in enumerate(places)} for places in listed]
    sizes = [len(places) for places in listed]
    flat = np.zeros(len(found), dtype=np.int64)
    for j, (d, axis) in enumerate(zip(free, axes, strict=True)):
        of_value = {v: axis[p] for v, p in d.place_of_value.items()}
        flat = flat * sizes[j] + np.fromiter(
            (of_value[key[j]] for key in found.keys), dtype=np.int64, count=len(found)
        )
    n = int(np.prod(sizes, dtype=np.int64))
    number = {status: i for i, status in enumerate(STATUSES)}
    status = np.full(n, NOT_RELEASED, dtype=np.uint8)
    status[flat] = [number[s] for s in found.status]
    shape = tuple(sizes[sum(is_free[:j])] if free_ else 1 for j, free_ in enumerate(is_free))

    def laid(figures: FloatArray) -> FloatArray:
        out = np.full(n, np.nan)
        out[flat] = figures
        return out.reshape(shape)

    return _Block(
        value=laid(found.value),
        low=laid(found.low),
        high=laid(found.high),
        status=status.reshape(shape),
        answered=found.table,
        words=found.words,
    )


def _ratios(part: _Block, whole: _Block) -> tuple[FloatArray, FloatArray]:
    """Ends of the ratios, in percent, of figures inside both intervals; none where the total may be nothing."""
    ends = [100 * a / b for a in (part.low, part.high) for b in (whole.low, whole.high)]
    is_sure = whole.low > 0
    low, high = np.minimum.reduce(ends), np.maximum.reduce(ends)
    return np.where(is_sure, low, np.nan), np.where(is_sure, high, np.nan)


def _percent(part: _Block, whole: _Block, *, is_all: bool, is_part: bool) -> _Block:
    """Shares in percent; the interval holds every ratio of figures inside both intervals.

    A part of a total that is no sum of like parts (some are negative) may exceed it, and has no interval where the
    total's reaches nothing.
    """
    with np.errstate(divide="ignore", invalid="ignore"):
        value = 100 * part.value / whole.value
        least = np.maximum(part.low, 0)
        low = 100 * least / np.maximum(whole.high, least)
        high = np.minimum(100 * part.high / np.maximum(whole.low, 0), 100)
        high = np.where(part.high <= 0, 0, high)
        if not is_part:
            low, high = _ratios(part, whole)
    is_known = (
        (part.status != NOT_RELEASED)
        & (np.broadcast_to(whole.status, part.status.shape) != NOT_RELEASED)
        & (whole.value > 0)
    )
    is_ruled = part.status == STATUSES.index("structural zero")
    if is_all:  # a total of itself: 100, without noise
        low, high = value, value
    value = np.where(is_known, value, np.nan)
    bounded = np.broadcast_to((whole.status != NOT_RELEASED) & (whole.value > 0), value.shape)
    return _Block(
        value=value,
        low=np.where(bounded, np.where(is_known, np.minimum(low, value), low), np.nan),
        high=np.where(bounded, np.where(is_known, np.maximum(high, value), high), np.nan),
        status=np.where(is_known | is_ruled, part.status, NOT_RELEASED).astype(np.uint8),
        answered=part.answered,
        words=part.words,
    )


@dataclass(frozen=True, kw_only=True, slots=True)
class _Measured(Region):
    """The combinations of a table that were measured, one group each."""

    letters: Int64Array

    def places(self) -> Int64Array:
        """The letters of each group: of those listed, not of all that can be."""
        return self.letters


def listed_figures(release: Release, dimensions: Sequence[Dimension]) -> Figures:
    """Return what was measured of a table with too many combinations to list them all.

    Value, interval and status of each are those that `queries.uncertainty.tabulate` gives for it.

    Parameters
    ----------
    release : Release
    dimensions : sequence of Dimension
        Of exactly the columns of a released table.
    """
    columns = column_set(tuple(d.name for d in dimensions))
    model = noise_model(release, columns)
    table = model.table
    letters = table.rows[table.row_measured]
    group = np.full(len(table.rows), -1, dtype=np.int64)
    group[table.row_measured] = np.arange(len(letters))
    region = _Measured(
        by=tuple(range(len(columns))),
        allowed=tuple(np.ones(len(column.values), dtype=bool) for column in table.letters),
        choices=(),
        group=group,
        n_groups=len(letters),
        letters=letters,
    )
    found = counts(release, model, region)
    number = {status: i for i, status in enumerate(STATUSES)}
    status = statuses(found, ruled_out(release, table, region))
    index = np.empty(letters.shape, dtype=np.int32)
    for j, d in enumerate(dimensions):
        at = columns.index(d.name)
        place = [d.place_of_value[v] for v in table.letters[at].values]
        index[:, j] = np.array(place, dtype=np.int32)[letters[:, at]]
    order = np.lexsort(index.T[::-1])
    return Figures(
        index=index[order],
        value=found.value[order],
        low=found.low[order],
        high=found.high[order],
        status=np.array([number[s] for s in status], dtype=np.uint8)[order],
        answered=columns,
        words=f"{model.words} {_ONLY_MEASURED}",
    )
