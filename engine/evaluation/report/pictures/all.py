"""All pictures of a report, in their groups: those that a decision rests on; what they show is in tables beside.

Takes a `Result`; gives `Group`s. Invariant: a picture that cannot be drawn says why in its place.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import islice

from engine.evaluation.findings import WHOLE
from engine.evaluation.report.naming import Names
from engine.evaluation.report.pictures.columns import noise_against_count, univariate_bars
from engine.evaluation.report.pictures.picture import Group, NothingToDraw, Picture
from engine.evaluation.report.pictures.risk import (
    attack_rates,
    gains_by_target,
    tables_asked_for,
)
from engine.evaluation.report.pictures.structure import (
    correlation_gaps,
    estimate_overlaps,
    marginals_by_group,
    tables_by_width,
)
from engine.evaluation.result import Result

Draw = Callable[[Result, Names], Iterable[Picture]]
Drawn = Mapping[Draw, Sequence[Picture]]
GROUPS: tuple[tuple[str, str, tuple[tuple[str, str, Draw], ...]], ...] = (
    (
        "Single columns",
        "The columns whose counts are furthest off, the worst first.",
        (("Counts", "univariate", univariate_bars),),
    ),
    (
        "Noise against count",
        "What was added to, or lost from, each count.",
        (("Error against count", "", noise_against_count),),
    ),
    (
        "Several columns",
        "How far correlations are off, how near the shares of combinations are by place, and table by table.",
        (
            ("Correlations", "correlations", correlation_gaps),
            ("Combinations by group", "marginals", marginals_by_group),
            ("Every table", "tables", tables_by_width),
        ),
    ),
    ("Use", "What an analyst would conclude.", (("Estimates", "estimates", estimate_overlaps),)),
    (
        "Risk",
        "Each attack beside guessing and beside its control: most often itself on people whom the release is not from.",
        (
            ("How often attacks are right", "", attack_rates),
            ("Gain by target", "", gains_by_target),
            ("Tables asked for", "", tables_asked_for),
        ),
    ),
)


EARLY: tuple[Draw, ...] = (univariate_bars, noise_against_count)
"""Of the counts of single columns and the tables alone: they can be drawn while all else is measured."""


def draw_early(result: Result, names: Names) -> Drawn:
    """Draw what needs no more than the counts of single columns; the context `drawn_alike` must be open."""
    drawn = {}
    for draw in EARLY:
        with contextlib.suppress(NothingToDraw):
            drawn[draw] = tuple(draw(result, names))
    return drawn


def groups_of(
    result: Result, names: Names, *, most: int | None = None, drawn: Drawn | None = None
) -> list[Group]:
    """Return the pictures of a subject; the context `drawn_alike` must be open.

    most: Of a kind, the worst; None: as many as there are.
    """
    return [
        Group(
            title=title,
            words=words,
            pictures=tuple(
                picture
                for one, measure, draw in drawers
                for picture in (
                    drawn[draw][:most]
                    if drawn and draw in drawn
                    else _or_why(one, measure, draw, result, names, most)
                )
            ),
        )
        for title, words, drawers in GROUPS
        if (result.risks if title == "Risk" else result.scores or not result.risks)
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
