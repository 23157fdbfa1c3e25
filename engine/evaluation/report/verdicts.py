"""What figures are worth: beside thresholds and a sample of the original, and of one subject beside another.

Takes an `Evaluation` and the catalogue of figures; gives a `Line` a figure and subject, and improvement factors (P.
Francis, "A Comparison of SynDiffix Multi-table versus Single-table Synthetic Data", arXiv:2403.08463, section 4,
equation 1). Invariants: a figure that is absent, or not a number, is "not computed" with a reason, never good; a factor
is never between -1 and 1 (but 0 where a reason stands in its place), and never NaN.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import inf, isfinite, isinf
from typing import Literal

from engine.evaluation.findings import FIGURES, STRONG, WHOLE, Figure, Finding
from engine.evaluation.result import Evaluation, Result

Catalogue = Mapping[str, Figure]
Verdict = Literal["good", "fair", "poor", "only stated", "not computed"]
DIRECTION = {
    "lower": "lower is better",
    "higher": "higher is better",
    "neither": "context, neither is better",
}
JUDGED = ("good", "fair", "poor")
TIMES_AS_FAR = 3.0
"""Without a threshold: poor is further from perfect than so many times a sample of the original is. Our own choice."""
NO_SECTION = "the study does not declare it"
MOST_APART = 1.5
"""Figures of whole tables are compared if one table has at most so many times the columns of the other."""
NO_REASON = "the measure gave no figure and no reason"


@dataclass(frozen=True, kw_only=True, slots=True)
class Line:
    """One figure of one subject."""

    subject: str
    figure: Figure
    is_risk: bool  # It belongs to an attack
    value: float | None  # None: not computed
    scale: float | None  # The same figure of a sample of the original
    # What the study wants it to reach: "<= 0.3"; empty: the catalogue's thresholds count.
    reach: str
    verdict: Verdict
    why: str  # Why it was not computed, else empty
    is_declared: bool = True  # The study declares its measure
    over: int = 0  # Columns of the table that a measure of whole tables read; 0 says nothing

    @property
    def measure(self) -> str:
        """Name of the measure, or attack."""
        return self.figure.name.partition(".")[0]

    @property
    def title(self) -> str:
        """What the figure is called, with a capital letter unless it begins with a symbol."""
        first, *rest = self.figure.title.split(" ")
        is_word = first.isalpha() and first.islower()
        return " ".join([first.capitalize() if is_word else first, *rest])

    @property
    def direction(self) -> str:
        """Which direction is good, in words."""
        return DIRECTION[self.figure.better]

    @property
    def threshold(self) -> str:
        """What is good and what is poor, in words."""
        if self.reach:
            return f"{_sign(self.reach)} (wanted by the study)"
        if self.is_judged and self.figure.good is None and self.figure.poor is None:
            return f"good: as near as the sample, poor: over {TIMES_AS_FAR:g} times as far"
        below, above = ("≤", ">") if self.figure.better == "lower" else ("≥", "<")
        bounds = [] if self.figure.good is None else [f"good {below} {self.figure.good:g}"]
        bounds += [] if self.figure.poor is None else [f"poor {above} {self.figure.poor:g}"]
        return ", ".join(bounds) if self.figure.better != "neither" else ""

    @property
    def is_judged(self) -> bool:
        """Whether there is a threshold, and a value beside it."""
        return self.verdict in JUDGED

    @property
    def fails(self) -> bool:
        """Whether it is poor and in the summary, or misses what the study wants."""
        is_missed = (
            bool(self.reach) and self.value is not None and not _reaches(self.value, self.reach)
        )
        return is_missed or (self.verdict == "poor" and self.figure.is_headline)

    @property
    def is_nearer(self) -> bool | None:
        """Whether it is nearer to perfect than a sample of the original; None where one of them is not there."""
        if self.value is None or self.scale is None or self.figure.perfect is None:
            return None
        return distance(self.figure, self.value) < distance(self.figure, self.scale)


def towards(figure: Figure, value: float) -> float:
    """Return a value, or perfect where it lies beyond that on the good side: nothing is nearer than perfect."""
    if figure.perfect is None or figure.better == "neither":
        return value
    return (max if figure.better == "lower" else min)(value, figure.perfect)


def distance(figure: Figure, value: float) -> float:
    """Return how far a value is from perfect, which the figure must have."""
    return abs(towards(figure, value) - (figure.perfect or 0.0))


def _sign(reach: str) -> str:
    """A threshold with typographic signs."""
    return reach.replace("<=", "≤").replace(">=", "≥")


def lines(evaluation: Evaluation, catalogue: Catalogue | None = None) -> list[Line]:
    """Lay out all figures of all subjects, in the order of the catalogue; headline figures of unmeasured ones too.

    catalogue: By default that of all measures and attacks that the command runs; a figure that it lacks is
        only stated.
    """
    known = catalogue if catalogue is not None else _catalogue_of(evaluation)
    reaches = {row.measure: row.reach for row in reversed(evaluation.study.rows) if row.reach}
    return [line for result in evaluation.results for line in _of_result(result, known, reaches)]


def _catalogue_of(evaluation: Evaluation) -> Catalogue:
    """The figures of all measures and attacks that the same command could have run."""
    ran = {name for result in evaluation.results for name in (*result.scores, *result.risks)}
    is_attack = not any(result.scores for result in evaluation.results) and ran & STRONG
    return {
        name: figure
        for name, figure in FIGURES.items()
        for measure in [name.partition(".")[0]]
        if measure in ran or (measure in STRONG if is_attack else measure not in STRONG)
    }


def _of_result(result: Result, catalogue: Catalogue, reaches: Mapping[str, str]) -> list[Line]:
    """Lines of one subject."""
    measures: dict[str, Finding] = {**result.scores, **result.risks}
    # A figure has a line if its measure ran, or it is a headline.
    names = [n for n, f in catalogue.items() if f.is_headline or n.partition(".")[0] in measures]
    extra = [
        f"{measure}.{value}"
        for measure, one in measures.items()
        for value in (*one.values, *one.why_not)
        if value != WHOLE
    ]
    return [
        _line(result, catalogue.get(name) or _unknown(name), reaches.get(name, ""))
        for name in dict.fromkeys([*names, *extra])
    ]


def _unknown(name: str) -> Figure:
    """What stands for a figure that the catalogue lacks."""
    title = name.partition(".")[2].replace("_", " ")
    return Figure(name=name, title=title, words="", better="neither")


def _line(result: Result, figure: Figure, reach: str) -> Line:
    """One line."""
    measure, _, value = figure.name.partition(".")
    one: Finding | None = result.scores.get(measure) or result.risks.get(measure)
    shown = one.values.get(value) if one is not None else None
    if shown is not None and not isfinite(shown):
        shown = None
    sampled = result.scale[measure].values.get(value) if measure in result.scale else None
    scale = sampled if sampled is not None and isfinite(sampled) else None
    return Line(
        subject=result.subject.name,
        figure=figure,
        is_risk=measure in result.risks,
        value=shown,
        scale=scale,
        reach=reach,
        verdict=verdict(figure, shown, reach, scale=scale),
        why="" if shown is not None else _why(one, value),
        is_declared=one is not None,
        over=one.over if one is not None and figure.columns == "all" else 0,
    )


def _why(one: Finding | None, value: str) -> str:
    """Why there is no figure."""
    if one is None:
        return NO_SECTION
    return one.why_not.get(value) or one.why_not.get(WHOLE) or NO_REASON


def verdict(
    figure: Figure, value: float | None, reach: str = "", *, scale: float | None = None
) -> Verdict:
    """Return what a figure is worth.

    What a study wants reached counts for good in the place of the catalogue's threshold. A figure without thresholds is
    compared with a sample of the original.

    scale: The same figure of a sample of the original.
    """
    if value is None or not isfinite(value):
        return "not computed"
    if reach and _reaches(value, reach):
        return "good"
    if figure.better == "neither":
        return "poor" if reach else "only stated"
    if figure.good is None and figure.poor is None:
        by_threshold = _against_sample(figure, value, scale)
    elif figure.poor is not None and _is_worse(figure, value, figure.poor):
        by_threshold = "poor"
    else:
        by_threshold = (
            "fair" if figure.good is None or _is_worse(figure, value, figure.good) else "good"
        )
    if not reach:
        return by_threshold
    # It misses what the study wants: at best fair, and poor where nothing says how far is too far.
    has_limit = figure.poor is not None or figure.good is None
    return "fair" if has_limit and by_threshold in ("good", "fair") else "poor"


def _reaches(value: float, reach: str) -> bool:
    """Whether a value is what a study wants."""
    sign, _, bound = reach.partition(" ")
    return value <= float(bound) if sign == "<=" else value >= float(bound)


def _against_sample(figure: Figure, value: float, scale: float | None) -> Verdict:
    """As near to perfect as a sample of the original: good; over `TIMES_AS_FAR` times as far: poor."""
    if scale is None or figure.perfect is None:
        return "only stated"
    own, sampled = distance(figure, value), distance(figure, scale)
    if own <= sampled:
        return "good"
    if not sampled:
        return "only stated"
    return "fair" if own <= TIMES_AS_FAR * sampled else "poor"


def _is_worse(figure: Figure, value: float, threshold: float) -> bool:
    """Whether a value lies on the bad side of a threshold."""
    return value > threshold if figure.better == "lower" else value < threshold


# --- improvement factors


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
