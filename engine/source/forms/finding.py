"""Finds how a file is to be read: its encoding, delimiter, the lines above its names, its sheet.

Takes a source of which none of that is said; gives it with what was found, and remarks. A file that cannot be read
without has no rows to protect: nothing here is decided by a value, but by how the first records are laid out.
"""

from __future__ import annotations

import codecs
import gzip
import re
import unicodedata
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace

from engine.errors import DataError
from engine.schema import SourceSpec
from engine.source.forms.csv_header import SAMPLE_LINES, likeliest_reading
from engine.source.forms.workbook import sheets_of
from engine.source.relation import SAY_ENCODING, lines_about, matching_files

_SAMPLE_BYTES = 1 << 20
_LAID_OUT = 40
"""Records that are looked at for the lines above the names."""
_BOMS = (
    (codecs.BOM_UTF32_LE, "utf-32"),
    (codecs.BOM_UTF32_BE, "utf-32"),
    (codecs.BOM_UTF16_LE, "utf-16"),
    (codecs.BOM_UTF16_BE, "utf-16"),
)
_NEARLY_ALL = 20
"""So many signs of several bytes to each byte that is none, and a text is UTF-8: others hold few by chance."""
_LINE_END = re.compile("\r\n?|\n")
_WINDOWS = "cp1252"
_OTHERS = (
    "cp1250",
    "cp1251",
    "cp1253",
    "koi8_r",
    "shift_jis",
    "gb18030",
    "big5",
    "euc_kr",
)


def found_form(source: SourceSpec) -> tuple[SourceSpec, tuple[str, ...]]:
    """Find what a source of text or a workbook does not say.

    Returns: SourceSpec; remarks in plain words.
    """
    if source.path is None or source.sql is not None or source.format not in ("csv", "xlsx"):
        return source, ()
    files = matching_files(source.path)
    return _of_text(source, files[0]) if source.format == "csv" else _of_sheet(source, files[0])


def _of_sheet(source: SourceSpec, file: str) -> tuple[SourceSpec, tuple[str, ...]]:
    """The sheet of a workbook that holds most, and the rows above its names."""
    sheets = sheets_of(file)
    if not sheets or (source.sheet is not None and source.sheet not in sheets):
        return source, ()  # is said where it is opened
    chosen = source.sheet or max(sheets, key=lambda name: sum(map(len, sheets[name])))
    remarks = []
    if source.sheet is None and len(sheets) > 1:
        others = ", ".join(name for name in sheets if name != chosen)
        remarks.append(
            f"sheet {chosen} holds most and is read; there are also: {others}. For another: tablepack init "
            f"{source.path} --table {others.split(', ')[0]}"
        )
    skip = source.skip or _rows_above(sheets[chosen])
    if skip:
        remarks.append(_SKIPPED.format(skip=skip))
    return replace(source, sheet=chosen if len(sheets) > 1 else None, skip=skip), tuple(remarks)


_SKIPPED = "in doubt: the names of the columns are not at the top; what stands above them is left out: skip = {skip}"


def _of_text(source: SourceSpec, file: str) -> tuple[SourceSpec, tuple[str, ...]]:
    """Encoding, delimiter and lines above the names of a text."""
    head = _head(file)
    remarks = []
    encoding = source.encoding or _encoding(head, f"source {file}")
    if encoding is not None and source.encoding is None:
        remarks.append(
            f"the text is read as {encoding}, found by its signs; look whether names with accents are right"
        )
    text = _decoded(head, encoding or "utf-8")
    if text is None:  # not what was declared: said where it is opened
        return source, ()
    delimiter, skip = source.delimiter, source.skip
    lines = text.splitlines(keepends=True)[skip:]
    if len(head) == _SAMPLE_BYTES:
        lines.pop()  # it is cut
    reading = likeliest_reading(lines[:SAMPLE_LINES], delimiter=delimiter, may_skip=True)
    if reading is not None and reading.is_even and delimiter is None:
        delimiter = reading.delimiter if len(reading.names) > 1 else None
        skip += reading.skip
        if reading.skip:
            remarks.append(_SKIPPED.format(skip=skip))
    if reading is not None and reading.has_tail:
        remarks.append(
            "each line ends in a delimiter, behind which there is nothing: it makes no column"
        )
    found = replace(source, encoding=encoding, delimiter=delimiter, skip=skip)
    return found, tuple(remarks)


def _head(file: str) -> bytes:
    """The first bytes of a text."""
    try:
        with gzip.open(file) if file.endswith(".gz") else open(file, "rb") as data:
            return data.read(_SAMPLE_BYTES)
    except (OSError, EOFError):
        pass
    raise DataError(f"source {file}: cannot be read")


def _encoding(head: bytes, place: str) -> str | None:
    """The encoding of a text; None: UTF-8."""
    known = next((name for bom, name in _BOMS if head.startswith(bom)), None)
    if known is not None:
        return known
    if b"\0" in head:
        _check_zeros(head, place)
        return "utf-16-le" if head[1::2].count(0) > head[::2].count(0) else "utf-16-be"
    if _decoded(head, "utf-8") is not None:
        return None
    _check_nearly_utf8(head, place)
    western = _decoded(head, _WINDOWS)
    return _WINDOWS if western is not None and _reads_well(western) else _other(head)


def _check_zeros(head: bytes, place: str) -> None:
    """Refuse zeros that are not those of UTF-16, where every line's end has one beside it."""
    end = b"\n" if b"\n" in head else b"\r"
    beside = max(head.count(end + b"\0"), head.count(b"\0" + end))
    if beside < head.count(end) / 2:
        lines = _lines(head[: head.index(0)].decode("latin-1"))
        raise DataError(
            f"{place}: one of lines {lines} holds a NUL byte; take it out, or {SAY_ENCODING}"
        )


def _check_nearly_utf8(head: bytes, place: str) -> None:
    """Refuse a text that is UTF-8 but for few bytes: in another encoding it can be read, with all accents wrong."""
    # Not final: the last sign may be cut.
    text = codecs.getincrementaldecoder("utf-8")("surrogateescape").decode(head)
    bad = [at for at, sign in enumerate(text) if "\udc80" <= sign <= "\udcff"]
    n_good = sum(sign > "\x7f" for sign in text) - len(bad)
    if bad and n_good >= _NEARLY_ALL * len(bad):
        raise DataError(
            f"{place}: is UTF-8 text, but one of lines {_lines(text[: bad[0]])} holds a byte that is not; write it "
            f"anew, or {SAY_ENCODING}"
        )


def _lines(before: str) -> str:
    """About which line is behind some text."""
    return lines_about(len(_LINE_END.findall(before)) + 1)


def _reads_well(text: str) -> bool:
    """Whether signs beyond ASCII are letters where letters stand beside them, as in words."""
    odd = beside = 0
    for before, sign, after in zip(text, text[1:], text[2:], strict=False):
        if sign > "\x7f" and (before.isalpha() or after.isalpha()):
            beside += 1
            odd += not sign.isalpha() and unicodedata.category(sign)[0] in "NSC"
    return odd <= 0.05 * beside


def _other(head: bytes) -> str:
    """The likeliest of other encodings; that of Western Windows where nothing is likelier."""
    from charset_normalizer import from_bytes

    best = from_bytes(head, cp_isolation=list(_OTHERS)).best()
    if best is not None:
        return str(best.encoding)
    return _WINDOWS if _decoded(head, _WINDOWS) is not None else "latin-1"


def _decoded(head: bytes, encoding: str) -> str | None:
    """The text of some first bytes, whose last sign may be cut; None: it is of another encoding."""
    try:
        return codecs.getincrementaldecoder(encoding)().decode(head).removeprefix("\ufeff")
    except UnicodeError:
        return None


def _rows_above(rows: Sequence[Sequence[str]]) -> int:
    """How many rows stand above the names: the first row with about as many filled cells as later rows have cells."""
    sample = rows[:_LAID_OUT]
    filled = [sum(bool(cell.strip()) for cell in row) for row in sample]
    usual = max(Counter(filled[len(filled) // 2 :]).most_common(1), default=(0, 0))[0]
    return next((place for place, n in enumerate(filled) if n >= usual / 2), 0)
