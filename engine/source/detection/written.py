"""Finds how numbers and dates are written: decimal commas, signs between thousands, days before months.

Takes the relation `source`; gives a `Writing` by column, for columns that are not written plainly. Invariant: a way of
writing is found if enough entities show it and fewer than enough show anything else, by noisy thresholds, as every
form of a column is (`profile`); a column that reads in two ways follows the columns that read in one.
"""

from __future__ import annotations

import datetime
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

import duckdb

from engine.schema import Writing, entity_columns, literal, quoted
from engine.source.detection.names import RULES
from engine.source.detection.profile import Block, Rows, holders, list_cells
from engine.source.encoding import is_written, plain_sql
from engine.source.relation import fetch, rename

AT_A_TIME = 200
PLAIN = Writing()
NUMBERS = (
    *(Writing(decimal=",", thousands=sign) for sign in ("", ".", " ", "'")),
    *(Writing(decimal=".", thousands=sign) for sign in (",", " ", "'")),
)
"""Ways to write numbers but the plain one; the simpler first."""
_WRITTEN = RULES["written"]
DATES: dict[str, str] = {
    day + time: pattern + more
    for day, pattern in _WRITTEN["days"].items()
    for time, more in _WRITTEN["times"].items()
}
"""Ways to write dates but ISO's, with the pattern that they have."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Written:
    """How a column is written."""

    writing: Writing
    doubt: str = ""  # A remark, where it could be read otherwise


def written_columns(
    rows: Rows, texts: Sequence[str], *, delimiter: str | None, nulls: Sequence[str]
) -> dict[str, Written]:
    """Find how columns are written that are not written plainly.

    delimiter: Of the file: numbers in a file with commas have no decimal comma, if they can be read without.
    """
    chosen = [name for name in _strange(rows, texts) if name not in entity_columns(rows.entities)]
    numbers: dict[str, list[Writing]] = {}
    dates: dict[str, list[str]] = {}
    for block in rows.blocks(dict.fromkeys(chosen, "VARCHAR")):
        list_cells(block)
        found_numbers, found_dates = _fitting(block, nulls)
        numbers |= found_numbers
        dates |= found_dates
    found = _numbers(numbers, has_commas=delimiter in (",", None))
    return found | _dates({name: of for name, of in dates.items() if name not in found})


def with_plain_cells(
    con: duckdb.DuckDBPyConnection,
    columns: Iterable[str],
    written: Mapping[str, Written],
    place: str,
) -> None:
    """Let `source` show plainly what is written otherwise; what is not written so stays as it is."""
    cells = []
    for name in columns:
        if name in written:
            writing, cell = written[name].writing, quoted(name)
            kind = "timestamp" if writing.date_format else "real"
            cells.append(f"coalesce({plain_sql(writing, kind, cell)}, {cell}) AS {cell}")
        else:
            cells.append(quoted(name))
    rename(con, "source", "source_as_written")
    fetch(
        con, f"CREATE TEMP VIEW source AS SELECT {', '.join(cells)} FROM source_as_written", place
    )


def _strange(rows: Rows, texts: Sequence[str]) -> list[str]:
    """Columns with any cell that may be a number or a date that is not written plainly."""
    out: list[str] = []
    strange = literal(f"{_WRITTEN['strange_number']}|{_WRITTEN['strange_date']}")
    for start in range(0, len(texts), AT_A_TIME):
        names = texts[start : start + AT_A_TIME]
        tests = ", ".join(
            f"coalesce(bool_or(regexp_full_match({quoted(name)}, {strange})), false)"
            for name in names
        )
        row = rows.fetch(f"SELECT {tests} FROM source")[0]
        out += [name for name, is_strange in zip(names, row, strict=True) if is_strange]
    return out


def _fitting(
    block: Block, nulls: Sequence[str]
) -> tuple[dict[str, list[Writing]], dict[str, list[str]]]:
    """Ways to write numbers, and dates, that nearly all cells of a column have."""
    tests = [
        f"regexp_full_match(cell, {literal(_WRITTEN[form])})"
        for form in ("strange_number", "plain_number")
    ]
    tests += [is_written(writing, "cell") for writing in NUMBERS]
    tests += [
        # CASE: AND would parse what does not match, too, which takes ten times as long.
        f"CASE WHEN regexp_full_match(cell, {literal(pattern)}) THEN try_strptime(cell, {literal(form)}) IS NOT NULL "
        "ELSE false END"
        for form, pattern in DATES.items()
    ]
    held = holders(block, tests, f"cell NOT IN ({', '.join(map(literal, nulls))})")
    numbers, dates = {}, {}
    for name in block.names:
        (strange, _), *of_ways = held[name]
        # The same thresholds for all ways of writing: they are one decision.
        fits = [block.are_so(name, held_so, "written", "not written") for held_so in of_ways]
        ways = [PLAIN] if fits[0] else []
        ways += [way for way, fit in zip(NUMBERS, fits[1:], strict=False) if fit]
        forms = [form for form, fit in zip(DATES, fits[1 + len(NUMBERS) :], strict=True) if fit]
        # Whole numbers read alike in all ways: signs must be shown by enough.
        if ways and strange >= block.of("form", name, "written shown"):
            numbers[name] = ways
        if forms:
            dates[name] = forms
    return numbers, dates


def _numbers(ways: Mapping[str, Sequence[Writing]], *, has_commas: bool) -> dict[str, Written]:
    """Choose how numbers are written: with the decimal sign of the columns that leave no choice."""
    certain = Counter(
        next(iter(signs)) for of in ways.values() if len(signs := {way.decimal for way in of}) == 1
    )
    usual = "," if certain[","] > certain["."] or (not certain and not has_commas) else "."
    found = {}
    for name, of in ways.items():
        alike = [way for way in of if way.decimal == usual] or list(of)
        way = alike[0]
        if way != PLAIN:
            found[name] = Written(
                writing=way, doubt=_doubt(way) if len({w.decimal for w in of}) > 1 else ""
            )
    return found


def _doubt(way: Writing) -> str:
    parted = f', thousands = "{way.thousands}"' if way.thousands else ""
    return (
        f'in doubt: numbers that can be read in two ways; read with decimal = "{way.decimal}"{parted}, as in other '
        "columns or as the delimiter suggests"
    )


def _dates(forms: Mapping[str, Sequence[str]]) -> dict[str, Written]:
    """Choose how dates are written: with the order of the columns that leave no choice, else days first."""
    first = Counter(of[0][1] for of in forms.values() if len(of) == 1)
    order = "m" if first["m"] > first["d"] else "d"
    found = {}
    for name, of in forms.items():
        alike = [form for form in of if form[1] == order] or list(of)
        doubt = ""
        if len(of) > 1:
            doubt = (
                f'in doubt: days and months can be exchanged; read as date_format = "{alike[0]}"'
            )
        writing = Writing(date_format=alike[0])
        if writing.has_short_years:
            this_year = datetime.date.today().year
            writing = replace(writing, century=f"{this_year - 99}..{this_year}")
            doubt += (
                f"{'; ' if doubt else 'in doubt: '}years of two digits are read as {writing.century}, so that none "
                "lies ahead; where some do (expiry dates) or people are older, say other hundred years in century"
            )
        found[name] = Written(writing=writing, doubt=doubt)
    return found
