"""What a release gives away, as a noun and in words that a data protection officer reads."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from engine.exposure.attackers import auc_of, caught
from engine.params import ExposureBounds
from engine.schema import ColumnSet


@dataclass(frozen=True, kw_only=True, slots=True)
class Group:
    """A group of people that a released bucket singles out, and a column that further tables tell of them."""

    columns: ColumnSet  # One or two columns that single it out
    ranges: tuple[str, ...]  # Its value or range in each of them
    # Noisy number of rows, at least the mean threshold times the buckets that any table splits it into.
    people: int
    told: str  # The column
    figures: int  # Noisy figures of this build's tables that split the group and show the column
    tables: int  # Tables that they come from
    # How often an evenly distributed bit in the place of the column would be guessed right, by who knows
    # all other columns of the group; 0.5 is chance.
    guessed: float

    @property
    def exposure(self) -> float:
        """Figures a person."""
        return self.figures / self.people

    def __str__(self) -> str:
        where = " and ".join(f"{c} {r}" for c, r in zip(self.columns, self.ranges, strict=True))
        return (
            f"{self.told} of those with {where} (about {self.people:,}): {_number(self.figures, 'figure')} in "
            f"{_number(self.tables, 'table')}, {self.exposure:.2f} a person; who knows their other columns guesses an "
            f"even bit "
            f"{self.guessed:.0%} right"
        )


def _number(n: int, noun: str) -> str:
    """A number with its noun."""
    return f"{n:,} {noun}" if n == 1 else f"{n:,} {noun}s"


Pairs = dict[tuple[ColumnSet, str], float]
"""Most figures a person, by columns of the group and column told."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Exposure:
    """What the tables of a build, and all builds before it, give away. Reckoned from noisy counts: it may be shown."""

    # The most exposed, one for each columns and column told, worst first.
    groups: tuple[Group, ...]
    pairs: Pairs  # Most figures a person in any such group, by this build's tables
    added: Pairs  # The same by the tables that the earlier builds counted in `before` did not hold
    # The same by earlier builds of these people that told something else, added up.
    before: Pairs = field(default_factory=dict)
    builds: int = 0  # These builds
    # States of nearly the same data that were ever measured with fresh noise, this one included.
    looks: int = 1
    # The ledger was there from the key's first day; else what it was used for before counts as one look.
    is_whole: bool = True
    # Of Gaussian differential privacy for the counts: how far this build's tables shift with a typical
    # person, in standard deviations of their noise.
    mu: float
    bounds: ExposureBounds

    @property
    def worst(self) -> float:
        """Most figures a person, by this build's tables."""
        return max(self.pairs.values(), default=0.0)

    @property
    def together(self) -> Pairs:
        """Most figures a person by this build and all before it, where this build tells anything."""
        return {
            pair: max(own, self.added.get(pair, 0.0) + self.before.get(pair, 0.0))
            for pair, own in self.pairs.items()
        }

    @property
    def over(self) -> Pairs:
        """What exceeds the bound: by this build alone, or by what it adds to earlier ones."""
        bound = self.bounds.refuse_at
        return {
            pair: figures
            for pair, figures in self.together.items()
            if figures > bound and (self.pairs[pair] > bound or self.added.get(pair, 0.0) > 0)
        }

    @property
    def is_refused(self) -> bool:
        """Whether the release is more than its owner accepted."""
        return not self.bounds.accept_risk and (
            bool(self.over) or self.looks > self.bounds.max_looks
        )

    def sentences(self) -> list[str]:
        """In words, a sentence or two a line."""
        bounds = self.bounds
        most = max(self.together.values(), default=self.worst)
        lines = [
            f"Exposure: at most {self.worst:.2f} noisy figures a person in any group that one or two columns single "
            f"out (warning above {bounds.warn_at:g}, refused above {bounds.refuse_at:g})."
        ]
        lines += [f"Most exposed: {group}." for group in self.groups[:3]]
        if self.builds:
            lines.append(
                f"Together with earlier builds of these people ({self.builds}): at most {most:.2f}."
            )
        if self.looks - (not self.is_whole) > 1:
            lines.append(
                f"This is look {self.looks} at nearly the same data, as far as can be told (at most "
                f"{bounds.max_looks})."
            )
        if not self.is_whole:
            lines.append("The key has no ledger from its first day: that counts as one look.")
        lines.append(
            f"Who knows everybody else tells whether a typical person is in the data with an AUC of "
            f"{auc_of(self.mu):.2f} and finds {caught(self.mu):.0%} of them at 1 false alarm in 100 (mu "
            f"{self.mu:.2f}; without what thresholds and ranges tell)."
        )
        if bounds.accept_risk:
            lines.append(f"The owner accepted this risk: {bounds.accept_risk}")
        return lines

    def as_dict(self) -> dict[str, Any]:
        """Plain values, for JSON and the catalogue."""
        return {
            "figures_a_person": round(self.worst, 4),
            "with_earlier_builds": round(max(self.together.values(), default=0.0), 4),
            "earlier_builds": self.builds,
            "looks": self.looks,
            "mu": round(self.mu, 4),
            "membership_auc": round(auc_of(self.mu), 4),
            "membership_caught": round(caught(self.mu), 4),
            "warn_at": self.bounds.warn_at,
            "refuse_at": self.bounds.refuse_at,
            "accept_risk": self.bounds.accept_risk,
            "groups": [
                {
                    "columns": list(g.columns),
                    "ranges": list(g.ranges),
                    "people": g.people,
                    "told": g.told,
                    "figures": g.figures,
                    "tables": g.tables,
                    "guessed": round(g.guessed, 4),
                }
                for g in self.groups
            ],
        }
