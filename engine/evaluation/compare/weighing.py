"""Weigh the releases of a comparison: what an analyst loses by each, and what attackers get.

Takes the spec and the path of a release; gives figures by name. CONFIDENTIAL: it reads the original. Invariant: the
tables that count, their groups and what attacks draw are settled by the spec and the first release, alike for all.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from engine.errors import InternalError
from engine.evaluation.attacks import Assumptions, Held, held
from engine.evaluation.attacks.counts import membership
from engine.evaluation.attacks.inference import attribute
from engine.evaluation.attacks.systems import reconstruction
from engine.evaluation.data.aligned import Aligned, Coded, covering, generator, key_of
from engine.evaluation.data.declared import data_of
from engine.evaluation.data.reading import read_like, read_original, read_subject, released_columns
from engine.evaluation.findings import Finding
from engine.evaluation.study.default import default_study
from engine.evaluation.study.model import Study
from engine.evaluation.study.presets import of_spec
from engine.schema import ColumnSet
from engine.spec import ReleaseSpec

SEED = 2021
"""Fixes what the attacks draw, alike for all releases."""
NO_CONTROL = (
    "No control rows were given: attributes are held against exact tables of all other people, and membership "
    "is left out."
)
READ = ("nulls", "texts", "order", "labels")
"""What a study says of how data is read."""
Floats = NDArray[np.float64]


class Weighing:
    """The original, read once the first release says of what types its columns are.

    frame, control: The source, where the spec's is a frame; people whom it does not hold. None: there are
        none.
    study: How the data is read and grouped; by default as the spec says, and by what the columns look like.
    """

    def __init__(
        self,
        spec: ReleaseSpec,
        frame: Any,
        control: Any,
        assumptions: Assumptions,
        study: Study | None = None,
    ) -> None:
        self._source = data_of(spec) if frame is None else frame
        self._place = spec.source.table
        self._given = control
        self._assumptions = assumptions
        self._tables = spec.tables
        self._declared = study
        self._study = study or of_spec(spec, Study(title=spec.title))
        self._original: pd.DataFrame | None = None
        self._control: pd.DataFrame | None = None

    @property
    def n_rows(self) -> int:
        """Rows of the original."""
        return 0 if self._original is None else len(self._original)

    @property
    def original(self) -> pd.DataFrame:
        """The original, once a release was read."""
        if self._original is None:
            raise InternalError("the original is read with the first release, and there was none")
        return self._original

    @property
    def study(self) -> Study:
        """What is measured: as declared, or chosen by rule with the first release."""
        return self._study

    def figures(self, release: Path) -> dict[str, float]:
        """Return the loss and the risks of one release."""
        return self.weighed(self.attacked(release, release.stem))

    def weighed(self, attacked: Held) -> dict[str, float]:
        """Return the loss and the risks of what an attacker holds."""
        lost = [misplaced(attacked.aligned, columns) for columns in self._tables]
        return {"misplaced": float(np.mean(lost)), **risks_of(attacked, self._assumptions)}

    def attacked(self, release: Any, name: str) -> Held:
        """Return a release, or a synthetic table, beside the original; the first one settles how that is read."""
        is_first = self._original is None
        if self._original is None:
            self._original = read_original(
                self._source, self._study, like=released_columns(release), table=self._place
            )
        if is_first and self._given is not None:
            self._control = read_like(
                self._given, self._original, self._study, name="control", is_control=True
            )
        subject = read_subject(
            str(release) if isinstance(release, Path) else release,
            self._original,
            self._study,
            name,
        )
        if is_first and self._declared is None:
            chosen = default_study(self._original, subject.tables, title=self._study.title).study
            # Bins are the default's, as are its sections; how the data is read is the spec's.
            read = {name: getattr(self._study, name) for name in READ}
            self._study = chosen.model_copy(update=read)
        return held([subject], self._original, self._study, control=self._control)


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
