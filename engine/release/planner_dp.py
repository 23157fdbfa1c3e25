"""Plan of a build in mode dp: what would be counted, how noisy it would be, what it would cost. Reads no data.

In: the spec and the ledger beside the key. Out: sizes, noise and cost. Everything follows from public declarations, so
a plan can be shown to anyone who may see the ledger.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any, ClassVar

from engine.errors import SpecError
from engine.guarantee import Guarantee, named
from engine.levels import HALF, Levels, n_cells, sizes_of, tree_sizes, widest
from engine.measure.dp import (
    CHOICE_SHARE,
    Balance,
    Cost,
    Share,
    alternatives,
    balance,
    cost,
    decimal_text,
    levels_of,
    settled,
    shares,
    spent_by,
    worst_sd,
    zeros_of,
)
from engine.params import DPParams, Noise
from engine.release.dp import promised
from engine.release.header import unpublishable
from engine.schema import ColumnSet, column_set
from engine.spec import ReleaseSpec, Workload
from engine.texts import N_SHOWN, html_table, text_table

MANY_LEVELS = 1_000
"""A column with more levels gets a warning."""
MANY_CELLS = 1_000_000
"""A margin with more cells gets a warning."""
MOST_WARNINGS = 5
"""Warnings of one kind."""
LEAST_EPSILON, MOST_EPSILON = 1e-3, 100.0
"""Between which an epsilon is sought for an accuracy."""
CURVE = (0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0)
"""Epsilons at which an accuracy is stated."""
COVERED_SD: dict[Noise, float] = {"gaussian": 1.96, "laplace": math.log(20) / math.sqrt(2)}
"""Standard deviations within which 95 of 100 draws lie; sums of several Laplace draws lie a little nearer."""
_QUESTION = re.compile(r"(?P<columns>[^:]+):\s*(\+-|\+/-|±)?\s*(?P<within>\d+(\.\d+)?)")


@dataclass(frozen=True, kw_only=True, slots=True)
class PlannedTableDP:
    """One published table."""

    columns: ColumnSet
    cells: int  # Combinations of public levels
    # The margin that tells its cells with the least noise, strata included. None: no margin holds all its
    # columns, so it is modelled from narrower ones.
    measured_by: ColumnSet | None
    # Standard deviation of the noise on a cell summed from that margin as it was measured, in rows; before
    # anything is reconciled, which lowers it.
    noise_sd: float | None

    @property
    def rows_needed(self) -> float | None:
        """Rows below which the noise is larger than the average cell; None where the table is modelled."""
        return None if self.noise_sd is None else self.noise_sd * self.cells


@dataclass(frozen=True, kw_only=True, slots=True)
class PlannedSum:
    """What the values of a column add up to inside their groups of values, in the groups of other columns."""

    column: str
    by: ColumnSet
    # Standard deviation of the noise, in units of the column; that of the counts of its groups of values comes on top.
    noise_sd: float

    def __str__(self) -> str:
        within = f" by {', '.join(self.by)}" if self.by else ""
        return f"{self.column}{within}: {self.noise_sd:,.4g}"


@dataclass(frozen=True, kw_only=True, slots=True)
class Price:
    """What one kind of noise would cost in accuracy, for the same epsilon."""

    noise: Noise
    delta: float  # 0 for Laplace noise
    sd: float  # Standard deviation of the noise of a count in the noisiest margin, in rows


@dataclass(frozen=True, kw_only=True, slots=True)
class Accuracy:
    """How accurate the cells of one table are at several epsilons, and which epsilon an accuracy needs."""

    columns: ColumnSet
    within: float  # What 95 of 100 figures are to be off by at most, in rows
    epsilon: (
        float | None
    )  # That this needs, rounded up to three digits; None: more than `MOST_EPSILON`
    curve: tuple[tuple[float, float], ...]  # Epsilon, and what 95 of 100 figures are off by at most

    def sentences(self) -> list[str]:
        """The answer, and the curve."""
        named = ", ".join(self.columns)
        needs = (
            f"more than epsilon {MOST_EPSILON:g}"
            if self.epsilon is None
            else f"epsilon {self.epsilon:g}"
        )
        at = "; ".join(f"{epsilon:g}: +-{half:,.3g}" for epsilon, half in self.curve)
        return [
            f"{named}: +-{self.within:g} for 95 of 100 cells needs {needs}, all else as in the spec",
            f"{named}, by epsilon: {at} (as measured; making margins consistent lowers it)",
        ]


@dataclass(frozen=True, kw_only=True, slots=True)
class PlanDP:
    """What a build in mode dp would measure and make."""

    tables: tuple[PlannedTableDP, ...]
    cost: Cost  # Of a build that measures anew
    # budget, spent, left: What the ledger says; with no ledger yet, what the first build would pin. None:
    # nothing is protected.
    budget: float | None
    spent: float | None
    left: float | None
    delta: float  # At which these are stated
    noise: Noise
    # Gaussian, then Laplace; none that would be refused, and none where nothing is protected
    prices: tuple[Price, ...]
    total_sd: float  # Standard deviation of the noise on the number of rows
    # margins, counts: Margins, and noisy counts in them (inner nodes of trees included).
    margins: int
    counts: int
    candidates: int = 0  # Of these margins, those of which a build measures only some
    sums: tuple[PlannedSum, ...] = ()
    cells: int  # Combinations of all columns, strata included
    fit: str  # How the joint distribution would be fitted
    warnings: tuple[str, ...]
    workload: Workload | None = None  # Which statements of files the tables answer
    guarantee: Guarantee
    accuracy: Accuracy | None = None  # Of the table that was asked for
    heads: ClassVar[tuple[str, ...]] = ("table", "cells", "noise sd")

    @property
    def is_protected(self) -> bool:
        """Whether there is any guarantee."""
        return self.budget is not None

    def as_dict(self) -> dict[str, Any]:
        """Plain values, for JSON."""
        return {
            "mode": "dp",
            "epsilon": self.cost.epsilon if self.is_protected else None,
            "delta": self.cost.delta,
            "rho": self.cost.rho,
            "ledger": {
                "budget": self.budget,
                "spent": self.spent,
                "left": self.left,
                "delta": self.delta,
            },
            "noise": self.noise if self.is_protected else None,
            "prices": [asdict(price) for price in self.prices],
            "total_noise_sd": round(self.total_sd, 3),
            "margins": self.margins,
            "candidates": self.candidates,
            "sums": [asdict(one) for one in self.sums],
            "counts": self.counts,
            "cells": self.cells,
            "fit": self.fit,
            "warnings": list(self.warnings),
            "guarantee": self.guarantee.sentences(),
            "tables": [
                {
                    "columns": list(t.columns),
                    "cells": t.cells,
                    "measured_by": None if t.measured_by is None else list(t.measured_by),
                    "noise_sd": None if t.noise_sd is None else round(t.noise_sd, 3),
                }
                for t in self.tables
            ],
            "accuracy": None if self.accuracy is None else asdict(self.accuracy),
        } | ({"workload": self.workload.as_dict()} if self.workload else {})

    def rows_of(self, top: int | None = None) -> list[tuple[str, ...]]:
        """Tables as texts under `heads`, worst first: modelled ones, then by noise; the first ones, or all."""
        ranked = sorted(
            self.tables, key=lambda t: (t.noise_sd is not None, -(t.noise_sd or 0), t.columns)
        )
        return [(", ".join(t.columns), f"{t.cells:,}", noise_words(t)) for t in ranked[:top]]

    def sentences(self) -> list[str]:
        """What is measured, and what it costs."""
        price = "nothing is guaranteed"
        if self.is_protected:
            own = named(self.cost.epsilon, self.cost.delta)
            price = f"costs {own}; {self.left:g} of {self.budget:g} is left"
        return [
            f"{self.margins:,} margin{'' if self.margins == 1 else 's'} with {self.counts:,} counts; {price}; "
            f"fit: {self.fit}",
            *self._choice(),
            *(
                [
                    f"sd of what values add up to inside their groups of values: {'; '.join(map(str, self.sums))}"
                ]
                if self.sums
                else []
            ),
            *self._priced(),
            *(self.accuracy.sentences() if self.accuracy else ()),
            *self.guarantee.sentences(),
            "A build takes values outside the domains, nulls, missing ids and further rows of an entity as declared: "
            "no row decides whether it succeeds. This plan has read no data; what a source.sql makes of it, only the "
            "build can tell. The cost is that of measuring anew: what was measured already is used again at no cost. "
            "A build that is averaged with earlier ones of the same rows states the epsilon of all of them.",
        ]

    def _choice(self) -> list[str]:
        """What is not known before a build that chooses margins."""
        if not self.candidates:
            return []
        return [
            f"Of {self.candidates:,} margins of several columns the build measures those that promise most, which it "
            f"finds with {float(CHOICE_SHARE):.0%} of the budget. Tables of one that it leaves out are modelled; the "
            "noise stated here is that of measuring all of them: those that are measured have less."
        ]

    def _priced(self) -> list[str]:
        """Both kinds of noise, the one that a build would draw first."""
        told = [
            f"{price.noise} noise{f' with delta = {price.delta:g}' if price.delta else ''}: {price.sd:.1f}"
            for price in sorted(self.prices, key=lambda price: price.noise != self.noise)
        ]
        return [f"sd of a count in the noisiest margin: {'; '.join(told)}"] if told else []

    def __repr__(self) -> str:
        return text_table(self.heads, self.rows_of(N_SHOWN), self._below())

    def _repr_html_(self) -> str:
        return html_table(self.heads, self.rows_of(N_SHOWN), below=self._below())

    def _below(self) -> list[str]:
        """What people read below the first tables."""
        more = len(self.tables) - N_SHOWN
        return [
            *([f"... and {more:,} more tables"] if more > 0 else []),
            *self.sentences(),
            *(self.workload.sentences(N_SHOWN) if self.workload else ()),
            *(f"warning: {warning}" for warning in self.warnings),
        ]


def plan_dp(spec: ReleaseSpec, *, rows: int | None = None, accuracy: str | None = None) -> PlanDP:
    """Plan a build in mode dp.

    accuracy: A question such as "region, sex: +-50": which epsilon does this need?
    rows: Number of rows, where it is known from outside the data: tables whose average cell is smaller than
        its noise are then named.
    """
    if spec.dp is None:
        raise SpecError("dp: the spec has no section [dp]; there is nothing to plan in mode dp")
    levels = {c.name: levels_of(c) for c in spec.columns if c.name in spec.dp.columns}
    sizes = {name: len(of_column) for name, of_column in levels.items()}
    params = settled(spec.dp, sizes)
    measured = shares(params, sizes)
    margins = tuple(share for share in measured if share.columns and not share.sum_of)
    tables = tuple(_planned(table, margins, levels) for table in spec.tables)
    spends = cost(params)
    held = balance(spec.key_path) if params.is_protected else None
    budget, spent, left, delta = _of_ledger(params, spends, held)
    own = {n: v if math.isfinite(v) else None for n, v in asdict(spends).items()}
    told = promised(spec, params, own, held.public(spends) if held else {})
    return PlanDP(
        tables=tables,
        cost=spends,
        budget=budget,
        spent=spent,
        left=left,
        delta=delta,
        noise=params.noise,
        prices=tuple(
            Price(noise=one.noise, delta=one.delta, sd=sd)
            for one in (alternatives(spec.dp) if params.is_protected else ())
            if math.isfinite(sd := worst_sd(one, sizes))
        ),
        total_sd=next((one.variance**0.5 for one in measured if one.measured == ((), "")), 0.0),
        margins=len(margins),
        candidates=len(params.candidates),
        sums=tuple(_planned_sum(one, levels) for one in measured if one.sum_of),
        counts=sum(_n_counts(share, params.strata, levels) for share in margins),
        cells=n_cells(sizes_of(levels, params.columns)),
        fit=_fit(params, levels),
        workload=spec.workload,
        guarantee=Guarantee.of(told),
        accuracy=None if accuracy is None else _accuracy(spec.dp, levels, accuracy),
        warnings=(
            *_ledger_warnings(params, spends, held, budget, delta),
            *_coverage_warnings(params),
            *_size_warnings(margins, levels),
            *_noise_warnings(tables, rows),
            *_rule_warnings(spec, levels),
            *_relation_warnings(spec),
            *unpublishable(spec),
        ),
    )


def _accuracy(given: DPParams, levels: dict[str, Levels], question: str) -> Accuracy:
    """Answer which epsilon an accuracy needs, by bisection: noise falls with epsilon."""
    asked = _QUESTION.fullmatch(question.strip())
    if asked is None:
        raise SpecError(f'accuracy {question!r}: write it like "region, sex: +-50"')
    columns = column_set(tuple(name.strip() for name in asked["columns"].split(",")))
    within = float(asked["within"])
    sizes = {name: len(of_column) for name, of_column in levels.items()}
    if unknown := [name for name in columns if name not in levels]:
        raise SpecError(f"accuracy: no column {unknown[0]!r}; there are {', '.join(levels)}")
    if not within > 0 or not given.is_protected:
        raise SpecError("accuracy: needs a positive number of rows, and a spec with an epsilon")

    def half(epsilon: float) -> float:
        params = settled(replace(given, epsilon=epsilon), sizes)
        margins = [one for one in shares(params, sizes) if one.columns and not one.sum_of]
        sd = _planned(columns, margins, levels).noise_sd
        if sd is None:
            named = ", ".join(columns)
            raise SpecError(
                f"accuracy: no margin holds {named}; add it to dp.margins, or to [[tables]]"
            )
        return COVERED_SD[params.noise] * sd

    low, high = LEAST_EPSILON, MOST_EPSILON
    while high / low > 1.001:
        middle = math.sqrt(low * high)
        low, high = (low, middle) if half(middle) <= within else (middle, high)
    digits = 2 - math.floor(math.log10(high))
    needed = math.ceil(high * 10**digits) / 10**digits if half(high) <= within else None
    return Accuracy(
        columns=columns,
        within=within,
        epsilon=needed,
        curve=tuple((epsilon, half(epsilon)) for epsilon in CURVE),
    )


def noise_words(table: PlannedTableDP) -> str:
    """The noise of a table as people read it."""
    return "modelled from narrower margins" if table.noise_sd is None else f"{table.noise_sd:.2f}"


def _planned(
    table: ColumnSet, margins: Sequence[Share], levels: dict[str, Levels]
) -> PlannedTableDP:
    """One table and the margin that tells it best: its cells are sums of that margin's."""
    cells = n_cells(sizes_of(levels, table))
    best: tuple[float, ColumnSet] | None = None
    for share in margins:
        if set(table) <= set(share.columns):
            summed = n_cells(sizes_of(levels, share.columns)) // cells
            candidate = (summed * share.variance, share.columns)
            best = candidate if best is None else min(best, candidate)
    return PlannedTableDP(
        columns=table,
        cells=cells,
        measured_by=None if best is None else best[1],
        noise_sd=None if best is None else best[0] ** 0.5,
    )


def _planned_sum(share: Share, levels: Mapping[str, Levels]) -> PlannedSum:
    """The noise of one sum of positions, as an amount."""
    own = levels[share.sum_of]
    step = own.column.resolution.step if own.column.resolution else 1.0
    unit = step * widest(own) / (2 * HALF)
    return PlannedSum(column=share.sum_of, by=share.columns, noise_sd=unit * share.variance**0.5)


def _n_counts(share: Share, strata: ColumnSet, levels: dict[str, Levels]) -> int:
    """Noisy counts of one margin; a tree's inner nodes too, in every stratum."""
    leaves = n_cells(sizes_of(levels, share.columns))
    if not share.branching:
        return leaves
    (n_leaves,) = (len(levels[name]) for name in share.columns if name not in strata)
    return leaves + sum(tree_sizes(n_leaves, share.branching)) * (leaves // n_leaves)


def _of_ledger(
    params: DPParams, spends: Cost, held: Balance | None
) -> tuple[float | None, float | None, float | None, float]:
    """Budget, spent, left and delta, as the ledger has them or as the first build would pin them."""
    if held is None:
        return None, None, None, 0.0
    if held.budget is not None:
        return held.budget, held.spent, held.left, held.delta or spends.delta
    pinned = params.budget or spends.epsilon
    return pinned, 0.0, pinned, spends.delta


def _ledger_warnings(
    params: DPParams, spends: Cost, held: Balance | None, budget: float | None, delta: float
) -> list[str]:
    """Whether the ledger would refuse the build."""
    if held is None:
        return [f"guarantee = false: {Guarantee(epsilon=None).brief()}"]
    after = spent_by(held.entries, delta, spends)
    if held.budget is not None and params.budget not in (None, held.budget):
        return [
            f"a build would be refused: dp.budget is {decimal_text(params.budget)}, and the ledger is pinned to "
            f"{decimal_text(held.budget)}"
        ]
    if spends.delta > delta:
        return [
            f"a build would be refused: dp.delta is {spends.delta:g}, and the ledger is stated at {delta:g}"
        ]
    if budget is None or after <= budget:
        return []
    return [
        f"a build that measures anew would be refused: with it, epsilon {after:.6g} would be spent of {budget:.6g}; "
        "counts that were kept are used again at no cost"
    ]


def _coverage_warnings(params: DPParams) -> list[str]:
    """Columns that nothing is known about."""
    measured = {*params.strata, *(name for margin in params.margins for name in margin)}
    bare = [name for name in params.columns if name not in measured]
    return [
        f"{name} is in no margin: nothing of it is measured, and it is drawn evenly from its domain"
        for name in bare
    ]


def _size_warnings(margins: Sequence[Share], levels: dict[str, Levels]) -> list[str]:
    """Columns and margins so large that noise will drown them, or counting takes long."""
    out = [
        f"{name}: {len(of_column):,} levels; groups (breaks) would carry less noise"
        for name, of_column in sorted(levels.items())
        if len(of_column) > MANY_LEVELS
    ]
    large = [
        f"margin {', '.join(share.columns)}: {cells:,} cells, each with its own noise; coarser columns would be better"
        for share in margins
        if (cells := n_cells(sizes_of(levels, share.columns))) > MANY_CELLS
    ]
    return out[:MOST_WARNINGS] + large[:MOST_WARNINGS] + _more(out) + _more(large)


def _noise_warnings(tables: Sequence[PlannedTableDP], rows: int | None) -> list[str]:
    """Tables whose average cell is smaller than its noise, where the number of rows is known from outside."""
    noisy = [
        f"{', '.join(t.columns)}: the noise (sd {t.noise_sd:.1f}) is larger than the average cell of {rows:,} rows"
        for t in tables
        if rows is not None and t.rows_needed is not None and t.rows_needed > rows
    ]
    return noisy[:MOST_WARNINGS] + _more(noisy)


def _more(sentences: Sequence[str]) -> list[str]:
    """What stands for the warnings beyond the first few."""
    more = len(sentences) - MOST_WARNINGS
    return [f"... and {more:,} more warnings like these"] if more > 0 else []


def _rule_warnings(spec: ReleaseSpec, levels: Mapping[str, Levels]) -> list[str]:
    """Declared zeros that no combination of levels fits wholly."""
    return [
        f"dp.zeros[{number}] ({rule}) rules nothing out: no group of values lies wholly in it; move the breaks"
        for number, rule in enumerate(spec.zeros, start=1)
        if not zeros_of((), (rule,), levels)
    ]


def _relation_warnings(spec: ReleaseSpec) -> list[str]:
    """Declared relations between columns, which noisy margins do not keep."""
    levels = {column.name for column in spec.columns if column.level_of is not None}
    told = [(c.name, [one for one in c.determines if one not in levels]) for c in spec.columns]
    return [
        f"columns.{name}.determines ({', '.join(implied)}) is not used in mode dp: both get noise of their own; "
        "dp.zeros can rule out what cannot be, and a hierarchy from a list of codes makes them agree"
        for name, implied in told
        if implied
    ]


def _fit(params: DPParams, levels: dict[str, Levels]) -> str:
    """How the joint distribution of one stratum would be fitted."""
    inner = tuple(name for name in params.columns if name not in params.strata)
    cells = n_cells(sizes_of(levels, inner))
    within = " in each stratum" if params.strata else ""
    if cells <= params.max_cells:
        return f"dense: {cells:,} cells{within}"
    return (
        f"{cells:,} cells{within}: on a junction tree where its cliques allow, else on support rows"
    )
