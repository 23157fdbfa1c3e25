"""The three attackers of PRIVACY.md, each with the figures that this release has about them.

Takes a `Result` and its lines; gives `Attacker`s in words. CONFIDENTIAL: rates are of the original. Invariant: no rate
about those of the data stands alone: what the same attack, or a guess, gets elsewhere is beside it, or why it is not.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from engine.evaluation.figures import FIGURES, STRONG, TITLES
from engine.evaluation.report.verdicts import Line, Verdict, verdict
from engine.evaluation.result import Result
from engine.evaluation.risk.people import excess
from engine.evaluation.score import HitRate, Risk
from engine.guarantee import Guarantee

Standing = Literal["holds", "holds in part", "does not hold", "not computed"]
STANDINGS: Mapping[Verdict, Standing] = {
    "good": "holds",
    "fair": "holds in part",
    "poor": "does not hold",
    "only stated": "not computed",
    "not computed": "not computed",
}
COIN = 0.5
GAINS = {
    "uniques": ("excess_over_control", 0.01),
    "identification": ("excess_over_control", 1.0),
    "linkage": ("excess_over_control", 1.0),
}
"""What such attacks gain hangs on how many people and records there are: the figure that held as many against as many,
and what makes a share of it."""
NOT_RUN = "no strong attack was run; `tablepack evaluate --attacks` and `tablepack attack` run them"


@dataclass(frozen=True, kw_only=True, slots=True)
class Attacker:
    """One attacker, as a data protection officer reads it."""

    short: str  # For a picture
    # knows, more: Who it is, and what they know beforehand.
    knows: str
    learns: tuple[str, ...]  # What the release tells them
    verdict: Verdict
    # without, with_release: How often they are right without the release, and with it; None: not known.
    without: float | None = None
    with_release: float | None = None
    more: str = ""

    @property
    def standing(self) -> Standing:
        """What the protection comes to."""
        return STANDINGS[self.verdict]


def attackers_of(result: Result, own_lines: Sequence[Line], known: Sequence[str]) -> list[Attacker]:
    """Return the three attackers, from who knows least to who knows most."""
    cards = result.subject.cards
    card: Mapping[str, Any] = next(iter(cards.values()), {})
    dp, exposure = card.get("dp") or {}, card.get("exposure") or {}
    facts = result.subject.facts
    many = facts.entity.many if facts is not None else "people"
    return [
        _neighbour(result, own_lines, known, many),
        _population(result, exposure, dp, many),
        _everybody(result, exposure, dp, many),
    ]


def told(risk: Risk) -> str:
    """Return what an attack is worth in one sentence: its rate, that of the control, and what lies between."""
    if risk.rate is None:
        return ""
    mine, by_guessing, strangers = risk.rate_names
    parts = [f"{mine}: {share_text(risk.rate.value)}"]
    other = risk.control or risk.baseline
    if risk.control is None:
        why = f" ({risk.control_note})" if risk.control_note else ""
        parts.append(f"{strangers}: not known{why}")
    if other is not None:
        parts.append(f"{strangers if risk.control else by_guessing}: {share_text(other.value)}")
        parts.append(f"beyond that: {_beyond(risk, risk.rate, other)}")
    whole = "; ".join(parts)
    return f"{whole[:1].upper()}{whole[1:]}."


def _beyond(risk: Risk, rate: HitRate, other: HitRate) -> str:
    """How much oftener an attack is right than elsewhere, in words; like is held against like."""
    own = GAINS.get(risk.attack)
    gain = excess(rate, other) if own is None else risk.values.get(own[0], math.nan) * own[1]
    if math.isnan(gain):
        return "not known"
    if gain > 0:
        return f"{100 * gain:.2g} points"
    return "nothing" if rate.value <= other.value else "nothing that chance may not explain"


def share_text(share: float) -> str:
    """Return a share in percent, small ones with two digits."""
    percent = 100 * share
    return f"{percent:.1f} %" if percent >= 1 or percent < 1e-9 else f"{percent:.2g} %"


def _neighbour(
    result: Result, own_lines: Sequence[Line], known: Sequence[str], many: str
) -> Attacker:
    """Who knows some things about some people."""
    knows = f"Knows some things about some of the {many}"
    more = "A neighbour, a colleague, a search engine."
    if known:
        more += f" Here they know {', '.join(known)}."
    mine = [
        line
        for line in own_lines
        if line.is_risk and line.measure not in STRONG and line.figure.is_headline
    ]
    ran = {name: risk for name, risk in result.risks.items() if name not in STRONG}
    if not ran:
        return Attacker(
            short="some things known",
            knows=knows,
            more=more,
            learns=("Not attacked here: `tablepack evaluate` does.",),
            verdict="not computed",
        )
    worst = _worst([line.verdict for line in mine])
    main = ran.get("inference")
    rated = main if main is not None and main.rate else _most_gaining(ran)
    learns = []
    if rated is not None:
        learns.append(f"{TITLES.get(rated.attack, rated.attack)}: {told(rated)}")
    computed = len({line.measure for line in mine if line.verdict != "not computed"})
    learns.append(f"{computed} of {len(ran)} attacks could be computed.")
    learns += [
        f"{line.title}: {line.value:.{line.figure.digits}f}, {line.verdict} ({line.threshold})."
        for line in mine
        if line.value is not None and line.verdict == worst and worst in ("fair", "poor")
    ][:2]
    other = None if rated is None else rated.control or rated.baseline
    return Attacker(
        short="some things known",
        knows=knows,
        more=more,
        learns=tuple(learns),
        verdict=worst,
        without=None if other is None else other.value,
        with_release=None if rated is None or rated.rate is None else rated.rate.value,
    )


def _worst(verdicts: Sequence[Verdict]) -> Verdict:
    """The worst of several verdicts; what was not computed counts where nothing else is there."""
    order: tuple[Verdict, ...] = ("poor", "fair", "good")
    return next((one for one in order if one in verdicts), "not computed")


def _most_gaining(risks: Mapping[str, Risk]) -> Risk | None:
    """The attack whose rate is furthest above that of its control."""
    gains = [
        (risk.rate.value - other.value, name)
        for name, risk in risks.items()
        if risk.rate is not None and (other := risk.control or risk.baseline) is not None
    ]
    return risks[max(gains)[1]] if gains else None


def _population(
    result: Result, exposure: Mapping[str, Any], dp: Mapping[str, Any], many: str
) -> Attacker:
    """Who knows, of a small group, all columns but one."""
    knows = "Knows the population"
    more = f"Of a small group of the {many} everything but one column."
    learns: list[str] = []
    verdicts: list[Verdict] = []
    without, reached = None, None
    if exposure:
        verdicts.append(_by_bound(exposure))
        groups = () if result.subject.facts is None else result.subject.facts.groups
        worst = max(groups, key=lambda group: float(group["guessed"]), default=None)
        if worst is not None:
            without, reached = COIN, float(worst["guessed"])
            learns.append(
                f"Foretold: an even yes-or-no in the place of {worst['told']} of the {worst['people']:,} most exposed "
                f"{many} is guessed up to {reached:.0%} right; a coin is right in 50%."
            )
        if "refused_above" in exposure:
            learns.append(f"Refused above {exposure['refused_above']:.0%} unless accepted.")
    learns += _bounded(dp)
    verdicts += [_dp_verdict(dp)] if dp else []
    for name in ("reconstruction", "attribute"):
        if (risk := result.risks.get(name)) is not None:
            learns.append(f"{TITLES[name]}: {told(risk) or _why(risk)}")
            verdicts.append(_headline(risk, "gain"))
    if not exposure and not dp and not verdicts:
        learns.append(f"Not computed: {NOT_RUN}.")
    return Attacker(
        short="a small group known",
        knows=knows,
        more=more,
        learns=tuple(learns),
        verdict=_worst(verdicts),
        without=without,
        with_release=reached,
    )


def _by_bound(exposure: Mapping[str, Any]) -> Verdict:
    """What the most exposed people are worth beside the bounds of the release."""
    most = max(exposure["figures_a_person"], exposure["with_earlier_builds"])  # of earlier releases
    if "guessed" in exposure:
        most = round(2 * exposure["guessed_with_earlier_builds"] - 1, 6)
    if most <= exposure["warn_at"]:
        return "good"
    return "fair" if most <= exposure["refuse_at"] else "poor"


def _everybody(
    result: Result, exposure: Mapping[str, Any], dp: Mapping[str, Any], many: str
) -> Attacker:
    """Who knows everybody else."""
    knows = "Knows everybody else"
    more = f"All other {many} in the data, and asks whether one more is there."
    learns: list[str] = []
    reached: float | None = None
    verdicts: list[Verdict] = []
    if exposure:
        reached = float(exposure["membership_auc"])
        verdicts.append(verdict(FIGURES["membership.auc"], reached))
        learns.append(
            f"Foretold: tells one who is in the data from one who is not in {reached:.0%} of the cases (a coin: 50%), "
            f"and is sure of {exposure['membership_caught']:.0%} of them at 1 false alarm in 100."
        )
    learns += _bounded(dp)
    if dp and dp.get("epsilon") is not None:
        reached = Guarantee.of(dp).most_sure()
    verdicts += [_dp_verdict(dp)] if dp else []
    risk = result.risks.get("membership")
    if risk is not None and ("auc" in risk.values or not exposure):
        learns.append(f"Attacked: {risk.verdict or _why(risk)}")
        measured = risk.values.get("auc", risk.values.get("predicted_auc"))
        if measured is not None:
            reached = measured
            verdicts.append(verdict(FIGURES["membership.auc"], measured))
    if not learns:
        learns.append(f"Not computed: {NOT_RUN}.")
    worst = _worst(verdicts)
    if worst == "poor":
        learns.append("Who must be safe from this one takes mode dp.")
    return Attacker(
        short="everybody else known",
        knows=knows,
        more=more,
        learns=tuple(learns),
        verdict=worst,
        without=None if reached is None else COIN,
        with_release=reached,
    )


def _headline(risk: Risk, value: str) -> Verdict:
    """Verdict of one figure of an attack."""
    return verdict(FIGURES[f"{risk.attack}.{value}"], risk.values.get(value))


def _why(risk: Risk) -> str:
    """Why an attack has no verdict in words."""
    return f"not computed: {'; '.join(dict.fromkeys(risk.why_not.values())) or 'it gave no figure'}"


def _bounded(dp: Mapping[str, Any]) -> list[str]:
    """What differential privacy promises against any attacker."""
    if not dp:
        return []
    held = Guarantee.of(dp)
    if not held.is_protected:
        return [held.promise()]
    return [
        f"Guaranteed: who held even chances beforehand guesses right with at most {held.most_sure():.0%} afterwards, "
        f"whether one {held.entity} is in the data.",
        *(held.together() or [f"This build: {held.brief()}."]),
    ]


def _dp_verdict(dp: Mapping[str, Any]) -> Verdict:
    """What a guarantee is worth, by the same thresholds as a measured attack."""
    if dp.get("epsilon") is None:
        return "poor"
    return verdict(FIGURES["membership.auc"], Guarantee.of(dp).most_sure())
