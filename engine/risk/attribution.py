"""Attribution: what released records with somebody's known columns say about another column of theirs.

Takes a `Comparison` and what attackers know; gives a `Risk`. CAP and DCAP: Elliot 2014, Taub et al. 2018
(doi:10.1007/978-3-319-99771-1_9). TCAP: Taub and Elliot 2019, targets whose key group has one value only (WEAP = 1).
DiSCO, Dorig and their checks: synthpop 1.9, Raab, Nowok, Dibben, arXiv:2406.16826. Values must be equal: numbers are
not grouped.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from engine.risk.attribution_figures import FIGURES as FIGURES
from engine.risk.attribution_figures import NAME
from engine.risk.matching import (
    Groups,
    KeySet,
    groups,
    key_sets,
    shown_of,
    targets_of,
    totals,
    unseen,
    usable,
)
from engine.risk.people import strangers
from engine.score import WHOLE, Rate, Risk, wilson
from engine.study_risks import Risks
from engine.utility.comparison import Coded, Codes, Comparison, Numbers, covering, n_codes

Flags = NDArray[np.bool_]

WORDS = (
    "The attacker knows some columns of a person, looks at all released records with these values, and where they all "
    "say the same about another column, takes that for the person's. The rate is how often that is right (TCAP); the "
    "baseline, how often a guess by the target's own distribution is."
)
THRESH_1WAY = (50, 0.90)
"""synthpop: a target's value is checked if more people than this are disclosed and it makes up more than this share."""
THRESH_2WAY = (4, 0.80)
"""synthpop: a disclosed cell of more people is checked where one key's value alone gives the target with this share."""
DENOM_LIM = 5
"""synthpop: cells of more disclosed people are rather what everybody knows of such people."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Attribution:
    """One target, attacked through one set of known columns.

    Attributes
    ----------
    is_main : bool
        Through the quasi-identifiers, or what a table has of them.
    keys, target, table : str
    n : int
        People.
    matched : float
        Share of people whose known columns the table shows.
    baseline : float
        CAP of a guess by the target's own distribution.
    cap_original : float
        CAP of the original itself.
    cap : float
        Mean over the people matched; 0 where none is.
    dcap : float
        Mean over all people; unmatched ones count 0.
    disclosed : int
        People whose group of released records has one value only.
    right : int
        Those for whom it is the right one.
    disco, dorig : float
        `right` by people; the same of the original itself.
    disco_small : float
        DiSCO without cells of more than 5 people.
    largest_cell : int
        People in the largest cell that is disclosed rightly.
    one_way : bool
        One value makes up nearly all that is disclosed.
    two_way : int
        Pairs of a target's and a key's value that nearly go together anyway.
    """

    is_main: bool
    keys: str
    target: str
    table: str
    n: int
    matched: float
    baseline: float
    cap_original: float
    cap: float
    dcap: float
    disclosed: int
    right: int
    disco: float
    dorig: float
    disco_small: float
    largest_cell: int
    one_way: bool
    two_way: int


def attribution(comparison: Comparison, told: Risks, rng: np.random.Generator) -> Risk:
    """Attribute every target to people by their known columns: CAP, DCAP, TCAP and DiSCO.

    Parameters
    ----------
    comparison : Comparison
    told : Risks
        Its quasi-identifiers and every set in `keys`; its targets.
    rng : numpy Generator
        Splits the original for the control.

    Returns
    -------
    Risk
        Means over the targets, of the quasi-identifiers; broken down by set and target. Where no table has all
        quasi-identifiers with a target, every table with most of them is attacked, and the worst counts for the target.
    """
    if not comparison.original.total or not any(t.total for t in comparison.tables.values()):
        why = "the original, or every table, has no rows"
        return Risk(attack=NAME, words=WORDS, why_not={WHOLE: why})
    found, notes = _all_sets(comparison, told)
    main = [a for a in found if a.is_main]
    if not main:
        why = f"no table shows a quasi-identifier together with a target that varies: {'; '.join(notes)}"
        return Risk(attack=NAME, words=WORDS, why_not={WHOLE: why.rstrip(": ")})
    values, why_not = _figures(found)
    control, who = _control(comparison, told, rng)
    claims = _claims(main)
    guessed = 0.0 if claims is None else values["tcap_baseline"] * claims.n
    return Risk(
        attack=NAME,
        words=WORDS,
        rate=claims,
        baseline=None if claims is None else wilson(guessed, claims.n),
        control=control,
        values=values,
        breakdown=pd.DataFrame([asdict(a) for a in found]),
        why_not=why_not,
        notes=(*notes, who),
    )


def _all_sets(comparison: Comparison, told: Risks) -> tuple[list[Attribution], list[str]]:
    """Attack through the quasi-identifiers, and through every further set of known columns that a table has."""
    found: list[Attribution] = []
    notes: list[str] = []
    for i, keys in enumerate(key_sets(told)):
        shown = shown_of(comparison, keys)
        if i == 0:
            notes += unseen(keys, shown)
        elif shown != keys:
            notes.append(f"no table has {', '.join(keys)}: not looked at")
            continue
        more, said = _one_set(comparison, told, shown, is_main=i == 0)
        found += more
        notes += said
    return found, notes


def _one_set(
    comparison: Comparison, told: Risks, keys: KeySet, *, is_main: bool
) -> tuple[list[Attribution], list[str]]:
    """Attack every target through one set of known columns."""
    through: dict[tuple[KeySet, KeySet], list[str]] = {}
    constant, left_out, partly = [], [], []
    for name in targets_of(comparison, told, keys):
        code = comparison.original.codes[name]
        if (code == code[0]).all():
            constant.append(name)
            continue
        sets = [s for s in usable(comparison, keys, name) if is_main or s == keys]
        tables = [(s, covering(comparison, (*s, name))) for s in sets]
        if not (held := [(s, t) for s, t in tables if t is not None and t.total]):
            left_out.append(name)
        if held and held[0][0] != keys:
            partly.append(len(held[0][0]))
        for chosen, table in held:
            through.setdefault((chosen, table.columns), []).append(name)
    found = []
    for (chosen, columns), names in through.items():
        found += _one_table(comparison, comparison.tables[columns], chosen, names, is_main)
    notes = [f"always the same, nothing to learn: {', '.join(constant)}"] if constant else []
    if left_out and keys:
        notes.append(f"no table has known columns with {', '.join(left_out)}: not attacked")
    if partly:
        at = f"{min(partly)} to {max(partly)}" if min(partly) < max(partly) else f"{partly[0]}"
        notes.append(
            f"no table has all {len(keys)} known columns with {len(partly)} of the targets: attacked through every "
            f"table with most of them ({at}), the worst one counts"
        )
    return found, notes


def _one_table(
    comparison: Comparison, table: Coded, keys: KeySet, names: list[str], is_main: bool
) -> list[Attribution]:
    """Attack some targets through one table."""
    group = groups(comparison, comparison.original, table, keys)
    return [_attributed(comparison, table, keys, name, group, is_main) for name in names]


def _attributed(
    comparison: Comparison, table: Coded, keys: KeySet, name: str, group: Groups, is_main: bool
) -> Attribution:
    """All measures of one target in one table."""
    people = comparison.original
    n_values = n_codes(comparison, name)
    cell = _cells(group, people.codes[name], table.codes[name], n_values)
    in_group = totals(group.left, people.n, group.size)[group.left]
    in_cell = totals(cell.left, people.n, cell.size)[cell.left]
    shown = totals(group.right, table.n, group.size)[group.left]
    agreeing = totals(cell.right, table.n, cell.size)[cell.left]
    n, weight = people.total, people.n.astype(np.float64)
    share = np.divide(agreeing, shown, out=np.zeros(len(shown)), where=shown > 0)
    alone = _of_one_value(group.right, cell.right, table.n, group.size)[group.left]
    right = alone & (agreeing > 0)
    matched = float(weight[shown > 0].sum())
    sizes = np.where(right, in_cell, 0)
    checks = _checks(people, keys, people.codes[name], right, sizes)
    return Attribution(
        is_main=is_main,
        keys=", ".join(keys),
        target=name,
        table=", ".join(table.columns),
        n=n,
        matched=matched / n,
        baseline=float(((np.bincount(people.codes[name], weight) / n) ** 2).sum()),
        cap_original=float((weight * in_cell / in_group).sum()) / n,
        cap=float((weight * share).sum()) / max(matched, 1.0),
        dcap=float((weight * share).sum()) / n,
        disclosed=int(weight[alone].sum()),
        right=int(weight[right].sum()),
        disco=float(weight[right].sum()) / n,
        dorig=float(weight[in_cell == in_group].sum()) / n,
        disco_small=float(weight[right & (sizes <= DENOM_LIM)].sum()) / n,
        largest_cell=int(sizes.max(initial=0)),
        one_way=checks[0],
        two_way=checks[1],
    )


def _cells(group: Groups, left: Codes, right: Codes, n: int) -> Groups:
    """Groups of rows that agree in the keys and in the target."""
    key = np.concatenate([group.left * n + left, group.right * n + right])
    number, distinct = pd.factorize(key)
    whole = np.asarray(number, np.int64)
    cut = len(group.left)
    return Groups(left=whole[:cut], right=whole[cut:], size=len(distinct))


def _of_one_value(group: Numbers, cell: Numbers, n: Numbers, size: int) -> Flags:
    """Which groups have rows, all with one value of the target: shape (size,)."""
    there = n > 0
    first = np.full(size, -1, np.int64)
    first[group[there]] = cell[there]
    alone = first >= 0
    alone[group[there & (first[group] != cell)]] = False
    return alone


def _checks(
    people: Coded, keys: KeySet, target: Codes, right: Flags, sizes: Numbers
) -> tuple[bool, int]:
    """Checks, by synthpop, of what is disclosed rightly: one value of the target; pairs with one value of a key."""
    weight = people.n.astype(np.float64)
    by_value = np.bincount(target[right], weight[right])
    top = float(by_value.max(initial=0))
    one_way = bool(top > THRESH_1WAY[0] and top > THRESH_1WAY[1] * by_value.sum())
    large = right & (sizes > THRESH_2WAY[0])
    if not large.any():
        return one_way, 0
    n, pairs = int(target.max()) + 1, 0
    for name in keys:
        code = people.codes[name].astype(np.int64)
        together = np.unique(code[large] * n + target[large])
        of_pair = np.bincount(code * n + target, weight)
        of_key = np.bincount(code, weight)
        pairs += int((of_pair[together] > THRESH_2WAY[1] * of_key[together // n]).sum())
    return one_way, pairs


def _claims(found: list[Attribution]) -> Rate | None:
    """Share of claims that are right, of all targets and tables together."""
    return wilson(sum(a.right for a in found), sum(a.disclosed for a in found))


def _figures(found: list[Attribution]) -> tuple[dict[str, float], dict[str, str]]:
    """Means over the targets of the quasi-identifiers, the worst table of each, and why some are missing."""
    main = [a for a in found if a.is_main]
    worst = {
        target: max((a for a in main if a.target == target), key=lambda a: a.dcap)
        for target in dict.fromkeys(a.target for a in main)
    }.values()
    values = {
        name: float(np.mean([getattr(a, name) for a in worst]))
        for name in ("matched", "baseline", "cap_original", "dcap", "disco", "dorig", "disco_small")
    }
    values["largest_disco"] = max(a.disco for a in found)
    values["largest_gain"] = max((a.dcap - a.baseline) / (1 - a.baseline) for a in main)
    values["flagged"] = float(sum(a.one_way or a.two_way > 0 for a in found))
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
    comparison: Comparison, told: Risks, rng: np.random.Generator
) -> tuple[Rate | None, str]:
    """The same attack on people whom the tables are not made from, and who they are."""
    others, who = strangers(comparison, rng)
    known = shown_of(comparison, told.quasi_identifiers)
    if not others.original.total or shown_of(others, known) != known:
        return None, "no control: the control rows lack some of the quasi-identifiers, or are none"
    found, _ = _one_set(others, told, known, is_main=True)
    rate = _claims(found)
    return rate, f"control: {who}" if rate else f"no claim about {who}: no control"
