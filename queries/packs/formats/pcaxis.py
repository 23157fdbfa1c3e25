"""PC-Axis: a table as a .px file (PX-file format 2013) with all languages of the pack.

Takes a pack and one of its tables, a full cube; returns text. Interval limits accompany the figures as a variable with
three codes (value, low, high). Keywords in other languages directly follow those in the main language.
"""

from __future__ import annotations

import datetime
import re
from collections.abc import Iterator, Sequence
from functools import partial
from typing import Any

from engine.store import unused_name
from queries.packs.files import File, Format, number_texts, text_file
from queries.packs.model import STATUSES, Contents, Pack, PackTable, Texts

MAX_LINE = 250
"""Characters of a string in one line; longer texts continue in the next."""
_SCALES = {
    "A1": re.compile(r"\d{4}"),
    "Q1": re.compile(r"\d{4}Q\d"),
    "M1": re.compile(r"\d{4}-\d\d"),
}


def pcaxis(table: PackTable, pack: Pack, contents: Contents | None = None) -> str:
    """Return a table, with its figures or other contents, as a PC-Axis file (.px, UTF-8)."""
    contents = contents or table.contents(pack.words)
    matrix = "".join(c for c in table.id if c.isalnum())[:20]
    lines = ['CHARSET="ANSI";', 'AXIS-VERSION="2013";', 'CODEPAGE="utf-8";']
    lines.append(f"LANGUAGE={_q(pack.languages[0])};")
    if len(pack.languages) > 1:
        lines.append(f"LANGUAGES={_list(pack.languages)};")
    if pack.info.issued:
        lines.append(f'CREATION-DATE="{pack.info.issued:%Y%m%d} 00:00";')
    lines += [
        f"DECIMALS={0 if table.is_whole else min(table.decimals + 1, 6)};",
        f"SHOWDECIMALS={table.decimals};",
        f"MATRIX={_q(matrix)};",
        f"SUBJECT-CODE={_q(matrix[:8])};",
        *_keyword(pack, "SUBJECT-AREA", pack.titles),
        *_keyword(pack, "CONTENTS", table.titles),
        *_keyword(pack, "TITLE", table.titles),
        "DESCRIPTIONDEFAULT=YES;",
        *_keyword(pack, "UNITS", table.units),
        *_variables(table, pack, contents),
        *_keyword(pack, "NOTE", _notes(table, pack)),
        f"SOURCE={_long(pack.info.publisher or pack.release['title'])};",
        f"REFPERIOD={_long(pack.release['vintage'])};",
    ]
    if pack.info.issued:
        lines.append(f'LAST-UPDATED="{pack.info.issued:%Y%m%d} 00:00";')
    if pack.info.contact or pack.info.email:
        contact = " ".join(t for t in (pack.info.contact, pack.info.email) if t)
        lines.append(f"CONTACT={_long(contact)};")
    return "\n".join([*lines, "DATA=", *_rows(contents), ";"]) + "\n"


def _keyword(pack: Pack, keyword: str, texts: Texts) -> list[str]:
    """A keyword in every language."""
    return [
        f"{keyword}{_in(pack, language)}={_long(text)};"
        for language, text in enumerate(texts[: len(pack.languages)])
    ]


def _in(pack: Pack, language: int) -> str:
    return f"[{pack.languages[language]}]" if language else ""


def _notes(table: PackTable, pack: Pack) -> Texts:
    """Notes on the table's figures, and the meaning of the signs."""
    out = []
    for i in range(len(pack.languages)):
        notes = [table.words, *(note[i] for note in (*table.footnotes, *pack.footnotes))]
        w = pack.words
        signs = [
            f".. = {w['not released'][i]}: {w['about not released'][i]}.",
            f"- = {w['structural zero'][i]}: {w['about structural zero'][i]}.",
        ]
        out.append(" ".join(notes + signs))
    return tuple(out)


def _variables(table: PackTable, pack: Pack, contents: Contents) -> Iterator[str]:
    """STUB, HEADING, and for every variable its values, codes and total."""
    languages = range(len(pack.languages))
    names, figures = [], []
    for i in languages:
        names.append(_unique([d.labels[i] for d in table.dimensions]))
        figures.append(unused_name(_plain(contents.labels[i]), names[-1]))
    for i in languages:
        yield f"STUB{_in(pack, i)}={_list([names[i][j] for j in table.stub])};"
    for i in languages:
        heading = [names[i][j] for j in table.heading] + [figures[i]]
        yield f"HEADING{_in(pack, i)}={_list(heading)};"

    def every(keyword: str, variable: list[str], values: list[str]) -> Iterator[str]:
        for i in languages:
            yield f"{keyword}{_in(pack, i)}({_q(variable[i])})={values[i]};"

    for j, (d, used) in enumerate(zip(table.dimensions, table.used, strict=True)):
        variable = [names[i][j] for i in languages]
        labels = [_unique([d.items[p].labels[i] for p in used]) for i in languages]
        codes = _list(_unique([d.items[p].code for p in used]))
        yield from every("VALUES", variable, [_list(label) for label in labels])
        yield from every("CODES", variable, [codes for _ in languages])
        if time := _time([(d.items[p].code, d.items[p].limits) for p in used]):
            yield from every("TIMEVAL", variable, [time for _ in languages])
        if d.items[int(used[0])].kind == "total":  # the variable can be left out
            yield from every("ELIMINATION", variable, [_q(label[0]) for label in labels])
    words = [_unique([c.labels[i] for c in contents.items]) for i in languages]
    yield from every("VALUES", figures, [_list(word) for word in words])
    codes = _list([c.code for c in contents.items])
    yield from every("CODES", figures, [codes for _ in languages])


def _time(used: Sequence[tuple[str, tuple[Any, Any] | None]]) -> str:
    """The time scale of a variable whose values are all years, quarters or months; empty for any other."""
    if not all(limits and isinstance(limits[0], datetime.date) for _, limits in used):
        return ""
    codes = [code for code, _ in used]
    for scale, form in _SCALES.items():
        if all(form.fullmatch(code) for code in codes):
            return f"TLIST({scale}),{_list([re.sub('[-Q]', '', code) for code in codes])}"
    return ""


def _unique(texts: Sequence[str]) -> list[str]:
    """Texts as in a .px file, made unique: removing characters that it does not allow may make two equal."""
    out: list[str] = []
    taken: set[str] = set()
    for text in texts:
        plain = _plain(text)
        while plain in taken:
            plain += "_"
        taken.add(plain)
        out.append(plain)
    return out


def _rows(contents: Contents) -> list[str]:
    """Data lines; `..` where nothing is released, `-` for structural zeros."""
    impossible = STATUSES.index("structural zero")
    columns = [
        [
            '"-"' if status == impossible else text or '".."'
            for text, status in zip(
                number_texts(c.figures, c.is_whole), c.status.tolist(), strict=True
            )
        ]
        for c in contents.items
    ]
    return [" ".join(row) for row in zip(*columns, strict=True)]


def _plain(text: str) -> str:
    """Text without characters that a string in a .px file does not allow."""
    return " ".join(text.replace('"', "'").replace(";", ",").split())


def _q(text: str) -> str:
    return f'"{_plain(text)}"'


def _long(text: str) -> str:
    """A quoted text, in several lines if it is long."""
    plain = _plain(text)
    parts = [plain[i : i + MAX_LINE] for i in range(0, max(len(plain), 1), MAX_LINE)]
    return "\n".join(f'"{part}"' for part in parts)


def _list(texts: Sequence[str]) -> str:
    """Quoted texts separated by commas, a few per line."""
    quoted = [_q(t) for t in texts]
    lines = [",".join(quoted[i : i + 8]) for i in range(0, len(quoted), 8)]
    return ",\n".join(lines)


def _files(pack: Pack) -> Iterator[File]:
    for t in pack.cubes:
        make = partial(pcaxis, t, pack)
        yield text_file(f"px/{t.id}.px", make, media_type="text/x-pcaxis", table=t.id)


PC_AXIS = Format(
    name="PC-Axis", path="px/", about="PC-Axis, all languages in one file", files=_files
)
