"""The released rows themselves, compared with the catalogue and the content hashes.

`check_counts` is for all who read or write all rows: a count may stand for any number of rows, so one that does not
match its table could fill a disk. `check_contents` is for `tablepack doctor`, which recomputes the content hashes from
the rows. A ranked column's list may contain values that no row has, and its hash then cannot be recomputed from the
file: such columns are reported, not ignored.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from operator import itemgetter
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import duckdb
import numpy as np

from engine.schema import (
    RANKED_KINDS,
    Column,
    ColumnKind,
    ColumnSet,
    Prefix,
    Resolution,
    Support,
    ValueType,
    quoted,
)
from engine.store.catalogue import HIDDEN_WORDS, count_names, kind_of, physical_name
from engine.store.checks.structure import damaged
from engine.store.decode import prefix_mark
from engine.store.manifest import ATTACHED, rows_hash, support_hash

if TYPE_CHECKING:  # slow to import, and only `check_contents` uses it
    import pandas as pd

_MANY = 100
"""Tables whose counts are summed by one statement."""


@dataclass(frozen=True, kw_only=True, slots=True)
class _Stored:
    """A column according to the catalogue."""

    support: Support
    texts: pd.Index  # Its released values as text in order, None for a missing value
    is_known: (
        bool  # Its list of values can be recovered from the file, so that hashes can be computed
    )


def check_counts(con: duckdb.DuckDBPyConnection, path: Path) -> None:
    """Check that every table's counts are positive and sum to its number of rows."""
    listed = con.execute(
        f"SELECT table_id, columns, rows FROM {ATTACHED}.catalog.tables ORDER BY table_id"
    ).fetchall()
    for start in range(0, len(listed), _MANY):
        some = listed[start : start + _MANY]
        counted = con.execute(" UNION ALL ".join(_sums(i, columns) for i, columns, _ in some))
        sums = {i: tuple(sums) for i, *sums in counted.fetchall()}
        for table_id, _, rows in some:
            total, least, n_blank = sums[table_id]
            if (total or 0) != rows or n_blank or (least is not None and least < 1):
                raise damaged(
                    path,
                    f"table {physical_name(table_id)}",
                    "does not have the number of rows that its card states",
                )


def _sums(table_id: int, columns: list[str]) -> str:
    """Return SQL for the sum, the minimum and the number of missing counts of a table."""
    count, measured = map(quoted, count_names(columns))
    return (
        f"SELECT {table_id}, sum({count}), min({count}), count_if({count} IS NULL OR {measured} IS NULL) "
        f"FROM {ATTACHED}.tables.{physical_name(table_id)}"
    )


def check_contents(con: duckdb.DuckDBPyConnection, path: Path) -> tuple[str, ...]:
    """Recompute the content hashes of columns and tables from the rows, and compare.

    Returns: Columns with released values that no row has: the hashes of their tables cannot be recomputed.
    """
    check_counts(con, path)
    stored = _columns(con, path)
    tables = con.execute(
        f"SELECT table_id, columns, content_hash FROM {ATTACHED}.catalog.tables ORDER BY table_id"
    ).fetchall()
    for table_id, names, expected in tables:
        columns = tuple(names)
        codes, n = _rows(con, path, table_id, columns, stored)
        if not all(stored[c].is_known for c in columns):
            continue
        supports = {c: stored[c].support for c in columns}
        if rows_hash(columns, codes, n, supports) != expected:
            raise damaged(
                path, f"table {physical_name(table_id)}", "does not match its content hash"
            )
    return tuple(name for name, column in stored.items() if not column.is_known)


def _rows(
    con: duckdb.DuckDBPyConnection,
    path: Path,
    table_id: int,
    columns: ColumnSet,
    stored: Mapping[str, _Stored],
) -> tuple[Any, Any]:
    """Return a table's rows as positions in its columns' released values, and their counts."""
    import pandas as pd

    physical = physical_name(table_id)
    texts = ", ".join(
        f"CAST({quoted(c)} AS VARCHAR) AS {quoted(f'c{j}')}" for j, c in enumerate(columns)
    )
    count, _ = count_names(columns)
    frame = con.execute(
        f"SELECT {texts}, {quoted(count)} AS n FROM {ATTACHED}.tables.{physical}"
    ).df()
    codes = np.empty((len(frame), len(columns)), dtype=np.int64)
    for j, name in enumerate(columns):
        given = frame[f"c{j}"].astype(object)
        plain = pd.Index(given.where(given.notna(), None), dtype=object)
        codes[:, j] = _places(stored[name].texts, plain)
    if (codes < 0).any():
        raise damaged(path, f"table {physical}", "has a value that is not in catalog.codes")
    return codes, frame["n"].to_numpy(np.int64)


def _places(texts: pd.Index, given: pd.Index) -> Any:
    """Return the position of every text; columns in which two values have the same text are not hashed."""
    return (texts if texts.is_unique else texts.drop_duplicates()).get_indexer(given)


def _columns(con: duckdb.DuckDBPyConnection, path: Path) -> dict[str, _Stored]:
    """Return the columns of the tables, each checked against its content hash if that can be recomputed."""
    listed = con.execute(
        "SELECT name, kind, value_type, sql_type, placeholder, resolution_base, resolution_exponent, "
        f"content_hash FROM {ATTACHED}.catalog.columns WHERE content_hash IS NOT NULL ORDER BY position"
    ).fetchall()
    out = {}
    for name, kind, value_type, sql_type, placeholder, base, exponent, expected in listed:
        column = Column(
            name=name,
            kind=cast(ColumnKind, kind),
            value_type=cast(ValueType, value_type),
            placeholder=placeholder,
            resolution=None if base is None else Resolution(base=base, exponent=exponent),
        )
        out[name] = stored = _stored(con, column, sql_type, expected)
        if not stored.is_known and column.kind not in RANKED_KINDS:
            raise damaged(path, f"column {name[:80]!r}", "does not match its content hash")
    return out


def _stored(
    con: duckdb.DuckDBPyConnection, column: Column, sql_type: str, expected: str
) -> _Stored:
    """Return a column's released values in the form from which its content hash is computed."""
    import pandas as pd

    rows = con.execute(
        f"SELECT value, CAST(value AS {sql_type}), kind, code, measured, n FROM {ATTACHED}.catalog.codes "
        "WHERE column_name = ? ORDER BY position",
        [column.name],
    ).fetchall()
    texts, typed, words, codes, measured, n = (
        map(list, zip(*rows, strict=True)) if rows else [[]] * 6
    )
    kind = np.array([kind_of(w) for w in words], dtype=np.uint8)
    values: dict[int, Any] | None = None
    is_known = len(set(texts)) == len(texts)
    if column.kind in RANKED_KINDS:
        mark = prefix_mark(v for v, word in zip(typed, words, strict=True) if word == "value")
        values = {
            code: Prefix(value.removesuffix(mark)) if word in HIDDEN_WORDS else value
            for code, value, word in sorted(
                zip(codes, typed, words, strict=True), key=itemgetter(0)
            )
            if word in ("value", *HIDDEN_WORDS)
        }
    support = Support(
        column=column,
        kind=kind,
        grid=np.array(codes, dtype=np.int64),
        n=np.array(n, dtype=np.int64),
        measured=np.array(measured, dtype=np.bool_),
        values=values,
    )
    is_known = is_known and support_hash(support) == expected
    return _Stored(support=support, texts=pd.Index(texts, dtype=object), is_known=is_known)
