"""The process that runs statements for `queries.limited`: opens a release, closes itself in, answers over its pipe.

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
from engine.store_catalog import unused_name
from queries.sandbox import (
    OPENING_S,
    ProcessLimits,
    allow_time,
    close_process,
    deny_writes,
    read_frame,
    tells_of_server,
    write_frame,
)
from queries.session import Release, open_release

_ALL_TYPES = (
    "SELECT DATE '2020-01-01', TIMESTAMP '2020-01-01 00:00:00', TIME '00:00:00', INTERVAL 1 DAY, 1.5::DECIMAL(4, 1), "
    "uuid(), 'x'::BLOB, [1], {'a': 1}, MAP {'a': 1}, 1::HUGEINT, 1.5::DOUBLE, true, NULL"
)


def main() -> None:
    """Serve one parent until it leaves."""
    told = read_frame(sys.stdin.buffer)
    if told is None:
        return
    deny_writes()  # before DuckDB's threads are started
    start = json.loads(told)
    limits = ProcessLimits(**start["limits"])
    try:
        release = _opened(start["path"], limits)
        close_process(limits)
    except TablepackError as error:
        _send(_refused(error))
        return
    except Exception as error:  # noqa: BLE001  # said, for nobody reads what a process without a screen prints
        where = f"{type(error).__name__} in {place_of(error)}"
        _send(_refused(StoreError(f"the process for statements did not start ({where})")))
        return
    _send(("open", release.content_hash))
    while (asked := read_frame(sys.stdin.buffer)) is not None:
        allow_time(limits)
        _send(_answered(release, json.loads(asked), limits))


def _opened(path: str, limits: ProcessLimits) -> Release:
    """Open the release, and load all that is loaded late: nothing can be opened afterwards."""
    release = open_release(
        path,
        threads=limits.threads,
        memory=f"{limits.memory_mb}MB",
        timeout_s=OPENING_S,  # not that of a statement: a busy machine may be slow to load all this
    )
    for text in (
        _ALL_TYPES,
        "SELECT count(*) FROM catalog.cells",
        "SELECT count(*) FROM pg_tables",
    ):
        _said(release.sql(text), limits)
    for table in release.tables[
        :1
    ]:  # what says how sure an answer is loads much, at its first question
        c, data = quoted(table[0]), quoted(release.logical_name)
        text = f"SELECT {c}, count(*) AS {quoted(unused_name('people', table))} FROM {data} GROUP BY {c}"
        _said(release.sql(text, intervals=True), limits)
    release.timeout_s = limits.seconds
    return release


def _answered(release: Release, asked: dict[str, Any], limits: ProcessLimits) -> tuple[Any, ...]:
    """Answer or refuse one request; never more bytes than allowed, and nothing of where the release lies."""
    try:
        with release.cursor() as con:
            is_hostile = tells_of_server(asked["sql"], con)
        if is_hostile:
            raise QueryRefused(
                "The statement asks about the server, not the release: its databases, settings or text made into SQL"
            )
        said = _said(release.sql(asked["sql"], **asked["how"]), limits)
        raw = pickle.dumps(said, protocol=5)
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


def _said(result: Any, limits: ProcessLimits) -> dict[str, Any]:
    """What there is to say of a result, in plain values."""
    return {
        "rows": result.head(limits.rows + 1),  # one more tells that there is more
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


def _send(said: tuple[Any, ...]) -> None:
    """Send plain values to the parent."""
    write_frame(sys.stdout.buffer, pickle.dumps(said, protocol=5))


if __name__ == "__main__":
    try:
        main()
    except BrokenPipeError:  # the parent has left
        os._exit(0)
