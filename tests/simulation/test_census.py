"""The simulated census: its people and events, its rules, and the command that writes it."""

from __future__ import annotations

import os
import re
from pathlib import Path

import duckdb
import numpy as np
import pandas as pd
import pytest
from fixtures.simulation import N_PEOPLE, frame, query
from fixtures.spec import places

import engine.simulation.census as simulate
from engine.errors import SpecError, StoreError
from engine.simulation import simulate_census
from engine.simulation.census import SimulatedCensus
from engine.simulation.codes import (
    HOUSEHOLD_TYPES,
)
from engine.simulation.columns import CENSUS_COLUMNS, EVENT_COLUMNS
from engine.simulation.rules import CENSUS_RULES, EVENT_RULES


def share(census: SimulatedCensus, condition: str, among: str = "true") -> float:
    sql = f"SELECT avg(CAST(coalesce({condition}, false) AS INTEGER)) FROM people WHERE {among}"
    return query(census, sql)[0][0]


@pytest.fixture(scope="module")
def small(tmp_path_factory):
    return simulate_census(tmp_path_factory.mktemp("small"), people=1_000, seed=0, csv=True)


# --- what is in the files
SQL_TYPES = {
    "integer": "BIGINT",
    "real": "DOUBLE",
    "decimal": "DECIMAL(10,2)",
    "boolean": "BOOLEAN",
    "text": "VARCHAR",
    "date": "DATE",
    "timestamp": "TIMESTAMP",
}


@pytest.mark.parametrize(
    ("table", "columns"), [("people", CENSUS_COLUMNS), ("events", EVENT_COLUMNS)]
)
def test_files_have_the_declared_columns(census, table, columns):
    found = [row[:2] for row in query(census, f"DESCRIBE {table}")]
    assert found == [(column.name, SQL_TYPES[column.value_type]) for column in columns]


@pytest.mark.parametrize(
    ("table", "columns"), [("people", CENSUS_COLUMNS), ("events", EVENT_COLUMNS)]
)
def test_values_lie_in_declared_domains_and_bounds(census, table, columns):
    n_declared = 0
    for column in columns:
        values = [v for (v,) in query(census, f"SELECT DISTINCT {column.name} FROM {table}")]
        known = [v for v in values if v is not None]
        assert len(known) >= 2, column.name
        if column.domain is not None:
            n_declared += 1
            assert set(known) <= set(column.domain), column.name
            assert len(set(column.domain)) == len(column.domain)
            assert {value for value, _ in column.labels} <= set(column.domain)
        if column.bounds is not None:
            n_declared += 1
            assert column.bounds[0] <= min(known)
            assert max(known) <= column.bounds[1]
        assert (column.resolution is not None) == (column.kind in {"real", "decimal"})
        assert column.public == (column.domain is not None)
    assert n_declared == {"people": 17, "events": 1}[table]


def test_person_ids_are_unique_and_show_no_order(census):
    ids = np.array(query(census, "SELECT person_id, household_id FROM people"))
    assert sorted(ids[:, 0]) == list(range(1, N_PEOPLE + 1))
    bound = 5 / np.sqrt(N_PEOPLE)
    place = np.arange(N_PEOPLE)
    assert abs(np.corrcoef(ids[:, 0], place)[0, 1]) < bound
    assert abs(np.corrcoef(ids[:, 1], place)[0, 1]) < bound
    assert abs(np.corrcoef(ids[:, 0], ids[:, 1])[0, 1]) < bound
    # Neighbouring rows, and neighbouring numbers, hardly ever live together.
    assert np.mean(ids[1:, 1] == ids[:-1, 1]) < 0.005
    by_id = ids[np.argsort(ids[:, 0]), 1]
    assert np.mean(by_id[1:] == by_id[:-1]) < 0.005


# --- households


def test_parents_are_older_and_couples_are_two(census):
    sql = """
        SELECT min(parent.age - child.age), count(*)
        FROM people child JOIN people parent USING (household_id)
        WHERE (child.relation = 'Child' AND parent.relation IN ('Reference person', 'Partner'))
           OR (child.relation = 'Reference person' AND parent.relation = 'Parent')
    """
    youngest, n = query(census, sql)[0]
    assert youngest >= 15
    assert n > 5_000
    sql = """
        SELECT household_type, min(n), max(n), min(reference), max(reference),
            min(partner), max(partner), min(child)
        FROM (SELECT household_type, count(*) AS n,
                count(*) FILTER (relation = 'Reference person') AS reference,
                count(*) FILTER (relation = 'Partner') AS partner,
                count(*) FILTER (relation = 'Child') AS child
              FROM people GROUP BY household_id, household_type)
        GROUP BY household_type
    """
    shapes = {row[0]: row[1:] for row in query(census, sql)}
    assert set(shapes) == set(HOUSEHOLD_TYPES)
    assert shapes["One person"] == (1, 1, 1, 1, 0, 0, 0)
    assert shapes["Couple"] == (2, 2, 1, 1, 1, 1, 0)
    assert shapes["Couple with children"] == (3, 7, 1, 1, 1, 1, 1)
    assert shapes["Lone parent"][2:] == (1, 1, 0, 0, 1)
    assert shapes["Three generations"][2:] == (1, 1, 1, 1, 1)
    assert shapes["Shared"][2:] == (1, 1, 0, 0, 0)
    assert shapes["Establishment"][2:] == (0, 0, 0, 0, 0)


# --- shares like a real census
SHARES = [
        ("age < 16", "true", 0.15, 0.20),
        ("age >= 65", "true", 0.16, 0.21),
        ("age >= 85", "true", 0.015, 0.035),
        ("sex = 'Female'", "true", 0.50, 0.53),
        ("ethnic_group = 'White British'", "true", 0.68, 0.80),
        ("birth_country <> 'United Kingdom'", "true", 0.11, 0.18),
        ("marital_status = 'Married'", "age >= 16", 0.37, 0.48),
        ("marital_status = 'Widowed'", "age >= 80 AND sex = 'Female'", 0.3, 0.6),
        ("marital_status = 'Widowed'", "age < 40", 0, 0.003),
        ("occupation IS NOT NULL AND hours > 0", "age BETWEEN 25 AND 59", 0.72, 0.86),
        ("activity = 'Employed part-time'", "age BETWEEN 25 AND 59 AND sex = 'Male'", 0.04, 0.12),
        ("activity = 'Employed part-time'", "age BETWEEN 25 AND 59 AND sex = 'Female'", 0.22, 0.38),
        ("activity = 'Retired'", "age >= 70", 0.82, 0.97),
        ("activity LIKE 'Student%'", "age BETWEEN 16 AND 19", 0.5, 0.85),
        ("health IN ('Bad', 'Very bad')", "age < 40", 0.01, 0.05),
        ("health IN ('Bad', 'Very bad')", "age >= 75", 0.11, 0.25),
        ("tenure = 'Owned outright'", "age >= 65", 0.55, 0.8),
        ("tenure = 'Private rented'", "age BETWEEN 20 AND 29", 0.35, 0.6),
        ("household_type = 'Establishment'", "true", 0.003, 0.02),
        ("income = 0", "age >= 16", 0.04, 0.12),
        ("income < 0", "activity = 'Self-employed'", 0.03, 0.08),
        ("sex = 'Female'", "occupation = '2232'", 0.8, 0.94),
        ("industry = 'Q'", "occupation = '2232'", 0.7, 0.95),
        ("industry = 'F'", "occupation IN ('5315', '5319')", 0.7, 0.99),
        ("carer", "age BETWEEN 50 AND 64", 0.11, 0.22),
]  # fmt: skip


def test_shares_are_plausible(census):
    for condition, among, low, high in SHARES:
        assert low <= share(census, condition, among) <= high, condition


# --- events


def test_events_belong_to_people_and_have_a_heavy_tail(census):
    assert query(census, "SELECT count(*) FROM events ANTI JOIN people USING (person_id)") == [(0,)]
    visits = np.array(
        query(
            census,
            "SELECT count(e.person_id) FROM people LEFT JOIN events e USING (person_id)"
            " GROUP BY people.person_id",
        )
    )[:, 0]
    assert len(visits) == N_PEOPLE
    assert 0.8 < np.mean(visits <= 3) < 0.95
    assert 0.35 < np.mean(visits == 0) < 0.65
    assert 1.0 < visits.mean() < 2.2
    assert 1 <= np.sum(visits >= 100) <= 40
    assert visits.max() >= 150


def check_rules(census):
    for table, rules in (("people", CENSUS_RULES), ("events", EVENT_RULES)):
        counted = ", ".join(
            f"count(*) FILTER ({rule.condition}), count(*) FILTER (({rule.condition}) IS NULL)"
            for rule in rules
        )
        counts = np.array(query(census, f"SELECT {counted} FROM {table}")[0]).reshape(-1, 2)
        broken = [rule.name for rule, n in zip(rules, counts.sum(axis=1), strict=True) if n]
        assert broken == []


def test_no_record_is_impossible(census):
    check_rules(census)


IMPOSSIBLE = {
    "ages are 0 to 105": ("age", "age + 106"),
    "income is rounded to 10": ("income", "income + 3"),
    "nobody arrives after census day": ("arrival_date", "CAST(arrival_date AS DATE) + 40000"),
    "nobody arrives before birth": ("arrival_date", "CAST(arrival_date AS DATE) - 40000"),
    "managers from 18": ("age", "17"),
    "academic occupations need a master's degree": ("education", "'Bachelor'"),
    "visits lie in the year before census day": ("visit_date", "CAST(visit_date AS DATE) + 400"),
    "departments are listed": ("department", "department || '?'"),
}


@pytest.mark.ci
def test_each_rule_can_be_broken(census):
    frames = {"people": frame(census.people), "events": frame(census.events)}
    rng = np.random.default_rng(5)
    with duckdb.connect() as connection:
        for rule in (*CENSUS_RULES, *EVENT_RULES):
            source = frames["people" if rule in CENSUS_RULES else "events"]
            selected = "FROM source"
            if rule.name in IMPOSSIBLE:
                name, expression = IMPOSSIBLE[rule.name]
                selected = f"SELECT * REPLACE ({expression} AS {name}) FROM source"
            else:  # columns shuffled independently: combinations that never occur now do
                shuffled = {
                    n: source[n].to_numpy()[rng.permutation(len(source))] for n in rule.columns
                }
                source = pd.DataFrame(shuffled)
            connection.register("source", source)
            listed = ", ".join(rule.columns)  # the rule reads these and no others
            violated = f"count(*) FILTER ({rule.condition})"
            sql = f"SELECT {violated} FROM (SELECT {listed} FROM ({selected}))"
            assert connection.execute(sql).fetchall()[0][0] > 0, rule.name


# --- determinism and blocks


def test_same_seed_same_rows_other_seed_other_rows(tmp_path):
    first, again, other = (
        simulate_census(tmp_path / str(i), people=2_000, seed=seed)
        for i, seed in enumerate((11, 11, 12))
    )
    for name in ("people", "events"):
        rows = frame(getattr(first, name))
        pd.testing.assert_frame_equal(rows, frame(getattr(again, name)))
        assert not rows.equals(frame(getattr(other, name)))


def test_blocks_join_without_gap_or_repeat(tmp_path, monkeypatch):
    monkeypatch.setattr(simulate, "BLOCK_PEOPLE", 1_500)
    seen = []
    census = simulate_census(
        tmp_path, people=4_000, seed=7, progress=lambda done, total: seen.append((done, total))
    )
    assert seen == [(1_500, 4_000), (3_000, 4_000), (4_000, 4_000)]
    ids = query(census, "SELECT person_id FROM people ORDER BY 1")
    assert [number for (number,) in ids] == list(range(1, 4_001))
    counted = query(census, "SELECT count(DISTINCT household_id) FROM people")
    assert counted == [(census.n_households,)]
    written = frame(census.people)
    for block, size in enumerate((1_500, 1_500, 1_000)):
        people, events = simulate.draw_block(block, people=4_000, seed=7)
        rows = written[block * 1_500 : block * 1_500 + size]
        assert (rows["person_id"].to_numpy() == people["person_id"]).all()
        assert (rows["age"].to_numpy() == people["age"]).all()
        assert set(events["person_id"]) <= set(people["person_id"])
    ages = [simulate.draw_block(b, people=4_000, seed=7)[0]["age"] for b in (0, 1)]
    assert (ages[0] != ages[1]).any()


# --- bad input


@pytest.mark.parametrize(
    ("people", "seed", "keys"),
    [
        *((people, 1, ["people"]) for people in (999, 100_000_001, 1_000.0, True)),
        *((1_000, seed, ["seed"]) for seed in (-1, 0.5, None)),
        (1, -1, ["people", "seed"]),
    ],
)
def test_numbers_are_checked(tmp_path, people, seed, keys):
    with pytest.raises(SpecError) as caught:
        simulate_census(tmp_path / "new", people=people, seed=seed)
    assert places(caught.value.problems) == [f"census.{key}" for key in keys]
    assert not (tmp_path / "new").exists()


def test_only_an_empty_or_new_folder_will_do(tmp_path):
    path = tmp_path / "mine.txt"
    path.write_text("mine")
    for folder in (tmp_path, path, path / "below"):
        with pytest.raises(StoreError, match=re.escape(str(folder))):
            simulate_census(folder, people=1_000, seed=1)
    assert [found.name for found in tmp_path.iterdir()] == ["mine.txt"]


@pytest.mark.parametrize("is_new", [True, False])
def test_nothing_is_left_when_the_disk_is_full(tmp_path, monkeypatch, is_new):
    folder = tmp_path / "census"
    if not is_new:
        folder.mkdir()
    replace = os.replace

    def full(source, target):
        if Path(source).name == "people.parquet":  # the second file to be moved
            raise OSError(28, "No space left on device")
        replace(source, target)

    monkeypatch.setattr(os, "replace", full)
    with pytest.raises(StoreError, match="No space left on device"):
        simulate_census(folder, people=1_000, seed=1)
    assert folder.exists() != is_new
    assert is_new or not any(folder.iterdir())
