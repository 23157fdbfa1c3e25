"""How much text a release may hold, kept by who writes it: what is longer, `engine.store.opening` would refuse to read.

Takes what is about to be written; refuses it in the words of the spec, before it is.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import duckdb

from engine.errors import DataError, SpecError, StoreError
from engine.schema import Column, ReleaseHeader, Support
from engine.store.card import GeneratorCard
from engine.store.checks.facts import MOST_SQL
from engine.store.checks.sizes import MOST_LENGTH, MOST_LIST, bytes_of_texts, most_text
from engine.store.manifest import MOST_NAME

_TOPIC = 100
"""Bytes left for the topic of a note."""
MOST_TABLES = 100_000
"""Tables of a release: the cards of more would fill the catalogue."""


def check_header(header: ReleaseHeader) -> None:
    """Refuse texts of a spec that no release can hold."""
    n_tables = len(header.tables)
    problems = [
        f"{place}: has {size(text):,} bytes, and a release holds at most {most:,} there"
        for place, text, most in _texts(header)
        if size(text) > most
    ]
    if n_tables > MOST_TABLES:
        problems.append(
            f"tables: {n_tables:,} of them, and a release holds at most {MOST_TABLES:,}"
        )
    if problems:
        raise SpecError(problems)


def size(text: str) -> int:
    """Return the bytes of a text."""
    return len(text.encode("utf-8", "surrogatepass"))


def _texts(header: ReleaseHeader) -> Iterator[tuple[str, str, int]]:
    """Place, text and most bytes of all that a header says."""
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
    """Entry and text of all that a column says of itself."""
    yield "", column.name
    yield ".label", column.label
    yield ".placeholder", column.placeholder or ""
    for spelling in column.nulls[:1]:
        yield ".nulls", spelling
    for value, label in column.labels:
        yield ".labels", value
        yield ".labels", label


def check_support(support: Support) -> None:
    """Refuse released values of a column that are longer than a text of a release."""
    texts = (value for value in support.values or () if isinstance(value, str))
    if any(size(text) > MOST_LENGTH for text in texts):
        raise DataError(
            f"column {support.column.name!r}: holds a text of more than {MOST_LENGTH:,} bytes that many share, and a "
            "release holds none; shorten it in the source, or leave the column out (drop = true)"
        )


def check_card(card: GeneratorCard) -> None:
    """Refuse a card that is longer than a text of a release."""
    length = size(card.to_json())
    if length > MOST_LENGTH:
        raise StoreError(
            f"table {', '.join(card.columns)}: its card would have {length:,} bytes, and a release holds at most "
            f"{MOST_LENGTH:,}; shorten what the spec says of it (accept_risk, release, names)"
        )


def check_room(con: duckdb.DuckDBPyConnection, path: Path, file_size: int) -> None:
    """Refuse a release whose catalogue has more text than one that can be opened."""
    total, most = bytes_of_texts(con), most_text(file_size)
    if total > most:
        raise StoreError(
            f"{path}: what the release says of itself (cards, notes, lists of values and their labels) would have "
            f"{total / 2**20:,.0f} MB, and a release that can be opened has at most {most // 2**20}: ask for fewer "
            "tables, or leave columns of many long texts out"
        )
