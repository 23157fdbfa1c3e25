"""Keyed BLAKE2b (RFC 7693) of many short messages, compiled: `engine.keys.entity_tokens` says what; whole numbers only.

For the process left of the wall, which brings it in where a source has many entities.
"""

from __future__ import annotations

import numpy as np
from numba import int64, njit, uint8, uint64, void

__all__ = ["digests", "numbers"]

_IV = np.array(
    [
        *(0x6A09E667F3BCC908, 0xBB67AE8584CAA73B, 0x3C6EF372FE94F82B, 0xA54FF53A5F1D36F1),
        *(0x510E527FADE682D1, 0x9B05688C2B3E6C1F, 0x1F83D9ABFB41BD6B, 0x5BE0CD19137E2179),
    ],
    dtype=np.uint64,
)
_ORDERS = (
    *("0123456789abcdef", "ea489fd61c02b753", "b8c052fdae367194", "7931dcbe265a40f8"),
    *("905724afe1bc683d", "2c6a0b834d75fe19", "c51fed4a0763928b", "db7ec13950f4862a"),
    *("6fe9b308c2d714a5", "a2847615fb9e3cd0", "0123456789abcdef", "ea489fd61c02b753"),
)
_SIGMA = np.array([[int(digit, 16) for digit in order] for order in _ORDERS], dtype=np.int64)
_BLOCK = 128
_U64, _U8 = uint64[::1], uint8[::1]


@njit
def _mix(a, b, c, d, x, y):
    """The function G of the paper."""
    a = a + b + x
    d ^= a
    d = (d >> np.uint64(32)) | (d << np.uint64(32))
    c += d
    b ^= c
    b = (b >> np.uint64(24)) | (b << np.uint64(40))
    a = a + b + y
    d ^= a
    d = (d >> np.uint64(16)) | (d << np.uint64(48))
    c += d
    b ^= c
    b = (b >> np.uint64(63)) | (b << np.uint64(1))
    return a, b, c, d


@njit
def _compress(h, m, count, is_last):
    """Take one block into the state, in place; so many bytes came up to its end."""
    v0, v1, v2, v3, v4, v5, v6, v7 = h[0], h[1], h[2], h[3], h[4], h[5], h[6], h[7]
    v8, v9, v10, v11 = _IV[0], _IV[1], _IV[2], _IV[3]
    v12, v13, v14, v15 = _IV[4] ^ np.uint64(count), _IV[5], _IV[6], _IV[7]
    if is_last:
        v14 = ~v14
    for r in range(12):
        s = _SIGMA[r]
        v0, v4, v8, v12 = _mix(v0, v4, v8, v12, m[s[0]], m[s[1]])
        v1, v5, v9, v13 = _mix(v1, v5, v9, v13, m[s[2]], m[s[3]])
        v2, v6, v10, v14 = _mix(v2, v6, v10, v14, m[s[4]], m[s[5]])
        v3, v7, v11, v15 = _mix(v3, v7, v11, v15, m[s[6]], m[s[7]])
        v0, v5, v10, v15 = _mix(v0, v5, v10, v15, m[s[8]], m[s[9]])
        v1, v6, v11, v12 = _mix(v1, v6, v11, v12, m[s[10]], m[s[11]])
        v2, v7, v8, v13 = _mix(v2, v7, v8, v13, m[s[12]], m[s[13]])
        v3, v4, v9, v14 = _mix(v3, v4, v9, v14, m[s[14]], m[s[15]])
    h[0] ^= v0 ^ v8
    h[1] ^= v1 ^ v9
    h[2] ^= v2 ^ v10
    h[3] ^= v3 ^ v11
    h[4] ^= v4 ^ v12
    h[5] ^= v5 ^ v13
    h[6] ^= v6 ^ v14
    h[7] ^= v7 ^ v15


@njit(void(int64[::1], _U8, int64[::1]))
def numbers(ids, texts, ends):
    """Spell whole numbers as `engine.keys.typed_id` does: the letter i, perhaps a minus, decimal digits."""
    digits = np.empty(20, dtype=np.uint8)
    at = 0
    for i in range(len(ids)):
        texts[at] = 105
        at += 1
        left = np.uint64(ids[i])
        if ids[i] < 0:
            texts[at] = 45
            at += 1
            left = ~left + np.uint64(1)  # of the smallest number, too
        size = 0
        while size == 0 or left != np.uint64(0):
            rest = left // np.uint64(10)
            digits[size] = np.uint8(48) + np.uint8(left - rest * np.uint64(10))
            left = rest
            size += 1
        for j in range(size):
            texts[at + j] = digits[size - 1 - j]
        at += size
        ends[i] = at


@njit(void(_U64, _U8, _U8, _U8, int64[::1], uint64[:, ::1]))
def digests(parameters, key, head, texts, ends, out):
    """The first two words of the digest of each message: the head, the length of a text in 8 bytes, the text."""
    block = np.zeros(_BLOCK, dtype=np.uint8)
    words = block.view(np.uint64)
    start, h = _IV ^ parameters, np.empty(8, dtype=np.uint64)
    for j in range(len(key)):
        block[j] = key[j]
    _compress(start, words, _BLOCK, False)
    begin = 0
    for i in range(len(ends)):
        size = ends[i] - begin
        h[:] = start
        block[:] = 0
        for j in range(len(head)):
            block[j] = head[j]
        at, count = len(head), _BLOCK
        for j in range(8 + size):
            if at == _BLOCK:
                count += _BLOCK
                _compress(h, words, count, False)
                block[:] = 0
                at = 0
            block[at] = np.uint8((size >> (8 * j)) & 0xFF) if j < 8 else texts[begin + j - 8]
            at += 1
        _compress(h, words, count + at, True)
        out[i, 0], out[i, 1] = h[0], h[1]
        begin = ends[i]
