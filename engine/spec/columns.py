"""Turns the `[columns.X]` sections of a spec into columns.

Takes checked sections; gives `schema.Column`s with every default filled in, and sentences for what
does not fit together. Invariant: a column is public only by a declaration; nothing that `init`
detected counts as one.
"""

from __future__ import annotations

from decimal import Decimal
from fractions import Fraction
from typing import Any

from engine.params import bad_bound
from engine.schema import DEFAULT_PLACEHOLDER, RANKED_KINDS, Column, Resolution, ValueType, Writing
from engine.spec.dp import misplaced_breaks
from engine.spec.model import ColumnSection, checked
from engine.spec.universes import with_universes
from engine.spec.values import typed
from engine.spec.writing import own_writing

_MAX_DIGITS, _MAX_BITS = 18, 60
PLAIN = Writing()
MOST_STEP = 10**15


def columns_from(
    raw: Any, nulls: tuple[str, ...], problems: list[str], writing: Writing = PLAIN
) -> tuple[tuple[str, ...], tuple[Column, ...], frozenset[str]]:
    """Make all columns of a spec.

    writing: How numbers and dates are written, where a column does not say it.

    Returns: names of all declared columns; those of them that are right; names of those that are dropped:
    neither of the above.
    """
    if not isinstance(raw, dict) or not raw:
        problems.append("columns: declare each column in a section [columns.NAME]")
        return (), (), frozenset()
    columns, universes = [], {}
    dropped = {name for name, v in raw.items() if isinstance(v, dict) and v.get("drop") is True}
    folded: dict[str, str] = {}
    for name, values in raw.items():
        twin = folded.setdefault(name.casefold(), name)
        if twin != name:
            problems.append(
                f"columns.{name}: the same column as {twin} (capital letters make no difference)"
            )
        if not name.strip():
            problems.append("columns: a column has no name")
        if name in dropped:
            checked(ColumnSection, {"kind": "text"} | values, f"columns.{name}", problems)
            continue
        section = checked(ColumnSection, values, f"columns.{name}", problems)
        column = column_from(name, section, nulls, problems, writing) if section else None
        columns += [column] if column else []
        if section is not None and section.universe is not None:
            universes[name] = section.universe
    names = tuple(name for name in raw if name not in dropped)
    return names, with_universes(universes, tuple(columns), problems), frozenset(dropped)


def column_from(
    name: str,
    section: ColumnSection,
    nulls: tuple[str, ...],
    problems: list[str],
    writing: Writing = PLAIN,
) -> Column | None:
    """Make one column; None, and sentences added to `problems`, if anything does not fit together.

    writing: How numbers and dates are written, where the column does not say it.
    """
    place, n_before = f"columns.{name}", len(problems)
    own_nulls = tuple(nulls if section.nulls is None else section.nulls)
    value_type = _value_type(section, place, problems)
    resolution = _resolution(section, place, problems)
    domain, bounds = _domain(section, value_type, own_nulls, place, problems)
    if section.public:
        if section.domain is None and section.kind != "boolean":
            problems.append(f'{place}.public: needs a "domain", declared from outside the data')
        unconfirmed = [key for key in ("domain", "resolution") if key in section.detected]
        if unconfirmed:
            problems.append(
                f"{place}.public: {' and '.join(unconfirmed)} was detected in the data; "
                'confirm it from outside the data, then take it off "detected"'
            )
    if not 1 <= section.step <= MOST_STEP or (section.step > 1 and section.kind != "integer"):
        problems.append(f"{place}.step: wants a whole number from 1; only integer columns have one")
    problems += bad_bound(f"{place}.max_rows", section.max_rows)
    placeholder = _placeholder(section, value_type, domain, own_nulls, place, problems)
    breaks = _breaks(section, value_type, bounds, resolution, place, problems)
    if domain is not None:
        unknown = [value for value in section.labels if value not in {as_text(v) for v in domain}]
        problems.extend(f"{place}.labels: {value!r} is not in the domain" for value in unknown)
    written = own_writing(section, writing, place, problems)
    if len(problems) > n_before:
        return None
    return Column(
        name=name,
        kind=section.kind,
        value_type=value_type,
        resolution=resolution,
        domain=domain,
        bounds=bounds,
        public=section.public,
        detected=tuple(section.detected),
        nulls=own_nulls,
        placeholder=placeholder,
        label=section.label,
        labels=tuple(section.labels.items()),
        step=section.step,
        breaks=breaks,
        nullable=section.nullable,
        max_rows=section.max_rows,
        determines=tuple(dict.fromkeys(section.determines)),
        release=section.release.strip(),
        writing=PLAIN if value_type in ("text", "boolean") else written,
    )


def as_text(value: Any) -> str:
    """Spell a value of the spec as labels do."""
    return str(value).lower() if isinstance(value, bool) else str(value)


def resolution_from(number: float) -> Resolution | None:
    """The grid step that a number names; None if it is a power of neither ten nor two."""
    if isinstance(number, bool) or not 0 < number < float("inf"):
        return None
    digits = Decimal(str(number)).normalize().as_tuple()
    if digits.digits == (1,):
        return Resolution(base=10, exponent=int(digits.exponent))
    exact = Fraction(number)
    for part, sign in ((exact.numerator, 1), (exact.denominator, -1)):
        if part & (part - 1) == 0 and exact in (Fraction(part), Fraction(1, part)):
            return Resolution(base=2, exponent=sign * (part.bit_length() - 1))
    return None


def _value_type(section: ColumnSection, place: str, problems: list[str]) -> ValueType:
    """The type of released values: the kind, except for categories."""
    if section.kind == "category":
        return section.type or "text"
    if section.type is not None and section.type != section.kind:
        problems.append(f'{place}.type: only kind = "category" has a type of its own')
    return section.kind


def _resolution(section: ColumnSection, place: str, problems: list[str]) -> Resolution | None:
    """The grid step, for the kinds that have one."""
    if section.kind not in ("real", "decimal"):
        if section.resolution is not None:
            problems.append(f"{place}.resolution: only kinds real and decimal have one")
        return None
    if section.resolution is None:
        if section.kind == "real":
            problems.append(
                f"{place}.resolution: is missing; a real column needs one, such as 0.01 or 0.125"
            )
        return Resolution(base=10, exponent=-2)
    step = resolution_from(section.resolution)
    if step is None:
        problems.append(
            f"{place}.resolution: wants a power of ten or of two, such as 0.01, 1, 1000 or 0.125"
        )
    elif section.kind == "decimal" and not (step.base == 10 and -_MAX_DIGITS <= step.exponent <= 0):
        problems.append(
            f"{place}.resolution: a decimal column wants 1, 0.1, 0.01, ... "
            f'(at most {_MAX_DIGITS} digits); declare kind = "real" for others'
        )
    elif abs(step.exponent) > (_MAX_DIGITS if step.base == 10 else _MAX_BITS):
        problems.append(f"{place}.resolution: is too fine or too coarse")
    return step


def _domain(
    section: ColumnSection,
    value_type: ValueType,
    nulls: tuple[str, ...],
    place: str,
    problems: list[str],
) -> tuple[tuple[Any, ...] | None, tuple[Any, Any] | None]:
    """The declared list of a ranked column, or the declared bounds of a grid column."""
    place = f"{place}.domain"
    is_ranked = section.kind in RANKED_KINDS
    if section.domain is None:
        return None, (False, True) if section.kind == "boolean" and section.public else None
    if section.kind == "boolean":
        problems.append(f"{place}: a boolean column needs none")
        return None, None
    if is_ranked != isinstance(section.domain, list):
        wanted = "a list of values" if is_ranked else "{ min = ..., max = ... }"
        problems.append(f'{place}: kind = "{section.kind}" wants {wanted}')
        return None, None
    if isinstance(section.domain, dict):
        return None, _bounds(section.domain, value_type, place, problems)
    values = [typed(value, value_type) for value in section.domain]
    if None in values:
        problems.append(f'{place}: wants values of type "{value_type}" only')
        return None, None
    if not values:
        problems.append(f"{place}: is empty")
    if len(set(values)) < len(values):
        problems.append(f"{place}: holds a value twice")
    problems.extend(
        f"{place}: {v!r} is a spelling of null" for v in dict.fromkeys(values) if v in nulls
    )
    return tuple(values), None


def _bounds(
    raw: dict[str, Any], value_type: ValueType, place: str, problems: list[str]
) -> tuple[Any, Any] | None:
    """Smallest and largest value."""
    if set(raw) != {"min", "max"}:
        problems.append(f"{place}: wants {{ min = ..., max = ... }}")
        return None
    low, high = typed(raw["min"], value_type), typed(raw["max"], value_type)
    if low is None or high is None:
        problems.append(f'{place}: wants values of type "{value_type}"')
        return None
    if low > high:
        problems.append(f"{place}: min is above max")
    return low, high


def _breaks(
    section: ColumnSection,
    value_type: ValueType,
    bounds: tuple[Any, Any] | None,
    resolution: Resolution | None,
    place: str,
    problems: list[str],
) -> tuple[Any, ...] | None:
    """Where the public groups begin that mode dp counts by."""
    if section.breaks is None:
        return None
    place = f"{place}.breaks"
    values = tuple(typed(value, value_type) for value in section.breaks)
    if section.kind in RANKED_KINDS or section.kind == "boolean":
        problems.append(
            f"{place}: only columns of numbers, dates and timestamps are cut into groups"
        )
    elif None in values:
        problems.append(f'{place}: wants values of type "{value_type}" only')
    elif section.domain is None or bounds is not None:  # a mistaken domain is reported
        wrong = misplaced_breaks(values, bounds, resolution=resolution, step=max(section.step, 1))
        problems += [f"{place}: {wrong}"] if wrong else []
    return values


def _placeholder(
    section: ColumnSection,
    value_type: ValueType,
    domain: tuple[Any, ...] | None,
    nulls: tuple[str, ...],
    place: str,
    problems: list[str],
) -> str | None:
    """What stands for unreleased values: text columns that are not public have one."""
    place = f"{place}.placeholder"
    has_one = section.kind in RANKED_KINDS and value_type == "text" and not section.public
    if section.placeholder is None:
        chosen = DEFAULT_PLACEHOLDER if has_one else None
        if chosen in (domain or ()):
            problems.append(f"{place}: {chosen!r} is in the domain; choose another")
        return chosen
    if not has_one:
        problems.append(
            f"{place}: only a text or category column of texts that is not public has one"
        )
    elif not section.placeholder or section.placeholder in (*nulls, *(domain or ())):
        problems.append(f"{place}: is empty, a spelling of null, or in the domain; choose another")
    return section.placeholder
