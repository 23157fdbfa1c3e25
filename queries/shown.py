"""Releases and answers as people see them: text at a prompt, a small table of HTML in a notebook.

Takes plain rows and sentences; every value is escaped.
"""

from __future__ import annotations

import html
from collections.abc import Iterable, Sequence
from typing import Any


def text_table(columns: Sequence[str], rows: Iterable[Sequence[Any]], said: Sequence[str]) -> str:
    """Return rows as text in columns, with sentences below."""
    cells = [list(columns)]
    cells += [["NULL" if v is None else str(v) for v in row] for row in rows]
    widths = [max(len(row[j]) for row in cells) for j in range(len(columns))]
    lines = [
        "  ".join(v.ljust(w) for v, w in zip(row, widths, strict=True)).rstrip() for row in cells
    ]
    lines.insert(1, "  ".join("-" * w for w in widths))
    return "\n".join([*lines, *said])


def html_table(
    columns: Sequence[str], rows: Iterable[Sequence[Any]], *, above: str = "", below: Sequence[str]
) -> str:
    """Return rows as a table of HTML, with a piece of HTML above and sentences below."""
    head = "".join(f"<th>{html.escape(c)}</th>" for c in columns)
    body = "".join(
        "<tr>"
        + "".join(f"<td>{'' if v is None else html.escape(str(v))}</td>" for v in row)
        + "</tr>"
        for row in rows
    )
    notes = "<br>".join(html.escape(line) for line in below)
    table = f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"
    return above + table + (f"<p>{notes}</p>" if notes else "")
