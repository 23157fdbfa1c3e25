"""What every attack shares: what the attacker knows and holds, the control on non-members, claims, and their rates.

An attack is a function `(held, options, rng) -> Finding`: it guesses about people of the data (`rate`), is held against
a guess without the release (`baseline`) and against the same attack on non-members (`control`), each with its 95 %
interval. What an attack gains on non-members, it gains from any table of that population, whether one is in it or not
(Francis and Wagner, arXiv:2403.06595); only what exceeds the control is a leak. CONFIDENTIAL: true counts are inside.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from statistics import NormalDist
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from pydantic import Field

from engine.evaluation.data.aligned import (
    Aligned,
    Coded,
    Flags,
    Floats,
    Numbers,
    Reading,
    align_several,
    covering,
    drawn,
    generator,
    halves,
    n_codes,
    published_as_is,
    row_ids,
    totals,
)
from engine.evaluation.data.reading import Subject
from engine.evaluation.findings import ENTRIES, NO_RATE, Finding, Rate, Section, optional, wilson
from engine.schema import ColumnSet

KeySet = tuple[str, ...]
UNRELEASED = 4.0
"""Variance taken for the count of a cell that was not released: it holds 0 to about 5 people."""
MOST_VALUES = 100
"""Values of a column that attackers want, at most."""
DECLARED = "the control rows that were given, which the release is not made from"
HALVES = (
    "one half of the original, attacked with tables made from the other half without any protection, as no control "
    "rows were given"
)
EXCESS = "excess_over_control"
"""Figure of quick attacks: what exceeds the control."""
NO_NON_MEMBERS = "no control: a non-member has no row of their own in the table; the excess is above a blind draw"
"""The note where row i was made from person i."""
INDEPENDENT = (
    "the interval takes {} about several columns of a person as independent, which they are not"
)


# What attackers know and want: sections of a study


class Linkage(Section):
    """Probabilistic record linkage (Fellegi and Sunter 1969) of known people to synthetic rows."""

    columns: tuple[str, ...] = ()  # Compared; none: the quasi-identifiers
    # Pairs are made of records that agree in these; none: chosen among the columns.
    block: tuple[str, ...] = ()
    # People whom the attacker looks for; a sample where there are more.
    targets: int = Field(default=2_000, ge=1)


class Attacker(Section):
    """What an attacker knows of a person, and wants to know."""

    quasi_identifiers: tuple[str, ...]  # Columns that the attacker knows
    targets: tuple[str, ...] = ()  # Columns the attacker wants to know; none: all others
    # JSON file, column -> precision of a model on people outside the data; found beside the study or the data.
    baselines: str | None = None
    # Further sets of known columns, for the measures of single key sets (DiSCO, CAP); the quasi-identifiers are one.
    keys: tuple[tuple[str, ...], ...] = ()
    # Row i of the synthetic table was made from row i of the original (partly synthetic data).
    aligned: bool = False
    linkage: Linkage = Linkage()
    # Most people attacked where an attack is expensive; a sample where there are more.
    attempts: int = Field(default=5_000, ge=1)
    model_rows: int = Field(default=8_000, ge=10)  # Rows that a model learns from at most


class Group(Section):
    """A group of people that an attacker looks at."""

    # Column -> value as the data spell it; one or several columns.
    where: dict[str, str | int | float] = Field(min_length=1)


class Assumptions(Section):
    """What strong attackers know and want."""

    # People of the data, and non-members, who are attacked; a sample where there are more.
    people: int = Field(default=2_000, ge=20)
    # Groups whose members' secrets are reconstructed, beside those that the release singles out.
    groups: tuple[Group, ...] = ()
    # Pairs of a group and a secret that are chosen beside those; 0: none.
    most_groups: int = Field(default=24, ge=0)
    # smallest, largest: Sizes of the groups that are chosen, in rows as published.
    smallest: int = Field(default=20, ge=2)
    largest: int = Field(default=2_000, ge=2)
    # Columns that attackers want; none: all that have 2 to 100 values.
    secrets: tuple[str, ...] = ()


# What attackers hold


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class View:
    """An attacker's view of one released table."""

    columns: ColumnSet
    table: Coded  # `measured`: rows that are released cells; None: all are (tables of other tools)
    # Standard deviation of the noise of a released cell as the release states it, in rows; NaN: it states none.
    noise_sd: float
    is_suppressed: bool = False  # The release says that it shows no group of fewer than three
    # Codes of what stands for the rare values of a column: no values of the data.
    others: Mapping[str, Numbers] = field(default_factory=dict)

    def variance(self, n: Floats) -> Floats:
        """Variance of the error of released cells of so many people.

        Where the release states none, that of drawn rows is taken: the count itself.
        """
        if np.isnan(self.noise_sd):
            return np.asarray(np.maximum(n, 1.0), np.float64)
        return np.full(np.shape(n), max(self.noise_sd, 1e-3) ** 2)


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class Held:
    """What an attacker holds."""

    # Data and control as codes; its tables are those of the first release, one a column set.
    aligned: Aligned
    views: tuple[View, ...] = ()  # All tables of all releases that are attacked together
    # Column -> share that a model gets right about people outside the data, where it is declared.
    baselines: Mapping[str, float] = field(default_factory=dict)


def held(
    group: Sequence[Subject],
    original: pd.DataFrame,
    reading: Reading,
    *,
    control: pd.DataFrame | None = None,
) -> Held:
    """What an attacker holds who has some subjects: a column set of several is looked at several times."""
    sides = align_several(original, [one.tables for one in group], reading, control=control)
    tables = {c: t for side in reversed(sides) for c, t in side.tables.items()}
    order = sorted(tables, key=lambda columns: (len(columns), columns))
    views: list[View] = []
    for side, one in zip(sides, group, strict=True):
        others = {
            c: np.flatnonzero(np.isin(side.values[c].astype(str), texts))
            for c, texts in one.placeholders.items()
            if c in side.values
        }
        for columns, table in side.tables.items():
            # Asked again, sticky noise is the same: such a view adds no information.
            if not columns or any(
                view.columns == columns
                and np.array_equal(view.table.n, table.n)
                and all(np.array_equal(view.table.codes[c], table.codes[c]) for c in columns)
                for view in views
            ):
                continue
            # The noise that cards state; that of a modelled table does not.
            card = one.cards.get(columns, {})
            states = bool(card) and not card.get("wide")
            views.append(
                View(
                    columns=columns,
                    table=table,
                    noise_sd=float(card["noise_sd"]) if states else math.nan,
                    is_suppressed=bool(states and card.get("mode") == "sticky"),
                    others={c: others[c] for c in columns if c in others},
                )
            )
    aligned = replace(sides[0], tables={columns: tables[columns] for columns in order})
    return Held(aligned=aligned, views=tuple(views))


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class Cells:
    shown: Floats  # shown, truth: shape (n_cells,): Published and true number of rows; 0 where there are none
    truth: Floats
    is_released: Flags  # shape (n_cells,)
    variance: Floats  # shape (n_cells,): Of the error of a released cell
    of: tuple[Numbers, ...]  # For each group of people the cell that each is in


def cells(aligned: Aligned, view: View, *people: Coded) -> Cells:
    """Count a view, and place people in its cells.

    The variance of errors is as stated, or larger where who knows all counts sees that they are further off.
    """
    table = view.table
    ids, size = row_ids(aligned, [table, aligned.original, *people], view.columns)
    shown = totals(ids[0], table.n, size).astype(np.float64)
    truth = totals(ids[1], aligned.original.n, size).astype(np.float64)
    is_released = np.ones(size, np.bool_)
    if table.measured is not None:
        is_released[:] = False
        is_released[ids[0][table.measured]] = True
    stated = view.variance(truth)
    off = (np.square(shown - truth) / stated)[is_released]
    seen = float(off.mean()) if len(off) else 1.0
    return Cells(
        shown=shown,
        truth=truth,
        is_released=is_released,
        variance=stated * max(seen, 1e-6 if np.isnan(view.noise_sd) else 1.0),
        of=tuple(ids[2:]),
    )


def shares(aligned: Aligned, views: Sequence[View]) -> dict[str, Floats]:
    """The published share of each code of each column, from the narrowest view that has it; none is zero."""
    out: dict[str, Floats] = {}
    for view in sorted(views, key=lambda one: len(one.columns)):
        for name in view.columns:
            if name not in out and view.table.total:
                n = totals(view.table.codes[name], view.table.n, n_codes(aligned, name)) + 0.5
                out[name] = n / n.sum()
    return out


def secrets_of(aligned: Aligned, wanted: Sequence[str]) -> list[str]:
    """The columns that attackers want: those wanted, else all of 2 to `MOST_VALUES` values, as the data show."""
    names = [c for c in wanted if c in aligned.values] if wanted else list(aligned.values)
    kinds = {c: len(np.unique(aligned.original.codes[c])) for c in names}
    return [c for c in names if 2 <= kinds[c] <= (kinds[c] if wanted else MOST_VALUES)]


def unusual(people: Coded, share: Mapping[str, Floats], part: float) -> Flags:
    """Who is unusual: the given part of people, whose values are the rarest by the published one-way shares."""
    rarity = np.zeros(len(people.n))
    for name, known in share.items():
        if name in people.codes:
            rarity -= np.log(known[people.codes[name]])
    chosen = np.zeros(len(rarity), np.bool_)
    chosen[np.argsort(-rarity, kind="stable")[: max(round(part * len(rarity)), 1)]] = True
    return chosen


# Keys that the released tables let an attacker use


def shown_of(aligned: Aligned, columns: Collection[str]) -> KeySet:
    """Those of some columns that a table shows and that the people attacked have, in their order."""
    own = aligned.original.codes
    return tuple(c for c in dict.fromkeys(columns) if c in aligned.values and c in own)


def targets_of(aligned: Aligned, attacker: Attacker, keys: Collection[str]) -> KeySet:
    """The columns that the attacker wants to know: those declared, or all, without the known ones."""
    wanted = attacker.targets or tuple(aligned.values)
    return tuple(c for c in shown_of(aligned, wanted) if c not in set(keys))


def readings(
    aligned: Aligned, keys: KeySet, target: str | None = None
) -> list[tuple[KeySet, Coded]]:
    """The known columns that an attacker can use together: all, or else the largest sets that a table has.

    Each with the smallest table that has them, and the target; those without rows are left out.
    """
    wanted = () if target is None else (target,)
    sets = {tuple(k for k in keys if k in c) for c in aligned.tables if set(wanted) <= set(c)}
    if keys and covering(aligned, (*keys, *wanted)) is not None:
        sets = {keys}
    most = max(map(len, sets), default=0)
    chosen = sorted(s for s in sets if len(s) == most) if most else []
    tables = [(one, covering(aligned, (*one, *wanted))) for one in chosen]
    return [(one, table) for one, table in tables if table is not None and table.total]


def unseen(keys: Sequence[str], shown: Collection[str]) -> list[str]:
    """A note about known columns that no table shows, or nothing."""
    lacking = [k for k in keys if k not in shown]
    return [f"no table shows {', '.join(lacking)}: attacked without, as SDNIST does"] * bool(
        lacking
    )


def best_holding(aligned: Aligned, known: Collection[str]) -> Coded | None:
    """The table with most of the known columns, then most columns, among those that have another column too."""
    wanted = set(known)
    fitting = [t for c, t in aligned.tables.items() if wanted & set(c) and set(c) - wanted]
    return max(
        fitting,
        key=lambda t: (len(wanted & set(t.columns)), len(t.columns), len(t.n)),
        default=None,
    )


# The control


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class Alike:
    """An attack, to be run twice under like conditions: as many people, tables of as many records."""

    members: Aligned  # Some people of the data against the tables, or part of their records
    non_members: Aligned  # People outside against tables that were not made from them
    who: str  # Who the non-members are, in words


def alike(aligned: Aligned, rng: np.random.Generator) -> Alike:
    """People of the data, and non-members, to run the same attack on.

    How many people are unique, or met by chance, depends on how many there are, and on the size of the table: rates of
    groups of other sizes cannot be subtracted. With a control, as many of its people as of the original stand against
    the release. Without, one half of the original against that share of the release's records which makes as many;
    non-members are the other half, against tables of the first half as they are.
    """
    if aligned.control is not None:
        groups = aligned.original, aligned.control
        n = min(len(group.n) for group in groups)
        some = [drawn(group, n, rng) for group in groups]
        members, non_members = (replace(aligned, original=d, control=None) for d in some)
        return Alike(members=members, non_members=non_members, who=DECLARED)
    taken, others = halves(aligned, rng)
    exact = published_as_is(aligned, taken)
    size = len(taken.n)
    released = {c: _thinned(t, size / max(t.total, 1), rng) for c, t in aligned.tables.items()}
    plain = {c: _thinned(t, aligned.tables[c].total / max(size, 1), rng) for c, t in exact.items()}
    return Alike(
        members=replace(aligned, original=taken, tables=released),
        non_members=replace(aligned, original=others, tables=plain),
        who=HALVES,
    )


def _thinned(table: Coded, share: float, rng: np.random.Generator) -> Coded:
    """Some of a table's records, each kept with a chance; all, where that is 1 or more."""
    if share >= 1:
        return table
    n = rng.binomial(table.n, share)
    return replace(table.rows(np.flatnonzero(n > 0)), n=n[n > 0])


class Control(NamedTuple):
    rate: Rate | None  # None: there is none, and `note` says why
    # How much oftener the attack is right about people of the data, chance set aside; or why that is not known
    gain: float | str
    note: str  # Who the non-members are


def controlled(
    aligned: Aligned, rng: np.random.Generator, attack: Callable[[Aligned], Rate | str]
) -> Control:
    """Run an attack on people of the data and on non-members, under like conditions."""
    both = alike(aligned, rng)
    rates = []
    for side in (both.members, both.non_members):
        rate = attack(side)
        if isinstance(rate, str):
            return Control(None, rate, rate)
        rates.append(rate)
    return Control(rates[1], excess(*rates), f"control: {both.who}; {against(*rates)}")


def no_control(people: Coded, table: Coded) -> str:
    """Why non-members cannot be attacked by a table: no rows, or columns that they lack; empty: they can."""
    if not len(people.n) or table.total == 0:
        return "there are too few rows for a control"
    missing = [c for c in table.columns if c not in people.codes]
    return f"the control rows lack {', '.join(missing)}" if missing else ""


def excess(members: Rate, non_members: Rate) -> float:
    """How much oftener an attack is right about people of the data; 0 where chance may explain that it is.

    Chance may explain it where the 95 % intervals overlap.
    """
    apart = members.value - non_members.value
    return 0.0 if apart > 0 and members.low <= non_members.high else apart


def against(members: Rate, non_members: Rate) -> str:
    return (
        f"above non-members: {members.value:.2%} of {members.n} less {non_members.value:.2%} of {non_members.n}, as "
        "many people and records on both sides; an excess that chance may explain counts as none"
    )


# Claims: how sure, how right


SHARES = (1.0, 0.5, 0.2, 0.1, 0.05, 0.02, 0.01)
"""Prediction rates that are looked at."""
FEWEST = 20
"""Claims, below which a precision is an accident."""


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class Claims:
    """What an attacker claims about people.

    People on whom nothing is claimed count in the prediction rate, not in the precision; claims of equal confidence are
    made together or, where a share cuts through them, in proportion.
    """

    confidence: Floats  # shape (n_claims,): Any scale; higher is surer
    # shape (n_claims,): 0 or 1, or the chance of being right where the attacker draws among equals.
    right: Floats
    n_people: int  # People attacked, those without a claim among them

    def ranked(self) -> tuple[Floats, Numbers, Numbers]:
        """Rightness from the surest claim on, and where the claims of equal confidence begin and end."""
        order = np.argsort(-self.confidence, kind="stable")
        confidence = self.confidence[order]
        begins = np.concatenate([[True], confidence[1:] != confidence[:-1]])
        starts = np.flatnonzero(begins)
        ends = np.append(starts[1:], len(order)) - 1
        group = np.cumsum(begins) - 1
        return self.right[order], starts[group], ends[group]


def pooled(several: Collection[Claims]) -> Claims:
    return Claims(
        confidence=np.concatenate([np.empty(0), *(c.confidence for c in several)]),
        right=np.concatenate([np.empty(0), *(c.right for c in several)]),
        n_people=sum(c.n_people for c in several),
    )


def at_share(claims: Claims, share: float) -> Rate | None:
    """Precision of the most confident claims, as many as make up a share of the people attacked; None: no claim."""
    n = min(max(round(share * claims.n_people), 1), len(claims.right))
    if n == 0:
        return None
    right, first, last = claims.ranked()
    total = np.append(0.0, np.cumsum(right))
    start, end = first[n - 1], last[n - 1] + 1
    cut = (total[end] - total[start]) * (n - start) / (end - start)
    return wilson(min(float(total[start] + cut), float(n)), int(n))


def best(claims: Claims) -> tuple[Rate, float] | None:
    """Precision at the threshold of confidence that serves the attacker best, and its prediction rate; None: no claim.

    Best is the highest lower end of the Wilson interval, so that few lucky claims do not win.
    """
    if not len(claims.right):
        return None
    right, _, last = claims.ranked()
    ends = np.unique(last) + 1
    ends = ends[(ends >= FEWEST) | (ends == len(right))]
    hits = np.cumsum(right)[ends - 1]
    rates = [wilson(min(float(h), float(n)), int(n)) for h, n in zip(hits, ends, strict=True)]
    chosen = max((r for r in rates if r is not None), key=lambda rate: (rate.low, rate.n))
    return chosen, chosen.n / claims.n_people


def improvement(precision: float, baseline: float) -> float:
    """Precision improvement (P - P_base) / (1 - P_base); NaN where the baseline leaves nothing to gain.

    Source: Francis, arXiv:2403.08463, section 4.1.
    """
    return math.nan if baseline >= 1 else (precision - baseline) / (1 - baseline)


def beyond_chance(attack: Rate | None, baseline: Rate | None) -> bool:
    """Whether a precision lies above another by more than their intervals."""
    return attack is not None and baseline is not None and attack.low > baseline.high


def coefficient(precision: float, rate: float) -> float:
    """Precision and prediction rate in one figure (PRC): P (1 - (log10 R / -4)^3); R where R <= 0.0001.

    Source: Francis et al., arXiv:2507.01710.
    """
    return rate if rate <= 1e-4 else float(precision * (1 - (np.log10(rate) / -4) ** 3))


def anonymity_loss(attack: Claims, baseline: Claims) -> tuple[float, bool]:
    """Anonymity loss coefficient, (PRC_attack - PRC_base) / (1 - PRC_base), each at its best prediction rate; and
    whether the attack gains more than chance explains. NaN: nothing is claimed, or there is nothing to gain.

    Source: arXiv:2507.01710; 0.5 and less is "conservatively safe".
    """
    found = []
    for claims in (attack, baseline):
        rates = [rate for share in SHARES if (rate := at_share(claims, share)) is not None]
        enough = [rate for rate in rates if rate.n >= FEWEST] or rates[:1]
        if not enough:
            return math.nan, False
        top = max(enough, key=lambda rate: coefficient(rate.low, rate.n / claims.n_people))
        found.append((top, top.n / claims.n_people))
    (gained, share), (guessed, base_share) = found
    loss = improvement(coefficient(gained.value, share), coefficient(guessed.value, base_share))
    beyond = coefficient(gained.low, share) > coefficient(guessed.high, base_share)
    return loss, bool(beyond) and not math.isnan(loss)


# Rankings: area under the curve, and who is caught at few false alarms


FALSE_ALARMS = 0.01
"""Share of non-members whom an attacker may take for people of the data."""
FEWEST_NON_MEMBERS = 100
"""Non-members, below which a rate of one false alarm in a hundred cannot be estimated."""


def _below(scores: Floats, ordered: Floats) -> Floats:
    """How many of an ordered side lie below each score, equal ones counting half."""
    left, right = (np.searchsorted(ordered, scores, side=side) for side in ("left", "right"))
    return np.asarray((left + right) / 2, np.float64)


def auc(positive: Floats, negative: Floats) -> Rate | None:
    """The area under the curve with its interval; None where a side is empty.

    Source: DeLong, DeLong and Clarke-Pearson 1988, doi:10.2307/2531595; on the logit, so that it stays inside 0 and 1.
    """
    n, m = len(positive), len(negative)
    if not n or not m:
        return None
    above = _below(positive, np.sort(negative)) / m
    area = float(above.mean())
    if n < 2 or m < 2:
        return Rate(value=area, low=0.0, high=1.0, n=n + m)
    beneath = 1 - _below(negative, np.sort(positive)) / n
    # Half a person on each side keeps the interval of a clear win, or none, from having no width.
    sd = math.sqrt(float(above.var(ddof=1)) / n + float(beneath.var(ddof=1)) / m)
    inside = min(max(area, 0.5 / (n * m)), 1 - 0.5 / (n * m))
    spread = inside * (1 - inside)
    half = 1.959963984540054 * max(sd, 0.5 / min(n, m) * math.sqrt(spread)) / spread
    logit = math.log(inside / (1 - inside))
    low, high = (1 / (1 + math.exp(-v)) for v in (logit - half, logit + half))
    return Rate(value=area, low=min(low, area), high=max(high, area), n=n + m)


def caught(members: Floats, non_members: Floats) -> tuple[Rate, Rate] | None:
    """Shares of members and of non-members above the score that few non-members exceed; None: too few of either."""
    if len(non_members) < FEWEST_NON_MEMBERS or not len(members):
        return None
    bar = np.sort(non_members)[::-1][int(FALSE_ALARMS * len(non_members))]
    both = [wilson(float((side > bar).sum()), len(side)) for side in (members, non_members)]
    return both[0] or NO_RATE, both[1] or NO_RATE


def gaussian_auc(mu: Floats) -> float:
    """The mean area under the curve of the best attacker of mu-Gaussian differential privacy.

    Source: Dong, Roth and Su 2022, doi:10.1111/rssb.12454.
    """
    return float(optional("scipy.special", "attacks").ndtr(mu / math.sqrt(2)).mean())


def gaussian_caught(mu: Floats) -> float:
    """The mean share that this attacker catches at `FALSE_ALARMS`."""
    bar = NormalDist().inv_cdf(1 - FALSE_ALARMS)
    return float(optional("scipy.special", "attacks").ndtr(mu - bar).mean())


# All attacks, in the order of reports


ATTACKS = tuple(name for name, entry in ENTRIES.items() if entry.kind == "attack")
STRONG_ATTACKS = tuple(name for name, entry in ENTRIES.items() if entry.kind == "strong attack")


def attack_one(name: str, held: Held, options: Any, *, seed: int) -> Finding:
    """Run one attack; `options` is the study's `risks` or, for a strong one, its `attacks`."""
    found: Finding = ENTRIES[name].function()(held, options, generator(seed, name))
    return found
