"""Results of an audit: the tests, what they come to, and in words what that means.

CONFIDENTIAL: the data sets compared have the safe margins of the data.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import isfinite
from typing import Any, Literal

from engine.schema import ColumnSet
from engine.version import ENGINE_VERSION

Verdict = Literal["refuted", "not refuted", "nothing to test"]
FORMAT = 1


@dataclass(frozen=True, kw_only=True, slots=True)
class DirectionTest:
    """The test along one critical direction."""

    # plus, minus: Statistic of each set of synthetic data, made of the two extremal data sets; fresh runs.
    plus: tuple[float, ...]
    minus: tuple[float, ...]
    # of_plus, of_minus: Statistic of the extremal data sets themselves.
    of_plus: float
    of_minus: float
    t: float | None  # Of the two-sided t-test; None where nothing varies
    p: float
    p_holm: float  # Corrected for the other directions
    # Difference of the means, as a share of that of the extremal data: 1, what is unsafe is copied whole.
    copied: float
    # copied_low, copied_high: Its 95 % interval.
    copied_low: float
    copied_high: float
    # By share copied: how likely the test is to find a generator that copies so much, at the level of the
    # audit.
    power: dict[float, float]
    # Share copied that is found with probability 0.8; None: not even a whole copy would be.
    found_from: float | None
    # put_back, smallest: As in `Extremal`.
    put_back: int
    smallest: int


@dataclass(frozen=True, kw_only=True, slots=True)
class Audit:
    """An audit of a generator."""

    title: str
    generator: str  # What was audited, in words
    columns: dict[str, int]  # Levels of each column
    margins: tuple[ColumnSet, ...]  # Safe margins
    # dimension, looked_at: Of the space of what is not safe, and of the part of it that was looked along.
    dimension: int
    looked_at: int
    rows: int  # Of each extremal data set
    left_out: float  # Share of the data's rows in safe counts of too few
    # Fresh runs from each of two extremal data sets, and as many before to choose the direction.
    runs: int
    level: float  # The card is refuted below it
    seed: int
    tests: tuple[DirectionTest, ...]
    why_nothing: str = ""  # Why there was nothing to test; empty: there was
    notes: tuple[str, ...] = ()  # What a reader must know
    seconds: float = 0.0

    @property
    def p(self) -> float | None:
        """The smallest p-value, corrected for the number of directions; None: nothing was tested."""
        return min((test.p_holm for test in self.tests), default=None)

    @property
    def verdict(self) -> Verdict:
        """What the audit comes to."""
        if self.p is None:
            return "nothing to test"
        return "refuted" if self.p < self.level else "not refuted"

    @property
    def is_refuted(self) -> bool:
        """Whether the generator uses more than the card says."""
        return self.verdict == "refuted"

    def sentences(self) -> list[str]:
        """What the audit comes to, for people."""
        margins = ", ".join("(" + ", ".join(m) + ")" for m in self.margins[:8])
        more = f" and {len(self.margins) - 8} more" if len(self.margins) > 8 else ""
        said = f"Audited: {self.generator}. Its card says that it uses only the margins {margins}{more}."
        if self.p is None:
            return [said, f"There is nothing to test: {self.why_nothing}."]
        best = min(self.tests, key=lambda test: test.p_holm)
        if self.is_refuted:
            return [
                said,
                f"The card is refuted: of two data sets with the same safe margins it makes data that differ, p = "
                f"{p_text(self.p)}. Along the direction tested, {share_text(best.copied)} of what is not safe comes "
                f"through (95 % interval {share_text(best.copied_low)} to {share_text(best.copied_high)}).",
            ]
        found = (
            "not even a whole copy of it would be found, so the audit says nothing: more runs (--runs) say more"
            if best.found_from is None
            else f"a generator that copied {share_text(best.found_from)} of it would be found 8 times of 10"
        )
        return [
            said,
            f"The card is not refuted: of two data sets with the same safe margins it makes data that do not differ "
            f"beyond chance, p = {p_text(self.p)}. Along the direction tested {found}.",
            "That is no proof that nothing unsafe is used: other directions, and what happens rarely, are not seen.",
        ]

    def as_dict(self) -> dict[str, Any]:
        """Plain values, for JSON."""
        return {
            "confidential": True,
            "kind": "audit",
            "format": FORMAT,
            "tablepack": ENGINE_VERSION,
            "title": self.title,
            "verdict": self.verdict,
            "p": self.p,
            "level": self.level,
            "words": self.sentences(),
            "generator": self.generator,
            "columns": self.columns,
            "safe_margins": [list(margin) for margin in self.margins],
            "unsafe_dimension": self.dimension,
            "dimension_looked_along": self.looked_at,
            "rows": self.rows,
            "left_out_share": self.left_out,
            "runs": self.runs,
            "seed": self.seed,
            "seconds": round(self.seconds, 1),
            "notes": list(self.notes),
            "tests": [_test(test) for test in self.tests],
        }


def _test(test: DirectionTest) -> dict[str, Any]:
    """One test in plain values."""
    return {
        "plus": list(test.plus),
        "minus": list(test.minus),
        "data_plus": test.of_plus,
        "data_minus": test.of_minus,
        "t": test.t if test.t is not None and isfinite(test.t) else None,
        "p": test.p,
        "p_holm": test.p_holm,
        "copied": test.copied,
        "copied_interval": [test.copied_low, test.copied_high],
        "power": {f"{share:g}": power for share, power in test.power.items()},
        "found_from": test.found_from,
        "put_back": test.put_back,
        "smallest_safe_count": test.smallest,
    }


def p_text(p: float) -> str:
    """A p-value for people."""
    if p == 0:
        return "0 (exactly: nothing varies)"
    return f"{p:.1e}" if p < 0.001 else f"{p:.2g}"


def share_text(share: float) -> str:
    """A share as a percentage."""
    return f"{100 * share:.2g} %" if abs(share) < 0.995 else f"{100 * share:.0f} %"
