"""Strong attackers, who know nearly everything or choose the tables.

On released counts, cell by cell: membership (Homer et al. 2008, doi:10.1371/journal.pgen.1000167; Pyrgelis, Troncoso
and De Cristofaro 2018, arXiv:1708.06145; closed form: Dong, Roth and Su 2022, doi:10.1111/rssb.12454), averaging
(yoid2000/syndiffix-paper-tests `exact_count.py`; Asghar and Kaafar, PETS 2020, arXiv:1902.06414), cloning (Gadotti,
Houssiau, Rocher, Livshits and de Montjoye, USENIX Security 2019, arXiv:1804.06752), and whether a cell is empty or
small.

Solving for one column of many people at once: small groups, everybody, and tables asked for one by one. A released
table (g, R, S) counts, for people of the group g who share the known values R, how many have each value of the secret
S. Each such count is one equation; the members' values of S are the unknowns. Invariant: of the secrets the attacker
reads published counts only. Dinur and Nissim 2003, doi:10.1145/773153.773173; Kasiviswanathan, Rudelson and Smith 2013,
arXiv:1210.2381; Cohen and Nissim 2020, arXiv:1810.05692 (linear program).
"""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import combinations
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import pandas as pd

from engine.errors import SpecError
from engine.evaluation.attacks.inference import chances
from engine.evaluation.attacks.protocol import (
    UNRELEASED,
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
    Codes,
    Flags,
    Floats,
    Numbers,
    covering,
    drawn,
    key_of,
    labels,
    n_codes,
    places,
    row_ids,
    totals,
)
from engine.evaluation.findings import Finding, Rate, not_computed, optional, rate_of, say, wilson
from engine.evaluation.measures.counts import Repeated, repeated_counts
from engine.schema import ColumnSet, column_set

if TYPE_CHECKING:
    from scipy.sparse import csr_matrix

# Membership: is somebody in the data at all?


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
    """Distinguish people of the data from non-members.

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
    figures: dict[str, Any] = {
        "predicted_auc": gaussian_auc(mine["mu"]),
        "predicted_caught": gaussian_caught(mine["mu"]),
        "cells": mine["cells"].mean(),
    }
    n_others = "" if others is None else f" and {len(others.n):,} non-members"
    who = (
        f"{len(members.n):,} people of the data{n_others}, {len(views):,} tables; drawn by the seed"
    )
    notes = (who, say("membership", "independent"))
    if others is None or not len(others.n):
        none = say("membership", "no_control")
        return Finding(
            "membership",
            figures | dict.fromkeys((*_ATTACKERS, "caught", "caught_population"), none),
            control_note=none,
            notes=notes,
            verdict=say("membership", "predicted", **figures),
        )
    theirs = _scored(aligned, views, others, is_member=False)
    areas = {name: auc(mine[name], theirs[name]) for name in _ATTACKERS}
    ranked = {name: rate for name, rate in areas.items() if rate is not None}
    figures |= {name: rate.value for name, rate in ranked.items()}
    both, by_population = (caught(mine[name], theirs[name]) for name in ("auc", "auc_population"))
    figures |= dict.fromkeys(("caught", "caught_population"), say("membership", "few"))
    catches = ""
    if both is not None and by_population is not None:
        figures |= {"caught": both[0].value, "caught_population": by_population[0].value}
        catches = say("membership", "catches", **figures)
    ends = {"low": ranked["auc"].low, "high": ranked["auc"].high}
    breakdown = [(_ATTACKERS[k], r.value, r.low, r.high, r.n) for k, r in ranked.items()]
    return Finding(
        "membership",
        figures,
        pd.DataFrame(breakdown, columns=["attacker", "auc", "low", "high", "people"]),
        rate=None if both is None else both[0],
        control=None if both is None else both[1],
        control_note=say("membership", "control"),
        notes=notes,
        verdict=say("membership", "measured", catches=catches, **ends, **figures),
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
    result = averaged(found)
    rmse, exact, n = result.rmse, result.exact, result.counts
    # Weights that are trained are scored on half of the counts: their share is no share of all.
    best = min((way for way in rmse if way not in ("alone", "trained")), key=lambda way: rmse[way])
    differing = sum(int((one.seen[1:] != one.seen[0]).any(axis=1).sum()) for one in found)
    shown = sum(len(one.seen) - 1 for one in found)
    figures = {
        "ratio": 1.0 if rmse["alone"] == 0 else result.gain,
        "exact": exact[best],
        "exact_alone": exact["alone"],
        "differ": differing / max(shown, 1),
        "counts": n,
    }
    rate, alone = (wilson(round(exact[way] * n), n) for way in (best, "alone"))
    ways = [("own table alone" if way == "alone" else way, rmse[way], exact[way]) for way in rmse]
    again = say("averages", "differ" if differing else "same", **figures)
    off = {"best": min(rmse[best], rmse["alone"]), "alone": rmse["alone"]}
    return Finding(
        "averages",
        figures,
        pd.DataFrame(ways, columns=["estimate", "rmse", "exact"]),
        rate=rate,
        control=alone,
        control_note=say("averages", "control"),
        notes=(say("averages", "counted", n=n, columns=len(found), shown=shown),),
        verdict=say("averages", "verdict", again=again, **off, **figures),
    )


class Averaging(NamedTuple):
    """How near an attacker comes to the counts of a table, from it alone and from all tables that show them."""

    counts: int  # Number of counts attacked
    # Root mean square error, and share right to the unit once rounded, by estimate: "alone", the narrowest table;
    # "mean"; "weighted" by inverse mean square error of each width, which the attacker knows; "median"; "apart", the
    # mean of those that differ; "trained", the best weights by width, learnt from half of the counts and scored on the
    # other half.
    rmse: dict[str, float]
    exact: dict[str, float]
    sd_alone: float  # Standard deviation of the error of the narrowest table
    # Smallest of the errors over that of the narrowest table alone (for "trained": of the same half of the
    # counts): 1 or more where averaging gains nothing.
    gain: float


def averaged(figures: Iterable[Repeated]) -> Averaging:
    """Estimate every count from all tables that show it; pooled over columns, tables and releases."""
    found = [one for one in figures if len(one.truth)]
    truth = np.concatenate([f.truth for f in found]).astype(np.float64)
    widths = np.unique(np.concatenate([f.width for f in found]))
    squares, n = np.zeros(widths[-1] + 1), np.zeros(widths[-1] + 1)
    for f in found:
        np.add.at(squares, f.width, np.square(f.seen - f.truth).sum(axis=1))
        np.add.at(n, f.width, len(f.truth))
    weight = 1 / np.maximum(squares / np.maximum(n, 1), 1e-9)
    ways: dict[str, Callable[[Repeated], Floats]] = {
        "alone": lambda f: f.seen[0],
        "mean": lambda f: f.seen.mean(axis=0),
        "weighted": lambda f: np.average(f.seen, axis=0, weights=weight[f.width]),
        "median": lambda f: np.median(f.seen, axis=0),
        "apart": lambda f: np.unique(f.seen, axis=0).mean(axis=0),
    }
    off = {way: np.concatenate([guess(f) for f in found]) - truth for way, guess in ways.items()}
    # Weights learnt from half of the counts; where a column has no table of a width, its own table stands for it.
    by_width = [
        np.concatenate(
            [
                f.seen[f.width == w].mean(axis=0) if (f.width == w).any() else f.seen[0]
                for f in found
            ]
        )
        for w in widths
    ]
    learnt = np.arange(len(truth)) % 2 == 0
    more = (np.array(by_width[1:]).reshape(-1, len(truth)) - by_width[0]).T
    weights = np.linalg.lstsq(more[learnt], (truth - by_width[0])[learnt], rcond=None)[0]
    off["trained"] = (by_width[0] + more @ weights - truth)[~learnt]
    rmse = {way: _rms(o) for way, o in off.items()}
    exact = {way: float(np.mean(np.abs(o) < 0.5)) if len(o) else math.nan for way, o in off.items()}
    trained = rmse["trained"] / max(_rms((by_width[0] - truth)[~learnt]), 1e-9)
    others = (rmse[way] / max(rmse["alone"], 1e-9) for way in ways if way != "alone")
    return Averaging(
        counts=len(truth),
        rmse=rmse,
        exact=exact,
        sd_alone=float(np.std(off["alone"])),
        gain=min(trained, *others),
    )


def _rms(off: Floats) -> float:
    return float(np.sqrt(np.mean(np.square(off)))) if len(off) else math.nan


# Cloning: duplicate columns of the data, each a fresh measurement of the same people


NEARLY = 0.95
"""Share of what guessing one column gets wrong that the other sets right, in both directions, for a copy."""
MOST_LOOKED_AT = 20_000
"""People by whom copies are found; a sample where there are more."""


def cloning(held: Held, assumptions: Assumptions, rng: np.random.Generator) -> Finding:
    """Find columns that are copies, and what their copies disclose.

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
            one = _distinguished(held, people, columns, secret, rng)
            if one is None:
                continue
            answers, n_tables = one
            rates = {way: rate_of(of_way) for way, of_way in answers.items()}
            rows.append(
                {
                    "copies": " = ".join(columns),
                    "secret": secret,
                    "tables_alone": n_tables[0],
                    "tables": n_tables[1],
                    "right_alone": rates["alone"].value,
                    "right": rates["together"].value,
                    "gain": excess(rates["together"], rates["alone"]),
                }
            )
            for way, of_way in answers.items():
                right[way].append(of_way)
    if not rows:
        why = f"no table shows a copy with another column; copies: {copies}"
        return not_computed("cloning", why)
    together, alone = (rate_of(np.concatenate(right[way])) for way in ("together", "alone"))
    table = pd.DataFrame(rows).sort_values("gain", ascending=False, kind="stable")
    told = {"copies": copies, "together": together.value, "alone": alone.value}
    return Finding(
        "cloning",
        {
            "right": together.value,
            "gain": excess(together, alone),
            "worst": table["gain"].max(),
            "copies": sum(map(len, found)),
        },
        table,
        rate=together,
        control=alone,
        control_note=say("cloning", "control"),
        notes=[say("cloning", "counted", copies=copies, people=len(people.n), secrets=len(rows))],
        verdict=say("cloning", "verdict", **told),
    )


def copies_of(aligned: Aligned, rng: np.random.Generator) -> list[tuple[str, ...]]:
    """The columns of the data that are nearly one to one, those that go together in one."""
    people = drawn(aligned.original, MOST_LOOKED_AT, rng)
    group = {c: c for c in aligned.values}
    for one, other in combinations(aligned.values, 2):
        if group[one] != group[other] and _is_copy(people, one, other):
            old, new = group[other], group[one]
            group = {c: new if of == old else of for c, of in group.items()}
    sets = [tuple(c for c in group if group[c] == of) for of in dict.fromkeys(group.values())]
    return [columns for columns in sets if len(columns) > 1]


def _is_copy(people: Coded, one: str, other: str) -> bool:
    """Whether each of two columns determines the other of nearly anybody whose value somebody shares.

    A value that one person has determines all of that person: two columns of such values need not be copies.
    """
    codes = people.codes[one], people.codes[other]
    for known, secret in (codes, codes[::-1]):
        is_shared = np.bincount(known)[known] > 1
        if determined(known[is_shared], secret[is_shared]) < NEARLY:
            return False
    return True


def determined(known: Codes, secret: Codes, n: Numbers | None = None) -> float:
    """Share of what guessing one column gets wrong that another one sets right; 0 where nothing is wrong.

    Goodman and Kruskal's lambda (1954), doi:10.1080/01621459.1954.10501231.
    """
    rows = pd.DataFrame({"known": known, "secret": secret, "n": 1 if n is None else n})
    table = rows.groupby(["known", "secret"])["n"].sum()
    commonest = int(table.groupby("secret").sum().max()) if len(table) else 0
    wrong = int(table.sum()) - commonest
    return (int(table.groupby("known").max().sum()) - commonest) / wrong if wrong else 0.0


def _distinguished(
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
        score = np.zeros(len(people.n))
        for at, sign in ((found.of[0], 1), (found.of[1], -1)):
            without = found.truth[at] - (sign > 0)
            shift = (found.shown[at] - without - 0.5) / found.variance[at]
            score += sign * np.where(found.is_released[at], shift, 0.0)
        sums["together"] += score
        if first in view.columns:
            sums["alone"] += score
    right = {way: (np.sign(score) + 1) / 2 for way, score in sums.items()}
    return right, (len(by_copy[first]), len(views))


# Empty or small: which unreleased cells hold somebody?


MOST_CELLS = 20_000
"""Combinations of a table that are looked at; a sample where there are more."""
FEWEST_CELLS = 10
"""Empty cells, and small ones, that a table must have."""
SMALLEST_SHOWN = 3
"""People in a group that may be shown."""


def empty(held: Held, assumptions: Assumptions, rng: np.random.Generator) -> Finding:
    """Distinguish empty unreleased cells from small ones, table by table; and look for released cells of too few.

    A cell that was not released is published as filled without looking, from what stands around it. The attacker takes
    a higher filled count for "somebody is there"; the control expects people by the one-way counts alone.
    """
    del assumptions
    small = n_shown = 0  # Released cells of fewer than may be shown, and how many were looked at
    for view in held.views:
        table = view.table
        if view.is_suppressed and table.measured is not None:
            # Nobody in the data has the placeholder: its cells hold those whose own value is not shown.
            is_other = np.zeros(len(table.n), np.bool_)
            for name, others in view.others.items():
                is_other |= np.isin(table.codes[name], others)
            found = cells(held.aligned, view, table)
            shown = np.unique(found.of[0][table.measured & ~is_other])
            small += int((found.truth[shown] < SMALLEST_SHOWN).sum())
            n_shown += len(shown)
    none = "no release says that it suppresses small groups"
    figures: dict[str, Any] = {"shown_small": small if n_shown else none}
    share = shares(held.aligned, held.views)
    rows = []
    for view in held.views:
        if len(view.columns) > 1 and view.table.measured is not None:
            rates = _filled(held, view, share, rng)
            if rates is not None:
                rows.append((", ".join(view.columns), *rates))
    if not rows:
        names = ("auc", "auc_one_way", "gain", "tables")
        return Finding("empty", figures | dict.fromkeys(names, say("empty", "none")))
    n_small = [row[1] for row in rows]
    filled = _weighted([row[2] for row in rows], n_small)
    expected = _weighted([row[3] for row in rows], n_small)
    figures |= {
        "auc": filled.value,
        "auc_one_way": expected.value,
        "gain": excess(filled, expected),
        "tables": len(rows),
    }
    breakdown = pd.DataFrame(
        [(name, n, f.n - n, f.value, e.value) for name, n, f, e in rows],
        columns=["table", "small_cells", "empty_cells", "auc", "auc_one_way"],
    )
    verdict = say("empty", "verdict", filled=filled.value, expected=expected.value)
    counted = {"small": small, "shown": n_shown, "smallest": SMALLEST_SHOWN}
    if n_shown or small:
        verdict += say("empty", "broken" if small else "kept", **counted)
    return Finding(
        "empty",
        figures,
        breakdown.sort_values("auc", ascending=False, kind="stable"),
        rate=filled,
        control=expected,
        control_note=say("empty", "control"),
        notes=(
            say("empty", "tables", tables=len(rows), most=MOST_CELLS),
            say("empty", "looked_at", **counted),
        ),
        verdict=verdict,
    )


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
    values = []
    for name in (
        view.columns
    ):  # as its own table shows them as released; without one, all that the table shows
        own = next((one for one in held.views if one.columns == (name,)), view)
        shown, measured = own.table.codes[name], own.table.measured
        shown = shown if measured is None or own is view else shown[measured]
        values.append(np.unique(shown[shown < n_codes(aligned, name)]).astype(np.int64))
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


def _weighted(areas: Sequence[Rate], n: Sequence[int]) -> Rate:
    weight = np.array(n, np.float64) / sum(n)
    value = float(weight @ [a.value for a in areas])
    below, above = (
        float(np.linalg.norm(weight * [abs(a.value - getattr(a, end)) for a in areas]))
        for end in ("low", "high")
    )
    total = sum(a.n for a in areas)
    return Rate(value=value, low=max(value - below, 0), high=min(value + above, 1), n=total)


# Attacks that solve for one column of many people at once


# Targets: which small groups, and which secrets of theirs, an attacker goes for


WIDEST_GROUP = 2
"""Columns that single a group out."""
MOST_OF_ONE = 4
"""Targets with one secret, or one set of columns that single them out."""
TOO_COMMON = 0.9
"""Share of the commonest value in a group beyond which there is little to find out."""
DETERMINED = 0.8
"""Share of what guessing gets wrong that another column sets right, beyond which it determines a secret."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Target:
    columns: ColumnSet  # Columns that single the group out
    codes: tuple[int, ...]  # Its codes in these
    secret: str

    def inside(self, table: Coded) -> Flags:
        inside = np.ones(len(table.n), np.bool_)
        for name, code in zip(self.columns, self.codes, strict=True):
            inside &= table.codes[name] == code
        return inside

    def name(self, aligned: Aligned) -> str:
        """What the group is called: its columns and values."""
        texts = [labels(aligned, c)[code] for c, code in zip(self.columns, self.codes, strict=True)]
        return ", ".join(f"{c} = {text}" for c, text in zip(self.columns, texts, strict=True))


def all_targets(held: Held, assumptions: Assumptions) -> list[Target]:
    """Targets that a study declares, then those about which the release says most; each once."""
    declared = declared_targets(held.aligned, assumptions)
    return list(dict.fromkeys([*declared, *chosen_targets(held, assumptions)]))


def declared_targets(aligned: Aligned, assumptions: Assumptions) -> list[Target]:
    """The targets that a study declares: its groups, with every secret."""
    out = []
    for number, group in enumerate(assumptions.groups):
        place, columns, codes = f"attacks.groups.{number}.where", column_set(list(group.where)), []
        if unknown := [c for c in columns if c not in aligned.values]:
            raise SpecError(f"{place}: no table and the data have {', '.join(unknown)} together")
        for name in columns:
            wanted = str(group.where[name])
            spelled = [*labels(aligned, name)[:-1], ""]  # last the blank
            if wanted not in spelled:
                raise SpecError(f"{place}.{name}: neither the data nor a table has this value")
            codes.append(spelled.index(wanted))
        secrets = [s for s in secrets_of(aligned, assumptions.secrets) if s not in columns]
        out += [Target(columns=columns, codes=tuple(codes), secret=s) for s in secrets]
    return out


def chosen_targets(held: Held, assumptions: Assumptions) -> list[Target]:
    """The targets about which the release says most for their size, the most exposed first.

    A release singles a group out by a released bucket of one or two columns. The more released cells split it by a
    secret, for its size, the more is said of each member. Only what is published decides, never the truth.
    """
    aligned = held.aligned
    wanted = set(secrets_of(aligned, assumptions.secrets))
    if not assumptions.secrets:
        wanted -= settled(aligned)
    # For every set of columns and secret the group and value of each released cell that splits it further.
    splitting: dict[tuple[ColumnSet, str], list[Numbers]] = defaultdict(list)
    for view in held.views:
        for secret in wanted & set(view.columns):
            rest = [c for c in view.columns if c != secret]
            for width in range(1, min(WIDEST_GROUP, len(rest) - 1) + 1):
                for columns in combinations(rest, width):
                    keys = key_of(aligned, view.table, (*columns, secret))
                    if view.table.measured is not None:
                        keys = keys[view.table.measured]
                    splitting[column_set(list(columns)), secret].append(keys)
    scored: list[tuple[float, Target]] = []
    for (columns, secret), parts in sorted(splitting.items()):
        keys = np.concatenate(parts)
        # A secret of many values has more cells, but each says less of it.
        both, n = np.unique(keys, return_counts=True)
        cell, at, values = np.unique(
            both // n_codes(aligned, secret), return_inverse=True, return_counts=True
        )
        figures = np.bincount(at.reshape(-1), n) / values
        size = np.zeros(len(cell), np.int64)  # as published
        if (table := covering(aligned, columns)) is not None:
            known, of = np.unique(key_of(aligned, table, columns), return_inverse=True)
            counted = totals(of.reshape(-1), table.n, len(known))
            size = np.append(counted, 0)[places(known, cell)]
        fit = np.flatnonzero((size >= assumptions.smallest) & (size <= assumptions.largest))
        exposure = figures[fit] / size[fit]
        for i in np.argsort(-exposure, kind="stable")[:MOST_OF_ONE].tolist():
            shape = [n_codes(aligned, c) for c in columns]
            codes = tuple(int(c) for c in np.unravel_index(cell[fit[i]], shape))
            scored.append((float(exposure[i]), Target(columns=columns, codes=codes, secret=secret)))
    scored.sort(key=lambda one: (-one[0], one[1].columns, one[1].codes, one[1].secret))
    times: Counter[object] = Counter()
    out: list[Target] = []
    for _, target in scored:
        if len(out) >= assumptions.most_groups:
            break
        if max(times[target.secret], times[target.columns]) >= MOST_OF_ONE:
            continue
        if _commonest(aligned, target) <= TOO_COMMON:
            times.update([target.secret, target.columns])
            out.append(target)
    return out


def _commonest(aligned: Aligned, target: Target) -> float:
    """Published share of the commonest value of a secret in a group; 1 where there is none."""
    table = covering(aligned, {*target.columns, target.secret})
    if table is None:
        return 1.0
    inside = target.inside(table)
    n = totals(table.codes[target.secret][inside], table.n[inside])
    return float(n.max() / n.sum()) if n.sum() else 1.0


def settled(aligned: Aligned) -> set[str]:
    """The columns that another one determines for nearly everybody, as the tables of two columns show.

    There is nothing left to reconstruct of a decile of income where the income is known.
    """
    found = set()
    for columns, table in aligned.tables.items():
        if len(columns) == 2 and table.total:
            for known, secret in (columns, columns[::-1]):
                share = determined(table.codes[known], table.codes[secret], table.n)
                found |= {secret} if share > DETERMINED else set()
    return found


# The system of a group


MOST_DISTINGUISHED = 8
"""Values of a secret that are distinguished; rarer ones are one more."""
FIRMNESS = 0.2
"""How firmly chances beforehand hold, beside what their own variance says: noisy counts are more informative."""
LEAST_CHANCE = 0.02
"""Chance below which a value is not taken to be for anybody beforehand."""
_FIRM = 3.0
"""People's worth that a model's mean is held by: a group's published shares are noisy."""
_STEPS = 300


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class System:
    """Equations about the secrets of a group."""

    matrix: csr_matrix  # shape (n_equations, n_people): 1 where a member is counted
    shown: Floats  # shape (n_equations, n_values): Published count of each value
    variance: Floats  # shape (n_equations, n_values): Of the error of these
    view: Numbers  # shape (n_equations,): Which view says it
    truth: Numbers  # shape (n_people,): Which value each member has
    share: Floats  # shape (n_values,): Share of each value in the group, as published
    values: Numbers  # shape (n_distinguished,): Codes of the values distinguished; any further value is the last
    members: Coded
    released: Numbers  # shape (n_equations,): Released cells in each equation

    def of_views(self, wanted: Flags) -> System:
        kept = np.flatnonzero(wanted[self.view])
        names = ("matrix", "shown", "variance", "view", "released")
        return replace(self, **{name: getattr(self, name)[kept] for name in names})


def system_of(held: Held, target: Target) -> System | None:
    """Write down what all views say of a group's secrets; None: nobody is in it, or no table shows the secret."""
    members = held.aligned.original.rows(np.flatnonzero(target.inside(held.aligned.original)))
    wanted = {*target.columns, target.secret}
    at = [i for i, view in enumerate(held.views) if wanted <= set(view.columns)]
    if not at or not len(members.n):
        return None
    # Values that the narrowest view shows most often in the group, and published shares.
    narrowest = min((held.views[i] for i in at), key=lambda one: len(one.columns)).table
    inside = target.inside(narrowest)
    size = n_codes(held.aligned, target.secret)
    n = totals(narrowest.codes[target.secret][inside], narrowest.n[inside], size)
    chosen = np.argsort(-n, kind="stable")[:MOST_DISTINGUISHED]
    values = np.sort(chosen[n[chosen] > 0])
    if not len(values):
        return None
    shown_of_each = np.append(n[values], n.sum() - n[values].sum()) + 0.5
    parts = [_equations(held.aligned, held.views[i], members, target, values) for i in at]
    matrices, shown, variances, released = zip(*parts, strict=True)
    return System(
        matrix=optional("scipy.sparse", "attacks").vstack(matrices).tocsr(),
        shown=np.concatenate(shown),
        variance=np.concatenate(variances),
        view=np.repeat(np.array(at, np.int64), [len(n) for n in shown]),
        truth=places(values, members.codes[target.secret]),
        share=shown_of_each / shown_of_each.sum(),
        values=values,
        members=members,
        released=np.concatenate(released),
    )


def _equations(
    aligned: Aligned, view: View, members: Coded, target: Target, values: Numbers
) -> tuple[csr_matrix, Floats, Floats, Numbers]:
    """What one view says: who is counted, how many have each value, with which variance, from how many cells."""
    rows = view.table.rows(np.flatnonzero(target.inside(view.table)))
    rest = [c for c in view.columns if c not in (*target.columns, target.secret)]
    (person, row), _ = row_ids(aligned, [members, rows], rest)
    cells, person = np.unique(person, return_inverse=True)
    at = places(cells, row)
    counted = at < len(cells)
    shape = (len(cells), len(values) + 1)
    flat = (at * shape[1] + places(values, rows.codes[target.secret]))[counted]
    shown = totals(flat, rows.n[counted], shape[0] * shape[1]).astype(np.float64)
    is_released = np.ones(len(rows.n)) if rows.measured is None else rows.measured
    released = totals(flat, is_released[counted], len(shown))
    if np.isnan(view.noise_sd):
        variance = view.variance(shown)
    else:
        one = float(view.variance(np.ones(1))[0])
        variance = np.where(released > 0, released * one, UNRELEASED + one)
    people = np.arange(len(members.n))
    matrix = optional("scipy.sparse", "attacks").csr_matrix(
        (np.ones(len(people)), (person.reshape(-1), people)), (shape[0], len(people))
    )
    per_equation = released.reshape(shape).sum(axis=1)
    return matrix, shown.reshape(shape), variance.reshape(shape), per_equation


def least_squares(system: System, prior: Floats) -> Floats:
    """Estimate everybody's chances by least squares, drawn to what is believed beforehand.

    Chances lie between 0 and 1 and add up to 1, which says as much as the equations do where these are few.
    Solved by accelerated projected steps: Beck and Teboulle 2009, doi:10.1137/080716542.
    """
    own, noise = widths(system, prior)
    weight = 1 / noise[:, 0]
    # The largest eigenvalue of the weighted normal matrix, from above: its largest row sum.
    people = np.ones(system.matrix.shape[1])
    steep = float((system.matrix.T @ (weight * (system.matrix @ people))).max() + (1 / own).max())
    x = now = prior
    pace = 1.0
    for _ in range(_STEPS):
        off = (system.matrix @ now - system.shown) / noise
        after = _on_simplex(now - (system.matrix.T @ off + (now - prior) / own) / steep)
        faster = (1 + np.sqrt(1 + 4 * pace * pace)) / 2
        now = after + (pace - 1) / faster * (after - x)
        x, pace = after, faster
    return x


def widths(system: System, prior: Floats) -> tuple[Floats, Floats]:
    """The variances that least squares weighs by: of each member's chances, and of each equation."""
    own = np.maximum((prior * (1 - prior)).mean(axis=1), LEAST_CHANCE / 2) / FIRMNESS
    return own[:, None], np.asarray(system.variance.mean(axis=1)[:, None], np.float64)


def _on_simplex(x: Floats) -> Floats:
    """Nearest rows that are not negative and add up to 1 (Duchi et al. 2008, doi:10.1145/1390156.1390191)."""
    ordered = -np.sort(-x, axis=1)
    above = np.cumsum(ordered, axis=1) - 1
    last = (ordered - above / np.arange(1, x.shape[1] + 1) > 0).sum(axis=1)
    shift = above[np.arange(len(x)), last - 1] / last
    return np.asarray(np.maximum(x - shift[:, None], 0), np.float64)


def linear_program(system: System) -> Floats | None:
    """Estimate everybody's chances by a linear program: least sum of absolute errors, each between 0 and 1.

    None: the solver found no answer.
    """
    (n_equations, n_people), n_values = system.matrix.shape, system.shown.shape[1]
    n, m = n_people * n_values, n_equations * n_values
    sparse = optional("scipy.sparse", "attacks")
    one = sparse.eye_array(m)
    counts = sparse.hstack([sparse.kron(system.matrix, sparse.eye_array(n_values)), one, -one])
    each = sparse.kron(sparse.eye_array(n_people), np.ones((1, n_values)))
    whole = sparse.hstack([each, sparse.csr_matrix((n_people, 2 * m))])
    weight = 1 / np.sqrt(system.variance.reshape(-1))
    found = optional("scipy.optimize", "attacks").linprog(
        np.concatenate([np.zeros(n), weight, weight]),
        A_eq=sparse.vstack([counts, whole]).tocsc(),
        b_eq=np.concatenate([system.shown.reshape(-1), np.ones(n_people)]),
        bounds=[(0, 1)] * n + [(0, None)] * (2 * m),
        method="highs",
        options={"time_limit": 20.0},
    )
    return None if found.x is None else np.asarray(found.x[:n].reshape(n_people, n_values))


def prior_of(system: System, believed: Floats | None = None) -> Floats:
    """Chances beforehand: the group's published shares, or a model's moved towards them.

    Taken is what agrees better with the published counts, which an attacker can see.
    """
    n = system.matrix.shape[1]
    plain = np.broadcast_to(system.share, (n, len(system.share))).copy()
    if believed is None:
        return plain
    moved = believed * (n * system.share + _FIRM) / (n * believed.mean(axis=0) + _FIRM)
    moved = np.asarray(moved / moved.sum(axis=1, keepdims=True), np.float64)

    def misfit(prior: Floats) -> float:
        """How far the published counts are from what chances lead one to expect: less their log-likelihood."""
        expected = system.matrix @ prior
        variance = system.variance + np.maximum(expected - system.matrix @ np.square(prior), 0)
        return float((np.square(system.shown - expected) / variance + np.log(variance)).sum())

    return min((moved, plain), key=misfit)


# Reconstruction: the secrets of all members of a small group, from all tables that split it


SUREST = 0.05
"""Share of claims, the surest, that is looked at apart."""
MOST_UNKNOWN = 1_500
"""Unknowns of a linear program; larger ones are left out."""


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class Solved:
    """One target, attacked."""

    target: Target
    # shape (n_people,): "squares" and, where it was run, "program"; "guess": everybody has the group's
    # commonest value; "model": from tables that do not split the group.
    right: dict[str, Flags]
    surety: Floats  # shape (n_people,): How far the likeliest value is ahead, of least squares
    figures: int  # Released counts that split the group

    @property
    def control(self) -> Flags:
        """What the better of the attackers without the group's own tables gets right."""
        return max(self.right["guess"], self.right["model"], key=lambda right: float(right.mean()))


def reconstruction(held: Held, assumptions: Assumptions, rng: np.random.Generator) -> Finding:
    """Reconstruct secrets of the groups that the release says most about, and of those declared.

    `rate`: least squares; `baseline`: the group's commonest value as published; `control`: the better of that and a
    model from the tables that do not split the group, group by group.
    """
    del rng
    solved = [
        one for target in all_targets(held, assumptions) if (one := solve(held, target)) is not None
    ]
    if not solved:
        sizes = {"smallest": assumptions.smallest, "largest": assumptions.largest}
        return not_computed("reconstruction", say("reconstruction", "none", **sizes))
    right = np.concatenate([one.right["squares"] for one in solved])
    unguided = np.concatenate([one.control for one in solved])
    surety = np.concatenate([one.surety for one in solved])
    surest = np.argsort(-surety, kind="stable")[: max(round(SUREST * len(surety)), 1)]
    squares, control, sure = rate_of(right), rate_of(unguided), rate_of(right[surest])
    rows = []
    for one in solved:
        shares = {name: float(found.mean()) for name, found in one.right.items()}
        rows.append(
            {
                "group": one.target.name(held.aligned),
                "secret": one.target.secret,
                "people": len(one.surety),
                "counts_a_person": one.figures / len(one.surety),
                "right": shares["squares"],
                "program": shares.get("program", math.nan),
                "guess": shares["guess"],
                "model": shares["model"],
                "gain": excess(rate_of(one.right["squares"]), rate_of(one.control)),
            }
        )
    table = pd.DataFrame(rows).sort_values("gain", ascending=False, kind="stable")
    programs = [one.right["program"] for one in solved if "program" in one.right]
    too_large = f"every group has more than {MOST_UNKNOWN:,} unknowns"
    groups = "a small group" if len(solved) == 1 else f"{len(solved)} small groups"
    told = {"groups": groups, "right": squares, "control": control.value, "surest": sure.value}
    return Finding(
        "reconstruction",
        {
            "right": squares.value,
            "gain": excess(squares, control),
            "surest": sure.value,
            "surest_gain": sure.value - rate_of(unguided[surest]).value,
            "groups": len(solved),
            "worst": table["gain"].max(),
            "program": np.concatenate(programs).mean() if programs else too_large,
        },
        table,
        rate=squares,
        baseline=rate_of(np.concatenate([one.right["guess"] for one in solved])),
        control=control,
        control_note=say("reconstruction", "control"),
        notes=(
            say("reconstruction", "chosen", pairs=len(solved), secrets=len(right)),
            say("reconstruction", "independent"),
        ),
        verdict=say("reconstruction", "verdict", part=SUREST, **told),
    )


def solve(held: Held, target: Target) -> Solved | None:
    """Attack one target; None where no table splits it."""
    system = system_of(held, target)
    if system is None:
        return None
    guessed = np.full(len(system.truth), int(system.share.argmax()))
    believed = _believed(held, target, system)
    estimate = least_squares(system, prior_of(system, believed))
    claims = {
        "squares": estimate.argmax(axis=1),
        "guess": guessed,
        "model": guessed if believed is None else believed.argmax(axis=1),
    }
    if estimate.size <= MOST_UNKNOWN and (found := linear_program(system)) is not None:
        claims["program"] = found.argmax(axis=1)
    ordered = np.sort(estimate, axis=1)
    return Solved(
        target=target,
        right={name: claim == system.truth for name, claim in claims.items()},
        surety=ordered[:, -1] - ordered[:, -2],
        figures=int(system.released.sum()),
    )


def _believed(held: Held, target: Target, system: System) -> Floats | None:
    """What a model gives each member that reads only tables which do not split the group; None: no table shows it."""
    aligned = held.aligned
    wanted = {*target.columns, target.secret}
    others = {c: t for c, t in aligned.tables.items() if not wanted <= set(c)}
    known = [c for c in aligned.values if c != target.secret]
    found = chances(replace(aligned, tables=others), system.members, target.secret, known)
    if found is None:
        return None
    out = np.zeros((len(system.truth), len(system.share)))
    for value, place in enumerate(places(system.values, found.values).tolist()):
        out[:, place] += found.worth[:, value]
    mixed = out + LEAST_CHANCE * system.share
    return np.asarray(mixed / mixed.sum(axis=1, keepdims=True), np.float64)


# Adaptive: one released table asked for after the other, each time the most informative about a small group


MOST_GROUPS = 6
MOST_ASKED = 20
"""Tables that are asked for one by one; then come all the others at once."""
LARGEST = 1_200
"""Members of a group; larger ones are left out."""
STEPS = (1, 2, 3, 5, 10, 20)


def adaptive(held: Held, assumptions: Assumptions, rng: np.random.Generator) -> Finding:
    """Ask for the tables that split groups, one after the other.

    The variance that is left in the members' secrets is known from the questions alone (not from the answers), so the
    next table is the one that lowers it most: greedy design of experiments by A-optimality (Kalman update of a Gaussian
    model of the secrets). `rate`: with all tables; `control`: without any that splits the group further.
    """
    asked: list[dict[str, dict[int, Flags]]] = []
    names = []
    for target in all_targets(held, assumptions):
        if len(asked) < MOST_GROUPS and (one := ask(held, target, rng)) is not None:
            asked.append(one)
            names.append(f"{target.name(held.aligned)} ({target.secret})")
    if not asked:
        why = f"no group of at most {LARGEST:,} people is split by two tables"
        return not_computed("adaptive", why)

    def until(n: int, side: str = "right") -> Flags:
        """What was right with at most so many tables; groups that fewer tables split stay where they ended."""
        found = [one[side] for one in asked]
        return np.concatenate([right[max(k for k in right if k <= n)] for right in found])

    curve = []
    for n in sorted({n for one in asked for n in one["right"]}):
        rate = rate_of(until(n))
        step = {"tables": n, "right": rate.value, "low": rate.low, "high": rate.high}
        curve.append({**step, "random": float(until(n, "random").mean()), "people": rate.n})
    last, none = rate_of(until(len(held.views) + MOST_ASKED)), rate_of(until(0))
    few = float(until(5).mean())
    return Finding(
        "adaptive",
        {
            "right": last.value,
            "gain": excess(last, none),
            "few": few,
            "random": until(5, "random").mean(),
            "groups": len(asked),
        },
        pd.DataFrame(curve),
        rate=last,
        control=none,
        control_note=say("adaptive", "control"),
        notes=(f"groups: {'; '.join(names)}", say("adaptive", "after", most=MOST_ASKED)),
        verdict=say("adaptive", "verdict", few=few, right=last.value, control=none.value),
    )


def ask(held: Held, target: Target, rng: np.random.Generator) -> dict[str, dict[int, Flags]] | None:
    """Ask about one group; None where it is too large, or fewer than two tables split it.

    Which members' secrets are right by the number of tables asked for (0: by none), in the best order, and `random`.
    """
    system = system_of(held, target)
    if system is None or len(system.truth) > LARGEST:
        return None
    # Equations that count some of the group only.
    splits = np.asarray(system.matrix.sum(axis=1)).reshape(-1) < len(system.truth)
    splitting = np.unique(system.view[splits])
    if len(splitting) < 2:
        return None
    is_open = np.ones(int(system.view.max()) + 1, np.bool_)
    is_open[splitting] = False

    def right(views: Sequence[int]) -> Flags:
        wanted = is_open.copy()
        wanted[list(views)] = True
        part = system.of_views(wanted)
        guessed = least_squares(part, prior_of(part)).argmax(axis=1)
        return np.asarray(guessed == system.truth, np.bool_)

    orders = order_of(system, splitting.tolist()), rng.permutation(splitting).tolist()
    known = sorted({*[s for s in STEPS if s < len(splitting)], len(splitting)})
    guessed = np.full(len(system.truth), int(system.share.argmax())) == system.truth
    found = [{0: guessed, **{n: right(order[:n]) for n in known}} for order in orders]
    return {"right": found[0], "random": found[1]}


def order_of(system: System, views: Sequence[int]) -> list[int]:
    """Views in the order in which an attacker asks for them: each lowers the variance left the most."""
    noise = system.variance.mean(axis=1)
    variance = max(float((system.share * (1 - system.share)).mean()), 1e-3)
    left = np.diag(np.full(len(system.truth), variance))
    open_views = list(views)
    order: list[int] = []
    while open_views and len(order) < MOST_ASKED:
        updates = []
        for view in open_views:
            rows = np.flatnonzero(system.view == view)
            cross = np.asarray(system.matrix[rows] @ left, np.float64)
            inner = np.asarray(system.matrix[rows] @ cross.T) + np.diag(noise[rows])
            updates.append((cross, np.asarray(np.linalg.solve(inner, cross), np.float64)))
        best = int(np.argmax([float((cross * gained).sum()) for cross, gained in updates]))
        cross, gained = updates[best]
        left = left - cross.T @ gained
        order.append(open_views.pop(best))
    return [*order, *open_views]


# Linear: one column of everybody at once, from all tables that show it


FEWEST_SHOWN = 10
"""People of a cell of whom both halves of a secret are likely shown."""
SUREST_LINEAR = 0.01
ROUNDS = 3
"""Times that secrets of its own are drawn."""
MOST_PEOPLE = 50_000
"""People of the data; more would not be whole cells."""
_SOLVER_STEPS = 100


def linear(held: Held, assumptions: Assumptions, rng: np.random.Generator) -> Finding:
    """Solve for each column of everybody.

    First its values are replaced by even secrets of the attack's own, with noise as the release states it: how often
    these are guessed right is what the tables reveal, whatever the column. Then the column itself, in two halves;
    non-members with the same other columns are the control, for what the population reveals about anybody is no
    secret. `rate`: own secrets of the column that is revealed most.
    """
    aligned, n_people = held.aligned, len(held.aligned.original.n)
    if n_people > MOST_PEOPLE:
        return not_computed("linear", say("linear", "many", most=MOST_PEOPLE))
    control = aligned.control
    if control is not None and len(control.n) > assumptions.people:
        control = drawn(control, assumptions.people, rng)
    rows = []
    for secret in secrets_of(aligned, assumptions.secrets):
        found = _solved_linearly(held, secret, control, rng)
        rows += [] if found is None else [{"column": secret, **found}]
    if not rows:
        return not_computed("linear", say("linear", "none"))
    table = pd.DataFrame(rows).sort_values("surest", ascending=False, kind="stable")
    worst, gains = table.iloc[0], table["gain"].dropna()
    return Finding(
        "linear",
        {
            "right": table["right"].max(),
            "surest": table["surest"].max(),
            "gain": gains.max() if len(gains) else say("linear", "no_control"),
        },
        table,
        rate=wilson(float(worst["right"]) * ROUNDS * n_people, ROUNDS * n_people),
        verdict=say("linear", "verdict", **worst[["column", "right", "surest"]]),
    )


def _solved_linearly(
    held: Held, secret: str, control: Coded | None, rng: np.random.Generator
) -> dict[str, float] | None:
    """Both attacks on one column; None: no table shows it among enough people."""
    aligned, people = held.aligned, held.aligned.original
    views = [view for view in held.views if secret in view.columns]
    if not views:
        return None
    narrowest = min(views, key=lambda view: len(view.columns)).table
    # Which half each value is of, -1 or 1, so that both have about as many people, as published.
    n = totals(narrowest.codes[secret], narrowest.n, n_codes(aligned, secret))
    half, balance = np.ones(len(n)), 0.0
    for value in np.argsort(-n, kind="stable").tolist():
        half[value] = -1.0 if balance > 0 else 1.0
        balance += half[value] * n[value]
    parts = [
        _linear_equations(aligned, view, secret, half, [people, *([control] if control else [])])
        for view in views
        if len(view.columns) > 1
    ]
    parts = [part for part in parts if part[0][0].shape[0]]
    if not parts:
        return None
    stack = optional("scipy.sparse", "attacks").vstack
    # Equations, each divided by the sd of its noise: who is counted, and the count of one half less that of the other.
    sides = [stack(side).tocsr() for side in zip(*(matrices for matrices, _ in parts), strict=True)]
    matrix, counted = sides[0], np.concatenate([shown for _, shown in parts])
    bit, share = half[people.codes[secret]], float(half @ n / max(n.sum(), 1))
    # Least squares, regularised by the variance of a secret, which is -1 or 1.
    lsqr = optional("scipy.sparse.linalg", "attacks").lsqr
    n_people, n_sure = matrix.shape[1], max(int(SUREST_LINEAR * matrix.shape[1]), 30)
    own, surest = [], []
    for _ in range(ROUNDS):
        drawn_bit = rng.choice([-1.0, 1.0], n_people)
        noise = rng.normal(size=matrix.shape[0])
        shown = matrix @ drawn_bit + noise
        guess = lsqr(matrix, shown, damp=1.0, iter_lim=_SOLVER_STEPS)[0]
        own.append(np.sign(guess) == drawn_bit)
        surest.append(own[-1][np.argsort(-np.abs(guess), kind="stable")[:n_sure]])
    off = counted - share * np.asarray(matrix.sum(axis=1)).ravel()
    guess = lsqr(matrix, off, damp=1.0, iter_lim=_SOLVER_STEPS)[0]
    real = np.sign(share + guess) == bit
    out = {
        "right": float(np.concatenate(own).mean()),
        "surest": float(np.concatenate(surest).mean()),
        "real": float(real.mean()),
        "non_members": float("nan"),
        "gain": float("nan"),
    }
    if control is not None:
        # What the equations say of a non-member in the same cells: the weights are those of the solution.
        guessed = np.sign(share + sides[1].T @ (off - matrix @ guess))
        other = guessed == half[control.codes[secret]]
        out |= {"non_members": float(other.mean()), "gain": excess(rate_of(real), rate_of(other))}
    return out


def _linear_equations(
    aligned: Aligned, view: View, secret: str, half: Floats, sides: Sequence[Coded]
) -> tuple[list[csr_matrix], Floats]:
    """What one table says: which people of each side are counted, or would be, and the difference of the halves."""
    table, rest = view.table, [c for c in view.columns if c != secret]
    ids, size = row_ids(aligned, [table, *sides], rest)
    n, own = table.n.astype(np.float64), half[table.codes[secret]]
    counts = np.bincount(ids[0], own * n, minlength=size)
    variance = np.bincount(ids[0], view.variance(n), minlength=size)
    # Both halves are shown, among enough people.
    shown = [np.bincount(ids[0], own == side, minlength=size) > 0 for side in (-1, 1)]
    enough = np.bincount(ids[1], minlength=size) >= FEWEST_SHOWN
    kept = np.flatnonzero(shown[0] & shown[1] & enough)
    scale = 1 / np.sqrt(variance[kept])
    place = np.full(size, -1)
    place[kept] = np.arange(len(kept))
    sparse = optional("scipy.sparse", "attacks").csr_matrix
    who = []
    for cell in ids[1:]:
        there = np.flatnonzero(place[cell] >= 0)
        at = place[cell][there]
        who.append(sparse((scale[at], (at, there)), shape=(len(kept), len(cell))))
    return who, counts[kept] * scale
