"""Functions of ours in a statement: `differs(a, b)`, `FROM replicates('age', 'sex')`, `weighted_count()`.

Takes a statement; gives one that DuckDB knows all functions of.

- `differs(a, b)`: whether two figures of a row differ by more than their noise can explain. `a - b` is computed in its
  place, and the answer says TRUE where the noise interval of that difference leaves 0 out, FALSE where it does not,
  NULL where it is not known. Both figures may share noise (a part and its total, two groups of one table): the interval
  is that of the difference, so what they share cancels.
- `replicates(...)`: the replays of a released table, from a table of one's own in its place: a row for each replay and
  distinct row, with columns `replicate` (from 1), those of the table, `imagined` and `count`: what the data may have
  been, and what a release of them would show. Official statistics publish replicate weights of public-use files for the
  same use; README.md in the folder above says how to use these.
- `weighted_count()`: the sum of the survey weights that the release names.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import duckdb
import numpy as np

from engine.errors import QueryRefused
from engine.schema import ColumnSet, quoted
from engine.store import unused_name
from queries.intervals.statement.aggregates import (
    Ends,
    beside,
    ends_of,
    kept_ends,
    marks_of,
)
from queries.intervals.statement.answers import drawn_replays
from queries.intervals.statement.nodes import (
    Node,
    Unknown,
    columns_in,
    dicts_in,
    makes_more,
    name_of,
    names_call,
    parsed_tree,
    parts,
    text_of_tree,
)
from queries.intervals.tabulation import weight_of
from queries.sql import Result, Session

if TYPE_CHECKING:
    import pandas as pd

DIFFERS, REPLICATES, WEIGHTED = "differs", "replicates", "weighted_count"
_WHERE = {
    WEIGHTED: f"{WEIGHTED}() stands in a plain SELECT",
    REPLICATES: f"{REPLICATES}(...) stands in a plain SELECT",
    DIFFERS: f"{DIFFERS}(a, b) is a column of one plain SELECT",
}
"""Where calls stand, for the refusal of statements that DuckDB cannot write as text again."""
_CALL = re.compile(rf"\b({'|'.join(_WHERE)})\W{{0,3}}\(", re.I)
_HELD = "tablepack_replicates"
"""How the tables are called that stand in the place of calls."""
_OF_CALL = {"function_name", "qualified_name", "arguments", "children"}
"""Parts of a call that say what is called; the others are its filter, its window, its place."""
_RESIDUE = 1e-12
"""Shares that are equal may come out so far apart."""
_WORDS = {"not released", "structural zero"}
"""Statuses of a difference that tell more than that it is known."""
Tables = Mapping[str, Any] | None


def without_functions(release: Session, text: str, tables: Tables) -> tuple[str, Tables, list[int]]:
    """Return a statement without calls of our functions, and the tables that it reads beside the user's own.

    Returns: Also the places of `differs` among the columns of its answer, which then hold differences.
    """
    if not _CALL.search(text):
        return text, tables, []
    with release.cursor() as con:
        try:
            tree = parsed_tree(con, text)
        except QueryRefused as why:
            for name, where in _WHERE.items():
                if names_call(text, name):
                    raise QueryRefused(f"{where}: {why}") from None
            return text, tables, []  # a text or a comment has the word
        weighted = [node for node in dicts_in(tree) if name_of(node) == WEIGHTED]
        replicated = [node for node in dicts_in(tree) if _is_replicates(node)]
        if weighted:
            _put_weights(con, tree, weighted, weight_of(release))
        if replicated:
            tables = dict(tables or {}) | _put_replicates(release, con, replicated)
        places = _put_differences(tree) if any(map(_is_differs, dicts_in(tree))) else []
        is_same = not (weighted or replicated or places)
        return text if is_same else text_of_tree(con, tree), tables, places


def _put_weights(
    con: duckdb.DuckDBPyConnection, tree: Any, calls: Sequence[Node], weight: str
) -> None:
    """Put the sum of weights in the place of each `weighted_count()`."""
    shown = {id(item) for node in dicts_in(tree) for item in node.get("select_list", [])}
    summed = parsed_tree(con, f"SELECT sum({quoted(weight)})")["statements"][0]["node"]
    (of_weights,) = summed["select_list"]
    for call in calls:
        if parts(call):
            raise QueryRefused(f"{WEIGHTED}() takes no column: it adds up the weights, {weight}")
        for part in _OF_CALL & call.keys() & of_weights.keys():
            call[part] = of_weights[part]
        if id(call) in shown and not call.get("alias"):
            call["alias"] = WEIGHTED


def _put_replicates(
    release: Session, con: duckdb.DuckDBPyConnection, calls: Sequence[Node]
) -> dict[str, Any]:
    """Put a table in the place of each `replicates(...)`; return these tables."""
    own = {}
    for i, call in enumerate(calls):
        name = f"{_HELD}_{i}"
        own[name], typed = _frame(release, _table_of(release, call))
        read = parsed_tree(con, f"FROM ({typed.format(name)}) AS {REPLICATES}")
        source = read["statements"][0]["node"]["from_table"]
        kept = {key: call[key] for key in ("alias", "column_name_alias", "sample") if call.get(key)}
        call.clear()
        call.update({**source, **kept})
    return own


def _is_replicates(node: Node) -> bool:
    return node.get("type") == "TABLE_FUNCTION" and name_of(node.get("function", {})) == REPLICATES


def _table_of(release: Session, call: Node) -> ColumnSet:
    """The released table whose columns a call names."""
    given = [(one.get("literal") or {}) for one in parts(call["function"])]
    names = [one.get("text") for one in given if one.get("kind") == "STRING"]
    if not names or len(names) != len(given):
        raise QueryRefused(
            f"{REPLICATES}: say the columns of one released table, {REPLICATES}('age', 'sex')"
        )
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


def differing(
    release: Session,
    text: str,
    places: Sequence[int],
    tables: Tables,
    *,
    intervals: bool = False,
    status: bool = False,
) -> Result:
    """Answer a statement whose columns at some places are differences, with `differs` in their place.

    tables, intervals, status: As in `Release.sql`; low and high ends beside `differs` are those of a - b.
    """
    plain, more, reasons = ends_of(release, text, tables)
    unknown: list[str] = []
    if (
        not intervals
    ):  # of the others nobody asked how sure they are, only whether they are released
        more = {at: more[at] for at in places if at in more}
        told = [plain.columns[at] for at in places]
        others = tuple(f"{name}:" for name in plain.columns if name not in told)
        reasons = [why for why in reasons if not why.startswith(others)]
        if not tables:
            marks = marks_of(release, text, plain, lambda: plain.rows)
            more |= {
                at: [("status", "VARCHAR", list(of))]
                for at, of in marks.statuses.items()
                if at not in places
            }
            unknown = [
                why for why in marks.unknown if not why.startswith(tuple(f"{n}:" for n in told))
            ]
    for at in places:
        more[at] = _as_answers(len(plain.rows), more.get(at))
    warnings = [f"It is not known for {why}" for why in reasons]
    warnings += [f"No status is known for {why}" for why in unknown]
    shown = ("low", "high", "status") if intervals else ("status",) if status else ()
    return beside(plain, more, tuple(warnings), shown=shown)


def _is_differs(node: Node) -> bool:
    return name_of(node) == DIFFERS and node.get("class") == "FUNCTION"


def _put_differences(tree: Any) -> list[int]:
    """Put `a - b` in the place of every call, named as before; where each stands among the columns."""
    select = tree["statements"][0]["node"]
    items: list[Node] = select.get("select_list", [])
    places = [at for at, item in enumerate(items) if _is_differs(item)]
    if len(places) != sum(map(_is_differs, dicts_in(tree))):
        raise QueryRefused(
            f"{DIFFERS}(a, b) is a column of its own in the outermost SELECT; it cannot stand inside another "
            "expression, in a subquery, WHERE, HAVING or ORDER BY"
        )
    if any(makes_more(node) for item in items for node in dicts_in(item)):
        raise QueryRefused(f"{DIFFERS}(a, b) beside *, COLUMNS(...) or UNNEST: name the columns")
    if any(one["type"] == "DISTINCT_MODIFIER" for one in select.get("modifiers", ())):
        raise QueryRefused(f"{DIFFERS}(a, b) under DISTINCT: leave DISTINCT out")
    if _sorts_by(select, places):
        raise QueryRefused(
            f"{DIFFERS}(a, b) is shown alone: nothing else can be computed or sorted by it"
        )
    named = set()
    for at in places:
        call = items[at]
        if _is_more(call):
            raise QueryRefused(
                f"{DIFFERS}(a, b) takes no FILTER, DISTINCT, ORDER BY or schema: give FILTER to the figures"
            )
        if len(parts(call)) != 2:
            raise QueryRefused(f"{DIFFERS} takes two figures: {DIFFERS}(a, b)")
        call["alias"] = call.get("alias") or DIFFERS
        named.add(call["alias"].casefold())
        call.update(function_name="-", is_operator=True, qualified_name={"path": ["-"]})
    others = [{k: v for k, v in select.items() if k != "select_list"}]
    others += [item for at, item in enumerate(items) if at not in places]
    if named & {name.casefold() for name in columns_in(others)}:
        raise QueryRefused(
            f"{DIFFERS}(a, b) is shown alone: nothing else can be computed or sorted by it"
        )
    return places


def _is_more(call: Node) -> bool:
    """Whether a call says what an operator cannot."""
    sorted_by = (call.get("order_bys") or {}).get("orders")
    placed = call.get("schema") or call.get("catalog") or call.get("export_state")
    return bool(call.get("filter") or call.get("distinct") or sorted_by or placed)


def _sorts_by(select: Node, places: Sequence[int]) -> bool:
    """Whether rows are sorted by the place of such a column, or by all columns."""
    for modifier in select.get("modifiers", ()):
        for order in modifier.get("orders", ()):
            by = order["expression"]
            given = str((by.get("literal") or {}).get("text"))
            if by.get("class") == "STAR" or given in {str(at + 1) for at in places}:
                return True
    return False


def _as_answers(n_rows: int, ends: Ends | None) -> Ends:
    """The ends of a column of differences with its answers before them."""
    none = [None] * n_rows
    lows, highs, told = (kept_ends(ends, word) or none for word in ("low", "high", "status"))
    answers: list[bool | None] = []
    words = []
    for low, high, word in zip(lows, highs, told, strict=True):
        is_known = low is not None and high is not None and word not in _WORDS
        answers.append((low > _RESIDUE or high < -_RESIDUE) if is_known else None)
        words.append(word if word in _WORDS else "reliable" if is_known else "not known")
    type_ = next((type_ for word, type_, _ in ends or () if word == "low"), "DOUBLE")
    return [
        ("", "BOOLEAN", answers), ("low", type_, lows), ("high", type_, highs), ("status", "VARCHAR", words)
    ]  # fmt: skip
