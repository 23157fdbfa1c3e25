"""Privacy parameters: public, frozen, named by profile.

The profile `standard` is that of SynDiffix: at least 3 entities, a noisy threshold of mean 5 and sd 1, and two noise
layers of sd 1 each. Parameters are never weaker; a spec can only strengthen them.
"""

from __future__ import annotations

import hashlib
import json
import math
from dataclasses import asdict, dataclass, field
from statistics import NormalDist
from typing import Any, Literal

from engine.errors import SpecError
from engine.schema import ColumnSet, column_set

NOISE_LAYERS = 2
"""Layers of noise on each bucket of mode sticky: one keyed by its label, one by its entity set."""
FLOORS = {"low_threshold": 3, "threshold_mean": 5, "layer_sd": 1}
"""The weakest value each parameter may take."""
MOST_ROWS = 1 << 20
"""Largest limit on the rows of one entity."""
MOST_CHOSEN = 12
"""Number of tables chosen for a wide one by default."""
MOST_SWAPPED = 0.5
"""Largest share of records that may be swapped: beyond it, tables show little of how columns are related."""


@dataclass(frozen=True, kw_only=True, slots=True)
class SwapParams:
    """How records are swapped before anything is counted.

    within: Partners agree in these.
    similar: Partners agree in these too if possible; the last one is given up first.
    rare: Records that share a value of one of these, and of one of the swapped columns, with few others are swapped
        first.
    rate: Share of the records that are swapped, some of them for equal values.
    publish_rate: Whether the release shows the rate. Statistical offices keep theirs confidential.
    """

    columns: ColumnSet
    within: ColumnSet = ()
    similar: tuple[str, ...] = ()
    rare: ColumnSet
    rate: float
    publish_rate: bool = False

    def __post_init__(self) -> None:
        problems = []
        if not self.columns:
            problems.append("privacy.swap.columns: names no column to swap")
        if not self.rare:
            problems.append("privacy.swap.rare: names no column that makes a record rare")
        if not 0 < self.rate <= MOST_SWAPPED:
            problems.append(
                f"privacy.swap.rate: must be a share of the records above 0 and at most {MOST_SWAPPED:g}"
            )
        for one, other in (
            ("within", "columns"),
            ("similar", "columns"),
            ("rare", "columns"),
            ("similar", "within"),
        ):
            both = sorted({*getattr(self, one)} & {*getattr(self, other)})
            problems += [f"privacy.swap.{one}: {name} is also in {other}" for name in both]
        if problems:
            raise SpecError(problems)

    @property
    def named(self) -> ColumnSet:
        """All columns that it reads."""
        return column_set(tuple({*self.columns, *self.within, *self.similar, *self.rare}))

    def public(self) -> dict[str, Any]:
        """What a release shows of it, in plain values: the rate only if `publish_rate` is set."""
        shown: dict[str, Any] = {"columns": list(self.columns), "within": list(self.within)}
        return shown | ({"rate": self.rate} if self.publish_rate else {})


@dataclass(frozen=True, kw_only=True, slots=True)
class PrivacyParams:
    """The parameters of suppression and noise.

    low_threshold: Buckets of fewer entities are never released.
    layer_sd: Standard deviation of each of the two noise layers in rows, for entities of one row; a power of two.
    max_rows: Most rows that one entity contributes to any bucket, a power of two, by which the noise is multiplied.
        None: not declared, and each entity has one row.
    max_rows_by: "entity": the rows of an entity that count are chosen once for all tables, so that groups add up.
        "bucket": they are chosen in every bucket separately, which keeps more of them; locking then gives the rows
        that heavy entities lose to other buckets.
    detected: Names of the settings that were detected in the data and not yet confirmed.
    swap: How records are swapped before anything is counted; None: they are not.
    """

    profile: str = "standard"
    low_threshold: int = 3
    threshold_mean: int = 5
    layer_sd: int = 1
    max_rows: int | None = None
    max_rows_by: str = "bucket"
    detected: tuple[str, ...] = ()
    swap: SwapParams | None = None

    def __post_init__(self) -> None:
        problems = [
            f"privacy.{name}: {getattr(self, name)} is below the floor of {floor}"
            for name, floor in FLOORS.items()
            if getattr(self, name) < floor
        ]
        if self.threshold_mean < self.low_threshold:
            problems.append("privacy.threshold_mean: must not be below privacy.low_threshold")
        if self.layer_sd & (self.layer_sd - 1):
            problems.append("privacy.layer_sd: must be a power of two")
        problems += bad_bound("privacy.max_rows", self.max_rows)
        if problems:
            raise SpecError(problems)

    @property
    def noise_sd(self) -> float:
        """Standard deviation of the noise on a cell of rows, both layers together."""
        return float(NOISE_LAYERS**0.5) * self.layer_sd * (self.max_rows or 1)

    def fingerprint(self) -> str:
        """Hex digest of the values, equal exactly if every parameter is; a limit of one row is the same as none."""
        left_out = ("max_rows", "max_rows_by", "detected", "swap")
        values = {k: v for k, v in asdict(self).items() if k not in left_out}
        if self.swap is not None:
            # Whether the rate is published changes nothing that is drawn.
            values["swap"] = asdict(self.swap) | {"publish_rate": None}
        if self.max_rows not in (None, 1):
            values["max_rows"] = self.max_rows
            values |= {"max_rows_by": self.max_rows_by} if self.max_rows_by == "entity" else {}
        # Parameters of versions before 0.3.0: a known vintage must keep its fingerprint, or it would count as a new
        # independent release.
        former = [3, 6] if self.profile == "strict" else [2, 5]
        text = json.dumps(values | {"outliers": former, "top_group": former}, sort_keys=True)
        return hashlib.blake2b(text.encode(), digest_size=16).hexdigest()

    def public(self) -> dict[str, Any]:
        """What a release shows of the parameters, in plain values."""
        values = {k: v for k, v in asdict(self).items() if k != "swap"}
        if self.max_rows_by == "bucket":  # as in releases before 0.5
            del values["max_rows_by"]
        return values | ({"swap": self.swap.public()} if self.swap else {})


def bad_bound(place: str, max_rows: int | None) -> list[str]:
    """Say what is wrong with a limit on the rows of one entity; empty if nothing is."""
    if max_rows is None or (1 <= max_rows <= MOST_ROWS and max_rows & (max_rows - 1) == 0):
        return []
    return [f"{place}: must be a power of two from 1 to {MOST_ROWS:,}, as noise doubles with it"]


PROFILES = {
    "standard": PrivacyParams(),
    "strict": PrivacyParams(profile="strict", threshold_mean=20, layer_sd=2),
}
"""Named starting points: `strict` doubles the noise and suppresses groups of fewer than about 20, because small cells
disclose most about a person (engine/PRIVACY.md, "Parameter sweep")."""


@dataclass(frozen=True, kw_only=True, slots=True)
class ExposureBounds:
    """How much a sticky release may disclose about anybody, together with everything built before it.

    warn_at, refuse_at: Exposure of the most exposed people: how much more often than wrong an even secret of theirs is
        guessed right, by who knows all other columns of everybody; 0 is chance, 1 certainty.
    max_looks: Most independent releases of nearly the same data, each with fresh noise under a vintage of its own.
    accept_risk: Why the custodian accepts more than `refuse_at` and `max_looks`; shown with the release. Empty: not
        accepted.
    """

    warn_at: float
    refuse_at: float
    max_looks: int
    accept_risk: str = ""

    @property
    def most_right(self) -> float:
        """How often a secret may be guessed right."""
        return 0.5 + self.refuse_at / 2

    def __post_init__(self) -> None:
        problems = []
        if not self.refuse_at > 0:
            problems.append("privacy.refuse_at: must be above 0")
        elif not 0 < self.warn_at <= self.refuse_at:
            problems.append("privacy.warn_at: must be above 0 and at most privacy.refuse_at")
        if self.max_looks < 1:
            problems.append("privacy.max_looks: must be at least 1")
        if self.accept_risk and not (self.accept_risk.strip() and self.accept_risk.isprintable()):
            problems.append("privacy.accept_risk: must be a reason, in one line of text")
        if problems:
            raise SpecError(problems)


def ratio_of(right: float) -> float:
    """The ratio of signal to noise at which an even secret is guessed so often right; such ratios add up."""
    return NormalDist().inv_cdf(min(max(right, 0.5), 1 - 1e-9)) ** 2


def right_of(ratio: float) -> float:
    """How often an even secret is guessed right at a ratio of signal to noise."""
    return NormalDist().cdf(math.sqrt(ratio))


BOUNDS = {
    "standard": ExposureBounds(warn_at=0.2, refuse_at=0.4, max_looks=4),
    "strict": ExposureBounds(warn_at=0.1, refuse_at=0.2, max_looks=2),
}
"""Bounds by profile: an even secret of the most exposed people is guessed right for at most 70 % of them, under
`strict` 60 %; from half of that beyond chance on, it is said. The average of four independent releases is half as far
off as a single count.
"""


Noise = Literal["laplace", "gaussian"]
Method = Literal["ipf", "catall"]
Post = Literal["wls", "paper", "synthpop"]
Sample = Literal["rounded", "multinomial"]
Allocation = Literal["cells", "equal"]
MissingIds = Literal["drop", "own"]
MOST_DELTA = 1e-3
"""A larger delta wants a reason."""
USUAL_DELTA = 1e-9
"""Far below one over the people of any country: plans price Gaussian noise at it where no delta is given."""
LEAST_EPSILON, MOST_EPSILON = 1e-9, 500.0
"""Below, noise exceeds any count; above, it rounds to zero, which `Margin.variance` = 0 would call exact."""


@dataclass(frozen=True, kw_only=True, slots=True)
class DPParams:
    """How margins are measured, fitted and sampled."""

    # Of the whole build. None: nothing is protected (`guarantee = false` in the spec), and counts are exact.
    epsilon: float | None
    delta: float = 0.0  # 0 with Laplace noise; above 0 with Gaussian noise
    # "laplace" (pure epsilon) or "gaussian" (zCDP, converted to epsilon at delta).
    noise: Noise = "laplace"
    # The spec gives a delta and names no noise: Gaussian, or Laplace where that is less (`settled`).
    or_laplace: bool = False
    # "ipf" (chosen margins) or "catall" (one margin: the full cross-tabulation).
    method: Method = "ipf"
    # Columns of the joint distribution: all columns of published tables, margins and strata.
    columns: ColumnSet = ()
    # Margins to measure, each once, by width, then name, without the strata's columns. With "catall" the one
    # margin of all columns except the strata.
    margins: tuple[ColumnSet, ...] = ()
    # Further margins of several columns: those that promise most are measured. All their columns' own are in `margins`.
    candidates: tuple[ColumnSet, ...] = ()
    # Sums that are measured: a column, and the columns whose combinations are the groups.
    sum_tables: tuple[tuple[str, ColumnSet], ...] = ()
    # Levels of hierarchies, and the columns whose levels they are; both are columns of their own.
    levels: tuple[tuple[str, str], ...] = ()
    # Every margin is measured and fitted separately within each level of these columns.
    strata: ColumnSet = ()
    # One-way margins (each in `margins`) that are measured as trees for range queries, with their branching factor.
    ranges: tuple[tuple[str, int], ...] = ()
    # How noisy margins are made consistent: "wls" (default), "paper" or "synthpop".
    post: Post = "wls"
    # "rounded" (each count is its expectation, rounded up or down; with post "wls", whose margins are consistent,
    # rows are then adjusted to them) or "multinomial" (independent rows).
    sample: Sample = "rounded"
    # Rows spread evenly over the cells of each margin before anything else (synthpop's priorn).
    prior: float = 0.0
    # How margins share the budget: "equal", or "cells": larger margins get more (epsilon proportional to the cube
    # root of the cells, which minimises the sum over margins of cells times variance).
    allocation: Allocation = "equal"
    total_share: float = 0.02  # Share of the budget spent on the total
    public_n: bool = False  # The true number of rows is declared public, and used
    max_rows: int = 1  # Most rows of one entity that count
    # Rows that name no entity are left out, or each is an entity of its own.
    missing_ids: MissingIds = "drop"
    # Largest table of counts: a margin, a full cross-tabulation, the cliques of a junction tree.
    max_cells: int = 10_000_000
    max_cycles: int = 200
    # Share of rows that any margin may be off by when the fit counts as converged.
    tolerance: float = 1e-4
    # Limit on the total epsilon in the ledger, pinned by the first build. None: what the ledger says; a new one
    # gets this build's epsilon.
    budget: float | None = None
    # How many entities' worth of rows one more entity changes in what `source.sql` makes, as declared; None: the
    # statement shows that it is one.
    stability: int | None = None
    accept_delta: str = ""  # Why a large delta is accepted
    public_tables: tuple[str, ...] = ()  # Tables of `source.sql` that are public
    # The spec declares `max_rows`, which it must if entities have several rows. No measurement depends on it.
    is_bound_said: bool = field(default=True, repr=False, compare=False)

    @property
    def is_protected(self) -> bool:
        """Whether there is any guarantee."""
        return self.epsilon is not None

    @property
    def sensitivity(self) -> int:
        """Most rows that one entity changes a margin by."""
        return self.max_rows * (self.stability or 1)

    def measured(self, margin: ColumnSet) -> ColumnSet:
        """Columns that are counted for a margin: its own and the strata."""
        return column_set(tuple({*margin, *self.strata}))


@dataclass(frozen=True, kw_only=True, slots=True)
class ZeroPart:
    """The values of one column in an impossible combination."""

    column: str
    # low, high: Smallest and largest value, for columns on a grid. None: no limit. Null is never included.
    low: Any = None
    high: Any = None
    values: tuple[Any, ...] | None = None  # The values, instead of limits

    def __str__(self) -> str:
        if self.values is not None:
            return f"{self.column} in {', '.join(map(str, self.values))}"
        ends = [f"from {self.low}"] if self.low is not None else []
        ends += [f"up to {self.high}"] if self.high is not None else []
        return " ".join([self.column, *ends])


@dataclass(frozen=True, kw_only=True, slots=True)
class ZeroRule:
    """A combination that the spec declares impossible: no row matches all its parts."""

    parts: tuple[ZeroPart, ...]  # At least one; their columns differ

    @property
    def columns(self) -> ColumnSet:
        """Columns that it names."""
        return column_set(tuple(part.column for part in self.parts))

    def __str__(self) -> str:
        return f"declared impossible: {' and '.join(map(str, self.parts))}"
