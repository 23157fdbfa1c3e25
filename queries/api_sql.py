"""A statement's answer in pages: run once, its rows kept as JSON, so that all pages are of the same run.

Takes processes that answer and a text; gives what the cache keeps. Rows and bytes are bounded: a page says that there
were more, a download refuses.
"""

from __future__ import annotations

import datetime
import json
import math
from collections.abc import Callable
from decimal import Decimal
from typing import Any

from engine.errors import QueryRefused
from queries.api_cache import Kept
from queries.api_errors import TOO_MANY_ROWS
from queries.api_guard import Limits
from queries.api_values import key_of
from queries.limited import LimitedProcesses

_READ: dict[str, Callable[[str], Any]] = {
    "DECIMAL": Decimal,
    "DATE": datetime.date.fromisoformat,
    "TIMESTAMP": datetime.datetime.fromisoformat,
    "DOUBLE": float,
    **dict.fromkeys(("BIGINT", "UBIGINT", "HUGEINT", "UHUGEINT"), int),
}
"""How to read what JSON holds as text only, by SQL type."""
PAGE_SIZES = (1, 1000)
"""Fewest and most rows of a page."""


def run(statements: LimitedProcesses, text: str, limits: Limits) -> Kept:
    """Run a statement; return its rows as JSON, and what is said of it.

    Raises
    ------
    QueryRefused, NotAnswerable
        As `queries.session.Release.sql`.
    """
    result = statements.sql(text)
    parts: list[bytes] = []
    size, is_cut = 0, False
    for row in result.head(limits.rows + 1):
        part = json.dumps([plain(v) for v in row], ensure_ascii=False, allow_nan=False).encode()
        size += len(part) + 41
        if len(parts) == limits.rows or size > limits.answer_bytes:
            is_cut = True
            break
        parts.append(part)
    said = {
        "columns": list(result.columns),
        "types": list(result.types),
        "table": None if result.table is None else list(result.table),
        "source": result.source,
        "warnings": [*result.warnings, *([_cut(len(parts))] if is_cut else [])],
        "n_rows": len(parts),
        "is_cut": is_cut,
    }
    return Kept(body=json.dumps(said, ensure_ascii=False).encode(), parts=tuple(parts))


def page_of(kept: Kept, page: int, size: int) -> bytes:
    """Return one page of a kept answer as JSON; pages count from 1.

    Raises
    ------
    QueryRefused
        There is no such page.
    """
    least, most = PAGE_SIZES
    if not least <= size <= most:
        raise QueryRefused(f"size {size}: a page may have {least} to {most:,} rows")
    n_pages = max(1, math.ceil(len(kept.parts) / size))
    if not 1 <= page <= n_pages:
        raise QueryRefused(f"page {page}: there are {n_pages:,}, from 1")
    rows = b",".join(kept.parts[(page - 1) * size : page * size])
    where = f',"page":{page},"size":{size},"n_pages":{n_pages},"rows":['.encode()
    return kept.body[:-1] + where + rows + b"]}"


def all_rows(kept: Kept) -> tuple[list[str], list[list[Any]]]:
    """Return names and rows of a kept answer, for a download.

    Raises
    ------
    QueryRefused
        It was cut.
    """
    said = json.loads(kept.body)
    if said["is_cut"]:
        raise QueryRefused(
            f"{TOO_MANY_ROWS}{_cut(len(kept.parts))} Aggregate, filter, or use `tablepack sql --output`."
        )
    read = [_READ.get(kind.partition("(")[0], str) for kind in said["types"]]
    rows = [
        [_typed(v, of) for v, of in zip(json.loads(part), read, strict=True)] for part in kept.parts
    ]
    return said["columns"], rows


def _typed(value: Any, read: Callable[[str], Any]) -> Any:
    """A value as its column has it; JSON has text for what it cannot hold."""
    if not isinstance(value, str):
        return value
    try:
        return read(value)
    except (ValueError, ArithmeticError):  # a date beyond Python's
        return value


def plain(value: Any) -> Any:
    """Return a value that JSON holds: what is neither text, number, truth nor list of them as text."""
    if value is None or isinstance(value, bool | str):
        return value
    if isinstance(value, int):
        return value if abs(value) < 2**53 else str(value)  # beyond, browsers round
    if isinstance(value, float):
        return value if math.isfinite(value) else str(value)
    if isinstance(value, list | tuple):
        return [plain(v) for v in value]
    if isinstance(value, dict):
        return {str(k): plain(v) for k, v in value.items()}
    return key_of(value)


def _cut(n: int) -> str:
    return f"Only the first {n:,} rows are given: the answer has more."
