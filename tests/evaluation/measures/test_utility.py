"""Comparisons, studies and the table of scores: small cases by hand, and that every row is a figure that exists."""

from __future__ import annotations

import pandas as pd
import pytest
from fixtures.pipeline import ROOT
from fixtures.utility import (
    EVERY_SET,
    checked,
    collapsed,
    marginal_tables,
    people,
    replace_bins,
    side_by_side,
    table,
)

from engine.errors import SpecError
from engine.evaluation.data.aligned import Binning, align, covering, distinct
from engine.evaluation.findings import FIGURES
from engine.evaluation.measures.analyses import Components, Estimate, Regression, RegressionGroup
from engine.evaluation.measures.association import Correlations
from engine.evaluation.measures.combinations import Gap, Marginals, Tables
from engine.evaluation.measures.counts import Distributions, Ranges, Univariate
from engine.evaluation.measures.learning import Learning
from engine.evaluation.measures.propensity import Models, Propensity
from engine.evaluation.measures.rules import Inconsistencies, Rule
from engine.evaluation.measures.suite import score_all
from engine.evaluation.runner import named
from engine.evaluation.study import Study, read_study

STUDIES = sorted((ROOT / "releases").glob("*.study.toml"))
OF_BUILDS = {"build.seconds", "build.over_floor", "build.megabytes", "cloning.accuracy"}
CATALOGUE = tuple(FIGURES.values())
KNOWN = set(FIGURES)


# What is counted: values, groups, blanks.


def test_a_value_has_one_code_in_all_tables_and_a_blank_the_last():
    got = side_by_side(
        {"a": [3, None, 1], "b": ["x", "y", None]},
        table([2, 1], a=[2.0, None], b=["y", None]),
        table([1], b=["z"]),
    )
    assert got.values["a"].tolist() == [1, 2, 3]
    assert got.values["b"].tolist() == ["x", "y", "z"]
    assert got.original.codes["a"].tolist() == [2, 3, 0]
    assert got.original.codes["b"].tolist() == [0, 1, 3]
    assert got.tables["a", "b"].codes["a"].tolist() == [1, 3]
    assert got.tables["a", "b"].codes["b"].tolist() == [1, 3]
    assert list(got.tables) == [("b",), ("a", "b")]


def test_the_smallest_table_covers():
    got = side_by_side(
        {"a": [1], "b": [1], "c": [1]},
        table([1], a=[1], b=[1], c=[1]),
        table([1, 1], a=[1, 2], b=[1, 1]),
    )
    assert covering(got, ["a"]).columns == ("a", "b")
    assert covering(got, ["c", "a"]).columns == ("a", "b", "c")
    assert covering(got, ["d"]) is None


def test_edges_group_as_pandas_cut_does():
    values = [0, 1, 10, 11, 99, 100, None]
    study = replace_bins(a=Binning(edges=(0, 10, 100)))
    got = side_by_side({"a": values}, table([1], a=[250]), study=study)
    grouping = got.groupings["a"]
    cut = pd.cut(pd.Series(values), [0, 10, 100], labels=False)
    shown = grouping.group[got.original.codes["a"]]
    assert shown[:6].tolist() == cut[:6].fillna(-1).astype(int).tolist()
    assert shown[6] == grouping.n_groups - 1, "a blank is a group of its own"
    assert grouping.group[got.tables["a",].codes["a"]] == 1, "above the last edge: the last group"


def test_bins_of_texts_are_refused_and_no_value_is_told():
    study = replace_bins(a=Binning(ranks=4))
    with pytest.raises(SpecError, match="bins a, which holds texts") as told:
        side_by_side({"a": ["secret", "x"]}, table([1], a=["x"]), study=study)
    assert "secret" not in str(told.value)
    blank = side_by_side({"a": [None, None]}, table([1], a=["x"]), study=study)
    assert blank.groupings["a"].group.tolist() == [0, 1], "nothing to rank: one by one"


def test_ranks_are_equal_shares_of_the_original_ties_together():
    values = [*range(1, 9), 9, 9, 9, 9, 501, None]
    study = replace_bins(a=Binning(ranks=4, apart=(501,)))
    got = side_by_side({"a": values}, table([1, 1, 1], a=[4.7, 5.0, 400.0]), study=study)
    group = got.groupings["a"].group
    assert group[got.original.codes["a"]].tolist() == [0, 0, 1, 1, 1, 2, 2, 2, 3, 3, 3, 3, 4, 5]
    assert group[got.tables["a",].codes["a"]].tolist() == [1, 1, 3]


# Studies and the table.


@pytest.mark.parametrize("path", STUDIES, ids=lambda p: p.name)
def test_every_row_of_a_study_is_a_figure_that_exists(path, tmp_path):
    pytest.importorskip("sklearn.tree")
    (tmp_path / "rules.json").write_text("[]")
    study = read_study(path, beside=[tmp_path])
    assert (path.parent / study.spec).exists()
    told = Study(
        title="",
        spec="",
        folder="",
        univariate=Univariate(),
        correlations=Correlations(columns=("age", "sex")),
        marginals=Marginals(),
        propensity=Propensity(),
        regression=Regression(x="age", y="education", groups=(RegressionGroup(name="all"),)),
        inconsistencies=Inconsistencies(
            rules=(Rule(name="old", columns=("age",), violated="age > 120"),)
        ),
        ranges=Ranges(column="age"),
    )
    frame = people()
    aligned = align(frame, marginal_tables(frame, *EVERY_SET), told)
    scores = score_all(aligned, told, seed=0)
    assert set(named(scores)) <= KNOWN
    assert {row.measure for row in study.rows} <= KNOWN | OF_BUILDS
    for score in scores.values():
        checked(score)
    sections = {row.measure.split(".")[0] for row in study.rows}
    for section in ("regression", "inconsistencies", "propensity", "correlations", "marginals"):
        assert (section in sections) == (getattr(study, section) is not None), section


def test_repeated_rows_count_as_often_as_they_are_there():
    """A table of distinct rows with their numbers scores as the rows do, by every measure."""
    pytest.importorskip("sklearn.ensemble")
    told = Study(
        title="",
        univariate=Univariate(),
        correlations=Correlations(columns=("age", "education"), blanks="lowest", diagonal=True),
        marginals=Marginals(width=2, group=("sex",), unbinned=("age",)),
        propensity=Propensity(depth=3),
        regression=Regression(
            x="age", y="education", digits=8, groups=(RegressionGroup(name="all"),)
        ),
        inconsistencies=Inconsistencies(
            rules=(Rule(name="r", columns=("age", "sex"), violated="age < 30 and sex = 'f'"),)
        ),
        ranges=Ranges(column="age", random=5),
        components=Components(),
        tables=Tables(),
        models=Models(rows=60),
        distributions=Distributions(),
        learning=(Learning(target="sex", features=("age", "education"), trees=3, rows=100),),
        estimates=(Estimate(name="mean", kind="mean", column="age"),),
        gaps=(Gap(group="sex", values=("f", "m"), by=("education",)),),
    )
    frame, other = people(200, 1), people(150, 2)[["age", "education", "sex"]]
    other = other.assign(age=other["age"] // 10)
    assert len(collapsed(other).n) < len(other)
    counted, rows = (
        score_all(align(frame, {("age", "education", "sex"): given}, told), told, seed=0)
        for given in (collapsed(other), distinct(other))
    )
    assert sum(bool(score.values) for score in rows.values()) >= 14
    for name, score in counted.items():
        assert score.values == pytest.approx(rows[name].values, abs=1e-7), name


# Reading.
