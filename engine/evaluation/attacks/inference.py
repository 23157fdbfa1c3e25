"""Inference: what does a release reveal about a person's unknown columns, given the known ones?

`inference` is for who knows the quasi-identifiers: classification-based attribute risk of Choi et al., MLHC 2017
(arXiv:1703.06490), with a random forest. `attribute` is for who knows all other columns, or 3 to 7 of them. Where no
table holds all that is known, the tables that have a column with some of it are joined as a tree: each that adds known
columns is read given what it shares with one before (Chow and Liu 1968, doi:10.1109/TIT.1968.1054142; with one shared
column, the tree-augmented naive Bayes of Friedman, Geiger and Goldszmidt 1997, doi:10.1023/A:1007465528199).
Invariant: only the released tables are read, and of people only the known columns.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from engine.evaluation.attacks.protocol import (
    INDEPENDENT,
    Assumptions,
    Attacker,
    Claims,
    Held,
    anonymity_loss,
    at_share,
    beyond_chance,
    excess,
    improvement,
    pooled,
    secrets_of,
    shares,
    unusual,
)
from engine.evaluation.data.aligned import (
    Aligned,
    Coded,
    Flags,
    Floats,
    Numbers,
    covering,
    drawn,
    positions,
    published_as_is,
    row_ids,
    totals,
)
from engine.evaluation.findings import Finding, not_computed, optional, rate_of, say, wilson
from engine.schema import ColumnSet, column_set

MOST_VALUES = 100
"""Values of a column that are distinguished in guessing; a rarer one is guessed only where all who agree have it."""
BACK_OFF = 1.0
"""Records' worth of what is known without a table that each of its cells is mixed with."""
_TREES, _HELD_OUT, _FEWEST_PEOPLE, _CONFIDENT = 30, 0.3, 20, 0.1


# Guessing from several tables at once


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class Chances:
    values: Numbers  # shape (n_values,): Codes, in order
    worth: Floats  # shape (n_people, n_values): Probabilities; each row adds up to 1
    read: tuple[ColumnSet, ...]  # Tables that were read, the most informative first


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class Guess:
    code: Numbers  # shape (n_people,): Of the guessed value
    confidence: Floats  # shape (n_people,): Probability that the attacker gives it, 0 to 1
    read: tuple[ColumnSet, ...]


def guess(aligned: Aligned, people: Coded, target: str, known: Collection[str]) -> Guess | None:
    """Guess a column of people by all tables that hold it and some of the known columns; None: none does."""
    found = chances(aligned, people, target, known)
    if found is None:
        return None
    at = found.worth.argmax(axis=1)
    confidence = found.worth[np.arange(len(at)), at]
    return Guess(code=found.values[at], confidence=confidence, read=found.read)


def chances(aligned: Aligned, people: Coded, target: str, known: Collection[str]) -> Chances | None:
    """How likely each value of a column is for each person; arguments and None as of `guess`."""
    whole = covering(aligned, [target])
    sets = known_sets(aligned, target, [c for c in known if c in people.codes and c != target])
    if whole is None or whole.total == 0 or not sets:
        return None
    values = common_values(whole, target)
    at, common = _place(values, whole.codes[target])
    count = totals(at[common], whole.n[common], len(values))
    prior = (count + 1 / len(values)) / (count.sum() + 1)  # none is zero
    links = _tree(aligned, target, sets)
    logs = np.broadcast_to(np.log(prior), (len(people.n), len(values)))
    for columns, shared in links:
        # A table that shows nobody of a kind says no more than what it shares with one before.
        before = _share_among(aligned, people, target, shared, values, prior)
        after = _share_among(aligned, people, target, columns, values, before)
        logs = logs + np.log(after / before)
    worth = np.exp(logs - logs.max(axis=1, keepdims=True))
    worth /= worth.sum(axis=1, keepdims=True)
    return Chances(values=values, worth=worth, read=tuple(columns for columns, _ in links))


def known_sets(aligned: Aligned, target: str, known: Collection[str]) -> list[ColumnSet]:
    """The sets of known columns that a table with rows holds together with the target; only the largest ones."""
    wanted = set(known)
    sets = {
        frozenset(wanted & set(columns))
        for columns, table in aligned.tables.items()
        if target in columns and table.total
    } - {frozenset()}
    return sorted(column_set(list(s)) for s in sets if not any(s < other for other in sets))


def common_values(table: Coded, target: str) -> Numbers:
    count = totals(table.codes[target], table.n)
    at = np.argsort(-count, kind="stable")[:MOST_VALUES]
    return np.sort(at[count[at] > 0])


def _share_among(
    aligned: Aligned,
    people: Coded,
    target: str,
    columns: ColumnSet,
    values: Numbers,
    before: Floats,
) -> Floats:
    """Share of each value among those who are like a person in some columns; rare kinds are mixed with what is known
    without these columns (`before`)."""
    table = covering(aligned, {*columns, target})
    known = np.broadcast_to(before, (len(people.n), len(values)))
    if table is None or not columns:
        return known
    cells, person, inside, row = _of_people(*row_ids(aligned, [people, table], columns)[0])
    at, common = _place(values, table.codes[target][inside])
    count = _table(row[common], at[common], table.n[inside][common], (len(cells), len(values)))
    number = count.sum(axis=1, keepdims=True)
    return np.asarray((count[person] + BACK_OFF * known) / (number[person] + BACK_OFF), np.float64)


def _tree(
    aligned: Aligned, target: str, sets: list[ColumnSet]
) -> list[tuple[ColumnSet, ColumnSet]]:
    """Order the sets, each with what it shares with one before: next comes the one most informative about the target
    beyond that."""

    @cache
    def gain(columns: ColumnSet) -> float:
        """Mutual information of the target and some columns, in nats, less what a table of its size has by chance."""
        table = covering(aligned, {*columns, target})
        if not columns or table is None or table.total == 0:
            return 0.0
        entropies, sizes = [], []
        for names in ((target,), columns, (*columns, target)):
            count = totals(row_ids(aligned, [table], names)[0][0], table.n)
            share = count[count > 0] / table.total
            entropies.append(float(-(share * np.log(share)).sum()))
            sizes.append(len(share))
        by_chance = (sizes[2] - sizes[0] - sizes[1] + 1) / (2 * table.total)
        return entropies[0] + entropies[1] - entropies[2] - by_chance

    links: list[tuple[ColumnSet, ColumnSet]] = []
    open_sets = list(sets)
    while open_sets:
        covered = {c for columns, _ in links for c in columns}
        options = []
        for columns in open_sets:
            parts = [[c for c in columns if c in before] for before, _ in links]
            shared = column_set(max(parts, key=len, default=[]))
            # What it has in common with others must be in one of them, else it would be counted twice.
            if set(shared) == set(columns) & covered and set(columns) - covered:
                options.append((gain(columns) - gain(shared), columns, shared))
        worth, columns, shared = max(options, key=lambda o: o[0], default=(0.0, (), ()))
        if worth <= 0:
            break
        links.append((columns, shared))
        open_sets.remove(columns)
    return links


def sharpened(
    prior: Floats, values: Numbers, cells: Sequence[Numbers], codes: Numbers, n: Numbers
) -> tuple[Numbers, Floats]:
    """Mix what a model expects of people with the records that agree with them in all that is known.

    A person whom n records agree with has for each value (their number with it + `BACK_OFF` x its prior) / (n +
    `BACK_OFF`). Values that the model does not know are guessed where enough of the agreeing records have them.
    """
    found, person, inside, row = _of_people(*cells)
    codes, weight = codes[inside], n[inside]
    number = totals(row, weight, len(found))
    at, common = _place(values, codes)
    count = _table(row[common], at[common], weight[common], (len(found), len(values)))
    worth = (count[person] + BACK_OFF * prior) / (number[person] + BACK_OFF)[:, None]
    chosen = worth.argmax(axis=1)
    code, confidence = values[chosen], worth[np.arange(len(chosen)), chosen]
    rare, most = np.zeros(len(found), np.int64), np.zeros(len(found))
    if not common.all():  # the most frequent of the rare values in each cell
        width = int(codes.max()) + 1
        pairs, back = np.unique(row[~common] * width + codes[~common], return_inverse=True)
        times = totals(back.reshape(-1), weight[~common])
        order = np.argsort(times, kind="stable")  # the last one written wins
        rare[pairs[order] // width] = pairs[order] % width
        most[pairs[order] // width] = times[order]
    other = most[person] / (number[person] + BACK_OFF)
    return np.where(other > confidence, rare[person], code), np.maximum(other, confidence)


def _of_people(person: Numbers, row: Numbers) -> tuple[Numbers, Numbers, Numbers, Numbers]:
    """Cells that people are in, the cell of each person, and which rows are in one of them, and in which."""
    cells = np.flatnonzero(np.bincount(person))
    at, is_there = _place(cells, row)
    inside = np.flatnonzero(is_there)
    return cells, _place(cells, person)[0], inside, at[inside]


def _place(values: Numbers, codes: NDArray[np.integer]) -> tuple[Numbers, Flags]:
    """Place of each code in an ordered list, and whether it is there; codes are small numbers, from 0."""
    size = max(int(values.max(initial=-1)), int(codes.max(initial=-1))) + 1
    place = np.full(size, -1, np.int64)
    place[values] = np.arange(len(values))
    at = place[codes]
    return np.maximum(at, 0), at >= 0


def _table(row: Numbers, column: Numbers, n: Numbers, shape: tuple[int, int]) -> Floats:
    flat = np.bincount(row * shape[1] + column, n, minlength=shape[0] * shape[1])
    return np.asarray(flat.reshape(shape), np.float64)


# Who knows the quasi-identifiers


def inference(held: Held, attacker: Attacker, rng: np.random.Generator) -> Finding:
    """Precision of guesses about people's unknown columns, compared with guesses from other people's rows.

    At most `attacker.attempts` people, and three in ten of the original, are attacked; the baseline is the same attack
    with exact tables of others: what people outside the data have in common with those inside is no leak.
    """
    aligned = held.aligned
    n_rows = len(aligned.original.n)
    n_people = min(attacker.attempts, int(_HELD_OUT * n_rows))
    known = [c for c in attacker.quasi_identifiers if c in aligned.values]
    if n_people < _FEWEST_PEOPLE or not known:
        few = f"fewer than {_FEWEST_PEOPLE} people can be attacked, three in ten of the original"
        return not_computed("inference", few if known else "no table has a quasi-identifier")
    taken = positions(n_rows, n_people, rng)
    people = aligned.original.rows(taken)
    others = aligned.original.rows(np.setdiff1d(np.arange(n_rows), taken))
    exact = replace(aligned, tables=published_as_is(aligned, others))
    non_members = None
    if aligned.control is not None and len(aligned.control.n):
        non_members = drawn(aligned.control, attacker.attempts, rng)
    outcomes: dict[str, dict[str, Claims]] = {}
    ways: dict[str, str] = {}
    skipped: dict[str, str] = {}
    for target in attacker.targets or [c for c in aligned.values if c not in known]:
        given = [c for c in known if c != target]
        if target not in aligned.values:
            skipped[target] = "in no table, or not in the original"
            continue
        if (people.codes[target] == people.codes[target][0]).all():
            skipped[target] = "constant among the people attacked"
            continue
        table = covering(aligned, {*given, target})
        attack = _guessed(aligned, table, people, target, given, attacker, rng)
        if attack is None:
            skipped[target] = "no table with rows holds it and a known column"
            continue
        # Exact tables of other people, or a model of their whole rows, whichever does better.
        other = None if table is None else others.only(table.columns)
        guesses = [_guessed(exact, other, people, target, given, attacker, rng)]
        if other is None and given:
            whole = others.only(column_set([*given, target]))
            guesses.append(_guessed(exact, whole, people, target, given, attacker, rng))
        claims = [claims_of(one, people, target) for one in guesses if one is not None]
        baseline = control = max(claims, key=lambda one: float(one.right.mean()))
        if non_members is not None and {*given, target} <= set(non_members.codes):
            again = _guessed(aligned, table, non_members, target, given, attacker, rng)
            control = baseline if again is None else claims_of(again, non_members, target)
        claimed = claims_of(attack, people, target)
        outcomes[target] = {"attack": claimed, "baseline": baseline, "control": control}
        ways[target] = "one table" if len(attack.read) == 1 else f"{len(attack.read)} tables"
    left_out = tuple(f"{name} is left out: {why}" for name, why in skipped.items())
    if not outcomes:
        why = "; ".join(left_out) or "there is no column beside the quasi-identifiers"
        return not_computed("inference", why, *left_out)
    pools = {
        side: pooled([one[side] for one in outcomes.values()])
        for side in ("attack", "baseline", "control")
    }
    rates = {k: wilson(float(c.right.sum()), len(c.right)) for k, c in pools.items()}
    breakdown = pd.DataFrame([_row(name, ways[name], one) for name, one in outcomes.items()])
    precision, guessed = (float(pools[k].right.mean()) for k in ("attack", "baseline"))
    figures: dict[str, Any] = {
        "precision": precision,
        "baseline": guessed,
        "columns": len(breakdown),
        "pi": improvement(precision, guessed),
    }
    for name in ("pi", "pi_confident", "alc"):
        figures[f"{name}_median"] = breakdown[name].median()
        figures[f"{name}_largest"] = _largest(breakdown, name)
    return Finding(
        "inference",
        figures,
        breakdown,
        why="the baseline is always right, so that there is nothing to gain",
        rate=rates["attack"],
        baseline=rates["baseline"],
        control=rates["control"],
        control_note=say("inference", "control" if non_members is not None else "baseline"),
        notes=(
            say("inference", "people", people=n_people),
            INDEPENDENT.format("guesses"),
            f"the {MOST_VALUES} most frequent values of a column are distinguished by the models",
            *left_out,
        ),
    )


def _guessed(
    aligned: Aligned,
    table: Coded | None,
    people: Coded,
    target: str,
    known: list[str],
    attacker: Attacker,
    rng: np.random.Generator,
) -> Guess | None:
    """Guess by the one table that holds all, else by several."""
    if table is None or table.total == 0 or not known:
        return guess(aligned, people, target, known)
    values = common_values(table, target)
    # Places of at most so many records of a table, of which a row may stand for several.
    records = positions(table.total, attacker.model_rows, rng)
    at = np.searchsorted(np.cumsum(table.n), records, side="right")
    codes = table.codes[target].astype(np.int64)
    labels = np.where(np.isin(codes[at], values), codes[at], -1)
    features = np.stack([table.codes[c] for c in known], axis=1)[at]
    wanted = np.stack([people.codes[c] for c in known], axis=1)
    prior = _forest(features, labels, wanted, values, int(rng.integers(1 << 31)))
    cells, _ = row_ids(aligned, [people, table], known)
    code, confidence = sharpened(prior, values, cells, codes, table.n)
    return Guess(code=code, confidence=confidence, read=(table.columns,))


def _forest(features: Any, labels: Numbers, wanted: Any, values: Numbers, seed: int) -> Floats:
    """Probability of each of the values for each person: shape (n_people, n_values)."""
    forest = optional("sklearn.ensemble", "attacks by inference").RandomForestClassifier
    model = forest(_TREES, min_samples_leaf=2, max_features=0.5, random_state=seed)
    # People who agree in all that is known are asked about once.
    asked, back = np.unique(wanted, axis=0, return_inverse=True)
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "The number of unique classes", UserWarning)  # codes are
        model.fit(np.asfortranarray(features, np.float32), labels)
        share = model.predict_proba(asked.astype(np.float32))
    out = np.zeros((len(asked), len(values)))
    known = model.classes_ >= 0
    out[:, np.searchsorted(values, model.classes_[known])] = share[:, known]
    return out[back.reshape(-1)]


def claims_of(one: Guess, people: Coded, target: str) -> Claims:
    right = (one.code == people.codes[target]).astype(np.float64)
    return Claims(confidence=one.confidence, right=right, n_people=len(right))


def _row(name: str, way: str, claims: Mapping[str, Claims]) -> dict[str, Any]:
    mean = {k: float(of.right.mean()) for k, of in claims.items()}
    sure, whole = (
        [at_share(claims[k], share) for k in ("attack", "baseline")] for share in (_CONFIDENT, 1.0)
    )
    confident = [math.nan if rate is None else rate.value for rate in sure]
    loss, is_more = anonymity_loss(claims["attack"], claims["baseline"])
    return {
        "column": name,
        "way": way,
        "precision": mean["attack"],
        "baseline": mean["baseline"],
        "control": mean["control"],
        "precision_confident": confident[0],
        "baseline_confident": confident[1],
        "pi": improvement(mean["attack"], mean["baseline"]),
        "pi_control": improvement(mean["control"], mean["baseline"]),
        "pi_confident": improvement(*confident),
        "alc": loss,
        "pi_beyond_chance": beyond_chance(*whole),
        "pi_confident_beyond_chance": beyond_chance(*sure),
        "alc_beyond_chance": is_more,
    }


def _largest(breakdown: pd.DataFrame, name: str) -> float:
    """Largest gain of a column; one that chance may explain counts as none."""
    gain = breakdown[name].to_numpy(np.float64)
    by_chance = (gain > 0) & ~breakdown[f"{name}_beyond_chance"].to_numpy(np.bool_)
    gain = np.where(by_chance, 0.0, gain)[~np.isnan(gain)]
    return float(gain.max()) if len(gain) else math.nan


# Who knows all other columns, or a few


UNUSUAL = 0.05
"""Share of people who count as unusual."""
FEWEST_KNOWN, MOST_KNOWN = 3, 7
Both = tuple[Flags, Flags]
"""Which guesses are right about members, and about controls."""


def attribute(held: Held, assumptions: Assumptions, rng: np.random.Generator) -> Finding:
    """Guess every column of people, and of non-members, from all tables together.

    Without non-members the control is the same people, guessed from exact tables of everybody else.
    """
    aligned, original = held.aligned, held.aligned.original
    n_people = min(assumptions.people, int(_HELD_OUT * len(original.n)))
    if n_people < _FEWEST_PEOPLE:
        return not_computed("attribute", "there are too few people to attack")
    taken = positions(len(original.n), n_people, rng)
    members = controls = original.rows(taken)
    tables, note = aligned, "non_members"
    if aligned.control is not None and len(aligned.control.n):
        controls = drawn(aligned.control, n_people, rng)
    else:
        others = original.rows(np.setdiff1d(np.arange(len(original.n)), taken))
        tables, note = replace(aligned, tables=published_as_is(aligned, others)), "others"
    share = shares(aligned, held.views)
    rare = [unusual(people, share, UNUSUAL) for people in (members, controls)]

    def right(secret: str, known: Sequence[str]) -> Both | None:
        found = []
        for people, side in ((members, aligned), (controls, tables)):
            one = guess(side, people, secret, known)
            if one is None:
                return None
            found.append(np.asarray(one.code == people.codes[secret], np.bool_))
        return found[0], found[1]

    every: dict[str, list[Both]] = {"whole": [], "few": [], "rare": []}
    rows, commonest = [], []
    for secret in secrets_of(aligned, assumptions.secrets):
        if secret not in controls.codes:
            continue
        known = [c for c in aligned.values if c != secret and c in controls.codes]
        n_few = min(int(rng.integers(FEWEST_KNOWN, MOST_KNOWN + 1)), len(known))
        some = [known[i] for i in np.sort(rng.choice(len(known), n_few, replace=False))]
        whole = right(secret, known)
        few = right(secret, some) or whole
        if whole is None or few is None:
            continue
        unusual_ones = whole[0][rare[0]], whole[1][rare[1]]
        narrowest = min(
            (t for c, t in aligned.tables.items() if secret in c), key=lambda t: len(t.columns)
        )
        most = int(totals(narrowest.codes[secret], narrowest.n).argmax())
        commonest.append(float((members.codes[secret] == most).mean()))
        row: dict[str, object] = {"column": secret}
        for name, found in (("", whole), ("_few", few), ("_unusual", unusual_ones)):
            rates = [rate_of(side) for side in found]
            row |= {f"right{name}": rates[0].value, f"control{name}": rates[1].value}
            row |= {f"gain{name}": excess(*rates)} if name != "_few" else {}
        rows.append({**row, "commonest": commonest[-1]})
        for name, found in zip(every, (whole, few, unusual_ones), strict=True):
            every[name].append(found)
    if not rows:
        return not_computed("attribute", say("attribute", "none"))
    table = pd.DataFrame(rows).sort_values("gain", ascending=False, kind="stable")
    all_known, few_known, rare_ones = (
        [rate_of(np.concatenate(side)) for side in zip(*found, strict=True)]
        for found in every.values()
    )
    n_guesses = len(rows) * n_people
    counted = {
        "people": n_people,
        "controls": len(controls.n),
        "columns": len(rows),
        "fewest": FEWEST_KNOWN,
        "most": MOST_KNOWN,
        "part": UNUSUAL,
    }
    told = {"right": all_known[0].value, "control": all_known[1].value, "worst": table.iloc[0]}
    return Finding(
        "attribute",
        {
            "right": all_known[0].value,
            "gain": excess(*all_known),
            "worst": table["gain"].max(),
            "gain_few": excess(*few_known),
            "gain_unusual": excess(*rare_ones),
            "worst_unusual": table["gain_unusual"].max(),
            "targets": len(rows),
        },
        table,
        rate=all_known[0],
        baseline=wilson(float(np.mean(commonest)) * n_guesses, n_guesses),
        control=all_known[1],
        control_note=say("attribute", note),
        notes=(say("attribute", "drawn", **counted), INDEPENDENT.format("guesses")),
        verdict=say("attribute", "verdict", few=few_known, **told, **counted),
    )
