"""Education, activity, occupation, industry, hours, income and travel of the simulated census.

Takes the skeleton of a block and its ethnic groups; gives the columns of work. Each step is a draw
from a conditional table: education given age and area, activity given age, sex and education,
occupation given all of those, industry given occupation.

Invariant: what `simulate_rules` calls impossible has weight 0 in the tables of this file.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from engine.schema import FloatArray, Int64Array
from engine.simulation.codes import ETHNIC_GROUPS, FEMALE, GEOGRAPHY, Activity, Relation
from engine.simulation.draw import N_AGES, chance, curve, draw_table, row_number, uniform, window
from engine.simulation.households import HALLS, Skeleton
from engine.simulation.occupations import INDUSTRIES, INDUSTRY_SHARES, OCCUPATIONS

Columns = dict[str, NDArray[Any]]
MISSING = -(2**31)
"""Stands for null in every column of a block until the file is written."""
WORKING_AGE = 16
MAX_HOURS = 80

_EDUCATION_CURVES = np.stack(
    [
        curve({16: 0.5, 17: 0.25, 19: 0.1, 25: 0.07, 40: 0.09, 55: 0.16, 65: 0.26, 75: 0.42,
               90: 0.55}),
        curve({16: 0.2, 18: 0.13, 25: 0.09, 45: 0.14, 65: 0.12, 90: 0.05}),
        curve({16: 0.3, 17: 0.55, 18: 0.3, 25: 0.13, 45: 0.16, 65: 0.13, 90: 0.08}),
        window({17: 0.005, 20: 0.05, 30: 0.05, 55: 0.06, 75: 0.1, 105: 0.08}),
        window({17: 0.07, 18: 0.45, 20: 0.5, 23: 0.22, 30: 0.17, 50: 0.16, 70: 0.09, 105: 0.06}),
        window({20: 0.01, 21: 0.2, 23: 0.36, 30: 0.33, 45: 0.25, 60: 0.17, 75: 0.1, 105: 0.05}),
        window({22: 0.03, 25: 0.1, 35: 0.13, 50: 0.09, 65: 0.06, 105: 0.02}),
        window({24: 0.002, 28: 0.012, 40: 0.018, 60: 0.012, 105: 0.004}),
    ]
)  # fmt: skip
_UPLIFT = np.array(
    [[1.4, 1.25, 1, 1, 1, 0.65, 0.5, 0.4], [1] * 8, [0.6, 0.8, 1, 0.9, 1.1, 1.5, 1.7, 2]]
)
_EDUCATION = draw_table(_UPLIFT[:, None, :] * _EDUCATION_CURVES.T)
_LEARNED = np.array(
    [
        (name in {"Indian", "Chinese", "African", "Other White"})
        - 2 * (name in {"Roma", "Gypsy or Traveller"})
        for name in ETHNIC_GROUPS
    ]
)
_LEVEL = np.array([0, 0, 1, 1, 1, 2, 2, 2])

_ACTIVITY_CURVES = np.stack(
    [
        curve({16: 0.02, 18: 0.18, 20: 0.3, 23: 0.58, 28: 0.74, 40: 0.72, 50: 0.66, 58: 0.5,
               63: 0.3, 66: 0.1, 70: 0.03, 78: 0}),
        curve({16: 0.04, 18: 0.08, 23: 0.08, 30: 0.06, 55: 0.09, 65: 0.09, 72: 0.03, 84: 0}),
        curve({16: 0, 18: 0.01, 22: 0.05, 30: 0.11, 45: 0.16, 58: 0.16, 66: 0.08, 75: 0.025,
               90: 0}),
        curve({16: 0.1, 17: 0.17, 19: 0.2, 21: 0.13, 23: 0.05, 30: 0.01, 45: 0.003, 60: 0}),
        curve({16: 0.02, 18: 0.06, 22: 0.065, 30: 0.04, 50: 0.03, 62: 0.025, 66: 0.004, 70: 0}),
        curve({16: 0.8, 17: 0.68, 18: 0.4, 20: 0.3, 22: 0.12, 25: 0.04, 35: 0.01, 50: 0.003,
               75: 0}),
        window({45: 0.002, 52: 0.02, 58: 0.08, 62: 0.2, 65: 0.45, 67: 0.72, 70: 0.88, 105: 0.97}),
        curve({16: 0.004, 25: 0.012, 45: 0.018, 66: 0.01, 75: 0.004}),
        curve({16: 0.01, 20: 0.02, 30: 0.03, 45: 0.05, 58: 0.09, 64: 0.1, 67: 0.02, 80: 0.01}),
        curve({16: 0.02, 64: 0.02, 70: 0.01}),
    ]
)  # fmt: skip
_BY_SEX = np.array([[0.66, 3.8, 0.55, 1.1, 0.8, 1, 1.05, 6, 1, 1], [1] * 10])
_BY_LEVEL = np.array([[0.8, 1.1, 0.9, 0.8, 1.5, 0.8, 1, 1.6, 1.9, 1.2], [1] * 10,
                      [1.2, 0.85, 1.1, 0.8, 0.6, 1, 1, 0.6, 0.35, 0.9]])  # fmt: skip
_BY_INFANT = np.array([[1] * 10, [0.5, 1.4, 0.9, 0.5, 1, 0.5, 1, 3, 0.8, 1]])
_ACTIVITY = draw_table(
    _BY_SEX[:, None, None, None, :]
    * _BY_LEVEL[:, None, None, :]
    * _BY_INFANT[:, None, :]
    * _ACTIVITY_CURVES.T
)

_BANDS = (18, 22, 30)
"""First ages of the second, third and fourth age band of the occupation tables."""
_MATCH = np.array(
    [[3, 2.2, 1.8, 1, 1.2, 0.4, 0.25, 0.1], [1, 1.5, 2, 1.5, 1.8, 0.8, 0.5, 0.2],
     [0.8, 1, 1.4, 4, 1.5, 0.8, 0.5, 0.3], [0.08, 0.2, 0.35, 0.5, 0.8, 3, 3.5, 4],
     [0, 0, 0, 0, 0, 2.5, 4, 8], [0, 0, 0, 0, 0, 0, 1, 25]]
)  # fmt: skip


def _occupation_weights() -> FloatArray:
    """Weights by education, sex, age band and kind of work: shape (8, 2, 4, 4, n_occupations)."""
    entry = np.array([o.entry for o in OCCUPATIONS])
    female = np.array([o.female for o in OCCUPATIONS])
    pay = np.array([o.pay for o in OCCUPATIONS])
    own = np.array([o.own for o in OCCUPATIONS])
    manager = np.array([o.code.startswith("1") for o in OCCUPATIONS])
    by_age = np.ones((4, len(OCCUPATIONS)))
    by_age[0, manager | (entry >= 4)] = 0
    by_age[1, entry >= 4] = 0
    by_age[:, manager] *= np.array([0, 0.1, 0.5, 1.2])[:, None]
    by_age[:, entry == 0] *= np.array([3, 2, 1, 0.9])[:, None]
    employee = 1 / (1 + own / 3)
    by_work = np.stack(
        [
            employee * (pay / 30) ** 0.25,
            employee * 25 / pay,
            own,
            employee * np.where(entry < 2, 1, 0.1),
        ]
    )
    by_sex = np.stack([female, 1 - female])
    weights: FloatArray = (
        _MATCH[entry].T[:, None, None, None, :]
        * by_sex[:, None, None, :]
        * by_age[:, None, :]
        * by_work
        * np.array([o.weight for o in OCCUPATIONS])
    )
    return weights


def _industry_weights() -> FloatArray:
    """Weights of industries given the occupation, shape (n_occupations, n_industries)."""
    anywhere = np.array(INDUSTRY_SHARES) / sum(INDUSTRY_SHARES)
    letters = list(INDUSTRIES)
    weights = np.zeros((len(OCCUPATIONS), len(letters)))
    for row, occupation in enumerate(OCCUPATIONS):
        main, *others = list(occupation.industries.rstrip("*"))
        for letter in others:
            weights[row, letters.index(letter)] = 0.2 / len(others)
        weights[row, letters.index(main)] = 0.8
        if occupation.industries.endswith("*"):
            weights[row] += 0.45 * anywhere
    return weights


def _hours_weights() -> FloatArray:
    """Weights of weekly hours by kind of work, shape (4, MAX_HOURS + 1)."""
    weights = np.zeros((4, MAX_HOURS + 1))
    weights[0, 31:61] = 0.3
    weights[1, 4:31] = 0.8
    weights[2, 5:81] = np.linspace(1.5, 0.1, 76)
    weights[3, 4:31] = np.linspace(1.5, 0.1, 27)
    spikes = (
        {35: 10, 36: 6, 37: 18, 38: 14, 39: 7, 40: 22, 42: 4, 45: 7, 48: 4, 50: 4, 60: 1},
        {8: 2, 12: 2, 16: 8, 20: 10, 24: 6, 25: 5, 30: 8},
        {20: 6, 30: 6, 35: 5, 40: 15, 45: 6, 50: 7, 60: 4},
        {8: 5, 10: 4, 12: 4, 16: 6, 20: 5},
    )
    for row, hours in enumerate(spikes):
        weights[row, list(hours)] += list(hours.values())
    return weights


_OCCUPATION = draw_table(_occupation_weights())
_INDUSTRY = draw_table(_industry_weights())
_HOURS = draw_table(_hours_weights())
_PAY = np.array([o.pay * 1000 for o in OCCUPATIONS])
_PAY_BY_AGE = curve({16: 0.5, 18: 0.62, 22: 0.78, 30: 0.97, 45: 1.08, 60: 1, 70: 0.85})
# By activity, for people not in work: share without any income, log of the others' median; for all:
# the spread.
_ZERO_SHARE = np.array([0, 0, 0.03, 0, 0.35, 0.6, 0.3, 0.55, 0.02, 0.4])
_LOG_MEDIAN = np.array([0, 0, 0, 0, 8.6, 7.8, 8.9, 8.2, 9.15, 8.7])
_SPREAD = np.array([0.32, 0.38, 0.75, 0.45, 0.5, 0.7, 0.8, 0.8, 0.3, 0.8])
_STATE_PENSION, _PENSION_AGE = 9_340, 66


def draw_work(rng: np.random.Generator, skeleton: Skeleton, ethnic: Int64Array) -> Columns:
    """Draw the columns of education and work of one block; arrays of shape (n_people,)."""
    age, at = skeleton.age, skeleton.household
    wealth = GEOGRAPHY.wealth[skeleton.ward[at]]
    uplift = np.clip(wealth + _LEARNED[ethnic], 0, 2)
    education = _EDUCATION.draw(rng, row_number((uplift, 3), (age, N_AGES)))
    activity = _activities(rng, skeleton, education)
    works = activity <= Activity.WORKING_STUDENT
    worked = works | ((activity == Activity.UNEMPLOYED) & chance(rng, 0.75, len(age)))
    status = np.where(works, activity, 0)
    rows = row_number((education, 8), (skeleton.sex, 2), (np.digitize(age, _BANDS), 4), (status, 4))
    occupation = _OCCUPATION.draw(rng, rows)
    industry = _INDUSTRY.draw(rng, occupation)
    hours = _HOURS.draw(rng, status)
    income = _incomes(rng, skeleton, education, activity, occupation, hours)
    adult = age >= WORKING_AGE
    return {
        "education": np.where(adult, education, MISSING),
        "activity": np.where(adult, activity, MISSING),
        "occupation": np.where(adult & worked, occupation, MISSING),
        "industry": np.where(adult & worked, industry, MISSING),
        "hours": np.where(adult & works, hours, MISSING),
        "income": np.where(adult, income, MISSING),
        "travel_km": np.where(adult & works, _travel(rng, skeleton, activity), np.nan),
    }


def _activities(rng: np.random.Generator, skeleton: Skeleton, education: Int64Array) -> Int64Array:
    """Activity given age, sex, education and small children; halls are for students."""
    age, at, relation = skeleton.age, skeleton.household, skeleton.relation
    small = (relation == Relation.CHILD) & (age < 5)
    has_infant = np.bincount(at[small], minlength=len(skeleton.kind)) > 0
    mother = has_infant[at] & (relation == Relation.REFERENCE) & (skeleton.sex == FEMALE)
    level = _LEVEL[education]
    rows = row_number((skeleton.sex, 2), (level, 3), (mother.astype(np.int64), 2), (age, N_AGES))
    activity = _ACTIVITY.draw(rng, rows)
    in_halls = skeleton.setting[at] == HALLS
    student = np.where(chance(rng, 0.25, len(age)), Activity.WORKING_STUDENT, Activity.STUDENT)
    return np.where(in_halls, student, activity).astype(np.int64)


def _incomes(
    rng: np.random.Generator,
    skeleton: Skeleton,
    education: Int64Array,
    activity: Int64Array,
    occupation: Int64Array,
    hours: Int64Array,
) -> Int64Array:
    """Yearly income, rounded to 10: wages, profits and losses, pensions and benefits."""
    age, n = skeleton.age, len(activity)
    noise = np.exp(_SPREAD[activity] * rng.standard_normal(n))
    wage = _PAY[occupation] * (hours / 38.0) * _PAY_BY_AGE[age] * noise
    wage *= np.where(skeleton.sex == FEMALE, 0.93, 1.0) * (0.94 + 0.04 * _LEVEL[education])
    other = np.exp(_LOG_MEDIAN[activity] + 0.15 * _LEVEL[education]) * noise
    other[chance(rng, _ZERO_SHARE[activity], n)] = 0
    other += np.where((activity == Activity.RETIRED) & (age >= _PENSION_AGE), _STATE_PENSION, 0)
    own = activity == Activity.SELF_EMPLOYED
    profit = np.where(chance(rng, 0.03, n), 0.0, 0.75 * wage)
    profit = np.where(chance(rng, 0.05, n), -0.08 * wage * noise, profit)
    income = np.where(activity <= Activity.WORKING_STUDENT, wage, other)
    income = np.where(own, profit, income)
    rounded = 10 * np.rint(np.clip(income, -150_000, 3_000_000) / 10).astype(np.int64)
    paid = (activity <= Activity.WORKING_STUDENT) & ~own
    return np.where(paid, np.maximum(rounded, 10), rounded)


def _travel(rng: np.random.Generator, skeleton: Skeleton, activity: Int64Array) -> FloatArray:
    """Kilometres to work, to 0.1; 0 for those who work at home."""
    n = len(activity)
    rural = GEOGRAPHY.character[skeleton.ward[skeleton.household]]
    distance = np.exp(1.6 + 0.2 * rural + 0.9 * rng.standard_normal(n))
    at_home = uniform(rng, n) < np.where(activity == Activity.SELF_EMPLOYED, 0.35, 0.13)
    return np.where(at_home, 0.0, np.round(np.clip(distance, 0.1, 400.0), 1))
