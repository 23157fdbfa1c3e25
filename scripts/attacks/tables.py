"""Attacks on a release that need its tables only: averaging, subtracting, claiming that someone is there.

Observers: every function holds what is published beside what is true, and gives scores, never a release. Each
attack can also be run on the measurements themselves, before they were fitted and locked. That is its positive
control: where it does not win there, its failure against the release says nothing.

Sources: averaging, yoid2000/syndiffix-paper-tests `exact_count.py`, and Asghar and Kaafar, PETS 2020,
arXiv:1902.06414; subtracting, Denning, Denning and Schwartz, ACM TODS 1979. SynDiffix's own figures: 56 % of the
counts exact after averaging thousands of tables; a suppressed cell that it publishes as 1 holds someone with
precision .31.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from attacks.trials import Trial
from engine.schema import (
    KIND_NEGATIVE,
    KIND_NULL,
    KIND_OTHER,
    NULL_CODE,
    OTHER_CODE,
    ColumnSet,
    FloatArray,
    Int64Array,
    Support,
)


@dataclass(frozen=True, kw_only=True, slots=True)
class Figures:
    """What all tables say of the counts of one.

    Attributes
    ----------
    truth : ndarray of int64, shape (n_counts,)
        Of the released cells of the narrowest table (a column's released values, say).
    width : ndarray of int64, shape (n_tables,)
        Number of columns of each table, rising; the first is the narrowest table itself.
    seen : ndarray of int64, shape (n_tables, n_counts)
        Each count, summed out of each table.
    """

    truth: Int64Array
    width: Int64Array
    seen: Int64Array


@dataclass(frozen=True, kw_only=True, slots=True)
class Averaging:
    """How near an attacker comes to the counts of a table, from it alone and from all tables that show them.

    Attributes
    ----------
    counts : int
        Number of counts attacked.
    rmse_alone, sd_alone, exact_alone : float
        Error of the narrowest table alone: root mean square, standard deviation, share right to the unit.
    rmse : dict
        Root mean square error of each estimate from all tables: "mean"; "weighted" by inverse mean square error
        of each width, which the attacker is told; "median"; "trained", the best weights by width, learnt from half of
        the counts and scored on the other half.
    exact : dict
        Share right to the unit once rounded.
    gain : float
        Smallest of the errors over that of the narrowest table alone (for "trained": of the same half of the
        counts): 1 or more where averaging gains nothing.
    """

    counts: int
    rmse_alone: float
    sd_alone: float
    exact_alone: float
    rmse: dict[str, float]
    exact: dict[str, float]
    gain: float


def published_figures(trial: Trial, base: ColumnSet) -> Figures:
    """The counts of a table's released cells in every published table that shows them.

    Parameters
    ----------
    trial : Trial
    base : ColumnSet
        A published table: of one column for one-way counts.
    """
    codes = trial.tables[base].codes[trial.tables[base].measured].astype(np.int64)
    sizes = [len(trial.supports[name]) for name in base]
    wanted = np.ravel_multi_index(tuple(codes.T), sizes)
    holders = sorted((c for c in trial.tables if set(base) <= set(c)), key=lambda c: (len(c), c))
    seen = []
    for columns in holders:
        table = trial.tables[columns]
        own = table.codes[:, [columns.index(name) for name in base]].astype(np.int64)
        of = np.ravel_multi_index(tuple(own.T), sizes)
        seen.append(np.bincount(of, weights=table.n, minlength=int(np.prod(sizes)))[wanted])
    return Figures(
        truth=true_counts(trial, base, codes),
        width=np.array([len(columns) for columns in holders]),
        seen=np.array(seen, dtype=np.int64),
    )


def measured_figures(trial: Trial, name: str) -> Figures:
    """A column's counts summed out of the noisy single cells of each measurement: the positive control.

    Of use where nothing is suppressed; else wide tables show too little.
    """
    support = trial.supports[name]
    codes = np.flatnonzero(support.measured)
    holders = sorted((c for c in trial.tables if name in c), key=lambda c: (len(c), c))
    label = range_label(support.kind[codes], magnitude(support)[codes])
    order = np.argsort(label)
    seen = []
    for columns in holders:
        tree, j = trial.measurements[columns], columns.index(name)
        cell = (tree.level == 0).all(axis=1) & (tree.depth == tree.depth.max(initial=0))
        own = range_label(tree.kind[cell, j], tree.index[cell, j])
        at = np.minimum(np.searchsorted(label[order], own), len(order) - 1)
        known = label[order][at] == own
        sums = np.bincount(order[at][known], weights=tree.n[cell][known], minlength=len(order))
        seen.append(sums)
    return Figures(
        truth=true_counts(trial, (name,), codes[:, None]),
        width=np.array([len(columns) for columns in holders]),
        seen=np.array(seen, dtype=np.int64),
    )


def averaging(figures: Iterable[Figures]) -> Averaging:
    """Estimate every count from all tables that show it; pooled over tables and releases.

    Parameters
    ----------
    figures : iterable of Figures
        All of tables of the same widths.
    """
    found = list(figures)
    truth = np.concatenate([f.truth for f in found]).astype(np.float64)
    alone = np.concatenate([f.seen[0] for f in found]) - truth
    by_width = np.concatenate([_means_by_width(f) for f in found], axis=1)
    spread = _spread_of_widths(found)
    weight = [1 / spread[f.width] for f in found]
    estimates = {
        "mean": np.concatenate([f.seen.mean(axis=0) for f in found]),
        "weighted": np.concatenate(
            [w @ f.seen / w.sum() for w, f in zip(weight, found, strict=True)]
        ),
        "median": np.concatenate([np.median(f.seen, axis=0) for f in found]),
    }
    rmse = {how: _rms(estimate - truth) for how, estimate in estimates.items()}
    exact = {how: _exact(estimate - truth) for how, estimate in estimates.items()}
    trained, rmse["trained"], exact["trained"] = _trained(by_width, truth)
    of_alone = _rms(alone)
    return Averaging(
        counts=len(truth),
        rmse_alone=of_alone,
        sd_alone=float(np.std(alone)),
        exact_alone=_exact(alone),
        rmse=rmse,
        exact=exact,
        gain=min(trained, *(rmse[how] / max(of_alone, 1e-9) for how in estimates)),
    )


def _means_by_width(figures: Figures) -> FloatArray:
    """Mean over the tables of each width, one row a width."""
    widths = np.unique(figures.width)
    means: FloatArray = np.array([figures.seen[figures.width == w].mean(axis=0) for w in widths])
    return means


def _spread_of_widths(found: Sequence[Figures]) -> FloatArray:
    """Mean square error of the counts read from tables of each width, by width."""
    widest = max(int(f.width.max()) for f in found)
    squares, n = np.zeros(widest + 1), np.zeros(widest + 1)
    for f in found:
        np.add.at(squares, f.width, np.square(f.seen - f.truth).sum(axis=1))
        np.add.at(n, f.width, len(f.truth))
    return np.maximum(squares / np.maximum(n, 1), 1e-9)


def _trained(by_width: FloatArray, truth: FloatArray) -> tuple[float, float, float]:
    """Weights learnt from half of the counts: error over that of the narrowest table, error and exact share."""
    learnt = np.arange(len(truth)) % 2 == 0
    alone = by_width[0]
    more = (by_width[1:] - alone).T
    weights = np.linalg.lstsq(more[learnt], (truth - alone)[learnt], rcond=None)[0]
    off = (alone + more @ weights - truth)[~learnt]
    return _rms(off) / max(_rms((alone - truth)[~learnt]), 1e-9), _rms(off), _exact(off)


def _rms(off: FloatArray) -> float:
    return float(np.sqrt(np.mean(np.square(off))))


def _exact(off: FloatArray) -> float:
    return float(np.mean(np.abs(off) < 0.5))


def range_label(kind: np.ndarray, index: Int64Array) -> Int64Array:
    """One number for kind and index of ranges of one level; null and other have index 0."""
    out = np.where(kind == KIND_NEGATIVE, ~index, index)
    out = np.where(kind == KIND_NULL, NULL_CODE, out)
    labels: Int64Array = np.where(kind == KIND_OTHER, OTHER_CODE, out)
    return labels


def magnitude(support: Support) -> Int64Array:
    """Magnitude of each code, as ranges count them."""
    return np.where(support.kind == KIND_NEGATIVE, ~support.grid, support.grid)


def true_counts(trial: Trial, columns: ColumnSet, codes: Int64Array) -> Int64Array:
    """True number of rows of each combination of codes."""
    cells = trial.truth[columns]
    key = np.zeros(len(cells.codes) + len(codes), dtype=np.int64)
    for j, name in enumerate(columns):
        support = trial.supports[name]
        stored = range_label(support.kind, magnitude(support))
        both = np.concatenate([cells.codes[:, j], stored[codes[:, j]]])
        number = np.unique(both, return_inverse=True)[1]
        key = np.unique(key * (int(number.max(initial=0)) + 1) + number, return_inverse=True)[1]
    counts = np.bincount(key[: len(cells.codes)], weights=cells.n_rows, minlength=len(key) + 1)
    return counts[key[len(cells.codes) :]].astype(np.int64)
