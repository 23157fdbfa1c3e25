"""Numbers and dates as people write them, as SQL that writes them plainly; and cells that hold objects, as text.

Takes how a column is written; gives an expression for its cells with a decimal point, without groups of thousands,
and dates in ISO's form. Invariant: what is not written as declared gives NULL, never another number.
"""

from __future__ import annotations

import datetime
import re
from typing import Any

from engine.schema import DATE_KINDS, NUMBER_KINDS, Writing, literal

_SPACES = "\u00a0\u202f\u2009"
_APOSTROPHES = "\u2019"
_HAS_TIME = re.compile("%[HISMp]")


def cell_text(cell: Any) -> str:
    """A cell as a CSV would have it."""
    if isinstance(cell, bool):
        return str(cell).lower()
    if isinstance(cell, float):
        return str(int(cell)) if cell.is_integer() and abs(cell) < 2**53 else repr(cell)
    if isinstance(cell, datetime.datetime):
        return cell.isoformat(sep=" ")
    return "" if cell is None else str(cell)


def plain_sql(writing: Writing, kind: str, cell: str) -> str:
    """A cell of text as the engine reads it, NULL if it is not written as declared.

    kind: Kind, or type of values; only numbers and dates are written in several ways.
    """
    if kind in NUMBER_KINDS and (writing.decimal != "." or writing.thousands):
        bare = cell
        for sign in _thousands(writing):
            bare = f"replace({bare}, {literal(sign)}, '')"
        if writing.decimal != ".":
            bare = f"replace({bare}, {literal(writing.decimal)}, '.')"
        return f"CASE WHEN {is_written(writing, cell)} THEN {bare} END"
    if kind in DATE_KINDS and writing.date_format:
        shown = "%Y-%m-%d %H:%M:%S.%f" if _HAS_TIME.search(writing.date_format) else "%Y-%m-%d"
        moment = f"try_strptime({cell}, {literal(writing.date_format)})"
        if writing.has_short_years and writing.century:
            # As text: a 29 February that the century lacks is no date, then.
            first = int(writing.century[:4])
            year = f"{first} + (year({moment}) + {100 - first % 100}) % 100"
            return f"({year}) || strftime({moment}, {literal(shown.removeprefix('%Y'))})"
        if "%Y" in writing.date_format:  # 35 would be read as the year 35
            moment = f"CASE WHEN regexp_matches({cell}, '[0-9]{{4}}') THEN {moment} END"
        return f"strftime({moment}, {literal(shown)})"
    return cell


def is_written(writing: Writing, cell: str) -> str:
    """SQL that says whether a cell is a number written so."""
    decimal = re.escape(writing.decimal)
    whole = "[0-9]+"
    if writing.thousands:
        one = f"[{''.join(re.escape(sign) for sign in _thousands(writing))}]"
        whole = f"([0-9]+|[0-9]{{1,3}}({one}[0-9]{{3}})+)"
    pattern = f"[+-]?({whole}({decimal}[0-9]*)?|{decimal}[0-9]+)([eE][+-]?[0-9]+)?"
    return f"regexp_full_match({cell}, {literal(pattern)})"


def _thousands(writing: Writing) -> str:
    """The signs that may stand between thousands: spaces and apostrophes come in several kinds."""
    kinds = {" ": _SPACES, "'": _APOSTROPHES}
    return writing.thousands + kinds.get(writing.thousands, "")
