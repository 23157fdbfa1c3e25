"""The page of a comparison of sticky and dp releases: utility against epsilon, risk against utility; and its files.

Takes a `ModeComparison`; gives HTML and JSON. CONFIDENTIAL. Nothing is fetched and nothing runs; all text is escaped.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from engine.evaluation.compare.risks import LOSS
from engine.evaluation.compare.runs import (
    KINDS,
    Kind,
    ModeComparison,
    Spread,
    Way,
    document,
    way_name,
)
from engine.evaluation.findings import Figure
from engine.evaluation.report.files import check_target, write_confidential
from engine.evaluation.report.grids import MISSING, shown
from engine.evaluation.report.pictures.drawing import (
    INK,
    canvas,
    compact,
    drawn_alike,
    legend,
    svg_of,
)
from engine.evaluation.report.pictures.picture import Picture
from engine.evaluation.report.pictures.scatter import Spot, scattered

_LOG_FROM = 8
"""A picture's scale is logarithmic where the largest value is so many times the smallest."""
_INKS: Mapping[Kind, tuple[str, str]] = {
    "sticky": ("more", "s"),
    "dp": ("synthetic", "o"),
    "exact": ("quiet", "D"),
}
"""Colour and mark of a way to build, where it is a point."""


def write_comparison(
    comparison: ModeComparison, path: Path, *, force: bool = False
) -> tuple[Path, Path]:
    """Write the page, and JSON beside it; see `write_confidential`."""
    check_target(path, force=force)
    return write_confidential(
        path, force=force, page=page(comparison), document=comparison_json(comparison)
    )


def comparison_json(comparison: ModeComparison) -> str:
    """Return the JSON document, with a line break at its end."""
    return json.dumps(document(comparison), ensure_ascii=False, indent=1, allow_nan=False) + "\n"


def headed(figure: Figure) -> str:
    """Return what a figure is called, with a capital letter."""
    return figure.title[:1].upper() + figure.title[1:]


def spread_texts(spread: Spread | None, digits: int) -> tuple[str, str]:
    """Return a median, and its range: "1.20", "1.10 to 1.31"; no range where there is one value."""
    if spread is None:
        return MISSING, ""
    middle = shown(spread.median, digits)
    if spread.n == 1:
        return middle, ""
    return middle, f"{shown(spread.low, digits)} to {shown(spread.high, digits)}"


def table_of(comparison: ModeComparison) -> tuple[tuple[str, ...], list[tuple[str, ...]]]:
    """Return heads and rows of the table: a row a figure, a column a way to build, cells as "1.20 (1.10 to 1.31)"."""
    heads = ("figure", *(way_name(*way) for way in comparison.ways()))
    rows = [
        (title, *(f"{middle} ({span})" if span else middle for middle, span in cells))
        for title, cells in _cells(comparison)
    ]
    return heads, rows


def _cells(comparison: ModeComparison) -> list[tuple[str, list[tuple[str, str]]]]:
    """Each figure's name, and its medians and ranges by way to build."""
    return [
        (
            headed(figure),
            [
                spread_texts(comparison.spread(figure.name, *way), figure.digits)
                for way in comparison.ways()
            ],
        )
        for figure in (*comparison.figures(), *comparison.weighed())
    ]


def pictures(comparison: ModeComparison) -> list[Picture]:
    """Draw every figure of utility against epsilon, the first one wide; then the first risk against utility."""
    with drawn_alike():
        drawn = [_picture(comparison, f, is_wide=not i) for i, f in enumerate(comparison.figures())]
        risks = [figure for figure in comparison.weighed() if figure != LOSS]
        return drawn + [_risk_picture(comparison, risk) for risk in risks[:1]]


def _risk_picture(comparison: ModeComparison, risk: Figure) -> Picture:
    """The first risk against the loss: a point a way to build, lines through the spec's own."""
    spots = [
        Spot(name=name, at=at, ink=_INKS[way[0]], is_own=way == comparison.own)
        for way in sorted(comparison.ways(), key=lambda way: way != comparison.own)
        if (at := _place(comparison, risk, way)) is not None
        for name in [way_name(*way) + (", the spec" if way == comparison.own else "")]
    ]
    entries = [(KINDS[kind], *ink) for kind, ink in _INKS.items()]
    title = f"{headed(risk)}, against {LOSS.title}"
    return Picture(
        title=title,
        words=f"{risk.words} Across: {LOSS.words[:1].lower()}{LOSS.words[1:]}",
        svg=scattered(spots, entries, title=title, is_wide=True),
        is_wide=True,
    )


def _place(comparison: ModeComparison, risk: Figure, way: Way) -> tuple[float, float] | None:
    """Where a way to build stands: loss and risk."""
    x, y = (comparison.spread(name, *way) for name in (LOSS.name, risk.name))
    return None if x is None or y is None else (x.median, y.median)


def _picture(comparison: ModeComparison, figure: Figure, *, is_wide: bool) -> Picture:
    """One figure against epsilon: dp with its ranges, sticky as a line in a band, dp without noise dashed."""
    width, height = (540, 300) if is_wide else (360, 220)
    sheet, (axes,) = canvas(height, left=54, right=18, top=30, width=width)
    points = [(e, s) for e in comparison.epsilons if (s := comparison.spread(figure.name, "dp", e))]
    axes.set_xscale("log")
    # First of all: a single epsilon has no range that could be found.
    axes.set_xlim(comparison.epsilons[0] / 1.4, comparison.epsilons[-1] * 1.4)
    if _wants_log(comparison, figure):
        axes.set_yscale("log")
    if points:
        at = [e for e, _ in points]
        middle = [s.median for _, s in points]
        below = [s.median - s.low for _, s in points]
        above = [s.high - s.median for _, s in points]
        axes.errorbar(
            at,
            middle,
            yerr=[below, above],
            color=INK["synthetic"],
            marker="o",
            linewidth=1.8,
            capsize=3,
        )
    entries = [("dp", "synthetic", "o")] if points else []
    if sticky := comparison.spread(figure.name, "sticky"):
        axes.axhspan(sticky.low, sticky.high, color=INK["more"], alpha=0.18, linewidth=0)
        axes.axhline(sticky.median, color=INK["more"], linewidth=1.8)
        entries.append(("sticky", "more", "-"))
    if exact := comparison.spread(figure.name, "exact"):
        axes.axhline(exact.median, color=INK["quiet"], linewidth=1.4, linestyle=(0, (5, 4)))
        entries.append(("dp without noise (dashed)", "quiet", "-"))
    _ticks(axes, comparison)
    legend(sheet, entries)
    title = f"{headed(figure)}, against epsilon"
    better = {"lower": " Lower is better.", "higher": " Higher is better."}.get(figure.better, "")
    return Picture(
        title=title, words=figure.words + better, svg=svg_of(sheet, title), is_wide=is_wide
    )


def _wants_log(comparison: ModeComparison, figure: Figure) -> bool:
    """Whether the values are all above 0 and far apart."""
    spreads = [s for way in comparison.ways() if (s := comparison.spread(figure.name, *way))]
    low, high = min(s.low for s in spreads), max(s.high for s in spreads)
    return low > 0 and high > _LOG_FROM * low


def _ticks(axes: Any, comparison: ModeComparison) -> None:
    """Write every epsilon, and few values."""
    from matplotlib.ticker import FuncFormatter, NullFormatter, NullLocator

    axes.set_xticks(comparison.epsilons, [f"{e:g}" for e in comparison.epsilons])
    axes.xaxis.set_minor_locator(NullLocator())
    axes.set_xlabel("epsilon (log scale)")
    axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: compact(value)))
    axes.yaxis.set_minor_formatter(NullFormatter())
    axes.grid(axis="y")


def page(comparison: ModeComparison) -> str:
    """Return the HTML page."""
    from engine.evaluation.report.page import page_of  # loads what a command line has no need of

    own, beside = comparison.beside()
    return page_of(
        "modes.html.j2",
        pictures(comparison),
        comparison=comparison,
        ways=[way_name(*way) for way in comparison.ways()],
        rows=_cells(comparison),
        n_utility=len(comparison.figures()),
        own=own,
        beside=beside,
        seconds=_seconds(comparison),
    )


def _seconds(comparison: ModeComparison) -> list[tuple[str, str]]:
    """Mean seconds of a build, by way."""
    by_way = []
    for kind, epsilon in comparison.ways():
        took = [r.seconds for r in comparison.runs if (r.kind, r.epsilon) == (kind, epsilon)]
        if took:
            by_way.append((way_name(kind, epsilon), shown(sum(took) / len(took), 1)))
    return by_way
