"""Texts of others: TOML and JSON that people wrote, and values on their way to a terminal or a notebook.

Takes text; gives what it holds, or what can be shown of it. Nothing here fails on hostile text but by ValueError.
"""

from __future__ import annotations

import html
import json
import re
import tomllib
import unicodedata
from collections.abc import Iterable, Sequence
from typing import Any

DEEPEST = 100
"""Levels within each other that a document of people may have."""
_DIGITS = re.compile(r"\d{4301}")  # more than Python reads as one number
_BRACKETS = re.compile(r"[\[{\]}\n]")
_ODD = re.compile(r"[^\x20-\x7e]")
_BREAKS = "\n\t"
_HIDDEN = {"Cc", "Cf", "Cs", "Zl", "Zp"}
"""Control characters, those that turn the direction of text or show nothing, halves of characters, line separators."""
_JOINERS = "\u200c\u200d\u00ad"
"""Hidden characters that words of some languages, and emoji, are spelled with."""
N_SHOWN = 20
"""Tables that people see of a plan unless they ask for more."""
MANY, TOO_MANY = 1e5, 1e15
"""Between these, numbers with a fraction have one decimal place; others six digits."""


def parsed_toml(text: str) -> dict[str, Any]:
    """Return what TOML holds."""
    try:
        return tomllib.loads(text)
    except tomllib.TOMLDecodeError:
        raise
    except (RecursionError, ValueError):
        raise tomllib.TOMLDecodeError(_why_unread(text)) from None


def parsed_json(text: str) -> Any:
    """Return what JSON holds."""
    try:
        return json.loads(text)
    except json.JSONDecodeError:
        raise
    except (RecursionError, ValueError):
        raise ValueError(_why_unread(text)) from None


def _why_unread(text: str) -> str:
    """Say why a parser gave up, and at which line."""
    long = _DIGITS.search(text)
    if long:
        line = 1 + text.count("\n", 0, long.start())
        return f"a number has more than 4,300 digits (at line {line})"
    depth, line = 0, 1
    for sign in _BRACKETS.findall(text):
        line += sign == "\n"
        depth += (sign in "[{") - (sign in "]}")
        if depth > DEEPEST:
            break
    return f"values lie more than {DEEPEST} levels within each other (at line {line})"


def shown(text: str) -> str:
    r"""Return a text that does nothing to a terminal: what is hidden in it, as `\x1b`; lines and tabs stay."""
    return _ODD.sub(_shown_sign, text)


def _shown_sign(found: re.Match[str]) -> str:
    sign = found[0]
    if sign in _BREAKS or sign in _JOINERS or unicodedata.category(sign) not in _HIDDEN:
        return sign
    return sign.encode("unicode_escape").decode("ascii")


def figure_text(value: object) -> str:
    """Return a value for people: six digits of a number with a fraction, but never 1.23457e+06 for a sum of incomes."""
    if value is None:
        return "NULL"
    if isinstance(value, float):
        return f"{value:.1f}" if MANY <= abs(value) < TOO_MANY else f"{value:g}"
    return str(value)


def text_table(columns: Sequence[str], rows: Iterable[Sequence[Any]], below: Sequence[str]) -> str:
    """Return rows as text in columns, with sentences below."""
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
    """Return rows as a table of HTML, with a piece of HTML above and sentences below."""
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
    """Return sentences as a paragraph of HTML, one a line; nothing where there is none."""
    lines = "<br>".join(html.escape(line) for line in sentences)
    return f"<p>{lines}</p>" if lines else ""


def spec_entry(columns: Iterable[str]) -> str:
    """Return the lines of a spec that would release a table."""
    listed = ", ".join(json.dumps(c, ensure_ascii=False) for c in columns)
    return f"[[tables]]\ncolumns = [{listed}]"
