"""Which columns of a wide table are searched, in which levels, and which follow from others.

Supports and locked pairs in, a plan out. A column of few values is searched as it is. One of many values is searched
in groups of values, and its values are placed within the groups afterwards; where it tells a column of few values,
such as an occupation its major group, that column's values are the groups. A column that another one tells is read off
that one. What is bound so stays bound in every row.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from engine.schema import ColumnSet, Int64Array, Support, SyntheticTable

MOST_VALUES = 128
"""A column of more values is searched in groups."""
GROUPS = 32
"""Groups of equal share; a value with more rows is one of its own."""
FINEST = 64
"""Groups within a group, for the placing of values."""
Telling = Mapping[tuple[str, str], Int64Array]
SURE = 0.95
"""Least share of a column's rows in measured values for it to tell another column."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Told:
    """A column that is read off another one."""

    by: str
    # shape (n_values of `by`,): Position in the told column's support for each value.
    code: Int64Array


@dataclass(frozen=True, kw_only=True, slots=True)
class Placed:
    """A column whose values are placed after the search."""

    # The searched column whose levels its groups are; itself, if it was searched in groups.
    host: str
    group: Int64Array  # shape (n_values,): The host's level for each value


@dataclass(frozen=True, kw_only=True, slots=True)
class LevelPlan:
    """How the columns are treated."""

    searched: dict[str, Int64Array]  # Level of each value of the searched columns
    placed: dict[str, Placed]
    told: dict[str, Told]  # Such that what a column is read off is known before it, in this order


def plan_levels(
    columns: ColumnSet,
    supports: Mapping[str, Support],
    pairs: Mapping[ColumnSet, SyntheticTable],
    known: Telling,
) -> LevelPlan:
    """Sort the columns into searched, placed and told ones.

    known: By finer and coarser column: the coarser one's position for each value; more is read off the pairs.
    """
    telling = _telling(columns, supports, pairs)
    telling |= {pair: code for pair, code in known.items() if set(pair) <= set(columns)}
    size = {name: len(supports[name]) for name in columns}
    by_size = sorted(columns, key=lambda name: (size[name], name))
    told: dict[str, str] = {}
    for name in by_size:
        finer = [f for f in by_size if (f, name) in telling and f not in told]
        few = [f for f in finer if size[f] <= MOST_VALUES]
        if few:
            told[name] = few[0]
    hosts: dict[str, str] = {}
    for name in (n for n in reversed(by_size) if size[n] > MOST_VALUES and n not in told):
        coarser = [c for c in by_size if (name, c) in telling and c not in told]
        few = [c for c in coarser if size[c] <= MOST_VALUES]
        few = [c for c in few if _adds_up(supports[name], telling[name, c], supports[c])]
        if few:
            hosts[name] = few[-1]
        told |= {c: name for c in coarser if c not in hosts.values()}
    searched = {
        name: groups_of(supports[name], MOST_VALUES, GROUPS)
        for name in columns
        if name not in told and name not in hosts
    }
    placed = {name: Placed(host=c, group=telling[name, c]) for name, c in hosts.items()}
    placed |= {
        name: Placed(host=name, group=level)
        for name, level in searched.items()
        if len(level) > level.max(initial=-1) + 1
    }
    order = sorted(told, key=lambda name: _depth(name, told))
    return LevelPlan(
        searched=searched,
        placed=placed,
        told={name: Told(by=told[name], code=telling[told[name], name]) for name in order},
    )


def groups_of(support: Support, most: int, groups: int) -> Int64Array:
    """Group of each value: itself if there are few, else neighbours of about equal share together.

    most: So many values are not grouped.
    groups: A group is closed once it holds one row in so many; kinds of values are never mixed.
    """
    n = len(support)
    if n <= most:
        return np.arange(n)
    return packed(support.n, support.kind.astype(np.int64), int(support.n.sum()) // groups)


def packed(n: Int64Array, kind: Int64Array, enough: int) -> Int64Array:
    """Number neighbours so that each group but the last of its kind holds enough rows.

    A value that holds enough alone is a group alone.
    """
    out = np.empty(len(n), dtype=np.int64)
    group, held = -1, 0
    for place, (rows, changes) in enumerate(
        zip(n.tolist(), (np.diff(kind, prepend=-1) != 0).tolist(), strict=True)
    ):
        if changes or held >= enough or rows >= enough:
            group, held = group + 1, 0
        out[place] = group
        held += rows
    return out


def _telling(
    columns: ColumnSet,
    supports: Mapping[str, Support],
    pairs: Mapping[ColumnSet, SyntheticTable],
) -> dict[tuple[str, str], Int64Array]:
    """By (finer, coarser): the coarser column's position for each value, where every row of the pair agrees."""
    out = {}
    for pair, table in pairs.items():
        if not set(pair) <= set(columns):
            continue
        for j in (0, 1):
            finer, coarser = supports[pair[j]], supports[pair[1 - j]]
            own, other = table.codes[:, j].astype(np.int64), table.codes[:, 1 - j]
            is_sure = finer.n[finer.measured].sum() >= SURE * finer.n.sum()
            if len(table.n) != len(finer) or not is_sure or len(np.unique(own)) != len(finer):
                continue
            code = np.empty(len(finer), dtype=np.int64)
            code[own] = other
            if _adds_up(finer, code, coarser):
                out[pair[j], pair[1 - j]] = code
    return out


def _adds_up(finer: Support, code: Int64Array, coarser: Support) -> bool:
    """Whether the counts of a column make up those of the one that it tells."""
    sums = np.bincount(code, weights=finer.n, minlength=len(coarser))
    return bool((sums == coarser.n).all())


def _depth(name: str, told: Mapping[str, str]) -> int:
    """How many columns lie between a told column and one that is not."""
    depth = 0
    while name in told:
        name, depth = told[name], depth + 1
    return depth
