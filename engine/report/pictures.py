"""All pictures of a report, in their groups, and the one that holds several subjects against the first.

Takes an `Evaluation`; gives `Group`s. Invariant: a picture that cannot be drawn says why in its place.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from itertools import islice
from math import ceil, floor, inf, isfinite, isinf, log10
from typing import Any

import numpy as np
import pandas as pd

from engine.evaluation import Result
from engine.report.drawing import INK, MARKS, canvas, compact, short, svg_of
from engine.report.improvement import Improvement
from engine.report.naming import Names
from engine.report.picture import Group, NothingToDraw, Picture
from engine.report.pictures_columns import (
    distribution_functions,
    noise_against_count,
    univariate_bars,
)
from engine.report.pictures_risk import attack_rates, gains_by_target, precision_by_share
from engine.report.pictures_structure import (
    component_pairs,
    heat_maps,
    marginals_by_group,
    regression_lines,
    sampling_equivalent,
)
from engine.report.pictures_use import (
    estimate_intervals,
    group_gaps,
    learners,
    tables_by_width,
)
from engine.score import WHOLE

Draw = Callable[[Result, Names], Iterable[Picture]]
COLOURS = ("synthetic", "more", "third", "fourth", "less", "original")
GROUPS: tuple[tuple[str, str, tuple[tuple[str, str, Draw], ...]], ...] = (
    (
        "Single columns",
        "The columns whose counts are furthest off, the worst first.",
        (("Counts", "univariate", univariate_bars),),
    ),
    (
        "Distributions",
        "Shares of rows up to each value, of the ordered columns that are furthest apart.",
        (("Distribution functions", "distributions", distribution_functions),),
    ),
    (
        "Noise against count",
        "What was added to, or lost from, each count.",
        (("Error against count", "", noise_against_count),),
    ),
    (
        "Pairs of columns",
        "Correlations: original, synthetic, and what lies between.",
        (("Correlations", "correlations", heat_maps),),
    ),
    (
        "Combinations of columns",
        "How near the shares of combinations are: by place, as a sample of the original, and table by table.",
        (
            ("Combinations by group", "marginals", marginals_by_group),
            ("Sampling equivalent", "marginals", sampling_equivalent),
            ("Every table", "tables", tables_by_width),
        ),
    ),
    (
        "All columns",
        "Rows on the first principal components of the original.",
        (("Principal components", "components", component_pairs),),
    ),
    (
        "Use",
        "What an analyst would find.",
        (
            ("Regression", "regression", regression_lines),
            ("Estimates", "estimates", estimate_intervals),
            ("Group gaps", "gaps", group_gaps),
            ("Learners", "learning", learners),
        ),
    ),
)
RISK_WORDS = (
    "Each attack beside guessing, and beside itself on people whom the release was not made from."
)
RISKS: tuple[tuple[str, str, Draw], ...] = (
    ("How often attacks are right", "", attack_rates),
    ("Gain by target", "", gains_by_target),
    ("Right when sure", "", precision_by_share),
)


def groups_of(result: Result, names: Names, *, most: int | None = None) -> list[Group]:
    """Return the pictures of a subject; the context `drawn_alike` must be open.

    Parameters
    ----------
    result : Result
    names : Names
    most : int, optional
        Of a kind, the worst; None: as many as there are.
    """
    told = list(GROUPS)
    if result.risks:
        told.append(("Risk", RISK_WORDS, RISKS))
    return [
        Group(
            title=title,
            words=words,
            pictures=tuple(
                picture
                for one, measure, draw in drawers
                for picture in _or_why(one, measure, draw, result, names, most)
            ),
        )
        for title, words, drawers in told
    ]


def _or_why(
    title: str, measure: str, draw: Draw, result: Result, names: Names, most: int | None
) -> list[Picture]:
    """Pictures, or one that says why there is none."""
    try:
        return list(islice(draw(result, names), most))
    except NothingToDraw as error:
        return [Picture(title=title, why_not=_why(result, measure) or str(error))]


def _why(result: Result, measure: str) -> str:
    """Why a measure has nothing to show, in its own words."""
    if not measure:
        return ""
    score = result.scores.get(measure)
    if score is None:
        return "the study does not declare it"
    return score.why_not.get(WHOLE, "")


def improvement_picture(found: Sequence[Improvement]) -> Picture:
    """Draw improvement factors: one row a headline figure by number of columns, one mark a subject, on a log scale."""
    title = "Improvement factors of the first"
    shown = _drawn(found)
    if not shown:
        return Picture(title=title, why_not="no two subjects have a figure in common")
    rows = list(dict.fromkeys(one.other.figure.name for one in shown))
    figures = {one.other.figure.name: one.other.figure for one in shown}
    others = list(dict.fromkeys(one.other.subject for one in shown))
    titles = {one.other.figure.name: one.other.title for one in shown}
    labels = [_row_label(titles[name], figures[name].columns) for name in rows]
    top = 20 + 17 * -(-len(others) // 2)
    sheet, (axes,) = canvas(top + 34 * len(rows) + 40, left=14, right=14, top=top, bottom=40)
    low, high = _ends([one.place for one in shown])
    for k, other in enumerate(others):
        own = [one for one in shown if one.other.subject == other]
        at = [rows.index(one.other.figure.name) + 0.18 for one in own]
        place = np.clip([_log(one.place) for one in own], low, high)
        axes.plot(
            place,
            at,
            MARKS[k % len(MARKS)],
            color=INK[COLOURS[k % len(COLOURS)]],
            markersize=8,
            alpha=0.85,
            clip_on=False,
        )
    for i, label in enumerate(labels):
        axes.text(0, i - 0.26, label, transform=axes.get_yaxis_transform(), va="center")
    axes.set_ylim(len(rows) - 0.35, -0.55)
    axes.set_yticks([])
    axes.spines["bottom"].set_visible(False)
    _scale(axes, low, high, len(rows))
    axes.set_xlabel("times nearer to perfect (log scale)")
    _key(sheet, others)
    words = (
        "Right of the line at 1 the first is nearer to perfect, left of it the other one. Rows by number of "
        "columns looked at, which stands before each. Marks at the ends: one of the two is perfect."
    )
    return Picture(
        title=title,
        words=words,
        svg=svg_of(sheet, title),
        table=improvement_table(found),
        is_wide=True,
    )


def _drawn(found: Sequence[Improvement]) -> list[Improvement]:
    """Factors of headline figures of utility; one figure a measure and number of columns: others say the same again."""
    usable = [one for one in found if not one.other.is_risk and not one.why_not]
    shown = [one for one in usable if one.other.figure.is_headline] or usable
    firsts: dict[tuple[str, str], str] = {}
    for one in shown:
        firsts.setdefault((one.other.measure, one.other.figure.columns), one.other.figure.name)
    return [one for one in shown if one.other.figure.name in firsts.values()]


def _row_label(title: str, columns: str) -> str:
    """What a row is called."""
    return short(f"{columns} · {title}" if columns else title, 50)


def _log(place: float) -> float:
    """Place on the axis."""
    if place == 0:
        return -np.inf
    return float(np.log10(place)) if not isinf(place) else np.inf


def _ends(places: Sequence[float]) -> tuple[float, float]:
    """Ends of the axis: all finite marks and 1 are inside, infinite ones at an end."""
    told = [_log(place) for place in places]
    inside = [0.0, *(mark for mark in told if isfinite(mark))]
    low, high = min(inside) - 0.15, max(inside) + 0.15
    return low - 0.5 * (-inf in told), high + 0.5 * (inf in told)


def _scale(axes: Any, low: float, high: float, n_rows: int) -> None:
    """Powers of ten on the axis, and 2 and 5 times them where there are few; lines leave out the rows' names."""
    axes.set_xlim(low - 0.04, high + 0.04)
    steps = [1.0] if high - low > 2 else [1.0, 2.0, 5.0]
    powers = range(floor(low), ceil(high) + 1)
    ticks = sorted(
        {s * 10.0**p for s in steps for p in powers if low <= log10(s * 10.0**p) <= high}
    )
    axes.set_xticks([log10(t) for t in ticks], [compact(t) for t in ticks])
    at = np.arange(n_rows)
    for tick in map(log10, ticks):
        colour, thick = (INK["rule"], 1.0) if tick else (INK["ink"], 1.3)
        axes.vlines(
            np.full(n_rows, tick), at - 0.06, at + 0.42, color=colour, linewidth=thick, zorder=0
        )


def _key(sheet: Any, others: Sequence[str]) -> None:
    """Marks of the subjects."""
    from matplotlib.lines import Line2D

    handles = [
        Line2D(
            [],
            [],
            linestyle="none",
            marker=MARKS[k % len(MARKS)],
            markersize=8,
            color=INK[COLOURS[k % len(COLOURS)]],
            label=short(other),
        )
        for k, other in enumerate(others)
    ]
    sheet.legend(
        handles=handles,
        loc="upper left",
        bbox_to_anchor=(0.01, 1),
        ncols=2,
        borderaxespad=0.2,
        handletextpad=0.2,
        columnspacing=1.6,
    )


def improvement_table(found: Sequence[Improvement]) -> pd.DataFrame:
    """Return factors as a table: one row a figure, one column a subject."""
    if not found:
        return pd.DataFrame()
    rows: dict[str, dict[str, str]] = {}
    for one in sorted(found, key=lambda one: not one.other.figure.is_headline):
        figure = one.other.figure
        row = rows.setdefault(figure.name, {"figure": one.other.title, "columns": figure.columns})
        row[one.other.subject] = one.text
    return pd.DataFrame(list(rows.values())).fillna("–")
