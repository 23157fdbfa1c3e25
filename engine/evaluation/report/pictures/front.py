"""Pictures of the first page: what each attacker gains by the release, and attacks on members and non-members.

Takes a `Result` and what is said of its attackers; gives `Picture`s. CONFIDENTIAL.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from engine.evaluation.findings import STRONG, TITLES
from engine.evaluation.report.pictures.drawing import INK, legend, rows_canvas, short, svg_of
from engine.evaluation.report.pictures.picture import Picture
from engine.evaluation.result import Result

if TYPE_CHECKING:
    from engine.evaluation.report.attackers import Attacker

Pair = tuple[str, float, float]
"""A name, how often one is right elsewhere, and how often with the release about those in the data."""


def front_pictures(result: Result, attackers: Sequence[Attacker]) -> list[Picture]:
    """Draw them; those that have nothing to show are left out. The context `drawn_alike` must be open."""
    gains = [
        (one.short, one.without, one.with_release)
        for one in attackers
        if one.without is not None and one.with_release is not None
    ]
    rates = [
        (TITLES.get(name, name), other.value, risk.rate.value)
        for name, risk in result.risks.items()
        if name not in STRONG
        and risk.rate is not None
        and (other := risk.control or risk.baseline) is not None
    ]
    drawn = []
    if gains:
        words = (
            "How often each attacker is right about what they want to know: a person's column, an even yes-or-no in "
            "the most exposed small group, whether somebody is in the data."
        )
        drawn.append(
            _picture("What each attacker gains", words, gains, ("without the release", "with it"))
        )
    if rates:
        words = "Where both marks lie together, the release tells of the population, not of those in the data."
        names = ("non_members (or guessing)", "those in the data")
        drawn.append(
            _picture("Attacks on those in the data and on non_members", words, rates, names)
        )
    return drawn


def _picture(title: str, words: str, pairs: Sequence[Pair], names: tuple[str, str]) -> Picture:
    """Pairs of shares, a row each."""
    sheet, axes = rows_canvas([short(name) for name, _, _ in pairs], top=32, step=26, right=24)
    for at, (_, before, after) in enumerate(pairs):
        axes.hlines(at, before, after, color=INK["more"], linewidth=3, alpha=0.5)
        axes.plot([before], [at], "s", color=INK["less"], markersize=8)
        axes.plot([after], [at], "o", color=INK["more"], markersize=6)
    axes.set_xlim(-0.02, 1.02)
    axes.set_xticks([0, 0.5, 1], ["0", "50 %", "100 %"])
    axes.set_xlabel("right")
    legend(sheet, ((names[0], "less", "s"), (names[1], "more", "o")))
    return Picture(title=title, words=words, svg=svg_of(sheet, title))
