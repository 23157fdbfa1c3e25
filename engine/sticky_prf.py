"""Sticky randomness: SipHash-2-4, and draws that are the same bits on every platform.

Takes a 16-byte key and messages of 64-bit words; gives 64 random bits per message, and from these integer Gaussians and
threshold tests by tables of 64-bit integers. The tables come from `decimal` arithmetic (exactly rounded, no libm), so
equal keys and messages give equal draws on any machine and in any order.

Source: Aumasson and Bernstein, "SipHash: a fast short-input PRF", INDOCRYPT 2012; the 128-bit variant is from the
authors' reference code.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from decimal import Decimal, localcontext
from functools import cache

import numpy as np

from engine.schema import BoolArray, Int64Array, UInt64Array

CHUNK = 16_384
"""Messages hashed at a time: enough to amortise the calls, few enough for the processor's cache."""
MAX_TABLE_LOG2_SD = 10
"""Largest sd with a table of its own; larger ones add uniform low bits to it."""
_TWO_64 = 1 << 64


def _state(key: bytes, *, wide: bool) -> tuple[int, int, int, int]:
    """The initial state for a key."""
    k0, k1 = struct.unpack("<QQ", key[:16])
    return (
        0x736F6D6570736575 ^ k0,
        0x646F72616E646F6D ^ k1 ^ (0xEE if wide else 0),
        0x6C7967656E657261 ^ k0,
        0x7465646279746573 ^ k1,
    )


def siphash(key: bytes, words: Sequence[UInt64Array]) -> UInt64Array:
    """SipHash-2-4 of many messages at once."""
    return _hashed(key, words, 1)[:, 0]


def siphash128(key: bytes, words: Sequence[UInt64Array]) -> UInt64Array:
    """SipHash-2-4 with 128 bits out; parameters as in `siphash`."""
    return _hashed(key, words, 2)


def _hashed(key: bytes, words: Sequence[UInt64Array], lanes: int) -> UInt64Array:
    """So many words of each message's hash."""
    # Imported here: callers that draw nothing do without numba, which takes a quarter of a second to import.
    from engine import siphash as of_messages

    n = len(words[0])
    out = np.empty((n, lanes), dtype=np.uint64)
    start = np.array(_state(key, wide=lanes > 1), dtype=np.uint64)
    closing = np.array([((8 * len(words)) & 0xFF) << 56], dtype=np.uint64)
    for begin in range(0, n, CHUNK):
        part = np.stack([word[begin : begin + CHUNK] for word in words])
        of_messages.siphash(start, part, closing, out[begin : begin + CHUNK])
    return out


@cache
def gaussian_table(log2_sd: int) -> tuple[int, UInt64Array]:
    """Cumulative table of the discrete Gaussian with sd 2**log2_sd, p(k) proportional to exp(-k^2 / 2 sd^2).

    Returns: first, the smallest value drawn; thresholds: bits u draw first + (number of thresholds <= u).
    """
    reach = 9 << log2_sd
    with localcontext() as context:
        context.prec = 40
        width = Decimal(2) ** (2 * log2_sd + 1)
        # exp(-k^2 / width) by its ratios exp(-(2k + 1) / width): two products each instead of an exponential.
        half, ratio, slower = [Decimal(1)], (-1 / width).exp(), (-2 / width).exp()
        for _ in range(reach):
            half.append(half[-1] * ratio)
            ratio *= slower
        total = 2 * sum(half[1:], Decimal(0)) + half[0]
        running, thresholds = Decimal(0), []
        for k in range(-reach, reach):
            running += half[abs(k)]
            thresholds.append(int(running / total * _TWO_64))
    return -reach, np.array(thresholds, dtype=np.uint64)


def integer_gaussian(bits: UInt64Array, log2_sd: int) -> Int64Array:
    """Turn random bits into integer Gaussians of mean 0."""
    spare = max(0, log2_sd - MAX_TABLE_LOG2_SD)
    first, thresholds = gaussian_table(log2_sd - spare)
    drawn = np.searchsorted(thresholds, bits, side="right") + first
    if not spare:
        return drawn.astype(np.int64)
    # The table's steps are 2**spare wide here; fresh low bits spread draws evenly within them.
    low = (bits * np.uint64(0x9E3779B97F4A7C15)) >> np.uint64(64 - spare)
    return (drawn << spare) + low.astype(np.int64) - (1 << (spare - 1))


@cache
def _normal_cdf_bits() -> UInt64Array:
    """Phi(z) * 2**64 for z = -9 .. 9, from the Taylor series of the error function in exact decimals."""
    with localcontext() as context:
        context.prec = 60
        pi = Decimal("3.14159265358979323846264338327950288419716939937510582097494")
        scale = 1 / (2 * pi).sqrt()
        out = []
        for z in range(-9, 10):
            x, term, total, k = Decimal(abs(z)), Decimal(abs(z)), Decimal(abs(z)), 1
            while abs(term) > Decimal(10) ** -45:
                term = term * -(x * x) / (2 * k)
                total += term / (2 * k + 1)
                k += 1
            phi = Decimal("0.5") + scale * total * (1 if z >= 0 else -1)
            out.append(min(int(phi * _TWO_64), _TWO_64 - 1))
    return np.array(out, dtype=np.uint64)


def passes_threshold(n_entities: Int64Array, bits: UInt64Array, mean: int) -> BoolArray:
    """Whether n_entities >= a threshold drawn from N(mean, 1)."""
    z = np.clip(n_entities - mean, -9, 9) + 9
    passed: BoolArray = bits < _normal_cdf_bits()[z]
    return passed | (n_entities >= mean + 9)
