"""Refusals: DuckDB's error in, one of our own out, with fields and the nearest thing that is allowed.

An unknown column names near columns; an unknown table names the logical table, near tables and, where its name is
made of columns of the release, the spec entry that would add it. The one place where messages of DuckDB are read.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Collection, Sequence
from dataclasses import dataclass

import duckdb

from engine.errors import DuckDBFailed, NotAnswerable, QueryRefused, TooLarge
from engine.schema import ColumnSet, column_set, literal, quoted
from engine.store import table_name
from queries.sql.router import uncovered
from queries.sql.views import LACKING

_HINTS = re.compile(r"\n\nLINE |\n\nPossible solutions|, due to the following Python|\nUse SET ")
"""Where a message of DuckDB goes on with hints that help nobody here."""
_PARAMETERS = "Values were not provided for the following parameters"
_NO_TIME_ZONES = "'pytz'"
_CTRL_C = "Query interrupted"
_UNKNOWN_COLUMN = re.compile(
    r'column "(.*?)" (?:in \w+ list )?not found|does not have a column named "(.*?)"\n',
    re.IGNORECASE,
)
_NEAR = re.compile(r'syntax error at or near "(.*?)"|Function with name "?(.*?)"? does not exist')
_PLAIN = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_UNKNOWN_TABLE = re.compile(r'Table with name "?(.*?)"? does not exist')


@dataclass(frozen=True, kw_only=True, slots=True)
class Vocabulary:
    """The names that a statement may use."""

    columns: tuple[str, ...]  # Columns of the logical table
    logical_name: str = "data"
    tables: tuple[ColumnSet, ...] = ()  # The released tables


NO_NAMES = Vocabulary(columns=())
"""Where nobody knows what a statement may use."""


class LackingColumn(QueryRefused):
    """A statement that was run over a table and read a column that this table lacks."""

    def __init__(self, message: str, *, column: str) -> None:
        self.column = column
        super().__init__(message)


def refusal(error: duckdb.Error, known: Vocabulary) -> QueryRefused:
    """Return the refusal that a DuckDB error means, naming what is near where a name is unknown."""
    if isinstance(error, duckdb.InternalException | duckdb.FatalException):
        # Its own text says where DuckDB is installed, and may say anything.
        return DuckDBFailed(
            "DuckDB failed on a statement, which is a fault of its own: write the statement otherwise, and open the "
            "release again"
        )
    text = _HINTS.split(str(error))[0]
    _, is_lacking, lacking = str(error).partition(LACKING)
    if is_lacking:
        return LackingColumn(text, column=lacking)
    if _NO_TIME_ZONES in str(error):
        return QueryRefused(
            "The answer has a TIMESTAMP WITH TIME ZONE, which is not given out: cast it, as in now()::TIMESTAMP"
        )
    column = _UNKNOWN_COLUMN.search(text)
    if column and known.columns:
        name = column[1] or column[2] or ""
        is_quoted = f'"{name}"' in str(error)[len(text) :]
        return unknown_column(name, known.columns, is_quoted=is_quoted)
    table = _UNKNOWN_TABLE.search(text)
    if table and known.columns:
        return _unknown_table(table[1], known)
    if isinstance(error, duckdb.PermissionException | duckdb.IOException | duckdb.HTTPException):
        return QueryRefused(f"The statement reaches outside the release: {text}")
    if isinstance(error, duckdb.OutOfMemoryException):
        # DuckDB's text says how much the process uses and may use: nothing that a stranger is told.
        return TooLarge(
            "The statement needs more memory than a query may use: ask for fewer groups or rows"
        )
    if _PARAMETERS in text:
        return QueryRefused("The statement has parameters ($1, ?): write the values into it")
    near = _NEAR.search(text)
    word = (near[1] or near[2] or "") if near else ""
    return QueryRefused(f"{text}{_quoting(word, known.columns)}")


def is_ctrl_c(error: RuntimeError) -> bool:
    """Return whether an error is what DuckDB makes of Ctrl-C."""
    return str(error) == _CTRL_C


def unknown_column(name: str, columns: Sequence[str], *, is_quoted: bool = False) -> NotAnswerable:
    """Return the refusal of a column that the release does not have; in quotes, it may have been meant as text."""
    advice = "" if is_quoted else _quoting(name, columns)
    if advice:
        return NotAnswerable(f"The release has no column {name!r}.{advice}", missing=(name,))
    near = near_names(name, columns)
    hint = f"Near: {', '.join(near)}." if near else f"Columns: {', '.join(columns[:40])}."
    if is_quoted:
        hint += f" Text stands in single quotes: {literal(name)}."
    return NotAnswerable(f"The release has no column {name!r}. {hint}", missing=(name,))


def _quoting(word: str, columns: Sequence[str]) -> str:
    """Say how columns are written whose names SQL takes apart (`marital-status`), or for words of its own (`order`)."""
    meant = [
        column
        for column in columns
        if word.casefold() in re.split(r"\W+", column.casefold())
        and (not _PLAIN.fullmatch(column) or word.casefold() == column.casefold())
    ]
    if not word or not meant:
        return ""
    names = " or ".join(quoted(column) for column in meant[:3])
    return (
        " A name that holds more than letters, digits and _, or is a word of SQL, stands in double quotes: "
        f"write {names}."
    )


def near_names(name: str, names: Collection[str]) -> list[str]:
    """Return the names that look most like one, whatever the case."""
    folded = {n.casefold(): n for n in names}
    return [folded[n] for n in difflib.get_close_matches(name.casefold(), folded, n=4, cutoff=0.5)]


def _unknown_table(name: str, known: Vocabulary) -> NotAnswerable:
    """Return the refusal of a table that is neither the logical one nor released."""
    folded = {c.casefold(): c for c in known.columns}
    parts = [p.replace("%2E", ".").replace("%25", "%").casefold() for p in name.split(".")]
    if all(part in folded for part in parts):
        columns = column_set(tuple({folded[part] for part in parts}))
        if columns not in known.tables:
            return uncovered(columns, known.tables, head=f"Table with name {name} does not exist: ")
        view = quoted(table_name(columns))
        return NotAnswerable(f"Table with name {name} does not exist: write {view}, in quotes.")
    near = near_names(name, [table_name(t) for t in known.tables])
    hint = f" Released tables near that name: {', '.join(near)}." if near else ""
    return NotAnswerable(
        f"Table with name {name} does not exist. Ask over {known.logical_name}: the smallest released table "
        f"that covers the columns answers.{hint}"
    )
