"""What is counted of the cells of columns: distinct ones, forms that nearly all have, grid steps, rows of one entity.

Takes columns of the relation `source` in blocks of one type, since in a wide source a statement costs more than its
rows; each block gives the table `cells(j, cell, n)`, distinct cells of the column at place j with the number of
entities that hold each. With several entity columns the smallest number counts: it changes by one at most where one
entity of any kind comes or goes. So nobody with many rows decides alone.

A column has a form if enough entities show it and fewer than enough show another one, both by noisy thresholds of the
column's own: one person more never decides but by chance. What does not fit in the end is refused when the release is
built. The step of a grid is one that enough entities show; where that is so fine that hardly anybody shares a value,
nearly all values would be suppressed: then the step is coarser, until values are shared.

How many rows of one entity count (`proposed_bound`): the right bound cuts the rows of a few entities only. With a
lower one what is cut away outweighs the noise, with a higher one the noise outweighs it. The bound of a value answers
to two things. Fewer entities than a threshold have more rows in its worst value. And over all values of the column
little is cut away beside the noise, or intervals would not hold: the noise is about 1.4 times the bound, so a quarter
of a bound a value is allowed, a sixth of the noise. Each entity stands for at most one bound of it, in the value that
it has most rows of, so that one more moves the comparison by one at most.

Source: Amin, Kulesza, Munoz Medina, Vassilvitskii, "Bounding user contributions: a bias-variance trade-off in
differential privacy", ICML 2019.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import duckdb

from engine.params import MOST_ROWS
from engine.periods import LENGTHS, PERIODS, unit
from engine.schema import (
    Column,
    ColumnKind,
    Entity,
    Resolution,
    columns_of,
    entity_name,
    literal,
    quoted,
)
from engine.source.detection.names import RULES
from engine.source.detection.thresholds import LEAST, Decision, Thresholds
from engine.source.encoding import cell_class, cell_sql, code_sql, joined_sql
from engine.source.relation import fetch

CELLS = 300_000
"""So many cells a block has at most, since they are laid out below each other; of a longer source, one column's."""
MOST_COLUMNS = 256
"""So many columns a block has at most."""
NUMBER_PATTERN: str = RULES["written"]["plain_number"]
"""What counts as a number in a column of texts."""
_COARSER = 20
"""Steps that are tried, each ten times the one before: values of a column rarely span more powers of ten."""
_FEWEST = 5
"""A coarser step is proposed of whole numbers and dates if as many values are left."""
_VALUES = 4
"""Of so many values one bound may be cut away."""
_POWERS = tuple(1 << power for power in range(MOST_ROWS.bit_length()))
_WHOLE = r"[+-]?[0-9]+(\.0*)?"
_TRUTH = ("true", "false", "t", "f")
_SMALL_INTEGERS = frozenset(
    {"TINYINT", "SMALLINT", "INTEGER", "BIGINT", "UTINYINT", "USMALLINT", "UINTEGER"}
)
_MOST_DIGITS = 6
_TEXT = "CAST(cell AS VARCHAR)"


@dataclass(frozen=True, kw_only=True, slots=True)
class Rows:
    """The relation `source`, and by what it is judged."""

    con: duckdb.DuckDBPyConnection
    thresholds: Thresholds
    n_rows: int
    entities: tuple[Entity, ...] = ()  # Kinds of entities; empty: each row is one
    place: str = "the source"  # What is being read, for messages

    def fetch(self, sql: str) -> list[tuple[Any, ...]]:
        return fetch(self.con, sql, self.place)

    def blocks(self, types: Mapping[str, str]) -> Iterator[Block]:
        """Columns of one type together, as many as a block may have."""
        alike: dict[str, list[str]] = {}
        for name, sql_type in types.items():
            alike.setdefault(sql_type, []).append(name)
        most = max(1, min(MOST_COLUMNS, CELLS // max(self.n_rows, 1)))
        for sql_type, names in alike.items():
            for start in range(0, len(names), most):
                yield Block(
                    con=self.con,
                    thresholds=self.thresholds,
                    n_rows=self.n_rows,
                    entities=self.entities,
                    place=self.place,
                    names=tuple(names[start : start + most]),
                    sql_type=sql_type,
                )


@dataclass(frozen=True, kw_only=True, slots=True)
class Block(Rows):
    """Columns of one type that are looked at together."""

    names: tuple[str, ...]
    sql_type: str

    @property
    def is_text(self) -> bool:
        """Whether cells are texts that may spell anything."""
        return self.sql_type == "VARCHAR"

    def of(self, decision: Decision, name: str, what: str = "") -> int:
        """The number of entities that a decision about a column asks for."""
        return self.thresholds.of(decision, name, what)

    def each_of(self, decision: Decision, what: str = "") -> str:
        """SQL of the same for the column at place j."""
        return self.by_place(self.of(decision, name, what) for name in self.names)

    def by_place(self, values: Iterable[str | float]) -> str:
        """SQL of what belongs to the column at place j, given for each place in turn."""
        return f"([{', '.join(map(str, values))}])[j + 1]"

    def places(self, names: Iterable[str]) -> str:
        """SQL that says whether j is the place of one of these columns."""
        chosen = set(names)
        if chosen.issuperset(self.names):
            return "true"
        places = (str(j) for j, name in enumerate(self.names) if name in chosen)
        return f"j IN ({', '.join(places)})"

    def laid_out(self, entities: Sequence[Entity] = ()) -> str:
        """SQL of all cells below each other: j, cell, and who0, who1, ... for kinds of entities."""
        cells = [plain_cell(name, self.sql_type) for name in self.names]
        who = "".join(f", {who_sql(entity)} AS who{i}" for i, entity in enumerate(entities))
        if len(cells) == 1:
            return f"SELECT 0 AS j, {cells[0]} AS cell{who} FROM source"
        places, listed = ", ".join(map(str, range(len(cells)))), ", ".join(cells)
        return f"SELECT unnest([{places}]) AS j, unnest([{listed}]) AS cell{who} FROM source"

    def counted(self, where: str, by: str) -> str:
        """SQL of the people, as n, who hold some of the cells laid out."""
        who = [f"who{i}" for i in range(len(self.entities))]
        return f"SELECT {by}, {people_sql(who)} AS n FROM ({self.laid_out(self.entities)}) WHERE {where} GROUP BY {by}"

    def of_people(self, cells: str, each: str) -> list[str]:
        """SQL of what each of theirs is to people, and n, of some rows of `cells`: once for each kind of entity."""
        return [
            f"SELECT j, {each}, 1 AS n FROM ({self.laid_out((entity,))}) JOIN ({cells}) USING (j, cell) "
            "GROUP BY j, who0"
            for entity in self.entities
        ] or [cells]

    def are_so(self, name: str, held: tuple[int, int], what: str, other: str = "") -> bool:
        """Whether nearly all cells of a column are so and so.

        held: How many entities hold a cell that is, and one that is not. what, other: The two thresholds' names.
        """
        is_shown = held[0] >= self.of("form", name, f"{what} shown")
        return is_shown and held[1] < self.of("form", name, other or f"no {what}")


def list_cells(block: Block) -> None:
    """Make the table `cells`: distinct cells that are not null or empty, and how many entities hold each."""
    counted = block.counted("cell IS NOT NULL", "j, cell")
    block.fetch(f"CREATE OR REPLACE TABLE cells AS {counted}")


def people_sql(entities: Sequence[str]) -> str:
    """SQL that counts people, given SQL of whom a row is about: of several kinds the fewest, of none the rows."""
    counts = [f"count(DISTINCT {entity})" for entity in entities] or ["count(*)"]
    return counts[0] if len(counts) == 1 else f"least({', '.join(counts)})"


def who_sql(entity: Entity) -> str:
    """SQL of whom a row of the relation `source` is about."""
    return joined_sql([quoted(name) for name in columns_of(entity)])


def plain_cell(name: str, sql_type: str) -> str:
    """SQL of a cell as the source has it; an empty text is null."""
    return cell_sql(Column(name=name, kind="text", value_type="text"), sql_type)


def holders(
    block: Block, conditions: Sequence[str], where: str = "true"
) -> dict[str, list[tuple[int, int]]]:
    """How many entities hold at least one cell of each kind, and how many one of another kind, by column."""
    # Each distinct cell is judged once: that is what costs, not the join.
    judged = ", ".join(f"coalesce({c}, false) AS h{i}" for i, c in enumerate(conditions))
    other = ", ".join(f"NOT h{i} AS o{i}" for i in range(len(conditions)))
    cells = f"SELECT *, {other} FROM (SELECT j, cell, n, {judged} FROM cells WHERE {where})"
    flags = [f"{flag}{i}" for i in range(len(conditions)) for flag in "ho"]
    sums = ", ".join(f"coalesce(sum(n) FILTER ({flag}), 0)" for flag in flags)
    least: dict[str, list[int]] = {}
    for people in block.of_people(cells, ", ".join(f"bool_or({flag}) AS {flag}" for flag in flags)):
        found = dict.fromkeys(block.names, [0] * len(flags))
        for j, *numbers in block.fetch(f"SELECT j, {sums} FROM ({people}) GROUP BY j"):
            found[block.names[j]] = [int(n) for n in numbers]
        least = {name: list(map(min, n, least.get(name, n))) for name, n in found.items()}
    return {name: list(zip(n[::2], n[1::2], strict=True)) for name, n in least.items()}


def detected_resolutions(
    block: Block, kinds: Mapping[str, ColumnKind]
) -> dict[str, tuple[Resolution, Resolution | None]]:
    """Find the finest step that enough entities show and at which most of them share a value with enough others.

    Returns: The step, and the one in which the values are written; None for a continuous column.
    """
    digits = (
        f"CASE WHEN contains(lower({_TEXT}), 'e') THEN 30 "
        f"ELSE length(rtrim(split_part({_TEXT}, '.', 2), '0')) END"
    )
    is_number = f"regexp_full_match({_TEXT}, {literal(NUMBER_PATTERN)})"
    enough = {name: block.of("resolution", name, "digits") for name in kinds}
    fixed = {
        name: -reached
        for name, reached in _reached(block, digits, is_number, enough).items()
        if reached <= (6 if kinds[name] == "decimal" else 4)
    }
    # Continuous: at least a million steps up to the size that enough entities reach.
    number = "TRY_CAST(cell AS DOUBLE)"
    sizes = _reached(
        block,
        f"CAST(floor(log2(abs({number}))) AS BIGINT)",
        f"{is_number} AND {number} <> 0 AND isfinite({number})",
        {name: block.of("resolution", name, "size") for name in kinds if name not in fixed},
    )
    finest = fixed | {
        name: max(min(math.ceil((size - 20) * math.log10(2)), 18), -18)
        for name, size in sizes.items()
    }
    ladders = {
        name: [10.0 ** (exponent + more) for more in range(_COARSER)]
        for name, exponent in finest.items()
    }
    shared = _shared(block, ladders, number, f"{is_number} AND isfinite({number})")
    return {
        name: (
            Resolution(exponent=finest[name] + shared[name]),
            Resolution(exponent=fixed[name]) if name in fixed else None,
        )
        for name in finest
    }


def coarser_grids(block: Block, kinds: Mapping[str, ColumnKind]) -> dict[str, Resolution]:
    """Of whole numbers, dates and times that hardly anybody shares the finest step at which they are shared."""
    found: dict[str, Resolution] = {}
    for kind in sorted(set(kinds.values())):
        names = [name for name, of in kinds.items() if of == kind]
        periods = PERIODS.get(kind, ())
        steps = [Resolution(period=one) for one in periods] or [
            Resolution(exponent=more) for more in range(1, _COARSER)
        ]
        sizes = [
            1.0,
            *(LENGTHS[s.period] / unit(kind) if periods else float(s.step) for s in steps),
        ]
        probe = Column(name="cell", kind=kind, value_type="integer")
        code = code_sql(
            probe, "VARCHAR" if cell_class(block.sql_type) == "text" else block.sql_type, "cell"
        )
        rungs = _shared(
            block, dict.fromkeys(names, sizes), code, f"({code}) IS NOT NULL", fewest=_FEWEST
        )
        found |= {name: steps[rung - 1] for name, rung in rungs.items() if rung}
    return found


def _shared(
    block: Block,
    ladders: Mapping[str, Sequence[float]],
    value: str,
    condition: str,
    *,
    fewest: int = 0,
) -> dict[str, int]:
    """Which is the first of the given steps at which more than half of the entities have values of many.

    Of each value all entities but the first `LEAST` count, and of an entity its smallest value only, so that one entity
    more or less changes the number by one. Where no step is coarse enough, or leaves fewer than so many values that
    enough entities hold, the first one.
    """
    numbers = (
        f"SELECT j, cell, n, {value} AS v FROM cells WHERE {block.places(ladders)} AND {condition}"
    )
    kinds = block.of_people(numbers, "min(v) AS v")
    enough = {name: block.of("resolution", name, "shared") for name in ladders}
    usual = block.each_of("distinct")
    found, left = dict.fromkeys(ladders, 0), set(ladders)
    for rung in range(max(map(len, ladders.values()), default=0)):
        left = {name for name in left if rung < len(ladders[name])}
        if not left:
            break
        step = block.by_place(ladders[name][rung] if name in left else 1.0 for name in block.names)
        is_shared, is_told = dict.fromkeys(left, True), dict.fromkeys(left, True)
        for people in kinds:
            for j, n_values, total, crowded in block.fetch(
                f"SELECT j, count(*) FILTER (n >= {usual}), sum(n), sum(greatest(n - {LEAST}, 0)) FROM "
                f"(SELECT j, round(v / {step}) AS cell, sum(n) AS n FROM ({people}) GROUP BY ALL) GROUP BY j"
            ):
                name = block.names[j]
                if name in left and crowded - total // 2 < enough[name]:
                    is_shared[name] = False
                if name in left and n_values < fewest:
                    is_told[name] = False
        for name, is_so in is_shared.items():
            if is_so:
                found[name] = rung if is_told[name] else 0
                left.discard(name)
    return found


def _reached(
    block: Block, metric: str, condition: str, enough: Mapping[str, int]
) -> dict[str, int]:
    """The largest value of a whole-number metric of cells that enough entities reach, by column; 0 if none."""
    if not enough:
        return {}
    measured = (
        f"SELECT j, cell, n, {metric} AS m FROM cells WHERE {block.places(enough)} AND {condition}"
    )
    reached: dict[str, int] = {}
    for people in block.of_people(measured, "max(m) AS m"):
        n_so_far, best = dict.fromkeys(enough, 0), dict[str, int]()
        for j, m, n in block.fetch(
            f"SELECT j, m, sum(n) FROM ({people}) GROUP BY j, m ORDER BY j, m DESC"
        ):
            name = block.names[j]
            n_so_far[name] += int(n)
            if n_so_far[name] >= enough[name]:
                best.setdefault(name, int(m))
        of_kind = {name: best.get(name, 0) for name in enough}
        reached = {name: min(m, reached.get(name, m)) for name, m in of_kind.items()}
    return reached


@dataclass(frozen=True, kw_only=True, slots=True)
class Shape:
    """Facts of the cells that are not a spelling of null."""

    n: int  # Distinct cells. Only to be compared with a margin that is noisy.
    n_usual: int  # Distinct cells that enough entities hold
    n_with_rare: int  # Entities that hold a cell that fewer hold
    is_empty: bool  # Hardly anybody has a cell
    is_huge: bool  # Digits only, but of more entities than few too many for a number
    has_leading_zero: bool
    forms: frozenset[str]  # Those of `_tests` that nearly all cells have

    def has(self, *forms: str) -> bool:
        return not self.forms.isdisjoint(forms)

    @property
    def has_fixed_digits(self) -> bool:
        return self.has(*(f"{digits} digits" for digits in range(1, _MOST_DIGITS + 1)))


def shapes_of(block: Block, nulls: Mapping[str, Sequence[str]]) -> dict[str, Shape]:
    """Look at all cells but spellings of null.

    nulls: For each column to look at the spellings of null, none of which is a cell here.
    """
    tests, certain = _tests(block.sql_type), _certain(block.sql_type)
    cells, usual = outside(block, nulls), block.each_of("distinct")
    held = holders(block, [*tests.values(), "true", f"n < {usual}"], cells)
    numbers = {
        block.names[j]: (n, n_usual)
        for j, n, n_usual in block.fetch(
            f"SELECT j, count(*), count(*) FILTER (n >= {usual}) FROM cells WHERE {cells} GROUP BY j"
        )
    }
    out = {}
    for name in nulls:
        *of_forms, (everybody, _), (with_rare, _) = held[name]
        n, n_usual = numbers.get(name, (0, 0))
        seen = dict(zip(tests, of_forms, strict=True))
        forms = {form for form, is_so in certain.items() if is_so}
        for form in tests.keys() - certain.keys():
            # The same thresholds: they differ by huge numbers only.
            what = "whole" if form == "like whole" else form
            if block.are_so(name, seen[form], what, f"not {what}"):
                forms.add(form)
        too_many_digits = seen["whole"][1] >= block.of("form", name, "not whole")
        out[name] = Shape(
            n=int(n),
            n_usual=int(n_usual),
            n_with_rare=with_rare,
            is_empty=everybody < block.of("values", name, "any"),
            is_huge="like whole" in forms and not certain.get("whole") and too_many_digits,
            has_leading_zero=seen["zero"][0] >= block.of("form", name, "zero shown"),
            forms=frozenset(forms),
        )
    return out


def outside(block: Block, nulls: Mapping[str, Sequence[str]]) -> str:
    """SQL that says whether a cell is one of these columns', and no spelling of null there."""
    of_these = block.places(nulls)
    listed = [", ".join(map(literal, nulls.get(name, ()))) for name in block.names]
    if not any(listed):
        return of_these
    if len(set(listed)) == 1:
        return f"{of_these} AND cell NOT IN ({listed[0]})"
    by_column = block.by_place(f"[{texts}]::VARCHAR[]" for texts in listed)
    return f"{of_these} AND NOT list_contains({by_column}, cell)"


def _certain(sql_type: str) -> dict[str, bool]:
    """Forms that the type of a column decides, whatever its cells are."""
    cell_type = cell_class(sql_type)
    if cell_type == "text":
        return {}
    out = {
        "like whole": cell_type == "integer",
        "number": cell_type in ("integer", "float", "decimal"),
        "boolean": cell_type == "boolean",
        "time": cell_type == "time",
    }
    if sql_type in _SMALL_INTEGERS:
        out["whole"] = True
    if cell_type in ("integer", "float", "decimal", "boolean", "time"):
        out |= {"date": False, "timestamp": False}
    if sql_type == "DATE":
        out |= {"date": True}
    elif sql_type.startswith("TIMESTAMP"):
        out |= {"timestamp": True}
    return out


def _tests(sql_type: str) -> dict[str, str]:
    """SQL on a cell that says whether it has a form, by form."""
    is_text = cell_class(sql_type) == "text"
    held_type = "VARCHAR" if is_text else sql_type

    def fits(kind: ColumnKind) -> str:
        step = Resolution(exponent=-2) if kind in ("real", "decimal") else None
        probe = Column(name="cell", kind=kind, value_type="integer", resolution=step)
        return f"{code_sql(probe, held_type, 'cell')} IS NOT NULL"

    whole = f"regexp_full_match({_TEXT}, {literal(_WHOLE)})" if is_text else "true"
    number = f"regexp_full_match({_TEXT}, {literal(NUMBER_PATTERN)}) AND isfinite(TRY_CAST(cell AS DOUBLE))"
    dashed = f"regexp_matches({_TEXT}, '^[0-9]+[-/][0-9]+[-/][0-9]+')" if is_text else "true"
    digits = f"length(split_part({_TEXT}, '.', 2))"
    return {
        "whole": f"({fits('integer')}) AND {whole}",
        "like whole": whole,
        "number": number if is_text else "true",
        "boolean": f"lower({_TEXT}) IN ({', '.join(map(literal, _TRUTH))})" if is_text else "true",
        "date": f"({fits('date')}) AND {dashed}",
        "timestamp": f"({fits('timestamp')}) AND {dashed}",
        "time": fits("time"),
        "zero": f"regexp_full_match({_TEXT}, '[+-]?0[0-9]+.*')",
        **{f"{count} digits": f"{digits} = {count}" for count in range(1, _MOST_DIGITS + 1)},
    }


def proposed_bound(rows: Rows) -> int:
    """The smallest power of two that fewer entities than a threshold have more rows than."""
    found = [1]
    for entity in rows.entities:
        held = f"SELECT count(*) AS n FROM source GROUP BY {who_sql(entity)}"
        above = [f"count(*) FILTER (n > {power})" for power in _POWERS]
        row = rows.fetch(f"SELECT {', '.join(above)} FROM ({held})")[0]
        found.append(_first_below(row, rows.thresholds.of("rows", entity_name(entity))))
    return max(found)


def proposed_bounds_of_values(block: Block, most: int) -> dict[str, int]:
    """The same for the rows of a single value of each column: where both its worst value and all of them allow it."""
    powers = [power for power in _POWERS if power < most]
    bounds = dict.fromkeys(block.names, 1)
    for entity in block.entities if powers else ():
        who = entity_name(entity)
        block.fetch(
            "CREATE OR REPLACE TABLE held AS SELECT j, cell, who0, count(*) AS n "
            f"FROM ({block.laid_out((entity,))}) GROUP BY ALL"
        )
        # The most entities that have more rows of one value than each power.
        above = ", ".join(f"count(*) FILTER (n > {power}) AS p{power}" for power in powers)
        largest = ", ".join(f"max(p{power})" for power in powers)
        for j, *most_above in block.fetch(
            f"SELECT j, {largest} FROM (SELECT j, {above} FROM held WHERE n > 1 GROUP BY j, cell) GROUP BY j"
        ):
            name = block.names[j]
            bound = _first_below(most_above, block.of("rows", name, who), last=most)
            bounds[name] = max(bounds[name], bound)
        # How many values are the one of most rows of enough entities; then what each power cuts there, in bounds.
        enough = block.each_of("rows", f"{who} values")
        each = ", ".join(
            f"sum(least(n / {power} - 1, 1)) FILTER (n > {power}) AS c{power}" for power in powers
        )
        total = ", ".join(f"sum(c{power})" for power in powers)
        mainly = "SELECT j, max(ROW(n, cell)) AS main FROM held GROUP BY j, who0"
        for j, n_values, *cut in block.fetch(
            f"SELECT j, count(*) FILTER (people >= {enough}), {total} "
            f"FROM (SELECT j, cell, count(*) AS people, {each} FROM "
            f"(SELECT j, main[2] AS cell, main[1] AS n FROM ({mainly})) GROUP BY j, cell) GROUP BY j"
        ):
            name = block.names[j]
            allowed = block.of("rows", name, f"{who} cut") + n_values // _VALUES
            bounds[name] = max(bounds[name], _first_below(cut, allowed, last=most))
        block.fetch("DROP TABLE held")
    return bounds


def _first_below(above: Sequence[float | None], threshold: int, *, last: int = MOST_ROWS) -> int:
    """The first power of two that fewer entities than the threshold lie above, or that cuts less than it says."""
    fitting = (p for p, n in zip(_POWERS, above, strict=False) if (n or 0) < threshold)
    return next(fitting, last)
