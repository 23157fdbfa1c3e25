"""From expected counts to whole numbers of rows.

Takes an array of expectations of any shape, the number of rows and a generator; gives counts that add up to the
number of rows. An expectation of 0 never gets a row, so structural zeros hold. No loop over cells.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from engine.cell_keys import cell_keys
from engine.errors import InternalError
from engine.params import Sample
from engine.schema import FloatArray, Int64Array

WHOLE = 1e-9
"""An expectation so near below a whole number is that number: sums of floats are not exact."""


def sampled(
    expected: NDArray[np.floating], n: int, method: Sample, rng: np.random.Generator
) -> Int64Array:
    """Draw counts whose expectations are given.

    method: "multinomial": independent rows. "rounded": each count is its scaled expectation rounded up or
        down, unbiased, and so is, within 1, the sum of every run of cells that are neighbours in C order:
        systematic sampling, Madow 1949, doi:10.1214/aoms/1177729988.
    """
    flat = np.ravel(expected)
    mass = float(flat.sum(dtype=np.float64)) if flat.size else 0.0
    if n < 0 or not np.isfinite(mass) or (flat.size and flat.min() < 0):
        raise InternalError("expected counts must be numbers, none below 0")
    out = np.zeros(flat.shape, dtype=np.int64)
    if n:
        if mass <= 0:
            raise InternalError("no cell may hold the rows to be drawn")
        at = np.flatnonzero(flat)  # the others get nothing, whatever rounding does
        positive = flat[at].astype(np.float64)
        if method == "multinomial":
            out[at] = rng.multinomial(n, positive / mass)
        else:
            out[at] = _systematic(positive, n, mass, rng)
    return out.reshape(np.shape(expected))


def _systematic(positive: FloatArray, n: int, mass: float, rng: np.random.Generator) -> Int64Array:
    """Whole parts, then as many single rows as are left over, at even distances along the running sum of the rest."""
    scaled = positive / mass * n  # in this order, for the smallest floats
    whole = np.floor(scaled + WHOLE)
    reached = np.cumsum(np.maximum(scaled - whole, 0.0))
    count = whole.astype(np.int64)
    left = n - int(count.sum())
    if left <= 0 or reached[-1] <= 0:
        # Only where WHOLE or the last bits of large floats made up a row: the largest count bears it.
        count[np.argmax(count)] += left
        return count
    reached *= left / reached[-1]
    reached[np.searchsorted(reached, reached[-1]) :] = left
    marks: Int64Array = np.floor(reached + rng.random()).astype(np.int64)
    count[0] += marks[0]
    count[1:] += np.diff(marks)
    return count


Codes = NDArray[np.int32]
DENSE_KEYS = 1 << 22
"""Combinations up to which rows are counted by position; more are sorted."""


def distinct(
    parts: Sequence[Codes], sizes: Sequence[int], n: Int64Array
) -> tuple[Codes, Int64Array]:
    """Distinct combinations in lexicographic order, with the sums of their counts.

    parts: One a column, at least one.

    Returns: codes; n.
    """
    key, n_keys = cell_keys(parts, sizes, n=len(n))
    if not len(n):
        return np.zeros((0, len(parts)), dtype=np.int32), n[:0]
    if n_keys <= DENSE_KEYS:
        # Sums of float64 are exact up to 2**53 rows.
        sums = np.bincount(key, weights=n, minlength=n_keys)
        nonzero = np.flatnonzero(sums)
        codes = np.stack(np.unravel_index(nonzero, [max(size, 1) for size in sizes]), axis=1)
        return codes.astype(np.int32), sums[nonzero].astype(np.int64)
    order = np.argsort(key, kind="stable")
    ranked = key[order]
    starts = np.flatnonzero(np.concatenate([[True], ranked[1:] != ranked[:-1]]))
    at = order[starts]
    return np.stack([part[at] for part in parts], axis=1), np.add.reduceat(n[order], starts)
