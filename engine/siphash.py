"""SipHash-2-4 of many messages: the kernel behind `engine.sticky_prf`, which says what is hashed."""

from __future__ import annotations

import numpy as np

from engine.kernels import Whole, kernel, part
from engine.schema import UInt64Array

_BLOCK = 256  # messages whose state lies in the nearest cache
_COMPRESSING, _CLOSING = np.int64(2), np.int64(4)  # rounds


@part
def _rounds(
    count: Whole, v0: UInt64Array, v1: UInt64Array, v2: UInt64Array, v3: UInt64Array
) -> None:
    """SipRounds of the states of a block, in place."""
    for i in range(len(v0)):
        a, b, c, d = v0[i], v1[i], v2[i], v3[i]
        for _ in range(count):
            a += b
            c += d
            b = (b << np.uint64(13)) | (b >> np.uint64(51))
            d = (d << np.uint64(16)) | (d >> np.uint64(48))
            b ^= a
            d ^= c
            a = (a << np.uint64(32)) | (a >> np.uint64(32))
            c += b
            a += d
            b = (b << np.uint64(17)) | (b >> np.uint64(47))
            d = (d << np.uint64(21)) | (d >> np.uint64(43))
            b ^= c
            d ^= a
            c = (c << np.uint64(32)) | (c >> np.uint64(32))
        v0[i], v1[i], v2[i], v3[i] = a, b, c, d


@kernel
def siphash(start: UInt64Array, words: UInt64Array, closing: UInt64Array, out: UInt64Array) -> None:
    """64 bits of each message, or 128 where there is room for them.

    start: The state that the key gives. words: shape (n_words, n). closing: The last word of each message, one entry.
    out: shape (n, 1) or (n, 2).
    """
    n_words, n = words.shape
    is_wide = out.shape[1] == 2
    state = np.empty((4, _BLOCK), dtype=np.uint64)
    for begin in range(0, n, _BLOCK):
        size = min(_BLOCK, n - begin)
        v0, v1, v2, v3 = state[0, :size], state[1, :size], state[2, :size], state[3, :size]
        v0[:], v1[:], v2[:], v3[:] = start[0], start[1], start[2], start[3]
        for j in range(n_words + 1):
            for i in range(size):
                v3[i] ^= words[j, begin + i] if j < n_words else closing[0]
            _rounds(_COMPRESSING, v0, v1, v2, v3)
            for i in range(size):
                v0[i] ^= words[j, begin + i] if j < n_words else closing[0]
        for i in range(size):
            v2[i] ^= np.uint64(0xEE) if is_wide else np.uint64(0xFF)
        _rounds(_CLOSING, v0, v1, v2, v3)
        for i in range(size):
            out[begin + i, 0] = v0[i] ^ v1[i] ^ v2[i] ^ v3[i]
        if is_wide:
            for i in range(size):
                v1[i] ^= np.uint64(0xDD)
            _rounds(_CLOSING, v0, v1, v2, v3)
            for i in range(size):
                out[begin + i, 1] = v0[i] ^ v1[i] ^ v2[i] ^ v3[i]
