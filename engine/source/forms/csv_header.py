"""Reads the head of a CSV file: its delimiter and its column names.

Delimiter, decimal mark and header are chosen together: that reading wins in which all sampled rows agree with the
header, the names stand on the first line, and commas between digits are decimal marks rather than delimiters. DuckDB's
own sniffing is not used: it renames doubles, guesses headers away and puts up with ragged rows.
"""

from __future__ import annotations

import csv
import gzip
import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import IO

from engine.errors import DataError
from engine.source.relation import SAY_ENCODING

DELIMITERS = (",", "\t", ";", "|")
LONGEST_NAME = 131_072
"""Signs of a column's name; what is longer is no header."""
_SAMPLE_RECORDS, SAMPLE_LINES = 200, 4_000
_NUMBER = re.compile(r"[-+]?[\d.,'\s\u2019]*\d[\d.,'\s\u2019]*%?")
_YEAR = re.compile(r"(19|20)\d\d")


@dataclass(frozen=True, kw_only=True, slots=True)
class CsvShape:
    """Delimiter and header of a CSV file."""

    delimiter: str
    names: tuple[str, ...]  # As written, a byte order mark taken off
    has_tail: bool = False  # Every line ends in a delimiter, behind which there is nothing


@dataclass(frozen=True, kw_only=True, slots=True)
class Reading:
    """One way to read the first records of a text."""

    delimiter: str
    names: tuple[str, ...]
    skip: int  # Lines above the names, blank ones included
    has_tail: bool  # Every record below the names has one more cell, which is empty
    is_first: bool  # The names are the first record
    is_even: bool  # Every record below the names has as many cells as there are names
    is_named: bool  # The names stand on the first line, or are no values of their columns
    is_decimal: bool  # The delimiter occurs between digits only, as a decimal comma does

    @property
    def rank(self) -> tuple[bool | int, ...]:
        """Larger is likelier."""
        agrees = self.is_even and self.is_named and len(self.names) > 1
        no_decimals = agrees and not self.is_decimal
        return agrees, self.is_first, no_decimals, len(self.names), self.is_even


def likeliest_reading(
    lines: Sequence[str], *, delimiter: str | None = None, may_skip: bool = False
) -> Reading | None:
    """Choose delimiter and header together; None where there is no record.

    may_skip: Lines above the names (a title, notes) may be left out, where what follows is plainly a header: with
        a value of a row among its names, a text is never read so.
    """
    readings = [
        reading
        for sign in ((delimiter,) if delimiter else DELIMITERS)
        for reading in _readings(lines, sign, may_skip=may_skip)
    ]
    return max(readings, key=lambda reading: reading.rank, default=None)  # the first of equals


def _readings(lines: Sequence[str], delimiter: str, *, may_skip: bool) -> list[Reading]:
    """The text read with one delimiter: from its first record, and from the first record of the usual width."""
    records, above, before = [], [], 0
    reader = csv.reader(lines, delimiter=delimiter)
    try:
        for record in reader:
            if record:
                records.append(record)
                above.append(before)
            before = reader.line_num
            if len(records) >= _SAMPLE_RECORDS:
                break
        else:
            if len(lines) >= SAMPLE_LINES and len(records) > 1:
                records.pop()  # it may be cut
    except csv.Error:
        pass
    if not records:
        return []
    widths = [len(record) for record in records]
    starts = {0}
    if may_skip:
        usual = Counter(widths[len(widths) // 2 :]).most_common(1)[0][0]
        filled = [sum(bool(cell.strip()) for cell in record) for record in records]
        fit = (i for i, n in enumerate(filled) if widths[i] == usual and n >= usual / 2)
        starts.add(next(fit, 0))
    return [
        Reading(
            delimiter=delimiter,
            names=tuple(names),
            skip=above[start],
            has_tail=has_tail,
            is_first=start == 0,
            is_even=all(width == len(names) + has_tail for width in widths[start + 1 :]),
            is_named=start == 0 or _is_header(records[start], records[start + 1 :]),
            is_decimal=_is_decimal(lines[above[start] :], delimiter),
        )
        for start in sorted(starts)
        for names, has_tail in [_names(records[start], records[start + 1 :])]
    ]


def _names(header: list[str], rows: Sequence[Sequence[str]]) -> tuple[list[str], bool]:
    """The names in a record, and whether the rows below have one more cell each, which is empty."""
    names = header[:-1] if len(header) > 1 and not header[-1].strip() else header
    is_longer = (
        len(header) > 1
        and bool(rows)
        and all(len(row) == len(names) + 1 and not row[-1] for row in rows)
    )
    return (names, True) if is_longer else (header, False)


def _is_header(names: Sequence[str], rows: Sequence[Sequence[str]]) -> bool:
    """Whether a record below other lines is one of names: unlike its columns, where these are alike."""
    evidence = False
    for name, *cells in zip(names, *rows, strict=False):
        named = name.strip()
        filled = [cell.strip() for cell in cells if cell.strip()]
        if named in filled or (_NUMBER.fullmatch(named) and not _YEAR.fullmatch(named)):
            return False
        numeric = bool(filled) and all(_NUMBER.fullmatch(cell) for cell in filled)
        evidence |= not _YEAR.fullmatch(named) and (numeric or len(set(filled)) < len(filled))
    return evidence


def _is_decimal(lines: Sequence[str], sign: str) -> bool:
    """Whether a sign stands between digits, wherever it stands below the first line."""
    below = "".join(lines[1 : _SAMPLE_RECORDS + 1])
    return sign in below and sign == "," and not re.search(r"(?<!\d),|,(?!\d)", below)


def csv_shape(
    path: Path, *, delimiter: str | None = None, place: str = "", by_header: bool = False
) -> CsvShape:
    """Find the delimiter and the header of a CSV file.

    by_header: By its first line alone, whatever the rows hold (mode dp).
    """
    place = place or f"source {path}"
    problem, reading, lines = "", None, list[str]()
    try:
        with _opened(path) as text:
            lines = list(islice(text, 1 if by_header else SAMPLE_LINES))
        reading = likeliest_reading(lines, delimiter=delimiter)
    except UnicodeDecodeError:
        problem = f"is not UTF-8 text; {SAY_ENCODING}"
    except (OSError, EOFError):
        problem = "cannot be read"
    if reading is None:
        problem = problem or (
            "its first line is not CSV" if any(map(str.strip, lines)) else "the file is empty"
        )
    # The limit of Python's csv is one for the whole process, and other packages raise it.
    elif any(len(name) > LONGEST_NAME for name in reading.names):
        problem = "its first line is not CSV"
    if reading is None or problem:
        raise DataError(f"{place}: {problem}")
    return CsvShape(delimiter=reading.delimiter, names=reading.names, has_tail=reading.has_tail)


def _opened(path: Path) -> IO[str]:
    """Open as text, unzipping by suffix."""
    if path.suffix == ".gz":
        return gzip.open(path, "rt", encoding="utf-8-sig", newline="")
    return path.open(encoding="utf-8-sig", newline="")
