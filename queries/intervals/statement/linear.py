"""Arithmetic that is one aggregate times a factor and plus a constant, such as 2 * count(*) - count(*) + 0.

Takes a term of a statement; gives the aggregate with factor and constant, or nothing where it is no such thing. What
is one aggregate has that one's interval, however it is spelled.
"""

from __future__ import annotations

import json
from dataclasses import dataclass

from queries.intervals.statement.nodes import bare
from queries.intervals.statement.tree import Aggregate, Arithmetic, Term


@dataclass(frozen=True, kw_only=True, slots=True)
class Linear:
    """One aggregate, scaled and shifted."""

    term: Aggregate
    factor: float
    constant: float


_Added = dict[str, tuple[Aggregate, float]]


def linear(term: Term) -> Linear | None:
    """Return a term as one aggregate, scaled and shifted; None where it is not."""
    sums = _added(term)
    if sums is None:
        return None
    aggregates = [(of, factor) for of, factor in sums[0].values() if factor]
    if len(aggregates) != 1:
        return None
    return Linear(term=aggregates[0][0], factor=aggregates[0][1], constant=sums[1])


def is_constant(term: Term) -> bool:
    """Return whether a term is one number whatever its rows are, as 0 * count(*) is."""
    sums = _added(term)
    return sums is not None and not any(factor for _, factor in sums[0].values())


def _added(term: Term) -> tuple[_Added, float] | None:
    """Aggregates with their factors, and what is added to them; None where there is more to it."""
    if isinstance(term, float | int):
        return {}, float(term)
    if isinstance(term, Aggregate):
        return None if term.within is not None else ({_text_of(term): (term, 1.0)}, 0.0)
    if not isinstance(term, Arithmetic):
        return None
    left, right = _added(term.left), _added(term.right)
    if left is None or right is None:
        return None
    if term.operator in "+-":
        return _joined(left, right, 1.0 if term.operator == "+" else -1.0)
    if term.operator == "*" and not left[0]:
        return _times(right, left[1])
    if right[0] or (term.operator == "/" and not right[1]):
        return None
    return _times(left, right[1] if term.operator == "*" else 1.0 / right[1])


def _joined(
    left: tuple[_Added, float], right: tuple[_Added, float], sign: float
) -> tuple[_Added, float]:
    """The sum of both, like terms together."""
    out = dict(left[0])
    for key, (of, factor) in right[0].items():
        out[key] = of, out.get(key, (of, 0.0))[1] + sign * factor
    return out, left[1] + sign * right[1]


def _times(term: tuple[_Added, float], factor: float) -> tuple[_Added, float]:
    return {key: (of, factor * own) for key, (of, own) in term[0].items()}, factor * term[1]


def _text_of(term: Aggregate) -> str:
    """One text for aggregates that are the same."""
    parts = [None if node is None else bare(node) for node in (term.of, term.keep)]
    return json.dumps([term.kind, term.quantile, *parts], sort_keys=True)
