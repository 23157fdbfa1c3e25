"""Health, disability, care, tenure and rent of the simulated census.

Takes the skeleton of a block and its columns of work; gives what depends on them: health on age,
activity and education, tenure on the household's income and the reference person's age, rent on
tenure and region.

Invariant: tenure and rent are the household's, the same for each member, null in establishments;
rent is null unless the tenure is renting.
"""

from __future__ import annotations

import numpy as np

from engine.schema import Int64Array
from engine.simulation.codes import FEMALE, GEOGRAPHY, Activity, Kind
from engine.simulation.draw import N_AGES, chance, curve, draw_table, row_number
from engine.simulation.households import Skeleton
from engine.simulation.work import MISSING, Columns

SOCIAL, PRIVATE = 2, 3
CARE_AGE = 5
"""From this age on people are asked whether they care for somebody."""

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
    base = np.where(tenure == SOCIAL, 84.0, 128.0 * place) * (1 + 0.1 * np.minimum(size - 1, 6))
    pence = np.rint(100 * base * np.exp(0.27 * rng.standard_normal(n))).astype(np.int64)
    round_rent = (tenure == PRIVATE) & chance(rng, 0.6, n)
    pence = np.where(round_rent, np.maximum(pence // 500, 3) * 500, pence)
    return tenure, np.where((tenure == SOCIAL) | (tenure == PRIVATE), pence, MISSING)
