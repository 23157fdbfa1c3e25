"""Where rounding starts: whole numbers near fitted cells, before units are moved.

Takes fitted cells, those of one fibre together, and each fibre's rows; gives whole numbers whose sums over fibres are
these. What a run of neighbours in a fibre is off stays small, however long it is; of two columns a run along either.
"""

from __future__ import annotations

import numpy as np

from engine.schema import FloatArray, Int64Array
from engine.sticky_prf import siphash

_FIXED = 20  # bits behind the point
_NOTHING = 1e-200  # fitted rows too few to be divided by
_STRETCH = 4.0  # loose rows of a stretch of fibres, in which a half is brought to its fitted rows


def by_running_sums(
    x: FloatArray, target: Int64Array, heads: Int64Array, name: Int64Array, key: bytes
) -> Int64Array:
    """Round each fibre by differences of floors of its running sum, from a keyed start in [0, 1)."""
    sizes = np.diff(np.append(heads, len(x)))
    have = np.add.reduceat(x, heads)
    scale = np.divide(target, have, out=np.zeros(len(have)), where=have > _NOTHING)
    running = np.cumsum(x)
    base = np.repeat(running[heads] - x[heads], sizes)
    inside = ((running - base) * np.repeat(scale, sizes) * (1 << _FIXED)).astype(np.int64)
    upto = (inside + np.repeat(_starts(key, name), sizes)) >> _FIXED
    upto = np.minimum(np.maximum(upto, 0), np.repeat(target, sizes))
    ends = np.append(heads[1:], len(x)) - 1
    upto[ends] = target  # the last running sum is the target, whatever floats made of it
    before = np.roll(upto, 1)
    before[heads] = 0
    out: Int64Array = upto - before
    return out


def in_halves(
    x: FloatArray, fibre: Int64Array, code: Int64Array, target: Int64Array, key: bytes
) -> Int64Array:
    """Round a table of two columns so that runs along both are near their fitted rows.

    The rows of each fibre are split between the lower and the upper half of the codes, these again, and so on. What a
    half gets follows its running sum over fibres, from a keyed start: so of two codes each is within 1 of its fitted
    rows over any run of fibres. Further splits follow what their whole has got, and are a little further off.

    Returns: Where a fibre has fitted rows, cells without any get none.
    """
    n_fibres, depth = len(target), int(code.max(initial=0)).bit_length()
    is_empty = np.bincount(fibre, weights=x, minlength=n_fibres) <= _NOTHING
    x = np.where(is_empty[fibre], 1.0, x)
    x = x * (target / np.bincount(fibre, weights=x, minlength=n_fibres))[fibre]
    fitted = [np.zeros((n_fibres, 1 << depth))]
    fitted[0][fibre, code] = x
    for _ in range(depth):
        fitted.append(fitted[-1].reshape(n_fibres, -1, 2).sum(axis=2))
    n = target.reshape(-1, 1)
    for level in range(depth - 1, -1, -1):
        due = _due(n, fitted[level][:, ::2], fitted[level + 1])
        name = np.arange(n.shape[1]) + ((level + 1) << 32)  # fibres' names are below
        running = np.cumsum((due * (1 << _FIXED) + 0.5).astype(np.int64), axis=0)
        low = np.diff((running + _starts(key, name)) >> _FIXED, axis=0, prepend=0)
        n = np.stack([low, n - low], axis=2).reshape(n_fibres, -1)
    out: Int64Array = n[fibre, code]
    return out


def _due(n: Int64Array, half: FloatArray, whole: FloatArray) -> FloatArray:
    """What a half is due of the rows of each whole: its share, tilted so that stretches of fibres have what was
    fitted.
    """
    share = np.divide(half, whole, out=np.zeros_like(whole), where=whole > _NOTHING)
    due = n * share
    loose = due * (1.0 - share)
    stretch = _stretches(loose).ravel()
    over = np.bincount(stretch, weights=(due - half).ravel())
    room = np.bincount(stretch, weights=loose.ravel())
    has_room = room > 2.0**-_FIXED
    tilt = np.clip(np.divide(over, room, out=np.zeros_like(over), where=has_room), -1.0, 1.0)
    brought: FloatArray = due - loose * tilt[stretch].reshape(n.shape)
    return brought


def _stretches(loose: FloatArray) -> Int64Array:
    """Number of the stretch that each fibre belongs to, of each whole its own; what is left over ends the last one.

    A fibre of many rows may pass several at once: those that begin in none have no number.
    """
    running = np.cumsum(loose, axis=0)
    last = np.maximum((running[-1] / _STRETCH).astype(np.int64) - 1, 0)
    begun = np.minimum((running / _STRETCH).astype(np.int64), last)
    number = np.cumsum(np.diff(begun, axis=0, prepend=begun[:1]) != 0, axis=0)
    first = np.cumsum(number[-1] + 1) - (number[-1] + 1)
    stretches: Int64Array = number + first
    return stretches


def _starts(key: bytes, name: Int64Array) -> Int64Array:
    """A start in [0, 1) for each name, in fixed point."""
    word = siphash(key, [name.astype(np.int64).view(np.uint64)])
    return (word >> np.uint64(64 - _FIXED)).astype(np.int64)
