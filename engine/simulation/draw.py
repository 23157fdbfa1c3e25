"""Vectorised draws for the simulated census: curves over age, tables, permutations.

Takes small hand-written tables and a seeded generator; gives arrays of codes. Nothing here loops over rows.

Invariant: a category of probability 0 is never drawn, on which the impossible pairs of the census depend. Uniform
numbers have 32 bits, so that `row + u` is exact in a float and never reaches the next row.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import reduce

import numpy as np
from numpy.typing import ArrayLike, NDArray

from engine.schema import BoolArray, FloatArray, Int64Array, UInt64Array

MAX_AGE = 105
N_AGES = MAX_AGE + 1
_ROUNDS = 4


@dataclass(frozen=True, kw_only=True, slots=True)
class DrawTable:
    """A conditional distribution prepared for draws."""

    # shape (n_rows * n_outcomes,): Row number plus cumulative probability: ascending over the whole table.
    ladder: FloatArray
    n_outcomes: int

    def draw(self, rng: np.random.Generator, given: NDArray[np.integer]) -> Int64Array:
        """Draw one outcome for each row number in `given`; int64, same shape."""
        rows = given.astype(np.int64)
        position = np.searchsorted(self.ladder, rows + uniform(rng, len(rows)), side="right")
        return (position - rows * self.n_outcomes).astype(np.int64)


def draw_table(weights: ArrayLike) -> DrawTable:
    """Prepare weights of any shape for draws: the last axis is the outcome, the others the row.

    Rows are numbered in C order over the leading axes (see `row_number`). Each row needs a positive weight.
    """
    table = np.asarray(weights, dtype=np.float64)
    table = table.reshape(-1, table.shape[-1])
    cumulative = np.cumsum(table, axis=1)
    cumulative /= cumulative[:, -1:]
    ladder = (np.arange(len(table))[:, None] + cumulative).ravel()
    return DrawTable(ladder=ladder, n_outcomes=table.shape[1])


def row_number(*parts: tuple[NDArray[np.integer], int]) -> Int64Array:
    """Row numbers of a table with several leading axes, from (codes, axis length) pairs."""
    return reduce(
        lambda rows, part: rows * part[1] + part[0],
        parts,
        np.zeros(len(parts[0][0]), dtype=np.int64),
    )


def uniform(rng: np.random.Generator, n: int) -> FloatArray:
    """Uniform numbers in [0, 1) with 32 bits; float64, shape (n,)."""
    return rng.integers(0, 2**32, size=n, dtype=np.uint32).astype(np.float64) * 2.0**-32


def chance(rng: np.random.Generator, probability: float | FloatArray, n: int) -> BoolArray:
    """True with the given probability (one, or one for each of n places)."""
    return uniform(rng, n) < probability


def curve(knots: Mapping[int, float]) -> FloatArray:
    """Weights by single year of age, straight between knots, flat outside; shape (N_AGES,)."""
    weights = np.interp(np.arange(N_AGES), list(knots), list(knots.values()))
    return weights.astype(np.float64)


def window(knots: Mapping[int, float]) -> FloatArray:
    """Like `curve`, but 0 below the first and above the last knot."""
    ages = np.arange(N_AGES)
    return np.where((ages >= min(knots)) & (ages <= max(knots)), curve(knots), 0.0)


def permuted(places: Int64Array, *, size: int, seed: int, purpose: int) -> Int64Array:
    """Permute 0 .. size - 1 without storing it: a Feistel network with cycle walking.

    This keeps identifiers from showing the order of generation; it is not cryptography.
    """
    sequence = np.random.SeedSequence(seed, spawn_key=(2**31, purpose))
    keys = sequence.generate_state(_ROUNDS, np.uint64).astype(np.uint64)
    half = np.uint64(max(1, ((size - 1).bit_length() + 1) // 2))
    out = _feistel(places.astype(np.uint64), half, keys)
    outside = np.flatnonzero(out >= size)
    while len(outside):
        out[outside] = _feistel(out[outside], half, keys)
        outside = outside[out[outside] >= size]
    return out.astype(np.int64)


def _feistel(x: UInt64Array, half: np.uint64, keys: UInt64Array) -> UInt64Array:
    mask = (np.uint64(1) << half) - np.uint64(1)
    left, right = x >> half, x & mask
    for key in keys:
        mixed = (right + key) * np.uint64(0x9E3779B97F4A7C15)
        mixed = (mixed ^ (mixed >> np.uint64(29))) * np.uint64(0xBF58476D1CE4E5B9)
        left, right = right, left ^ ((mixed ^ (mixed >> np.uint64(32))) & mask)
    return (left << half) | right
