"""Gaps between two groups of rows in every cell of other columns, and the root mean square error of densities.

Takes a `Paired` and a section of a study; gives a `Score`. Both are the measures of Houssiau et al., "A Framework
for Auditable Synthetic Data Generation", arXiv:2211.11540, section 4.3, application 1: the gender gap by occupation of
economically active people, and the RMSE of the marginal of the three columns.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from math import prod

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from pydantic import Field

from engine.evaluation.data.paired import (
    Coded,
    Counts,
    Numbers,
    Paired,
    counts,
    covering,
    key_of,
    n_codes,
)
from engine.evaluation.data.sampling import column_sets
from engine.evaluation.data.words import combination_labels, matching
from engine.evaluation.score import WHOLE, Score, Section, not_computed
from engine.evaluation.utility.tables import Tables
from engine.schema import ColumnSet, column_set

Floats = NDArray[np.float64]
MOST_CELLS = 1 << 21
"""A gap of more cells is not computed."""
MOST_MARGINALS = 400
"""Of a width, whatever the study allows: a mean over so many is near that over all."""


class Gap(Section):
    """Difference of the proportions of two groups in each cell of `by` (the gender gap)."""

    group: str  # Column of the groups
    values: tuple[float | str, float | str]  # The two groups
    by: tuple[str, ...]
    where: dict[str, list[float | str]] = Field(default_factory=dict)


def gaps(paired: Paired, section: Sequence[Gap]) -> Score:
    """Differences of the proportions of two groups in each cell: how far the synthetic ones are from the original's.

    A cell of the original without synthetic rows has a synthetic gap of 0: who reads the table sees none there. Cells
    that the original does not have are left out. A blank is a value of `by`.

    Returns: `rmse`, `weighted_rmse` (cells count by their rows of the original), `largest` and `n` over the
    cells of all gaps; `marginal_rmse`, mean over the gaps; broken down by gap and cell.
    """
    parts, joint, whys, notes = [], [], [], []
    for one in section:
        columns = column_set(list(dict.fromkeys((one.group, *one.by, *one.where))))
        name = f"{one.group} by {', '.join(one.by) or 'nothing'}"
        cells, why = _cells(paired, one, columns)
        if cells is None:
            whys.append(f"{name}: {why}")
            continue
        if lost := int((cells["n_synthetic"] == 0).sum()):
            notes.append(f"{name}: {lost} cells of the original have no synthetic row: gap 0")
        parts.append(cells.assign(gap=name))
        table = covering(paired, columns)
        if table is not None:
            joint.append(_rmse(paired, table, columns, ()))
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


def _cells(paired: Paired, declared: Gap, columns: ColumnSet) -> tuple[pd.DataFrame | None, str]:
    """Cells with the gap of both sides, or why there are none."""
    table = covering(paired, columns)
    if table is None:
        return None, f"no table has {', '.join(columns)}"
    if not table.total:
        return None, "the table has no rows"
    if prod(n_codes(paired, c) for c in declared.by) > MOST_CELLS:
        return None, "too many cells"
    groups = [matching(paired.values[declared.group], (value,)) for value in declared.values]
    if any(not g.any() for g in groups):
        return None, f"a value of {declared.group} is in neither the original nor a table"
    first, second = (_in_cells(paired, paired.original, declared, g) for g in groups)
    there = np.flatnonzero(first + second)
    if not len(there):
        return None, "the original has no row of the groups"
    shown = [_in_cells(paired, table, declared, g)[there] for g in groups]
    truth, synthetic = _gap(first[there], second[there]), _gap(*shown)
    frame = pd.DataFrame(
        {
            "cell": combination_labels(paired, declared.by, there),
            "original": truth,
            "synthetic": synthetic,
            "error": np.abs(synthetic - truth),
            "n_original": (first + second)[there],
            "n_synthetic": shown[0] + shown[1],
        }
    )
    return frame, ""


def _in_cells(paired: Paired, table: Coded, gap: Gap, group: NDArray[np.bool_]) -> Numbers:
    """Rows of a group in each cell of `by`, among the rows of `where`."""
    chosen = group[table.codes[gap.group]]
    for name, allowed in gap.where.items():
        chosen = chosen & matching(paired.values[name], allowed)[table.codes[name]]
    key = key_of(paired, table, gap.by)[chosen]
    size = prod(n_codes(paired, c) for c in gap.by)
    return np.bincount(key, table.n[chosen].astype(np.float64), minlength=size).astype(np.int64)


def _gap(first: Numbers, second: Numbers) -> Floats:
    """Difference of two groups' proportions; 0 where there is nobody."""
    return np.asarray((first - second) / np.maximum(first + second, 1), dtype=np.float64)


def density_rmse(paired: Paired, section: Tables, rng: np.random.Generator) -> Score:
    """Root mean square error of the densities of marginals of 1, 2 and 3 columns, each from the smallest table.

    The mean square is over all combinations of values that occur on either side, column by column; a column that the
    study bins is counted in its groups.

    section: Its widths, the columns left out, and how many cells and marginals at most.

    Returns: `rmse_1`, `rmse_2`, `rmse_3`: means over the marginals; `n`, their number; broken down by
    marginal.
    """
    rows, why_not, notes = [], {}, []
    most = min(section.most, MOST_MARGINALS)
    for width in (w for w in (1, 2, 3) if w in section.widths):
        free = [c for c in paired.values if c not in section.leave_out]
        chosen, n_sets = column_sets(paired, free, width, most, rng)
        large = 0
        for columns in chosen:
            table = covering(paired, columns)
            if table is None or not table.total or not paired.original.total:
                continue
            if prod(n_codes(paired, c, binned=columns) for c in columns) > section.most_cells:
                large += 1
                continue
            rows.append((", ".join(columns), width, _rmse(paired, table, columns, columns)))
        if n_sets > len(chosen):
            notes.append(f"{most} marginals of {width} columns are drawn")
        if large:
            notes.append(
                f"{large} marginals of {width} columns have too many cells and are left out"
            )
    whole = pd.DataFrame(rows, columns=["columns", "width", "rmse"])
    values = {"n": float(len(whole))}
    for width in (w for w in (1, 2, 3) if w in section.widths):
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


def _rmse(paired: Paired, table: Coded, columns: Sequence[str], binned: Collection[str]) -> float:
    """Root mean square of the differences of densities, over the cross product of the values that occur."""
    both = counts(paired, paired.original, table, columns, binned=binned)
    sizes = {c: n_codes(paired, c, binned=binned) for c in columns}
    apart = both.left / max(both.left.sum(), 1) - both.right / max(both.right.sum(), 1)
    return float(np.sqrt((apart**2).sum() / max(_n_cells(both, sizes), 1)))


def _n_cells(both: Counts, sizes: Mapping[str, int]) -> int:
    """Cells of the cross product of the values that occur."""
    keys, n_cells = both.keys, 1
    for size in reversed([*sizes.values()]):
        keys, code = np.divmod(keys, size)
        n_cells *= int(np.count_nonzero(np.bincount(code, minlength=size)))
    return n_cells
