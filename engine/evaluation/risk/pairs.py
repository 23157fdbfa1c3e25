"""Pairs of people and synthetic records, counted by how they agree, in DuckDB.

Takes people, a table, the columns compared and those that must agree; gives how many pairs each person has of each
pattern of agreement, and how many of them are right. Pairs are never listed: only their counts leave the database.
Invariant: a pattern is a whole number, two bits a column, the first column lowest: 0 differs, 1 near, 2 equal.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from engine.evaluation.data.paired import Coded, Numbers, Paired
from engine.source import memory_connection

Floats = NDArray[np.float64]
EQUAL, NEAR, N_LEVELS = 2, 1, 3
MOST_COMPARED = 31
"""Two bits each in a whole number of 64."""
_MANY_VALUES = 20
_NEAR_SHARE = 50


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class Sides:
    """What is linked."""

    people: Coded
    table: Coded
    rows: Numbers  # shape (n_people,): Row of the table that was made from each person, or -1
    compared: tuple[str, ...]
    secrets: tuple[str, ...]  # Columns that a right link agrees in
    # Ordered columns: how far codes of near values lie apart at most; 0: only equal ones count.
    near: dict[str, int]


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class Pairs:
    """Pairs by person and pattern, one entry for each that there is."""

    person: Numbers  # Place of the person
    pattern: Numbers
    n: Floats  # Pairs
    own: Floats  # Those of them whose record was made from the person
    all_equal: Floats  # Those of them that agree in all secrets
    share_equal: Floats  # Share of secrets that agree, summed over the pairs


def nearness(paired: Paired, compared: Collection[str]) -> dict[str, int]:
    """Return how far codes of near values lie apart: numbers and times of many values, a fiftieth of these; else 0."""
    out = {}
    for name in compared:
        values = paired.values[name]
        ordered = values.dtype.kind in "fM" and len(values) > _MANY_VALUES
        out[name] = max(len(values) // _NEAR_SHARE, 1) if ordered else 0
    return out


def counted(sides: Sides, block: Collection[str], *, n_values: dict[str, int]) -> Pairs:
    """Count the pairs that agree in the columns of a block.

    n_values: Values of each compared column; its blank, coded after the last, is near to none.
    """
    people = _frame(sides.people, sides, {"id": np.arange(len(sides.people.n)), "own": sides.rows})
    rows = {"id": np.arange(len(sides.table.n)), "n": sides.table.n}
    conditions = [f"p.k{i} = r.k{i}" for i, c in enumerate(sides.compared) if c in block]
    equal = [f"(p.s{i} = r.s{i})::INTEGER" for i in range(len(sides.secrets))]
    n_equal = " + ".join(equal) or "0"
    sql = f"""
        SELECT p.id AS person, {_pattern(sides, n_values)} AS pattern, sum(r.n)::DOUBLE AS n,
               sum(r.n * (p.own = r.id)::INTEGER)::DOUBLE AS own,
               sum(r.n * (({n_equal}) = {len(equal)})::INTEGER)::DOUBLE AS all_equal,
               sum(r.n * ({n_equal}))::DOUBLE / {max(len(equal), 1)} AS share_equal
        FROM people p JOIN records r ON {" AND ".join(conditions) or "true"}
        GROUP BY ALL ORDER BY ALL
    """
    with memory_connection() as con:
        con.register("people", people)
        con.register("records", _frame(sides.table, sides, rows))
        columns = con.execute(sql).fetchnumpy()
    return Pairs(
        person=np.asarray(columns["person"], np.int64),
        pattern=np.asarray(columns["pattern"], np.int64),
        n=np.asarray(columns["n"], np.float64),
        own=np.asarray(columns["own"], np.float64),
        all_equal=np.asarray(columns["all_equal"], np.float64),
        share_equal=np.asarray(columns["share_equal"], np.float64),
    )


def levels_of(pattern: Numbers, n_columns: int) -> Numbers:
    """Return the levels of agreement of patterns: shape (n_patterns, n_columns)."""
    return (pattern[:, None] >> (2 * np.arange(n_columns))) & 3


def by_chance(sides: Sides, n_values: dict[str, int]) -> Floats:
    """Return the share of all pairs, blocked or not, at each level of each column: shape (n_columns, 3). Exact."""
    out = np.zeros((len(sides.compared), N_LEVELS))
    for i, name in enumerate(sides.compared):
        size = n_values[name] + 1
        left = np.bincount(sides.people.codes[name], minlength=size) / len(sides.people.n)
        weight = sides.table.n.astype(np.float64)
        right = np.bincount(sides.table.codes[name], weight, minlength=size) / sides.table.total
        equal = float(left @ right)
        width, values = sides.near[name], np.arange(n_values[name])
        total = np.concatenate([[0.0], np.cumsum(right[:-1])])
        low, high = np.maximum(values - width, 0), np.minimum(values + width + 1, len(values))
        near = float(left[:-1] @ (total[high] - total[low] - right[:-1])) if width else 0.0
        out[i] = max(1 - equal - near, 0.0), max(near, 0.0), equal
    return out


def blocks(sides: Sides, wanted: Sequence[str], *, most_pairs: int) -> list[tuple[str, ...]]:
    """Return the sets of columns that pairs must agree in, in one or two passes, so that there are not too many pairs.

    wanted: The only block, if any is named.
    """
    if wanted:
        return [tuple(wanted)]
    if len(sides.people.n) * len(sides.table.n) <= most_pairs:
        return [()]
    first = _block(sides, sides.compared, most_pairs)
    rest = [c for c in sides.compared if c not in first]
    second = _block(sides, rest, most_pairs) if len(rest) > 1 else ()
    enough = second and n_pairs(sides, second) <= most_pairs
    return [first, second] if enough else [first]


def n_pairs(sides: Sides, block: Collection[str]) -> int:
    """Return how many pairs of distinct records agree in some columns."""
    left, right = (
        pd.DataFrame({c: t.codes[c] for c in block}) for t in (sides.people, sides.table)
    )
    names = list(block)
    both = left.value_counts(names).to_frame("l").join(right.value_counts(names).rename("r"))
    return int((both["l"] * both["r"]).sum())


def _block(sides: Sides, columns: Sequence[str], most_pairs: int) -> tuple[str, ...]:
    """Columns, added one by one, until the pairs are few; the least that is enough, of the options with most pairs."""
    chosen: tuple[str, ...] = ()
    # One column at least is left to be compared.
    while len(chosen) < len(columns) - 1:
        options = {c: n_pairs(sides, (*chosen, c)) for c in columns if c not in chosen}
        enough = {c: n for c, n in options.items() if n <= most_pairs}
        if enough:
            return (*chosen, max(enough, key=lambda c: enough[c]))
        chosen = (*chosen, min(options, key=lambda c: options[c]))
    return chosen


def _pattern(sides: Sides, n_values: dict[str, int]) -> str:
    """SQL of the pattern of a pair."""
    parts = ["0::BIGINT"]
    for i, name in enumerate(sides.compared):
        level = f"WHEN p.k{i} = r.k{i} THEN {EQUAL}"
        if width := sides.near[name]:
            blank = n_values[name]
            filled = f"p.k{i} < {blank} AND r.k{i} < {blank}"
            level += f" WHEN abs(p.k{i} - r.k{i}) <= {width} AND {filled} THEN {NEAR}"
        parts.append(f"((CASE {level} ELSE 0 END)::BIGINT << {2 * i})")
    return " | ".join(parts)


def _frame(table: Coded, sides: Sides, more: dict[str, Numbers]) -> pd.DataFrame:
    """A table's codes under names that SQL can be made of."""
    compared = {f"k{i}": table.codes[c] for i, c in enumerate(sides.compared)}
    secrets = {f"s{i}": table.codes[c] for i, c in enumerate(sides.secrets)}
    return pd.DataFrame({**more, **compared, **secrets})
