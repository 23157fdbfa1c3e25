"""Expands the `[[tables]]` entries of a spec into column sets.

Takes checked entries and the names of the columns; gives the sorted list of tables, each once, the workload of the
statements in files (`engine.spec.workload`), and options of wide tables.
Invariant: naming a table twice by `columns` is a mistake; families (`all`, `sql`, `file`) may overlap.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import combinations, product
from pathlib import Path
from typing import Any

from engine.errors import SpecError, TablepackError
from engine.schema import MAX_WIDTH, NUMBER_KINDS, SQL_TYPES, WIDEST, Column, ColumnSet, column_set
from engine.spec.model import MOST_SETS, ReleaseSection, TableEntry, did_you_mean
from engine.spec.workload import (
    Question,
    SqlReader,
    Statement,
    Unanswered,
    Workload,
    is_workload,
    merged,
    statements_of,
    workload_of,
)
from engine.texts import parsed_json

MOST_TABLES = 100_000
"""Most tables of one family."""
MANY_TABLES = 2_000
"""From this number on, a warning says what they cost before they are measured."""
SECONDS_A_TABLE = 0.02
"""Lower bound of what a table costs to fit and store, on one core."""
MAX_WEIGHTED = 3
"""Columns of the widest tables that weights are added to by themselves, weights included."""
_ENTRIES = ("columns", "all", "sql", "file")
_WIDE_KEYS = ("target", "sets", "max_added")


@dataclass(frozen=True, kw_only=True, slots=True)
class TableContext:
    """What table entries are checked against."""

    folder: Path  # Relative file names start here
    names: tuple[str, ...]  # Data columns
    entities: tuple[str, ...]
    # Data columns in full; None if some of them are wrong.
    columns: tuple[Column, ...] | None
    logical_name: str
    sql: SqlReader | None  # Reads statements; None: not available here
    # Widest table that is measured; wider ones are modelled, and must be named one by one. None: any width.
    max_width: int | None = MAX_WIDTH
    dropped: frozenset[str] = frozenset()  # Columns left out of every table
    each: str | None = None  # A column that is added to every table

    @property
    def types(self) -> dict[str, str]:
        """The SQL type of each data column."""
        return {column.name: SQL_TYPES[column.value_type] for column in self.columns or ()}


@dataclass(frozen=True, kw_only=True, slots=True)
class _Files:
    """The statements of all files: what they read, or why they cannot be answered."""

    questions: list[Question] = field(default_factory=list)
    unanswered: list[Unanswered] = field(default_factory=list)


def table_context(
    names: tuple[str, ...],
    columns: tuple[Column, ...],
    entities: tuple[str, ...],
    release: ReleaseSection | None,
    *,
    folder: Path,
    dropped: frozenset[str],
    sql: SqlReader | None,
    is_dp: bool,
) -> TableContext:
    """Gather what the tables of a spec are checked against; in mode dp they may have any width."""
    data = tuple(column for column in columns if column.name not in entities)
    return TableContext(
        folder=folder,
        names=tuple(name for name in names if name not in entities),
        entities=entities,
        columns=data if sum(column.level_of is None for column in columns) == len(names) else None,
        dropped=dropped,
        logical_name=release.name if release else "data",
        sql=sql,
        max_width=None if is_dp else MAX_WIDTH,
        each=release.each if release else None,
    )


def expanded(
    entries: Sequence[tuple[str, TableEntry]], context: TableContext, problems: list[str]
) -> tuple[tuple[ColumnSet, ...], Workload | None]:
    """Expand all entries.

    Returns: tables, each once, by width, then name; the workload of the statements in files, if there are any.
    """
    tables: set[ColumnSet] = set()
    files = _Files()
    explicit: dict[ColumnSet, str] = {}
    for place, entry in entries:
        ways = [key for key in _ENTRIES if getattr(entry, key) is not None]
        if len(ways) != 1:
            problems.append(f"{place}: must have exactly one of {', '.join(_ENTRIES)}")
            continue
        for key, owner in (("of", "all"), ("max_width", "file")):
            if getattr(entry, key) is not None and ways != [owner]:
                problems.append(f'{place}.{key}: only allowed with "{owner}"')
        if entry.columns is not None:
            named, where = named_columns(entry.columns, context), f"{place}.columns"
            table = _table(named, where, context, problems, widest=WIDEST)
            if table in explicit:
                problems.append(f"{place}.columns: the same table as {explicit[table]}")
            elif table:
                explicit[table] = place
            tables.update([table] if table else [])
        elif entry.file is not None and is_workload(entry.file):
            _ask(entry, f"{place}.file", context, problems, files)
        else:
            tables.update(_family(entry, place, context, problems))
    workload = _workload(tables, files, context) if files.questions else None
    tables.update(workload.tables if workload else ())
    tables.update([*_by_levels(tables, context)])
    return tuple(sorted(tables, key=lambda table: (len(table), table))), workload


def _by_levels(tables: Iterable[ColumnSet], context: TableContext) -> Iterator[ColumnSet]:
    """The tables that have a level in the place of a column with a hierarchy: they follow from its own."""
    levels: dict[str, list[str]] = {}
    for column in context.columns or ():
        if column.level_of is not None:
            levels.setdefault(column.level_of[0], []).append(column.name)
    for table in tables:
        if len(table) <= MAX_WIDTH and not levels.keys().isdisjoint(table):
            yield from map(column_set, product(*([name, *levels.get(name, ())] for name in table)))


def named_columns(columns: list[str] | str, context: TableContext) -> Sequence[str]:
    """The columns of an entry: those it lists, or all that tables can have."""
    if isinstance(columns, str):
        return [name for name in context.names if name not in context.dropped]
    return columns


def warning_of_many(n: int) -> str | None:
    """What this number of tables costs, and what to do instead; None if there are not many."""
    if n < MANY_TABLES:
        return None
    minutes = n * SECONDS_A_TABLE / 60
    long = f"{minutes:,.0f} minutes" if minutes < 100 else f"{minutes / 60:,.0f} hours"
    return (
        f"{n:,} tables: building them takes at least {long if minutes >= 1.5 else 'a minute'}; consider naming the "
        'tables that are needed (columns = ["...", "..."]), or the columns to combine (all = 2, of = ["...", "..."])'
    )


def _family(
    entry: TableEntry, place: str, context: TableContext, problems: list[str]
) -> list[ColumnSet]:
    """The tables of an `all`, `sql` or `file` entry."""
    if entry.all is not None:
        return _subsets(entry.all, entry.of, place, context, problems)
    if entry.sql is not None:
        return _read_by(entry.sql, f"{place}.sql", context, problems)
    return _listed(entry, f"{place}.file", context, problems)


def _table(
    names: Sequence[str],
    place: str,
    context: TableContext,
    problems: list[str],
    *,
    widest: int | None = None,
) -> ColumnSet | None:
    """One table from its columns; None if anything is wrong.

    widest: Allow a modelled table of up to this width.
    """
    n_before = len(problems)
    levels = {column.name for column in context.columns or () if column.level_of is not None}
    for name in dict.fromkeys(names):
        if name in levels:
            continue
        if name in context.entities:
            problems.append(f"{place}: {name} identifies the entities; it cannot be published")
        elif name in context.dropped:
            problems.append(f"{place}: {name} is left out of the release (columns.{name}.drop)")
        elif name not in context.names:
            problems.append(f"{place}: no column {name}{did_you_mean(name, context.names)}")
    if len(set(names)) < len(names):
        problems.append(f"{place}: names a column twice")
    if not names:
        problems.append(f"{place}: names no column")
    elif context.max_width is not None and (n := len(set(names))) > (widest or context.max_width):
        problems.append(
            f"{place}: {n:,} columns; at most {widest}, since all their pairs are measured ({math.comb(n, 2):,} here); "
            "split them into several tables"
            if widest
            else f"{place}: {n:,} columns; at most {context.max_width} here: a wider table, which is modelled, must be "
            "named by columns = [...]"
        )
    return None if len(problems) > n_before else column_set(names)


def _subsets(
    width: int, of: list[str] | None, place: str, context: TableContext, problems: list[str]
) -> list[ColumnSet]:
    """Every set of `width` columns."""
    n_before = len(problems)
    names = context.names if of is None else tuple(of)
    for name in names:
        _table([name], f"{place}.of", context, problems)
    if len(set(names)) < len(names):
        problems.append(f"{place}.of: names a column twice")
    if context.max_width is not None and width > context.max_width:
        problems.append(
            f"{place}.all: at most {context.max_width}; a wider table must be named on its own (columns = [...], or "
            'columns = "all")'
        )
    elif not 1 <= width <= len(names):
        problems.append(
            f"{place}.all: must be a number from 1 to the number of columns ({len(names)})"
        )
    elif math.comb(len(names), width) > MOST_TABLES:
        problems.append(
            f"{place}.all: {math.comb(len(names), width):,} tables; at most {MOST_TABLES:,}"
        )
    return [] if len(problems) > n_before else list(combinations(column_set(names), width))


def _read_by(sql: str, place: str, context: TableContext, problems: list[str]) -> list[ColumnSet]:
    """The columns a statement reads."""
    if context.sql is None:
        problems.append(f"{place}: not available here; use the command line, or columns = [...]")
        return []
    if context.columns is None:
        return []  # wrong columns are reported already
    try:
        names = context.sql.columns(sql, context.types, context.logical_name)
    except TablepackError as error:
        problems.append(f"{place}: {error}")
        return []
    if not names:
        problems.append(f"{place}: reads no column of {context.logical_name}")
        return []
    table = _table(names, place, context, problems)
    return [table] if table else []


def _ask(
    entry: TableEntry, place: str, context: TableContext, problems: list[str], files: _Files
) -> None:
    """Read a file of statements; those that cannot be answered are a mistake only if no other is left."""
    path = context.folder / (entry.file or "")
    if context.sql is None:
        problems.append(f"{place}: not available here; use the command line, or columns = [...]")
        return
    _check_widest(entry, place, context, problems)
    try:
        statements = statements_of(path, context.sql)
    except SpecError as error:
        problems.extend(f"{place}: {sentence}" for sentence in error.problems)
        return
    if context.columns is None:
        return  # wrong columns are reported already
    asked, unanswered = _answerable(statements, path.name, entry.max_width, context, context.sql)
    if not any(question.columns for question in asked):
        reasons = "; ".join(f"line {u.places[0][1]}: {u.reason}" for u in unanswered[:3])
        problems.append(
            f"{place}: {path.name} has no statement that reads columns of {context.logical_name} and can be answered"
            + (f" ({reasons})" if reasons else "")
        )
    files.questions.extend(asked)
    files.unanswered.extend(unanswered)


def _answerable(
    statements: Sequence[Statement],
    file: str,
    max_width: int | None,
    context: TableContext,
    reader: SqlReader,
) -> tuple[list[Question], list[Unanswered]]:
    """What the statements of a file read, equal ones once, and why the others cannot be answered."""
    lines: dict[str, list[int]] = {}
    for statement in statements:
        lines.setdefault(statement.text, []).append(statement.line)
    widest = min((w for w in (max_width, context.max_width) if w is not None), default=None)
    questions, unanswered = [], []
    read = reader.columns_of_each(list(lines), context.types, context.logical_name)
    for found, at in zip(read, lines.values(), strict=True):
        places = tuple((file, line) for line in at)
        if isinstance(found, TablepackError):
            reason = str(found).partition("\n")[0]
            unanswered.append(Unanswered(reason=reason, places=places))
            continue
        extra = {context.each} if context.each else set()
        columns = column_set([*{*found, *extra}]) if found else ()
        if widest is not None and len(columns) > widest:
            reason = f"reads {len(columns)} columns; tables have at most {widest}"
            unanswered.append(Unanswered(reason=reason, places=places))
        else:
            questions.append(Question(columns=columns, places=places))
    return questions, unanswered


def _workload(tables: set[ColumnSet], files: _Files, context: TableContext) -> Workload:
    """The fewest additional tables that answer all statements of files."""
    extra = {context.each} if context.each else set()
    given = {column_set([*{*table, *extra}]) for table in tables}
    added = merged({question.columns for question in files.questions}, given)
    return workload_of(files.questions, files.unanswered, added=added, tables=given | added)


def _check_widest(
    entry: TableEntry, place: str, context: TableContext, problems: list[str]
) -> None:
    """Check the widest table that a file may ask for."""
    widest = context.max_width or len(context.names)
    if entry.max_width is not None and not 1 <= entry.max_width <= widest:
        problems.append(
            f"{place.removesuffix('file')}max_width: must be a number from 1 to {widest}"
        )


def _listed(
    entry: TableEntry, place: str, context: TableContext, problems: list[str]
) -> list[ColumnSet]:
    """The tables of a JSON file."""
    path = context.folder / (entry.file or "")
    lists: Any = None
    try:
        lists = parsed_json(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        problems.append(f"{place}: no file {path}")
        return []
    except (OSError, ValueError):
        pass
    if not isinstance(lists, list) or not all(
        isinstance(names, list) and all(isinstance(name, str) for name in names) for names in lists
    ):
        problems.append(f"{place}: {path} is not a JSON list of lists of column names")
        return []
    _check_widest(entry, place, context, problems)
    tables = []
    for number, names in enumerate(lists, start=1):
        if entry.max_width is None or len(set(names)) <= entry.max_width:
            where = f"{place} ({path.name}, list {number})"
            tables.append(_table(names, where, context, problems))
    if not tables:
        problems.append(f"{place}: {path} lists no table within max_width")
    return [table for table in tables if table]


def with_each(
    tables: tuple[ColumnSet, ...], each: str | None, problems: list[str]
) -> tuple[ColumnSet, ...]:
    """The tables with the column `each` added, each once, by width, then name."""
    if each is None:
        return tables
    wider = {column_set([*{*table, each}]) for table in tables}
    problems += [
        f"tables: {', '.join(table)} has {len(table)} columns including {each} (release.each); at most {MAX_WIDTH}"
        for table in sorted(wider)
        if len(table) > MAX_WIDTH
    ]
    return tuple(sorted(wider, key=lambda table: (len(table), table)))


def weight_problems(weight: str | None, context: TableContext) -> Iterator[str]:
    """Say what is wrong with the column of weights."""
    if weight is not None and weight not in context.names:
        known = did_you_mean(weight, context.names)
        yield f"release.weight: no column {weight!r} that tables can have{known}"
    for column in context.columns or ():
        if column.name == weight and (column.kind not in NUMBER_KINDS or not column.sums):
            yield f"release.weight: {weight} needs to be a number, and its sums to be measured"


def with_weight(tables: tuple[ColumnSet, ...], weight: str | None) -> tuple[ColumnSet, ...]:
    """The tables, those of one or two columns once more with the column of weights."""
    if weight is None:
        return tables
    more = {column_set([*{*table, weight}]) for table in tables if len(table) < MAX_WEIGHTED}
    return tuple(sorted({*tables, (weight,), *more}, key=lambda table: (len(table), table)))


@dataclass(frozen=True, kw_only=True, slots=True)
class WideOptions:
    """Options of a wide table."""

    target: str | None = None  # The column that models trained on it are to predict
    sets: int = 1  # Independent syntheses of one measurement
    # Most tables to measure for it beyond those that the spec lists; None: as many as it needs.
    max_added: int | None = None


def wide_options(
    entries: Sequence[tuple[str, TableEntry]], context: TableContext, problems: list[str]
) -> dict[ColumnSet, WideOptions]:
    """Options of each wide table whose entry has any; `expanded` reports everything else about the entries."""
    out = {}
    for place, entry in entries:
        given = [key for key in _WIDE_KEYS if getattr(entry, key) is not None]
        before = len(problems)
        for key in given:
            problems += _misplaced(f"{place}.{key}", entry, context)
        if not given or entry.columns is None or context.max_width is None:
            continue
        table = column_set(named_columns(entry.columns, context))
        if entry.target is not None and entry.target not in table:
            problems.append(
                f"{place}.target: {entry.target!r} is not a column of the table{did_you_mean(entry.target, table)}"
            )
        sets = 1 if entry.sets is None else entry.sets
        if not 1 <= sets <= MOST_SETS:
            problems.append(f"{place}.sets: must be a number from 1 to {MOST_SETS}, not {sets}")
        if entry.max_added is not None and entry.max_added < 0:
            problems.append(f"{place}.max_added: must be at least 0, not {entry.max_added}")
        if len(problems) == before:
            out[table] = WideOptions(target=entry.target, sets=sets, max_added=entry.max_added)
    return out


def _misplaced(where: str, entry: TableEntry, context: TableContext) -> list[str]:
    """Why a key is not allowed in an entry."""
    if entry.columns is None:
        return [f'{where}: only allowed with "columns"']
    if context.max_width is None:
        return [f"{where}: only for wide tables of mode sticky; mode dp fits all tables at once"]
    if len(set(named_columns(entry.columns, context))) <= context.max_width:
        return [
            f"{where}: only for wide tables, of more than {context.max_width} columns, which are modelled"
        ]
    return []
