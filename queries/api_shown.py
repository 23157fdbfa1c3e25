"""An answer as plain values for the page and for programs: matrices by row, NaN as null, keys as people read them."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from engine.schema import FloatArray
from queries.api_tabulate import Answer, Keys, shown
from queries.api_values import BLANK_LABEL, Variable
from queries.estimates import Tabulation


def as_json(given: Answer, variables: Mapping[str, Variable]) -> dict[str, Any]:
    """Return an answer as plain values: matrices by row, NaN as null."""
    asked = given.asked
    at = {key: i for i, key in enumerate(given.cells.keys)}
    order = [at.get((*r, *c), -1) for r in given.rows for c in given.cols]
    read = shown(asked, variables)
    labels = {c: {v.value: v.label for v in read[c].values} for c in asked.columns}
    return {
        "measure": given.cells.measure,
        "of": None if asked.is_counted else asked.of,
        "quantile": asked.quantile if asked.measure == "quantile" else None,
        "percent": asked.percent,
        "rows": [{"name": c, "label": variables[c].label} for c in asked.rows],
        "cols": [{"name": c, "label": variables[c].label} for c in asked.cols],
        "row_heads": [_shown(key, asked.rows, labels) for key in given.rows],
        "col_heads": [_shown(key, asked.cols, labels) for key in given.cols],
        "cells": _figures(given.cells, order),
        "row_total": _side(given.row_total, given.rows),
        "col_total": _side(given.col_total, given.cols),
        "total": _side(given.total, ((),)),
        "table": list(given.cells.table),
        "words": given.cells.words,
    }


def _shown(key: tuple[Any, ...], columns: Sequence[str], labels: Mapping[str, Any]) -> list[str]:
    """What people read for a key; a band's key is its label."""
    return [
        labels[c].get(v, BLANK_LABEL if v is None else str(v))
        for c, v in zip(columns, key, strict=True)
    ]


def _side(given: Tabulation | None, keys: Keys) -> dict[str, Any] | None:
    """The figures of one margin, in the order of the table."""
    if given is None:
        return None
    at = {key: i for i, key in enumerate(given.keys)}
    return _figures(given, [at.get(key, -1) for key in keys])


def _figures(given: Tabulation, order: Sequence[int]) -> dict[str, list[Any]]:
    """Figures in an order; -1: a combination that the rules of the release leave out."""

    def plain(array: FloatArray) -> list[float | None]:
        values = [float(array[i]) if i >= 0 else math.nan for i in order]
        return [round(v, 6) if math.isfinite(v) else None for v in values]

    status = [given.status[i] if i >= 0 else "structural zero" for i in order]
    return {
        "value": plain(given.value),
        "low": plain(given.low),
        "high": plain(given.high),
        "status": status,
    }
