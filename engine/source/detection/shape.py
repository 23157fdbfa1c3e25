"""What the cells of one column have in common: forms that nearly all of them have.

Takes the table `cells` of a column; gives a `Shape`. A column has a form if enough entities show it and fewer than
enough show another one, both by noisy thresholds of the column's own: one person more never decides but by chance.
What does not fit in the end is refused when the release is built.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import duckdb

from engine.schema import Column, ColumnKind, Resolution, literal
from engine.source.detection.holders import holders
from engine.source.detection.resolution import NUMBER_PATTERN
from engine.source.detection.thresholds import Thresholds
from engine.source.encoding import cell_class, code_sql
from engine.source.relation import fetch

_PLACE = "the source"
_WHOLE = r"[+-]?[0-9]+(\.0*)?"
_TRUTH = ("true", "false", "t", "f")
_SMALL_INTEGERS = frozenset(
    {"TINYINT", "SMALLINT", "INTEGER", "BIGINT", "UTINYINT", "USMALLINT", "UINTEGER"}
)
_MOST_DIGITS = 6
_TEXT = "CAST(cell AS VARCHAR)"


@dataclass(frozen=True, kw_only=True, slots=True)
class Shape:
    """Facts of the cells that are not a spelling of null.

    Attributes
    ----------
    n : int
        Distinct cells. Only to be compared with a margin that is noisy.
    n_usual : int
        Distinct cells that enough entities hold.
    n_with_rare : int
        Entities that hold a cell that fewer hold.
    is_empty : bool
        Hardly anybody has a cell.
    is_huge : bool
        Digits only, but of more entities than few too many for a number.
    """

    n: int
    n_usual: int
    n_with_rare: int
    is_empty: bool
    is_whole: bool
    is_huge: bool
    is_number: bool
    is_boolean: bool
    is_date: bool
    is_timestamp: bool
    has_leading_zero: bool
    has_fixed_digits: bool


def shape_of(
    con: duckdb.DuckDBPyConnection,
    name: str,
    sql_type: str,
    entities: Sequence[str],
    thresholds: Thresholds,
    *,
    nulls: Sequence[str],
) -> Shape:
    """Look at all cells but spellings of null.

    Parameters
    ----------
    sql_type : str
        DuckDB type of the column.
    nulls : sequence of str
        Spellings of null, none of which is a cell here.
    """
    tests = _tests(sql_type)
    outside = f"cell NOT IN ({', '.join(map(literal, nulls))})" if nulls else "true"
    usual = thresholds.of("distinct", name)
    conditions = [*tests.values(), "true", f"n < {usual}"]
    *found, (everybody, _), (with_rare, _) = holders(
        con, name, sql_type, entities, conditions, outside
    )
    n_showing = {form: n for form, (n, _) in zip(tests, found, strict=True)}
    n_others = {form: n for form, (_, n) in zip(tests, found, strict=True)}
    certain = _certain(sql_type)

    def has(form: str) -> bool:
        if form in certain:
            return certain[form]
        what = (
            "whole" if form == "like whole" else form
        )  # the same threshold: they differ by huge numbers only
        enough = n_showing[form] >= thresholds.of("form", name, f"{what} shown")
        return enough and n_others[form] < thresholds.of("form", name, f"not {what}")

    n, n_usual = fetch(
        con, f"SELECT count(*), count(*) FILTER (n >= {usual}) FROM cells WHERE {outside}", _PLACE
    )[0]
    too_many_digits = n_others["whole"] >= thresholds.of("form", name, "not whole")
    return Shape(
        n=int(n),
        n_usual=int(n_usual),
        n_with_rare=with_rare,
        is_empty=everybody < thresholds.of("values", name, "any"),
        is_whole=has("whole"),
        is_huge=has("like whole") and not certain.get("whole", False) and too_many_digits,
        is_number=has("number"),
        is_boolean=has("boolean"),
        is_date=has("date"),
        is_timestamp=has("timestamp"),
        has_leading_zero=n_showing["zero"] >= thresholds.of("form", name, "zero shown"),
        has_fixed_digits=any(has(f"{digits} digits") for digits in range(1, _MOST_DIGITS + 1)),
    )


def _certain(sql_type: str) -> dict[str, bool]:
    """Forms that the type of a column decides, whatever its cells are."""
    cell_type = cell_class(sql_type)
    if cell_type == "text":
        return {}
    out = {
        "like whole": cell_type == "integer",
        "number": cell_type in ("integer", "float", "decimal"),
        "boolean": cell_type == "boolean",
    }
    if sql_type in _SMALL_INTEGERS:
        out["whole"] = True
    if cell_type in ("integer", "float", "decimal", "boolean"):
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
        "zero": f"regexp_full_match({_TEXT}, '[+-]?0[0-9]+.*')",
        **{f"{count} digits": f"{digits} = {count}" for count in range(1, _MOST_DIGITS + 1)},
    }
