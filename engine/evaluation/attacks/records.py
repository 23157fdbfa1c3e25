"""Attacks on released records that agree with a person in what is known: uniques, apparent matches, attribution,
identification.

Uniques: synthpop 1.9 (Raab, Nowok, Dibben, arXiv:2406.16826: UiO, UiS, UiOiS, repU), and NIST SDNIST's unique exact
matches. Apparent matches: SDNIST; precision improvement and coverage P. Francis, arXiv:2403.08463, section 4.1, as is
the reading for many tables. CAP and DCAP: Elliot 2014, Taub et al. 2018 (doi:10.1007/978-3-319-99771-1_9); TCAP: Taub
and Elliot 2019, targets whose key group has one value only (WEAP = 1); DiSCO, Dorig and their checks: synthpop 1.9.
Identification: Reiter and Mitra 2009 (doi:10.29012/jpc.v1i1.567). Values must be equal, a blank equals a blank.
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from functools import cache
from inspect import signature
from typing import Any

import numpy as np
import pandas as pd

from engine.errors import StoreError
from engine.evaluation.attacks.protocol import (
    EXCESS,
    FEWEST,
    INDEPENDENT,
    NO_NON_MEMBERS,
    Attacker,
    Control,
    Held,
    KeySet,
    against,
    alike,
    best_holding,
    controlled,
    excess,
    improvement,
    no_control,
    readings,
    shown_of,
    targets_of,
    unseen,
)
from engine.evaluation.data.aligned import (
    Aligned,
    Coded,
    Flags,
    Numbers,
    covering,
    n_codes,
    row_ids,
    totals,
)
from engine.evaluation.findings import Finding, Rate, not_computed, optional, say, wilson
from engine.schema import ColumnSet

NO_ROWS = "the original, or every table, has no rows"


def has_rows(aligned: Aligned) -> bool:
    return bool(aligned.original.total) and any(t.total for t in aligned.tables.values())


def key_sets(attacker: Attacker) -> list[KeySet]:
    """The quasi-identifiers, and the further sets of known columns, each once."""
    every = [attacker.quasi_identifiers, *attacker.keys]
    return list(dict.fromkeys(tuple(dict.fromkeys(keys)) for keys in every))


# Uniques


def _uniques(aligned: Aligned, table: Coded, columns: KeySet) -> dict[str, float]:
    (left, right), size = row_ids(aligned, [aligned.original, table], columns)
    original, synthetic = (
        totals(ids, t.n, size) for ids, t in ((left, aligned.original), (right, table))
    )
    once, alone = original == 1, synthetic == 1
    both = int((once & alone).sum())
    return {
        "unique in original": int(once.sum()),
        "unique in synthetic": int(alone.sum()),
        "unique in both": both,
        "unique in synthetic, in original": int((alone & (original > 0)).sum()),
        "unique in original, in synthetic": int((once & (synthetic > 0)).sum()),
        "replicated % of original": 100 * both / aligned.original.total,
        "replicated % of synthetic": 100 * both / max(table.total, 1),
    }


def uniques(held: Held, attacker: Attacker, rng: np.random.Generator) -> Finding:
    """Count unique records that the release repeats, on the known columns and on all columns of the widest table.

    Where no table has all quasi-identifiers, the figures are those of the worst table among those with most of them.
    """
    aligned = held.aligned
    if not has_rows(aligned):
        return not_computed("uniques", NO_ROWS)
    notes: list[str] = []
    looked_at: list[tuple[str, KeySet, Coded]] = []
    for i, keys in enumerate(key_sets(attacker)):
        shown = shown_of(aligned, keys)
        read = readings(aligned, shown)
        if i and [used for used, _ in read] != [keys]:
            notes.append(f"no table has {', '.join(keys)} together: not looked at")
            continue
        if i == 0:
            notes += unseen(keys, shown)
            if read and read[0][0] != shown:
                notes.append(say("uniques", "through", every=len(shown), most=len(read[0][0])))
        what = "further keys" if i else "quasi-identifiers"
        looked_at += [(what, used, table) for used, table in read]
    table = max(aligned.tables.values(), key=lambda t: (len(t.columns), len(t.n)))
    n, every, n_people = len(table.columns), len(aligned.values), aligned.original.total
    is_whole = n == every
    looked_at.append(("whole records" if is_whole else "widest table", table.columns, table))
    rows: list[dict[str, Any]] = [
        {
            "what": what,
            "columns": ", ".join(columns),
            "table": ", ".join(table.columns),
            **_uniques(aligned, table, columns),
        }
        for what, columns, table in looked_at
    ]
    none = say("uniques", "nowhere", every=every, widest=n)
    matches = rows[-1]["unique in original, in synthetic"]
    figures: dict[str, Any] = {
        "exact_matches": matches if is_whole else none,
        "exact_match": 100 * matches / n_people if is_whole else none,
        "exact_replicated": rows[-1]["replicated % of original"] if is_whole else none,
    }
    notes += [f"whole records: the {n} columns that both have"] * is_whole
    main = [i for i, (what, _, _) in enumerate(looked_at) if what == "quasi-identifiers"]
    if not main:
        names = ["replicated", "replicated_of_synthetic", "in_original", "found_uniques"]
        names += ["unique_original", "unique_synthetic", EXCESS]
        figures |= dict.fromkeys(names, say("uniques", "none"))
        return Finding("uniques", figures, pd.DataFrame(rows), notes=notes)
    at = max(main, key=lambda i: rows[i]["unique in both"])
    (_, keys, table), worst = looked_at[at], rows[at]

    def replicated(side: Aligned) -> Rate | str:
        table = covering(side, keys)
        if table is None or not side.original.total or shown_of(side, keys) != keys:
            return "no control: the control rows lack some of the columns, or are none"
        found = _uniques(side, table, keys)["unique in both"]
        return wilson(found, side.original.total) or "no control: there are too few rows"

    control = controlled(aligned, rng, replicated)
    figures |= {
        "replicated": worst["replicated % of original"],
        "replicated_of_synthetic": worst["replicated % of synthetic"],
        "in_original": 100 * worst["unique in synthetic, in original"] / table.total,
        "found_uniques": 100 * worst["unique in original, in synthetic"] / n_people,
        "unique_original": 100 * worst["unique in original"] / n_people,
        "unique_synthetic": 100 * worst["unique in synthetic"] / table.total,
        EXCESS: control.gain if isinstance(control.gain, str) else 100 * control.gain,
    }
    return Finding(
        "uniques",
        figures,
        pd.DataFrame(rows),
        rate=wilson(worst["unique in both"], n_people),
        control=control.rate,
        control_note=control.note,
        notes=notes,
    )


# Apparent matches


POOLED = "tables pooled"
"""Named in the place of a table where none has all quasi-identifiers with a target."""
IMPROVEMENTS = ("median_pi", "largest_pi", "mean_pi")


def apparent_match(held: Held, attacker: Attacker, rng: np.random.Generator) -> Finding:
    """Infer every target column from the unique match on the quasi-identifiers, and hold it against a baseline.

    Baselines are declared (`Held.baselines`) or else computed by `model_baselines`. A target is attacked through the
    smallest table that has it and all quasi-identifiers; where there is none, through all tables with most of them,
    and the value that most of a person's matches have is claimed. A blank that equals a blank is right, as published.
    """
    aligned = held.aligned
    known = shown_of(aligned, attacker.quasi_identifiers)
    targets = targets_of(aligned, attacker, known)
    notes = unseen(attacker.quasi_identifiers, known)
    by_target = attacked(aligned, known, targets)
    if by_target.empty or not aligned.original.total:
        why = f"no table with rows has {', '.join(known)} together with a further column: nothing to match on"
        if not known:
            why = "no table shows any of the quasi-identifiers"
        elif not targets:
            why = "every released column is a quasi-identifier: nothing is left to infer"
        elif not aligned.original.total:
            why = "the original has no rows"
        return not_computed("apparent_match", why, *notes)
    if left_out := [t for t in targets if t not in set(by_target["target"])]:
        notes.append(f"no table has the quasi-identifiers with {', '.join(left_out)}: not attacked")
    if n_pooled := int(by_target["table"].str.contains(POOLED).sum()):
        notes.append(say("apparent_match", "pooled", known=len(known), n=n_pooled))
    # Baseline of every target that has matches, or why some have none
    matched = by_target["target"][by_target["matches"] > 0].tolist()
    base = {t: float(b) for t, b in held.baselines.items() if t in matched and 0 <= b <= 1}
    why_none = "the original has too few rows for a baseline"
    if missing := tuple(t for t in matched if t not in base):
        try:
            wanted = attacker.model_copy(update={"targets": missing})
            modelled = model_baselines(aligned, wanted, rng)
        except StoreError as error:
            modelled, why_none = {}, str(error)
        base |= {t: r.value for t, r in modelled.items()}
        if modelled:
            notes.append(
                f"baselines of {len(modelled)} targets: a model trained on at most {attacker.model_rows} rows"
            )
    by_target["baseline"] = by_target["target"].map(base).astype("float64")
    gains = map(improvement, by_target["precision"], by_target["baseline"])
    by_target["precision improvement"] = pd.Series(gains, dtype="float64", index=by_target.index)
    figures: dict[str, Any] = {n: by_target[n].median() for n in ("matches", "coverage")}
    shown = by_target[by_target["matches"] > 0]
    gained = shown["precision improvement"].dropna()
    if shown.empty:
        names = ("precision_median", *IMPROVEMENTS)
        figures |= dict.fromkeys(names, say("apparent_match", "no_match"))
    else:
        figures["precision_median"] = shown["precision"].median()
        if certain := shown["target"][shown["baseline"] == 1].tolist():
            notes.append(say("apparent_match", "certain", names=", ".join(certain)))
        if lost := shown["target"][shown["baseline"].isna()].tolist():
            notes.append(f"no baseline for {', '.join(lost)}")
        if gained.empty:
            none = "everybody knows every target from the quasi-identifiers alone"
            figures |= dict.fromkeys(IMPROVEMENTS, why_none if lost else none)
        else:
            figures["median_pi"] = gained.median()
            figures["largest_pi"] = gained.max()
            figures["mean_pi"] = gained.sum() / (len(gained) + len(certain))
    control = _gains(aligned, known, by_target, rng)
    based = by_target[by_target["baseline"].notna() & (by_target["matches"] > 0)]
    guessed = float((based["baseline"] * based["matches"]).sum())
    return Finding(
        "apparent_match",
        figures | {"largest_gain": control.gain},
        by_target,
        rate=wilson(int(by_target["right"].sum()), int(by_target["matches"].sum())),
        baseline=wilson(guessed, int(based["matches"].sum())),
        control=control.rate,
        control_note=control.note,
        notes=(*notes, INDEPENDENT.format("values").replace("interval takes", "intervals take")),
    )


def attacked(aligned: Aligned, known: KeySet, targets: KeySet) -> pd.DataFrame:
    """One row a target: matches, those that are right, their share.

    A claim is the value that most of a person's unique matches have, in all tables that are read.
    """
    people, rows = aligned.original, []

    @cache
    def pairs(keys: KeySet, columns: ColumnSet) -> tuple[Numbers, Numbers]:
        return unique_pairs(aligned, aligned.tables[columns], keys)

    for name in targets if known else ():
        if not (read := readings(aligned, known, name)):
            continue
        width, joined = n_codes(aligned, name), []
        for keys, table in read:
            mine, theirs = pairs(keys, table.columns)
            joined.append(mine * width + table.codes[name][theirs])
        claims, n = np.unique(np.concatenate(joined), return_counts=True)
        claims = claims[np.lexsort((-n, claims // width))]
        at, first = np.unique(claims // width, return_index=True)
        right = people.codes[name][at] == claims[first] % width
        is_one = read[0][0] == known
        where = ", ".join(read[0][1].columns) if is_one else f"{len(read)} {POOLED}"
        rows.append((name, where, len(at), int(right.sum())))
    by_target = pd.DataFrame(rows, columns=["target", "table", "matches", "right"])
    by_target["precision"] = by_target["right"] / by_target["matches"].where(
        by_target["matches"] > 0
    )
    by_target["coverage"] = by_target["matches"] / max(people.total, 1)
    return by_target


def unique_pairs(aligned: Aligned, table: Coded, known: KeySet) -> tuple[Numbers, Numbers]:
    """Positions of the records of original and table that are unique on known columns and agree on them."""
    people = aligned.original
    (left, right), size = row_ids(aligned, [people, table], known)
    once = (totals(left, people.n, size) == 1) & (totals(right, table.n, size) == 1)
    mine = np.flatnonzero(once[left] & (people.n == 1))
    theirs = np.flatnonzero(once[right] & (table.n == 1))
    place = np.empty(size, np.int64)
    place[right[theirs]] = theirs
    return mine, place[left[mine]]


def _gains(
    aligned: Aligned, known: KeySet, by_target: pd.DataFrame, rng: np.random.Generator
) -> Control:
    """The same attack on non-members, and the largest gain above it of a target.

    Where a target has few matches of non-members, the gain is that of all people above the baseline.
    """
    both = alike(aligned, rng)
    if shown_of(both.non_members, known) != known:
        why = "no control: the control rows lack some of the quasi-identifiers"
        return Control(None, why, why)
    sides = [
        attacked(side, known, shown_of(side, by_target["target"])).set_index("target")
        for side in (both.members, both.non_members)
    ]
    every = by_target.set_index("target")
    gains = []
    for target in every.index:
        own, other = (
            wilson(int(side["right"][target]), int(side["matches"][target]))
            if target in side.index
            else None
            for side in sides
        )
        if own is None or other is None or other.n < FEWEST:
            own = wilson(int(every["right"][target]), int(every["matches"][target]))
            base = float(every["baseline"][target])
            other = None if np.isnan(base) else Rate(value=base, low=0.0, high=base, n=0)
        if own is not None and other is not None and other.value < 1:
            gains.append(excess(own, other) / (1 - other.value))
    rate = wilson(int(sides[1]["right"].sum()), int(sides[1]["matches"].sum()))
    note = f"control: {both.who}" if rate else f"no match among {both.who}: no control"
    if gains:
        return Control(rate, max(gains), note)
    why = f"nothing to hold it against, or nothing to gain; {note}"
    if not by_target["matches"].sum():
        why = "no match: nothing inferred"
    return Control(rate, why, why)


# Baseline: how well known columns predict a person outside the data


TRAINING_SHARE = 0.7
"""Share of the original that may train; the precision is measured on others."""
PENALTY, LARGEST_PENALTY, ROUNDS = 0.01, 0.1, 100
MOST_TESTED, FEWEST_ROWS = 20_000, 20
RARE, MOST_CLASSES = 5, 100
"""Values with fewer training rows, or beyond the most frequent so many, are never predicted; they count as misses."""


def model_baselines(
    aligned: Aligned, attacker: Attacker, rng: np.random.Generator
) -> dict[str, Rate]:
    """Precision of a logistic regression of each target on the known columns, for people that it was not trained on.

    70 % of the original may train, at most 20,000 of the others are predicted; empty where there are fewer than 20
    rows, or no known column. l1 penalty, C = 0.01, SAGA, 100 rounds, one column for each value of a known column: as
    in P. Francis, arXiv:2403.08463, section 4.1, Table 2. Three things keep it fast. (1) At most `model_rows` rows
    train; C then grows by the factor by which they are fewer, to 0.1 at most, so that the penalty weighs as it would
    with all rows. (2) Values with fewer than 5 training rows are put aside, and (3) so are those beyond the 100 most
    frequent: never predicted, always counted as misses.
    """
    known, original = shown_of(aligned, attacker.quasi_identifiers), aligned.original
    if len(original.n) < FEWEST_ROWS or not known:
        return {}
    order = rng.permutation(len(original.n))
    middle = int(TRAINING_SHARE * len(order))
    train = order[: min(middle, attacker.model_rows)]
    test = order[middle : middle + MOST_TESTED]
    encoder = optional("sklearn.preprocessing", "baselines").OneHotEncoder()
    features = encoder.fit_transform(np.column_stack([original.codes[c] for c in known]))
    strength = min(PENALTY * max(middle / len(train), 1.0), LARGEST_PENALTY)
    rates = {}
    with warnings.catch_warnings():
        warnings.filterwarnings(
            "ignore", "The max_iter was reached"
        )  # 100 rounds are the definition
        for name in targets_of(aligned, attacker, known):
            code = original.codes[name].astype(np.int64)
            guessed = _guess(features[train], code[train], features[test], strength)
            rates[name] = wilson(int((guessed == code[test]).sum()), len(test))
    return {name: rate for name, rate in rates.items() if rate is not None}


def _guess(features: Any, code: Numbers, tested: Any, strength: float) -> Numbers:
    """Value that a model, or where only one value is left to learn, that value, gives each tested row."""
    n = np.bincount(code)
    common = np.argsort(-n, kind="stable")[:MOST_CLASSES]
    is_learnt = np.zeros(len(n), np.bool_)
    is_learnt[common] = n[common] >= RARE
    if is_learnt.sum() < 2:
        return np.full(tested.shape[0], common[0])
    regression = optional("sklearn.linear_model", "baselines").LogisticRegression
    # How a pure l1 penalty is asked for has changed with scikit-learn 1.8.
    is_new = signature(regression).parameters["penalty"].default == "deprecated"
    how: dict[str, Any] = {"l1_ratio": 1.0} if is_new else {"penalty": "l1"}
    model = regression(C=strength, solver="saga", max_iter=ROUNDS, random_state=0, **how)
    model.fit(features[is_learnt[code]], code[is_learnt[code]])
    return np.asarray(model.predict(tested), np.int64)


# Attribution


THRESH_1WAY = (50, 0.90)
"""synthpop: a target's value is checked if more people than this are disclosed and it makes up more than this share."""
THRESH_2WAY = (4, 0.80)
"""synthpop: a disclosed cell of more people is checked where one key's value alone gives the target with this share."""
DENOM_LIM = 5
"""synthpop: cells of more disclosed people are rather what everybody knows of such people."""


def attribution(held: Held, attacker: Attacker, rng: np.random.Generator) -> Finding:
    """Attribute every target to people by their known columns: CAP, DCAP, TCAP and DiSCO.

    Figures are means over the targets, of the quasi-identifiers. Where no table has all quasi-identifiers with a
    target, every table with most of them is attacked, and the worst counts for the target.
    """
    aligned = held.aligned
    if not has_rows(aligned):
        return not_computed("attribution", NO_ROWS)
    parts: list[pd.DataFrame] = []
    notes: list[str] = []
    for i, keys in enumerate(key_sets(attacker)):
        shown = shown_of(aligned, keys)
        if i == 0:
            notes += unseen(keys, shown)
        elif shown != keys:
            notes.append(f"no table has {', '.join(keys)}: not looked at")
            continue
        more, remarks = _through(aligned, attacker, shown, is_main=i == 0)
        parts += [more] * bool(len(more))
        notes += remarks
    every = pd.concat(parts, ignore_index=True) if parts else pd.DataFrame({"is_main": []})
    main = every[every["is_main"].astype(bool)]
    if not len(main):
        why = f"no table shows a quasi-identifier together with a target that varies: {'; '.join(notes)}"
        return not_computed("attribution", why.rstrip(": "))
    worst = _worst(main)
    names = ("matched", "baseline", "cap_original", "dcap", "disco", "dorig", "disco_small")
    reached = worst.loc[worst["matched"] > 0, "cap"]
    unmatched = "nobody's known columns are in a table: nobody matched"
    figures: dict[str, Any] = {
        **{name: np.mean(worst[name].to_numpy()) for name in names},
        "cap": np.mean(reached.to_numpy()) if len(reached) else unmatched,
        "largest_disco": every["disco"].max(),
        "largest_gain": ((main["dcap"] - main["baseline"]) / (1 - main["baseline"])).max(),
        "flagged": (every["one_way"] | (every["two_way"] > 0)).sum(),
    }
    claims, baseline = _claims(main), None
    figures |= dict.fromkeys(("tcap", "tcap_baseline"), say("attribution", "no_claim"))
    if claims is not None:
        # About the same claims, not all people: targets differ in how many there are.
        guessed = float((main["baseline"] * main["disclosed"]).sum())
        figures |= {"tcap": claims.value, "tcap_baseline": guessed / claims.n}
        baseline = wilson(guessed, claims.n)
    gains, control, note, more_notes = _attribution_control(aligned, attacker, rng)
    return Finding(
        "attribution",
        figures | gains,
        every,
        rate=claims,
        baseline=baseline,
        control=control,
        control_note=note,
        notes=(*notes, INDEPENDENT.format("claims"), *more_notes),
    )


def _through(
    aligned: Aligned, attacker: Attacker, keys: KeySet, *, is_main: bool
) -> tuple[pd.DataFrame, list[str]]:
    """Attack every target through one set of known columns: one row a target and table."""
    through: dict[tuple[KeySet, ColumnSet], list[str]] = {}
    constant, left_out, partly = [], [], []
    for name in targets_of(aligned, attacker, keys):
        code = aligned.original.codes[name]
        if (code == code[0]).all():
            constant.append(name)
            continue
        read = readings(aligned, keys, name)
        covered = [(used, table) for used, table in read if is_main or used == keys]
        if not covered:
            left_out.append(name)
        elif covered[0][0] != keys:
            partly.append(len(covered[0][0]))
        for chosen, table in covered:
            through.setdefault((chosen, table.columns), []).append(name)
    found = [
        _attributed(aligned, aligned.tables[columns], chosen, name, is_main)
        for (chosen, columns), names in through.items()
        for name in names
    ]
    notes = [f"always the same, nothing to learn: {', '.join(constant)}"] if constant else []
    if left_out and keys:
        notes.append(f"no table has known columns with {', '.join(left_out)}: not attacked")
    if partly:
        at = f"{min(partly)} to {max(partly)}" if min(partly) < max(partly) else f"{partly[0]}"
        notes.append(say("attribution", "partly", known=len(keys), n=len(partly), at=at))
    return pd.DataFrame(found), notes


def _attributed(
    aligned: Aligned, table: Coded, keys: KeySet, name: str, is_main: bool
) -> dict[str, Any]:
    """One target, attacked through one set of known columns in one table."""
    people = aligned.original
    target, weight, n = people.codes[name], people.n.astype(np.float64), people.total
    (group, row), size = row_ids(aligned, [people, table], keys)
    (cell, row_cell), n_cells = row_ids(aligned, [people, table], (*keys, name))
    in_group, shown = (totals(i, t.n, size)[group] for i, t in ((group, people), (row, table)))
    in_cell, agreeing = (
        totals(i, t.n, n_cells)[cell] for i, t in ((cell, people), (row_cell, table))
    )
    share = np.divide(agreeing, shown, out=np.zeros(len(shown)), where=shown > 0)
    # Groups that have rows, all with one value of the target
    there, first = table.n > 0, np.full(size, -1, np.int64)
    first[row[there]] = row_cell[there]
    of_one_value = first >= 0
    of_one_value[row[there & (first[row] != row_cell)]] = False
    alone = of_one_value[group]
    right = alone & (agreeing > 0)
    matched = float(weight[shown > 0].sum())
    sizes = np.where(right, in_cell, 0)
    # Checks, by synthpop, of what is disclosed rightly: one value of the target; pairs with one value of a key
    by_value = np.bincount(target[right], weight[right])
    top = float(by_value.max(initial=0))
    large, width, two_way = right & (sizes > THRESH_2WAY[0]), int(target.max()) + 1, 0
    for key in keys if large.any() else ():
        code = people.codes[key].astype(np.int64)
        together = np.unique(code[large] * width + target[large])
        of_pair, of_key = np.bincount(code * width + target, weight), np.bincount(code, weight)
        two_way += int((of_pair[together] > THRESH_2WAY[1] * of_key[together // width]).sum())
    return {
        "is_main": is_main,  # Through the quasi-identifiers, or what a table has of them
        "keys": ", ".join(keys),
        "target": name,
        "table": ", ".join(table.columns),
        "n": n,  # People
        "matched": matched / n,  # Share of people whose known columns the table shows
        # CAP of a guess by the target's own distribution, of the original, and the mean over the people matched.
        "baseline": float(((np.bincount(target, weight) / n) ** 2).sum()),
        "cap_original": float((weight * in_cell / in_group).sum()) / n,
        "cap": float((weight * share).sum()) / max(matched, 1.0),
        "dcap": float((weight * share).sum()) / n,  # Over all people; unmatched ones count 0
        # People whose group of released records has one value only, and those for whom it is the right one.
        "disclosed": int(weight[alone].sum()),
        "right": int(weight[right].sum()),
        "disco": float(weight[right].sum()) / n,
        "dorig": float(weight[in_cell == in_group].sum()) / n,  # The same of the original itself
        "disco_small": float(weight[right & (sizes <= DENOM_LIM)].sum()) / n,
        # People in the largest cell that is disclosed rightly; whether one value makes up nearly all of that; and pairs
        # of a target's and a key's value that nearly go together anyway.
        "largest_cell": int(sizes.max(initial=0)),
        "one_way": bool(top > max(THRESH_1WAY[0], THRESH_1WAY[1] * by_value.sum())),
        "two_way": two_way,
    }


def _claims(found: pd.DataFrame) -> Rate | None:
    return wilson(int(found["right"].sum()), int(found["disclosed"].sum()))


def _worst(main: pd.DataFrame) -> pd.DataFrame:
    """The most informative table of each target."""
    return main.loc[main.groupby("target", sort=False)["dcap"].idxmax()]


def _attribution_control(
    aligned: Aligned, attacker: Attacker, rng: np.random.Generator
) -> tuple[dict[str, Any], Rate | None, str, Sequence[str]]:
    """Gains above the same attack on non-members, its rate, who they are, and notes; on targets that both have."""
    both = alike(aligned, rng)
    known = shown_of(aligned, attacker.quasi_identifiers)
    sides = (both.members, both.non_members)
    found: list[pd.DataFrame] = []
    why = "no control: the control rows lack some of the quasi-identifiers, or are none"
    if all(s.original.total for s in sides) and shown_of(both.non_members, known) == known:
        found = [_through(side, attacker, known, is_main=True)[0] for side in sides]
        why = "no control: the control rows, or a part of the original, show no target that varies"
    common = set.intersection(*(set(one.get("target", ())) for one in found)) if found else set()
    if not common:
        return dict.fromkeys((EXCESS, "tcap_gain"), why), None, why, ()
    mine, others = (one[one["target"].isin(common)] for one in found)
    # As sure as if it were about one target, as people are the same in all.
    own, other = (
        wilson(float(worst["right"].mean()), int(worst["n"].iloc[0]))
        for worst in (_worst(mine), _worst(others))
    )
    note = f"control: {both.who}"
    if own is None or other is None:
        few = "no control: there are too few rows"
        return dict.fromkeys((EXCESS, "tcap_gain"), few), None, note, (few,)
    claims, control = _claims(mine), _claims(others)
    gain: float | str = f"no claim about {both.who}: no control of TCAP"
    if claims is not None and control is not None:
        gain = "claims about non-members are always right: TCAP has nothing to gain"
        if control.value < 1:
            gain = excess(claims, control) / (1 - control.value)
    notes = [f"DiSCO {against(own, other)}", *([gain] if isinstance(gain, str) else [])]
    return {EXCESS: excess(own, other), "tcap_gain": gain}, control, note, notes


# Identification


_STEPS = (0, 1, 2, 5, 10)


def is_row_by_row(aligned: Aligned, attacker: Attacker) -> bool:
    """Whether row i of the synthetic table was made from row i of the original: declared, and possible."""
    tables = list(aligned.tables.values())
    return (
        attacker.aligned
        and len(tables) == 1
        and len(tables[0].n) == len(aligned.original.n)
        and bool((tables[0].n == 1).all())
    )


def identification(held: Held, attacker: Attacker, rng: np.random.Generator) -> Finding:
    """How often a person's own record is found by agreement on the quasi-identifiers.

    With c records that agree and T = 1 if the own is among them: expected match risk, the sum of T / c; true match
    rate (`rate`), the share of people with c T = 1; false match rate, the share of those with c = 1 whose match is not
    theirs. Broken down by the number of records that agree.
    """
    aligned = held.aligned
    table = best_holding(aligned, attacker.quasi_identifiers)
    n = len(aligned.original.n)
    if table is None or not n or table.total == 0:
        why = "the original has no rows" if not n else "the synthetic table has no rows"
        none = "no table has a quasi-identifier and another column"
        return not_computed("identification", none if n and table is None else why)
    row_by_row = is_row_by_row(aligned, attacker)
    c, own, blind = _matches(aligned, table, attacker, row_by_row=row_by_row)
    true_unique, n_unique = float((own & (c == 1)).sum()), float((c == 1).sum())
    expected = own / np.maximum(c, 1)
    rate, by_chance = wilson(true_unique, n), wilson(blind * n, n)

    def found(side: Aligned) -> Rate | str:
        same = side.tables[table.columns]
        if why := no_control(side.original, same):
            return why
        c, own, _ = _matches(side, same, attacker, row_by_row=False)
        return wilson(float((own & (c == 1)).sum()), len(c)) or "there are too few rows"

    if row_by_row and rate is not None and by_chance is not None:
        control = Control(None, excess(rate, by_chance), NO_NON_MEMBERS)
    else:
        control = controlled(aligned, rng, found)
    none = "nobody is matched by a single record"
    figures = {
        "expected_match_risk": expected.sum(),
        "expected_match_share": expected.sum() / n,
        "true_match_rate": true_unique / n,
        "uniquely_matched": n_unique / n,
        "matched": np.count_nonzero(c) / n,
        "false_match_rate": 1 - true_unique / n_unique if n_unique else none,
        EXCESS: control.gain,
    }
    group = np.searchsorted(_STEPS, c, side="left")
    size = len(_STEPS) + 1
    by_records = {
        "records": ["0", "1", "2", "3 to 5", "6 to 10", "more than 10"],
        "people": np.bincount(group, minlength=size),
        "own_among_them": totals(group, own, size),
        "expected": np.bincount(group, expected, minlength=size),
    }
    known = ", ".join(c for c in table.columns if c in attacker.quasi_identifiers)
    notes = [
        f"table: {', '.join(table.columns)}; known: {known}",
        say("identification", "own_row" if row_by_row else "own_equal"),
        "baseline: any record of the table",
    ]
    if attacker.aligned and not row_by_row:
        notes.append(say("identification", "not_row_by_row"))
    return Finding(
        "identification",
        figures,
        pd.DataFrame(by_records),
        rate=rate,
        baseline=by_chance,
        control=control.rate,
        control_note=control.note,
        notes=notes,
    )


def _matches(
    aligned: Aligned, table: Coded, attacker: Attacker, *, row_by_row: bool
) -> tuple[Any, Flags, float]:
    """For each person: synthetic records that agree (c), whether the own is among them (T), chance by a blind draw."""
    people = aligned.original
    known = [c for c in table.columns if c in attacker.quasi_identifiers]
    (person, row), size = row_ids(aligned, [people, table], known)
    c = totals(row, table.n, size)[person].astype(np.float64)
    if row_by_row:
        return c, person == row, 1 / len(person)
    (person, row), size = row_ids(aligned, [people, table], table.columns)
    equal = totals(row, table.n, size)[person]
    return c, equal > 0, float(equal.mean()) / table.total
