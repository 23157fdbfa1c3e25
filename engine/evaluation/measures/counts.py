"""Counts and distributions of single columns, and how consistent several tables of one release are.

Definitions: SDNIST (NIST Collaborative Research Cycle) and P. Francis, arXiv:2403.08463, section 4.2; U_m and U_a of
distribution functions: Woo et al., doi:10.29012/jpc.v1i1.568, section 3.3.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from itertools import combinations

import numpy as np
import pandas as pd

from engine.evaluation.data.aligned import (
    Aligned,
    Coded,
    Counts,
    Floats,
    Numbers,
    compared,
    counts,
    covering,
    labels,
    listed,
    totals,
)
from engine.evaluation.findings import Finding, Section, not_computed
from engine.schema import ColumnSet

MOST_RANGES = 20_000
"""Ranges of one length, at most; shorter ones are left out."""
_LARGEST_NUMBER = 2.0**52


class Univariate(Section):
    """Counts of one column."""

    leave_out: tuple[str, ...] = ()  # Columns that are not counted
    known: tuple[str, ...] = ()  # Columns of which only values of the original count, blanks not


class Distributions(Section):
    """Empirical distribution functions of ordered columns; none named: all numbers and times."""

    columns: tuple[str, ...] = ()


class Ranges(Section):
    """A column of whole numbers whose ranges are counted: all snapped ones, and `random` others."""

    column: str
    random: int = 200


def one_way(aligned: Aligned, table: Coded, column: str, *, is_known: bool = False) -> Counts:
    """Count one column in the original and a table, in the study's groups where it has any."""
    both = counts(aligned, aligned.original, table, [column], binned=[column])
    if not is_known:
        return both
    kept = (both.left > 0) & (both.keys < len(aligned.values[column]))
    return Counts(keys=both.keys[kept], left=both.left[kept], right=both.right[kept])


def univariate(aligned: Aligned, options: Univariate) -> Finding:
    """Errors of the counts of every column, each from the smallest table that has it.

    The composite error of a count is the smaller of the absolute error and the percentage it is of the true count.
    For tables of another size than the original there is a second reading, with the synthetic counts scaled to the
    original's number of rows (the cited paper's 2.5 for a 40 % sample).
    """
    parts, reasons = [], {}
    for column in (c for c in aligned.values if c not in options.leave_out):
        table = compared(aligned, [column])
        if isinstance(table, str):
            reasons[column] = table
            continue
        both = one_way(aligned, table, column, is_known=column in options.known)
        names = labels(aligned, column, binned=[column])
        part = {
            "column": column,
            "key": both.keys,
            "label": [names[key] for key in both.keys.tolist()],
            "original": both.left,
            "synthetic": both.right,
        }
        scale, has = aligned.original.total / table.total, both.left > 0
        for prefix, shown in (("", both.right), ("scaled_", both.right * scale)):
            error = np.abs(shown - both.left)
            percent = np.full(len(error), np.inf)
            percent[has] = 100 * error[has] / both.left[has]
            part[f"{prefix}absolute_error"] = error
            part[f"{prefix}composite_error"] = np.minimum(error, percent)
        parts.append(pd.DataFrame(part))
    notes = [f"{column} is left out: {why}" for column, why in list(reasons.items())[:12]]
    whole = pd.concat(parts, ignore_index=True) if parts else pd.DataFrame()
    if not len(whole):
        why = next(iter(reasons.values()), None) or "no table has a column that is counted"
        return not_computed("univariate", why)
    if unknown := [c for c in options.known if c not in aligned.values]:
        notes.append(f"no table has {listed(unknown)}")
    figures = {
        f"{prefix}{name}": whole[f"{prefix}{of}"].agg(how)
        for prefix in ("", "scaled_")
        for name, of, how in (
            ("median_composite_error", "composite_error", "median"),
            ("largest_absolute_error", "absolute_error", "max"),
        )
    } | {"n": len(whole)}
    return Finding("univariate", figures, whole, why="no count could be compared", notes=notes)


def distributions(aligned: Aligned, options: Distributions) -> Finding:
    """Compare the distribution functions of ordered columns, each from the smallest table that has it.

    Blanks have no place in an order: they are left out of both functions, and their shares are in the breakdown.
    """
    ordered = [c for c, v in aligned.values.items() if v.dtype != object]
    rows, notes = [], []
    for column in dict.fromkeys(options.columns or ordered):
        table = None if column not in aligned.values else covering(aligned, [column])
        if table is None:
            notes.append(f"{column}: no table has it")
            continue
        size = len(aligned.values[column]) + 1
        sides = [totals(t.codes[column], t.n, size) for t in (aligned.original, table)]
        if not all(side[:-1].sum() for side in sides):
            notes.append(f"{column}: one side has no value of it")
            continue
        blanks = [float(n[-1] / n.sum()) for n in sides]
        rows.append((column, *apart(sides[0][:-1], sides[1][:-1]), *blanks))
    if not rows:
        why = "no ordered column has values on both sides" + "".join(f"; {n}" for n in notes)
        return not_computed("distributions", why)
    names = ["column", "u_m", "u_a", "blanks_original", "blanks_synthetic"]
    whole = pd.DataFrame(rows, columns=names)
    figures: dict[str, float] = {"n": len(whole)}
    for name in ("u_m", "u_a"):
        figures |= {f"median_{name}": whole[name].median(), f"largest_{name}": whole[name].max()}
    return Finding("distributions", figures, whole, notes=notes)


def apart(original: Numbers | Floats, synthetic: Numbers | Floats) -> tuple[float, float]:
    """U_m and U_a: the largest, and the mean squared, difference of two distribution functions.

    original, synthetic: Records of each value, in their order; each has at least one. The mean is over the records of
    both sides, as in the paper. U_m is the statistic of Kolmogorov and Smirnov.
    """
    difference = np.cumsum(original) / original.sum() - np.cumsum(synthetic) / synthetic.sum()
    both = original + synthetic
    return float(np.abs(difference).max()), float((both * difference**2).sum() / both.sum())


# Several tables


def margin_gaps(aligned: Aligned) -> Finding:
    """How far a table differs from every narrower released table of some of its columns."""
    rows = []
    for columns, table in aligned.tables.items():
        for fewer in _narrower(aligned, columns):
            both = counts(aligned, table, aligned.tables[fewer], fewer)
            gap = int(np.abs(both.left - both.right).max(initial=0))
            rows.append((", ".join(columns), ", ".join(fewer), len(columns), len(fewer), gap))
    if not rows:
        return not_computed("margins", "no table has the columns of a narrower one and more")
    whole = pd.DataFrame(rows, columns=["table", "narrower", "width", "narrower_width", "gap"])
    above = whole[whole["width"] > 2]
    figures = {
        "up_to_2": whole.loc[whole["width"] <= 2, "gap"].max(),
        "above_2": above["gap"].max(),
        "above_2_on_1": above.loc[above["narrower_width"] == 1, "gap"].max(),
        "above_2_on_2": above.loc[above["narrower_width"] == 2, "gap"].max(),
        "share_equal_above_2": (above["gap"] == 0).mean(),
        "share_within_1_above_2": (above["gap"] <= 1).mean(),
    }
    return Finding("margins", figures, whole, why="there is no pair of tables of these widths")


def _narrower(aligned: Aligned, columns: ColumnSet) -> list[ColumnSet]:
    """Tables of some of the columns of a table, but not all; by width, then in the table's order."""
    if 1 << len(columns) <= len(aligned.tables):
        subsets = [c for width in range(1, len(columns)) for c in combinations(columns, width)]
        return [c for c in subsets if c in aligned.tables]
    own = set(columns)
    return [c for c in aligned.tables if c and len(c) < len(own) and own.issuperset(c)]


def one_way_from_wider(aligned: Aligned, options: Univariate, *, width: int = 3) -> Finding:
    """Error of the counts of one column when they are read from wider tables; counts as in `univariate`."""
    name = "one_way_from_wider"
    if not aligned.original.total:
        return not_computed(name, "the original has no rows")
    rows, alone = [], []
    few = {}  # the original counted by one column, as it is counted against many tables
    for column in (c for c in aligned.values if c not in options.leave_out):
        size = len(aligned.values[column]) + 1
        n = totals(aligned.original.codes[column], aligned.original.n, size)
        codes = {column: np.arange(size, dtype=np.int32)}
        few[column] = replace(aligned, original=Coded(columns=(column,), codes=codes, n=n))
    for columns, table in aligned.tables.items():
        for column in columns if len(columns) == width and table.total else ():
            own = covering(aligned, [column])
            if column not in few or own is None:
                continue
            squares = []
            for source in (table, own):
                both = one_way(few[column], source, column, is_known=column in options.known)
                squares.append(((both.right - both.left) ** 2).astype(np.float64))
            rows.append((", ".join(columns), column, len(squares[0]), squares[0].sum()))
            alone.append(squares[1])
    whole = pd.DataFrame(rows, columns=["table", "column", "n", "squares"])
    whole = whole[whole["n"] > 0].reset_index(drop=True)
    if not len(whole):
        return not_computed(name, f"no table has {width} columns of which one is counted")
    figures = {
        "rmse": np.sqrt(whole["squares"].sum() / whole["n"].sum()),
        "rmse_of_1": np.sqrt(np.concatenate(alone).mean()),
        "n": whole["n"].sum(),
    }
    whole["rmse"] = np.sqrt(whole.pop("squares") / whole["n"])
    return Finding(name, figures, whole)


@dataclass(frozen=True, kw_only=True, slots=True)
class Repeated:
    """What all tables that show a column say of the counts of its released values."""

    truth: Numbers  # shape (n_counts,)
    width: Numbers  # shape (n_tables,): Columns of each table, rising; the first is the narrowest table itself
    seen: Numbers  # shape (n_tables, n_counts): Each count, summed out of each table
    # shape (n_counts,): Values that the narrowest table shows as measured.
    codes: Numbers = field(default_factory=lambda: np.empty(0, np.int64))


def repeated_counts(aligned: Aligned, tables: Sequence[Coded], column: str) -> Repeated | None:
    """The counts of a column in all tables that show it; None: it has no table of its own."""
    holders = sorted(
        (t for t in tables if column in t.columns and t.total),
        key=lambda t: (len(t.columns), t.columns),
    )
    if not holders or len(holders[0].columns) > 1:
        return None
    size, own = len(aligned.values[column]) + 1, holders[0]
    released = own.codes[column] if own.measured is None else own.codes[column][own.measured]
    codes = np.unique(released).astype(np.int64)
    return Repeated(
        codes=codes,
        truth=totals(aligned.original.codes[column], aligned.original.n, size)[codes],
        width=np.array([len(t.columns) for t in holders]),
        seen=np.array([totals(t.codes[column], t.n, size)[codes] for t in holders]),
    )


def averaging(aligned: Aligned) -> Finding:
    """What an attacker gains who estimates each count of one column by its mean over all tables that show it.

    Counted are the values that the one-column table shows as measured (all its values where it does not say).
    """
    parts = []
    for column in aligned.values:
        found = repeated_counts(aligned, list(aligned.tables.values()), column)
        if found is not None:
            names = labels(aligned, column)
            own = {
                "column": column,
                "code": found.codes,
                "label": [names[c] for c in found.codes.tolist()],
                "tables": len(found.seen),
                "original": found.truth,
                "alone": found.seen[0],
                "all": found.seen.mean(axis=0),
            }
            parts.append(pd.DataFrame(own))
    whole = pd.concat(parts, ignore_index=True) if parts else pd.DataFrame()
    if not len(whole):
        return not_computed("averaging", "no table of one column shows a value")
    alone, together = whole["alone"] - whole["original"], whole["all"] - whole["original"]
    rmse = [np.sqrt((error**2).mean()) for error in (alone, together)]
    figures = {
        "rmse_alone": rmse[0],
        "rmse_all": rmse[1],
        "ratio": rmse[1] / rmse[0] if rmse[0] else "the tables of one column are exact",
        "sd_alone": alone.std(),
        "exact_alone": (alone == 0).mean(),
        "exact_all": (together.round() == 0).mean(),
        "n": len(whole),
    }
    return Finding("averaging", figures, whole, why="there is one count only")


def range_errors(aligned: Aligned, options: Ranges, rng: np.random.Generator) -> Finding:
    """Error of the number of rows in ranges of a column of whole numbers, read from every table that has it.

    Ranges are all [k 2^j, (k + 1) 2^j) that the values reach, and random ones.
    """
    column = options.column
    if isinstance(why := compared(aligned, [column]), str):
        return not_computed("ranges", why)
    about = "the column whose ranges are counted"
    if not np.issubdtype(aligned.values[column].dtype, np.floating):
        return not_computed("ranges", f"{about} holds no numbers")
    numbers = aligned.values[column].astype(np.float64)
    if not len(numbers) or not np.isfinite(numbers).all():
        return not_computed("ranges", f"{about} is blank, or not finite")
    if np.abs(numbers).max() >= _LARGEST_NUMBER:
        return not_computed("ranges", f"{about} holds numbers too large for whole ranges")
    low, high, notes = _ranges(numbers, options.random, rng)
    at = [np.searchsorted(numbers, bound, side="left") for bound in (low, high)]

    def inside(table: Coded) -> Numbers:
        before = np.append(0, np.cumsum(totals(table.codes[column], table.n, len(numbers) + 1)))
        return np.asarray(before[at[1]] - before[at[0]])

    truth = inside(aligned.original)
    whole = pd.concat(
        [
            pd.DataFrame(
                {"width": len(columns), "length": high - low, "error": inside(table) - truth}
            ).assign(table=", ".join(columns))
            for columns, table in aligned.tables.items()
            if column in columns and table.total
        ],
        ignore_index=True,
    )
    squares = whole["error"].astype("float64") ** 2
    figures = {
        "sd": np.sqrt(squares.mean()),
        "sd_of_1": np.sqrt(squares[whole["width"] == 1].mean()),
        "largest": np.sqrt(squares.max()),
        "n": len(whole),
    }
    grouped = whole.assign(sd=squares).groupby(["width", "table", "length"])["sd"].mean() ** 0.5
    none = "the column has no table of its own"
    return Finding("ranges", figures, grouped.reset_index(), why=none, notes=notes)


def _ranges(
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
