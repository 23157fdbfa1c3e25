"""Public levels as the spec declares them: how many a column has, and what is missing before mode dp can count by it.

In: a column of the spec. Out: a number, or sentences with their places (`columns.AGE.breaks: ...`). Nothing here reads
data; `domains.levels_of` makes the levels themselves.
"""

from __future__ import annotations

import datetime
from collections.abc import Sequence
from fractions import Fraction
from typing import Any

from engine.schema import Column, Resolution
from engine.spec.universes import is_on_grid

MOST_VALUES = 10_000
"""Most values of a grid column that are levels of their own; a column with more needs `breaks`."""


def misplaced_breaks(
    breaks: Sequence[Any],
    bounds: tuple[Any, Any] | None,
    *,
    resolution: Resolution | None,
    step: int,
) -> str | None:
    """Say what is wrong with the breaks of a grid column.

    Returns: A sentence without its place; None if all is right.
    """
    if bounds is None:
        return 'needs domain = { min = ..., max = ... }: the first group begins at "min", the last ends at "max"'
    if not breaks:
        return "names no value; leave it out to count every value"
    starts = [bounds[0], *breaks]
    if any(right <= left for left, right in zip(starts, breaks, strict=False)):
        return "must ascend strictly, each above the domain's min"
    if breaks[-1] > bounds[1]:
        return "a group begins above the domain's max"
    if resolution is not None and not all(is_on_grid(value, resolution) for value in breaks):
        return "a value lies between the steps of the resolution"
    ends = [*(value - 1 for value in breaks), bounds[1]] if step > 1 else []
    if any(high // step < -(-low // step) for low, high in zip(starts, ends, strict=False)):
        return f"a group holds no multiple of the step {step}"
    return None


def n_levels(column: Column) -> int:
    """Number of public levels, null among them where the column may be null.

    Returns: As many as `len(domains.levels_of(column))`; for a grid column without breaks however large it
    is.
    """
    return _n_values(column) + column.nullable


def missing_domain(column: Column) -> list[str]:
    """Say what a column lacks to be counted by its public domain.

    Returns: Sentences with their places; empty if nothing is missing.
    """
    place = f"columns.{column.name}"
    if column.kind == "boolean":
        return []
    declared = column.domain if column.is_ranked else column.bounds
    if declared is None:
        what = "list every value it may have" if column.is_ranked else "{ min = ..., max = ... }"
        return [
            f"{place}.domain: [dp] counts by public domains; declare it ({what}), with public = true"
        ]
    problems = []
    if not column.public:
        problems.append(
            f"{place}.public: [dp] counts by public domains; if this one is known from outside the data, "
            "say public = true"
        )
    if column.is_ranked:
        return problems
    return problems + _grid_mistakes(column, place)


def _grid_mistakes(column: Column, place: str) -> list[str]:
    """What is wrong with the levels of a grid column that has bounds."""
    step, bounds = column.resolution, column.bounds
    if step is not None and not all(is_on_grid(value, step) for value in bounds or ()):
        return [f"{place}.domain: min or max lies between the steps of the resolution"]
    if column.breaks is not None:
        wrong = misplaced_breaks(column.breaks, bounds, resolution=step, step=column.step)
        if wrong is not None:
            return [f"{place}.breaks: {wrong}"]
    n_values = _n_values(column)
    if n_values < 1:
        return [f"{place}.domain: holds no multiple of the step {column.step}"]
    if n_values > MOST_VALUES:
        return [
            f"{place}.breaks: {n_values:,} values or groups, and [dp] counts at most {MOST_VALUES:,}; cut the "
            "domain into fewer groups, such as breaks = [...], where each group but the first begins"
        ]
    return []


def _n_values(column: Column) -> int:
    """Number of levels but null."""
    if column.kind == "boolean":
        return 2
    if column.is_ranked:
        return len(column.domain or ())
    if column.breaks is not None:
        return len(column.breaks) + 1
    if column.bounds is None:
        return 0
    low, high = (_units(column, value) for value in column.bounds)
    return high // column.step + -low // column.step + 1


def _units(column: Column, value: Any) -> int:
    """A bound counted in the column's resolution."""
    if column.kind == "date":
        return int(value.toordinal())
    if column.kind == "timestamp":
        return int((value - datetime.datetime.min) // datetime.timedelta(seconds=1))
    if column.resolution is None:
        return int(value)
    return int(
        Fraction(str(value)) / Fraction(column.resolution.base) ** column.resolution.exponent
    )
