"""Variables of a release with their labels, released values, and bands.

In links and JSON, values are text keys: a blank is `~`, and a text that starts with `~` gets another one.
"""

from __future__ import annotations

import datetime
import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any, Literal

from engine.errors import NotAnswerable, QueryRefused
from engine.periods import MONTHS
from engine.schema import Column
from queries.release import Release
from queries.sql import near_names

BLANK = "~"
BLANK_LABEL = "(blank)"
_OUTSIDE = {True: "does not apply", False: "does not apply, or blank"}
"""Label of a blank outside a universe, by whether it has no other meaning."""
_FEWEST_BANDS, _MOST_BANDS, _MOST_WIDTHS = 4, 40, 4
_FEWEST_YEARS = 2
MOST_PERIODS = 120
"""Most months, quarters or years in one table."""
PERIODS = {"month": 1, "quarter": 3, "year": 12}
"""Bands of the calendar, in months; years where they are too many for bands of one."""
Width = int | Literal["month", "quarter", "year"]
Band = tuple[str, str, Any, Any]
"""Key, label, lowest and highest value (both included)."""
_DATED = ("DATE", "TIMESTAMP")
_MINUTES = (1, 5, 10, 15, 30, 60, 120, 180, 240, 360, 720)
"""Widths of bands of times."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Value:
    """A released value: key, value, label, and fitted number of rows."""

    key: str
    value: Any
    label: str
    n: int


@dataclass(frozen=True, kw_only=True, slots=True)
class Variable:
    """A column for tables and filters."""

    name: str
    label: str
    sql_type: str
    step: Any  # Distance between neighbouring values; None: categorical, without ranges
    values: tuple[Value, ...]  # Released values in order, including the blank
    is_weight: bool = False  # It holds survey weights
    period: str = ""  # Dates and times: the period that each value begins, such as "month"
    by_key: Mapping[str, Value] = field(init=False, repr=False, compare=False)  # Values by key
    # Values without the blank.
    known: tuple[Any, ...] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "by_key", {v.key: v for v in self.values})
        known = tuple(v.value for v in self.values if v.value is not None)
        object.__setattr__(self, "known", known)

    @property
    def is_numeric(self) -> bool:
        """Whether means and sums make sense."""
        return self.step is not None and not (self.is_dated or self.is_clock)

    @property
    def blank_label(self) -> str | None:
        """Label of the blank; None if there is no blank."""
        return self.by_key[BLANK].label if BLANK in self.by_key else None

    @property
    def widths(self) -> tuple[int, ...]:
        """Suggested band widths; years for dates, minutes for times."""
        if self.step is None or len(self.known) < 2 * _FEWEST_BANDS:
            return ()
        low, high = _number(self.known[0]), _number(self.known[-1])
        steps = _MINUTES if self.is_clock else [m * 10**k for k in range(13) for m in (1, 2, 5)]
        fewest = _FEWEST_YEARS if self.is_dated else _FEWEST_BANDS
        fit = [w for w in steps if fewest <= _n_bands(low, high, w) <= _MOST_BANDS]
        return tuple(w for w in fit if not self.is_numeric or w > self.step)[:_MOST_WIDTHS]

    @property
    def is_dated(self) -> bool:
        """Whether its values are dates or timestamps."""
        return self.sql_type in _DATED

    @property
    def is_clock(self) -> bool:
        """Whether its values are times of day."""
        return self.sql_type == "TIME"

    @property
    def periods(self) -> dict[str, int]:
        """Number of months, quarters and years; left out if one covers everything, and years that are bands anyhow."""
        if not self.is_dated or not self.known:
            return {}
        months = _months(self.known[-1]) - _months(self.known[0]) + 1
        least = MONTHS.get(self.period, 0)
        return {
            name: math.ceil(months / n)
            for name, n in PERIODS.items()
            if months > n >= least and not (name == "year" and 1 in self.widths)
        }


def variables_of(release: Release) -> dict[str, Variable]:
    """Return the variables of a release in source order."""
    out = {}
    for name, column in release.described.items():
        released, universe = release.values(name), column.universe
        has_own = universe is not None and universe.outside is None
        blank = _OUTSIDE[universe.complete] if universe is not None and has_own else BLANK_LABEL
        labels = _distinct_labels([(v, _label(v, text, blank)) for v, text, _ in released])
        values = tuple(
            Value(key=key_of(v), value=v, label=text, n=int(n or 0))
            for (v, _, n), text in zip(released, labels, strict=True)
        )
        out[name] = Variable(
            name=name,
            label=release.labels[name],
            sql_type=release.columns[name],
            step=_step(column, release.columns[name]),
            period=column.resolution.period if column.resolution else "",
            values=values,
            is_weight=name == release.weight,
        )
    return out


def variable_of(variables: Mapping[str, Variable], name: str) -> Variable:
    """Return a variable by name."""
    if name not in variables:
        near = ", ".join(near_names(name, tuple(variables))) or "none"
        raise NotAnswerable(
            f"The release has no column {name!r}. Nearest: {near}.", missing=(name,)
        )
    return variables[name]


def values_of(variable: Variable, keys: Iterable[str]) -> list[Any]:
    """Return released values by their keys."""
    out = []
    for key in keys:
        if key not in variable.by_key:
            near = near_names(key, tuple(variable.by_key)[:5000]) or list(variable.by_key)[:5]
            raise QueryRefused(
                f"{variable.name} has no released value {key!r}. Nearest: {', '.join(near)}."
            )
        out.append(variable.by_key[key].value)
    return out


def bound_of(variable: Variable, text: str, *, is_high: bool) -> Any:
    """Return one end of a range from its text; empty: the lowest or highest released value."""
    if variable.step is None or not variable.known:
        raise QueryRefused(f"{variable.name} is categorical: select values instead of a range")
    if text == "":
        return variable.known[-1 if is_high else 0]
    try:
        of_type = type(variable.known[0])
        return of_type(_finite(text)) if variable.is_numeric else of_type.fromisoformat(text)
    except (ValueError, ArithmeticError):
        raise QueryRefused(
            f"{text!r} is not a valid {variable.sql_type} for {variable.name}; example: {key_of(variable.known[0])}"
        ) from None


def bands_of(variable: Variable, width: Width, ends: tuple[str, str] | None = None) -> list[Band]:
    """Return the bands of a variable; for periods of the calendar, those in a range."""
    if isinstance(width, str):
        return _periods(variable, width, ends)
    if not variable.widths:
        raise QueryRefused(f"{variable.name} cannot be put in bands; use single values")
    low, high = _number(variable.known[0]), _number(variable.known[-1])
    if width < 1 or _n_bands(low, high, width) > _MOST_BANDS:
        offered = ", ".join(map(str, variable.widths))
        raise QueryRefused(
            f"A band width of {width} gives more than {_MOST_BANDS} bands of {variable.name}; try {offered}"
        )
    starts = range(math.floor(low / width) * width, math.floor(high / width) * width + 1, width)
    return [_band(variable, start, width) for start in starts]


def _periods(variable: Variable, name: str, ends: tuple[str, str] | None) -> list[Band]:
    """Months, quarters or years in a range; those at its ends are complete."""
    if not variable.is_dated or not variable.known:
        raise QueryRefused(f"{variable.name} has no {name}s: it is not a date column")
    of_type, long = type(variable.known[0]), PERIODS[name]
    limits = [bound_of(variable, t, is_high=bool(i)) for i, t in enumerate(ends or ("", ""))]
    low = max(variable.known[0], limits[0])
    high = min(variable.known[-1], limits[1])
    months = range(_months(low) // long * long, _months(high) + 1, long)
    if len(months) > MOST_PERIODS:
        raise QueryRefused(
            f"{variable.name} covers {len(months):,} {name}s, the limit is {MOST_PERIODS}; select a shorter "
            f"range with from.{variable.name} and to.{variable.name}"
        )
    out = []
    for start in months:
        year, month = divmod(start, 12)
        first = of_type(year, month + 1, 1)
        last = start + long
        after = (
            of_type.max
            if last >= _LAST_MONTH
            else of_type(last // 12, last % 12 + 1, 1) - variable.step
        )
        rest = {"month": f"-{month + 1:02}", "quarter": f" Q{month // long + 1}", "year": ""}
        text = f"{year:04}{rest[name]}"
        out.append((text, text, first, after))
    return out


def _months(day: datetime.date) -> int:
    """Months since year 0."""
    return day.year * 12 + day.month - 1


_LAST_MONTH = 9999 * 12 + 11


def key_of(value: Any) -> str:
    """Return the key of a value in links and JSON."""
    if value is None:
        return BLANK
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, float):
        return format(value, ".15g")
    if isinstance(value, Decimal):
        return format(value, "f")
    text = value.isoformat() if isinstance(value, datetime.date) else str(value)
    return BLANK + text if text.startswith(BLANK) else text


def _band(variable: Variable, start: int, width: int) -> tuple[str, str, Any, Any]:
    """The band that starts at a number."""
    of_type = type(variable.known[0])
    if variable.is_dated:
        first, after = max(start, 1), min(start + width, 9999)
        low, high = of_type(first, 1, 1), of_type(after, 1, 1) - variable.step
        label = str(first) if width == 1 else f"{first} to {after - 1}"
        return f"{first}..{after - 1}", label, low, high
    if variable.is_clock:
        low, high = of_type(*divmod(start, 60)), of_type(*divmod(start + width - 1, 60), 59)
        return f"{low}..{high}", f"{low:%H:%M} to {high:%H:%M}", low, high
    low, high = of_type(start), of_type(start + width) - of_type(variable.step)
    if isinstance(low, Decimal):
        low = low.quantize(variable.step)
    texts = key_of(low), key_of(high)
    return "..".join(texts), f"{_grouped(low)} to {_grouped(high)}", low, high


def _number(value: Any) -> float:
    """A value as a number for banding; the year of dates, the minute of times."""
    if isinstance(value, datetime.time):
        return float(60 * value.hour + value.minute)
    return float(value.year if isinstance(value, datetime.date) else value)


def _n_bands(low: float, high: float, width: float) -> int:
    return math.floor(high / width) - math.floor(low / width) + 1


def _step(column: Column, type_: str) -> Any:
    """Distance between neighbouring values, in their own type."""
    resolution = column.resolution
    if column.kind in ("category", "text", "boolean"):
        return None
    if type_ in (*_DATED, "TIME"):
        return datetime.timedelta(days=1) if type_ == "DATE" else datetime.timedelta(seconds=1)
    if resolution is not None and type_ != "BIGINT":
        step = Decimal(resolution.base) ** resolution.exponent
        return step if type_.startswith("DECIMAL") else float(step)
    if resolution is not None:
        return int(resolution.step)
    return 1 if type_ in ("BIGINT", "INTEGER") else None


def _finite(text: str) -> str:
    """Return the text of a finite number unchanged."""
    if not math.isfinite(float(text)):
        raise ValueError(text)
    return text


def _grouped(value: Any) -> str:
    """A number with thousands separators if it is large."""
    if abs(value) < 10_000:
        return key_of(value)
    return f"{value:,.15g}" if isinstance(value, float) else f"{value:,}"


def _distinct_labels(labels: Sequence[tuple[Any, str]]) -> list[str]:
    """Labels of values; duplicates get their code appended."""
    often = Counter(text for _, text in labels)
    return [
        text if often[text] == 1 else f"{text} [{'blank' if v is None else _label(v, None)}]"
        for v, text in labels
    ]


def _label(value: Any, text: str | None, blank: str = BLANK_LABEL) -> str:
    """The label of a value."""
    if text:
        return text
    if value is None:
        return blank
    if isinstance(value, bool):
        return "yes" if value else "no"
    key = key_of(value)
    return key[1:] if key.startswith(BLANK) else key
