"""k-anonymity: everybody shares the quasi-identifiers with at least k - 1 others, whose values are made alike.

Strict multidimensional partitioning (Mondrian): LeFevre, DeWitt and Ramakrishnan, "Mondrian multidimensional
k-anonymity", ICDE 2006, doi:10.1109/ICDE.2006.101. A class shows one value of each quasi-identifier in the place of a
range, so that its columns can be counted with: the middle one of numbers, the commonest of categories.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import pandas as pd

from engine.errors import DataError, SpecError
from engine.evaluation.baselines.baseline import Schema, assembled
from engine.evaluation.baselines.levels import Codes, levels_of, taken


@dataclass(frozen=True, kw_only=True, slots=True)
class Anonymity:
    """k-anonymous generalisation of `Schema.known`; without any, of all columns that may change."""

    k: int = 5  # Fewest records of a class

    origin: ClassVar[str] = "ours"

    def __post_init__(self) -> None:
        if self.k < 2:
            raise SpecError("kanon: wants classes of at least 2 records (kanon5: 5)")

    @property
    def name(self) -> str:
        """For people."""
        return f"kanon{self.k}"

    @property
    def promise(self) -> str:
        """What it promises."""
        return (
            f"Everybody agrees in all quasi-identifiers with at least {self.k - 1} others. All other columns are "
            "shown as they are: a class that agrees in them, too, gives them away."
        )

    def synthesize(
        self,
        frame: pd.DataFrame,
        schema: Schema,
        rng: np.random.Generator,  # noqa: ARG002 (it draws nothing)
    ) -> pd.DataFrame:
        """Return the rows with generalised quasi-identifiers; see `Baseline`. Draws nothing."""
        changed = schema.changed(frame)
        known = [c for c in (schema.known or changed) if c in changed]
        if not known:
            raise SpecError(
                f"{self.name}: every quasi-identifier is kept; nothing is left to generalise"
            )
        if len(frame) < self.k:
            raise DataError(f"{self.name}: the data has fewer than {self.k} rows")
        levels = [levels_of(frame[c]) for c in known]
        codes = np.column_stack([one.codes for one in levels])
        classes = mondrian(codes, self.k)
        shown = {}
        for i, name in enumerate(known):
            value = _middle if name in schema.numbers else _commonest
            shown[name] = taken(frame[name], levels[i].rows[value(codes[:, i], classes)])
        return assembled(frame, shown)


def mondrian(codes: Codes, k: int) -> Codes:
    """Split records into classes of at least k, each cut at the median of the column that spreads most.

    codes: Places of values in their order; at least k rows.
    """
    scale = np.maximum(codes.max(axis=0) - codes.min(axis=0), 1)
    classes = np.zeros(len(codes), np.int64)
    todo, n_classes = [np.arange(len(codes))], 0
    while todo:
        rows = todo.pop()
        left = _cut(codes[rows], scale, k)
        if left is None:
            classes[rows] = n_classes
            n_classes += 1
        else:
            todo += [rows[left], rows[~left]]
    return classes


def _cut(part: Codes, scale: Codes, k: int) -> np.ndarray | None:
    """Which records go left; None: no column can be cut so that both sides have k."""
    if len(part) < 2 * k:
        return None
    spread = (part.max(axis=0) - part.min(axis=0)) / scale
    for column in np.argsort(-spread, kind="stable"):
        if spread[column] == 0:
            return None
        values, counts = np.unique(part[:, column], return_counts=True)
        below = np.cumsum(counts)[:-1]
        allowed = np.flatnonzero((below >= k) & (len(part) - below >= k))
        if len(allowed):
            best = allowed[np.abs(below[allowed] - len(part) / 2).argmin()]
            return np.asarray(part[:, column] <= values[best])
    return None


def _middle(codes: Codes, classes: Codes) -> Codes:
    """For each record the lower median of its class."""
    order = np.lexsort((codes, classes))
    _, start, size = np.unique(classes[order], return_index=True, return_counts=True)
    return np.asarray(codes[order][start + (size - 1) // 2][classes], np.int64)


def _commonest(codes: Codes, classes: Codes) -> Codes:
    """For each record the commonest level of its class; the first of several."""
    pairs, counts = np.unique(np.stack([classes, codes]), axis=1, return_counts=True)
    order = np.lexsort((pairs[1], -counts, pairs[0]))
    _, first = np.unique(pairs[0][order], return_index=True)
    return np.asarray(pairs[1][order][first][classes], np.int64)
