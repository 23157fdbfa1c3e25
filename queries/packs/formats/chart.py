"""A table as a picture: bars with their noise intervals, as SVG that needs nothing else.

Takes a table; gives SVG text, or nothing where a picture would not help. Colours come from the page's style sheet.
"""

from __future__ import annotations

import html

import numpy as np

from queries.packs.model import NOT_RELEASED, STATUSES, PackTable

MAX_BARS = 40
IMPOSSIBLE = STATUSES.index("structural zero")
MAX_ROWS = 400
"""A table with more rows is not looked at."""
WIDTH, LABELS, BAR, GAP = 640, 200, 16, 6
SERIES = 6


def chart(table: PackTable, language: int) -> str:
    """Return an SVG of a table's figures: one group of bars a row, one bar a column."""
    has_bar = (table.status != NOT_RELEASED) & (table.status != IMPOSSIBLE)
    rows = np.flatnonzero(has_bar & np.isfinite(table.value))
    if len(rows) > MAX_ROWS:
        return ""
    sums = [_sums(table, j) for j in range(len(table.dimensions))]
    is_part = [not any(p in s for p, s in zip(table.index[r], sums, strict=True)) for r in rows]
    rows = rows[np.array(is_part, dtype=bool)] if len(rows) else rows
    if not 2 <= len(rows) <= MAX_BARS or np.nanmin(table.value[rows]) < 0:
        return ""
    top = float(np.nanmax(np.fmax(table.high[rows], table.value[rows]))) or 1.0
    scale = (WIDTH - LABELS - 70) / top
    height = len(rows) * (BAR + GAP) + GAP
    title = html.escape(table.titles[language])
    parts = [
        f'<svg class="chart" viewBox="0 0 {WIDTH} {height}" role="img" aria-label="{title}">',
        f"<title>{title}</title>",
    ]
    for k, row in enumerate(rows.tolist()):
        parts += _bar(table, row, GAP + k * (BAR + GAP), scale, language)
    return "".join([*parts, "</svg>"])


def _sums(table: PackTable, place: int) -> set[int]:
    """Places of totals, and of groups where what is in them is figure too: bars of both would mislead."""
    items = table.dimensions[place].items
    used = {int(p) for p in table.used[place]}
    has_values = any(items[p].kind == "value" for p in used)
    around = {items[p].parent for p in used}
    return {
        p
        for p in used
        if items[p].kind == "total" or (items[p].kind == "group" and (has_values or p in around))
    }


def _bar(table: PackTable, row: int, y: int, scale: float, language: int) -> list[str]:
    """One bar with its label, figure and interval."""
    labels = [
        d.items[p].labels[language]
        for d, p in zip(table.dimensions, table.index[row].tolist(), strict=True)
    ]
    text = ", ".join(labels)
    text = text if len(text) <= 30 else text[:29] + "…"
    value, low, high = (float(a[row]) for a in (table.value, table.low, table.high))
    middle, last = y + BAR / 2, table.heading[-1] if table.heading else len(table.dimensions) - 1
    series = int(table.index[row, last]) % SERIES if len(table.dimensions) > 1 else 0
    x, end = LABELS + value * scale, LABELS + max(high, value) * scale
    figure = f"{value:,.{table.decimals}f}"
    out = [
        f'<text x="{LABELS - 6}" y="{middle + 4:.1f}" text-anchor="end">{html.escape(text)}</text>',
        f'<rect class="s{series}" x="{LABELS}" y="{y}" width="{max(x - LABELS, 0.5):.1f}" height="{BAR}"/>',
    ]
    if np.isfinite(low) and np.isfinite(high):
        start = LABELS + max(low, 0) * scale
        out.append(
            f'<path class="interval" d="M{start:.1f} {middle}H{end:.1f}M{start:.1f} {middle - 4}v8'
            f'M{end:.1f} {middle - 4}v8"/>'
        )
    out.append(f'<text x="{end + 6:.1f}" y="{middle + 4:.1f}">{figure}</text>')
    return out
