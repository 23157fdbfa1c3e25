"""Text from outside: TOML and JSON that people wrote, and values to be shown in a terminal or notebook.

Nothing here fails on hostile text except with a ValueError.
"""

from __future__ import annotations

import html
import json
import math
import re
import tomllib
import unicodedata
from collections.abc import Iterable, Sequence
from typing import Any

DEEPEST = 100
"""Deepest nesting that a document may have."""
_DIGITS = re.compile(r"\d{4301}")  # more than Python reads as one number
_BRACKETS = re.compile(r"[\[{\]}\n]")
_ODD = re.compile(r"[^\x20-\x7e]")
_BREAKS = "\n\t"
_HIDDEN = {"Cc", "Cf", "Cs", "Zl", "Zp"}
"""Unicode categories: control and format characters, lone surrogates, line and paragraph separators."""
_JOINERS = "\u200c\u200d\u00ad"
"""Invisible characters that some languages and emoji need."""
_NUMBER = r"\d{1,3}(?:[.,' \u00a0\u202f\u2019]\d{3})+(?!\d)|\d+(?:[.,]\d+)?"
_AND = "and|or|und|oder|et|ou|y|e|o|en|of"
_UNIT = rf"(?:(?!(?:{_AND})\b)(?P<{{}}>[^\W\d_]+\.?|[%€$£]))?"
_BAND = re.compile(
    r"(?:(?P<below><=?|≤|under|below|less than|fewer than|younger than|up to|unter|bis unter|bis|weniger als"
    r"|moins de|jusqu'à|menos de|hasta|meno di|fino a|minder dan)"
    r"|(?P<above>>=?|≥|over|above|more than|older than|über|ab|mehr als|plus de|más de|mais de|più di|oltre"
    rf"|meer dan))?\s*[€$£]?\s*(?P<low>{_NUMBER})"
    rf"(?:\s*(?:-|–|—|to|bis unter|bis|à|a|al|tot|till|do)\s*[€$£]?\s*(?P<high>{_NUMBER}))?"
    rf"\s*{_UNIT.format('unit')}\s*"
    rf"(?P<open>\+|(?:{_AND})\s+(?P<less>less|under|below|younger|weniger|jünger|moins|menos|meno|minder)"
    rf"|(?:{_AND})\s+(?:over|above|more|older|mehr|älter|plus|más|più|mais|meer|ouder))?"
    rf"\s*{_UNIT.format('last')}",
    re.IGNORECASE,
)
"""A number, or several: 5-9, <5, 65+, 85 and over, 1,000 to 1,999 €."""
_MOSTLY = 0.75
N_SHOWN = 20
"""Number of tables that a plan shows by default."""
_LISTED = re.compile(r'\s*(?:"((?:[^"]|"")*)"|([^,]*?))\s*(?:,|\Z)', re.DOTALL)
"""A name in a list, quoted or not, up to the next comma."""
MANY, TOO_MANY = 1e5, 1e15
"""Between these, fractional numbers are shown with one decimal place, others with six digits."""


def parsed_toml(text: str) -> dict[str, Any]:
    """Parse TOML."""
    try:
        return tomllib.loads(text)
    except tomllib.TOMLDecodeError:
        raise
    except (RecursionError, ValueError):
        raise tomllib.TOMLDecodeError(_why_unread(text)) from None


def parsed_json(text: str) -> Any:
    """Parse JSON."""
    try:
        return json.loads(text)
    except json.JSONDecodeError:
        raise
    except (RecursionError, ValueError):
        raise ValueError(_why_unread(text)) from None


def _why_unread(text: str) -> str:
    """Say why a parser failed, and at which line."""
    long = _DIGITS.search(text)
    if long:
        line = 1 + text.count("\n", 0, long.start())
        return f"a number has more than 4,300 digits (at line {line})"
    depth, line = 0, 1
    for char in _BRACKETS.findall(text):
        line += char == "\n"
        depth += (char in "[{") - (char in "]}")
        if depth > DEEPEST:
            break
    return f"values are nested more than {DEEPEST} levels deep (at line {line})"


def shown(text: str) -> str:
    r"""A text that is safe to print to a terminal: control characters are escaped as `\x1b`; newlines and tabs stay."""
    return _ODD.sub(_escaped, text)


def _escaped(found: re.Match[str]) -> str:
    char = found[0]
    if char in _BREAKS or not is_hidden(char):
        return char
    return char.encode("unicode_escape").decode("ascii")


def plain(text: object) -> str:
    """A text in one line, without control characters and marks of direction."""
    return " ".join("".join(" " if is_hidden(c) else c for c in str(text)).split())


def is_hidden(char: str) -> bool:
    """Whether a character is not seen but may change how others are: controls, marks of direction, lone surrogates."""
    return char not in _JOINERS and unicodedata.category(char) in _HIDDEN


def figure_text(value: object) -> str:
    """A value for display: fractional numbers with six digits, but never 1.23457e+06 for a sum of incomes."""
    if value is None:
        return "NULL"
    if isinstance(value, float):
        return f"{value:.1f}" if MANY <= abs(value) < TOO_MANY else f"{value:g}"
    return str(value)


def text_table(columns: Sequence[str], rows: Iterable[Sequence[Any]], below: Sequence[str]) -> str:
    """Rows as text in aligned columns, with sentences below."""
    cells = [list(columns)]
    cells += [[figure_text(v) for v in row] for row in rows]
    widths = [max(len(row[j]) for row in cells) for j in range(len(columns))]
    lines = [
        "  ".join(v.ljust(w) for v, w in zip(row, widths, strict=True)).rstrip() for row in cells
    ]
    lines.insert(1, "  ".join("-" * w for w in widths))
    return "\n".join([*lines, *below])


def html_table(
    columns: Sequence[str], rows: Iterable[Sequence[Any]], *, above: str = "", below: Sequence[str]
) -> str:
    """Rows as an HTML table, with HTML above and sentences below."""
    head = "".join(f"<th>{html.escape(c)}</th>" for c in columns)
    body = "".join(
        "<tr>"
        + "".join(f"<td>{'' if v is None else html.escape(figure_text(v))}</td>" for v in row)
        + "</tr>"
        for row in rows
    )
    table = f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"
    return above + table + html_sentences(below)


def html_sentences(sentences: Sequence[str]) -> str:
    """Sentences as an HTML paragraph, one per line; empty if there are none."""
    lines = "<br>".join(html.escape(line) for line in sentences)
    return f"<p>{lines}</p>" if lines else ""


def names_from(text: str, known: Iterable[str] = ()) -> list[str]:
    """Split names separated by commas, as in a line of CSV: `age,"income, net"`; blanks around a comma do not count.

    known: Names that are meant as they are, if the whole text is one of them.
    """
    if text in known:
        return [text]
    found = (m[2] if m[1] is None else m[1].replace('""', '"') for m in _LISTED.finditer(text))
    return [name for name in found if name]


def names_text(names: Iterable[str], separator: str = ", ") -> str:
    """Return a list of names that `names_from` reads."""
    return separator.join(
        '"' + name.replace('"', '""') + '"' if names_from(name) != [name] else name
        for name in names
    )


def slug(text: str, otherwise: str) -> str:
    """Return a name of ASCII letters, digits, dots, dashes and underscores, as URLs and identifiers have."""
    return re.sub(r"[^A-Za-z0-9._-]+", "-", text).strip("-.") or otherwise


def spec_entry(columns: Iterable[str]) -> str:
    """The lines that add a table to a spec."""
    listed = ", ".join(json.dumps(c, ensure_ascii=False) for c in columns)
    return f"[[tables]]\ncolumns = [{listed}]"


def numeric_place(text: str) -> tuple[float, int, float, str]:
    """The place of a text by the numbers that it begins with: <5, 5-9, 10-14, 65+; texts without any come last."""
    band = _BAND.fullmatch(text.strip())
    if band is None:
        return math.inf, 0, math.inf, text
    is_above = band["above"] or (band["open"] and not band["less"])
    side = -1 if band["below"] or band["less"] else 1 if is_above else 0
    low = _amount(band["low"])
    return low, side, low if band["high"] is None else _amount(band["high"]), text


def are_bands(texts: Sequence[str]) -> bool:
    """Whether texts are bands of numbers, such as 5-9, 10-14 and 65+, but for a few, such as "unknown"."""
    found = [band for text in texts if (band := _BAND.fullmatch(text.strip()))]
    ranges = [(_amount(b["low"]), _amount(b["high"])) for b in found if b["high"] is not None]
    units = {unit.casefold()[:3] for b in found for unit in (b["unit"], b["last"]) if unit}
    is_wide = bool(ranges) and all(low <= high for low, high in ranges) and len(units) <= 1
    return is_wide and len(found) >= max(3, _MOSTLY * len(texts))


def _amount(text: str) -> float:
    """A number with signs between thousands, or with a decimal sign."""
    digits = re.sub(r"[.,' \u00a0\u202f\u2019](?=\d{3}(?!\d))", "", text)
    return float(digits.replace(",", "."))
