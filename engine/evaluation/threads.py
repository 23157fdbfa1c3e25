"""Models fitted beside each other: scikit-learn leaves Python's lock while it fits, so two threads use two cores.

Each call decides by its own arguments alone, so figures are the same in whatever order they come.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from importlib.util import find_spec
from typing import Any, TypeVar

THREADS = 2
"""Threads that fit models."""

One = TypeVar("One")
Found = TypeVar("Found")


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

    Parameters
    ----------
    call : callable
        Must not change what others read.
    """

    def unchecked_call(item: One) -> Found:
        with unchecked():  # the setting is of a thread
            return call(item)

    pool: Any = ThreadPoolExecutor(max_workers=THREADS)
    try:
        yield from pool.map(unchecked_call, items)
    finally:
        pool.shutdown(wait=True, cancel_futures=True)
