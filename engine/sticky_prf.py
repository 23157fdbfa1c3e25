"""Sticky randomness: SipHash-2-4 in numpy, and draws that are the same bits on every platform.

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
from types import SimpleNamespace

import numpy as np

from engine.schema import BoolArray, Int64Array, UInt64Array

CHUNK = 16_384
"""Messages hashed at a time: enough to amortise the calls, few enough for the processor's cache."""
MAX_TABLE_LOG2_SD = 10
"""Largest sd with a table of its own; larger ones add uniform low bits to it."""
_TWO_64 = 1 << 64
_LOOPS: list[SimpleNamespace] = []
"""The compiled loop, if there is one: see `use_loop`."""
_SHIFTS = {bits: (np.uint64(bits), np.uint64(64 - bits)) for bits in (13, 16, 17, 21, 32)}


def _rotate(x: UInt64Array, bits: int, spare: UInt64Array) -> None:
    """Rotate left in place."""
    left, right = _SHIFTS[bits]
    np.right_shift(x, right, spare)
    np.left_shift(x, left, x)
    np.bitwise_or(x, spare, x)


def _rounds(v: list[UInt64Array], spare: UInt64Array, count: int) -> None:
    """Run SipRounds on the state in place."""
    v0, v1, v2, v3 = v
    for _ in range(count):
        v0 += v1
        v2 += v3
        _rotate(v1, 13, spare)
        _rotate(v3, 16, spare)
        v1 ^= v0
        v3 ^= v2
        _rotate(v0, 32, spare)
        v2 += v1
        v0 += v3
        _rotate(v1, 17, spare)
        _rotate(v3, 21, spare)
        v1 ^= v2
        v3 ^= v0
        _rotate(v2, 32, spare)


def _state(key: bytes, *, wide: bool) -> tuple[int, int, int, int]:
    """The initial state for a key."""
    k0, k1 = struct.unpack("<QQ", key[:16])
    return (
        0x736F6D6570736575 ^ k0,
        0x646F72616E646F6D ^ k1 ^ (0xEE if wide else 0),
        0x6C7967656E657261 ^ k0,
        0x7465646279746573 ^ k1,
    )


def _closing(n_words: int) -> np.uint64:
    """The last word of a message: its length."""
    return np.uint64(((8 * n_words) & 0xFF) << 56)


def _absorb(
    key: bytes, words: Sequence[UInt64Array], state: UInt64Array, *, wide: bool
) -> list[UInt64Array]:
    """Initialise the state with the key and compress the words and the closing length block.

    `state` has shape (5, n): four words of state and one of scratch space.
    """
    v, spare = list(state[:4]), state[4]
    for part, start in zip(v, _state(key, wide=wide), strict=True):
        part.fill(start)
    for word in [*words, _closing(len(words))]:
        v[3] ^= word
        _rounds(v, spare, 2)
        v[0] ^= word
    return v


def use_loop(module: SimpleNamespace | None) -> None:
    """From now on hash with a compiled loop, which gives the same bits; None: with numpy."""
    _LOOPS[:] = [] if module is None else [module]


def siphash(key: bytes, words: Sequence[UInt64Array]) -> UInt64Array:
    """SipHash-2-4 of many messages at once, by the compiled loop if there is one."""
    n = len(words[0])
    out = np.empty(n, dtype=np.uint64)
    if _LOOPS:
        first = np.array(_state(key, wide=False), dtype=np.uint64)
        for start in range(0, n, CHUNK):
            part = [word[start : start + CHUNK] for word in words]
            message = np.stack(
                [*part, np.full(len(part[0]), _closing(len(words)), dtype=np.uint64)]
            )
            _LOOPS[0].siphash(first, message, out[start : start + CHUNK])
        return out
    state = np.empty((5, min(n, CHUNK)), dtype=np.uint64)
    for start in range(0, n, CHUNK):
        part = [word[start : start + CHUNK] for word in words]
        here = state[:, : len(part[0])]
        v = _absorb(key, part, here, wide=False)
        v[2] ^= np.uint64(0xFF)
        _rounds(v, here[4], 4)
        out[start : start + CHUNK] = v[0] ^ v[1] ^ v[2] ^ v[3]
    return out


def siphash128(key: bytes, words: Sequence[UInt64Array]) -> UInt64Array:
    """SipHash-2-4 with 128 bits out; parameters as in `siphash`."""
    n = len(words[0])
    out = np.empty((n, 2), dtype=np.uint64)
    state = np.empty((5, min(n, CHUNK)), dtype=np.uint64)
    for start in range(0, n, CHUNK):
        part = [word[start : start + CHUNK] for word in words]
        here = state[:, : len(part[0])]
        v = _absorb(key, part, here, wide=True)
        v[2] ^= np.uint64(0xEE)
        _rounds(v, here[4], 4)
        out[start : start + CHUNK, 0] = v[0] ^ v[1] ^ v[2] ^ v[3]
        v[1] ^= np.uint64(0xDD)
        _rounds(v, here[4], 4)
        out[start : start + CHUNK, 1] = v[0] ^ v[1] ^ v[2] ^ v[3]
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
