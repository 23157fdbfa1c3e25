"""Figures in JSON-stat 2.0, and numbers as the other formats of statistical offices write them.

Takes a pack and one of its tables; gives texts. JSON-stat needs a full cube, which listed tables are not. Interval ends
travel with the figures, as a dimension of three codes (value, low, high).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from engine.schema import FloatArray
from engine.store_catalog import unused_name
from queries.packs.flat import significant
from queries.packs.metadata import as_json
from queries.packs.model import STATUSES, Pack, PackTable

FIGURES = ("value", "low", "high")


def number_texts(figures: FloatArray, is_whole: bool) -> list[str]:
    """Return figures as text; empty where there is none."""
    is_known = np.isfinite(figures)
    shown = np.where(is_known, figures, 0)
    listed: list[Any] = (
        np.rint(shown).astype(np.int64) if is_whole else significant(shown)
    ).tolist()
    return [plain_number(v) if k else "" for v, k in zip(listed, is_known.tolist(), strict=True)]


def plain_number(number: float) -> str:
    """Return a number without an exponent: PC-Axis has none."""
    if isinstance(number, int):
        return str(number)
    return str(np.format_float_positional(number, trim="0"))


def _cube(table: PackTable) -> tuple[FloatArray, list[str]]:
    """Values, lows and highs with the figure as last axis, flat; and statuses, once a figure."""
    stacked = np.stack([table.value, table.low, table.high], axis=1).ravel()
    status = [STATUSES[s] for s in table.status.tolist()]
    return stacked, status


def jsonstat(table: PackTable, pack: Pack, language: int) -> str:
    """Return a table as JSON-stat 2.0, labels in one language.

    Parameters
    ----------
    table : PackTable
        A full cube.
    pack : Pack
    language : int
        Place among the pack's languages.
    """
    figure = unused_name("figure", [d.name for d in table.dimensions])
    dimension: dict[str, Any] = {}
    for d, used in zip(table.dimensions, table.used, strict=True):
        items = [d.items[i] for i in used]
        category: dict[str, Any] = {
            "index": [it.code for it in items],
            "label": {it.code: it.labels[language] for it in items},
        }
        child = _children(d, used.tolist())
        if child:
            category["child"] = child
        dimension[d.name] = {"label": d.labels[language], "category": category}
    labels = {f: pack.words[f][language] for f in FIGURES}
    unit = {f: {"label": table.units[language]} for f in FIGURES}
    category = {"index": list(FIGURES), "label": labels, "unit": unit}
    dimension[figure] = {"label": pack.words["figure"][language], "category": category}
    stacked, status = _cube(table)
    is_known = np.isfinite(stacked)
    shown = np.where(is_known, stacked, 0)
    listed = (np.rint(shown).astype(np.int64) if table.is_whole else significant(shown)).tolist()
    out: dict[str, Any] = {
        "version": "2.0",
        "class": "dataset",
        "label": table.titles[language],
        "source": pack.info.publisher or pack.release["title"],
        "id": [*(d.name for d in table.dimensions), figure],
        "size": [*table.shape, len(FIGURES)],
        "role": {"metric": [figure]},
        "dimension": dimension,
        "value": [v if k else None for v, k in zip(listed, is_known.tolist(), strict=True)],
        "status": [s for s in status for _ in FIGURES],
        "note": [table.words, *(note[language] for note in table.footnotes)],
        "extension": {
            "status": {s: pack.words[f"about {s}"][language] for s in STATUSES},
        },
    }
    if pack.info.issued:
        out["updated"] = pack.info.issued.isoformat()
    return as_json(out, compact=True)


def _children(dimension: Any, used: Sequence[int]) -> dict[str, list[str]]:
    """Codes that hold others, with those."""
    shown = {int(i) for i in used}
    out: dict[str, list[str]] = {}
    for i in sorted(shown):
        item = dimension.items[i]
        if item.parent in shown:
            out.setdefault(dimension.items[item.parent].code, []).append(item.code)
    return out
