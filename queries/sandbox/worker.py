"""The process that runs statements for `queries.sandbox.processes`: it opens a release, gives up its rights, answers.

In: the path and limits as JSON, then a request a frame. Out: what was opened, then an answer or a refusal a frame,
as plain pickled values. It ends when its input closes.
"""

from __future__ import annotations

import json
import os
import pickle
import sys
from typing import Any

from engine.errors import (
    InternalError,
    NotAnswerable,
    QueryRefused,
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
    asks_about_server,
    close_process,
    deny_writes,
    read_frame,
    write_frame,
)
from queries.sql import Result

_ALL_TYPES = (
    "SELECT DATE '2020-01-01', TIMESTAMP '2020-01-01 00:00:00', TIME '00:00:00', INTERVAL 1 DAY, 1.5::DECIMAL(4, 1), "
    "uuid(), 'x'::BLOB, [1], {'a': 1}, MAP {'a': 1}, 1::HUGEINT, 1.5::DOUBLE, true, NULL"
)


def main() -> None:
    """Serve one parent until it leaves."""
    first = read_frame(sys.stdin.buffer)
    if first is None:
        return
    deny_writes()  # before DuckDB's threads are started
    start = json.loads(first)
    limits = ProcessLimits(**start["limits"])
    try:
        release = _opened(start["path"], limits)
        close_process(limits)
    except TablepackError as error:
        _send(_refused(error))
        return
    except Exception as error:  # noqa: BLE001  # sent, since nobody reads what this process prints
        where = f"{type(error).__name__} in {place_of(error)}"
        _send(_refused(StoreError(f"the process for statements did not start ({where})")))
        return
    _send(("open", release.content_hash))
    while (request := read_frame(sys.stdin.buffer)) is not None:
        allow_time(limits)
        _send(_answered(release, json.loads(request), limits))


def _opened(path: str, limits: ProcessLimits) -> Release:
    """Open the release, and load all that is loaded late: nothing can be opened afterwards."""
    release = open_release(
        path,
        threads=limits.threads,
        memory=f"{limits.memory_mb}MB",
        timeout_s=limits.start_s,  # not that of a statement: a busy machine may be slow to load all this
    )
    for text in (
        _ALL_TYPES,
        "SELECT count(*) FROM catalog.cells",
        "SELECT count(*) FROM pg_tables",
    ):
        _plain(release.sql(text), limits)
    for table in release.tables[:1]:  # intervals load much at their first use
        c, data = quoted(table[0]), quoted(release.logical_name)
        text = f"SELECT {c}, count(*) AS {quoted(unused_name('people', table))} FROM {data} GROUP BY {c}"
        _plain(release.sql(text, intervals=True), limits)
    release.timeout_s = limits.seconds
    return release


def _answered(release: Release, request: dict[str, Any], limits: ProcessLimits) -> tuple[Any, ...]:
    """Answer or refuse one request; never more bytes than allowed, and nothing of where the release lies."""
    try:
        with release.cursor() as con:
            is_hostile = asks_about_server(request["sql"], con)
        if is_hostile:
            raise QueryRefused(
                "The statement asks about the server, not the release: its databases, settings or text made into SQL"
            )
        result = release.sql(request["sql"], **request["how"])
        raw = pickle.dumps(_plain(result, limits), protocol=5)
    except TablepackError as error:
        return _refused(error)
    except MemoryError:
        return _refused(TooLarge(f"{TOO_MUCH}: {limits.process_mb:,} MB"))
    except Exception as error:  # noqa: BLE001  # a bug of ours must not end the process
        return _refused(
            InternalError(f"{type(error).__name__} in {place_of(error)}; please report it")
        )
    if len(raw) > limits.answer_mb * 2**20:
        return _refused(TooLarge(f"{TOO_MUCH}: its answer is larger than {limits.answer_mb:,} MB"))
    return ("answer", raw)


TOO_MUCH = "The statement needs more memory than a query may use"
"""How a refusal for want of memory begins."""


def _plain(result: Result, limits: ProcessLimits) -> dict[str, Any]:
    """A result in plain values."""
    return {
        "rows": result.head(limits.rows + 1),  # one more: there is more
        "columns": result.columns,
        "types": result.types,
        "table": result.table,
        "noise_sd": result.noise_sd,
        "filled_share": result.filled_share,
        "source": result.source,
        "warnings": result.warnings,
    }


def _refused(error: TablepackError) -> tuple[Any, ...]:
    """A refusal in plain values."""
    missing, nearest = (
        (error.missing, error.nearest) if isinstance(error, NotAnswerable) else ((), ())
    )
    return ("refused", type(error).__name__, str(error), missing, nearest)


def _send(reply: tuple[Any, ...]) -> None:
    """Send plain values to the parent."""
    write_frame(sys.stdout.buffer, pickle.dumps(reply, protocol=5))


if __name__ == "__main__":
    try:
        main()
    except BrokenPipeError:  # the parent has left
        os._exit(0)
