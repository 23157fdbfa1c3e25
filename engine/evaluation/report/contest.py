"""The page of a comparison with rivals: the risk-utility map, who promises what, every figure; and its files.

Takes a `Contest`; gives HTML and JSON. CONFIDENTIAL. Nothing is fetched and nothing runs; all text is escaped.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path

from engine.evaluation.compare.contest import SIDES, Contest, Side, contest_document
from engine.evaluation.compare.risks import LOSS
from engine.evaluation.findings import TITLES, Figure
from engine.evaluation.report.files import check_target, write_confidential
from engine.evaluation.report.modes import headed, spread_texts
from engine.evaluation.report.pictures.drawing import drawn_alike
from engine.evaluation.report.pictures.picture import Picture
from engine.evaluation.report.pictures.scatter import Spot, scattered

INKS: Mapping[Side, tuple[str, str]] = {
    "sticky": ("more", "s"),
    "dp": ("synthetic", "o"),
    "rival": ("quiet", "^"),
    "outside": ("third", "v"),
    "file": ("fourth", "D"),
}
"""Colour and mark of a kind of generator."""
FIRST = (
    "tables.s_pmse_2",
    "tables.s_pmse_3",
    "univariate.scaled_median_composite_error",
    "marginals.score",
    "correlations.median_difference",
    "estimates.mean_overlap",
)
"""Figures of utility that a screen shows, beside the loss and the risks."""
Cells = list[tuple[str, str]]


def write_contest(contest: Contest, path: Path, *, force: bool = False) -> tuple[Path, Path]:
    """Write the page, and JSON beside it; see `write_confidential`."""
    check_target(path, force=force)
    return write_confidential(
        path, force=force, page=contest_page(contest), document=contest_json(contest)
    )


def contest_json(contest: Contest) -> str:
    """Return the JSON document, with a line break at its end."""
    return (
        json.dumps(contest_document(contest), ensure_ascii=False, indent=1, allow_nan=False) + "\n"
    )


def contest_table(contest: Contest) -> tuple[tuple[str, ...], list[tuple[str, ...]]]:
    """Return heads and rows for a screen: a row a generator, the loss, the risks and few figures of utility."""
    there = {figure.name: figure for figure in contest.figures()}
    figures = [*contest.weighed(), *(there[name] for name in FIRST if name in there)]
    heads = ("generator", "seconds", *(figure.title for figure in figures))
    rows = []
    for one in contest.generators():
        cells = [spread_texts(contest.spread(f.name, one.name), f.digits)[0] for f in figures]
        rows.append((one.name, spread_texts(contest.seconds(one.name)[0], 1)[0], *cells))
    return heads, rows


def contest_pictures(contest: Contest) -> list[Picture]:
    """Draw every risk against the loss, a point a generator, the first one wide."""
    with drawn_alike():
        risks = [figure for figure in contest.weighed() if figure != LOSS]
        return [_picture(contest, risk, is_wide=not i) for i, risk in enumerate(risks)]


def _picture(contest: Contest, risk: Figure, *, is_wide: bool) -> Picture:
    """The classical risk-utility map (Duncan, Keller-McNulty and Stokes 2001)."""
    spots = []
    for one in contest.generators():
        loss, gain = (contest.spread(name, one.name) for name in (LOSS.name, risk.name))
        if loss is not None and gain is not None:
            own = one.name == contest.own
            name = f"{one.name}, the spec" if own else one.name
            at = (loss.median, gain.median)
            spots.append(Spot(name=name, at=at, ink=INKS[one.side], is_own=own))
    sides = dict.fromkeys(one.side for one in contest.generators())
    title = headed(risk)
    svg = scattered(
        sorted(spots, key=lambda spot: not spot.is_own),
        [(SIDES[side], *INKS[side]) for side in sides],
        title=title,
        is_wide=is_wide,
    )
    return Picture(title=title, words=risk.words, svg=svg, is_wide=is_wide)


def contest_page(contest: Contest) -> str:
    """Return the HTML page."""
    from engine.evaluation.report.page import page_of  # loads what a command line has no need of

    return page_of(
        "contest.html.j2",
        contest_pictures(contest),
        contest=contest,
        sides=SIDES,
        generators=[(one, *_times(contest, one.name)) for one in contest.generators()],
        names=[one.name for one in contest.generators()],
        blocks=_blocks(contest),
    )


def _times(contest: Contest, name: str) -> tuple[str, str]:
    """Seconds on the clock and of processors."""
    clock, cpu = contest.seconds(name)
    return spread_texts(clock, 1)[0], spread_texts(cpu, 1)[0]


def _blocks(contest: Contest) -> list[tuple[str, list[tuple[str, str, Cells]]]]:
    """All figures by measure: name, words, and a cell a generator."""
    blocks: dict[str, list[tuple[str, str, Cells]]] = {}
    for figure in (*contest.weighed(), *contest.figures()):
        title = TITLES.get(figure.name.partition(".")[0], "Loss and risk")
        cells = [
            spread_texts(contest.spread(figure.name, one.name), figure.digits)
            for one in contest.generators()
        ]
        blocks.setdefault(title, []).append((headed(figure), figure.words, cells))
    return list(blocks.items())
