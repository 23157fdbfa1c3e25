"""Refusals: turn DuckDB's errors into ours, with fields and the nearest allowed alternative.

For an unknown column, similar columns are named; for an unknown table, the logical table, similar tables and, if its
name consists of columns of the release, the spec entry that would add it. Only this module reads DuckDB's messages.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field

import duckdb

from engine.errors import DuckDBFailed, NotAnswerable, QueryRefused, TooLarge
from engine.schema import Column, ColumnSet, column_set, literal, quoted
from engine.store import table_name
from queries.sql.router import uncovered
from queries.sql.views import LACKING

_HINTS = re.compile(r"\n\nLINE |\n\nPossible solutions|, due to the following Python|\nUse SET ")
"""Start of hints in DuckDB's messages that do not apply here."""
_PARAMETERS = "Values were not provided for the following parameters"
_NO_TIME_ZONES = "'pytz'"
_CTRL_C = "Query interrupted"
_UNKNOWN_COLUMN = re.compile(
    r'column "(.*?)" (?:in \w+ list )?not found|does not have a column named "(.*?)"\n',
    re.IGNORECASE,
)
_NEAR = re.compile(
    r'syntax error at or near "(.*?)"|Function with name "?(.*?)"? does not exist|cannot contain (DEFAULT) clause'
)
_PLAIN = re.compile(r"[A-Za-z_\u0080-\U0010ffff][\w$\u0080-\U0010ffff]*")
_EXCERPT = re.compile(r"\nLINE \d+: (.*)\n( *)\^")
_LAST_WORD = re.compile(r"\b([^\W\d]\w*)\W*\Z")
_UNKNOWN_TABLE = re.compile(r'Table with name "?(.*?)"? does not exist')


@dataclass(frozen=True, kw_only=True, slots=True)
class Vocabulary:
    """The names that a statement can use."""

    types: Mapping[str, str]  # SQL types of the columns of the logical table
    logical_name: str = "data"
    tables: tuple[ColumnSet, ...] = ()  # The released tables
    of_entities: str = ""  # How the protected entities are counted, whose names are never released
    # By column of texts with hidden values, what a cast should know of them.
    hidden: Mapping[str, str] = field(default_factory=dict)
    # Columns that have a resolution.
    coarse: Mapping[str, Column] = field(default_factory=dict)

    @property
    def columns(self) -> tuple[str, ...]:
        """Columns of the logical table."""
        return tuple(self.types)


NO_NAMES = Vocabulary(types={})
"""For statements whose names are unknown."""


class LackingColumn(QueryRefused):
    """A statement that was run over a table read a column that this table lacks."""

    def __init__(self, message: str, *, column: str) -> None:
        self.column = column
        super().__init__(message)


def refusal(error: duckdb.Error, known: Vocabulary, statement: str = "") -> QueryRefused:
    """Return the refusal for a DuckDB error, with similar names if a name is unknown."""
    if isinstance(error, duckdb.InternalException | duckdb.FatalException):
        # Its text contains the path of the installation, and may contain anything else.
        return DuckDBFailed(
            "DuckDB failed with an internal error: rewrite the statement, and open the release again"
        )
    text = _HINTS.split(str(error))[0]
    _, is_lacking, lacking = str(error).partition(LACKING)
    if is_lacking:
        return LackingColumn(text, column=lacking)
    if _NO_TIME_ZONES in str(error):
        return QueryRefused(
            "TIMESTAMP WITH TIME ZONE is not supported in results: cast it, as in now()::TIMESTAMP"
        )
    column = _UNKNOWN_COLUMN.search(text)
    if column and known.columns:
        name = column[1] or column[2] or ""
        is_quoted = f'"{name}"' in str(error)[len(text) :]
        if re.search(rf"\bdistinct\b\W*{re.escape(name)}\b", statement, re.IGNORECASE):
            words = f"The release has no column {name!r}. {known.of_entities}".rstrip()
            return NotAnswerable(words, missing=(name,))
        return unknown_column(name, known.columns, statement, is_quoted=is_quoted)
    table = _UNKNOWN_TABLE.search(text)
    if table and known.columns:
        return _unknown_table(table[1], known)
    if isinstance(error, duckdb.PermissionException | duckdb.IOException | duckdb.HTTPException):
        return QueryRefused(f"The statement accesses something outside the release: {text}")
    if isinstance(error, duckdb.OutOfMemoryException):
        # DuckDB's text states the memory use and limit of the process, which untrusted users must not see.
        return TooLarge(
            "The statement needs more memory than a query may use: request fewer groups or rows"
        )
    if _PARAMETERS in text:
        return QueryRefused("The statement has parameters ($1, ?): replace them by values")
    if isinstance(error, duckdb.ConversionException):
        named = [
            words
            for c, words in known.hidden.items()
            if re.search(rf"\b{re.escape(c)}\b", statement, re.IGNORECASE)
        ]
        return QueryRefused(". ".join([text.rstrip("."), *named]))
    near = _NEAR.search(text)
    word = next(filter(None, near.groups()), "") if near else ""
    advice = (
        _told(_split(statement, known.columns))
        or _quoting(word, known.columns)
        or _quoting(_before(error), known.columns)
    )
    return QueryRefused(f"{text.rstrip('.')}.{advice}" if advice else text)


def is_ctrl_c(error: RuntimeError) -> bool:
    """Return whether an error is how DuckDB reports Ctrl-C."""
    return str(error) == _CTRL_C


def unknown_column(
    name: str, columns: Sequence[str], statement: str = "", *, is_quoted: bool = False
) -> NotAnswerable:
    """Return the refusal of an unknown column; in a statement, one without quotes or with the wrong ones is likely."""
    split = [
        column for column in _split(statement, columns) if name.casefold() in column.casefold()
    ]
    is_bare = bool(statement) and not is_quoted
    advice = _told(split) or _quoting(name, columns) if is_bare else ""
    if advice:
        return NotAnswerable(f"The release has no column {name!r}.{advice}", missing=(name,))
    near = near_names(name, columns)
    hint = f"Near: {', '.join(near)}." if near else f"Columns: {', '.join(columns[:40])}."
    if is_quoted:
        hint += f" Text needs single quotes: {literal(name)}."
    return NotAnswerable(f"The release has no column {name!r}. {hint}", missing=(name,))


def _quoting(word: str, columns: Sequence[str]) -> str:
    """Advise to quote columns whose names SQL splits (`marital-status`) or reserves (`order`)."""
    meant = [
        column
        for column in columns
        if word.casefold() in re.split(r"\W+", column.casefold())
        and (not _PLAIN.fullmatch(column) or word.casefold() == column.casefold())
    ]
    if not word or not meant:
        return ""
    return _told(meant)


def _before(error: duckdb.Error) -> str:
    """The word before the place of a syntax error: `at` in `SELECT at, sex`."""
    is_syntax = isinstance(error, duckdb.ParserException)
    excerpt = _EXCERPT.search(str(error)) if is_syntax else None
    word = _LAST_WORD.search(excerpt[1][: len(excerpt[2]) - len("LINE 1: ")]) if excerpt else None
    return word[1] if word else ""


def _split(statement: str, columns: Sequence[str]) -> list[str]:
    """Columns in a statement without the quotes that their names need."""
    folded = statement.casefold()
    return [
        column
        for column in columns
        if not _PLAIN.fullmatch(column)
        and re.search(rf'(?<![\w"]){re.escape(column.casefold())}(?![\w"])', folded)
    ]


def _told(columns: Sequence[str]) -> str:
    """Advise to quote columns; nothing if there are none."""
    if not columns:
        return ""
    names = " or ".join(quoted(column) for column in columns[:3])
    return (
        " Names with characters other than letters, digits and _, and SQL keywords, need double quotes: "
        f"write {names}."
    )


def near_names(name: str, names: Collection[str]) -> list[str]:
    """Return the most similar names, ignoring case."""
    folded = {n.casefold(): n for n in names}
    return [folded[n] for n in difflib.get_close_matches(name.casefold(), folded, n=4, cutoff=0.5)]


def _unknown_table(name: str, known: Vocabulary) -> NotAnswerable:
    """Return the refusal of a table that is neither the logical table nor released."""
    folded = {c.casefold(): c for c in known.columns}
    parts = [p.replace("%2E", ".").replace("%25", "%").casefold() for p in name.split(".")]
    if all(part in folded for part in parts):
        columns = column_set(tuple({folded[part] for part in parts}))
        if columns not in known.tables:
            return uncovered(columns, known.tables, head=f"Table {name} does not exist: ")
        view = quoted(table_name(columns))
        return NotAnswerable(f"Table {name} does not exist: write {view}, in quotes.")
    near = near_names(name, [table_name(t) for t in known.tables])
    hint = f" Released tables with similar names: {', '.join(near)}." if near else ""
    return NotAnswerable(
        f"Table {name} does not exist. Query {known.logical_name}: it is answered from the smallest released table "
        f"that has the columns.{hint}"
    )
