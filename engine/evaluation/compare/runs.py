"""Results of a comparison of sticky and dp releases: nouns for the page, the JSON and the command line.

`engine.evaluation.compare.building` makes them. CONFIDENTIAL: every figure holds the original beside the synthetic.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from math import isfinite
from typing import Any, Literal

import numpy as np

from engine.evaluation.compare.risks import LOSS, RISKS, beside
from engine.evaluation.findings import FIGURES, Figure

Kind = Literal["sticky", "dp", "exact"]
Way = tuple[Kind, float | None]
"""A way to build: its kind, and the epsilon of a dp release."""
KINDS: Mapping[Kind, str] = {
    "sticky": "sticky",
    "dp": "dp",
    "exact": "dp without noise",
}
"""What the kinds are called. "exact" guarantees nothing: it is what the model of dp mode could reach."""
CHOSEN = (
    "tables.s_pmse_2",
    "tables.s_pmse_3",
    "tables.s_pmse_1",
    "univariate.scaled_median_composite_error",
    "marginals.score",
    "correlations.median_difference",
    "correlations.cramers_v_median",
    "propensity.pmse",
)
"""Figures that a comparison shows, the first ones first."""
IN_GROUPS = "groups/"
"""Stands before figures that were scored by the groups that breaks make."""
CHOSEN_IN_GROUPS = ("tables.s_pmse_2", "tables.s_pmse_3", "marginals.score")
FORMAT = 1


@dataclass(frozen=True, kw_only=True, slots=True)
class Run:
    """One release that was built, scored, attacked and thrown away."""

    kind: Kind
    epsilon: float | None  # Of dp releases only
    repeat: int  # Which of several alike, from 1 on; each has a key, or noise, of its own
    # Scores that could be computed, by `measure.value`; the loss and the risks, by the names of `RISKS`.
    figures: Mapping[str, float]
    seconds: float  # To build it


@dataclass(frozen=True, kw_only=True, slots=True)
class Spread:
    """One figure over the repeats of one way to build."""

    median: float
    low: float
    high: float
    n: int  # Repeats that have the figure


@dataclass(frozen=True, kw_only=True, slots=True)
class ModeComparison:
    """Releases of the same tables, built in several ways and scored alike."""

    title: str
    runs: tuple[Run, ...]
    epsilons: tuple[float, ...]  # Ascending
    own: Way | None  # The way that the spec itself is built; None: it is none of those compared
    has_control: bool  # Whether non_members were given
    repeats: int
    n_tables: int
    n_rows: int  # Rows of the original
    notes: tuple[str, ...]  # What a reader must know
    version: str  # Of tablepack

    def figures(self) -> tuple[Figure, ...]:
        """Return the chosen figures of utility that any run has, those by groups first."""
        names = (*(f"{IN_GROUPS}{name}" for name in CHOSEN_IN_GROUPS), *CHOSEN)
        return tuple(figure_of(n) for n in names if any(n in r.figures for r in self.runs))

    def weighed(self) -> tuple[Figure, ...]:
        """Return the loss and those risks that any run has."""
        return tuple(f for f in (LOSS, *RISKS) if any(f.name in r.figures for r in self.runs))

    def ways(self) -> tuple[Way, ...]:
        """Return the ways to build, in the order of tables: sticky, dp by epsilon, dp without noise."""
        return (("sticky", None), *(("dp", e) for e in self.epsilons), ("exact", None))

    def spread(self, figure: str, kind: Kind, epsilon: float | None = None) -> Spread | None:
        """Return a figure over the repeats; None where no run has it."""
        runs = [run for run in self.runs if (run.kind, run.epsilon) == (kind, epsilon)]
        return spread_of([run.figures.get(figure) for run in runs])

    def beside(self) -> tuple[str, tuple[tuple[str, str], ...]]:
        """Return the name of the way that others are held beside, and names of these and what each costs and gains.

        It is the spec's own; sticky, where that is none of those compared. There are no others where no attack ran.
        """
        own: Way = self.own or ("sticky", None)
        figures = self.weighed()

        def apart(way: Way, figure: Figure) -> float | None:
            one, other = (self.spread(figure.name, *w) for w in (way, own))
            return None if one is None or other is None else one.median - other.median

        others = [way for way in self.ways() if way != own] if figures else []
        return way_name(*own), tuple(
            (way_name(*way), beside(figures, partial(apart, way))) for way in others
        )


def spread_of(values: Iterable[float | None]) -> Spread | None:
    """Return some values as a spread, those that are missing left out; None where all are."""
    kept = [value for value in values if value is not None and isfinite(value)]
    if not kept:
        return None
    return Spread(median=float(np.median(kept)), low=min(kept), high=max(kept), n=len(kept))


def figure_of(name: str) -> Figure:
    """Return what a figure says; one by groups says so in its title."""
    if not name.startswith(IN_GROUPS):
        return FIGURES[name]
    plain = FIGURES[name.removeprefix(IN_GROUPS)]
    return replace(plain, name=name, title=f"{plain.title}, by groups")


def way_name(kind: Kind, epsilon: float | None) -> str:
    """Return what a way to build is called: "sticky", "dp, epsilon 0.5"."""
    return KINDS[kind] if epsilon is None else f"{KINDS[kind]}, epsilon {epsilon:g}"


def document(comparison: ModeComparison) -> dict[str, Any]:
    """Return a comparison as plain data, for JSON: no NaN, no infinity."""
    figures, weighed = comparison.figures(), comparison.weighed()
    return {
        "confidential": True,
        "kind": "comparison",
        "format": FORMAT,
        "title": comparison.title,
        "tablepack": comparison.version,
        "rows": comparison.n_rows,
        "tables": comparison.n_tables,
        "repeats": comparison.repeats,
        "epsilons": list(comparison.epsilons),
        "own": None
        if comparison.own is None
        else {"kind": comparison.own[0], "epsilon": comparison.own[1]},
        "control": comparison.has_control,
        "notes": list(comparison.notes),
        "figures": [_told(figure) for figure in figures],
        "weighed": [_told(figure) for figure in weighed],
        "summary": [
            {
                "figure": figure.name,
                "kind": kind,
                "epsilon": epsilon,
                "median": spread.median,
                "low": spread.low,
                "high": spread.high,
                "n": spread.n,
            }
            for figure in (*figures, *weighed)
            for kind, epsilon in comparison.ways()
            if (spread := comparison.spread(figure.name, kind, epsilon)) is not None
        ],
        "runs": [
            {
                "kind": run.kind,
                "epsilon": run.epsilon,
                "repeat": run.repeat,
                "seconds": round(run.seconds, 3),
                "figures": {k: v for k, v in run.figures.items() if isfinite(v)},
            }
            for run in comparison.runs
        ],
    }


def _told(figure: Figure) -> dict[str, str]:
    """What a figure says, for JSON."""
    return {
        "name": figure.name,
        "title": figure.title,
        "words": figure.words,
        "better": figure.better,
    }
