"""Results of an evaluation: several synthetic tables, or releases, compared with one original.

CONFIDENTIAL: the original is inside. Invariant: every figure is in the catalogue, which says its direction and words.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import pandas as pd

from engine.evaluation.data.aligned import Aligned
from engine.evaluation.data.reading import Subject
from engine.evaluation.findings import Finding, frame, named, notes_frame
from engine.evaluation.study.model import Study
from engine.texts import html_table, text_table

N_SHOWN = 20
"""Figures that a notebook shows."""


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class Result:
    """Results of one subject."""

    subject: Subject
    aligned: Aligned
    scores: Mapping[str, Finding]  # By measure
    # The same measures of a sample of the original in the place of the subject.
    scale: Mapping[str, Finding]
    risks: Mapping[str, Finding]  # By attack
    seconds: float

    @property
    def findings(self) -> dict[str, Finding]:
        return {**self.scores, **self.risks}

    def figures(self) -> dict[str, float]:
        """All figures under `measure.value` and `attack.value`."""
        return named(self.findings)

    def why_not(self) -> dict[str, str]:
        """Why a figure, or a measure as a whole, was not computed."""
        return {
            f"{name}.{figure}".rstrip("."): why
            for name, one in self.findings.items()
            for figure, why in one.why_not.items()
        }


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class Evaluation:
    """Subjects side by side."""

    title: str
    study: Study
    # In the order given; the first is the one that the others are compared with.
    results: tuple[Result, ...]
    share: float  # Share of the original that the scale samples, 0 to 1
    data: str  # Name of the file of the original; no path
    n_rows: int  # Rows of the original
    labels: Mapping[str, str] = field(default_factory=dict)  # What columns are called
    # Column -> value as text -> what it is called.
    value_labels: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    # What a reader must know: how the study was chosen, what of the original was left out.
    notes: tuple[str, ...] = ()
    seed: int = 0
    version: str = ""  # Of tablepack

    def frame(self) -> pd.DataFrame:
        """All results as a tidy frame: subject, measure, columns, by, value, low, high, better, note.

        The sample that is the scale is a subject of its own, "40 % sample"; what is said of breakdowns stands under
        `measure/column`. Notes about a subject have no measure, those about the evaluation no subject.
        """
        parts = [frame(one.findings, one.subject.name) for one in self.results]
        parts.append(notes_frame("", self.notes))
        parts += [notes_frame(one.subject.name, one.subject.notes) for one in self.results]
        if self.results and self.results[0].scale:
            scale = {n: f for n, f in self.results[0].scale.items() if f.values}
            sample = frame(scale, f"{self.share:.0%} sample")
            parts.append(sample[(sample["columns"] == "") & (sample["by"] == "")])
        return pd.concat([p for p in parts if len(p)], ignore_index=True)

    def __repr__(self) -> str:
        heads, rows, below = self._first()
        return text_table(heads, rows, below)

    def _repr_html_(self) -> str:
        heads, rows, below = self._first()
        return html_table(heads, rows, below=below)

    def _first(self) -> tuple[list[str], list[list[object]], list[str]]:
        """The heads, the first figures of all subjects, and what is said below: never anything of the original."""
        figures = [result.figures() for result in self.results]
        names = list(dict.fromkeys(name for one in figures for name in one))
        heads = ["figure", *(result.subject.name for result in self.results)]
        rows: list[list[object]] = [
            [name, *(one.get(name) for one in figures)] for name in names[:N_SHOWN]
        ]
        more = len(names) - N_SHOWN
        below = [f"... and {more:,} more: .results[0].figures()"] if more > 0 else []
        return heads, rows, [*below, "CONFIDENTIAL: these figures are about the data."]
