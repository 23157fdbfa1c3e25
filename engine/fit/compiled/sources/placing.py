"""The way down a tree for every candidate, compiled: `engine.fit.placement` says what; whole numbers only."""

from __future__ import annotations

import numpy as np
from numba import int32, int64, njit, uint8

__all__ = ["deepest"]

_INTS, _INTS_2D, _CODES = int64[::1], int64[:, ::1], int32[:, :]


@njit
def _children(parent, index, is_valued, begin, tops):
    """The child of each node by the half of every column that it takes, -1 where none was released."""
    n_columns = index.shape[1]
    child = np.full(len(parent) << n_columns, -1, dtype=np.int32)
    for depth in range(1, len(begin) - 1):
        for node in range(begin[depth], begin[depth + 1]):
            half = 0
            for j in range(n_columns):
                if tops[j] >= depth and is_valued[node, j]:
                    half |= (index[node, j] & 1) << j
            child[(parent[node] << n_columns) | half] = node
    return child


@njit(_INTS(_INTS, _INTS, _INTS_2D, uint8[:, ::1], _INTS, _INTS, _CODES, _INTS, _INTS))
def deepest(top, parent, index, is_valued, begin, tops, codes, magnitudes, first):
    """Deepest released node that holds each candidate, from the top node that does; plus 1, 0 where none does.

    begin: Where the nodes of each depth begin, and where the last ends.
    magnitudes, first: Of all columns' codes one behind the other, and where each column begins.
    """
    n_columns = index.shape[1]
    child = _children(parent, index, is_valued, begin, tops)
    out = np.empty(len(top), dtype=np.int64)
    for i in range(len(top)):
        below, depth = top[i], 1
        node = below
        while below >= 0:
            node = below
            half = 0
            for j in range(n_columns):
                if tops[j] >= depth:
                    half |= ((magnitudes[first[j] + codes[i, j]] >> (tops[j] - depth)) & 1) << j
            below = np.int64(child[(node << n_columns) | half])
            depth += 1
        out[i] = node + 1
    return out
