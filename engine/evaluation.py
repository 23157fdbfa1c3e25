"""What an evaluation found: several synthetic tables, or releases, held against one original.

Nouns for the report; `engine.evaluate` makes them. CONFIDENTIAL: the original is inside.
Invariant: every figure is in the catalogue, which says its direction, bounds and words.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from engine.schema import ColumnSet
from engine.score import Risk, Score
from engine.study import Study
from engine.utility.comparison import Comparison, Distinct


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class Subject:
    """What is evaluated: a release, or one synthetic table of any tool.

    Attributes
    ----------
    name : str
        For people; unique within an evaluation.
    kind : str
        "release" or "table".
    tables : dict of ColumnSet to Distinct
        One for a synthetic table; all of a release.
    content_hash : str
        Of a release, as its manifest has it; of a table xxh3-128 of the file.
    cards : dict of ColumnSet to dict
        Cards of a release's tables, as stored.
    notes : tuple of str
        What was left out in reading, and why.
    """

    name: str
    kind: Literal["release", "table"]
    tables: Mapping[ColumnSet, Distinct]
    content_hash: str
    cards: Mapping[ColumnSet, Mapping[str, Any]] = field(default_factory=dict)
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class Result:
    """What was found about one subject.

    Attributes
    ----------
    subject : Subject
    comparison : Comparison
    scores : dict of str to Score
        By measure.
    scale : dict of str to Score
        The same measures of a sample of the original in the place of the subject.
    risks : dict of str to Risk
        By attack.
    seconds : float
    """

    subject: Subject
    comparison: Comparison
    scores: Mapping[str, Score]
    scale: Mapping[str, Score]
    risks: Mapping[str, Risk]
    seconds: float

    def figures(self) -> dict[str, float]:
        """Return all figures under `measure.value` and `attack.value`."""
        return {**named(self.scores), **named(self.risks)}

    def why_not(self) -> dict[str, str]:
        """Return why a figure, or a measure as a whole, was not computed."""
        found: dict[str, Score | Risk] = {**self.scores, **self.risks}
        return {
            f"{name}.{figure}".rstrip("."): why
            for name, one in found.items()
            for figure, why in one.why_not.items()
        }


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class Evaluation:
    """Subjects side by side.

    Attributes
    ----------
    title : str
    study : Study
    results : tuple of Result
        In the order given; the first is the one that the others are held against.
    share : float
        Share of the original that the scale samples, 0 to 1.
    data : str
        Name of the file of the original; no path.
    n_rows : int
        Rows of the original.
    labels : dict of str to str
        What columns are called.
    value_labels : dict of str to dict
        Column -> value as text -> what it is called.
    notes : tuple of str
        What a reader must know: how the study was chosen, what of the original was left out.
    seed : int
    version : str
        Of tablepack.
    """

    title: str
    study: Study
    results: tuple[Result, ...]
    share: float
    data: str
    n_rows: int
    labels: Mapping[str, str] = field(default_factory=dict)
    value_labels: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    notes: tuple[str, ...] = ()
    seed: int = 0
    version: str = ""


def named(found: Mapping[str, Score] | Mapping[str, Risk]) -> dict[str, float]:
    """Return the figures of several measures, or attacks, under the names `measure.value`."""
    return {
        f"{name}.{value}": figure
        for name, one in found.items()
        for value, figure in one.values.items()
    }
