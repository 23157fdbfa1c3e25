"""Turns the `[columns.X]` sections of a spec into columns, with the universes that they declare.

Takes checked sections; gives `schema.Column`s with every default filled in, and sentences for whatever does not fit
together. Invariants: a column is public only by a declaration, and nothing that `init` detected counts as one; a
column is fitted after the one that decides its universe, so universes must not form a cycle.
"""

from __future__ import annotations

import csv
import datetime
from collections.abc import Callable, Collection, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from engine.params import bad_bound
from engine.periods import PERIODS
from engine.schema import (
    DEFAULT_PLACEHOLDER,
    GRID_KINDS,
    LONGEST_PREFIX,
    NUMBER_KINDS,
    RANKED_KINDS,
    Column,
    Resolution,
    Universe,
    ValueType,
    Writing,
    usual_nulls,
)
from engine.spec.model import MOST_STEP, ColumnSection, UniverseSection, checked
from engine.spec.source import own_writing

_MAX_DIGITS, _MAX_BITS = 18, 60
PLAIN = Writing()
_TYPES: dict[str, tuple[type, ...]] = {
    "integer": (int,),
    "real": (int, float),
    "decimal": (int, float),
    "boolean": (bool,),
    "text": (str,),
    "date": (datetime.date,),
    "timestamp": (datetime.datetime,),
    "time": (datetime.time,),
}
_FROM_ISO: dict[str, Callable[[str], datetime.date | datetime.time]] = {
    "date": datetime.date.fromisoformat,
    "timestamp": datetime.datetime.fromisoformat,
    "time": datetime.time.fromisoformat,
}


def columns_from(
    raw: Any,
    nulls: tuple[str, ...] | None,
    problems: list[str],
    writing: Writing = PLAIN,
    *,
    knows_null: bool = False,
    entities: Collection[str] = (),
    folder: Path = Path(),
) -> tuple[tuple[str, ...], tuple[Column, ...], frozenset[str]]:
    """Make all columns of a spec.

    nulls, writing: Spellings of null, and how numbers and dates are written, unless a column says otherwise; nulls
        None: as is usual, see `usual_nulls`.

    Returns: names of the declared columns; those of them that are valid; names of the dropped ones, which are in
    neither.
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
                f"columns.{name}: the same column as {twin} (names are not case-sensitive)"
            )
        if not name.strip():
            problems.append("columns: a column has no name")
        if name in dropped:
            checked(ColumnSection, {"kind": "text"} | values, f"columns.{name}", problems)
            continue
        section = checked(ColumnSection, values, f"columns.{name}", problems)
        if section is not None:
            own = nulls if section.nulls is None else tuple(section.nulls)
            if own is None:
                own = usual_nulls(
                    _value_type(section), knows_null=knows_null, is_entity=name in entities
                )
            column = column_from(name, section, own, problems, writing, folder)
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
    folder: Path = Path(),
) -> Column | None:
    """Make one column; None, and sentences added to `problems`, if anything does not fit together."""
    place, n_before = f"columns.{name}", len(problems)
    value_type = _value_type(section)
    if section.kind != "category" and section.type not in (None, section.kind):
        problems.append(f'{place}.type: only kind = "category" has a type of its own')
    resolution = _resolution(section, place, problems)
    domain, bounds = _domain(section, value_type, nulls, place, problems)
    if section.public:
        if section.domain is None and section.kind != "boolean":
            problems.append(
                f'{place}.public: needs a "domain" that is known independently of the data'
            )
        unconfirmed = [key for key in ("domain", "resolution") if key in section.detected]
        if unconfirmed:
            problems.append(
                f"{place}.public: {' and '.join(unconfirmed)} was detected in the data; "
                'confirm it from another source, then remove it from "detected"'
            )
    if not 1 <= section.step <= MOST_STEP or (section.step > 1 and section.kind != "integer"):
        problems.append(
            f"{place}.step: must be a whole number of at least 1; only integer columns have one"
        )
    if section.order and value_type != "text":
        problems.append(f"{place}.order: only a text column, or a category of texts, has one")
    problems += _hierarchy_problems(section, value_type, place)
    tree, code_labels = dict[str, tuple[str, ...]](), dict[str, str]()
    if isinstance(section.hierarchy, str):
        tree, code_labels = _code_list(folder / section.hierarchy, f"{place}.hierarchy", problems)
    problems += bad_bound(f"{place}.max_rows", section.max_rows)
    if not section.sums and section.kind not in NUMBER_KINDS:
        problems.append(f"{place}.sums: only numbers have sums")
    placeholder = _placeholder(section, value_type, domain, nulls, place, problems)
    breaks = _breaks(section, value_type, bounds, resolution, place, problems)
    if domain is not None:
        unknown = [value for value in section.labels if value not in {as_text(v) for v in domain}]
        problems.extend(f"{place}.labels: {value!r} is not in the domain" for value in unknown)
    other = _other(section, value_type, domain or tuple(tree) or None, bounds, place, problems)
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
        nulls=nulls,
        placeholder=placeholder,
        label=section.label,
        labels=tuple((code_labels | section.labels).items()),
        step=section.step,
        breaks=breaks,
        nullable=section.nullable,
        max_rows=section.max_rows,
        determines=tuple(dict.fromkeys(section.determines)),
        order=section.order,
        hierarchy=() if isinstance(section.hierarchy, str) else tuple(section.hierarchy or ()),
        tree=tree,
        release=section.release.strip(),
        writing=PLAIN if value_type in ("text", "boolean") else written,
        outside=section.outside,
        other=other,
        sums=section.sums,
    )


def _hierarchy_problems(section: ColumnSection, value_type: ValueType, place: str) -> list[str]:
    """Why levels do not fit a column, or each other."""
    levels = section.hierarchy
    if levels is None:
        return []
    if value_type != "text" or section.domain is not None or section.order:
        return [
            f"{place}.hierarchy: only a text column, or a category of texts, without domain and order has one"
        ]
    if isinstance(levels, str):
        return []
    if (
        not levels
        or levels != sorted({*levels})
        or not 1 <= levels[0] <= levels[-1] <= LONGEST_PREFIX
    ):
        return [
            f"{place}.hierarchy: wants the characters of each level, from the shortest on, such as [1, 2, 4]; at most "
            f"{LONGEST_PREFIX}"
        ]
    return []


def _code_list(
    path: Path, place: str, problems: list[str]
) -> tuple[dict[str, tuple[str, ...]], dict[str, str]]:
    """Of each code of a public list its ancestors from the top on, and itself; and the labels."""
    try:
        with path.open(encoding="utf-8-sig", newline="") as file:
            rows = list(csv.DictReader(file))
    except (OSError, UnicodeDecodeError, csv.Error):
        problems.append(
            f"{place}: {path} cannot be read; it wants CSV in UTF-8: code, parent, label"
        )
        return {}, {}
    if not rows or not {"code", "parent"} <= rows[0].keys():
        problems.append(f"{place}: {path} wants the columns code and parent, and at least one code")
        return {}, {}
    parents = {row["code"]: row["parent"] or "" for row in rows}
    if len(parents) < len(rows) or "" in parents:
        problems.append(f"{place}: {path} has a code twice, or none in a line")
    if unknown := sorted({of for of in parents.values() if of and of not in parents}):
        problems.append(
            f"{place}: {path} names parents that are no codes of it, such as {unknown[0]!r}"
        )
        return {}, {}
    tree: dict[str, tuple[str, ...]] = {}
    for code in parents:
        path_up = [code]
        while (above := parents[path_up[-1]]) and above not in path_up:
            path_up.append(above)
        if above:
            problems.append(
                f"{place}: {path} has codes that are ancestors of themselves, such as {code!r}"
            )
            return {}, {}
        tree[code] = tuple(reversed(path_up))
    labels = {row["code"]: row["label"] for row in rows if row.get("label")}
    return tree, labels


def with_public_codes(column: Column, problems: list[str]) -> Column:
    """A column whose public values are those codes of its list that have none below them: mode dp counts by these."""
    if column.hierarchy:
        problems.append(
            f"columns.{column.name}.hierarchy: mode dp takes a public list of codes only, as the name of a CSV file"
        )
    if not column.tree:
        return column
    above = {code for path in column.tree.values() for code in path[:-1]}
    codes = tuple(code for code in column.tree if code not in above)
    if column.other is not None and column.other not in codes:
        problems.append(
            f"columns.{column.name}.other: is no code of the list, or one that has others below it"
        )
    return replace(column, domain=codes, public=True)


def ancestor(column: Column, code: str, level: int) -> str:
    """What a code of a column's list is called at a level; itself where it is no deeper."""
    path = column.tree.get(code, (code,))
    return path[level - 1] if len(path) >= level else code


def with_levels(columns: tuple[Column, ...], problems: list[str]) -> tuple[Column, ...]:
    """The columns, and one for each level of those that declare a hierarchy; a finer level implies the coarser ones."""
    out, names = [], {column.name.casefold() for column in columns}
    for column in columns:
        above: tuple[str, ...] = ()
        for level in column.levels:
            name = f"{column.name}_{level}"
            if name.casefold() in names:
                problems.append(
                    f"columns.{column.name}.hierarchy: its level {name} is another column of the spec; rename that"
                )
            out.append(
                replace(
                    column,
                    name=name,
                    label=f"{column.label or column.name}, level {level}"
                    if column.tree
                    else f"{column.label or column.name}, first {level} characters"
                    if level > 1
                    else f"{column.label or column.name}, first character",
                    labels=column.labels if column.tree else (),
                    universe=None,
                    domain=column.domain
                    and tuple(dict.fromkeys(ancestor(column, c, level) for c in column.domain)),
                    other=column.other and ancestor(column, column.other, level),
                    determines=above,
                    hierarchy=tuple(one for one in column.hierarchy if one <= level),
                    tree={code: of for code, of in column.tree.items() if len(of) <= level},
                    level_of=(column.name, level),
                    max_rows=None,
                    release="",
                )
            )
            above = (name,)
        out.append(replace(column, determines=(*column.determines, *above)))
    return tuple(out)


def _other(
    section: ColumnSection,
    value_type: ValueType,
    domain: tuple[Any, ...] | None,
    bounds: tuple[Any, Any] | None,
    place: str,
    problems: list[str],
) -> Any:
    """The value that stands for those outside the domain."""
    if section.outside is not None and bounds is None:
        problems.append(f"{place}.outside: only columns with a domain of min and max have one")
    if section.other is None:
        return None
    if section.outside is not None:
        problems.append(f"{place}.outside: says what becomes of values that other stands for")
    value = typed(section.other, value_type)
    is_known = (
        value in domain
        if domain is not None
        else section.kind == "boolean"
        or (bounds is not None and value is not None and bounds[0] <= value <= bounds[1])
    )
    if value is None or not is_known:
        problems.append(f"{place}.other: must be a value of the domain")
    return value


def as_text(value: Any) -> str:
    """A value of the spec as the keys of `labels` spell it."""
    return str(value).lower() if isinstance(value, bool) else str(value)


def _value_type(section: ColumnSection) -> ValueType:
    """The type of released values: the kind, except for categories."""
    return section.type or "text" if section.kind == "category" else section.kind


def _resolution(section: ColumnSection, place: str, problems: list[str]) -> Resolution | None:
    """The grid step, for the kinds that have one."""
    place, periods = f"{place}.resolution", PERIODS.get(section.kind)
    if section.resolution is None:
        if section.kind == "real":
            problems.append(f"{place}: is missing; a real column needs one, such as 0.01 or 0.125")
        return Resolution(base=10, exponent=-2) if section.kind in ("real", "decimal") else None
    if section.kind not in GRID_KINDS:
        problems.append(f"{place}: only numbers, dates and times have one")
        return None
    try:
        step = Resolution.read(section.resolution)
    except ValueError:
        step = None
    if periods is not None:
        if step is None or step.period not in periods:
            problems.append(f"{place}: must be {' or '.join(map(repr, periods))}")
    elif step is None or step.period:
        problems.append(
            f"{place}: must be a whole number, or a power of ten or of two, such as 0.01 or 0.125"
        )
    elif section.kind == "integer" and (step.exponent < 0 or section.step > 1):
        problems.append(f"{place}: of an integer column must be a whole number, without a step")
    elif section.kind == "decimal" and not (step.base == 10 and -_MAX_DIGITS <= step.exponent <= 0):
        problems.append(
            f"{place}: must be 1, 0.1, 0.01, ... for a decimal column "
            f'(at most {_MAX_DIGITS} digits); use kind = "real" for other steps'
        )
    elif abs(step.exponent) > (_MAX_DIGITS if step.base == 10 else _MAX_BITS) or (
        step.base > MOST_STEP
    ):
        problems.append(f"{place}: is too fine or too coarse")
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
        problems.append(f"{place}: not allowed for a boolean column")
        return None, None
    if is_ranked != isinstance(section.domain, list):
        wanted = "a list of values" if is_ranked else "{ min = ..., max = ... }"
        problems.append(f'{place}: must be {wanted} for kind = "{section.kind}"')
        return None, None
    if isinstance(section.domain, dict):
        return None, _bounds(section.domain, value_type, place, problems)
    values = [typed(value, value_type) for value in section.domain]
    if None in values:
        problems.append(f'{place}: must hold values of type "{value_type}" only')
        return None, None
    if not values:
        problems.append(f"{place}: is empty")
    if len(set(values)) < len(values):
        problems.append(f"{place}: lists a value twice")
    problems.extend(
        f"{place}: {v!r} is a spelling of null" for v in dict.fromkeys(values) if v in nulls
    )
    return tuple(values), None


def _bounds(
    raw: dict[str, Any], value_type: ValueType, place: str, problems: list[str]
) -> tuple[Any, Any] | None:
    """Smallest and largest value."""
    if set(raw) != {"min", "max"}:
        problems.append(f"{place}: must be {{ min = ..., max = ... }}")
        return None
    low, high = typed(raw["min"], value_type), typed(raw["max"], value_type)
    if low is None or high is None:
        problems.append(f'{place}: must hold values of type "{value_type}"')
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
    """Lower ends of the public groups that mode dp counts."""
    if section.breaks is None:
        return None
    place = f"{place}.breaks"
    values = tuple(typed(value, value_type) for value in section.breaks)
    if section.kind in RANKED_KINDS or section.kind == "boolean":
        problems.append(f"{place}: only columns of numbers, dates and times can be grouped")
    elif None in values:
        problems.append(f'{place}: must hold values of type "{value_type}" only')
    elif section.domain is None or bounds is not None:  # a wrong domain is reported already
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
    """The text shown for unreleased values: only text columns that are not public have one."""
    place = f"{place}.placeholder"
    has_one = section.kind in RANKED_KINDS and value_type == "text" and not section.public
    if section.placeholder is None:
        chosen = DEFAULT_PLACEHOLDER if has_one else None
        if chosen in (domain or ()):
            problems.append(f"{place}: {chosen!r} is in the domain; choose another")
        return chosen
    if not has_one:
        problems.append(
            f"{place}: only a text column, or a category of texts, that is not public has one"
        )
    elif not section.placeholder or section.placeholder in (*nulls, *(domain or ())):
        problems.append(f"{place}: is empty, a spelling of null, or in the domain; choose another")
    return section.placeholder


def misplaced_breaks(
    breaks: Sequence[Any],
    bounds: tuple[Any, Any] | None,
    *,
    resolution: Resolution | None,
    step: int,
) -> str | None:
    """Say what is wrong with the breaks of a grid column, without the place; None if nothing is."""
    if bounds is None:
        return 'needs domain = { min = ..., max = ... }: the first group starts at "min", the last ends at "max"'
    if not breaks:
        return "lists no value; leave it out to count every value"
    starts = [bounds[0], *breaks]
    if any(right <= left for left, right in zip(starts, breaks, strict=False)):
        return "must be strictly ascending, each above the domain's min"
    if breaks[-1] > bounds[1]:
        return "a group starts above the domain's max"
    if resolution is not None and not all(resolution.holds(value) for value in breaks):
        return "a value is not a multiple of the resolution"
    ends = [*(value - 1 for value in breaks), bounds[1]] if step > 1 else []
    if any(high // step < -(-low // step) for low, high in zip(starts, ends, strict=False)):
        return f"a group contains no multiple of the step {step}"
    return None


def with_universes(
    sections: dict[str, UniverseSection], columns: tuple[Column, ...], problems: list[str]
) -> tuple[Column, ...]:
    """Give columns the universes that the spec declares."""
    known = {column.name: column for column in columns}
    universes = {}
    for name, section in sections.items():
        place = f"columns.{name}.universe"
        decider = known.get(section.column)
        if name not in known:
            continue  # its own section is wrong, which is reported already
        if decider is None or decider.name == name:
            problems.append(f"{place}.column: {section.column!r} is not another column of the spec")
            continue
        universe = _universe(section, known[name], decider, place, problems)
        if universe is not None:
            universes[name] = universe
    for name in universes:
        if _is_cyclic(name, universes):
            problems.append(f"columns.{name}.universe: forms a cycle")
    return tuple(replace(c, universe=universes.get(c.name)) for c in columns)


def with_deciders(columns: tuple[Column, ...], used: set[str]) -> set[str]:
    """The names used, and all columns that decide their universes."""
    deciders = {c.name: c.universe.column for c in columns if c.universe is not None}
    out, frontier = set(used), set(used)
    while frontier:
        frontier = {deciders[name] for name in frontier if name in deciders} - out
        out |= frontier
    return out


def with_determined(columns: tuple[Column, ...], used: set[str]) -> set[str]:
    """The names used, those of all columns that determine them, and of all that these determine."""
    out = set(used)
    while (
        more := {
            name
            for column in columns
            for name in (column.name, *column.determines)
            if column.name in out or out.intersection(column.determines)
        }
        - out
    ):
        out |= more
    return out


def in_universe_order(columns: tuple[Column, ...]) -> tuple[Column, ...]:
    """Columns in an order in which each comes after the one that decides its universe."""
    rank: dict[str, int] = {}
    universes = {c.name: c.universe.column for c in columns if c.universe is not None}
    for column in columns:
        steps, name = 0, column.name
        while name in universes:
            steps, name = steps + 1, universes[name]
        rank[column.name] = steps
    return tuple(sorted(columns, key=lambda column: rank[column.name]))


def _universe(
    section: UniverseSection, column: Column, decider: Column, place: str, problems: list[str]
) -> Universe | None:
    """One universe; None, and sentences added, if it does not fit its columns."""
    before = len(problems)
    ranked = decider.kind in RANKED_KINDS
    if ranked and (section.min is not None or section.max is not None):
        problems.append(
            f'{place}: {decider.name} has a list of values; use "values", not "min" and "max"'
        )
    if not ranked and section.values is not None:
        problems.append(f'{place}: {decider.name} has no list of values; use "min" and "max"')
    if section.values is not None and ranked and not decider.public:
        problems.append(
            f"{place}.values: {decider.name} is not public, so its values must not be named"
        )
    if section.outside is not None and column.kind not in RANKED_KINDS:
        problems.append(f"{place}.outside: only a column with a list of values has one")
    elif section.outside is not None and not column.public:
        problems.append(
            f"{place}.outside: {column.name} is not public, so its values must not be named"
        )
    universe = Universe(
        column=decider.name,
        low=fitting(section.min, decider, f"{place}.min", problems),
        high=fitting(section.max, decider, f"{place}.max", problems),
        values=None
        if section.values is None
        else tuple(fitting(v, decider, f"{place}.values", problems) for v in section.values),
        complete=section.complete,
        outside=fitting(section.outside, column, f"{place}.outside", problems),
    )
    if universe.outside is not None and universe.outside not in (column.domain or ()):
        problems.append(f"{place}.outside: {universe.outside!r} is not in the domain")
    if universe.values is not None:
        _check_values(universe.values, decider, f"{place}.values", problems)
    if not column.nullable and section.outside is None:
        problems.append(f"{place}: makes {column.name} null outside, but nullable = false")
    if len(problems) > before:
        return None
    if universe.low is not None and universe.high is not None and universe.low > universe.high:
        problems.append(f"{place}: min is above max")
        return None
    return universe


def _check_values(
    values: tuple[Any, ...], decider: Column, place: str, problems: list[str]
) -> None:
    """Check that values are some of those that the deciding column can have."""
    if not values:
        problems.append(f"{place}: lists no value")
    problems.extend(
        f"{place}: {value!r} is not in the domain of {decider.name}"
        for value in values
        if value is not None and value not in (decider.domain or ())
    )


def fitting(value: Any, column: Column, place: str, problems: list[str]) -> Any:
    """A value in the type of its column; None for none, or if it does not fit, which is added to `problems`."""
    if value is None:
        return None
    typed_value = typed(value, column.value_type)
    if typed_value is None:
        problems.append(f'{place}: must be a value of type "{column.value_type}"')
    elif column.resolution is not None and not column.resolution.holds(typed_value):
        problems.append(
            f"{place}: is not a multiple of {column.name}'s resolution, or the start of a period"
        )
    return typed_value


def _is_cyclic(name: str, universes: dict[str, Universe]) -> bool:
    """Whether following the deciding columns leads back to a column."""
    seen, now = {name}, universes[name].column
    while now in universes:
        if now == name:
            return True
        if now in seen:
            return False
        seen.add(now)
        now = universes[now].column
    return False


def typed(value: Any, value_type: ValueType) -> Any:
    """A value of the spec in the type that reading the source gives; None if it is of another."""
    if isinstance(value, bool) != (value_type == "boolean"):
        return None
    if isinstance(value, str) and value_type in _FROM_ISO:
        value = _moment(value, value_type)
    if value_type == "date" and isinstance(value, datetime.datetime):
        return None
    if not isinstance(value, _TYPES[value_type]):
        return None
    if isinstance(value, datetime.time):
        return value.replace(microsecond=0) if value.tzinfo is None else None
    if isinstance(value, datetime.datetime) and value.tzinfo is not None:
        return value.astimezone(datetime.UTC).replace(tzinfo=None)
    if isinstance(value, int | float) and value_type in ("real", "decimal"):
        number = float(value) + 0.0
        return number if abs(number) < float("inf") else None
    if isinstance(value, int) and abs(value) > 2**63 - 2:
        return None
    return value


def _moment(text: str, value_type: ValueType) -> datetime.date | datetime.time | None:
    """Read an ISO date, timestamp or time of day."""
    try:
        return _FROM_ISO[value_type](text)
    except ValueError:
        return None
