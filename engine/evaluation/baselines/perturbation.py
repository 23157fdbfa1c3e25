"""Rows of the data drawn or changed: samples, margins, PRAM, record swapping, k-anonymity, microaggregation.

A sample, the scale of every measure of utility, protects nobody who is shown; independent margins lose all association.
PRAM: invariant PRAM of Gouweleeuw, Kooiman, Willenborg and de Wolf, "Post randomisation for statistical disclosure
control", Journal of Official Statistics 14 (1998), 463-478, section 4; no transition matrix is ever made. Swapping:
Dalenius and Reiss, "Data-swapping: a technique for disclosure control", Journal of Statistical Planning and Inference 6
(1982), 73-85, partners within the same group; the release's own swapping, keyed and aimed at rare records, is
`engine.source.swapping`. k-anonymity by strict multidimensional partitioning (Mondrian): LeFevre, DeWitt and
Ramakrishnan, ICDE 2006, doi:10.1109/ICDE.2006.101; a class shows one value of each quasi-identifier in the place of a
range, so that its columns can be counted with: the middle one of numbers, the commonest of categories. Microaggregation
by MDAV (maximum distance to average vector): Domingo-Ferrer and Torra, Data Mining and Knowledge Discovery 11 (2005),
195-212, doi:10.1007/s10618-005-0007-5.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pandas as pd

from engine.errors import DataError, SpecError
from engine.evaluation.baselines.baseline import (
    Codes,
    Floats,
    Schema,
    assembled,
    column_of,
    floats_of,
    levels_of,
    taken,
)


def sample(
    frame: pd.DataFrame,
    schema: Schema,
    rng: np.random.Generator,
    *,
    share: float = 0.4,
    replace: bool = False,
) -> pd.DataFrame:
    """Some of the rows, in a random order, each at most once, as NIST's 40 % sample, or (`replace`) several times."""
    changed, n = schema.changed(frame), len(frame)
    rows = rng.choice(n, size=max(round(share * n), 1), replace=replace)
    if schema.kept:  # a row for each of theirs, the others from a row of the sample
        rows = rng.choice(rows, size=n)
    return assembled(frame, {c: taken(frame[c], rows) for c in changed})


def bootstrap(
    frame: pd.DataFrame, schema: Schema, rng: np.random.Generator, *, share: float = 1.0
) -> pd.DataFrame:
    return sample(frame, schema, rng, share=share, replace=True)


def margins(frame: pd.DataFrame, schema: Schema, rng: np.random.Generator) -> pd.DataFrame:
    """Each column is a sample, with replacement, of its own values."""
    n = len(frame)
    drawn = {c: taken(frame[c], rng.integers(n, size=n)) for c in schema.changed(frame)}
    return assembled(frame, drawn)


# PRAM


def pram(
    frame: pd.DataFrame, schema: Schema, rng: np.random.Generator, *, keep: float = 0.8
) -> pd.DataFrame:
    """Invariant PRAM of every column by itself, numbers by their values.

    keep: Chance that the first of two steps leaves a value as it is, 0 to 1; sdcMicro's default is 0.8.
    """
    drawn = {}
    for name in schema.changed(frame):
        levels = levels_of(frame[name])
        codes = perturbed(levels.codes, levels.n, keep, rng)
        drawn[name] = taken(frame[name], levels.rows[codes])
    return assembled(frame, drawn)


def perturbed(codes: Codes, n_levels: int, keep: float, rng: np.random.Generator) -> Codes:
    """Change codes. The first step keeps a level or takes any other alike; the second draws from what may have been
    there before the first (its reverse, by Bayes' rule), so that the expected shares stay."""
    n = len(codes)
    if n_levels == 1:
        return codes.copy()
    moved = rng.random(n) >= keep
    other = rng.integers(n_levels - 1, size=n)
    first = np.where(moved, other + (other >= codes), codes)
    counts = np.bincount(codes, minlength=n_levels)
    share = counts[first] / n
    change = (1 - keep) / (n_levels - 1)
    stayed, came = share * keep, (1 - share) * change
    back = rng.random(n) * (stayed + came) >= stayed
    # Another level by its share: a row that does not have this one, in the order of levels.
    by_level = np.sort(codes)
    start = np.cumsum(counts) - counts
    at = np.floor(rng.random(n) * (n - counts[first])).astype(np.int64)
    at += np.where(at >= start[first], counts[first], 0)
    return np.where(back, by_level[np.minimum(at, n - 1)], first)


# Record swapping


def swapping(
    frame: pd.DataFrame, schema: Schema, rng: np.random.Generator, *, rate: float = 0.05
) -> pd.DataFrame:
    """Exchange of the columns `Schema.areas` between a share of the records, those that agree in `Schema.alike`."""
    changed = schema.changed(frame)
    exchanged = [c for c in schema.areas if c in changed]
    if not exchanged:
        raise SpecError(
            "swap: exchanges areas, and none is named that it may change: name columns (--areas region), or "
            "declare swapping in the spec's section [privacy]"
        )
    group = np.zeros(len(frame), np.int64)
    if schema.alike:
        by = frame.groupby(list(schema.alike), dropna=False, observed=True)
        group = np.asarray(by.ngroup(), np.int64)
    rows = partners(group, rate, rng)
    return assembled(frame, {c: taken(frame[c], rows) for c in exchanged})


def partners(group: Codes, rate: float, rng: np.random.Generator) -> Codes:
    """Return for each record the one whose values it gets: its own, or that of its partner."""
    n = len(group)
    drawn = rng.permutation(n)[: round(rate * n)]
    drawn = drawn[np.argsort(group[drawn], kind="stable")]
    own = group[drawn]
    starts = np.flatnonzero(np.r_[True, own[1:] != own[:-1]]) if len(own) else np.zeros(0, int)
    sizes = np.diff(np.r_[starts, len(own)])
    at = np.arange(len(own)) - np.repeat(starts, sizes)
    first = np.flatnonzero((at % 2 == 0) & (at + 1 < np.repeat(sizes, sizes)))
    rows = np.arange(n)
    rows[drawn[first]], rows[drawn[first + 1]] = drawn[first + 1], drawn[first]
    return rows


# Records made alike in groups of at least k


def k_anonymity(
    frame: pd.DataFrame, schema: Schema, _: np.random.Generator, *, k: int = 5
) -> pd.DataFrame:
    """k-anonymous generalisation of `Schema.known`; without any, of all columns that may change. Draws nothing."""
    changed = schema.changed(frame)
    known = [c for c in (schema.known or changed) if c in changed]
    _require(frame, known, "kanon", k, "every quasi-identifier is kept")
    levels = {c: levels_of(frame[c]) for c in known}
    codes = pd.DataFrame({c: one.codes for c, one in levels.items()})
    classes = mondrian(codes.to_numpy(), k)
    shown = {}
    for column, one in levels.items():
        own = codes[column].groupby(classes)
        if column in schema.numbers:
            value = own.quantile(0.5, interpolation="lower")
        else:  # the commonest, the first of several
            value = own.agg(lambda held: np.bincount(held).argmax())
        shown[column] = taken(frame[column], one.rows[value.to_numpy(np.int64)[classes]])
    return assembled(frame, shown)


def microaggregation(
    frame: pd.DataFrame, schema: Schema, _: np.random.Generator, *, k: int = 3
) -> pd.DataFrame:
    """MDAV over all columns of numbers that may change, each of them standardised. Draws nothing.

    A blank lies at the mean and is a mark beside; a group shows a blank where more than half of it has one.
    """
    names = [c for c in schema.changed(frame) if c in schema.numbers]
    _require(frame, names, "mdav", k, "there is no column of numbers that it may change")
    numbers = pd.DataFrame({c: floats_of(frame[c]) for c in names})
    points = [part for c in names for part in _features(numbers[c].to_numpy())]
    groups = numbers.groupby(mdav(np.column_stack(points), k))
    is_shown = (
        2 * groups.transform("count").to_numpy()
        >= groups[names[0]].transform("size").to_numpy()[:, None]
    )
    means = groups.transform("mean").where(is_shown)
    return assembled(frame, {c: column_of(means[c].to_numpy(), frame[c]) for c in names})


def _require(frame: pd.DataFrame, columns: Sequence[str], name: str, k: int, why: str) -> None:
    if not columns:
        raise SpecError(f"{name}: {why}; nothing is left to make alike")
    if len(frame) < k:
        raise DataError(f"{name}: the data has fewer than {k} rows")


def mondrian(codes: Codes, k: int) -> Codes:
    """Split records into classes of at least k, each cut at the median of the column that spreads most."""
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


def _features(x: Floats) -> list[Floats]:
    blank = np.isnan(x)
    if blank.all():
        return [np.zeros(len(x))]
    centred = np.where(blank, 0.0, x - x[~blank].mean())
    spread = float(centred[~blank].std())
    out = [centred / (spread if spread > 0 else 1.0)]
    return [*out, blank.astype(np.float64)] if blank.any() else out


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
