"""Inference: what does a release tell about a person's unknown columns, given the known ones?

Takes a `Paired`, what an attacker knows, and a generator; gives a `Risk`. Classification-based attribute risk: Choi
et al., "Generating multi-label discrete patient records", MLHC 2017 (arXiv:1703.06490), with a random
forest. What people outside the data have in common with those inside is no leak (Francis and Wagner, arXiv:2403.06595),
so that the same attack with exact rows of other people is the baseline.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pandas as pd

from engine.evaluation.data.paired import Coded, Numbers, Paired, covering
from engine.evaluation.data.sampling import of_columns, positions, published_as_is, rows_of
from engine.evaluation.risk.attacker import Attacker
from engine.evaluation.risk.precision import (
    Claims,
    anonymity_loss,
    at_share,
    beyond_chance,
    improvement,
    pooled,
)
from engine.evaluation.risk.records import row_ids
from engine.evaluation.risk.several import (
    MOST_VALUES,
    Floats,
    Guess,
    common_values,
    guess,
    sharpened,
)
from engine.evaluation.score import WHOLE, Risk, optional, wilson
from engine.evaluation.threads import n_threads
from engine.schema import column_set

_NAME = "inference"
_WORDS = (
    "The attacker knows a person's quasi-identifiers and wants another column. Where one table holds them all, a "
    "random forest learns the column from its rows, and records that agree with the person in all that is known count "
    "more; else all tables that tell the column from some of the known ones are put together. The likeliest value is "
    "claimed."
)
_TREES = 30
_HELD_OUT = 0.3
_FEWEST_PEOPLE = 20
_CONFIDENT = 0.1


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class _Sides:
    """People attacked, exact rows of all others and the tables they make, and the control's people, if any."""

    people: Coded
    others: Coded
    exact: Paired
    strangers: Coded | None


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class _Outcome:
    """What an attack on one column gained, its baseline and control, and how it was done."""

    attack: Claims
    baseline: Claims
    control: Claims
    way: str


def inference(paired: Paired, attacker: Attacker, rng: np.random.Generator) -> Risk:
    """Precision of guesses about people's unknown columns, compared with guesses from other people's rows.

    At most `attacker.attempts` people, and three in ten of the original, are attacked; the baseline learns from others.
    """
    n_people = min(attacker.attempts, int(_HELD_OUT * len(paired.original.n)))
    known = [c for c in attacker.quasi_identifiers if c in paired.values]
    if n_people < _FEWEST_PEOPLE or not known:
        few = f"fewer than {_FEWEST_PEOPLE} people can be attacked, three in ten of the original"
        why = few if known else "no table has a quasi-identifier"
        return Risk(attack=_NAME, words=_WORDS, why_not={WHOLE: why})
    sides = _sides(paired, n_people, attacker, rng)
    outcomes: dict[str, _Outcome] = {}
    skipped: dict[str, str] = {}
    for target in attacker.targets or [c for c in paired.values if c not in known]:
        given = [c for c in known if c != target]
        one = _attacked(paired, sides, target, given, attacker, rng)
        if isinstance(one, str):
            skipped[target] = one
        else:
            outcomes[target] = one
    return _risk_of(outcomes, skipped, n_people, declared=sides.strangers is not None)


def _sides(paired: Paired, n_people: int, attacker: Attacker, rng: np.random.Generator) -> _Sides:
    """Draw the people to attack."""
    n_rows = len(paired.original.n)
    taken = positions(n_rows, n_people, rng)
    others = rows_of(paired.original, np.setdiff1d(np.arange(n_rows), taken))
    exact = replace(paired, tables=published_as_is(paired, others))
    control = paired.control
    strangers = None
    if control is not None and len(control.n):
        strangers = rows_of(control, positions(len(control.n), attacker.attempts, rng))
    people = rows_of(paired.original, taken)
    return _Sides(people=people, others=others, exact=exact, strangers=strangers)


def _attacked(
    paired: Paired,
    sides: _Sides,
    target: str,
    known: list[str],
    attacker: Attacker,
    rng: np.random.Generator,
) -> _Outcome | str:
    """Attack one column, or say why it cannot be."""
    if target not in paired.values:
        return "in no table, or not in the original"
    people, strangers = sides.people, sides.strangers
    truth = people.codes[target]
    if (truth == truth[0]).all():
        return "constant among the people attacked"
    table = covering(paired, {*known, target})
    attack = _guessed(paired, table, people, target, known, attacker, rng)
    if attack is None:
        return "no table with rows holds it and a known column"
    baseline = _baseline(sides, table, target, known, attacker, rng)
    control = baseline
    if strangers is not None and {*known, target} <= set(strangers.codes):
        again = _guessed(paired, table, strangers, target, known, attacker, rng)
        control = baseline if again is None else _claims(again, strangers, target)
    one_table = len(attack.read) == 1
    return _Outcome(
        attack=_claims(attack, people, target),
        baseline=baseline,
        control=control,
        way="one table" if one_table else f"{len(attack.read)} tables",
    )


def _baseline(
    sides: _Sides,
    table: Coded | None,
    target: str,
    known: list[str],
    attacker: Attacker,
    rng: np.random.Generator,
) -> Claims:
    """The same attack with exact tables of other people, or a model of their whole rows, whichever does better."""
    other = None if table is None else of_columns(sides.others, table.columns)
    guesses = [_guessed(sides.exact, other, sides.people, target, known, attacker, rng)]
    if other is None and known:
        whole = of_columns(sides.others, column_set([*known, target]))
        guesses.append(_guessed(sides.exact, whole, sides.people, target, known, attacker, rng))
    claims = [_claims(one, sides.people, target) for one in guesses if one is not None]
    return max(claims, key=lambda one: float(one.right.mean()))


def _guessed(
    paired: Paired,
    table: Coded | None,
    people: Coded,
    target: str,
    known: list[str],
    attacker: Attacker,
    rng: np.random.Generator,
) -> Guess | None:
    """Guess by the one table that holds all, else by several."""
    if table is None or table.total == 0 or not known:
        return guess(paired, people, target, known)
    values = common_values(table, target)
    at = _drawn(table, attacker.model_rows, rng)
    labels = np.where(np.isin(table.codes[target][at], values), table.codes[target][at], -1)
    features = np.stack([table.codes[c] for c in known], axis=1)[at]
    wanted = np.stack([people.codes[c] for c in known], axis=1)
    prior = _forest(features, labels, wanted, values, rng)
    person, row = row_ids(paired, [people, table], known)
    codes = table.codes[target].astype(np.int64)
    code, confidence = sharpened(prior, values, (person, row), codes, table.n)
    return Guess(code=code, confidence=confidence, read=(table.columns,))


def _drawn(table: Coded, most: int, rng: np.random.Generator) -> Numbers:
    """Places of at most so many records of a table, of which a row may stand for several."""
    records = positions(table.total, most, rng)
    return np.searchsorted(np.cumsum(table.n), records, side="right").astype(np.int64)


def _forest(
    features: Any, labels: Numbers, wanted: Any, values: Numbers, rng: np.random.Generator
) -> Floats:
    """Probability of each of the values for each person: shape (n_people, n_values)."""
    RandomForestClassifier = optional(
        "sklearn.ensemble", "attacks by inference"
    ).RandomForestClassifier
    drawn = int(rng.integers(1 << 31))
    model = RandomForestClassifier(
        _TREES, min_samples_leaf=2, max_features=0.5, random_state=drawn, n_jobs=n_threads()
    )
    # People who agree in all that is known are asked about once.
    asked, back = np.unique(wanted, axis=0, return_inverse=True)
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "The number of unique classes", UserWarning)  # codes are
        # Column by column, as trees read it.
        model.fit(np.asfortranarray(features, np.float32), labels)
        model.set_params(n_jobs=1)  # shares are added up in the order of the trees
        share = model.predict_proba(asked.astype(np.float32))
    out = np.zeros((len(asked), len(values)))
    known = model.classes_ >= 0
    out[:, np.searchsorted(values, model.classes_[known])] = share[:, known]
    return out[back.reshape(-1)]


def _claims(guess: Guess, people: Coded, target: str) -> Claims:
    """Hold guesses against the truth."""
    right = (guess.code == people.codes[target]).astype(np.float64)
    return Claims(confidence=guess.confidence, right=right, n_people=len(right))


def _risk_of(
    outcomes: Mapping[str, _Outcome], skipped: Mapping[str, str], n_people: int, *, declared: bool
) -> Risk:
    """Put the attacks on all columns together."""
    left_out = tuple(f"{name} is left out: {why}" for name, why in skipped.items())
    if not outcomes:
        why = "; ".join(left_out) or "there is no column beside the quasi-identifiers"
        return Risk(attack=_NAME, words=_WORDS, why_not={WHOLE: why}, notes=left_out)
    sides = {
        side: pooled([getattr(one, side) for one in outcomes.values()])
        for side in ("attack", "baseline", "control")
    }
    rates = {k: wilson(float(c.right.sum()), len(c.right)) for k, c in sides.items()}
    breakdown = pd.DataFrame([_row(name, one) for name, one in outcomes.items()])
    values, why_not = _values(breakdown, sides)
    control = (
        "control: the control rows that were given"
        if declared
        else "control: the baseline, as no control rows were given; it is the same attack with exact tables of others"
    )
    return Risk(
        attack=_NAME,
        words=_WORDS,
        rate=rates["attack"],
        baseline=rates["baseline"],
        control=rates["control"],
        values=values,
        breakdown=breakdown,
        why_not=why_not,
        notes=(
            f"{n_people} people; baseline: the same attack with exact tables of all others of the original, or a "
            "forest on their rows, whichever does better",
            "the interval takes guesses about several columns of a person as independent, which they are not",
            f"the {MOST_VALUES} most frequent values of a column are told apart by the models",
            *left_out,
        ),
        control_note=control,
    )


def _row(name: str, outcome: _Outcome) -> dict[str, Any]:
    """Figures of one column; those that do not exist are blank."""
    sure = {k: at_share(getattr(outcome, k), _CONFIDENT) for k in ("attack", "baseline")}
    whole = {k: at_share(getattr(outcome, k), 1.0) for k in ("attack", "baseline")}
    loss = anonymity_loss(outcome.attack, outcome.baseline)
    sides = {k: float(getattr(outcome, k).right.mean()) for k in ("attack", "baseline", "control")}
    confident = {k: math.nan if rate is None else rate.value for k, rate in sure.items()}
    gains = {
        "pi": improvement(sides["attack"], sides["baseline"]),
        "pi_control": improvement(sides["control"], sides["baseline"]),
        "pi_confident": improvement(confident["attack"], confident["baseline"]),
        "alc": None if loss is None else loss[0],
    }
    beyond = {
        "pi": beyond_chance(whole["attack"], whole["baseline"]),
        "pi_confident": beyond_chance(sure["attack"], sure["baseline"]),
        "alc": loss is not None and loss[1],
    }
    return {
        "column": name,
        "way": outcome.way,
        "precision": sides["attack"],
        "baseline": sides["baseline"],
        "control": sides["control"],
        "precision_confident": confident["attack"],
        "baseline_confident": confident["baseline"],
        **{k: math.nan if v is None else float(v) for k, v in gains.items()},
        **{f"{k}_beyond_chance": beyond[k] for k in beyond},
    }


def _values(
    breakdown: pd.DataFrame, sides: Mapping[str, Claims]
) -> tuple[dict[str, float], dict[str, str]]:
    """Figures over all columns, and why some are not there."""
    precision, baseline = (float(sides[k].right.mean()) for k in ("attack", "baseline"))
    values = {"precision": precision, "baseline": baseline, "columns": float(len(breakdown))}
    gain = improvement(precision, baseline)
    several = {
        "pi": math.nan if gain is None else gain,
        "pi_median": breakdown["pi"].median(),
        "pi_largest": _largest(breakdown, "pi"),
        "pi_confident_median": breakdown["pi_confident"].median(),
        "pi_confident_largest": _largest(breakdown, "pi_confident"),
        "alc_median": breakdown["alc"].median(),
        "alc_largest": _largest(breakdown, "alc"),
    }
    values |= {k: float(v) for k, v in several.items() if not math.isnan(v)}
    nothing = "the baseline is always right, so that there is nothing to gain"
    return values, {k: nothing for k, v in several.items() if math.isnan(v)}


def _largest(breakdown: pd.DataFrame, name: str) -> float:
    """Largest gain of a column; one that chance may explain counts as none."""
    gain = breakdown[name].to_numpy(np.float64)
    by_chance = (gain > 0) & ~breakdown[f"{name}_beyond_chance"].to_numpy(np.bool_)
    gain = np.where(by_chance, 0.0, gain)[~np.isnan(gain)]
    return float(gain.max()) if len(gain) else math.nan
