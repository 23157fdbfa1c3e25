"""Densities and counts of combinations of columns: k-marginals, closed-form pMSE of tables, gaps of groups, RMSE.

Definitions: k-marginal score of SDNIST and P. Francis, arXiv:2403.08463, section 4.4; tables as synthpop's
`utility.tables` (Raab, Nowok and Dibben, arXiv:2109.12717, sections 3 and 4); gaps and RMSE of densities: Houssiau et
al., arXiv:2211.11540, section 4.3, application 1.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from math import comb, prod
from typing import Any

import numpy as np
import pandas as pd
from pydantic import Field

from engine.errors import InternalError
from engine.evaluation.data.aligned import (
    DENSE,
    Aligned,
    Coded,
    Flags,
    Floats,
    Grouping,
    Numbers,
    chosen_rows,
    column_sets,
    combination_labels,
    counts,
    covering,
    key_of,
    labels,
    listed,
    matching,
    n_codes,
    nothing_to_compare,
    totals,
)
from engine.evaluation.findings import Finding, Section, not_computed
from engine.schema import ColumnSet, column_set

MOST_OF_CURVE = 300
"""Combinations that the sampling equivalent looks at, at most."""
MOST_ROWS = 400_000_000
"""Rows that all combinations together read, about, at most: of larger tables fewer combinations are drawn."""
WIDEST = 4
"""Tables up to this width have figures of closed-form pMSE."""
MOST_CELLS = 1 << 21
"""A gap of more cells is not computed."""
MOST_MARGINALS = 400
"""Densities of a width, whatever the study allows: a mean over so many is near that over all."""
_FEWEST, _LARGEST_NUMBER = 100, 1e300


class Marginals(Section):
    """Densities of combinations of columns."""

    width: int = Field(default=2, ge=1)  # Number of columns combined, beside `group`
    group: tuple[str, ...] = ()  # Columns that are in every combination
    leave_out: tuple[str, ...] = ()  # Columns in none
    unbinned: tuple[str, ...] = ()  # Columns that a second score leaves unbinned
    # If there are more combinations, so many are drawn, each at most once.
    most: int = Field(default=2_000, ge=1)
    # Percentages of the original that are sampled for the sampling equivalent.
    shares: tuple[float, ...] = (1, 5, 10, 20, 30, 40, 50, 60, 70, 80, 90, 100)


class Tables(Section):
    """Closed-form pMSE and S_pMSE of tables (synthpop's utility.tables)."""

    widths: tuple[int, ...] = (1, 2, 3)
    # Numbers with more values are cut at so many quantiles of both sides together.
    groups: int = Field(default=5, ge=2)
    leave_out: tuple[str, ...] = ()
    most_cells: int = 1_000_000  # Larger tables are left out, and a note counts them
    # If there are more tables of a width, so many are drawn, each at most once.
    most: int = Field(default=3_000, ge=1)


class Gap(Section):
    """Difference of the proportions of two groups in each cell of `by` (the gender gap)."""

    group: str  # Column of the groups
    values: tuple[float | str, float | str]  # The two groups
    by: tuple[str, ...]
    where: dict[str, list[float | str]] = Field(default_factory=dict)


def k_marginals(
    aligned: Aligned, options: Marginals, rng: np.random.Generator | None = None
) -> Finding:
    """How near the densities of combinations of columns are: 500 x (2 - mean absolute difference), at best 1000.

    A grouping column that no table has is left out of all combinations, which then are narrower. The generator draws
    combinations where there are too many, and the samples of the original.

    Broken down by combination. `more`: `by_group`, for each value of the grouping columns the mean distance there as a
    share of its people, at most 1, and the score of SDNIST's map, 1000 x (1 - mean); `shares`, the scores of samples.
    """
    if (why := nothing_to_compare(aligned)) is not None:
        return not_computed("marginals", why)
    missing = [c for c in options.group if c not in aligned.values]
    group = tuple(c for c in options.group if c not in missing)
    rng = np.random.default_rng(0) if rng is None else rng
    free = [c for c in aligned.values if c not in (*group, *options.leave_out)]
    n_all = comb(len(free), options.width)
    n_rows = len(aligned.original.n) + max(len(t.n) for t in aligned.tables.values())
    most = min(options.most, max(MOST_ROWS // max(n_rows, 1), _FEWEST))
    filled = replace(aligned, tables={c: t for c, t in aligned.tables.items() if t.total})
    sets, n_sets = column_sets(filled, free, options.width, most, rng, beside=group)
    chosen = [(*group, *columns) for columns in sets]
    if not chosen:
        why = f"no table has {options.width + len(group)} columns to combine"
        return not_computed("marginals", why)
    finer = [[c for c in columns if c not in options.unbinned] for columns in chosen]
    distances, by_group = [], []
    for columns, fine in zip(chosen, finer, strict=True):
        apart, here = _distance(aligned, columns, columns, len(group))
        is_same = len(fine) == len(columns)
        distances.append((apart, apart if is_same else _distance(aligned, columns, fine, 0)[0]))
        by_group.append(here)
    whole = pd.DataFrame(distances, columns=["distance", "distance_unbinned"])
    whole.insert(0, "columns", [", ".join(columns) for columns in chosen])
    shares = _samples(aligned, options.shares, chosen, finer, rng)
    figures: dict[str, float] = {"n": len(whole)}
    for name in ("", "_unbinned"):  # of equally near samples the smallest
        distance = whole[f"distance{name}"]
        figures[f"score{name}"] = 500 * (2 - distance.mean())
        own = 500 * (2 - distance.iloc[:MOST_OF_CURVE].mean())
        off = np.abs(shares[f"score{name}"].to_numpy() - own)
        nearest = shares["share"].iloc[int(np.argmin(off))] if len(off) else np.nan
        figures[f"sampling_equivalent{name}"] = nearest
    notes, n_without = [], max(n_all - n_sets, 0)
    if n_without:
        notes.append(f"{n_without:,} combinations are left out, as no table has their columns")
    if len(chosen) < n_all - n_without:
        notes.append(f"{len(chosen):,} of {n_all:,} combinations were drawn at random")
    if options.shares and len(chosen) > MOST_OF_CURVE:
        notes.append(f"the sampling equivalent is read from the first {MOST_OF_CURVE} of them")
    if missing:
        notes.append(f"no table has the grouping column {listed(missing)}: combined without it")
    return Finding(
        "marginals",
        figures,
        whole,
        more={"by_group": _by_group(aligned, group, by_group), "shares": shares},
        why="the study declares no shares to sample",
        notes=notes,
    )


def _distance(
    aligned: Aligned, columns: Sequence[str], binned: Collection[str], n_group: int
) -> tuple[float, tuple[Numbers, Floats]]:
    """Sum of the absolute differences of densities, 0 to 2; and values of the columns that come first, with its share
    of their people, at most 1."""
    table, original = covering(aligned, columns), aligned.original
    if table is None:
        raise InternalError("no table has the columns")
    both = counts(aligned, original, table, columns, binned=binned)
    off = np.abs(both.left / original.total - both.right / table.total)
    free = prod(n_codes(aligned, name, binned=binned) for name in columns[n_group:])
    groups, place = np.unique(both.keys // free, return_inverse=True)
    # Of nothing, bincount is of whole numbers, whatever the weights.
    own = np.bincount(place, both.left / original.total, minlength=len(groups)).astype(np.float64)
    apart = np.bincount(place, off, minlength=len(groups)).astype(np.float64)
    share = np.divide(apart, own, out=np.ones_like(own), where=own > 0)
    return float(off.sum()), (groups, np.minimum(share, 1.0))


def _by_group(
    aligned: Aligned, group: ColumnSet, each: Sequence[tuple[Numbers, Floats]]
) -> pd.DataFrame:
    """Mean distance at each value of the grouping columns, over all combinations."""
    if not group:
        return pd.DataFrame(columns=["n", "distance", "score"])
    groups, shares = (np.concatenate(side) for side in zip(*each, strict=True))
    keys, place = np.unique(groups, return_inverse=True)
    distance = np.bincount(place, shares) / len(each)
    names = [labels(aligned, name, binned=group) for name in group]
    codes = np.unravel_index(keys, [len(of_column) for of_column in names])
    here = counts(aligned, aligned.original, aligned.original, group, binned=group)
    n = pd.Series(here.left, index=here.keys).reindex(keys, fill_value=0).to_numpy()
    parts = {
        name: np.array(of_column, dtype=object)[code]
        for name, of_column, code in zip(group, names, codes, strict=True)
    }
    return pd.DataFrame({**parts, "n": n, "distance": distance, "score": 1000 * (1 - distance)})


def _samples(
    aligned: Aligned,
    percentages: Sequence[float],
    chosen: Sequence[ColumnSet],
    finer: Sequence[Sequence[str]],
    rng: np.random.Generator,
) -> pd.DataFrame:
    """Scores of samples of the original, drawn without replacement, each within the next larger one."""
    shares = np.array(sorted(percentages), dtype=np.float64)
    n_rows = len(aligned.original.n)
    sizes = np.maximum(np.round(shares / 100 * n_rows).astype(np.int64), 1)
    sample = np.empty(n_rows, np.int64)  # the smallest sample that a row is in
    sample[rng.permutation(n_rows)] = np.searchsorted(sizes, np.arange(n_rows), side="right")
    few = chosen[:MOST_OF_CURVE] if len(shares) else ()
    total = np.zeros((2, len(shares)))
    for columns, fine in zip(few, finer, strict=False):
        ranked = _sample_distances(aligned, columns, columns, sample, sizes)
        is_same = len(fine) == len(columns)
        total += [
            ranked,
            ranked if is_same else _sample_distances(aligned, columns, fine, sample, sizes),
        ]
    scores = 500 * (2 - total / max(len(few), 1))
    return pd.DataFrame({"share": shares, "score": scores[0], "score_unbinned": scores[1]})


def _sample_distances(
    aligned: Aligned,
    columns: Sequence[str],
    binned: Collection[str],
    sample: Numbers,
    sizes: Numbers,
) -> Floats:
    """Distance of each sample of the original from all of it, for one combination; shape (n_samples,)."""
    key = key_of(aligned, aligned.original, columns, binned=binned)
    in_groups = key >= 0
    n_cells = prod(n_codes(aligned, name, binned=binned) for name in columns)
    if n_cells * (len(sizes) + 1) <= DENSE:
        place = key[in_groups]
    else:
        used, place = np.unique(key[in_groups], return_inverse=True)
        n_cells = len(used)
    n = np.bincount(sample[in_groups] * n_cells + place, minlength=n_cells * (len(sizes) + 1))
    shown = np.cumsum(n.reshape(len(sizes) + 1, n_cells), axis=0)
    apart = shown[:-1] / sizes[:, np.newaxis] - shown[-1] / len(sample)
    return np.asarray(np.abs(apart).sum(axis=1), np.float64)


# Closed-form pMSE of tables


@dataclass(frozen=True, kw_only=True, slots=True)
class Fit:
    """How well one table fits."""

    cells: int  # Cells that either side has
    # Mean squared distance of each record's cell's share of synthetic records from the share in all, 0 to 0.25.
    pmse: float
    # The ratio of `pmse` to its expectation where the synthetic table is drawn from the original's own
    # shares; NaN for a table of one cell, which cannot differ.
    s_pmse: float
    one_sided: float  # Share of the cells that only one side has

    @property
    def df(self) -> int:
        return self.cells - 1


def fit(original: Floats, synthetic: Floats) -> Fit:
    """Compare the counts of the same cells of a table; each side has at least one record.

    With equal numbers of records VW is the chi-square statistic of the two tables against their mean. Its expectation
    is df where synthetic records are drawn from the original's shares, df / (1 - c) for a second sample of the same
    population, where c is the share of synthetic records.
    """
    both = original + synthetic
    present = both > 0
    left, right, both = original[present], synthetic[present], both[present]
    total = float(both.sum())
    share = float(right.sum()) / total
    apart = right - left * (share / (1 - share))
    vw = float((apart * apart / (both * share)).sum())
    return Fit(
        cells=len(both),
        pmse=vw * share * (1 - share) ** 2 / total,
        s_pmse=vw / (len(both) - 1) if len(both) > 1 else np.nan,
        one_sided=float(((left == 0) | (right == 0)).mean()),
    )


def table_fit(aligned: Aligned, options: Tables, rng: np.random.Generator) -> Finding:
    """Measure pMSE and S_pMSE of every table of the declared widths, each from the smallest table that covers it.

    Numbers and times of more than `options.groups` values are cut at quantiles of both sides; a blank is a value.
    """
    columns = [c for c in aligned.values if c not in options.leave_out]
    if not aligned.original.total:
        return not_computed("tables", "the original has no rows")
    if not columns:
        return not_computed("tables", "no table has a column of the original")
    groups = {c: quantile_groups(aligned, c, options.groups) for c in columns}
    made: dict[tuple[int, str], Numbers] = {}  # groups of a table's column, made once

    def counted(table: Coded, names: ColumnSet, size: int) -> Floats:
        key = np.zeros(1, np.int64)
        for name in names:
            if (at := (id(table), name)) not in made:
                small = groups[name].group.astype(np.min_scalar_type(groups[name].n_groups))
                made[at] = small[table.codes[name]]
            key = key * groups[name].n_groups + made[at]
        return np.bincount(key, table.n.astype(np.float64), size).astype(np.float64)

    rows: list[tuple[object, ...]] = []
    figures: dict[str, Any] = {}
    too_wide = f"tables of more than {WIDEST} columns are not measured"
    notes = [too_wide] if max(options.widths) > WIDEST else []
    for width in sorted({w for w in options.widths if 1 <= w <= WIDEST}):
        sets, _ = column_sets(aligned, columns, width, options.most, rng)
        left_out = {"have too many cells": 0, "have no records": 0, "are constant": 0}
        fits, n_placed = [], 0
        for names in sets:
            if (table := covering(aligned, names)) is None:
                continue
            n_placed += 1
            size = prod(groups[c].n_groups for c in names)
            if size > options.most_cells or not table.total:
                left_out["have no records" if table.total == 0 else "have too many cells"] += 1
                continue
            got = fit(counted(aligned.original, names, size), counted(table, names, size))
            left_out["are constant"] += not got.df
            if got.df:
                head = (", ".join(names), width, got.cells, got.df)
                fits.append((*head, got.pmse, got.s_pmse, got.one_sided))
        rows += fits
        none = f"no table of {width} columns could be compared"
        pmse, s_pmse, one_sided = np.array([row[4:] for row in fits], np.float64).reshape(-1, 3).T
        figures |= {
            f"n_{width}": len(fits),
            f"pmse_{width}": pmse.mean() if fits else none,
            f"s_pmse_{width}": s_pmse.mean() if fits else none,
            f"worst_s_pmse_{width}": s_pmse.max() if fits else none,
            f"one_sided_{width}": one_sided.mean() if fits else none,
        }
        notes += [f"{n} tables of {width} columns {reason}" for reason, n in left_out.items() if n]
        if n_placed < comb(len(columns), width):
            notes.append(
                f"{len(fits)} of {comb(len(columns), width)} tables of {width} columns are compared: of the others no "
                "table has the columns, or they were not drawn or left out"
            )
    names_of_rows = ["columns", "width", "cells", "df", "pmse", "s_pmse", "one_sided"]
    return Finding("tables", figures, pd.DataFrame(rows, columns=names_of_rows), notes=notes)


def quantile_groups(aligned: Aligned, column: str, n_groups: int) -> Grouping:
    """Group the values of a column as synthpop does: numbers by quantiles of both sides together, blanks apart.

    Numbers and times of at most `n_groups` values, and texts, are taken value by value. Where ties leave fewer than
    three groups, the groups are of equal width.
    """
    values = aligned.values[column]
    n = weights_of_values(aligned, column)[:-1]
    if values.dtype == object or np.count_nonzero(n) <= n_groups:
        return Grouping(group=np.arange(len(values) + 1), n_groups=len(values) + 1)
    numbers = np.clip(values.astype(np.float64), -_LARGEST_NUMBER, _LARGEST_NUMBER)
    cumulated = np.cumsum(n)
    place = (cumulated[-1] - 1) * np.arange(n_groups + 1) / n_groups
    low, high = (
        numbers[np.searchsorted(cumulated, at, side="right")]
        for at in (np.floor(place), np.ceil(place))
    )
    breaks = np.unique(low + (place - np.floor(place)) * (high - low))
    if len(breaks) - 1 < 3:
        breaks = np.linspace(numbers[n > 0].min(), numbers[n > 0].max(), n_groups + 1)
    group = np.searchsorted(breaks[1:-1], numbers, side="right")
    return Grouping(group=np.append(group, len(breaks) - 1), n_groups=len(breaks))


def weights_of_values(aligned: Aligned, column: str) -> Floats:
    """How often both sides together have each value of a column, and last its blank."""
    sides = [t for t in (aligned.original, covering(aligned, [column])) if t is not None]
    size = len(aligned.values[column]) + 1
    several = [totals(t.codes[column], t.n, size) for t in sides]
    return np.asarray(np.sum(several, axis=0), np.float64)


# Gaps between two groups, and the RMSE of densities


def gaps(aligned: Aligned, options: Sequence[Gap]) -> Finding:
    """Differences of the proportions of two groups in each cell: how far the synthetic ones are from the original's.

    A cell of the original without synthetic rows has a synthetic gap of 0: who reads the table sees none there. Cells
    that the original does not have are left out. A blank is a value of `by`. `weighted_rmse` counts cells by their
    rows of the original.
    """
    parts, joint, whys, notes = [], [], [], []
    for one in options:
        columns = column_set(list(dict.fromkeys((one.group, *one.by, *one.where))))
        name = f"{one.group} by {', '.join(one.by) or 'nothing'}"
        table = covering(aligned, columns)
        cells = _gap_cells(aligned, table, one, columns)
        if isinstance(cells, str) or table is None:
            whys.append(f"{name}: {cells}")
            continue
        if lost := int((cells["n_synthetic"] == 0).sum()):
            notes.append(f"{name}: {lost} cells of the original have no synthetic row: gap 0")
        parts.append(cells.assign(gap=name))
        joint.append(_rmse(aligned, table, columns, ()))
    if not parts:
        return not_computed("gaps", "; ".join(whys) or "the study declares no gap")
    whole = pd.concat(parts, ignore_index=True)
    squares = whole["error"].to_numpy(np.float64) ** 2
    figures = {
        "rmse": np.sqrt(squares.mean()),
        "weighted_rmse": np.sqrt(np.average(squares, weights=whole["n_original"])),
        "largest": np.sqrt(squares.max()),
        "marginal_rmse": np.mean(joint),
        "n": len(whole),
    }
    return Finding("gaps", figures, whole, notes=[*notes, *(f"left out: {why}" for why in whys)])


def _gap_cells(
    aligned: Aligned, table: Coded | None, declared: Gap, columns: ColumnSet
) -> pd.DataFrame | str:
    """Cells with the gap of both sides, or why there are none."""
    if table is None:
        return f"no table has {', '.join(columns)}"
    if not table.total:
        return "the table has no rows"
    size = prod(n_codes(aligned, c) for c in declared.by)
    if size > MOST_CELLS:
        return "too many cells"
    groups = [matching(aligned.values[declared.group], (value,)) for value in declared.values]
    if any(not g.any() for g in groups):
        return f"a value of {declared.group} is in neither the original nor a table"

    def in_cells(side: Coded, group: Flags) -> Numbers:
        chosen = group[side.codes[declared.group]] & chosen_rows(aligned, side, declared.where)
        return totals(key_of(aligned, side, declared.by)[chosen], side.n[chosen], size)

    truth = [in_cells(aligned.original, g) for g in groups]
    there = np.flatnonzero(truth[0] + truth[1])
    if not len(there):
        return "the original has no row of the groups"
    sides = [[n[there] for n in truth], [in_cells(table, g)[there] for g in groups]]
    gap = [(first - second) / np.maximum(first + second, 1) for first, second in sides]
    return pd.DataFrame(
        {
            "cell": combination_labels(aligned, declared.by, there),
            "original": gap[0],
            "synthetic": gap[1],
            "error": np.abs(gap[1] - gap[0]),
            "n_original": sum(sides[0]),
            "n_synthetic": sum(sides[1]),
        }
    )


def density_rmse(aligned: Aligned, options: Tables, rng: np.random.Generator) -> Finding:
    """Root mean square error of the densities of marginals of 1, 2 and 3 columns, each from the smallest table.

    The mean square is over all combinations of values that occur on either side, column by column; a column that the
    study bins is counted in its groups.
    """
    rows, notes = [], []
    figures: dict[str, Any] = {}
    most = min(options.most, MOST_MARGINALS)
    free = [c for c in aligned.values if c not in options.leave_out]
    none = "no table with rows shows {} of few enough cells"
    for width in (w for w in (1, 2, 3) if w in options.widths):
        chosen, n_sets = column_sets(aligned, free, width, most, rng)
        large, own = 0, []
        for columns in chosen:
            table = covering(aligned, columns)
            if table is None or not table.total or not aligned.original.total:
                continue
            if prod(n_codes(aligned, c, binned=columns) for c in columns) > options.most_cells:
                large += 1
                continue
            own.append((", ".join(columns), width, _rmse(aligned, table, columns, columns)))
        rows += own
        mean = np.mean([row[2] for row in own]) if own else none.format(f"{width} columns")
        figures[f"rmse_{width}"] = mean
        if n_sets > len(chosen):
            notes.append(f"{most} marginals of {width} columns are drawn")
        if large:
            notes.append(
                f"{large} marginals of {width} columns have too many cells and are left out"
            )
    if not rows:
        return not_computed("density_rmse", none.format("columns"), *notes)
    whole = pd.DataFrame(rows, columns=["columns", "width", "rmse"])
    return Finding("density_rmse", figures | {"n": len(rows)}, whole, notes=notes)


def _rmse(aligned: Aligned, table: Coded, columns: Sequence[str], binned: Collection[str]) -> float:
    """Root mean square of the differences of densities, over the cross product of the values that occur."""
    both = counts(aligned, aligned.original, table, columns, binned=binned)
    apart = both.left / max(both.left.sum(), 1) - both.right / max(both.right.sum(), 1)
    codes = np.unravel_index(both.keys, [n_codes(aligned, c, binned=binned) for c in columns])
    n_cells = prod(len(np.unique(code)) for code in codes)
    return float(np.sqrt((apart**2).sum() / max(n_cells, 1)))
