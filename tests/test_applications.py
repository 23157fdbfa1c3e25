"""The paper's three applications: what is measured by hand, a job of each kind on a small census, the tables."""

from __future__ import annotations

import json
import sys

import numpy as np
import pandas as pd
import pytest

pytest.importorskip("sklearn")

import applications
import applications_census
import applications_utility
from applications import Bench

from engine.evaluation.audit import Cells, domain_of
from engine.evaluation.audit.domain import cells_of


@pytest.fixture(scope="module")
def bench(tmp_path_factory):
    return Bench(people=3_000, mbi=None, keep=tmp_path_factory.mktemp("kept"))


def test_the_census_has_the_columns_and_sizes_of_the_papers(bench):
    told = bench.frame.nunique().to_dict()
    assert len(told) == 15
    assert bench.frame.notna().all(axis=None)
    sizes = {"age": 8, "ethnic": 6, "country": 3, "marital": 6, "grade": 5, "hours": 5, "sex": 2}
    assert {name: told[name] for name in sizes} == sizes
    for name, app in applications_census.APPLICATIONS.items():
        assert not any(set(app.forbidden) <= set(margin) for margin in app.safe), name
        assert set(app.forbidden) <= set(app.columns)
    assert len(applications_census.APPLICATIONS["3"].safe) == 21


def test_codes_are_put_together_as_said():
    people = pd.DataFrame(
        {
            "age": [15, 16, 80],
            "hours": [np.nan, 15.0, 49.0],
            "occupation": [None, "2431", "9100"],
            "industry": [None, "B", "K"],
            "ethnic_group": ["Roma", "Arab", "Chinese"],
            "birth_country": ["United Kingdom", "France", "India"],
            "marital_status": [None, "Civil partnership", "Single"],
            "activity": [None, "Employed part-time", "Student"],
            **{c: ["x"] * 3 for c in ("region", "household_type", "relation", "sex", "education", "health")},
        }
    )  # fmt: skip
    found = applications_census.recoded(people)
    wanted = {
        "age": ["00", "16", "75"],
        "hours": ["none", "00", "49"],
        "occupation": ["none", "2", "9"],
        "grade": ["none", "AB", "DE"],
        "industry": ["none", "BCDE", "K"],
        "ethnic": ["Other White", "Other", "Asian"],
        "country": ["United Kingdom", "Europe", "elsewhere"],
        "marital": ["none", "Married", "Single"],
        "activity": ["none", "Employee", "Student"],
    }
    assert found[list(wanted)].to_dict("list") == wanted


def test_gender_gaps_by_hand():
    rows = [
        *[("work", "a", "Female")] * 3, ("work", "a", "Male"), ("work", "b", "Male"),
        *[("rest", "a", "Male")] * 9, ("rest", "c", "Female"),
    ]  # fmt: skip
    frame = pd.DataFrame(rows, columns=["activity", "occupation", "sex"])
    domain = domain_of(frame, list(frame))
    real = cells_of(domain.coded(frame, "x"), domain.sizes)
    gaps = applications_utility.gender_gaps(
        applications_utility.table_of(real, domain.sizes), domain, ["work"]
    )
    np.testing.assert_allclose(gaps, [0.5, -1.0, np.nan])
    other = frame.replace({"sex": {"Male": "Female"}}).assign(sex="Female")
    made = cells_of(domain.coded(other, "x"), domain.sizes)
    errors = applications_utility.gap_errors(real, made, domain, ["work"])
    assert errors["gender gap RMSE"] == pytest.approx(((0.5**2 + 2**2) / 2) ** 0.5)
    moved = np.array([1, 1, 9]) / 15
    assert errors["3-way RMSE"] == pytest.approx((2 * (moved**2).sum() / 12) ** 0.5)
    same = applications_utility.gap_errors(real, real, domain, ["work"])
    assert set(same.values()) == {0.0}


@pytest.mark.parametrize(
    ("one", "other", "wanted"),
    [
        ("MARTHA", "MARHTA", 0.944444),
        ("DIXON", "DICKSONX", 0.766667),
        ("abcdef", "abcdef", 1.0),
        ("ab", "cd", 0.0),
        ("", "", 1.0),
    ],
)
def test_jaro_as_published(one, other, wanted):
    assert applications_utility.jaro(one, other) == pytest.approx(wanted, abs=1e-6)


def test_rows_are_those_of_whole_cells_or_drawn_by_shares():
    rng = np.random.default_rng(1)
    codes = np.array([[0, 1], [2, 0]])
    whole = applications_utility.rows_of(Cells(codes=codes, n=np.array([3, 2])), 99, rng)
    assert sorted(map(tuple, whole.tolist())) == [(0, 1)] * 3 + [(2, 0)] * 2
    drawn = applications_utility.rows_of(Cells(codes=codes, n=np.array([0.75, 0.25])), 4_000, rng)
    assert len(drawn) == 4_000
    assert (drawn[:, 0] == 0).mean() == pytest.approx(0.75, abs=0.05)


def test_a_table_says_what_was_measured(bench):
    found = {}
    only = (
        *("table 1 real", "table 1 IPF", "table 1 tablepack sticky 1"),
        *("table 2 real", "table 2 IPF 1", "audit 1 IPF"),
    )
    for name, job in applications.jobs_of(bench, dict.fromkeys(applications.TABLES, 1)):
        if name.startswith(only):
            found[name] = bench.kept(name, job)
    assert len(found) == 8
    kept = json.loads((bench.keep / "audit_1_IPF.json").read_text())
    assert kept == found["audit 1 IPF"] == bench.kept("audit 1 IPF", pytest.fail)
    text = applications.table_of("1", found)
    assert "| real data | 1 | 0 | 0 | 0 | 0 |" in text
    assert "| IPF's table itself | 1 |" in text
    assert applications.table_of("2", found).count("\n| ") == 3 + 1
    audits = applications.audit_table(found)
    assert f"{found['audit 1 IPF (dishonest)']['p']:.2g}" in audits
    assert found["audit 1 IPF (dishonest)"]["p"] < 1e-10 < found["audit 1 IPF"]["p"]


def test_a_forest_beside_itself_has_the_same_order(bench):
    codes = bench.codes["3"][:1_200]
    split = applications_utility.split_of(codes, np.random.default_rng(0))
    target = bench.domains["3"].names.index("health")
    one = applications_utility.forest_of(split, codes, target)
    told = applications_utility.forest_figures(one, one, 0.0)
    assert told["order"] == told["order of those above chance"] == 1.0
    assert told["so many"] == (one.importance > 0).sum()
    assert told["importance, largest difference"] == 0.0
    assert sorted(one.order()) == list("abcdef")
    assert 0 < one.on_real <= 1


def test_features_whose_importance_is_chance_have_no_order():
    """By hand: of abcd a and b are sure; the other forest has them the other way round, and d before c."""
    forests = [
        applications_utility.Forest(on_real=0.5, on_synthetic=0.5, importance=np.array(x))
        for x in ([0.4, 0.2, 0.002, 0.001], [0.1, 0.3, 0.001, 0.002])
    ]
    told = applications_utility.forest_figures(*forests, 0.01)
    assert (told["so many"], told["order of those above chance"]) == (2, 0.0)
    assert told["order"] == pytest.approx((1 + 1 + (4 - 2) / 4) / 3)
    assert told["importance, largest difference"] == pytest.approx(0.3)
    assert forests[1].order() == "badc"
    assert forests[1].order([0, 3]) == "ad"


def test_a_forest_of_another_target_has_a_table_of_its_own(bench):
    jobs = dict(applications.jobs_of(bench, dict.fromkeys(applications.TABLES, 1)))
    assert jobs["table 3b IPF 1"].args[1:] == ("3b", "IPF", 1)
    made = {"on real": 0.5, "on synthetic": 0.4, "importance": [0.4, 0.3, 0.001]}
    other = made | {"importance": [0.4, 0.29, 0.002]}
    found = {
        f"table {table} {kind} 1": figures
        for table in ("3", "3b")
        for kind, figures in (("real data", made), ("real data, other rows", other))
    }
    text = applications.table_of("3b", found)
    assert "forest of occupation" in text
    assert "| real data, other rows | 1 | 0.5 | 0.4 | 0.01 | 1 | 1 | 2 |" in text
    assert "forest of health" in applications.table_of("3", found)


def test_what_cannot_run_is_left_out_and_unknown_names_are_refused(bench):
    names = [name for name, _ in applications.jobs_of(bench, dict.fromkeys(applications.TABLES, 1))]
    assert not any("PGM" in name or "MST" in name for name in names)
    whole = Bench(people=3_000, mbi="python", keep=None)
    names = [name for name, _ in applications.jobs_of(whole, dict.fromkeys(applications.TABLES, 1))]
    assert "audit 1 Private-PGM (dishonest)" in names
    assert "table 3 MST, epsilon 1000 1" in names
    with pytest.raises(ValueError, match="no generator 'x'"):
        applications.generator_of("x", "1", bench.domains["1"], None, 1)
    lame = applications.PgmGenerator(bench.domains["1"], "1", (("sex",),), sys.executable)
    with lame, pytest.raises(RuntimeError, match="Private-PGM ended"):
        lame.draw(bench.real("1"), np.random.default_rng(0))
