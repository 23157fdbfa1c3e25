"""People of the simulated census: one block of records, as codes, from a seeded generator.

Takes a generator and a number of people; gives all columns of the block but the identifiers, in
household order. This file draws marital status, origins and arrival; `simulate_work` and
`simulate_living` the rest.

Invariant: coded columns hold positions in the lists of `simulate_codes`; `MISSING` marks null in
any column, and the pairs that `simulate_rules` calls impossible have probability 0.
"""

from __future__ import annotations

import numpy as np

from engine.schema import FloatArray, Int64Array
from engine.simulation.codes import (
    ETHNIC_GROUPS,
    ETHNIC_SHARES,
    GEOGRAPHY,
    MIXED_GROUPS,
    REFERENCE_DATE,
    Kind,
    Relation,
    birth_country_weights,
)
from engine.simulation.draw import N_AGES, chance, curve, draw_table, row_number, uniform, window
from engine.simulation.households import Skeleton, draw_skeleton
from engine.simulation.living import draw_living
from engine.simulation.work import MISSING, WORKING_AGE, Columns, draw_work

REFERENCE_DAY = (REFERENCE_DATE - REFERENCE_DATE.replace(year=1970, month=1, day=1)).days
_SINGLE, _MARRIED, _CIVIL = 0, 1, 2

_FORMAL = curve({18: 0.03, 22: 0.12, 26: 0.3, 32: 0.58, 40: 0.72, 50: 0.77, 60: 0.84, 75: 0.94})
_ALONE = {
    "married": window({18: 0.002, 24: 0.02, 35: 0.04, 105: 0.05}),
    "civil": window({18: 0.0001, 105: 0.001}),
    "separated": window({18: 0.001, 30: 0.03, 45: 0.07, 60: 0.05, 105: 0.01}),
    "divorced": window({20: 0.001, 30: 0.04, 45: 0.25, 55: 0.38, 66: 0.38, 76: 0.28, 105: 0.05}),
    "widowed": window({20: 2e-4, 40: 0.01, 55: 0.06, 66: 0.2, 76: 0.5, 86: 0.9, 105: 1.2}),
}
_SINGLE_WEIGHT = curve({20: 1, 30: 0.92, 45: 0.55, 60: 0.26, 80: 0.1})
_STATUS = draw_table(
    [
        np.stack([_SINGLE_WEIGHT, *list(_ALONE.values())[:4], _ALONE["widowed"] * widowed], axis=1)
        for widowed in (1.0, 0.45)
    ]
)
_DIVERSITY = np.array([0.18, 0.6, 1.15, 2.4, 3.2])
_ETHNIC = draw_table(
    np.where(np.arange(len(ETHNIC_GROUPS)) == 0, 1.0, _DIVERSITY[:, None]) * ETHNIC_SHARES
)
# How often a member's ethnic group is drawn afresh, by relation; else it is the reference person's.
_FRESH = np.array([0.0, 0.1, 0.01, 0.02, 0.5, 1.0])
_COUNTRY = draw_table(birth_country_weights())
_ARRIVALS = curve(
    {0: 0.5, 5: 0.45, 12: 0.3, 17: 0.5, 20: 1.6, 24: 2.2, 30: 1.6, 38: 0.8, 50: 0.3, 65: 0.15,
     80: 0}
)  # fmt: skip


def _arrival_weights() -> FloatArray:
    age, arrived = np.mgrid[:N_AGES, :N_AGES]
    recent = np.exp(-np.maximum(age - arrived, 0) / 20) + 0.25
    return np.asarray(np.where(arrived <= age, _ARRIVALS[arrived] * recent, 0.0), dtype=np.float64)


_ARRIVAL_AGE = draw_table(_arrival_weights())


def draw_people(rng: np.random.Generator, people: int) -> Columns:
    """Draw one block of people.

    people: How many, at least 1.

    Returns: All published columns but the identifiers; `rent_weekly` in pence, `arrival_date` in days since
    1970-01-01. Two working columns beside them: `birth_day`, likewise in days, and `household_place`, the
    place in the block of the first member of each person's household.
    """
    skeleton = draw_skeleton(rng, people)
    at = skeleton.household
    ward = skeleton.ward[at]
    ethnic = _ethnic_groups(rng, skeleton)
    country, arrival = _origins(rng, skeleton, ethnic)
    columns: Columns = {
        "birth_day": skeleton.birth_day,
        "household_place": skeleton.start[at],
        "region": GEOGRAPHY.region_of[ward],
        "district": GEOGRAPHY.district_of[ward],
        "ward": ward,
        "household_type": skeleton.kind[at],
        "relation": skeleton.relation,
        "age": skeleton.age,
        "sex": skeleton.sex,
        "marital_status": _marital_status(rng, skeleton),
        "ethnic_group": ethnic,
        "birth_country": country,
        "arrival_date": arrival,
    }
    columns |= draw_work(rng, skeleton, ethnic)
    columns |= draw_living(rng, skeleton, columns)
    return columns


def _marital_status(rng: np.random.Generator, skeleton: Skeleton) -> Int64Array:
    """Couples are married or in a civil partnership together, or not at all; others by age, sex."""
    age, at = skeleton.age, skeleton.household
    status = _STATUS.draw(rng, row_number((skeleton.sex, 2), (age, N_AGES)))
    n_households = len(skeleton.kind)
    formal = chance(rng, _FORMAL[age[skeleton.start]], n_households)
    civil = chance(rng, np.where(skeleton.same_sex, 0.5, 0.01), n_households)
    couple = np.isin(skeleton.kind, (Kind.COUPLE, Kind.FAMILY, Kind.EXTENDED))
    pair = couple[at] & (skeleton.relation <= Relation.PARTNER)
    together = np.where(civil, _CIVIL, _MARRIED)[at]
    # Cohabiting: nobody is married to someone else here, so those statuses turn single.
    apart = np.where((status == _MARRIED) | (status == _CIVIL), _SINGLE, status)
    status = np.where(pair, np.where(formal[at], together, apart), status)
    status[age < WORKING_AGE] = MISSING
    return status


def _ethnic_groups(rng: np.random.Generator, skeleton: Skeleton) -> Int64Array:
    """Groups go with the ward and the household; children of mixed couples are often mixed."""
    at, relation, start = skeleton.household, skeleton.relation, skeleton.start
    n = len(at)
    drawn = _ETHNIC.draw(rng, GEOGRAPHY.diversity[skeleton.ward[at]])
    fresh = chance(rng, _FRESH[relation], n)
    ethnic = np.where(fresh, drawn, drawn[start[at]])
    first = ethnic[start]
    second = first.copy()
    partner = np.flatnonzero(relation == Relation.PARTNER)
    second[at[partner]] = ethnic[partner]
    child_of_two = (relation == Relation.CHILD) & (first != second)[at]
    mixed = np.array(MIXED_GROUPS)[rng.integers(0, len(MIXED_GROUPS), n)]
    either = np.where(chance(rng, 0.5, n), first[at], second[at])
    return np.where(child_of_two, np.where(chance(rng, 0.65, n), mixed, either), ethnic)


def _origins(
    rng: np.random.Generator, skeleton: Skeleton, ethnic: Int64Array
) -> tuple[Int64Array, Int64Array]:
    """Country of birth and day of arrival: families share them, children follow the parent."""
    at, relation, start = skeleton.household, skeleton.relation, skeleton.start
    born, n = skeleton.birth_day, len(at)
    country = _COUNTRY.draw(rng, ethnic)
    first = country[start][at]
    kin = (relation == Relation.PARTNER) | (relation == Relation.PARENT)
    shares = kin & (first > 0) & (ethnic == ethnic[start][at]) & chance(rng, 0.78, n)
    stays = kin & (first == 0) & (ethnic == ethnic[start][at]) & chance(rng, 0.5, n)
    country = np.where(shares, first, np.where(stays, 0, country))

    years = _ARRIVAL_AGE.draw(rng, skeleton.age) + uniform(rng, n)
    arrival = np.minimum(born + (years * 365.25).astype(np.int64), REFERENCE_DAY)
    family_arrival = arrival[start][at]
    together = shares & (family_arrival >= born) & chance(rng, 0.45, n)
    child = relation == Relation.CHILD
    came = child & (first > 0) & (born <= family_arrival)
    country = np.where(child, np.where(came, first, 0), country)
    arrival = np.where(came | together, family_arrival, arrival)
    return country, np.where(country > 0, arrival, MISSING)
