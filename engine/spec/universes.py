"""Turns `universe = {...}` of a column's section into a `Universe`, and checks it against the other columns.

A column whose universe another column decides is fitted after that one; so they must not go round in a circle.
"""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from typing import Any

from engine.schema import RANKED_KINDS, Column, Resolution, Universe
from engine.spec.model import UniverseSection
from engine.spec.values import typed


def with_universes(
    sections: dict[str, UniverseSection], columns: tuple[Column, ...], problems: list[str]
) -> tuple[Column, ...]:
    """Give columns the universes that the spec declares."""
    known = {column.name: column for column in columns}
    universes = {}
    for name, section in sections.items():
        place = f"columns.{name}.universe"
        decider = known.get(section.column)
        if name not in known:
            continue  # its own section is wrong, which is reported
        if decider is None or decider.name == name:
            problems.append(f"{place}.column: {section.column!r} is not another column of the spec")
            continue
        universe = _universe(section, known[name], decider, place, problems)
        if universe is not None:
            universes[name] = universe
    for name in universes:
        if _goes_round(name, universes):
            problems.append(f"columns.{name}.universe: goes round in a circle")
    return tuple(replace(c, universe=universes.get(c.name)) for c in columns)


def with_deciders(columns: tuple[Column, ...], used: set[str]) -> set[str]:
    """The names used and those of all columns that decide their universes."""
    deciders = {c.name: c.universe.column for c in columns if c.universe is not None}
    out, frontier = set(used), set(used)
    while frontier:
        frontier = {deciders[name] for name in frontier if name in deciders} - out
        out |= frontier
    return out


def with_determined(columns: tuple[Column, ...], used: set[str]) -> set[str]:
    """The names used, those of all columns that determine them, and of all that these determine."""
    out = set(used)
    while (
        more := {
            name
            for column in columns
            for name in (column.name, *column.determines)
            if column.name in out or out.intersection(column.determines)
        }
        - out
    ):
        out |= more
    return out


def in_universe_order(columns: tuple[Column, ...]) -> tuple[Column, ...]:
    """Columns such that the one that decides a universe comes before those it decides for."""
    rank: dict[str, int] = {}
    universes = {c.name: c.universe.column for c in columns if c.universe is not None}
    for column in columns:
        steps, name = 0, column.name
        while name in universes:
            steps, name = steps + 1, universes[name]
        rank[column.name] = steps
    return tuple(sorted(columns, key=lambda column: rank[column.name]))


def _universe(
    section: UniverseSection, column: Column, decider: Column, place: str, problems: list[str]
) -> Universe | None:
    """One universe; None, and sentences added, if it does not fit its columns."""
    before = len(problems)
    ranked = decider.kind in RANKED_KINDS
    if ranked and (section.min is not None or section.max is not None):
        problems.append(f'{place}: {decider.name} has a list of values; say "values", not min, max')
    if not ranked and section.values is not None:
        problems.append(f'{place}: {decider.name} has no list of values; say "min", "max"')
    if section.values is not None and ranked and not decider.public:
        problems.append(
            f"{place}.values: {decider.name} is not public, so none of its values is named"
        )
    if section.outside is not None and column.kind not in RANKED_KINDS:
        problems.append(f"{place}.outside: only a column with a list of values has one")
    elif section.outside is not None and not column.public:
        problems.append(
            f"{place}.outside: {column.name} is not public, so none of its values is named"
        )
    universe = Universe(
        column=decider.name,
        low=fitting(section.min, decider, f"{place}.min", problems),
        high=fitting(section.max, decider, f"{place}.max", problems),
        values=None
        if section.values is None
        else tuple(fitting(v, decider, f"{place}.values", problems) for v in section.values),
        complete=section.complete,
        outside=fitting(section.outside, column, f"{place}.outside", problems),
    )
    if universe.outside is not None and universe.outside not in (column.domain or ()):
        problems.append(f"{place}.outside: {universe.outside!r} is not in the domain")
    if universe.values is not None:
        _check_values(universe.values, decider, f"{place}.values", problems)
    if not column.nullable and section.outside is None:
        problems.append(f"{place}: makes {column.name} null outside, but nullable = false")
    if len(problems) > before:
        return None
    if universe.low is not None and universe.high is not None and universe.low > universe.high:
        problems.append(f"{place}: min is above max")
        return None
    return universe


def _check_values(
    values: tuple[Any, ...], decider: Column, place: str, problems: list[str]
) -> None:
    """Values are some of those that the deciding column can have."""
    if not values:
        problems.append(f"{place}: names no value")
    problems.extend(
        f"{place}: {value!r} is not in the domain of {decider.name}"
        for value in values
        if value is not None and value not in (decider.domain or ())
    )


def fitting(value: Any, column: Column, place: str, problems: list[str]) -> Any:
    """A value in the type of its column; None for none, and where it does not fit, which `problems` then say."""
    if value is None:
        return None
    typed_value = typed(value, column.value_type)
    if typed_value is None:
        problems.append(f'{place}: wants a value of type "{column.value_type}"')
    elif column.resolution is not None and not is_on_grid(typed_value, column.resolution):
        problems.append(f"{place}: lies between the steps of {column.name}'s resolution")
    return typed_value


def is_on_grid(value: float, step: Resolution) -> bool:
    """Whether a number is a multiple of the step."""
    return (Fraction(str(value)) / Fraction(step.base) ** step.exponent).denominator == 1


def _goes_round(name: str, universes: dict[str, Universe]) -> bool:
    """Whether following who decides comes back to a column."""
    seen, now = {name}, universes[name].column
    while now in universes:
        if now == name:
            return True
        if now in seen:
            return False
        seen.add(now)
        now = universes[now].column
    return False
