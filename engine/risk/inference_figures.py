"""What the figures of `engine.risk.inference` say."""

from __future__ import annotations

import math

from engine.score import Figure

_NAME = "inference"


def _gain(name: str, title: str, words: str, *, is_headline: bool = False) -> Figure:
    """A figure of precision improvement."""
    return Figure(
        name=f"{_NAME}.{name}",
        title=title,
        words=words,
        better="lower",
        low=-math.inf,
        high=1,
        perfect=0,
        columns="all",
        good=0.0,
        poor=0.5,
        source="Francis, arXiv:2403.08463, section 4.1: above 0.5 is not anonymous",
        is_headline=is_headline,
    )


def _loss(name: str, title: str, words: str, *, is_headline: bool = False) -> Figure:
    """A figure of anonymity loss."""
    return Figure(
        name=f"{_NAME}.{name}",
        title=title,
        words=words,
        better="lower",
        low=-math.inf,
        high=1,
        perfect=0,
        columns="all",
        good=0.5,
        poor=0.75,
        source="arXiv:2507.01710: 0.5 and less is conservatively safe",
        is_headline=is_headline,
    )


_PI = "Precision improvement is (P - baseline) / (1 - baseline): 0 tells nothing of a person, 1 tells all."
_ALC = (
    "Anonymity loss coefficient: as precision improvement, with precision and share of people claimed in one figure at "
    "the attacker's best choice."
)
_SURE = "Among the surest tenth of claims:"
FIGURES: tuple[Figure, ...] = (
    Figure(
        name=f"{_NAME}.precision",
        title="Right guesses, all columns",
        words="Share of all guesses about people's unknown columns that are right; to be held against the baseline.",
        better="neither",
        high=1,
        columns="all",
        source="Choi et al. 2017, arXiv:1703.06490",
    ),
    Figure(
        name=f"{_NAME}.baseline",
        title="Right guesses from other people's rows",
        words="Share of guesses that are right if the same attacker learns from exact rows of other people.",
        better="neither",
        high=1,
        columns="all",
        source="arXiv:2403.06595",
    ),
    Figure(
        name=f"{_NAME}.columns",
        title="Columns attacked",
        words="How many columns could be attacked.",
        better="neither",
        columns="all",
        digits=0,
    ),
    _gain("pi", "Precision improvement, all guesses", f"Over all guesses. {_PI}"),
    _gain("pi_median", "Precision improvement, median column", f"Of the median column. {_PI}"),
    _gain(
        "pi_largest",
        "Precision improvement, worst column",
        f"Of the column that gains most; a gain that chance may explain counts as none. {_PI}",
        is_headline=True,
    ),
    _gain(
        "pi_confident_median",
        "The same of sure claims, median",
        f"{_SURE} the median column. {_PI}",
    ),
    _gain(
        "pi_confident_largest",
        "The same of sure claims, worst",
        f"{_SURE} the worst column, chance set aside. {_PI}",
    ),
    _loss("alc_median", "Anonymity loss, median column", f"Of the median column. {_ALC}"),
    _loss(
        "alc_largest",
        "Anonymity loss, worst column",
        f"Of the column that loses most, chance set aside. {_ALC}",
        is_headline=True,
    ),
)
