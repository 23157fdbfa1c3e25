"""Models fitted beside each other: scikit-learn leaves Python's lock while it fits, so two threads use two cores.

Each call decides by its own arguments alone, so figures are the same in whatever order they come.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextvars import ContextVar
from importlib.util import find_spec
from typing import Any, TypeVar

THREADS = 2
"""Threads that fit models, unless other processes use the cores."""
_IS_ALONE: ContextVar[bool] = ContextVar("_IS_ALONE", default=True)

One = TypeVar("One")
Found = TypeVar("Found")


def n_threads() -> int:
    """Return how many threads fit models here."""
    return THREADS if _IS_ALONE.get() else 1


@contextlib.contextmanager
def one_thread() -> Iterator[None]:
    """Fit models in one thread: other processes use the other cores."""
    before = _IS_ALONE.set(False)
    try:
        yield
    finally:
        _IS_ALONE.reset(before)


@contextlib.contextmanager
def unchecked() -> Iterator[None]:
    """Without scikit-learn's checks of parameters and finite numbers: ours are, and small models cost less to fit."""
    if find_spec("sklearn") is None:
        yield
        return
    from sklearn import config_context  # who does without it need not have it

    with config_context(skip_parameter_validation=True, assume_finite=True):
        yield


def in_threads(call: Callable[[One], Found], items: Iterable[One]) -> Iterator[Found]:
    """Results of a call for each item, in their order; after an error, or where nobody asks on, no further one begins.

    call: Must not change what others read.
    """

    def unchecked_call(item: One) -> Found:
        with unchecked():  # the setting is of a thread
            return call(item)

    if not _IS_ALONE.get():
        yield from map(unchecked_call, items)
        return
    pool: Any = ThreadPoolExecutor(max_workers=THREADS)
    try:
        yield from pool.map(unchecked_call, items)
    finally:
        pool.shutdown(wait=True, cancel_futures=True)
