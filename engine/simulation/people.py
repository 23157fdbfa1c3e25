"""People of the simulated census: one block of records, as codes, from a seeded generator.

Takes a generator and a number of people; gives all columns of the block except the identifiers, in household order.
First come the households: who lives together, and how old they are. On top of that are drawn marital status, origins
and arrival; education and work; health, care, tenure and rent. Each step is a draw from a conditional table: education
given age and area, activity given age, sex and education, occupation given all of those, and so on.

Invariants: coded columns hold positions in the lists of `codes`; `MISSING` marks null in any column; what `rules` calls
impossible has weight 0 in the tables of this file. Partners are adults; children are at least 15 years younger than
each parent in the household; the members of a household are adjacent, reference person first, then partner, children
and parent. Tenure and rent are the same for each member of a household, and null in establishments.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from engine.schema import BoolArray, FloatArray, Int64Array
from engine.simulation.codes import (
    ETHNIC_GROUPS,
    ETHNIC_SHARES,
    FEMALE,
    GEOGRAPHY,
    INDUSTRIES,
    INDUSTRY_SHARES,
    MALE,
    MAX_HOURS,
    MIXED_GROUPS,
    OCCUPATIONS,
    REFERENCE_DATE,
    Activity,
    Kind,
    Relation,
    birth_country_weights,
)
from engine.simulation.draw import (
    MAX_AGE,
    N_AGES,
    DrawTable,
    chance,
    curve,
    draw_table,
    row_number,
    uniform,
    window,
)

Columns = dict[str, NDArray[Any]]
MISSING = -(2**31)
"""Stands for null in every column of a block until the file is written."""

PARENT_GAP = 15
"""Least age difference of parent and child in years."""
ADULT = 18
PRIVATE, CARE, HALLS, OTHER_SETTING = 0, 1, 2, 3
"""Settings: a private household, or a kind of establishment."""
_LARGEST = 60

# Rows: character of the ward (young and urban .. old and rural); columns: `Kind`.
_KINDS = draw_table(
    [
        [33.0, 20, 19, 11, 1.2, 15.0, 0.12],
        [29.0, 25, 28, 12, 2.0, 4.0, 0.05],
        [30.0, 27, 26, 11, 1.5, 3.5, 0.06],
        [31.0, 33, 23, 8.5, 1.0, 2.5, 0.07],
    ]
)
_REFERENCE_AGES: tuple[dict[int, float], ...] = (
    {18: 0.2, 25: 1, 35: 1.05, 50: 1.25, 60: 1.6, 70: 1.75, 80: 1.6, 88: 0.9, 95: 0.2, 105: 0.001},
    {18: 0.05, 24: 0.7, 30: 1.1, 38: 0.5, 48: 0.9, 58: 1.9, 66: 2, 76: 1.6, 86: 0.45, 96: 0.02},
    {18: 0.02, 24: 0.25, 32: 1.4, 40: 1.9, 48: 1.6, 56: 0.9, 64: 0.3, 76: 0.03},
    {18: 0.06, 24: 0.5, 32: 1, 42: 1.3, 50: 1.2, 60: 0.5, 75: 0.25, 90: 0.05},
    {28: 0.3, 36: 1, 44: 1.2, 52: 0.7, 62: 0.1},
    {18: 0.8, 20: 2.5, 24: 3, 30: 1.8, 40: 0.8, 60: 0.4, 80: 0.1},
    {18: 1},
)
_SHIFTS = (-0.022, 0.0, 0.002, 0.012)
_AGES = np.arange(N_AGES)
_FIRST_AGE = draw_table(
    np.array(
        [
            [window(knots) * np.exp(shift * (_AGES - 45)) for knots in _REFERENCE_AGES]
            for shift in _SHIFTS
        ]
    )
)
_SETTINGS = draw_table([0.0, 5, 4, 2])
_SETTING_AGE = draw_table(
    [
        curve({18: 1}),
        window({65: 0.1, 75: 0.6, 84: 2, 92: 1.6, 105: 0.05}),
        window({18: 2, 19: 3, 21: 1.5, 25: 0.2}),
        window({18: 0.5, 25: 1.5, 40: 1, 60: 0.3, 75: 0.02}),
    ]
)
_FEMALE_IN_SETTING = np.array([0.5, 0.7, 0.54, 0.12])
_CHILDREN = draw_table([[0.0, 45.0, 40.0, 11.0, 3.0, 1.0], [0.0, 56.0, 31.0, 10.0, 2.5, 0.5]])
_FLATMATES = draw_table([0, 55, 24, 12, 6, 3])
_BIRTH_AGE = window({15: 0.02, 19: 0.35, 25: 1.1, 30: 1.55, 34: 1.35, 39: 0.5, 43: 0.1, 46: 0.01})


def _child_ages() -> DrawTable:
    """Ages of children at home given the parent's age: born at the usual ages, and not yet left."""
    stays = curve({17: 1, 19: 0.82, 22: 0.6, 25: 0.42, 29: 0.2, 35: 0.07, 45: 0.04, 65: 0.03})
    weights = np.zeros((N_AGES, N_AGES))
    for parent in range(ADULT, N_AGES):
        child = np.arange(parent - PARENT_GAP + 1)
        weights[parent, child] = _BIRTH_AGE[parent - child] * stays[child]
    weights[:ADULT, 0] = 1.0  # there are no such parents, but rows must be valid
    return draw_table(weights)


_CHILD_AGE = _child_ages()
_GENERATION = draw_table(_BIRTH_AGE)


@dataclass(frozen=True, kw_only=True, slots=True)
class Skeleton:
    """Who lives with whom in one block."""

    start: Int64Array  # shape (n_households,): Position of each household's reference person
    # kind, setting, ward, same_sex: shape (n_households,): Position in `HOUSEHOLD_TYPES`, setting, position
    # in the wards, is a same-sex couple.
    kind: Int64Array
    setting: Int64Array
    ward: Int64Array
    same_sex: BoolArray
    household: Int64Array  # shape (n_people,): Position of each person's household in the block
    # relation, sex, age, birth_day: shape (n_people,): `birth_day` counts days since 1970-01-01 and agrees
    # with `age`.
    relation: Int64Array
    sex: Int64Array
    age: Int64Array
    birth_day: Int64Array


def draw_skeleton(rng: np.random.Generator, people: int) -> Skeleton:
    """Draw households of exactly this many people; the last few may become one-person households."""
    ward, kind, setting, size, children = _draw_households(rng, people)
    household = np.repeat(np.arange(len(size)), size)
    start = np.cumsum(size) - size
    place = np.arange(people) - start[household]
    relation = _relations(kind[household], place, size[household])
    same_sex = (kind == Kind.COUPLE) & chance(rng, 0.02, len(kind))
    sex = _sexes(rng, kind, setting, same_sex, household, relation)
    age = _ages(rng, kind, setting, ward, children, household, relation)
    return Skeleton(
        start=start,
        kind=kind,
        setting=setting,
        ward=ward,
        same_sex=same_sex,
        household=household,
        relation=relation,
        sex=sex,
        age=age,
        birth_day=_birth_days(rng, age),
    )


def _draw_households(
    rng: np.random.Generator, people: int
) -> tuple[Int64Array, Int64Array, Int64Array, Int64Array, Int64Array]:
    """Ward, kind, setting, size and number of children of as many households as hold the people."""
    n = people  # always enough: no household is empty
    ward = draw_table(GEOGRAPHY.weight).draw(rng, np.zeros(n, dtype=np.int64))
    kind = _KINDS.draw(rng, GEOGRAPHY.character[ward])
    zeros = np.zeros(n, dtype=np.int64)
    children = _CHILDREN.draw(rng, (kind == Kind.LONE).astype(np.int64))
    children[~np.isin(kind, (Kind.FAMILY, Kind.LONE, Kind.EXTENDED))] = 0
    setting = np.where(kind == Kind.ESTABLISHMENT, _SETTINGS.draw(rng, zeros), PRIVATE)
    extra = np.array([0, 1, 1, 0, 2, 0, 0])[kind] + children
    extra += np.where(kind == Kind.SHARED, _FLATMATES.draw(rng, zeros), 0)
    residents = np.minimum(4 + rng.geometric(1 / 30, size=n), _LARGEST - 1)
    size = 1 + np.where(kind == Kind.ESTABLISHMENT, residents, extra)
    total = np.cumsum(size)
    n_whole = int(np.searchsorted(total, people, side="right"))
    n_single = people - (int(total[n_whole - 1]) if n_whole else 0)
    whole = slice(0, n_whole + n_single)
    for array, single in ((kind, Kind.ONE), (setting, PRIVATE), (size, 1), (children, 0)):
        array[n_whole:] = single
    return ward[whole], kind[whole], setting[whole], size[whole], children[whole]


def _relations(kind: Int64Array, place: Int64Array, size: Int64Array) -> Int64Array:
    """Relation of each person, from the kind and size of the household and the place within it."""
    couple = np.isin(kind, (Kind.COUPLE, Kind.FAMILY, Kind.EXTENDED))
    return np.select(
        [
            kind == Kind.ESTABLISHMENT,
            place == 0,
            kind == Kind.SHARED,
            couple & (place == 1),
            (kind == Kind.EXTENDED) & (place == size - 1),
        ],
        [
            Relation.RESIDENT,
            Relation.REFERENCE,
            Relation.UNRELATED,
            Relation.PARTNER,
            Relation.PARENT,
        ],
        Relation.CHILD,
    ).astype(np.int64)


def _sexes(
    rng: np.random.Generator,
    kind: Int64Array,
    setting: Int64Array,
    same_sex: BoolArray,
    household: Int64Array,
    relation: Int64Array,
) -> Int64Array:
    """Sex of each person; in a couple the reference person is the woman, where there is one."""
    female_first = np.array([0.52, 1.0, 1.0, 0.87, 1.0, 0.48, 0.5])[kind]
    female_first[same_sex] = 0.5
    n = len(household)
    is_female = chance(rng, 0.49, n)
    first = np.flatnonzero(np.append(True, household[1:] != household[:-1]))
    is_female[first] = chance(rng, female_first, len(first))
    partner = np.flatnonzero(relation == Relation.PARTNER)
    is_female[partner] = is_female[first[household[partner]]] & same_sex[household[partner]]
    parent = relation == Relation.PARENT
    is_female[parent] = chance(rng, 0.68, int(parent.sum()))
    resident = relation == Relation.RESIDENT
    share = _FEMALE_IN_SETTING[setting[household[resident]]]
    is_female[resident] = chance(rng, share, len(share))
    return np.where(is_female, FEMALE, MALE).astype(np.int64)


def _ages(
    rng: np.random.Generator,
    kind: Int64Array,
    setting: Int64Array,
    ward: Int64Array,
    children: Int64Array,
    household: Int64Array,
    relation: Int64Array,
) -> Int64Array:
    """Age of each person: the reference person's, and from it all others'."""
    first = _FIRST_AGE.draw(rng, row_number((GEOGRAPHY.character[ward], 4), (kind, len(Kind))))
    age = first[household]
    child = np.flatnonzero(relation == Relation.CHILD)
    age[child] = _CHILD_AGE.draw(rng, first[household[child]])
    oldest = np.zeros(len(kind), dtype=np.int64)
    with_children = np.flatnonzero(children)
    if len(child):
        runs = np.cumsum(children[with_children]) - children[with_children]
        oldest[with_children] = np.maximum.reduceat(age[child], runs)
    partner = np.flatnonzero(relation == Relation.PARTNER)
    at = household[partner]
    gap = np.rint(2 + 3.8 * rng.standard_normal(len(at))).astype(np.int64)
    least = np.where(children[at] > 0, oldest[at] + PARENT_GAP + rng.integers(0, 8, len(at)), ADULT)
    age[partner] = np.clip(first[at] + gap, np.maximum(least, ADULT), MAX_AGE - 1)
    parent = np.flatnonzero(relation == Relation.PARENT)
    born = _GENERATION.draw(rng, np.zeros(len(parent), dtype=np.int64))
    age[parent] = np.minimum(first[household[parent]] + born, MAX_AGE)
    mate = np.flatnonzero(relation == Relation.UNRELATED)
    near = np.rint(5 * rng.standard_normal(len(mate))).astype(np.int64)
    age[mate] = np.clip(first[household[mate]] + near, ADULT, 90)
    resident = np.flatnonzero(relation == Relation.RESIDENT)
    age[resident] = _SETTING_AGE.draw(rng, setting[household[resident]])
    return age


_BIRTHDAYS = np.array(
    [REFERENCE_DATE.replace(year=REFERENCE_DATE.year - a) for a in range(N_AGES + 1)],
    dtype="datetime64[D]",
).astype(np.int64)


def _birth_days(rng: np.random.Generator, age: Int64Array) -> Int64Array:
    """A day of birth for each age, exact to the calendar."""
    latest, before = _BIRTHDAYS[age], _BIRTHDAYS[age + 1]
    return latest - (uniform(rng, len(age)) * (latest - before)).astype(np.int64)


WORKING_AGE = 16

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
"""Lower ends of the second, third and fourth age band of the occupation tables."""
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


_SOCIAL_RENTED, _PRIVATE_RENTED = 2, 3
CARE_AGE = 5
"""From this age on, people are asked whether they are carers."""

_HEALTH_CURVES = np.stack(
    [
        curve({0: 0.8, 20: 0.62, 40: 0.52, 60: 0.35, 75: 0.2, 90: 0.1}),
        curve({0: 0.15, 20: 0.28, 40: 0.34, 60: 0.38, 75: 0.4, 90: 0.3}),
        curve({0: 0.04, 40: 0.1, 60: 0.19, 75: 0.29, 90: 0.38}),
        curve({0: 0.006, 40: 0.03, 60: 0.06, 75: 0.09, 90: 0.17}),
        curve({0: 0.002, 40: 0.008, 60: 0.017, 75: 0.025, 90: 0.05}),
    ]
)
# Rows: well placed, others, little education or deprived, long-term sick.
_HEALTH_TIERS = np.array(
    [[1.2, 1, 0.75, 0.55, 0.5], [1] * 5, [0.75, 1, 1.35, 1.6, 1.6], [0.06, 0.25, 1.5, 8, 11]]
)
_HEALTH = draw_table(_HEALTH_TIERS[:, None, :] * _HEALTH_CURVES.T)
_DISABILITY = draw_table(
    [
        [0.004, 0.03, 0.97],
        [0.012, 0.09, 0.9],
        [0.12, 0.4, 0.48],
        [0.5, 0.38, 0.12],
        [0.8, 0.15, 0.05],
    ]
)
_CARER = curve({5: 0.01, 15: 0.03, 25: 0.05, 40: 0.09, 55: 0.18, 65: 0.15, 80: 0.11, 95: 0.03})
_TENURE_CURVES = np.stack(
    [
        curve({18: 0.02, 30: 0.05, 45: 0.15, 55: 0.35, 65: 0.65, 75: 0.76, 95: 0.72}),
        curve({18: 0.04, 25: 0.18, 35: 0.46, 45: 0.47, 55: 0.32, 65: 0.1, 75: 0.03, 95: 0.01}),
        curve({18: 0.12, 30: 0.17, 60: 0.17, 95: 0.2}),
        curve({18: 0.7, 25: 0.5, 35: 0.27, 50: 0.15, 65: 0.07, 95: 0.05}),
        curve({18: 0.02, 30: 0.008, 70: 0.01, 95: 0.02}),
    ]
)
_INCOME_STEPS = (14_000, 30_000, 58_000)
_BY_INCOME = np.array(
    [
        [0.8, 0.2, 1.9, 1.3, 1.5],
        [1, 0.7, 1.3, 1.1, 1],
        [1.1, 1.3, 0.55, 0.9, 1],
        [1.2, 2, 0.1, 0.7, 0.6],
    ]
)
# Rows: shared, lone parent, all others.
_BY_TYPE = np.array([[0.3, 0.3, 0.5, 4, 1], [0.6, 0.7, 2.6, 1.4, 1], [1] * 5])
_TYPE_ROW = np.array([2, 2, 2, 1, 2, 0, 2])
_TENURE = draw_table(
    _BY_INCOME[:, None, None, :] * _BY_TYPE[:, None, :] * _TENURE_CURVES.T,
)
_REGION_RENT = np.array([0.8, 0.9, 0.85, 0.95, 1.05, 1.7, 1.25, 1.0, 0.8])


def draw_living(rng: np.random.Generator, skeleton: Skeleton, columns: Columns) -> Columns:
    """Draw health, disability, carer, tenure and rent of one block; arrays of shape (n_people,)."""
    age, at = skeleton.age, skeleton.household
    n = len(age)
    health = _HEALTH.draw(rng, row_number((_health_tier(skeleton, columns), 4), (age, N_AGES)))
    cares = chance(rng, _CARER[age] * np.where(skeleton.sex == FEMALE, 1.2, 0.8), n)
    tenure, rent = _homes(rng, skeleton, columns["income"])
    return {
        "health": health,
        "disability": _DISABILITY.draw(rng, health),
        "carer": np.where(age >= CARE_AGE, cares, MISSING),
        "tenure": tenure[at],
        "rent_weekly": rent[at],
    }


def _health_tier(skeleton: Skeleton, columns: Columns) -> Int64Array:
    wealth = GEOGRAPHY.wealth[skeleton.ward[skeleton.household]]
    education, activity = columns["education"], columns["activity"]
    unschooled = (education == 0) & (skeleton.age < 75)
    tier = np.clip(2 - wealth + unschooled - (education >= 5), 0, 2)
    return np.where(activity == Activity.SICK, 3, tier).astype(np.int64)


def _homes(
    rng: np.random.Generator, skeleton: Skeleton, income: Int64Array
) -> tuple[Int64Array, Int64Array]:
    """Tenure and weekly rent in pence of each household; int64, shape (n_households,)."""
    n = len(skeleton.kind)
    total = np.bincount(skeleton.household, weights=np.maximum(income, 0), minlength=n)
    rows = row_number(
        (np.digitize(total, _INCOME_STEPS), 4),
        (_TYPE_ROW[skeleton.kind], 3),
        (skeleton.age[skeleton.start], N_AGES),
    )
    tenure = _TENURE.draw(rng, rows)
    tenure[skeleton.kind == Kind.ESTABLISHMENT] = MISSING
    size = np.bincount(skeleton.household, minlength=n)
    place = _REGION_RENT[GEOGRAPHY.region_of[skeleton.ward]]
    base = np.where(tenure == _SOCIAL_RENTED, 84.0, 128.0 * place) * (
        1 + 0.1 * np.minimum(size - 1, 6)
    )
    pence = np.rint(100 * base * np.exp(0.27 * rng.standard_normal(n))).astype(np.int64)
    round_rent = (tenure == _PRIVATE_RENTED) & chance(rng, 0.6, n)
    pence = np.where(round_rent, np.maximum(pence // 500, 3) * 500, pence)
    return tenure, np.where(
        (tenure == _SOCIAL_RENTED) | (tenure == _PRIVATE_RENTED), pence, MISSING
    )


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
# How often a member's ethnic group is drawn independently, by relation; otherwise it is the reference person's.
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

    Returns: All published columns except the identifiers, `rent_weekly` in pence and `arrival_date` in days since
    1970-01-01; and two working columns: `birth_day`, also in days, and `household_place`, the position in the block of
    the first member of each person's household.
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
    """Couples are married, in a civil partnership or neither, together; others by age and sex."""
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
    """Groups depend on ward and household; children of mixed couples are often mixed."""
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
