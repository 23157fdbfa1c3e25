"""Measures of what several tables of one release tell together: whether margins agree, what averaging gains.

Takes a `Paired`; gives a `Score`. Where margins are locked, a count has one value however many tables show it.
"""

from __future__ import annotations

from dataclasses import replace
from itertools import combinations

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from engine.evaluation.data.paired import Coded, Numbers, Paired, counts, covering
from engine.evaluation.data.words import finite, labels, lacking
from engine.evaluation.score import Score, Section, not_computed
from engine.evaluation.utility.counts import Univariate, one_way
from engine.schema import ColumnSet

MOST_RANGES = 20_000
"""Ranges of one length, at most; shorter ones are left out."""
_LARGEST_NUMBER = 2.0**52
Floats = NDArray[np.float64]


class Ranges(Section):
    """A column of whole numbers whose ranges are counted: all snapped ones, and `random` others."""

    column: str
    random: int = 200


def margin_gaps(paired: Paired) -> Score:
    """How far a table differs from every narrower released table of some of its columns."""
    rows = []
    for columns, table in paired.tables.items():
        for fewer in _narrower(paired, columns):
            both = counts(paired, table, paired.tables[fewer], fewer)
            gap = int(np.abs(both.left - both.right).max(initial=0))
            rows.append((", ".join(columns), ", ".join(fewer), len(columns), len(fewer), gap))
    if not rows:
        return not_computed("margins", "no table has the columns of a narrower one and more")
    whole = pd.DataFrame(rows, columns=["table", "narrower", "width", "narrower_width", "gap"])
    above = whole[whole["width"] > 2]
    figures = {
        "up_to_2": _largest(whole[whole["width"] <= 2]),
        "above_2": _largest(above),
        "above_2_on_1": _largest(above[above["narrower_width"] == 1]),
        "above_2_on_2": _largest(above[above["narrower_width"] == 2]),
        "share_equal_above_2": float((above["gap"] == 0).mean()) if len(above) else np.nan,
        "share_within_1_above_2": float((above["gap"] <= 1).mean()) if len(above) else np.nan,
    }
    values, why_not = finite(figures, "there is no pair of tables of these widths")
    return Score(measure="margins", values=values, breakdown=whole, why_not=why_not)


def _narrower(paired: Paired, columns: ColumnSet) -> list[ColumnSet]:
    """Tables of some of the columns of a table, but not all; by width, then in the table's order."""
    if 1 << len(columns) <= len(paired.tables):
        subsets = [c for width in range(1, len(columns)) for c in combinations(columns, width)]
        return [c for c in subsets if c in paired.tables]
    own = set(columns)
    return [c for c in paired.tables if c and len(c) < len(own) and own.issuperset(c)]


def _largest(rows: pd.DataFrame) -> float:
    """The largest gap; NaN where there is no pair of tables."""
    return float(rows["gap"].max()) if len(rows) else float("nan")


def one_way_from_wider(paired: Paired, section: Univariate, *, width: int = 3) -> Score:
    """Error of the counts of one column when they are read from wider tables; counts as in `univariate`."""
    name = "one_way_from_wider"
    if not paired.original.total:
        return not_computed(name, "the original has no rows")
    rows, alone = [], []
    few = {c: _of_column(paired, c) for c in paired.values if c not in section.leave_out}
    for columns, table in paired.tables.items():
        for column in columns if len(columns) == width and table.total else ():
            own = covering(paired, [column])
            if column not in few or own is None:
                continue
            squares = []
            for source in (table, own):
                both = one_way(few[column], source, column, is_known=column in section.known)
                squares.append(((both.right - both.left) ** 2).astype(np.float64))
            rows.append((", ".join(columns), column, len(squares[0]), squares[0].sum()))
            alone.append(squares[1])
    whole = pd.DataFrame(rows, columns=["table", "column", "n", "squares"])
    whole = whole[whole["n"] > 0].reset_index(drop=True)
    if not len(whole):
        return not_computed(name, f"no table has {width} columns of which one is counted")
    n = int(whole["n"].sum())
    values = {
        "rmse": float(np.sqrt(whole["squares"].sum() / n)),
        "rmse_of_1": float(np.sqrt(np.concatenate(alone).mean())),
        "n": float(n),
    }
    whole["rmse"] = np.sqrt(whole.pop("squares") / whole["n"])
    return Score(measure=name, values=values, breakdown=whole)


def _of_column(paired: Paired, column: str) -> Paired:
    """The comparison with the original counted by one column: it is counted against many tables."""
    size = len(paired.values[column]) + 1
    n = _by_code(paired.original, column, size)
    codes = {column: np.arange(size, dtype=np.int32)}
    return replace(paired, original=Coded(columns=(column,), codes=codes, n=n))


def averaging(paired: Paired) -> Score:
    """What an attacker gains who estimates each count of one column by its mean over all tables that show it.

    Counted are the values that the one-column table shows as measured (all its values where it does not say).
    """
    parts = [_averaged(paired, c[0], t) for c, t in paired.tables.items() if len(c) == 1]
    whole = pd.concat(parts, ignore_index=True) if parts else pd.DataFrame()
    if not len(whole):
        return not_computed("averaging", "no table of one column shows a value")
    alone, together = whole["alone"] - whole["original"], whole["all"] - whole["original"]
    rmse = [float(np.sqrt((error**2).mean())) for error in (alone, together)]
    figures = {
        "rmse_alone": rmse[0],
        "rmse_all": rmse[1],
        "ratio": rmse[1] / rmse[0] if rmse[0] else float("nan"),
        "sd_alone": float(alone.std()),
        "exact_alone": float((alone == 0).mean()),
        "exact_all": float((together.round() == 0).mean()),
        "n": float(len(whole)),
    }
    why = {
        "ratio": "the tables of one column are exact",
        "sd_alone": "there is one count only",
    }
    values, why_not = finite(figures, why)
    return Score(measure="averaging", values=values, breakdown=whole, why_not=why_not)


def _averaged(paired: Paired, column: str, table: Coded) -> pd.DataFrame:
    """Counts of one column: true, from its own table, and the mean over all tables."""
    size = len(paired.values[column]) + 1
    truth = _by_code(paired.original, column, size)
    shown = [_by_code(t, column, size) for c, t in paired.tables.items() if column in c]
    is_measured = np.ones(len(table.n), np.bool_) if table.measured is None else table.measured
    code = table.codes[column][is_measured]
    names = labels(paired, column)
    return pd.DataFrame(
        {
            "column": column,
            "code": code,
            "label": [names[c] for c in code.tolist()],
            "tables": len(shown),
            "original": truth[code],
            "alone": _by_code(table, column, size)[code],
            "all": np.mean(shown, axis=0)[code],
        }
    )


def _by_code(table: Coded, column: str, size: int) -> Numbers:
    """Counts of a column by code, shape (size,)."""
    sums = np.bincount(table.codes[column], table.n.astype(np.float64), minlength=size)
    return sums.astype(np.int64)


def range_errors(paired: Paired, section: Ranges, rng: np.random.Generator) -> Score:
    """Error of the number of rows in ranges of a column of whole numbers, read from every table that has it.

    Ranges are all [k 2^j, (k + 1) 2^j) that the values reach, and random ones.
    """
    if (why := _no_ranges(paired, section)) is not None:
        return not_computed("ranges", why)
    numbers = paired.values[section.column].astype(np.float64)
    low, high, notes = _chosen(numbers, section.random, rng)
    at = [np.searchsorted(numbers, bound, side="left") for bound in (low, high)]
    size = len(numbers) + 1
    truth = _in_ranges(paired.original, section.column, size, at)
    parts = []
    for columns, table in paired.tables.items():
        if section.column in columns and table.total:
            off = _in_ranges(table, section.column, size, at) - truth
            own = pd.DataFrame({"width": len(columns), "length": high - low, "error": off})
            parts.append(own.assign(table=", ".join(columns)))
    whole = pd.concat(parts, ignore_index=True)
    error = whole["error"].astype("float64")
    one = error[whole["width"] == 1]
    figures = {
        "sd": float(np.sqrt((error**2).mean())),
        "sd_of_1": float(np.sqrt((one**2).mean())) if len(one) else float("nan"),
        "largest": float(error.abs().max()),
        "n": float(len(whole)),
    }
    values, why_not = finite(figures, "the column has no table of its own")
    squares = whole.assign(sd=error**2).groupby(["width", "table", "length"])["sd"].mean()
    return Score(
        measure="ranges",
        values=values,
        breakdown=(squares**0.5).reset_index(),
        why_not=why_not,
        notes=notes,
    )


def _no_ranges(paired: Paired, section: Ranges) -> str | None:
    """Why a column has no ranges, or None."""
    if (why := lacking(paired, [section.column])) is not None:
        return why
    numbers = paired.values[section.column]
    if not np.issubdtype(numbers.dtype, np.floating):
        return "the column whose ranges are counted holds no numbers"
    if not len(numbers) or not np.isfinite(numbers).all():
        return "the column whose ranges are counted is blank, or not finite"
    if np.abs(numbers.astype(np.float64)).max() >= _LARGEST_NUMBER:
        return "the column whose ranges are counted holds numbers too large for whole ranges"
    return None


def _chosen(
    numbers: Floats, n_random: int, rng: np.random.Generator
) -> tuple[Numbers, Numbers, tuple[str, ...]]:
    """Bounds (low, high) of the ranges, low is in, high is not; and which lengths are left out."""
    first, last = int(np.floor(numbers.min())), int(np.floor(numbers.max())) + 1
    pairs: set[tuple[int, int]] = set()
    left_out = 0
    for level in range((last - min(first, 0)).bit_length()):
        length = 1 << level
        low, high = first // length, -(-last // length)
        if high - low > MOST_RANGES:
            left_out = length
        else:
            pairs |= {(k * length, (k + 1) * length) for k in range(low, high)}
    ends = np.sort(rng.integers(first, last + 1, size=(n_random, 2)), axis=1)
    pairs |= {(int(a), int(b)) for a, b in ends if a < b}
    bounds = np.array(sorted(pairs))
    notes = (f"ranges of a length up to {left_out:,} are too many, and left out",)
    return bounds[:, 0], bounds[:, 1], notes if left_out else ()


def _in_ranges(table: Coded, column: str, size: int, at: list[Numbers]) -> Numbers:
    """Rows of a table in each range."""
    before = np.zeros(size + 1, np.int64)
    np.cumsum(_by_code(table, column, size), out=before[1:])
    inside: Numbers = before[at[1]] - before[at[0]]
    return inside
