"""What the figures of `engine.risk.apparent` say: titles, words, direction, bounds."""

from __future__ import annotations

import math

from engine.score import Figure

NAME = "apparent_match"
LARGEST_GAIN = "largest_gain"
_SOURCE = (
    "Francis, arXiv:2403.08463, section 4.1 and Table 3; NIST SDNIST, apparent match distribution"
)
FIGURES = (
    Figure(
        name=f"{NAME}.median_pi",
        title="precision improvement, median target",
        words="How much better the attacker is than a model that never saw the person: 0 no better, 1 always right.",
        better="lower",
        low=-math.inf,
        high=1,
        perfect=0,
        good=0,
        poor=0.5,
        source=f"{_SOURCE}; <= 0 tells nothing, < 0.5 counts as anonymous",
        is_headline=True,
    ),
    Figure(
        name=f"{NAME}.largest_pi",
        title="precision improvement, worst target",
        words="The same for the column about which the attacker learns most.",
        better="lower",
        low=-math.inf,
        high=1,
        perfect=0,
        source=f"{_SOURCE}; < 0.5 counts as anonymous there",
    ),
    Figure(
        name=f"{NAME}.{LARGEST_GAIN}",
        title="precision beyond that on strangers, worst target",
        words="(P - strangers' P) / (1 - strangers' P) of the column that gains most; what chance may explain is 0.",
        better="lower",
        low=-math.inf,
        high=1,
        perfect=0,
        good=0,
        poor=0.5,
        source="control: arXiv:2403.06595; thresholds as of the improvement: Francis, arXiv:2403.08463, section 4.1",
        is_headline=True,
    ),
    Figure(
        name=f"{NAME}.mean_pi",
        title="precision improvement, mean",
        words="Mean over the targets, 0 for one that all know; the published table prints it under the heading med PI.",
        better="lower",
        low=-math.inf,
        high=1,
        perfect=0,
        good=0,
        poor=0.5,
        source=_SOURCE,
    ),
    Figure(
        name=f"{NAME}.precision_median",
        title="share of inferred values that are right, median target",
        words="Precision of the attack before anything is held against it.",
        better="lower",
        high=1,
        source=_SOURCE,
    ),
    Figure(
        name=f"{NAME}.matches",
        title="unique matches",
        words="People who alone have their quasi-identifiers, as one released record does; median over the targets.",
        better="neither",
        digits=0,
        source=_SOURCE,
    ),
    Figure(
        name=f"{NAME}.coverage",
        title="coverage",
        words="Share of people about whom the attack says anything.",
        better="neither",
        high=1,
        source=_SOURCE,
    ),
)
