"""How many times nearer to perfect the first subject is than each other one: improvement factors.

P. Francis, "A Comparison of SynDiffix Multi-table versus Single-table Synthetic Data", arXiv:2403.08463, section 4,
equation 1. Takes lines of figures; gives factors. Invariant: a factor is never between -1 and 1 (but 0
where a reason stands in its place), and never NaN. What lies beyond perfect on the good side counts as perfect.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import inf, isinf

from engine.evaluation.report.verdicts import Line, towards

MOST_APART = 1.5
"""Figures of whole tables are compared if one table has at most so many times the columns of the other."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Improvement:
    """One figure of one subject compared with the first."""

    first: Line
    other: Line
    # At least 1: the first is so many times nearer to perfect; at most -1: the other is; infinite: one is
    # perfect. 0 where `why_not` says why there is none.
    factor: float
    why_not: str = ""  # Why the two cannot be compared; else empty

    @property
    def place(self) -> float:
        """Where it is marked on a log scale: above 1 the first is better; 0 and infinity are its ends."""
        return self.factor if self.factor >= 1 else -1 / self.factor

    @property
    def text(self) -> str:
        """The factor in words."""
        if self.why_not:
            return f"not comparable: {self.why_not}"
        if self.factor == 1:
            return "equal"
        if isinf(self.factor):
            return "∞: only the first is perfect" if self.factor > 0 else "−∞: only it is perfect"
        return f"{self.factor:,.2f}".replace("-", "−")


def factor(perfect: float, first: float, other: float) -> float:
    """Improvement factor of `first` over `other`.

    Distances from perfect: other / first where that of the other is the larger one, else -(first / other). Both
    perfect: 1; one perfect: infinite with its sign.
    """
    nearer, further = abs(perfect - first), abs(perfect - other)
    if nearer == further:
        return 1.0
    if further > nearer:
        return further / nearer if nearer else inf
    return -nearer / further if further else -inf


def improvements(all_lines: Sequence[Line]) -> list[Improvement]:
    """Hold every other subject against the first, in all figures that have a perfect value and that both have.

    Figures of tables that differ much in their number of columns have a reason in the place of a factor.

    Returns: By number of columns that a figure looks at, then in the order of the lines; utility before risk.
    """
    if not all_lines:
        return []
    name = all_lines[0].subject
    first = {line.figure.name: line for line in all_lines if line.subject == name}
    improved = [
        one
        for line in all_lines
        if line.subject != name
        and (mine := first.get(line.figure.name)) is not None
        and (one := _improvement(mine, line)) is not None
    ]
    return sorted(improved, key=lambda one: (one.other.is_risk, width(one.other.figure.columns)))


def _improvement(mine: Line, other: Line) -> Improvement | None:
    """One figure of two subjects; None where one lacks it, or nothing is perfect."""
    figure = other.figure
    if mine.value is None or other.value is None or figure.perfect is None:
        return None
    if figure.better == "neither":
        return None
    if (
        mine.over
        and other.over
        and max(mine.over, other.over) > MOST_APART * min(mine.over, other.over)
    ):
        why_not = f"{mine.over} columns against {other.over}"
        return Improvement(first=mine, other=other, factor=0.0, why_not=why_not)
    values = (towards(figure, value) for value in (mine.value, other.value))
    return Improvement(first=mine, other=other, factor=factor(figure.perfect, *values))


def width(columns: str) -> float:
    """Return the number of columns of a figure for ordering: "all" after all numbers, an empty one last."""
    if columns == "all":
        return 1e6
    return float(columns) if columns.isdigit() else inf
