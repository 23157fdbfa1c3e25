"""The published figures of archived files, each a single wide table; other cuts of them are scored by the same code.

The published values are those of `published_scores.csv` beside the data; where a figure is not met to the last digit,
the test says why.
"""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from fixtures.nist import NEEDS_NIST, NIST, PEERS, nist_rows, nist_study

from engine.evaluation.data.aligned import Binning, align, distinct
from engine.evaluation.measures import (
    analyses,
    association,
    combinations,
    counts,
    propensity,
    rules,
)
from engine.evaluation.measures.analyses import Components
from engine.schema import column_set

# The density in its bins, all columns, weights and industry codes too: so the published figures are met.
COMPONENTS = Components(n=5, binned=("DENSITY",), blanks={"PINCP": 9_999_999, "POVPIP": 999})
pytestmark = NEEDS_NIST


@pytest.fixture(scope="module")
def study():
    return nist_study()


@pytest.fixture(scope="module")
def original():
    return nist_rows()


@pytest.fixture(scope="module")
def rows():
    return {name: nist_rows(name) for name in PEERS}


@pytest.fixture(scope="module")
def peers(study, original, rows):
    return {name: of(original, frame, study) for name, frame in rows.items()}


@pytest.fixture(scope="module")
def published():
    return pd.read_csv(NIST / "published_scores.csv", index_col=0)


def of(original: pd.DataFrame, frame: pd.DataFrame, study):
    return align(original, {column_set(list(frame)): distinct(frame)}, study)


@pytest.mark.ci
@pytest.mark.parametrize("name", PEERS)
def test_published_figures_are_met_to_the_digits_given(peers, study, published, name):
    told, aligned = published.loc[name], peers[name]
    one = counts.univariate(aligned, study.univariate).values
    assert one["n"] == told["univariate_n"]
    assert round(one["median_composite_error"], 3) == told["univariate_median_composite_error"]
    assert one["largest_absolute_error"] == told["univariate_max_abs_error"]
    two = association.correlations(aligned, study.correlations).values
    assert two["n"] == told["kendall_n_pairs"]
    assert round(two["median_difference"], 5) == told["kendall_median_abs_diff"]
    four = analyses.regression(aligned, study.regression).values
    assert round(four["median_error"], 2) == told["regression_median_slope_error"]
    assert round(four["largest_error"], 2) == told["regression_max_slope_error"]
    broken = rules.inconsistencies(aligned, study.inconsistencies).values
    assert broken["records"] == told["inconsistent_records"]


@pytest.mark.ci
@pytest.mark.parametrize("name", PEERS)
def test_published_pmse_is_met_to_the_digits_given(peers, study, published, name):
    """Cart's tree has a tie: taken one way it is 0.00230, the other way 0.00231, as published; the larger counts."""
    pytest.importorskip("sklearn.tree")
    pmse = propensity.propensity(peers[name], study.propensity).values["pmse"]
    assert round(pmse, 5) == published.loc[name, "pmse"]


@pytest.mark.ci
@pytest.mark.parametrize("name", PEERS)
def test_published_components_are_met(peers, published, name):
    """The public tool lets scikit-learn choose its solver, which then drew at random: run again it gives 0.0055 to
    0.0060 for sample40 and 0.0455 to 0.0462 for mwem_pgm. The exact figures are 0.0054 and 0.0459; the others' are met.
    """
    mean_ks = analyses.components(peers[name], COMPONENTS).values["mean_ks"]
    told = published.loc[name, "pca_mean_ks"]
    assert round(mean_ks, 4) == pytest.approx(told, abs=0.000101)
    if name in ("aindo", "cart"):
        assert round(mean_ks, 4) == told


@pytest.mark.ci
def test_published_3_marginals_are_met(peers, rows, original, study, published):
    """Whole numbers, cut. Two archived reports have age ranked, one not; Aindo's is of an older tool, which left
    age unbinned and kept 501 apart in the poverty ratio: 903 published, 902.8 found; and 916 for the newer one.
    """
    told = study.marginals.model_copy(update={"shares": ()})
    score = {name: combinations.k_marginals(c, told).values for name, c in peers.items()}
    wanted = published["three_marginal_score"]
    for name in ("cart", "mwem_pgm"):
        assert int(score[name]["score"]) == wanted[name]
    assert int(score["sample40"]["score_unbinned"]) == wanted["sample40"]
    assert int(score["aindo"]["score"]) == 916
    bins = {**study.bins, "POVPIP": Binning(ranks=20, apart=(501,))}
    older = study.model_copy(update={"bins": bins})
    found = combinations.k_marginals(of(original, rows["aindo"], older), told).values
    assert found["score_unbinned"] == pytest.approx(wanted["aindo"], abs=0.3)


@pytest.mark.ci
def test_published_sampling_equivalents_are_met(peers, study, published):
    for name, aligned in peers.items():
        rng = np.random.default_rng(0)
        found = combinations.k_marginals(aligned, study.marginals, rng).values
        for figure in ("sampling_equivalent", "sampling_equivalent_unbinned"):
            assert found[figure] == published.loc[name, "sampling_equivalent_pct"], (name, figure)


@pytest.mark.ci
def test_the_paper_scales_the_counts_of_a_sample(peers, study):
    """Table 4 of the paper has 2.5 for the 40 % sample: its counts times 2.5; the others are as large as the data."""
    found = {
        name: counts.univariate(aligned, study.univariate).values for name, aligned in peers.items()
    }
    assert round(found["sample40"]["scaled_median_composite_error"], 1) == 2.5
    for name in ("aindo", "cart"):
        one = found[name]
        assert one["scaled_median_composite_error"] == one["median_composite_error"]


def test_files_without_areas_are_scored_as_published(original, study):
    """The archived files of ten columns (PRAM, sdcMicro's k-anonymity, Sarus) have no PUMA: 77 counts, 55 figures of
    Kendall, 3-marginals that are of two columns. PRAM's published score, 986, is that of a 40 % sample.
    """
    ten = ["AGEP", "DEYE", "DVET", "EDU", "HOUSING_TYPE", "MSP", "OWN_RENT", "PINCP_DECILE"]
    frame = original.sample(frac=0.4, random_state=1)[[*ten, "RAC1P", "SEX"]]
    got = of(original, frame, study)
    assert counts.univariate(got, study.univariate).values["n"] == 77
    assert association.correlations(got, study.correlations).values["n"] == 55
    three = combinations.k_marginals(got, study.marginals)
    assert three.values["score"] == pytest.approx(986, abs=1)
    assert three.values["sampling_equivalent"] == 40
    assert any("PUMA" in note for note in three.notes)
