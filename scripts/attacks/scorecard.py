"""The table that says what was reached over several keys.

Takes a study and the figures of several keys' releases by name, `measure.value`; gives lines with median and worst.
Invariant: a figure that was not measured is said to be so, never counted as reached.
"""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import isfinite

from engine.evaluation.study.model import Row, Study

HEADINGS = ("measure", "reference", "reach", "median", "worst", "reached")


@dataclass(frozen=True, kw_only=True, slots=True)
class Line:
    """One line of the table.

    Attributes
    ----------
    row : Row
    figures : tuple of float
        One a key; empty: not measured.
    median, worst : float
        NaN where it was not measured.
    reached : bool or None
        Whether every key reached it; None where nothing is to be reached.
    """

    row: Row
    figures: tuple[float, ...]
    median: float
    worst: float
    reached: bool | None

    def texts(self) -> tuple[str, ...]:
        """Return what the table shows, in the order of `HEADINGS`."""
        row = self.row
        shown = [
            f"{figure:,.{row.digits}f}" if isfinite(figure) else "not measured"
            for figure in (self.median, self.worst)
        ]
        answer = {True: "yes", False: "no", None: ""}[self.reached]
        return (row.label, row.reference, row.reach, *shown, answer)


def lines(study: Study, by_key: Sequence[Mapping[str, float]]) -> list[Line]:
    """Lay figures of several keys into the study's rows.

    Parameters
    ----------
    study : Study
    by_key : sequence of dict of str to float
        Figures of each key's release; one that a key lacks, or that is not a number, is not measured.
    """
    return [
        _line(row, [told.get(row.measure, float("nan")) for told in by_key]) for row in study.rows
    ]


def _line(row: Row, found: Sequence[float]) -> Line:
    """One line; worst is the highest figure, or the lowest where higher ones are better."""
    if not found or not all(map(isfinite, found)):
        nan = float("nan")
        unmeasured = False if row.reach else None
        return Line(row=row, figures=(), median=nan, worst=nan, reached=unmeasured)
    worst = min(found) if row.reach.startswith(">=") or row.better == "higher" else max(found)
    return Line(
        row=row,
        figures=tuple(found),
        median=statistics.median(found),
        worst=worst,
        reached=_reaches(worst, row.reach),
    )


def _reaches(figure: float, reach: str) -> bool | None:
    """Whether a figure is what is to be reached."""
    if not reach:
        return None
    sign, _, bound = reach.partition(" ")
    return figure <= float(bound) if sign == "<=" else figure >= float(bound)


def markdown(title: str, told: Sequence[Line], *, notes: Sequence[str] = ()) -> str:
    """Return the table as Markdown."""
    head = [f"**{title}**", "", *(f"{note}  " for note in notes), "" if notes else None]
    rows = [HEADINGS, tuple("---" for _ in HEADINGS), *(line.texts() for line in told)]
    table = ["| " + " | ".join(cell.replace("|", "\\|") for cell in row) + " |" for row in rows]
    return "\n".join([part for part in head if part is not None] + table) + "\n"
