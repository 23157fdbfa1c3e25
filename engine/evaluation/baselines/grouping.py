"""Records made alike in groups of at least k: k-anonymity by generalisation, and microaggregation.

k-anonymity by strict multidimensional partitioning (Mondrian): LeFevre, DeWitt and Ramakrishnan, "Mondrian
multidimensional k-anonymity", ICDE 2006, doi:10.1109/ICDE.2006.101. A class shows one value of each quasi-identifier in
the place of a range, so that its columns can be counted with: the middle one of numbers, the commonest of categories.
Microaggregation by MDAV (maximum distance to average vector): Domingo-Ferrer and Torra, "Ordinal, continuous and
heterogeneous k-anonymity through microaggregation", Data Mining and Knowledge Discovery 11 (2005), 195-212,
doi:10.1007/s10618-005-0007-5.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pandas as pd

from engine.errors import DataError, SpecError
from engine.evaluation.baselines.baseline import Baseline, Schema, assembled
from engine.evaluation.baselines.levels import Codes, Floats, column_of, floats_of, levels_of, taken


def k_anonymity(k: int = 5) -> Baseline:
    """k-anonymous generalisation of `Schema.known`; without any, of all columns that may change. Draws nothing."""
    name = _named("kanon", k)

    def synthesize(frame: pd.DataFrame, schema: Schema, _: np.random.Generator) -> pd.DataFrame:
        changed = schema.changed(frame)
        known = [c for c in (schema.known or changed) if c in changed]
        _require(frame, known, name, k, "every quasi-identifier is kept")
        levels = [levels_of(frame[c]) for c in known]
        codes = np.column_stack([one.codes for one in levels])
        classes = mondrian(codes, k)
        shown = {}
        for i, column in enumerate(known):
            value = _middle if column in schema.numbers else _commonest
            shown[column] = taken(frame[column], levels[i].rows[value(codes[:, i], classes)])
        return assembled(frame, shown)

    return Baseline(
        name=name,
        promise=(
            f"Everybody agrees in all quasi-identifiers with at least {k - 1} others. All other columns are shown as "
            "they are: a class that agrees in them, too, gives them away."
        ),
        synthesize=synthesize,
    )


def microaggregation(k: int = 3) -> Baseline:
    """MDAV over all columns of numbers that may change, each of them standardised. Draws nothing.

    A blank lies at the mean and is a mark beside; a group shows a blank where more than half of it has one.
    """
    name = _named("mdav", k)

    def synthesize(frame: pd.DataFrame, schema: Schema, _: np.random.Generator) -> pd.DataFrame:
        names = [c for c in schema.changed(frame) if c in schema.numbers]
        _require(frame, names, name, k, "there is no column of numbers that it may change")
        numbers = [floats_of(frame[c]) for c in names]
        groups = mdav(np.column_stack([f for x in numbers for f in _features(x)]), k)
        shown = {
            c: column_of(_means(x, groups), frame[c]) for c, x in zip(names, numbers, strict=True)
        }
        return assembled(frame, shown)

    return Baseline(
        name=name,
        promise=(
            f"Everybody agrees in all numbers with at least {k - 1} others, and means of numbers are nearly kept. "
            "Categories are shown as they are."
        ),
        synthesize=synthesize,
    )


def _named(method: str, k: int) -> str:
    if k < 2:
        raise SpecError(f"{method}: wants groups of at least 2 records ({method}5: 5)")
    return f"{method}{k}"


def _require(frame: pd.DataFrame, columns: Sequence[str], name: str, k: int, why: str) -> None:
    if not columns:
        raise SpecError(f"{name}: {why}; nothing is left to make alike")
    if len(frame) < k:
        raise DataError(f"{name}: the data has fewer than {k} rows")


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
