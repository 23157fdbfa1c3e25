"""A statement's keys, conditions and arguments, evaluated on the distinct synthetic rows of the table that answers.

Takes a statement that is understood and a table; gives the group of every row and the values of its expressions, as
DuckDB evaluates them. Where keys are plain columns and every condition is about one column, the groups are those of
`queries.intervals.regions`, so that a statement and a tabulation of the same question agree to the last digit.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import duckdb
import numpy as np

from engine.schema import BoolArray, FloatArray, Int64Array, literal, quoted
from engine.store import unused_name
from queries.intervals.buckets import TableBuckets
from queries.intervals.extrapolation import End, Top, as_text, ends_of
from queries.intervals.model import Groups, NoiseModel
from queries.intervals.regions import Reach, Region, groups_with_rows, region_within
from queries.intervals.statement.nodes import (
    Node,
    column_node,
    columns_in,
    text_of,
    text_of_select,
)
from queries.intervals.statement.tree import (
    Aggregate,
    Arithmetic,
    ParsedStatement,
    Rounded,
    Term,
)
from queries.sql import Session

_NOT_OURS = (duckdb.InterruptException, duckdb.OutOfMemoryException)
"""What ends a statement, whatever it asks for."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Evaluated:
    """What a statement says of every distinct row."""

    groups: Groups
    keys: tuple[tuple[Any, ...], ...]  # Their keys, in the order of GROUP BY
    key_nodes: tuple[Node, ...]
    # Values of its other expressions by `text_of` form: numbers (NaN: null) for arguments, truth for
    # conditions.
    values: dict[str, FloatArray]
    ends: tuple[End, ...] = ()
    # The same, and of conditions of WHERE, beyond each of `ends`: neither 0 nor NaN where they hold.
    beyond: dict[str, FloatArray] = field(default_factory=dict)

    def narrowed(self, reach: Reach, j: int, by: Sequence[Node]) -> Reach:
        """Which ends limits leave open, where conditions on column j are added."""
        if not self.ends:
            return reach
        own = [*reach[j]]
        for i, end in enumerate(self.ends):
            if end.column == j:
                holds = [bool(np.nan_to_num(self.beyond[text_of(node)][i])) for node in by]
                own[end.sign > 0] &= all(holds)
        return (*reach[:j], (own[0], own[1]), *reach[j + 1 :])

    def tops(self, node: Node | None) -> list[Top]:
        """Ends of the columns that an expression is made of, and what it is far beyond each; NaN: not known.

        Of several columns the others have nothing there, which is no row that may be.
        """
        names = set() if node is None else {name.casefold() for name in columns_in(node)}
        model, far = self.groups.model, self.beyond.get(text_of(node), ())
        own = [(end, float(at)) for end, at in zip(self.ends, far, strict=False)]
        untold = [(end, np.nan) for end in ends_of(self.groups.release, model)]
        columns = [name.casefold() for name in model.table.columns]
        known = own if len(names) == 1 and own else untold
        return [(end, at) for end, at in known if columns[end.column] in names]

    def of(self, node: Node | None) -> FloatArray:
        """Values of one expression; None: 1 for every row."""
        return (
            np.ones(len(self.groups.region.group)) if node is None else self.values[text_of(node)]
        )


@dataclass(frozen=True, kw_only=True, slots=True)
class _Asked:
    """A statement's expressions as SQL over rows that are numbered, in a column `row`.

    `text` selects them from what `named` names: keys k0, k1 ..., conditions w0 ..., others x0 ...; `expressions` has
    the columns of conditions and others by `text_of` form. `each` reads them and the number of each row, and `groups`
    lists the keys of groups, in the order of their numbers.
    """

    row: str
    named: str
    text: str
    each: str
    groups: str
    expressions: dict[str, str]

    def over(self, rows: str) -> str:
        """The beginning of a query over rows."""
        return f"WITH {self.named} AS ({rows}), q AS ({self.text}) "


def evaluated(
    con: duckdb.DuckDBPyConnection, release: Session, model: NoiseModel, question: ParsedStatement
) -> Evaluated:
    """Evaluate a statement's expressions on every row."""
    table = model.table
    counts = [one for part in question.parts.values() for one in part.counts]
    terms = [term for _, term in question.figures if not isinstance(term, str)]
    wanted = {text_of(node): node for term in [*terms, *counts] for node in leaves(term)}
    is_plain = _is_plain(question, table)
    keys = tuple(node for _, node in question.keys)
    if is_plain and not wanted and not question.where:  # nothing that its buckets do not tell
        groups = Groups(release=release, model=model, region=_plain_region(table, question, []))
        return Evaluated(groups=groups, keys=groups.region.keys(table), key_nodes=keys, values={})
    asked = _asked(con, release, question, wanted, is_plain=is_plain)
    ends, arrays = _fetched(con, asked, table, ends_of(release, model) if is_plain else ())
    n = len(table.n)
    holds = [np.asarray(arrays[f"w{i}"][:n], dtype=bool) for i in range(len(question.where))]
    values = {
        key: np.asarray(arrays[f"x{i}"][:n], dtype=np.float64) for i, key in enumerate(wanted)
    }
    if is_plain:
        groups = Groups(release=release, model=model, region=_plain_region(table, question, holds))
        listed = groups.region.keys(table)
        found = Evaluated(groups=groups, keys=listed, key_nodes=keys, values=values)
        beyond = {
            key: np.asarray(arrays[name][n:], dtype=np.float64)
            for key, name in asked.expressions.items()
        }
        return _with_ends(found, ends, beyond, question)
    rows = asked.over(_rows_of(table, asked.row))
    listed = tuple(tuple(r[:-1]) for r in con.execute(rows + asked.groups).fetchall())
    group = np.asarray(arrays["g"], dtype=np.int64) - 1
    inside = np.logical_and.reduce(holds) if holds else np.ones(len(group), dtype=bool)
    region = free_region(table, np.where(inside, group, -1), len(listed))
    groups = Groups(release=release, model=model, region=region)
    return Evaluated(groups=groups, keys=listed, key_nodes=keys, values=values)


def _asked(
    con: duckdb.DuckDBPyConnection,
    release: Session,
    question: ParsedStatement,
    wanted: Mapping[str, Node],
    *,
    is_plain: bool,
) -> _Asked:
    """Put a statement's expressions into one SELECT."""
    row = unused_name("row_number", release.columns)
    keys = [f"k{i}" for i in range(len(question.keys))]
    listed = [(name, node) for name, (_, node) in zip(keys, question.keys, strict=True)]
    listed += [(f"w{i}", node) for i, node in enumerate(question.where)]
    listed += [(f"x{i}", node) for i, node in enumerate(wanted.values())]
    listed.append((row, column_node(row)))
    rank = f"dense_rank() OVER (ORDER BY {', '.join(keys)})" if keys and not is_plain else "1"
    truths = [f"coalesce(CAST(w{i} AS BOOLEAN), false) AS w{i}" for i in range(len(question.where))]
    numbers = [_number(f"x{i}", node) for i, node in enumerate(wanted.values())]
    selected = ", ".join([f"{rank} AS g", *truths, *numbers, quoted(row)])
    expressions = {text_of(node): f"w{i}" for i, node in enumerate(question.where)}
    return _Asked(
        row=row,
        named=quoted(release.logical_name),
        text=text_of_select(con, _select_of(question, listed)),
        each=f"SELECT {selected} FROM q",
        groups=f"SELECT DISTINCT {', '.join(keys)}, {rank} AS g FROM q ORDER BY g"
        if keys
        else "SELECT 1",
        expressions=expressions | {key: f"x{i}" for i, key in enumerate(wanted)},
    )


def _select_of(statement: ParsedStatement, expressions: Sequence[tuple[str, Node]]) -> Node:
    """The SELECT that evaluates named expressions on every row of the same FROM."""
    return {
        "type": "SELECT_NODE",
        "modifiers": [],
        "cte_map": {"map": []},
        "select_list": [{**node, "alias": name} for name, node in expressions],
        "from_table": statement.source,
        "aggregate_handling": "STANDARD_HANDLING",
    }


def _with_ends(
    found: Evaluated,
    ends: tuple[End, ...],
    beyond: dict[str, FloatArray],
    question: ParsedStatement,
) -> Evaluated:
    """The same with what the expressions are beyond ends of columns, and which of these WHERE leaves open."""
    if not ends:
        return found
    groups = found.groups
    found = replace(found, ends=ends, beyond=beyond)
    reach = groups.region.reach
    for node in question.where:
        reach = found.narrowed(reach, _only_column(node, groups.model.table), [node])
    return replace(found, groups=replace(groups, region=replace(groups.region, reach=reach)))


def _fetched(
    con: duckdb.DuckDBPyConnection, asked: _Asked, table: TableBuckets, ends: tuple[End, ...]
) -> tuple[tuple[End, ...], dict[str, Any]]:
    """A statement's expressions on every row, and after these beyond those ends where they can be computed."""

    def answers(*selects: str) -> dict[str, Any]:
        text = asked.over(" UNION ALL ".join(selects)) + asked.each
        found = con.execute(text).fetchnumpy()
        order = np.argsort(found[asked.row], kind="stable")  # next to nothing: they come so, mostly
        return {name: values[order] for name, values in found.items()}

    rows = _rows_of(table, asked.row)
    far = [_row_beyond(table, end, asked.row, len(table.n) + i) for i, end in enumerate(ends)]
    if not ends:
        return ends, answers(rows)
    try:
        return ends, answers(rows, *far)
    except _NOT_OURS:
        raise
    except duckdb.Error:  # what every value of the table allows may fail beyond some end
        kept = tuple(end for end, row in zip(ends, far, strict=True) if _is_answered(answers, row))
    return _fetched(con, asked, table, kept if len(kept) < len(ends) else ())


def _is_answered(answers: Callable[[str], Any], row: str) -> bool:
    """Whether a statement's expressions can be computed on a row."""
    try:
        answers(row)
    except _NOT_OURS:
        raise
    except duckdb.Error:
        return False
    return True


def _rows_of(table: TableBuckets, number: str) -> str:
    """The rows of a table, numbered, as SQL."""
    columns = ", ".join(quoted(c) for c in table.columns)
    return f"SELECT {columns}, rowid AS {quoted(number)} FROM tables.{quoted(table.physical)}"


def _row_beyond(table: TableBuckets, end: End, number: str, place: int) -> str:
    """A row of this number beyond an end, which has nothing in all other columns, as SQL."""
    given = [f"CAST(NULL AS {column.sql_type})" for column in table.released]
    given[end.column] = (
        f"CAST({literal(as_text(end.far))} AS {table.released[end.column].sql_type})"
    )
    names = zip([*given, str(place)], [*table.columns, number], strict=True)
    return f"SELECT {', '.join(f'{value} AS {quoted(name)}' for value, name in names)}"


def free_region(table: TableBuckets, group: Int64Array, n_groups: int) -> Region:
    """Groups that are not made of released values."""
    everything = tuple(np.ones(len(column.values), dtype=bool) for column in table.released)
    return Region(
        by=(),
        allowed=everything,
        reach=(),
        group=group,
        codes=np.zeros((n_groups, 0), dtype=np.int64),
        is_free=True,
    )


def leaves(term: Term) -> list[Node]:
    """Expressions that a term evaluates on rows."""
    if isinstance(term, Arithmetic):
        return [*leaves(term.left), *leaves(term.right)]
    if isinstance(term, Rounded):
        return leaves(term.term)
    if isinstance(term, Aggregate):
        return [node for node in (term.of, term.keep) if node is not None]
    return []


def _number(name: str, node: Node) -> str:
    """An expression as a number, NaN where it is null; of what is none, only whether it is null."""
    number = f"coalesce(TRY_CAST({name} AS DOUBLE), 1)"
    return (
        f"CASE WHEN {name} IS NULL THEN 'NaN'::DOUBLE ELSE {number} END AS {name}" if node else name
    )


def _column(node: Node, table: TableBuckets) -> int:
    """Which column of the table an expression is; -1 where it is none."""
    if node.get("class") != "COLUMN_REF":
        return -1
    folded = [c.casefold() for c in table.columns]
    name = node["column_names"][-1].casefold()
    return folded.index(name) if name in folded else -1


def _is_plain(question: ParsedStatement, table: TableBuckets) -> bool:
    """Whether keys are different columns and every condition is about one column."""
    keys = [_column(node, table) for _, node in question.keys]
    one = all(len({c.casefold() for c in columns_in(node)}) == 1 for node in question.where)
    return one and -1 not in keys and len(set(keys)) == len(keys)


def _only_column(node: Node, table: TableBuckets) -> int:
    """The one column that a condition is about."""
    return [c.casefold() for c in table.columns].index(next(columns_in(node)).casefold())


def _plain_region(table: TableBuckets, question: ParsedStatement, holds: list[BoolArray]) -> Region:
    """The groups of released values; every released value stands in some row, which tells what holds for it."""
    allowed = [np.ones(len(column.values), dtype=bool) for column in table.released]
    for node, true in zip(question.where, holds, strict=True):
        j = _only_column(node, table)
        mask = np.zeros(len(allowed[j]), dtype=bool)
        mask[table.rows[true, j]] = True
        allowed[j] &= mask
    by = tuple(_column(node, table) for _, node in question.keys)
    limits, is_open = tuple(allowed), ((True, True),) * len(allowed)
    return region_within(table, by, limits, is_open, groups_with_rows(table, by, limits))
