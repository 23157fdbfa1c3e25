from __future__ import annotations

import numpy as np
import pytest
from fixtures.simulation import N_PEOPLE, frame, query
from hypothesis import given, settings
from hypothesis import strategies as st

from engine.simulation import simulate_census
from engine.simulation.census import SimulatedCensus
from engine.simulation.codes import (
    HOUSEHOLD_TYPES,
    Relation,
)
from engine.simulation.columns import CENSUS_COLUMNS, EVENT_COLUMNS
from engine.simulation.people import draw_skeleton


def share(census: SimulatedCensus, condition: str, among: str = "true") -> float:
    sql = f"SELECT avg(CAST(coalesce({condition}, false) AS INTEGER)) FROM people WHERE {among}"
    return query(census, sql)[0][0]


@pytest.fixture(scope="module")
def small(tmp_path_factory):
    return simulate_census(tmp_path_factory.mktemp("small"), people=1_000, seed=0, csv=True)


# --- what is in the files


def test_the_result_has_paths_and_numbers_of_rows(census):
    assert census.people.name == "people.parquet"
    assert census.events.name == "events.parquet"
    assert census.csv == ()
    assert sorted(path.name for path in census.people.parent.iterdir()) == [
        "events.parquet",
        "people.parquet",
    ]
    numbers = query(
        census,
        "SELECT (SELECT count(*) FROM people), (SELECT count(DISTINCT household_id) FROM people),"
        " (SELECT count(*) FROM events)",
    )
    assert numbers == [(census.n_people, census.n_households, census.n_events)]
    assert census.n_people == N_PEOPLE
    assert census.seed == 11


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


def test_a_census_of_1000_has_everything(small):
    assert query(small, "SELECT count(*), count(DISTINCT person_id) FROM people") == [
        (1_000, 1_000)
    ]
    filled = ", ".join(f"count({c.name}), count(DISTINCT {c.name})" for c in CENSUS_COLUMNS)
    counts = np.array(query(small, f"SELECT {filled} FROM people")[0]).reshape(-1, 2)
    assert counts[:, 0].min() >= 50
    assert counts[:, 1].min() >= 2
    always = [c.name for c, n in zip(CENSUS_COLUMNS, counts[:, 0], strict=True) if n == 1_000]
    assert always == [
        "person_id", "household_id", "region", "district", "ward", "household_type", "relation",
        "age", "sex", "ethnic_group", "birth_country", "health", "disability",
    ]  # fmt: skip


def test_csv_holds_the_same(small):
    assert [path.name for path in small.csv] == ["events.csv", "people.csv"]
    for path in small.csv:
        parquet = path.with_suffix(".parquet")
        difference = (
            f"SELECT count(*) FROM (SELECT COLUMNS(*)::VARCHAR FROM '{parquet}' EXCEPT ALL"
            f" FROM read_csv('{path}', all_varchar=true))"
        )
        assert query(small, difference) == [(0,)]
        assert path.read_text().count("\n") == 1 + len(frame(parquet))


# --- households


def test_household_members_share_the_attributes_of_the_household(census):
    shared = ("region", "district", "ward", "household_type", "tenure", "rent_weekly")
    differing = " + ".join(
        f"CAST(count(DISTINCT {name}) > 1 OR count({name}) NOT IN (0, count(*)) AS INTEGER)"
        for name in shared
    )
    sql = f"SELECT sum(d) FROM (SELECT {differing} AS d FROM people GROUP BY household_id)"
    assert query(census, sql) == [(0,)]


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


@settings(max_examples=20)
@given(people=st.integers(1, 400), seed=st.integers(0, 2**32))
def test_a_skeleton_has_exactly_the_people_asked_for(people, seed):
    skeleton = draw_skeleton(np.random.default_rng(seed), people)
    assert len(skeleton.age) == people
    assert skeleton.household[-1] == len(skeleton.kind) - 1
    first = skeleton.relation[skeleton.start]
    assert set(first) <= {Relation.REFERENCE, Relation.RESIDENT}
    assert ((skeleton.age >= 18) | (skeleton.relation == Relation.CHILD)).all()


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


def test_events_are_plausible(census):
    refunds, nothing, wrong_sex, weekend, reasons = query(
        census,
        "SELECT avg(CAST(amount < 0 AS INTEGER)), avg(CAST(amount = 0 AS INTEGER)),"
        " count(*) FILTER (department = 'Maternity' AND sex = 'Male'),"
        " avg(CAST(isodow(visit_date) > 5 AS INTEGER)), count(DISTINCT reason)"
        " FROM events JOIN people USING (person_id)",
    )[0]
    assert 0.01 < refunds < 0.03
    assert 0.04 < nothing < 0.08
    assert wrong_sex == 0
    assert 0.02 < weekend < 0.12
    assert 55 <= reasons <= 60
    births = "visit_date < DATE '2021-03-21' - to_years(age + 1)"
    sql = f"SELECT count(*) FILTER ({births}), count(*) FROM events JOIN people USING (person_id)"
    before_birth, infants = query(census, f"{sql} WHERE age = 0")[0]
    assert before_birth == 0
    assert infants > 100
