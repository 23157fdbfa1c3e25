"""Sequential CART: values of the leaf and no others, shares as in the leaf, blanks first, order, kept columns."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from engine.errors import SpecError
from engine.evaluation.baselines import Schema
from engine.evaluation.baselines.cart import cart, leaf_draws

pytest.importorskip("sklearn")


def people(n: int = 900, seed: int = 3) -> pd.DataFrame:
    rng = np.random.default_rng(seed)
    region = rng.choice(["north", "south", "west"], n, p=[0.5, 0.3, 0.2])
    age = rng.integers(0, 80, n).astype(float)
    income = np.where(age < 16, np.nan, 1000 + 40 * age + rng.normal(0, 50, n).round())
    job = np.where(age < 16, None, np.where(region == "north", "fisher", "miner"))
    return pd.DataFrame(
        {
            "region": pd.Categorical(region, categories=["west", "south", "north", "nowhere"]),
            "age": age,
            "income": income,
            "job": job,
        }
    )


SCHEMA = Schema(numbers=frozenset({"age", "income"}))


def test_rows_have_the_same_columns_types_and_number():
    frame = people()
    out = cart().synthesize(frame, SCHEMA, np.random.default_rng(1))
    assert list(out.columns) == list(frame.columns)
    assert len(out) == len(frame)
    assert list(out.dtypes) == list(frame.dtypes)
    again = cart().synthesize(frame, SCHEMA, np.random.default_rng(1))
    pd.testing.assert_frame_equal(out, again)
    assert not out.equals(cart().synthesize(frame, SCHEMA, np.random.default_rng(2)))


def test_what_columns_tell_of_each_other_is_kept():
    out = cart().synthesize(people(3000), SCHEMA, np.random.default_rng(1))
    adults = out[out["age"] >= 16]
    assert out.loc[out["age"] < 16, "income"].isna().all()
    assert out.loc[out["age"] < 16, "job"].isna().all()
    assert adults["income"].notna().all()
    right = np.where(adults["region"] == "north", "fisher", "miner")
    assert (adults["job"] == right).all()
    slope = np.polyfit(adults["age"], adults["income"], 1)[0]
    assert slope == pytest.approx(40, abs=0.5)


def test_a_leaf_gives_the_rows_that_lie_in_it_and_all_of_them_alike():
    rng = np.random.default_rng(5)
    learned = rng.integers(0, 40, 500) * 7
    wanted = rng.choice(np.unique(learned), 20_000)
    rows = leaf_draws(learned, wanted, rng)
    assert (learned[rows] == wanted).all()
    one = learned[0]
    inside = np.flatnonzero(learned == one)
    drawn = rows[wanted == one]
    assert set(drawn.tolist()) == set(inside.tolist())
    counts = np.array([(drawn == row).sum() for row in inside])
    expected = len(drawn) / len(inside)
    assert ((counts - expected) ** 2 / expected).sum() < 3 * len(inside)


def test_values_are_those_of_the_leaf():
    # Two groups far apart: a leaf never mixes them, whatever is drawn.
    rng = np.random.default_rng(7)
    group = rng.integers(0, 2, 400)
    y = np.where(group == 1, 1000.0, 0.0) + rng.integers(0, 50, 400) * 2
    frame = pd.DataFrame({"group": group, "y": y})
    schema = Schema(numbers=frozenset({"y"}))
    out = cart().synthesize(frame, schema, rng)
    for g in (0, 1):
        own, drawn = set(y[group == g]), set(out.loc[out["group"] == g, "y"])
        assert drawn <= own


def test_names_that_are_not_there_are_refused():
    with pytest.raises(SpecError, match="names nowhere, which the data lacks"):
        cart().synthesize(people(50), Schema(kept=("nowhere",)), np.random.default_rng(1))
    with pytest.raises(SpecError, match="nothing is left"):
        cart().synthesize(people(50)[["age"]], Schema(kept=("age",)), np.random.default_rng(1))
