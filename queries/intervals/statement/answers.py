"""The answer of a statement on variants of the table that answers it, matched row by row with the plain answer.

Takes a statement with its plain answer; runs the same text on the released rows once more, on these with imputed rows
placed anew, and, where intervals are wanted, on the imagined and the replayed rows of each replay
(`queries.intervals.replays`). Rows are matched by what they show beside figures.
"""

from __future__ import annotations

import math
import re
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from decimal import Decimal
from typing import Any

import numpy as np

from engine.errors import NotAnswerable, QueryRefused, StoreError, TimedOut, TooLarge
from engine.schema import ColumnSet, FloatArray
from queries.intervals.replays import Replays, replays
from queries.intervals.spread import ENOUGH, Figures
from queries.intervals.statement.limits import Shape, shape_of
from queries.intervals.statement.nodes import (
    Node,
    NoFigures,
    Unknown,
    aggregates_in,
    column_node,
    dicts_in,
    followed,
    group_expressions,
    nodes_in,
    parsed_select,
    text_of_select,
)
from queries.sql import Result, Session

MOST_S = 10.0
"""Seconds that drawing replays, and running a statement on them, may take."""
MOST_ROWS = 100_000
"""Rows of an answer of which it is looked up whether they are released."""
_MOST_KEPT, _MOST_ANSWERED = 16, 20_000
"""Statements whose answers on variants are kept for the next time, and the most rows of one."""
_NUMBER = re.compile(r"(U?(TINY|SMALL|BIG|HUGE)?INT(EGER)?|DOUBLE|FLOAT|DECIMAL\(.*\))\Z")
_COMPUTES = ("AGGREGATE", "GROUP_BY", "WINDOW")
_HASHED = frozenset({int, str, bool, type(None), Decimal})
"""Types of keys that a dict takes as they are."""
Rows = Sequence[tuple[Any, ...]]
Answers = list[list[tuple[Any, ...]]]


@dataclass(frozen=True, kw_only=True, slots=True)
class Asked:
    """A statement that was answered.

    tables: The user's own. columns, types: Of its answer. table: The one that answered; of a modelled one the
        columns that were read. shape: What its text says of its answer.
    """

    release: Session
    text: str
    tables: Mapping[str, Any] | None
    columns: tuple[str, ...]
    types: tuple[str, ...]
    table: ColumnSet
    shape: Shape

    def is_number(self, at: int) -> bool:
        """Whether a column of its answer holds numbers."""
        return bool(_NUMBER.match(self.types[at]))


def asked_of(release: Session, text: str, plain: Result, tables: Mapping[str, Any] | None) -> Asked:
    """Read a statement with its plain answer; raises where nothing is known of any figure, or there are none."""
    table = plain.table or ()
    if plain.wide:
        table = release.explain(text, tables=tables).columns or table[:1]
    shape = shape_of(release, text, plain.columns, table, tables or ())
    if shape.figures is None and not _computes(release, text, tables):
        raise NoFigures("it computes nothing from its rows")
    return Asked(
        release=release,
        text=text,
        tables=tables,
        columns=plain.columns,
        types=plain.types,
        table=table,
        shape=shape,
    )


def matched(asked: Asked, rows: Rows, drawn: Replays) -> dict[int, Figures]:
    """Run a statement on all variants of the table that answered it, and match the rows.

    rows: Of the plain answer.

    Returns: Figures on all variants, by place of their column.
    """
    shape, types = asked.shape, asked.types
    whole, is_plain = _whole(asked.release, shape)
    answers = _answers(asked, whole, drawn, is_one_statement=is_plain)
    try:
        figures, keys = _columns(shape, rows, types, answers)
    except Unknown:
        # Of rows that only their place tells apart, such as the three largest, replays may show others.
        shape = replace(shape, places=tuple(range(len(types))), is_of_sets=False)
        answers = _answers(replace(asked, shape=shape), asked.text, drawn)
        figures, keys = _columns(shape, rows, types, answers)
    if shape.is_of_sets:
        rows, keys = _with_own_sets(rows, answers[0]), [*keys, len(types)]
    places = {comparable([row[at] for at in keys]): i for i, row in enumerate(rows)}
    if len(places) < len(rows):
        raise Unknown("its rows could not be told apart in replays of the table")
    found = {}
    for at in figures:
        values = _values([rows, *answers], at, keys, places)
        if at in shape.amounts:  # no row is none of them
            values[:, 2:] = np.where(np.isnan(values[:, 2:]), 0.0, values[:, 2:])
            values[np.isnan(values[:, 1]) & (values[:, 0] == 0), 1] = 0.0
        found[at] = drawn.figures(values[:, 1:].T, values[:, 0])
    return found


def rows_of_groups(asked: Asked, rows: Rows) -> FloatArray:
    """Rows of the release in each group of a plain answer; NaN where the text does not tell what they are."""
    release, shape = asked.release, asked.shape
    out, items = np.full(len(rows), np.nan), [*shape.select.get("select_list", [])]
    is_known = (
        shape.keys is not None
        and not shape.is_of_sets
        and len(items) == len(shape.places)  # else it may group by what is not shown
        and _is_logical(shape.select.get("from_table", {}), release)
    )
    if not is_known or shape.keys is None:
        return out
    by = [shape.places[at] for at in shape.keys]
    kept = {key: of for key, of in shape.select.items() if key not in ("having", "qualify")}
    with release.cursor() as con:
        (count,) = parsed_select(con, "SELECT count(*)")["select_list"]
        # In the place of figures, since a GROUP BY may name places.
        listed = [item if at in by else count for at, item in enumerate(items)]
        text = text_of_select(con, {**kept, "select_list": listed, "modifiers": []})
    counts = [at for at in range(len(items)) if at not in by]
    try:
        found = Session.sql(release, text, tables=asked.tables).rows if counts else []
    except (QueryRefused, NotAnswerable):
        return out
    counted = {comparable([row[at] for at in by]): row[counts[0]] for row in found}
    for i, row in enumerate(rows):
        out[i] = counted.get(comparable([row[at] for at in shape.keys]), np.nan)
    return out


def is_conditional(shape: Shape, at: int) -> bool:
    """Whether a figure may be of some rows of its group only."""
    items = shape.select.get("select_list", [])
    return len(items) != len(shape.places) or any(
        "filter" in node or node.get("class") == "CASE"
        for node in dicts_in(items[shape.places[at]])
    )


def drawn_replays(release: Session, columns: ColumnSet) -> Replays:
    """Return the replays of a table, where there are any."""
    try:
        drawn = replays(release, columns, _clock(release))
    except TimedOut:
        release.check_cancelled()
        raise Unknown(
            f"to replay its table takes more than {min(MOST_S, release.timeout_s):g} seconds"
        ) from None
    if drawn.reason:
        raise Unknown(drawn.reason)
    return drawn


def _computes(release: Session, text: str, tables: Mapping[str, Any] | None) -> bool:
    """Whether a statement computes anything from its rows, by DuckDB's own plan."""
    try:
        plan = Session.sql(release, f"EXPLAIN (FORMAT json) {text}", tables=tables).rows
    except (QueryRefused, StoreError):
        return True
    return any(word in str(plan) for word in _COMPUTES)


def comparable(values: Sequence[Any]) -> tuple[Any, ...]:
    """Keys of a group as a dict takes them: lists as tuples, structs and maps by their parts, every NaN the same."""
    return tuple([v if type(v) in _HASHED else _frozen(v) for v in values])


def _frozen(value: Any) -> Any:
    """A value that has a hash and equals what is the same in SQL."""
    if isinstance(value, list | tuple):
        return (list, *map(_frozen, value))
    if isinstance(value, dict):
        return (dict, *((_frozen(key), _frozen(one)) for key, one in value.items()))
    if isinstance(value, float):
        return (float, "nan") if math.isnan(value) else float(f"{value:.9g}")
    return value


def _whole(release: Session, shape: Shape) -> tuple[str, bool]:
    """The SELECT that computes the figures without what chooses among its groups: other ones in every variant.

    One that groups in several ways has one column more, which says in which one. A plain one reads all variants at
    once, with the variant as one more key.

    Returns: the text; whether it reads all variants at once.
    """
    node = dict(shape.select)
    kinds = [one["type"] for one in node.get("modifiers", [])]
    if "ORDER_MODIFIER" in kinds or shape.figures is not None:
        node["modifiers"] = [
            one for one in node.get("modifiers", []) if one["type"] != "LIMIT_MODIFIER"
        ]
    items = [*node.get("select_list", [])]
    has_windows = any(one["class"] == "WINDOW" for one in nodes_in(items))
    if not has_windows:
        node = {key: value for key, value in node.items() if key not in ("having", "qualify")}
    with release.cursor() as con:
        is_all = node.get("aggregate_handling") == "FORCE_AGGREGATES"  # GROUP BY ALL
        if shape.is_of_sets or (is_all and has_windows):
            columns = {name.casefold() for name in release.columns}
            named, _ = followed(items, columns)
            groups = group_expressions(node, named, aggregates_in(con, named), columns)
        if shape.is_of_sets:
            items.append({"class": "OPERATOR", "type": "GROUPING_FUNCTION", "children": groups})
        is_plain = (
            shape.figures is not None
            and not any(one.get("class") == "SUBQUERY" for one in dicts_in(node))
            and _is_logical(node.get("from_table", {}), release)
            and not (node.get("cte_map") or {}).get("map")
            and node.get("aggregate_handling") in ("STANDARD_HANDLING", "FORCE_AGGREGATES")
        )
        if is_plain and is_all and has_windows:  # a window over variants has a column more
            bare = [{k: v for k, v in group.items() if k != "alias"} for group in groups]
            node |= {"aggregate_handling": "STANDARD_HANDLING", "group_expressions": bare}
        if is_plain:
            variant = column_node(release.variant_column)
            items = [*_within_variants(items, variant), variant]
            if "qualify" in node:
                node["qualify"] = _within_variants(node["qualify"], variant)
            groups = [*node.get("group_expressions", [])]
            if node["aggregate_handling"] == "STANDARD_HANDLING":
                node["group_expressions"] = [*groups, variant]
                sets = node.get("group_sets") or [[*range(len(groups))]]
                node["group_sets"] = [[*one, len(groups)] for one in sets]
            node["modifiers"] = []
        return text_of_select(con, {**node, "select_list": items}), is_plain


def _within_variants(node: Any, variant: Node) -> Any:
    """Expressions whose windows go over the groups of one variant."""
    if isinstance(node, list):
        return [_within_variants(one, variant) for one in node]
    if not isinstance(node, dict):
        return node
    out = {key: _within_variants(value, variant) for key, value in node.items()}
    if out.get("class") == "WINDOW":
        out["partitions"] = [*out.get("partitions", []), variant]
    return out


def _is_logical(source: Node, release: Session) -> bool:
    """Whether a FROM reads the logical table, and nothing else."""
    name = str(source.get("table_name", ""))
    return source.get("type") == "BASE_TABLE" and name.casefold() == release.logical_name.casefold()


def _with_own_sets(rows: Rows, again: Rows) -> Rows:
    """Rows of the plain answer with the same column, from the answer on the released rows once more."""
    sets: dict[tuple[Any, ...], set[Any]] = {}
    for row in again:
        sets.setdefault(comparable(row[:-1]), set()).add(row[-1])
    found = [sets.get(comparable(row), set()) for row in rows]
    if any(len(of_row) != 1 for of_row in found):
        raise Unknown("its groups could not be told from their totals")
    return [(*row, *of_row) for row, of_row in zip(rows, found, strict=True)]


def _clock(release: Session) -> Callable[[], None]:
    """What raises TimedOut where nobody waits any more, or replays have been drawn for too long."""
    until = time.monotonic() + min(MOST_S, release.timeout_s)

    def check_cancelled() -> None:
        release.check_cancelled()
        if time.monotonic() > until:
            raise TimedOut("The replays of a table took too long")

    return check_cancelled


def _answers(asked: Asked, text: str, drawn: Replays, *, is_one_statement: bool = False) -> Answers:
    """Rows of a statement on all variants; short ones are kept for the next time, as the replays are."""
    release, shape, tables = asked.release, asked.shape, asked.tables
    kept: dict[Any, Answers] = {} if tables else release.models.setdefault(("answers",), {})
    key = text, shape.places, asked.table, drawn.counts, drawn.reworded is not None
    if key in kept:
        return kept[key]

    def on(some: Replays, *, is_kept: bool) -> Answers:
        return release.on_variants(
            text,
            asked.table,
            some,
            tables=tables,
            seconds=MOST_S,
            is_one_statement=is_one_statement,
            is_kept=is_kept,
        )

    try:
        answers = on(drawn, is_kept=True)
        if drawn.reworded is not None:  # of this statement alone
            answers += on(drawn.reworded, is_kept=False)
    except (TimedOut, TooLarge):
        release.check_cancelled()  # it is another matter where nobody waits any more
        raise Unknown(
            f"on replays of the table it takes more than {min(MOST_S, release.timeout_s):g} seconds"
        ) from None
    except QueryRefused as error:
        raise Unknown(f"on a replay of the table it fails ({str(error).splitlines()[0]})") from None
    own = (*shape.places, -1) if shape.is_of_sets else shape.places
    if own != tuple(range(len(own))):
        answers = [[tuple([row[at] for at in own]) for row in answer] for answer in answers]
    if sum(map(len, answers)) <= _MOST_ANSWERED:
        kept[key] = answers
    for oldest in list(kept)[:-_MOST_KEPT]:
        kept.pop(oldest, None)
    return answers


def _columns(
    shape: Shape, rows: Rows, types: Sequence[str], answers: Sequence[Rows]
) -> tuple[list[int], list[int]]:
    """Places of the figures, and of the columns that tell which row is which in every variant."""
    if shape.figures is not None and shape.keys is not None:
        keys = [*shape.keys, -1] if shape.is_of_sets else [*shape.keys]
        if not _are_apart(answers[0], keys):
            raise Unknown("its rows could not be told apart in replays of the table")
        return [*shape.figures], [*shape.keys]
    every = range(len(types))
    is_number = [bool(_NUMBER.match(type_)) for type_ in types]
    if len(rows) <= 1 and all(len(of_one) <= 1 for of_one in answers):
        return [at for at in every if is_number[at]], []
    keys = [at for at in every if _is_steady(at, answers)]
    if not _are_apart(answers[0], keys):
        raise Unknown("its rows could not be told apart in replays of the table")
    for at in sorted(keys, key=lambda at: (not is_number[at], -at)):
        fewer = [key for key in keys if key != at]
        if _are_apart(answers[0], fewer):
            keys = fewer
    figures = [at for at in every if at not in keys]
    if not figures:
        raise Unknown("which of its columns are figures could not be told")
    return [
        at for at in figures if len({comparable([row[at]]) for of in answers for row in of}) > 1
    ], keys


def _is_steady(at: int, answers: Sequence[Rows]) -> bool:
    """Whether a column shows the same values in all variants, as keys do and noisy figures do not."""
    known = {comparable([row[at]]) for row in answers[0]}
    shown = [comparable([row[at]]) in known for answer in answers for row in answer]
    return not shown or float(np.mean(shown)) >= ENOUGH


def _are_apart(rows: Rows, keys: Sequence[int]) -> bool:
    """Whether no two rows have the same keys."""
    return len({comparable([row[at] for at in keys]) for row in rows}) == len(rows)


def _values(
    answers: Sequence[Rows], at: int, keys: Sequence[int], places: Mapping[tuple[Any, ...], int]
) -> FloatArray:
    """Figures of one column by row of the answer and variant; NaN where it has no such row, or none in it."""
    out = np.full((len(places), len(answers)), np.nan)
    for i, answer in enumerate(answers):
        for row in answer:
            place = places.get(comparable([row[key] for key in keys]))
            if place is not None and row[at] is not None:
                out[place, i] = _number(row[at])
    return out


def _number(value: Any) -> float:
    """A figure as a number; of a text that is none only that it is there."""
    try:
        return float(value)
    except (TypeError, ValueError):
        return 1.0
