"""Calls of compiled loops: arrays go to machine code as numba lays them out, and what it gives comes back as arrays.

A loop takes and gives words of 8 bytes. A number is one. An array is several: who keeps its memory, whose it is,
entries, bytes of an entry, where they are, its shape, its strides. They come after where to put what is given, and
where to say what went wrong (numba, "numba/core/callconv.py" and "numba/np/arrayobj.py").
"""

from __future__ import annotations

import ctypes
import struct
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from engine.errors import InternalError

_AHEAD = 5
"""Words of an array before its shape."""
_SCALARS: dict[str, tuple[str, Any]] = {
    "int64": ("i64", ctypes.c_int64),
    "uint64": ("i64", ctypes.c_uint64),
    "float64": ("double", ctypes.c_double),
    "bool": ("i8", ctypes.c_bool),
}
"""As LLVM and C know them."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Kind:
    """What a loop takes or gives: an array, or a number."""

    dtype: str  # As numpy names it
    ndim: int = 0  # 0: a number
    is_dense: bool = True  # Whether its entries must lie side by side, in C's order

    @property
    def words(self) -> int:
        """How many words it is."""
        return _AHEAD + 2 * self.ndim if self.ndim else 1

    @property
    def ctypes(self) -> list[Any]:
        """The words, as C knows them."""
        return [ctypes.c_int64] * self.words if self.ndim else [_SCALARS[self.dtype][1]]

    @property
    def llvm(self) -> list[str]:
        """The words, as LLVM knows them."""
        if not self.ndim:
            return [_SCALARS[self.dtype][0]]
        return ["ptr", "ptr", "i64", "i64", "ptr", *["i64"] * (2 * self.ndim)]


class Loop:
    """A compiled loop: call it with arrays and numbers.

    address, release: Where its machine code is, and where that is which lets go of an array that it gave.
    """

    def __init__(
        self,
        *,
        name: str,
        address: int,
        release: int,
        takes: Sequence[Kind],
        gives: Sequence[Kind],
        is_tuple: bool,
    ) -> None:
        words = [word for kind in takes for word in kind.ctypes]
        prototype = ctypes.CFUNCTYPE(ctypes.c_int32, ctypes.c_void_p, ctypes.c_void_p, *words)
        self._name, self._is_tuple = name, is_tuple
        self._call: Callable[..., int] = prototype(address)
        self._release: Callable[[int], None] = ctypes.CFUNCTYPE(None, ctypes.c_int64)(release)
        self._takes = [(kind.ndim, np.dtype(kind.dtype), kind.is_dense) for kind in takes]
        self._gives = [(kind.ndim, np.dtype(kind.dtype), kind.words) for kind in gives]
        self._n_given = max(sum(kind.words for kind in gives), 1)

    def __call__(self, *values: Any) -> Any:
        """Run it; arrays that it changes are changed in place."""
        words: list[Any] = []
        for value, (ndim, dtype, is_dense) in zip(values, self._takes, strict=True):
            if not ndim:
                words.append(value.item() if isinstance(value, np.generic) else value)
                continue
            if value.ndim != ndim or value.dtype != dtype or is_dense > value.flags.c_contiguous:
                raise InternalError(
                    f"{self._name} takes {dtype} of {ndim} axes{', side by side' * is_dense}, not "
                    f"{value.dtype} with strides {value.strides}"
                )
            words += (0, 0, value.size, dtype.itemsize, value.ctypes.data)
            words += value.shape
            words += value.strides
        given, wrong = (ctypes.c_int64 * self._n_given)(), ctypes.c_int64()
        # Of what can go wrong in a loop only memory hangs on more than its sources.
        if self._call(ctypes.addressof(given), ctypes.addressof(wrong), *words):
            raise MemoryError
        return self._taken(list(given))

    def _taken(self, given: list[int]) -> Any:
        """What was given, out of its words."""
        out: list[Any] = []
        at = 0
        for ndim, dtype, words in self._gives:
            if ndim:
                out.append(self._copied(given[at : at + words], ndim, dtype))
            else:
                is_float = dtype.kind == "f"
                out.append(
                    struct.unpack("d", struct.pack("q", given[at]))[0] if is_float else given[at]
                )
            at += words
        if self._is_tuple:
            return tuple(out)
        return out[0] if out else None

    def _copied(self, words: Sequence[int], ndim: int, dtype: np.dtype[Any]) -> Any:
        """An array of our own with the entries of one that a loop gave, which is let go."""
        keeper, begin = words[0], words[4]
        out = np.empty(tuple(words[_AHEAD : _AHEAD + ndim]), dtype=dtype)
        ctypes.memmove(out.ctypes.data, begin, out.nbytes)
        self._release(keeper)
        return out
