"""Every table of a release as a file of its own: CSV or Parquet, a row a synthetic person.

Files are named by the table's sorted columns joined with dots; columns stand in the source's order, a blank is
written as in the source. All is written to a folder beside the target, which gets its name when it is complete.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import shutil
import tempfile
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Literal

import duckdb

import engine.store.manifest
from engine.errors import StoreError
from engine.schema import ColumnSet, literal, quoted
from engine.store import table_name
from queries.sql.session import Session

MAX_STEM = 200
"""Longest file name in bytes, without its ending; longer ones are cut and end in a hash of the whole."""
_UNSAFE = frozenset('%./\\:*?"<>|')


def export(
    release: Session,
    directory: str | os.PathLike[str],
    *,
    format: Literal["csv", "parquet"] = "csv",
    tables: tuple[ColumnSet, ...] | None = None,
    progress: Callable[[int, int], None] | None = None,
) -> list[Path]:
    """Write one file a table.

    Parameters
    ----------
    directory : path-like
        Empty or absent; created where it is absent, with its parents.
    format : str
        "csv" or "parquet".
    tables : tuple of ColumnSet or None
        Tables to write; None: all.
    progress : callable or None
        Called with the number of files written, and of all.

    Returns
    -------
    list of Path
        The files, in the order of the tables.

    Raises
    ------
    StoreError
        The folder is not empty or cannot be written, the format is unknown, or the release was replaced
        since it was opened. Nothing is left half-written.
    """
    if format not in ("csv", "parquet"):
        raise StoreError(f"format {format!r} is unknown: csv or parquet")
    wanted = release.tables if tables is None else tables
    for columns in wanted:
        release.card(*columns)  # says which tables there are
    target = Path(directory)
    with _writing(target):
        if target.exists() and (not target.is_dir() or any(target.iterdir())):
            raise StoreError(f"{target}: is not an empty directory")
        target.parent.mkdir(parents=True, exist_ok=True)
    con, record = engine.store.manifest.open_release(release.path)
    try:
        if record.content_hash != release.content_hash:
            raise StoreError(f"{release.path}: was replaced since it was opened; open it again")
        with _writing(target):
            part = Path(tempfile.mkdtemp(prefix=f".{target.name}.", dir=target.parent))
            try:
                names = _write_all(con, release, wanted, part, format, progress)
                part.chmod(0o777 & ~_umask())
                part.replace(target)
            except BaseException:
                shutil.rmtree(part, ignore_errors=True)
                raise
    finally:
        con.close()
    return [target / name for name in names]


def file_stem(columns: Iterable[str]) -> str:
    """Return the file name of a table without its ending; different tables have different ones.

    Characters that a file name cannot or should not hold, and dots inside a column's name, are
    percent-encoded; a name of more than `MAX_STEM` bytes is cut and ends in `~` and a hash of the whole.
    """
    stem = ".".join(_encoded(c) for c in sorted(columns))
    data = stem.encode()
    if len(data) <= MAX_STEM:
        return stem
    suffix = "~" + hashlib.blake2b(data, digest_size=8).hexdigest()
    return data[: MAX_STEM - len(suffix)].decode(errors="ignore") + suffix


def _encoded(name: str) -> str:
    """Return a column's name with unsafe characters as %XX per UTF-8 byte."""
    return "".join(
        "".join(f"%{b:02X}" for b in ch.encode()) if ch in _UNSAFE or not ch.isprintable() else ch
        for ch in name
    )


def _write_all(
    con: duckdb.DuckDBPyConnection,
    release: Session,
    tables: tuple[ColumnSet, ...],
    folder: Path,
    format_: str,
    progress: Callable[[int, int], None] | None,
) -> list[str]:
    """Write all files; return their names."""
    nulls = dict(con.execute("SELECT name, null_spelling FROM catalog.columns").fetchall())
    names = []
    for i, columns in enumerate(tables, 1):
        ordered = [c for c in release.columns if c in columns]
        name = f"{file_stem(columns)}.{format_}"
        con.execute(_copy_sql(columns, ordered, nulls, folder / name, format_))
        names.append(name)
        if progress is not None:
            progress(i, len(tables))
    return names


def _copy_sql(
    columns: ColumnSet, ordered: list[str], nulls: dict[str, str], path: Path, format_: str
) -> str:
    """Return the COPY statement of one table."""
    view = f"main.{quoted(table_name(columns))}"
    if format_ == "parquet":
        listed = ", ".join(quoted(c) for c in ordered)
        return f"COPY (SELECT {listed} FROM {view}) TO {literal(str(path))} (FORMAT parquet)"
    spellings = {nulls[c] for c in ordered}
    if len(spellings) == 1 and spellings != {""}:
        listed, null = ", ".join(quoted(c) for c in ordered), spellings.pop()
    else:  # each column its own spelling; an empty one is left to NULLSTR
        null = ""
        listed = ", ".join(
            f"coalesce(CAST({quoted(c)} AS VARCHAR), {literal(nulls[c])}) AS {quoted(c)}"
            if nulls[c] or len(ordered) == 1  # alone, an empty blank is quoted: no empty line
            else quoted(c)
            for c in ordered
        )
    return (
        f"COPY (SELECT {listed} FROM {view}) TO {literal(str(path))} "
        f"(FORMAT csv, HEADER, NULLSTR {literal(null)})"
    )


def _umask() -> int:
    """Return the process's file creation mask (it can only be read by setting it)."""
    mask = os.umask(0o077)
    os.umask(mask)
    return mask


@contextlib.contextmanager
def _writing(target: Path) -> Iterator[None]:
    """Turn what the disk refuses into a StoreError."""
    try:
        yield
    except OSError as error:
        raise StoreError(f"{target}: cannot be written ({error.strerror or 'failed'})") from None
    except duckdb.IOException:
        why = "disk full, quota reached or folder read-only"
        raise StoreError(f"{target}: cannot be written ({why})") from None
