"""`FROM replicates('age', 'sex')`: copies of a released table's counts as rows, for statements and for other tools.

Takes a statement that reads them; gives the statement over a table of one's own in their place, and that table: a row
for each copy and distinct row, with columns `replicate` (from 1), those of the table, and `count`. Official statistics
publish replicate weights of public-use files for the same use; README.md in the folder above says how to use these.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from engine.errors import QueryRefused
from engine.schema import ColumnSet, Int64Array, quoted
from engine.store import unused_name
from queries.intervals.copies.replicates import N_REPLICATES
from queries.intervals.model import noise_model
from queries.intervals.statement.nodes import (
    Node,
    dicts_in,
    name_of,
    names_call,
    parsed_tree,
    parts,
    text_of_tree,
)
from queries.intervals.statement.spreads import sound_copies
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
        try:
            tree = parsed_tree(con, text)
        except QueryRefused as why:
            if not names_call(text, NAME):
                return text, tables
            raise QueryRefused(f"{NAME}(...) stands in a plain SELECT: {why}") from None
        calls = [node for node in dicts_in(tree) if _is_call(node)]
        if not calls:
            return text, tables
        own = dict(tables or {})
        for i, call in enumerate(calls):
            table = _table_of(release, call)
            own[f"{_HELD}_{i}"] = _frame(release, table)
            read = parsed_tree(con, f"FROM ({_typed(release, table, f'{_HELD}_{i}')}) AS {NAME}")
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


def _names(table: ColumnSet) -> tuple[str, str]:
    """What the number of the copy and the count are called: no column of the table has the name."""
    return unused_name("replicate", table), unused_name("count", table)


def _frame(release: Session, table: ColumnSet) -> pd.DataFrame:
    """All copies of a table, one below the other; values as texts."""
    import pandas as pd  # slow to load

    try:
        copies = sound_copies(release, table)
    except Unknown as why:
        raise QueryRefused(f"There are no replicates of {', '.join(table)}: {why}") from None
    held = noise_model(release, table).table
    replicate, count = _names(table)
    columns: dict[str, Any] = {
        replicate: np.repeat(np.arange(1, N_REPLICATES + 1, dtype=np.int32), len(held.rows))
    }
    for j, column in enumerate(held.released):
        named = [i for i, value in enumerate(column.values) if value is not None]
        code = np.full(len(column.values), -1)
        code[named] = np.arange(len(named))
        texts = pd.Index([str(column.values[i]) for i in named], dtype=object)
        codes: Int64Array = np.tile(code[held.rows[:, j]], N_REPLICATES)
        columns[column.name] = pd.Categorical.from_codes(codes, texts)
    columns[count] = copies.counts.T.reshape(-1)
    return pd.DataFrame(columns)


def _typed(release: Session, table: ColumnSet, held: str) -> str:
    """The same with the types that the columns have in the release."""
    replicate, count = _names(table)
    listed = ", ".join(
        f"CAST(CAST({quoted(name)} AS VARCHAR) AS {release.columns[name]}) AS {quoted(name)}"
        for name in release.columns
        if name in table
    )
    return f"SELECT {quoted(replicate)}, {listed}, {quoted(count)} FROM {quoted(held)}"
