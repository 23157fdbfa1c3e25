from __future__ import annotations

import numpy as np
import pytest
from fixtures.simulation import N_PEOPLE, query

from engine.simulation import simulate_census
from engine.simulation.census import SimulatedCensus
from engine.simulation.codes import (
    HOUSEHOLD_TYPES,
)
from engine.simulation.columns import CENSUS_COLUMNS, EVENT_COLUMNS


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
