"""Measures that compare counts: of one column, of combinations of columns, of records that cannot be.

Takes a `Comparison` and a section of a study; gives a `Score`. Definitions: SDNIST (NIST Collaborative Research Cycle)
and P. Francis, "A Comparison of SynDiffix Multi-table versus Single-table Synthetic Data", arXiv:2403.08463, section 4.
"""

from __future__ import annotations

from collections.abc import Collection
from itertools import combinations

import duckdb
import numpy as np
import pandas as pd

from engine.errors import SpecError
from engine.score import Score
from engine.study_sections import Inconsistencies, Marginals, Rule, Univariate
from engine.utility.comparison import Coded, Comparison, Counts, counts, covering

_ROW = "_row"


def one_way(comparison: Comparison, table: Coded, column: str, *, is_known: bool = False) -> Counts:
    """Count one column in the original and a table, in the study's groups where it has any.

    Parameters
    ----------
    comparison : Comparison
    table : Coded
    column : str
    is_known : bool
        Only values that the original has, blanks not.
    """
    found = counts(comparison, comparison.original, table, [column], binned=[column])
    if not is_known:
        return found
    kept = (found.left > 0) & (found.keys < len(comparison.values[column]))
    return Counts(keys=found.keys[kept], left=found.left[kept], right=found.right[kept])


def univariate(comparison: Comparison, told: Univariate) -> Score:
    """Errors of the counts of every column, each from its own table, or the smallest that has it.

    The composite error of a count is the smaller of the absolute error and the percentage it is of the true count.

    Returns
    -------
    Score
        `median_composite_error`, `largest_absolute_error`, `n`; broken down by column and value.
    """
    parts = []
    for column in comparison.values:
        table = covering(comparison, [column])
        if column in told.leave_out or table is None:
            continue
        found = one_way(comparison, table, column, is_known=column in told.known)
        parts.append(
            pd.DataFrame(
                {
                    "column": column,
                    "key": found.keys,
                    "original": found.left,
                    "synthetic": found.right,
                }
            )
        )
    whole = pd.concat(parts, ignore_index=True)
    error = (whole["synthetic"] - whole["original"]).abs()
    percent = (100 * error / whole["original"].where(whole["original"] > 0)).fillna(np.inf)
    whole["absolute_error"], whole["composite_error"] = error, np.minimum(error, percent)
    values = {
        "median_composite_error": float(whole["composite_error"].median()),
        "largest_absolute_error": float(error.max()),
        "n": float(len(whole)),
    }
    return Score(measure="univariate", values=values, breakdown=whole)


def k_marginals(comparison: Comparison, told: Marginals) -> Score:
    """How near the densities of combinations of columns are: 500 x (2 - mean absolute difference), at best 1000.

    Returns
    -------
    Score
        `score`, `score_unbinned` (with the columns of `unbinned` value by value), `n`; broken down by combination.
    """
    free = [c for c in sorted(comparison.values) if c not in (*told.group, *told.leave_out)]
    rows = []
    for chosen in combinations(free, told.width):
        columns = (*told.group, *chosen)
        table = covering(comparison, columns)
        if table is None:
            continue
        fine = [c for c in columns if c not in told.unbinned]
        distance = _density_distance(comparison, table, columns, columns)
        unbinned = (
            distance
            if len(fine) == len(columns)
            else _density_distance(comparison, table, columns, fine)
        )
        rows.append((", ".join(columns), distance, unbinned))
    whole = pd.DataFrame(rows, columns=["columns", "distance", "distance_unbinned"])
    values = {
        "score": 500 * (2 - float(whole["distance"].mean())),
        "score_unbinned": 500 * (2 - float(whole["distance_unbinned"].mean())),
        "n": float(len(whole)),
    }
    return Score(measure="marginals", values=values, breakdown=whole)


def _density_distance(
    comparison: Comparison, table: Coded, columns: Collection[str], binned: Collection[str]
) -> float:
    """Sum of the absolute differences of densities: 0 to 2."""
    found = counts(comparison, comparison.original, table, columns, binned=binned)
    apart = found.left / comparison.original.total - found.right / table.total
    return float(np.abs(apart).sum())


def inconsistencies(comparison: Comparison, told: Inconsistencies) -> Score:
    """Count synthetic records that break a rule, each rule on the smallest table that has its columns.

    A record of a table counts once for each group of rules.

    Returns
    -------
    Score
        `records`, of them `records_of_1`, `_2`, ... (by width of the table), `rules` (measured),
        `rules_without_table`; broken down by rule.

    Raises
    ------
    SpecError
        A rule is wrong SQL for the values at hand.
    """
    placed: dict[tuple[str, tuple[str, ...]], list[Rule]] = {}
    missing = 0
    for rule in told.rules:
        table = covering(comparison, rule.columns)
        if table is None:
            missing += 1
        elif not set(told.unless.get(rule.name, ())) & set(table.columns):
            placed.setdefault((rule.group, table.columns), []).append(rule)
    rows, by_width = [], {1: 0, 2: 0, 3: 0}
    for (group, columns), rules in placed.items():
        *each, either = _violations(comparison, comparison.tables[columns], rules, told.blank)
        by_width[len(columns)] = by_width.get(len(columns), 0) + either
        rows += [(group, r.name, ", ".join(columns), n) for r, n in zip(rules, each, strict=True)]
    whole = pd.DataFrame(rows, columns=["group", "rule", "table", "records"])
    values = {
        "records": float(sum(by_width.values())),
        **{f"records_of_{width}": float(n) for width, n in by_width.items()},
        "rules": float(len(whole)),
        "rules_without_table": float(missing),
    }
    return Score(measure="inconsistencies", values=values, breakdown=whole)


def _violations(
    comparison: Comparison, table: Coded, rules: list[Rule], blank: str | None
) -> list[int]:
    """Records of a table that break each rule, and any of them."""
    read = sorted({c for rule in rules for c in rule.columns})
    decoded = pd.DataFrame({c: _decoded(comparison, table, c, blank) for c in read})
    hit = np.zeros((len(rules) + 1, len(table.n)), np.bool_)
    with duckdb.connect() as con:
        con.register("decoded", decoded.assign(**{_ROW: np.arange(len(table.n))}))
        for i, rule in enumerate(rules):
            try:
                # In WHERE, unlike in FILTER, DuckDB does not look behind an AND that is settled.
                found = con.execute(
                    f"SELECT {_ROW} FROM decoded WHERE {rule.violated}"
                ).fetchnumpy()
            except duckdb.Error:
                raise SpecError(f"rule {rule.name}: is wrong SQL for its columns") from None
            hit[i, found[_ROW]] = True
    hit[-1] = hit.any(axis=0)
    return [int(n) for n in hit @ table.n]


def _decoded(comparison: Comparison, table: Coded, column: str, blank: str | None) -> pd.Series:
    """A column's values again, with their types; as texts where blanks are spelled and the original has any."""
    values, codes = comparison.values[column], table.codes[column]
    is_number = np.issubdtype(values.dtype, np.floating)
    has_blanks = bool((comparison.original.codes[column] == len(values)).any())
    if blank is not None and has_blanks:
        texts = [f"{v:.15g}" if is_number else str(v) for v in values]
        return pd.Series(np.array([*texts, blank], dtype=object)[codes])
    if is_number:
        whole = pd.Series(np.append(values, np.nan)).convert_dtypes()
        return whole.take(codes).reset_index(drop=True)
    missing = np.array([None if values.dtype == object else "NaT"], dtype=values.dtype)
    return pd.Series(np.append(values, missing)[codes])
