"""What a SELECT asks for, from DuckDB's own parse: keys, aggregates, arithmetic over them, conditions.

Takes the text of a statement; gives a `ParsedStatement`, or raises `Unknown` with the reason why no interval is known.
Only what is listed here is understood; all else is left to the plain answer.
"""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Literal

import duckdb

from queries.intervals.statement.inlined import chosen, inlined
from queries.intervals.statement.nodes import (
    Node,
    followed,
    is_total,
    name_of,
    nodes_below,
    nodes_in,
    number_of,
    parts,
    replaced,
    text_of,
)

AGGREGATES = (
    *("count_star", "count", "count_if", "countif", "sum", "avg", "mean", "median"),
    *("quantile_cont", "quantile_disc"),
)
_CALLED = re.compile(r"(\w+)\s*\(")
"""Names of functions that the definition of a macro calls."""
_OPERATORS = ("+", "-", "*", "/")
_FRAME = ("UNBOUNDED_PRECEDING", "CURRENT_ROW_RANGE", "NO_OTHER")
"""The frame of a window that names none; without an order it holds everything."""
_WINDOW_PARTS = {"orders", "filter_expr", "arg_orders", "start_expr", "end_expr"}
"""What else a window may have."""
_MAKE_MORE = ("unnest", "unlist")
_UNSTABLE = ("random", "uuid", "gen_random_uuid", "uuidv4", "uuidv7", "setseed", "nextval")
_CLASS_NAMES = {
    "COLUMN_REF": "a column by itself",
    "CASE": "CASE",
    "COMPARISON": "a comparison",
    "CONJUNCTION": "AND or OR",
    "CAST": "a change of type",
    "SUBQUERY": "a subquery",
    "STAR": "*",
}
"""What an expression is called that has no name of its own, by DuckDB's class."""
_INSIDE = "ask its SELECTs one by one, and their figures are marked"


class Unknown(Exception):
    """Why no interval is known for a statement."""


class NotAlone(Unknown):
    """It is made of several statements, or reads something beside the logical table."""


class NoFigures(Unknown):
    """It shows rows or values, and reckons nothing from them."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Aggregate:
    """One aggregate of a group."""

    kind: str  # One of `AGGREGATES`
    of: Node | None = None  # What is counted, summed ...; None: rows
    keep: Node | None = None  # Condition of its FILTER
    quantile: float = 0.5
    # Of a window over all groups: what it is partitioned by; None: no window.
    within: tuple[Node, ...] | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class Arithmetic:
    """Two terms and what joins them."""

    operator: str  # One of + - * /
    left: Term
    right: Term


@dataclass(frozen=True, kw_only=True, slots=True)
class Rounded:
    """A term that is rounded to some decimals."""

    term: Term
    digits: int


Term = Aggregate | Arithmetic | Rounded | float


@dataclass(frozen=True, kw_only=True, slots=True)
class Parts:
    """What a figure is reckoned from that is not understood itself: enough to say whether anything of it is
    released.
    """

    counts: tuple[Aggregate, ...]  # Counts of the rows that each of its aggregates takes
    # It is reckoned from aggregates that are understood, and from totals: with these released it is, too.
    # What others take (the largest value, the number of different ones) may be filled in even then.
    is_sure: bool


@dataclass(frozen=True, kw_only=True, slots=True)
class ParsedStatement:
    """A statement that is understood."""

    source: Node  # Its FROM
    # Place among the result's columns, and expression, of each key; in the order of GROUP BY.
    keys: tuple[tuple[int, Node], ...]
    # Place and meaning of all other columns; text: why no interval is known for that one.
    figures: tuple[tuple[int, Term | Literal[""] | str], ...]
    where: tuple[Node, ...]  # Conditions that must all hold
    # Which of the keys each of its groupings has: one grouping of all, but for ROLLUP, CUBE and GROUPING
    # SETS.
    sets: tuple[tuple[int, ...], ...]
    cast: frozenset[int] = frozenset()  # Places of the columns whose figure is cast to a type
    # What columns that are not understood are reckoned from, by place, where that is known.
    parts: Mapping[int, Parts] = field(default_factory=dict)

    def groupings(self) -> tuple[ParsedStatement, ...]:
        """The same statement for each of its groupings by itself."""
        return tuple(
            replace(
                self, keys=tuple(self.keys[i] for i in chosen), sets=(tuple(range(len(chosen))),)
            )
            for chosen in self.sets
        )


def parse_statement(
    con: duckdb.DuckDBPyConnection, text: str, logical_name: str, columns: Collection[str]
) -> ParsedStatement:
    """Read a statement."""
    node = parsed_select(con, text)
    aggregates = aggregates_in(con, [node])
    node = inlined(node, columns, aggregates)
    inner, places = chosen(node, columns, aggregates)
    if not places:
        return _parsed(con, node, logical_name, columns)
    try:
        return _moved(_parsed(con, inner, logical_name, columns), places)
    except Unknown as why:
        raise NotAlone(str(why)) from None


def _moved(statement: ParsedStatement, places: Sequence[int]) -> ParsedStatement:
    """A statement of which some columns are shown, each but once; `places`: of them among its own."""
    to = {own: at for at, own in enumerate(places)}
    if len(to) < len(places) or any(own not in to for own, _ in statement.keys):
        raise Unknown(f"it reads a subquery that is not followed; {_INSIDE}")
    return replace(
        statement,
        keys=tuple((to[own], node) for own, node in statement.keys),
        figures=tuple((to[own], term) for own, term in statement.figures if own in to),
        cast=frozenset(to[own] for own in statement.cast if own in to),
        parts={to[own]: parts for own, parts in statement.parts.items() if own in to},
    )


def _parsed(
    con: duckdb.DuckDBPyConnection, node: Node, logical_name: str, columns: Collection[str]
) -> ParsedStatement:
    """Read the parse of a statement; see `parse_statement`."""
    if node.get("type") != "SELECT_NODE" or (node.get("cte_map") or {}).get("map"):
        raise NotAlone(f"it has a WITH, a UNION or the like; {_INSIDE}")
    source = node.get("from_table", {})
    name = source.get("table_name", "")
    if source.get("type") == "SUBQUERY":
        raise NotAlone(f"it reads a subquery that is not followed; {_INSIDE}")
    if source.get("type") != "BASE_TABLE" or name.casefold() != logical_name.casefold():
        raise NotAlone(f"it reads something else than {logical_name} alone")
    is_of_rows = "qualify" in node and "group_expressions" not in node
    if node.get("sample") or source.get("sample") or is_of_rows:
        raise Unknown("it samples rows, or has a QUALIFY that chooses rows and no groups")
    if any(makes_more(n) for item in node["select_list"] for n in nodes_in(item)):
        raise Unknown("it selects *, COLUMNS(...) or UNNEST: more columns or rows than it names")
    hiding = {name.casefold() for name in columns}
    items, named = followed(node["select_list"], hiding)
    aggregates = aggregates_in(con, items)
    groups = group_expressions(node, items, aggregates, hiding)
    of_groups = [text_of(group) for group in groups]
    at = {text_of(item): i for i, item in enumerate(items)}
    places = [at.get(group, -1) for group in of_groups]
    if -1 in places:
        raise Unknown("it groups by something that it does not select")
    rest = [i for i in range(len(items)) if i not in places]
    figures = tuple((i, _figure(items[i], of_groups)) for i in rest)
    reckoned = {
        i: _parts(items[i], aggregates) for i, term in figures if isinstance(term, str) and term
    }
    sets = _sets(node, len(groups))
    if any(n.get("class") == "WINDOW" for item in items for n in nodes_in(item)):
        if len(sets) > 1:
            raise Unknown("it has a window over groups and their totals at once")
        if "having" in node:
            raise Unknown("it has a window over those of its groups that HAVING leaves")
    limits = replaced(node.get("where_clause"), named)
    where = tuple(_conjuncts(limits)) if limits else ()
    for part in (*groups, *where):
        _row_level(part)
    return ParsedStatement(
        source=source,
        keys=tuple(zip(places, groups, strict=True)),
        figures=figures,
        where=where,
        sets=sets,
        cast=frozenset(i for i in rest if items[i].get("class") == "CAST"),
        parts={i: parts for i, parts in reckoned.items() if parts is not None},
    )


def parsed_select(con: duckdb.DuckDBPyConnection, text: str) -> Node:
    """DuckDB's parse of one SELECT."""
    parsed = json.loads(
        con.execute(
            "SELECT json_serialize_sql(?, skip_null := true, skip_empty := true)", [text]
        ).fetchall()[0][0]
    )
    if parsed.get("error") or len(parsed.get("statements", [])) != 1:
        raise Unknown("it is not one plain SELECT")
    node: Node = parsed["statements"][0]["node"]
    return node


def _parts(node: Node, aggregates: Collection[str]) -> Parts | None:
    """What an expression is reckoned from; None where a window, or a subquery that is no total, is among it."""
    counted: list[Aggregate] = []
    is_sure = True
    left = [node]
    while left:
        part = left.pop()
        name = name_of(part)
        if part.get("class") == "WINDOW" or (
            part.get("class") == "SUBQUERY" and not is_total(part)
        ):
            return None
        if part.get("class") == "SUBQUERY":
            continue
        if name not in aggregates:
            left += nodes_below(part)
            continue
        given = _arguments(part)
        try:
            of = _row_level(given[0]) if given else None
            counted.append(Aggregate(kind="count", of=of, keep=_filter_of(part)))
        except Unknown:
            return None
        is_sure = is_sure and name in AGGREGATES and not part.get("distinct")
    return Parts(counts=tuple(counted), is_sure=is_sure) if counted else None


def makes_more(node: Node) -> bool:
    """Whether an expression stands for several columns or rows: places in the text are not those in the answer."""
    return node.get("class") == "STAR" or name_of(node) in _MAKE_MORE


def _sets(node: Node, n_groups: int) -> tuple[tuple[int, ...], ...]:
    """Which groups each grouping has, each grouping once."""
    given = [] if node.get("aggregate_handling") == "FORCE_AGGREGATES" else node.get("group_sets")
    return tuple(dict.fromkeys(tuple(one) for one in given or [range(n_groups)]))


def aggregates_in(con: duckdb.DuckDBPyConnection, items: Sequence[Node]) -> Collection[str]:
    """Names of the aggregates among the functions of expressions: ours, others that DuckDB has, and macros of these."""
    names = {name_of(n) for item in items for n in nodes_in(item)}
    if names <= {"", *AGGREGATES, *_OPERATORS}:
        return AGGREGATES
    listed = con.execute(
        "SELECT DISTINCT lower(function_name), lower(coalesce(macro_definition, '')) FROM duckdb_functions() "
        "WHERE function_type = 'aggregate' OR (function_type = 'macro' AND database_name = 'system')"
    ).fetchall()
    known = {name for name, definition in listed if not definition}
    macros = [(name, {*_CALLED.findall(definition)}) for name, definition in listed if definition]
    while more := {name for name, called in macros if called & known} - known:
        known |= more
    return names & known | {*AGGREGATES}


def group_expressions(
    node: Node, items: Sequence[Node], aggregates: Collection[str], columns: Collection[str]
) -> list[Node]:
    """Expressions of GROUP BY, with positions and names looked up; a column goes before a name that hides it."""
    if node.get("aggregate_handling") == "FORCE_AGGREGATES":
        return [item for item in items if not _has_aggregate(item, aggregates)]
    expressions = node.get("group_expressions", [])
    if not expressions and not any(_has_aggregate(item, aggregates) for item in items):
        raise NoFigures(f"it has no group, and none of {', '.join(AGGREGATES[1:])}")
    named = {item["alias"].casefold(): item for item in items if item.get("alias")}
    out = []
    for group in expressions:
        number = number_of(group)
        if number is not None and 1 <= int(number) <= len(items):
            group = items[int(number) - 1]
        elif group.get("class") == "COLUMN_REF" and len(group["column_names"]) == 1:
            name = group["column_names"][0].casefold()
            same = None if name in columns else named.get(name)
            group = same if same is not None else group
        out.append(group)
    return out


def _has_aggregate(node: Node, aggregates: Collection[str]) -> bool:
    """Whether an aggregate or window is in an expression."""
    return any(n.get("class") == "WINDOW" or name_of(n) in aggregates for n in nodes_in(node))


def _conjuncts(node: Node) -> Iterator[Node]:
    """Conditions joined by AND."""
    if node.get("type") == "CONJUNCTION_AND":
        for child in node["children"]:
            yield from _conjuncts(child)
    else:
        yield node


def _row_level(node: Node) -> Node:
    """The same expression; what one row cannot decide is refused."""
    for inner in nodes_in(node):
        if inner.get("class") in ("SUBQUERY", "WINDOW"):
            raise Unknown("it has a subquery or window inside a condition or expression")
        if name_of(inner) in (*AGGREGATES, *_UNSTABLE):
            raise Unknown(f"it has {inner['function_name']}() inside a condition or expression")
    return node


def _figure(node: Node, groups: Sequence[str]) -> Term | str:
    """What a column of the result means, or why that is not known; empty for a constant, which needs no interval."""
    is_constant = node.get("class") == "CONSTANT" or number_of(node) is not None
    if is_constant or node.get("type") == "GROUPING_FUNCTION":
        return ""
    try:
        return _term(node, groups)
    except Unknown as why:
        return str(why)


def _term(node: Node, groups: Sequence[str]) -> Term:
    number = number_of(node)
    if number is not None:
        return number
    name = name_of(node)
    inner = parts(node)
    if node.get("class") == "WINDOW":
        return _window(node, groups)
    if name in AGGREGATES:
        return _aggregate(node, name, _arguments(node))
    if name in _OPERATORS and len(inner) == 2:
        left, right = (_term(part, groups) for part in (inner[0], _divisor(name, inner[1])))
        return Arithmetic(operator=name, left=left, right=right)
    if (
        node.get("type") == "OPERATOR_COALESCE"
        and len(inner) == 2
        and number_of(inner[1]) is not None
    ):
        return _term(inner[0], groups)  # where it is NULL nothing is released, whatever is shown
    if name == "-" and len(inner) == 1:
        return Arithmetic(operator="-", left=0.0, right=_term(inner[0], groups))
    if name == "round" and 1 <= len(inner) <= 2:
        digits = number_of(inner[1]) if len(inner) == 2 else 0.0
        if digits is not None:
            return Rounded(term=_term(inner[0], groups), digits=int(digits))
    if node.get("class") == "CAST" and "child" in node:
        return _term(node["child"], groups)
    what = name or _CLASS_NAMES.get(node.get("class", ""), "this expression")
    raise Unknown(f"{what} is not among what intervals are known for")


def _divisor(operator: str, node: Node) -> Node:
    """The right side of an operator; nullif(x, 0) below a fraction is x: of nothing there is no figure either way."""
    given = parts(node) if operator == "/" and name_of(node) == "nullif" else []
    return given[0] if given and number_of(given[1]) == 0 else node


def _arguments(node: Node) -> list[Node]:
    """Arguments of an aggregate; what WITHIN GROUP (ORDER BY ...) orders comes first."""
    given = parts(node)
    orders = node.get("order_bys", {}).get("orders", [])
    is_ordered = len(given) == len(orders) == 1 and name_of(node).startswith("quantile")
    if is_ordered and orders[0]["type"] != "DESCENDING":
        return [orders[0]["expression"], *given]
    return given


def _aggregate(node: Node, name: str, inner: list[Node]) -> Aggregate:
    if node.get("distinct"):
        raise Unknown("distinct values are not counted with an interval")
    if name.startswith("quantile"):
        at = number_of(inner[1]) if len(inner) == 2 else None
        if at is None or not 0 <= at <= 1:
            raise Unknown(f"{name} with one number from 0 to 1 is understood")
        if at in (0, 1):
            raise Unknown(f"{name} at 0 or 1 is min or max, and these are not released")
        kind = "quantile_disc" if name == "quantile_disc" else "median"
        return Aggregate(kind=kind, of=_row_level(inner[0]), keep=_filter_of(node), quantile=at)
    of = _row_level(inner[0]) if inner else None
    if not inner and name not in ("count_star", "count"):
        raise Unknown(f"{name} of nothing is not understood")
    kind = {"count_star": "count", "mean": "avg", "count_if": "sum", "countif": "sum"}.get(
        name, name
    )
    return Aggregate(kind=kind, of=of, keep=_filter_of(node))


def _filter_of(node: Node) -> Node | None:
    return _row_level(node["filter"]) if "filter" in node else None


def _window(node: Node, groups: Sequence[str]) -> Aggregate:
    """The sum of an aggregate over all groups, or over those that share some keys."""
    inner = parts(node)
    is_plain = (
        not (_WINDOW_PARTS & node.keys() or node.get("distinct"))
        and (
            node.get("start", _FRAME[0]),
            node.get("end", _FRAME[1]),
            node.get("exclude_clause", _FRAME[2]),
        )
        == _FRAME
    )
    if name_of(node) != "sum" or len(inner) != 1 or not is_plain:
        raise Unknown("of windows only sum(...) OVER (PARTITION BY keys) is understood")
    term = _term(inner[0], groups)
    within = tuple(node.get("partitions", []))
    if not isinstance(term, Aggregate) or term.kind not in ("count", "sum"):
        raise Unknown("only totals of counts and sums are understood")
    if any(text_of(part) not in groups for part in within):
        raise Unknown("its window is partitioned by something that it does not group by")
    return Aggregate(kind=term.kind, of=term.of, keep=term.keep, within=within)
