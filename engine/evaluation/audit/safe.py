"""Safe statistics: the margins that a card says a generator may use, and what is left beside them.

Tables over a domain are a sum of components, one a set of columns (the analysis of variance). Margins span those of
all column sets inside them; all other components are what a generator must not know. So both spaces, and projections
to them, are explicit however large the domain is.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import chain, combinations
from math import prod
from typing import Any

import numpy as np
from numpy.typing import NDArray

from engine.errors import SpecError
from engine.evaluation.audit.domain import Cells, Domain
from engine.schema import ColumnSet, FloatArray, column_set

Axes = tuple[int, ...]
"""Columns, by their places in the domain."""


@dataclass(frozen=True, kw_only=True)
class SafeStatistics:
    """Margins of a domain."""

    domain: Domain
    margins: tuple[ColumnSet, ...]  # None inside another

    @cached_property
    def axes(self) -> tuple[Axes, ...]:
        """The margins by places of their columns."""
        place = {name: at for at, name in enumerate(self.domain.names)}
        return tuple(tuple(place[name] for name in margin) for margin in self.margins)

    @cached_property
    def covered(self) -> tuple[Axes, ...]:
        """Column sets inside a margin, the empty one among them, the widest first."""
        inside = {subset for axes in self.axes for subset in subsets(axes)} | {()}
        return tuple(sorted(inside, key=lambda axes: (-len(axes), axes)))

    @cached_property
    def uncovered(self) -> tuple[Axes, ...]:
        """Column sets that no margin holds, the narrowest first."""
        held = set(self.covered)
        every = subsets(tuple(range(len(self.domain.sizes))))
        return tuple(axes for axes in every if axes not in held)

    @cached_property
    def narrowest(self) -> tuple[Axes, ...]:
        """Of these those that hold no other one."""
        return tuple(
            axes
            for axes in self.uncovered
            if all(part in self.covered for part in combinations(axes, len(axes) - 1))
        )

    def dimension(self) -> int:
        """Dimension of the space of what a generator must not know."""
        sizes = self.domain.sizes
        return sum(prod(sizes[axis] - 1 for axis in axes) for axes in self.uncovered)

    def counts(self, cells: Cells) -> tuple[NDArray[Any], ...]:
        """The margins of cells, one array a margin."""
        return tuple(margin_of(cells, axes, self.domain.sizes) for axes in self.axes)

    def unsafe_part(self, table: FloatArray) -> FloatArray:
        """Project a dense table, one axis a column, to what a generator must not know."""
        safe = np.zeros(())
        for axes in self.covered:
            safe = safe + component(table, axes)
        return np.asarray(table - safe)


def subsets(axes: Axes) -> list[Axes]:
    """All subsets of some columns but the empty one, the narrowest first."""
    widths = range(1, len(axes) + 1)
    return list(chain.from_iterable(combinations(axes, width) for width in widths))


def component(table: FloatArray, axes: Axes) -> FloatArray:
    """The component of a dense table that belongs to a column set; other axes have length 1."""
    others = tuple(axis for axis in range(table.ndim) if axis not in axes)
    part: FloatArray = np.asarray(table.mean(axis=others, keepdims=True))
    for axis in axes:
        part = part - part.mean(axis=axis, keepdims=True)
    return part


def margin_of(cells: Cells, axes: Axes, sizes: Sequence[int]) -> NDArray[Any]:
    """Sums of cells over all columns but some; whole where the cells are."""
    shape = tuple(sizes[axis] for axis in axes)
    if not axes:
        return np.asarray(cells.n.sum())
    place = np.ravel_multi_index(tuple(cells.codes[:, axis] for axis in axes), shape)
    if np.issubdtype(cells.n.dtype, np.integer):
        out = np.zeros(prod(shape), dtype=np.int64)
        np.add.at(out, place, cells.n)
        return out.reshape(shape)
    return np.bincount(place, weights=cells.n, minlength=prod(shape)).reshape(shape)


def safe_statistics(domain: Domain, margins: Iterable[Sequence[str]]) -> SafeStatistics:
    """Return margins as they are restricted to a domain, those inside others left out."""
    held = set(domain.names)
    cut = {column_set([name for name in margin if name in held]) for margin in map(set, margins)}
    widest = [m for m in cut if m and not any(set(m) < set(other) for other in cut)]
    if not widest:
        raise SpecError("safe: no margin is about the columns that are audited")
    return SafeStatistics(domain=domain, margins=tuple(sorted(widest, key=lambda m: (len(m), m))))
