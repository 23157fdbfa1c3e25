"""Reads the head of a CSV file: its delimiter and its column names.

Takes a file; gives names exactly as written. DuckDB's own sniffing is not used: it renames doubles,
guesses headers away and puts up with ragged rows.
"""

from __future__ import annotations

import csv
import gzip
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import IO

from engine.errors import DataError
from engine.source.relation import SAY_ENCODING

DELIMITERS = (",", "\t", ";", "|")
LONGEST_NAME = 131_072
"""Signs of a column's name; what is longer is no header."""
_SAMPLE_RECORDS = 30


@dataclass(frozen=True, kw_only=True, slots=True)
class CsvShape:
    """Delimiter and header of a CSV file."""

    delimiter: str
    names: tuple[str, ...]  # As written, a byte order mark taken off


def csv_shape(path: Path, *, delimiter: str | None = None, place: str = "") -> CsvShape:
    """Find the delimiter and the header of a CSV file.

    Returns: The delimiter with which the first records have as many fields as the header, and most of them.
    """
    place = place or f"source {path}"
    heads: list[tuple[bool, int, CsvShape]] = []
    for sign in (delimiter,) if delimiter else DELIMITERS:
        records = first_records(path, sign, place)
        if not records:
            raise DataError(f"{place}: the file is empty")
        names = tuple(records[0])
        is_even = all(len(record) == len(names) for record in records)
        heads.append(
            (is_even and len(names) > 1, len(names), CsvShape(delimiter=sign, names=names))
        )
    # max() keeps the first of equals: a file of one column is read with commas.
    return max(heads, key=lambda head: head[:2])[2]


def first_records(path: Path, delimiter: str, place: str) -> list[list[str]]:
    """First records that are not blank; what cannot be parsed ends the list (DuckDB will say so later)."""
    problem = ""
    records: list[list[str]] = []
    try:
        with _opened(path) as text:
            for record in islice(
                filter(None, csv.reader(text, delimiter=delimiter)), _SAMPLE_RECORDS
            ):
                records.append(record)
    except csv.Error:
        problem = "" if records else "its first line is not CSV"
    except UnicodeDecodeError:
        problem = f"is not UTF-8 text; {SAY_ENCODING}"
    except (OSError, EOFError):
        problem = "cannot be read"
    # The limit of Python's csv is one for the whole process, and other packages raise it.
    if records and any(len(name) > LONGEST_NAME for name in records[0]):
        problem = "its first line is not CSV"
    if problem:
        raise DataError(f"{place}: {problem}")
    return records


def _opened(path: Path) -> IO[str]:
    """Open as text, unzipping by suffix."""
    if path.suffix == ".gz":
        return gzip.open(path, "rt", encoding="utf-8-sig", newline="")
    return path.open(encoding="utf-8-sig", newline="")
