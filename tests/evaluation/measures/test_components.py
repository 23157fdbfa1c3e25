"""Principal components: by hand, against numpy, scipy and scikit-learn, and on odd input."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from fixtures.utility import (
    assert_in_catalogue,
    one_table,
    people,
    replace_bins,
)

from engine.evaluation.data.aligned import Binning
from engine.evaluation.findings import figures_of
from engine.evaluation.measures.analyses import Components, components, ks_distance

FIGURES = figures_of("components")

RNG = np.random.default_rng


def plain(frame: pd.DataFrame, blank: float = -1) -> np.ndarray:
    """Numbers of people, columns by name."""
    return (
        frame.assign(sex=(frame["sex"] == "m") * 1.0).fillna(blank)[sorted(frame)].to_numpy(float)
    )


@pytest.mark.parametrize("seed", range(2))
def test_ks_is_scipys(seed):
    scipy_stats = pytest.importorskip("scipy.stats")
    rng = RNG(seed)
    first, second = rng.integers(0, 9, 40 + seed) / 3, rng.integers(0, 8, 25) / 3
    n = rng.integers(0, 4, 40 + seed), rng.integers(0, 3, 25)
    expected = scipy_stats.ks_2samp(np.repeat(first, n[0]), np.repeat(second, n[1])).statistic
    assert ks_distance(first, second, *n) == pytest.approx(expected, abs=1e-12)


@pytest.mark.parametrize("n", [1, 4])
def test_components_are_scikit_learns(n):
    decomposition = pytest.importorskip("sklearn.decomposition")
    scipy_stats = pytest.importorskip("scipy.stats")
    frame, other = people(300, 1), people(220, 2)
    score = components(one_table(frame, other), Components(n=n, blank=-7))
    left, right = plain(frame, -7), plain(other, -7)
    mean, deviation = left.mean(axis=0), left.std(axis=0)
    model = decomposition.PCA(n_components=n, svd_solver="full").fit((left - mean) / deviation)
    rows = [np.round((x - mean) / deviation @ model.components_.T, 9) for x in (left, right)]
    expected = [
        scipy_stats.ks_2samp(a, b).statistic for a, b in zip(rows[0].T, rows[1].T, strict=True)
    ]
    assert score.breakdown["ks"].tolist() == pytest.approx(expected, abs=1e-12)
    assert score.breakdown["explained"].tolist() == pytest.approx(model.explained_variance_ratio_)
    assert score.values["mean_ks"] == pytest.approx(np.mean(expected))
    assert_in_catalogue(score, FIGURES)


def test_blanks_groups_and_columns_are_as_told():
    frame = pd.DataFrame({"a": [1.0, 2, 3, np.nan], "b": [1.0, 5, 9, 9], "c": ["x", "y", "x", "y"]})
    study = replace_bins(b=Binning(edges=(0, 4, 10)))
    other = frame.assign(b=[2.0, 6, 7, 8])
    told = Components(n=2, binned=("b",), blanks={"a": 50}, leave_out=("c",))
    score = components(one_table(frame, other, study), told)
    assert score.values["mean_ks"] == 0, "other values of the same groups"
    assert score.values["columns"] == 2
    assert components(one_table(frame, other), told).values["mean_ks"] > 0


def test_constant_columns_are_in_no_component():
    frame = people(100).assign(same=1, never=None, endless=np.inf)
    score = components(one_table(frame, frame), Components(n=9))
    assert len(score.breakdown) == 4
    assert "endless, never, same" in score.notes[0]
