"""Variables of a release with their labels, released values, and bands.

In links and JSON, values are text keys: a blank is `~`, and a text that starts with `~` gets another one.
"""

from __future__ import annotations

import datetime
import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from functools import cached_property
from typing import Any, Literal

from engine.errors import QueryRefused
from queries.packs import Axis, axis_of
from queries.release import Release
from queries.sql import near_names, unknown_column

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
Band = tuple[str, Any, Any]
"""Label, lowest and highest value (both included)."""
_MINUTES = (1, 5, 10, 15, 30, 60, 120, 180, 240, 360, 720)
"""Widths of bands of times."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Value:
    """A released value: key, value, label, and fitted number of rows."""

    key: str
    value: Any
    label: str
    n: int


@dataclass(frozen=True, kw_only=True)
class Variable:
    """A column for tables and filters."""

    name: str
    label: str
    sql_type: str
    axis: Axis | None  # Scale of the values; None: categorical, without ranges
    values: tuple[Value, ...]  # Released values in order, including the blank
    is_weight: bool = False  # It holds survey weights

    @cached_property
    def by_key(self) -> dict[str, Value]:
        """Values by key."""
        return {v.key: v for v in self.values}

    @cached_property
    def known(self) -> tuple[Any, ...]:
        """Values without the blank."""
        return tuple(v.value for v in self.values if v.value is not None)

    @property
    def is_numeric(self) -> bool:
        """Whether means and sums make sense."""
        return self.axis is not None and not (self.is_dated or self.is_clock)

    @property
    def blank_label(self) -> str | None:
        """Label of the blank; None if there is no blank."""
        return self.by_key[BLANK].label if BLANK in self.by_key else None

    @property
    def widths(self) -> tuple[int, ...]:
        """Suggested band widths; years for dates, minutes for times."""
        if self.axis is None or len(self.known) < 2 * _FEWEST_BANDS:
            return ()
        steps = _MINUTES if self.is_clock else [m * 10**k for k in range(13) for m in (1, 2, 5)]
        fewest = _FEWEST_YEARS if self.is_dated else _FEWEST_BANDS
        fit = [w for w in steps if fewest <= _n_bands(self.axis, self.known, w) <= _MOST_BANDS]
        return tuple(w for w in fit if not self.is_numeric or w > self.axis.step)[:_MOST_WIDTHS]

    @property
    def is_dated(self) -> bool:
        """Whether its values are dates or timestamps."""
        return self.axis is not None and self.axis.is_dated

    @property
    def is_clock(self) -> bool:
        """Whether its values are times of day."""
        return self.axis is not None and self.axis.is_clock

    @property
    def periods(self) -> dict[str, int]:
        """Number of months, quarters and years; left out if one covers everything, and years that are bands anyhow."""
        if self.axis is None or not self.is_dated:
            return {}
        months = _n_places(self.axis, self.known, Fraction(1))
        return {
            name: math.ceil(months / n)
            for name, n in PERIODS.items()
            if months > n >= self.axis.step and not (name == "year" and 1 in self.widths)
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
            axis=axis_of(column, release.columns[name], [v for v, *_ in released if v is not None]),
            values=values,
            is_weight=name == release.weight,
        )
    return out


def variable_of(variables: Mapping[str, Variable], name: str) -> Variable:
    """Return a variable by name."""
    if name not in variables:
        raise unknown_column(name, tuple(variables))
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


def bounds_of(variable: Variable, ends: Sequence[str]) -> tuple[Any, Any]:
    """Return both ends of a range from their texts; empty: the lowest or highest released value."""
    known = variable.known
    if variable.axis is None:
        raise QueryRefused(f"{variable.name} is categorical: select values instead of a range")

    def bound(text: str, outermost: Any) -> Any:
        try:
            of_type = type(known[0])
            if text == "":
                return outermost
            return of_type(_finite(text)) if variable.is_numeric else of_type.fromisoformat(text)
        except (ValueError, ArithmeticError):
            raise QueryRefused(
                f"{text!r} is not a valid {variable.sql_type} for {variable.name}; example: {key_of(known[0])}"
            ) from None

    return bound(ends[0], known[0]), bound(ends[1], known[-1])


def bands_of(variable: Variable, width: Width, ends: tuple[str, str] | None = None) -> list[Band]:
    """Return the bands of a variable; for periods of the calendar, those in a range."""
    if isinstance(width, str):
        return _periods(variable, width, ends)
    axis = variable.axis
    if axis is None or not variable.widths:
        raise QueryRefused(f"{variable.name} cannot be put in bands; use single values")
    if width < 1 or _n_bands(axis, variable.known, width) > _MOST_BANDS:
        offered = ", ".join(map(str, variable.widths))
        raise QueryRefused(
            f"A band width of {width} gives more than {_MOST_BANDS} bands of {variable.name}; try {offered}"
        )
    return [_band(axis, *ends) for ends in _ends(axis, variable.known, width * _unit(axis))]


def _unit(axis: Axis) -> int:
    """What a width counts on a scale: of dates years, of times minutes."""
    return 12 if axis.is_dated else 60 if axis.is_clock else 1


def _n_bands(axis: Axis, known: Sequence[Any], width: int) -> int:
    return _n_places(axis, known, Fraction(width * _unit(axis)))


def _n_places(axis: Axis, known: Sequence[Any], width: Fraction) -> int:
    """Number of bands from the first to the last of some values."""
    return axis.place(known[-1]) // width - axis.place(known[0]) // width + 1


def _ends(axis: Axis, known: Sequence[Any], width: int) -> list[tuple[Any, Any]]:
    """The first and last value of each band from the first to the last of some values."""
    numbers = range(axis.place(known[0]) // width, axis.place(known[-1]) // width + 1)
    return [
        (axis.value(Fraction(at * width)), axis.before(Fraction((at + 1) * width)))
        for at in numbers
    ]


def _periods(variable: Variable, name: str, ends: tuple[str, str] | None) -> list[Band]:
    """Months, quarters or years in a range; those at its ends are complete."""
    axis, known = variable.axis, variable.known
    if axis is None or not axis.is_dated:
        raise QueryRefused(f"{variable.name} has no {name}s: it is not a date column")
    limits = bounds_of(variable, ends or ("", ""))
    inside = max(known[0], limits[0]), min(known[-1], limits[1])
    n = _n_places(axis, inside, Fraction(PERIODS[name]))
    if n > MOST_PERIODS:
        raise QueryRefused(
            f"{variable.name} covers {n:,} {name}s, the limit is {MOST_PERIODS}; select a shorter "
            f"range with from.{variable.name} and to.{variable.name}"
        )
    forms = {
        "month": "{0.year:04}-{0.month:02}",
        "quarter": "{0.year:04} Q{1}",
        "year": "{0.year:04}",
    }
    return [
        (forms[name].format(low, (low.month + 2) // 3), low, high)
        for low, high in _ends(axis, inside, PERIODS[name])
    ]


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


def _band(axis: Axis, low: Any, high: Any) -> Band:
    """A band with its label."""
    if axis.is_dated:
        years = dict.fromkeys([low.year, high.year])
        return " to ".join(map(str, years)), low, high
    if axis.is_clock:
        return f"{low:%H:%M} to {high:%H:%M}", low, high
    return f"{_grouped(low)} to {_grouped(high)}", low, high


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
