"""The page of a comparison: risk against utility, utility against epsilon, every figure; its table and its files.

Takes a `Comparison`; gives HTML, JSON and texts. CONFIDENTIAL. Nothing is fetched, nothing runs; all text is escaped.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from engine.evaluation.compare.result import LOSS, Comparison, Spread
from engine.evaluation.findings import TITLES, Figure
from engine.evaluation.report.charts import WIDE, Chart, Scale, scale, short
from engine.evaluation.report.files import check_target, json_of, write_both
from engine.evaluation.report.grids import MISSING, shown
from engine.evaluation.report.page import render
from engine.evaluation.report.pictures import Picture

KINDS: Mapping[str, tuple[str, str, str]] = {
    "sticky": ("sticky", "more", "s"),
    "dp": ("dp", "synthetic", "o"),
    "exact": ("dp without noise", "quiet", "D"),
    "baseline": ("baselines", "quiet", "^"),
    "outside": ("outside commands", "third", "v"),
    "file": ("files", "fourth", "D"),
    "spec": ("the spec", "ink", "o"),
    "threshold": ("threshold", "synthetic", "s"),
    "noise": ("noise", "more", "^"),
    "profile": ("profile", "third", "D"),
    "tables": ("fewer tables", "fourth", "v"),
    "swapping": ("swapping", "less", "P"),
}
"""What the kinds of generators are called, and their colour and mark."""
FIRST = (
    "groups/tables.s_pmse_2",
    "tables.s_pmse_2",
    "tables.s_pmse_3",
    "univariate.scaled_median_composite_error",
    "marginals.score",
    "correlations.median_difference",
    "estimates.mean_overlap",
)
"""Figures of utility that a screen shows, beside the loss and the risks."""
TITLES_OF_VIEWS = {
    "modes": ("comparison", "Sticky and dp releases"),
    "sweep": ("parameter sweep", "Settings of a sticky release"),
    "generators": ("and baselines", "Our two modes and other generators"),
}
_LOG_FROM = 8
"""A scale is logarithmic where the largest value is so many times the smallest; that of the loss sooner."""
Cell = tuple[str, str]


def write_comparison(
    comparison: Comparison, path: Path, *, force: bool = False
) -> tuple[Path, Path]:
    """Write the page, and JSON beside it; see `write_both`."""
    check_target(path, force=force)
    return write_both(
        path, force=force, page=comparison_page(comparison), json=comparison_json(comparison)
    )


def comparison_json(comparison: Comparison) -> str:
    """All figures as JSON, with a line break at its end."""
    return json_of(comparison.frame(), **comparison.about())


def comparison_table(comparison: Comparison) -> tuple[tuple[str, ...], list[tuple[str, ...]]]:
    """Return heads and rows for a screen: a row a generator; few figures of utility, the loss and the risks."""
    there = {figure.name: figure for figure in comparison.figures()}
    figures = [*comparison.weighed(), *(there[name] for name in FIRST if name in there)]
    heads = ("generator", *(_headed(figure) for figure in figures))
    rows = [
        (g.name, *(_as_one(*_cell(comparison.spread(f.name, g.name), f.digits)) for f in figures))
        for g in comparison.generators()
    ]
    if comparison.view == "generators":
        heads = (heads[0], "seconds", *heads[1:])
        rows = [(row[0], _cell(comparison.seconds(row[0])[0], 1)[0], *row[1:]) for row in rows]
    return heads, rows


def _headed(figure: Figure) -> str:
    return figure.title[:1].upper() + figure.title[1:]


def _cell(spread: Spread | None, digits: int) -> Cell:
    """A median, and its range: "1.20", "1.10 to 1.31"; no range where there is one value."""
    if spread is None:
        return MISSING, ""
    middle = shown(spread.median, digits)
    if spread.n == 1:
        return middle, ""
    return middle, f"{shown(spread.low, digits)} to {shown(spread.high, digits)}"


def _as_one(middle: str, span: str) -> str:
    return f"{middle} ({span})" if span else middle


def risk_pictures(comparison: Comparison) -> list[Picture]:
    """Draw each risk against the loss, a point a generator (Duncan, Keller-McNulty and Stokes 2001), the first wide."""
    risks = [figure for figure in comparison.weighed() if figure != LOSS]
    return [_against_loss(comparison, risk, is_wide=not i) for i, risk in enumerate(risks)]


def _against_loss(comparison: Comparison, risk: Figure, *, is_wide: bool) -> Picture:
    """Points with names where the picture is wide, and lines that cross at the spec's own."""
    spots = [
        (g, loss.median, gain.median)
        for g in comparison.generators()
        for loss, gain in [(comparison.spread(f.name, g.name) for f in (LOSS, risk))]
        if loss is not None and gain is not None
    ]
    spots.sort(key=lambda spot: spot[0].name != comparison.own)
    x, y = [spot[1] for spot in spots], [spot[2] for spot in spots]
    title = f"{_headed(risk)}, against {LOSS.title}"
    chart = Chart(
        title,
        scale(x, name=LOSS.title, room=0.16, log_from=_LOG_FROM / 2),
        scale(y, room=0.12),
        width=720 if is_wide else 360,
        height=400 if is_wide else 250,
        left=54,
        legend=[KINDS[k] for k in dict.fromkeys(g.kind for g in comparison.generators())],
    )
    for g, loss, gain in spots:
        is_own = g.name == comparison.own
        if is_own:
            chart.down(loss, "rule")
            chart.across(gain, "rule")
        chart.marks([loss], [gain], *KINDS[g.kind][1:], size=5.5 if is_own else 4)
    if is_wide:
        names = [
            short(g.name + ", the spec" * (g.name == comparison.own and g.kind != "spec"), 34)
            for g, *_ in spots
        ]
        chart.name(names, x, y, [g.name == comparison.own for g, *_ in spots])
    return Picture(title=title, words=risk.words, svg=chart.svg(), is_wide=is_wide)


def epsilon_pictures(comparison: Comparison) -> list[Picture]:
    """Draw every figure of utility of a comparison of modes against epsilon, the first one wide."""
    if comparison.view != "modes":
        return []
    return [
        _against_epsilon(comparison, figure, is_wide=not i)
        for i, figure in enumerate(comparison.figures())
    ]


def _against_epsilon(comparison: Comparison, figure: Figure, *, is_wide: bool) -> Picture:
    """One figure: dp with its ranges, sticky as a line in a band, dp without noise dashed."""
    found = {
        g: spread
        for g in comparison.generators()
        if (spread := comparison.spread(figure.name, g.name)) is not None
    }
    budgets = sorted(g.epsilon for g in comparison.generators() if g.epsilon is not None)
    x = Scale(
        low=budgets[0] / 1.4,
        high=budgets[-1] * 1.4,
        is_log=True,
        ticks=[(e, f"{e:g}") for e in budgets],
        name="epsilon (log scale)",
    )
    y = scale([v for s in found.values() for v in (s.low, s.high)], room=0.05, log_from=_LOG_FROM)
    kinds = {g.kind: spread for g, spread in found.items()}
    entries = [("dp", "synthetic", "o")] if "dp" in kinds else []
    entries += [("sticky", "more", "-")] if "sticky" in kinds else []
    entries += [("dp without noise (dashed)", "quiet", "-")] if "exact" in kinds else []
    title = f"{_headed(figure)}, against epsilon"
    chart = Chart(
        title,
        x,
        y,
        width=WIDE if is_wide else 360,
        height=280 if is_wide else 200,
        left=54,
        legend=entries,
    )
    if (sticky := kinds.get("sticky")) is not None:
        chart.boxes([x.low], [sticky.high], [x.high], [sticky.low], "more", alpha=0.18)
        chart.across(sticky.median, "more", stroke=1.8)
    if (exact := kinds.get("exact")) is not None:
        chart.across(exact.median, "quiet", stroke=1.4, dash="5 4")
    points = sorted((g.epsilon, s) for g, s in found.items() if g.epsilon is not None)
    if points:
        at, spreads = [e for e, _ in points], [s for _, s in points]
        chart.segments(at, [s.low for s in spreads], at, [s.high for s in spreads], "synthetic")
        chart.line(at, [s.median for s in spreads], "synthetic")
        chart.marks(at, [s.median for s in spreads], "synthetic")
    better = {"lower": " Lower is better.", "higher": " Higher is better."}.get(figure.better, "")
    return Picture(title=title, words=figure.words + better, svg=chart.svg(), is_wide=is_wide)


def comparison_page(comparison: Comparison) -> str:
    """Return the HTML page."""
    blocks: dict[str, list[tuple[str, str, list[Cell]]]] = {}
    for figure in (*comparison.weighed(), *comparison.figures()):
        measure = figure.name.partition("/")[2] or figure.name
        block = TITLES.get(measure.partition(".")[0], "Loss and risk")
        cells = [
            _cell(comparison.spread(figure.name, g.name), figure.digits)
            for g in comparison.generators()
        ]
        blocks.setdefault(block, []).append((_headed(figure), figure.words, cells))
    own, beside = comparison.beside()
    kicker, heading = TITLES_OF_VIEWS[comparison.view]
    return render(
        "comparison.html.j2",
        comparison=comparison,
        kicker=kicker,
        heading=heading,
        utility=epsilon_pictures(comparison),
        risk=risk_pictures(comparison),
        generators=[
            (g, KINDS[g.kind][0], *(_cell(s, 1)[0] for s in comparison.seconds(g.name)))
            for g in comparison.generators()
        ],
        blocks=list(blocks.items()),
        own=own,
        beside=beside,
    )
