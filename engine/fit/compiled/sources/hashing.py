"""SipHash-2-4 of many messages, compiled: `engine.sticky_prf` says what; whole numbers only."""

from __future__ import annotations

import numpy as np
from numba import njit, uint64, void

__all__ = ["siphash"]

_WORDS = uint64[::1]
_BLOCK = 256  # messages whose state lies in the nearest cache


@njit
def _rounds(count, v0, v1, v2, v3):
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


@njit(void(_WORDS, uint64[:, ::1], _WORDS))
def siphash(start, words, out):
    """64 bits of each message.

    words: The last one closes the message.
    """
    n_words, n = words.shape
    state = np.empty((4, _BLOCK), dtype=np.uint64)
    for begin in range(0, n, _BLOCK):
        size = min(_BLOCK, n - begin)
        v0, v1, v2, v3 = state[0, :size], state[1, :size], state[2, :size], state[3, :size]
        v0[:], v1[:], v2[:], v3[:] = start[0], start[1], start[2], start[3]
        for j in range(n_words):
            for i in range(size):
                v3[i] ^= words[j, begin + i]
            _rounds(2, v0, v1, v2, v3)
            for i in range(size):
                v0[i] ^= words[j, begin + i]
        for i in range(size):
            v2[i] ^= np.uint64(0xFF)
        _rounds(4, v0, v1, v2, v3)
        for i in range(size):
            out[begin + i] = v0[i] ^ v1[i] ^ v2[i] ^ v3[i]
