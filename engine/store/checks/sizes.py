"""How much text a catalogue holds, known before any of it is read.

Repeated text packs a thousandfold, and what Python reads counts against no limit of DuckDB's: a small file could fill
the memory of whoever opens it. DuckDB's own statistics tell the longest text of a column, so that no text is unpacked
that is longer; then the lengths are added up.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from pathlib import Path

import duckdb

from engine.store.checks.structure import Outline, damaged
from engine.store.manifest import ATTACHED

MOST_LENGTH = 2**16
"""Bytes of a text in the catalogue: a card, a note, a label."""
MOST_LIST = 2**20
"""Bytes of a list in the catalogue, as text."""
MOST_ALL = 64 * 2**20
"""Bytes of all text in the catalogue. 438 tables have 0.4 MB of it, nearly all of it cards: about 0.8 KB a table."""
MOST_EVER = 2**30
"""Bytes of all text in the catalogue of a file of any size."""
_A_ROW = 16
"""Bytes that a row counts for, whatever it holds."""
_SHARED = frozenset({"column_name", "kind"})
"""Columns of `codes` that repeat a few texts, and are never read a row at a time."""


def check_sizes(con: duckdb.DuckDBPyConnection, path: Path, outline: Outline) -> None:
    """Refuse texts that are too long, or too much together; inside `check_catalog`'s tables only."""
    tables = [table for schema, table in outline.tables if schema == "catalog"]
    columns = _texts_of(con, tables)
    for table in columns:
        _check_longest(con, path, table)
    most = most_text(path.stat().st_size)
    if _bytes_of_all(con, columns) > most:
        raise damaged(path, "its catalogue", f"has more than {most // 2**20} MB of text")


def most_text(file_size: int) -> int:
    """Return the most bytes of text that the catalogue of a file may have: twice its own where it is large.

    A million moments in seconds are as many values of a column, and so a long list; but it is in the file, unpacked.
    """
    return max(MOST_ALL, min(2 * file_size, MOST_EVER))


def bytes_of_texts(con: duckdb.DuckDBPyConnection) -> int:
    """Return the bytes of all text in the catalogue of a release of ours that is attached."""
    tables = con.execute(
        f"SELECT table_name FROM duckdb_tables() WHERE database_name = '{ATTACHED}' AND schema_name = 'catalog'"
    ).fetchall()
    return _bytes_of_all(con, _texts_of(con, [table for (table,) in tables]))


def _texts_of(
    con: duckdb.DuckDBPyConnection, tables: Collection[str]
) -> dict[str, list[tuple[str, str]]]:
    """Names and types of the columns of text, by table."""
    rows = con.execute(
        "SELECT table_name, column_name, data_type FROM duckdb_columns() "
        f"WHERE database_name = '{ATTACHED}' AND schema_name = 'catalog' AND data_type LIKE 'VARCHAR%'"
    ).fetchall()
    columns: dict[str, list[tuple[str, str]]] = {}
    for table, name, type_ in rows:
        if table in tables:
            columns.setdefault(table, []).append((name, type_))
    return columns


def _bytes_of_all(
    con: duckdb.DuckDBPyConnection, columns: Mapping[str, list[tuple[str, str]]]
) -> int:
    return sum(_bytes_of(con, table, texts) for table, texts in sorted(columns.items()))


def _check_longest(con: duckdb.DuckDBPyConnection, path: Path, table: str) -> None:
    """Refuse a table whose statistics tell of a longer text."""
    longest = con.execute(
        "SELECT column_name, max(regexp_extract(stats::VARCHAR, 'max_string_length\\W+(\\d+)', 1)::BIGINT) "
        f"FROM pragma_storage_info('{ATTACHED}.catalog.{table}') WHERE segment_type = 'VARCHAR' "
        "AND stats::VARCHAR LIKE '%max_string_length%' GROUP BY column_name ORDER BY column_name"
    ).fetchall()
    for column, length in longest:
        if length > MOST_LENGTH:
            raise damaged(path, f"catalog.{table}: {column}", "is too long")


def _bytes_of(con: duckdb.DuckDBPyConnection, table: str, texts: list[tuple[str, str]]) -> int:
    """Return the bytes of a table's texts."""
    lengths = [
        f'coalesce(strlen("{name}"{"::VARCHAR" if type_ != "VARCHAR" else ""}), 0)'
        for name, type_ in texts
        if table != "codes" or name not in _SHARED
    ]
    total = con.execute(
        f"SELECT sum({' + '.join(lengths)} + {_A_ROW}) FROM {ATTACHED}.catalog.{table}"
    ).fetchall()[0][0]
    return int(total or 0)
