"""What the cells of a column have in common: forms that nearly all of them have.

Takes a block of columns and its table `cells`; gives a `Shape` for each. A column has a form if enough entities show
it and fewer than enough show another one, both by noisy thresholds of the column's own: one person more never decides
but by chance. What does not fit in the end is refused when the release is built.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from engine.schema import Column, ColumnKind, Resolution, literal
from engine.source.detection.holders import Block, by_place, holders
from engine.source.detection.resolution import NUMBER_PATTERN
from engine.source.detection.thresholds import Thresholds
from engine.source.encoding import cell_class, code_sql

_WHOLE = r"[+-]?[0-9]+(\.0*)?"
_TRUTH = ("true", "false", "t", "f")
_SMALL_INTEGERS = frozenset(
    {"TINYINT", "SMALLINT", "INTEGER", "BIGINT", "UTINYINT", "USMALLINT", "UINTEGER"}
)
_MOST_DIGITS = 6
_TEXT = "CAST(cell AS VARCHAR)"


@dataclass(frozen=True, kw_only=True, slots=True)
class Shape:
    """Facts of the cells that are not a spelling of null."""

    n: int  # Distinct cells. Only to be compared with a margin that is noisy.
    n_usual: int  # Distinct cells that enough entities hold
    n_with_rare: int  # Entities that hold a cell that fewer hold
    is_empty: bool  # Hardly anybody has a cell
    is_whole: bool
    is_huge: bool  # Digits only, but of more entities than few too many for a number
    is_number: bool
    is_boolean: bool
    is_date: bool
    is_timestamp: bool
    is_time: bool
    has_leading_zero: bool
    has_fixed_digits: bool


def shapes_of(
    block: Block, thresholds: Thresholds, nulls: Mapping[str, Sequence[str]]
) -> dict[str, Shape]:
    """Look at all cells but spellings of null.

    nulls: For each column to look at the spellings of null, none of which is a cell here.
    """
    tests = _tests(block.sql_type)
    cells = outside(block, nulls)
    usual = by_place(thresholds.of("distinct", name) for name in block.names)
    held = holders(block, [*tests.values(), "true", f"n < {usual}"], cells)
    numbers = {
        block.names[j]: (n, n_usual)
        for j, n, n_usual in block.fetch(
            f"SELECT j, count(*), count(*) FILTER (n >= {usual}) FROM cells WHERE {cells} GROUP BY j"
        )
    }
    certain = _certain(block.sql_type)
    out = {}
    for name in nulls:
        *of_forms, (everybody, _), (with_rare, _) = held[name]
        seen = _Seen(
            name=name,
            thresholds=thresholds,
            certain=certain,
            showing={form: n for form, (n, _) in zip(tests, of_forms, strict=True)},
            others={form: n for form, (_, n) in zip(tests, of_forms, strict=True)},
        )
        n, n_usual = numbers.get(name, (0, 0))
        out[name] = _shape(seen, int(n), int(n_usual), everybody, with_rare)
    return out


@dataclass(frozen=True, kw_only=True, slots=True)
class _Seen:
    """How many entities show each form in a column, and how many another one."""

    name: str
    thresholds: Thresholds
    certain: Mapping[str, bool]
    showing: Mapping[str, int]
    others: Mapping[str, int]

    def has(self, form: str) -> bool:
        """Whether the column has a form."""
        if form in self.certain:
            return self.certain[form]
        # The same threshold: they differ by huge numbers only.
        what = "whole" if form == "like whole" else form
        enough = self.showing[form] >= self.thresholds.of("form", self.name, f"{what} shown")
        return enough and self.others[form] < self.thresholds.of("form", self.name, f"not {what}")


def _shape(seen: _Seen, n: int, n_usual: int, everybody: int, with_rare: int) -> Shape:
    """The shape of one column."""
    name, of = seen.name, seen.thresholds.of
    too_many_digits = seen.others["whole"] >= of("form", name, "not whole")
    return Shape(
        n=n,
        n_usual=n_usual,
        n_with_rare=with_rare,
        is_empty=everybody < of("values", name, "any"),
        is_whole=seen.has("whole"),
        is_huge=seen.has("like whole") and not seen.certain.get("whole", False) and too_many_digits,
        is_number=seen.has("number"),
        is_boolean=seen.has("boolean"),
        is_date=seen.has("date"),
        is_timestamp=seen.has("timestamp"),
        is_time=seen.has("time"),
        has_leading_zero=seen.showing["zero"] >= of("form", name, "zero shown"),
        has_fixed_digits=any(seen.has(f"{digits} digits") for digits in range(1, _MOST_DIGITS + 1)),
    )


def outside(block: Block, nulls: Mapping[str, Sequence[str]]) -> str:
    """SQL that says whether a cell is one of these columns', and no spelling of null there."""
    of_these = block.places(nulls)
    listed = [", ".join(map(literal, nulls.get(name, ()))) for name in block.names]
    if not any(listed):
        return of_these
    if len(set(listed)) == 1:
        return f"{of_these} AND cell NOT IN ({listed[0]})"
    by_column = by_place(f"[{texts}]::VARCHAR[]" for texts in listed)
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
        probe = Column(
            name="cell", kind=kind, value_type="integer", resolution=Resolution(exponent=-2)
        )
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
