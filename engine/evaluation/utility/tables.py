"""How well tables of one, two and three columns fit: closed-form pMSE and its ratio to what chance gives.

Takes a `Paired` and a section of a study; gives a `Score`. Definition: synthpop's `utility.tables` (Raab, Nowok and
Dibben, "Assessing, visualizing and improving the utility of synthetic data", arXiv:2109.12717, sections 3 and 4).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from math import comb, prod

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from pydantic import Field

from engine.evaluation.data.paired import Coded, Grouping, Paired, covering
from engine.evaluation.data.sampling import column_sets
from engine.evaluation.score import Score, Section, not_computed
from engine.schema import ColumnSet

Floats = NDArray[np.float64]
NAME = "tables"
WIDEST = 4
"""Widths up to this one have figures."""
_LARGEST_NUMBER = 1e300
_BREAKDOWN = ["columns", "width", "cells", "df", "pmse", "s_pmse", "one_sided"]


class Tables(Section):
    """Closed-form pMSE and S_pMSE of tables (synthpop's utility.tables)."""

    widths: tuple[int, ...] = (1, 2, 3)
    # Numbers with more values are cut at so many quantiles of both sides together.
    groups: int = Field(default=5, ge=2)
    leave_out: tuple[str, ...] = ()
    most_cells: int = 1_000_000  # Larger tables are left out, and a note counts them
    # If there are more tables of a width, so many are drawn, each at most once.
    most: int = Field(default=3_000, ge=1)


@dataclass(frozen=True, kw_only=True, slots=True)
class Fit:
    """How well one table fits."""

    cells: int  # Cells that either side has
    # Mean squared distance of each record's cell's share of synthetic records from the share in all, 0 to
    # 0.25.
    pmse: float
    # The ratio of `pmse` to its expectation where the synthetic table is drawn from the original's own
    # shares; NaN for a table of one cell, which cannot differ.
    s_pmse: float
    one_sided: float  # Share of the cells that only one side has

    @property
    def df(self) -> int:
        """Degrees of freedom: cells less one."""
        return self.cells - 1


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class _Side:
    """A table with the groups of its columns, made once a column."""

    table: Coded
    n: Floats
    groups: dict[str, NDArray[np.integer]] = field(default_factory=dict)


_OF_A_WIDTH = ("pmse", "s_pmse", "worst_s_pmse", "one_sided")


def table_fit(paired: Paired, section: Tables, rng: np.random.Generator) -> Score:
    """Measure pMSE and S_pMSE of every table of the declared widths, each from the smallest table that covers it.

    Numbers and times of more than `section.groups` values are cut at quantiles of both sides; a blank is a value.

    Returns: For each width w: `pmse_w` and `s_pmse_w` (means over the tables), `worst_s_pmse_w`,
    `one_sided_w`, `n_w`; broken down by table.
    """
    if not paired.original.total:
        return not_computed(NAME, "the original has no rows")
    columns = [c for c in paired.values if c not in section.leave_out]
    if not columns:
        return not_computed(NAME, "no table has a column of the original")
    groups = {c: quantile_groups(paired, c, section.groups) for c in columns}
    original = _side(paired.original)
    sides = {t.columns: _side(t) for t in paired.tables.values()}
    rows: list[tuple[object, ...]] = []
    values: dict[str, float] = {}
    why_not: dict[str, str] = {}
    notes = [f"tables of more than {WIDEST} columns are not measured"] * (
        max(section.widths) > WIDEST
    )
    for width in sorted({w for w in section.widths if 1 <= w <= WIDEST}):
        sets, _ = column_sets(paired, columns, width, section.most, rng)
        placed = {c: t for c in sets if (t := covering(paired, c)) is not None}
        fits, left_out = _fits(placed, original, sides, groups, section.most_cells)
        rows += fits
        values |= _means(fits, width)
        notes += _notes(width, len(columns), len(placed), len(fits), left_out)
        if not fits:
            reason = f"no table of {width} columns could be compared"
            why_not |= {f"{name}_{width}": reason for name in _OF_A_WIDTH}
    whole = pd.DataFrame(rows, columns=_BREAKDOWN)
    return Score(measure=NAME, values=values, breakdown=whole, why_not=why_not, notes=tuple(notes))


def fit(original: Floats, synthetic: Floats) -> Fit:
    """Compare the counts of a table.

    original, synthetic: Counts of the same cells; each has at least one record. Cells that both lack do not
        count.

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
    cells = len(both)
    return Fit(
        cells=cells,
        pmse=vw * share * (1 - share) ** 2 / total,
        s_pmse=vw / (cells - 1) if cells > 1 else float("nan"),
        one_sided=float(((left == 0) | (right == 0)).mean()),
    )


def quantile_groups(paired: Paired, column: str, n_groups: int) -> Grouping:
    """Group the values of a column as synthpop does: numbers by quantiles of both sides together, blanks apart.

    Numbers and times of at most `n_groups` values, and texts, are taken value by value. Where ties leave fewer than
    three groups, the groups are of equal width.
    """
    values = paired.values[column]
    n = weights_of_values(paired, column)[:-1]
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


def weights_of_values(paired: Paired, column: str) -> Floats:
    """Return how often both sides together have each value of a column, and last its blank."""
    sides = (paired.original, covering(paired, [column]))
    size = len(paired.values[column]) + 1
    counted = np.zeros(size)
    for table in sides:
        if table is not None:
            counted += np.bincount(table.codes[column], table.n.astype(np.float64), size)
    return counted


def _side(table: Coded) -> _Side:
    return _Side(table=table, n=table.n.astype(np.float64))


def _fits(
    placed: Mapping[ColumnSet, Coded],
    original: _Side,
    sides: Mapping[ColumnSet, _Side],
    groups: Mapping[str, Grouping],
    most_cells: int,
) -> tuple[list[tuple[object, ...]], dict[str, int]]:
    """Rows of the breakdown, and how many tables are left out, by reason."""
    rows: list[tuple[object, ...]] = []
    left_out = {"have too many cells": 0, "have no records": 0, "are constant": 0}
    for columns, table in placed.items():
        size = prod(groups[c].n_groups for c in columns)
        if size > most_cells:
            left_out["have too many cells"] += 1
            continue
        side = sides[table.columns]
        if not side.n.sum():
            left_out["have no records"] += 1
            continue
        got = fit(_counted(original, columns, groups, size), _counted(side, columns, groups, size))
        if not got.df:
            left_out["are constant"] += 1
            continue
        head = (", ".join(columns), len(columns), got.cells, got.df)
        rows.append((*head, got.pmse, got.s_pmse, got.one_sided))
    return rows, {reason: n for reason, n in left_out.items() if n}


def _counted(side: _Side, columns: ColumnSet, groups: Mapping[str, Grouping], size: int) -> Floats:
    """Records of each cell."""
    key = np.zeros(1, np.int64)
    for name in columns:
        if name not in side.groups:
            small = groups[name].group.astype(np.min_scalar_type(groups[name].n_groups))
            side.groups[name] = small[side.table.codes[name]]
        key = key * groups[name].n_groups + side.groups[name]
    return np.bincount(key, side.n, size).astype(np.float64)


def _means(rows: list[tuple[object, ...]], width: int) -> dict[str, float]:
    """Figures of one width."""
    if not rows:
        return {f"n_{width}": 0.0}
    frame = pd.DataFrame(rows, columns=_BREAKDOWN)
    return {
        f"pmse_{width}": float(frame["pmse"].mean()),
        f"s_pmse_{width}": float(frame["s_pmse"].mean()),
        f"worst_s_pmse_{width}": float(frame["s_pmse"].max()),
        f"one_sided_{width}": float(frame["one_sided"].mean()),
        f"n_{width}": float(len(frame)),
    }


def _notes(
    width: int, n_columns: int, n_placed: int, n_compared: int, left_out: Mapping[str, int]
) -> list[str]:
    """What of one width is not measured, in words."""
    notes = [f"{n} tables of {width} columns {reason}" for reason, n in left_out.items()]
    if n_placed < comb(n_columns, width):
        notes.append(
            f"{n_compared} of {comb(n_columns, width)} tables of {width} columns are compared: of the others no table "
            f"has the columns, or they were not drawn or left out"
        )
    return notes
