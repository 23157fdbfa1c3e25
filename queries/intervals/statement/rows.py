"""A statement's keys, conditions and arguments, evaluated on the distinct synthetic rows of the table that answers.

Takes a statement that is understood and a table; gives the group of every row and the values of its expressions, as
DuckDB evaluates them. Where keys are plain columns and every condition is about one column, the groups are those of
`queries.intervals.regions`, so that a statement and a tabulation of the same question agree to the last digit.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

import duckdb
import numpy as np

from engine.schema import BoolArray, FloatArray, Int64Array, quoted
from engine.store import physical_name, table_name, unused_name
from queries.intervals.buckets import TableBuckets
from queries.intervals.regions import Region, region_within
from queries.intervals.statement.nodes import Node, bare, columns_in
from queries.intervals.statement.tree import (
    Aggregate,
    Arithmetic,
    ParsedStatement,
    Rounded,
    Term,
    select_of,
)
from queries.sql import Session


@dataclass(frozen=True, kw_only=True, slots=True)
class Evaluated:
    """What a statement says of every distinct row.

    Attributes
    ----------
    region : Region
        Its groups.
    keys : tuple of tuple
        Their keys, in the order of GROUP BY.
    values : dict of str to ndarray
        Values of its other expressions by `text_of` form: numbers (NaN: null) for arguments, truth for conditions.
    """

    region: Region
    keys: tuple[tuple[Any, ...], ...]
    key_nodes: tuple[Node, ...]
    values: dict[str, FloatArray]

    def of(self, node: Node) -> FloatArray:
        """Values of one expression."""
        return self.values[text_of(node)]


def text_of(node: Node) -> str:
    """One text for expressions that are the same."""
    return json.dumps(bare(node), sort_keys=True)


def evaluated(
    con: duckdb.DuckDBPyConnection, release: Session, table: TableBuckets, question: ParsedStatement
) -> Evaluated:
    """Evaluate a statement's expressions on every row.

    Parameters
    ----------
    con : duckdb.DuckDBPyConnection
        On the release.
    table : TableBuckets
        The table that answers.
    """
    nodes = [
        node for _, term in question.figures if not isinstance(term, str) for node in _leaves(term)
    ]
    nodes += [
        node for part in question.parts.values() for one in part.counts for node in _leaves(one)
    ]
    wanted = {text_of(node): node for node in nodes}
    nodes_of_keys = tuple(node for _, node in question.keys)
    is_plain = _is_plain(question, table)
    if is_plain and not wanted and not question.where:  # nothing that its buckets do not tell
        region = _plain_region(table, question, [])
        return Evaluated(
            region=region, keys=_keys_of(table, region), key_nodes=nodes_of_keys, values={}
        )
    row = unused_name("row_number", release.columns)
    listed = [(f"k{i}", node) for i, (_, node) in enumerate(question.keys)]
    listed += [(f"w{i}", node) for i, node in enumerate(question.where)]
    listed += [(f"x{i}", node) for i, node in enumerate(wanted.values())]
    listed.append((row, {"class": "COLUMN_REF", "type": "COLUMN_REF", "column_names": [row]}))
    (text,) = con.execute(
        "SELECT json_deserialize_sql(?)", [select_of(question, listed)]
    ).fetchall()[0]
    columns = ", ".join(quoted(c) for c in table.columns)
    (number,) = con.execute(
        "SELECT table_id FROM catalog.tables WHERE name = ?", [table_name(table.columns)]
    ).fetchall()[0]
    query = (
        f"WITH {quoted(release.logical_name)} AS (SELECT {columns}, rowid AS {quoted(row)} "
        f"FROM tables.{physical_name(number)}), q AS ({text.rstrip().rstrip(';')}) "
    )
    keys = ", ".join(name for name, _ in listed if name.startswith("k") and name != row)
    rank = f"dense_rank() OVER (ORDER BY {keys})" if keys and not is_plain else "1"
    truths = ", ".join(
        f"coalesce(CAST(w{i} AS BOOLEAN), false) AS w{i}" for i in range(len(question.where))
    )
    numbers = ", ".join(_number(f"x{i}", node) for i, node in enumerate(wanted.values()))
    selected = ", ".join(part for part in (f"{rank} AS g", truths, numbers) if part)
    arrays = con.execute(f"{query} SELECT {selected} FROM q ORDER BY {quoted(row)}").fetchnumpy()
    holds = [np.asarray(arrays[f"w{i}"], dtype=bool) for i in range(len(question.where))]
    values = {key: np.asarray(arrays[f"x{i}"], dtype=np.float64) for i, key in enumerate(wanted)}
    if is_plain:
        region = _plain_region(table, question, holds)
        keys_of_region = _keys_of(table, region)
        return Evaluated(region=region, keys=keys_of_region, key_nodes=nodes_of_keys, values=values)
    named = con.execute(
        f"{query} SELECT DISTINCT {keys}, {rank} AS g FROM q ORDER BY g" if keys else "SELECT 1"
    ).fetchall()
    keys_of_groups = tuple(tuple(r[:-1]) for r in named)
    group = np.asarray(arrays["g"], dtype=np.int64) - 1
    inside = np.logical_and.reduce(holds) if holds else np.ones(len(group), dtype=bool)
    region = free_region(table, np.where(inside, group, -1), len(keys_of_groups))
    return Evaluated(region=region, keys=keys_of_groups, key_nodes=nodes_of_keys, values=values)


def _keys_of(table: TableBuckets, region: Region) -> tuple[tuple[Any, ...], ...]:
    """Keys of groups of released values."""
    places = region.places()
    lists = [
        [table.released[j].values[i] for i in places[:, at].tolist()]
        for at, j in enumerate(region.by)
    ]
    return tuple(zip(*lists, strict=True)) if lists else ((),)


def free_region(table: TableBuckets, group: Int64Array, n_groups: int) -> Region:
    """Groups that are not made of released values."""
    everything = tuple(np.ones(len(column.values), dtype=bool) for column in table.released)
    return Region(
        by=(), allowed=everything, choices=(), group=group, n_groups=n_groups, is_free=True
    )


def _leaves(term: Term) -> list[Node]:
    """Expressions that a term evaluates on rows."""
    if isinstance(term, Arithmetic):
        return [*_leaves(term.left), *_leaves(term.right)]
    if isinstance(term, Rounded):
        return _leaves(term.term)
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


def _plain_region(table: TableBuckets, question: ParsedStatement, holds: list[BoolArray]) -> Region:
    """The groups of released values; every released value stands in some row, which tells what holds for it."""
    allowed = [np.ones(len(column.values), dtype=bool) for column in table.released]
    folded = [c.casefold() for c in table.columns]
    for node, true in zip(question.where, holds, strict=True):
        j = folded.index(next(iter(columns_in(node))).casefold())
        mask = np.zeros(len(allowed[j]), dtype=bool)
        mask[table.rows[true, j]] = True
        allowed[j] &= mask
    return region_within(
        table, tuple(_column(node, table) for _, node in question.keys), tuple(allowed)
    )
