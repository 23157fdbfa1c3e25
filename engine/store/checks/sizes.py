"""How much text a release may hold: checked by the writer before it writes, and by the reader before it reads.

Repeated text compresses a thousandfold, and what Python reads does not count against DuckDB's memory limit: a small
file could exhaust the memory of whoever opens it. DuckDB's own statistics give the longest text of a column, so no
longer text is ever decompressed; then the lengths are added up. The writer refuses in terms of the spec what the
reader would refuse.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterator, Mapping
from pathlib import Path

import duckdb

from engine.errors import DataError, SpecError, StoreError
from engine.schema import Column, ReleaseHeader, Support
from engine.store.card import GeneratorCard
from engine.store.checks.structure import Outline, damaged
from engine.store.manifest import ATTACHED, MOST_NAME

MOST_LENGTH = 2**16
"""Bytes of a text in the catalogue: a card, a note, a label."""
MOST_LIST = 2**20
"""Bytes of a list in the catalogue, as text."""
MOST_SQL = 300
"""Bytes of the name of the logical table."""
MOST_ALL = 64 * 2**20
"""Bytes of all text in the catalogue. 438 tables have 0.4 MB, nearly all of it in cards: about 0.8 KB a table."""
MOST_EVER = 2**30
"""Bytes of all text in the catalogue of a file of any size."""
_MOST_TABLES = 100_000
"""Tables that a build writes: the cards of more would fill the catalogue."""
_TOPIC = 100
"""Bytes left for the topic of a note."""
_A_ROW = 16
"""Bytes counted for every row, whatever it holds."""
_SHARED = frozenset({"column_name", "kind"})
"""Columns of `codes` that repeat a few texts, and are never read row by row."""


def check_sizes(con: duckdb.DuckDBPyConnection, path: Path, outline: Outline) -> None:
    """Refuse texts that are too long, or too much in total; only in tables that `check_catalog` has accepted."""
    tables = [table for schema, table in outline.tables if schema == "catalog"]
    columns = _texts_of(con, tables)
    for table in columns:
        _check_longest(con, path, table)
    most = most_text(path.stat().st_size)
    if _bytes_of_all(con, columns) > most:
        raise damaged(path, "its catalogue", f"has more than {most // 2**20} MB of text")


def most_text(file_size: int) -> int:
    """Return the most bytes of text that the catalogue of a file may have: twice the size of a large file.

    A million distinct timestamps are a million released values of a column, stored uncompressed in the file.
    """
    return max(MOST_ALL, min(2 * file_size, MOST_EVER))


def bytes_of_texts(con: duckdb.DuckDBPyConnection) -> int:
    """Return the bytes of all text in the catalogue of an attached release that this process wrote."""
    tables = con.execute(
        f"SELECT table_name FROM duckdb_tables() WHERE database_name = '{ATTACHED}' AND schema_name = 'catalog'"
    ).fetchall()
    return _bytes_of_all(con, _texts_of(con, [table for (table,) in tables]))


def _texts_of(
    con: duckdb.DuckDBPyConnection, tables: Collection[str]
) -> dict[str, list[tuple[str, str]]]:
    """Names and types of the text columns, by table."""
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
    """Refuse a table whose statistics show a text that is too long."""
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


def check_header(header: ReleaseHeader) -> None:
    """Refuse texts of a spec that are too long for any release."""
    n_tables = len(header.tables)
    problems = [
        f"{place}: has {size(text):,} bytes; a release can store at most {most:,} there"
        for place, text, most in _texts(header)
        if size(text) > most
    ]
    if n_tables > _MOST_TABLES:
        problems.append(
            f"tables: {n_tables:,} requested; a release can have at most {_MOST_TABLES:,}"
        )
    if problems:
        raise SpecError(problems)


def size(text: str) -> int:
    """Return the bytes of a text."""
    return len(text.encode("utf-8", "surrogatepass"))


def _texts(header: ReleaseHeader) -> Iterator[tuple[str, str, int]]:
    """Spec entry, text and most bytes of every text in a header."""
    yield "release.title", header.title, MOST_LENGTH
    yield "release.name", header.logical_name, MOST_SQL
    yield "release.vintage", header.vintage, MOST_NAME
    for note in header.notes:
        yield "release.notes", note, MOST_LENGTH - _TOPIC
    yield "privacy", json.dumps(header.privacy, sort_keys=True), MOST_LENGTH
    for column in header.columns:
        for entry, text in _of_column(column):
            most = MOST_NAME if entry == "" else MOST_LENGTH
            yield f"columns.{column.name[:100]}{entry}", text, most
        listed = (column.universe.values if column.universe else None) or ()
        yield f"columns.{column.name[:100]}.universe", "".join(map(str, listed)), MOST_LIST // 2


def _of_column(column: Column) -> Iterator[tuple[str, str]]:
    """Spec entry and text of every text of a column."""
    yield "", column.name
    yield ".label", column.label
    yield ".placeholder", column.placeholder or ""
    for spelling in column.spellings[:1]:
        yield ".nulls", spelling
    for value, label in column.labels:
        yield ".labels", value
        yield ".labels", label


def check_support(support: Support) -> None:
    """Refuse released values of a column that are too long for a release."""
    texts = (value for value in (support.values or {}).values() if isinstance(value, str))
    if any(size(text) > MOST_LENGTH for text in texts):
        raise DataError(
            f"column {support.column.name!r}: a value common enough to be released has more than {MOST_LENGTH:,} "
            "bytes, the most that a release can store; shorten it in the source, or leave the column out (drop = true)"
        )


def check_card(card: GeneratorCard) -> None:
    """Refuse a card that is too long for a release."""
    length = size(card.to_json())
    if length > MOST_LENGTH:
        raise StoreError(
            f"table {', '.join(card.columns)}: its card would have {length:,} bytes; a release can store at most "
            f"{MOST_LENGTH:,}: shorten its texts in the spec (accept_risk, release, names)"
        )


def check_total_text(con: duckdb.DuckDBPyConnection, path: Path, file_size: int) -> None:
    """Refuse a release whose catalogue has so much text that it could not be opened."""
    total, most = bytes_of_texts(con), most_text(file_size)
    if total > most:
        raise StoreError(
            f"{path}: the catalogue (cards, notes, values and their labels) would have {total / 2**20:,.0f} MB of "
            f"text; at most {most // 2**20} MB can be opened: release fewer tables, or leave out columns with many "
            "long texts"
        )
