"""The scripts behind ./scripts/dp that build releases and answer ranges, on small data."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from fixtures.pipeline import ROOT, make_census

from engine.levels import tree_sizes

pytest.importorskip("opendp")
pytest.importorskip("sklearn")

from dp_census import COLUMNS, census_tables
from dp_figures import PARTS
from dp_ranges import FAN, QUESTIONS, _errors, _range_errors, _summed, _truth
from dp_releases import placed, with_epsilon
from dp_tables import shape

from engine.measure.dp import balance
from engine.release import build


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    return make_census(tmp_path_factory.mktemp("dp") / "data", 2_000)


@pytest.fixture
def spec(data, tmp_path, monkeypatch):
    """The census spec that ships, beside our data."""
    monkeypatch.chdir(ROOT)
    return placed("census-dp.toml", data, tmp_path)


# --- ranges


def test_sums_of_a_tree_by_hand():
    counts = np.array([1, 2, 3, 4, 5, 6, 7])
    assert _summed(counts, 2, 1).tolist() == [3, 7, 11, 7]
    assert _summed(counts, 2, 2).tolist() == [10, 18]
    sizes = tree_sizes(7, 2)
    assert [len(_summed(counts, 2, len(sizes) - d)) for d in range(len(sizes))] == [*sizes]


def test_flat_error_grows_with_width_and_hierarchical_does_not():
    """150 draws of fresh noise: a root mean square is off by a tenth at most, the bounds by far more."""
    counts = np.full(1_000, 25)
    starts = {1: np.arange(0, 1_000, 50), 64: np.arange(0, 900, 50), 900: np.arange(0, 100, 5)}
    flat, tree = (_range_errors(counts, fan, starts, draws=150) for fan in (0, FAN))
    assert flat[1] == pytest.approx(
        2**0.5 / 0.098, rel=0.1
    )  # scale: 1 / (0.98 epsilon), epsilon 0.1
    assert flat[900] > 2 * flat[64]
    assert tree[900] < 2 * tree[64]
    assert tree[900] < flat[900] / 1.4


def test_true_answers_by_pandas(data):
    people = pd.read_parquet(data / "people.parquet")
    answers, table = _truth(data)
    assert answers == [
        people.age.between(21, 33).sum(),
        people.age.between(30, 71).sum(),
        pytest.approx(people.age.mean()),
    ]
    assert sum(table.values()) == len(people)
    assert table["Good", "Male"] == ((people.health == "Good") & (people.sex == "Male")).sum()


def test_a_release_answers_the_questions_of_seed_004(spec, data, tmp_path):
    one = with_epsilon(spec, 50.0, tmp_path / "one.key")
    build(one, tmp_path / "one.duckdb", jobs=1)
    errors = _errors(tmp_path / "one.duckdb", _truth(data))
    assert len(errors) == len(QUESTIONS) + 1
    # At so large an epsilon noise is nearly none: of 2,000 people, ranges are off by one or two, and the table, which
    # is a margin, by less.
    assert max(map(abs, errors[:2])) < 10
    assert abs(errors[2]) < 0.1
    assert errors[3] < 2


# --- releases


def test_a_spec_is_placed_beside_its_data(spec, data, tmp_path):
    assert spec.key_path.is_file()
    assert spec.key_path.is_relative_to(tmp_path)
    linked = tmp_path / "census" / "data"
    assert linked.is_symlink()
    assert linked.resolve() == data.resolve()
    assert spec.dp.ranges == (("age", 16),)


def test_another_budget_takes_a_key_of_its_own(spec, tmp_path):
    one = with_epsilon(spec, 2.5, tmp_path / "one.key")
    assert (one.dp.epsilon, one.dp.budget) == (2.5, None)
    assert one.key_path == tmp_path / "one.key" != spec.key_path
    assert one.key_path.read_bytes() != spec.key_path.read_bytes()
    assert balance(one.key_path).entries == ()


# --- the census


def test_census_tables_nest_and_are_made_once(tmp_path):
    tables = census_tables(tmp_path, 2_000)
    assert [len(t.columns) for t in tables.values()] == [3, 5, 7]
    assert tables["P3"].columns == COLUMNS[:3]
    assert shape(tables["P3"])["k"] == 70
    assert shape(tables["P5"])["k"] == 2_450
    assert all(len(t.codes) == 2_000 for t in tables.values())
    made = (tmp_path / "census-2000" / "people.parquet").stat().st_mtime_ns
    again = census_tables(tmp_path, 2_000)
    assert (again["P7"].codes == tables["P7"].codes).all()
    assert (tmp_path / "census-2000" / "people.parquet").stat().st_mtime_ns == made


def test_the_wrapper_lists_every_part():
    text = (ROOT / "scripts" / "dp").read_text("utf-8")
    assert all(part in text for part in PARTS)
