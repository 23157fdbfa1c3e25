"""Aggregates and arithmetic over them as figures with noise.

Takes a term of a statement with its rows evaluated; gives `Estimates`. Counts, sums, means and quantiles by themselves
are those of `queries.intervals.estimates`, and so is arithmetic that is one of them times and plus constants; other
arithmetic is followed to first order: each part's rows weigh by how the whole changes with that part. A sum of ones
and zeros is a count, however it is spelled.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from engine.schema import FloatArray, Int64Array
from queries.intervals.buckets import sum_by
from queries.intervals.estimates import Estimates, counts, quantiles, sd_with_total, sums
from queries.intervals.extrapolation import beyond, stretched
from queries.intervals.locked import edge_variance
from queries.intervals.model import NoiseModel
from queries.intervals.regions import Region, regrouped
from queries.intervals.statement.linear import linear
from queries.intervals.statement.nodes import Node, bare, columns_in
from queries.intervals.statement.rows import Evaluated, free_region
from queries.intervals.statement.tree import Aggregate, Arithmetic, Rounded, Term, Unknown
from queries.intervals.sums import Z, sparse_variance
from queries.sql import Session


@dataclass(frozen=True, kw_only=True, slots=True)
class _Part:
    """A term to first order.

    Attributes
    ----------
    value : ndarray of float64, shape (n_groups,)
    own : ndarray of float64, shape (n_rows,)
        How much the group's figure changes with each row of its own.
    total : ndarray of float64, shape (n_groups,)
        How much it changes with the total of its window.
    base : ndarray of float64, shape (n_rows,), or None
        How much that total changes with each row.
    total_of : ndarray of int64, shape (n_groups,), or None
        Which total each group belongs to.
    more, less : ndarray of float64, shape (n_groups,), or 0
        How much higher, and lower, it may be for what lies beyond the released values.
    extra : ndarray of float64, shape (n_groups,), or 0
        Variance that values add to that of the rows.
    stretch : ndarray of float64, shape (n_groups,), or 1
        Factor that noisy divisors put on the interval; NaN: it has no end.
    """

    value: FloatArray
    own: FloatArray
    total: FloatArray
    base: FloatArray | None = None
    total_of: Int64Array | None = None
    more: FloatArray | float = 0.0
    less: FloatArray | float = 0.0
    extra: FloatArray | float = 0.0
    stretch: FloatArray | float = 1.0


def estimate_of(release: Session, model: NoiseModel, rows: Evaluated, term: Term) -> Estimates:
    """Reckon one column of a statement's result.

    Raises
    ------
    Unknown
        Arithmetic that is not followed: quantiles inside it, or totals of two kinds.
    """
    if isinstance(term, Rounded):
        estimates = estimate_of(release, model, rows, term.term)
        return replace(
            estimates,
            low=_rounded(estimates.low, term.digits, np.floor),
            high=_rounded(estimates.high, term.digits, np.ceil),
        )
    single = linear(term)
    if single is not None:
        return _scaled(_alone(release, model, rows, single.term), single.factor, single.constant)
    part = _part(release, model, rows, term)
    sd = np.sqrt(_sd(model, rows.region, part) ** 2 + part.extra) * part.stretch
    counted = counts(release, model, rows.region)
    known = counted.known & np.isfinite(part.value)
    half = np.where(known, Z * sd, np.nan)
    low, high = part.value - half - part.less, part.value + half + part.more
    return Estimates(value=part.value, low=low, high=high, sd=sd, known=known)


def _rounded(ends: FloatArray, digits: int, which: np.ufunc) -> FloatArray:
    """Ends of intervals rounded outward."""
    unit = 10.0**digits
    out: FloatArray = which(np.round(ends * unit, 6)) / unit
    return out


def typed(estimates: Estimates, sql_type: str) -> Estimates:
    """Estimates of a figure that was cast to a type: ends rounded outward to what the type holds."""
    digits = 0 if "INT" in sql_type else None
    if sql_type.startswith("DECIMAL("):
        digits = int(sql_type.rstrip(")").split(",")[1])
    if digits is None or estimates.is_count:
        return estimates
    low, high = estimates.low, estimates.high
    return replace(
        estimates,
        low=_rounded(low, digits, np.floor),
        high=_rounded(high, digits, np.ceil),
    )


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


def _alone(release: Session, model: NoiseModel, rows: Evaluated, term: Aggregate) -> Estimates:
    """An aggregate by itself."""
    numbers = rows.of(term.of) if term.of is not None else np.ones(len(rows.region.group))
    region = _filtered(model, rows, term)
    counted = counts(release, model, region)
    if term.kind == "count":
        return counted
    if term.kind in ("sum", "avg") and _is_of_ones(numbers[region.group >= 0]):
        if term.kind == "sum":
            return counts(release, model, _filtered(model, rows, term, of_ones=True))
        parts = replace(term, kind="sum"), replace(term, kind="count")
        share = Arithmetic(operator="/", left=parts[0], right=parts[1])
        return estimate_of(release, model, rows, share)
    if term.kind in ("sum", "avg"):
        return sums(model, region, counted, numbers, is_mean=term.kind == "avg")
    return quantiles(model, region, counted, numbers, term.quantile)


def _is_of_ones(numbers: FloatArray) -> bool:
    """Whether numbers are ones, zeros and blanks, so that their sum is a count."""
    known = numbers[np.isfinite(numbers)]
    return bool(len(known)) and bool(((known == 0) | (known == 1)).all())


def _filtered(
    model: NoiseModel, rows: Evaluated, term: Aggregate, *, of_ones: bool = False
) -> Region:
    """The groups without the rows that the aggregate leaves out; `of_ones`: and without those that it adds 0 for.

    What is is_inside by the values of one column is a limit of that column, as in WHERE, so that both say the same.
    """
    region, table = rows.region, model.table
    is_inside = np.ones(len(region.group), dtype=bool)
    by: list[Node] = []
    if term.keep is not None:
        is_inside &= rows.of(term.keep) > 0
        by.append(term.keep)
    if term.of is not None and (of_ones or term.kind == "count"):
        numbers = rows.of(term.of)
        is_inside &= numbers > 0 if of_ones else np.isfinite(numbers)
        by.append(term.of)
    if is_inside[region.group >= 0].all():
        return region
    columns = {name.casefold() for node in by for name in columns_in(node)}
    j = [i for i, name in enumerate(table.columns) if name.casefold() in columns]
    if region.is_free or len(j) != 1 or j[0] in region.by:
        return free_region(table, np.where(is_inside, region.group, -1), region.n_groups)
    mask = np.zeros(len(table.released[j[0]].values), dtype=bool)
    mask[table.rows[is_inside, j[0]]] = True
    allowed = list(region.allowed)
    allowed[j[0]] = allowed[j[0]] & mask
    return regrouped(table, region, tuple(allowed))


def _part(release: Session, model: NoiseModel, rows: Evaluated, term: Term) -> _Part:
    """Follow a term to first order."""
    region = rows.region
    nothing = np.zeros(len(region.group))
    none = np.zeros(region.n_groups)
    if isinstance(term, float | int):
        return _Part(value=none + float(term), own=nothing, total=none)
    if isinstance(term, Rounded):
        return _part(release, model, rows, term.term)
    if isinstance(term, Aggregate):
        return _linear(release, model, rows, term)
    left, right = _part(release, model, rows, term.left), _part(release, model, rows, term.right)
    joined = _joined(region, term, left, right)
    if term.operator != "/" or right.base is not None:
        return joined  # a window's total is large
    return replace(
        joined, stretch=joined.stretch * stretched(_sd(model, region, right), right.value, Z)
    )


def _linear(release: Session, model: NoiseModel, rows: Evaluated, term: Aggregate) -> _Part:
    """A count, sum or mean, or the total of one over a window."""
    if term.kind not in ("count", "sum", "avg"):
        raise Unknown("arithmetic over quantiles is not followed")
    numbers = rows.of(term.of) if term.of is not None else np.ones(len(rows.region.group))
    of_ones = term.kind == "sum" and _is_of_ones(numbers[rows.region.group >= 0])
    region = _filtered(model, rows, term, of_ones=of_ones)
    inside = region.group >= 0
    if term.kind == "count" or of_ones:
        part = _counted(release, model, region)
    else:
        inside &= np.isfinite(numbers)
        part = _valued(release, model, region, np.where(inside, numbers, np.nan), term.kind)
    if term.within is None:
        return part
    total_of = _totals(rows, term)
    totals = sum_by(total_of, np.nan_to_num(part.value), region.n_groups)
    return _Part(
        value=totals[total_of],
        own=np.zeros(len(inside)),
        total=np.ones(region.n_groups),
        base=np.where(inside, 1.0 if term.kind == "count" or of_ones else numbers, 0.0),
        total_of=total_of,
    )


def _counted(release: Session, model: NoiseModel, region: Region) -> _Part:
    """Rows of each group; where no released bucket says anything they may be anywhere in the count's own interval."""
    estimates = counts(release, model, region)
    inside = region.group >= 0
    says = inside & estimates.known[np.maximum(region.group, 0)]
    return _Part(
        value=estimates.value,
        own=says.astype(np.float64),
        total=np.zeros(region.n_groups),
        more=np.where(estimates.known, 0.0, estimates.high - estimates.value),
        less=np.where(estimates.known, 0.0, estimates.value - estimates.low),
        extra=edge_variance(model, region, np.flatnonzero(says), np.ones(int(says.sum()))),
    )


def _valued(
    release: Session, model: NoiseModel, region: Region, numbers: FloatArray, kind: str
) -> _Part:
    """The sum or mean of numbers over each group; NaN where no released bucket says anything, as for one by itself."""
    row = np.flatnonzero(np.isfinite(numbers))
    group, n = region.group[row], model.table.n[row].astype(np.float64)
    given = region.n_groups, group, row
    rows_in = sum_by(group, n, region.n_groups)
    value = sum_by(group, n * numbers[row], region.n_groups)
    n_all = model.table.n.astype(np.float64)
    more, less = beyond(region.n_groups, region.group, numbers, n_all, model.beyond)
    weight, stretch = numbers[row], np.ones(region.n_groups)
    if kind == "avg":
        safe = np.maximum(rows_in, 1.0)
        value, more, less = value / safe, more / safe, less / safe
        weight = (weight - value[group]) / safe[group]
        stretch = stretched(model.sd(*given, np.ones(len(row))), safe, Z)
    extra = edge_variance(model, region, row, weight)
    if model.tree is not None:
        extra = extra + sparse_variance(model.table, *given, weight)
    own = np.zeros(len(numbers))
    own[row] = weight
    says = counts(release, model, region).known & (rows_in > 0)
    return _Part(
        value=np.where(says, value, np.nan),
        own=own,
        total=np.zeros(region.n_groups),
        more=more,
        less=less,
        extra=extra,
        stretch=stretch,
    )


def _totals(rows: Evaluated, term: Aggregate) -> Int64Array:
    """Which total of a window each group belongs to."""
    wanted = [bare(node) for node in term.within or ()]
    places = [i for i, node in enumerate(rows.key_nodes) if bare(node) in wanted]
    numbers: dict[tuple[object, ...], int] = {}
    return np.array(
        [numbers.setdefault(tuple(key[i] for i in places), len(numbers)) for key in rows.keys],
        dtype=np.int64,
    )


def _joined(region: Region, term: Arithmetic, left: _Part, right: _Part) -> _Part:
    """Two parts joined by + - * /, with the product and quotient rules."""
    with np.errstate(divide="ignore", invalid="ignore"):
        if term.operator == "+":
            value, by_left, by_right = (
                left.value + right.value,
                1.0 + 0 * left.value,
                1.0 + 0 * left.value,
            )
        elif term.operator == "-":
            value, by_left, by_right = (
                left.value - right.value,
                1.0 + 0 * left.value,
                -1.0 + 0 * left.value,
            )
        elif term.operator == "*":
            value, by_left, by_right = left.value * right.value, right.value, left.value
        else:
            value = left.value / right.value
            by_left, by_right = 1 / right.value, -value / right.value
    by_left, by_right = (np.nan_to_num(by, posinf=0.0, neginf=0.0) for by in (by_left, by_right))
    bases = [part for part in (left, right) if part.base is not None]
    if len(bases) == 2 and not (
        np.array_equal(bases[0].base, bases[1].base)  # type: ignore[arg-type]
        and np.array_equal(bases[0].total_of, bases[1].total_of)  # type: ignore[arg-type]
    ):
        raise Unknown("totals of two kinds in one figure are not followed")
    at = np.maximum(region.group, 0)
    ends = [(by * part.more, by * part.less) for by, part in ((by_left, left), (by_right, right))]
    return _Part(
        more=sum(np.maximum(more, -less) for more, less in ends),
        less=sum(np.maximum(less, -more) for more, less in ends),
        extra=by_left**2 * left.extra + by_right**2 * right.extra,
        stretch=np.maximum(left.stretch, right.stretch),
        value=value,
        own=left.own * by_left[at] + right.own * by_right[at],
        total=left.total * by_left + right.total * by_right,
        base=bases[0].base if bases else None,
        total_of=bases[0].total_of if bases else None,
    )


def _sd(model: NoiseModel, region: Region, part: _Part) -> FloatArray:
    """Standard deviation of the error of a part."""
    row = np.flatnonzero(region.group >= 0)
    group = region.group[row]
    if part.base is None or part.total_of is None:
        return model.sd(region.n_groups, group, row, part.own[row])
    return sd_with_total(
        model, region, part.total_of, own=part.own, total=part.total, base=part.base
    )
