"""Results of a comparison: generators, repeats and measures; nouns for the page, the JSON and the command line.

`engine.evaluation.compare.building` makes them. CONFIDENTIAL: every figure holds the original beside the synthetic.
Invariant: of the loss and the risks lower is better.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, replace
from math import isfinite
from typing import Any, Literal

import numpy as np
import pandas as pd

from engine.evaluation.findings import FIGURES, FRAME, Figure, notes_frame

View = Literal["modes", "sweep", "generators"]
"""What is compared: the two modes, settings of sticky mode one at a time, or our modes with other generators."""
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
"""Figures that a comparison of modes has, the first ones first."""
IN_GROUPS = "groups/"
"""Stands before figures that were scored by the groups that breaks make."""
CHOSEN_IN_GROUPS = ("tables.s_pmse_2", "tables.s_pmse_3", "marginals.score")
LOSS = Figure(
    name="misplaced",
    title="rows misplaced",
    words=(
        "Mean over the tables of the spec of the share of rows that would have to move for the released table to be "
        "the true one; a table that is not released is put together from the widest released ones as if their columns "
        "were independent. Lower is better."
    ),
    better="lower",
    high=1.0,
    perfect=0.0,
)


def _risk(name: str, title: str, words: str, low: float = -1.0, perfect: float = 0.0) -> Figure:
    words = f"{words} Lower is better."
    return Figure(
        name=name, title=title, words=words, better="lower", low=low, high=1.0, perfect=perfect
    )


RISKS = (
    _risk(
        "attribute",
        "attribute gain",
        "Share of columns guessed right of people of the data, less that of the control; the attacker knows all other "
        "columns.",
    ),
    _risk(
        "attribute_unusual",
        "attribute gain, unusual",
        "The attribute gain of the twentieth of people whose values are the rarest.",
    ),
    _risk(
        "reconstruction",
        "small group gain",
        "Share of one column of small groups that is solved right from all tables, less that without the tables that "
        "split the group.",
    ),
    _risk(
        "membership",
        "membership AUC",
        "How often a person of the data is ranked above a non-member by who knows the population only (area under the "
        "curve): 0.5 is a coin. It needs control rows.",
        low=0.0,
        perfect=0.5,
    ),
)
"""What attackers get, first the ones that are looked at first."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Generator:
    """What makes releases, or synthetic tables, that are compared."""

    name: str  # For people; unique within a comparison: "sticky", "dp, epsilon 1", "threshold of mean 8"
    # What it has in common with others: a mode, the parameter that is changed, whose generator it is.
    kind: str
    promise: str = ""  # What it promises, in words
    origin: str = ""  # Whose code it is
    epsilon: float | None = None  # Of dp releases only


@dataclass(frozen=True, kw_only=True, slots=True)
class Run:
    """One release, or synthetic table, that was made, scored, attacked and thrown away."""

    generator: Generator
    repeat: int  # Which of several alike, from 1 on; each has a key, or noise, of its own
    # Those that could be computed, by `measure.value`; the loss and the risks, by the names of `RISKS`.
    figures: Mapping[str, float]
    # seconds, cpu: To make it, on the clock and of processors, those of its child processes too; None: it
    # was there already.
    seconds: float | None
    cpu: float | None = None
    n_rows: int | None = None  # Rows of a table; None for a release


@dataclass(frozen=True, kw_only=True, slots=True)
class Spread:
    """One figure over the repeats of one generator."""

    median: float
    low: float
    high: float
    n: int  # Repeats that have the figure


@dataclass(frozen=True, kw_only=True, slots=True)
class Comparison:
    """Generators on the same data, scored and attacked alike."""

    view: View
    title: str
    runs: tuple[Run, ...]
    own: str  # Name of the generator that is the spec itself; empty: it is none of those compared
    repeats: int
    n_tables: int
    n_rows: int  # Rows of the original
    has_control: bool  # Whether non-members were given
    study: str = ""  # Title of the study, or that it was chosen by rule
    notes: tuple[str, ...] = ()  # What a reader must know
    version: str  # Of tablepack

    def generators(self) -> tuple[Generator, ...]:
        """Return the generators in the order of tables."""
        return tuple(dict.fromkeys(run.generator for run in self.runs))

    def figures(self) -> tuple[Figure, ...]:
        """Return the figures of the catalogue that any run has, those by groups first."""
        there = {name for run in self.runs for name in run.figures}
        order = (*(f"{IN_GROUPS}{n}" for n in CHOSEN_IN_GROUPS), *CHOSEN, *FIGURES)
        if self.view == "generators":
            order = tuple(FIGURES)
        return tuple(figure_of(name) for name in dict.fromkeys(order) if name in there)

    def weighed(self) -> tuple[Figure, ...]:
        """Return the loss and those risks that any run has."""
        return tuple(f for f in (LOSS, *RISKS) if any(f.name in r.figures for r in self.runs))

    def spread(self, figure: str, generator: str) -> Spread | None:
        """Return a figure of a generator over the repeats; None where no run has it."""
        return spread_of([run.figures.get(figure) for run in self._of(generator)])

    def seconds(self, generator: str) -> tuple[Spread | None, Spread | None]:
        """Return how long a generator took, on the clock and of processors."""
        runs = self._of(generator)
        return spread_of([r.seconds for r in runs]), spread_of([r.cpu for r in runs])

    def beside(self) -> tuple[str, tuple[tuple[str, str], ...]]:
        """Return the generator that others are held beside, and names of these with what each costs and gains.

        It is the spec's own, or the first where that was not compared. There are no others where no attack ran.
        """
        own = self.own or self.generators()[0].name
        others = [g.name for g in self.generators() if g.name != own] if self.weighed() else []
        return own, tuple((name, self._apart(name, own)) for name in others)

    def _apart(self, name: str, own: str) -> str:
        """What one generator costs and gains beside another."""
        by = {
            f: one.median - other.median
            for f in self.weighed()
            for one, other in [(self.spread(f.name, name), self.spread(f.name, own))]
            if one is not None and other is not None
        }
        cost = f"{LOSS.title} {by[LOSS]:+.3f}; " if LOSS in by else ""
        told = {f: round(v, 3) for f, v in by.items() if f != LOSS}
        less = [f"{f.title} {v:+.3f}" for f, v in told.items() if v < 0]
        more = [f"{f.title} {v:+.3f}" for f, v in told.items() if v > 0]
        parts = [f"lower: {', '.join(less)}"] if less else []
        parts += [f"higher: {', '.join(more)}"] if more else []
        return cost + ("; ".join(parts) or "no risk changed")

    def frame(self) -> pd.DataFrame:
        """Every figure of every generator: median and range over the repeats, then each repeat (`by`)."""
        figures: dict[str, str] = {f.name: f.better for f in (*self.weighed(), *self.figures())}
        rows: list[tuple[Any, ...]] = []
        for one in self.generators():
            for name, better in figures.items():
                if (all_ := self.spread(name, one.name)) is not None:
                    span = (all_.median, all_.low, all_.high)
                    rows.append((one.name, name, "", "", *span, better, f"median of {all_.n}"))
            for run in self._of(one.name):
                taken = {"seconds": run.seconds, "cpu_seconds": run.cpu, "rows": run.n_rows}
                for name, value in {**run.figures, **taken}.items():
                    if value is not None and isfinite(value):
                        by, better = f"repeat {run.repeat}", figures.get(name, "")
                        rows.append((one.name, name, "", by, value, None, None, better, ""))
        return pd.concat(
            [pd.DataFrame(rows, columns=list(FRAME)), notes_frame("", self.notes)],
            ignore_index=True,
        )

    def about(self) -> dict[str, Any]:
        """What was compared, as plain values."""
        return {
            "kind": self.view,
            "title": self.title,
            "tablepack": self.version,
            "rows": self.n_rows,
            "tables": self.n_tables,
            "repeats": self.repeats,
            "own": self.own or None,
            "control": self.has_control,
            "study": self.study or None,
            "generators": [asdict(one) for one in self.generators()],
        }

    def _of(self, generator: str) -> list[Run]:
        return [run for run in self.runs if run.generator.name == generator]


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
