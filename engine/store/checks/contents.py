"""The released rows themselves against what the catalogue and the content hash say of them.

For `tablepack doctor`, which makes the content hash anew from the rows. A ranked column's list may hold values that no
row has, and its hash then cannot be made from the file: such columns are named, not passed over.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

import duckdb
import numpy as np
import pandas as pd

from engine.schema import (
    KIND_NULL,
    KIND_OTHER,
    RANKED_KINDS,
    Column,
    ColumnKind,
    ColumnSet,
    Resolution,
    Support,
    ValueType,
    quoted,
)
from engine.store.catalogue import KIND_WORDS, count_names, physical_name
from engine.store.checks.counts import check_counts
from engine.store.checks.structure import damaged
from engine.store.manifest import ATTACHED, rows_hash, support_hash


@dataclass(frozen=True, kw_only=True, slots=True)
class _Stored:
    """A column as the catalogue has it."""

    support: Support
    texts: pd.Index  # Its released values as text, None for a blank, in their order
    # Its list of values can be told from the file, so that hashes can be made from it.
    is_known: bool


def check_contents(con: duckdb.DuckDBPyConnection, path: Path) -> tuple[str, ...]:
    """Make the content hashes of columns and tables anew from the rows, and compare.

    Returns: Columns that have released values which no row has: hashes of their tables cannot be made from
    the file.
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
                path, f"table {physical_name(table_id)}", "is not what its content hash says"
            )
    return tuple(name for name, column in stored.items() if not column.is_known)


def _rows(
    con: duckdb.DuckDBPyConnection,
    path: Path,
    table_id: int,
    columns: ColumnSet,
    stored: Mapping[str, _Stored],
) -> tuple[Any, Any]:
    """Return a table's rows as positions in its columns' released values, and their numbers."""
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
    """Return the place of every text; where two values have one text, their hash is made from neither."""
    return (texts if texts.is_unique else texts.drop_duplicates()).get_indexer(given)


def _columns(con: duckdb.DuckDBPyConnection, path: Path) -> dict[str, _Stored]:
    """Return the columns that tables have, each checked against its content hash where that can be made."""
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
            raise damaged(path, f"column {name[:80]!r}", "is not what its content hash says")
    return out


def _stored(
    con: duckdb.DuckDBPyConnection, column: Column, sql_type: str, expected: str
) -> _Stored:
    """Return a column's released values as its content hash is made from."""
    rows = con.execute(
        f"SELECT value, CAST(value AS {sql_type}), kind, code, measured, n FROM {ATTACHED}.catalog.codes "
        "WHERE column_name = ? ORDER BY position",
        [column.name],
    ).fetchall()
    texts, typed, words, codes, measured, n = (
        map(list, zip(*rows, strict=True)) if rows else [[]] * 6
    )
    kind = np.array([KIND_WORDS.index(w) for w in words], dtype=np.uint8)
    values: tuple[Any, ...] | None = None
    is_known = len(set(texts)) == len(texts)
    if column.kind in RANKED_KINDS:
        own = [
            (code, value)
            for code, value, k in zip(codes, typed, kind.tolist(), strict=True)
            if k not in (KIND_NULL, KIND_OTHER)
        ]
        values = tuple(value for _, value in sorted(own))
        is_known = is_known and sorted(code for code, _ in own) == list(range(len(own)))
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
