"""Measured sums in releases as built: what they say of themselves, and that means come out better for them."""

from __future__ import annotations

import json

import duckdb
import numpy as np
import pandas as pd
import pytest
from fixtures.pipeline import put_key

import engine
from engine.schema import Column
from queries.intervals.replays import mechanism_of, table_of

pytestmark = pytest.mark.ci

TABLES = [["region"], ["income", "region"], ["income", "region", "sex"]]


def people(n=12_000) -> pd.DataFrame:
    rng = np.random.default_rng(8)
    region = rng.choice(list("ABCDE"), n)
    income = np.maximum(rng.normal(30_000, 9_000, n) + 3_000 * (region == "A"), 0).astype(int)
    return pd.DataFrame({"region": region, "sex": rng.choice(["f", "m"], n), "income": income})


KEYS = (1, 2, 3)


def built(folder, frame, *, sums=True, number=1, **more):
    folder.mkdir(exist_ok=True)
    if not (folder / "k").exists():
        put_key(folder / "k")
    columns = [Column(name="income", kind="integer", value_type="integer", sums=sums)]
    return engine.build(
        frame,
        tables=TABLES,
        columns=columns,
        key=folder / "k",
        out=folder / f"{sums}.duckdb",
        vintage=str(number),  # other noise
        privacy={"accept_risk": "a test"},
        **({"entities": []} | more),
    )


@pytest.fixture(scope="module")
def releases(tmp_path_factory):
    folder = tmp_path_factory.mktemp("sums")
    return {
        (sums, number): built(folder / str(number), people(), sums=sums, number=number)
        for sums in (True, False)
        for number in KEYS
    }


def test_means_of_groups_are_nearer_to_the_truth(releases):
    true = people().groupby("region").income.mean()
    off = {True: 0.0, False: 0.0}
    for (sums, _), release in releases.items():
        found = release.sql("SELECT region, avg(income) AS m FROM data GROUP BY ALL").df()
        off[sums] += float((found.set_index("region").m / true - 1).abs().mean()) / len(KEYS)
    assert off[True] < 0.7 * off[False]
    assert off[True] < 0.01


def test_the_release_says_whose_sums_are_measured(releases):
    for (sums, _), release in releases.items():
        with duckdb.connect(str(release.path), read_only=True) as con:
            (privacy,) = con.execute("SELECT privacy FROM catalog.release").fetchone()
        assert json.loads(privacy)["sums"] == (["income"] if sums else [])
        said = " ".join(release.card("income", "region").sentences())
        assert ("Sums of income in groups were measured too" in said) == sums
        assert "Sums" not in " ".join(release.card("region").sentences())


def test_replays_measure_the_sums_that_the_release_did(releases):
    for (sums, _), release in releases.items():
        mechanism = mechanism_of(release, table_of(release, ("income", "region")))
        assert {c.name: c.sums for c in mechanism.columns} == {"income": sums, "region": False}


def test_intervals_of_means_are_narrower_and_hold(releases):
    true = people().groupby("region").income.mean()
    width = {}
    for sums in (True, False):
        release = releases[sums, 1]
        asked = "SELECT region, avg(income) AS m FROM data GROUP BY ALL"
        found = release.sql(asked, intervals=True).df().set_index("region")
        assert ((found.m_low <= true) & (true <= found.m_high)).sum() >= len(true) - 1
        width[sums] = float((found.m_high - found.m_low).mean())
    assert width[True] < 0.9 * width[False]


def test_people_of_several_rows_count_up_to_their_bound(tmp_path):
    """One who has very many high rows moves a mean no further than her bound allows."""
    frame = people(2_000).assign(person=lambda f: np.arange(len(f)) // 2)
    heavy = frame.iloc[:1].assign(income=60_000, person=0)
    frame = pd.concat([frame, *[heavy] * 200], ignore_index=True)
    release = built(tmp_path / "b", frame, entities=["person"], max_rows=2)
    found = release.sql("SELECT avg(income) AS m FROM data").df().m[0]
    rest = people(2_000).income.mean()
    assert abs(found / rest - 1) < 0.05
