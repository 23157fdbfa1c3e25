"""Results of an audit: the t-tests with their power, what they come to, and in words what that means.

CONFIDENTIAL: the data sets compared have the safe margins of the data.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from math import isfinite
from typing import Any, Literal

import numpy as np
import pandas as pd

from engine.evaluation.findings import FRAME, notes_frame, optional
from engine.schema import ColumnSet
from engine.version import ENGINE_VERSION

Verdict = Literal["refuted", "not refuted", "nothing to test"]
SHARES = (0.01, 0.1, 1.0)
"""Shares copied whose power is stated."""
LIKELY = 0.8
_SAME = 1e-12
"""Relative difference that rounding makes."""
QUANTILES = 2_000


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

    def frame(self) -> pd.DataFrame:
        """The public frame: the smallest p-value, each test, and the statistic of each run and data set."""
        rows: list[tuple[Any, ...]] = []

        def add(
            name: str,
            value: float | None,
            by: str = "",
            low: Any = None,
            high: Any = None,
            better: str = "",
        ) -> None:
            if value is not None and isfinite(value):
                rows.append((self.generator, f"audit.{name}", "", by, value, low, high, better, ""))

        add("p", self.p, better="higher")
        for number, test in enumerate(self.tests, 1):
            by = f"direction {number}"
            add("t", test.t, by)
            add("p", test.p, by)
            add("p_holm", test.p_holm, by)
            add("copied", test.copied, by, test.copied_low, test.copied_high, "lower")
            add("found_from", test.found_from, by)
            add("put_back", test.put_back, by)
            add("smallest_safe_count", test.smallest, by)
            for share, power in test.power.items():
                add("power", power, f"{by}; {share:.0%} copied")
            for side, data, lot in (
                ("D+", test.of_plus, test.plus),
                ("D-", test.of_minus, test.minus),
            ):
                add("statistic", data, f"{by}; {side}")
                for run, value in enumerate(lot, 1):
                    add("statistic", value, f"{by}; {side}; run {run}")
        whole = pd.DataFrame(rows, columns=list(FRAME))
        notes = notes_frame(self.generator, (*self.sentences(), *self.notes))
        return pd.concat([whole, notes], ignore_index=True) if rows else notes

    def about(self) -> dict[str, Any]:
        """What was audited, and the verdict, as plain values."""
        told = asdict(replace(self, tests=()))
        names = (
            "title",
            "generator",
            "columns",
            "margins",
            "dimension",
            "looked_at",
            "rows",
            "left_out",
            "runs",
        )
        return {
            "kind": "audit",
            "tablepack": ENGINE_VERSION,
            "verdict": self.verdict,
            **{name: told[name] for name in (*names, "level", "seed", "seconds")},
        }


# --- the test


def two_sample(
    plus: Sequence[float],
    minus: Sequence[float],
    ends: tuple[float, float],
    *,
    level: float,
    put_back: int,
    smallest: int,
) -> DirectionTest:
    """Student's two-sided t-test of two lots of as many runs, as in Houssiau et al., its power and what it finds.

    ends: The statistic of the two data sets that they were made of; not the same.

    Where nothing varies, p is 1 if both are the same and 0 if not.
    """
    one, other = (np.asarray(lot, dtype=np.float64) for lot in (plus, minus))
    span, difference = ends[0] - ends[1], float(one.mean() - other.mean())
    error = float(np.sqrt((one.var(ddof=1) + other.var(ddof=1)) / len(one)))
    scale = max(float(np.abs([*one, *other, *ends]).max()), 1e-300)
    t, interval = None, (difference, difference)
    if error <= _SAME * scale:
        p, error = float(abs(difference) <= _SAME * scale), 0.0
    else:
        found = optional("scipy.stats", "audits").ttest_ind(one, other)
        t, p = float(found.statistic), float(found.pvalue)
        low, high = found.confidence_interval(0.95)
        interval = float(low), float(high)
    low, high = sorted(end / span for end in interval) if span else (0.0, 0.0)

    def power(share: float) -> float:
        return power_of(share * span, error, len(one), level)

    found_from = None
    if power(1.0) >= LIKELY:
        brentq = optional("scipy.optimize", "audits").brentq
        is_sure = power(0.0) >= LIKELY
        found_from = 0.0 if is_sure else float(brentq(lambda share: power(share) - LIKELY, 0, 1))
    return DirectionTest(
        plus=tuple(map(float, one)),
        minus=tuple(map(float, other)),
        of_plus=ends[0],
        of_minus=ends[1],
        t=t,
        p=p,
        p_holm=p,
        copied=difference / span if span else 0.0,
        copied_low=low,
        copied_high=high,
        power={share: power(share) for share in SHARES},
        found_from=found_from,
        put_back=put_back,
        smallest=smallest,
    )


def power_of(difference: float, error: float, runs: int, level: float) -> float:
    """Power of the two-sided t-test for a difference of means with a standard error."""
    if error == 0:
        return float(difference != 0)
    stats, freedom, away = optional("scipy.stats", "audits"), 2 * runs - 2, abs(difference) / error
    limit = float(stats.t.isf(level / 2, freedom))
    # Over quantiles of the estimated error: scipy's noncentral t distribution is nan where it is far off.
    errors = np.sqrt(stats.chi2.ppf((np.arange(QUANTILES) + 0.5) / QUANTILES, freedom) / freedom)
    found = stats.norm.sf(limit * errors - away) + stats.norm.cdf(-limit * errors - away)
    return float(found.mean())


def holm(p: Sequence[float]) -> list[float]:
    """Correct p-values for their number: Holm 1979."""
    order = np.argsort(np.asarray(p), kind="stable")
    times = len(p) - np.arange(len(p))
    out = np.empty(len(p))
    out[order] = np.maximum.accumulate(np.minimum(times * np.asarray(p)[order], 1.0))
    return out.tolist()


def p_text(p: float) -> str:
    """A p-value for people."""
    if p == 0:
        return "0 (exactly: nothing varies)"
    return f"{p:.1e}" if p < 0.001 else f"{p:.2g}"


def share_text(share: float) -> str:
    """A share as a percentage."""
    return f"{100 * share:.2g} %" if abs(share) < 0.995 else f"{100 * share:.0f} %"
