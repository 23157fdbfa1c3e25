"""Pictures of what columns have to do with each other: correlations, combinations, components, regressions.

Takes a `Result`; gives `Picture`s. CONFIDENTIAL: the original is in them.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from itertools import combinations
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from engine.evaluation import Result
from engine.report.drawing import (
    INK,
    WIDTH,
    canvas,
    compact_axis,
    legend,
    rows_canvas,
    short,
    svg_of,
)
from engine.report.naming import Names
from engine.report.picture import NothingToDraw, Picture, either, needed, numbers
from engine.report.pictures_columns import dots
from engine.score import Score

MOST_COLUMNS = 30
MOST_GROUPS = 24
MOST_LINES = 12
MOST_PANELS = 10
Floats = NDArray[np.float64]


def breakdown(result: Result, measure: str) -> pd.DataFrame | None:
    """Return the breakdown of a measure, if it ran."""
    score = result.scores.get(measure)
    return None if score is None else score.breakdown


def further(score: Score | None, *names: str) -> pd.DataFrame | None:
    """Return the first of some further tables of a score that it has."""
    found = [score.more[name] for name in names if score is not None and name in score.more]
    return found[0] if found else None


def heat_maps(result: Result, names: Names) -> list[Picture]:
    """Correlations of all pairs: original, synthetic, and their difference."""
    del names
    frame = needed(breakdown(result, "correlations"), ["first", "second"])
    sides = [
        numbers(frame[either(frame, side, f"kendall_{side}", f"{side}_kendall")])
        for side in ("original", "synthetic")
    ]
    columns = list(dict.fromkeys([*frame["first"], *frame["second"]]))[:MOST_COLUMNS]
    place = {name: i for i, name in enumerate(columns)}
    kept = frame["first"].isin(columns).to_numpy() & frame["second"].isin(columns).to_numpy()
    at = [frame.loc[kept, c].map(place).to_numpy() for c in ("first", "second")]
    apart = sides[1][kept] - sides[0][kept]
    largest = float(np.nanmax(np.abs(apart), initial=0))
    told = frame.loc[kept, ["first", "second"]].assign(
        original=sides[0][kept], synthetic=sides[1][kept], difference=apart
    )
    told = told.iloc[np.argsort(-np.nan_to_num(np.abs(apart)), kind="stable")]
    panels = (
        ("original", sides[0][kept], 1.0),
        ("synthetic", sides[1][kept], 1.0),
        ("difference", apart, largest or 1.0),
    )
    return [
        Picture(
            title=f"Kendall's tau: {name}",
            words=f"Orange: positive, blue: negative; the full colour is ±{full:.2g}."
            if name != "difference"
            else f"Synthetic − original; the full colour is ±{full:.2g}.",
            svg=svg_of(_tiles(columns, at, shown / full), f"Kendall's tau of all pairs: {name}"),
            table=told if name == "difference" else pd.DataFrame(),
        )
        for name, shown, full in panels
    ]


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
    frame = needed(further(result.scores.get("marginals"), "by_group"), [])
    distance = either(frame, "distance", "mean_distance", "mean")
    group = [c for c in frame.columns if c not in (distance, "n", "score", "distance_unbinned")]
    if not group:
        raise NothingToDraw("the study names no column that combinations are grouped by")
    ordered = frame.sort_values(distance, ascending=False, kind="stable")
    shown = (
        ordered
        if len(ordered) <= MOST_GROUPS
        else pd.concat([ordered.iloc[: MOST_GROUPS // 2], ordered.iloc[-MOST_GROUPS // 2 :]])
    )
    labels = [
        short(" · ".join(names.value(str(c), v) for c, v in zip(group, row, strict=True)))
        for row in shown[group].itertuples(index=False)
    ]
    sheet, axes = rows_canvas(labels)
    axes.barh(range(len(labels)), shown[distance], height=0.62, color=INK["synthetic"])
    compact_axis(axes.xaxis)
    axes.set_xlabel("mean distance as a share of its people")
    title = "Combinations of columns by " + ", ".join(map(str, group))
    few = len(shown) < len(ordered)
    rest = (
        f" Of {len(ordered):,} groups the furthest and the nearest {MOST_GROUPS // 2}."
        if few
        else ""
    )
    words = "Long bars: the tables are far from the original there." + rest
    return [Picture(title=title, words=words, svg=svg_of(sheet, title), table=ordered)]


def sampling_equivalent(result: Result, names: Names) -> list[Picture]:
    """Which sample of the original is as good."""
    del names
    score = result.scores.get("marginals")
    frame = needed(further(score, "shares"), [])
    share, by = either(frame, "share", "percent"), either(frame, "score", "value")
    sheet, (axes,) = canvas(210, left=56, top=14)
    axes.plot(frame[share], frame[by], color=INK["original"], marker="o", markersize=5, linewidth=2)
    own = None if score is None else score.values.get("score")
    if own is not None and np.isfinite(own):
        axes.axhline(own, color=INK["synthetic"], linewidth=2)
        axes.annotate(
            f"this one: {own:,.0f}",
            (1, own),
            xycoords=("axes fraction", "data"),
            xytext=(0, -4),
            textcoords="offset points",
            ha="right",
            va="top",
            color=INK["ink"],
        )
    axes.grid(axis="y")
    compact_axis(axes.yaxis)
    axes.set_xlabel("sample of the original, %")
    axes.set_ylabel("k-marginal score")
    title = "Which sample of the original is as good?"
    words = "k-marginal score of samples of the original (dots), and of this one (line); 1000 is perfect."
    return [Picture(title=title, words=words, svg=svg_of(sheet, title), table=frame)]


def component_pairs(result: Result, names: Names) -> Iterable[Picture]:
    """Original and synthetic rows on the principal components of the original, side by side."""
    del names
    frame = needed(further(result.scores.get("components"), "points"), [])
    side = either(frame, "side", "source", "table")
    axes_of = [c for c in frame.columns if pd.api.types.is_float_dtype(frame[c])]
    if len(axes_of) < 2:
        raise NothingToDraw("there is only one component")
    is_marked = (
        frame["highlight"].to_numpy(bool) if "highlight" in frame else np.zeros(len(frame), bool)
    )
    pairs = list(combinations(axes_of, 2))[:MOST_PANELS]
    most = 1_000 if len(pairs) == 1 else 500
    return (_pair(frame, side, pair, is_marked, most) for pair in pairs)


def _pair(
    frame: pd.DataFrame, side: str, pair: Sequence[str], is_marked: Any, most: int
) -> Picture:
    """Two panels of one pair of components."""
    sheet, panels = canvas(222, left=34, top=26, bottom=36, n=2, gap=10)
    wide = [numbers(frame[c]) for c in pair]
    limits = [(float(np.nanmin(v)), float(np.nanmax(v))) for v in wide]
    for axes, name in zip(panels, ("original", "synthetic"), strict=True):
        of = np.flatnonzero(frame[side].astype(str).to_numpy() == name)
        of = of[:: -(-len(of) // most) or 1]
        for chosen, colour in ((~is_marked, name), (is_marked, "more")):
            kept = of[chosen[of]]
            dots(axes, wide[0][kept], wide[1][kept], colour, size=2.6, alpha=0.5)
        for low_high, axis in zip(limits, ("x", "y"), strict=True):
            room = 0.04 * (low_high[1] - low_high[0]) or 1
            getattr(axes, f"set_{axis}lim")(low_high[0] - room, low_high[1] + room)
        axes.set_title(name, fontsize=11, color=INK["ink"], loc="left", pad=6)
        axes.spines["left"].set_visible(True)
        compact_axis(axes.xaxis)
        compact_axis(axes.yaxis)
        axes.set_xlabel(plainly(pair[0]))
    panels[0].set_ylabel(plainly(pair[1]), labelpad=2)
    panels[1].set_yticklabels([])
    title = " and ".join(map(plainly, pair)).capitalize()
    marked = " Orange: rows whose marked column is blank." if is_marked.any() else ""
    words = "Each dot is a row of a sample; the two clouds should have one shape." + marked
    return Picture(
        title=title, words=words, svg=svg_of(sheet, title), table=_quartiles(frame, side, pair)
    )


def _quartiles(frame: pd.DataFrame, side: str, pair: Sequence[str]) -> pd.DataFrame:
    """Where the rows of each side lie on a pair of components."""
    told = frame.groupby(side, sort=False)[list(pair)].quantile(np.linspace(0, 1, 5))
    return told.rename_axis([side, "quantile"]).reset_index()


def plainly(name: object) -> str:
    """Return the name of a component for people."""
    return re.sub(r"^c(?=\d+$)", "component ", str(name))


def regression_lines(result: Result, names: Names) -> Iterable[Picture]:
    """Lines of least squares, a picture a group, all on one scale."""
    ends = [f"{side}_{end}" for side in ("original", "synthetic") for end in ("low", "high")]
    frame = needed(
        further(result.scores.get("regression"), "lines"), ["group", "x_low", "x_high", *ends]
    )
    heights = frame[ends].to_numpy(float)
    kept = frame.loc[np.isfinite(heights).all(axis=1)]
    if kept.empty:
        raise NothingToDraw("no group has a line on both sides")
    low, high = float(np.nanmin(heights)), float(np.nanmax(heights))
    room = 0.06 * (high - low) or 1.0
    slopes = breakdown(result, "regression")
    return (
        _line(line, (low - room, high + room), _slopes(slopes, line["group"]), names.slope)
        for line in kept.iloc[:MOST_LINES].to_dict("records")
    )


def _line(
    line: dict[Any, Any], limits: tuple[float, float], words: str, slope: tuple[str, str]
) -> Picture:
    """The two lines of a group."""
    sheet, (axes,) = canvas(196, left=54, top=28, bottom=40)
    for side, width in (("original", 4.0), ("synthetic", 1.8)):
        heights = [line[f"{side}_low"], line[f"{side}_high"]]
        axes.plot(
            [line["x_low"], line["x_high"]],
            heights,
            color=INK[side],
            linewidth=width,
            alpha=0.6 if side == "original" else 1,
            solid_capstyle="round",
        )
    axes.set_ylim(*limits)
    axes.set_xlabel(short(slope[0]))
    axes.set_ylabel(short(slope[1], 18))
    axes.grid(axis="y")
    compact_axis(axes.xaxis)
    compact_axis(axes.yaxis)
    legend(sheet, (("original", "original", "-"), ("synthetic", "synthetic", "-")))
    title = f"Regression: {line['group']}"
    return Picture(title=title, words=words, svg=svg_of(sheet, title), table=pd.DataFrame([line]))


def _slopes(frame: pd.DataFrame | None, group: object) -> str:
    """Slopes of a group in words."""
    if frame is None or not {"group", "original", "synthetic"} <= set(frame.columns):
        return ""
    own = frame[frame["group"] == group]
    if own.empty:
        return ""
    return (
        f"Slope {own['original'].iloc[0]:.3g} in the original, {own['synthetic'].iloc[0]:.3g} here."
    )
