"""Rows of an answer and the groups that they show, where a statement groups in several ways at once.

Takes an answer's rows and the groups of each grouping (ROLLUP, CUBE, GROUPING SETS); gives the group of every row,
numbered grouping after grouping. A NULL may be a blank of the source or stand for a total: then the figures decide,
which are those of one group and not of the other, as far as they were not rounded away.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from decimal import Decimal
from typing import Any

import numpy as np

from queries.intervals.estimates import Estimates
from queries.intervals.statement.tree import (
    Aggregate,
    Arithmetic,
    ParsedStatement,
    Rounded,
    Term,
    Unknown,
)

_SAME, _SAME_FLOAT = 1e-9, 2e-7
_HALF = 0.5 * (1 + _SAME)
_COUNTED = frozenset({int, float, type(None)})
"""Types of most figures."""
_HASHED = frozenset({int, str, bool, type(None), Decimal})
"""Types of keys that a dict takes as they are."""
Keys = tuple[tuple[Any, ...], ...]
Rows = Sequence[tuple[Any, ...]]


def together(parts: Sequence[Estimates]) -> Estimates:
    """Return the estimates of all groupings, one after the other."""
    if len(parts) == 1:
        return parts[0]
    names = ("value", "low", "high", "sd", "known")
    joined: dict[str, Any] = {
        name: np.concatenate([getattr(one, name) for one in parts]) for name in names
    }
    return replace(parts[0], **joined)


def groups_of(
    rows: Rows,
    question: ParsedStatement,
    groupings: Sequence[ParsedStatement],
    keys: Sequence[Keys],
    estimates: Mapping[int, Estimates],
) -> list[int]:
    """Return the group that each row shows."""
    starts = np.cumsum([0, *map(len, keys)]).tolist()
    numbers = [
        {comparable(key): start + i for i, key in enumerate(of_one)}
        for start, of_one in zip(starts, keys, strict=False)
    ]
    terms = dict(question.figures)
    every = [at for at, _ in question.keys]
    places = [[at for at, _ in one.keys] for one in groupings]
    if len(places) == 1 and len(places[0]) == len(every):  # as nearly always: no group is a total
        of_rows = [numbers[0].get(comparable([row[at] for at in places[0]])) for row in rows]
        shown = [i for i in of_rows if i is not None]
        if len(shown) != len(of_rows):
            raise Unknown("its groups could not be told apart")
        return shown
    out = []
    for row in rows:
        found = list(_shown(row, every, places, numbers))
        if len(found) > 1:
            found = [i for i in found if _fits(row, i, estimates, terms)]
        if len(found) != 1:
            raise Unknown("its groups could not be told apart")
        out.append(found[0])
    return out


def _shown(
    row: tuple[Any, ...],
    every: Sequence[int],
    places: Sequence[Sequence[int]],
    numbers: Sequence[Mapping[tuple[Any, ...], int]],
) -> Iterator[int]:
    """Groups that a row may show, by its keys."""
    for own, number in zip(places, numbers, strict=True):
        key = comparable([row[at] for at in own])
        if key in number and (
            len(own) == len(every) or all(row[at] is None for at in every if at not in own)
        ):
            yield number[key]


def comparable(values: Sequence[Any]) -> tuple[Any, ...]:
    """Keys of a group as a dict takes them: lists as tuples, structs and maps by their parts, every NaN the same."""
    return tuple([v if type(v) in _HASHED else _frozen(v) for v in values])


def _frozen(value: Any) -> Any:
    """A value that has a hash and equals what is the same in SQL."""
    if isinstance(value, list | tuple):
        return (list, *map(_frozen, value))
    if isinstance(value, dict):
        return (dict, *((_frozen(key), _frozen(one)) for key, one in value.items()))
    if isinstance(value, float) and math.isnan(value):
        return (float, "nan")
    return value


def strays(
    shown: Sequence[Any],
    group: Sequence[int],
    estimates: Estimates,
    term: Term | str,
    type_: str,
    *,
    is_strict: bool,
) -> bool:
    """Whether any figure of a column is not the one that was reckoned for its group, or no number.

    A statement is read a second time to reckon noise, and whatever that reading misses shows here.

    is_strict: An interval stands beside the figure; else only its status does, and arithmetic over what was
        rounded passes.
    """
    same = _SAME_FLOAT if type_ == "FLOAT" else _SAME
    places = np.asarray(group, dtype=np.intp)
    there = np.array([v is not None for v in shown], dtype=bool)
    if set(map(type, shown)) <= _COUNTED:  # as nearly always
        numbers = np.array([math.nan if v is None else v for v in shown], dtype=np.float64)
    else:
        numbers = np.array([_number(v, term) for v in shown], dtype=np.float64)
    one = next((v for v in shown if v is not None), None)  # all are of one type
    slack = np.maximum(
        _slack(one, term, is_strict=is_strict), same * np.maximum(np.abs(numbers), 1.0)
    )
    if isinstance(term, Aggregate) and term.kind == "quantile_disc":
        slack[:] = math.inf  # a neighbour's value; that it lies in its interval is looked at
    with np.errstate(invalid="ignore"):  # endless ones, which are no figures
        is_near = np.abs(numbers - estimates.value[places]) <= slack
    return bool((estimates.known[places] & there & ~is_near).any())


def _number(value: Any, term: Term | str) -> float:
    """A figure as a number, also one that was cast to text; NaN where it is none, such as the median of texts."""
    is_rank = isinstance(term, Aggregate) and term.kind in ("median", "quantile_disc")
    is_text = isinstance(value, str) and not is_rank
    if isinstance(value, bool) or not (is_text or isinstance(value, int | float | Decimal)):
        return math.nan
    try:
        return float(value)
    except ValueError:
        return math.nan


def _fits(
    row: tuple[Any, ...],
    group: int,
    estimates: Mapping[int, Estimates],
    terms: Mapping[int, Term | str],
) -> bool:
    """Whether a row's figures are those of a group."""
    for at, one in estimates.items():
        value = row[at]
        if value is None:
            continue
        slack = _slack(value, terms.get(at, ""), is_strict=False)
        slack = max(slack, _SAME * max(abs(float(value)), 1))
        if abs(float(value) - one.value[group]) > slack:
            return False
    return True


def _slack(value: Any, term: Term | str, *, is_strict: bool) -> float:
    """How far a figure may be from what was reckoned, by rounding that is followed or half of its type's last place."""
    if isinstance(term, Rounded):
        return _HALF * 10.0**-term.digits
    if not is_strict and _computes_with_rounded(term):
        return math.inf
    if isinstance(value, Decimal):
        exponent = value.as_tuple().exponent
        return _HALF * 10.0**exponent if isinstance(exponent, int) else 0.0
    return _HALF if isinstance(value, int) else 0.0


def _computes_with_rounded(term: Term | str) -> bool:
    """Whether arithmetic is over something rounded."""
    if not isinstance(term, Arithmetic):
        return False
    parts = (term.left, term.right)
    return any(isinstance(part, Rounded) or _computes_with_rounded(part) for part in parts)
