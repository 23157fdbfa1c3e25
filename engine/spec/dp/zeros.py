"""The rule `zeros` of a spec's section `[dp]`: combinations that are declared impossible.

In: the plain values of the rules and the columns that are counted. Out: `ZeroRule`s, or sentences with their places
(`dp.zeros[1].AGE: ...`). What they mean in levels is the business of `domains`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from engine.params import ZeroPart, ZeroRule
from engine.schema import Column, ColumnSet
from engine.spec.model import did_you_mean
from engine.spec.universes import fitting


def zero_rules(
    raw_rules: Sequence[Mapping[str, list[Any] | dict[str, Any]]],
    counted: ColumnSet,
    columns: Sequence[Column],
    problems: list[str],
) -> tuple[ZeroRule, ...]:
    """Make the rules.

    raw_rules: As the spec has them: by column a list of values, or the smallest and largest.
    """
    by_name = {column.name: column for column in columns}
    rules = []
    for number, raw in enumerate(raw_rules, start=1):
        place, parts = f"dp.zeros[{number}]", []
        if not raw:
            problems.append(f"{place}: names no column")
        for name, what in raw.items():
            if name not in counted:
                tail = did_you_mean(name, counted)
                problems.append(f"{place}.{name}: is in no table, margin or stratum{tail}")
            elif name in by_name:
                parts.append(_zero_part(what, by_name[name], f"{place}.{name}", problems))
        rules += [ZeroRule(parts=tuple(parts))] if parts else []
    return tuple(rules)


def _zero_part(
    what: list[Any] | dict[str, Any], column: Column, place: str, problems: list[str]
) -> ZeroPart:
    """The values of one column in an impossible combination."""
    if isinstance(what, list):
        values = tuple(fitting(value, column, place, problems) for value in what)
        if not values:
            problems.append(f"{place}: names no value")
        if column.is_ranked and column.domain is not None:
            problems += [
                f"{place}: {value!r} is not in the domain"
                for value in values
                if value is not None and value not in column.domain
            ]
        return ZeroPart(column=column.name, values=values)
    if not what or not {*what} <= {"min", "max"}:
        problems.append(f"{place}: wants a list of values, or {{ min = ..., max = ... }}")
    elif column.is_ranked or column.kind == "boolean":
        problems.append(f"{place}: {column.name} has no order; list its values")
        return ZeroPart(column=column.name)
    low, high = (fitting(what.get(end), column, place, problems) for end in ("min", "max"))
    if low is not None and high is not None and low > high:
        problems.append(f"{place}: min is above max")
    return ZeroPart(column=column.name, low=low, high=high)
