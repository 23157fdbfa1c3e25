"""Tables of a report as texts: formatted cells, and which columns hold numbers.

Takes frames; gives `Grid`s. Invariant: at most `MOST_ROWS` rows unless asked, and a note counts the rest.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import isfinite
from typing import Any

import numpy as np
import pandas as pd

from engine.evaluation.report.charts import plain
from engine.evaluation.result import Result

MOST_ROWS = 200
MISSING = "–"
WORST_FIRST = (
    "composite_error", "s_pmse", "pmse", "distance", "difference", "error", "gap", "pi", "u_m",
    "records", "rmse",
)  # fmt: skip
_OF_CARDS = {
    "rows": "synthetic rows",
    "cells": "distinct rows",
    "noise_sd": "noise sd",
    "suppressed_share": "suppressed share",
    "rounding_gap": "rounding gap",
}
_OF_BREAKDOWNS = (
    ("margins", "gap", "gap to narrower"),
    ("propensity", "pmse", "pMSE (tree)"),
    ("tables", "pmse", "pMSE"),
    ("tables", "s_pmse", "S_pMSE"),
    ("tables", "df", "degrees of freedom"),
    ("marginals", "distance", "density distance"),
    ("one_way_from_wider", "rmse", "RMSE of its columns"),
    ("density_rmse", "rmse", "RMSE of densities"),
    ("ranges", "sd", "sd of ranges"),
)


@dataclass(frozen=True, kw_only=True, slots=True)
class Grid:
    """A table of texts."""

    heads: tuple[str, ...]
    is_number: tuple[bool, ...]  # A column is numbers, and set to the right
    rows: tuple[tuple[str, ...], ...]
    rest: int = 0  # Rows that are not shown


def grid(frame: pd.DataFrame, *, most: int = MOST_ROWS, as_is: bool = False) -> Grid:
    """Return a frame as texts, at most so many rows; its columns' names as words, or (factors) as they are."""
    shown = frame.iloc[:most]
    columns = [_texts(shown.iloc[:, i]) for i in range(shown.shape[1])]
    is_number = [_is_number(shown.iloc[:, i]) or (as_is and i > 1) for i in range(shown.shape[1])]
    return Grid(
        heads=tuple(plain(c) if as_is else _head(plain(c)) for c in shown.columns),
        is_number=tuple(is_number),
        rows=tuple(zip(*columns, strict=True)),
        rest=len(frame) - len(shown),
    )


def _head(name: str) -> str:
    """Head of a column; names of data and symbols keep their underscores."""
    return name.replace("_", " ") if name.islower() else name


def worst_first(frame: pd.DataFrame) -> pd.DataFrame:
    """Return a breakdown with its worst rows on top, where it has a column that tells."""
    by = next((c for c in WORST_FIRST if c in frame.columns), None)
    if by is None or not pd.api.types.is_numeric_dtype(frame[by]):
        return frame
    size = -np.nan_to_num(np.abs(np.asarray(frame[by], np.float64)), nan=-1.0)
    return frame.iloc[np.argsort(size, kind="stable")]


def _is_number(column: pd.Series) -> bool:
    """Whether a column is set to the right."""
    if pd.api.types.is_bool_dtype(column):
        return False
    if pd.api.types.is_numeric_dtype(column):
        return True
    filled = [v for v in column if v is not None and not _is_missing(v)]
    return bool(filled) and all(isinstance(v, int | float | np.number) for v in filled)


def _is_missing(value: Any) -> bool:
    """Whether a value is none."""
    return (
        value is None
        or value is pd.NaT
        or value is pd.NA
        or (isinstance(value, float | np.floating) and np.isnan(value))
    )


def _texts(column: pd.Series) -> list[str]:
    """A column as texts."""
    return [cell(v) for v in column.tolist()]


def cell(value: Any) -> str:
    """Return one value as text: whole numbers whole, others with four significant digits."""
    if _is_missing(value):
        return MISSING
    if isinstance(value, bool | np.bool_):
        return "yes" if value else "no"
    if isinstance(value, int | np.integer):
        return f"{int(value):,}".replace("-", "−")
    if isinstance(value, float | np.floating):
        return _float(float(value))
    if isinstance(value, list | tuple):
        return ", ".join(plain(v) for v in value)
    return plain(value)


def _float(value: float) -> str:
    """A fraction as text."""
    if not isfinite(value):
        return "∞" if value > 0 else "−∞"
    if value == round(value) and abs(value) < 1e15:
        return f"{value:,.0f}".replace("-", "−")
    text = f"{value:,.1f}" if abs(value) >= 1_000 else f"{value:.4g}"
    return text.replace("-", "−")


def shown(value: float | None, digits: int) -> str:
    """Return a figure with its digits; one that they would round to zero keeps two significant ones."""
    if value is None:
        return MISSING
    if not isfinite(value):
        return cell(value)
    text = f"{value:,.{digits}f}"
    if value and not any(c in "123456789" for c in text):
        text = f"{value:.2g}"
    return text.replace("-", "−")


def every_table(result: Result) -> pd.DataFrame:
    """Return one row a table of a subject, with what its card and the breakdowns say of it."""
    rows: dict[str, dict[str, Any]] = {}
    for columns, table in result.aligned.tables.items():
        row: dict[str, Any] = {"columns": ", ".join(columns), "width": len(columns)}
        card = result.subject.cards.get(columns, {})
        row |= {word: card[key] for key, word in _OF_CARDS.items() if key in card}
        if not card:
            row |= {"synthetic rows": table.total, "rows listed": len(table.n)}
        rows[row["columns"]] = row
    for measure, value, word in _OF_BREAKDOWNS:
        for name, figure in _largest(result, measure, value).items():
            if name in rows:
                rows[name][word] = figure
    for column, figure in _largest(result, "univariate", "absolute_error", ("column",)).items():
        if column in rows:
            rows[column]["largest error of a count"] = figure
    return pd.DataFrame(list(rows.values()))


def _largest(
    result: Result, measure: str, value: str, keys: Sequence[str] = ("table", "columns")
) -> Mapping[str, float]:
    """Largest figure of each table in a breakdown."""
    score = result.scores.get(measure)
    if score is None or value not in score.breakdown.columns:
        return {}
    key = next((k for k in keys if k in score.breakdown.columns), None)
    if key is None:
        return {}
    largest = score.breakdown.groupby(key)[value].max()
    return {str(name): figure for name, figure in largest.items()}
