"""Results of SQL statements in pages: run once, with the rows stored as JSON, so that all pages belong to the same run.

Rows and bytes are limited: a page says that the result was cut, a download is refused.
"""

from __future__ import annotations

import datetime
import hashlib
import json
import math
import threading
from collections.abc import Callable
from decimal import Decimal
from typing import Any

from engine.errors import AnotherAnswer, QueryRefused, TooLarge
from engine.units import Unit
from queries.sandbox import LimitedProcesses
from queries.serve.cache import Reply
from queries.serve.limits import Limits
from queries.serve.values import key_of
from queries.sql import marked

_READERS: dict[str, Callable[[str], Any]] = {
    "DECIMAL": Decimal,
    "DATE": datetime.date.fromisoformat,
    "TIMESTAMP": datetime.datetime.fromisoformat,
    "TIME": datetime.time.fromisoformat,
    "DOUBLE": float,
    **dict.fromkeys(("BIGINT", "UBIGINT", "HUGEINT", "UHUGEINT"), int),
}
"""Parsers for values that JSON stores as text, by SQL type."""
PAGE_SIZES = (1, 1000)
"""Fewest and most rows of a page."""


def run(
    statements: LimitedProcesses,
    text: str,
    limits: Limits,
    entity: Unit,
    *,
    stop: threading.Event | None = None,
    intervals: bool = False,
) -> Reply:
    """Run a statement; return its rows as JSON, and a body that describes them."""
    result = statements.sql(text, stop=stop, intervals=intervals)
    parts: list[bytes] = []
    size, is_cut = 0, False
    head = result.head(limits.max_rows + 1)
    hidden = result.marks(len(head)).places()
    for row in marked(head, hidden, None):
        part = json.dumps([plain(v) for v in row], ensure_ascii=False, allow_nan=False).encode()
        size += len(part) + 1
        if len(parts) == limits.max_rows or size > limits.answer_bytes:
            is_cut = True
            break
        parts.append(part)
    marks = result.marks(len(parts))
    warnings = [*result.warnings, *([_cut(len(parts))] if is_cut else [])]
    body = {
        "columns": list(result.columns),
        "types": list(result.types),
        "table": None if result.table is None else list(result.table),
        "source": result.source,
        "warnings": [*marks.notes(entity, instead="missing"), *warnings],
        "footnotes": [*marks.notes(entity), *warnings],
        "n_rows": len(parts),
        "is_cut": is_cut,
    }
    rows = b"\n".join(parts)
    name = hashlib.blake2b(rows, digest_size=12).hexdigest()
    text = json.dumps({**body, "answer": name}, ensure_ascii=False)
    return Reply(
        body=text.encode(), rows=rows, n_rows=len(parts), name=name, hidden=tuple(marks.places())
    )


def page_of(reply: Reply, page: int, size: int, answer: str | None = None) -> bytes:
    """Return one page of a result as JSON; pages count from 1.

    answer: Identifies the result of an earlier page: a statement may have been run again in between, and without
        ORDER BY its rows may then come in another order.
    """
    if answer not in (None, reply.name):
        raise AnotherAnswer(
            "The result has changed since the earlier page: start again at page 1, and add ORDER BY"
        )
    least, most = PAGE_SIZES
    if not least <= size <= most:
        raise QueryRefused(f"size {size}: a page can have {least} to {most:,} rows")
    n_pages = max(1, math.ceil(reply.n_rows / size))
    if not 1 <= page <= n_pages:
        raise QueryRefused(f"page {page}: pages are numbered from 1 to {n_pages:,}")
    first = (page - 1) * size
    rows = b",".join(_lines(reply)[first : first + size])
    hidden = json.dumps([(i - first, at) for i, at in reply.hidden if first <= i < first + size])
    where = f',"page":{page},"size":{size},"n_pages":{n_pages},"not_released":{hidden},"rows":['
    return reply.body[:-1] + where.encode() + rows + b"]}"


def all_rows(
    reply: Reply, check_cancelled: Callable[[], None] = lambda: None
) -> tuple[list[str], list[list[Any]]]:
    """Return names and rows of a result, for a download."""
    body = json.loads(reply.body)
    if body["is_cut"]:
        raise TooLarge(
            f"The result has too many rows. {_cut(reply.n_rows)} Aggregate, filter, or use `tablepack sql --output`."
        )
    readers = [_READERS.get(kind.partition("(")[0], str) for kind in body["types"]]
    rows = []
    for part in _lines(reply):
        check_cancelled()
        values = zip(json.loads(part), readers, strict=True)
        rows.append([_typed(value, reader) for value, reader in values])
    return body["columns"], rows


def _lines(reply: Reply) -> list[bytes]:
    """The rows of a result as JSON, one line each, even for empty rows."""
    return reply.rows.split(b"\n") if reply.n_rows else []


def _typed(value: Any, read: Callable[[str], Any]) -> Any:
    """A value in its column's type; JSON stores some types as text."""
    if not isinstance(value, str):
        return value
    try:
        return read(value)
    except (ValueError, ArithmeticError):  # a date outside Python's range
        return value


def plain(value: Any) -> Any:
    """Return a JSON value; types that JSON lacks become text."""
    if value is None or isinstance(value, bool | str):
        return value
    if isinstance(value, int):
        return value if abs(value) < 2**53 else str(value)  # browsers round larger ones
    if isinstance(value, float):
        return value if math.isfinite(value) else str(value)
    if isinstance(value, list | tuple):
        return [plain(v) for v in value]
    if isinstance(value, dict):
        return {str(k): plain(v) for k, v in value.items()}
    return key_of(value)


def _cut(n: int) -> str:
    return f"Only the first {n:,} rows are returned; the result has more."
