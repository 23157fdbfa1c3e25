"""Aggregates and arithmetic over them as figures with noise.

Takes a term of a statement with its rows evaluated; gives `Figures`. Counts, sums, means and quantiles by themselves
are those of `queries.figures`; arithmetic over them is followed to first order: each part's rows weigh by how the
whole changes with that part.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from engine.schema import FloatArray, Int64Array
from queries.buckets import sum_by
from queries.figures import Figures, counts, quantiles, sd_with_total, sums
from queries.locked import Z
from queries.noise_model import NoiseModel
from queries.noise_of_sums import sparse_variance
from queries.regions import Region
from queries.session import Release
from queries.statement_rows import Evaluated, free_region
from queries.statement_tree import Aggregate, Arithmetic, Rounded, Term, Unknown, bare
from queries.tails import beyond, stretched


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


def figures_of_term(release: Release, model: NoiseModel, rows: Evaluated, term: Term) -> Figures:
    """Reckon one column of a statement's result.

    Raises
    ------
    Unknown
        Arithmetic that is not followed: quantiles inside it, or totals of two kinds.
    """
    if isinstance(term, Rounded):
        found = figures_of_term(release, model, rows, term.term)
        return replace(
            found,
            low=_rounded(found.low, term.digits, np.floor),
            high=_rounded(found.high, term.digits, np.ceil),
        )
    if isinstance(term, Aggregate) and term.within is None:
        return _alone(release, model, rows, term)
    part = _part(model, rows, term)
    sd = np.sqrt(_sd(model, rows.region, part) ** 2 + part.extra) * part.stretch
    counted = counts(release, model, rows.region)
    known = counted.known & np.isfinite(part.value)
    half = np.where(known, Z * sd, np.nan)
    low, high = part.value - half - part.less, part.value + half + part.more
    return Figures(value=part.value, low=low, high=high, sd=sd, known=known)


def _rounded(ends: FloatArray, digits: int, which: np.ufunc) -> FloatArray:
    """Ends of intervals rounded outward."""
    unit = 10.0**digits
    out: FloatArray = which(np.round(ends * unit, 6)) / unit
    return out


def _alone(release: Release, model: NoiseModel, rows: Evaluated, term: Aggregate) -> Figures:
    """An aggregate by itself."""
    region = _filtered(model, rows, term)
    if term.kind == "count":
        return counts(release, model, region)
    counted = counts(release, model, region)
    numbers = rows.of(term.of) if term.of is not None else np.ones(len(region.group))
    if term.kind in ("sum", "avg"):
        return sums(model, region, counted, numbers, is_mean=term.kind == "avg")
    return quantiles(model, region, counted, numbers, term.quantile)


def _filtered(model: NoiseModel, rows: Evaluated, term: Aggregate) -> Region:
    """The groups without the rows that the aggregate leaves out."""
    region = rows.region
    kept = np.ones(len(region.group), dtype=bool)
    if term.keep is not None:
        kept &= rows.of(term.keep) > 0
    if term.kind == "count" and term.of is not None:
        kept &= np.isfinite(rows.of(term.of))
    if kept.all():
        return region
    return free_region(model.table, np.where(kept, region.group, -1), region.n_groups)


def _part(model: NoiseModel, rows: Evaluated, term: Term) -> _Part:
    """Follow a term to first order."""
    region = rows.region
    nothing = np.zeros(len(region.group))
    none = np.zeros(region.n_groups)
    if isinstance(term, float | int):
        return _Part(value=none + float(term), own=nothing, total=none)
    if isinstance(term, Rounded):
        return _part(model, rows, term.term)
    if isinstance(term, Aggregate):
        return _linear(model, rows, term)
    left, right = _part(model, rows, term.left), _part(model, rows, term.right)
    joined = _joined(region, term, left, right)
    if term.operator != "/" or right.base is not None:
        return joined  # a window's total is large
    return replace(
        joined, stretch=joined.stretch * stretched(_sd(model, region, right), right.value, Z)
    )


def _linear(model: NoiseModel, rows: Evaluated, term: Aggregate) -> _Part:
    """A count, sum or mean, or the total of one over a window."""
    region = _filtered(model, rows, term)
    inside = region.group >= 0
    weight = inside.astype(np.float64)
    if term.kind in ("sum", "avg") and term.of is not None:
        numbers = rows.of(term.of)
        inside &= np.isfinite(numbers)
        weight = np.where(inside, numbers, 0.0)
    elif term.kind not in ("count",):
        raise Unknown("arithmetic over quantiles is not followed")
    group, n = region.group[inside], model.table.n[inside].astype(np.float64)
    value = sum_by(group, n * weight[inside], region.n_groups)
    none = np.zeros(region.n_groups)
    more, less, stretch = none, none, none + 1.0
    if term.kind != "count":
        numbers = np.where(inside, weight, np.nan)
        n_all = model.table.n.astype(np.float64)
        more, less = beyond(region.n_groups, region.group, numbers, n_all, model.beyond)
    if term.kind == "avg":
        rows_in = np.maximum(sum_by(group, n, region.n_groups), 1.0)
        value = value / rows_in
        at = np.maximum(region.group, 0)
        weight = np.where(inside, (weight - value[at]) / rows_in[at], 0.0)
        row = np.flatnonzero(inside)
        off = model.sd(region.n_groups, group, row, np.ones(len(row)))
        more, less, stretch = more / rows_in, less / rows_in, stretched(off, rows_in, Z)
    if term.within is None:
        extra = none
        if term.kind != "count" and model.tree is not None:
            row = np.flatnonzero(inside)
            given = region.n_groups, region.group[row], row, weight[row]
            extra = sparse_variance(model.table, *given)
        return _Part(
            value=value,
            own=weight,
            total=none,
            more=more,
            less=less,
            extra=extra,
            stretch=stretch,
        )
    total_of = _totals(rows, term)
    totals = sum_by(total_of, value, region.n_groups)
    return _Part(
        value=totals[total_of],
        own=np.zeros(len(weight)),
        total=none + 1.0,
        base=weight,
        total_of=total_of,
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
