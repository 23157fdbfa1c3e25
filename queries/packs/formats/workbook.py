"""The workbook of a pack, following UK government guidance for spreadsheets: cover, contents, notes, a table per sheet.

Takes a pack and a language; writes one .xlsx file. Tables that are too long for readers are left out, and the contents
list them. Marks such as [c] are those of the harmonised list in the guidance; a mark replaces a number only where there
is none, all other marks are in a column of their own.
"""

from __future__ import annotations

import datetime
import math
import re
import warnings
from collections.abc import Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from engine.store import unused_name
from queries.packs.files import File, Format, in_language, sheet_name
from queries.packs.model import STATUSES, Pack, PackTable
from queries.packs.texts import accuracy_notes, status_word

if TYPE_CHECKING:
    import pandas as pd

MARKS = {"not released": "[c]", "low": "[low]", "unreliable": "[u]", "structural zero": "[z]"}
UNKNOWN = "[x]"
MAX_ACROSS = 40
"""Most columns of figures in a sheet; a wider cross table becomes a long table."""
_MARK = re.compile(r"\[(?:c|low|u|z|x)\]")
_MARKED = "\ue000a"
"""A character of no script, and a letter that gptables accepts."""
_ILLEGAL = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f]")
COVER_WIDTH = 85
HEADINGS = {
    "Introductory information": "introduction",
    "About these data": "about the data",
    "Contact": "whom to ask",
}
"""Headings of the cover as gptables writes them, with the keys of our words."""
NOTE_WIDTH = 110
_EPOCH = datetime.datetime(1980, 1, 1)
_LETTERS = 1.15
"""Letters that fit in the width of a digit."""
_LINE = 15.5
"""Height of a line, in points."""


def sheet_tables(pack: Pack) -> tuple[list[PackTable], list[PackTable]]:
    """Return the tables of the workbook, in order until it is full, and those left out."""
    inside: list[PackTable] = []
    outside: list[PackTable] = []
    rows = 0
    for table in pack.tables:
        n = n_rows(table)
        fits = not table.is_listed and rows + n <= pack.info.workbook_rows
        (inside if fits else outside).append(table)
        rows += n if fits else 0
    return inside, outside


def write_workbook(pack: Pack, language: int, path: Path) -> None:
    """Write the workbook in one language; the pack must have at least one table for it."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ResourceWarning)  # it leaves the file of its theme open
        import gptables as gpt

    inside, outside = sheet_tables(pack)
    notes, refs = _notes(pack, inside, language)
    names = ["Cover"]
    for text in (
        *(pack.words[w][language] for w in ("contents", "notes")),
        *(t.id for t in inside),
    ):
        names.append(sheet_name(text, names))
    _, contents, noted, *named = names
    sheets = {
        name: _sheet(gpt, t, pack, language, refs, is_first=i == 0)
        for i, (name, t) in enumerate(zip(named, inside, strict=True))
    }
    with warnings.catch_warnings():  # gptables uses deprecated parts of pandas
        for old in (DeprecationWarning, PendingDeprecationWarning, FutureWarning):
            warnings.simplefilter("ignore", old)
        book = gpt.produce_workbook(
            str(path),
            sheets=sheets,
            cover=_cover(gpt, pack, language),
            contentsheet_label=contents,
            contentsheet_options={
                "title": contents,
                "subtitles": _left_out(pack, outside, language),
            },
            notesheet_label=noted,
            notesheet_options={"title": noted},
            notes_table=notes,
            workbook_options={
                "strings_to_formulas": False,
                "strings_to_numbers": False,
                "strings_to_urls": False,
            },
        )
    _unmark(book)
    _lay_out(book)
    _translate(book, pack, language)
    _name(book, pack, language)
    book.close()


def _marked(text: str) -> str:
    """A text with a mark where it has no ASCII letter or digit: gptables takes such cells for symbols."""
    return text if re.search("[a-zA-Z0-9]", text) else f"{text}{_MARKED}"


def _unmark(book: Any) -> None:
    """Take the marks off all texts of a workbook."""
    strings = book.str_table
    texts = sorted(strings.string_table, key=strings.string_table.__getitem__)
    new: dict[str, int] = {}
    place = [new.setdefault(text.replace(_MARKED, ""), len(new)) for text in texts]
    strings.string_table, strings.unique_count = new, len(new)
    for sheet in book.worksheets():
        for cells in sheet.table.values():
            for column, cell in cells.items():
                if hasattr(cell, "string"):
                    cells[column] = cell._replace(string=place[cell.string])


def _translate(book: Any, pack: Pack, language: int) -> None:
    """Translate the headings of the cover, which gptables writes in English."""
    cover = book.worksheets()[0]
    texts = {place: text for text, place in book.str_table.string_table.items()}
    for row, cells in list(cover.table.items()):
        cell = cells.get(0)
        word = HEADINGS.get(texts.get(getattr(cell, "string", -1), ""))
        if word is not None and cell is not None:
            cover.write_string(row, 0, plain(pack.words[word][language]), cell.format)


def _name(book: Any, pack: Pack, language: int) -> None:
    """Set the file's properties; the only date is the spec's."""
    issued = pack.info.issued
    day = datetime.datetime.combine(issued, datetime.time()) if issued else _EPOCH
    book.set_properties(
        {
            "title": pack.titles[language],
            "author": pack.info.publisher,
            "comments": f"Language: {pack.languages[language]}",
            "created": day,
        }
    )


def _lay_out(book: Any) -> None:
    """Make every sheet fit screen and paper: one page wide, headings on every page, texts not cut off."""
    cover, contents, notes, *tables = book.worksheets()
    texts = {place: text for text, place in book.str_table.string_table.items()}
    _fit_rows(cover, texts, COVER_WIDTH)
    notes.set_column(1, 1, NOTE_WIDTH)
    _fit_rows(notes, texts, NOTE_WIDTH)
    for sheet in (cover, contents, notes, *tables):
        sheet.set_paper(9)  # A4
        sheet.fit_to_pages(1, 0)
        sheet.set_footer("&L&A&R&P / &N")
    for sheet in (cover, notes):
        sheet.set_landscape()
    for sheet in tables:
        top = int(re.sub("[^0-9]", "", sheet.tables[0]["range"].split(":")[0])) - 1
        sheet.repeat_rows(top)
        if sheet.dim_colmax > 5:
            sheet.set_landscape()


def _fit_rows(sheet: Any, texts: dict[int, str], width: int) -> None:
    """Give rows the height of their text, which not every program does by itself."""
    for row, cells in sheet.table.items():
        lengths = [len(texts.get(getattr(c, "string", -1), "")) for c in cells.values()]
        longest = max(lengths, default=0)
        if longest > width:
            sheet.set_row(row, _LINE * math.ceil(longest / (_LETTERS * width)))


def _noise(pack: Pack, language: int) -> str:
    """The note that applies to every figure."""
    return pack.words["noise" if pack.has_noise else "no noise"][language]


def _cover(gpt: Any, pack: Pack, language: int) -> Any:
    """The cover: introduction, meaning of noise and marks, contact."""
    info, w = pack.info, pack.words_in(language)
    release = pack.release
    intro = [pack.descriptions[language]] if pack.descriptions[language] else []
    intro += [w["published by"].format(info.publisher)] if info.publisher else []
    intro += [w["published on"].format(info.issued.isoformat())] if info.issued else []
    intro += [w["licensed as"].format(info.licence)] if info.licence else []
    about = [
        _noise(pack, language),
        *([w["unreviewed means"]] if pack.is_unreviewed else ()),
        pack.words["shorthand"][language],
        *legend(pack, language),
        *(note[language] for note in pack.footnotes),
        *(pack.reader_notes if pack.languages[language].lower().startswith("en") else ()),
        w["release of"].format(release["title"], release["vintage"], release["content_hash"]),
    ]
    contact = [t for t in (info.contact, info.email) if t] or [w["ask the publisher"]]
    return gpt.Cover(
        title=plain(pack.titles[language]),
        intro=[plain(t) for t in intro or [pack.titles[language]]],
        about=[plain(t) for t in dict.fromkeys(about)],
        contact=[plain(t) for t in contact],
        width=COVER_WIDTH,
    )


def _left_out(pack: Pack, outside: list[PackTable], language: int) -> list[str]:
    """Lines of the contents on tables that have no sheet, some tables per line."""
    if not outside:
        return []
    ids = [t.id for t in outside]
    lines = [", ".join(ids[i : i + 15]) for i in range(0, len(ids), 15)]
    return [f"{plain(pack.words['left out'][language])} ({len(ids):,}):", *lines]


def _notes(
    pack: Pack, inside: list[PackTable], language: int
) -> tuple[pd.DataFrame, dict[str, str]]:
    """The notes table, and the reference of each note by its text."""
    import pandas as pd  # slow to load, and a server needs none of it

    listed = [_noise(pack, language)]
    listed += [note[language] for note in pack.footnotes]
    for t in inside:
        listed += [*accuracy_notes(t, pack, language), *(note[language] for note in t.footnotes)]
    listed = list(dict.fromkeys(plain(text) for text in listed if text))
    refs = {text: f"note{i}" for i, text in enumerate(listed, 1)}
    heads = (pack.words[word][language] for word in ("note reference", "note text"))
    return pd.DataFrame(
        dict(zip(heads, (list(refs.values()), [_marked(text) for text in listed]), strict=True))
    ), refs


def _sheet(
    gpt: Any,
    table: PackTable,
    pack: Pack,
    language: int,
    refs: dict[str, str],
    *,
    is_first: bool,
) -> Any:
    """One table as gptables expects it."""
    frame = frame_of(table, pack, language)
    general = next(iter(refs.values()))
    own = [*accuracy_notes(table, pack, language), *(note[language] for note in table.footnotes)]
    notes = [general, *(refs[plain(text)] for text in own if text)]
    notes += [refs[plain(n[language])] for n in pack.footnotes if is_first]
    marks = "".join(f"$${ref}$$" for ref in dict.fromkeys(notes))
    signs = legend_of(frame, pack, language)
    unit = f"{pack.words['unit'][language]}: {table.units[language]}. "
    return gpt.GPTable(
        table=frame,
        table_name=re.sub(r"\W", "_", f"table_{table.id}"),
        title=f"{_marked(plain(table.titles[language]))} {marks}",
        instructions=plain(pack.words["shorthand below" if signs else "one table"][language]),
        scope=plain(unit + _noise(pack, language)),
        legend=[plain(text) for text in signs],
        index_columns={level: level - 1 for level in range(1, min(n_labels(table), 3) + 1)},
        additional_formatting=formats(table, frame),
    )


def is_across(table: PackTable) -> bool:
    """Whether a table is shown with columns across."""
    n_across = math.prod(table.shape[j] for j in table.heading)
    return bool(table.heading) and table.is_cube and n_across <= MAX_ACROSS


def n_rows(table: PackTable) -> int:
    """Rows of a table's sheet."""
    return math.prod(table.shape[j] for j in table.stub) if is_across(table) else len(table)


def legend(pack: Pack, language: int) -> list[str]:
    """Return what each mark means."""
    w = pack.words_in(language)
    return [
        f"[c] {w['not released']}: {w['about not released']}",
        f"[low] {w['low figure']}: {w['rounds to zero']}",
        f"[u] {w['unreliable']}: {w['about unreliable']}",
        f"[z] {w['structural zero']}: {w['about structural zero']}",
        f"{UNKNOWN} {w['no interval']}",
    ]


def legend_of(frame: pd.DataFrame, pack: Pack, language: int) -> list[str]:
    """Return what the marks in a sheet mean."""
    used = {mark for column in frame for cell in frame[column] for mark in _marks(cell)}
    return [text for text in legend(pack, language) if text.split(" ")[0] in used]


def _marks(cell: object) -> list[str]:
    return _MARK.findall(cell) if isinstance(cell, str) else []


def frame_of(table: PackTable, pack: Pack, language: int) -> pd.DataFrame:
    """Return the rows of a table's sheet."""
    shape = _across if is_across(table) else _long
    return shape(table, pack, language)


def n_labels(table: PackTable) -> int:
    """Number of columns of a sheet with the labels of a row."""
    return len(table.stub) if is_across(table) else len(table.dimensions)


def formats(table: PackTable, frame: pd.DataFrame) -> list[dict[str, Any]]:
    """Return the formats of a sheet's columns: the same decimals throughout a column, words set off from numbers."""
    digits = "#,##0" + ("." + "0" * table.decimals if table.decimals else "")
    last = len(frame.columns) - 1
    figures = list(range(n_labels(table), last))
    return [
        {"column": {"columns": figures, "format": {"num_format": digits, "align": "right"}}},
        {"column": {"columns": [last], "format": {"align": "left", "indent": 1}}},
        *_indents(table),
    ]


def _indents(table: PackTable) -> Iterator[dict[str, Any]]:
    """Formats that indent labels below the one they are part of."""
    step = len(table) // n_rows(table) if len(table) else 1
    for column, j in enumerate(table.stub if is_across(table) else range(len(table.dimensions))):
        depth = np.array(table.depths(j))[table.index[::step, j]]
        for row in np.flatnonzero(depth).tolist():
            place = (row + 1, column)  # below the headings; gptables takes one cell per entry
            yield {"cell": {"cells": place, "format": {"indent": int(depth[row])}}}


def _long(table: PackTable, pack: Pack, language: int) -> pd.DataFrame:
    """A sheet with one row per combination of codes."""
    import pandas as pd  # slow to load, and a server needs none of it

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
    """A sheet as a cross table; marks of cells that have a number are in the last column."""
    import pandas as pd

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
        out |= _limits(table, pack, language, heads, out)
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


def _limits(
    table: PackTable, pack: Pack, language: int, heads: list[str], taken: Mapping[str, Any]
) -> dict[str, Any]:
    """The limits of each figure's noise interval, in columns after the figures."""
    out: dict[str, Any] = {}
    limits = {
        end: np.array(_cells(table, getattr(table, end), is_value=False), dtype=object).reshape(
            -1, len(heads)
        )
        for end in ("low", "high")
    }
    for across, head in enumerate(heads):
        for end, cells in limits.items():
            words = pack.words["either bound"][language].format(head, pack.words[end][language])
            out[_head(words, {**taken, **out})] = cells[:, across]
    return out


def _cells(table: PackTable, figures: Any, *, is_value: bool) -> list[Any]:
    """Numbers, or a mark where there is none or where a non-zero figure rounds to zero."""
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
    """A label as a cell: never without letters and digits of any script, as guidance for spreadsheets asks."""
    text = plain(label)
    if not any(c.isalnum() for c in text):
        text = f"{text} (code {plain(code)})".strip()
    return _marked(text)


def _head(label: str, taken: Any) -> str:
    """A unique heading."""
    text = " ".join(plain(label).split()) or "Column"
    if text.lower() not in {t.lower() for t in taken}:
        return text
    return unused_name(f"{text} (2)", taken)


def plain(text: str) -> str:
    """Return text without what gptables would read as a note or link, or Excel as a formula."""
    cleaned = _ILLEGAL.sub("", text).replace("$$", "$").replace("](", "] (")
    return f"'{cleaned}" if cleaned.startswith(("=", "+", "@")) else cleaned


def _files(pack: Pack) -> Iterator[File]:
    for i, language in enumerate(pack.languages if sheet_tables(pack)[0] else ()):
        path = f"{in_language('pack', language, i)}.xlsx"
        yield File(path=path, write=partial(write_workbook, pack, i))


WORKBOOK = Format(
    name="the workbook",
    path="pack.xlsx",
    about="a workbook: cover, contents, notes, one table per sheet; other languages: pack~LANGUAGE.xlsx",
    files=_files,
    packages=("gptables",),
)
