"""Gaps between two groups of rows in every cell of other columns, and the root mean square error of densities.

Takes a `Comparison` and a section of a study; gives a `Score`. Both are the measures of Houssiau et al., "A Framework
for Auditable Synthetic Data Generation", arXiv:2211.11540, section 4.3, application 1: the gender gap by occupation of
economically active people, and the RMSE of the marginal of the three columns.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from itertools import chain, combinations
from math import comb, prod

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from engine.schema import ColumnSet, column_set
from engine.score import WHOLE, Score, not_computed
from engine.study_sections import Gap, Tables
from engine.utility.comparison import (
    Coded,
    Comparison,
    Counts,
    Numbers,
    counts,
    covering,
    key_of,
    n_codes,
)

Floats = NDArray[np.float64]
MOST_CELLS = 1 << 21
"""A gap of more cells is not computed."""
MOST_MARGINALS = 400
"""Of a width, whatever the study allows: a mean over so many is near that over all."""
_ENUMERATED = 200_000


def gaps(comparison: Comparison, told: Sequence[Gap]) -> Score:
    """Differences of the proportions of two groups in each cell: how far the synthetic ones are from the original's.

    A cell of the original without synthetic rows has a synthetic gap of 0: who reads the table sees none there. Cells
    that the original does not have are left out. A blank is a value of `by`.

    Parameters
    ----------
    comparison : Comparison
    told : sequence of Gap

    Returns
    -------
    Score
        `rmse`, `weighted_rmse` (cells count by their rows of the original), `largest` and `n` over the cells of all
        gaps; `marginal_rmse`, mean over the gaps; broken down by gap and cell.
    """
    parts, joint, whys, notes = [], [], [], []
    for one in told:
        columns = column_set(list(dict.fromkeys((one.group, *one.by, *one.where))))
        name = f"{one.group} by {', '.join(one.by) or 'nothing'}"
        cells, why = _cells(comparison, one, columns)
        if cells is None:
            whys.append(f"{name}: {why}")
            continue
        if lost := int((cells["n_synthetic"] == 0).sum()):
            notes.append(f"{name}: {lost} cells of the original have no synthetic row: gap 0")
        parts.append(cells.assign(gap=name))
        table = covering(comparison, columns)
        if table is not None:
            joint.append(_rmse(comparison, table, columns, ()))
    if not parts:
        return not_computed("gaps", "; ".join(whys) or "the study declares no gap")
    whole = pd.concat(parts, ignore_index=True)
    squares = whole["error"].to_numpy(np.float64) ** 2
    values = {
        "rmse": float(np.sqrt(squares.mean())),
        "weighted_rmse": float(np.sqrt(np.average(squares, weights=whole["n_original"]))),
        "largest": float(np.sqrt(squares.max())),
        "marginal_rmse": float(np.mean(joint)),
        "n": float(len(whole)),
    }
    notes += [f"left out: {why}" for why in whys]
    return Score(measure="gaps", values=values, breakdown=whole, notes=tuple(notes))


def _cells(
    comparison: Comparison, told: Gap, columns: ColumnSet
) -> tuple[pd.DataFrame | None, str]:
    """Cells with the gap of both sides, or why there are none."""
    table = covering(comparison, columns)
    if table is None:
        return None, f"no table has {', '.join(columns)}"
    if not table.total:
        return None, "the table has no rows"
    if prod(n_codes(comparison, c) for c in told.by) > MOST_CELLS:
        return None, "too many cells"
    groups = [_codes_of(comparison, told.group, (value,)) for value in told.values]
    if any(not g.any() for g in groups):
        return None, f"a value of {told.group} is in neither the original nor a table"
    first, second = (_in_cells(comparison, comparison.original, told, g) for g in groups)
    there = np.flatnonzero(first + second)
    if not len(there):
        return None, "the original has no row of the groups"
    shown = [_in_cells(comparison, table, told, g)[there] for g in groups]
    truth, synthetic = _gap(first[there], second[there]), _gap(*shown)
    frame = pd.DataFrame(
        {
            "cell": _names(comparison, told.by, there),
            "original": truth,
            "synthetic": synthetic,
            "error": np.abs(synthetic - truth),
            "n_original": (first + second)[there],
            "n_synthetic": shown[0] + shown[1],
        }
    )
    return frame, ""


def _codes_of(
    comparison: Comparison, column: str, wanted: Collection[float | str]
) -> NDArray[np.bool_]:
    """Which codes of a column are one of some values, shape (n_values + 1,); texts match numbers written so."""
    values = comparison.values[column]
    if values.dtype == object:
        texts = {f"{v:g}" if isinstance(v, int | float) else str(v) for v in wanted}
        found = np.array([str(v) in texts for v in values], np.bool_)
    else:
        numbers = pd.to_numeric(pd.Series(list(wanted), dtype=object), errors="coerce")
        found = np.isin(values.astype(np.float64), numbers.to_numpy(np.float64))
    return np.append(found, False)


def _in_cells(comparison: Comparison, table: Coded, told: Gap, group: NDArray[np.bool_]) -> Numbers:
    """Rows of a group in each cell of `by`, among the rows of `where`."""
    kept = group[table.codes[told.group]]
    for name, allowed in told.where.items():
        kept = kept & _codes_of(comparison, name, allowed)[table.codes[name]]
    key = key_of(comparison, table, told.by)[kept]
    size = prod(n_codes(comparison, c) for c in told.by)
    return np.bincount(key, table.n[kept].astype(np.float64), minlength=size).astype(np.int64)


def _gap(first: Numbers, second: Numbers) -> Floats:
    """Difference of two groups' proportions; 0 where there is nobody."""
    return np.asarray((first - second) / np.maximum(first + second, 1), dtype=np.float64)


def _names(comparison: Comparison, by: tuple[str, ...], keys: Numbers) -> list[str]:
    """Cells by the values of their columns."""
    parts: list[list[str]] = []
    for column in reversed(by):
        keys, code = np.divmod(keys, n_codes(comparison, column))
        values = comparison.values[column]
        is_number = np.issubdtype(values.dtype, np.floating)
        texts = [f"{v:.15g}" if is_number else str(v) for v in values]
        parts.append([*np.array([*texts, "(blank)"], dtype=object)[code]])
    if not parts:
        return ["everybody"] * len(keys)
    return [" · ".join(cell) for cell in zip(*reversed(parts), strict=True)]


def density_rmse(comparison: Comparison, told: Tables, rng: np.random.Generator) -> Score:
    """Root mean square error of the densities of marginals of 1, 2 and 3 columns, each from the smallest table.

    The mean square is over all combinations of values that occur on either side, column by column; a column that the
    study bins is counted in its groups.

    Parameters
    ----------
    comparison : Comparison
    told : Tables
        Its widths, the columns left out, and how many cells and marginals at most.
    rng : numpy Generator
        Draws marginals where there are more.

    Returns
    -------
    Score
        `rmse_1`, `rmse_2`, `rmse_3`: means over the marginals; `n`, their number; broken down by marginal.
    """
    rows, why_not, notes = [], {}, []
    most = min(told.most, MOST_MARGINALS)
    for width in (w for w in (1, 2, 3) if w in told.widths):
        chosen, is_all = _chosen(comparison, width, told.leave_out, most, rng)
        large = 0
        for columns in chosen:
            table = covering(comparison, columns)
            if table is None or not table.total or not comparison.original.total:
                continue
            if prod(n_codes(comparison, c, binned=columns) for c in columns) > told.most_cells:
                large += 1
                continue
            rows.append((", ".join(columns), width, _rmse(comparison, table, columns, columns)))
        if not is_all:
            notes.append(f"{most} marginals of {width} columns are drawn")
        if large:
            notes.append(
                f"{large} marginals of {width} columns have too many cells and are left out"
            )
    whole = pd.DataFrame(rows, columns=["columns", "width", "rmse"])
    values = {"n": float(len(whole))}
    for width in (w for w in (1, 2, 3) if w in told.widths):
        own = whole.loc[whole["width"] == width, "rmse"]
        if len(own):
            values[f"rmse_{width}"] = float(own.mean())
        else:
            why_not[f"rmse_{width}"] = (
                f"no table with rows shows {width} columns of few enough cells"
            )
    if not len(whole):
        values, why_not = {}, {WHOLE: "no table with rows shows columns of few enough cells"}
    return Score(
        measure="density_rmse",
        values=values,
        breakdown=whole,
        why_not=why_not,
        notes=tuple(notes),
    )


def _chosen(
    comparison: Comparison,
    width: int,
    leave_out: Collection[str],
    most: int,
    rng: np.random.Generator,
) -> tuple[list[ColumnSet], bool]:
    """Marginals that a table shows, and whether these are all of them."""
    shown = [tuple(c for c in t if c not in leave_out) for t in comparison.tables]
    if sum(comb(len(t), width) for t in shown) <= _ENUMERATED:
        found = sorted(set(chain.from_iterable(combinations(t, width) for t in shown)))
        if len(found) <= most:
            return found, True
        drawn = np.sort(rng.choice(len(found), most, replace=False))
        return [found[i] for i in drawn], False
    wide = [t for t in shown if len(t) >= width]  # too many to list: drawn one by one
    share = np.array([comb(len(t), width) for t in wide], dtype=np.float64)
    tables = rng.choice(len(wide), most, p=share / share.sum())
    picks = {
        tuple(sorted(wide[i][j] for j in rng.choice(len(wide[i]), width, replace=False)))
        for i in tables
    }
    return sorted(picks), False


def _rmse(
    comparison: Comparison, table: Coded, columns: Sequence[str], binned: Collection[str]
) -> float:
    """Root mean square of the differences of densities, over the cross product of the values that occur."""
    found = counts(comparison, comparison.original, table, columns, binned=binned)
    sizes = {c: n_codes(comparison, c, binned=binned) for c in columns}
    apart = found.left / max(found.left.sum(), 1) - found.right / max(found.right.sum(), 1)
    return float(np.sqrt((apart**2).sum() / max(_n_cells(found, sizes), 1)))


def _n_cells(found: Counts, sizes: Mapping[str, int]) -> int:
    """Cells of the cross product of the values that occur."""
    keys, n_cells = found.keys, 1
    for size in reversed([*sizes.values()]):
        keys, code = np.divmod(keys, size)
        n_cells *= int(np.count_nonzero(np.bincount(code, minlength=size)))
    return n_cells
