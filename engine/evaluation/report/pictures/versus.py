"""The picture that holds several subjects against the first: improvement factors on a log scale.

Takes `Improvement`s; gives a `Picture` and a table.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import isfinite

import numpy as np
import pandas as pd

from engine.evaluation.report.improvement import Improvement
from engine.evaluation.report.pictures.drawing import (
    INK,
    MARKS,
    compact,
    legend,
    rows_canvas,
    short,
    svg_of,
)
from engine.evaluation.report.pictures.picture import Picture

COLOURS = ("synthetic", "more", "third", "fourth", "less", "original")
TITLE = "Improvement factors of the first"
WORDS = (
    "Right of the line at 1 the first is nearer to perfect, left of it the other one. Rows by number of columns "
    "looked at, which stands before each. Marks at the ends: one of the two is perfect."
)


def improvement_picture(factors: Sequence[Improvement]) -> Picture:
    """Draw improvement factors: one row a headline figure by number of columns, one mark a subject."""
    shown = _drawn(factors)
    if not shown:
        return Picture(title=TITLE, why_not="no two subjects have a figure in common")
    rows = {one.other.figure.name: one.other for one in shown}
    labels = [
        short(f"{line.figure.columns} · {line.title}" if line.figure.columns else line.title, 40)
        for line in rows.values()
    ]
    others = list(dict.fromkeys(one.other.subject for one in shown))
    sheet, axes = rows_canvas(labels, top=14 + 17 * -(-len(others) // 2), step=24, width=540)
    finite = [1.0, *(one.place for one in shown if one.place and isfinite(one.place))]
    low, high = min(finite) / 1.6, max(finite) * 1.6
    axes.set_xscale("log")
    axes.set_xlim(low / 1.1, high * 1.1)
    axes.axvline(1, color=INK["ink"], linewidth=1.3)
    entries = []
    for k, other in enumerate(others):
        own = [one for one in shown if one.other.subject == other]
        at = [list(rows).index(one.other.figure.name) for one in own]
        colour, mark = COLOURS[k % len(COLOURS)], MARKS[k % len(MARKS)]
        places = np.clip([one.place for one in own], low, high)
        axes.plot(places, at, mark, color=INK[colour], markersize=8, alpha=0.85)
        entries.append((short(other), colour, mark))
    axes.xaxis.set_major_formatter(lambda value, _: compact(value))
    axes.xaxis.set_minor_formatter("")
    axes.set_xlabel("times nearer to perfect (log scale)")
    legend(sheet, entries, n_columns=2)
    svg, table = svg_of(sheet, TITLE), improvement_table(factors)
    return Picture(title=TITLE, words=WORDS, svg=svg, table=table, is_wide=True)


def _drawn(factors: Sequence[Improvement]) -> list[Improvement]:
    """Factors of headline figures of utility; one figure a measure and number of columns: others say the same again."""
    usable = [one for one in factors if not one.other.is_risk and not one.why_not]
    shown = [one for one in usable if one.other.figure.is_headline] or usable
    firsts: dict[tuple[str, str], str] = {}
    for one in shown:
        firsts.setdefault((one.other.measure, one.other.figure.columns), one.other.figure.name)
    return [one for one in shown if one.other.figure.name in firsts.values()]


def improvement_table(factors: Sequence[Improvement]) -> pd.DataFrame:
    """Return factors as a table: one row a figure, one column a subject."""
    if not factors:
        return pd.DataFrame()
    rows: dict[str, dict[str, str]] = {}
    for one in sorted(factors, key=lambda one: not one.other.figure.is_headline):
        figure = one.other.figure
        row = rows.setdefault(figure.name, {"figure": one.other.title, "columns": figure.columns})
        row[one.other.subject] = one.text
    return pd.DataFrame(list(rows.values())).fillna("–")
