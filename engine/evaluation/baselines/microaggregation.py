"""Microaggregation: numbers are replaced by the mean of a group of at least k records that lie near each other.

MDAV (maximum distance to average vector): Domingo-Ferrer and Torra, "Ordinal, continuous and heterogeneous k-anonymity
through microaggregation", Data Mining and Knowledge Discovery 11 (2005), 195-212, doi:10.1007/s10618-005-0007-5.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import pandas as pd

from engine.errors import DataError, SpecError
from engine.evaluation.baselines.baseline import Schema, assembled
from engine.evaluation.baselines.levels import Codes, Floats, column_of, floats_of


@dataclass(frozen=True, kw_only=True, slots=True)
class Microaggregation:
    """MDAV over all columns of numbers that may change, each of them standardised.

    A blank lies at the mean and is a mark beside; a group shows a blank where more than half of it has one.
    """

    k: int = 3  # Fewest records of a group

    origin: ClassVar[str] = "ours"

    def __post_init__(self) -> None:
        if self.k < 2:
            raise SpecError("mdav: wants groups of at least 2 records (mdav3: 3)")

    @property
    def name(self) -> str:
        """For people."""
        return f"mdav{self.k}"

    @property
    def promise(self) -> str:
        """What it promises."""
        return (
            f"Everybody agrees in all numbers with at least {self.k - 1} others, and means of numbers are nearly kept. "
            "Categories are shown as they are."
        )

    def synthesize(
        self,
        frame: pd.DataFrame,
        schema: Schema,
        rng: np.random.Generator,  # noqa: ARG002 (it draws nothing)
    ) -> pd.DataFrame:
        """Return the rows with numbers aggregated; see `Baseline`. Draws nothing."""
        names = [c for c in schema.changed(frame) if c in schema.numbers]
        if not names:
            raise SpecError(
                f"{self.name}: aggregates columns of numbers, and there is none that it may change"
            )
        if len(frame) < self.k:
            raise DataError(f"{self.name}: the data has fewer than {self.k} rows")
        numbers = [floats_of(frame[c]) for c in names]
        groups = mdav(np.column_stack([f for x in numbers for f in _features(x)]), self.k)
        shown = {
            name: column_of(_means(x, groups), frame[name])
            for name, x in zip(names, numbers, strict=True)
        }
        return assembled(frame, shown)


def _features(x: Floats) -> list[Floats]:
    """A column standardised, with a mark for blanks where there are any."""
    blank = np.isnan(x)
    if blank.all():
        return [np.zeros(len(x))]
    centred = np.where(blank, 0.0, x - x[~blank].mean())
    spread = float(centred[~blank].std())
    out = [centred / (spread if spread > 0 else 1.0)]
    return [*out, blank.astype(np.float64)] if blank.any() else out


def _means(x: Floats, groups: Codes) -> Floats:
    """The mean of each record's group; a blank where more than half of it has one."""
    filled = ~np.isnan(x)
    n = np.bincount(groups)
    there = np.bincount(groups, filled)
    sums = np.bincount(groups, np.where(filled, x, 0.0))
    means = np.where(2 * there >= n, sums / np.maximum(there, 1), np.nan)
    return np.asarray(means[groups], np.float64)


def mdav(points: Floats, k: int) -> Codes:
    """Group points that lie near each other, at least k and fewer than 2 k in each.

    Time is of the order of n_rows squared / k.
    """
    groups = np.full(len(points), -1, np.int64)
    left, number = np.arange(len(points)), 0

    def take(rows: Codes, centre: Floats) -> tuple[Codes, Codes]:
        """The k rows nearest to a point, and the others."""
        apart = ((points[rows] - centre) ** 2).sum(axis=1)
        near = np.argpartition(apart, k - 1)[:k]
        rest = np.ones(len(rows), np.bool_)
        rest[near] = False
        return rows[near], rows[rest]

    def farthest(rows: Codes, centre: Floats) -> Floats:
        return np.asarray(points[rows[((points[rows] - centre) ** 2).sum(axis=1).argmax()]])

    while len(left) >= 3 * k:
        one = farthest(left, points[left].mean(axis=0))
        other = farthest(left, one)
        for centre in (one, other):
            near, left = take(left, centre)
            groups[near] = number
            number += 1
    if len(left) >= 2 * k:
        near, left = take(left, farthest(left, points[left].mean(axis=0)))
        groups[near] = number
        number += 1
    groups[left] = number
    return groups
