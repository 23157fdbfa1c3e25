"""`differs(a, b)` in a statement: whether two figures of a row differ by more than their noise can explain.

Takes a statement that selects such calls; runs it with `a - b` in their place, and says TRUE where the noise interval
of that difference leaves 0 out, FALSE where it does not, NULL where it is not known. Both figures may share noise (a
part and its total, two groups of one table): the interval is that of the difference, so what they share cancels.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from engine.errors import QueryRefused
from queries.intervals.statement.aggregates import (
    Ends,
    beside,
    ends_of,
    kept_ends,
    marks_of,
)
from queries.intervals.statement.nodes import (
    Node,
    columns_in,
    dicts_in,
    name_of,
    parts,
    text_of_tree,
    tree_that_calls,
)
from queries.intervals.statement.tree import makes_more
from queries.sql import Result, Session

_CALL = re.compile(r"\bdiffers\W{0,3}\(", re.I)
NAME = "differs"
_RESIDUE = 1e-12
"""Shares that are equal may come out so far apart."""
_WORDS = {"not released", "structural zero"}
"""Statuses of a difference that tell more than that it is known."""


def has_differs(text: str) -> bool:
    """Whether a statement may call `differs`; quick, and now and then wrong where a text or a comment has the word."""
    return _CALL.search(text) is not None


def differing(
    release: Session,
    text: str,
    tables: Mapping[str, Any] | None = None,
    *,
    intervals: bool = False,
    status: bool = False,
) -> Result | None:
    """Answer a statement that selects `differs(a, b)`; None where it has no such call after all.

    tables, intervals, status: As in `Release.sql`; low and high ends beside `differs` are those of a - b.
    """
    with release.cursor() as con:
        where = f"{NAME}(a, b) is a column of one plain SELECT"
        tree = tree_that_calls(con, text, NAME, where)
        if not any(map(_is_call, dicts_in(tree))):
            return None
        places = _placed(tree)
        asked = text_of_tree(con, tree)
    plain, more, reasons = ends_of(release, asked, tables)
    unknown: list[str] = []
    if (
        not intervals
    ):  # of the others nobody asked how sure they are, only whether they are released
        more = {at: more[at] for at in places if at in more}
        told = [plain.columns[at] for at in places]
        others = tuple(f"{name}:" for name in plain.columns if name not in told)
        reasons = [why for why in reasons if not why.startswith(others)]
        if not tables:
            marks = marks_of(release, asked, plain, lambda: plain.rows)
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


def _is_call(node: Node) -> bool:
    return name_of(node) == NAME and node.get("class") == "FUNCTION"


def _placed(tree: Any) -> list[int]:
    """Put `a - b` in the place of every call, named as before; where each stands among the columns."""
    select = tree["statements"][0]["node"]
    items: list[Node] = select.get("select_list", [])
    places = [at for at, item in enumerate(items) if _is_call(item)]
    if len(places) != sum(map(_is_call, dicts_in(tree))):
        raise QueryRefused(
            f"{NAME}(a, b) is a column of its own in the outermost SELECT; it cannot stand inside another "
            "expression, in a subquery, WHERE, HAVING or ORDER BY"
        )
    if any(makes_more(node) for item in items for node in dicts_in(item)):
        raise QueryRefused(f"{NAME}(a, b) beside *, COLUMNS(...) or UNNEST: name the columns")
    if any(one["type"] == "DISTINCT_MODIFIER" for one in select.get("modifiers", ())):
        raise QueryRefused(f"{NAME}(a, b) under DISTINCT: leave DISTINCT out")
    if _sorts_by(select, places):
        raise QueryRefused(
            f"{NAME}(a, b) is shown alone: nothing else can be computed or sorted by it"
        )
    named = set()
    for at in places:
        call = items[at]
        if _is_more(call):
            raise QueryRefused(
                f"{NAME}(a, b) takes no FILTER, DISTINCT, ORDER BY or schema: give FILTER to the figures"
            )
        if len(parts(call)) != 2:
            raise QueryRefused(f"{NAME} takes two figures: {NAME}(a, b)")
        call["alias"] = call.get("alias") or NAME
        named.add(call["alias"].casefold())
        call.update(function_name="-", is_operator=True, qualified_name={"path": ["-"]})
    others = [{k: v for k, v in select.items() if k != "select_list"}]
    others += [item for at, item in enumerate(items) if at not in places]
    if named & {name.casefold() for name in columns_in(others)}:
        raise QueryRefused(
            f"{NAME}(a, b) is shown alone: nothing else can be computed or sorted by it"
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
