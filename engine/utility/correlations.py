"""Differences of the correlations of pairs of columns: Kendall, Pearson, Spearman, Cramer.

Takes a `Comparison` and a section of a study; gives a `Score`. Definitions: SDNIST and P. Francis, arXiv:2403.08463,
section 4.3, for Kendall's tau; the others are read the same way. Invariant: a pair that is constant on one side has no
correlation, and is left out, never counted as equal.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations

import numpy as np
import pandas as pd

from engine.score import Score, not_computed
from engine.study_sections import Correlations
from engine.utility.association import Floats, cramers_v, pearson, spearman, tau_b
from engine.utility.comparison import Coded, Comparison, Numbers, counts, covering, n_codes
from engine.utility.words import as_numbers, finite, lacking, listed, nothing_to_compare

NAME = "correlations"
KINDS = ("kendall", "pearson", "spearman", "cramers_v")
_OF_KIND = {
    "kendall": "",
    "pearson": "pearson_",
    "spearman": "spearman_",
    "cramers_v": "cramers_v_",
}
_SIDES = ("original", "synthetic", "difference")
Pair = tuple[str, str]


@dataclass(frozen=True, kw_only=True, slots=True)
class _Counted:
    """Pairs of codes and how often each is there; a blank has the last code."""

    first: Numbers
    second: Numbers
    n: Numbers


def correlations(comparison: Comparison, told: Correlations) -> Score:
    """Differences of the correlations of every pair of columns, each from the smallest table that has both.

    Kendall, Pearson and Spearman of the ordered columns, Cramer's V of the others. For Kendall and Spearman blanks are
    as the study says; for Pearson rows with a blank are left out, as no number stands for it; for Cramer's V a blank
    is a level.

    Returns
    -------
    Score
        Broken down by pair: Kendall's `original`, `synthetic`, `difference`, and the same of the other
        kinds, `pearson_original` and so on. NaN: not defined, or not asked for.
    """
    if (why := nothing_to_compare(comparison)) is not None:
        return not_computed(NAME, why)
    ordered = [c for c in told.columns if c in comparison.values]
    classes = _categories(comparison, told)
    pairs = dict.fromkeys([*combinations(ordered, 2), *_in_order(ordered, classes)])
    rows, n_missing = [], {True: 0, False: 0}
    for pair in pairs:
        is_ordered = pair[0] in ordered and pair[1] in ordered
        if lacking(comparison, pair) is not None:
            n_missing[is_ordered] += 1
            continue
        kinds = [k for k in KINDS if is_ordered or k == "cramers_v"]
        kinds = [k for k in kinds if k != "cramers_v" or set(pair) <= set(classes)]
        rows.append(_row(comparison, pair, told, kinds))
    if told.diagonal:
        rows += [_diagonal(c) for c in ordered if _varies(comparison, c, told)]
    columns = ["first", "second", *(f"{_OF_KIND[k]}{side}" for k in KINDS for side in _SIDES)]
    whole = pd.DataFrame(rows, columns=columns)
    if not len(whole):
        return not_computed(NAME, "no table has two of the columns together")
    values, why_not = finite(_figures(whole, n_missing[True]), "no pair of columns has it")
    notes = _notes(comparison, told, whole, n_missing)
    return Score(measure=NAME, values=values, breakdown=whole, why_not=why_not, notes=notes)


def _categories(comparison: Comparison, told: Correlations) -> list[str]:
    """Columns of Cramer's V."""
    if told.categories:
        return [c for c in told.categories if c in comparison.values]
    return [
        c
        for c in comparison.values
        if n_codes(comparison, c, binned=told.binned) <= told.most_values + 1
    ]


def _in_order(ordered: Sequence[str], classes: Sequence[str]) -> list[Pair]:
    """Pairs of the columns of Cramer's V, each in the order that the ordered columns give it."""
    place = {c: i for i, c in enumerate(ordered)}
    by_place = sorted(classes, key=lambda c: place.get(c, len(place)))
    return list(combinations(by_place, 2))


def _row(
    comparison: Comparison, pair: Pair, told: Correlations, kinds: Sequence[str]
) -> dict[str, str | float]:
    """All coefficients of a pair of columns, on both sides."""
    out: dict[str, str | float] = {"first": pair[0], "second": pair[1]}
    table = covering(comparison, pair)
    if table is None:  # left out before
        return out
    sides = _counted(comparison, table, pair, told)
    for kind in kinds:
        found = [_coefficient(comparison, side, pair, told, kind) for side in sides]
        prefix = _OF_KIND[kind]
        apart = abs(found[1] - found[0])
        out |= {f"{prefix}{s}": v for s, v in zip(_SIDES, (*found, apart), strict=True)}
    return out


def _counted(
    comparison: Comparison, table: Coded, pair: Pair, told: Correlations
) -> tuple[_Counted, _Counted]:
    """Pairs of values of the original and of a table."""
    found = counts(comparison, comparison.original, table, pair, binned=told.binned)
    size = n_codes(comparison, pair[1], binned=told.binned)
    first, second = found.keys // size, found.keys % size
    left, right = (
        _Counted(first=first[n > 0], second=second[n > 0], n=n[n > 0])
        for n in (found.left, found.right)
    )
    return left, right


def _coefficient(
    comparison: Comparison, side: _Counted, pair: Pair, told: Correlations, kind: str
) -> float:
    """One coefficient of counted pairs."""
    codes = [side.first, side.second]
    if kind == "cramers_v":
        return cramers_v(codes[0], codes[1], side.n)
    last = [n_codes(comparison, c, binned=told.binned) - 1 for c in pair]
    blank = [code == end for code, end in zip(codes, last, strict=True)]
    by_rank = tau_b if kind == "kendall" else spearman
    if told.blanks == "lowest" and kind != "pearson":
        ranks = [np.where(b, -1, code) for b, code in zip(blank, codes, strict=True)]
        return by_rank(ranks[0], ranks[1], side.n)
    kept = ~(blank[0] | blank[1])
    codes = [code[kept] for code in codes]
    if kind == "pearson":
        x, y = (_numbers(comparison, c, told)[code] for c, code in zip(pair, codes, strict=True))
        return pearson(x, y, side.n[kept])
    return by_rank(codes[0], codes[1], side.n[kept])


def _numbers(comparison: Comparison, column: str, told: Correlations) -> Floats:
    """Numbers of a column's codes: the group where it is binned."""
    if column in told.binned and column in comparison.groupings:
        return np.arange(comparison.groupings[column].n_groups, dtype=np.float64)
    return as_numbers(comparison.values[column])


def _diagonal(column: str) -> dict[str, str | float]:
    """The row of a column with itself."""
    taus = dict(zip(_SIDES, (1.0, 1.0, 0.0), strict=True))
    return {"first": column, "second": column, **taus}


def _varies(comparison: Comparison, column: str, told: Correlations) -> bool:
    """Whether a column has two values on both sides, and a table."""
    table = covering(comparison, [column])
    if table is None or not table.total:
        return False
    found = counts(comparison, comparison.original, table, [column], binned=told.binned)
    shown = np.ones(len(found.keys), np.bool_)
    if told.blanks != "lowest":
        shown = found.keys < n_codes(comparison, column, binned=told.binned) - 1
    return all(int((side[shown] > 0).sum()) > 1 for side in (found.left, found.right))


def _figures(whole: pd.DataFrame, n_missing: int) -> dict[str, float]:
    """Figures of the breakdown; NaN where no pair has a coefficient."""
    tau = whole["difference"].astype("float64")
    off = {k: whole[f"{_OF_KIND[k]}difference"].astype("float64") for k in KINDS[1:]}
    others = {
        f"{kind}_{name}": float(figure)
        for kind, found in off.items()
        for name, figure in (
            ("median", found.median()),
            ("largest", found.max()),
            ("n", found.notna().sum()),
        )
    }
    return {
        "median_difference": float(tau.median()),
        "largest_difference": float(tau.max()),
        "n": float(tau.notna().sum()),
        "pairs_without_table": float(n_missing),
        **others,
    }


def _notes(
    comparison: Comparison, told: Correlations, whole: pd.DataFrame, n_missing: dict[bool, int]
) -> tuple[str, ...]:
    """What a reader must know of the pairs."""
    notes = []
    unknown = [c for c in (*told.columns, *told.categories) if c not in comparison.values]
    if unknown:
        notes.append(f"no table has {listed(list(dict.fromkeys(unknown)))}")
    if missing := sum(n_missing.values()):
        notes.append(f"{missing:,} pairs are left out, as no table with rows has both columns")
    columns = [c for c in told.columns if c in comparison.values]
    constant = [
        c for c in columns if lacking(comparison, [c]) is None and not _varies(comparison, c, told)
    ]
    apart = whole[(whole["first"] != whole["second"]) & whole["first"].isin(columns)]
    undefined = int((apart["difference"].isna() & apart["second"].isin(columns)).sum())
    if undefined:
        said = f", among them all pairs of the constant {listed(constant)}" if constant else ""
        notes.append(
            f"{undefined:,} pairs have no Kendall's tau, as a column is constant on a side{said}"
        )
    return tuple(notes)
