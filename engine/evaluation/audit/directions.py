"""Directions: what an audit looks along, in the space of what a generator must not know.

Where that space is small it is taken whole, by its projection; where it is large, a random part of it: combinations
of values of the narrowest column sets that no margin holds, made orthonormal (Houssiau et al., section 4.4).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import prod

import numpy as np

from engine.evaluation.audit.domain import Cells
from engine.evaluation.audit.safe import Axes, SafeStatistics, component, margin_of
from engine.schema import FloatArray, Int64Array

EXPLICIT = 5_000
"""Largest dimension that is taken whole."""
SAMPLED = 1_000
"""Statistics that stand for a larger one."""
_LEAST = 1e-10


@dataclass(frozen=True, kw_only=True, slots=True)
class Direction:
    """A linear function of data: a sum of tables over column sets, looked up row by row."""

    parts: tuple[tuple[Axes, FloatArray], ...]  # Each with one axis a column of its column set

    def of(self, codes: Int64Array) -> FloatArray:
        """Its value for each combination, shape (n,)."""
        out = np.zeros(len(codes))
        for axes, weights in self.parts:
            out += weights[tuple(codes[:, axis] for axis in axes)]
        return out

    def mean(self, cells: Cells) -> float:
        """Its mean over the rows of data."""
        return float(self.of(cells.codes) @ cells.n / cells.n.sum())


@dataclass(frozen=True, kw_only=True, slots=True)
class Subspace:
    """The directions of an audit."""

    safe: SafeStatistics
    # Combinations of values that stand for a large space, as places in the raveled table of their columns.
    # None: the space is taken whole.
    picked: Mapping[Axes, Int64Array] | None

    @property
    def dimension(self) -> int:
        """Of the directions that are looked along."""
        if self.picked is None:
            return self.safe.dimension()
        return sum(len(cells) for cells in self.picked.values())

    def random(self, rng: np.random.Generator) -> Direction:
        """A direction drawn from a normal distribution."""
        sizes = self.safe.domain.sizes
        if self.picked is None:
            return self._whole(rng.standard_normal(sizes))
        parts = []
        for axes, cells in self.picked.items():
            shape = tuple(sizes[axis] for axis in axes)
            drawn = rng.standard_normal(len(cells))
            parts.append((axes, self._spread(shape, cells, drawn, power=0.5)))
        return Direction(parts=tuple(parts))

    def critical(self, plus: Sequence[Cells], minus: Sequence[Cells]) -> Direction | None:
        """The direction in which two lots of synthetic data differ most on average; None: they do not differ.

        The mean difference of all statistics, projected: its coefficients in an orthonormal basis are the slopes of the
        paper's equation 5 but for one factor.
        """
        sizes = self.safe.domain.sizes
        if self.picked is None:
            every = tuple(range(len(sizes)))
            return _nonzero(self._whole(_difference(plus, minus, every, sizes)))
        parts = []
        for axes, cells in self.picked.items():
            shape = tuple(sizes[axis] for axis in axes)
            seen = component(_difference(plus, minus, axes, sizes), tuple(range(len(axes))))
            parts.append((axes, self._spread(shape, cells, seen.ravel()[cells], power=1.0)))
        return _nonzero(Direction(parts=tuple(parts)))

    def _whole(self, table: FloatArray) -> Direction:
        weights = self.safe.unsafe_part(table)
        return Direction(parts=((tuple(range(weights.ndim)), weights),))

    def _spread(
        self,
        shape: tuple[int, ...],
        cells: Int64Array,
        values: FloatArray,
        *,
        power: float,
    ) -> FloatArray:
        """The table of weights of a column set: `Gram**-power @ values` on its picked combinations, then centred.

        The statistics of one combination, less all that margins determine, have inner products that are products over
        columns of (same value or not) - 1/size; they are constant along all other columns.
        """
        codes = np.unravel_index(cells, shape)
        gram = np.ones((len(cells), len(cells)))
        for code, size in zip(codes, shape, strict=True):
            gram *= (code[:, None] == code[None, :]) - 1.0 / size
        lift = self.safe.domain.n_cells / prod(shape)
        roots, basis = np.linalg.eigh(gram * lift)
        held = roots > _LEAST * max(float(roots.max()), _LEAST)
        inverse = np.where(held, np.where(held, roots, 1.0) ** -power, 0.0)
        weights = np.zeros(prod(shape))
        weights[cells] = basis @ (inverse * (basis.T @ values))
        return component(weights.reshape(shape), tuple(range(len(shape))))


def _difference(
    plus: Sequence[Cells], minus: Sequence[Cells], axes: Axes, sizes: Sequence[int]
) -> FloatArray:
    """Mean of the shares of one lot less that of another, over some columns."""
    means = [
        np.mean([margin_of(cells, axes, sizes) / cells.n.sum() for cells in lot], axis=0)
        for lot in (plus, minus)
    ]
    return np.asarray(means[0] - means[1])


def _nonzero(direction: Direction) -> Direction | None:
    """A direction of length 1; None where there is nothing but rounding in it."""
    length = float(np.sqrt(sum(float((w**2).sum()) for _, w in direction.parts)))
    if length < _LEAST:
        return None
    return Direction(parts=tuple((axes, w / length) for axes, w in direction.parts))


def subspace_of(safe: SafeStatistics, rng: np.random.Generator) -> Subspace:
    """The whole space where it is small; else statistics drawn evenly from those of the narrowest column sets."""
    if safe.dimension() <= EXPLICIT:
        return Subspace(safe=safe, picked=None)
    sizes = safe.domain.sizes
    counts = [prod(sizes[axis] for axis in axes) for axes in safe.narrowest]
    first = np.concatenate([[0], np.cumsum(counts)])
    drawn = np.sort(rng.choice(first[-1], size=min(SAMPLED, int(first[-1])), replace=False))
    picked = {
        axes: drawn[(drawn >= low) & (drawn < high)] - low
        for axes, low, high in zip(safe.narrowest, first[:-1], first[1:], strict=True)
    }
    return Subspace(safe=safe, picked={axes: cells for axes, cells in picked.items() if len(cells)})
