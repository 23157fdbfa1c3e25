"""Train on synthetic, test on real: controls on both sides, scikit-learn and scipy as oracles, and bad input."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from fixtures.utility import checked, side_by_side

from engine.evaluation.findings import WHOLE
from engine.evaluation.measures.learning import Learner, Learning, Sample, learning

pytest.importorskip("sklearn.ensemble")


def people(n: int = 900, seed: int = 3) -> pd.DataFrame:
    """A target that one column tells well, one a little, and one not at all."""
    rng = np.random.default_rng(seed)
    age = rng.integers(0, 90, n).astype(float)
    kind = rng.choice(["a", "b", "c"], n)
    noise = rng.choice(["x", "y"], n)
    score = age / 20 + 2 * (kind == "a") + rng.normal(0, 0.5, n)
    found = pd.DataFrame({"age": age, "kind": kind, "noise": noise, "score": score.round(1)})
    found["works"] = np.where(score > 3, "yes", "no")
    found.loc[found["age"] < 5, "age"] = np.nan
    return found


def independent(frame: pd.DataFrame, seed: int = 4) -> pd.DataFrame:
    rng = np.random.default_rng(seed)
    return pd.DataFrame({c: rng.permutation(frame[c].to_numpy()) for c in frame})


def learned(original, *frames, told=None, seed=0, **task):
    told = told or (Learning(target="works", trees=20, **task),)
    return checked(learning(side_by_side(original, *frames), told, np.random.default_rng(seed)))


FEATURES = {"features": ("age", "kind", "noise")}


def test_a_fresh_sample_is_worth_as_much_and_finds_the_same_columns():
    score = learned(people(), people(seed=8), **FEATURES)
    assert abs(score.values["logistic_ratio"] - 1) < 0.05
    assert abs(score.values["forest_ratio"] - 1) < 0.05
    assert abs(score.values["forest_auc_loss"]) < 0.03
    assert score.values["importance_agreement"] == 1
    assert score.values["guess_ratio"] < 0.7
    assert score.values["n"] == 1


def test_independent_columns_teach_no_more_than_guessing():
    frame = people(1500)
    score = learned(frame, independent(frame), **FEATURES)
    told = score.breakdown.set_index(["learner", "trained_on"])
    for learner in ("logistic", "forest"):
        assert told.loc[(learner, "synthetic"), "accuracy"] < told["guess"].max() + 0.05
        assert abs(told.loc[(learner, "synthetic"), "auc"] - 0.5) < 0.15
        assert told.loc[(learner, "original"), "auc"] > 0.95
        assert score.values[f"{learner}_auc_loss"] > 0.3
    assert score.values["logistic_ratio"] < 0.8


# Bad input: said in words, never a zero.


@pytest.mark.parametrize(
    ("original", "synthetic", "task", "why"),
    [
        (people(), people()[["age"]], {}, "no table"),
        (people(), people()[["works"]], {}, "no table"),
        (people(), people().iloc[:0], {}, "no rows"),
        (people(5), people(), {}, "fewer than"),
        (people().assign(works="yes"), people(), {}, "one value"),
        (people().assign(works=None), people().assign(works=None), {}, "one value"),
    ],
    ids=["no target", "no feature", "empty", "few rows", "constant", "all blank"],
)
def test_what_cannot_be_learned_is_said(original, synthetic, task, why):
    score = learned(original, synthetic, **task)
    assert not score.values
    assert why in score.why_not[WHOLE]


# The pieces, against slow twins.


@pytest.mark.parametrize("kind", ["logistic", "forest"])
def test_a_column_of_texts_is_learned_as_dummies_and_a_new_value_is_none_of_them(kind):
    classes = np.repeat([0, 1], 21)
    sample = Sample(codes=classes[:, None].astype(np.int32), classes=classes)
    values = [np.array(["x", "y", "new"], dtype=object)]
    guess = Learner(kind, values, sample, 3, trees=20, seed=0)(
        np.arange(4, dtype=np.int32)[:, None]
    )
    assert guess.shape == (4, 3)
    assert guess.sum(axis=1) == pytest.approx(1)
    assert guess[0, 0] > 0.8
    assert guess[1, 1] > 0.8
    assert (guess[:, 2] == 0).all(), "a class without rows is never guessed"
