"""Periods of the calendar and the clock: the grids of dates and times that a spec coarsens.

A period is numbered from the one that holds 1970-01-01 00:00, or midnight; weeks begin on Mondays. Without periods, a
column of dates is on a grid of days, one of timestamps or times of day on a grid of seconds.
"""

from __future__ import annotations

import datetime
from typing import Final

import numpy as np
from numpy.typing import NDArray

DAY: Final = 86_400
SECONDS = {"minute": 60, "hour": 3600, "day": DAY, "week": 7 * DAY}
MONTHS = {"month": 1, "quarter": 3, "year": 12}
LENGTHS = SECONDS | {period: n * 2_629_746 for period, n in MONTHS.items()}
"""Seconds of each, of months on average."""
PERIODS: dict[str, tuple[str, ...]] = {
    "date": ("week", "month", "quarter", "year"),
    "timestamp": (*SECONDS, *MONTHS),
    "time": ("minute", "hour"),
}
"""Those of each kind of column, from the shortest on."""
_MONDAY = {"week": 3 * DAY}
"""1970-01-01 was a Thursday."""


def number_of(seconds: int, period: str) -> int:
    """The number of the period that holds a moment, in seconds since 1970 or midnight."""
    if period in SECONDS:
        return (seconds + _MONDAY.get(period, 0)) // SECONDS[period]
    month = np.datetime64(seconds, "s").astype("datetime64[M]")
    return int(month.astype(np.int64)) // MONTHS[period]


def starts_of(numbers: NDArray[np.int64], period: str) -> NDArray[np.int64]:
    """The first second of each period, since 1970 or midnight."""
    if period in SECONDS:
        return numbers * SECONDS[period] - _MONDAY.get(period, 0)
    months = (numbers * MONTHS[period]).astype("datetime64[M]")
    return months.astype("datetime64[s]").astype(np.int64)


def seconds_of(value: datetime.date | datetime.time) -> int:
    """A date, timestamp or time of day in seconds since 1970 or midnight, cut to whole ones."""
    if isinstance(value, datetime.time):
        return value.hour * 3600 + value.minute * 60 + value.second
    if not isinstance(value, datetime.datetime):
        return (value - datetime.date(1970, 1, 1)).days * DAY
    return (value.replace(tzinfo=None) - datetime.datetime(1970, 1, 1)) // datetime.timedelta(
        seconds=1
    )


def unit(kind: str) -> int:
    """Seconds of one code of a column without periods."""
    return DAY if kind == "date" else 1


def number_sql(code: str, kind: str, period: str) -> str:
    """SQL for the number of the period that holds a code of a column of days or seconds."""
    if period in SECONDS:
        length, shift = SECONDS[period] // unit(kind), _MONDAY.get(period, 0) // unit(kind)
        return f"CAST(floor((({code}) + {shift}) / {length}) AS BIGINT)"
    moment = (
        f"DATE '1970-01-01' + CAST({code} AS INTEGER)"
        if kind == "date"
        else f"make_timestamp(({code}) * 1000000)"
    )
    return f"date_diff('{period}', DATE '1970-01-01', CAST({moment} AS DATE))"


def label_sql(value: str, period: str) -> str:
    """SQL for the name of a period, from its first day or second: 2026-03, 2026 Q1, 2026-W09."""
    form = {
        "minute": "%Y-%m-%d %H:%M",
        "hour": "%Y-%m-%d %H:00",
        "day": "%Y-%m-%d",
        "week": "%G-W%V",
        "month": "%Y-%m",
        "quarter": "%Y",
        "year": "%Y",
    }[period]
    name = f"strftime({value}, '{form}')"
    return f"{name} || ' Q' || quarter({value})" if period == "quarter" else name
