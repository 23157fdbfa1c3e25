"""Bands of a column of many numbers or dates, for default tables: few, with round limits, open at sparse ends.

Takes a column's released values with their counts, and nothing else; returns bands with limits and labels.
"""

from __future__ import annotations

import datetime
import itertools
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal, localcontext
from fractions import Fraction
from typing import Any

from engine.periods import MONTHS
from engine.schema import Column, Resolution
from queries.packs.sources import Sources
from queries.packs.texts import SIGNS, number_text

MOST_VALUES = 20
"""Columns with more values are shown in bands."""
MOST_BANDS = 12
FEWEST_BANDS = 3
"""Fewer say little, and a single one has no limit to name."""
MOST_SINGLE = 62
"""As many values are shown singly where few bands would contain them all: the days of two months."""
_SPARSE_SHARES = (0.01, 0.001, 0.0001, 0)
"""Shares of the rows that may lie beyond the last closed band at either end, tried until enough bands remain."""
_DATED = ("DATE", "TIMESTAMP")
_MONTHS = (1, 3, 12, 24, 60, 120, 240, 600, 1200, 2400, 6000, 12_000)
"""Widths of bands of dates."""
_SECONDS = tuple(60 * m for m in (1, 5, 10, 15, 30, 60, 120, 180, 240, 360, 720))
"""Widths of bands of times."""
_LAST_MONTH = 12 * datetime.MAXYEAR + 11
_PRECISION = 80
"""Digits in which decimals of up to 38 are exact."""
_QUARTER, _YEAR = 3, 12
_GROUPED = 10_000
"""From here on digits are grouped."""
_PLAIN = {**SIGNS, "group sign": ""}


@dataclass(frozen=True, kw_only=True, slots=True)
class Band:
    """A band."""

    # Its limits; of an open band `LT18` or `GE80`, as in SDMX: -18 would be a number.
    code: str
    labels: tuple[str, ...]
    limits: tuple[Any, Any]  # Lowest and highest value, inclusive; None: open at that end

    def contains(self, value: Any) -> bool:
        """Whether a value lies in the band."""
        low, high = self.limits
        return (low is None or low <= value) and (high is None or value <= high)


@dataclass(frozen=True, kw_only=True, slots=True)
class Axis:
    """The scale of a column, in exact numbers: limits computed in floats would miss the values."""

    of_type: Any
    step: (
        Fraction  # Distance between neighbouring values; of dates, one month; of times, one second
    )
    tick: datetime.timedelta  # Distance between neighbouring dates

    @property
    def is_dated(self) -> bool:
        """Whether positions are months since year 0."""
        return issubclass(self.of_type, datetime.date)

    @property
    def is_clock(self) -> bool:
        """Whether positions are seconds since midnight."""
        return self.of_type is datetime.time

    @property
    def widths(self) -> Iterable[Fraction]:
        """Round widths of bands, ascending."""
        if self.is_dated or self.is_clock:
            return map(Fraction, _MONTHS if self.is_dated else _SECONDS)
        lowest = math.floor(math.log10(self.step))
        return (m * Fraction(10) ** k for k in itertools.count(lowest) for m in (1, 2, 5))

    def place(self, value: Any) -> Fraction:
        """Return the position of a value."""
        if self.is_dated:
            return Fraction(value.year * 12 + value.month - 1)
        if self.is_clock:
            return Fraction(3600 * value.hour + 60 * value.minute + value.second)
        exact = Fraction(value)
        return round(exact / self.step) * self.step if self.of_type is float else exact

    def value(self, place: Fraction) -> Any:
        """Return the value at a position, in the column's own type; reals are rounded as released ones are."""
        if self.is_dated:
            year, month = divmod(int(place), 12)
            return self.of_type(min(max(year, 1), datetime.MAXYEAR), month + 1, 1)
        if self.is_clock:
            return (datetime.datetime.min + datetime.timedelta(seconds=int(place))).time()
        if self.of_type is Decimal:
            with localcontext(prec=_PRECISION):
                return (place.numerator / Decimal(place.denominator)).quantize(self._quantum)
        return self.of_type(place)

    def before(self, place: Fraction) -> Any:
        """Return the last value before a position."""
        if self.is_dated:
            is_after_all = place > _LAST_MONTH
            return self.of_type.max if is_after_all else self.value(place) - self.tick
        last = self.value((math.ceil(place / self.step) - 1) * self.step)
        # Where floats are further apart than the steps, neighbours may be rounded to the same one.
        return min(last, math.nextafter(place, -math.inf)) if self.of_type is float else last

    @property
    def _quantum(self) -> Decimal:
        return self.step.numerator / Decimal(self.step.denominator)


def bands_of(name: str, sources: Sources) -> list[Band]:
    """Return the bands of a column; none where it has few values, or values other than numbers and dates."""
    counted = sorted((v, n) for v, _, n in sources.release.values(name) if v is not None)
    described = sources.release.described[name], sources.release.columns[name]
    axis = axis_of(*described, [v for v, _ in counted])
    if axis is None or len(counted) <= MOST_VALUES:
        return []
    width, edges = _cut(axis, counted)
    if len(edges) <= FEWEST_BANDS and len(counted) <= MOST_SINGLE:
        return []
    lowest, highest = axis.place(counted[0][0]), axis.place(counted[-1][0])
    is_last = highest >= edges[-1] or (axis.is_dated and edges[-1] > _LAST_MONTH)
    ends, last = (lowest < edges[0], is_last), len(edges) - 2
    return [
        _band(sources, axis, pair, float(width), (ends[0] and i == 0, ends[1] and i == last))
        for i, pair in enumerate(itertools.pairwise(edges))
    ]


def axis_of(column: Column, sql_type: str, values: Sequence[Any]) -> Axis | None:
    """Return the scale of a column; None where it has no order, or no values."""
    if column.kind in ("category", "text", "boolean") or not values:
        return None
    step, of_type = Fraction(1), type(values[0])
    resolution = column.resolution or Resolution()
    if sql_type in _DATED:
        step = Fraction(MONTHS.get(resolution.period, 1))
    elif column.resolution is not None and not resolution.period:
        step = resolution.step
    elif of_type is Decimal:  # no declared resolution
        step = Fraction(10) ** min(int(v.as_tuple().exponent) for v in values)
    tick = datetime.timedelta(days=1) if sql_type == "DATE" else datetime.timedelta(seconds=1)
    return Axis(of_type=of_type, step=step, tick=tick)


def _cut(axis: Axis, counted: Sequence[tuple[Any, int]]) -> tuple[Fraction, list[Fraction]]:
    """Width of the bands, and their limits.

    Where nearly all rows have one value, the range is widened until other values have bands of their own.
    """
    for share in _SPARSE_SHARES:
        low, high = (axis.place(v) for v in _between(counted, share))
        width = next(
            width
            for width in axis.widths
            if width >= axis.step
            and math.floor(high / width) - math.floor(low / width) < MOST_BANDS
        )
        starts = range(math.floor(low / width), math.floor(high / width) + 2)
        if len(starts) > FEWEST_BANDS:
            break
    return width, [at * width for at in starts]


def _between(counted: Sequence[tuple[Any, int]], share: float) -> tuple[Any, Any]:
    """The values between which all but the sparse ends lie."""
    low, high = counted[0][0], counted[-1][0]
    total, below = sum(max(n, 0) for _, n in counted), 0
    if not share or not total:
        return low, high
    for value, n in counted:
        if below < share * total:
            low = value
        below += max(n, 0)
        if below >= (1 - share) * total:
            high = value
            break
    return low, max(low, high)


def _band(
    sources: Sources,
    axis: Axis,
    edges: tuple[Fraction, Fraction],
    width: float,
    is_open: tuple[bool, bool],
) -> Band:
    """One band, from its start and that of the next one."""
    first, after, last = *(axis.value(edge) for edge in edges), axis.before(edges[1])
    labels, has_dates = [], axis.is_dated or axis.is_clock
    for place in range(len(sources.languages)):
        words = {word: text[place] for word, text in sources.words.items()}
        begins, ends, next_one = (
            _limit_text(value, width, words) for value in (first, last, after)
        )
        if is_open[0]:
            labels.append(words["before" if has_dates else "under"].format(next_one))
        elif is_open[1]:
            labels.append(words["and after" if has_dates else "and over"].format(begins))
        elif has_dates or isinstance(first, int):
            labels.append("–".join(dict.fromkeys((begins, ends))))
        else:
            labels.append(words["to under"].format(begins, next_one))
    begins, ends, next_one = (_limit_text(value, width, _PLAIN) for value in (first, last, after))
    code = "-".join(dict.fromkeys((begins, ends)))
    if is_open[0]:
        code = f"LT{next_one}"
    elif is_open[1]:
        code = f"GE{begins}"
    return Band(
        code=code.replace(":", ""),
        labels=tuple(labels),
        limits=(None if is_open[0] else first, None if is_open[1] else last),
    )


def _limit_text(value: Any, width: float, words: Mapping[str, str]) -> str:
    """A limit of a band for readers: a year where bands are whole years."""
    if isinstance(value, datetime.time):
        return f"{value:%H:%M}"
    if isinstance(value, datetime.date):
        if width >= _YEAR:
            return str(value.year)
        if width == _QUARTER:
            return f"{value.year}Q{(value.month + 2) // 3}"
        return f"{value.year}-{value.month:02}"
    digits = max(0, -math.floor(math.log10(width))) if isinstance(value, float) else 0
    if isinstance(value, Decimal) and value % 1:
        digits = -int(value.as_tuple().exponent)
    is_long = abs(value) >= _GROUPED
    return number_text(float(value), digits, words if is_long else {**words, "group sign": ""})
