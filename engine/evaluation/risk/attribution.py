"""Attribution: what released records with somebody's known columns say about another column of theirs.

Takes a `Paired` and what attackers know; gives a `Risk`. CAP and DCAP: Elliot 2014, Taub et al. 2018
(doi:10.1007/978-3-319-99771-1_9). TCAP: Taub and Elliot 2019, targets whose key group has one value only (WEAP = 1).
DiSCO, Dorig and their checks: synthpop 1.9, Raab, Nowok, Dibben, arXiv:2406.16826. Values must be equal: numbers are
not grouped.
"""

from __future__ import annotations

from dataclasses import asdict

import numpy as np
import pandas as pd

from engine.evaluation.data.paired import Coded, Paired, covering
from engine.evaluation.risk.attacker import Attacker
from engine.evaluation.risk.attributed import Attribution, attributed
from engine.evaluation.risk.matching import (
    KeySet,
    groups,
    key_sets,
    shown_of,
    targets_of,
    unseen,
    usable,
)
from engine.evaluation.risk.people import against, alike, excess
from engine.evaluation.score import WHOLE, HitRate, Risk, wilson

WORDS = (
    "The attacker knows some columns of a person, looks at all released records with these values, and where they all "
    "say the same about another column, takes that for the person's. The rate is how often that is right (TCAP); the "
    "baseline, how often a guess by the target's own distribution is."
)
_EXCESS, _TCAP_GAIN = "excess_over_control", "tcap_gain"


def attribution(paired: Paired, attacker: Attacker, rng: np.random.Generator) -> Risk:
    """Attribute every target to people by their known columns: CAP, DCAP, TCAP and DiSCO.

    Returns: Means over the targets, of the quasi-identifiers; broken down by set and target. Where no table
    has all quasi-identifiers with a target, every table with most of them is attacked, and the worst counts
    for the target.
    """
    if not paired.original.total or not any(t.total for t in paired.tables.values()):
        why = "the original, or every table, has no rows"
        return Risk(attack="attribution", words=WORDS, why_not={WHOLE: why})
    attributions, notes = _all_sets(paired, attacker)
    main = [a for a in attributions if a.is_main]
    if not main:
        why = f"no table shows a quasi-identifier together with a target that varies: {'; '.join(notes)}"
        return Risk(attack="attribution", words=WORDS, why_not={WHOLE: why.rstrip(": ")})
    values, why_not = _figures(attributions)
    gains, control, about_control = _control(paired, attacker, rng)
    values |= gains
    why_not |= {k: about_control[-1] for k in (_EXCESS, _TCAP_GAIN) if k not in values}
    claims = _claims(main)
    guessed = 0.0 if claims is None else values["tcap_baseline"] * claims.n
    return Risk(
        attack="attribution",
        words=WORDS,
        rate=claims,
        baseline=None if claims is None else wilson(guessed, claims.n),
        control=control,
        values=values,
        breakdown=pd.DataFrame([asdict(a) for a in attributions]),
        why_not=why_not,
        notes=(
            *notes,
            "the interval takes claims about several columns of a person as independent, which they are not",
            *about_control[1:],
        ),
        control_note=about_control[0],
    )


def _all_sets(paired: Paired, attacker: Attacker) -> tuple[list[Attribution], list[str]]:
    """Attack through the quasi-identifiers, and through every further set of known columns that a table has."""
    attributions: list[Attribution] = []
    notes: list[str] = []
    for i, keys in enumerate(key_sets(attacker)):
        shown = shown_of(paired, keys)
        if i == 0:
            notes += unseen(keys, shown)
        elif shown != keys:
            notes.append(f"no table has {', '.join(keys)}: not looked at")
            continue
        more, remarks = _one_set(paired, attacker, shown, is_main=i == 0)
        attributions += more
        notes += remarks
    return attributions, notes


def _one_set(
    paired: Paired, attacker: Attacker, keys: KeySet, *, is_main: bool
) -> tuple[list[Attribution], list[str]]:
    """Attack every target through one set of known columns."""
    through: dict[tuple[KeySet, KeySet], list[str]] = {}
    constant, left_out, partly = [], [], []
    for name in targets_of(paired, attacker, keys):
        code = paired.original.codes[name]
        if (code == code[0]).all():
            constant.append(name)
            continue
        sets = [s for s in usable(paired, keys, name) if is_main or s == keys]
        tables = [(s, covering(paired, (*s, name))) for s in sets]
        if not (covered := [(s, t) for s, t in tables if t is not None and t.total]):
            left_out.append(name)
        if covered and covered[0][0] != keys:
            partly.append(len(covered[0][0]))
        for chosen, table in covered:
            through.setdefault((chosen, table.columns), []).append(name)
    attributions = []
    for (chosen, columns), names in through.items():
        attributions += _one_table(paired, paired.tables[columns], chosen, names, is_main)
    notes = [f"always the same, nothing to learn: {', '.join(constant)}"] if constant else []
    if left_out and keys:
        notes.append(f"no table has known columns with {', '.join(left_out)}: not attacked")
    if partly:
        at = f"{min(partly)} to {max(partly)}" if min(partly) < max(partly) else f"{partly[0]}"
        notes.append(
            f"no table has all {len(keys)} known columns with {len(partly)} of the targets: attacked through every "
            f"table with most of them ({at}), the worst one counts"
        )
    return attributions, notes


def _one_table(
    paired: Paired, table: Coded, keys: KeySet, names: list[str], is_main: bool
) -> list[Attribution]:
    """Attack some targets through one table."""
    group = groups(paired, paired.original, table, keys)
    return [attributed(paired, table, keys, name, group, is_main) for name in names]


def _claims(attributions: list[Attribution]) -> HitRate | None:
    """Share of claims that are right, of all targets and tables together."""
    return wilson(sum(a.right for a in attributions), sum(a.disclosed for a in attributions))


def _worst(main: list[Attribution]) -> list[Attribution]:
    """The table of each target that tells most of it."""
    return [
        max((a for a in main if a.target == target), key=lambda a: a.dcap)
        for target in dict.fromkeys(a.target for a in main)
    ]


def _figures(attributions: list[Attribution]) -> tuple[dict[str, float], dict[str, str]]:
    """Means over the targets of the quasi-identifiers, the worst table of each, and why some are missing."""
    main = [a for a in attributions if a.is_main]
    worst = _worst(main)
    values = {
        name: float(np.mean([getattr(a, name) for a in worst]))
        for name in ("matched", "baseline", "cap_original", "dcap", "disco", "dorig", "disco_small")
    }
    values["largest_disco"] = max(a.disco for a in attributions)
    values["largest_gain"] = max((a.dcap - a.baseline) / (1 - a.baseline) for a in main)
    values["flagged"] = float(sum(a.one_way or a.two_way > 0 for a in attributions))
    why_not = {}
    if reached := [a.cap for a in worst if a.matched > 0]:
        values["cap"] = float(np.mean(reached))
    else:
        why_not["cap"] = "nobody's known columns are in a table: nobody matched"
    if (claims := _claims(main)) is not None:
        values["tcap"] = claims.value
        # About the same claims, not all people: targets differ in how many there are.
        values["tcap_baseline"] = sum(a.baseline * a.disclosed for a in main) / claims.n
    else:
        why = "nobody is in a group of released records that has one value only: no claim was made"
        why_not |= {"tcap": why, "tcap_baseline": why}
    return values, why_not


def _control(
    paired: Paired, attacker: Attacker, rng: np.random.Generator
) -> tuple[dict[str, float], HitRate | None, tuple[str, ...]]:
    """Gains above the same attack on people whom the tables are not made from, its rate, and notes."""
    both = alike(paired, rng)
    known = shown_of(paired, attacker.quasi_identifiers)
    empty = not both.members.original.total or not both.strangers.original.total
    if empty or shown_of(both.strangers, known) != known:
        return (
            {},
            None,
            ("no control: the control rows lack some of the quasi-identifiers, or are none",),
        )
    mine, others = _alike_targets(both.members, both.strangers, attacker, known)
    of_people, of_strangers = _disclosed(mine), _disclosed(others)
    if of_people is None or of_strangers is None:
        return (
            {},
            None,
            (
                "no control: the control rows, or a part of the original, show no target that varies",
            ),
        )
    gains = {_EXCESS: excess(of_people, of_strangers)}
    notes = [f"control: {both.who}", f"DiSCO {against(of_people, of_strangers)}"]
    claims, control = _claims(mine), _claims(others)
    if claims is None or control is None:
        return gains, control, (*notes, f"no claim about {both.who}: no control of TCAP")
    if control.value < 1:
        gains[_TCAP_GAIN] = excess(claims, control) / (1 - control.value)
        return gains, control, tuple(notes)
    return (
        gains,
        control,
        (*notes, "claims about strangers are always right: TCAP has nothing to gain"),
    )


def _alike_targets(
    members: Paired, strangers: Paired, attacker: Attacker, known: KeySet
) -> tuple[list[Attribution], list[Attribution]]:
    """Attack both sides; only targets that both could be attacked for."""
    mine, others = (
        _one_set(side, attacker, known, is_main=True)[0] for side in (members, strangers)
    )
    common = {a.target for a in mine} & {a.target for a in others}
    return [a for a in mine if a.target in common], [a for a in others if a.target in common]


def _disclosed(attributions: list[Attribution]) -> HitRate | None:
    """DiSCO, mean over the targets; as sure as if it were about one of them, as people are the same in all."""
    worst = _worst(attributions)
    if not worst:
        return None
    return wilson(float(np.mean([a.right for a in worst])), worst[0].n)
