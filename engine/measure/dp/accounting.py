"""Accounting of dp mode: the public parameters in, the share of the budget and the noise of every margin out.

Neighbours: one entity more or less. An entity adds at most `max_rows` rows, and each row lies in one cell of a margin,
so a margin changes by at most `max_rows` in L1 and in L2; `stability` times that, where a statement that makes the
rows is declared to change those of so many entities. Strata are columns of the margin: however many disjoint areas
there are, a row lies in one of them, and the margin costs once. What a scale guarantees is asked of OpenDP (see
`engine.measure.dp.noise.guarantee_of`), never taken from a formula of ours.

A float of a spec stands for the shortest decimal that reads as it, so three times 0.1 is 0.3; sums are exact.

With `public_n` the total costs nothing because it is declared to be known anyway. Where it is indeed known, datasets
that can be confused have as many rows: one entity is exchanged for another, and against that the guarantee is twice
epsilon (four times rho).
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import lru_cache

import numpy as np

from engine.errors import InternalError, SpecError
from engine.levels import HALF, Measured, n_cells, tree_sizes
from engine.measure.dp.conversion import epsilon_of_rho
from engine.measure.dp.noise import guarantee_of, variance_of
from engine.params import LEAST_EPSILON, MOST_EPSILON, USUAL_DELTA, DPParams, Noise
from engine.schema import ColumnSet, FloatArray

# Left unspent, and added to scales: no rounding of a figure or of a sum of them can reach over the budget.
SLACK = Fraction(1, 2**40)
LARGEST_SCALE = 2.0**40
RHO_STEPS = 1e-9  # rho is found to this share of itself
# Of what the total leaves, where margins are chosen: for single columns, and for choosing. Not derived: the first
# was the best of three that were tried on NIST's excerpt.
FIRST_SHARE = Fraction(1, 10)
CHOICE_SHARE = Fraction(1, 20)
MOST_TRIES = 500
"""How many numbers of candidates are tried."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Share:
    """One margin, what it is measured with and what that spends."""

    columns: ColumnSet  # That are counted, those of the strata among them; () is the total
    sum_of: str = ""  # Sums of this column's positions in its levels, instead of counts
    branching: int = 0  # 0: measured once, flat. Else as a tree with this branching.
    # Depths that are measured, each with the same scale: 1, or a tree's inner depths and its leaves.
    depths: int = 1
    # Spent on all depths together: pure epsilon of Laplace noise; 0 with Gaussian noise, which spends
    # `rho`; infinite without noise.
    epsilon: float
    rho: float  # Spent by Gaussian noise (zCDP), else 0
    scale: float  # Of the noise of each count, in rows; 0 without noise
    noise: Noise | None  # "laplace", "gaussian" or None

    @property
    def measured(self) -> Measured:
        """What identifies it among all shares."""
        return self.columns, self.sum_of

    @property
    def variance(self) -> float:
        """Of the noise of each count, in rows squared."""
        return variance_of(self.noise, self.scale)


@dataclass(frozen=True, kw_only=True, slots=True)
class Cost:
    """What one build spends."""

    epsilon: float  # At `delta`; infinite where nothing is guaranteed
    delta: float = 0.0  # 0 with Laplace noise
    # With Gaussian noise the zCDP figure that adds up over builds; else 0, and `epsilon` adds up.
    rho: float = 0.0


def shares(
    params: DPParams, sizes: Mapping[str, int], chosen: Collection[ColumnSet] | None = None
) -> tuple[Share, ...]:
    """Divide the budget: `total_share` for the total, the rest by `allocation`; a tree counts once a depth.

    Where margins are chosen among candidates, single columns have `FIRST_SHARE` of the rest and choosing
    `CHOICE_SHARE`, see `score_share`.

    sizes: Number of public levels of each column that is measured as a tree; of every column with allocation
        "cells".
    chosen: Those of the candidates that are measured; None: all.

    Returns: The total first, unless it is public; then margins by width, then name; sums. What they and the scores
    spend adds up to no more than `cost(params)`.
    """
    _check(params)
    among = params.candidates if chosen is None else chosen
    always = {*params.margins, *((name,) for name, _ in params.ranges)}
    first = {one for one in always if not params.candidates or len(one) == 1}
    rest = {*(always - first), *among}
    for_total, left = _budget(params)
    one = Fraction(1)
    parts = (FIRST_SHARE, one - FIRST_SHARE - CHOICE_SHARE) if params.candidates else (one, one)
    out = [] if params.public_n else [_share(params, (), 0, 1, for_total)]
    sums = params.sum_tables
    early, late = ((), sums) if params.candidates else (sums, ())
    for margins, of, part in zip((first, rest), (early, late), parts, strict=True):
        out += _divided(params, sizes, margins, of, left * part)
    if len(out) == (not params.public_n):
        raise InternalError("nothing is measured: dp mode needs at least one margin")
    return tuple(out)


def score_share(params: DPParams) -> Share:
    """What the scores of all candidates are measured with: one number a candidate, each as a depth of its own."""
    n = len(params.candidates)
    return _share(params, (), 0, n, _budget(params)[1] * CHOICE_SHARE / n)


def promising(
    params: DPParams, sizes: Mapping[str, int], scores: Sequence[float], rows: float
) -> tuple[ColumnSet, ...]:
    """The candidates that are worth measuring.

    Of a margin that is off by `e` rows (sum of absolute differences) unless it is measured, and whose noise comes to
    `v`, shrinking leaves about ev / sqrt(e**2 + v**2). Candidates are ranked by what they are off by, against their
    weight in the budget; as many of the first ones are taken as gain most together, since each takes budget
    from the others.

    scores: What each candidate is off by now, by noisy scores.
    rows: Noisy number of rows: noise of more comes to so many, as counts are not negative.
    """
    cells = np.array([_cells(sizes, params.measured(one)) for one in params.candidates], np.float64)
    weights = np.array([float(_weight(params, sizes, one)) for one in params.candidates])
    off = np.maximum(np.array(scores, dtype=np.float64), 0.0)
    order = np.argsort(-off / weights, kind="stable")
    off, cells, weights = off[order], cells[order], weights[order]
    others = [one for one in params.margins if len(one) > 1]
    others += [by for _, by in params.sum_tables]
    taken = float(sum(_weight(params, sizes, one) for one in others))
    budget = float(_budget(params)[1] * (1 - FIRST_SHARE - CHOICE_SHARE))

    def gain(n: int) -> float:
        noise = _mean_noise(params, budget * weights[:n] / (taken + weights[:n].sum()))
        whole = np.minimum(cells[:n] * noise, max(rows, 1.0))
        return float((off[:n] * (1 - whole / np.hypot(off[:n], whole))).sum())

    tries = np.unique(np.geomspace(1, len(order), MOST_TRIES).astype(np.int64))
    best = max(tries, key=lambda n: gain(int(n)))
    return tuple(sorted((params.candidates[i] for i in order[:best]), key=lambda m: (len(m), m)))


def settled(params: DPParams, sizes: Mapping[str, int]) -> DPParams:
    """The parameters with the noise that is less at their delta, where the spec leaves the choice.

    sizes: Number of public levels of every column.
    """
    if not params.or_laplace:
        return params
    return min(alternatives(params), key=lambda one: _squares(one, sizes))


def alternatives(params: DPParams) -> tuple[DPParams, DPParams]:
    """The same for Gaussian and for Laplace noise."""
    gaussian = replace(
        params, noise="gaussian", delta=params.delta or USUAL_DELTA, or_laplace=False
    )
    return gaussian, replace(gaussian, noise="laplace", delta=0.0)


def worst_sd(params: DPParams, sizes: Mapping[str, int]) -> float:
    """Standard deviation of the noise of a count in the noisiest margin, in rows; infinite where it is refused."""
    try:
        found = shares(params, sizes)
    except SpecError:
        return math.inf
    return math.sqrt(max(one.variance for one in found if one.columns and not one.sum_of))


def _squares(params: DPParams, sizes: Mapping[str, int]) -> float:
    """Variances of all cells of all margins, added up; infinite where they are refused."""
    try:
        return sum(
            n_cells(tuple(sizes[name] for name in share.columns)) * share.variance
            for share in shares(params, sizes)
            if share.columns and not share.sum_of
        )
    except SpecError:
        return math.inf


def cost(params: DPParams) -> Cost:
    """What a build with these parameters spends."""
    _check(params)
    if params.epsilon is None:
        return Cost(epsilon=math.inf)
    if params.noise == "laplace":
        return Cost(epsilon=params.epsilon)
    rho = rho_of(params.epsilon, params.delta)
    return Cost(epsilon=params.epsilon, delta=params.delta, rho=rho)


def composed(costs: Iterable[Cost], delta: float) -> float:
    """Epsilon that all builds from one source spend together, at a delta.

    delta: Of the whole; where Gaussian noise was used it must be above 0.

    Returns: Never below the exact sum; infinite if any build guarantees nothing, or Gaussian noise was used
    and delta is 0.
    """
    # Pure epsilons add, rhos add (Bun and Steinke 2016, arXiv 1605.02065, lemma 2.3). Both together: write the privacy
    # loss as L = P + Z, P of the pure and Z of the Gaussian builds. P <= e surely. Each bound of the conversion holds
    # for Z in any order, also adaptively, whatever else was seen before each build: E max(0, 1 - exp(z - Z)) <= delta
    # for its epsilon z. As L <= e + Z, E max(0, 1 - exp(e + z - L)) <= delta: the whole is (e + z, delta)-DP.
    pure, rho = Fraction(0), Fraction(0)
    for one in costs:
        if math.isinf(one.epsilon):
            return math.inf
        if one.rho > 0:
            rho += Fraction(one.rho)
        else:
            pure += decimal(one.epsilon)
    if rho == 0:
        return _rounded_up(pure)
    converted = epsilon_of_rho(math.nextafter(float(rho), math.inf), delta)
    return converted if math.isinf(converted) else _rounded_up(pure + Fraction(converted))


def pooled_cost(own: Cost, others: Sequence[Cost]) -> Cost:
    """What a build spends together with earlier ones whose counts it uses, at the largest delta."""
    costs = [own, *others]
    delta = max(cost.delta for cost in costs)
    is_gaussian = all(cost.rho > 0 for cost in costs)
    rho = sum(cost.rho for cost in costs) if is_gaussian else 0.0
    return Cost(epsilon=composed(costs, delta), delta=delta, rho=rho) if others else own


@lru_cache(maxsize=256)
def rho_of(epsilon: float, delta: float) -> float:
    """Largest rho whose conversion stays within epsilon at delta, to a billionth; never above."""
    low, high = 0.0, epsilon
    while _spends_within(high, epsilon, delta):
        low, high = high, 2 * high
    while low == 0.0 or high - low > RHO_STEPS * low:
        middle = (low + high) / 2
        if middle in (low, high):
            break
        if _spends_within(middle, epsilon, delta):
            low = middle
        else:
            high = middle
    return low


def decimal(number: float) -> Fraction:
    """The shortest decimal that reads as this float, exactly."""
    return Fraction(repr(float(number)))


def _spends_within(rho: float, epsilon: float, delta: float) -> bool:
    """Whether this much zCDP stays within epsilon, also where composed() takes the next float up."""
    return Fraction(epsilon_of_rho(math.nextafter(rho, math.inf), delta)) <= decimal(epsilon)


def _rounded_up(exact: Fraction) -> float:
    """The smallest float whose decimal is not below."""
    near = float(exact)
    while decimal(near) < exact:
        near = math.nextafter(near, math.inf)
    return near


def _check(params: DPParams) -> None:
    """Say everything that is out of range: a share must never be divided by it."""
    problems = []
    if params.epsilon is not None:
        if not LEAST_EPSILON <= params.epsilon <= MOST_EPSILON:
            problems.append(f"dp.epsilon must lie from {LEAST_EPSILON:g} to {MOST_EPSILON:g}")
        if params.noise == "gaussian" and not 0 < params.delta < 1:
            problems.append("dp.delta must lie between 0 and 1 with Gaussian noise")
        if not params.public_n and not 0 < params.total_share < 1:
            problems.append("dp.total_share must lie between 0 and 1")
    if params.max_rows < 1:
        problems.append("dp.max_rows must be 1 or more")
    if problems:
        raise SpecError(problems)


def _depths(sizes: Mapping[str, int], margin: ColumnSet, branching: int) -> int:
    """How often a margin is measured: once, or once a depth of its tree."""
    if branching == 0:
        return 1
    if margin[0] not in sizes:
        raise InternalError(f"the number of levels of {margin[0]} is not known")
    return len(tree_sizes(sizes[margin[0]], branching)) + 1


def _cells(sizes: Mapping[str, int], columns: ColumnSet) -> int:
    """Combinations of levels of some columns."""
    missing = [name for name in columns if name not in sizes]
    if missing:
        raise InternalError(f"the number of levels of {missing[0]} is not known")
    return n_cells(tuple(sizes[name] for name in columns))


def _weight(params: DPParams, sizes: Mapping[str, int], margin: ColumnSet) -> Fraction:
    """How much of the budget one depth of a margin gets, against the others.

    A margin by levels of a hierarchy gets as much as that of the codes, like depths of a tree: the mean variances of
    all depths add up to least where all get the same.

    With "cells": sums of cells times variance, c / e**2, are smallest under a fixed sum of e where e goes with the cube
    root of c; with Gaussian noise, c / rho, where rho goes with its square root. In thousandths.
    """
    if params.allocation == "equal":
        return Fraction(1)
    power = 1 / 3 if params.noise == "laplace" else 1 / 2
    base = dict(params.levels)
    of_codes = tuple(sorted(base.get(name, name) for name in margin))
    if of_codes in params.margins or of_codes in params.candidates:
        margin = of_codes
    return Fraction(max(round(1000 * _cells(sizes, margin) ** power), 1))


def _mean_noise(params: DPParams, spent: FloatArray) -> FloatArray:
    """Mean absolute noise of counts that so much of epsilon or rho is spent on."""
    noise = 1 / (spent if params.noise == "laplace" else np.sqrt(math.pi * spent))
    return np.asarray(params.sensitivity * noise, dtype=np.float64)


def _budget(params: DPParams) -> tuple[Fraction, Fraction]:
    """What the total gets, and the rest, of epsilon or of rho."""
    if params.epsilon is None:
        return Fraction(0), Fraction(0)
    spent = cost(params)
    whole = Fraction(spent.rho) if spent.rho > 0 else decimal(spent.epsilon)
    whole *= 1 - SLACK
    for_total = Fraction(0) if params.public_n else whole * decimal(params.total_share)
    return for_total, whole - for_total


def _divided(
    params: DPParams,
    sizes: Mapping[str, int],
    margins: Iterable[ColumnSet],
    sums: Sequence[tuple[str, ColumnSet]],
    budget: Fraction,
) -> list[Share]:
    """Shares of some margins and sums, by their weights."""
    branching: dict[ColumnSet, int] = {(name,): fan for name, fan in params.ranges}
    ranked = sorted(margins, key=lambda m: (len(m), m))
    fans = [branching.get(one, 0) for one in ranked]
    depths = [_depths(sizes, one, fan) for one, fan in zip(ranked, fans, strict=True)]
    weights = [_weight(params, sizes, one) for one in ranked]
    of_sums = [_weight(params, sizes, by) for _, by in sums]
    parts = sum(weight * n for weight, n in zip(weights, depths, strict=True)) + sum(of_sums)
    return [
        *(
            _share(params, params.measured(one), fan, n, budget * weight / parts)
            for one, fan, n, weight in zip(ranked, fans, depths, weights, strict=True)
        ),
        *(
            _share(params, by, 0, 1, budget * weight / parts, sum_of=name)
            for (name, by), weight in zip(sums, of_sums, strict=True)
        ),
    ]


def _share(
    params: DPParams,
    columns: ColumnSet,
    branching: int,
    depths: int,
    unit: Fraction,
    sum_of: str = "",
) -> Share:
    """One margin's share when each of its depths may spend `unit`."""
    shape = Share(
        columns=columns,
        sum_of=sum_of,
        branching=branching,
        depths=depths,
        epsilon=math.inf,
        rho=0.0,
        scale=0.0,
        noise=None,
    )
    if params.epsilon is None:
        return shape
    most = params.sensitivity * (HALF if sum_of else 1)
    scale, granted = _scale(params.noise, unit, most)
    spent = float(depths * Fraction(granted))
    pure = params.noise == "laplace"
    return replace(
        shape,
        epsilon=spent if pure else 0.0,
        rho=0.0 if pure else spent,
        scale=scale,
        noise=params.noise,
    )


@lru_cache(maxsize=256)
def _scale(noise: Noise, unit: Fraction, sensitivity: int) -> tuple[float, float]:
    """Scale that spends no more than a unit, rounded up, and what OpenDP says that it spends."""
    share = float(unit)
    exact = sensitivity / share if noise == "laplace" else sensitivity / math.sqrt(2 * share)
    scale = exact * (1 + float(SLACK))
    if scale > LARGEST_SCALE:
        raise SpecError(
            "dp.epsilon is too small for so many margins: the noise would be wider than 2**40 rows; "
            "measure fewer margins or spend more"
        )
    granted = guarantee_of(noise, scale, sensitivity)
    if Fraction(granted) > unit:
        raise InternalError("OpenDP grants less than was claimed for a margin: nothing is measured")
    return scale, granted
