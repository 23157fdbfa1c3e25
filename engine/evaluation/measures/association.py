"""Differences of the correlations of pairs of columns: Kendall, Pearson, Spearman, Cramer.

Definitions: SDNIST and P. Francis, arXiv:2403.08463, section 4.3, for Kendall's tau; the others are read the same way.
Coefficients are of counted pairs of values, exact, and the same however rows repeat; scipy's take rows, and compute
what does not fit into a table of all pairs of values.
Invariant: a pair that is constant on one side has no correlation, and is left out, never counted as equal.
"""

from __future__ import annotations

import math
from itertools import combinations
from typing import Literal

import numpy as np
import pandas as pd

from engine.evaluation.data.aligned import (
    Aligned,
    Coded,
    Floats,
    Numbers,
    as_numbers,
    compared,
    counts,
    listed,
    n_codes,
    nothing_to_compare,
    totals,
)
from engine.evaluation.findings import Finding, Section, not_computed, optional

LARGEST_GRID = 1 << 22
"""Most pairs of values that `tau_b` counts in an array; of more, rows are compared."""
KINDS = {"kendall": "", "pearson": "pearson_", "spearman": "spearman_", "cramers_v": "cramers_v_"}
"""Coefficients, and what stands before their columns in the breakdown."""
_SIDES = ("original", "synthetic", "difference")
Pair = tuple[str, str]


class Correlations(Section):
    """Correlations of pairs of columns: Kendall's tau, Pearson, Spearman of ordered ones, Cramer's V of all."""

    # Ordered columns: numbers, times, texts with a declared order, and codes that stand for an order.
    columns: tuple[str, ...]
    # Columns of Cramer's V; none: all columns of at most `most_values` values.
    categories: tuple[str, ...] = ()
    most_values: int = 100
    binned: tuple[str, ...] = ()  # Columns that are binned first
    # "lowest": a blank is the lowest value; "left out": pairs with a blank do not count.
    blanks: Literal["lowest", "left out"] = "left out"
    # Count each column's tau with itself too, whose difference is 0 (a published median did).
    diagonal: bool = False


def _ranked(values: Numbers, n: Numbers) -> Numbers:
    return np.unique(values[n > 0], return_inverse=True)[1].reshape(-1)


def tau_b(first: Numbers, second: Numbers, n: Numbers) -> float:
    """Kendall's tau-b of weighted pairs (1945, doi:10.1093/biomet/33.3.239); NaN where one of the two is constant."""
    x, y, n = _ranked(first, n), _ranked(second, n), n[n > 0]
    shape = (int(x.max(initial=-1)) + 1, int(y.max(initial=-1)) + 1)
    if min(shape) < 2:
        return math.nan
    if shape[0] * shape[1] > LARGEST_GRID:
        found = optional("scipy.stats", "correlations").kendalltau(np.repeat(x, n), np.repeat(y, n))
        return float(found.statistic)
    grid = totals(x * shape[1] + y, n, shape[0] * shape[1]).reshape(shape)
    left = np.cumsum(np.cumsum(grid, axis=0)[:-1], axis=1)
    concordant = int((grid[1:, 1:] * left[:, :-1]).sum())
    discordant = int((grid[1:, :-1] * (left[:, -1:] - left[:, :-1])).sum())
    untied = [int(_pairs(n.sum()) - _pairs(grid.sum(axis=axis)).sum()) for axis in (0, 1)]
    return (concordant - discordant) / math.sqrt(untied[0] * untied[1])


def _pairs(n: Numbers) -> Numbers:
    return n * (n - 1) // 2


def pearson(first: Floats, second: Floats, n: Numbers) -> float:
    """Pearson's correlation of weighted pairs of numbers; NaN where one is constant or not finite."""
    weights = n[n > 0]
    sides = [side[n > 0].astype(np.float64) for side in (first, second)]
    if any(len(np.unique(side)) < 2 or not np.isfinite(side).all() for side in sides):
        return math.nan
    sides = [side / np.abs(side).max() for side in sides]  # sums do not overflow
    sides = [side - np.average(side, weights=weights) for side in sides]
    sides = [side / np.abs(side).max() for side in sides]  # squares do not vanish
    spread = np.cov(np.stack(sides), fweights=weights, ddof=0)
    return float(np.clip(spread[0, 1] / math.sqrt(spread[0, 0] * spread[1, 1]), -1, 1))


def spearman(first: Numbers, second: Numbers, n: Numbers) -> float:
    """Spearman's rank correlation of weighted pairs, ties at their mean rank; NaN where one of the two is constant."""

    def mean_ranks(values: Numbers) -> Floats:
        place = _ranked(values, n)
        each = totals(place, n[n > 0])
        return np.asarray((np.cumsum(each) - (each - 1) / 2.0)[place], np.float64)

    return pearson(mean_ranks(first), mean_ranks(second), n[n > 0])


def cramers_v(first: Numbers, second: Numbers, n: Numbers) -> float:
    """Cramer's V of weighted pairs of codes, without correction for bias; NaN where one of the two is constant.

    Cramer, Mathematical Methods of Statistics, 1946, section 21.9.
    """
    x, y, n = _ranked(first, n), _ranked(second, n), n[n > 0]
    size = int(y.max(initial=0)) + 1
    key, place = np.unique(x * size + y, return_inverse=True)
    cells = totals(place.reshape(-1), n).astype(np.float64)
    margins = [totals(side, n).astype(np.float64) for side in (x, y)]
    least = min(map(len, margins))
    if least < 2:
        return math.nan
    excess = float(np.sum(cells**2 / (margins[0][key // size] * margins[1][key % size]))) - 1
    return min(math.sqrt(max(excess, 0.0) / (least - 1)), 1.0)


def correlations(aligned: Aligned, options: Correlations) -> Finding:
    """Differences of the correlations of every pair of columns, each from the smallest table that has both.

    Kendall, Pearson and Spearman of the ordered columns, Cramer's V of the others. For Kendall and Spearman blanks are
    as the study says; for Pearson rows with a blank are left out, as no number stands for it; for Cramer's V a blank
    is a level.
    """
    if (why := nothing_to_compare(aligned)) is not None:
        return not_computed("correlations", why)
    ordered = [c for c in options.columns if c in aligned.values]
    categories = [
        c
        for c in options.categories or aligned.values
        if c in aligned.values
        and (
            options.categories
            or n_codes(aligned, c, binned=options.binned) <= options.most_values + 1
        )
    ]
    place = {c: i for i, c in enumerate(ordered)}
    by_place = sorted(categories, key=lambda c: place.get(c, len(place)))
    rows, n_missing = [], {True: 0, False: 0}
    for pair in dict.fromkeys([*combinations(ordered, 2), *combinations(by_place, 2)]):
        is_ordered = set(pair) <= place.keys()
        table = compared(aligned, pair)
        if isinstance(table, str):
            n_missing[is_ordered] += 1
            continue
        kinds = list(KINDS)[:-1] if is_ordered else []
        kinds += ["cramers_v"] if set(pair) <= set(categories) else []
        rows.append(_coefficients(aligned, table, pair, options, kinds))
    if options.diagonal:
        taus = dict(zip(_SIDES, (1.0, 1.0, 0.0), strict=True))
        varied = [c for c in ordered if _varies(aligned, c, options)]
        rows += [{"first": c, "second": c, **taus} for c in varied]
    names = [
        "first",
        "second",
        *(f"{prefix}{side}" for prefix in KINDS.values() for side in _SIDES),
    ]
    whole = pd.DataFrame(rows, columns=names)
    if not len(whole):
        return not_computed("correlations", "no table has two of the columns together")
    whole[names[2:]] = whole[names[2:]].astype("float64")
    tau = whole["difference"]
    figures = {
        "median_difference": tau.median(),
        "largest_difference": tau.max(),
        "n": tau.notna().sum(),
        "pairs_without_table": n_missing[True],
    }
    for kind, prefix in list(KINDS.items())[1:]:
        off = whole[f"{prefix}difference"]
        figures |= {f"{kind}_median": off.median(), f"{kind}_largest": off.max()}
        figures[f"{kind}_n"] = off.notna().sum()
    notes = _notes(aligned, options, whole, sum(n_missing.values()))
    return Finding("correlations", figures, whole, why="no pair of columns has it", notes=notes)


def _coefficients(
    aligned: Aligned, table: Coded, pair: Pair, options: Correlations, kinds: list[str]
) -> dict[str, str | float]:
    out: dict[str, str | float] = {"first": pair[0], "second": pair[1]}
    both = counts(aligned, aligned.original, table, pair, binned=options.binned)
    sizes = [n_codes(aligned, c, binned=options.binned) for c in pair]
    codes = [both.keys // sizes[1], both.keys % sizes[1]]
    blank = [code == size - 1 for code, size in zip(codes, sizes, strict=True)]
    present = ~(blank[0] | blank[1])
    ranks = [np.where(b, -1, code) for b, code in zip(blank, codes, strict=True)]
    of_ranks = present | (options.blanks == "lowest")
    numbers = []
    for name, code in zip(pair, codes, strict=True):
        if name in options.binned and name in aligned.groupings:
            numbers.append(code.astype(np.float64))
        else:
            numbers.append(np.append(as_numbers(aligned.values[name]), np.nan)[code])
    for kind in kinds:
        found = []
        for n in (both.left, both.right):
            if kind == "cramers_v":
                found.append(cramers_v(codes[0], codes[1], n))
            elif kind == "pearson":
                found.append(pearson(numbers[0], numbers[1], np.where(present, n, 0)))
            else:
                by_rank = tau_b if kind == "kendall" else spearman
                found.append(by_rank(ranks[0], ranks[1], np.where(of_ranks, n, 0)))
        figures = (*found, abs(found[1] - found[0]))
        out |= {f"{KINDS[kind]}{side}": v for side, v in zip(_SIDES, figures, strict=True)}
    return out


def _varies(aligned: Aligned, column: str, options: Correlations) -> bool:
    """Whether a column has two values on both sides, and a table."""
    table = compared(aligned, [column])
    if isinstance(table, str):
        return False
    both = counts(aligned, aligned.original, table, [column], binned=options.binned)
    shown = both.keys < n_codes(aligned, column, binned=options.binned) - 1
    shown |= options.blanks == "lowest"
    return all(int((side[shown] > 0).sum()) > 1 for side in (both.left, both.right))


def _notes(
    aligned: Aligned, options: Correlations, whole: pd.DataFrame, n_missing: int
) -> tuple[str, ...]:
    notes = []
    wanted = (*options.columns, *options.categories)
    if unknown := [c for c in wanted if c not in aligned.values]:
        notes.append(f"no table has {listed(list(dict.fromkeys(unknown)))}")
    if n_missing:
        notes.append(f"{n_missing:,} pairs are left out, as no table with rows has both columns")
    columns = [c for c in options.columns if c in aligned.values]
    constant = [
        c
        for c in columns
        if not isinstance(compared(aligned, [c]), str) and not _varies(aligned, c, options)
    ]
    pairs = whole[(whole["first"] != whole["second"]) & whole["first"].isin(columns)]
    undefined = int((pairs["difference"].isna() & pairs["second"].isin(columns)).sum())
    if undefined:
        constants = f", among them all pairs of the constant {listed(constant)}" if constant else ""
        notes.append(
            f"{undefined:,} pairs have no Kendall's tau, as a column is constant on a side{constants}"
        )
    return tuple(notes)
