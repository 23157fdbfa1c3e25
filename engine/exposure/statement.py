"""What a release discloses, as a noun and in words that a data protection officer reads.

Shares are computed from rows: they are shown rounded up to steps of 5 %, and columns are ordered by what is shown. How
often one person more or less changes what is shown was not measured.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from statistics import NormalDist
from typing import Any

from engine.exposure.estimator import FEWEST, MOST_EXPOSED, ColumnExposure
from engine.exposure.incidence import Incidence
from engine.params import ExposureBounds
from engine.schema import ColumnSet, Measurement

STEPS, ERROR_STEPS = 20, 100
"""Shares, and standard errors, are rounded up to one in so many."""
_NORMAL = NormalDist()


@dataclass(frozen=True, kw_only=True, slots=True)
class Group:
    """The people of whom one column is revealed most, by all tables that reveal it."""

    told: str  # The column
    people: int
    # How often a 50:50 secret in the place of the column would be guessed right by an attacker who knows all other
    # columns of everybody, rounded up; 0.5 is chance: of these people, of the most exposed 1 % and 5 %, and of all.
    guessed: float
    guessed_1: float
    guessed_5: float
    guessed_all: float
    error: float = 0.0  # Standard error of the first where people were sampled, rounded up
    figures: float  # Noisy figures a person, rounded up
    tables: int  # Tables that reveal it

    def __str__(self) -> str:
        tables = "1 table" if self.tables == 1 else f"{self.tables:,} tables"
        return (
            f"{self.told}, from {tables}: right for at most {self.guessed:.0%} of the {self.people:,} most exposed, "
            f"{self.guessed_1:.0%} of the most exposed 1 %, {self.guessed_5:.0%} of 5 % and {self.guessed_all:.0%} of "
            "all"
        )


def stated(found: Iterable[ColumnExposure], total: int) -> tuple[Group, ...]:
    """What may be shown of estimates.

    total: Noisy number of people.
    """
    people = max(FEWEST, round(MOST_EXPOSED * total))
    return in_order(
        Group(
            told=one.column,
            people=people,
            guessed=_up(one.most),
            guessed_1=_up(one.of_1),
            guessed_5=_up(one.of_5),
            guessed_all=_up(one.of_all),
            error=_up(one.error, ERROR_STEPS),
            figures=_up(one.figures),
            tables=len(one.by),
        )
        for one in found
    )


def in_order(groups: Iterable[Group]) -> tuple[Group, ...]:
    """Most exposed first, by what is shown."""
    return tuple(sorted(groups, key=lambda one: (-one.guessed, -one.guessed_all, one.told)))


def _up(share: float, steps: int | None = None) -> float:
    """Rounded up."""
    steps = steps or STEPS
    return math.ceil(round(share * steps, 6)) / steps


@dataclass(frozen=True, kw_only=True, slots=True)
class Exposure:
    """What the tables of a build, and all builds before it, disclose. It may be shown."""

    # By column, most exposed first: by this build's tables, and with all that earlier builds revealed.
    groups: tuple[Group, ...]
    together: tuple[Group, ...]
    # Whether more is guessed than the bound allows: by this build alone, or with earlier builds, to which it adds.
    is_over: bool = False
    builds: int = 0  # Earlier builds of these people that revealed something else
    # States of nearly the same data that were ever measured with fresh noise, this one included.
    looks: int = 1
    # The ledger was there from the key's first day; else what it was used for before counts as one release.
    is_whole: bool = True
    # Of Gaussian differential privacy for the counts: how far this build's tables shift with a typical
    # person, in standard deviations of their noise.
    mu: float
    sampled: int | None = None  # About how many people it was computed for; None: all
    bounds: ExposureBounds

    @property
    def guessed(self) -> float:
        """How often a secret of the most exposed is guessed right, by this build and all before it."""
        return max((one.guessed for one in (*self.groups, *self.together)), default=0.5)

    @property
    def error(self) -> float:
        """Standard error of what is stated of the most exposed, where people were sampled."""
        return max((one.error for one in (*self.groups, *self.together)), default=0.0)

    @property
    def is_warned(self) -> bool:
        """Whether it is more than the owner wants to be warned of."""
        return self.guessed > 0.5 + self.bounds.warn_at / 2

    @property
    def is_refused(self) -> bool:
        """Whether the release is more than its owner accepted."""
        return not self.bounds.accept_risk and (self.is_over or self.looks > self.bounds.max_looks)

    def sentences(self) -> list[str]:
        """In words, a sentence or two a line."""
        bounds = self.bounds
        lines = [
            "Exposure: an attacker who knows everything else about everybody guesses a 50:50 secret in the place of a "
            f"column (chance: 50%; above {bounds.most_right:.0%} of the most exposed a build is refused)."
        ]
        lines += [f"{group}." for group in self.groups[:3]]
        if self.sampled is not None:
            lines.append(
                f"Computed for a sample of about {self.sampled:,} people; standard error of the share of the most "
                f"exposed: at most {self.error:.0%}. Groups that a sample misses are not covered."
            )
        if self.builds:
            lines.append(
                f"Together with earlier builds of these people ({self.builds}): {self.guessed:.0%} at most."
            )
        if self.looks - (not self.is_whole) > 1:
            lines.append(
                f"This is independent release {self.looks} of nearly the same data, as far as can be determined (at "
                f"most {bounds.max_looks})."
            )
        if not self.is_whole:
            lines.append(
                "The key has no ledger from its first day: that counts as one independent release."
            )
        lines.append(
            f"Who knows everybody else finds out whether a typical person is in the data with an AUC of "
            f"{auc_of(self.mu):.2f} and finds {caught(self.mu):.0%} of them at 1 false alarm in 100 (mu "
            f"{self.mu:.2f}; without what thresholds and ranges reveal)."
        )
        if bounds.accept_risk:
            lines.append(f"The owner accepted this risk: {bounds.accept_risk}")
        return lines

    def as_dict(self) -> dict[str, Any]:
        """Plain values, for JSON and the catalogue."""
        figures = max((one.figures for one in self.groups), default=0.0)
        first = self.groups[0] if self.groups else None
        return {
            "figures_a_person": figures,
            "with_earlier_builds": max((one.figures for one in self.together), default=figures),
            "guessed": 0.5 if first is None else first.guessed,
            "guessed_1": 0.5 if first is None else first.guessed_1,
            "guessed_5": 0.5 if first is None else first.guessed_5,
            "guessed_all": 0.5 if first is None else first.guessed_all,
            "guessed_with_earlier_builds": self.guessed,
            "refused_above": self.bounds.most_right,
            "earlier_builds": self.builds,
            "looks": self.looks,
            "mu": round(self.mu, 4),
            "membership_auc": round(auc_of(self.mu), 4),
            "membership_caught": round(caught(self.mu), 4),
            "sampled": self.sampled,
            "sampling_error": self.error,
            "warn_at": self.bounds.warn_at,
            "refuse_at": self.bounds.refuse_at,
            "accept_risk": self.bounds.accept_risk,
            "groups": [
                {
                    "columns": [],
                    "ranges": [],
                    **asdict(g),
                    "figures": round(g.figures * g.people),
                    "figures_a_person": g.figures,
                }
                for g in self.groups
            ],
        }


def groups_of(plain: Mapping[str, Any]) -> Sequence[Group]:
    """The groups of an exposure in plain values."""
    fields = Group.__dataclass_fields__
    return [
        Group(**{**{k: g[k] for k in fields}, "figures": g["figures_a_person"]})
        for g in plain["groups"]
    ]


def tables_mu2(people: Incidence, tables: Iterable[ColumnSet], layer_sd: float) -> float:
    """What locked tables add to the squared mu of a typical person, for who knows everybody else.

    layer_sd: Standard deviation of each of the two noise layers, in rows, before a table's own scale.

    One person more shifts one released count of a table by 1 under noise of variance 2 * layer_sd**2; of the shift the
    table's share is news. A sum is shifted by at most half of what multiplies its noise.
    """
    return sum(
        people.news(one)
        * (1 + people.n_summed(one) / 4)
        / (2 * (layer_sd * float(people.scale(one))) ** 2)
        for one in tables
    )


def total_mu2(total: Measurement, layer_sd: float) -> float:
    """What the total adds to it."""
    return 1 / (2 * (layer_sd * float(total.scale[0])) ** 2)


def auc_of(mu: float) -> float:
    """Area under the ROC curve of telling two normal distributions that lie mu standard deviations apart."""
    return _NORMAL.cdf(mu / math.sqrt(2))


def caught(mu: float, false_alarms: float = 0.01) -> float:
    """Share of people found at so many false alarms (Dong, Roth and Su 2022, doi:10.1111/rssb.12454)."""
    return _NORMAL.cdf(mu - _NORMAL.inv_cdf(1 - false_alarms))
