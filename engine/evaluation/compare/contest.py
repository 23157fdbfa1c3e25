"""Results of a comparison with rivals: nouns for the page, the JSON and the command line.

`engine.evaluation.compare.rivalry` makes them. CONFIDENTIAL: every figure holds the original beside the synthetic.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from math import isfinite
from typing import Any, Literal

from engine.evaluation.compare.risks import LOSS, RISKS
from engine.evaluation.compare.runs import Spread, spread_of
from engine.evaluation.findings import FIGURES, Figure

Side = Literal["sticky", "dp", "rival", "outside", "file"]
SIDES: Mapping[Side, str] = {
    "sticky": "tablepack, sticky",
    "dp": "tablepack, dp",
    "rival": "rivals",
    "outside": "outside commands",
    "file": "files",
}
"""What the kinds of generators are called."""
FORMAT = 1


@dataclass(frozen=True, kw_only=True, slots=True)
class Generator:
    """A point of the map."""

    name: str  # For people; unique within a comparison
    side: Side
    promise: str  # What it promises, in words
    origin: str  # Whose code it is


@dataclass(frozen=True, kw_only=True, slots=True)
class Trial:
    """One synthetic table, or release, that was made, scored, attacked and thrown away."""

    generator: Generator
    repeat: int  # Which of several alike, from 1 on
    # Those of the catalogue that could be computed, by `measure.value`; the loss and the risks, by the
    # names of `RISKS`.
    figures: Mapping[str, float]
    # seconds, cpu: To make it, on the clock and of processors, those of its child processes too; None: it
    # was there already.
    seconds: float | None
    cpu: float | None
    n_rows: int | None  # Rows of a table; None for a release


@dataclass(frozen=True, kw_only=True, slots=True)
class Contest:
    """Our modes and rivals, on the same data."""

    title: str
    trials: tuple[Trial, ...]  # The first is the spec's sticky release
    # Name of the generator that the spec itself is built by; empty: it is none of those compared.
    own: str
    repeats: int
    n_tables: int  # Of the spec
    n_rows: int  # Rows of the original
    has_control: bool
    study: str  # Title of the study, or that it was chosen by rule
    notes: tuple[str, ...]
    version: str  # Of tablepack

    def generators(self) -> tuple[Generator, ...]:
        """Return the generators in the order of tables."""
        return tuple(dict.fromkeys(trial.generator for trial in self.trials))

    def weighed(self) -> tuple[Figure, ...]:
        """Return the loss and those risks that any trial has."""
        return tuple(f for f in (LOSS, *RISKS) if any(f.name in t.figures for t in self.trials))

    def figures(self) -> tuple[Figure, ...]:
        """Return the figures of the catalogue that any trial has, in its order."""
        there = {name for trial in self.trials for name in trial.figures}
        return tuple(figure for name, figure in FIGURES.items() if name in there)

    def spread(self, figure: str, generator: str) -> Spread | None:
        """Return a figure of a generator over its trials; None where no trial has it."""
        return spread_of([t.figures.get(figure) for t in self._of(generator)])

    def seconds(self, generator: str) -> tuple[Spread | None, Spread | None]:
        """Return how long a generator took, on the clock and of processors."""
        trials = self._of(generator)
        return spread_of([t.seconds for t in trials]), spread_of([t.cpu for t in trials])

    def _of(self, generator: str) -> list[Trial]:
        return [trial for trial in self.trials if trial.generator.name == generator]


def contest_document(contest: Contest) -> dict[str, Any]:
    """Return a comparison as plain data, for JSON: no NaN, no infinity."""
    figures = (*contest.weighed(), *contest.figures())
    return {
        "confidential": True,
        "kind": "rivals",
        "format": FORMAT,
        "title": contest.title,
        "tablepack": contest.version,
        "rows": contest.n_rows,
        "tables": contest.n_tables,
        "repeats": contest.repeats,
        "own": contest.own or None,
        "control": contest.has_control,
        "study": contest.study,
        "notes": list(contest.notes),
        "generators": [
            {"name": g.name, "kind": g.side, "promise": g.promise, "origin": g.origin}
            for g in contest.generators()
        ],
        "figures": [
            {"name": f.name, "title": f.title, "words": f.words, "better": f.better}
            for f in figures
        ],
        "runs": [
            {
                "generator": t.generator.name,
                "repeat": t.repeat,
                "seconds": None if t.seconds is None else round(t.seconds, 3),
                "cpu_seconds": None if t.cpu is None else round(t.cpu, 3),
                "rows": t.n_rows,
                "figures": {k: v for k, v in t.figures.items() if isfinite(v)},
            }
            for t in contest.trials
        ],
    }
