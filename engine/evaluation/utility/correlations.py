"""Differences of the correlations of pairs of columns: Kendall, Pearson, Spearman, Cramer.

Takes a `Paired` and a section of a study; gives a `Score`. Definitions: SDNIST and P. Francis, arXiv:2403.08463,
section 4.3, for Kendall's tau; the others are read the same way. Invariant: a pair that is constant on one side has no
correlation, and is left out, never counted as equal.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Literal

import numpy as np
import pandas as pd

from engine.evaluation.data.paired import Coded, Numbers, Paired, counts, covering, n_codes
from engine.evaluation.data.words import as_numbers, finite, lacking, listed, nothing_to_compare
from engine.evaluation.score import Score, Section, not_computed
from engine.evaluation.utility.association import Floats, cramers_v, pearson, spearman, tau_b

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


@dataclass(frozen=True, kw_only=True, slots=True)
class _Counted:
    """Pairs of codes and how often each is there; a blank has the last code."""

    first: Numbers
    second: Numbers
    n: Numbers


def correlations(paired: Paired, section: Correlations) -> Score:
    """Differences of the correlations of every pair of columns, each from the smallest table that has both.

    Kendall, Pearson and Spearman of the ordered columns, Cramer's V of the others. For Kendall and Spearman blanks are
    as the study says; for Pearson rows with a blank are left out, as no number stands for it; for Cramer's V a blank
    is a level.

    Returns: Broken down by pair: Kendall's `original`, `synthetic`, `difference`, and the same of the other
    kinds, `pearson_original` and so on. NaN: not defined, or not asked for.
    """
    if (why := nothing_to_compare(paired)) is not None:
        return not_computed(NAME, why)
    ordered = [c for c in section.columns if c in paired.values]
    classes = _categories(paired, section)
    pairs = dict.fromkeys([*combinations(ordered, 2), *_in_order(ordered, classes)])
    rows, n_missing = [], {True: 0, False: 0}
    for pair in pairs:
        is_ordered = pair[0] in ordered and pair[1] in ordered
        if lacking(paired, pair) is not None:
            n_missing[is_ordered] += 1
            continue
        kinds = [k for k in KINDS if is_ordered or k == "cramers_v"]
        kinds = [k for k in kinds if k != "cramers_v" or set(pair) <= set(classes)]
        rows.append(_row(paired, pair, section, kinds))
    if section.diagonal:
        rows += [_diagonal(c) for c in ordered if _varies(paired, c, section)]
    columns = ["first", "second", *(f"{_OF_KIND[k]}{side}" for k in KINDS for side in _SIDES)]
    whole = pd.DataFrame(rows, columns=columns)
    if not len(whole):
        return not_computed(NAME, "no table has two of the columns together")
    values, why_not = finite(_figures(whole, n_missing[True]), "no pair of columns has it")
    notes = _notes(paired, section, whole, n_missing)
    return Score(measure=NAME, values=values, breakdown=whole, why_not=why_not, notes=notes)


def _categories(paired: Paired, section: Correlations) -> list[str]:
    """Columns of Cramer's V."""
    if section.categories:
        return [c for c in section.categories if c in paired.values]
    return [
        c
        for c in paired.values
        if n_codes(paired, c, binned=section.binned) <= section.most_values + 1
    ]


def _in_order(ordered: Sequence[str], classes: Sequence[str]) -> list[Pair]:
    """Pairs of the columns of Cramer's V, each in the order that the ordered columns give it."""
    place = {c: i for i, c in enumerate(ordered)}
    by_place = sorted(classes, key=lambda c: place.get(c, len(place)))
    return list(combinations(by_place, 2))


def _row(
    paired: Paired, pair: Pair, section: Correlations, kinds: Sequence[str]
) -> dict[str, str | float]:
    """All coefficients of a pair of columns, on both sides."""
    out: dict[str, str | float] = {"first": pair[0], "second": pair[1]}
    table = covering(paired, pair)
    if table is None:  # left out before
        return out
    sides = _counted(paired, table, pair, section)
    for kind in kinds:
        coefficients = [_coefficient(paired, side, pair, section, kind) for side in sides]
        prefix = _OF_KIND[kind]
        apart = abs(coefficients[1] - coefficients[0])
        out |= {f"{prefix}{s}": v for s, v in zip(_SIDES, (*coefficients, apart), strict=True)}
    return out


def _counted(
    paired: Paired, table: Coded, pair: Pair, section: Correlations
) -> tuple[_Counted, _Counted]:
    """Pairs of values of the original and of a table."""
    both = counts(paired, paired.original, table, pair, binned=section.binned)
    size = n_codes(paired, pair[1], binned=section.binned)
    first, second = both.keys // size, both.keys % size
    left, right = (
        _Counted(first=first[n > 0], second=second[n > 0], n=n[n > 0])
        for n in (both.left, both.right)
    )
    return left, right


def _coefficient(
    paired: Paired, side: _Counted, pair: Pair, section: Correlations, kind: str
) -> float:
    """One coefficient of counted pairs."""
    codes = [side.first, side.second]
    if kind == "cramers_v":
        return cramers_v(codes[0], codes[1], side.n)
    last = [n_codes(paired, c, binned=section.binned) - 1 for c in pair]
    blank = [code == end for code, end in zip(codes, last, strict=True)]
    by_rank = tau_b if kind == "kendall" else spearman
    if section.blanks == "lowest" and kind != "pearson":
        ranks = [np.where(b, -1, code) for b, code in zip(blank, codes, strict=True)]
        return by_rank(ranks[0], ranks[1], side.n)
    present = ~(blank[0] | blank[1])
    codes = [code[present] for code in codes]
    if kind == "pearson":
        x, y = (_numbers(paired, c, section)[code] for c, code in zip(pair, codes, strict=True))
        return pearson(x, y, side.n[present])
    return by_rank(codes[0], codes[1], side.n[present])


def _numbers(paired: Paired, column: str, section: Correlations) -> Floats:
    """Numbers of a column's codes: the group where it is binned."""
    if column in section.binned and column in paired.groupings:
        return np.arange(paired.groupings[column].n_groups, dtype=np.float64)
    return as_numbers(paired.values[column])


def _diagonal(column: str) -> dict[str, str | float]:
    """The row of a column with itself."""
    taus = dict(zip(_SIDES, (1.0, 1.0, 0.0), strict=True))
    return {"first": column, "second": column, **taus}


def _varies(paired: Paired, column: str, section: Correlations) -> bool:
    """Whether a column has two values on both sides, and a table."""
    table = covering(paired, [column])
    if table is None or not table.total:
        return False
    both = counts(paired, paired.original, table, [column], binned=section.binned)
    shown = np.ones(len(both.keys), np.bool_)
    if section.blanks != "lowest":
        shown = both.keys < n_codes(paired, column, binned=section.binned) - 1
    return all(int((side[shown] > 0).sum()) > 1 for side in (both.left, both.right))


def _figures(whole: pd.DataFrame, n_missing: int) -> dict[str, float]:
    """Figures of the breakdown; NaN where no pair has a coefficient."""
    tau = whole["difference"].astype("float64")
    off = {k: whole[f"{_OF_KIND[k]}difference"].astype("float64") for k in KINDS[1:]}
    others = {
        f"{kind}_{name}": float(figure)
        for kind, differences in off.items()
        for name, figure in (
            ("median", differences.median()),
            ("largest", differences.max()),
            ("n", differences.notna().sum()),
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
    paired: Paired, section: Correlations, whole: pd.DataFrame, n_missing: dict[bool, int]
) -> tuple[str, ...]:
    """What a reader must know of the pairs."""
    notes = []
    unknown = [c for c in (*section.columns, *section.categories) if c not in paired.values]
    if unknown:
        notes.append(f"no table has {listed(list(dict.fromkeys(unknown)))}")
    if missing := sum(n_missing.values()):
        notes.append(f"{missing:,} pairs are left out, as no table with rows has both columns")
    columns = [c for c in section.columns if c in paired.values]
    constant = [
        c for c in columns if lacking(paired, [c]) is None and not _varies(paired, c, section)
    ]
    apart = whole[(whole["first"] != whole["second"]) & whole["first"].isin(columns)]
    undefined = int((apart["difference"].isna() & apart["second"].isin(columns)).sum())
    if undefined:
        constants = f", among them all pairs of the constant {listed(constant)}" if constant else ""
        notes.append(
            f"{undefined:,} pairs have no Kendall's tau, as a column is constant on a side{constants}"
        )
    return tuple(notes)
