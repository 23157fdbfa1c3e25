"""The page of an audit: verdict, the picture of the paper's figure 1, the tests; and its files. CONFIDENTIAL."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np

from engine.evaluation.audit.result import Audit, DirectionTest, p_text, share_text
from engine.evaluation.report import check_target
from engine.evaluation.report.files import write_confidential
from engine.evaluation.report.pictures.drawing import (
    INK,
    canvas,
    compact,
    drawn_alike,
    legend,
    svg_of,
)
from engine.evaluation.report.pictures.picture import Picture
from engine.version import ENGINE_VERSION

HEADS = (
    "direction",
    "t",
    "p",
    "p (Holm)",
    "through",
    "interval",
    "found from",
    "1 % found",
    "10 % found",
)


def write_audit(audit: Audit, path: Path, *, force: bool = False) -> tuple[Path, Path]:
    """Write the page, and JSON beside it; see `write_confidential`."""
    check_target(path, force=force)
    return write_confidential(path, force=force, page=audit_page(audit), document=audit_json(audit))


def audit_json(audit: Audit) -> str:
    """Return the JSON document, with a line break at its end."""
    return json.dumps(audit.as_dict(), ensure_ascii=False, indent=1, allow_nan=False) + "\n"


def audit_rows(audit: Audit) -> list[tuple[str, ...]]:
    """Return the tests as texts under `HEADS`."""
    return [
        (
            f"{number}",
            "–" if test.t is None else f"{test.t:.2f}",
            p_text(test.p),
            p_text(test.p_holm),
            share_text(test.copied),
            f"{share_text(test.copied_low)} to {share_text(test.copied_high)}",
            "–" if test.found_from is None else share_text(test.found_from),
            f"{test.power[0.01]:.2f}",
            f"{test.power[0.1]:.2f}",
        )
        for number, test in enumerate(audit.tests, 1)
    ]


def audit_pictures(audit: Audit) -> list[Picture]:
    """Draw the statistic of all fresh runs, a picture a direction."""
    with drawn_alike():
        return [
            _picture(test, f"Direction {number}", is_wide=number == 1)
            for number, test in enumerate(audit.tests, 1)
        ]


def _picture(test: DirectionTest, title: str, *, is_wide: bool) -> Picture:
    """Runs of both data sets: marks a run, a smoothed distribution above; 0 and 1 are the data sets themselves."""
    sheet, (axes,) = canvas(190, width=540 if is_wide else 360, left=20, top=34)
    span = test.of_plus - test.of_minus
    lots = [(np.asarray(lot) - test.of_minus) / span for lot in (test.plus, test.minus)]
    every = np.concatenate(lots)
    least = float(np.ptp(every)) / 100 or 0.01
    widths = [_bandwidth(lot, least) for lot in lots]
    room = 3 * max(widths)  # no curve is cut off
    low, high = float(every.min()) - room, float(every.max()) + room
    at = np.linspace(low, high, 300)
    for lot, width, colour, mark, row in zip(
        lots, widths, ("synthetic", "more"), ("o", "s"), (0.0, -0.12), strict=True
    ):
        height = _smoothed(lot, at, width)
        axes.fill_between(at, 0.1, 0.1 + height, color=INK[colour], alpha=0.35, linewidth=0)
        axes.plot(lot, np.full(len(lot), row), mark, color=INK[colour], markersize=6, alpha=0.85)
    axes.set_ylim(-0.3, 1.2)
    axes.set_xlim(low, high)
    axes.set_yticks([])
    axes.xaxis.set_major_formatter(lambda value, _: compact(value))
    axes.set_xlabel("statistic; 0 and 1 are the two data sets themselves")
    legend(sheet, [("made of D+", "synthetic", "o"), ("made of D-", "more", "s")])
    words = (
        "Each mark is one run. If the card is true, both lots lie alike; what uses more pulls those of D+ towards 1 "
        "and those of D- towards 0."
        if is_wide
        else "Marks as above."
    )
    return Picture(title=title, words=words, svg=svg_of(sheet, title), is_wide=is_wide)


def _bandwidth(lot: np.ndarray, least: float) -> float:
    """Silverman's rule; no less than can be seen."""
    return float(max(1.06 * lot.std(ddof=1) * len(lot) ** -0.2, least))


def _smoothed(lot: np.ndarray, at: np.ndarray, width: float) -> np.ndarray:
    """A Gaussian kernel density, of height 1 at most."""
    density = np.exp(-0.5 * ((at[:, None] - lot[None, :]) / width) ** 2).sum(axis=1)
    return np.asarray(density / density.max())


def audit_page(audit: Audit) -> str:
    """Return the HTML page."""
    from engine.evaluation.report.page import page_of  # loads what a command line has no need of

    return page_of(
        "audit.html.j2",
        audit_pictures(audit),
        audit=audit,
        heads=HEADS,
        rows=audit_rows(audit),
        version=ENGINE_VERSION,
    )
