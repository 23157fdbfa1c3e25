"""Public levels of columns, and the combinations of them that nobody can have: what dp mode counts by.

In: columns of the spec and its rules. Out: `Levels` in the codes of the encoded rows, `StructuralZero`s over them. No
data is read: a level exists because the spec declares it. Invariant: the levels of a column are disjoint, and every
value that `ingest` lets through lies in one of them; a level that a rule means only in part is never ruled out.
"""

from __future__ import annotations

from collections.abc import Mapping
from itertools import combinations

import numpy as np
from numpy.typing import NDArray

from engine.errors import SpecError
from engine.levels import Levels, StructuralZero
from engine.params import ZeroPart, ZeroRule
from engine.schema import BoolArray, Column, ColumnSet, Int64Array, Universe
from engine.source import grid_code
from engine.spec import ancestor, missing_domain

Int8Array = NDArray[np.int8]
_Condition = tuple[object, ...]
_Marks = dict[str, Int8Array]
"""For one universe, by column: which levels are of rows inside it (1), outside (-1), or of either (0)."""


def levels_of(column: Column) -> Levels:
    """The public levels of a column.

    column: With a public domain; integer columns with a step have one level a multiple of it, which holds the
        codes up to the next (the first and the last reach the ends of the domain).

    Returns: Null first, where the column may be null; then ascending by code, ranked columns in the order of
    the domain.
    """
    problems = missing_domain(column)
    if problems:
        raise SpecError(problems)
    values = column.domain if column.is_ranked else None
    if values is not None:
        low = np.arange(len(values), dtype=np.int64)
        high = low
    else:
        low, high = _grid_levels(column)
    if column.nullable:
        low, high = (np.concatenate([[np.int64(0)], codes]) for codes in (low, high))
    return Levels(column=column, low=low, high=high, has_null=column.nullable, values=values)


def zeros_of(
    columns: tuple[Column, ...], rules: tuple[ZeroRule, ...], levels: Mapping[str, Levels]
) -> tuple[StructuralZero, ...]:
    """Combinations of levels that declared universes and rules make impossible.

    columns: All of the spec: one that is not counted may still tell whose universe depends on whose.
    levels: By column, for the columns that are counted; universes of others say nothing.

    Returns: First those of universes, by pair of columns; then those of the rules. Only such as rule
    something out.
    """
    by_name = {column.name: column for column in columns}
    zeros_of_rules = [
        *(zero for marks, why in _marked(by_name, levels) for zero in _of_universe(marks, why)),
        *(_of_rule(rule, levels) for rule in rules),
        *_of_hierarchies(by_name, levels),
    ]
    return tuple(zero for zero in zeros_of_rules if zero.cells.any())


def _grid_levels(column: Column) -> tuple[Int64Array, Int64Array]:
    """Smallest and largest code of each group or value, ascending."""
    first, last = (grid_code(column, value) for value in column.bounds or (False, True))
    if column.breaks is not None:
        codes = [first, *(grid_code(column, value) for value in column.breaks)]
        low = np.array(codes, dtype=np.int64)
    else:
        start, step = -(-first // column.step) * column.step, column.step
        low = start + step * np.arange((last - start) // step + 1, dtype=np.int64)
        low[0] = first
    high = np.append(low[1:] - 1, np.int64(last))
    return low, high


def _marked(
    columns: Mapping[str, Column], levels: Mapping[str, Levels]
) -> list[tuple[_Marks, str]]:
    """Per declared universe, the marks of the columns that determine or have it, in the order of their names."""
    marks: dict[_Condition, _Marks] = {}
    words: dict[_Condition, str] = {}
    for name in sorted(columns):
        universe = columns[name].universe
        if universe is None:
            continue
        words.setdefault(universe.condition, f"universe: {universe}")
        of_condition = marks.setdefault(universe.condition, {})
        if universe.column in levels:
            of_condition[universe.column] = _sides(levels[universe.column], universe)
        if name in levels:
            _mark_members(_says_outside(levels[name], universe), name, columns, marks)
    return [(of_condition, words[condition]) for condition, of_condition in marks.items()]


def _mark_members(
    outside: BoolArray,
    name: str,
    columns: Mapping[str, Column],
    marks: dict[_Condition, _Marks],
) -> None:
    """Mark a column's levels for its own universe, and for those that its deciding column depends on."""
    own = columns[name].universe
    if own is None:
        return
    mark = np.where(outside, -1 if own.complete else 0, 1).astype(np.int8)
    marks[own.condition][name] = mark
    decider = columns.get(own.column)
    while decider and (above := decider.universe) and above.outside is None:
        # People inside have a value in the deciding column, so are inside that one's universe too.
        marks.setdefault(above.condition, {})[name] = np.maximum(mark, 0).astype(np.int8)
        decider = columns.get(above.column)


def _of_universe(marks: _Marks, why: str) -> list[StructuralZero]:
    """Pairs of levels, one inside and the other outside."""
    zeros = []
    for left, right in combinations(sorted(marks), 2):
        product = np.multiply.outer(marks[left], marks[right])
        zeros.append(StructuralZero(columns=(left, right), cells=product < 0, why=why))
    return zeros


def _sides(decider: Levels, universe: Universe) -> Int8Array:
    """Levels of the deciding column: 1 inside, -1 outside (null is outside), 0 of either."""
    if universe.values is not None:
        meant = ZeroPart(column=universe.column, values=universe.values)
        # Only columns with a list of values have these, and their levels are single values.
        return np.where(_wholly(decider, meant), 1, -1).astype(np.int8)
    inside, touched = _within(decider, universe.low, universe.high)
    return np.where(inside, 1, np.where(touched, 0, -1)).astype(np.int8)


def _says_outside(levels: Levels, universe: Universe) -> BoolArray:
    """Levels of a column that say that a row is outside its universe."""
    if universe.outside is not None:
        return _wholly(levels, ZeroPart(column=levels.column.name, values=(universe.outside,)))
    out = np.zeros(len(levels), dtype=bool)
    out[: int(levels.has_null)] = True
    return out


def _of_rule(rule: ZeroRule, levels: Mapping[str, Levels]) -> StructuralZero:
    """The combinations of levels all of whose values a rule means."""
    parts = {part.column: part for part in rule.parts}
    cells = np.ones((), dtype=bool)
    names: ColumnSet = rule.columns
    for name in names:
        cells = np.logical_and.outer(cells, _wholly(levels[name], parts[name]))
    return StructuralZero(columns=names, cells=cells, why=str(rule))


def _of_hierarchies(
    columns: Mapping[str, Column], levels: Mapping[str, Levels]
) -> list[StructuralZero]:
    """Combinations of codes and levels, or of two levels, that a list of codes has not."""
    out = []
    for base, column in columns.items():
        depth = {
            name: one.level_of[1]
            for name, one in columns.items()
            if one.level_of is not None and one.level_of[0] == base
        }
        if not depth:
            continue
        codes: list[str | None] = [*([None] if column.nullable else []), *(column.domain or ())]
        called = {base: codes} | {
            name: [code if code is None else ancestor(column, code, level) for code in codes]
            for name, level in depth.items()
        }
        for one, other in combinations(sorted(called.keys() & levels), 2):
            at = []
            for name in (one, other):
                place = {value: k for k, value in enumerate(_values(levels[name]))}
                at.append([place[code] for code in called[name]])
            cells = np.ones((len(levels[one]), len(levels[other])), dtype=bool)
            cells[tuple(at)] = False
            out.append(StructuralZero(columns=(one, other), cells=cells, why=f"levels of {base}"))
    return out


def _values(levels: Levels) -> list[object]:
    """The values of a ranked column's levels, null as None."""
    return [*([None] if levels.has_null else []), *(levels.values or ())]


def _wholly(levels: Levels, part: ZeroPart) -> BoolArray:
    """Levels all of whose values are meant; never null."""
    column = levels.column
    if part.values is None:
        return _within(levels, part.low, part.high)[0]
    if levels.values is not None:
        return np.array([v is not None and v in part.values for v in _values(levels)], dtype=bool)
    named = np.unique([grid_code(column, v) for v in part.values if v is not None])
    step = max(column.step, 1)
    named = named[named % step == 0]  # a column has multiples of its step only
    meant = np.searchsorted(named, levels.high, "right") - np.searchsorted(named, levels.low)
    out: BoolArray = meant == levels.high // step + -levels.low // step + 1
    out[: int(levels.has_null)] = False
    return out


def _within(levels: Levels, low: object, high: object) -> tuple[BoolArray, BoolArray]:
    """Levels all of whose values lie between two limits, and those of which at least one does; never null."""
    inside, touched = (np.ones(len(levels), dtype=bool) for _ in range(2))
    if low is not None:
        code = grid_code(levels.column, low)
        inside &= levels.low >= code
        touched &= levels.high >= code
    if high is not None:
        code = grid_code(levels.column, high)
        inside &= levels.high <= code
        touched &= levels.low <= code
    inside[: int(levels.has_null)] = touched[: int(levels.has_null)] = False
    return inside, touched
