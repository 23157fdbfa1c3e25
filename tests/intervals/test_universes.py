"""Structural zeros and words of SQL: values with commas, cases of names, samples, ends of intervals."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

import engine
from engine.source import begin_charges
from queries.intervals import tabulate

ACTS = ("Employed, full", "Retired", "Other")
HOURS = ("10", "20", "40")
HEAD = """
[release]
title = "t"
vintage = "1"
key = "k.key"
[source]
path = "d.parquet"
entities = ["id"]
[columns.id]
kind = "integer"
"""
SPEC = """[columns.act]
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


def built(folder, columns: dict, spec: str):
    """A release of 2,000 people, with a key that is always the same."""
    frame = pd.DataFrame({"id": range(2000), **columns})
    frame.to_parquet(folder / "d.parquet")
    (folder / "s.toml").write_text(HEAD + spec)
    (folder / "k.key").touch(mode=0o600)
    (folder / "k.key").write_bytes(bytes(range(32)))
    begin_charges(folder / "k.key")
    return engine.build(folder / "s.toml", out=folder / "r.duckdb", jobs=1)


@pytest.fixture(scope="module")
def release(tmp_path_factory):
    draws = np.random.default_rng(0)
    act = draws.choice(ACTS, 2000)
    hours = np.where(act == ACTS[0], draws.choice(HOURS, 2000), None)
    with built(tmp_path_factory.mktemp("universes"), {"act": act, "hours": hours}, SPEC) as made:
        yield made


@pytest.mark.ci
def test_a_value_with_a_comma_is_not_ruled_out(release):
    got = tabulate(release, ["act", "hours"])
    told = dict(zip(got.keys, got.status, strict=True))
    assert {told[ACTS[0], h] for h in HOURS} == {"reliable"}
    assert {told[a, h] for a in ACTS[1:] for h in HOURS} == {"structural zero"}


DATED = """[columns.day]
kind = "date"
[columns.tax]
kind = "category"
domain = ["0", "low", "high"]
public = true
universe = { column = "day", min = "2020-02-01", max = "2020-02-29", outside = "0" }
[[tables]]
columns = ["day", "tax"]
"""


@pytest.mark.ci
def test_limits_are_compared_as_dates_and_outside_may_be_a_value(tmp_path):
    draws = np.random.default_rng(0)
    days = pd.to_datetime(["2020-01-31", "2020-02-01", "2020-02-29", "2020-10-01"])
    day = draws.choice(days, 2000)
    inside = (day >= days[1]) & (day <= days[2])
    tax = np.where(inside, draws.choice(["low", "high"], 2000), "0")
    columns = {"day": pd.Series(day).dt.date, "tax": tax}
    with built(tmp_path, columns, DATED) as made:
        table = tabulate(made, ["day", "tax"])
    status = dict(zip(table.keys, table.status, strict=True))
    for at, one in enumerate(days.date):
        is_inside = at in (1, 2)
        assert (status[one, "0"] == "structural zero") == is_inside
        assert (status[one, "low"] == "structural zero") == (not is_inside)


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
