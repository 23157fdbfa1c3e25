"""Pictures of what analysts would do: tables of several columns, group gaps, learners, estimates.

Takes a `Result`; gives `Picture`s. CONFIDENTIAL: the original is in them.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd

from engine.evaluation import Result
from engine.report.drawing import (
    INK,
    LONGEST,
    WIDTH,
    canvas,
    compact,
    compact_axis,
    legend,
    rows_canvas,
    short,
    svg_of,
)
from engine.report.naming import Names
from engine.report.picture import NothingToDraw, Picture, either, needed, numbers
from engine.report.pictures_structure import breakdown

MOST_ROWS = 20


def tables_by_width(result: Result, names: Names) -> list[Picture]:
    """S_pMSE of tables, a strip a number of columns."""
    del names
    frame = needed(breakdown(result, "tables"), ["width", "s_pmse"])
    kept = frame[np.isfinite(numbers(frame["s_pmse"]))]
    if kept.empty:
        raise NothingToDraw("no table has a figure")
    widths = sorted(kept["width"].unique())
    # A log scale ends above nought: a table that is met exactly is drawn at its left end.
    told = np.log10(numbers(kept["s_pmse"]).clip(1e-3))
    edges = np.linspace(
        np.floor(told.min()), max(np.ceil(told.max()), np.floor(told.min()) + 1), 41
    )
    sheet, panels = _stacked(len(widths))
    for axes, width in zip(panels, widths, strict=True):
        own = told[(kept["width"] == width).to_numpy()]
        n, _ = np.histogram(own, edges)
        axes.stairs(n, edges, fill=True, color=INK["synthetic"], linewidth=0)
        axes.axvline(np.median(own), color=INK["ink"], linewidth=1.4)
        for bound in (3, 10):
            axes.axvline(np.log10(bound), color=INK["more"], linewidth=1, linestyle=(0, (3, 3)))
        plural = "s" if width > 1 else ""
        axes.set_title(
            f"{width} column{plural}: {len(own):,} tables",
            fontsize=11,
            loc="left",
            color=INK["ink"],
            pad=3,
        )
        axes.set_xlim(edges[0], edges[-1])
        axes.set_yticks([])
        axes.set_xticks([])
    ends = np.arange(edges[0], edges[-1] + 1)
    panels[-1].set_xticks(ends, [compact(10.0**e) for e in ends])
    panels[-1].set_xlabel("S_pMSE (log scale)")
    title = "Every table: S_pMSE by number of columns"
    words = (
        "How many tables have which figure; full line: the median; dashed: 3 (good up to here) and 10 "
        "(poor beyond). 1 is what chance alone gives."
    )
    worst = kept.sort_values("s_pmse", ascending=False, kind="stable")
    return [Picture(title=title, words=words, svg=svg_of(sheet, title), table=worst)]


def _stacked(n: int) -> tuple[Any, list[Any]]:
    """Axes below each other."""
    height = 44 + 66 * n
    sheet, (first,) = canvas(height, left=12)
    first.remove()
    axes = [
        sheet.add_axes((12 / WIDTH, (44 + 66 * (n - 1 - i)) / height, 1 - 24 / WIDTH, 44 / height))
        for i in range(n)
    ]
    return sheet, axes


def group_gaps(result: Result, names: Names) -> list[Picture]:
    """Gap of two groups in each cell, original and synthetic; a picture a declared gap."""
    frame = needed(breakdown(result, "gaps"), ["original", "synthetic"])
    is_full = np.isfinite(frame[["original", "synthetic"]].to_numpy(float)).all(axis=1)
    kept = frame.loc[is_full]
    if kept.empty:
        raise NothingToDraw("no cell has members of both groups")
    by, cell = either(kept, "gap", "group"), either(kept, "cell", "by")
    return [_gap(str(name), own, cell, names) for name, own in kept.groupby(by, sort=False)]


def _gap(name: str, frame: pd.DataFrame, cell: str, names: Names) -> Picture:
    """One declared gap: the cells that are furthest off, in the order of the original's gap."""
    off = np.abs(numbers(frame["synthetic"]) - numbers(frame["original"]))
    worst = frame.iloc[np.argsort(-off, kind="stable")[:MOST_ROWS]]
    worst = worst.iloc[np.argsort(-numbers(worst["original"]), kind="stable")]
    title = f"Gap: {name}"
    sheet = dumbbells(
        [_cell_label(name, str(c), names) for c in worst[cell]],
        worst,
        "difference of the two groups' shares",
    )
    more = f" The {len(worst)} furthest off of {len(frame):,}." if len(worst) < len(frame) else ""
    words = "Each row is a cell; where the dots lie on each other, the gap is told right." + more
    return Picture(title=title, words=words, svg=svg_of(sheet, title), table=frame)


def _cell_label(gap: str, cell: str, names: Names) -> str:
    """What a cell of a gap ("sex by job, age") is called: its values with their labels, as long as they fit."""
    columns, values = gap.partition(" by ")[2].split(", "), cell.split(" · ")
    if len(columns) != len(values):
        return short(cell)
    told = [names.value(column, value) for column, value in zip(columns, values, strict=True)]
    return " · ".join(short(text, LONGEST // len(told)) for text in told)


def dumbbells(labels: list[str], frame: pd.DataFrame, axis: str) -> Any:
    """Two dots a row, joined: original and synthetic."""
    sheet, axes = rows_canvas(labels, top=30, step=20)
    at = np.arange(len(frame))
    axes.hlines(at, frame["original"], frame["synthetic"], color=INK["rule"], linewidth=3)
    if frame["original"].min() < 0 < frame["original"].max():
        axes.axvline(0, color=INK["quiet"], linewidth=0.8)
    axes.plot(frame["original"], at, "o", color=INK["original"], markersize=8)
    axes.plot(frame["synthetic"], at, "o", color=INK["synthetic"], markersize=5)
    compact_axis(axes.xaxis)
    axes.set_xlabel(axis)
    legend(sheet, (("original", "original", "o"), ("synthetic", "synthetic", "o")))
    return sheet


def learners(result: Result, names: Names) -> list[Picture]:
    """Accuracy on real rows of learners that learned from synthetic ones, and from real ones."""
    del names
    frame = needed(
        breakdown(result, "learning"), ["task", "learner", "trained_on", "accuracy", "guess"]
    )
    sides = frame.pivot_table(
        index=["task", "learner"], columns="trained_on", values="accuracy", sort=False
    )
    shown = needed(sides, ["original", "synthetic"]).iloc[:MOST_ROWS]
    guess = frame.groupby(["task", "learner"], sort=False)["guess"].mean().loc[shown.index]
    labels = [short(f"{learner}: {task}") for task, learner in shown.index]
    sheet, axes = rows_canvas(labels, top=30, step=26)
    at = np.arange(len(shown))
    axes.plot(guess, at, "|", color=INK["quiet"], markersize=14, markeredgewidth=2)
    axes.hlines(at, shown["original"], shown["synthetic"], color=INK["rule"], linewidth=3)
    axes.plot(shown["original"], at, "o", color=INK["original"], markersize=8)
    axes.plot(shown["synthetic"], at, "o", color=INK["synthetic"], markersize=5)
    axes.set_xlabel("accuracy on rows of the original")
    compact_axis(axes.xaxis)
    legend(
        sheet,
        (
            ("learned from original", "original", "o"),
            ("from synthetic", "synthetic", "o"),
            ("guess", "quiet", "|"),
        ),
    )
    title = "Learners: trained here, tested on the original"
    words = "The nearer the two dots, the more a model learned here is worth on real people."
    return [Picture(title=title, words=words, svg=svg_of(sheet, title), table=frame)]


def estimate_intervals(result: Result, names: Names) -> list[Picture]:
    """Overlap of the confidence intervals of declared estimates."""
    del names
    frame = needed(breakdown(result, "estimates"), ["name"])
    name, overlap = "name", either(frame, "overlap_signed", "overlap")
    kept = frame[np.isfinite(numbers(frame[overlap]))]
    if kept.empty:
        raise NothingToDraw("no estimate has an interval on both sides")
    worst = kept.sort_values(overlap, kind="stable").iloc[:MOST_ROWS]
    sheet, axes = rows_canvas([short(v) for v in worst[name]])
    shown = numbers(worst[overlap]).clip(-1)
    axes.barh(range(len(worst)), shown, height=0.62, color=INK["synthetic"])
    axes.axvline(0, color=INK["quiet"], linewidth=0.8)
    axes.set_xlim(min(float(shown.min()), 0) * 1.05, 1.02)
    compact_axis(axes.xaxis)
    axes.set_xlabel("overlap of the confidence intervals")
    title = "Estimates: overlap of the 95 % intervals"
    words = "1: the same interval; 0: they touch; below: apart (cut at −1)."
    return [Picture(title=title, words=words, svg=svg_of(sheet, title), table=kept)]
