"""The first page of a report: what a data protection officer signs.

Takes an `Evaluation`, a `Result` of it and its lines; gives a `Front`: what is released about whom, what the three
attackers of PRIVACY.md could learn, what is not known, what was accepted. CONFIDENTIAL: the attackers' rates are of the
original. Invariants: what is not known is said, with why; nothing that was accepted is left out; no rate about those of
the data stands alone: what the same attack, or a guess, gets elsewhere is beside it, or why it is not.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from engine.evaluation.attacks.protocol import excess
from engine.evaluation.findings import FIGURES, STRONG, TITLES, Finding, Rate
from engine.evaluation.report.pictures import Picture, front_pictures
from engine.evaluation.report.verdicts import Line, Verdict, verdict
from engine.evaluation.result import Evaluation, Result
from engine.guarantee import Guarantee

MOST_NAMED = 24
"""Columns that the page names."""
CONTROL = "--control"
"""The option that names non-members; reasons that want them say so."""
RELEASED_IDENTIFIER = " may look like an identifier. The owner released it: "
"""In the note of a release about a column that its owner released all the same."""
UNSEEN = (
    "The bound sees groups that one or two columns single out, and what this key released; not groups of three and "
    "more columns, the same {many} under another key, or what is known from elsewhere."
)


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
"""What such attacks gain depends on the numbers of people and records: the figure that held as many against as many,
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


def told(risk: Finding) -> str:
    """Return what an attack is worth in one sentence: its rate, that of the control, and what lies between."""
    if risk.rate is None:
        return ""
    mine, by_guessing, non_members = risk.entry.rates
    parts = [f"{mine}: {share_text(risk.rate.value)}"]
    other = risk.control or risk.baseline
    if risk.control is None:
        why = f" ({risk.control_note})" if risk.control_note else ""
        parts.append(f"{non_members}: not known{why}")
    if other is not None:
        parts.append(f"{non_members if risk.control else by_guessing}: {share_text(other.value)}")
        parts.append(f"beyond that: {_beyond(risk, risk.rate, other)}")
    whole = "; ".join(parts)
    return f"{whole[:1].upper()}{whole[1:]}."


def _beyond(risk: Finding, rate: Rate, other: Rate) -> str:
    """How much oftener an attack is right than elsewhere, in words; like is held against like."""
    own = GAINS.get(risk.measure)
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


# --- the three attackers


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
        learns.append(f"{TITLES.get(rated.measure, rated.measure)}: {told(rated)}")
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


def _most_gaining(risks: Mapping[str, Finding]) -> Finding | None:
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
                f"Predicted: an even yes-or-no in the place of {worst['told']} of the {worst['people']:,} most exposed "
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
            f"Predicted: distinguishes a person of the data from one who is not in {reached:.0%} of cases (a coin: "
            f"50%), and is sure of {exposure['membership_caught']:.0%} of them at 1 false alarm in 100."
        )
    learns += _bounded(dp)
    if dp and dp.get("epsilon") is not None:
        reached = Guarantee.of(dp).most_sure()
    verdicts += [_dp_verdict(dp)] if dp else []
    risk = result.risks.get("membership")
    if risk is not None and ("auc" in risk.values or not exposure):
        learns.append(f"Measured: {risk.verdict or _why(risk)}")
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


def _headline(risk: Finding, value: str) -> Verdict:
    """Verdict of one figure of an attack."""
    return verdict(FIGURES[f"{risk.measure}.{value}"], risk.values.get(value))


def _why(risk: Finding) -> str:
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


# --- the page


@dataclass(frozen=True, kw_only=True, slots=True)
class Front:
    """The first page about one subject."""

    name: str
    title: str
    released: tuple[tuple[str, str], ...]  # What is released about whom: a word and what it is
    attackers: tuple[Attacker, ...]
    pictures: tuple[Picture, ...]
    # unknown, accepted: Sentences.
    unknown: tuple[str, ...]
    accepted: tuple[str, ...]


def front_of(evaluation: Evaluation, result: Result, own_lines: Sequence[Line]) -> Front:
    """Return the first page about a subject."""
    risks = evaluation.study.risks
    attackers = attackers_of(result, own_lines, () if risks is None else risks.quasi_identifiers)
    facts = result.subject.facts
    return Front(
        name=result.subject.name,
        title=(facts.title if facts is not None else "") or evaluation.title,
        released=tuple(_released(evaluation, result)),
        attackers=tuple(attackers),
        pictures=tuple(
            front_pictures(
                result,
                [
                    (one.short, one.without, one.with_release)
                    for one in attackers
                    if one.without is not None and one.with_release is not None
                ],
            )
        ),
        unknown=tuple(_unknown(evaluation, result, own_lines)),
        accepted=tuple(_accepted(result)),
    )


def _released(evaluation: Evaluation, result: Result) -> list[tuple[str, str]]:
    """What is released about whom, and how it was made."""
    subject, cards = result.subject, result.subject.cards
    columns = sorted({name for table in subject.tables for name in table})
    widths = Counter(len(table) for table in subject.tables)
    by_width = ", ".join(f"{n:,} of {w}" for w, n in sorted(widths.items()))
    tables = f"{len(subject.tables):,} (by number of columns: {by_width})"
    more = f" and {len(columns) - MOST_NAMED} more" if len(columns) > MOST_NAMED else ""
    named = f"{len(columns)}: {', '.join(columns[:MOST_NAMED])}{more}"
    made_from = f"{evaluation.data}, {evaluation.n_rows:,} rows"
    facts = subject.facts
    if facts is None:
        whom = f"rows of {made_from}"
        how = "a synthetic table of another tool: how it was protected is not known here"
        return [("about whom", whom), ("tables", tables), ("columns", named), ("made how", how)]
    card: Mapping[str, Any] = next(iter(cards.values()), {})
    rows = max((int(one["rows"]) for one in cards.values()), default=0)
    return [
        (
            "about whom",
            f"{facts.unit.counted(rows)} as released; protected: {facts.entity.many}; data: {made_from}",
        ),
        ("tables", tables),
        ("columns", named),
        ("made how", _made(facts.mode, card, facts.entity.many)),
        ("noise", _noise(cards, facts.unit.many, card)),
        (
            "this release",
            f"vintage {facts.vintage}, key {facts.key_id}, tablepack {facts.version}, content {subject.content_hash}",
        ),
    ]


def _made(mode: str, card: Mapping[str, Any], entities: str) -> str:
    """Mode, profile and thresholds."""
    if mode == "dp":
        dp = card.get("dp") or {}
        held = Guarantee.of(dp)
        noise = f", {dp.get('noise')} noise" if held.is_protected else ""
        return f"mode dp, {held.brief()}{noise}"
    swapped = "; some records exchanged values first" if card.get("swap") else ""
    return (
        f"mode sticky (rules, no proof), profile {card.get('profile')}: nothing about fewer than "
        f"{card.get('low_threshold')} {entities}, noisy threshold of mean {card.get('threshold_mean')}{swapped}"
    )


def _noise(cards: Mapping[Any, Mapping[str, Any]], many: str, card: Mapping[str, Any]) -> str:
    """Noise of a count, over all tables."""
    stated = [float(one["noise_sd"]) for one in cards.values() if not one.get("wide")]
    low, high = min(stated, default=0.0), max(stated, default=0.0)
    span = f"{low:.2f}" if f"{low:.2f}" == f"{high:.2f}" else f"{low:.2f} to {high:.2f}"
    kind = "drawn once" if card.get("dp") else "always the same for the same ones"
    return f"sd {span} {many} in each released count, {kind}"


def _unknown(evaluation: Evaluation, result: Result, own_lines: Sequence[Line]) -> list[str]:
    """What nobody knows, and why."""
    by_reason: dict[str, list[str]] = {}
    for line in own_lines:
        if line.is_risk and line.figure.is_headline and line.value is None:
            named = by_reason.setdefault(line.why, [])
            title = TITLES.get(line.measure, line.measure)
            named += [title] if title not in named else []
    unmeasured = [", ".join(names) for why, names in by_reason.items() if CONTROL in why]
    lines = [
        f"Not computed: {', '.join(names)}: {why}."
        for why, names in by_reason.items()
        if CONTROL not in why
    ]
    if not set(result.risks) - STRONG:
        lines.append("Linkage and inference by who knows some things: not attacked here.")
    if not set(result.risks) & STRONG:
        lines.append(f"Small groups and membership: {NOT_RUN}.")
    if result.aligned.control is None:
        missing = f", and {', '.join(unmeasured)} is not measured" if unmeasured else ""
        lines.append(
            f"No non-members were given ({CONTROL}): a part of the data stands for them, which dilutes the figures"
            f"{missing}."
        )
    if evaluation.study.risks is not None and any("chosen by rule" in n for n in evaluation.notes):
        lines.append("What an attacker knows was chosen by rule; a study declares it.")
    facts = result.subject.facts
    if facts is not None and facts.mode == "sticky":
        lines.append(UNSEEN.format(many=facts.entity.many))
    return lines


def _accepted(result: Result) -> list[str]:
    """What the owner of the release accepted."""
    facts = result.subject.facts
    if facts is None:
        return ["Not known: another tool made this table."]
    card: Mapping[str, Any] = next(iter(result.subject.cards.values()), {})
    lines: list[str] = []
    if reason := (card.get("exposure") or {}).get("accept_risk"):
        lines.append(f"More exposure than the bound, because: “{reason}”.")
    dp = card.get("dp") or {}
    if dp:
        held = Guarantee.of(dp)
        lines += held.warnings() if held.is_protected else [held.promise()]
    for note in facts.notes:
        column, is_one, why = note.partition(RELEASED_IDENTIFIER)
        if is_one:
            lines.append(f"{column} is published although it may identify, because: “{why}”.")
    found = [f"{', '.join(settings)} of {name}" for name, settings in facts.detected.items()]
    found += [f"{setting} (privacy)" for setting in facts.privacy.get("detected") or ()]
    if found and facts.is_reviewed:
        lines.append(
            f"Settings found in the data, which a person says were reviewed: {'; '.join(found)}."
        )
    elif found:
        lines.append(f"Settings found in the data and reviewed by NOBODY: {'; '.join(found)}.")
    by = f"By who holds the key {facts.key_id} and wrote the spec; a release names no person."
    return [*lines, by] if lines else ["Nothing beyond the rules of the profile."]
