"""Workloads: the statements that analysts ask, from files and query logs, and the fewest tables that answer them.

Takes a file of statements, a reader of SQL, the data columns and the tables that the spec names anyway; never the
data. SQL is split by DuckDB (`SqlReader`), since a splitter of our own would differ from it in strings and comments.
Gives the tables to add, and a `Workload` that says which table answers which statement, and which statements cannot
be answered.

Which tables are needed: a table is locked to its margins, so a wider one shows the same counts up to its rounding
gap. It shows less well how exact they are, as noise is stated for the sum of its cells. Measured
(engine/decisions/016): from a table with one column more, noise intervals are 2 to 3 times as wide; from any wider
one, and for counts of a single column, 5 times or more. So a table of two columns or more is left out only if the
release has one with exactly one column more.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, Protocol

from engine.errors import SpecError, TablepackError
from engine.schema import ColumnSet
from engine.texts import parsed_json

KEYS = ("query", "sql", "statement", "query_text", "sql_text")
"""Fields of a log that may hold its statements, in order of preference; upper or lower case."""
MOST_BYTES = 64_000_000
"""Size of the largest file of statements that is read."""
SUFFIXES = (".sql", ".jsonl", ".ndjson", ".csv", ".txt", ".log")
_DELIMITERS = (",", ";", "\t")
NARROWEST_LEFT_OUT = 2
"""Tables of fewer columns are never left out."""
Place = tuple[str, int]
"""Name of a file, and the line in which a statement starts."""
LINES_SHOWN = 6
"""How many line numbers are listed for a combination."""
SETS_SHOWN = 8
"""How many combinations a sentence names."""


class SqlReader(Protocol):
    """Reads SQL for a spec by means of DuckDB, which a spec does not import."""

    def split(self, text: str) -> list[tuple[int, str]]:
        """Split a text into statements, each with the line in which it starts, counted from 1."""

    def columns(self, sql: str, types: Mapping[str, str], logical_name: str) -> ColumnSet:
        """Return the columns that a statement reads; raises a `TablepackError` if it cannot be answered."""

    def columns_of_each(
        self, statements: Sequence[str], types: Mapping[str, str], logical_name: str
    ) -> list[ColumnSet | TablepackError]:
        """Do the same for many statements; not reading the logical table is an error, too."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Statement:
    """One statement of a file."""

    line: int  # Where it starts, counted from 1
    text: str  # Empty: an entry of a log without a statement


def is_workload(path: str) -> bool:
    """Whether a file holds statements, by its suffix; others are JSON lists of columns."""
    return Path(path).suffix.lower() in SUFFIXES


def statements_of(path: Path, reader: SqlReader) -> list[Statement]:
    """Read all statements of a file, in its order."""
    try:
        if path.stat().st_size > MOST_BYTES:
            raise SpecError(
                f"{path} has more than {MOST_BYTES // 1_000_000} MB; remove repeated statements"
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
    """The statements of one entry of a log: usually one."""
    if entry is None or not _is_text(entry):
        return [Statement(line=line, text="")]
    return [Statement(line=line, text=one) for _, one in reader.split(entry)]


def _is_text(entry: str) -> bool:
    """Whether an entry is valid Unicode: JSON may contain lone surrogates."""
    try:
        entry.encode()
    except UnicodeEncodeError:
        return False
    return True


def _of_json_lines(text: str) -> Iterator[tuple[int, str | None]]:
    """Lines of a log with one object each; None if one holds no statement."""
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
    """Rows of a CSV log, whose statements may span several lines."""
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
            raise SpecError(f"{path}: line {line} is not valid CSV") from None
        return
    raise SpecError(f"{path} has no column of statements: its header has none of {', '.join(KEYS)}")


def merged(asked: Collection[ColumnSet], given: Collection[ColumnSet] = ()) -> set[ColumnSet]:
    """Return the tables to add so that each combination asked for has its own table, or one that covers it.

    Greedy set cover: first the combinations that nothing else could cover, then always the one that covers most of
    what is left (narrower ones first, then by name).
    """
    there = set(given)
    wanted = {columns for columns in asked if columns} - there
    possible = _covered_by(wanted | there)
    kept = wanted - possible
    open_ = wanted - kept - _covered_by(kept | there)
    while True:
        gains = {c: len(_answers(c) & open_) for c in wanted - kept}
        best = min(gains, key=lambda c: (-gains[c], len(c), c), default=())
        if gains.get(best, 0) < 2:
            return kept | open_
        kept.add(best)
        open_ -= _answers(best)


def _answers(columns: ColumnSet) -> set[ColumnSet]:
    """What a table answers about as well as a table of its own would: itself, and what it covers."""
    return {columns, *_covered_by([columns])}


def _covered_by(tables: Iterable[ColumnSet]) -> set[ColumnSet]:
    """What tables cover: combinations of one column less, but no single columns."""
    return {
        (*table[:at], *table[at + 1 :])
        for table in tables
        if len(table) > NARROWEST_LEFT_OUT
        for at in range(len(table))
    }


@dataclass(frozen=True, kw_only=True, slots=True)
class Question:
    """The columns that statements of a file read, with all places of these statements."""

    columns: ColumnSet  # Empty: as `SELECT count(*)`, which any table answers
    places: tuple[Place, ...]


@dataclass(frozen=True, kw_only=True, slots=True)
class Unanswered:
    """Statements that the release cannot answer, all for one reason."""

    reason: str
    places: tuple[Place, ...]


@dataclass(frozen=True, kw_only=True, slots=True)
class Asked:
    """Statements that read the same columns."""

    columns: ColumnSet
    places: tuple[Place, ...]
    # The narrowest tables with these columns; of several, the one with the fewest rows answers.
    tables: tuple[ColumnSet, ...]


@dataclass(frozen=True, kw_only=True, slots=True)
class Workload:
    """The statements of all files of a spec."""

    asked: tuple[Asked, ...]  # Most often asked first
    unanswered: tuple[Unanswered, ...]  # Most frequent first
    tables: tuple[ColumnSet, ...]  # Tables that only these statements ask for
    # Those of them whose columns a wider table also has: a table of their own is far more accurate.
    kept: tuple[ColumnSet, ...]
    heads: ClassVar[tuple[str, ...]] = ("columns read", "asked", "lines", "answered from")

    @property
    def left_out(self) -> tuple[ColumnSet, ...]:
        """Combinations without a table of their own."""
        return tuple(a.columns for a in self.asked if a.columns and a.columns not in a.tables)

    def rows_of(self, top: int | None = None) -> list[tuple[str, ...]]:
        """What is asked, as text under `heads`, most frequent first; the first ones, or all."""
        return [
            (
                ", ".join(one.columns) or "none",
                f"{len(one.places):,}",
                self._lines(one.places),
                " or ".join(", ".join(table) for table in one.tables) or "any table",
            )
            for one in self.asked[:top]
        ]

    def sentences(self, top: int | None = None) -> list[str]:
        """A summary in sentences, with the reasons for statements that cannot be answered (the first ones, or all)."""
        n_asked = sum(len(one.places) for one in self.asked)
        n_all = n_asked + sum(len(one.places) for one in self.unanswered)
        n, sets = len(self.tables), len(self.asked)
        out = [
            f"{n_asked:,} of {n_all:,} statement{_s(n_all)} can be answered; they read {sets:,} "
            f"combination{_s(sets)} of columns, for which {n:,} table{_s(n)} {'is' if n == 1 else 'are'} added"
        ]
        if self.left_out:
            out.append(
                f"no table of their own: {_sets(self.left_out)}; a table with one more column shows the same counts "
                "up to its rounding gap, with noise intervals two to three times as wide"
            )
        if self.kept:
            out.append(
                f"kept although a wider table has their columns: {_sets(self.kept)}; from that table, noise intervals "
                "would be at least five times as wide"
            )
        for one in self.unanswered[:top]:
            times = len(one.places)
            out.append(
                f"cannot answer {times:,} statement{_s(times)} (line {self._lines(one.places)}): {one.reason}"
            )
        hidden = 0 if top is None else len(self.unanswered) - top
        if hidden > 0:
            out.append(
                f"... and {hidden:,} more reason{_s(hidden)} why statements cannot be answered (--all)"
            )
        return out

    def as_dict(self) -> dict[str, Any]:
        """Plain values, for JSON."""
        return {
            "asked": [
                {
                    "columns": list(one.columns),
                    "times": len(one.places),
                    "lines": [list(place) for place in one.places],
                    "answered_from": [list(table) for table in one.tables],
                }
                for one in self.asked
            ],
            "unanswered": [
                {"reason": one.reason, "lines": [list(place) for place in one.places]}
                for one in self.unanswered
            ],
            "tables": [list(table) for table in self.tables],
            "left_out": [list(table) for table in self.left_out],
            "kept": [list(table) for table in self.kept],
        }

    def _lines(self, places: Sequence[Place]) -> str:
        """Line numbers, with the names of files if there are several."""
        listed = [*(one.places for one in self.asked), *(one.places for one in self.unanswered)]
        files = {file for held in listed for file, _ in held}
        named, last = [], ""
        for file, line in places[:LINES_SHOWN]:
            named.append(f"{line}" if len(files) == 1 or file == last else f"{file} {line}")
            last = file
        more = len(places) - LINES_SHOWN
        return ", ".join(named) + (f" and {more:,} more" if more > 0 else "")


def workload_of(
    questions: Sequence[Question],
    unanswered: Sequence[Unanswered],
    *,
    added: Collection[ColumnSet],
    tables: Collection[ColumnSet],
) -> Workload:
    """Say which of the tables answers what; questions about the same columns become one."""
    by_columns: dict[ColumnSet, list[Place]] = {}
    for question in questions:
        by_columns.setdefault(question.columns, []).extend(question.places)
    by_reason: dict[str, list[Place]] = {}
    for one in unanswered:
        by_reason.setdefault(one.reason, []).extend(one.places)
    holding: dict[str, set[ColumnSet]] = {}
    for table in tables:
        for name in table:
            holding.setdefault(name, set()).add(table)
    asked = [
        Asked(columns=columns, places=_by_line(places), tables=_narrowest(columns, holding))
        for columns, places in by_columns.items()
    ]
    return Workload(
        asked=tuple(sorted(asked, key=lambda one: (-len(one.places), one.columns))),
        unanswered=tuple(
            Unanswered(reason=reason, places=_by_line(places))
            for reason, places in sorted(by_reason.items(), key=lambda item: -len(item[1]))
        ),
        tables=_in_order(added),
        kept=_in_order(t for t in added if len(_covering(t, holding)) > 1),
    )


def _by_line(places: Sequence[Place]) -> tuple[Place, ...]:
    """Places by line, files in the order in which they were read."""
    files = list(dict.fromkeys(file for file, _ in places))
    return tuple(sorted(places, key=lambda place: (files.index(place[0]), place[1])))


def _covering(columns: ColumnSet, holding: Mapping[str, set[ColumnSet]]) -> set[ColumnSet]:
    """The tables that have all of some columns."""
    return set.intersection(*(holding[name] for name in columns)) if columns else set()


def _narrowest(columns: ColumnSet, holding: Mapping[str, set[ColumnSet]]) -> tuple[ColumnSet, ...]:
    """Those of them with the fewest columns."""
    covering = _covering(columns, holding)
    least = min(map(len, covering), default=0)
    return _in_order(table for table in covering if len(table) == least)


def _in_order(tables: Iterable[ColumnSet]) -> tuple[ColumnSet, ...]:
    """By width, then name."""
    return tuple(sorted(tables, key=lambda table: (len(table), table)))


def _sets(tables: Sequence[ColumnSet]) -> str:
    """Combinations in a sentence."""
    named = "; ".join(", ".join(table) for table in tables[:SETS_SHOWN])
    more = len(tables) - SETS_SHOWN
    return named + (f" and {more:,} more" if more > 0 else "")


def _s(n: int) -> str:
    """The ending of a plural."""
    return "" if n == 1 else "s"
