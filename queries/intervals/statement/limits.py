"""What copies of a table cannot speak of, by the shape of a statement: extremes, rare values, groups as units, chance.

Takes a statement with the places of its figures; gives the reason for each that has no interval by its copies, or
raises `Unknown` where that is the whole statement. README.md in the folder above lists the rules and why they are.
"""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import Any

from engine.schema import ColumnSet
from queries.intervals.copies.spread import MEASURED, measured_share
from queries.intervals.model import noise_model
from queries.intervals.statement.nodes import columns_in, nodes_in, number_of, parts
from queries.intervals.statement.tree import AGGREGATES, Unknown
from queries.sql import Result, Session

_CHANCE = re.compile(
    r"\b(random|gen_random_uuid|uuid\w*|setseed|nextval|sample|tablesample)\b", re.I
)
ENDS = frozenset(
    "min max min_by max_by arg_min arg_max argmin argmax arg_min_null arg_max_null "
    "approx_count_distinct approx_top_k bool_and bool_or bit_and bit_or bit_xor histogram".split()
)
"""What hangs on values or groups beyond those that are released: no copy of released counts can hold these."""
SINGLE = frozenset(
    "first last any_value arbitrary first_value last_value nth_value list array_agg".split()
)
"""What hangs on single rows, where it takes a column itself."""
TAILS = frozenset("entropy kurtosis kurtosis_pop skewness".split())
"""What rare values decide. Their intervals held 90 to 93 % on three sets of data, and are refused."""
_PER_GROUP = frozenset(
    "count_star count count_if countif avg mean median quantile quantile_cont quantile_disc approx_quantile mode mad "
    "stddev stddev_samp stddev_pop variance var_samp var_pop product corr covar_pop covar_samp "
    "rank dense_rank row_number percent_rank cume_dist ntile lag lead".split()
)
"""What takes every group for one, whatever it holds."""
STEPPED = frozenset("median quantile quantile_cont quantile_disc approx_quantile mode mad".split())
"""What goes by steps from one value of a column to the next."""
OUTERMOST = 0.02
"""Quantiles nearer to an end than this hang on values beyond the released ones."""
_BEYOND = (
    "what lies beyond the outermost released values, or is too rare to be released, is not known"
)
_MIXED = "a figure that goes by steps stands beside one that does not, and the steps do not show"


def refused(
    release: Session, text: str, plain: Result, wanted: Collection[int] | None
) -> dict[int, str]:
    """Places of figures that no copy can speak of, with the reason; raises where that is the whole statement."""
    if _CHANCE.search(text):
        raise Unknown("it draws at random, or samples rows")
    with release.cursor() as con:
        (parsed,) = con.execute(
            "SELECT json_serialize_sql(?, skip_null := true, skip_empty := true)", [text]
        ).fetchall()[0]
    tree = json.loads(parsed)
    if not tree.get("statements"):
        raise Unknown("it is not understood")
    _refuse_groups_as_units(release, tree, plain.table or ())
    items = tree["statements"][0]["node"].get("select_list", [])
    folded = {name.casefold() for name in release.columns}
    if wanted is not None and len(items) == len(plain.columns):
        found = {at: _why_not(items[at], folded) for at in wanted}
        return {at: why for at, why in found.items() if why}
    why = _why_not(tree, folded)
    if why:
        raise Unknown(why)
    return {}


def _why_not(tree: Any, columns: Collection[str]) -> str | None:
    """Why no copy can speak of what is reckoned in a part of a statement, or None."""
    names = set()
    for node in nodes_in(tree):
        name = str(node.get("function_name", "")).lower()
        if name in TAILS:
            return f"{name} hangs on values that are too rare to be released"
        if name in ENDS or _hangs_on_rows(node, name, columns) or _is_outermost(node, name):
            return _BEYOND
        names.add(name)
    is_mixed = names & STEPPED and names & (_PER_GROUP | {"sum"}) - STEPPED
    return _MIXED if is_mixed else None


def _is_outermost(node: Mapping[str, Any], name: str) -> bool:
    """Whether a quantile is taken near an end, or nobody knows where."""
    if "quantile" not in name:
        return False
    at = [number_of(one) for one in parts(dict(node))[1:]]
    return any(one is None or not OUTERMOST <= one <= 1 - OUTERMOST for one in at)


def _hangs_on_rows(node: Mapping[str, Any], name: str, columns: Collection[str]) -> bool:
    """Whether a function takes single rows, or different values, of a column itself."""
    if name not in SINGLE and not node.get("distinct"):
        return False
    given = [*parts(dict(node))]
    is_of_figures = any(
        str(inner.get("function_name", "")).lower() in AGGREGATES
        for one in given
        for inner in nodes_in(one)
    )
    return not is_of_figures and any(
        c.casefold() in columns for one in given for c in columns_in(one)
    )


def _refuse_groups_as_units(release: Session, tree: Any, columns: ColumnSet) -> None:
    """Raise `Unknown` where each group counts once, whatever it holds, and groups may be too rare to be released."""
    top, *inner = _selects(tree)
    if any("LIMIT" in str(more.get("type")) for one in inner for more in one.get("modifiers", ())):
        raise Unknown("it takes the first rows of a table, which has no order")
    if any(map(_is_grouped, inner)):
        of_groups = [one for one in (top, *inner) if _reads_more(one, release.logical_name)]
        if any(_names(_own(one)) & _PER_GROUP for one in of_groups):
            raise Unknown(
                "it reckons from groups, and those that are too rare to be released are not known"
            )
    windows = [
        node
        for one in (top, *inner)
        if _is_grouped(one)
        for node in nodes_in(one.get("select_list"))
        if node["class"] == "WINDOW"
    ]
    share = measured_share(noise_model(release, columns).table)
    if _names(windows) & _PER_GROUP and share < MEASURED:
        raise Unknown(
            f"its windows take group by group, {1 - share:.0%} of whose rows were filled in, and other groups are not "
            "released"
        )


def _selects(tree: Any) -> Iterator[Mapping[str, Any]]:
    """Every SELECT, UNION, EXCEPT and INTERSECT of a statement, the outermost first."""
    if isinstance(tree, dict):
        if tree.get("type") in ("SELECT_NODE", "SET_OPERATION_NODE"):
            yield tree
        for value in tree.values():
            yield from _selects(value)
    elif isinstance(tree, list):
        for value in tree:
            yield from _selects(value)


def _own(tree: Any, *, is_top: bool = True) -> Iterator[Mapping[str, Any]]:
    """All that is written in a SELECT itself, not in another one inside."""
    if isinstance(tree, dict):
        if not is_top and tree.get("type") in ("SELECT_NODE", "SET_OPERATION_NODE"):
            return
        yield tree
        for value in tree.values():
            yield from _own(value, is_top=False)
    elif isinstance(tree, list):
        for value in tree:
            yield from _own(value, is_top=False)


def _names(nodes: Iterable[Mapping[str, Any]]) -> set[str]:
    """Names of functions."""
    return {str(node.get("function_name", "")).lower() for node in nodes}


def _reads_more(select: Mapping[str, Any], logical: str) -> bool:
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


def _is_grouped(select: Mapping[str, Any]) -> bool:
    """Whether it gives groups, or different rows, instead of rows."""
    kinds = [one.get("type") for one in select.get("modifiers", ())]
    return (
        bool(select.get("group_expressions"))
        or "DISTINCT_MODIFIER" in kinds
        or select["type"] != "SELECT_NODE"
    )
