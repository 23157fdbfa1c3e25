"""The workbook of a pack, after the UK guidance for spreadsheets: cover, contents, notes, one table a sheet.

Takes a pack; gives one .xlsx file. Marks are those of the harmonised list: [c] not released, [low] rounds to zero and
is not, [u] low reliability, [z] impossible. A mark stands in a number's cell only where there is no number; all others
stand in a column of their own. Tables that are too long for people stay out, and the notes say which.
"""

from __future__ import annotations

import datetime
import math
import re
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from engine.store_catalog import unused_name
from queries.packs.model import STATUSES, Pack, PackTable
from queries.packs.words import status_word

MARKS = {"not released": "[c]", "low": "[low]", "unreliable": "[u]", "structural zero": "[z]"}
MAX_ACROSS = 40
"""Most columns of figures in a sheet; a wider cross table is shown long."""
COVER_WIDTH = 100
_EPOCH = datetime.datetime(1980, 1, 1)
_ILLEGAL = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f]")
LEGEND = (
    "[c] not released: suppressed or empty, nobody can tell which",
    "[low] released, and rounds to zero",
    "[u] low reliability: the noise is a large share of the figure",
    "[z] not applicable: impossible by a declared rule",
    "[x] not available: the noise interval is not known",
)


def shown_tables(pack: Pack) -> tuple[list[PackTable], list[PackTable]]:
    """Return the tables that the workbook holds, in order until it is full, and those left out."""
    inside: list[PackTable] = []
    outside: list[PackTable] = []
    rows = 0
    for table in pack.tables:
        n = n_rows(table)
        fits = not table.is_listed and rows + n <= pack.info.workbook_rows
        (inside if fits else outside).append(table)
        rows += n if fits else 0
    return inside, outside


def is_across(table: PackTable) -> bool:
    """Whether a table is shown with columns across."""
    n_across = math.prod(table.shape[j] for j in table.heading)
    return bool(table.heading) and table.is_cube and n_across <= MAX_ACROSS


def n_rows(table: PackTable) -> int:
    """Rows of a table's sheet."""
    return math.prod(table.shape[j] for j in table.stub) if is_across(table) else len(table)


def write_workbook(pack: Pack, path: Path, language: int = 0) -> bool:
    """Write the workbook; return whether there was a table to write."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ResourceWarning)  # it leaves its own theme's file open
        import gptables as gpt

    inside, outside = shown_tables(pack)
    if not inside:
        return False
    notes, refs = _notes(pack, inside, outside, language)
    contents, noted = (_plain(pack.words[w][language])[:31] for w in ("contents", "notes"))
    taken = ["Cover", "History", contents, noted]  # Excel keeps History for itself
    sheets = {
        unused_name(t.id, taken): _sheet(gpt, t, pack, language, refs, is_first=i == 0)
        for i, t in enumerate(inside)
    }
    with warnings.catch_warnings():  # gptables uses pandas as it was
        for old in (DeprecationWarning, PendingDeprecationWarning, FutureWarning):
            warnings.simplefilter("ignore", old)
        book = gpt.produce_workbook(
            str(path),
            sheets=sheets,
            cover=_cover(gpt, pack, language),
            contentsheet_label=contents,
            notesheet_label=noted,
            notes_table=notes,
            workbook_options={
                "strings_to_formulas": False,
                "strings_to_numbers": False,
                "strings_to_urls": False,
            },
        )
    issued = pack.info.issued
    made = datetime.datetime.combine(issued, datetime.time()) if issued else _EPOCH
    book.set_properties(
        {
            "title": pack.titles[language],
            "author": pack.info.publisher,
            "comments": f"Language: {pack.languages[language]}",
            "created": made,
        }
    )
    _fit_rows(book, book.worksheets()[0])
    book.close()
    return True


def _fit_rows(book: Any, sheet: Any) -> None:
    """Give the cover's rows the height of their text: not every program does so by itself."""
    texts = {place: text for text, place in book.str_table.string_table.items()}
    for row, cells in sheet.table.items():
        longest = max(
            (len(texts.get(getattr(c, "string", None), "")) for c in cells.values()), default=0
        )
        if longest > COVER_WIDTH:
            sheet.set_row(row, 15.5 * -(-longest // (COVER_WIDTH - 10)))


def _noise(pack: Pack) -> str:
    """What is true of every figure."""
    if not pack.has_noise:
        return "Figures carry no noise, and nothing is guaranteed."
    return (
        "Every figure is an estimate that carries noise, to protect the people counted. Low and high are the ends "
        "of its 95 % noise interval."
    )


def _cover(gpt: Any, pack: Pack, language: int) -> Any:
    """The cover: what this is, what noise means, whom to ask."""
    info = pack.info
    intro = [pack.descriptions[language]] if pack.descriptions[language] else []
    intro += [f"Published by {info.publisher}."] if info.publisher else []
    intro += [f"Published on {info.issued.isoformat()}."] if info.issued else []
    intro += [f"Licence: {info.licence}."] if info.licence else []
    about = [
        _noise(pack),
        *LEGEND,
        *pack.notes,
        f"Release {pack.release['title']}, vintage {pack.release['vintage']}, content hash "
        f"{pack.release['content_hash']}.",
    ]
    contact = [t for t in (info.contact, info.email) if t] or ["See the publisher's site."]
    return gpt.Cover(
        title=_plain(pack.titles[language]),
        intro=[_plain(t) for t in intro or [pack.titles[language]]],
        about=[_plain(t) for t in about],
        contact=[_plain(t) for t in contact],
        width=COVER_WIDTH,
    )


def _notes(
    pack: Pack, inside: list[PackTable], outside: list[PackTable], language: int
) -> tuple[pd.DataFrame, dict[str, str]]:
    """The notes table, and the reference of each note by its text."""
    listed = [_noise(pack)]
    listed += [note[language] for note in pack.footnotes]
    for t in inside:
        listed += [t.words, *(note[language] for note in t.footnotes)]
    listed = list(dict.fromkeys(_plain(text) for text in listed if text))
    refs = {text: f"note{i}" for i, text in enumerate(listed, 1)}
    names = list(refs.values())
    if outside:
        shown = ", ".join(t.id for t in outside[:20]) + (" and others" if len(outside) > 20 else "")
        listed.append(f"Too long for a sheet, and in CSV and Parquet only: {shown}.")
        names.append("left_out")
        refs["left_out"] = "left_out"
    return pd.DataFrame({"Note reference": names, "Note text": listed}), refs


def _sheet(
    gpt: Any,
    table: PackTable,
    pack: Pack,
    language: int,
    refs: dict[str, str],
    *,
    is_first: bool,
) -> Any:
    """One table as gptables wants it."""
    frame = _across(table, pack, language) if is_across(table) else _long(table, pack, language)
    n_index = len(table.stub) if is_across(table) else len(table.dimensions)
    general = next(iter(refs.values()))
    own = [table.words, *(note[language] for note in table.footnotes)]
    told = [general, *(refs[_plain(text)] for text in own if text)]
    told += [refs[_plain(n[language])] for n in pack.footnotes if is_first]
    told += ["left_out"] if is_first and "left_out" in refs else []
    marks = " ".join(f"$${ref}$$" for ref in dict.fromkeys(told))
    return gpt.GPTable(
        table=frame,
        table_name=re.sub(r"\W", "_", f"table_{table.id}"),
        title=f"{_plain(table.titles[language])} {marks}",
        instructions="This worksheet contains one table. Some cells hold shorthand, explained below.",
        scope=f"Unit: {_plain(table.units[language])}. {_noise(pack)}",
        legend=list(LEGEND),
        index_columns={level: level - 1 for level in range(1, min(n_index, 3) + 1)},
    )


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
    marked = []
    for row in range(n_down):
        told = [
            f"{MARKS[STATUSES[s]]} {head}"
            for head, s in zip(heads, status[row].tolist(), strict=True)
            if STATUSES[s] in ("low", "unreliable")
        ]
        marked.append("; ".join(told) or "none")
    out[_head(pack.words["status"][language], out)] = marked
    return pd.DataFrame(out)


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
            out.append("[x]")
        elif is_value and status == "low" and round(number, table.decimals) == 0:
            out.append(MARKS["low"])
        else:
            out.append(int(number) if table.is_whole else round(number, max(2, table.decimals)))
    return out


def _cell(label: str, code: str) -> str:
    """A label as a cell: never empty, never signs only (gptables refuses those)."""
    text = _plain(label)
    if re.search("[a-zA-Z0-9]", text):
        return text
    return f"{text} (code {_plain(code)})".strip()


def _head(label: str, taken: Any) -> str:
    """A heading that no other column has."""
    text = _cell(label, label) if label.strip() else "Column"
    if text.lower() not in {t.lower() for t in taken}:
        return text
    return unused_name(f"{text} (2)", taken)


def _plain(text: str) -> str:
    """Text without what gptables reads as a note or link, or Excel as a formula."""
    kept = _ILLEGAL.sub("", text).replace("$$", "$").replace("](", "] (")
    return f"'{kept}" if kept.startswith(("=", "+", "@")) else kept
