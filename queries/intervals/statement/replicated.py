"""`FROM replicates('age', 'sex')`: the replays of a released table as rows, for statements and for other tools.

Takes a statement that reads them; gives the statement over a table of one's own in their place, and that table: a row
for each replay and distinct row, with columns `replicate` (from 1), those of the table, `imagined` and `count`: what
the data may have been, and what a release of them would show. Official statistics publish replicate weights of
public-use files for the same use; README.md in the folder above says how to use these.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from engine.errors import QueryRefused
from engine.schema import ColumnSet, quoted
from engine.store import unused_name
from queries.intervals.statement.answers import drawn_replays
from queries.intervals.statement.nodes import (
    Node,
    dicts_in,
    name_of,
    parsed_tree,
    parts,
    text_of_tree,
    tree_that_calls,
)
from queries.intervals.statement.tree import Unknown
from queries.sql import Session

if TYPE_CHECKING:
    import pandas as pd

NAME = "replicates"
_CALL = re.compile(r"\breplicates\W{0,3}\(", re.I)
_HELD = "tablepack_replicates"
"""How the tables are called that stand in the place of the calls."""


def has_replicates(text: str) -> bool:
    """Whether a statement may read replicates; quick, and now and then wrong where a text or comment has the word."""
    return _CALL.search(text) is not None


def with_replicates(
    release: Session, text: str, tables: Mapping[str, Any] | None
) -> tuple[str, Mapping[str, Any] | None]:
    """Return a statement with a table in the place of each `replicates(...)`, and these beside the user's own."""
    with release.cursor() as con:
        tree = tree_that_calls(con, text, NAME, f"{NAME}(...) stands in a plain SELECT")
        calls = [node for node in dicts_in(tree) if _is_call(node)]
        if not calls:
            return text, tables
        own = dict(tables or {})
        for i, call in enumerate(calls):
            table = _table_of(release, call)
            own[f"{_HELD}_{i}"], typed = _frame(release, table)
            read = parsed_tree(con, f"FROM ({typed.format(f'{_HELD}_{i}')}) AS {NAME}")
            source = read["statements"][0]["node"]["from_table"]
            kept = {
                key: call[key] for key in ("alias", "column_name_alias", "sample") if call.get(key)
            }
            call.clear()
            call.update({**source, **kept})
        return text_of_tree(con, tree), own


def _is_call(node: Node) -> bool:
    return node.get("type") == "TABLE_FUNCTION" and name_of(node.get("function", {})) == NAME


def _table_of(release: Session, call: Node) -> ColumnSet:
    """The released table whose columns a call names."""
    given = [(one.get("literal") or {}) for one in parts(call["function"])]
    names = [one.get("text") for one in given if one.get("kind") == "STRING"]
    if not names or len(names) != len(given):
        raise QueryRefused(f"{NAME}: say the columns of one released table, {NAME}('age', 'sex')")
    return release.card(*map(str, names)).columns


def _frame(release: Session, table: ColumnSet) -> tuple[pd.DataFrame, str]:
    """All replays of a table, one below the other, and SQL that gives their values the types of the release."""
    import pandas as pd  # slow to load

    try:
        drawn = drawn_replays(release, table)
    except Unknown as why:
        raise QueryRefused(f"There are no replicates of {', '.join(table)}: {why}") from None
    names = ("replicate", "imagined", "count")
    replicate, imagined, count = (unused_name(name, table) for name in names)
    begin, n = drawn.first("imagined"), len(drawn.of("imagined"))
    rows = drawn.variants(begin, begin + 2 * n)
    is_replay = rows.variant >= n
    columns: dict[str, Any] = {
        replicate: (rows.variant % n + 1).astype(np.int32),
        imagined: np.where(is_replay, 0, rows.n),
        count: np.where(is_replay, rows.n, 0),
    }
    for name in table:
        values = rows.values[name]
        if np.ma.isMaskedArray(values):
            values = pd.array(values.data).copy()  # of a type that knows what is missing
            values[np.ma.getmaskarray(rows.values[name])] = pd.NA
        columns[name] = values
    typed = [
        f"{rows.expressions[name].format(quoted(name))} AS {quoted(name)}"
        for name in release.columns
        if name in table
    ]
    own = [quoted(name) for name in (replicate, imagined, count)]
    sums = f"sum({own[1]})::BIGINT AS {own[1]}, sum({own[2]})::BIGINT AS {own[2]}"
    return pd.DataFrame(
        columns
    ), f"SELECT {own[0]}, {', '.join(typed)}, {sums} FROM {{}} GROUP BY ALL ORDER BY ALL"
