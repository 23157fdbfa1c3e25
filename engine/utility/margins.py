"""Measures of what several tables of one release tell together: whether margins agree, what averaging gains.

Takes a `Comparison`; gives a `Score`. Where margins are locked, a count has one value however many tables show it.
"""

from __future__ import annotations

from itertools import combinations

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from engine.score import Score
from engine.study_sections import Ranges, Univariate
from engine.utility.comparison import Coded, Comparison, Numbers, counts, covering
from engine.utility.counts import one_way

Floats = NDArray[np.float64]


def margin_gaps(comparison: Comparison) -> Score:
    """How far a table differs from every narrower released table of some of its columns.

    Returns
    -------
    Score
        Largest gap in rows: `up_to_2` (of tables of one and two columns), `above_2`, `above_2_on_1`, `above_2_on_2`
        (by width of the narrower); `share_equal_above_2` of the pairs of tables; broken down by pair.
    """
    rows = []
    for columns, table in comparison.tables.items():
        for width in range(1, len(columns)):
            for fewer in combinations(columns, width):
                if (narrow := comparison.tables.get(fewer)) is not None:
                    found = counts(comparison, table, narrow, fewer)
                    gap = int(np.abs(found.left - found.right).max(initial=0))
                    rows.append((", ".join(columns), ", ".join(fewer), len(columns), width, gap))
    whole = pd.DataFrame(rows, columns=["table", "narrower", "width", "narrower_width", "gap"])
    above = whole[whole["width"] > 2]
    values = {
        "up_to_2": _largest(whole[whole["width"] <= 2]),
        "above_2": _largest(above),
        "above_2_on_1": _largest(above[above["narrower_width"] == 1]),
        "above_2_on_2": _largest(above[above["narrower_width"] == 2]),
        "share_equal_above_2": float((above["gap"] == 0).mean()),
        "share_within_1_above_2": float((above["gap"] <= 1).mean()),
    }
    return Score(measure="margins", values=values, breakdown=whole)


def _largest(rows: pd.DataFrame) -> float:
    """The largest gap; NaN where there is no pair of tables."""
    return float(rows["gap"].max()) if len(rows) else float("nan")


def one_way_from_wider(comparison: Comparison, told: Univariate, *, width: int = 3) -> Score:
    """Error of the counts of one column when they are read from wider tables; counts as in `univariate`.

    Returns
    -------
    Score
        `rmse` over all tables of `width` columns, their columns and values; `rmse_of_1`: the same counts read from
        the one-column tables; broken down by table and column.
    """
    rows, alone = [], []
    for columns, table in comparison.tables.items():
        if len(columns) != width:
            continue
        for column in columns:
            own = covering(comparison, [column])
            if column in told.leave_out or own is None:
                continue
            squares = []
            for source in (table, own):
                found = one_way(comparison, source, column, is_known=column in told.known)
                squares.append(((found.right - found.left) ** 2).astype(np.float64))
            rows.append((", ".join(columns), column, len(squares[0]), squares[0].sum()))
            alone.append(squares[1])
    whole = pd.DataFrame(rows, columns=["table", "column", "n", "squares"])
    n = whole["n"].sum()
    values = {
        "rmse": float(np.sqrt(whole["squares"].sum() / n)) if n else float("nan"),
        "rmse_of_1": float(np.sqrt(np.concatenate(alone).mean())) if alone else float("nan"),
        "n": float(n),
    }
    whole["rmse"] = np.sqrt(whole.pop("squares") / whole["n"])
    return Score(measure="one_way_from_wider", values=values, breakdown=whole)


def averaging(comparison: Comparison) -> Score:
    """What an attacker gains who estimates each count of one column by its mean over all tables that show it.

    Counted are the values that the one-column table shows as measured (all its values where it does not say).

    Returns
    -------
    Score
        `rmse_alone` (from the one-column table), `rmse_all` (mean over all tables), `ratio` = all over alone,
        `sd_alone`, `exact_alone`, `exact_all` (shares of counts hit exactly, the mean rounded), `n`; broken down by
        column and value.
    """
    parts = []
    for columns, table in comparison.tables.items():
        if len(columns) != 1:
            continue
        (column,) = columns
        size = len(comparison.values[column]) + 1
        truth = _by_code(comparison.original, column, size)
        shown = [_by_code(t, column, size) for c, t in comparison.tables.items() if column in c]
        is_measured = np.ones(len(table.n), np.bool_) if table.measured is None else table.measured
        code = table.codes[column][is_measured]
        parts.append(
            pd.DataFrame(
                {
                    "column": column,
                    "code": code,
                    "tables": len(shown),
                    "original": truth[code],
                    "alone": _by_code(table, column, size)[code],
                    "all": np.mean(shown, axis=0)[code],
                }
            )
        )
    whole = pd.concat(parts, ignore_index=True)
    alone, together = whole["alone"] - whole["original"], whole["all"] - whole["original"]
    rmse = [float(np.sqrt((error**2).mean())) for error in (alone, together)]
    values = {
        "rmse_alone": rmse[0],
        "rmse_all": rmse[1],
        "ratio": rmse[1] / rmse[0] if rmse[0] else float("nan"),
        "sd_alone": float(alone.std()),
        "exact_alone": float((alone == 0).mean()),
        "exact_all": float((together.round() == 0).mean()),
        "n": float(len(whole)),
    }
    return Score(measure="averaging", values=values, breakdown=whole)


def _by_code(table: Coded, column: str, size: int) -> Numbers:
    """Counts of a column by code, shape (size,)."""
    found = np.bincount(table.codes[column], table.n.astype(np.float64), minlength=size)
    return found.astype(np.int64)


def range_errors(comparison: Comparison, told: Ranges, rng: np.random.Generator) -> Score:
    """Error of the number of rows in ranges of a column of whole numbers, read from every table that has it.

    Ranges are all [k 2^j, (k + 1) 2^j) that the values reach, and random ones.

    Parameters
    ----------
    comparison : Comparison
    told : Ranges
    rng : numpy Generator
        Draws the random ranges.

    Returns
    -------
    Score
        `sd` (root mean square of the error) over all tables and ranges, `sd_of_1` from the one-column table, `largest`;
        broken down by table and length of the range.
    """
    numbers = comparison.values[told.column].astype(np.float64)
    low, high = _chosen(numbers, told.random, rng)
    at = [np.searchsorted(numbers, bound, side="left") for bound in (low, high)]
    size = len(numbers) + 1
    truth = _in_ranges(comparison.original, told.column, size, at)
    parts = []
    for columns, table in comparison.tables.items():
        if told.column in columns:
            off = _in_ranges(table, told.column, size, at) - truth
            own = pd.DataFrame({"width": len(columns), "length": high - low, "error": off})
            parts.append(own.assign(table=", ".join(columns)))
    whole = pd.concat(parts, ignore_index=True)
    error = whole["error"].astype("float64")
    one = error[whole["width"] == 1]
    values = {
        "sd": float(np.sqrt((error**2).mean())),
        "sd_of_1": float(np.sqrt((one**2).mean())) if len(one) else float("nan"),
        "largest": float(error.abs().max()),
        "n": float(len(whole)),
    }
    squares = whole.assign(sd=error**2).groupby(["width", "table", "length"])["sd"].mean()
    return Score(measure="ranges", values=values, breakdown=(squares**0.5).reset_index())


def _chosen(numbers: Floats, n_random: int, rng: np.random.Generator) -> tuple[Numbers, Numbers]:
    """Bounds (low, high) of the ranges: low is in, high is not."""
    first, last = int(np.floor(numbers.min())), int(np.floor(numbers.max())) + 1
    pairs = set()
    for level in range((last - min(first, 0)).bit_length()):
        length = 1 << level
        pairs |= {
            (k * length, (k + 1) * length) for k in range(first // length, -(-last // length))
        }
    ends = np.sort(rng.integers(first, last + 1, size=(n_random, 2)), axis=1)
    pairs |= {(int(a), int(b)) for a, b in ends if a < b}
    bounds = np.array(sorted(pairs))
    return bounds[:, 0], bounds[:, 1]


def _in_ranges(table: Coded, column: str, size: int, at: list[Numbers]) -> Numbers:
    """Rows of a table in each range."""
    before = np.zeros(size + 1, np.int64)
    np.cumsum(_by_code(table, column, size), out=before[1:])
    inside: Numbers = before[at[1]] - before[at[0]]
    return inside
