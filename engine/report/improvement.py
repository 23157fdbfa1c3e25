"""How many times nearer to perfect the first subject is than each other one: improvement factors.

P. Francis, "A Comparison of SynDiffix Multi-table versus Single-table Synthetic Data", arXiv:2403.08463, section 4,
equation 1. Takes lines of figures; gives factors. Invariant: a factor is never between -1 and 1, and never NaN.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import inf, isinf

from engine.report.verdicts import Line


@dataclass(frozen=True, kw_only=True, slots=True)
class Improvement:
    """One figure of one subject held against the first.

    Attributes
    ----------
    first, other : Line
    factor : float
        At least 1: the first is so many times nearer to perfect; at most -1: the other is; infinite: one is perfect.
    """

    first: Line
    other: Line
    factor: float

    @property
    def place(self) -> float:
        """Where it is marked on a log scale: above 1 the first is better; 0 and infinity are its ends."""
        return self.factor if self.factor >= 1 else -1 / self.factor

    @property
    def text(self) -> str:
        """The factor in words."""
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


def improvements(told: Sequence[Line]) -> list[Improvement]:
    """Hold every other subject against the first, in all figures that have a perfect value and that both have.

    Parameters
    ----------
    told : sequence of Line
        Of all subjects, the first subject's first.

    Returns
    -------
    list of Improvement
        By number of columns that a figure looks at, then as told; utility before risk.
    """
    if not told:
        return []
    name = told[0].subject
    first = {line.figure.name: line for line in told if line.subject == name}
    found = [
        Improvement(first=mine, other=line, factor=factor(perfect, mine.value, line.value))
        for line in told
        if line.subject != name
        and (mine := first.get(line.figure.name)) is not None
        and (perfect := line.figure.perfect) is not None
        and mine.value is not None
        and line.value is not None
        and line.figure.better != "neither"
    ]
    return sorted(found, key=lambda one: (one.other.is_risk, width(one.other.figure.columns)))


def width(columns: str) -> float:
    """Return the number of columns of a figure for ordering: "all" after all numbers, none told last."""
    if columns == "all":
        return 1e6
    return float(columns) if columns.isdigit() else inf
