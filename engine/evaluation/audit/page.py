"""The page of an audit: verdict, the picture of the paper's figure 1, the tests; and its files. CONFIDENTIAL."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from engine.evaluation.audit.result import Audit, DirectionTest, p_text, share_text
from engine.evaluation.report import check_target
from engine.evaluation.report.charts import WIDE, WIDTH, Chart, Scale
from engine.evaluation.report.files import json_of, write_both
from engine.evaluation.report.page import render
from engine.evaluation.report.pictures import Picture
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
    """Write the page, and JSON beside it; see `write_both`."""
    check_target(path, force=force)
    return write_both(path, force=force, page=audit_page(audit), json=audit_json(audit))


def audit_json(audit: Audit) -> str:
    """All figures as JSON, with a line break at its end."""
    return json_of(audit.frame(), **audit.about())


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
    return [
        _picture(test, f"Direction {number}", is_wide=number == 1)
        for number, test in enumerate(audit.tests, 1)
    ]


def _picture(test: DirectionTest, title: str, *, is_wide: bool) -> Picture:
    """Runs of both data sets: marks a run, a smoothed distribution above; 0 and 1 are the data sets themselves."""
    span = test.of_plus - test.of_minus
    lots = [(np.asarray(lot) - test.of_minus) / span for lot in (test.plus, test.minus)]
    every = np.concatenate(lots)
    least = float(np.ptp(every)) / 100 or 0.01
    widths = [_bandwidth(lot, least) for lot in lots]
    room = 3 * max(widths)  # no curve is cut off
    low, high = float(every.min()) - room, float(every.max()) + room
    at = np.linspace(low, high, 300)
    x = Scale(low=low, high=high, name="statistic; 0 and 1 are the two data sets themselves")
    y = Scale(low=-0.3, high=1.2, ticks=())
    legend = [("made of D+", "synthetic", "o"), ("made of D-", "more", "s")]
    width_of = WIDE if is_wide else WIDTH
    chart = Chart(title, x, y, width=width_of, height=170, left=20, legend=legend)
    for lot, width, colour, mark, row in zip(
        lots, widths, ("synthetic", "more"), ("o", "s"), (0.0, -0.12), strict=True
    ):
        height = _smoothed(lot, at, width)
        chart.area(at, np.full(len(at), 0.1), 0.1 + height, colour, alpha=0.35)
        chart.marks(lot, np.full(len(lot), row), colour, mark, size=3, alpha=0.85)
    words = (
        "Each mark is one run. If the card is true, both lots lie alike; what uses more pulls those of D+ towards 1 "
        "and those of D- towards 0."
        if is_wide
        else "Marks as above."
    )
    return Picture(title=title, words=words, svg=chart.svg(), is_wide=is_wide)


def _bandwidth(lot: np.ndarray, least: float) -> float:
    """Silverman's rule; no less than can be seen."""
    return float(max(1.06 * lot.std(ddof=1) * len(lot) ** -0.2, least))


def _smoothed(lot: np.ndarray, at: np.ndarray, width: float) -> np.ndarray:
    """A Gaussian kernel density, of height 1 at most."""
    density = np.exp(-0.5 * ((at[:, None] - lot[None, :]) / width) ** 2).sum(axis=1)
    return np.asarray(density / density.max())


def audit_page(audit: Audit) -> str:
    """Return the HTML page."""
    return render(
        "audit.html.j2",
        pictures=audit_pictures(audit),
        audit=audit,
        heads=HEADS,
        rows=audit_rows(audit),
        version=ENGINE_VERSION,
    )
