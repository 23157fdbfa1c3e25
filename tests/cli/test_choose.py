"""Tables of three columns chosen for a wide table, from Python and on the command line."""

from __future__ import annotations

import json
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
        assert release.card(*WIDE).wide["triples"] == 3


@pytest.mark.slow
def test_a_second_choice_has_other_tables(built):
    first = engine.choose(built, 3)
    engine.add(built, first.tables).close()
    more = engine.choose(built, 99)
    assert not {*first.tables} & {*more.tables}
    assert len(first.tables) + len(more.tables) == 10 - 1
    assert engine.choose(built, 0).left_out == 0


@pytest.mark.slow
def test_the_target_is_from_the_spec_unless_given(built, tmp_path):
    path = tmp_path / "r.toml"
    listed = ", ".join(f'"{name}"' for name in WIDE)
    path.write_text(
        path.read_text().replace(f"columns = [{listed}]", f'columns = [{listed}]\ntarget = "diet"')
    )
    choice = engine.choose(built, 4)
    assert choice.target == "diet"
    assert all("diet" in table for table in choice.tables)
    other = tablepack("choose", built, "--most", 4, "--target", "town", "--json", cwd=tmp_path)
    found = json.loads(other.stdout)
    assert (found["target"], found["wide"], found["left_out"]) == ("town", list(WIDE), 0)
    assert all("town" in table for table in found["tables"])


@pytest.mark.slow
def test_the_spec_bounds_what_is_added(built, tmp_path):
    """Ten pairs, of which the listed triple has three: of nine tables that may be added two are left to choose."""
    path = tmp_path / "r.toml"
    listed = ", ".join(f'"{name}"' for name in WIDE)
    path.write_text(
        path.read_text().replace(f"columns = [{listed}]", f"columns = [{listed}]\nmax_added = 9")
    )
    assert len(engine.choose(built).tables) == 2
    assert len(engine.choose(built, 1).tables) == 1
    with pytest.raises(SpecError, match="most: 3"):
        engine.choose(built, 3)


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


@pytest.mark.slow
def test_a_bound_that_nothing_more_fits_into_leaves_all_out(built, tmp_path):
    """With the real bound of the spec: the existing tables are kept, nothing is added."""
    path = built
    spec_in(tmp_path, privacy={"refuse_at": 0.0001})
    choice = engine.choose(path, 3)
    assert (choice.tables, choice.left_out) == ((), 3)
    done = tablepack("choose", path, "--most", 3, "--add", cwd=tmp_path)
    assert done.returncode == 0
    assert list(table_hashes(path)) == sorted(TABLES, key=len)


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
