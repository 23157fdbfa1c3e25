"""What the figures of `engine.risk.linkage` say."""

from __future__ import annotations

from engine.score import Figure

_NAME = "linkage"
_SOURCE = "Fellegi and Sunter 1969, doi:10.1080/01621459.1969.10501049"
FIGURES: tuple[Figure, ...] = (
    Figure(
        name=f"{_NAME}.correct",
        title="Right links at the best threshold",
        words="Share of right links among those claimed; to be held against strangers and a record drawn blindly.",
        better="lower",
        high=1,
        perfect=0,
        columns="all",
        source=_SOURCE,
    ),
    Figure(
        name=f"{_NAME}.prediction_rate",
        title="People linked at the best threshold",
        words="Share of the people looked for on whom a link is claimed at that threshold.",
        better="neither",
        high=1,
        columns="all",
        source=_SOURCE,
    ),
    Figure(
        name=f"{_NAME}.excess_over_control",
        title="Right links above those of strangers",
        words="Share of right links, less that of people outside the data, or, where rows correspond, of a blind draw.",
        better="lower",
        low=-1,
        high=1,
        perfect=0,
        columns="all",
        good=0.02,
        poor=0.1,
        source="control: arXiv:2403.06595; good: 2 points, poor: 10 points, this project's own",
        is_headline=True,
    ),
    Figure(
        name=f"{_NAME}.correct_all",
        title="Right links, all people",
        words="Share of the people looked for whose best link is right, whatever its probability.",
        better="lower",
        high=1,
        perfect=0,
        columns="all",
        source=_SOURCE,
    ),
    Figure(
        name=f"{_NAME}.linked",
        title="People with a link",
        words="Share of the people looked for who agree with any record in the columns that pairs are made by.",
        better="neither",
        high=1,
        columns="all",
        source=_SOURCE,
    ),
    Figure(
        name=f"{_NAME}.secrets_equal",
        title="Links that tell all secrets",
        words="Share of best links whose record agrees with the person in every column that was not compared.",
        better="lower",
        high=1,
        perfect=0,
        columns="all",
    ),
    Figure(
        name=f"{_NAME}.secrets_share",
        title="Secrets that links tell",
        words="Mean share of the columns that were not compared in which a best link agrees with the person.",
        better="neither",
        high=1,
        columns="all",
    ),
    Figure(
        name=f"{_NAME}.match_share",
        title="Estimated share of matches",
        words="Share of matches among all pairs, as EM finds it.",
        better="neither",
        high=1,
        columns="all",
        digits=6,
        source="Winkler 2000",
    ),
    Figure(
        name=f"{_NAME}.pairs",
        title="Pairs",
        words="Pairs of a person and a record that were compared.",
        better="neither",
        columns="all",
        digits=0,
    ),
)
