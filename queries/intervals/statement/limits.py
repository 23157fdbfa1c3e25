"""What replays of a table cannot tell, by the shape of a statement: extremes, rare values, groups as units, chance.

Takes a statement with the places of its figures; gives the reason for each that has no interval by replays, or
raises `Unknown` where that is the whole statement. README.md in the folder above lists the rules and why they are.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from typing import Any

import duckdb

from engine.schema import ColumnSet
from queries.intervals.replays import table_of
from queries.intervals.spread import MEASURED, measured_share
from queries.intervals.statement.inlined import chosen, inlined, named_selects
from queries.intervals.statement.nodes import (
    AGGREGATES,
    Node,
    NoFigures,
    Unknown,
    aggregates_in,
    column_node,
    columns_in,
    dicts_in,
    followed,
    group_expressions,
    makes_more,
    name_of,
    nodes_below,
    nodes_in,
    number_of,
    parsed_select,
    parts,
    text_of,
)
from queries.intervals.tabulation import MUCH_IMPUTED
from queries.sql import Session

_CHANCE = re.compile(
    r"\b(random|gen_random_uuid|uuid\w*|setseed|nextval|sample|tablesample|reservoir_quantile)\b",
    re.I,
)
ENDS = frozenset(
    "min max min_by max_by arg_min arg_max argmin argmax arg_min_null arg_max_null arg_min_nulls_last "
    "arg_max_nulls_last approx_count_distinct approx_top_k bool_and bool_or bit_and bit_or bit_xor bitstring_agg "
    "histogram histogram_exact".split()
)
"""What depends on values or groups beyond those that are released: no replay of released counts can hold these."""
SINGLE = frozenset(
    "first last any_value arbitrary first_value last_value nth_value list array_agg".split()
)
"""What depends on single rows, where it takes a column itself."""
TAILS = frozenset("entropy kurtosis kurtosis_pop skewness".split())
"""What rare values decide. Their intervals held 90 to 93 % on three sets of data, and are refused."""
_PER_GROUP = frozenset(
    "count_star count count_if countif avg mean median quantile quantile_cont quantile_disc approx_quantile mode mad "
    "stddev stddev_samp stddev_pop variance var_samp var_pop product corr covar_pop covar_samp "
    "rank dense_rank row_number percent_rank cume_dist ntile lag lead".split()
)
"""What takes every group for one, whatever it holds."""
_COUNTS = frozenset("count_star count count_if countif".split())
_SUMS = frozenset("sum fsum sumkahan kahan_sum".split())
_NUMBERING = frozenset("row_number rank dense_rank".split())
"""Windows that number rows."""
_ROW_BY_ROW = SINGLE | {"row_number", "ntile", "lag", "lead", "fill"}
"""Windows that mean nothing without an order."""
_DIGITS = frozenset("% mod fmod & | xor".split())
"""Functions that look at digits of a number, where real values keep to round ones and filled ones do not."""
_OF_ROWS = ("POSITIONAL_REFERENCE", "STAR")
"""Classes of expressions that stand for columns without their names."""
_SELECTS = ("SELECT_NODE", "SET_OPERATION_NODE")
_ROWS_MADE = frozenset("range generate_series unnest".split())
"""Functions in a FROM that read no table; `query('...')` may read any, and hides what it asks."""
OUTERMOST = 0.02
"""Quantiles nearer to an end than this depend on values beyond the released ones."""
_BEYOND = (
    "what lies beyond the outermost released values, or is too rare to be released, is not known"
)
_TIES = "its window goes row by row, in an order that leaves ties"


@dataclass(frozen=True, kw_only=True, slots=True)
class Shape:
    """What the text of a statement says of the columns of its answer.

    figures, keys: Places of figures, and of columns that tell groups apart; None where the answers have to tell.
    hidden: Places of figures that no replay can tell, with the reason.
    counted, amounts: Places of counts, and of figures of which 0 means that nothing is there.
    is_of_sets: It groups in several ways at once (ROLLUP, CUBE, GROUPING SETS): a blank may stand for a total.
    select: The SELECT that computes the figures; around it columns and rows are only chosen.
    places: Places of the columns of the answer among those of that SELECT.
    """

    figures: tuple[int, ...] | None
    keys: tuple[int, ...] | None
    hidden: dict[int, str]
    counted: frozenset[int]
    amounts: frozenset[int]
    is_of_sets: bool
    select: Node
    places: tuple[int, ...]


def shape_of(
    release: Session,
    text: str,
    names: Sequence[str],
    table: ColumnSet,
    own: Collection[str] = (),
) -> Shape:
    """Read what a statement shows; raises where no replay can tell any of it, `NoFigures` where nothing is computed.

    names: Of the columns of the answer; table: the released one that answers; own: names of the user's tables.
    """
    if _CHANCE.search(text):
        raise Unknown("it draws at random, or samples rows")
    columns = {name.casefold() for name in release.columns}
    with release.cursor() as con:
        tree = parsed_select(con, text)
        aggregates = aggregates_in(con, [tree])
        inner, places = chosen(tree, columns, aggregates)
        one_select = inlined(inner, named_selects(tree), columns, aggregates)
        items, _ = followed(inner.get("select_list", []), columns)
        keys = _keys(con, inner, columns)
        outermost = tree
        if places:  # around it, columns and rows are only chosen
            tree = inner
        _refuse_ties(con, tree, columns)
    _refuse_other_tables(tree, {release.logical_name, *own})
    refuse_digits(release, table, tree)
    figures, others = _named(tree, columns)
    _refuse_groups_as_units(release, tree, table, others)
    _refuse_outermost_rows(tree)
    with (
        release.cursor() as con
    ):  # a statement without figures may still choose rows that no replay can tell
        roles = _roles(con, outermost, inner, items, columns)
    items = [items[at] for at in places] if places else items
    is_listed = roles is not None and len(items) == len(names)
    if not is_listed or roles is None:
        why = _why_not(tree, figures) or _why_not(items, figures, keys)
        if why:
            raise Unknown(why)
        return Shape(
            figures=None,
            keys=None,
            hidden={},
            counted=frozenset(),
            amounts=frozenset(),
            is_of_sets=False,
            select=tree,
            places=tuple(range(len(names))),
        )
    of_items = [roles[at] for at in places] if places else roles
    shown = tuple(at for at, role in enumerate(of_items) if role == "figure")
    if shown and any(one.get("type") == "DISTINCT_MODIFIER" for one in tree.get("modifiers", ())):
        raise Unknown("it shows different figures once each, whatever groups have them")
    found = {at: _why_not(items[at], figures, keys) for at in shown}
    return Shape(
        figures=shown,
        keys=tuple(at for at, role in enumerate(of_items) if role == "key"),
        hidden={at: why for at, why in found.items() if why},
        counted=frozenset(at for at in shown if _is_count(items[at])),
        amounts=frozenset(at for at in shown if _is_amount(items[at])),
        is_of_sets=len(inner.get("group_sets", ())) > 1,
        select=one_select,
        places=tuple(places) if places else tuple(range(len(names))),
    )


def summed_columns(release: Session, text: str) -> list[str]:
    """Columns of which a statement takes sums or means."""
    with release.cursor() as con:
        tree = parsed_select(con, text)
    known = {name.casefold(): name for name in release.columns}
    calls = (node for node in nodes_in(tree) if name_of(node) in _SUMS | {"avg", "mean"})
    taken = {name.casefold() for node in calls for name in columns_in(node)}
    return sorted(known[name] for name in taken & known.keys())


def _roles(
    con: duckdb.DuckDBPyConnection,
    tree: Node,
    select: Node,
    items: Sequence[Node],
    columns: Collection[str],
) -> list[str] | None:
    """What each column of a SELECT is: "key", "figure" or "constant"; None where its text does not tell."""
    if select.get("type") != "SELECT_NODE" or any(
        makes_more(n) for one in items for n in nodes_in(one)
    ):
        return None
    aggregates = aggregates_in(con, items)
    try:
        groups = group_expressions(select, items, aggregates, columns)
    except NoFigures:
        if len([*_selects(tree)]) > 1:
            return None  # what it reads may have figures
        raise
    if not groups and not any(map(partial(_aggregates, names=aggregates), items)):
        return None  # windows over rows, or over what it reads
    of_groups = {text_of(group) for group in groups}
    return [
        "key" if text_of(item) in of_groups
        else "constant" if _is_constant(item)
        else "figure"
        for item in items
    ]  # fmt: skip


def _aggregates(node: Node, names: Collection[str]) -> bool:
    """Whether an expression has an aggregate of its own SELECT that is no window."""
    left = [node]
    while left:
        part = left.pop()
        if part.get("class") == "SUBQUERY":
            continue
        if part.get("class") != "WINDOW" and name_of(part) in names:
            return True
        left += nodes_below(part)
    return False


def _is_constant(node: Node) -> bool:
    """Whether an expression is the same in every row, whatever the rows are."""
    if node.get("type") == "GROUPING_FUNCTION":
        return True
    kinds = {inner["class"] for inner in nodes_in(node)}
    return not kinds & {"COLUMN_REF", "FUNCTION", "SUBQUERY", "WINDOW", "STAR"} or (
        number_of(node) is not None
    )


def _is_amount(node: Node) -> bool:
    """Whether 0 means that nothing is there: of counts and sums, and of these in proportion to something."""
    name, given = name_of(node), parts(node)
    if name in _COUNTS | _SUMS:
        return True
    is_inside = (
        name in ("*", "/", "round")
        or node["class"] == "CAST"
        or node.get("type") == "OPERATOR_COALESCE"
    )
    below = given or [*nodes_below(node)]
    if name == "*" and len(below) == 2:
        return any(map(_is_amount, below))
    return is_inside and bool(below) and _is_amount(below[0])


def refuse_digits(release: Session, table: ColumnSet, tree: Any) -> None:
    """Raise `Unknown` where digits are asked for of a column whose values, or else its table's, were filled in."""
    known = {name.casefold(): name for name in release.columns}
    asked = (one for node in nodes_in(tree) if name_of(node) in _DIGITS for one in columns_in(node))
    for name in asked:
        column = known.get(name.casefold(), "")
        of = (column,) if (column,) in release.tables else table
        if column not in table:
            continue
        imputed = 1 - measured_share(table_of(release, of))
        if imputed > MUCH_IMPUTED:
            raise Unknown(
                f"it asks for digits of {column}, {imputed:.0%} of whose values were imputed: real ones keep to round "
                "numbers"
            )


def _is_count(node: Node) -> bool:
    """Whether a figure counts rows, or adds up such counts: it is never less than nothing."""
    name, given = name_of(node), parts(node)
    return name in _COUNTS or (name in _SUMS and len(given) == 1 and _is_count(given[0]))


def _keys(con: duckdb.DuckDBPyConnection, select: Node, columns: Collection[str]) -> list[Node]:
    """What tells the groups of a SELECT apart; nothing where that is not known."""
    if select.get("type") != "SELECT_NODE" or not _is_grouped(select):
        return []
    items, _ = followed(select.get("select_list", []), columns)
    with suppress(NoFigures):
        return group_expressions(select, items, aggregates_in(con, items), columns)
    return []


def _refuse_ties(con: duckdb.DuckDBPyConnection, tree: Node, columns: Collection[str]) -> None:
    """Raise `Unknown` where a window inside another SELECT, or over one of several keys, leaves ties."""
    _, *inner = _selects(tree)
    for select in (tree, *inner):
        items, _ = followed(select.get("select_list", []), columns)
        keys = _keys(con, select, columns) if select is not tree else []
        if not _is_grouped(select) and inner:
            keys = [column_node(name) for one in inner for name in _key_names(con, one, columns)]
        if any(_has_ties(node, keys) for node in nodes_in(items) if node.get("class") == "WINDOW"):
            raise Unknown(_TIES)


def _key_names(
    con: duckdb.DuckDBPyConnection, select: Node, columns: Collection[str]
) -> Iterator[str]:
    """Names under which a SELECT shows its keys."""
    keys = {text_of(key) for key in _keys(con, select, columns)}
    items, _ = followed(select.get("select_list", []), columns)
    for item in items:
        if text_of(item) in keys:
            yield item.get("alias") or item.get("column_names", ["?"])[-1]


def _why_not(tree: Any, figures: Collection[str], keys: Sequence[Node] = ()) -> str | None:
    """Why no replay can tell what is computed in a part of a statement, or None; `keys` as `_keys` gives them."""
    names = set()
    for node in nodes_in(tree):
        name = name_of(node)
        if name in TAILS:
            return f"{name} depends on values that are too rare to be released"
        if node.get("class") == "WINDOW" and not node.get("orders") and _goes_by_order(node, name):
            return "its window goes row by row and names no order"
        if node.get("class") == "WINDOW" and _has_ties(node, keys):
            return _TIES
        if name in ENDS or _hangs_on_rows(node, name, figures) or _is_outermost(node, name):
            return _BEYOND
        names.add(name)
    return None


def _goes_by_order(window: Node, name: str) -> bool:
    """Whether a window's figure depends on the order in which rows come."""
    frame = (window.get("start"), window.get("end"))
    return name in _ROW_BY_ROW or any("ROWS" in str(end) for end in frame)


def _has_ties(window: Node, keys: Sequence[Node]) -> bool:
    """Whether a window goes row by row, and its order and partition leave groups that nothing tells apart.

    Figures tell them apart, as a rule.
    """
    orders = [one["expression"] for one in window.get("orders", ())]
    if not orders or not _goes_by_order(window, name_of(window)) or any(map(_is_figure, orders)):
        return False
    given = [*orders, *window.get("partitions", ())]
    told = {text_of(one) for one in given}
    columns = (one for one in given if one["class"] == "COLUMN_REF")
    named = {name.casefold() for one in columns for name in columns_in(one)}
    return any(
        text_of(key) not in told and not {name.casefold() for name in columns_in(key)} <= named
        for key in keys
    )


def _is_outermost(node: Node, name: str) -> bool:
    """Whether a quantile is taken near an end, or nobody knows where."""
    if "quantile" not in name:
        return False
    given = parts(node)
    at = [number_of(one) for one in given[1:] or given]  # alone before WITHIN GROUP (ORDER BY ...)
    return any(one is None or not OUTERMOST <= one <= 1 - OUTERMOST for one in at)


def _hangs_on_rows(node: Node, name: str, figures: Collection[str]) -> bool:
    """Whether a function takes single rows, or different values, of anything but figures."""
    if name not in SINGLE and not node.get("distinct"):
        return False
    return any(
        any(inner["class"] in _OF_ROWS for inner in nodes_in(one))
        or any(column.casefold() not in figures for column in columns_in(one))
        for one in parts(node)
        if not _is_figure(one)
    )


def _is_figure(node: Node) -> bool:
    """Whether an expression is computed from aggregates over rows alone, with no column beside these."""
    is_any, left = False, [node]
    while left:
        part = left.pop()
        name = name_of(part)
        if name in AGGREGATES and not part.get("orders"):  # a running sum goes row by row
            is_any = True
        elif part["class"] in (*_OF_ROWS, "COLUMN_REF", "SUBQUERY"):
            return False
        else:
            left += nodes_below(part)
    return is_any


def _named(tree: Any, columns: Collection[str]) -> tuple[set[str], set[str]]:
    """Names that stand for figures of groups wherever they are given, and those known to stand for something else."""
    given = [
        (item["alias"].casefold(), item)
        for select in _selects(tree)
        for item in select.get("select_list", ())
        if item.get("alias")
        and item["alias"].casefold() != item.get("column_names", [""])[-1].casefold()
    ]
    figures: set[str] = set()
    while True:
        others = {name for name, item in given if not _is_of_figures(item, figures)} | {*columns}
        more = {name for name, _ in given} - others
        if more == figures:
            return figures, others
        figures = more


def _is_of_figures(node: Node, figures: Collection[str]) -> bool:
    """Whether an expression is computed from figures of groups alone."""
    named = {name.casefold() for name in columns_in(node)}
    return _is_figure(node) or (bool(named) and named <= {*figures})


def _refuse_other_tables(tree: Any, names: Collection[str]) -> None:
    """Raise `Unknown` where a statement reads what is the same in every replay though it has noise as well."""
    every = [*dicts_in(tree)]
    named = [one for node in every for one in (node.get("cte_map") or {}).get("map", ())]
    known = {name.casefold() for name in (*names, *(one["key"] for one in named))}
    for node in every:
        if node.get("type") == "TABLE_FUNCTION":
            name = name_of(node.get("function", {}))
            is_known = name in _ROWS_MADE
        elif node.get("type") == "BASE_TABLE":
            name = str(node.get("table_name", ""))
            is_known = name.casefold() in known and not node.get("schema_name")
        else:
            continue
        if not is_known:
            raise Unknown(f"it reads {name}, and replays are of the logical table alone")


def _refuse_outermost_rows(tree: Any) -> None:
    """Raise `Unknown` where rows are chosen by their number in an order, which the outermost of them have."""
    windows, names = [], set()
    for select in _selects(tree):
        if _is_grouped(select):
            continue
        for item in select.get("select_list", ()):
            if item.get("alias") and _numbers_rows(item):
                names.add(str(item["alias"]).casefold())
        windows += [node for node in _own(select) if _numbers_rows(node)]
    for node in nodes_in(tree):
        if node["class"] not in ("COMPARISON", "BETWEEN"):
            continue
        sides = [one for one in node.values() if isinstance(one, dict) and "class" in one]
        is_by_number = any(
            one in windows
            or (one["class"] == "COLUMN_REF" and one["column_names"][-1].casefold() in names)
            for one in sides
        )
        if is_by_number and any(number_of(one) is not None for one in sides):
            raise Unknown(f"it chooses rows by their number in an order, and {_BEYOND}")


def _numbers_rows(node: Node) -> bool:
    """Whether an expression is a window that numbers rows."""
    name = name_of(node)
    return node.get("class") == "WINDOW" and name in _NUMBERING


def _refuse_groups_as_units(
    release: Session, tree: Any, columns: ColumnSet, others: Collection[str]
) -> None:
    """Raise `Unknown` where each group counts once, whatever it holds, and groups may be too rare to be released."""
    top, *inner = _selects(tree)
    if any("LIMIT" in str(more.get("type")) for one in inner for more in one.get("modifiers", ())):
        raise Unknown("it takes the first rows of a table, which has no order")
    if any(map(_is_grouped, inner)):
        of_groups = [one for one in (top, *inner) if _reads_more(one, release.logical_name)]
        own = [node for one in of_groups for node in _own(one)]
        if {*map(name_of, own)} & _PER_GROUP or any(_counts_groups(node, others) for node in own):
            raise Unknown(
                "it computes from groups, and those that are too rare to be released are not known"
            )
    windows = [
        node
        for one in (top, *inner)
        if _is_grouped(one)
        for node in nodes_in(one.get("select_list"))
        if node["class"] == "WINDOW"
    ]
    if not {*map(name_of, windows)} & _PER_GROUP:
        return
    share = measured_share(table_of(release, columns))
    if share < MEASURED:
        raise Unknown(
            f"its windows take group by group, {1 - share:.0%} of whose rows were imputed, and other groups are not "
            "released"
        )


def _counts_groups(node: Node, others: Collection[str]) -> bool:
    """Whether a sum adds the same for a group whatever it holds: a constant, a key of it, or a condition."""
    if name_of(node) not in _SUMS:
        return False
    given = parts(node)
    kinds = {inner["class"] for one in given for inner in nodes_in(one)}
    named = {name.casefold() for one in given for name in columns_in(one)}
    return named <= {*others} or bool(kinds & {"COMPARISON", "CONJUNCTION", "BETWEEN", "CASE"})


def _selects(tree: Any) -> Iterator[Node]:
    """Every SELECT, UNION, EXCEPT and INTERSECT of a statement, the outermost first."""
    return (node for node in dicts_in(tree) if node.get("type") in _SELECTS)


def _own(tree: Any) -> Iterator[Node]:
    """All that is written in a SELECT itself, not in another one inside."""
    return dicts_in(tree, without=_SELECTS)


def _reads_more(select: Node, logical: str) -> bool:
    """Whether a SELECT reads another one, or anything but the logical table."""
    read = [node for node in _own(select.get("from_table", {})) if "type" in node]
    return any(
        node["type"] == "SUBQUERY"
        or (
            node["type"] == "BASE_TABLE"
            and str(node.get("table_name", "")).casefold() != logical.casefold()
        )
        for node in read
    )


def _is_grouped(select: Node) -> bool:
    """Whether it gives groups, or different rows, instead of rows."""
    kinds = [one.get("type") for one in select.get("modifiers", ())]
    return (
        bool(select.get("group_expressions"))
        or select.get("aggregate_handling") == "FORCE_AGGREGATES"  # GROUP BY ALL
        or "DISTINCT_MODIFIER" in kinds
        or select["type"] != "SELECT_NODE"
    )
