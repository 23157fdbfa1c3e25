"""The first page of a report: what a data protection officer signs.

Takes an `Evaluation`, a `Result` of it and its lines; gives a `Front`: what is released about whom, who could learn
what, what is not known, what was accepted. CONFIDENTIAL: the attackers' rates are of the original. Invariant: what is
not known is said, with why; nothing that was accepted is left out.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from engine.evaluation.figures import STRONG, TITLES
from engine.evaluation.report.attackers import NOT_RUN, Attacker, attackers_of
from engine.evaluation.report.pictures.front import front_pictures
from engine.evaluation.report.pictures.picture import Picture
from engine.evaluation.report.verdicts import Line
from engine.evaluation.result import Evaluation, Result
from engine.guarantee import Guarantee

MOST_NAMED = 24
"""Columns that the page names."""
CONTROL = "--control"
"""The option that names strangers; reasons that want them say so."""
RELEASED_IDENTIFIER = " may look like an identifier. The owner released it: "
"""In the note of a release about a column that its owner released all the same."""
UNSEEN = (
    "The bound sees groups that one or two columns single out, and what this key released; not groups of three and "
    "more columns, the same {many} under another key, or what is known from elsewhere."
)


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
    """Return the first page about a subject; the context `drawn_alike` must be open."""
    risks = evaluation.study.risks
    attackers = attackers_of(result, own_lines, () if risks is None else risks.quasi_identifiers)
    facts = result.subject.facts
    return Front(
        name=result.subject.name,
        title=(facts.title if facts is not None else "") or evaluation.title,
        released=tuple(_released(evaluation, result)),
        attackers=tuple(attackers),
        pictures=tuple(front_pictures(result, attackers)),
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
    if result.comparison.control is None:
        foretold = f", and {', '.join(unmeasured)} is not measured" if unmeasured else ""
        lines.append(
            f"No strangers were given ({CONTROL}): a part of the data stands for them, which dilutes the figures"
            f"{foretold}."
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
