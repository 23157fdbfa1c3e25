"""A table as plain values for the page and for programs: matrices by row, NaN as null, keys as people read them."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from engine.schema import FloatArray
from queries.intervals import Tabulation
from queries.serve.tabulate import Answer, Keys, variables_of_answer
from queries.serve.values import BLANK_LABEL, Variable


def as_json(answer: Answer, variables: Mapping[str, Variable]) -> dict[str, Any]:
    """Return an answer as plain values: matrices by row, NaN as null."""
    question, cells = answer.question, answer.cells
    grouped = variables_of_answer(question, variables)
    labels = {c: {v.value: v.label for v in grouped[c].values} for c in question.columns}

    def head(columns: Sequence[str]) -> list[dict[str, str]]:
        return [{"name": c, "label": variables[c].label} for c in columns]

    return {
        "measure": cells.measure,
        "of": None if question.is_counted else question.of,
        "quantile": question.quantile if question.measure == "quantile" else None,
        "percent": question.percent,
        "rows": head(question.rows),
        "cols": head(question.cols),
        "row_heads": [_labels(key, question.rows, labels) for key in answer.rows],
        "col_heads": [_labels(key, question.cols, labels) for key in answer.cols],
        "cells": _figures(cells, [(*r, *c) for r in answer.rows for c in answer.cols]),
        "row_total": _figures(answer.row_total, answer.rows),
        "col_total": _figures(answer.col_total, answer.cols),
        "total": _figures(answer.total, ((),)),
        "table": list(cells.table),
        "words": cells.words,
    }


def _labels(key: tuple[Any, ...], columns: Sequence[str], labels: Mapping[str, Any]) -> list[str]:
    """What people read for a key; a band's key is its label."""
    return [
        labels[c].get(v, BLANK_LABEL if v is None else str(v))
        for c, v in zip(columns, key, strict=True)
    ]


def _figures(table: Tabulation | None, keys: Keys | list[Any]) -> dict[str, list[Any]] | None:
    """Figures in the order of some keys."""
    if table is None:
        return None
    place = {key: i for i, key in enumerate(table.keys)}
    order = [place[key] for key in keys]

    def plain(array: FloatArray) -> list[float | None]:
        values = array[order].tolist()
        return [round(v, 6) if math.isfinite(v) else None for v in values]

    return {
        "value": plain(table.value),
        "low": plain(table.low),
        "high": plain(table.high),
        "status": [table.status[i] for i in order],
    }
