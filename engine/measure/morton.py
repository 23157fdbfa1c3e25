"""Morton order: one sort of a column set's cells makes every node of every depth a run of neighbours.

All columns halve together, so a node at depth d is a common prefix: first the kinds and whatever lies above the
columns' top levels, then one bit a column and depth. Sorting the cells by these bits once, and noting at which
depth neighbours part, gives all nodes of all depths without any tree object.
"""

from __future__ import annotations

from functools import cache

import numpy as np

from engine.ranges import bit_length
from engine.schema import Int64Array, UInt8Array, UInt64Array

WORD_BITS = 64


def morton_order(
    kind: UInt8Array, magnitude: Int64Array, tops: tuple[int, ...]
) -> tuple[Int64Array, Int64Array]:
    """Sort cells so that each node is a run, and tell where neighbours part.

    Returns: order: Positions of the cells in Morton order; parts: Smallest depth at which a cell, in that
    order, lies in another node than the one before it; 0 for the first; max(tops) + 1 between equal cells.
    """
    packed = _packed(kind, magnitude, tops)
    order = _sorted(packed)
    parts = np.full(len(kind), max(tops) + 1, dtype=np.int64)
    for word, depth_of_bit in zip(packed.words[::-1], packed.depths[::-1], strict=True):
        placed = word.take(order)
        differing = placed[1:] ^ placed[:-1]
        where = np.flatnonzero(differing)
        parts[where + 1] = depth_of_bit[bit_length(differing[where])]
    parts[:1] = 0
    return order, parts


def _sorted(packed: _Words) -> Int64Array:
    """The order of words; the cell itself is put beside the bits where a word has room, for that sorts faster."""
    words = packed.words
    if len(words) != 1:
        return np.lexsort(words[::-1]) if words else np.arange(packed.n_cells)
    n_bits = packed.n_cells.bit_length()
    if n_bits > packed.room:
        return np.argsort(words[0])
    both = words[0] << np.uint64(n_bits)
    both |= np.arange(packed.n_cells, dtype=np.uint64)
    both.sort()
    both &= _ones(n_bits)
    return both.view(np.int64)


def _ones(n_bits: int) -> np.uint64:
    return np.uint64((1 << n_bits) - 1)


def _n_differing(values: UInt64Array) -> int:
    """So many bits, from the lowest, in which any two of some numbers differ."""
    return int((values ^ values[:1]).max(initial=np.uint64(0))).bit_length()


class _Words:
    """Fields of bits, packed into words from the most significant bit on; and of each bit its depth."""

    def __init__(self, n_cells: int) -> None:
        self.n_cells = n_cells
        self.words: list[UInt64Array] = []
        self._depths: list[list[int]] = []

    def put(self, values: UInt64Array, bit_depths: list[int]) -> None:
        """Add a field; `bit_depths` are those of its bits, high bit first."""
        width = len(bit_depths)
        if width > self.room:
            self.words.append(np.zeros(self.n_cells, dtype=np.uint64))
            self._depths.append([])
        self.words[-1] <<= np.uint64(width)
        self.words[-1] |= values
        self._depths[-1].extend(bit_depths)

    @property
    def room(self) -> int:
        """Bits that the last word still takes."""
        return WORD_BITS - len(self._depths[-1]) if self.words else 0

    @property
    def depths(self) -> list[Int64Array]:
        """Of each word the depth of the bit whose bit length is b, 1 being the least significant one."""
        return [np.array([0, *reversed(bits)], dtype=np.int64) for bits in self._depths]


def _packed(kind: UInt8Array, magnitude: Int64Array, tops: tuple[int, ...]) -> _Words:
    """All that decides the order: kinds, what lies above the top levels, then a bit a column and depth."""
    out, bits = _Words(len(kind)), magnitude.view(np.uint64)
    for column, top in enumerate(tops):
        for part in (kind[:, column].astype(np.uint64), bits[:, column] >> np.uint64(top)):
            if width := _n_differing(part):
                out.put(part & _ones(width), [0] * width)
    above = 0
    for level in sorted({*tops} - {0}):  # down to this depth the same columns halve
        halving = [column for column, top in enumerate(tops) if top >= level]
        while above < level:
            room = out.room if out.room >= len(halving) else WORD_BITS
            depth = min(level, above + room // len(halving))
            mask = _ones(depth - above)
            shown = [(bits[:, j] >> np.uint64(tops[j] - depth)) & mask for j in halving]
            own = np.repeat(np.arange(above + 1, depth + 1), len(halving))
            out.put(_interleaved(shown, depth - above), own.tolist())
            above = depth
    return out


def _interleaved(columns: list[UInt64Array], n_bits: int) -> UInt64Array:
    """Bits of columns by turns, the first column's before the second's."""
    k = len(columns)
    if k == 1:
        return columns[0]
    spread, out = _spread_bytes(k), np.zeros(len(columns[0]), dtype=np.uint64)
    for place, column in enumerate(reversed(columns)):
        for byte in range(0, n_bits, 8):
            part = (column >> np.uint64(byte)) & np.uint64(255)
            out |= spread.take(part.view(np.int64)) << np.uint64(k * byte + place)
    return out


@cache
def _spread_bytes(k: int) -> UInt64Array:
    """Every byte with its bits k places apart."""
    byte, out = np.arange(256, dtype=np.uint64), np.zeros(256, dtype=np.uint64)
    for bit in range(8):
        out |= ((byte >> np.uint64(bit)) & np.uint64(1)) << np.uint64(k * bit)
    return out
