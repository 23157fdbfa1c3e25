"""Text files: decoded, their names read, every cell as text.

Takes files in any encoding, with lines above the names or without; gives one table. Invariant: a copy in UTF-8, where
one is needed, lies in the scratch folder of the connection and is gone when it was read. In mode dp each line is read
by itself, and what it holds decides nothing about others, nor whether a file can be read.
"""

from __future__ import annotations

import codecs
import contextlib
import gzip
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import IO

import duckdb

from engine.errors import DataError
from engine.schema import SourceSpec, quoted
from engine.source.forms.csv_header import CsvShape, csv_shape
from engine.source.relation import check_names, csv_lines, csv_rows, fetch
from engine.source.scratch import scratch_of

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
