"""Scores: small cases by hand, oracles, controls that must be noticed, and the published figures of archived files."""

from __future__ import annotations

import json
import math
import re
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from pipeline_fixture import ROOT
from release_fixture import build_release

from engine.errors import InternalError, SpecError, StoreError
from engine.schema import column_set
from engine.scorecard import HEADINGS, figures, lines, markdown, score_all
from engine.study import Row, Study, read_study
from engine.study_sections import (
    Binning,
    Correlations,
    Inconsistencies,
    Marginals,
    Propensity,
    Ranges,
    Regression,
    RegressionGroup,
    Rule,
    Univariate,
)
from engine.utility.comparison import Distinct, compare, covering, distinct
from engine.utility.correlations import correlations, tau_b
from engine.utility.counts import inconsistencies, k_marginals, univariate
from engine.utility.margins import averaging, margin_gaps, one_way_from_wider, range_errors
from engine.utility.propensity import propensity
from engine.utility.reading import read_rows, read_tables, released_types
from engine.utility.regression import regression

RNG_SEED = 5
BARE = Study(title="", spec="", folder="")
STUDIES = sorted((ROOT / "releases").glob("*.study.toml"))
NIST = ROOT.parent / "shared" / "nist"
PEERS = ("aindo", "cart", "mwem_pgm", "sample40")
OF_BUILDS = {"build.seconds", "build.over_floor", "build.megabytes", "cloning.accuracy"}


def table(n, **columns) -> Distinct:
    return Distinct(frame=pd.DataFrame(columns), n=np.array(n, np.int64))


def tables(*given: Distinct) -> dict:
    return {column_set(list(t.frame.columns)): t for t in given}


def side_by_side(original: dict, *given: Distinct, study: Study = BARE):
    return compare(pd.DataFrame(original), tables(*given), study)


def people(n: int = 600, seed: int = RNG_SEED) -> pd.DataFrame:
    rng = np.random.default_rng(seed)
    age = rng.integers(0, 90, n)
    education = np.where(age < 16, np.nan, np.minimum(rng.integers(1, 9, n), age // 8))
    income = np.round(education * 1_000 + rng.normal(0, 400, n), -2)
    sex = rng.choice(["f", "m"], n)
    return pd.DataFrame({"age": age, "education": education, "income": income, "sex": sex})


def marginal_tables(frame: pd.DataFrame, *sets) -> dict:
    """Exact tables of a frame."""
    out = {}
    for columns in map(column_set, sets):
        counted = frame.groupby(list(columns), dropna=False).size().reset_index(name="n")
        n = counted.pop("n").to_numpy()
        out[columns] = Distinct(frame=counted, n=n)
    return out


EVERY_SET = (["age"], ["sex"], ["age", "sex"], ["age", "education"], ["age", "education", "sex"])


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


def test_a_table_of_unknown_columns_is_refused():
    with pytest.raises(InternalError, match="lacks b"):
        side_by_side({"a": [1]}, table([1], a=[1], b=[1]))


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


def replace_bins(**bins: Binning) -> Study:
    return BARE.model_copy(update={"bins": bins})


def test_ranks_are_equal_shares_of_the_original_ties_together():
    values = [*range(1, 9), 9, 9, 9, 9, 501, None]
    study = replace_bins(a=Binning(ranks=4, apart=(501,)))
    got = side_by_side({"a": values}, table([1, 1, 1], a=[4.7, 5.0, 400.0]), study=study)
    group = got.groupings["a"].group
    assert group[got.original.codes["a"]].tolist() == [0, 0, 1, 1, 1, 2, 2, 2, 3, 3, 3, 3, 4, 5]
    assert group[got.tables["a",].codes["a"]].tolist() == [1, 1, 3]


# Counts.


def test_univariate_errors_by_hand():
    got = side_by_side(
        {"a": [1] * 200 + [2] * 4 + [None] * 2},
        table([203, 3, 1], a=[1.0, 2.0, 9.0]),
    )
    score = univariate(got, Univariate())
    shown = score.breakdown.set_index("key")
    assert shown["absolute_error"].tolist() == [3, 1, 1, 2]
    assert shown["composite_error"].tolist() == [1.5, 1, 1, 2], "9 is not in the original: absolute"
    assert score.values == {"median_composite_error": 1.25, "largest_absolute_error": 3.0, "n": 4.0}
    known = univariate(got, Univariate(known=("a",)))
    assert known.values["n"] == 2


def test_marginals_of_the_same_rows_score_1000_and_of_disjoint_ones_0():
    frame = people()
    told = Marginals(width=2, leave_out=("income",))
    same = compare(frame, marginal_tables(frame, ["age", "sex"], ["age", "education"]), BARE)
    score = k_marginals(same, told)
    assert score.values == {"score": 1000.0, "score_unbinned": 1000.0, "n": 2.0}
    other = frame.assign(age=frame["age"] + 1000)
    apart = compare(frame, marginal_tables(other, ["age", "sex"]), BARE)
    assert k_marginals(apart, told).values["score"] == pytest.approx(0, abs=1e-9)


def test_marginals_by_hand_and_unbinned():
    study = replace_bins(a=Binning(edges=(0, 2, 4)))
    got = side_by_side({"a": [1, 2, 3, 4]}, table([2, 1, 1], a=[2, 3, 4]), study=study)
    score = k_marginals(got, Marginals(width=1, unbinned=("a",)))
    assert score.values["score"] == 1000
    assert score.values["score_unbinned"] == 500 * (2 - 0.5)


def test_impossible_records_count_once_a_group_and_table():
    got = side_by_side(
        {"age": [5, 30], "job": ["N", "1"], "pay": [None, 2.0]},
        table([3, 4, 5], age=[5, 5, 40], job=["1", None, None], pay=[7.0, None, 1.0]),
        table([6], age=[2]),
        study=BARE,
    )
    rules = (
        Rule(
            name="child job", columns=("age", "job"), violated="age < 15 and job <> 'N'", group="x"
        ),
        Rule(
            name="child pay", columns=("age", "pay"), violated="age < 15 and pay <> 'N'", group="x"
        ),
        Rule(
            name="low", columns=("pay",), violated="pay <> 'N' and cast(pay as int) < 2", group="y"
        ),
        Rule(name="nowhere", columns=("age", "z"), violated="true"),
        Rule(name="unless", columns=("age", "job"), violated="true"),
    )
    # The original has no blank in job: there it stays a text, and the release's blanks are NULL.
    told = Inconsistencies(rules=rules, blank="N", unless={"unless": ("pay",)})
    score = inconsistencies(got, told)
    assert score.breakdown.set_index("rule")["records"].to_dict() == {
        "child job": 3, "child pay": 3, "low": 5,
    }  # fmt: skip
    assert score.values["records"] == score.values["records_of_3"] == 8
    assert score.values["rules_without_table"] == 1


def test_rules_see_types_and_null_where_no_blank_is_spelled():
    frame = pd.DataFrame(
        {
            "day": pd.to_datetime(["2020-01-01", None, "2021-01-01"]),
            "care": pd.Series([True, None, False], dtype=object),
            "n": [1.0, 2.0, None],
        }
    )
    got = compare(frame, {column_set(list(frame)): distinct(frame)}, BARE)
    rules = (
        Rule(name="late", columns=("day",), violated="day > DATE '2020-06-30'"),
        Rule(name="blank", columns=("care", "day"), violated="care IS NULL AND day IS NULL"),
        Rule(name="odd", columns=("n",), violated="n % 2 = 1"),
    )
    score = inconsistencies(got, Inconsistencies(rules=rules))
    assert score.breakdown["records"].tolist() == [1, 1, 1]
    assert score.values["records"] == 3
    with pytest.raises(SpecError, match="rule wrong"):
        inconsistencies(
            got, Inconsistencies(rules=(Rule(name="wrong", columns=("n",), violated="n <"),))
        )


# Models.


@pytest.mark.parametrize("seed", range(6))
def test_tau_is_scipys(seed):
    scipy_stats = pytest.importorskip("scipy.stats")
    rng = np.random.default_rng(seed)
    first, second = rng.integers(0, 3 + 4 * seed, 60), rng.integers(0, 5, 60)
    second = np.where(rng.random(60) < 0.5, first, second)
    n = rng.integers(0, 4, 60)
    expected = scipy_stats.kendalltau(np.repeat(first, n), np.repeat(second, n)).statistic
    assert tau_b(first, second, n) == pytest.approx(expected, abs=1e-12)


def test_tau_of_a_constant_is_nan():
    ranks = np.arange(4)
    assert math.isnan(tau_b(ranks, np.zeros(4, np.int64), np.ones(4, np.int64)))
    assert math.isnan(tau_b(ranks[:0], ranks[:0], ranks[:0]))


def test_correlations_leave_blanks_out_or_take_them_as_lowest():
    original = {"a": [1, 2, 3, None], "b": [1, 2, 3, 4]}
    got = side_by_side(original, table([1] * 4, a=[1, 2, 3, None], b=[4, 2, 1, 3]))
    out = correlations(got, Correlations(columns=("a", "b"))).breakdown
    assert out[["original", "synthetic"]].to_numpy().tolist() == [[1, -1]]
    low = correlations(got, Correlations(columns=("a", "b"), blanks="lowest", diagonal=True))
    assert low.breakdown["original"].tolist() == [0, 1, 1]
    assert low.values["n"] == 3
    assert low.values["median_difference"] == 0


def test_propensity_is_that_of_a_tree_on_all_rows():
    tree = pytest.importorskip("sklearn.tree")
    frame, other = people(900, 1), people(700, 2)
    got = compare(frame, marginal_tables(other, ["age", "education"], ["age", "sex"]), BARE)
    score = propensity(got, Propensity(depth=4))
    rows = pd.concat([frame, other])
    truth = np.repeat([0, 1], [len(frame), len(other)])
    for columns, shown in zip(got.tables, score.breakdown["pmse"], strict=True):
        x = rows[list(columns)].fillna(-1).replace({"f": 0, "m": 1}).astype(float)
        guess = tree.DecisionTreeClassifier(max_depth=4, random_state=0).fit(x, truth)
        expected = np.mean((guess.predict_proba(x)[:, 1] - truth.mean()) ** 2)
        assert shown == pytest.approx(expected, rel=1e-3)


def test_propensity_is_nought_for_the_same_rows_and_a_quarter_for_others():
    pytest.importorskip("sklearn.tree")
    frame = people()
    same = compare(frame, marginal_tables(frame, ["age", "sex"]), BARE)
    assert propensity(same, Propensity()).values["pmse"] == pytest.approx(0, abs=1e-12)
    other = compare(frame, marginal_tables(frame.assign(age=999), ["age", "sex"]), BARE)
    assert propensity(other, Propensity()).values["pmse"] == pytest.approx(0.25)


def test_slopes_are_those_of_least_squares():
    frame, other = people(900, 1), people(700, 2)
    wide = {column_set(list(other)): distinct(other)}
    told = Regression(
        x="education",
        y="income",
        digits=6,
        groups=(
            RegressionGroup(name="all"),
            RegressionGroup(name="women", where={"sex": ["f"]}),
            RegressionGroup(name="none", where={"sex": ["?"]}),
        ),
    )
    score = regression(compare(frame, wide, BARE), told)
    for side, rows in (("original", frame), ("synthetic", other)):
        shown = score.breakdown.set_index("group")[side]
        for name, chosen in (("all", rows), ("women", rows[rows["sex"] == "f"])):
            full = chosen.dropna()
            assert shown[name] == pytest.approx(np.polyfit(full["education"], full["income"], 1)[0])
        assert math.isnan(shown["none"])
    apart = regression(compare(frame, marginal_tables(frame, ["age"]), BARE), told)
    assert math.isnan(apart.values["median_error"])


# Margins.


def test_margins_of_exact_tables_agree_and_a_planted_gap_is_found():
    frame = people()
    exact = marginal_tables(frame, *EVERY_SET)
    assert set(margin_gaps(compare(frame, exact, BARE)).values.values()) == {0.0, 1.0}
    wide = exact["age", "education", "sex"]
    n = wide.n.copy()
    n[4] += 3
    exact["age", "education", "sex"] = replace(wide, n=n)
    values = margin_gaps(compare(frame, exact, BARE)).values
    assert values["up_to_2"] == 0
    assert values["above_2"] == values["above_2_on_1"] == values["above_2_on_2"] == 3
    assert values["share_equal_above_2"] == 0


def test_one_way_counts_from_wider_tables():
    frame = people()
    exact = marginal_tables(frame, ["age"], ["education"], ["sex"], ["age", "education", "sex"])
    values = one_way_from_wider(compare(frame, exact, BARE), Univariate()).values
    assert values["rmse"] == values["rmse_of_1"] == 0
    wide = exact["age", "education", "sex"]
    exact["age", "education", "sex"] = replace(wide, n=2 * wide.n)
    score = one_way_from_wider(compare(frame, exact, BARE), Univariate())
    squares = sum(
        (frame[c].value_counts(dropna=False) ** 2).sum() for c in ("age", "education", "sex")
    )
    assert score.values["rmse"] == pytest.approx(math.sqrt(squares / score.values["n"]))
    assert score.values["rmse_of_1"] == 0


def noisy_pairs(frame: pd.DataFrame, *, is_locked: bool) -> dict:
    """The table of one column and ten of it with another, noisy: each for itself, or all alike."""
    rng = np.random.default_rng(3)
    truth = frame["age"].value_counts().sort_index()
    first = rng.normal(0, 1.4, len(truth)).round().astype(int)
    out = {("age",): table(truth.to_numpy() + first, age=truth.index)}
    for i in range(10):
        noise = first if is_locked else rng.normal(0, 1.4, len(truth)).round().astype(int)
        other = f"c{i}"
        frame[other] = "same"
        out["age", other] = table(truth.to_numpy() + noise, age=truth.index, **{other: "same"})
    return out


def test_averaging_gains_nothing_where_margins_are_locked_and_much_where_they_are_not():
    frame = people(20_000)
    locked = averaging(compare(frame, noisy_pairs(frame, is_locked=True), BARE)).values
    assert locked["ratio"] == 1
    assert locked["exact_all"] == locked["exact_alone"] < 0.5
    assert 1 < locked["sd_alone"] < 2
    free = averaging(compare(frame, noisy_pairs(frame, is_locked=False), BARE)).values
    assert free["ratio"] < 0.5, "the control: eleven independent noises average away"
    assert free["exact_all"] > free["exact_alone"] + 0.2
    assert free["n"] == 90


def test_averaging_counts_measured_values_only():
    given = Distinct(
        frame=pd.DataFrame({"a": [1, 2]}), n=np.array([5, 900]), measured=np.array([True, False])
    )
    values = averaging(compare(pd.DataFrame({"a": [1] * 4 + [2]}), {("a",): given}, BARE)).values
    assert (values["n"], values["rmse_alone"], values["exact_alone"]) == (1, 1, 0)


def test_ranges_of_a_column():
    frame = people()
    exact = marginal_tables(frame, *EVERY_SET)
    told = Ranges(column="age", random=20)
    none = range_errors(compare(frame, exact, BARE), told, np.random.default_rng(1))
    assert none.values["sd"] == none.values["largest"] == 0
    assert set(2 ** np.arange(7)) <= set(none.breakdown["length"])
    own = exact["age",]
    exact["age",] = replace(own, n=own.n + (own.frame["age"] == 0))
    off = range_errors(compare(frame, exact, BARE), told, np.random.default_rng(1))
    assert off.values["largest"] == 1
    assert 0 < off.values["sd_of_1"] < 1
    assert off.breakdown[off.breakdown["width"] > 1]["sd"].max() == 0


# Studies and the table.


def test_unknown_keys_of_a_study_are_refused(tmp_path):
    path = tmp_path / "x.study.toml"
    path.write_text('title = ""\nspec = ""\nfolder = ""\n[univariate]\nleaveout = ["a"]\n')
    with pytest.raises(SpecError, match=r"univariate\.leaveout"):
        read_study(path)
    with pytest.raises(SpecError, match="no study"):
        read_study(tmp_path / "y.toml")
    path.write_text("title = ")
    with pytest.raises(SpecError, match="not TOML"):
        read_study(path)


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
        inconsistencies=Inconsistencies(),
        ranges=Ranges(column="age"),
    )
    frame = people()
    comparison = compare(frame, marginal_tables(frame, *EVERY_SET), told)
    seen = []
    scores = score_all(
        comparison, told, np.random.default_rng(0), report=lambda *step: seen.append(step)
    )
    assert seen[-1] == ("propensity", 5, 5)
    assert {row.measure for row in study.rows} <= set(figures(scores)) | OF_BUILDS
    sections = {row.measure.split(".")[0] for row in study.rows}
    for section in ("regression", "inconsistencies", "propensity", "correlations", "marginals"):
        assert (section in sections) == (getattr(study, section) is not None), section


def test_studies_name_columns_of_their_specs():
    for path in STUDIES:
        study = read_study(path, beside=[NIST]) if (NIST / "rules.json").exists() else None
        if study is None:
            pytest.skip("the rules are not beside the checkout (../shared/nist)")
        spec = (path.parent / study.spec).read_text()
        declared = set(re.findall(r"^\[columns\.(\w+)\]", spec, re.MULTILINE))
        named = {*study.bins, *study.order}
        named |= set(study.correlations.columns if study.correlations else ())
        named |= {study.ranges.column} if study.ranges else set()
        named |= (
            {c for g in study.regression.groups for c in g.where} if study.regression else set()
        )
        assert named <= declared, path.name


def test_lines_take_the_worst_and_say_what_was_not_measured():
    rows = (
        Row(label="low", measure="a.x", reach="<= 3"),
        Row(label="high", measure="a.y", reach=">= 3"),
        Row(label="stated", measure="a.x"),
        Row(label="absent", measure="b.z", reach="<= 1", reference="7 | 8"),
        Row(label="nan", measure="a.nan", reach="<= 1"),
    )
    study = BARE.model_copy(update={"rows": rows})
    told = lines(
        study,
        [{"a.x": x, "a.y": x, "a.nan": n} for x, n in ((2.0, 1.0), (3.0, math.nan), (4.0, 1.0))],
    )
    assert [line.worst for line in told[:3]] == [4, 2, 4]
    assert [line.median for line in told[:3]] == [3, 3, 3]
    assert [line.reached for line in told] == [False, False, None, False, False]
    text = markdown("T", told, notes=["n"])
    assert len(text.splitlines()) == 4 + 2 + len(rows)
    assert "| absent | 7 \\| 8 | <= 1 | not measured | not measured | no |" in text
    assert all(line.count(" | ") == len(HEADINGS) - 1 for line in text.splitlines()[4:5])
    met = lines(study, [{"a.x": 3.0, "a.y": 3.0}])
    assert [line.reached for line in met[:2]] == [True, True]


def test_the_sides_of_reach_are_checked():
    with pytest.raises(ValueError, match="reach"):
        Row(label="", measure="", reach="< 3")


# Reading.


def test_tables_of_a_release_are_read_with_their_numbers(tmp_path):
    path = build_release(tmp_path / "r.duckdb")
    found = read_tables(path)
    types = released_types(path)
    assert {c for columns in found for c in columns} <= set(types)
    for columns, shown in found.items():
        assert tuple(sorted(shown.frame.columns)) == columns
        assert len(shown.n) == len(shown.measured) == len(shown.frame)
        assert shown.n.min() > 0


def test_rows_are_read_with_given_types(tmp_path):
    path = tmp_path / "x.csv"
    path.write_text("a,b,c\n1.0,N,x\n2,3.5,N\n")
    frame = read_rows(path, {"a": "BIGINT", "b": "DOUBLE", "z": "DATE"}, nulls=("N",))
    assert list(frame.columns) == ["a", "b"]
    assert frame["a"].tolist() == [1, 2]
    assert frame["b"].isna().tolist() == [True, False]
    with pytest.raises(StoreError) as refused:
        read_rows(path, {"c": "BIGINT"}, nulls=("N",))
    assert "'x'" not in str(refused.value)


# The published figures of archived files, each a single wide table.

nist = pytest.mark.skipif(
    not (NIST / "peers").exists(),
    reason="the NIST excerpt is not beside the checkout (../shared/nist)",
)


@pytest.fixture(scope="module")
def peers():
    study = read_study(ROOT / "releases" / "nist-acs.study.toml", beside=[NIST])
    head = pd.read_csv(NIST / "national2019.csv", nrows=1).columns
    types = {name: "VARCHAR" if name == "PUMA" else "DOUBLE" for name in head}
    original = read_rows(NIST / "national2019.csv", types, nulls=("N",))
    found = {}
    for name in PEERS:
        rows = read_rows(NIST / "peers" / f"{name}.csv", types, nulls=("N",))
        found[name] = compare(original, {column_set(list(rows)): distinct(rows)}, study)
    return study, found, pd.read_csv(NIST / "published_scores.csv", index_col=0)


@pytest.mark.nist
@nist
@pytest.mark.parametrize("name", PEERS)
def test_published_figures_are_met(peers, name):
    """All of them to the digits printed; a tree's ties may fall either way: pMSE to 0.00001."""
    pytest.importorskip("sklearn.tree")
    study, found, published = peers
    told, comparison = published.loc[name], found[name]
    one = univariate(comparison, study.univariate).values
    assert one["n"] == told["univariate_n"]
    assert round(one["median_composite_error"], 3) == told["univariate_median_composite_error"]
    assert one["largest_absolute_error"] == told["univariate_max_abs_error"]
    two = correlations(comparison, study.correlations).values
    assert two["n"] == told["kendall_n_pairs"]
    assert round(two["median_difference"], 5) == told["kendall_median_abs_diff"]
    four = regression(comparison, study.regression).values
    assert round(four["median_error"], 2) == told["regression_median_slope_error"]
    assert round(four["largest_error"], 2) == told["regression_max_slope_error"]
    assert (
        inconsistencies(comparison, study.inconsistencies).values["records"]
        == told["inconsistent_records"]
    )
    pmse = propensity(comparison, study.propensity).values["pmse"]
    assert pmse == pytest.approx(told["pmse"], abs=0.000015)


@pytest.mark.nist
@nist
def test_published_3_marginals_are_met(peers):
    """Whole numbers, cut. Two archived reports have age ranked, one not; Aindo's is of an older tool, which left
    age unbinned and kept 501 apart in the poverty ratio: 903 published, 902.8 found; and 916 for the newer one.
    """
    study, found, published = peers
    score = {name: k_marginals(c, study.marginals).values for name, c in found.items()}
    wanted = published["three_marginal_score"]
    for name in ("cart", "mwem_pgm"):
        assert int(score[name]["score"]) == wanted[name]
    assert int(score["sample40"]["score_unbinned"]) == wanted["sample40"]
    assert int(score["aindo"]["score"]) == 916
    assert score["aindo"]["score_unbinned"] == pytest.approx(wanted["aindo"], abs=2)


@pytest.mark.nist
@nist
def test_the_original_scores_itself_without_fault(peers):
    study, _, _ = peers
    types = {
        c: "VARCHAR" if c == "PUMA" else "DOUBLE" for c in ("AGEP", "EDU", "PUMA", "HISP", "SEX")
    }
    original = read_rows(NIST / "national2019.csv", types, nulls=("N",))
    itself = compare(original, {column_set(list(original)): distinct(original)}, study)
    assert inconsistencies(itself, study.inconsistencies).values["records"] == 0
    assert k_marginals(itself, study.marginals).values["score"] == 1000
    assert univariate(itself, study.univariate).values["largest_absolute_error"] == 0
    assert len(json.loads((NIST / "rules.json").read_text())) == len(study.inconsistencies.rules)
