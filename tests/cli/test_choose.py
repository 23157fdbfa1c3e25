"""Tables of three columns chosen for a wide table, from Python and on the command line."""

from __future__ import annotations

import shutil
import tomllib
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
from fixtures.pipeline import ACCEPTED, table_hashes, tablepack, write_spec

import engine
from engine.api import choose as choosing
from engine.api.reading import read
from engine.errors import SpecError
from engine.release import build

WIDE = ("age", "diet", "job", "sport", "town")
COLUMNS = {name: {"kind": "category"} for name in WIDE}
TABLES = [WIDE, ("age", "diet", "job")]


def people(n: int = 1_000) -> pd.DataFrame:
    rng = np.random.default_rng(8)
    age = rng.integers(0, 5, n)
    job = np.where(rng.random(n) < 0.8, age, rng.integers(0, 5, n))
    town = np.where(rng.random(n) < 0.7, job, rng.integers(0, 5, n))
    more = {"diet": rng.integers(0, 3, n), "sport": (age + rng.integers(0, 2, n)) % 4}
    codes = {"age": age, "job": job, "town": town} | more
    return pd.DataFrame(
        {name: np.char.add(name[0], code.astype(str)) for name, code in codes.items()}
    )


def spec_in(folder, tables=TABLES, privacy=ACCEPTED):
    people().to_csv(folder / "people.csv", index=False)
    return write_spec(
        folder, "people.csv", COLUMNS, tables, entities=(), privacy=privacy, name="r.toml"
    )


@pytest.fixture(scope="module")
def once(tmp_path_factory):
    folder = tmp_path_factory.mktemp("choose")
    build(read(spec_in(folder)), folder / "r.duckdb", jobs=1)
    return folder


@pytest.fixture
def built(once, tmp_path):
    """A release, its spec, key and data, to be changed."""
    shutil.copytree(once, tmp_path, dirs_exist_ok=True)
    return tmp_path / "r.duckdb"


@pytest.mark.ci
def test_the_result_equals_a_build_of_the_updated_spec(built, tmp_path):
    shown = tablepack("choose", built, "--most", 2, cwd=tmp_path)
    assert shown.returncode == 0, shown.stderr
    listed = [tuple(entry["columns"]) for entry in tomllib.loads(shown.stdout)["tables"]]
    assert listed[0] in {("age", "job", "town"), ("age", "job", "sport")}
    assert len(listed) == 2
    assert list(table_hashes(built)) == sorted(TABLES, key=len)
    done = tablepack("choose", built, "--most", 2, "--add", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    spec = read(tmp_path / "r.toml")
    assert {*spec.tables} == {*TABLES, *listed}
    whole = build(spec, tmp_path / "whole.duckdb", jobs=1)
    assert table_hashes(built) == table_hashes(whole)
    with engine.open(built) as release:
        assert (
            release.card(*WIDE).wide["triples"] >= 3
        )  # with those that the wide table takes by itself


@pytest.mark.parametrize("fits", [0, 4])
def test_as_many_are_chosen_as_a_plan_would_not_refuse(built, monkeypatch, fits):
    """With a stand-in for the plan, which refuses more than `fits` tables."""
    asked = []

    def planned(spec, **_):
        asked.append(len(spec.tables) - len(TABLES))
        return SimpleNamespace(refused=("too much",) if asked[-1] > fits else ())

    monkeypatch.setattr(choosing.releases, "plan", planned)
    choice = engine.choose(built, 99)
    assert (len(choice.tables), choice.left_out) == (fits, 9 - fits)
    assert asked[0] == 9
    assert len(asked) <= 5


@pytest.mark.ci
def test_mistakes(built, tmp_path):
    for given, said in (
        ({"most": -1}, "most: "),
        ({"most": 1, "target": "income"}, "target: 'income'"),
        ({"most": 1, "columns": ["age", "diet"]}, "age, diet"),
    ):
        with pytest.raises(SpecError, match=said):
            engine.choose(built, **given)
    narrow = tmp_path / "narrow"
    narrow.mkdir()
    path = build(read(spec_in(narrow, [("age", "job")])), narrow / "r.duckdb", jobs=1)
    with pytest.raises(SpecError, match="4 columns"):
        engine.choose(path, 1)
    done = tablepack("choose", path, cwd=narrow)
    assert done.returncode == 2
