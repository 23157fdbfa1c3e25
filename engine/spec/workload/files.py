"""Files of statements: SQL, and query logs as JSON lines, CSV or plain lines.

Takes a path; gives each statement with the line where it begins. SQL is taken apart by DuckDB (`SqlReader`), since a
splitter of our own would differ from it in strings and comments.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from engine.errors import SpecError, TablepackError
from engine.schema import ColumnSet
from engine.texts import parsed_json

KEYS = ("query", "sql", "statement", "query_text", "sql_text")
"""What a log calls its statements; the first that it has, in any case."""
MOST_BYTES = 64_000_000
"""Largest file of statements that is read."""
SUFFIXES = (".sql", ".jsonl", ".ndjson", ".csv", ".txt", ".log")
_DELIMITERS = (",", ";", "\t")


class SqlReader(Protocol):
    """What reads SQL for a spec: DuckDB, which a spec does not import."""

    def split(self, text: str) -> list[tuple[int, str]]:
        """Give the statements of a text, each with the line in which it begins, counted from 1."""

    def columns(self, sql: str, types: Mapping[str, str], logical_name: str) -> ColumnSet:
        """Give the columns that a statement reads; raises a `TablepackError` where it cannot be answered."""

    def columns_of_each(
        self, statements: Sequence[str], types: Mapping[str, str], logical_name: str
    ) -> list[ColumnSet | TablepackError]:
        """Give the same for many statements; a statement that does not read the logical table is an error, too."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Statement:
    """One statement of a file."""

    line: int  # Where it begins, counted from 1
    text: str  # Empty: an entry of a log that holds none


def is_workload(path: str) -> bool:
    """Whether a file of tables is one of statements, by its ending; others are JSON lists of columns."""
    return Path(path).suffix.lower() in SUFFIXES


def statements_of(path: Path, reader: SqlReader) -> list[Statement]:
    """Read all statements of a file, in its order."""
    try:
        if path.stat().st_size > MOST_BYTES:
            raise SpecError(
                f"{path} has more than {MOST_BYTES // 1_000_000} MB; keep the statements that differ"
            )
        text = path.read_text(encoding="utf-8-sig")
    except FileNotFoundError:
        raise SpecError(f"no file {path}") from None
    except OSError:
        raise SpecError(f"{path} cannot be read") from None
    except UnicodeDecodeError as error:
        raise SpecError(f"{path} is not UTF-8 (at byte {error.start + 1})") from None
    suffix = path.suffix.lower()
    entries: Iterable[tuple[int, str | None]]
    if suffix == ".sql":
        return [Statement(line=line, text=one) for line, one in reader.split(text)]
    if suffix == ".csv":
        entries = _of_csv(text, path)
    elif suffix in (".jsonl", ".ndjson") or text.lstrip().startswith("{"):
        entries = _of_json_lines(text)
    else:
        entries = ((line, written) for line, written in enumerate(text.split("\n"), start=1))
    return [one for line, entry in entries for one in _of_entry(line, entry, reader)]


def _of_entry(line: int, entry: str | None, reader: SqlReader) -> list[Statement]:
    """The statements of one entry of a log: one as a rule."""
    if entry is None or not _is_text(entry):
        return [Statement(line=line, text="")]
    return [Statement(line=line, text=one) for _, one in reader.split(entry)]


def _is_text(entry: str) -> bool:
    """Whether an entry can be written: JSON may hold halves of characters."""
    try:
        entry.encode()
    except UnicodeEncodeError:
        return False
    return True


def _of_json_lines(text: str) -> Iterator[tuple[int, str | None]]:
    """Lines of a log with an object each; None where one holds no statement."""
    for line, written in enumerate(text.split("\n"), start=1):
        if not written.strip():
            continue
        try:
            entry = parsed_json(written)
        except ValueError:
            entry = None
        held = entry if isinstance(entry, dict) else {}
        lower = {key.lower(): value for key, value in held.items()}
        yield line, next((lower[key] for key in KEYS if isinstance(lower.get(key), str)), None)


def _of_csv(text: str, path: Path) -> Iterator[tuple[int, str | None]]:
    """Rows of a CSV log, whose statements may span lines."""
    head = text.partition("\n")[0]
    for delimiter in _DELIMITERS:
        names = [name.strip().lower() for name in next(csv.reader([head], delimiter=delimiter), [])]
        at = next((names.index(key) for key in KEYS if key in names), None)
        if at is None:
            continue
        rows = csv.reader(io.StringIO(text, newline=""), delimiter=delimiter)
        line = 1
        try:
            for row in rows:
                if line > 1 and row:
                    yield line, row[at] if len(row) > at else None
                line = rows.line_num + 1
        except csv.Error:
            raise SpecError(f"{path}: line {line} is no line of CSV") from None
        return
    raise SpecError(
        f"{path} has no column of statements: its first line names none of {', '.join(KEYS)}"
    )
