"""The page of a comparison of levers: the map of loss and risk, all figures, what each setting comes to; and its files.

Takes a `LeverMap`; gives HTML and JSON. CONFIDENTIAL. Nothing is fetched and nothing runs; all text is escaped.
"""

from __future__ import annotations

import json
from pathlib import Path

from engine.evaluation.compare.mapped import LEVERS, LeverMap, Setting, map_document
from engine.evaluation.compare.risks import LOSS
from engine.evaluation.findings import Figure
from engine.evaluation.report.files import check_target, write_confidential
from engine.evaluation.report.modes import headed, spread_texts
from engine.evaluation.report.pictures.drawing import MARKS, drawn_alike
from engine.evaluation.report.pictures.picture import Picture
from engine.evaluation.report.pictures.scatter import Spot, scattered

COLOURS = ("ink", "synthetic", "more", "third", "fourth", "less")
"""Of the levers, in their order."""


def write_map(found: LeverMap, path: Path, *, force: bool = False) -> tuple[Path, Path]:
    """Write the page, and JSON beside it; see `write_confidential`."""
    check_target(path, force=force)
    return write_confidential(path, force=force, page=map_page(found), document=map_json(found))


def map_json(found: LeverMap) -> str:
    """Return the JSON document, with a line break at its end."""
    return json.dumps(map_document(found), ensure_ascii=False, indent=1, allow_nan=False) + "\n"


def map_table(found: LeverMap) -> tuple[tuple[str, ...], list[tuple[str, ...]]]:
    """Return heads and rows of the table: a row a setting, a column a figure, cells as "0.12 (0.11 to 0.14)"."""
    heads = ("setting", *(figure.title for figure in found.figures()))
    rows = [
        (name, *(f"{middle} ({span})" if span else middle for middle, span in cells))
        for name, cells in _cells(found)
    ]
    return heads, rows


def _cells(found: LeverMap) -> list[tuple[str, list[tuple[str, str]]]]:
    """Each setting's name, and medians and ranges of the figures."""
    return [
        (
            setting.name,
            [spread_texts(found.spread(f.name, setting), f.digits) for f in found.figures()],
        )
        for setting in found.settings()
    ]


def map_pictures(found: LeverMap) -> list[Picture]:
    """Draw the loss against every risk, a point a setting, the first one wide."""
    with drawn_alike():
        return [
            _picture(found, figure, is_wide=not i) for i, figure in enumerate(found.figures()[1:])
        ]


def _picture(found: LeverMap, figure: Figure, *, is_wide: bool) -> Picture:
    """One risk against the loss: a colour and mark a lever, lines through the spec's own point."""
    levers = list(dict.fromkeys(setting.lever for setting in found.settings()))
    spots = [
        Spot(name=s.name, at=at, ink=_ink(s), is_own=s.lever == "spec")
        for s in found.settings()
        if (at := _place(found, figure, s)) is not None
    ]
    title = headed(figure)
    svg = scattered(
        spots,
        [(LEVERS[lever], *_ink(Setting(lever=lever, name=""))) for lever in levers],
        title=title,
        is_wide=is_wide,
    )
    return Picture(title=title, words=figure.words, svg=svg, is_wide=is_wide)


def _place(found: LeverMap, figure: Figure, setting: Setting) -> tuple[float, float] | None:
    """Where a setting stands: loss and risk."""
    x, y = (found.spread(name, setting) for name in (LOSS.name, figure.name))
    return None if x is None or y is None else (x.median, y.median)


def _ink(setting: Setting) -> tuple[str, str]:
    """Colour and mark of a lever."""
    at = list(LEVERS).index(setting.lever)
    return COLOURS[at], MARKS[at]


def map_page(found: LeverMap) -> str:
    """Return the HTML page."""
    from engine.evaluation.report.page import page_of  # loads what a command line has no need of

    return page_of(
        "levers.html.j2",
        map_pictures(found),
        found=found,
        heads=[headed(figure) for figure in found.figures()],
        rows=_cells(found),
        verdicts=[(s.name, told) for s in found.settings() if (told := found.verdict(s))],
    )
