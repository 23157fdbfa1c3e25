"""Attacks on released counts, cell by cell: membership, averaging, cloning, and whether a cell is empty or small.

Membership: Homer et al. 2008, doi:10.1371/journal.pgen.1000167; Pyrgelis, Troncoso and De Cristofaro 2018,
arXiv:1708.06145; closed form: Dong, Roth and Su 2022, doi:10.1111/rssb.12454. Averaging: yoid2000/syndiffix-paper-tests
`exact_count.py`; Asghar and Kaafar, PETS 2020, arXiv:1902.06414. Cloning: Gadotti, Houssiau, Rocher, Livshits and de
Montjoye, USENIX Security 2019, arXiv:1804.06752.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from itertools import combinations

import numpy as np
import pandas as pd

from engine.evaluation.attacks.protocol import (
    Assumptions,
    Held,
    View,
    auc,
    caught,
    cells,
    excess,
    gaussian_auc,
    gaussian_caught,
    secrets_of,
    shares,
    unusual,
)
from engine.evaluation.data.aligned import (
    Aligned,
    Coded,
    Floats,
    Numbers,
    drawn,
    key_of,
    n_codes,
)
from engine.evaluation.findings import Finding, Rate, not_computed, rate_of, wilson
from engine.evaluation.measures.counts import repeated_counts

# Membership: is somebody in the data at all?


NO_CONTROL = (
    "no control: give people of the same population whom the release is not made from (--control); the closed form of "
    "the attacker who knows everybody else needs none"
)
UNUSUAL = 0.1
"""Share of people who count as unusual."""
SPREAD = 1.0
"""Share of a predicted count that the one-way tables' prediction is taken to be off by."""
_ATTACKERS = {
    "auc": "knows everybody else",
    "auc_unusual": f"knows everybody else; the {UNUSUAL:.0%} most unusual people",
    "auc_population": "knows the population",
    "auc_population_unusual": f"knows the population; the {UNUSUAL:.0%} most unusual people",
}


def membership(held: Held, assumptions: Assumptions, rng: np.random.Generator) -> Finding:
    """Tell people of the data from non-members.

    Who knows everybody else holds the published count of each cell that a person would stand in against the count
    without the person and with them; who knows the population only, against what the one-way tables predict. Both add
    up log-likelihood ratios over all tables. `rate`: people of the data caught at one false alarm in 100 by who knows
    everybody else; `control`: the non-members caught. Without non-members only the closed form.
    """
    aligned = held.aligned
    members = drawn(aligned.original, assumptions.people, rng)
    others = None if aligned.control is None else drawn(aligned.control, assumptions.people, rng)
    views = [
        view
        for view in held.views
        if view.table.total and (others is None or set(view.columns) <= set(others.codes))
    ]
    if not views or not len(members.n):
        return not_computed("membership", "no table with rows, or no people")
    mine = _scored(aligned, views, members, is_member=True)
    values = {
        "predicted_auc": gaussian_auc(mine["mu"]),
        "predicted_caught": gaussian_caught(mine["mu"]),
        "cells": float(mine["cells"].mean()),
    }
    n_others = "" if others is None else f" and {len(others.n):,} non-members"
    notes = (
        f"{len(members.n):,} people of the data{n_others}, {len(views):,} tables; drawn by the seed",
        "the closed form takes the noise of all cells as independent, and leaves out what suppressed cells and ranges "
        "say",
    )
    if others is None or not len(others.n):
        return Finding(
            measure="membership",
            values=values,
            why_not=dict.fromkeys((*_ATTACKERS, "caught", "caught_population"), NO_CONTROL),
            control_note=NO_CONTROL,
            notes=notes,
            verdict=(
                "Who knows everybody else in the data can be expected to tell whether a person is in it in "
                f"{values['predicted_auc']:.1%} of comparisons with a non-member (a coin: 50%), and to catch "
                f"{values['predicted_caught']:.1%} of people at one false alarm in 100."
            ),
        )
    theirs = _scored(aligned, views, others, is_member=False)
    areas = {name: auc(mine[name], theirs[name]) for name in _ATTACKERS}
    ranked = {name: rate for name, rate in areas.items() if rate is not None}
    values |= {name: rate.value for name, rate in ranked.items()}
    both, by_population = (caught(mine[name], theirs[name]) for name in ("auc", "auc_population"))
    why_not = {}
    if both is not None and by_population is not None:
        values |= {"caught": both[0].value, "caught_population": by_population[0].value}
    else:
        few = "there are fewer than 100 non-members"
        why_not = dict.fromkeys(("caught", "caught_population"), few)
    told = ranked["auc"]
    verdict = (
        f"Who knows everybody else in the data ranks a person of the data above a non-member in {told.value:.1%} of "
        f"comparisons ({told.low:.1%} to {told.high:.1%}; a coin: 50%)"
    )
    if "caught" in values:
        verdict += f", and catches {values['caught']:.1%} of people at one false alarm in 100"
    breakdown = [(_ATTACKERS[k], r.value, r.low, r.high, r.n) for k, r in ranked.items()]
    return Finding(
        measure="membership",
        rate=None if both is None else both[0],
        control=None if both is None else both[1],
        values=values,
        breakdown=pd.DataFrame(breakdown, columns=["attacker", "auc", "low", "high", "people"]),
        why_not=why_not,
        control_note="control: the control rows that were given; 1 in 100 of them at most is taken for one of the data",
        notes=notes,
        verdict=(
            f"{verdict}. Who knows only the population: {values['auc_population']:.1%}, about unusual people "
            f"{values['auc_population_unusual']:.1%}."
        ),
    )


def _scored(
    aligned: Aligned, views: Sequence[View], people: Coded, *, is_member: bool
) -> dict[str, Floats]:
    """Add up what all views say of some people: sums of log-likelihood ratios by attacker.

    `mu`: shift of the whole of the released counts by the person, in standard deviations; `cells`: released cells that
    hold the person; `unusual`: whether they are among the most unusual people.
    """
    others, population, information, held = (np.zeros(len(people.n)) for _ in range(4))
    share = shares(aligned, views)
    total = max(float(np.median([view.table.total for view in views])), 1.0)
    for view in views:
        found = cells(aligned, view, people)
        at = found.of[0]
        weight = found.is_released[at] / found.variance[at]
        others += weight * (found.shown[at] - (found.truth[at] - is_member) - 0.5)
        information += weight
        held += found.is_released[at]
        if len(view.columns) > 1:
            expected = total * np.prod([share[c][people.codes[c]] for c in view.columns], axis=0)
            noise = expected + found.variance[at] + np.square(SPREAD * expected)
            population += (found.shown[at] - expected) / noise
    unusual_ones = unusual(people, share, UNUSUAL)
    scores = {"auc": others, "auc_population": population}
    scores |= {f"{name}_unusual": score[unusual_ones] for name, score in scores.items()}
    return {**scores, "mu": np.sqrt(information), "cells": held}


# Averaging: a count of one column from all tables that show it, against its own table alone


def averages(held: Held, assumptions: Assumptions, rng: np.random.Generator) -> Finding:
    """Estimate every released count of one column from all tables.

    `rate`: counts right to the unit by the best estimate; `control`: from the column's own table alone.
    """
    del assumptions, rng
    tables = [view.table for view in held.views]
    every = [repeated_counts(held.aligned, tables, name) for name in held.aligned.values]
    found = [one for one in every if one is not None]
    if not any(len(one.seen) > 1 and len(one.truth) for one in found):
        return not_computed("averages", "no count of one column is shown by two tables")
    counted = [one for one in found if len(one.truth)]
    truth = np.concatenate([f.truth for f in counted]).astype(np.float64)
    own = np.concatenate([f.seen[0] for f in counted]).astype(np.float64)
    widths = np.unique(np.concatenate([f.width for f in counted]))
    squares, n = np.zeros(widths[-1] + 1), np.zeros(widths[-1] + 1)
    for f in counted:
        np.add.at(squares, f.width, np.square(f.seen - f.truth).sum(axis=1))
        np.add.at(n, f.width, len(f.truth))
    weight = 1 / np.maximum(squares / np.maximum(n, 1), 1e-9)
    # Weighted by inverse mean square error of each width, which the attacker is told; apart: the mean of those that
    # differ.
    means = {
        "mean": lambda f: f.seen.mean(axis=0),
        "weighted": lambda f: np.average(f.seen, axis=0, weights=weight[f.width]),
        "median": lambda f: np.median(f.seen, axis=0),
        "apart": lambda f: np.unique(f.seen, axis=0).mean(axis=0),
    }
    off = {"alone": own - truth}
    off |= {way: np.concatenate([mean(f) for f in counted]) - truth for way, mean in means.items()}
    # Trained: the best weights by width, learnt from half of the counts and scored on the other half; where a column
    # has no table of a width, its own table stands for it.
    by_width = [
        np.concatenate(
            [
                f.seen[f.width == w].mean(axis=0) if (f.width == w).any() else f.seen[0]
                for f in counted
            ]
        )
        for w in widths
    ]
    learnt = np.arange(len(truth)) % 2 == 0
    more = (np.array(by_width[1:]).reshape(-1, len(truth)) - by_width[0]).T
    weights = np.linalg.lstsq(more[learnt], (truth - by_width[0])[learnt], rcond=None)[0]
    off["trained"] = (by_width[0] + more @ weights - truth)[~learnt]
    rmse = {
        way: float(np.sqrt(np.mean(np.square(o)))) if len(o) else math.nan for way, o in off.items()
    }
    exact = {way: float(np.mean(np.abs(o) < 0.5)) if len(o) else math.nan for way, o in off.items()}
    of_half = (by_width[0] - truth)[~learnt]
    alone_of_half = float(np.sqrt(np.mean(np.square(of_half)))) if len(of_half) else math.nan
    # 1 or more where averaging gains nothing; weights that are trained are scored on half of the counts, whose share
    # is no share of all.
    gain = min(
        rmse["trained"] / max(alone_of_half, 1e-9),
        *(rmse[way] / max(rmse["alone"], 1e-9) for way in means),
    )
    best = min(means, key=lambda way: rmse[way])
    differing = sum(int((one.seen[1:] != one.seen[0]).any(axis=1).sum()) for one in found)
    shown = sum(len(one.seen) - 1 for one in found)
    values = {
        "ratio": 1.0 if rmse["alone"] == 0 else gain,
        "exact": exact[best],
        "exact_alone": exact["alone"],
        "differ": differing / max(shown, 1),
        "counts": float(len(truth)),
    }
    rate, alone = (wilson(round(exact[way] * len(truth)), len(truth)) for way in (best, "alone"))
    ways = [(way, rmse[way], exact[way]) for way in ("alone", *means, "trained")]
    ways[0] = ("own table alone", *ways[0][1:])
    again = (
        f"Of the tables that show a column again {values['differ']:.0%} show other counts."
        if differing
        else "All tables show the same counts: there is nothing to average."
    )
    return Finding(
        measure="averages",
        rate=rate,
        control=alone,
        values=values,
        breakdown=pd.DataFrame(ways, columns=["estimate", "rmse", "exact"]),
        control_note="control: the same counts from the column's own table alone",
        notes=(
            f"{len(truth):,} released counts of {len(found)} columns, {shown:,} further views of a column",
        ),
        verdict=(
            f"From all tables a count of one column is off by {min(rmse[best], rmse['alone']):.2f} rows, "
            f"from its own table by {rmse['alone']:.2f}; {values['exact']:.0%} and {values['exact_alone']:.0%} of "
            f"the counts are right to the unit. {again}"
        ),
    )


# Cloning: columns of the data that are copies of each other, each a fresh measurement of the same people


NEARLY = 0.95
"""Share of what guessing one column gets wrong that the other sets right, in both directions, for a copy."""
MOST_PEOPLE = 20_000
"""People by whom copies are found; a sample where there are more."""


def cloning(held: Held, assumptions: Assumptions, rng: np.random.Generator) -> Finding:
    """Find columns that are copies, and what their copies give away.

    The attacker knows everybody else, and all of a person but a secret, which is one of two values; in every released
    cell that the person would stand in with either, the published count is held against the others' count. `rate`:
    right with the tables of all copies; `control`: with those of one column alone.
    """
    found = copies_of(held.aligned, rng)
    if not found:
        return not_computed("cloning", "no two columns of the data are nearly one to one")
    copies = "; ".join(" = ".join(columns) for columns in found)
    people = drawn(held.aligned.original, assumptions.people, rng)
    rows: list[dict[str, object]] = []
    right: dict[str, list[Floats]] = {"alone": [], "together": []}
    for columns in found:
        for secret in secrets_of(held.aligned, assumptions.secrets):
            if secret in columns:
                continue
            one = _told_apart(held, people, columns, secret, rng)
            if one is None:
                continue
            rates = {way: rate_of(answers) for way, answers in one[0].items()}
            rows.append(
                {
                    "copies": " = ".join(columns),
                    "secret": secret,
                    "tables_alone": one[1][0],
                    "tables": one[1][1],
                    "right_alone": rates["alone"].value,
                    "right": rates["together"].value,
                    "gain": excess(rates["together"], rates["alone"]),
                }
            )
            for way, answers in one[0].items():
                right[way].append(answers)
    if not rows:
        why = f"no table shows a copy with another column; copies: {copies}"
        return not_computed("cloning", why)
    together, alone = (rate_of(np.concatenate(right[way])) for way in ("together", "alone"))
    table = pd.DataFrame(rows).sort_values("gain", ascending=False, kind="stable")
    return Finding(
        measure="cloning",
        rate=together,
        control=alone,
        values={
            "right": together.value,
            "gain": excess(together, alone),
            "worst": float(table["gain"].max()),
            "copies": float(sum(map(len, found))),
        },
        breakdown=table,
        control_note="control: the same attack by the tables of one of the columns alone; a coin is right in 50 %",
        notes=(f"copies: {copies}; {len(people.n):,} people, {len(rows)} secrets",),
        verdict=(
            f"{copies}: nearly the same columns. Who knows everybody else tells two values of a person's other column "
            f"apart in {together.value:.0%} of cases by the tables of all copies, {alone.value:.0%} by one's."
        ),
    )


def copies_of(aligned: Aligned, rng: np.random.Generator) -> list[tuple[str, ...]]:
    """The columns of the data that are nearly one to one, those that go together in one."""
    people = drawn(aligned.original, MOST_PEOPLE, rng)
    group = {c: c for c in aligned.values}
    for one, other in combinations(aligned.values, 2):
        if group[one] != group[other] and _is_copy(aligned, people, one, other):
            old, new = group[other], group[one]
            group = {c: new if of == old else of for c, of in group.items()}
    sets = [tuple(c for c in group if group[c] == of) for of in dict.fromkeys(group.values())]
    return [columns for columns in sets if len(columns) > 1]


def _is_copy(aligned: Aligned, people: Coded, one: str, other: str) -> bool:
    """Whether each of two columns tells the other of nearly anybody whose value somebody shares.

    A value that one person has tells all of that person: two columns of such values need not be copies.
    """
    size = n_codes(aligned, other)
    joint = people.codes[one].astype(np.int64) * size + people.codes[other]
    pairs, n = np.unique(joint, return_counts=True)
    for key, told in ((pairs // size, pairs % size), (pairs % size, pairs // size)):
        is_shared = np.bincount(key, n)[key] > 1
        of_key, held = key[is_shared], n[is_shared]
        most = np.zeros(int(of_key.max(initial=-1)) + 1)
        np.maximum.at(most, of_key, held)
        commonest = float(np.bincount(told[is_shared], held).max(initial=0))
        wrong = held.sum() - commonest
        if wrong == 0 or most.sum() - commonest < NEARLY * wrong:
            return False
    return True


def _told_apart(
    held: Held, people: Coded, copies: Sequence[str], secret: str, rng: np.random.Generator
) -> tuple[dict[str, Floats], tuple[int, int]] | None:
    """Right answers (a half for a tie) by one copy's tables and by all, and how many there are; None: no table."""
    views = [v for v in held.views if secret in v.columns and set(copies) & set(v.columns)]
    by_copy = {c: [view for view in views if c in view.columns] for c in copies}
    first = max(by_copy, key=lambda c: (len(by_copy[c]), c))
    if not by_copy[first]:
        return None
    # For each person a value that is not theirs, drawn by the published shares.
    share, codes = shares(held.aligned, held.views)[secret], people.codes[secret]
    likely = np.log(share) + rng.gumbel(size=(len(codes), len(share)))
    likely[np.arange(len(codes)), codes] = -np.inf
    other = {**people.codes, secret: likely.argmax(axis=1).astype(np.int32)}
    sums = {way: np.zeros(len(people.n)) for way in ("alone", "together")}
    for view in views:
        found = cells(held.aligned, view, people, replace(people, codes=other))
        told = np.zeros(len(people.n))
        for at, sign in ((found.of[0], 1), (found.of[1], -1)):
            without = found.truth[at] - (sign > 0)
            shift = (found.shown[at] - without - 0.5) / found.variance[at]
            told += sign * np.where(found.is_released[at], shift, 0.0)
        sums["together"] += told
        if first in view.columns:
            sums["alone"] += told
    right = {way: (np.sign(told) + 1) / 2 for way, told in sums.items()}
    return right, (len(by_copy[first]), len(views))


# Empty or small: which unreleased cells hold somebody?


MOST_CELLS = 20_000
"""Combinations of a table that are looked at; a sample where there are more."""
FEWEST_CELLS = 10
"""Empty cells, and small ones, that a table must have."""
SMALLEST_SHOWN = 3
"""People in a group that may be shown."""


def empty(held: Held, assumptions: Assumptions, rng: np.random.Generator) -> Finding:
    """Tell empty unreleased cells from small ones, table by table; and look for released cells of too few.

    A cell that was not released is published as filled without looking, from what stands around it. The attacker takes
    a higher filled count for "somebody is there"; the control expects people by the one-way counts alone.
    """
    del assumptions
    small, n_shown = _smallest_shown(held)
    values = {"shown_small": float(small)} if n_shown else {}
    why_not = {} if n_shown else {"shown_small": "no release says that it suppresses small groups"}
    share = shares(held.aligned, held.views)
    rows = []
    for view in held.views:
        if len(view.columns) > 1 and view.table.measured is not None:
            rates = _filled(held, view, share, rng)
            if rates is not None:
                rows.append((", ".join(view.columns), *rates))
    if not rows:
        why = "no table says which of its cells were released, or has both empty and small cells that were not"
        lacking = dict.fromkeys(("auc", "auc_one_way", "gain", "tables"), why)
        return Finding(measure="empty", values=values, why_not={**lacking, **why_not})
    n_small = [row[1] for row in rows]
    filled = _weighted([row[2] for row in rows], n_small)
    expected = _weighted([row[3] for row in rows], n_small)
    gain = filled.value - expected.value
    values |= {
        "auc": filled.value,
        "auc_one_way": expected.value,
        "gain": 0.0 if 0 < gain and filled.low <= expected.high else gain,
        "tables": float(len(rows)),
    }
    breakdown = pd.DataFrame(
        [(name, n, f.n - n, f.value, e.value) for name, n, f, e in rows],
        columns=["table", "small_cells", "empty_cells", "auc", "auc_one_way"],
    )
    verdict = (
        f"Of an empty and a small cell that were not released the table shows more in the small one in "
        f"{filled.value:.0%} of cases (a coin: 50%; one-way counts alone: {expected.value:.0%})."
    )
    if n_shown and not small:
        verdict += f" No group of fewer than {SMALLEST_SHOWN} is shown."
    elif small:
        verdict += f" {small:,} released cells hold fewer than {SMALLEST_SHOWN}: the release breaks its own rule."
    return Finding(
        measure="empty",
        rate=filled,
        control=expected,
        values=values,
        breakdown=breakdown.sort_values("auc", ascending=False, kind="stable"),
        why_not=why_not,
        control_note="control: the same cells ranked by the one-way counts alone",
        notes=(
            f"{len(rows)} tables; of one with more than {MOST_CELLS:,} combinations a sample drawn by the seed, beside "
            "all that hold somebody",
            f"{n_shown:,} released cells were looked at for groups of fewer than {SMALLEST_SHOWN}",
        ),
        verdict=verdict,
    )


def _smallest_shown(held: Held) -> tuple[int, int]:
    """How many released cells hold fewer than may be shown, and how many were looked at."""
    small = looked_at = 0
    for view in held.views:
        table = view.table
        if view.is_suppressed and table.measured is not None:
            # Nobody in the data has the placeholder: its cells hold those whose own value is not shown.
            is_other = np.zeros(len(table.n), np.bool_)
            for name, other in view.others.items():
                is_other |= table.codes[name] == other
            found = cells(held.aligned, view, table)
            shown = np.unique(found.of[0][table.measured & ~is_other])
            small += int((found.truth[shown] < SMALLEST_SHOWN).sum())
            looked_at += len(shown)
    return small, looked_at


def _filled(
    held: Held, view: View, share: dict[str, Floats], rng: np.random.Generator
) -> tuple[int, Rate, Rate] | None:
    """Small cells of one table, and the area under the curve by what it shows and by one-way counts; None: too few."""
    places = _combinations(held, view, rng)
    found = cells(held.aligned, view, places)
    at = np.unique(found.of[0], return_index=True)[1]
    at = at[~found.is_released[found.of[0][at]]]
    cell = found.of[0][at]
    is_small = found.truth[cell] > 0
    if min(is_small.sum(), (~is_small).sum()) < FEWEST_CELLS:
        return None
    expected = np.sum([np.log(share[c][places.codes[c][at]]) for c in view.columns], axis=0)
    rates = [auc(score[is_small], score[~is_small]) for score in (found.shown[cell], expected)]
    filled, alone = rates
    return None if filled is None or alone is None else (int(is_small.sum()), filled, alone)


def _combinations(held: Held, view: View, rng: np.random.Generator) -> Coded:
    """Combinations of released values of a table's columns: all of them, or a sample with all that hold somebody."""
    aligned, people = held.aligned, held.aligned.original
    values = [_released_values(held, view, c) for c in view.columns]
    if math.prod(map(len, values)) <= MOST_CELLS:
        places = np.indices([len(v) for v in values]).reshape(len(values), -1)
    else:
        places = np.stack([rng.integers(0, len(v), MOST_CELLS) for v in values])
    isin = [np.isin(people.codes[c], v) for c, v in zip(view.columns, values, strict=True)]
    inside = people.rows(np.flatnonzero(np.all(isin, axis=0)))
    first = np.unique(key_of(aligned, inside, view.columns), return_index=True)[1]
    codes = {
        c: np.concatenate([v[place], inside.codes[c][first]]).astype(np.int32)
        for c, v, place in zip(view.columns, values, places, strict=True)
    }
    n = np.ones(len(codes[view.columns[0]]), np.int64)
    return Coded(columns=view.columns, codes=codes, n=n)


def _released_values(held: Held, view: View, name: str) -> Numbers:
    """Values of a column that its own table shows as released; without one, all that the table shows."""
    own = next((one for one in held.views if one.columns == (name,)), view)
    codes, measured = own.table.codes[name], own.table.measured
    shown = codes if measured is None or own is view else codes[measured]
    return np.unique(shown[shown < n_codes(held.aligned, name)]).astype(np.int64)


def _weighted(areas: Sequence[Rate], n: Sequence[int]) -> Rate:
    """Mean area over tables, by their small cells, with its interval."""
    weight = np.array(n, np.float64) / sum(n)
    value = float(weight @ [a.value for a in areas])
    below, above = (
        float(np.linalg.norm(weight * [abs(a.value - getattr(a, end)) for a in areas]))
        for end in ("low", "high")
    )
    total = sum(a.n for a in areas)
    return Rate(value=value, low=max(value - below, 0), high=min(value + above, 1), n=total)
