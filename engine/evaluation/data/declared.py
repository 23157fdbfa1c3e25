"""The original as its spec declares it: several files, a statement, any encoding, numbers as people write them.

Takes a spec; gives the relation that a build reads, so that what is evaluated is what was released. Invariant: a cell
that is not written as declared is refused, as a build refuses it. Rows are CONFIDENTIAL: copies and spills lie in the
scratch folder alone.
"""

from __future__ import annotations

import glob
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import duckdb

from engine.errors import DataError
from engine.schema import Column, SourceSpec, Writing, quoted
from engine.source import (
    cell_sql,
    confidential_connection,
    fetch,
    open_source,
    scratch_directory,
    value_sql,
)
from engine.source.levels import add_levels
from engine.spec import ReleaseSpec

_SHAPED = "declared_rows"


@dataclass(frozen=True, kw_only=True, slots=True)
class Declared:
    """A source that is read as its spec says."""

    source: SourceSpec
    columns: tuple[Column, ...]  # Those whose numbers or dates are not written plainly


def data_of(spec: ReleaseSpec, data: Any = None) -> Any:
    """What is to be read: what is given, or the spec's source as it says, where that is more than one plain file.

    data: A path or frame given in place of the source; by default, or where it is one of the source's files,
        all of it.
    """
    if data is not None and not _is_of(spec, data):
        return data
    written = tuple(c for c in spec.columns if c.writing != Writing())
    if written or _is_more(spec.source):
        return Declared(source=spec.source, columns=written)
    return spec.source.path if data is None else data


def _is_of(spec: ReleaseSpec, data: Any) -> bool:
    """Whether something is one of the files of a spec's source."""
    if spec.source.path is None or not isinstance(data, str | Path):
        return False
    files = {Path(f).resolve() for p in spec.source.paths for f in (p, *glob.glob(p))}
    return Path(data).resolve() in files


def _is_more(source: SourceSpec) -> bool:
    """Whether a source is more than one file of plain UTF-8 text, Parquet or DuckDB."""
    path = source.path or ""
    is_several = bool(source.more) or (glob.has_magic(path) and not Path(path).exists())
    encoding = (source.encoding or "utf-8").lower().replace("_", "-")
    is_plain = source.format in ("csv", "parquet", "duckdb") and encoding in ("utf-8", "utf8")
    is_usual = source.delimiter in (None, ",", ";", "\t", "|") and not source.skip
    is_made = source.sql or source.sheet or source.count_column
    return is_several or not is_plain or not is_usual or bool(is_made)


@contextmanager
def opened_as_declared(
    what: Declared,
) -> Iterator[tuple[duckdb.DuckDBPyConnection, dict[str, str], str, dict[str, str]]]:
    """Open a source; closed, and its scratch folder gone, at the end of the block.

    Yields: con: Holds the relation `source`; types; place: What it is, for messages; unreadable: Columns that
    cannot be read, and why.
    """
    with scratch_directory() as scratch, confidential_connection(scratch) as con:
        found = add_levels(con, open_source(con, what.source), what.columns)
        types = dict(found.types)
        if wrong := write_plainly(con, what.columns, types, found.place):
            raise DataError(
                f"{found.place}: {', '.join(wrong)}: cells that are not written as the spec says (decimal, thousands, "
                "date_format)"
            )
        yield con, types, found.place, found.unreadable


def write_plainly(
    con: duckdb.DuckDBPyConnection, declared: Sequence[Column], types: dict[str, str], place: str
) -> list[str]:
    """Put the numbers and dates that the cells of `source` say in their place, and change their types accordingly.

    Returns: Columns that are left as they are, for they have cells that are not written as is declared.
    """
    columns = [c for c in declared if types.get(c.name) == "VARCHAR" and c.writing != Writing()]
    if not columns:
        return []
    cells = {c.name: cell_sql(c, "VARCHAR") for c in columns}
    values = {c.name: value_sql(c, "VARCHAR", cells[c.name]) for c in columns}
    odd = ", ".join(
        f"count(*) FILTER (({cells[name]}) IS NOT NULL AND ({value}) IS NULL)"
        for name, value in values.items()
    )
    counts = fetch(con, f"SELECT {odd} FROM source", place)[0]
    wrong = [name for name, n in zip(values, counts, strict=True) if n]
    fitting = {name: value for name, value in values.items() if name not in wrong}
    if not fitting:
        return wrong
    put = ", ".join(f"({value}) AS {quoted(name)}" for name, value in fitting.items())
    fetch(con, f"CREATE TABLE {_SHAPED} AS SELECT * REPLACE ({put}) FROM source", place)
    is_view = fetch(con, "SELECT 1 FROM duckdb_views() WHERE view_name = 'source'", place)
    fetch(con, f"DROP {'VIEW' if is_view else 'TABLE'} source", place)
    fetch(con, f"ALTER TABLE {_SHAPED} RENAME TO source", place)
    described = {str(row[0]): str(row[1]) for row in fetch(con, "DESCRIBE source", place)}
    types |= {name: described[name] for name in fitting}
    return wrong
