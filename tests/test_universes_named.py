"""Structural zeros and words of SQL: values with commas, cases of names, samples, ends of intervals."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

import engine
from queries.uncertainty import tabulate
from queries.universes import named_in

ACTS = ("Employed, full", "Retired", "Other")
HOURS = ("10", "20", "40")
SPEC = """
[release]
title = "t"
vintage = "1"
key = "k.key"
[source]
path = "d.parquet"
entities = ["id"]
[columns.id]
kind = "integer"
[columns.act]
kind = "category"
domain = ["Employed, full", "Retired", "Other"]
public = true
[columns.hours]
kind = "category"
domain = ["10", "20", "40"]
public = true
universe = { column = "act", values = ["Employed, full"] }
[[tables]]
columns = ["act", "hours"]
"""


@pytest.fixture(scope="module")
def release(tmp_path_factory):
    folder = tmp_path_factory.mktemp("universes")
    draws = np.random.default_rng(0)
    act = draws.choice(ACTS, 2000)
    hours = np.where(act == ACTS[0], draws.choice(HOURS, 2000), None)
    frame = pd.DataFrame({"id": range(2000), "act": act, "hours": hours})
    frame.to_parquet(folder / "d.parquet")
    (folder / "s.toml").write_text(SPEC)
    engine.new_key(folder / "k.key")
    with engine.build(folder / "s.toml", out=folder / "r.duckdb") as built:
        yield built


def test_a_list_names_the_longest_values_that_fit():
    values = ("a", "a, b", "c", "d")
    assert named_in("a, b, c", values) == {"a, b", "c"}
    assert named_in("a, gone, d", values) == {"a", "d"}
    assert named_in("ab", values) == frozenset()


def test_a_value_with_a_comma_is_not_ruled_out(release):
    got = tabulate(release, ["act", "hours"])
    told = dict(zip(got.keys, got.status, strict=True))
    assert {told[ACTS[0], h] for h in HOURS} == {"reliable"}
    assert {told[a, h] for a in ACTS[1:] for h in HOURS} == {"structural zero"}


def test_sql_tells_structural_zeros(release):
    asked = "SELECT count(*) AS n FROM data WHERE act = 'Retired' AND hours = '10'"
    assert release.sql(asked, intervals=True).rows == [(0, 0, 0, "structural zero")]


def test_names_are_compared_as_sql_does(release):
    got = release.sql(
        "SELECT Act, data.HOURS, Count(*) AS n FROM DATA GROUP BY aCT, hours", intervals=True
    )
    assert got.columns[2:] == ("n", "n_low", "n_high", "n_status")
    assert got.types[3:5] == ("BIGINT", "BIGINT")
    assert all(low <= n <= high for _, _, n, low, high, _ in got.rows)


@pytest.mark.parametrize("sample", ["TABLESAMPLE 10%", "USING SAMPLE 10%"])
def test_a_sample_has_no_interval(release, sample):
    got = release.sql(f"SELECT count(*) AS n FROM data {sample}", intervals=True)
    assert got.columns == ("n",)
    assert "samples rows" in got.warnings[-1]
