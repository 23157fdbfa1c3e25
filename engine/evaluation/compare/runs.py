"""Results of a comparison of sticky and dp releases: nouns for the page, the JSON and the command line.

`engine.evaluation.compare.building` makes them. CONFIDENTIAL: every figure holds the original beside the synthetic.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from math import isfinite
from typing import Any, Literal

import numpy as np

from engine.evaluation.figures import FIGURES
from engine.evaluation.score import Figure

Kind = Literal["sticky", "dp", "exact"]
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
    """One release that was built, scored and thrown away.

    Attributes
    ----------
    epsilon : float or None
        Of dp releases only.
    repeat : int
        Which of several alike, from 1 on; each has a key, or noise, of its own.
    figures : dict of str to float
        Scores that could be computed, by `measure.value`.
    seconds : float
        To build it.
    """

    kind: Kind
    epsilon: float | None
    repeat: int
    figures: Mapping[str, float]
    seconds: float


@dataclass(frozen=True, kw_only=True, slots=True)
class Spread:
    """One figure over the repeats of one way to build.

    Attributes
    ----------
    n : int
        Repeats that have the figure.
    """

    median: float
    low: float
    high: float
    n: int


@dataclass(frozen=True, kw_only=True, slots=True)
class ModeComparison:
    """Releases of the same tables, built in several ways and scored alike.

    Attributes
    ----------
    epsilons : tuple of float
        Ascending.
    n_rows : int
        Rows of the original.
    notes : tuple of str
        What a reader must know.
    version : str
        Of tablepack.
    """

    title: str
    runs: tuple[Run, ...]
    epsilons: tuple[float, ...]
    repeats: int
    n_tables: int
    n_rows: int
    notes: tuple[str, ...]
    version: str

    def figures(self) -> tuple[Figure, ...]:
        """Return the chosen figures that any run has, those by groups first."""
        names = (*(f"{IN_GROUPS}{name}" for name in CHOSEN_IN_GROUPS), *CHOSEN)
        return tuple(figure_of(n) for n in names if any(n in r.figures for r in self.runs))

    def ways(self) -> tuple[tuple[Kind, float | None], ...]:
        """Return the ways to build, in the order of tables: sticky, dp by epsilon, dp without noise."""
        return (("sticky", None), *(("dp", e) for e in self.epsilons), ("exact", None))

    def spread(self, figure: str, kind: Kind, epsilon: float | None = None) -> Spread | None:
        """Return a figure over the repeats; None where no run has it."""
        values = [
            value
            for run in self.runs
            if (run.kind, run.epsilon) == (kind, epsilon)
            and isfinite(value := run.figures.get(figure, float("nan")))
        ]
        if not values:
            return None
        return Spread(
            median=float(np.median(values)), low=min(values), high=max(values), n=len(values)
        )


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
    figures = comparison.figures()
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
        "notes": list(comparison.notes),
        "figures": [
            {"name": f.name, "title": f.title, "words": f.words, "better": f.better}
            for f in figures
        ],
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
            for figure in figures
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
