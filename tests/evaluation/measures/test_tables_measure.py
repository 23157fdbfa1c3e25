"""Closed-form pMSE of tables: by hand, against scipy and a regression, its expectation, and bad input."""

from __future__ import annotations

import math
from itertools import combinations

import numpy as np
import pandas as pd
import pytest
from fixtures.pipeline import ROOT

from engine.evaluation.data.aligned import align, distinct
from engine.evaluation.findings import figures_of
from engine.evaluation.measures.combinations import Tables, fit, table_fit
from engine.evaluation.measures.propensity import logistic
from engine.evaluation.study import Study
from engine.schema import column_set

FIGURES = figures_of("tables")

BARE = Study(title="")
SHARED = ROOT.parent / "shared"
BY_NAME = {f.name: f for f in FIGURES}


def rng(seed: int = 5) -> np.random.Generator:
    return np.random.default_rng(seed)


def against(original, *frames):
    frames = [pd.DataFrame(f) for f in frames]
    return align(pd.DataFrame(original), {column_set(list(f)): distinct(f) for f in frames}, BARE)


def score(original, *frames, **told):
    got = table_fit(against(original, *frames), Tables(**told), rng())
    for name, value in got.values.items():
        figure = BY_NAME[f"tables.{name}"]
        assert figure.low <= value <= figure.high
    assert not set(got.values) & set(got.why_not)
    return got


def people(n: int, seed: int) -> pd.DataFrame:
    r = rng(seed)
    age = r.integers(0, 90, n)
    income = np.where(age < 16, np.nan, np.round(r.gamma(2, 900, n), -2))
    region = np.where(r.random(n) < 0.1, None, r.choice(list("abcd"), n, p=[0.4, 0.3, 0.2, 0.1]))
    return pd.DataFrame({"age": age, "income": income, "region": region, "sex": r.choice(2, n)})


def counts_of(*counts) -> tuple[np.ndarray, ...]:
    return tuple(np.array(c, np.float64) for c in counts)


# One table.


def test_by_hand_with_equal_sizes():
    got = fit(*counts_of([3, 1, 0], [1, 3, 0]))
    assert (got.cells, got.df, got.one_sided) == (2, 1, 0)
    assert got.s_pmse == pytest.approx(4)  # 4 / 2 + 4 / 2
    assert got.pmse == pytest.approx(4 / (16 * 4))


def test_by_hand_with_other_sizes():
    got = fit(*counts_of([2, 0, 2], [1, 1, 0]))
    # Shares 1/3, 1, 0 of the cells against 1/3 of all.
    assert got.pmse == pytest.approx((0 + 4 / 9 + 2 / 9) / 6)
    assert got.s_pmse == pytest.approx(4.5 / 2)
    assert got.one_sided == pytest.approx(2 / 3)


@pytest.mark.parametrize("seed", range(2))
def test_it_is_pearsons_chi_square(seed):
    stats = pytest.importorskip("scipy.stats")
    left, right = rng(seed).integers(0, 30, (2, 7 + seed))
    left, right = left[left + right > 0], 2 * right[left + right > 0]
    chi = stats.chi2_contingency([left, right], correction=False)
    got = fit(*counts_of(left, right))
    share = right.sum() / (left.sum() + right.sum())
    assert got.df == chi.dof
    assert got.s_pmse * got.df * (1 - share) == pytest.approx(chi.statistic)


def test_it_is_the_pmse_of_a_saturated_regression():
    left, right = counts_of([30, 12, 7, 51], [11, 14, 20, 40])
    features = np.eye(4)
    features[:, 0] = 1
    by_model, n_parameters = logistic(features, left, right)
    got = fit(left, right)
    assert got.pmse == pytest.approx(by_model.pmse, rel=2e-4)  # the ridge
    assert got.df == n_parameters - 1


@pytest.mark.parametrize(("n_synthetic", "size"), [(500, 800), (2_000, 300)])
def test_chance_gives_one_and_a_second_sample_one_over_the_share_of_originals(n_synthetic, size):
    """A draw from the original's own shares has expectation 1; one from the population more, as the original varies."""
    r, law = rng(1), np.array([0.3, 0.25, 0.2, 0.15, 0.1])
    originals = r.multinomial(1_000, law, size).astype(float)
    drawn = [fit(y, r.multinomial(n_synthetic, y / y.sum()).astype(float)) for y in originals]
    second = [fit(y, r.multinomial(n_synthetic, law).astype(float)) for y in originals]
    share = n_synthetic / (n_synthetic + 1_000)
    assert np.mean([f.s_pmse for f in drawn]) == pytest.approx(1, abs=0.12)
    assert np.mean([f.s_pmse for f in second]) == pytest.approx(1 / (1 - share), rel=0.12)


# The measure.


def twin(original: pd.DataFrame, synthetic: pd.DataFrame, columns) -> tuple[float, int]:
    """pMSE and cells, slowly."""
    both = pd.concat([original, synthetic], ignore_index=True)[list(columns)].copy()
    for name in columns:
        if both[name].dtype != object and both[name].nunique() > 5:
            breaks = np.unique(np.nanquantile(both[name], np.arange(6) / 5))
            both[name] = pd.cut(both[name], [*breaks[:-1], np.inf], right=False, labels=False)
        both[name] = both[name].astype(str)
    is_synthetic = np.arange(len(both)) >= len(original)
    guess = (
        pd.Series(is_synthetic).groupby([both[c] for c in columns], dropna=False).transform("mean")
    )
    return float(((guess - is_synthetic.mean()) ** 2).mean()), len(both.drop_duplicates())


def test_every_table_agrees_with_a_slow_twin():
    original, synthetic = people(310, 1), people(170, 2)
    got = score(original, synthetic)
    shown = got.breakdown.set_index("columns")
    assert [got.values[f"n_{w}"] for w in (1, 2, 3)] == [4, 6, 4]
    for width in (1, 2, 3):
        for columns in combinations(sorted(original), width):
            pmse, cells = twin(original, synthetic, columns)
            row = shown.loc[", ".join(columns)]
            assert row["pmse"] == pytest.approx(pmse)
            assert (row["cells"], row["df"]) == (cells, cells - 1)
        mine = got.breakdown.query("width == @width")
        assert got.values[f"s_pmse_{width}"] == pytest.approx(mine["s_pmse"].mean())
        assert got.values[f"worst_s_pmse_{width}"] == mine["s_pmse"].max()


def test_the_original_itself_is_perfect_in_any_order_and_shuffled_columns_are_worse_than_a_sample():
    frame = people(2_000, 6)
    itself = score(frame, frame.sample(frac=1, random_state=1))
    assert all(itself.values[f"{k}_{w}"] == 0 for k in ("pmse", "s_pmse") for w in (1, 2, 3))
    shuffled = score(frame, frame.apply(lambda c: rng(len(c.name)).permutation(c)))
    sample = score(frame, frame.sample(frac=1, replace=True, random_state=2))
    assert shuffled.values["s_pmse_1"] == 0
    assert shuffled.values["s_pmse_2"] > 5 > 2 > sample.values["s_pmse_2"]


def test_bad_input_is_answered_with_reasons():
    frame = people(30, 9)
    assert score(frame[:0], frame).why_not == {"": "the original has no rows"}
    assert score(frame).why_not == {"": "no table has a column of the original"}
    for bad in (frame[:0], pd.DataFrame({"income": [np.nan]})):
        got = score(frame[["income"]].iloc[:1] * np.nan, bad[["income"]], widths=(1,))
        assert got.values == {"n_1": 0}
        assert set(got.why_not) == {"pmse_1", "s_pmse_1", "worst_s_pmse_1", "one_sided_1"}
    assert score(frame, frame[["age"]], widths=(2,)).values == {"n_2": 0}
    assert math.isfinite(score(frame, frame[:1]).values["s_pmse_3"])
    assert math.isfinite(score({"a": [1, np.inf, 3, 4, 5, 6, 7]}, {"a": [1, 2]}).values["pmse_1"])


# Published: Raab 2022, table 2: a draw from the whole table has S_pMSE of about 1.


@pytest.mark.nist
@pytest.mark.skipif(
    not (SHARED / "synthpop" / "SD2011.csv").is_file(),
    reason="SD2011 is not beside the checkout (../shared/synthpop)",
)
@pytest.mark.parametrize(
    ("n_columns", "two_way", "three_way"),
    [(3, 0.97, 0.92), pytest.param(7, 1.0, 1.0, marks=pytest.mark.slow)],
)
def test_sd2011_drawn_from_its_own_table_scores_as_published(n_columns, two_way, three_way):
    columns = ["sex", "age", "placesize", "edu", "socprof", "income", "marital"][:n_columns]
    frame = pd.read_csv(SHARED / "synthpop" / "SD2011.csv")[columns]
    found = [score(frame, frame.sample(frac=1, replace=True, random_state=i)) for i in range(10)]
    for width, published in ((2, two_way), (3, three_way)):
        mean = np.mean([got.values[f"s_pmse_{width}"] for got in found])
        assert mean == pytest.approx(published, abs=0.15)
