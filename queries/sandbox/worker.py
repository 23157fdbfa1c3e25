"""The worker process of `queries.sandbox.processes`: it opens a release, gives up its rights, and answers statements.

In: path and limits as JSON, then one request per frame. Out: the release's record, then one answer or refusal per
frame, as pickled plain values. It ends when its input is closed.
"""

from __future__ import annotations

import json
import os
import pickle
import queue
import sys
import threading
from collections.abc import Iterator
from dataclasses import asdict
from importlib import import_module
from typing import Any

from engine.errors import (
    InternalError,
    NotAnswerable,
    StoreError,
    TablepackError,
    TooLarge,
    place_of,
)
from engine.schema import quoted
from engine.store import unused_name
from queries.release import Release, open_release
from queries.sandbox.limits import (
    ProcessLimits,
    allow_time,
    close_process,
    deny_writes,
    read_frame,
    write_frame,
)
from queries.sandbox.policy import StatementPolicy
from queries.sql import Oversight, Result

_ALL_TYPES = (
    "SELECT DATE '2020-01-01', TIMESTAMP '2020-01-01 00:00:00', TIME '00:00:00', INTERVAL 1 DAY, 1.5::DECIMAL(4, 1), "
    "uuid(), 'x'::BLOB, [1], {'a': 1}, MAP {'a': 1}, 1::HUGEINT, 1.5::DOUBLE, true, NULL"
)


def main() -> None:
    """Serve the parent process until it closes the pipe."""
    first = read_frame(sys.stdin.buffer)
    if first is None:
        return
    # Compiled code is loaded from where it was written at the installation: numba looks whether it may write there.
    import_module("queries.intervals.replays").load_fit()
    deny_writes()  # before DuckDB's threads are started
    start = json.loads(first)
    limits = ProcessLimits(**start["limits"])
    try:
        policy, requests = StatementPolicy(), _Requests()
        oversight = Oversight(look=policy.check_plan, is_stopped=requests.is_cancelled)
        release = _opened(start, limits, oversight)
        close_process(limits)
    except TablepackError as error:
        _send(_refused(error))
        return
    except Exception as error:  # noqa: BLE001  # sent to the parent, as nobody reads this process's output
        where = f"{type(error).__name__} in {place_of(error)}"
        _send(_refused(StoreError(f"the worker process did not start ({where})")))
        return
    _send(("open", asdict(release.record)))
    shown = _shown(release)
    for request in requests:
        allow_time(limits)
        _send(_answered(release, policy, request, limits, shown))


class _Requests:
    """Requests of the parent, read in a thread so that a running one can be cancelled."""

    def __init__(self) -> None:
        self._waiting: queue.SimpleQueue[dict[str, Any] | None] = queue.SimpleQueue()
        self._now = self._cancelled = 0

    def _read(self) -> None:
        while (frame := read_frame(sys.stdin.buffer)) is not None:
            request = json.loads(frame)
            if "stop" in request:
                self._cancelled = request["stop"]
            else:
                self._waiting.put(request)
        self._waiting.put(None)

    def __iter__(self) -> Iterator[dict[str, Any]]:
        threading.Thread(target=self._read, daemon=True).start()
        while (request := self._waiting.get()) is not None:
            self._now = request["number"]
            yield request

    def is_cancelled(self) -> bool:
        """Whether the current request was cancelled."""
        return 0 < self._now <= self._cancelled


def _opened(start: dict[str, Any], limits: ProcessLimits, oversight: Oversight) -> Release:
    """Open the release and load everything that is loaded lazily: no file can be opened afterwards."""
    release = open_release(
        start["path"],
        verify=start["verify"],
        threads=limits.threads,
        memory=f"{limits.memory_mb}MB",
        oversight=oversight,
        timeout_s=limits.start_s,  # not the limit of a statement: loading may be slow on a busy machine
    )
    import_module("numpy.ma")  # numpy imports it at its first check for masked arrays
    for text in (
        _ALL_TYPES,
        "SELECT count(*) FROM catalog.cells",
        "SELECT count(*) FROM pg_tables",
    ):
        _plain(release.sql(text), limits)
    widest = {len(table): table for table in release.tables}
    for table in widest.values():  # first use of intervals imports modules and loads compiled code
        c, data = quoted(table[0]), quoted(release.logical_name)
        text = f"SELECT {c}, count(*) AS {quoted(unused_name('people', table))} FROM {data} GROUP BY {c}"
        _plain(release.sql(text, intervals=True), limits)
    release.timeout_s = limits.seconds
    return release


def _answered(
    release: Release,
    policy: StatementPolicy,
    request: dict[str, Any],
    limits: ProcessLimits,
    shown: frozenset[str],
) -> tuple[Any, ...]:
    """Answer or refuse one request within the size limit, without revealing the release's path."""
    try:
        with release.cursor() as con:
            policy.check_text(request["sql"], con, shown=shown)
        result = release.sql(request["sql"], **request["how"])
        raw = pickle.dumps(_plain(result, limits), protocol=5)
        result.close()
    except TablepackError as error:
        return _refused(error)
    except MemoryError:
        return _refused(TooLarge(f"{TOO_MUCH}: {limits.process_mb:,} MB"))
    except Exception as error:  # noqa: BLE001  # a bug must not end the process
        return _refused(
            InternalError(f"{type(error).__name__} in {place_of(error)}; please report it")
        )
    if len(raw) > limits.answer_mb * 2**20:
        return _refused(TooLarge(f"{TOO_MUCH}: its answer is larger than {limits.answer_mb:,} MB"))
    return ("answer", raw)


def _shown(release: Release) -> frozenset[str]:
    """Names that SHOW may be used with: the release's own tables."""
    tables = (".".join(table) for table in release.tables)
    return frozenset(name.lower() for name in (release.logical_name, *tables))


TOO_MUCH = "The statement needs more memory than allowed"
"""Start of refusals for lack of memory."""


def _plain(result: Result, limits: ProcessLimits) -> dict[str, Any]:
    """A result as plain values, with marks for the rows that are sent."""
    rows = result.head(limits.rows + 1)  # one more shows that there are more
    marks = result.marks_of_first(limits.rows + 1)
    return {
        "rows": rows,
        "columns": result.columns,
        "types": result.types,
        "table": result.table,
        "source": result.source,
        "warnings": result.warnings,
        "statuses": {at: list(of) for at, of in marks.statuses.items()},
        "unknown": marks.unknown,
    }


def _refused(error: TablepackError) -> tuple[Any, ...]:
    """A refusal as plain values."""
    missing, nearest = (
        (error.missing, error.nearest) if isinstance(error, NotAnswerable) else ((), ())
    )
    return ("refused", type(error).__name__, str(error), missing, nearest)


def _send(reply: tuple[Any, ...]) -> None:
    """Send plain values to the parent process."""
    write_frame(sys.stdout.buffer, pickle.dumps(reply, protocol=5))


if __name__ == "__main__":
    try:
        main()
    except BrokenPipeError:  # the parent has ended
        os._exit(0)
