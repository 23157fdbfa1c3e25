"""Read specs, with the statements of `[[tables]]` entries parsed by the planner of queries."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from engine.spec import ReleaseSpec, read_spec

if TYPE_CHECKING:
    from engine.errors import TablepackError
    from engine.schema import ColumnSet
    from queries.sql import StatementReader


def read(
    path: Path, *, tables: Sequence[Mapping[str, Any]] = (), check_key: bool = True
) -> ReleaseSpec:
    """Read a spec, including the SQL of its table entries; parameters as in `engine.spec.read_spec`."""
    return read_spec(path, sql=_LateReader(), tables=tables, check_key=check_key)


class _LateReader:
    """A `StatementReader` that is imported for the first statement: most specs have none."""

    def split(self, text: str) -> list[tuple[int, str]]:
        """As `StatementReader.split`."""
        return _reader().split(text)

    def columns(self, sql: str, types: Mapping[str, str], logical_name: str) -> ColumnSet:
        """As `StatementReader.columns`."""
        return _reader().columns(sql, types, logical_name)

    def columns_of_each(
        self, statements: Sequence[str], types: Mapping[str, str], logical_name: str
    ) -> list[ColumnSet | TablepackError]:
        """As `StatementReader.columns_of_each`."""
        return _reader().columns_of_each(statements, types, logical_name)


def _reader() -> StatementReader:
    from queries.sql import StatementReader

    return StatementReader()
