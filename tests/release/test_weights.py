"""Survey weights: weighted counts of all tables of one and two columns, in SQL, tables and packs."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

import engine
from engine.errors import QueryRefused, SpecError

N = 6_000


@pytest.fixture(scope="module")
def people():
    rng = np.random.default_rng(8)
    region = rng.choice(["north", "south", "west"], N, p=[0.5, 0.3, 0.2])
    weight = rng.integers(2_000, 6_000, N) + np.where(region == "west", 10_000, 0)
    return pd.DataFrame({"region": region, "sex": rng.choice(["f", "m"], N), "weight": weight})


SPEC = """
[release]
vintage = "1"
title = "People"
key = "a.key"
unit = "people"
{release}
[source]
path = "people.parquet"
[columns.region]
kind = "category"
[columns.sex]
kind = "category"
[columns.weight]
kind = "integer"
[[tables]]
columns = ["region"]
[[tables]]
columns = ["region", "sex"]
"""


def built(folder, people, release):
    engine.new_key(folder / "a.key")
    people.to_parquet(folder / "people.parquet")
    (folder / "spec.toml").write_text(SPEC.format(release=release), "utf-8")
    engine.build(folder / "spec.toml", out=folder / "r.duckdb")
    return folder / "r.duckdb"


@pytest.fixture(scope="module")
def path(people, tmp_path_factory):
    return built(tmp_path_factory.mktemp("weights"), people, 'weight = "weight"')


@pytest.fixture
def release(path):
    with engine.open(path) as opened:
        yield opened


def test_tables_of_one_and_two_columns_are_measured_with_the_weights_too(release):
    assert set(release.tables) == {
        ("region",),
        ("weight",),
        ("region", "sex"),
        ("region", "weight"),
        ("region", "sex", "weight"),
    }
    assert release.weight == "weight"


def test_weighted_counts_are_near_the_truth_and_their_intervals_hold(release, people):
    truth = people.groupby(["region", "sex"])["weight"].sum()
    got = release.tabulate(["region", "sex"], measure="weighted_count")
    assert got.measure == "weighted_count"
    off = np.array([truth[key] for key in got.keys]) / got.value - 1
    assert np.abs(off).max() < 0.03
    assert ((got.high - got.low) / got.value < 0.06).all()
    assert (
        sum(lo <= truth[k] <= hi for k, lo, hi in zip(got.keys, got.low, got.high, strict=True))
        >= 5
    )


def test_sql_counts_weights_wherever_it_counts(release):
    summed = release.sql("SELECT region, sum(weight) AS w FROM data GROUP BY 1 ORDER BY 1").rows
    said = "SELECT region, weighted_count() FROM data GROUP BY region ORDER BY region"
    answer = release.sql(said)
    assert answer.columns == ("region", "weighted_count")
    assert answer.rows == summed
    with_ends = release.sql(said, intervals=True)
    assert with_ends.columns[:3] == ("region", "weighted_count", "weighted_count_low")
    some = "SELECT weighted_count() FILTER (WHERE sex = 'f') / weighted_count() AS share FROM data"
    (share,) = release.sql(some).rows[0]
    assert 0.4 < share < 0.6
    over = "SELECT DISTINCT region, WEIGHTED_COUNT( ) OVER (PARTITION BY region) AS w FROM data"
    assert sorted(release.sql(over).rows) == summed
    text = "SELECT 'weighted_count()' AS said, count(*) AS n FROM data"
    assert release.sql(text).rows[0][0] == "weighted_count()"
    with pytest.raises(QueryRefused, match="takes no column"):
        release.sql("SELECT weighted_count(sex) FROM data")


def test_packs_show_weighted_counts_in_the_place_of_tables_with_weights(path, tmp_path):
    engine.publish_pack(path, tmp_path / "pack", unprotected=True, accept_detected=True)
    titles = (tmp_path / "pack" / "index.html").read_text("utf-8")
    assert "Weighted number of people by region" in titles
    assert "by weight" not in titles


def test_a_plan_does_not_warn_of_tables_with_weights(path):
    plan = engine.plan(path.parent / "spec.toml")
    assert ("region", "sex", "weight") in [t.columns for t in plan.tables]
    assert not [
        warning for warning in plan.warnings if "weight" in warning and "too small" in warning
    ]


def test_the_server_shows_weighted_counts(path, release):
    pytest.importorskip("fastapi")
    from fixtures.serve import served

    from queries.serve import app_of

    right = release.sql("SELECT weighted_count() FROM data GROUP BY region ORDER BY region").rows
    asked = "valueCodes[region]=*&valueCodes[ContentsCode]=weighted_count"
    with served(app_of(path)) as client:
        tables = client.ask("/api/px/v2/tables").json["tables"]
        cube = client.ask(f"/api/px/v2/tables/region/data?{asked}").json
    assert {one["id"] for one in tables} == {"region", "region-sex"}
    assert cube["value"] == [w for (w,) in right]
    assert cube["dimension"]["ContentsCode"]["category"]["label"] == {
        "weighted_count": "Weighted number of people"
    }


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ('weight = "wieght"', "no column 'wieght'"),
        ('weight = "sex"', "needs to be a number"),
        ('weight = "weight"\nmode = "dp"', "only in mode sticky"),
    ],
)
def test_weights_that_cannot_be_added_up_are_refused(people, tmp_path, wrong, said):
    with pytest.raises(SpecError, match=said):
        built(tmp_path, people, wrong)


def test_a_frame_may_have_weights(people, tmp_path):
    engine.new_key(tmp_path / "a.key")
    with engine.build(
        people, tables=[["sex"]], weight="weight", key=tmp_path / "a.key", out=tmp_path / "r.duckdb"
    ) as release:
        assert ("sex", "weight") in release.tables
        got = dict(release.sql("SELECT sex, weighted_count() FROM data GROUP BY sex").rows)
    for sex, truth in people.groupby("sex")["weight"].sum().items():
        assert abs(got[sex] / truth - 1) < 0.02


def test_a_release_without_weights_says_so(people, tmp_path):
    with engine.open(built(tmp_path, people, "")) as release:
        assert release.weight is None
        with pytest.raises(QueryRefused, match="has no weights"):
            release.tabulate(["sex"], measure="weighted_count")
        with pytest.raises(QueryRefused, match="has no weights"):
            release.sql("SELECT weighted_count() FROM data")
