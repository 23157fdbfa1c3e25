"""Sums of cells, laid out for the kernels: what each is off its target, by margins one behind another.

Takes a partition of the cells for each margin, and a target for each part. The penalty of what sums are off is convex:
what cannot be met is spread out by ones. A measured count that is off by one costs twice what a filled one does. What a
released bucket holds is to stay near its fitted rows: it costs the square of what it is off.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from engine.fit.candidates import MarginBounds
from engine.fit.whole.kernels import BOXES, LOOSE, MEASURED, PARTS_OF_UNIT, Sums, by_part
from engine.schema import FloatArray, Int64Array


@dataclass(frozen=True, kw_only=True, slots=True)
class Margin:
    """A partition of the cells, and what is asked of each part."""

    of: Int64Array  # shape (n_cells,): Part of each cell
    # target, kind, fitted: shape (n_parts,): Whole units, the kind of target, of boxes their parts of a unit.
    target: Int64Array
    kind: Int64Array
    fitted: Int64Array


def laid_out(margins: Sequence[Margin], n: Int64Array) -> Sums:
    """Sums of all margins."""
    of = np.stack([margin.of for margin in margins])
    base = np.cumsum([0, *(len(margin.target) for margin in margins)])
    order, first = by_part(of, base)
    off = [
        np.bincount(margin.of, weights=n, minlength=len(margin.target)).astype(np.int64)
        - margin.target
        for margin in margins
    ]
    return Sums(
        of=of,
        base=base,
        order=order,
        first=first,
        off=np.concatenate(off),
        kind=np.concatenate([margin.kind for margin in margins]),
        fitted=np.concatenate([margin.fitted for margin in margins]),
    )


def counted(of: Int64Array, target: Int64Array, kind: Int64Array) -> Margin:
    """A margin of counts."""
    return Margin(of=of, target=target, kind=kind, fitted=np.zeros_like(target))


def asked_for(margin: MarginBounds, order: Int64Array) -> Margin:
    """What a narrower table asks for, its cells in another order: counts between two bounds were filled in."""
    kind = np.where(margin.high > margin.low, LOOSE, MEASURED)
    return counted(margin.of[order], (margin.low + margin.high) // 2, kind)


def boxes_of(box: Int64Array, x: FloatArray) -> Margin:
    """Fitted rows of each deepest released bucket."""
    fitted = np.bincount(box, weights=x).astype(np.float64)
    none = np.zeros(len(fitted), dtype=np.int64)
    eighths = np.floor(fitted * PARTS_OF_UNIT + 0.5).astype(np.int64)
    return Margin(of=box, target=none, kind=np.full_like(none, BOXES), fitted=eighths)


def tells(of: Int64Array, code: Int64Array) -> bool:
    """Whether all cells of a part have one code."""
    some = np.zeros(int(of.max(initial=0)) + 1, dtype=np.int64)
    some[of] = code
    return bool((some[of] == code).all())
