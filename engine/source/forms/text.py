"""Text files: decoded, their names read, every cell as text.

Takes files in any encoding, with lines above the names or without; gives one table. Invariant: a copy in UTF-8, where
one is needed, lies in the scratch folder of the connection and is gone when it was read.
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
from engine.source.relation import check_names, csv_rows, fetch
from engine.source.scratch import scratch_of

_CHUNK = 1 << 20


def open_text(
    con: duckdb.DuckDBPyConnection,
    source: SourceSpec,
    files: Sequence[str],
    relation: str,
    place: str,
    *,
    by_header: bool = False,
) -> None:
    """Read text files into one table, every cell as text; `by_header` is that of `csv_shape`."""
    shapes: list[CsvShape] = []
    with contextlib.ExitStack() as copies:
        parts = []
        for file in files:
            plain = copies.enter_context(_in_utf8(con, source, file))
            shape = csv_shape(
                plain, delimiter=source.delimiter, place=f"source {file}", by_header=by_header
            )
            check_names(shape.names, f"source {file}")
            if shape.names != (shapes[0] if shapes else shape).names:
                raise DataError(
                    f"source {file}: its header differs from that of {files[0]}; name files of one kind, or "
                    'say sql = "SELECT ..." to put them together'
                )
            shapes.append(shape)
            rows = csv_rows(str(plain), shape.delimiter, shape.names, has_tail=shape.has_tail)
            parts.append(f"SELECT * FROM {rows}")
        fetch(
            con, f"CREATE OR REPLACE TABLE {quoted(relation)} AS {' UNION ALL '.join(parts)}", place
        )


@contextmanager
def _in_utf8(con: duckdb.DuckDBPyConnection, source: SourceSpec, file: str) -> Iterator[Path]:
    """Lend a file as UTF-8 text that begins with the names: the file itself, where it is that."""
    path = Path(file)
    encoding = codecs.lookup(source.encoding).name if source.encoding else "utf-8"
    if encoding in ("utf-8", "utf-8-sig") and not source.skip:
        yield path
        return
    with tempfile.NamedTemporaryFile(dir=scratch_of(con), suffix=".csv") as copy:
        _decode(path, encoding, source.skip, copy)
        yield Path(copy.name)


def _decode(path: Path, encoding: str, skip: int, copy: IO[bytes]) -> None:
    """Write a text in UTF-8, without the lines above the names."""
    problem = ""
    try:
        with _opened(path, encoding) as text:
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


def _opened(path: Path, encoding: str) -> IO[str]:
    """Open as text with the line ends that it has, unzipping by suffix."""
    if path.suffix == ".gz":
        return gzip.open(path, "rt", encoding=encoding, newline="")
    return path.open(encoding=encoding, newline="")
