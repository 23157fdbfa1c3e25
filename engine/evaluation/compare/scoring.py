"""Score the releases of a comparison: every one against the original, by one study, whatever built it.

Takes the spec and the path of a release; gives figures by name. CONFIDENTIAL: it reads the original. Invariant: the
study, its groups and what the measures draw are settled by the first release and are the same for all.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from engine.evaluation.compare.runs import CHOSEN, CHOSEN_IN_GROUPS, IN_GROUPS
from engine.evaluation.data.aligned import Aligned, align
from engine.evaluation.data.declared import data_of
from engine.evaluation.data.reading import Subject, read_original, read_subject, released_columns
from engine.evaluation.measures import score_all
from engine.evaluation.result import named
from engine.evaluation.study.default import default_study
from engine.evaluation.study.model import Study
from engine.evaluation.study.presets import of_spec
from engine.spec import ReleaseSpec

SEED = 2021
"""Fixes what the measures draw, alike for all releases."""
SECTIONS = ("bins", "univariate", "marginals", "tables", "correlations", "propensity")
"""Sections of the study chosen by rule that a comparison takes."""
HOW = (
    "All releases are scored by the values that they hold, as in evaluate: numbers of many values in groups of equal "
    "share; only the tables that the spec publishes count."
)
GROUPED = (
    "Columns with breaks are scored twice: by their values, and by the groups that breaks make, in which dp mode "
    "counts and inside which it can know nothing; figures by groups say so."
)


class Scoring:
    """The original, read once the first release says of what types its columns are, and the study chosen for all.

    frame: The source, where the spec's is a frame; otherwise None.
    """

    def __init__(self, spec: ReleaseSpec, frame: Any) -> None:
        self._source = data_of(spec) if frame is None else frame
        self._table = spec.source.table
        self._reading = of_spec(spec, Study(title=spec.title))
        self._original: pd.DataFrame | None = None
        self._study: Study | None = None
        self._groups = {c.name: c.breaks for c in spec.columns if c.breaks}

    @property
    def n_rows(self) -> int:
        """Rows of the original."""
        return 0 if self._original is None else len(self._original)

    def score(self, release: Path) -> dict[str, float]:
        """Return the chosen figures of one release, by name, those by groups too."""
        original, study, subject = self._read(release)
        scores = _scores(align(original, subject.tables, study), study, CHOSEN)
        if not self._groups:
            return scores
        grouped_study = Study(
            title=study.title,
            tables=study.tables,
            marginals=study.marginals,
            bins={c: b for c, b in study.bins.items() if c not in self._groups},
        )
        aligned = align(
            self._in_groups(original),
            {c: replace(t, frame=self._in_groups(t.frame)) for c, t in subject.tables.items()},
            grouped_study,
        )
        by_groups = _scores(aligned, grouped_study, CHOSEN_IN_GROUPS)
        return scores | {f"{IN_GROUPS}{name}": value for name, value in by_groups.items()}

    def _read(self, release: Path) -> tuple[pd.DataFrame, Study, Subject]:
        """The original and the study, which the first release settles for all, and the release's tables."""
        if self._original is None:
            like = released_columns(release)
            self._original = read_original(
                self._source, self._reading, like=like, table=self._table
            )
        subject = read_subject(str(release), self._original, self._reading, release.stem)
        if self._study is None:
            chosen = default_study(self._original, subject.tables, title=self._reading.title).study
            sections = {name: getattr(chosen, name) for name in SECTIONS}
            self._study = self._reading.model_copy(update=sections)
        return self._original, self._study, subject

    def _in_groups(self, frame: pd.DataFrame) -> pd.DataFrame:
        """A frame with the groups of breaks, as texts, in the place of values."""
        return frame.assign(
            **{c: grouped(frame[c], at) for c, at in self._groups.items() if c in frame}
        )


def _scores(aligned: Aligned, study: Study, names: Sequence[str]) -> dict[str, float]:
    """Those of some figures that could be computed."""
    figures = named(score_all(aligned, study, seed=SEED))
    return {name: figures[name] for name in names if name in figures}


def grouped(column: pd.Series, breaks: Sequence[Any]) -> pd.Series:
    """Return the group of each value as a text, blanks as blanks."""
    is_time = pd.api.types.is_datetime64_any_dtype(column)
    kind = "datetime64[us]" if is_time else "float64"
    at = np.searchsorted(np.array(breaks, dtype=kind), column.to_numpy().astype(kind), "right")
    names = np.array([f"group {i:05d}" for i in range(len(breaks) + 1)], dtype=object)
    groups = pd.Series(names[at], index=column.index, dtype=object)
    return groups.mask(column.isna()).astype("category")
