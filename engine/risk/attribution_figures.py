"""What the figures of `engine.risk.attribution` say: titles, words, direction, bounds."""

from __future__ import annotations

import math

from engine.score import Figure

NAME = "attribution"
_CAP = "Elliot 2014; Taub et al. 2018, doi:10.1007/978-3-319-99771-1_9"
_TCAP = "Taub and Elliot 2019, UNECE work session on statistical data confidentiality"
_SYNTHPOP = "synthpop 1.9, disclosure(); Raab, Nowok, Dibben, arXiv:2406.16826"

FIGURES = (
    Figure(
        name=f"{NAME}.tcap",
        title="TCAP: share of sure claims that are right",
        words="Where all released records with a person's known columns agree on another, how often that is right.",
        better="lower",
        high=1,
        source=_TCAP,
    ),
    Figure(
        name=f"{NAME}.tcap_gain",
        title="TCAP beyond that of strangers",
        words="(TCAP - strangers' TCAP) / (1 - strangers' TCAP): how much surer one is of people of the data.",
        better="lower",
        low=-math.inf,
        high=1,
        perfect=0,
        good=0,
        poor=0.5,
        source="in the form of precision improvement, and its thresholds: Francis, arXiv:2403.08463, section 4.1",
    ),
    Figure(
        name=f"{NAME}.excess_over_control",
        title="DiSCO above that of strangers",
        words="Share of people rightly disclosed, less that of people outside the data; what chance explains is 0.",
        better="lower",
        low=-1,
        high=1,
        perfect=0,
        good=0.02,
        poor=0.1,
        source="control: arXiv:2403.06595; good: 2 points, poor: 10 points, this project's own",
        is_headline=True,
    ),
    Figure(
        name=f"{NAME}.tcap_baseline",
        title="the same claims, guessed",
        words="How often a guess by the target's own distribution would be right, in as many claims about each target.",
        better="neither",
        high=1,
        source=_CAP,
    ),
    Figure(
        name=f"{NAME}.disco",
        title="DiSCO: disclosed and right",
        words="Share of people of whom the release says one thing only, and the right one; mean over the targets.",
        better="lower",
        high=1,
        perfect=0,
        source=_SYNTHPOP,
    ),
    Figure(
        name=f"{NAME}.dorig",
        title="Dorig: disclosed by the original",
        words="The same share if the original itself were published: what there is to disclose.",
        better="neither",
        high=1,
        source=_SYNTHPOP,
    ),
    Figure(
        name=f"{NAME}.disco_small",
        title="DiSCO without cells of more than 5 people",
        words="DiSCO without what is true of more than 5 people alike, which is often known anyway.",
        better="lower",
        high=1,
        perfect=0,
        source=f"{_SYNTHPOP} (denom_lim 5)",
    ),
    Figure(
        name=f"{NAME}.largest_disco",
        title="DiSCO, worst set and target",
        words="DiSCO of the known columns and the target that disclose most.",
        better="lower",
        high=1,
        perfect=0,
        source=_SYNTHPOP,
    ),
    Figure(
        name=f"{NAME}.flagged",
        title="sets and targets to check",
        words="Known columns and targets whose DiSCO rests on one value, or on a pair of values that go together.",
        better="neither",
        digits=0,
        source=f"{_SYNTHPOP} (thresh_1way 50, 90; thresh_2way 4, 80)",
    ),
    Figure(
        name=f"{NAME}.dcap",
        title="DCAP: chance of a right attribution",
        words="Chance that a record drawn among those with a person's known columns has their target; 0 if none.",
        better="lower",
        high=1,
        source=_CAP,
    ),
    Figure(
        name=f"{NAME}.cap",
        title="CAP among those matched",
        words="The same chance for the people whose known columns the release shows.",
        better="lower",
        high=1,
        source=_CAP,
    ),
    Figure(
        name=f"{NAME}.cap_original",
        title="CAP of the original",
        words="The same chance if the original itself were published.",
        better="neither",
        high=1,
        source=_CAP,
    ),
    Figure(
        name=f"{NAME}.baseline",
        title="CAP of a guess",
        words="Chance that a guess by the target's own distribution is right; mean over the targets.",
        better="neither",
        high=1,
        source=_CAP,
    ),
    Figure(
        name=f"{NAME}.largest_gain",
        title="DCAP beyond a guess, worst target",
        words="(DCAP - guess) / (1 - guess); high also where the known columns tell the target of anybody.",
        better="lower",
        low=-math.inf,
        high=1,
        source=f"{_CAP}; in the form of precision improvement: Francis, arXiv:2403.08463, section 4.1",
    ),
    Figure(
        name=f"{NAME}.matched",
        title="share of people matched",
        words="Share of people whose known columns the release shows at all.",
        better="neither",
        high=1,
        source=_CAP,
    ),
)
