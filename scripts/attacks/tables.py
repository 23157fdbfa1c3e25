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

import numpy as np

from attacks.trials import Trial
from engine.evaluation.measures.counts import Repeated
from engine.schema import (
    KIND_NEGATIVE,
    KIND_NULL,
    KIND_OTHER,
    NULL_CODE,
    OTHER_CODE,
    ColumnSet,
    Int64Array,
    Support,
)


def published_figures(trial: Trial, base: ColumnSet) -> Repeated:
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
    return Repeated(
        truth=true_counts(trial, base, codes),
        width=np.array([len(columns) for columns in holders]),
        seen=np.array(seen, dtype=np.int64),
    )


def measured_figures(trial: Trial, name: str) -> Repeated:
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
    return Repeated(
        truth=true_counts(trial, (name,), codes[:, None]),
        width=np.array([len(columns) for columns in holders]),
        seen=np.array(seen, dtype=np.int64),
    )


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
