"""Morton order: one sort of a column set's cells makes every node of every depth a run of neighbours.

All columns halve together, so a node at depth d is a common prefix: first the kinds and whatever lies above the
columns' top levels, then one bit a column and depth. Sorting the cells by these bits once, and noting at which
depth neighbours part, gives all nodes of all depths without any tree object.
"""

from __future__ import annotations

import numpy as np

from engine.ranges import bit_length
from engine.schema import Int64Array, UInt8Array, UInt64Array

WORD_BITS = 64


def morton_order(
    kind: UInt8Array, magnitude: Int64Array, tops: tuple[int, ...]
) -> tuple[Int64Array, Int64Array]:
    """Sort cells so that each node is a run, and tell where neighbours part.

    Parameters
    ----------
    kind : ndarray of uint8, shape (n_cells, n_columns)
    magnitude : ndarray of int64, shape (n_cells, n_columns)
    tops : tuple of int
        Top level of each column, 0 to 63.

    Returns
    -------
    order : ndarray of int64, shape (n_cells,)
        Positions of the cells in Morton order.
    parts : ndarray of int64, shape (n_cells,)
        Smallest depth at which a cell, in that order, lies in another node than the one before it; 0 for the
        first; max(tops) + 1 between equal cells.
    """
    fields = _fields(kind, magnitude, tops)
    words, depths = _packed(fields, len(kind))
    order = np.argsort(words[0]) if len(words) == 1 else np.lexsort(words[::-1])
    parts = np.full(len(kind), max(tops) + 1, dtype=np.int64)
    for word, depth_of_bit in zip(words[::-1], depths[::-1], strict=True):
        placed = word[order]
        differing = placed[1:] ^ placed[:-1]
        where = np.flatnonzero(differing)
        parts[where + 1] = depth_of_bit[bit_length(differing[where])]
    parts[:1] = 0
    return order, parts


def _fields(
    kind: UInt8Array, magnitude: Int64Array, tops: tuple[int, ...]
) -> list[tuple[UInt64Array, list[int]]]:
    """Bit fields from most to least significant, each with the depth of each of its bits, high bit first."""
    fields: list[tuple[UInt64Array, list[int]]] = []
    bits = magnitude.view(np.uint64)
    for column, top in enumerate(tops):
        fields.append((kind[:, column].astype(np.uint64), [0, 0]))
        above = bits[:, column] >> np.uint64(top)
        width = int(above.max(initial=np.uint64(0))).bit_length()
        if width:
            fields.append((above, [0] * width))
    by_top = sorted(tops, reverse=True)
    lone = by_top[1] if len(tops) > 1 else 0
    for depth in range(1, lone + 1):
        for column, top in enumerate(tops):
            if depth <= top:
                bit = (bits[:, column] >> np.uint64(top - depth)) & np.uint64(1)
                fields.append((bit, [depth]))
    widest = tops.index(by_top[0])
    rest = by_top[0] - lone
    if rest:  # only the widest column still halves: its remaining bits are one field
        mask = np.uint64((1 << rest) - 1)
        fields.append((bits[:, widest] & mask, list(range(lone + 1, by_top[0] + 1))))
    return fields


def _packed(
    fields: list[tuple[UInt64Array, list[int]]], n_cells: int
) -> tuple[list[UInt64Array], list[Int64Array]]:
    """Pack fields into 64-bit words, most significant first; and per word the depth of bit length 0..64."""
    words: list[UInt64Array] = []
    depths: list[list[int]] = []
    for values, bit_depths in fields:
        width = len(bit_depths)
        if not words or len(depths[-1]) + width > WORD_BITS:
            words.append(np.zeros(n_cells, dtype=np.uint64))
            depths.append([])
        words[-1] <<= np.uint64(width)
        words[-1] |= values
        depths[-1].extend(bit_depths)
    # depth_of_bit[b]: depth of the bit whose bit length is b (1 = least significant).
    return words, [np.array([0, *reversed(bits)], dtype=np.int64) for bits in depths]
