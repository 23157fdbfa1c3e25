"""Pictures of counts: single columns, original beside synthetic, and how far counts are off against their size.

Takes a `Result`; gives `Picture`s. CONFIDENTIAL: the original is in them.
"""

from __future__ import annotations

from collections.abc import Iterable
from itertools import pairwise
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from engine.evaluation.data.aligned import counts, covering
from engine.evaluation.report.naming import Names
from engine.evaluation.report.pictures.drawing import (
    INK,
    canvas,
    compact,
    compact_axis,
    end_ticks,
    legend,
    rows_canvas,
    short,
    svg_of,
)
from engine.evaluation.report.pictures.picture import Picture, needed, numbers
from engine.evaluation.result import Result

MOST_COLUMNS = 12
MOST_ROWS = 16
"""Values of a column that get a row each; more are drawn side by side without names."""
MOST_TABLES = 120
MOST_POINTS = 1_500
BOTH = (("original", "original", "s"), ("synthetic", "synthetic", "s"))


def univariate_bars(result: Result, names: Names) -> Iterable[Picture]:
    """Counts of the columns that are furthest off, original beside synthetic."""
    score = result.scores.get("univariate")
    columns = ["column", "label", "original", "synthetic"]
    frame = needed(None if score is None else score.breakdown, columns)
    off = (frame["synthetic"] - frame["original"]).abs().groupby(frame["column"]).sum()
    share = off / frame.groupby("column")["original"].sum().clip(lower=1) / 2
    worst = share.sort_values(ascending=False, kind="stable").index[:MOST_COLUMNS]
    return (_one_column(names, str(c), frame[frame["column"] == c], float(share[c])) for c in worst)


def _one_column(names: Names, column: str, frame: pd.DataFrame, share: float) -> Picture:
    """Counts of one column."""
    labels = [short(names.value(column, label)) for label in frame["label"]]
    table = frame[["original", "synthetic"]].reset_index(drop=True)
    table.insert(0, "value", labels)
    title = f"{names.column(column)}: counts"
    draw = _rows if len(labels) <= MOST_ROWS else _silhouette
    return Picture(
        title=names.column(column),
        words=f"{share:.2%} of the rows would have to move for the two to be equal.",
        svg=svg_of(draw(table), title),
        table=table,
    )


def _rows(table: pd.DataFrame) -> Any:
    """Two bars a value."""
    sheet, axes = rows_canvas(list(table["value"]), top=30, step=24)
    at = np.arange(len(table))
    for side, shift in (("original", -0.19), ("synthetic", 0.19)):
        axes.barh(at + shift, table[side], height=0.36, color=INK[side], linewidth=0)
    compact_axis(axes.xaxis)
    axes.set_xlabel("rows")
    legend(sheet, BOTH)
    return sheet


def _silhouette(table: pd.DataFrame) -> Any:
    """The original as an area, the synthetic as a line over it: for columns of many values, in their order."""
    sheet, (axes,) = canvas(220, left=58, top=30, bottom=50)
    edges = np.arange(len(table) + 1) - 0.5
    axes.stairs(table["original"], edges, fill=True, color=INK["original"], alpha=0.55, linewidth=0)
    axes.stairs(table["synthetic"], edges, color=INK["synthetic"], linewidth=1.4, baseline=None)
    axes.set_ylim(bottom=0)
    axes.set_xlim(edges[0], edges[-1])
    axes.grid(axis="y")
    axes.set_ylabel("rows")
    compact_axis(axes.yaxis)
    at = [0, len(table) - 1]
    end_ticks(axes, at, [short(table["value"].iloc[i], 22) for i in at])
    axes.set_xlabel(f"{len(table):,} values in their order")
    legend(sheet, (("original", "original", "s"), ("synthetic", "synthetic", "-")))
    return sheet


def noise_against_count(result: Result, names: Names) -> list[Picture]:
    """How far released counts are off, against the counts themselves."""
    del names
    pictures = []
    for width in (1, 2):
        frame = needed(_cells(result, width), ["original", "off"])
        title = f"Counts of {width} column{'s' if width > 1 else ''}: error against count"
        sd = _stated_sd(result, width)
        off = numbers(frame["off"])
        stated = f"; the tables' cards state {sd:.2f} in the middle (band: ± 2 sd)" if sd else ""
        pictures.append(
            Picture(
                title=title,
                words=f"{len(frame):,} counts; standard deviation of the error "
                f"{float(np.sqrt((off**2).mean())):.2f} rows{stated}.",
                svg=svg_of(_noise(_sample(frame), sd), title),
                table=_by_size(frame),
            )
        )
    return pictures


def _cells(result: Result, width: int) -> pd.DataFrame | None:
    """Counts of the tables of a width; for one wide table those of its columns, or of some pairs."""
    aligned = result.aligned
    sets = [columns for columns in aligned.tables if len(columns) == width]
    if not sets:
        names = sorted(c for c in aligned.values if covering(aligned, [c]))
        sets = [(c,) for c in names] if width == 1 else list(pairwise(names))
    parts = []
    for columns in sets[:MOST_TABLES]:
        table = covering(aligned, columns)
        if table is None:
            continue
        both = counts(aligned, aligned.original, table, columns)
        parts.append(pd.DataFrame({"original": both.left, "off": both.right - both.left}))
    return pd.concat(parts, ignore_index=True) if parts else None


def _stated_sd(result: Result, width: int) -> float | None:
    """Standard deviation of the noise that the cards state."""
    stated = [
        float(card["noise_sd"])
        for columns, card in result.subject.cards.items()
        if len(columns) == width and "noise_sd" in card and not card.get("wide")
    ]
    return float(np.median(stated)) if stated else None


def _sample(frame: pd.DataFrame) -> pd.DataFrame:
    """Few enough points to draw, from all sizes: every so many in order of size, and the furthest off."""
    ordered = frame.sort_values(["original", "off"], kind="stable")
    every = ordered.iloc[:: max(len(ordered) // MOST_POINTS, 1)]
    furthest = ordered.iloc[np.argsort(-ordered["off"].abs().to_numpy(), kind="stable")[:60]]
    return pd.concat([every, furthest])


def _noise(frame: pd.DataFrame, sd: float | None) -> Any:
    """Error against count, counts on a log scale."""
    sheet, (axes,) = canvas(240, left=48, top=12, bottom=42)
    axes.axhline(0, color=INK["quiet"], linewidth=0.8)
    if sd:
        axes.axhspan(-2 * sd, 2 * sd, color=INK["third"], alpha=0.16, linewidth=0)
    dots(axes, np.log10(numbers(frame["original"]) + 1), numbers(frame["off"]), "synthetic", size=4)
    ends = np.arange(0, np.ceil(np.log10(frame["original"].max() + 1)) + 1)
    axes.set_xticks(np.log10(10**ends), [compact(10**e - 1 if e == 0 else 10**e) for e in ends])
    axes.set_xlim(-0.1, max(np.log10(frame["original"].max() + 1) * 1.03, 1))
    axes.grid(axis="y")
    compact_axis(axes.yaxis)
    axes.set_xlabel("count in the original (log scale)")
    axes.set_ylabel("synthetic − original")
    return sheet


def dots(
    axes: Any,
    x: NDArray[np.float64],
    y: NDArray[np.float64],
    colour: str,
    *,
    size: float = 3,
    alpha: float = 0.55,
) -> None:
    """Draw points as one path of round strokes: a tenth of the bytes of one element a point."""
    from matplotlib.patches import PathPatch
    from matplotlib.path import Path

    is_finite = np.isfinite(x) & np.isfinite(y)
    ends = np.column_stack([x[is_finite], y[is_finite]]).repeat(2, axis=0)
    if not len(ends):
        return
    path = Path(ends, np.tile([Path.MOVETO, Path.LINETO], len(ends) // 2))
    path.should_simplify = False
    axes.add_patch(
        PathPatch(
            path,
            facecolor="none",
            edgecolor=INK[colour],
            linewidth=size,
            alpha=alpha,
            capstyle="round",
        )
    )
    axes.update_datalim(ends)
    axes.autoscale_view()


def _by_size(frame: pd.DataFrame) -> pd.DataFrame:
    """Errors by size of the count."""
    edges = [-1, 0, 9, 99, 999, 9_999, np.inf]
    words = ["0", "1 to 9", "10 to 99", "100 to 999", "1,000 to 9,999", "10,000 and more"]
    size = pd.cut(frame["original"], edges, labels=words)
    off = frame["off"].astype("float64")
    errors = pd.DataFrame({"size": size, "square": off**2, "off": off, "exact": off == 0})
    grouped = errors.groupby("size", observed=True)
    out = grouped.agg(
        n=("off", "size"),
        mean_error=("off", "mean"),
        square=("square", "mean"),
        share_exact=("exact", "mean"),
    ).reset_index()
    out["sd"] = np.sqrt(out.pop("square"))
    return out.rename(columns={"size": "original count"})
