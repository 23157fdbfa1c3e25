"""A table as a bar chart with noise intervals, as self-contained SVG.

Takes a table; returns SVG, or nothing where a chart would not help. Bars of one row are grouped; a category has one
colour in all charts of a pack, shown in a legend. Colours come from the page's style sheet.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from itertools import pairwise

import numpy as np
import numpy.typing as npt

from engine import charts
from queries.packs.model import NOT_RELEASED, STATUSES, PackTable
from queries.packs.texts import number_text

MAX_BARS = 60
IMPOSSIBLE = STATUSES.index("structural zero")
MAX_ROWS = 400
"""A table with more rows gets no chart."""
SERIES = 8
"""Number of colours; a column with more categories is drawn in one colour."""
LONGEST = 30
"""Characters of a label."""


def chart(table: PackTable, language: int, words: Mapping[str, str]) -> str:
    """Return an SVG of a table's figures: one group of bars per row, one bar per column."""
    rows = _rows(table)
    if not 2 <= len(rows) <= MAX_BARS:
        return ""
    value, low, high = table.value[rows], table.low[rows], table.high[rows]
    # Categories of the last dimension across have colours, if there are enough.
    last = table.heading[-1] if table.heading else len(table.dimensions) - 1
    places, colours = table.index[rows, last].tolist(), _colours(table, last)
    has_colours = colours.keys() >= set(places)
    inks = np.array([colours[p] if has_colours else "s0" for p in places])
    rest = list(range(len(table.dimensions)))
    legend: list[charts.Entry] = []
    if has_colours and len(rest) > 1:
        rest.remove(last)
        named = table.dimensions[last].items
        legend = [
            (charts.short(named[p].labels[language], LONGEST), colours[p], "o")
            for p in sorted(set(places))
        ]
    labels = [
        ", ".join(table.dimensions[j].items[table.index[row, j]].labels[language] for j in rest)
        for row in rows.tolist()
    ]
    # The first bar of a group has its label, and more room above it.
    is_first = [not legend or a != b for a, b in pairwise([None, *labels])]
    at = 1.4 - np.cumsum(np.where(is_first, 1.4, 1))
    x = charts.scale([value, low, high], zero=True, room=0.2)
    shown = [tick for tick, _ in x.labelled() if abs(tick - round(tick, table.decimals)) < 1e-9]
    base = shown.index(0.0) if 0.0 in shown else 0
    ticks = [(tick, number_text(tick, table.decimals, words)) for tick in shown[base % 2 :: 2]]
    out = charts.rows(
        table.titles[language],
        [charts.short(label, LONGEST) * b for label, b in zip(labels, is_first, strict=True)],
        replace(x, ticks=ticks, name=table.units[language]),
        at=at.tolist(),
        step=17,
        width=charts.WIDE,
        legend=legend,
    )
    for ink in np.unique(inks).tolist():
        own = inks == ink
        out.boxes(np.zeros(own.sum()), at[own] + 0.44, value[own], at[own] - 0.44, ink)
    begin = np.r_[low, low, high], np.r_[at, at - 0.25, at - 0.25]
    end = np.r_[high, low, high], np.r_[at, at + 0.25, at + 0.25]
    out.segments(begin, end, "ink", stroke=1.2)
    figures = [number_text(figure, table.decimals, words) for figure in value.tolist()]
    out.write(figures, np.fmax(np.where(np.isfinite(high), np.fmax(high, value), value), 0), at)
    return out.svg()


def _rows(table: PackTable) -> npt.NDArray[np.int64]:
    """Rows that get a bar: released figures that are not sums of others."""
    has_bar = (table.status != NOT_RELEASED) & (table.status != IMPOSSIBLE)
    rows = np.flatnonzero(has_bar & np.isfinite(table.value))
    if len(rows) > MAX_ROWS or not len(rows):
        return rows[:0]
    sums = [_sums(table, j) for j in range(len(table.dimensions))]
    is_part = [not any(p in s for p, s in zip(table.index[r], sums, strict=True)) for r in rows]
    parts: npt.NDArray[np.int64] = rows[np.array(is_part, dtype=bool)]
    return parts


def _sums(table: PackTable, place: int) -> set[int]:
    """Positions of totals, and of groups whose parts are shown too: bars of both would mislead."""
    items = table.dimensions[place].items
    used = {int(p) for p in table.used[place]}
    has_values = any(items[p].kind == "value" for p in used)
    around = {items[p].parent for p in used}
    return {
        p
        for p in used
        if items[p].kind == "total" or (items[p].kind == "group" and (has_values or p in around))
    }


def _colours(table: PackTable, place: int) -> dict[int, str]:
    """The colour of each category of a dimension, the same in every table; none where there are too many.

    Values and groups are counted separately: no chart shows both.
    """
    out: dict[int, str] = {}
    items = table.dimensions[place].items
    for kinds in (("value", "blank"), ("group",)):
        places = [p for p, item in enumerate(items) if item.kind in kinds]
        if len(places) <= SERIES:
            out |= {p: f"s{at}" for at, p in enumerate(places)}
    return out
