"""Rows outside a universe: as many as the deciding column says, and as sure."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

import engine
from engine.errors import DamagedRelease
from queries.intervals import noise_model
from queries.intervals.copies import replicates as module
from queries.intervals.copies.replicates import replicates
from queries.intervals.sums import _in_step, sd_of_sums
from queries.intervals.tree import Outside
from queries.intervals.universes import StatedUniverse

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
[columns.age]
kind = "integer"
[columns.job]
kind = "category"
domain = ["a", "b", "c"]
public = true
universe = { column = "age", min = 15 }
[[tables]]
all = 1
of = ["age", "job"]
"""


@pytest.fixture(scope="module")
def release(tmp_path_factory):
    folder = tmp_path_factory.mktemp("outside")
    draws = np.random.default_rng(0)
    age = draws.integers(0, 100, 5000)
    job = np.where(age >= 15, draws.choice(["a", "b", "c"], 5000, p=[0.5, 0.3, 0.2]), None)
    pd.DataFrame({"id": range(5000), "age": age, "job": job}).to_parquet(folder / "d.parquet")
    (folder / "s.toml").write_text(SPEC)
    engine.new_key(folder / "k.key")
    with engine.build(folder / "s.toml", out=folder / "r.duckdb") as built:
        yield built


def test_weights_are_brought_in_step_by_hand():
    """Others share what the row outside is off by 3 to 1; it counts as they do on average."""
    outside = Outside(
        row=1,
        share=np.array([0.75, 0.0, 0.25]),
        decider=("age",),
        rows=np.array([4, 5]),
        variance=9.0,
    )
    of_sum, row = np.array([0, 1, 1, 2, 2, 2]), np.array([1, 0, 2, 0, 1, 2])
    weight = np.array([1.0, 1.0, 1.0, 2.0, 1.0, 4.0])
    sums, rows, weights, moved = _in_step(outside, 3, of_sum, row, weight)
    assert sorted(zip(sums, rows, weights, strict=True)) == [
        (0, 1, 0.0),
        (1, 0, 1.0),
        (1, 1, 1.0),
        (1, 2, 1.0),
        (2, 0, 2.0),
        (2, 1, 2.5),
        (2, 2, 4.0),
    ]
    assert moved.tolist() == [9.0, 9.0, 9.0 * 1.5**2]


def test_it_is_known_where_the_numbers_are_the_same(release):
    outside = noise_model(release, ("job",)).tree.outside()
    ages = noise_model(release, ("age",)).table
    assert [ages.released[0].values[code] for code in ages.rows[outside.rows, 0]] == list(range(15))
    jobs = noise_model(release, ("job",)).table
    assert jobs.released[0].values[jobs.rows[outside.row, 0]] is None
    assert outside.share.sum() == pytest.approx(1)
    assert outside.share[outside.row] == 0
    assert noise_model(release, ("age",)).tree.outside() is None


def sd_of(model, rows, tree=None):
    """Standard deviation of the number of some rows of a column's table."""
    of_one = np.zeros(len(rows), dtype=np.int64)
    return sd_of_sums(model.table, tree or model.tree, 1, of_one, rows, np.ones(len(rows)))[0]


def test_who_is_outside_is_as_sure_as_the_deciding_column_says(release):
    """By the column alone its one bucket of blanks would be surer: ages to 14 are four buckets."""
    model = noise_model(release, ("job",))
    outside = model.tree.outside()
    blanks = np.array([outside.row])
    wanted = sd_of(noise_model(release, ("age",)), outside.rows)
    assert sd_of(model, blanks) == pytest.approx(wanted, rel=0.1)
    alone = replace(model.tree, outside=lambda: None)
    assert sd_of(model, blanks, alone) < 0.85 * wanted
    # All others are what is left of all rows, which have noise of their own.
    others = np.delete(np.arange(len(model.table.n)), outside.row)
    assert wanted < sd_of(model, others) < 1.5 * wanted
    assert sd_of(model, others, alone) < wanted


def test_copies_have_as_many_outside_as_those_of_the_deciding_column(release):
    outside = noise_model(release, ("job",)).tree.outside()
    jobs, ages = (replicates(release, (name,)).counts for name in ("job", "age"))
    off = jobs[outside.row] - ages[outside.rows].sum(axis=0)
    assert np.abs(off).max() <= 1
    assert ages[outside.rows].sum(axis=0).std() > 1


def test_noise_of_a_column_with_rows_outside_counts_as_that_of_several_buckets(
    release, monkeypatch
):
    """As in closed forms; copies of a column without a universe hang on no factor."""

    def drawn(name):
        model = noise_model(release, (name,))
        return module._drawn(release, model, model.tree, release.go_on).counts

    jobs, ages = drawn("job"), drawn("age")
    inside = np.delete(np.arange(len(jobs)), noise_model(release, ("job",)).tree.outside().row)
    monkeypatch.setattr(module, "ALIKE", (2.25 * module.ALIKE[False], module.ALIKE[True]))
    grown = drawn("job")[inside].std(axis=1) / jobs[inside].std(axis=1)
    assert grown.min() > 1.2
    assert grown.max() < 1.6
    assert np.array_equal(drawn("age"), ages)


def test_a_column_that_decides_itself_is_told_as_damage(release):
    """Planted: the reader of specs refuses circles, so a release has none unless it was forged."""
    with engine.open(release.path) as forged:
        forged.models["universes"] = (StatedUniverse(column="job", decided_by="job", low="b"),)
        table = noise_model(forged, ("job",)).table
        table.n[table.rows[:, 0] == table.released[0].values.index("a")] = 0  # in step
        with pytest.raises(DamagedRelease, match="job contradicts itself"):
            noise_model(forged, ("job",)).tree.outside()
