"""The section `[dp]` of a spec: checked against the columns and tables, expanded to `DPParams`.

Takes the section's plain values, and the columns and tables of the spec; gives parameters and structural zeros, or
sentences with their places. Nothing here reads data: `engine.measure.dp.domains` makes the levels and cells.
Invariants: a spec without a finite epsilon above 0 is refused unless it says `guarantee = false`; every column that
is counted has a public domain.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import combinations
from typing import Any

from engine.guarantee import Guarantee, outright
from engine.levels import n_cells
from engine.params import (
    LEAST_EPSILON,
    MOST_DELTA,
    MOST_EPSILON,
    DPParams,
    ZeroPart,
    ZeroRule,
)
from engine.periods import PERIODS, number_of, seconds_of, unit
from engine.schema import NUMBER_KINDS, Column, ColumnSet, Resolution, SourceSpec, column_set
from engine.spec.columns import fitting, misplaced_breaks
from engine.spec.model import MOST_LEVELS, WIDEST_MARGINS, DPSection, checked, did_you_mean
from engine.spec.source import format_of

MOST_MARGINS = 100_000
MOST_SENTENCES = 5
"""How many margins that are too large are named."""
_OF_DATA = ("kind", "type", "resolution", "domain", "nulls")
"""Settings of a column that decide what is counted."""
_COMPUTED = ("frame", "table", "duckdb", "sqlite", "postgres", "mysql")
"""Formats of sources that may be views."""
_EXPANDED = ("margins", "strata", "ranges")


@dataclass(frozen=True, kw_only=True, slots=True)
class DPContext:
    """What `[dp]` is checked against."""

    names: tuple[str, ...]  # Data columns
    entities: tuple[str, ...]
    n_kinds: int  # Of entities
    # Data columns in full; None if some of them are wrong.
    columns: tuple[Column, ...] | None
    tables: tuple[ColumnSet, ...]  # Those to be published
    source: SourceSpec | None = None  # None: wrong, or not to be checked


@dataclass(frozen=True, kw_only=True, slots=True)
class _Joint:
    """The columns that are counted, and the margins over them."""

    columns: ColumnSet
    strata: ColumnSet
    margins: tuple[ColumnSet, ...]
    candidates: tuple[ColumnSet, ...]
    ranges: tuple[tuple[str, int], ...]
    sums: tuple[tuple[str, ColumnSet], ...]
    levels: tuple[tuple[str, str], ...]


def dp_from(
    raw: Any, context: DPContext, problems: list[str]
) -> tuple[DPParams | None, tuple[ZeroRule, ...]]:
    """Check and expand the section; no parameters if anything is wrong, rules in the order of the spec."""
    n_before = len(problems)
    section = checked(DPSection, raw, "dp", problems, keep_rest=True)
    if section is None:
        return None, ()
    keys = frozenset(raw)
    is_noise_wrong = raw.get("noise", section.noise) != section.noise  # reported already
    problems += _budget_mistakes(section, keys, is_noise_wrong=is_noise_wrong)
    problems += _number_mistakes(section)
    if context.n_kinds > 1:
        problems.append(
            f"source.entities: [dp] protects one kind of entity, not {context.n_kinds}; name one column, or several "
            'together: entities = [["site", "patient"]]'
        )
    problems += _source_mistakes(section, context.source)
    joint = _joint(section, context, problems)
    zeros = zero_rules(section.zeros, joint.columns, context.columns or (), problems)
    problems += _counting_mistakes(section, joint, zeros, context)
    if len(problems) > n_before:
        return None, ()
    # The keys left out were expanded, or only matter for the checks.
    left = {"guarantee", "delta", "noise", "allocation", "extra", "zeros", "max_rows", *_EXPANDED}
    left |= {"public_tables", "each_row_from_one_entity", "each_row_is_one_entity"}
    left |= {"adaptive", "sums"}
    plain = section.model_dump(exclude=left)
    params = DPParams(
        **plain,
        # By cells is measured to be better where margins are weighted by their variances.
        allocation=section.allocation or ("cells" if section.post == "wls" else "equal"),
        delta=section.delta or 0.0,
        noise=section.noise or ("laplace" if section.delta is None else "gaussian"),
        or_laplace=section.noise is None and section.delta is not None,
        max_rows=section.max_rows or 1,
        # Ids may come up in several rows: only the data could tell.
        is_bound_said=section.max_rows is not None or bool(context.entities),
        public_tables=tuple(section.public_tables),
        columns=joint.columns,
        margins=joint.margins,
        candidates=joint.candidates,
        strata=joint.strata,
        sum_tables=joint.sums,
        ranges=joint.ranges,
        levels=joint.levels,
    )
    return params, zeros


def _budget_mistakes(
    section: DPSection, keys: frozenset[str], *, is_noise_wrong: bool
) -> list[str]:
    """What is wrong with the guarantee."""
    problems = []
    if section.guarantee and "epsilon" not in keys:
        problems.append(
            "dp.epsilon: is missing; give a number above 0, or set guarantee = false: "
            f"{Guarantee(epsilon=None).brief()}"
        )
    if not section.guarantee:
        problems += [
            f"dp.{key}: not allowed with guarantee = false; remove one of the two"
            for key in ("epsilon", "delta", "budget")
            if key in keys
        ]
        return problems
    epsilon, delta, budget = section.epsilon, section.delta, section.budget
    if epsilon is not None and not _is_above_0(epsilon):
        problems.append(f"dp.epsilon: must be a finite number above 0, not {epsilon}")
    elif epsilon is not None and not LEAST_EPSILON <= epsilon <= MOST_EPSILON:
        problems.append(
            f"dp.epsilon: must be a number from {LEAST_EPSILON:g} to {MOST_EPSILON:g}, not {epsilon:g}: below, noise "
            "drowns every count; above, there is practically none, which guarantee = false says openly"
        )
    if delta is not None and not 0 < delta < 1:
        problems.append(f"dp.delta: must be a number between 0 and 1, both excluded, not {delta}")
    elif delta is not None and delta > MOST_DELTA and not section.accept_delta.strip():
        problems.append(
            f"dp.delta: {delta:g} is above {MOST_DELTA:g}: {outright(delta)}. Give 1e-6 or less; or say why you accept "
            'it: accept_delta = "..."'
        )
    if section.accept_delta and not section.accept_delta.isprintable():
        problems.append("dp.accept_delta: must be a reason, in one line of text")
    if section.noise == "laplace" and delta is not None and not is_noise_wrong:
        problems.append('dp.delta: only allowed with noise = "gaussian"')
    if section.noise == "gaussian" and "delta" not in keys:
        problems.append('dp.delta: is missing; noise = "gaussian" needs one, such as 1e-6')
    if budget is not None and not _is_above_0(budget):
        problems.append(f"dp.budget: must be a finite number above 0, not {budget}")
    elif budget is not None and epsilon is not None and budget < epsilon:
        problems.append(f"dp.budget: {budget} is less than this build's epsilon, {epsilon}")
    return problems


def _source_mistakes(section: DPSection, source: SourceSpec | None) -> list[str]:
    """What the section does not say of rows that somebody else computed, or says of a statement that is not there."""
    if source is None:
        return []
    problems = []
    if section.guarantee and not source.entities and not section.each_row_is_one_entity:
        problems.append(
            "source.entities: is missing; say who is protected: the columns that identify them; or, if nobody has two "
            "rows, in [dp]: each_row_is_one_entity = true"
        )
    if source.entities and section.each_row_is_one_entity:
        problems.append(
            "dp.each_row_is_one_entity: not with source.entities; remove one of the two"
        )
    if source.sql is None:
        problems += [
            f"dp.{key}: is about the tables of source.sql, and there is no such statement"
            for key in ("public_tables", "stability")
            if getattr(section, key)
        ]
    forms = {source.format, *map(format_of, source.paths)} & {*_COMPUTED}
    if section.guarantee and forms and not section.each_row_from_one_entity:
        problems.append(
            "dp.each_row_from_one_entity: is missing; a data frame, or a table or view of a database, may have been "
            "computed from the rows of several entities (ranks, averages, the first n rows), which no noise covers. If "
            "nothing in a row comes from rows of others, say so: each_row_from_one_entity = true"
        )
    return problems


def _number_mistakes(section: DPSection) -> list[str]:
    """What is wrong with single numbers."""
    problems = []
    if not 0 <= section.prior < math.inf:
        problems.append(f"dp.prior: must be a finite number of at least 0, not {section.prior}")
    for key in ("total_share", "tolerance"):
        if not 0 < getattr(section, key) < 1:
            problems.append(
                f"dp.{key}: must be a number between 0 and 1, both excluded, not {getattr(section, key)}"
            )
    for key in ("max_rows", "stability", "max_cells", "max_cycles"):
        if getattr(section, key) is not None and not 1 <= getattr(section, key) < 2**31:
            problems.append(
                f"dp.{key}: must be a whole number of at least 1, not {getattr(section, key)}"
            )
    return problems


def _is_above_0(number: float) -> bool:
    return 0 < number < math.inf


def _joint(section: DPSection, context: DPContext, problems: list[str]) -> _Joint:
    """The columns that are counted and their margins; wrong ones are reported and left out."""
    base = {c.name: c.level_of[0] for c in context.columns or () if c.level_of is not None}
    strata = _named(section.strata, "dp.strata", context, problems)
    extra = _listed(section.extra, "dp.extra", strata, context, problems)
    named: Iterable[str] = (name for table in (*context.tables, *extra) for name in table)
    used = column_set(tuple({*named, *strata} & {*context.names}))
    if section.method == "catall":
        problems.extend(
            f'dp.{key}: only allowed with method = "ipf"; "catall" counts one table of all columns'
            for key in ("margins", "extra", "ranges", "adaptive")
            if getattr(section, key) not in (None, [], {}, False)
        )
        rest = tuple(name for name in used if name not in strata)
        margins: tuple[ColumnSet, ...] = (rest,) if rest else ()
    elif isinstance(section.margins, list):
        margins = _listed(section.margins, "dp.margins", strata, context, problems)
        if not section.margins:
            problems.append("dp.margins: is empty; leave it out for all pairs of columns")
        used = column_set(tuple({*used, *(name for margin in margins for name in margin)}))
    else:
        rest = tuple(name for name in used if name not in strata)
        every = _all_of(section.margins, rest, problems)
        # A code and its levels together say no more than the code.
        margins = tuple(m for m in every if len({base.get(name, name) for name in m}) == len(m))
        if every and not margins and section.margins is not None:
            problems.append(
                f"dp.margins: no {section.margins} columns are left to count together: codes and their levels are not"
            )
        held = {name for margin in margins for name in margin}
        margins += tuple((name,) for name in rest if every and name not in held)
    if strata and set(strata) == set(used):
        problems.append("dp.strata: no column is left to count")
    ranges = _ranges(section, used, strata, context, problems)
    listed = {*margins}
    if section.method == "ipf":
        listed |= {*extra, *((name,) for name, _ in ranges)}
    candidates: set[ColumnSet] = set()
    if section.adaptive and section.guarantee:
        candidates = {one for one in {*margins} - {*extra} if len(one) > 1}
        listed = listed - candidates | {(name,) for margin in listed for name in margin}
        if not candidates and margins:
            problems.append("dp.adaptive: no margin of several columns is left to choose")

    def ranked(some: set[ColumnSet]) -> tuple[ColumnSet, ...]:
        return tuple(sorted(some, key=lambda margin: (len(margin), margin)))

    return _Joint(
        columns=used,
        strata=strata,
        margins=ranked(listed),
        candidates=ranked(candidates),
        ranges=ranges,
        sums=_sums(section, used, context, problems) if section.sums else (),
        levels=tuple(sorted((name, of) for name, of in base.items() if name in used)),
    )


def _sums(
    section: DPSection, used: ColumnSet, context: DPContext, problems: list[str]
) -> tuple[tuple[str, ColumnSet], ...]:
    """Columns whose sums are measured, each in the groups of one other column or in none."""
    if section.strata:
        problems.append("dp.sums: not with strata; remove one of the two")
    found = [
        one.name
        for one in context.columns or ()
        if one.name in used and one.kind in NUMBER_KINDS and one.sums and one.domain is None
        if one.breaks is not None or one.step > 1
    ]
    if not found and context.columns is not None:
        problems.append(
            "dp.sums: no number that is counted has groups of values (breaks) whose sums would say more"
        )
    by = {
        (name, tuple(other for other in table if other != name))
        for name in found
        for table in context.tables
        if name in table and len(table) <= 2
    }
    return tuple(sorted(by | {(name, ()) for name in found}, key=lambda s: (len(s[1]), s)))


def _named(names: Sequence[str], place: str, context: DPContext, problems: list[str]) -> ColumnSet:
    """The columns of a list that are data columns; the others are reported."""
    for name in dict.fromkeys(names):
        if name in context.entities:
            problems.append(f"{place}: {name} identifies the entities; it cannot be counted")
        elif name not in context.names:
            problems.append(f"{place}: no column {name}{did_you_mean(name, context.names)}")
    if len(set(names)) < len(names):
        problems.append(f"{place}: names a column twice")
    return column_set(tuple({*names} & {*context.names}))


def _listed(
    lists: Sequence[Sequence[str]],
    place: str,
    strata: ColumnSet,
    context: DPContext,
    problems: list[str],
) -> tuple[ColumnSet, ...]:
    """The margins of a list of lists; wrong ones are reported and left out."""
    margins: dict[ColumnSet, str] = {}
    for number, names in enumerate(lists, start=1):
        where, n_before = f"{place}[{number}]", len(problems)
        margin = _named(names, where, context, problems)
        if not names:
            problems.append(f"{where}: names no column")
        problems += [
            f"{where}: {name} is one of the strata, within which every margin is counted anyway"
            for name in margin
            if name in strata
        ]
        if margin in margins:
            problems.append(f"{where}: the same margin as {margins[margin]}")
        elif len(problems) == n_before:
            margins[margin] = where
    return tuple(margins)


def _all_of(width: int | None, names: ColumnSet, problems: list[str]) -> tuple[ColumnSet, ...]:
    """Every margin of a given number of columns."""
    if not names:
        return ()  # no table is valid, which is reported already
    if width is None:
        width = min(2, len(names))
    elif not 1 <= width <= WIDEST_MARGINS:
        problems.append(f"dp.margins: must be a number from 1 to {WIDEST_MARGINS}, not {width}")
        return ()
    elif width > len(names):
        problems.append(f"dp.margins: {width} columns each, but only {len(names)} are counted")
        return ()
    if math.comb(len(names), width) > MOST_MARGINS:
        problems.append(
            f"dp.margins: {math.comb(len(names), width):,} margins, more than {MOST_MARGINS:,}; list those that matter"
        )
        return ()
    return tuple(combinations(names, width))


def _ranges(
    section: DPSection,
    used: ColumnSet,
    strata: ColumnSet,
    context: DPContext,
    problems: list[str],
) -> tuple[tuple[str, int], ...]:
    """One-way margins that are measured as trees."""
    by_name = {column.name: column for column in context.columns or ()}
    for name, branching in section.ranges.items():
        place, column = f"dp.ranges.{name}", by_name.get(name)
        if name not in context.names:
            problems.append(f"{place}: no column {name}{did_you_mean(name, used)}")
        elif name in strata:
            problems.append(f"{place}: is one of the strata")
        elif name not in used:
            problems.append(f"{place}: {name} is in no table and no margin")
        elif column is not None and (column.is_ranked or column.kind == "boolean"):
            problems.append(
                f"{place}: {name} has no order; only numbers, dates and timestamps have ranges"
            )
        if branching < 2:
            problems.append(
                f"{place}: must be a whole number of at least 2, such as 16, not {branching}"
            )
    return tuple(sorted((n, b) for n, b in section.ranges.items() if n in used and n not in strata))


def _counting_mistakes(
    section: DPSection, joint: _Joint, zeros: Sequence[ZeroRule], context: DPContext
) -> list[str]:
    """Columns without a public domain; if there are none, margins with too many cells."""
    if context.columns is None or section.max_cells < 1:
        return []  # reported already
    counted = [column for column in context.columns if column.name in joint.columns]
    if context.source is not None and (found := _detected(counted)):
        return found
    problems = [sentence for column in counted for sentence in missing_domain(column)]
    if problems:
        return problems
    sizes = {column.name: n_levels(column) for column in counted}
    wanted = [
        ("dp.method" if section.method == "catall" else "dp.margins", {*margin, *joint.strata})
        for margin in (*joint.margins, *joint.candidates)
    ] + [(f"dp.zeros[{number}]", {*rule.columns}) for number, rule in enumerate(zeros, start=1)]
    large = []
    for place, names in wanted:
        cells = n_cells(tuple(sizes[name] for name in names))
        if cells > section.max_cells:
            large.append(
                f"{place}: {', '.join(sorted(names))} have {cells:,} cells, more than dp.max_cells = "
                f"{section.max_cells:,}; group columns (breaks), use fewer columns, or raise max_cells"
            )
    more = len(large) - MOST_SENTENCES
    return large[:MOST_SENTENCES] + (
        [f"dp.margins: ... and {more:,} more of this kind"] if more > 0 else []
    )


def _detected(columns: Sequence[Column]) -> list[str]:
    """Say which settings of columns were found in the data: they disclose something about it, without noise."""
    found = [(c.name, [key for key in c.detected if key in _OF_DATA]) for c in columns]
    return [
        f"columns.{name}.detected: {', '.join(keys)} {'was' if len(keys) == 1 else 'were'} found in the data, and mode "
        "dp takes nothing from it; set what is known independently of the data, then remove it from detected"
        for name, keys in found
        if keys
    ]


def n_levels(column: Column) -> int:
    """Number of public levels, including null if the column may be null: `len(domains.levels_of(column))`."""
    return _n_values(column) + column.nullable


def missing_domain(column: Column) -> list[str]:
    """Say what a column lacks to be counted by its public domain, with places; empty if nothing is missing."""
    place = f"columns.{column.name}"
    if column.kind == "boolean":
        return []
    declared = column.domain if column.is_ranked else column.bounds
    if declared is None:
        what = "list every possible value" if column.is_ranked else "{ min = ..., max = ... }"
        return [
            f"{place}.domain: mode dp needs a public domain; declare it ({what}), with public = true"
        ]
    problems = []
    if not column.public:
        problems.append(
            f"{place}.public: mode dp needs a public domain; if this one is known independently of the data, "
            "set public = true"
        )
    if column.is_ranked:
        return problems
    return problems + _grid_mistakes(column, place)


def _grid_mistakes(column: Column, place: str) -> list[str]:
    """What is wrong with the levels of a grid column that has bounds."""
    step, bounds = column.resolution, column.bounds
    if step is not None and not all(step.holds(value) for value in bounds or ()):
        return [f"{place}.domain: min or max is not a multiple of the resolution"]
    if column.breaks is not None:
        wrong = misplaced_breaks(column.breaks, bounds, resolution=step, step=column.step)
        if wrong is not None:
            return [f"{place}.breaks: {wrong}"]
    n_values = _n_values(column)
    if n_values < 1:
        return [f"{place}.domain: contains no multiple of the step {column.step}"]
    if n_values > MOST_LEVELS:
        return [
            f"{place}.breaks: {n_values:,} values or groups, more than {MOST_LEVELS:,}; group the domain with "
            "breaks = [...], the lower end of each group but the first"
        ]
    return []


def _n_values(column: Column) -> int:
    """Number of levels without null."""
    if column.kind == "boolean":
        return 2
    if column.is_ranked:
        return len(column.domain or ())
    if column.breaks is not None:
        return len(column.breaks) + 1
    if column.bounds is None:
        return 0
    low, high = (_units(column, value) for value in column.bounds)
    return high // column.step + -low // column.step + 1


def _units(column: Column, value: Any) -> int:
    """A bound in units of the column's resolution."""
    step = column.resolution or Resolution()
    if column.kind not in PERIODS:
        return int(Fraction(str(value)) / step.step)
    moment = seconds_of(value)
    return number_of(moment, step.period) if step.period else moment // unit(column.kind)


def zero_rules(
    raw_rules: Sequence[Mapping[str, list[Any] | dict[str, Any]]],
    counted: ColumnSet,
    columns: Sequence[Column],
    problems: list[str],
) -> tuple[ZeroRule, ...]:
    """Make the structural zeros that `zeros` declares: by column a list of values, or the smallest and largest."""
    by_name = {column.name: column for column in columns}
    rules = []
    for number, raw in enumerate(raw_rules, start=1):
        place, parts = f"dp.zeros[{number}]", []
        if not raw:
            problems.append(f"{place}: names no column")
        for name, what in raw.items():
            if name not in counted:
                tail = did_you_mean(name, counted)
                problems.append(f"{place}.{name}: is in no table, margin or stratum{tail}")
            elif name in by_name:
                parts.append(_zero_part(what, by_name[name], f"{place}.{name}", problems))
        rules += [ZeroRule(parts=tuple(parts))] if parts else []
    return tuple(rules)


def _zero_part(
    what: list[Any] | dict[str, Any], column: Column, place: str, problems: list[str]
) -> ZeroPart:
    """The values of one column in an impossible combination."""
    if isinstance(what, list):
        values = tuple(fitting(value, column, place, problems) for value in what)
        if not values:
            problems.append(f"{place}: lists no value")
        if column.is_ranked and column.domain is not None:
            problems += [
                f"{place}: {value!r} is not in the domain"
                for value in values
                if value is not None and value not in column.domain
            ]
        return ZeroPart(column=column.name, values=values)
    if not what or not {*what} <= {"min", "max"}:
        problems.append(f"{place}: must be a list of values, or {{ min = ..., max = ... }}")
    elif column.is_ranked or column.kind == "boolean":
        problems.append(f"{place}: {column.name} has no order; list its values")
        return ZeroPart(column=column.name)
    low, high = (fitting(what.get(end), column, place, problems) for end in ("min", "max"))
    if low is not None and high is not None and low > high:
        problems.append(f"{place}: min is above max")
    return ZeroPart(column=column.name, low=low, high=high)
