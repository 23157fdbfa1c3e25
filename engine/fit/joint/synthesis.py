"""From noisy margins to rows of level indexes: one fit for all, or one within each stratum.

Margins in, distinct combinations of levels and their numbers of rows out. Which way is taken depends on size alone: the
full table where it has no more than `max_cells`, else a junction tree if its cliques have not, else support rows.
Columns that no margin and no structural zero names are drawn evenly.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from math import prod
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from engine.fit.joint.dense import fit_dense, seed, used_columns
from engine.fit.joint.junction import JunctionTree, fit_junction_tree, junction_tree, sample_tree
from engine.fit.joint.reconcile import reconcile
from engine.fit.joint.sampling import distinct, sampled
from engine.fit.joint.strata import within, without_strata
from engine.fit.joint.support_rows import fit_rows, nearer_rows, support_rows
from engine.fit.joint.target import FitReport, Target
from engine.levels import Levels, Margin, StructuralZero
from engine.params import DPParams
from engine.progress import Progress, silent
from engine.schema import ColumnSet, Int64Array

Way = Literal["dense", "junction tree", "support rows"]
Int32Array = NDArray[np.int32]

MOST_SUPPORT = 200_000
"""Support rows: as many as are to be drawn, each then stands for one; but not more than this."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Synthesis:
    """Synthetic rows, counted."""

    columns: ColumnSet
    # shape (n_cells, n_columns): Distinct combinations of level indexes, in lexicographic order.
    cells: Int32Array
    n: Int64Array  # shape (n_cells,): Rows of each, above 0
    reports: tuple[FitReport, ...]  # One a fit: one a stratum that has rows
    uniform: ColumnSet  # Columns that no margin names


def synthesise(
    margins: Sequence[Margin],
    total: Margin,
    *,
    params: DPParams,
    levels: Mapping[str, Levels],
    zeros: Sequence[StructuralZero],
    rng: np.random.Generator,
    progress: Progress = silent,
) -> Synthesis:
    """Fit and draw."""
    sizes = {name: len(levels[name]) for name in params.columns}
    strata = params.strata
    free = tuple(name for name in params.columns if name not in strata)
    parts: list[tuple[Int32Array, Int64Array]] = []
    reports: list[FitReport] = []
    places = list(product(*(range(sizes[name]) for name in strata)))
    totals = within(margins, total, strata, zeros, sizes)
    for done, (place, rows) in enumerate(zip(places, totals, strict=True)):
        progress("fit", done, len(places))
        if strata and rows.n <= 0:
            continue
        here = [without_strata(m, strata, place) for m in margins]
        ruled = [without_strata(z, strata, place) for z in zeros]
        targets = reconcile(
            [m for m in here if m.columns],
            rows,
            post=params.post,
            prior=params.prior,
            zeros=[z for z in ruled if z.columns],
        )
        cells, n, report = fitted_rows(
            targets, free, sizes, params=params, zeros=[z for z in ruled if z.columns], rng=rng
        )
        parts.append((_with_strata(cells, free, strata, place, params.columns), n))
        reports.append(report)
    progress("fit", len(places), len(places))
    if not parts:
        parts = [(np.zeros((0, len(params.columns)), dtype=np.int32), np.zeros(0, dtype=np.int64))]
    cells, n = merged(
        np.concatenate([c for c, _ in parts]),
        np.concatenate([n for _, n in parts]),
        tuple(sizes[name] for name in params.columns),
    )
    named = {name for margin in margins for name in margin.columns}
    uniform = tuple(name for name in params.columns if name not in named)
    return Synthesis(
        columns=params.columns, cells=cells, n=n, reports=tuple(reports), uniform=uniform
    )


def fitted_rows(
    targets: Sequence[Target],
    columns: ColumnSet,
    sizes: Mapping[str, int],
    *,
    params: DPParams,
    zeros: Sequence[StructuralZero],
    rng: np.random.Generator,
) -> tuple[Int32Array, Int64Array, FitReport]:
    """Fit one joint distribution and draw as many rows from it as its targets' total says, rounded.

    Unless they are to be independent, or targets contradict each other, rows are then changed until their counts are
    near the targets.

    Returns: cells: Distinct; n.
    """
    n_rows = round(float(targets[0].n.sum()))
    used = used_columns(columns, targets, zeros)
    way, tree = chosen_way(targets, used, sizes, zeros, params.max_cells)
    if way == "dense":
        cells, n, report = _from_table(targets, used, sizes, params, zeros, n_rows, rng)
    elif way == "junction tree":
        tables, report = fit_junction_tree(
            targets,
            tree,
            sizes,
            zeros=zeros,
            max_cycles=params.max_cycles,
            tolerance=params.tolerance,
        )
        cells = sample_tree(tables, tree, used, n_rows, params.sample, rng)
        n = np.ones(len(cells), dtype=np.int64)
    else:
        cells, n, report = _from_support(targets, used, sizes, params, zeros, n_rows, rng)
    agree = params.post == "wls"  # or rows would leave the fit's compromise for one of the targets
    if way != "support rows" and params.sample == "rounded" and agree and n_rows:
        rows = np.repeat(cells, n, axis=0)
        cells = nearer_rows(rows, targets, used, sizes, zeros=zeros, rng=rng)
        n = np.ones(len(cells), dtype=np.int64)
    if used != columns:
        cells, n = _with_uniform(cells, n, used, columns, sizes, rng)
    return (*merged(cells, n, tuple(sizes[name] for name in columns)), report)


def chosen_way(
    targets: Sequence[Target],
    columns: ColumnSet,
    sizes: Mapping[str, int],
    zeros: Sequence[StructuralZero],
    max_cells: int,
) -> tuple[Way, JunctionTree]:
    """Decide how to fit, by the cells that must fit in memory; the junction tree is built in any case."""
    tree = junction_tree([*(t.columns for t in targets), *(z.columns for z in zeros)], sizes)
    if prod(sizes[name] for name in columns) <= max_cells:
        return "dense", tree
    return ("junction tree" if tree.cells <= max_cells else "support rows"), tree


def merged(
    cells: Int32Array, n: Int64Array, sizes: tuple[int, ...]
) -> tuple[Int32Array, Int64Array]:
    """Add up equal combinations, and put them in lexicographic order; those without rows are left out."""
    positive = n > 0
    return distinct(
        [np.ascontiguousarray(column) for column in cells[positive].T], sizes, n[positive]
    )


def _from_table(
    targets: Sequence[Target],
    columns: ColumnSet,
    sizes: Mapping[str, int],
    params: DPParams,
    zeros: Sequence[StructuralZero],
    n_rows: int,
    rng: np.random.Generator,
) -> tuple[Int32Array, Int64Array, FitReport]:
    """By the full table; one that was measured itself needs no fit."""
    if len(targets) == 1 and targets[0].columns == columns:
        seed(columns, sizes, zeros)  # refuses where nothing is possible
        table = targets[0].n
        report = FitReport(how="dense", cycles=0, error=0.0, converged=True)
    else:
        table, report = fit_dense(
            targets,
            columns,
            sizes,
            zeros=zeros,
            max_cycles=params.max_cycles,
            tolerance=params.tolerance,
        )
    counts = sampled(table, n_rows, params.sample, rng)
    at = np.flatnonzero(counts)
    cells = np.stack(np.unravel_index(at, table.shape), axis=1).astype(np.int32)
    return cells, counts.ravel()[at], report


def _from_support(
    targets: Sequence[Target],
    columns: ColumnSet,
    sizes: Mapping[str, int],
    params: DPParams,
    zeros: Sequence[StructuralZero],
    n_rows: int,
    rng: np.random.Generator,
) -> tuple[Int32Array, Int64Array, FitReport]:
    """By support rows: one for each row, as they are; where there are fewer, by weights if these come nearer."""
    n_support = max(min(n_rows, MOST_SUPPORT), 1)
    rows = support_rows(targets, columns, sizes, zeros=zeros, n_rows=n_support, rng=rng)
    even = np.full(len(rows), n_rows / len(rows))
    weights, report = fit_rows(targets, rows, columns, sizes, even, max_cycles=0)
    if n_rows > len(rows):
        fitted, weighted = fit_rows(
            targets,
            rows,
            columns,
            sizes,
            even,
            max_cycles=params.max_cycles,
            tolerance=params.tolerance,
        )
        weights, report = (fitted, weighted) if weighted.error < report.error else (weights, report)
    return rows, sampled(weights, n_rows, params.sample, rng), report


def _with_uniform(
    cells: Int32Array,
    n: Int64Array,
    used: ColumnSet,
    columns: ColumnSet,
    sizes: Mapping[str, int],
    rng: np.random.Generator,
) -> tuple[Int32Array, Int64Array]:
    """One row each, with levels of the other columns that are as even as can be and go with nothing."""
    repeated = np.repeat(cells, n, axis=0)
    rows = np.empty((len(repeated), len(columns)), dtype=np.int32)
    for place, name in enumerate(columns):
        if name in used:
            rows[:, place] = repeated[:, used.index(name)]
        else:
            # Dealt out level by level, from a random one on, to the rows in random order.
            dealt = (np.arange(len(repeated)) + rng.integers(sizes[name])) % sizes[name]
            rows[:, place] = rng.permutation(dealt)
    return rows, np.ones(len(rows), dtype=np.int64)


def _with_strata(
    cells: Int32Array,
    free: ColumnSet,
    strata: ColumnSet,
    place: tuple[int, ...],
    columns: ColumnSet,
) -> Int32Array:
    """Put the levels of a stratum beside those of its rows."""
    if not strata:
        return cells
    out = np.empty((len(cells), len(columns)), dtype=np.int32)
    for at, name in enumerate(columns):
        out[:, at] = place[strata.index(name)] if name in strata else cells[:, free.index(name)]
    return out
