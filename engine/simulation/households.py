"""Households of the simulated census: who lives together, and how old they are.

Takes a generator and a number of people; gives the skeleton of a block: areas, household kinds,
and for each person the household, relation, sex, age and birth day. All else is drawn on top of
it.

Invariant: partners are adults; children are at least 15 years younger than each parent in the
household; the members of a household lie together, reference person first, then partner, children
and parent.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from engine.schema import BoolArray, Int64Array
from engine.simulation.codes import FEMALE, GEOGRAPHY, MALE, REFERENCE_DATE, Kind, Relation
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

PARENT_GAP = 15
"""Years that a parent is older than a child, at least."""
ADULT = 18
PRIVATE, CARE, HALLS, OTHER_SETTING = 0, 1, 2, 3
"""Settings: a private household, or the kind of establishment."""
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
    weights[:ADULT, 0] = 1.0  # no such parents: the rows only have to be valid
    return draw_table(weights)


_CHILD_AGE = _child_ages()
_GENERATION = draw_table(_BIRTH_AGE)


@dataclass(frozen=True, kw_only=True, slots=True)
class Skeleton:
    """Who lives with whom in one block."""

    start: Int64Array  # shape (n_households,): Place of each household's reference person
    # kind, setting, ward, same_sex: shape (n_households,): Position in `HOUSEHOLD_TYPES`, setting, position
    # in the wards, is a same-sex couple.
    kind: Int64Array
    setting: Int64Array
    ward: Int64Array
    same_sex: BoolArray
    household: Int64Array  # shape (n_people,): Place of each person's household in the block
    # relation, sex, age, birth_day: shape (n_people,): `birth_day` counts days since 1970-01-01 and agrees
    # with `age`.
    relation: Int64Array
    sex: Int64Array
    age: Int64Array
    birth_day: Int64Array


def draw_skeleton(rng: np.random.Generator, people: int) -> Skeleton:
    """Draw households of exactly this many people; the last few may be made one-person ones."""
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
    n = people  # always enough: nobody lives in no household
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
