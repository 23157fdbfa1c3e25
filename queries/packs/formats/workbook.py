"""The workbook of a pack, following UK government guidance for spreadsheets: cover, contents, notes, a table per sheet.

Takes a pack and a language; writes one .xlsx file. Tables that are too long for readers are left out, and the contents
list them. Marks such as [c] are those of the harmonised list in the guidance; a mark replaces a number only where there
is none, all other marks are in a column of their own.
"""

from __future__ import annotations

import datetime
import math
import re
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from engine.store import unused_name
from queries.packs.files import File, Format, in_language, sheet_name
from queries.packs.model import STATUSES, Pack, PackTable
from queries.packs.texts import accuracy_notes, status_word

MARKS = {"not released": "[c]", "low": "[low]", "unreliable": "[u]", "structural zero": "[z]"}
UNKNOWN = "[x]"
MAX_ACROSS = 40
"""Most columns of figures in a sheet; a wider cross table becomes a long table."""
_MARK = re.compile(r"\[(?:c|low|u|z|x)\]")
_ILLEGAL = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f]")
_EPOCH = datetime.datetime(1980, 1, 1)
COVER_WIDTH, NOTE_WIDTH, MOST_WIDTH = 85, 110, 60
"""Widths of columns, in digits."""
_LETTERS = 1.15
"""Letters that fit in the width of a digit."""
_LINE = 15.5
"""Height of a line, in points."""
Columns = dict[str, list[Any]]
"""The columns of a sheet's table by their headings."""


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
    import xlsxwriter

    inside, outside = sheet_tables(pack)
    words = pack.words_in(language)
    names = ["Cover"]
    for text in (words["contents"], words["notes"], *(t.id for t in inside)):
        names.append(sheet_name(text, names))
    notes = list(_notes(pack, inside, language))
    refs = {text: f"[note {i}]" for i, text in enumerate(notes, 1)}
    options = {"strings_to_formulas": False, "strings_to_urls": False}
    book = _Book(xlsxwriter.Workbook(str(path), options), names)
    _cover(book, pack, language)
    only = (words["one table"], "")
    lines = [(words["contents"], "title"), only, *_left_out(outside, words)]
    titles = [plain(t.titles[language]) for t in inside]
    listed = {words["tables"]: names[3:], words["description"]: titles}
    book.sheet(lines, listed, links=names[3:], name="contents_table")
    numbered = {words["note reference"]: list(refs.values()), words["note text"]: notes}
    lines = [(words["notes"], "title"), only]
    book.sheet(lines, numbered, width=NOTE_WIDTH, name="notes_table").set_landscape()
    for i, table in enumerate(inside):
        _sheet(book, table, pack, language, refs, is_first=i == 0)
    issued = pack.info.issued
    day = datetime.datetime.combine(issued, datetime.time()) if issued else _EPOCH
    book.close(
        title=pack.titles[language],
        author=pack.info.publisher,
        comments=f"Language: {pack.languages[language]}",
        created=day,  # the only date is the spec's
    )


class _Book:
    """A workbook whose sheets are lines of text with one table below them, as the guidance asks."""

    def __init__(self, book: Any, names: Sequence[str]) -> None:
        self._book, self._names = book, iter(names)
        self._formats: dict[tuple[Any, ...], Any] = {}

    def format(self, **look: Any) -> Any:
        """A format, one for all cells that look alike."""
        key = tuple(sorted(look.items()))
        if key not in self._formats:
            self._formats[key] = self._book.add_format(look)
        return self._formats[key]

    def sheet(
        self,
        lines: Sequence[tuple[str, str]],
        table: Columns | None = None,
        *,
        looks: Sequence[Mapping[str, Any]] = (),
        indents: Mapping[tuple[int, int], int] | None = None,
        links: Sequence[str] = (),
        width: int = MOST_WIDTH,
        name: str = "",
    ) -> Any:
        """Add the next sheet: each line a cell of the first column, then a table.

        lines: Text and kind of each: `title`, `heading`, or a plain line, which is wrapped where `table` is None.
        looks: How the columns of the table look. indents: Of a cell of the table, by row and column.
        links: The sheets that the cells of the first column lead to.
        """
        sheet = self._book.add_worksheet(next(self._names))
        sheet.set_paper(9)  # A4
        sheet.fit_to_pages(1, 0)
        sheet.set_footer("&L&A&R&P / &N")
        sizes = {"title": 16, "heading": 14}
        for row, (text, kind) in enumerate(lines):
            look: dict[str, Any] = {"bold": True, "font_size": sizes[kind]} if kind in sizes else {}
            wrapped = {} if table is not None else {"text_wrap": True, "valign": "top"}
            sheet.write_string(row, 0, text, self.format(**look, **wrapped))
            if table is None:
                _fit(sheet, row, text, width)
        if table is None:
            sheet.set_column(0, 0, width)
            return sheet
        top, bodies = len(lines), list(table.values())
        for column, (head, cells) in enumerate(table.items()):
            look = {**looks[column]} if looks else {"text_wrap": True, "valign": "top"}
            for row, cell in enumerate(cells):
                indent = (indents or {}).get((row, column))
                shown = self.format(**look, **({"indent": indent} if indent else {}))
                if column == 0 and links:
                    sheet.write_url(top + 1 + row, 0, f"internal:'{links[row]}'!A1", string=cell)
                elif isinstance(cell, str):
                    sheet.write_string(top + 1 + row, column, cell, shown)
                else:
                    sheet.write_number(top + 1 + row, column, cell, shown)
            longest = max((len(str(cell)) for cell in cells), default=0)
            longest = max(longest, math.ceil(len(head) / 2))  # headings are wrapped
            sheet.set_column(column, column, min(max(longest / _LETTERS + 2, 9), width))
        for row in range(0 if looks else len(bodies[0])):
            _fit(sheet, top + 1 + row, max((body[row] for body in bodies), key=len), width)
        heads = [
            {"header": h, "header_format": self.format(text_wrap=True, bold=True)} for h in table
        ]
        end = top + max(len(bodies[0]), 1), len(bodies) - 1
        about = {"columns": heads, "autofilter": False, "style": None} | (
            {"name": name} if name else {}
        )
        sheet.add_table(top, 0, *end, about)
        sheet.repeat_rows(top)
        if len(bodies) > 6:
            sheet.set_landscape()
        return sheet

    def close(self, **properties: Any) -> None:
        """Write the file."""
        self._book.set_properties(properties)
        self._book.close()


def _fit(sheet: Any, row: int, text: str, width: int) -> None:
    """Give a row the height of its text, which not every program does by itself."""
    if len(text) > width:
        sheet.set_row(row, _LINE * math.ceil(len(text) / (_LETTERS * width)))


def _noise(pack: Pack, language: int) -> str:
    """The note that applies to every figure."""
    return pack.words["noise" if pack.has_noise else "no noise"][language]


def _cover(book: _Book, pack: Pack, language: int) -> None:
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
        w["shorthand"],
        *legend(pack, language),
        *(note[language] for note in pack.footnotes),
        *(pack.reader_notes if pack.languages[language].lower().startswith("en") else ()),
        w["release of"].format(release["title"], release["vintage"], release["content_hash"]),
    ]
    contact = [t for t in (info.contact, info.email) if t] or [w["ask the publisher"]]
    parts = {
        "introduction": intro or [pack.titles[language]],
        "about the data": list(dict.fromkeys(about)),
        "whom to ask": contact,
    }
    lines = [(plain(pack.titles[language]), "title")]
    for heading, texts in parts.items():
        lines += [(plain(w[heading]), "heading"), *((plain(text), "") for text in texts)]
    book.sheet(lines, width=COVER_WIDTH).set_landscape()


def _left_out(outside: list[PackTable], words: Mapping[str, str]) -> list[tuple[str, str]]:
    """Lines of the contents on tables that have no sheet, some tables per line."""
    ids = [t.id for t in outside]
    lines = [", ".join(ids[i : i + 15]) for i in range(0, len(ids), 15)]
    head = f"{plain(words['left out'])} ({len(ids):,}):"
    return [(line, "") for line in ([head, *lines] if ids else [])]


def _notes(pack: Pack, inside: list[PackTable], language: int) -> dict[str, None]:
    """The notes of the workbook, each once, in the order in which sheets refer to them."""
    listed = [_noise(pack, language), *(note[language] for note in pack.footnotes)]
    for table in inside:
        listed += _own_notes(table, pack, language)
    return dict.fromkeys(plain(text) for text in listed if text)


def _own_notes(table: PackTable, pack: Pack, language: int) -> list[str]:
    """The notes of one table."""
    return [*accuracy_notes(table, pack, language), *(n[language] for n in table.footnotes)]


def _sheet(
    book: _Book,
    table: PackTable,
    pack: Pack,
    language: int,
    refs: Mapping[str, str],
    *,
    is_first: bool,
) -> None:
    """The sheet of one table."""
    columns, words = columns_of(table, pack, language), pack.words_in(language)
    notes = [next(iter(refs)), *_own_notes(table, pack, language)]
    notes += [note[language] for note in pack.footnotes if is_first]
    marks = dict.fromkeys(refs[plain(text)] for text in notes if text)
    signs = legend_of(columns, pack, language)
    scope = f"{words['unit']}: {table.units[language]}. {_noise(pack, language)}"
    lines = [
        (f"{plain(table.titles[language])} {''.join(marks)}", "title"),
        (words["shorthand below" if signs else "one table"], ""),
        (plain(scope), ""),
        *((plain(text), "") for text in signs),
    ]
    name = re.sub(r"\W", "_", f"table_{table.id}")
    book.sheet(lines, columns, looks=_looks(table, columns), indents=_indents(table), name=name)


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


def legend_of(columns: Columns, pack: Pack, language: int) -> list[str]:
    """Return what the marks in a sheet mean."""
    texts = [cell for cells in columns.values() for cell in cells if isinstance(cell, str)]
    used = {mark for text in texts for mark in _MARK.findall(text)}
    return [text for text in legend(pack, language) if text.split(" ")[0] in used]


def columns_of(table: PackTable, pack: Pack, language: int) -> Columns:
    """Return the columns of a table's sheet."""
    shape = _across if is_across(table) else _long
    return shape(table, pack, language)


def n_labels(table: PackTable) -> int:
    """Number of columns of a sheet with the labels of a row."""
    return len(table.stub) if is_across(table) else len(table.dimensions)


def _looks(table: PackTable, columns: Columns) -> list[dict[str, Any]]:
    """How the columns look: the same decimals throughout a column, words set off from numbers."""
    digits = "#,##0" + ("." + "0" * table.decimals if table.decimals else "")
    n_figures = len(columns) - n_labels(table) - 1
    labels: list[dict[str, Any]] = [{} for _ in range(n_labels(table))]
    figures = [{"num_format": digits, "align": "right"} for _ in range(n_figures)]
    return [*labels, *figures, {"align": "left", "indent": 1}]


def _indents(table: PackTable) -> dict[tuple[int, int], int]:
    """How far labels are indented below the one they are part of, by row and column."""
    step = len(table) // n_rows(table) if len(table) else 1
    out: dict[tuple[int, int], int] = {}
    for column, j in enumerate(table.stub if is_across(table) else range(len(table.dimensions))):
        depth = np.array(table.depths(j))[table.index[::step, j]]
        out |= {(row, column): int(depth[row]) for row in np.flatnonzero(depth).tolist()}
    return out


def _long(table: PackTable, pack: Pack, language: int) -> Columns:
    """A sheet with one row per combination of codes."""
    out: Columns = {}
    for j, d in enumerate(table.dimensions):
        labels = [_cell(it.labels[language], it.code) for it in d.items]
        out[_head(d.labels[language], out)] = [labels[p] for p in table.index[:, j].tolist()]
    for name in ("value", "low", "high"):
        figures = getattr(table, name)
        out[_head(pack.words[name][language], out)] = _cells(
            table, figures, is_value=name == "value"
        )
    words = [_cell(pack.words[status_word(s)][language], s) for s in STATUSES]
    out[_head(pack.words["status"][language], out)] = [words[s] for s in table.status.tolist()]
    return out


def _across(table: PackTable, pack: Pack, language: int) -> Columns:
    """A sheet as a cross table; marks of cells that have a number are in the last column."""
    n_down = n_rows(table)
    out: Columns = {}
    index = table.index.reshape(n_down, -1, len(table.dimensions))
    for j in table.stub:
        d = table.dimensions[j]
        labels = [_cell(it.labels[language], it.code) for it in d.items]
        out[_head(d.labels[language], out)] = [labels[p] for p in index[:, 0, j].tolist()]
    cells = np.array(_cells(table, table.value, is_value=True), dtype=object).reshape(n_down, -1)
    status = table.status.reshape(n_down, -1)
    heads = []
    for across in range(cells.shape[1]):
        parts = [
            table.dimensions[j].items[index[0, across, j]].labels[language] for j in table.heading
        ]
        heads.append(_head(", ".join(parts), out))
        out[heads[-1]] = cells[:, across].tolist()
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
    return out


def _limits(
    table: PackTable, pack: Pack, language: int, heads: list[str], taken: Columns
) -> Columns:
    """The limits of each figure's noise interval, in columns after the figures."""
    out: Columns = {}
    limits = {
        end: np.array(_cells(table, getattr(table, end), is_value=False), dtype=object).reshape(
            -1, len(heads)
        )
        for end in ("low", "high")
    }
    for across, head in enumerate(heads):
        for end, cells in limits.items():
            words = pack.words["either bound"][language].format(head, pack.words[end][language])
            out[_head(words, {**taken, **out})] = cells[:, across].tolist()
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
    return text


def _head(label: str, taken: Any) -> str:
    """A unique heading."""
    text = " ".join(plain(label).split()) or "Column"
    if text.lower() not in {t.lower() for t in taken}:
        return text
    return unused_name(f"{text} (2)", taken)


def plain(text: str) -> str:
    """Return text without characters that no workbook may have, and without what Excel would run as a formula."""
    cleaned = _ILLEGAL.sub("", text)
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
    packages=("xlsxwriter",),
)
