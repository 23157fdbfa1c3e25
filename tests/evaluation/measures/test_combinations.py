"""Closed-form pMSE of tables, group gaps and densities: by hand, against scipy and slow twins, expectations."""

from __future__ import annotations

from itertools import combinations, product

import numpy as np
import pandas as pd
import pytest
from fixtures.pipeline import ROOT
from fixtures.utility import checked, side_by_side

from engine.evaluation.measures.combinations import Gap, Tables, density_rmse, fit, gaps, table_fit

SHARED = ROOT.parent / "shared"


def rng(seed: int = 5) -> np.random.Generator:
    return np.random.default_rng(seed)


def score(original, *frames, **told):
    got = table_fit(side_by_side(original, *frames), Tables(**told), rng())
    return checked(got)


def people(n: int, seed: int) -> pd.DataFrame:
    r = rng(seed)
    age = r.integers(0, 90, n)
    income = np.where(age < 16, np.nan, np.round(r.gamma(2, 900, n), -2))
    region = np.where(r.random(n) < 0.1, None, r.choice(list("abcd"), n, p=[0.4, 0.3, 0.2, 0.1]))
    return pd.DataFrame({"age": age, "income": income, "region": region, "sex": r.choice(2, n)})


def counts_of(*counts) -> tuple[np.ndarray, ...]:
    return tuple(np.array(c, np.float64) for c in counts)


# One table.


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


BY_JOB = Gap(group="sex", values=("f", "m"), by=("job",))


def gap(original, *given, told=(BY_JOB,)):
    return checked(gaps(side_by_side(original, *given), told))


def density(original, *given, told=None):
    aligned = side_by_side(original, *given)
    return checked(density_rmse(aligned, told or Tables(), np.random.default_rng(0)))


def workers(n=400, seed=2):
    rng = np.random.default_rng(seed)
    job = rng.choice(["a", "b", "c", None], n)
    sex = np.where(rng.random(n) < np.where(job == "a", 0.8, 0.4), "f", "m")
    age = rng.integers(0, 7, n).astype(float)
    age[rng.random(n) < 0.1] = np.nan
    return pd.DataFrame({"job": job, "sex": sex, "age": age})


ORIGINAL = {"sex": ["f", "f", "f", "m", "f", "m", "x"], "job": ["a", "a", "a", "a", "b", "b", "b"]}


def test_a_gap_by_hand():
    # Original: a (3 - 1) / 4 = 0.5, b 0. Synthetic: a (1 - 1) / 2 = 0, b -1.
    score = gap(ORIGINAL, {"sex": ["f", "m", "m", "x"], "job": ["a", "a", "b", "c"]})
    told = score.breakdown.set_index("cell")
    assert told["original"].to_dict() == {"a": 0.5, "b": 0.0}
    assert told["synthetic"].to_dict() == {"a": 0.0, "b": -1.0}
    assert told["n_original"].to_dict() == {"a": 4, "b": 2}
    assert score.values["rmse"] == pytest.approx(np.sqrt((0.25 + 1) / 2))
    assert score.values["weighted_rmse"] == pytest.approx(np.sqrt((4 * 0.25 + 2 * 1) / 6))
    assert score.values["largest"] == 1
    assert score.values["n"] == 2


def test_the_marginal_by_hand():
    score = gap({"sex": ["f", "m"], "job": ["a", "b"]}, {"sex": ["f", "f"], "job": ["a", "b"]})
    # 4 cells: (f, a) 1/2 both; (m, b) 1/2 against 0; (f, b) 0 against 1/2; (m, a) 0 both.
    assert score.values["marginal_rmse"] == pytest.approx(np.sqrt((0.25 + 0.25) / 4))


# Densities of marginals.


def slow_rmse(original: pd.DataFrame, synthetic: pd.DataFrame, columns) -> float:
    sides = [
        f[[*columns]].astype(object).where(f.notna(), "-").astype(str)
        for f in (original, synthetic)
    ]
    levels = [sorted({*sides[0][c], *sides[1][c]}) for c in columns]
    squares = []
    for cell in product(*levels):
        shares = [(s == list(cell)).all(axis=1).mean() for s in sides]
        squares.append((shares[0] - shares[1]) ** 2)
    return float(np.sqrt(np.mean(squares)))


def test_densities_equal_a_slow_twin():
    frame, other = workers(60), workers(45, seed=5)
    other.loc[0, "job"] = "only here"
    score = density(frame, other)
    for width in (1, 2, 3):
        slow = [slow_rmse(frame, other, c) for c in combinations(sorted(frame), width)]
        assert score.values[f"rmse_{width}"] == pytest.approx(np.mean(slow))
    assert score.values["n"] == 7
    assert len(score.breakdown) == 7
