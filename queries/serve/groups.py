r"""Custom groups of values: a name and its members, in links, as values and in SQL.

In a link: `group.age=Working age|16..64&group.age=Older|65..`: a name, then released values or, for ordered columns,
ranges (either end may be open). A backslash escapes the next character: `\|`, `\\`.
Values outside the groups stay separate and follow the groups.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any

from engine.errors import QueryRefused
from engine.schema import literal, quoted
from engine.texts import is_hidden
from queries.serve.values import Value, Variable, bounds_of, values_of

Group = tuple[str, tuple[str, ...]]
"""A name and its members: keys of values, or `low..high`."""
_PARTS = re.compile(r"((?:[^\\|]|\\.)*)(\||\Z)", re.DOTALL)
_RANGE = ".."


def group_of(text: str) -> Group:
    """Parse a group from a link."""
    parts: list[str] = []
    at = 0
    while at <= len(text):
        part = _PARTS.match(text, at)
        if part is None:
            raise QueryRefused(f"group {text!r}: ends with a single backslash")
        parts.append(re.sub(r"\\(.)", r"\1", part[1], flags=re.DOTALL))
        if not part[2]:
            break
        at = part.end()
    return parts[0], tuple(parts[1:])


def text_of(group: Group) -> str:
    """Return a group as written in a link; equal groups give equal texts."""
    name, members = group
    return "|".join(re.sub(r"([\\|])", r"\\\1", part) for part in (name, *sorted(set(members))))


def members_of(variable: Variable, members: Iterable[str]) -> list[Any]:
    """Return the released values in a group, in no particular order."""
    keys, values = [], []
    for member in members:
        ends = ends_of(variable, member)
        if ends is None:
            keys.append(member)
            continue
        inside = [v for v in variable.known if ends[0] <= v <= ends[1]]
        if not inside:
            raise QueryRefused(f"{variable.name}: no released value is in the range {member!r}")
        values += inside
    return list(dict.fromkeys([*values, *values_of(variable, keys)]))


def check_groups(variable: Variable, groups: Sequence[Group]) -> None:
    """Refuse invalid or contradictory groups."""
    names: set[str] = set()
    group_of_value: dict[Any, str] = {}
    for name, members in groups:
        if not name.strip() or not members or any(map(is_hidden, name)):
            raise QueryRefused(
                f"{variable.name}: group {name!r} needs a printable name and at least one value"
            )
        if name in names:
            raise QueryRefused(f"{variable.name}: duplicate group name {name!r}")
        names.add(name)
        for value in members_of(variable, members):
            if value in group_of_value:
                both = f"{group_of_value[value]!r} and {name!r}"
                label = _label(variable, value)
                raise QueryRefused(f"{variable.name}: {label} is in two groups, {both}")
            group_of_value[value] = name
    for value in variable.values:
        if value.value not in group_of_value and names & {value.label, value.key}:
            raise QueryRefused(
                f"{variable.name}: group name {value.label!r} is also the name of a value outside the group"
            )


def grouped_variable(variable: Variable, groups: Sequence[Group]) -> Variable:
    """Return a variable whose values are the groups, followed by the ungrouped values."""
    pieces = {name: members_of(variable, members) for name, members in groups}
    rows = {v.value: v.n for v in variable.values}
    grouped = {v for values in pieces.values() for v in values}
    heads = [
        Value(key=name, value=name, label=name, n=sum(rows[v] for v in values))
        for name, values in pieces.items()
    ]
    rest = [v for v in variable.values if v.value not in grouped]
    return replace(variable, values=(*heads, *rest))


def case_of(variable: Variable, groups: Sequence[Group]) -> str:
    """Return SQL for the group of a value; ungrouped values as text."""
    column = quoted(variable.name)
    whens = [
        f"WHEN {condition_of(variable, members)} THEN {literal(name)}" for name, members in groups
    ]
    return f"CASE {' '.join(whens)} ELSE CAST({column} AS VARCHAR) END"


def condition_of(variable: Variable, members: Iterable[str]) -> str:
    """Return a SQL condition for values and ranges."""
    tests, keys = [], []
    for member in sorted(set(members)):
        ends = ends_of(variable, member)
        if ends is None:
            keys.append(member)
        else:
            tests.append(range_sql(variable, ends))
    if keys:
        tests.insert(0, membership_sql(variable, values_of(variable, keys)))
    return tests[0] if len(tests) == 1 else f"({' OR '.join(tests)})"


def membership_sql(variable: Variable, values: Sequence[Any]) -> str:
    """Return a SQL condition for single values, possibly including the blank."""
    column = quoted(variable.name)
    known = ", ".join(constant(variable, v) for v in values if v is not None)
    tests = [f"{column} IN ({known})"] if known else []
    if None in values:
        tests.append(f"{column} IS NULL")
    return tests[0] if len(tests) == 1 else f"({' OR '.join(tests)})"


def range_sql(variable: Variable, ends: Sequence[Any]) -> str:
    """Return a SQL condition for a range, both ends included."""
    low, high = (constant(variable, end) for end in ends)
    return f"{quoted(variable.name)} BETWEEN {low} AND {high}"


def constant(variable: Variable, value: Any) -> str:
    """Return a value as a SQL literal."""
    if isinstance(value, bool):
        return "true" if value else "false"
    is_number = variable.is_numeric or isinstance(value, int | float)
    return str(value) if is_number else literal(str(value))


def inside(values: Iterable[Any], limits: Any) -> list[Any]:
    """Return the values that pass a filter: a list of values, the ends of a range, or None for all."""
    if limits is None:
        return list(values)
    if isinstance(limits, tuple):
        return [v for v in values if v is not None and limits[0] <= v <= limits[1]]
    wanted = set(limits)
    return [v for v in values if v in wanted]


def ends_of(variable: Variable, member: str) -> tuple[Any, Any] | None:
    """Both ends of a range; None for a single value."""
    if variable.axis is None or _RANGE not in member:
        return None
    low, _, high = member.partition(_RANGE)
    return bounds_of(variable, (low, high))


def _label(variable: Variable, value: Any) -> str:
    return next(v.label for v in variable.values if v.value == value)
