"""Hot loops: plain functions over arrays and numbers, compiled by numba when they are first called.

Machine code is kept beside the source where that folder can be written, else in the user's cache (the environment
variable NUMBA_CACHE_DIR decides over both); where neither can be written every process compiles for itself. The same
bits on every machine: no fastmath, nothing in parallel. A kernel is called with one set of types only (a test holds
it), so that it is compiled once; what it calls is a `part` in the same file, or a changed file would not be noticed.
Rename a named tuple together with the kernels that take it: numba fails on old machine code that names it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar, cast

from numba import njit
from numba.core.event import Event, Listener, install_listener

from engine.progress import Progress

Function = TypeVar("Function", bound=Callable[..., Any])
Whole = Any
"""A whole number inside a kernel: Python's, or one of numpy's."""
KERNELS: list[Any] = []
"""All kernels of the modules that were imported, as numba's dispatchers."""


_ANY_NJIT = cast("Any", njit)  # its types leave out two options


def kernel(function: Function) -> Function:
    """Compile a function that is called from Python; keep its machine code where there is a place for it."""
    try:
        compiled = njit(cache=True, nogil=True)(function)
    except RuntimeError:  # no folder for it can be written
        compiled = njit(nogil=True)(function)
    KERNELS.append(compiled)
    return cast("Function", compiled)


def part(function: Function) -> Function:
    """Compile a function that kernels of its file call; it becomes part of their code."""
    # Nothing else calls it: wrappers for other callers would only take time to compile.
    inside = _ANY_NJIT(nogil=True, no_cpython_wrapper=True, no_cfunc_wrapper=True)
    return cast("Function", inside(function))


class _CompileListener(Listener):
    """Reports once that something is compiled."""

    def __init__(self, report: Progress) -> None:
        self._report, self.has_reported = report, False

    def on_start(self, event: Event) -> None:  # noqa: ARG002
        if not self.has_reported:
            self.has_reported = True
            self._report("compiling", 0, 1)

    def on_end(self, event: Event) -> None:
        pass


def report_compiling(warm: Callable[[], None], report: Progress) -> None:
    """Run what calls kernels, and report where one of them has to be compiled, which takes seconds."""
    listener = _CompileListener(report)
    with install_listener("numba:compile", listener):
        warm()
    if listener.has_reported:
        report("compiling", 1, 1)
