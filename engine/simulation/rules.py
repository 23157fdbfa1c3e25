"""Edit rules of the simulated census, as data.

Each rule is a DuckDB SQL condition over one row that is true if the record is impossible (never null). The simulation
gives such records weight 0, the tests check it, and specs may declare them as structural zeros.
"""

from __future__ import annotations

from dataclasses import dataclass

from engine.schema import literal
from engine.simulation.codes import DEPARTMENTS, INDUSTRIES, OCCUPATIONS, REFERENCE_DATE


@dataclass(frozen=True, kw_only=True, slots=True)
class Rule:
    """One rule that no record violates."""

    name: str  # In plain words
    columns: tuple[str, ...]  # The columns that the condition reads
    condition: str  # DuckDB SQL, true where a record is impossible


def _listed(values: list[str]) -> str:
    return "(" + ", ".join(literal(value) for value in values) + ")"


_WORKS = "('Employed full-time', 'Employed part-time', 'Self-employed', 'Student in work')"
_RENTS = "('Social rented', 'Private rented')"
_DAY = f"DATE '{REFERENCE_DATE.isoformat()}'"
_DEGREE = [o.code for o in OCCUPATIONS if o.entry >= 4]
_MASTER = [o.code for o in OCCUPATIONS if o.entry == 5]
_RULED_OUT = [
    f"{o.code} {letter}"
    for o in OCCUPATIONS
    if not o.industries.endswith("*")
    for letter in INDUSTRIES
    if letter not in o.industries
]

_ROWS: tuple[tuple[str, str, str], ...] = (
    ("district lies in its region", "district region", "NOT starts_with(district, region || '-')"),
    ("ward lies in its district", "ward district", "NOT starts_with(ward, district || '-')"),
    ("ages are 0 to 105", "age", "age NOT BETWEEN 0 AND 105"),
    (
        "marital status is asked from 16", "marital_status age",
        "(marital_status IS NULL) <> (age < 16)",
    ),
    (
        "nobody under 18 is or was married", "marital_status age",
        "age < 18 AND coalesce(marital_status, 'Single') <> 'Single'",
    ),
    (
        "nobody under 20 is divorced or widowed", "marital_status age",
        "age < 20 AND coalesce(marital_status IN ('Divorced', 'Widowed'), false)",
    ),
    (
        "only children are under 18", "relation age",
        "relation <> 'Child' AND age < 18",
    ),
    (
        "children have a household with children", "relation household_type",
        "relation = 'Child' AND household_type NOT IN"
        " ('Couple with children', 'Lone parent', 'Three generations')",
    ),
    (
        "one-person households hold one person", "relation household_type",
        "household_type = 'One person' AND relation <> 'Reference person'",
    ),
    (
        "residents are in establishments", "relation household_type",
        "(relation = 'Resident') <> (household_type = 'Establishment')",
    ),
    ("education is asked from 16", "education age", "(education IS NULL) <> (age < 16)"),
    (
        "level 3 and apprenticeships from 17", "education age",
        "age < 17 AND coalesce(education IN ('Apprenticeship', 'Level 3'), false)",
    ),
    (
        "bachelors from 20", "education age",
        "age < 20 AND coalesce(education IN ('Bachelor', 'Master', 'Doctorate'), false)",
    ),
    (
        "masters from 22", "education age",
        "age < 22 AND coalesce(education IN ('Master', 'Doctorate'), false)",
    ),
    (
        "doctorates from 24", "education age",
        "age < 24 AND coalesce(education = 'Doctorate', false)",
    ),
    ("activity is asked from 16", "activity age", "(activity IS NULL) <> (age < 16)"),
    (
        "nobody retires under 45", "activity age",
        "age < 45 AND coalesce(activity = 'Retired', false)",
    ),
    (
        "those in work have an occupation", "activity occupation",
        f"occupation IS NULL AND coalesce(activity IN {_WORKS}, false)",
    ),
    (
        "only those who work or are unemployed have an occupation", "activity occupation",
        "occupation IS NOT NULL"
        f" AND NOT coalesce(activity IN {_WORKS} OR activity = 'Unemployed', false)",
    ),
    (
        "occupation and industry come together", "occupation industry",
        "(occupation IS NULL) <> (industry IS NULL)",
    ),
    (
        "industries that an occupation rules out", "occupation industry",
        f"coalesce(occupation || ' ' || industry IN {_listed(_RULED_OUT)}, false)",
    ),
    (
        "regulated occupations need a degree", "occupation education",
        f"coalesce(occupation IN {_listed(_DEGREE)}"
        " AND education NOT IN ('Bachelor', 'Master', 'Doctorate'), false)",
    ),
    (
        "academic occupations need a master's degree", "occupation education",
        f"coalesce(occupation IN {_listed(_MASTER)}"
        " AND education NOT IN ('Master', 'Doctorate'), false)",
    ),
    (
        "regulated occupations from 22", "occupation age",
        f"age < 22 AND coalesce(occupation IN {_listed(_DEGREE)}, false)",
    ),
    (
        "managers from 18", "occupation age",
        "age < 18 AND coalesce(starts_with(occupation, '1'), false)",
    ),
    (
        "hours are those in work", "activity hours",
        f"(hours IS NULL) = coalesce(activity IN {_WORKS}, false)",
    ),
    (
        "hours fit the activity", "activity hours",
        "coalesce(CASE activity WHEN 'Employed full-time' THEN hours NOT BETWEEN 31 AND 60"
        " WHEN 'Self-employed' THEN hours NOT BETWEEN 5 AND 80"
        " ELSE hours NOT BETWEEN 4 AND 30 END, false)",
    ),
    ("income is asked from 16", "income age", "(income IS NULL) <> (age < 16)"),
    ("income is rounded to 10", "income", "coalesce(income % 10 <> 0, false)"),
    (
        "only the self-employed lose", "income activity",
        "coalesce(income < 0 AND activity <> 'Self-employed', false)",
    ),
    (
        "employees earn", "income activity",
        "coalesce(income <= 0 AND activity IN ('Employed full-time', 'Employed part-time'), false)",
    ),
    (
        "travel is of those in work", "activity travel_km",
        f"(travel_km IS NULL) = coalesce(activity IN {_WORKS}, false)"
        " OR coalesce(travel_km < 0, false)",
    ),
    (
        "those born here did not arrive", "birth_country arrival_date",
        "(arrival_date IS NULL) <> (birth_country = 'United Kingdom')",
    ),
    (
        "nobody arrives before birth", "arrival_date age",
        f"coalesce(arrival_date <= {_DAY} - to_years(age + 1), false)",
    ),
    (
        "nobody arrives after census day", "arrival_date",
        f"coalesce(arrival_date > {_DAY}, false)",
    ),
    ("care is asked from 5", "carer age", "(carer IS NULL) <> (age < 5)"),
    (
        "establishments have no tenure", "tenure household_type",
        "(tenure IS NULL) <> (household_type = 'Establishment')",
    ),
    (
        "rent is paid where the home is rented", "rent_weekly tenure",
        f"(rent_weekly IS NULL) = coalesce(tenure IN {_RENTS}, false)"
        " OR coalesce(rent_weekly <= 0, false)",
    ),
)  # fmt: skip

CENSUS_RULES = tuple(
    Rule(name=name, columns=tuple(columns.split()), condition=condition)
    for name, columns, condition in _ROWS
)
"""Conditions that hold for no person."""

EVENT_RULES = (
    Rule(
        name="the date is that of the time",
        columns=("visit_date", "visit_at"),
        condition="visit_date <> CAST(visit_at AS DATE)",
    ),
    Rule(
        name="visits lie in the year before census day",
        columns=("visit_date",),
        condition=f"visit_date > {_DAY} OR visit_date < {_DAY} - 370",
    ),
    Rule(
        name="a reason belongs to its department",
        columns=("department", "reason"),
        condition="NOT starts_with(reason, department || ': ')",
    ),
    Rule(
        name="departments are listed",
        columns=("department",),
        condition=f"department NOT IN {_listed(list(DEPARTMENTS))}",
    ),
)
"""Conditions that hold for no visit."""
