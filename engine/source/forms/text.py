"""Text files: their encoding, delimiter and names found, decoded, every cell as text.

Takes files in any encoding, with lines above the names or without; gives one table. Delimiter, decimal mark and header
are chosen together: that reading wins in which all sampled rows agree with the header, the names stand on the first
line, and commas between digits are decimal marks rather than delimiters. DuckDB's own sniffing is not used: it renames
doubles, guesses headers away and puts up with ragged rows. Invariant: a copy in UTF-8, where one is needed, lies in the
scratch folder of the connection and is gone when it was read. In mode dp each line is read by itself, and what it holds
decides nothing about others, nor whether a file can be read.
"""

from __future__ import annotations

import codecs
import contextlib
import csv
import gzip
import re
import tempfile
import unicodedata
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from itertools import islice
from pathlib import Path
from typing import IO

import duckdb

from engine.errors import DataError
from engine.schema import SourceSpec, literal, quoted
from engine.source.forms.packages import sheets_of
from engine.source.relation import (
    BEHIND,
    SAY_ENCODING,
    check_names,
    fetch,
    file_literal,
    lines_about,
    matching_files,
)
from engine.source.scratch import scratch_of

DELIMITERS = (",", "\t", ";", "|")
LONGEST_NAME = 131_072
"""Signs of a column's name; what is longer is no header."""
_SAMPLE_RECORDS, SAMPLE_LINES = 200, 4_000
_NUMBER = re.compile(r"[-+]?[\d.,'\s\u2019]*\d[\d.,'\s\u2019]*%?")
_YEAR = re.compile(r"(19|20)\d\d")


@dataclass(frozen=True, kw_only=True, slots=True)
class CsvShape:
    """One way to read the first records of a text: its delimiter and header, and what speaks for it."""

    delimiter: str
    names: tuple[str, ...]  # As written, a byte order mark taken off
    has_tail: bool = False  # Every record below the names has one more cell, which is empty
    skip: int = 0  # Lines above the names, blank ones included
    is_first: bool = True  # The names are the first record
    is_even: bool = True  # Every record below the names has as many cells as there are names
    is_named: bool = True  # The names stand on the first line, or are no values of their columns
    is_decimal: bool = False  # The delimiter occurs between digits only, as a decimal comma does

    @property
    def rank(self) -> tuple[bool | int, ...]:
        """Larger is likelier."""
        agrees = self.is_even and self.is_named and len(self.names) > 1
        no_decimals = agrees and not self.is_decimal
        return agrees, self.is_first, no_decimals, len(self.names), self.is_even


def likeliest_reading(
    lines: Sequence[str], *, delimiter: str | None = None, may_skip: bool = False
) -> CsvShape | None:
    """Choose delimiter and header together; None where there is no record.

    may_skip: Lines above the names (a title, notes) may be left out, where what follows is plainly a header: with
        a value of a row among its names, a text is never read so.
    """
    readings = [
        reading
        for sign in ((delimiter,) if delimiter else DELIMITERS)
        for reading in _readings(lines, sign, may_skip=may_skip)
    ]
    return max(readings, key=lambda reading: reading.rank, default=None)  # the first of equals


def _readings(lines: Sequence[str], delimiter: str, *, may_skip: bool) -> list[CsvShape]:
    """The text read with one delimiter: from its first record, and from the first record of the usual width."""
    records, above, before = [], [], 0
    reader = csv.reader(lines, delimiter=delimiter)
    try:
        for record in reader:
            if record:
                records.append(record)
                above.append(before)
            before = reader.line_num
            if len(records) >= _SAMPLE_RECORDS:
                break
        else:
            if len(lines) >= SAMPLE_LINES and len(records) > 1:
                records.pop()  # it may be cut
    except csv.Error:
        pass
    if not records:
        return []
    widths = [len(record) for record in records]
    starts = {0}
    if may_skip:
        usual = Counter(widths[len(widths) // 2 :]).most_common(1)[0][0]
        filled = [sum(bool(cell.strip()) for cell in record) for record in records]
        fit = (i for i, n in enumerate(filled) if widths[i] == usual and n >= usual / 2)
        starts.add(next(fit, 0))
    return [
        CsvShape(
            delimiter=delimiter,
            names=tuple(names),
            skip=above[start],
            has_tail=has_tail,
            is_first=start == 0,
            is_even=all(width == len(names) + has_tail for width in widths[start + 1 :]),
            is_named=start == 0 or _is_header(records[start], records[start + 1 :]),
            is_decimal=_is_decimal(lines[above[start] :], delimiter),
        )
        for start in sorted(starts)
        for names, has_tail in [_names(records[start], records[start + 1 :])]
    ]


def _names(header: list[str], rows: Sequence[Sequence[str]]) -> tuple[list[str], bool]:
    """The names in a record, and whether the rows below have one more cell each, which is empty."""
    names = header[:-1] if len(header) > 1 and not header[-1].strip() else header
    is_longer = (
        len(header) > 1
        and bool(rows)
        and all(len(row) == len(names) + 1 and not row[-1] for row in rows)
    )
    return (names, True) if is_longer else (header, False)


def _is_header(names: Sequence[str], rows: Sequence[Sequence[str]]) -> bool:
    """Whether a record below other lines is one of names: unlike its columns, where these are alike."""
    evidence = False
    for name, *cells in zip(names, *rows, strict=False):
        named = name.strip()
        filled = [cell.strip() for cell in cells if cell.strip()]
        if named in filled or (_NUMBER.fullmatch(named) and not _YEAR.fullmatch(named)):
            return False
        numeric = bool(filled) and all(_NUMBER.fullmatch(cell) for cell in filled)
        evidence |= not _YEAR.fullmatch(named) and (numeric or len(set(filled)) < len(filled))
    return evidence


def _is_decimal(lines: Sequence[str], sign: str) -> bool:
    """Whether a sign stands between digits, wherever it stands below the first line."""
    below = "".join(lines[1 : _SAMPLE_RECORDS + 1])
    return sign in below and sign == "," and not re.search(r"(?<!\d),|,(?!\d)", below)


def csv_shape(
    path: Path, *, delimiter: str | None = None, place: str = "", by_header: bool = False
) -> CsvShape:
    """Find the delimiter and the header of a CSV file.

    by_header: By its first line alone, whatever the rows hold (mode dp).
    """
    place = place or f"source {path}"
    problem, shape = "its first line is not CSV", None
    try:
        with _opened(path, "utf-8-sig", "strict") as text:
            lines = list(islice(text, 1 if by_header else SAMPLE_LINES))
        shape = likeliest_reading(lines, delimiter=delimiter)
        if shape is None and not any(map(str.strip, lines)):
            problem = "the file is empty"
    except UnicodeDecodeError:
        problem = f"is not UTF-8 text; {SAY_ENCODING}"
    except (OSError, EOFError):
        problem = "cannot be read"
    # The limit of Python's csv is one for the whole process, and other packages raise it.
    if shape is None or any(len(name) > LONGEST_NAME for name in shape.names):
        raise DataError(f"{place}: {problem}")
    return shape


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
    head, remarks = None, []
    with contextlib.suppress(OSError, EOFError):
        with gzip.open(file) if file.endswith(".gz") else open(file, "rb") as data:
            head = data.read(_SAMPLE_BYTES)
    if head is None:
        raise DataError(f"source {file}: cannot be read")
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


def _encoding(head: bytes, place: str) -> str | None:
    """The encoding of a text; None: UTF-8."""
    known = next((name for bom, name in _BOMS if head.startswith(bom)), None)
    if known is not None:
        return known
    if b"\0" in head:
        end = b"\n" if b"\n" in head else b"\r"
        beside = max(head.count(end + b"\0"), head.count(b"\0" + end))
        if beside >= head.count(end) / 2:  # as in UTF-16, at every line's end
            return "utf-16-le" if head[1::2].count(0) > head[::2].count(0) else "utf-16-be"
        before = head[: head.index(0)].decode("latin-1")
        raise _fault(place, "one of lines {} holds a NUL byte; take it out", before)
    if _decoded(head, "utf-8") is not None:
        return None
    # In another encoding it could be read, with all accents wrong. Not final: the last sign may be cut.
    text = codecs.getincrementaldecoder("utf-8")("surrogateescape").decode(head)
    bad = [at for at, sign in enumerate(text) if "\udc80" <= sign <= "\udcff"]
    n_good = sum(sign > "\x7f" for sign in text) - len(bad)
    if bad and n_good >= _NEARLY_ALL * len(bad):
        said = "is UTF-8 text, but one of lines {} holds a byte that is not; write it anew"
        raise _fault(place, said, text[: bad[0]])
    western = _decoded(head, _WINDOWS)
    if western is not None and _reads_well(western):
        return _WINDOWS
    from charset_normalizer import from_bytes

    best = from_bytes(head, cp_isolation=list(_OTHERS)).best()
    if best is not None:
        return str(best.encoding)
    return _WINDOWS if western is not None else "latin-1"


def _fault(place: str, said: str, before: str) -> DataError:
    """What is wrong about one of some lines, of which that is the last that stands before it."""
    lines = lines_about(len(_LINE_END.findall(before)) + 1)
    return DataError(f"{place}: {said.format(lines)}, or {SAY_ENCODING}")


def _reads_well(text: str) -> bool:
    """Whether signs beyond ASCII are letters where letters stand beside them, as in words."""
    odd = beside = 0
    for before, sign, after in zip(text, text[1:], text[2:], strict=False):
        if sign > "\x7f" and (before.isalpha() or after.isalpha()):
            beside += 1
            odd += not sign.isalpha() and unicodedata.category(sign)[0] in "NSC"
    return odd <= 0.05 * beside


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


_CHUNK = 1 << 20


def open_text(
    con: duckdb.DuckDBPyConnection,
    source: SourceSpec,
    files: Sequence[str],
    relation: str,
    place: str,
    *,
    by_row: bool = False,
) -> None:
    """Read text files into one table, every cell as text.

    by_row: A line at a time, their shape from their first line alone (mode dp).
    """
    shapes: list[CsvShape] = []
    with contextlib.ExitStack() as copies:
        parts = []
        for file in files:
            plain = copies.enter_context(_in_utf8(con, source, file, by_row=by_row))
            shape = csv_shape(
                plain, delimiter=source.delimiter, place=f"source {file}", by_header=by_row
            )
            check_names(shape.names, f"source {file}")
            if shape.names != (shapes[0] if shapes else shape).names:
                raise DataError(
                    f"source {file}: its header differs from that of {files[0]}; name files of one kind, or "
                    'say sql = "SELECT ..." to put them together'
                )
            shapes.append(shape)
            if by_row:
                rows = csv_lines(str(plain), shape.delimiter, shape.names)
            else:
                rows = csv_rows(str(plain), shape.delimiter, shape.names, has_tail=shape.has_tail)
            parts.append(f"SELECT * FROM {rows}")
        fetch(
            con, f"CREATE OR REPLACE TABLE {quoted(relation)} AS {' UNION ALL '.join(parts)}", place
        )


@contextmanager
def _in_utf8(
    con: duckdb.DuckDBPyConnection, source: SourceSpec, file: str, *, by_row: bool
) -> Iterator[Path]:
    """Lend a file as UTF-8 text that begins with the names: the file itself, where it is that.

    by_row: Bytes that are no text of the encoding are replaced; else they are refused.
    """
    path = Path(file)
    encoding = codecs.lookup(source.encoding).name if source.encoding else "utf-8"
    is_utf8 = encoding in ("utf-8", "utf-8-sig")
    if is_utf8 and not source.skip and (not by_row or _is_text(path, encoding)):
        yield path
        return
    with tempfile.NamedTemporaryFile(dir=scratch_of(con), suffix=".csv") as copy:
        _decode(path, encoding, source.skip, copy, errors="replace" if by_row else "strict")
        yield Path(copy.name)


def _is_text(path: Path, encoding: str) -> bool:
    """Whether a file is text of an encoding to its end; one that cannot be read is for others to refuse."""
    try:
        with _opened(path, encoding, "strict") as text:
            while text.read(_CHUNK):
                pass
    except UnicodeError:
        return False
    except (OSError, EOFError):
        pass
    return True


def _decode(path: Path, encoding: str, skip: int, copy: IO[bytes], *, errors: str) -> None:
    """Write a text in UTF-8, without the lines above the names."""
    problem = ""
    try:
        with _opened(path, encoding, errors) as text:
            for _ in range(skip):
                text.readline()
            first = True
            while chunk := text.read(_CHUNK):
                copy.write(
                    (chunk.removeprefix("\ufeff") if first else chunk).encode("utf-8", "replace")
                )
                first = False
        copy.flush()
    except UnicodeError:
        problem = f"is not {encoding} text; say another encoding in [source]"
    except (OSError, EOFError):
        problem = "cannot be read, or not be decoded in the scratch folder"
    if problem:
        raise DataError(f"source {path}: {problem}")


def _opened(path: Path, encoding: str, errors: str) -> IO[str]:
    """Open as text with the line ends that it has, unzipping by suffix."""
    if path.suffix == ".gz":
        return gzip.open(path, "rt", encoding=encoding, errors=errors, newline="")
    return path.open(encoding=encoding, errors=errors, newline="")


def csv_rows(
    file: str,
    delimiter: str,
    names: Sequence[str],
    *,
    has_tail: bool = False,
    empty_is_null: bool = False,
) -> str:
    """SQL that reads a CSV file, every cell as text; nothing is guessed, and every row has all fields.

    has_tail: Every line ends in a delimiter; if anything stands behind one, that is an error.
    empty_is_null: An empty cell is null; else it is an empty text.
    """
    tail = "tail"
    while has_tail and tail in map(str.casefold, names):
        tail += "_"
    listed = [*names, tail] if has_tail else names
    columns = ", ".join(f"{literal(name)}: 'VARCHAR'" for name in listed)
    texts = f", force_not_null = [{', '.join(literal(name) for name in names)}]"
    rows = (
        f"read_csv({file_literal(file)}, auto_detect = false, header = true, delim = {literal(delimiter)}, "
        "quote = '\"', escape = '\"', comment = '', skip = 0, strict_mode = true, null_padding = false, "
        f"columns = {{{columns}}}{'' if empty_is_null else texts})"
    )
    if not has_tail:
        return rows
    is_empty = f"CASE WHEN coalesce({tail}, '') <> '' THEN error({literal(BEHIND)}) ELSE true END"
    return f"(SELECT * EXCLUDE ({tail}) FROM {rows} WHERE {is_empty})"


def csv_lines(file: str, delimiter: str, names: Sequence[str]) -> str:
    """SQL that reads a CSV file a line at a time, every cell as text: no line decides how another one is read.

    A line that is no record of so many fields (among them a quoted field with a line break) gives a row of nulls.
    """
    sign = re.escape(delimiter)
    pad = "" if delimiter == " " else " *"
    one = f'{pad}"(?:[^"]|"")*"{pad}|{pad}(?:[^" {sign}][^{sign}]*)?'
    whole = f"{literal(delimiter)} || line"
    plain = f"string_split(line, {literal(delimiter)})"
    quoted_ones = (
        f"CASE WHEN regexp_full_match({whole}, {literal(f'(?:{sign}(?:{one}))*')}) THEN list_transform("
        f"regexp_extract_all({whole}, {literal(f'{sign}({one})')}, 1), "
        """lambda x: CASE WHEN ltrim(x)[1] = '"' THEN replace(trim(x, ' ')[2:-2], '""', '"') ELSE x END) END"""
    )
    columns = ", ".join(f"fields[{j}] AS {quoted(name)}" for j, name in enumerate(names, start=1))
    return (
        f"(SELECT {columns} FROM (SELECT CASE WHEN len(fields) = {len(names)} THEN fields END AS fields FROM (SELECT "
        f"CASE WHEN contains(line, '\"') THEN {quoted_ones} ELSE {plain} END AS fields "
        f"FROM read_csv({file_literal(file)}, auto_detect = false, header = true, delim = e'\\x01', quote = '', "
        "escape = '', comment = '', skip = 0, strict_mode = false, null_padding = false, ignore_errors = true, "
        "columns = {'line': 'VARCHAR'}) WHERE line <> '')))"
    )
