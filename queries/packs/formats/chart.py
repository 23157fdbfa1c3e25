"""A table as a bar chart with noise intervals, as self-contained SVG.

Takes a table; returns SVG, or nothing where a chart would not help. Bars of one row are grouped; a category has one
colour in all charts of a pack, shown in a legend. Colours come from the page's style sheet.
"""

from __future__ import annotations

import html
from collections.abc import Mapping

import numpy as np
import numpy.typing as npt

from queries.packs.model import NOT_RELEASED, STATUSES, PackTable
from queries.packs.texts import number_text

MAX_BARS = 60
IMPOSSIBLE = STATUSES.index("structural zero")
MAX_ROWS = 400
"""A table with more rows gets no chart."""
WIDTH, LABELS, BAR, GAP, APART = 640, 200, 16, 6, 12
SERIES = 8
"""Number of colours; a column with more categories is drawn in one colour."""
_LETTER, _LINE = 6.4, 20
"""Width of a letter of the legend, height of its lines."""


def chart(table: PackTable, language: int, words: Mapping[str, str]) -> str:
    """Return an SVG of a table's figures: one group of bars per row, one bar per column."""
    rows = _rows(table)
    if not 2 <= len(rows) <= MAX_BARS or np.nanmin(table.value[rows]) < 0:
        return ""
    colours = _colours(table)
    top = float(np.nanmax(np.fmax(table.high[rows], table.value[rows]))) or 1.0
    scale = (WIDTH - LABELS - 70) / top
    legend, y = _legend(table, rows, colours, language) if len(table.dimensions) > 1 else ([], 0)
    if len(table.dimensions) > 1 and not legend:
        colours = {}
    body: list[str] = []
    before = ""
    for row in rows.tolist():
        label = _label(table, row, language, is_short=bool(legend))
        if legend and label != before:
            y += APART if before else 0
        body += _bar(table, row, (y + GAP, scale), colours, words)
        if label != before or not legend:
            body.append(_text(LABELS - 6, y + GAP + BAR / 2 + 4, label, ' text-anchor="end"'))
        before, y = label, y + BAR + (GAP // 3 if legend else GAP)
    title = html.escape(table.titles[language])
    return "".join(
        [
            f'<svg class="chart" viewBox="0 0 {WIDTH} {y + GAP}" role="img" direction="ltr" aria-label="{title}">',
            f"<title>{title}</title>",
            *legend,
            *body,
            "</svg>",
        ]
    )


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


def _series(table: PackTable) -> int:
    """The dimension whose categories have colours: the last one across."""
    return table.heading[-1] if table.heading else len(table.dimensions) - 1


def _colours(table: PackTable) -> dict[int, int]:
    """The colour of each category of the coloured dimension, the same in every table; none where there are too many.

    Values and groups are counted separately: no chart shows both.
    """
    out: dict[int, int] = {}
    items = table.dimensions[_series(table)].items
    for kinds in (("value", "blank"), ("group",)):
        places = [p for p, item in enumerate(items) if item.kind in kinds]
        if len(places) <= SERIES:
            out |= {p: at for at, p in enumerate(places)}
    return out


def _legend(
    table: PackTable, rows: npt.NDArray[np.int64], colours: Mapping[int, int], language: int
) -> tuple[list[str], int]:
    """The legend and its height; nothing where categories have no colours."""
    at = _series(table)
    used = np.unique(table.index[rows, at]).tolist()
    if not all(place in colours for place in used):
        return [], 0
    out, x, y = [], float(GAP), GAP
    for place in used:
        label = _cut(table.dimensions[at].items[place].labels[language])
        width = BAR + GAP + _LETTER * len(label) + 2 * GAP
        if x > GAP and x + width > WIDTH:
            x, y = float(GAP), y + _LINE
        middle = (x + BAR / 2, y + BAR / 2 - 2)
        out.append(
            f'<circle class="s{colours[place]}" cx="{middle[0]:.1f}" cy="{middle[1]:.1f}" r="5"/>'
        )
        out.append(_text(x + BAR, y + BAR / 2 + 2, label))
        x += width
    return out, y + _LINE


def _label(table: PackTable, row: int, language: int, *, is_short: bool) -> str:
    """The label of a bar, without the coloured dimension where a legend shows it."""
    labels = [
        d.items[p].labels[language]
        for j, (d, p) in enumerate(zip(table.dimensions, table.index[row].tolist(), strict=True))
        if not (is_short and j == _series(table))
    ]
    return _cut(", ".join(labels))


def _cut(text: str) -> str:
    return text if len(text) <= 30 else text[:29] + "…"


def _text(x: float, y: float, text: str, more: str = "") -> str:
    return f'<text x="{x:.1f}" y="{y:.1f}"{more}>{html.escape(text)}</text>'


def _bar(
    table: PackTable,
    row: int,
    place: tuple[float, float],
    colours: Mapping[int, int],
    words: Mapping[str, str],
) -> list[str]:
    """One bar with its figure and interval."""
    (y, scale), (value, low, high) = (
        place,
        (float(a[row]) for a in (table.value, table.low, table.high)),
    )
    middle = y + BAR / 2
    series = colours.get(int(table.index[row, _series(table)]), 0)
    x, end = LABELS + value * scale, LABELS + max(high, value) * scale
    out = [
        f'<rect class="s{series}" x="{LABELS}" y="{y}" width="{max(x - LABELS, 0.5):.1f}" height="{BAR}"/>',
    ]
    if np.isfinite(low) and np.isfinite(high):
        start = LABELS + max(low, 0) * scale
        out.append(
            f'<path class="interval" d="M{start:.1f} {middle}H{end:.1f}M{start:.1f} {middle - 4}v8'
            f'M{end:.1f} {middle - 4}v8"/>'
        )
    end = end if np.isfinite(end) else x
    return [*out, _text(end + 6, middle + 4, number_text(value, table.decimals, words))]
