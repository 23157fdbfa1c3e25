"""What known columns tell of a person whom nobody measured: the precision of a model on records outside its training.

Takes the original alone; gives a `HitRate` a target column. A release that lets no attacker do better discloses nothing
about those who are in it (P. Francis, arXiv:2403.08463, section 4.1, Table 2). Needs scikit-learn.
"""

from __future__ import annotations

import warnings
from inspect import signature
from typing import Any

import numpy as np

from engine.evaluation.data.paired import Numbers, Paired, n_codes
from engine.evaluation.risk.attacker import Attacker
from engine.evaluation.risk.matching import KeySet, shown_of, targets_of
from engine.evaluation.score import HitRate, optional, wilson
from engine.evaluation.threads import in_threads

TRAINING_SHARE = 0.7
"""Share of the original that may train; the precision is measured on others."""
PENALTY, LARGEST_PENALTY, ROUNDS = 0.01, 0.1, 100
MOST_TESTED = 20_000
FEWEST_ROWS = 20
RARE, MOST_CLASSES = 5, 100
"""Values with fewer training rows, or beyond the most frequent so many, are never predicted; they count as misses."""


def model_baselines(
    paired: Paired, attacker: Attacker, rng: np.random.Generator
) -> dict[str, HitRate]:
    """Precision of a logistic regression of each target on the known columns, for people that it was not trained on.

    attacker: Quasi-identifiers, targets, and how many rows a model learns from at most.
    rng: Splits the original: 70 % may train, at most 20,000 of the others are predicted.

    Returns: Target -> share of values guessed right. Empty where there are fewer than 20 rows, or no known
    column.

    l1 penalty, C = 0.01, SAGA, 100 rounds, one column for each value of a known column: as in the source. Three things
    keep it fast. (1) At most `model_rows` rows train; C then grows by the factor by which they are fewer, to 0.1 at
    most, so that the penalty weighs as it would with all rows. (2) Values with fewer than 5 training rows are put
    aside, and (3) so are those beyond the 100 most frequent: never predicted, always counted as misses.
    """
    known = shown_of(paired, attacker.quasi_identifiers)
    original = paired.original
    if len(original.n) < FEWEST_ROWS or not known:
        return {}
    order = rng.permutation(len(original.n))
    middle = int(TRAINING_SHARE * len(order))
    train = order[: min(middle, attacker.model_rows)]
    test = order[middle : middle + MOST_TESTED]
    strength = min(PENALTY * max(middle / len(train), 1.0), LARGEST_PENALTY)
    features = _features(paired, known)

    def right(name: str) -> int:
        code = original.codes[name].astype(np.int64)
        guessed = _guess(features[train], code[train], features[test], strength)
        return int((guessed == code[test]).sum())

    targets = targets_of(paired, attacker, known)
    with warnings.catch_warnings():
        # 100 rounds are the definition.
        warnings.filterwarnings("ignore", "The max_iter was reached")
        found = dict(zip(targets, in_threads(right, targets), strict=True))
    rates = {name: wilson(n_right, len(test)) for name, n_right in found.items()}
    return {name: rate for name, rate in rates.items() if rate is not None}


def _features(paired: Paired, known: KeySet) -> Any:
    """One column of 0 and 1 for each value of each known column, and for its blank."""
    csr_matrix = optional("scipy.sparse", "baselines").csr_matrix
    codes, width = [], 0
    for name in known:
        codes.append(paired.original.codes[name].astype(np.int64) + width)
        width += n_codes(paired, name)
    at = np.column_stack(codes)
    ends = np.arange(0, at.size + 1, len(known))
    return csr_matrix((np.ones(at.size), at.ravel(), ends), shape=(len(at), width))


def _guess(features: Any, code: Numbers, tested: Any, strength: float) -> Numbers:
    """Value that a model, or where only one value is left to learn, that value, gives each tested row."""
    n = np.bincount(code)
    common = np.argsort(-n, kind="stable")[:MOST_CLASSES]
    is_learnt = np.zeros(len(n), np.bool_)
    is_learnt[common] = n[common] >= RARE
    if is_learnt.sum() < 2:
        return np.full(tested.shape[0], common[0])
    learnt = is_learnt[code]
    model = _model(strength)
    model.fit(features[learnt], code[learnt])
    return np.asarray(model.predict(tested), np.int64)


def _model(strength: float) -> Any:
    """The model of the source; how a pure l1 penalty is asked for has changed with scikit-learn 1.8."""
    LogisticRegression = optional("sklearn.linear_model", "baselines").LogisticRegression
    is_new = signature(LogisticRegression).parameters["penalty"].default == "deprecated"
    how = {"l1_ratio": 1.0} if is_new else {"penalty": "l1"}
    return LogisticRegression(C=strength, solver="saga", max_iter=ROUNDS, random_state=0, **how)
