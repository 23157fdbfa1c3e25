"""Warnings about statements that treat synthetic rows as people: read from DuckDB's plan, never from the text.

Takes a plan; gives warnings that say why a result means less than it seems. Each operator is classified by what it
passes on: individual synthetic rows, or figures of groups. Joining, numbering or looking up the former is meaningless;
doing the same with the latter is what a release is for.
Invariant: a warning never refuses, and never depends on a value of the release.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any

FEW = 10
"""Rows up to which an answer shows individual synthetic rows, not a distribution."""
UNKNOWN = 1e18
"""Rows left by a LIMIT that is a percentage, or known only at run time."""
SELF_JOIN = (
    "The statement joins synthetic rows with each other. No row is a person, and two rows are not related (no "
    "household, couple or friendship), so which of them match is arbitrary. Count groups first, then join the counts."
)
NUMBERED = (
    "The statement numbers synthetic rows, or compares them with their neighbours. Their order has no meaning: the "
    "next row is not the next person. Count groups first, then number or compare the groups."
)
LOOK_UP = (
    "The statement looks up individual synthetic rows. No row is a person: a row says nothing about anybody, and a "
    "missing row proves nothing. Query counts, sums or averages of groups instead."
)
SAMPLED = (
    "The statement samples synthetic rows: running it again may give other figures, and each is less accurate than the "
    "table's. Query the whole table instead."
)
_KEEPS_LEFT = ("SEMI", "ANTI", "MARK")
_COMPARES = re.compile(r"[<>]|!=")
_CORRELATED = "__duckdb_delim"
"""DuckDB's name for the rows that a correlated subquery runs for."""
_NUMBERING = re.compile(
    r'\b(row_number|lag|lead|nth_value|first_value|last_value)"?(\(|$)|"?\b(first|last)"?\('
)
_PICKING = re.compile(
    r'\b(first|last|arg_m(ax|in)(_null|_nulls_last)?|m(ax|in)_by)"?\(|\bm(ax|in)\([^(),]+, '
)
_ANY = re.compile(r"\bany_value\(")
_LISTING = re.compile(r"\b(list|array_agg|string_agg|group_concat|listagg)\((?!DISTINCT)")


@dataclass(frozen=True, kw_only=True, slots=True)
class Advice:
    """Warnings about a statement."""

    warnings: tuple[str, ...]  # Those that follow from the plan
    # A condition selects the synthetic rows in the answer: it looks up rows if few are left.
    may_look_up: bool

    @property
    def foreseen(self) -> tuple[str, ...]:
        """All possible warnings, before anything is run."""
        return (
            (*self.warnings, f"If few rows are left: {LOOK_UP}")
            if self.may_look_up
            else self.warnings
        )


@dataclass(frozen=True, kw_only=True, slots=True)
class _Flow:
    """What an operator passes on."""

    rows: bool = False  # Individual synthetic rows
    chosen: bool = False  # Rows selected by a condition
    stored: bool = False  # Distinct rows with their number
    correlated: bool = False  # Rows for each of which a subquery runs
    joined: bool = False  # Rows joined with something other than rows of the release


_NOTHING = _Flow()


def advice_of(plan: list[dict[str, Any]], scanned: Callable[[str], str | None]) -> Advice:
    """Return the warnings about a plan.

    scanned: Gives the contents of a scanned table by its full name: "rows" (a row per synthetic record), "stored"
        (distinct rows with their number), or None (neither).
    """
    reader = _Reader(scanned)
    flow = reader.together(plan)
    if LOOK_UP in reader.warnings:
        return Advice(warnings=tuple(reader.warnings), may_look_up=False)
    return Advice(warnings=tuple(reader.warnings), may_look_up=flow.rows and flow.chosen)


class _Reader:
    """Walks one plan; records what common table expressions pass on, and the warnings."""

    def __init__(self, scanned: Callable[[str], str | None]) -> None:
        self._scanned = scanned
        self._shared: dict[str, _Flow] = {}
        self.warnings: dict[str, None] = {}

    def together(self, nodes: list[dict[str, Any]]) -> _Flow:
        """Combine nodes: the branches of a union, or the inputs of an operator."""
        return _either(self.flow(node) for node in nodes)

    def flow(self, node: Mapping[str, Any]) -> _Flow:
        """What one operator passes on."""
        name = str(node.get("name", "")).strip()
        info: Mapping[str, Any] = node.get("extra_info") or {}
        children: list[dict[str, Any]] = node.get("children") or []
        if name.endswith("CTE_SCAN"):
            return self._shared.get(str(info.get("CTE Index")), _NOTHING)
        if name.endswith("CTE") and len(children) == 2:
            return self._expression(name, info, children)
        if name.endswith("SCAN"):
            source = self._scanned(str(info.get("Table", "")))
            chosen = source is not None and bool(info.get("Filters"))
            if source is not None and "Sample Method" in info:
                self.warnings[SAMPLED] = None
            return _Flow(rows=source == "rows", chosen=chosen, stored=source == "stored")
        if "JOIN" in name and len(children) >= 2:
            return self._join(info, children)
        return self._unary(name, info, self.together(children))

    def _expression(
        self, name: str, info: Mapping[str, Any], children: list[dict[str, Any]]
    ) -> _Flow:
        """A common table expression: its contents, then what reads it."""
        contents = self.flow(children[0])
        is_correlated = str(info.get("CTE Name", "")).startswith(_CORRELATED)
        self._shared[str(info.get("Table Index"))] = replace(contents, correlated=is_correlated)
        rest = self.flow(children[1])
        return _either([contents, rest]) if name.startswith("REC") else rest

    def _join(self, info: Mapping[str, Any], children: list[dict[str, Any]]) -> _Flow:
        """Rows joined with rows are a self-join; a set of values that rows are compared with is a condition."""
        left, right = self.flow(children[0]), self.together(children[1:])
        kind = str(info.get("Join Type", ""))
        is_condition = any(word in kind for word in _KEEPS_LEFT)
        passed = right if kind.startswith("RIGHT") else left
        is_pairing = (
            not is_condition or passed.correlated or _COMPARES.search(str(info.get("Conditions")))
        )
        if left.rows and right.rows and is_pairing:
            self.warnings[SELF_JOIN] = None
        if is_condition:
            return _Flow(rows=passed.rows, chosen=True, stored=passed.stored)
        return replace(_either([left, right]), joined=not (left.rows and right.rows))

    def _unary(self, name: str, info: Mapping[str, Any], below: _Flow) -> _Flow:
        """Operators with one input: aggregates, filters, limits, windows, projections."""
        if "GROUP_BY" in name or "AGGREGATE" in name:
            if below.rows and _shows_rows(name, str(info.get("Aggregates", "")), below):
                self.warnings[LOOK_UP] = None
            return _NOTHING
        if name == "UNNEST" and below.stored:
            return _Flow(rows=True, chosen=below.chosen)
        if not below.rows:
            return below
        if name == "FILTER":
            return _Flow(rows=True, chosen=True, joined=below.joined)
        if "WINDOW" in name and _NUMBERING.search(str(info.get("Projections", ""))):
            self.warnings[NUMBERED] = None
        if "SAMPLE" in name:
            self.warnings[SAMPLED] = None
        left = _at_most(name, info)
        if left <= FEW:
            self.warnings[LOOK_UP] = None
        return replace(below, chosen=True) if left == UNKNOWN else below


def _either(flows: Iterable[_Flow]) -> _Flow:
    """What several operators pass on together."""
    each = list(flows)
    return _Flow(
        rows=any(f.rows for f in each),
        chosen=any(f.chosen for f in each),
        stored=any(f.stored for f in each),
        joined=any(f.joined for f in each),
    )


def _shows_rows(name: str, aggregates: str, below: _Flow) -> bool:
    """Whether an aggregate picks individual rows, or lists those selected by a condition.

    `any_value` of a group may be a value that the whole group shares, and so may a value from a joined public table.
    """
    if _PICKING.search(aggregates) or (below.chosen and _LISTING.search(aggregates)):
        return True
    return "GROUP_BY" not in name and not below.joined and _ANY.search(aggregates) is not None


def _at_most(name: str, info: Mapping[str, Any]) -> float:
    """Number of rows left by a LIMIT, ORDER BY ... LIMIT or SAMPLE; infinity for other operators."""
    if not any(word in name for word in ("LIMIT", "TOP_N", "SAMPLE")):
        return float("inf")
    for key in ("Limit", "Top", "Sample Size"):
        match = re.fullmatch(r"(\d+)( rows)?", str(info.get(key, "")).strip())
        if match:
            return int(match[1])
    return UNKNOWN
