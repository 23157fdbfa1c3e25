"""Score what a comparison made: every release, or table, against the original, by one study, attacked alike.

Takes the spec, and what was made; gives figures by name: measures, what an analyst loses, what attackers get.
CONFIDENTIAL: it reads the original. Invariant: the study, its groups, the tables that count and what is drawn are
settled by the spec and the first release, and are the same for all.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from engine.errors import InternalError
from engine.evaluation.attacks import Assumptions, Held, attack_all, held
from engine.evaluation.attacks.counts import membership
from engine.evaluation.attacks.inference import attribute
from engine.evaluation.attacks.systems import reconstruction
from engine.evaluation.compare.result import CHOSEN, CHOSEN_IN_GROUPS, IN_GROUPS, View
from engine.evaluation.data.aligned import Aligned, Coded, align, covering, generator, key_of
from engine.evaluation.data.declared import data_of
from engine.evaluation.data.reading import (
    Subject,
    read_like,
    read_original,
    read_subject,
    released_columns,
)
from engine.evaluation.findings import Finding, named
from engine.evaluation.measures import score_all
from engine.evaluation.study.default import default_study
from engine.evaluation.study.model import Study
from engine.evaluation.study.presets import of_spec
from engine.schema import ColumnSet
from engine.spec import ReleaseSpec

SEED = 2021
"""Fixes what measures and attacks draw, alike for all."""
READ = ("nulls", "texts", "order", "labels")
"""What a study says of how data is read."""
SECTIONS = ("bins", "univariate", "marginals", "tables", "correlations", "propensity")
"""Sections of the study chosen by rule that a comparison of modes takes."""
Floats = NDArray[np.float64]


class Scorer:
    """The original, read once the first release says of what types its columns are, and the study chosen for all.

    frame, control: The source, where the spec's is a frame; people whom it does not hold. None: there are
        none.
    study: How the data is read and grouped, and what is measured; by default as the spec says, and by what the
        columns look like.
    """

    def __init__(
        self,
        spec: ReleaseSpec,
        frame: Any,
        control: Any,
        assumptions: Assumptions,
        study: Study | None = None,
    ) -> None:
        self._spec = spec
        self._source = data_of(spec) if frame is None else frame
        self._given = control
        self._assumptions = assumptions
        self._is_declared = study is not None
        self._original: pd.DataFrame | None = None
        self._control: pd.DataFrame | None = None
        self._breaks = {c.name: c.breaks for c in spec.columns if c.breaks}
        self.study = study or of_spec(spec, Study(title=spec.title))

    @property
    def original(self) -> pd.DataFrame:
        """The original, once a release was read."""
        if self._original is None:
            raise InternalError("the original is read with the first release, and there was none")
        return self._original

    def figures(self, made: Any, name: str, view: View) -> dict[str, float]:
        """Return the figures of a release, or of a synthetic table: the loss, the risks, and what the view has."""
        subject = self._read(made, name)
        found = held([subject], self.original, self.study, control=self._control)
        figures: dict[str, float] = {}
        if view == "generators":
            figures = named(score_all(found.aligned, self.study, seed=SEED))
            if self.study.risks is not None:
                figures |= named(attack_all(found, self.study.risks, seed=SEED))
            figures = {key: value for key, value in figures.items() if np.isfinite(value)}
        if view == "modes":
            sections = {n: getattr(self.study, n) for n in (*READ, *SECTIONS)}
            chosen = Study(title=self.study.title, **sections)
            figures = _scores(found.aligned, chosen, CHOSEN) | self._by_groups(subject, chosen)
        lost = [misplaced(found.aligned, columns) for columns in self._spec.tables]
        return {
            **figures,
            "misplaced": float(np.mean(lost)),
            **risks_of(found, self._assumptions),
        }

    def _read(self, made: Any, name: str) -> Subject:
        """What was made, beside the original; the first one settles how that is read, and the study."""
        is_first = self._original is None
        if self._original is None:
            like, table = released_columns(made), self._spec.source.table
            self._original = read_original(self._source, self.study, like=like, table=table)
            if self._given is not None:
                self._control = read_like(
                    self._given, self._original, self.study, name="control", is_control=True
                )
        what = str(made) if isinstance(made, Path) else made
        subject = read_subject(what, self._original, self.study, name)
        if is_first and not self._is_declared:
            chosen = default_study(self._original, subject.tables, title=self.study.title).study
            # Bins are the default's, as are its sections; how the data is read is the spec's.
            read = {field: getattr(self.study, field) for field in READ}
            self.study = chosen.model_copy(update=read)
        return subject

    def _by_groups(self, subject: Subject, study: Study) -> dict[str, float]:
        """Figures of columns with breaks by the groups that these make."""
        if not self._breaks:
            return {}
        by_groups = Study(
            title=study.title,
            tables=study.tables,
            marginals=study.marginals,
            bins={c: b for c, b in study.bins.items() if c not in self._breaks},
        )
        tables = {c: replace(t, frame=self._in_groups(t.frame)) for c, t in subject.tables.items()}
        aligned = align(self._in_groups(self.original), tables, by_groups)
        scores = _scores(aligned, by_groups, CHOSEN_IN_GROUPS)
        return {f"{IN_GROUPS}{name}": value for name, value in scores.items()}

    def _in_groups(self, frame: pd.DataFrame) -> pd.DataFrame:
        """A frame with the groups of breaks, as texts, in the place of values."""
        return frame.assign(
            **{c: grouped(frame[c], at) for c, at in self._breaks.items() if c in frame}
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


def risks_of(attacked: Held, assumptions: Assumptions) -> dict[str, float]:
    """Attack a release; the figures that could be computed."""
    found = attribute(attacked, assumptions, generator(SEED, "attribute"))
    out = {"attribute": _gain(found)}
    if len(found.breakdown):
        rare = found.breakdown["right_unusual"] - found.breakdown["control_unusual"]
        out["attribute_unusual"] = float(rare.mean())
        gains = found.breakdown["right"] - found.breakdown["control"]
        out |= {
            f"attribute/{column}": float(gain)
            for column, gain in zip(found.breakdown["column"], gains, strict=True)
        }
    out["reconstruction"] = _gain(
        reconstruction(attacked, assumptions, generator(SEED, "reconstruction"))
    )
    non_members = membership(attacked, assumptions, generator(SEED, "membership"))
    out["membership"] = non_members.values.get("auc_population", float("nan"))
    # Rates that are alike differ by nothing, not by the last bit of a float.
    return {name: round(value, 12) + 0.0 for name, value in out.items() if np.isfinite(value)}


def _gain(risk: Finding) -> float:
    """How much oftener an attack is right than its control, chance or not; NaN where there is none."""
    if risk.rate is None or risk.control is None:
        return float("nan")
    return risk.rate.value - risk.control.value


def misplaced(aligned: Aligned, columns: ColumnSet) -> float:
    """Share of rows that would have to move for a released table to be the true one.

    A table that is not released is put together from released ones of separate columns, the widest first, as if they
    were independent. Columns are counted in the study's groups, where it has any.

    Returns: 0 to 1; NaN if no table has any of the columns.
    """
    pieces = _pieces(aligned, columns)
    together = tuple(c for c in columns if any(c in piece for piece, _ in pieces))
    if not pieces:
        return float("nan")
    true_key = key_of(aligned, aligned.original, together, binned=together)
    kept = true_key >= 0
    _, first, count = np.unique(true_key[kept], return_index=True, return_counts=True)
    rows = np.flatnonzero(kept)[first]
    share = np.ones(len(rows))
    for piece, table in pieces:
        share *= _shares(aligned, table, piece, rows)
    truth = count / max(count.sum(), 1)
    # What is shown of combinations that nobody has is the rest of the whole.
    return float((np.abs(truth - share).sum() + max(1 - share.sum(), 0.0)) / 2)


def _pieces(aligned: Aligned, columns: ColumnSet) -> list[tuple[ColumnSet, Coded]]:
    """Separate columns, and the smallest released table of each."""
    left, out = list(columns), []
    while left:
        released = [tuple(c for c in left if c in own) for own in aligned.tables]
        widest = max(released, key=len, default=())
        if not widest:
            break
        table = covering(aligned, widest)
        if table is not None:
            out.append((widest, table))
        left = [c for c in left if c not in widest]
    return out


def _shares(
    aligned: Aligned, table: Coded, columns: Collection[str], rows: Sequence[int] | Any
) -> Floats:
    """Share that a table shows of the combination that some rows of the original have."""
    shown = key_of(aligned, table, columns, binned=columns)
    wanted = key_of(aligned, aligned.original, columns, binned=columns)[rows]
    keys, place = np.unique(shown, return_inverse=True)
    counts = np.bincount(place, table.n.astype(np.float64), minlength=len(keys))
    at = np.minimum(np.searchsorted(keys, wanted), len(keys) - 1)
    found = np.where(keys[at] == wanted, counts[at], 0.0)
    return np.asarray(found / max(float(counts[keys >= 0].sum()), 1.0), np.float64)
