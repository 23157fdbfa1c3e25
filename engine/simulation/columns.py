"""Columns of the simulated census, as a spec would declare them.

Data only, from the code lists. What a statistics office publishes beforehand (areas, classifications) is public with
its domain; country of birth and reason for a visit are not, to demonstrate suppression: their rare values become the
placeholder.
"""

from __future__ import annotations

from engine.schema import DEFAULT_PLACEHOLDER, Column, Resolution
from engine.simulation.codes import (
    ACTIVITIES,
    DEPARTMENTS,
    DISABILITIES,
    EDUCATIONS,
    ETHNIC_GROUPS,
    GEOGRAPHY,
    HEALTHS,
    HOUSEHOLD_TYPES,
    INDUSTRIES,
    MARITAL_STATUSES,
    MAX_HOURS,
    OCCUPATIONS,
    RELATIONS,
    SEXES,
    TENURES,
)
from engine.simulation.draw import MAX_AGE


def _coded(
    name: str,
    label: str,
    domain: tuple[str, ...],
    labels: tuple[tuple[str, str], ...] = (),
) -> Column:
    """A column of a published classification."""
    return Column(
        name=name,
        kind="category",
        value_type="text",
        domain=domain,
        public=True,
        label=label,
        labels=labels,
    )


def _unlisted(name: str, label: str) -> Column:
    """A text column whose list of values is not public."""
    return Column(
        name=name, kind="text", value_type="text", placeholder=DEFAULT_PLACEHOLDER, label=label
    )


def _integer(name: str, label: str, bounds: tuple[int, int] | None = None) -> Column:
    return Column(name=name, kind="integer", value_type="integer", bounds=bounds, label=label)


def _money(name: str, label: str) -> Column:
    return Column(
        name=name,
        kind="decimal",
        value_type="decimal",
        resolution=Resolution(base=10, exponent=-2),
        label=label,
    )


CENSUS_COLUMNS = (
    _integer("person_id", "Person"),
    _integer("household_id", "Household"),
    _coded("region", "Region", GEOGRAPHY.regions),
    _coded("district", "District", GEOGRAPHY.districts),
    _coded("ward", "Ward", GEOGRAPHY.wards),
    _coded("household_type", "Type of household", HOUSEHOLD_TYPES),
    _coded("relation", "Relation to the reference person", RELATIONS),
    _integer("age", "Age in years", (0, MAX_AGE)),
    _coded("sex", "Sex", SEXES),
    _coded("marital_status", "Marital status", MARITAL_STATUSES),
    _coded("ethnic_group", "Ethnic group", ETHNIC_GROUPS),
    _unlisted("birth_country", "Country of birth"),
    Column(name="arrival_date", kind="date", value_type="date", label="Date of arrival"),
    _coded("education", "Highest qualification", EDUCATIONS),
    _coded("activity", "Economic activity", ACTIVITIES),
    _coded(
        "occupation",
        "Occupation",
        tuple(o.code for o in OCCUPATIONS),
        tuple((o.code, o.name) for o in OCCUPATIONS),
    ),
    _coded("industry", "Industry", tuple(INDUSTRIES), tuple(INDUSTRIES.items())),
    _integer("hours", "Hours worked a week", (0, MAX_HOURS)),
    _integer("income", "Yearly income, pounds"),
    Column(
        name="travel_km",
        kind="real",
        value_type="real",
        resolution=Resolution(base=10, exponent=-1),
        label="Distance to work, kilometres",
    ),
    _coded("health", "General health", HEALTHS),
    _coded("disability", "Limited in daily activities", DISABILITIES),
    Column(name="carer", kind="boolean", value_type="boolean", label="Cares for somebody, unpaid"),
    _coded("tenure", "Tenure", TENURES),
    _money("rent_weekly", "Weekly rent, pounds"),
)
"""The columns of `people.parquet`, in its order."""

EVENT_COLUMNS = (
    _integer("person_id", "Person"),
    Column(name="visit_date", kind="date", value_type="date", label="Date of the visit"),
    Column(name="visit_at", kind="timestamp", value_type="timestamp", label="Time of the visit"),
    _coded("department", "Department", tuple(DEPARTMENTS)),
    _unlisted("reason", "Reason of the visit"),
    _money("amount", "Amount, pounds; below 0 for a refund"),
)
"""The columns of `events.parquet`, in its order."""
