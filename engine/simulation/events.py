"""Events of the simulated census: visits to a health service in the year before census day.

Takes one block of people; gives any number of visits for each, heavy-tailed: most people have 0 to 3, a few have
hundreds. Department and reason depend on age, sex and health.

Invariant: no visit is before the person's birth or after census day; a reason belongs to its department.
"""

from __future__ import annotations

import numpy as np

from engine.schema import BoolArray, Int64Array
from engine.simulation.codes import DEPARTMENTS, FEMALE
from engine.simulation.draw import MAX_AGE, N_AGES, chance, draw_table, row_number, uniform, window
from engine.simulation.people import REFERENCE_DAY, Columns

MAX_VISITS = 1_500
"""Most visits of one person in a year."""
_MICROSECONDS = 1_000_000
_VISITS_BY_HEALTH = np.array([0.7, 1.1, 2.2, 4.2, 7.0])
_FREQUENT_SHARE = np.array([2e-5, 5e-5, 4e-4, 3e-3, 9e-3])
_ANY = {0: 1.0, MAX_AGE: 1.0}
# Departments as in `DEPARTMENTS`: weights by age, and the factor for women.
_DEPARTMENT_CURVES = np.stack(
    [
        window({0: 8, 5: 3, 18: 4, 30: 3, 60: 3, 80: 6, MAX_AGE: 8}),
        20 * window(_ANY),
        window({18: 0.1, 40: 1, 60: 4, 75: 7, MAX_AGE: 8}),
        window({0: 0.3, 10: 1.5, 30: 1.5, 60: 4, 80: 6, MAX_AGE: 6}),
        window({16: 0.5, 20: 4, 30: 9, 38: 4, 46: 0.2, 50: 0.02}),
        window({0: 18, 5: 8, 12: 5, 17: 2}),
        window({8: 0.3, 16: 3, 30: 3, 60: 2, MAX_AGE: 1}),
        window({2: 3, 12: 6, 40: 5, 80: 2, MAX_AGE: 1}),
        window({3: 1, 40: 1, 60: 3, 80: 6, MAX_AGE: 6}),
        window({0: 1, 16: 2, 40: 1.5, MAX_AGE: 1}),
        window({0: 0.05, 30: 0.3, 55: 2, 75: 4, MAX_AGE: 2}),
        window({0: 0.05, 30: 0.3, 60: 1, 80: 1.5, MAX_AGE: 1}),
    ]
)
_FOR_WOMEN = np.array([0.9, 1.15, 0.7, 1, 1, 0.9, 1.2, 1.1, 1, 1.1, 1.1, 0.9])
_FOR_MEN = np.where(np.arange(len(DEPARTMENTS)) == 4, 0.0, 1.0)
_DEPARTMENT = draw_table(np.stack([_FOR_WOMEN, _FOR_MEN])[:, None, :] * _DEPARTMENT_CURVES.T)
_REASON = draw_table([[44, 27, 16, 9, 4], [70, 18, 8, 3, 1]])
_SKEWED_REASONS = np.arange(len(DEPARTMENTS)) % 2
# The frequent visitors come for dialysis, therapy or dressing: one department each.
_FREQUENT_DEPARTMENT = draw_table([0.0, 2, 0, 0, 0, 0, 3, 0, 0, 0, 2, 5])
_LOG_AMOUNT = np.log([180, 42, 260, 210, 320, 95, 110, 68, 88, 76, 640, 390])
_MINUTES = draw_table(
    [np.interp(np.arange(1440), [0, 480, 660, 840, 1080, 1439], [3, 5, 7, 7, 7, 4]),
     np.interp(np.arange(1440), [0, 479, 480, 600, 720, 900, 1079, 1080], [0, 0, 5, 9, 4, 8, 3, 0])]
)  # fmt: skip


def draw_events(rng: np.random.Generator, columns: Columns) -> Columns:
    """Draw the visits of one block of people, in order of time.

    Returns: `amount` in pence, `visit_date` in days and `visit_at` in microseconds since 1970-01-01.
    """
    visits, frequent = _numbers_of_visits(rng, columns)
    who = np.repeat(np.arange(len(visits)), visits)
    n = len(who)
    rows = row_number((columns["sex"][who], 2), (columns["age"][who], N_AGES))
    department = _DEPARTMENT.draw(rng, rows)
    usual = _FREQUENT_DEPARTMENT.draw(rng, np.zeros(len(visits), dtype=np.int64))
    often = frequent[who] & (columns["age"][who] >= 16)
    department = np.where(often, usual[who], department)
    reason = 5 * department + _REASON.draw(rng, _SKEWED_REASONS[department])
    day = _days(rng, columns["birth_day"][who])
    minute = _MINUTES.draw(rng, (department > 0).astype(np.int64))
    second = 60 * minute + rng.integers(0, 60, n)
    visit_at = (day * 86_400 + second) * _MICROSECONDS
    order = np.argsort(visit_at, kind="stable")
    events: Columns = {
        "person_id": columns["person_id"][who],
        "visit_date": day,
        "visit_at": visit_at,
        "department": department,
        "reason": reason,
        "amount": _amounts(rng, department),
    }
    return {name: values[order] for name, values in events.items()}


def _numbers_of_visits(rng: np.random.Generator, columns: Columns) -> tuple[Int64Array, BoolArray]:
    """Visits of each person, and who is a frequent visitor."""
    health, age = columns["health"], columns["age"]
    n = len(health)
    mean = _VISITS_BY_HEALTH[health] * np.where((age < 2) | (age > 75), 1.6, 1.0)
    mean = mean * np.where(columns["sex"] == FEMALE, 1.1, 0.9)
    visits = rng.poisson(mean * rng.standard_gamma(0.8, n) / 0.8)
    frequent = chance(rng, _FREQUENT_SHARE[health], n)
    heavy = 100 + (60 * rng.pareto(1.5, n)).astype(np.int64)
    visits = np.where(frequent, np.minimum(heavy, MAX_VISITS), visits)
    return visits.astype(np.int64), frequent


def _days(rng: np.random.Generator, born: Int64Array) -> Int64Array:
    """Days of visits in the last year, most of them moved off weekends."""
    n = len(born)
    span = np.minimum(365, REFERENCE_DAY - born + 1)
    day = REFERENCE_DAY - (uniform(rng, n) * span).astype(np.int64)
    after_friday = np.maximum((day + 3) % 7 - 4, 0)  # 1970-01-01 was a Thursday
    is_moved = (after_friday > 0) & chance(rng, 0.8, n)
    moved = np.where(is_moved, day - after_friday - rng.integers(0, 5, n), day)
    return np.where(moved >= born, moved, day)


def _amounts(rng: np.random.Generator, department: Int64Array) -> Int64Array:
    """Amounts in pence: skewed, some zero, a few refunds below 0."""
    n = len(department)
    pence = np.rint(100 * np.exp(_LOG_AMOUNT[department] + 0.8 * rng.standard_normal(n)))
    pence = np.clip(pence, 1, 99_999_999).astype(np.int64)
    kind = uniform(rng, n)
    return np.where(kind < 0.06, 0, np.where(kind < 0.08, -pence, pence))
