"""Declared universes: no table of a release contradicts them."""

from __future__ import annotations

import csv
from collections import Counter
from dataclasses import replace

import duckdb
import numpy as np
import pytest
from fixtures.pipeline import ACCEPTED, counts, tablepack, write_spec
from fixtures.spec import places

import engine
from engine.errors import SpecError
from engine.fit import marks_of, with_rows_outside
from engine.schema import (
    KIND_NONNEGATIVE,
    KIND_NULL,
    KIND_OTHER,
    CodedUniverse,
    Column,
    Support,
    Universe,
)

AGE = {"kind": "integer", "domain": {"min": 0, "max": 99}}
JOB = {"kind": "category", "domain": ["clerk", "cook", "nurse"], "public": True}
TRADE = {"kind": "category", "domain": ["food", "health", "office"], "public": True}
HOME = {"kind": "category", "domain": ["flat", "house", "none"], "public": True}
UNIVERSES = {
    "job": {"column": "age", "min": 15, "complete": False},
    "trade": {"column": "job"},
    "home": {"column": "kind", "values": ["private"], "outside": "none"},
}
KIND = {"kind": "category", "domain": ["private", "hostel"], "public": True}
COLUMNS = {"age": AGE, "job": JOB, "trade": TRADE, "kind": KIND, "home": HOME}
TRADES = {"clerk": "office", "cook": "food", "nurse": "health"}
TABLES = [
    *[(name,) for name in COLUMNS],
    *[("age", "job"), ("age", "trade"), ("job", "trade"), ("home", "kind"), ("home", "job")],
    ("age", "job", "trade"),
]


def people(folder, n: int = 1200, seed: int = 5):
    rng = np.random.default_rng(seed)
    path = folder / "people.csv"
    with path.open("w", newline="") as file:
        rows = csv.writer(file)
        rows.writerow(list(COLUMNS))
        for _ in range(n):
            age = int(rng.integers(0, 60))
            job = rng.choice([*TRADES, ""]) if age >= 15 else ""
            kind = "private" if rng.random() < 0.8 else "hostel"
            home = rng.choice(["flat", "house"]) if kind == "private" else "none"
            trade = "food" if job == "clerk" and rng.random() < 0.1 else TRADES.get(job, "")
            rows.writerow([age, job, trade, kind, home])
    return path


def columns_with(universes: dict[str, dict]) -> dict[str, dict]:
    return {
        name: column | ({"universe": universes[name]} if name in universes else {})
        for name, column in COLUMNS.items()
    }


def build(folder, universes, tables=TABLES, name="r"):
    write_spec(
        folder,
        "people.csv",
        columns_with(universes),
        tables,
        entities=(),
        name=f"{name}.toml",
        privacy=ACCEPTED,
    )
    done = tablepack("build", f"{name}.toml", "-o", f"{name}.duckdb", cwd=folder)
    assert done.returncode == 0, done.stderr
    return folder / f"{name}.duckdb"


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    made = tmp_path_factory.mktemp("universe")
    people(made)
    return made


@pytest.fixture(scope="module")
def release(folder):
    return build(folder, UNIVERSES)


@pytest.fixture(scope="module")
def plain(folder):
    """The same release without universes."""
    return build(folder, {}, name="plain")


@pytest.mark.slow
@pytest.mark.parametrize("vintage", range(6))
def test_nothing_contradicts_it_whatever_the_noise(folder, vintage):
    spec = folder / f"v{vintage}.toml"
    write_spec(
        folder,
        "people.csv",
        columns_with(UNIVERSES),
        [("age", "job"), ("home", "kind")],
        entities=(),
        name=spec.name,
        vintage=str(vintage),
        privacy=ACCEPTED,
    )
    done = tablepack("build", spec.name, "-o", f"v{vintage}.duckdb", cwd=folder)
    assert done.returncode == 0, done.stderr
    path = folder / f"v{vintage}.duckdb"
    assert not any(age < 15 and job for age, job in counts(path, "age", "job"))
    assert not any((h == "none") != (k == "hostel") for h, k in counts(path, "home", "kind"))


def test_a_universe_that_the_data_contradict_is_refused(folder):
    wrong = {"job": {"column": "kind", "values": ["hostel"]}}
    write_spec(
        folder,
        "people.csv",
        columns_with(wrong),
        [("job", "kind")],
        entities=(),
        name="w.toml",
        privacy=ACCEPTED,
    )
    done = tablepack("build", "w.toml", "-o", "w.duckdb", cwd=folder)
    assert done.returncode == 2
    assert "columns.job.universe" in done.stderr


def contradictions(path):
    """Rows of tables of two columns that contradict a declared universe."""
    wrong = sum(n for (age, job), n in counts(path, "age", "job").items() if age < 15 and job)
    wrong += sum(n for (age, x), n in counts(path, "age", "trade").items() if age < 15 and x)
    wrong += sum(n for (j, t), n in counts(path, "job", "trade").items() if bool(j) != bool(t))
    return wrong + sum(
        n
        for (home, kind), n in counts(path, "home", "kind").items()
        if (home == "none") != (kind == "hostel")
    )


@pytest.mark.ci
def test_nothing_contradicts_a_declared_universe(release):
    assert contradictions(release) == 0


def test_wider_tables_respect_it(release):
    for (age, job, trade), n in counts(release, "age", "job", "trade").items():
        assert not (n and age < 15 and (job or trade))
        assert bool(job) == bool(trade)


def test_complete_columns_have_as_many_nulls_as_there_are_rows_outside(release):
    job, trade = counts(release, "job"), counts(release, "trade")
    assert trade[(None,)] == job[(None,)]
    assert counts(release, "home")[("none",)] == counts(release, "kind")[("hostel",)]


def test_margins_still_agree(release):
    for pair in (p for p in TABLES if len(p) == 2):
        wide = counts(release, *pair)
        for j, name in enumerate(pair):
            margin = Counter()
            for row, n in wide.items():
                margin[(row[j],)] += n
            assert margin == counts(release, name)


def test_the_notes_of_the_release_state_it(release):
    with duckdb.connect(str(release), read_only=True) as con:
        notes = str(con.execute("FROM catalog.notes").fetchall())
    assert "Universe of job, declared: age from 15." in notes
    assert "Outside it every row is none, inside it none is" in notes


@pytest.mark.parametrize(
    ("name", "universe", "key"),
    [
        ("job", {"column": "wages"}, ".column"),
        ("job", {"column": "job"}, ".column"),
        ("job", {"column": "age", "min": "x"}, ".min"),
        ("job", {"column": "age", "values": [1]}, ""),
        ("job", {"column": "kind", "min": "a"}, ""),
        ("job", {"column": "age", "outside": "boss"}, ".outside"),
        ("age", {"column": "job", "outside": 3}, ".outside"),
        ("job", {"column": "kind", "values": ["privat"]}, ".values"),
        ("job", {"column": "kind", "values": []}, ".values"),
        ("job", {"column": "age", "min": 40, "max": 12}, ""),
        ("job", {"column": "pay", "min": 12}, ".min"),
        ("job", {"column": "town", "values": ["York"]}, ".values"),
        ("town", {"column": "age", "outside": "York"}, ".outside"),
        ("job", {"column": "age", "from": 15}, ".from"),
        ("job", {"min": 15}, ".column"),
    ],
)
def test_mistakes(tmp_path, name, universe, key):
    people(tmp_path, 50)
    more = {
        "pay": {"kind": "real", "resolution": 10},
        "town": {"kind": "category", "domain": ["York"]},
    }
    columns = columns_with({name: universe}) | more
    if name in more:
        columns[name] = more[name] | {"universe": universe}
    spec = write_spec(tmp_path, "people.csv", columns, TABLES, entities=())
    with pytest.raises(SpecError) as caught:
        engine.plan(spec)
    assert f"columns.{name}.universe{key}" in places(caught.value.problems)


def test_universes_form_no_cycle_and_entities_decide_nothing(tmp_path):
    people(tmp_path, 50)
    for universes, entities in (
        ({"job": {"column": "trade"}, "trade": {"column": "job"}}, ()),
        ({"job": {"column": "age", "min": 15}}, ("age",)),
    ):
        columns = columns_with(universes)
        spec = write_spec(tmp_path, "people.csv", columns, [("job",)], entities=entities)
        with pytest.raises(SpecError) as caught:
            engine.plan(spec)
        assert "columns.job.universe" in places(caught.value.problems)


def column(name: str, **more) -> Column:
    return Column(name=name, kind=more.pop("kind", "integer"), value_type="integer", **more)


def codes(name, kinds, codes, n, values=None, **more) -> Support:
    return Support(
        column=column(name, **more),
        kind=np.array(kinds, dtype=np.uint8),
        grid=np.array(codes, dtype=np.int64),
        n=np.array(n, dtype=np.int64),
        measured=np.ones(len(n), dtype=bool),
        values=None if values is None else dict(enumerate(values)),
        noise_sd=1.5,
    )


A = codes("a", [KIND_NULL, *[KIND_NONNEGATIVE] * 4], [0, 3, 14, 15, 40], [2, 10, 20, 30, 40])
B = codes("b", [KIND_NULL, *[KIND_NONNEGATIVE] * 2], [0, 1, 2], [25, 37, 40])
C = codes("c", [KIND_NONNEGATIVE, KIND_NONNEGATIVE, KIND_OTHER], [0, 1, 0], [60, 40, 2], (7, 9))


def test_a_column_without_nulls_gets_a_code_for_them():
    kinds = [KIND_NONNEGATIVE] * 2
    no_nulls = codes("b", kinds, [1, 2], [50, 52])
    child = CodedUniverse(declared=Universe(column="a", low=4), low=4)
    fitted = with_rows_outside(no_nulls, child, A, 2.0)
    assert fitted.kind.tolist() == [KIND_NULL, *kinds]
    assert fitted.n[0] == 12
    assert fitted.n.sum() == 102
    everybody = CodedUniverse(declared=Universe(column="a"))
    few_null = codes("b", [KIND_NULL, *kinds], [0, 1, 2], [4, 50, 48])
    no_outside = codes("a", kinds, [3, 40], [50, 52])
    assert with_rows_outside(few_null, everybody, no_outside, 2.0).kind.tolist() == kinds


@pytest.mark.parametrize("complete", [True, False])
def test_a_declaration_that_the_counts_contradict_is_refused(complete):
    nobody = CodedUniverse(declared=Universe(column="a", low=100, complete=complete), low=100)
    with pytest.raises(SpecError, match="contradict"):
        with_rows_outside(B, nobody, A, 2.0)
    hidden = CodedUniverse(declared=Universe(column="a", low=15, outside=7), low=15)
    with pytest.raises(SpecError, match="contradict"):  # nothing says outside, yet 32 rows are
        with_rows_outside(replace(C, kind=np.full(3, KIND_NONNEGATIVE)), hidden, A, 2.0)


def test_unreleased_values_may_be_on_either_side():
    rare = CodedUniverse(declared=Universe(column="c", values=(9, 11)))
    assert marks_of(C, {"b": rare})[rare.declared.condition].tolist() == [-1, 1, 0]
    assert with_rows_outside(B, rare, C, 2.0) is B
    said = CodedUniverse(declared=Universe(column="a", low=15, outside=11), low=15)
    assert marks_of(C, {"c": said})[said.declared.condition].tolist() == [1, 1, 0]
    assert with_rows_outside(C, said, A, 2.0) is C
