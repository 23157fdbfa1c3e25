"""The workbook of a pack, after the UK guidance for spreadsheets: cover, contents, notes, one table a sheet.

Takes a pack and a language; gives one .xlsx file. Tables that are too long for people stay out, and the contents say
which. What a sheet's cells hold, and what marks such as [c] mean: `queries.packs.formats.worksheets`.
"""

from __future__ import annotations

import datetime
import math
import re
import warnings
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pandas as pd

from engine.store import unused_name
from queries.packs.files import File, Format, in_language
from queries.packs.formats.worksheets import (
    formats,
    frame_of,
    legend,
    legend_of,
    n_labels,
    n_rows,
    plain,
)
from queries.packs.model import Pack, PackTable
from queries.packs.sentences import sentences_of

COVER_WIDTH = 85
HEADINGS = {
    "Introductory information": "introduction",
    "About these data": "about the data",
    "Contact": "whom to ask",
}
"""Headings of the cover that gptables writes, with our words for them."""
NOTE_WIDTH = 110
_EPOCH = datetime.datetime(1980, 1, 1)
_LETTERS = 1.15
"""Letters of a text in the width of a digit."""
_LINE = 15.5
"""Height of a line, in points."""


def sheet_tables(pack: Pack) -> tuple[list[PackTable], list[PackTable]]:
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


def write_workbook(pack: Pack, language: int, path: Path) -> None:
    """Write the workbook in one language; it holds one table at least."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ResourceWarning)  # it leaves its own theme's file open
        import gptables as gpt

    inside, outside = sheet_tables(pack)
    notes, refs = _notes(pack, inside, language)
    contents, noted = (plain(pack.words[w][language])[:31] for w in ("contents", "notes"))
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
    _lay_out(book)
    _translate(book, pack, language)
    _name(book, pack, language)
    book.close()


def _translate(book: Any, pack: Pack, language: int) -> None:
    """Say the headings of the cover in the language of the workbook: gptables has them in English."""
    cover = book.worksheets()[0]
    texts = {place: text for text, place in book.str_table.string_table.items()}
    for row, cells in list(cover.table.items()):
        cell = cells.get(0)
        word = HEADINGS.get(texts.get(getattr(cell, "string", -1), ""))
        if word is not None and cell is not None:
            cover.write_string(row, 0, plain(pack.words[word][language]), cell.format)


def _name(book: Any, pack: Pack, language: int) -> None:
    """Say in the file's properties what it is; no date but the spec's."""
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
    """Make every sheet fit the screen and the paper: one page across, headings on each, texts not cut."""
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
    """Give rows the height of their text: not every program does so by itself."""
    for row, cells in sheet.table.items():
        lengths = [len(texts.get(getattr(c, "string", -1), "")) for c in cells.values()]
        longest = max(lengths, default=0)
        if longest > width:
            sheet.set_row(row, _LINE * math.ceil(longest / (_LETTERS * width)))


def _noise(pack: Pack, language: int) -> str:
    """What is true of every figure."""
    return pack.words["noise" if pack.has_noise else "no noise"][language]


def _cover(gpt: Any, pack: Pack, language: int) -> Any:
    """The cover: what this is, what noise and marks mean, whom to ask."""
    info, w = pack.info, {word: told[language] for word, told in pack.words.items()}
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
    """What the contents say of tables that have no sheet, a line for some."""
    if not outside:
        return []
    ids = [t.id for t in outside]
    lines = [", ".join(ids[i : i + 15]) for i in range(0, len(ids), 15)]
    return [f"{plain(pack.words['left out'][language])} ({len(ids):,}):", *lines]


def _notes(
    pack: Pack, inside: list[PackTable], language: int
) -> tuple[pd.DataFrame, dict[str, str]]:
    """The notes table, and the reference of each note by its text."""
    listed = [_noise(pack, language)]
    listed += [note[language] for note in pack.footnotes]
    for t in inside:
        listed += [*sentences_of(t, pack, language), *(note[language] for note in t.footnotes)]
    listed = list(dict.fromkeys(plain(text) for text in listed if text))
    refs = {text: f"note{i}" for i, text in enumerate(listed, 1)}
    heads = (pack.words[word][language] for word in ("note reference", "note text"))
    return pd.DataFrame(dict(zip(heads, (list(refs.values()), listed), strict=True))), refs


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
    frame = frame_of(table, pack, language)
    general = next(iter(refs.values()))
    own = [*sentences_of(table, pack, language), *(note[language] for note in table.footnotes)]
    notes = [general, *(refs[plain(text)] for text in own if text)]
    notes += [refs[plain(n[language])] for n in pack.footnotes if is_first]
    marks = "".join(f"$${ref}$$" for ref in dict.fromkeys(notes))
    signs = legend_of(frame, pack, language)
    unit = f"{pack.words['unit'][language]}: {table.units[language]}. "
    return gpt.GPTable(
        table=frame,
        table_name=re.sub(r"\W", "_", f"table_{table.id}"),
        title=f"{plain(table.titles[language])} {marks}",
        instructions=plain(pack.words["shorthand below" if signs else "one table"][language]),
        scope=plain(unit + _noise(pack, language)),
        legend=[plain(text) for text in signs],
        index_columns={level: level - 1 for level in range(1, min(n_labels(table), 3) + 1)},
        additional_formatting=formats(table, frame),
    )


def _files(pack: Pack) -> Iterator[File]:
    for i, language in enumerate(pack.languages if sheet_tables(pack)[0] else ()):
        path = f"{in_language('pack', language, i)}.xlsx"
        yield File(path=path, write=partial(write_workbook, pack, i))


WORKBOOK = Format(
    name="the workbook",
    path="pack.xlsx",
    about="a workbook: cover, contents, notes, one table a sheet; pack~LANGUAGE.xlsx in others",
    files=_files,
    packages=("gptables",),
)
