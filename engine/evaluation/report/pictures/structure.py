"""Pictures of several columns together: correlations, combinations, tables of each width, estimates.

Takes a `Result`; gives `Picture`s. CONFIDENTIAL: the original is in them.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from engine.evaluation.report.naming import Names
from engine.evaluation.report.pictures.drawing import (
    INK,
    WIDTH,
    canvas,
    compact,
    compact_axis,
    rows_canvas,
    short,
    svg_of,
)
from engine.evaluation.report.pictures.picture import NothingToDraw, Picture, needed, numbers
from engine.evaluation.result import Result

MOST_COLUMNS = 30
MOST_GROUPS = 24
MOST_ROWS = 20
Floats = NDArray[np.float64]


def correlation_gaps(result: Result, names: Names) -> list[Picture]:
    """How far the correlations of all pairs are off."""
    del names
    frame = needed(_breakdown(result, "correlations"), ["first", "second", "original", "synthetic"])
    columns = list(dict.fromkeys([*frame["first"], *frame["second"]]))[:MOST_COLUMNS]
    frame = frame[frame["first"].isin(columns) & frame["second"].isin(columns)]
    apart = numbers(frame["synthetic"]) - numbers(frame["original"])
    largest = float(np.nanmax(np.abs(apart), initial=0)) or 1.0
    at = [frame[c].map(columns.index).to_numpy() for c in ("first", "second")]
    table = frame[["first", "second", "original", "synthetic"]].assign(difference=apart)
    table = table.iloc[np.argsort(-np.nan_to_num(np.abs(apart)), kind="stable")]
    title = "Kendall's tau of all pairs: synthetic − original"
    words = f"Orange: too high, blue: too low; the full colour is ±{largest:.2g}."
    svg = svg_of(_tiles(columns, at, apart / largest), title)
    return [Picture(title=title, words=words, svg=svg, table=table)]


def _tiles(columns: Sequence[str], at: Sequence[Any], shown: Floats) -> Any:
    """A symmetric grid of tiles; colour says the sign, its strength the size."""
    from matplotlib.collections import PolyCollection
    from matplotlib.colors import to_rgba

    labels = [short(c, 14) for c in columns]
    side = 14 + 6.4 * max(map(len, labels), default=0)
    room = WIDTH - side - 8
    sheet, (axes,) = canvas(room + side + 8, left=side, right=8, top=8, bottom=side)
    x, y = np.concatenate([at[1], at[0]]), np.concatenate([at[0], at[1]])
    both = np.nan_to_num(np.concatenate([shown, shown])).clip(-1, 1)
    corners = np.array([[-0.47, -0.47], [0.47, -0.47], [0.47, 0.47], [-0.47, 0.47]])
    colours = np.where((both >= 0)[:, None], to_rgba(INK["more"], 1), to_rgba(INK["less"], 1))
    colours[:, 3] = 0.04 + 0.96 * np.abs(both)
    squares = np.column_stack([x, y])[:, None, :] + corners
    axes.add_collection(PolyCollection(squares, facecolors=colours, linewidths=0))
    size = 10.5 if len(columns) <= 22 else 8.5
    axes.set_xticks(range(len(labels)), labels, rotation=90, fontsize=size)
    axes.set_yticks(range(len(labels)), labels, fontsize=size)
    axes.set_xlim(-0.6, len(labels) - 0.4)
    axes.set_ylim(len(labels) - 0.4, -0.6)
    axes.spines["bottom"].set_visible(False)
    return sheet


def marginals_by_group(result: Result, names: Names) -> list[Picture]:
    """How near the combinations are in each group (place)."""
    score = result.scores.get("marginals")
    frame = needed(None if score is None else score.more.get("by_group"), ["distance"])
    group = [c for c in frame.columns if c not in ("distance", "n", "score")]
    ordered = frame.sort_values("distance", ascending=False, kind="stable")
    shown = ordered.iloc[:MOST_GROUPS]
    labels = [
        short(" · ".join(names.value(str(c), v) for c, v in zip(group, row, strict=True)))
        for row in shown[group].itertuples(index=False)
    ]
    title = "Combinations of columns by " + ", ".join(map(str, group))
    few = f" Of {len(ordered):,} groups the furthest." if len(shown) < len(ordered) else ""
    words = "Long bars: the tables are far from the original there." + few
    sheet, _ = bars(labels, shown["distance"], "mean distance as a share of its people")
    return [Picture(title=title, words=words, svg=svg_of(sheet, title), table=ordered)]


def tables_by_width(result: Result, names: Names) -> list[Picture]:
    """S_pMSE of tables, a strip a number of columns."""
    del names
    frame = needed(_breakdown(result, "tables"), ["width", "s_pmse"])
    with_figure = frame[np.isfinite(numbers(frame["s_pmse"]))]
    if with_figure.empty:
        raise NothingToDraw("no table has a figure")
    widths = sorted(with_figure["width"].unique())
    # A log scale ends above zero: a table that is met exactly is drawn at its left end.
    logs = np.log10(numbers(with_figure["s_pmse"]).clip(1e-3))
    edges = np.linspace(
        np.floor(logs.min()), max(np.ceil(logs.max()), np.floor(logs.min()) + 1), 41
    )
    sheet, panels = _stacked(len(widths))
    for axes, width in zip(panels, widths, strict=True):
        own = logs[(with_figure["width"] == width).to_numpy()]
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
    worst = with_figure.sort_values("s_pmse", ascending=False, kind="stable")
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


def estimate_overlaps(result: Result, names: Names) -> list[Picture]:
    """Overlap of the confidence intervals of declared estimates."""
    del names
    frame = needed(_breakdown(result, "estimates"), ["name", "overlap_signed"])
    with_overlap = frame[np.isfinite(numbers(frame["overlap_signed"]))]
    if with_overlap.empty:
        raise NothingToDraw("no estimate has an interval on both sides")
    worst = with_overlap.sort_values("overlap_signed", kind="stable").iloc[:MOST_ROWS]
    shown = numbers(worst["overlap_signed"]).clip(-1)
    labels = [short(v) for v in worst["name"]]
    sheet, axes = bars(labels, shown, "overlap of the confidence intervals")
    axes.axvline(0, color=INK["quiet"], linewidth=0.8)
    axes.set_xlim(min(float(shown.min()), 0) * 1.05, 1.02)
    title = "Estimates: overlap of the 95 % intervals"
    words = "1: the same interval; 0: they touch; below: apart (cut at −1)."
    return [Picture(title=title, words=words, svg=svg_of(sheet, title), table=with_overlap)]


def bars(labels: Sequence[str], lengths: Any, axis: str) -> tuple[Any, Any]:
    """Draw one bar a row."""
    sheet, axes = rows_canvas(labels)
    axes.barh(range(len(labels)), lengths, height=0.62, color=INK["synthetic"])
    compact_axis(axes.xaxis)
    axes.set_xlabel(axis)
    return sheet, axes


def _breakdown(result: Result, measure: str) -> pd.DataFrame | None:
    """The breakdown of a measure, if it ran."""
    score = result.scores.get(measure)
    return None if score is None else score.breakdown
