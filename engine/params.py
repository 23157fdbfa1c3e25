"""Privacy parameters: public, frozen, named by profile.

The profile `standard` is SynDiffix's: at least 3 entities, a noisy threshold of mean 5 and sd 1, and two noise
layers of sd 1 each. Parameters are never weaker than it; a spec may only strengthen them.
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import asdict, dataclass, field
from typing import Any, Literal

from engine.errors import SpecError
from engine.schema import ColumnSet, column_set

NOISE_LAYERS = 2
"""Layers of noise on each bucket of mode sticky: one keyed by its label, one by its entity set."""
FLOORS = {"low_threshold": 3, "threshold_mean": 5, "layer_sd": 1}
"""The weakest value each parameter may take."""
MOST_ROWS = 1 << 20
"""Largest bound on the rows of one entity."""
MOST_CHOSEN = 12
"""Tables that are chosen for a wide one where nobody says how many."""
MOST_SWAPPED = 0.5
"""Largest share of records that may be exchanged: beyond, tables tell little of how columns go together."""


@dataclass(frozen=True, kw_only=True, slots=True)
class SwapParams:
    """How records are exchanged before anything is counted.

    similar: In these they agree too where such a partner is found; the last one gives way first.
    rare: Records that share a value of one of these, and one of the columns exchanged, with few others go
        first.
    rate: Share of the records that are exchanged, some of them for equal values.
    publish_rate: Whether the release tells the share. Statistical offices keep theirs to themselves.
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
            problems.append("privacy.swap.columns: names no column to exchange")
        if not self.rare:
            problems.append("privacy.swap.rare: names no column that makes a record rare")
        if not 0 < self.rate <= MOST_SWAPPED:
            problems.append(
                f"privacy.swap.rate: wants a share of the records above 0 and at most {MOST_SWAPPED:g}"
            )
        for one, other in (
            ("within", "columns"),
            ("similar", "columns"),
            ("rare", "columns"),
            ("similar", "within"),
        ):
            both = sorted({*getattr(self, one)} & {*getattr(self, other)})
            problems += [f"privacy.swap.{one}: {name} is in {other} too" for name in both]
        if problems:
            raise SpecError(problems)

    @property
    def named(self) -> ColumnSet:
        """All columns that it reads."""
        return column_set(tuple({*self.columns, *self.within, *self.similar, *self.rare}))

    def public(self) -> dict[str, Any]:
        """What a release says of it, in plain values: the share only where that is wanted."""
        told: dict[str, Any] = {"columns": list(self.columns), "within": list(self.within)}
        return told | ({"rate": self.rate} if self.publish_rate else {})


@dataclass(frozen=True, kw_only=True, slots=True)
class PrivacyParams:
    """What decides suppression and noise.

    low_threshold: A bucket of fewer entities is never released.
    layer_sd: Standard deviation of each of the two noise layers in rows, for entities of one row; a power of
        two.
    max_rows: Most rows that one entity contributes to any bucket, a power of two, by which the noise is
        multiplied. None: not declared, and each entity has one row.
    max_rows_by: "entity": which rows of an entity count is decided once, for all tables, so that groups add
        up. "bucket": in every bucket by itself, which keeps more of them; what heavy entities lose is then
        shared by others.
    detected: Names of the settings that were detected in the data and nobody has confirmed.
    swap: How records are exchanged before anything is counted; None: they are not.
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

    def fingerprint(self) -> str:
        """Hex digest of the values: equal exactly where every parameter is; a bound of one row is as good as none."""
        left_out = ("max_rows", "max_rows_by", "detected", "swap")
        values = {k: v for k, v in asdict(self).items() if k not in left_out}
        if self.swap is not None:
            # Whether the share is told changes nothing that is drawn.
            values["swap"] = asdict(self.swap) | {"publish_rate": None}
        if self.max_rows not in (None, 1):
            values["max_rows"] = self.max_rows
            values |= {"max_rows_by": self.max_rows_by} if self.max_rows_by == "entity" else {}
        # What engines before 0.3.0 flattened by. A known vintage must stay known: a new name is a fresh look.
        former = [3, 6] if self.profile == "strict" else [2, 5]
        text = json.dumps(values | {"outliers": former, "top_group": former}, sort_keys=True)
        return hashlib.blake2b(text.encode(), digest_size=16).hexdigest()

    def public(self) -> dict[str, Any]:
        """What a release says of the parameters, in plain values."""
        values = {k: v for k, v in asdict(self).items() if k != "swap"}
        if self.max_rows_by == "bucket":  # as releases before 0.5 have it
            del values["max_rows_by"]
        return values | ({"swap": self.swap.public()} if self.swap else {})


def bad_bound(place: str, max_rows: int | None) -> list[str]:
    """Say what is wrong with a declared number of rows of one entity; empty if nothing is."""
    if max_rows is None or (1 <= max_rows <= MOST_ROWS and max_rows & (max_rows - 1) == 0):
        return []
    return [f"{place}: wants a power of two from 1 to {MOST_ROWS:,}: the noise doubles with it"]


PROFILES = {
    "standard": PrivacyParams(),
    "strict": PrivacyParams(profile="strict", threshold_mean=20, layer_sd=2),
}
"""Named starting points: `strict` doubles the noise and shows no group of fewer than about 20: small cells tell most of
a person (engine/PRIVACY.md, "Levers")."""


@dataclass(frozen=True, kw_only=True, slots=True)
class ExposureBounds:
    """How much a sticky release may give away of small groups, with all that was built before it.

    max_looks: How often nearly the same data may be measured with fresh noise, under as many names of
        vintages.
    accept_risk: Why the owner accepts more than `refuse_at` and `max_looks`; printed with the release. Empty:
        not accepted.
    """

    warn_at: float
    refuse_at: float
    max_looks: int
    accept_risk: str = ""

    def __post_init__(self) -> None:
        problems = []
        if not self.refuse_at > 0:
            problems.append("privacy.refuse_at: wants a number above 0")
        elif not 0 < self.warn_at <= self.refuse_at:
            problems.append("privacy.warn_at: wants a number above 0 and at most privacy.refuse_at")
        if self.max_looks < 1:
            problems.append("privacy.max_looks: wants a whole number of at least 1")
        if self.accept_risk and not (self.accept_risk.strip() and self.accept_risk.isprintable()):
            problems.append("privacy.accept_risk: wants a reason, in one line of text")
        if problems:
            raise SpecError(problems)


BOUNDS = {
    "standard": ExposureBounds(warn_at=0.2, refuse_at=0.4, max_looks=4),
    "strict": ExposureBounds(warn_at=0.1, refuse_at=0.2, max_looks=2),
}
"""Bounds by profile. A table that splits a group down to the threshold of 5 gives 0.2 figures a person.

So under `standard` one table about a group never warns and two are never refused, however small the group. Of 150
people among 27,253 an even bit was guessed .62 right at 0.2, .66 at 0.3, .69 at 0.5: at the bound such an attacker is
below .70, under `strict` below .62. After four looks, an average is half as far off as one count.
"""


Noise = Literal["laplace", "gaussian"]
Method = Literal["ipf", "catall"]
Post = Literal["wls", "paper", "synthpop"]
Sample = Literal["rounded", "multinomial"]
Allocation = Literal["cells", "equal"]
LEAST_EPSILON, MOST_EPSILON = 1e-9, 500.0
"""Below, noise is wider than any count; above, it rounds to none, which `Margin.variance` = 0 would call exact."""


@dataclass(frozen=True, kw_only=True, slots=True)
class DPParams:
    """How margins are measured, fitted and sampled."""

    # Of the whole build. None: nothing is protected (`guarantee = false` in the spec); counts cross the
    # wall exact.
    epsilon: float | None
    delta: float = 0.0  # 0 with Laplace noise; above 0 with Gaussian noise
    # "laplace" (pure epsilon) or "gaussian" (zCDP, converted to epsilon at delta).
    noise: Noise = "laplace"
    # "ipf" (chosen margins) or "catall" (one margin: the full cross-tabulation).
    method: Method = "ipf"
    # Columns of the joint distribution: all that published tables, margins and strata name.
    columns: ColumnSet = ()
    # Margins to be measured, each once, by width, then name; the strata's columns are not among their
    # columns. With "catall" the one margin of all columns but the strata.
    margins: tuple[ColumnSet, ...] = ()
    # Columns whose levels are disjoint areas: every margin is measured, and fitted, within each of them.
    strata: ColumnSet = ()
    # One-way margins that are measured as trees, for range queries, with their branching, by name; each is
    # one of `margins`.
    ranges: tuple[tuple[str, int], ...] = ()
    # What turns noisy margins into targets: "wls" (default), "paper" or "synthpop".
    post: Post = "wls"
    # "rounded" (each count is its expectation rounded up or down; with post "wls", whose margins agree,
    # rows then come nearer to these) or "multinomial" (independent rows).
    sample: Sample = "rounded"
    # Rows spread evenly over the cells of each margin before anything else (synthpop's priorn).
    prior: float = 0.0
    # How margins share the budget: "equal", or "cells": the more cells a margin has, the more it gets
    # (epsilon as the cube root of the cells, which makes the sum over margins of cells times variance
    # smallest).
    allocation: Allocation = "equal"
    total_share: float = 0.02  # Share of the budget that the total is measured with
    public_n: bool = False  # The true number of rows is declared public and used as such
    max_rows: int = 1  # Rows that one entity may contribute; more are left out
    # Largest table of counts that is made: a margin, a full cross-tabulation, the cliques of a junction
    # tree.
    max_cells: int = 10_000_000
    max_cycles: int = 200
    # Largest share of rows that a margin may be off by when the fit is called converged.
    tolerance: float = 1e-4
    # Most epsilon that the ledger may ever hold; pinned by the first build. None: what the ledger says, and
    # a new one gets this build's epsilon.
    budget: float | None = None
    # The spec says `max_rows`, which it must where entities have several rows. No measurement hangs on it.
    is_bound_said: bool = field(default=True, repr=False, compare=False)

    @property
    def is_protected(self) -> bool:
        """Whether there is any guarantee."""
        return self.epsilon is not None

    def measured(self, margin: ColumnSet) -> ColumnSet:
        """Columns that are counted for a margin: its own and those of the strata."""
        return column_set(tuple({*margin, *self.strata}))


@dataclass(frozen=True, kw_only=True, slots=True)
class ZeroPart:
    """What one column holds in an impossible combination."""

    column: str
    # low, high: Smallest and largest value, for columns on a grid. None: no limit. A null is never meant.
    low: Any = None
    high: Any = None
    values: tuple[Any, ...] | None = None  # The values; then there are no limits

    def __str__(self) -> str:
        if self.values is not None:
            return f"{self.column} in {', '.join(map(str, self.values))}"
        ends = [f"from {self.low}"] if self.low is not None else []
        ends += [f"up to {self.high}"] if self.high is not None else []
        return " ".join([self.column, *ends])


@dataclass(frozen=True, kw_only=True, slots=True)
class ZeroRule:
    """A combination that the spec declares impossible: nobody fits all its parts."""

    parts: tuple[ZeroPart, ...]  # At least one; their columns differ

    @property
    def columns(self) -> ColumnSet:
        """Columns that it names."""
        return column_set(tuple(part.column for part in self.parts))

    def __str__(self) -> str:
        return f"declared impossible: {' and '.join(map(str, self.parts))}"
