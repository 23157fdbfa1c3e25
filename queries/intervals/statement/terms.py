"""Aggregates and arithmetic over them as figures with noise.

Takes a term of a statement with its rows evaluated; gives `Estimates`. Counts, sums, means and quantiles by themselves
are those of `queries.intervals.estimates`, and so is arithmetic that is one of them times and plus constants, such as
2 * count(*) - count(*) + 0; other arithmetic is followed to first order: each part's rows weigh by how the whole
changes with that part. A sum of ones and zeros is a count, however it is spelled.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from engine.schema import BoolArray, FloatArray, Int64Array
from queries.intervals.estimates import (
    Estimates,
    Part,
    are_told,
    counted_part,
    counted_rows,
    counts,
    joined,
    quantiles,
    sums,
    total_part,
    valued_part,
)
from queries.intervals.extrapolation import stretched
from queries.intervals.model import Groups
from queries.intervals.regions import region_within
from queries.intervals.statement.nodes import chooses, columns_given, columns_in, text_of
from queries.intervals.statement.rows import Evaluated, free_region
from queries.intervals.statement.tree import Aggregate, Arithmetic, Rounded, Term, Unknown

_Sum = tuple[dict[str, tuple[Aggregate, float]], float]
"""Aggregates with their factors, and what is added to them."""


def estimate_of(rows: Evaluated, term: Term) -> Estimates:
    """Reckon one column of a statement's result."""
    if isinstance(term, Rounded):
        return _outward(estimate_of(rows, term.term), term.digits)
    single = linear(term)
    if single is not None and len(single[0]) == 1:
        ((of, factor),), constant = single
        return _scaled(_alone(rows, of), factor, constant)
    if not rows.groups.region.n_groups:
        return replace(counts(rows.groups), is_count=False)
    found = _part(rows, term).estimates(rows.groups, _all_of(rows))
    found = replace(found, known=found.known & _is_released(rows, term))
    least, most = sorted((0.0, _whole_of(rows, term)))
    if not np.isfinite(most - least):
        return found
    low, high = (np.clip(ends, least, most) for ends in (found.low, found.high))
    return replace(found, low=low, high=high)


def _whole_of(rows: Evaluated, term: Term) -> float:
    """What a share of rows would be if it were all of them, such as 100; of other terms infinite."""
    if not isinstance(term, Arithmetic) or term.right == 0:
        return np.inf
    if isinstance(term.right, float | int) and term.operator == "/":
        return _whole_of(rows, term.left) / term.right
    for factor, share in ((term.left, term.right), (term.right, term.left)):
        if isinstance(factor, float | int) and term.operator == "*":
            return factor * _whole_of(rows, share)
    single, divisor = _alone_in(term.left), _alone_in(term.right) or _total_in(term.right)
    if single is None or divisor is None or term.operator != "/":
        return np.inf
    (part, of_part), (whole, of_whole) = single, divisor
    is_part = all(
        theirs is None or text_of(theirs) == text_of(own)
        for own, theirs in ((part.of, whole.of), (part.keep, whole.keep))
    )
    is_count = part.kind == "count" or _adds_up_ones(rows, part)
    return of_part / of_whole if is_part and is_count and whole.kind == "count" else np.inf


def _is_released(rows: Evaluated, term: Term) -> BoolArray:
    """Whether what a figure is reckoned from is released: all of it, and of a sum or difference some.

    Of a sum the interval leaves room for the rest; totals over a window have that in their noise.
    """
    if isinstance(term, Rounded):
        return _is_released(rows, term.term)
    if isinstance(term, Arithmetic):
        sides = [side for side in (term.left, term.right) if _hangs_on(side)]
        released = [_is_released(rows, side) for side in sides]
        join = np.logical_or if term.operator in "+-" else np.logical_and
        return join.reduce(released) if released else _all_of(rows)
    if not isinstance(term, Aggregate) or term.within is not None:
        return _all_of(rows)
    adding = _adds_up_ones(rows, term) or _adds_up_some(term)
    return counted_rows(_filtered(rows, term, adding=adding))[1]


def _all_of(rows: Evaluated) -> BoolArray:
    return np.ones(rows.groups.region.n_groups, dtype=bool)


def linear(term: Term) -> tuple[list[tuple[Aggregate, float]], float] | None:
    """Return the aggregates that a term adds up, each with its factor, and its constant; None where it does more."""
    found = _sum(term)
    return found and ([one for one in found[0].values() if one[1]], found[1])


def _sum(term: Term) -> _Sum | None:
    if isinstance(term, float | int):
        return {}, float(term)
    if isinstance(term, Aggregate):
        key = text_of([term.kind, term.quantile, term.of, term.keep])
        return None if term.within is not None else ({key: (term, 1.0)}, 0.0)
    if not isinstance(term, Arithmetic):
        return None
    left, right = _sum(term.left), _sum(term.right)
    if left is None or right is None:
        return None
    if term.operator in "+-":
        return _joined(left, right, 1.0 if term.operator == "+" else -1.0)
    if term.operator == "*" and not left[0]:
        return _times(right, left[1])
    if right[0] or (term.operator == "/" and not right[1]):
        return None
    return _times(left, right[1] if term.operator == "*" else 1.0 / right[1])


def _joined(left: _Sum, right: _Sum, sign: float) -> _Sum:
    """The sum of both, like terms together."""
    out = dict(left[0])
    for key, (of, factor) in right[0].items():
        out[key] = of, out.get(key, (of, 0.0))[1] + sign * factor
    return out, left[1] + sign * right[1]


def _times(term: _Sum, factor: float) -> _Sum:
    return {key: (of, factor * own) for key, (of, own) in term[0].items()}, factor * term[1]


def _outward(estimates: Estimates, digits: int) -> Estimates:
    """The same with ends rounded outward."""
    unit = 10.0**digits
    low, high = (np.round(ends * unit, 6) for ends in (estimates.low, estimates.high))
    return replace(estimates, low=np.floor(low) / unit, high=np.ceil(high) / unit)


def typed(estimates: Estimates, sql_type: str) -> Estimates:
    """Estimates of a figure that was cast to a type: ends rounded outward to what the type holds."""
    if sql_type.startswith("DECIMAL(") and not estimates.is_count:
        return _outward(estimates, int(sql_type.rstrip(")").split(",")[1]))
    return _outward(estimates, 0) if "INT" in sql_type and not estimates.is_count else estimates


def _scaled(estimates: Estimates, factor: float, constant: float) -> Estimates:
    """Estimates times a factor and plus a constant; counts stay counts where both are whole."""
    ends = factor * estimates.low + constant, factor * estimates.high + constant
    return replace(
        estimates,
        value=factor * estimates.value + constant,
        low=np.minimum(*ends),
        high=np.maximum(*ends),
        sd=abs(factor) * estimates.sd,
        is_count=estimates.is_count and (factor, constant) == (1.0, 0.0),
    )


def _alone(rows: Evaluated, term: Aggregate) -> Estimates:
    """An aggregate by itself."""
    groups, numbers = _filtered(rows, term), rows.of(term.of)
    if term.kind == "count":
        return counts(groups)
    if term.kind in ("sum", "avg") and _is_of_ones(rows, term, groups):
        if term.kind == "sum":
            return counts(_filtered(rows, term, adding=True))
        parts = replace(term, kind="sum"), replace(term, kind="count")
        share = Arithmetic(operator="/", left=parts[0], right=parts[1])
        return estimate_of(rows, share)
    if term.kind in ("sum", "avg"):
        groups, tops = _filtered(rows, term, adding=_adds_up_some(term)), rows.tops(term.of)
        told = _are_told(rows, term, groups)
        return sums(groups, numbers, tops, is_mean=term.kind == "avg", told=told)
    return quantiles(groups, numbers, term.quantile)


def _is_of_ones(rows: Evaluated, term: Aggregate, groups: Groups) -> bool:
    """Whether numbers are ones, zeros and blanks, so that their sum is a count; those of a column not all zeros."""
    numbers = rows.of(term.of)[groups.row]
    known = numbers[np.isfinite(numbers)]
    table = rows.groups.model.table
    given = {name.casefold() for name in columns_given(term.of)}
    released = zip(table.columns, table.released, strict=True)
    of_numbers = any(column.is_number and name.casefold() in given for name, column in released)
    least = (known == 1).any() if of_numbers else len(known) > 0
    return bool(least) and bool(((known == 0) | (known == 1)).all())


def _are_told(rows: Evaluated, term: Aggregate, groups: Groups) -> BoolArray:
    """Whether more than the fill tells of what a sum or mean adds up: rows that an expression makes 0 add nothing."""
    if (term.of or {}).get("class") == "COLUMN_REF":
        return are_told(groups, rows.of(term.of))
    return counted_rows(_filtered(rows, term, adding=True))[2]


def _adds_up_ones(rows: Evaluated, term: Aggregate) -> bool:
    """Whether it is a sum that is a count."""
    return term.kind == "sum" and _is_of_ones(rows, term, rows.groups)


def _adds_up_some(term: Aggregate) -> bool:
    """Whether it is a sum over some rows by a condition inside it, which says what FILTER does."""
    return term.kind == "sum" and chooses(term.of)


def _filtered(rows: Evaluated, term: Aggregate, *, adding: bool = False) -> Groups:
    """The groups without the rows that the aggregate leaves out; `adding`: and without those that it adds nothing for.

    What is inside by the values of one column is a limit of that column, as in WHERE, so that both say the same.
    """
    region, table = rows.groups.region, rows.groups.model.table
    is_inside = np.ones(len(region.group), dtype=bool)
    truths = [node for node in (term.keep, term.of if adding else None) if node is not None]
    for node in truths:
        is_inside &= np.nan_to_num(rows.of(node)) != 0
    is_cut = term.kind == "count" or (term.kind == "avg" and chooses(term.of))
    blanks = [term.of] if term.of is not None and is_cut else []
    for node in blanks:
        is_inside &= np.isfinite(rows.of(node))
    columns = {name.casefold() for node in [*truths, *blanks] for name in columns_in(node)}
    j = [i for i, name in enumerate(table.columns) if name.casefold() in columns]
    reach = rows.narrowed(region.reach, j[0], truths) if len(j) == 1 else region.reach
    if is_inside[region.group >= 0].all() and reach == region.reach:
        return rows.groups
    if region.is_free or len(j) != 1 or j[0] in region.by:
        group = np.where(is_inside, region.group, -1)
        return replace(rows.groups, region=free_region(table, group, region.n_groups))
    mask = np.zeros(len(table.released[j[0]].values), dtype=bool)
    mask[table.rows[is_inside, j[0]]] = True
    allowed = list(region.allowed)
    allowed[j[0]] = allowed[j[0]] & mask
    limited = region_within(table, region.by, tuple(allowed), reach, region.codes)
    return replace(rows.groups, region=limited)


def _part(rows: Evaluated, term: Term) -> Part:
    """Follow a term to first order."""
    region = rows.groups.region
    if isinstance(term, float | int):
        value = np.full(region.n_groups, float(term))
        return Part(value=value, own=np.zeros(len(region.group)))
    if isinstance(term, Rounded):
        return _part(rows, term.term)
    if isinstance(term, Aggregate):
        return _part_alone(rows, term)
    left, right = _part(rows, term.left), _part(rows, term.right)
    bases = [part for part in (left, right) if part.base is not None]
    if len(bases) == 2 and not (
        np.array_equal(bases[0].base, bases[1].base)  # type: ignore[arg-type]
        and np.array_equal(bases[0].total_of, bases[1].total_of)  # type: ignore[arg-type]
    ):
        raise Unknown("totals of two kinds in one figure are not followed")
    both = joined(region, term.operator, left, right)
    if term.operator == "*" and _hangs_on(term.left) and _hangs_on(term.right):
        # To first order a square is as sure as can be where it is 0.
        second = left.half(rows.groups) * right.half(rows.groups)
        return replace(both, more=both.more + second, less=both.less + second)
    if term.operator != "/":
        return both
    of_total = right.base is not None
    others = (
        _other_groups(rows, term, both.value) if of_total else _others(rows, term.left, term.right)
    )
    share = np.where(others > 0, both.value, 0.0)
    by_others = share * others / np.maximum(np.abs(right.value) + others, 1e-300)
    lower, higher = np.maximum(by_others, 0.0), np.maximum(-by_others, 0.0)
    both = replace(both, less=both.less + lower, more=both.more + higher)
    if of_total:
        return both  # a window's total is large
    return replace(both, stretch=both.stretch * stretched(right.sd(rows.groups), right.value))


def _others(rows: Evaluated, left: Term, right: Term) -> FloatArray:
    """What may be outside the part of a share, as it counts in the whole, where none is released: 100 % is not sure."""
    none = np.zeros(rows.groups.region.n_groups)
    single, divisor = _alone_in(left), _alone_in(right)
    if single is None or divisor is None:
        return none
    (part, _), (whole, factor) = single, divisor
    counted = [
        _filtered(rows, of, adding=of.kind == "sum")
        for of in (part, whole)
        if of.kind == "count" or _adds_up_ones(rows, of)
    ]
    if len(counted) < 2:
        return none
    inside, of_whole = (groups.region.group >= 0 for groups in counted)
    of_each = [text_of([of.kind, of.of, of.keep]) for of in (part, whole)]
    if of_each[0] == of_each[1] or (inside & ~of_whole).any():
        return none
    rest = np.where(of_whole & ~inside, counted[1].region.group, -1)
    region = free_region(rows.groups.model.table, rest, len(none))
    outside = counts(replace(rows.groups, region=region))
    room = abs(factor) * (outside.high - outside.value)
    return np.where(outside.known & (outside.value > 0), 0.0, room)


def _alone_in(term: Term) -> tuple[Aggregate, float] | None:
    """The one aggregate of a term and its factor, where it is nothing else."""
    single = linear(term)
    return single[0][0] if single is not None and len(single[0]) == 1 and not single[1] else None


def _other_groups(rows: Evaluated, term: Arithmetic, share: FloatArray) -> FloatArray:
    """The same for a share in a window's total, where no other group of it is released."""
    region = rows.groups.region
    single, divisor = _alone_in(term.left), _total_in(term.right)
    none = np.zeros(region.n_groups)
    if single is None or divisor is None:
        return none
    (part, of_part), (whole, factor) = single, divisor
    is_share = part.kind == whole.kind == "count" and replace(whole, within=None) == part
    keys = {text_of(key) for key in whole.within or ()}
    if not is_share or len(keys) >= len(rows.key_nodes):
        return none
    nobody = free_region(rows.groups.model.table, np.full(len(region.group), -1), region.n_groups)
    is_all = np.abs(share * factor / of_part - 1) < 1e-9
    room = abs(factor) * counts(replace(rows.groups, region=nobody)).high
    return np.where(is_all, room, 0.0)


def _total_in(term: Term) -> tuple[Aggregate, float] | None:
    """The one total of a term and its factor, where it is nothing else."""
    if isinstance(term, Aggregate):
        return term, 1.0
    if isinstance(term, Arithmetic) and term.operator == "*":
        for factor, total in ((term.left, term.right), (term.right, term.left)):
            if isinstance(factor, float | int) and isinstance(total, Aggregate):
                return total, factor
    return None


def _hangs_on(term: Term) -> bool:
    """Whether a term is reckoned from rows, and no constant."""
    single = linear(term)
    return single is None or bool(single[0])


def _part_alone(rows: Evaluated, term: Aggregate) -> Part:
    """A count, sum or mean, or the total of one over a window; NaN where no released bucket says anything of it."""
    if term.kind not in ("count", "sum", "avg"):
        raise Unknown("arithmetic over quantiles is not followed")
    numbers, of_ones = rows.of(term.of), _adds_up_ones(rows, term)
    groups = _filtered(rows, term, adding=of_ones or _adds_up_some(term))
    if term.kind == "count" or of_ones:
        numbers, part = np.ones(len(numbers)), counted_part(groups)
        told = counted_rows(groups)[2]
    else:
        part = valued_part(groups, numbers, rows.tops(term.of), is_mean=term.kind == "avg")
        told = _are_told(rows, term, groups)
    if term.within is None:
        is_count = term.kind == "count" or of_ones  # which has an interval where it is not told
        return part if is_count else replace(part, value=np.where(told, part.value, np.nan))
    base = np.where((groups.region.group >= 0) & np.isfinite(numbers), numbers, 0.0)
    total_of = _totals(rows, term)
    total = total_part(rows.groups.region, part, total_of, base)
    is_told = (np.bincount(total_of, told, minlength=len(told)) > 0)[total_of]
    return replace(total, value=np.where(is_told, total.value, np.nan))


def _totals(rows: Evaluated, term: Aggregate) -> Int64Array:
    """Which total of a window each group belongs to."""
    wanted = [*map(text_of, term.within or ())]
    places = [i for i, node in enumerate(rows.key_nodes) if text_of(node) in wanted]
    numbers: dict[tuple[object, ...], int] = {}
    return np.array(
        [numbers.setdefault(tuple(key[i] for i in places), len(numbers)) for key in rows.keys],
        dtype=np.int64,
    )
