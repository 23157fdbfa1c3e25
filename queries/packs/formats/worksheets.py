"""Cells of the workbook: a table as a sheet's rows, long or with columns across; marks where there is no number.

Takes a pack's table and a language; gives a data frame that gptables accepts, and formats of its columns. Marks are
those of the harmonised list of the UK guidance. A mark stands in a number's cell only where there is no number; all
others stand in a column of their own.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
import pandas as pd

from engine.store import unused_name
from queries.packs.model import STATUSES, Pack, PackTable
from queries.packs.texts import status_word

MARKS = {"not released": "[c]", "low": "[low]", "unreliable": "[u]", "structural zero": "[z]"}
UNKNOWN = "[x]"
MAX_ACROSS = 40
"""Most columns of figures in a sheet; a wider cross table is shown long."""
_MARK = re.compile(r"\[(?:c|low|u|z|x)\]")
_ILLEGAL = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f]")


def is_across(table: PackTable) -> bool:
    """Whether a table is shown with columns across."""
    n_across = math.prod(table.shape[j] for j in table.heading)
    return bool(table.heading) and table.is_cube and n_across <= MAX_ACROSS


def n_rows(table: PackTable) -> int:
    """Rows of a table's sheet."""
    return math.prod(table.shape[j] for j in table.stub) if is_across(table) else len(table)


def legend(pack: Pack, language: int) -> list[str]:
    """Return what each mark means."""
    w = {word: texts[language] for word, texts in pack.words.items()}
    return [
        f"[c] {w['not released']}: {w['about not released']}",
        f"[low] {w['low figure']}: {w['rounds to zero']}",
        f"[u] {w['unreliable']}: {w['about unreliable']}",
        f"[z] {w['structural zero']}: {w['about structural zero']}",
        f"{UNKNOWN} {w['no interval']}",
    ]


def legend_of(frame: pd.DataFrame, pack: Pack, language: int) -> list[str]:
    """Return what the marks mean that a sheet holds."""
    used = {mark for column in frame for cell in frame[column] for mark in _marks(cell)}
    return [text for text in legend(pack, language) if text.split(" ")[0] in used]


def _marks(cell: object) -> list[str]:
    return _MARK.findall(cell) if isinstance(cell, str) else []


def frame_of(table: PackTable, pack: Pack, language: int) -> pd.DataFrame:
    """Return the rows of a table's sheet."""
    shape = _across if is_across(table) else _long
    return shape(table, pack, language)


def n_labels(table: PackTable) -> int:
    """Number of columns of a sheet that say what a row is about."""
    return len(table.stub) if is_across(table) else len(table.dimensions)


def formats(table: PackTable, frame: pd.DataFrame) -> list[dict[str, Any]]:
    """Return the formats of a sheet's columns: digits alike down a column, words apart from the numbers beside them."""
    digits = "#,##0" + ("." + "0" * table.decimals if table.decimals else "")
    last = len(frame.columns) - 1
    figures = list(range(n_labels(table), last))
    return [
        {"column": {"columns": figures, "format": {"num_format": digits, "align": "right"}}},
        {"column": {"columns": [last], "format": {"align": "left", "indent": 1}}},
        *_indents(table),
    ]


def _indents(table: PackTable) -> Iterator[dict[str, Any]]:
    """Formats of labels that are part of the one above: they stand further in."""
    step = len(table) // n_rows(table) if len(table) else 1
    for column, j in enumerate(table.stub if is_across(table) else range(len(table.dimensions))):
        depth = np.array(table.depths(j))[table.index[::step, j]]
        for row in np.flatnonzero(depth).tolist():
            place = (row + 1, column)  # below the headings; gptables takes one cell an entry
            yield {"cell": {"cells": place, "format": {"indent": int(depth[row])}}}


def _long(table: PackTable, pack: Pack, language: int) -> pd.DataFrame:
    """A sheet with one row a combination of codes."""
    out: dict[str, Any] = {}
    for j, d in enumerate(table.dimensions):
        labels = np.array([_cell(it.labels[language], it.code) for it in d.items], dtype=object)
        out[_head(d.labels[language], out)] = labels[table.index[:, j]]
    for name in ("value", "low", "high"):
        figures = getattr(table, name)
        out[_head(pack.words[name][language], out)] = _cells(
            table, figures, is_value=name == "value"
        )
    words = np.array(
        [_cell(pack.words[status_word(s)][language], s) for s in STATUSES], dtype=object
    )
    out[_head(pack.words["status"][language], out)] = words[table.status]
    return pd.DataFrame(out)


def _across(table: PackTable, pack: Pack, language: int) -> pd.DataFrame:
    """A sheet as a cross table; marks beside numbers stand in the last column."""
    n_down = n_rows(table)
    out: dict[str, Any] = {}
    index = table.index.reshape(n_down, -1, len(table.dimensions))
    for j in table.stub:
        d = table.dimensions[j]
        labels = np.array([_cell(it.labels[language], it.code) for it in d.items], dtype=object)
        out[_head(d.labels[language], out)] = labels[index[:, 0, j]]
    cells = np.array(_cells(table, table.value, is_value=True), dtype=object).reshape(n_down, -1)
    status = table.status.reshape(n_down, -1)
    heads = []
    for across in range(cells.shape[1]):
        parts = [
            table.dimensions[j].items[index[0, across, j]].labels[language] for j in table.heading
        ]
        heads.append(_head(", ".join(parts), out))
        out[heads[-1]] = cells[:, across]
    if pack.has_noise:
        out |= _ends(table, pack, language, heads, out)
    marked, none = [], _cell(pack.words["no marks"][language], "-")
    for row in range(n_down):
        marks = [
            f"{MARKS[STATUSES[s]]} {head}"
            for head, s in zip(heads, status[row].tolist(), strict=True)
            if STATUSES[s] in ("low", "unreliable")
        ]
        marked.append("; ".join(marks) or none)
    out[_head(pack.words["marks"][language], out)] = marked
    return pd.DataFrame(out)


def _ends(
    table: PackTable, pack: Pack, language: int, heads: list[str], taken: Mapping[str, Any]
) -> dict[str, Any]:
    """Both ends of each figure's noise interval, in columns that follow the figures."""
    out: dict[str, Any] = {}
    told = {
        end: np.array(_cells(table, getattr(table, end), is_value=False), dtype=object).reshape(
            -1, len(heads)
        )
        for end in ("low", "high")
    }
    for across, head in enumerate(heads):
        for end, cells in told.items():
            words = pack.words["either bound"][language].format(head, pack.words[end][language])
            out[_head(words, {**taken, **out})] = cells[:, across]
    return out


def _cells(table: PackTable, figures: Any, *, is_value: bool) -> list[Any]:
    """Numbers, or a mark where there is none (or where it rounds to zero and is not)."""
    out: list[Any] = []
    for number, place in zip(figures.tolist(), table.status.tolist(), strict=True):
        status = STATUSES[place]
        if status == "structural zero":
            out.append(MARKS[status])
        elif status == "not released" and (is_value or not np.isfinite(number)):
            out.append(MARKS["not released"])
        elif not np.isfinite(number):
            out.append(UNKNOWN)
        elif is_value and status == "low" and round(number, table.decimals) == 0:
            out.append(MARKS["low"])
        else:
            out.append(int(number) if table.is_whole else round(number, max(2, table.decimals)))
    return out


def _cell(label: str, code: str) -> str:
    """A label as a cell: never empty, never signs only (gptables refuses those)."""
    text = plain(label)
    if re.search("[a-zA-Z0-9]", text):
        return text
    return f"{text} (code {plain(code)})".strip()


def _head(label: str, taken: Any) -> str:
    """A heading that no other column has."""
    text = _cell(label, label) if label.strip() else "Column"
    if text.lower() not in {t.lower() for t in taken}:
        return text
    return unused_name(f"{text} (2)", taken)


def plain(text: str) -> str:
    """Return text without what gptables reads as a note or link, or Excel as a formula."""
    cleaned = _ILLEGAL.sub("", text).replace("$$", "$").replace("](", "] (")
    return f"'{cleaned}" if cleaned.startswith(("=", "+", "@")) else cleaned
