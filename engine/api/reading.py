"""Read specs, with the statements of `[[tables]]` entries parsed by the planner of queries."""

from __future__ import annotations

import contextlib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from engine.errors import SpecError
from engine.key_files import read_key
from engine.spec import ReleaseSpec, read_spec
from engine.store import verify_release

if TYPE_CHECKING:
    from engine.errors import TablepackError
    from engine.schema import ColumnSet
    from queries.sql import StatementReader


def read(
    path: Path, *, tables: Sequence[Mapping[str, Any]] = (), check_key: bool = True
) -> ReleaseSpec:
    """Read a spec, including the SQL of its table entries; parameters as in `engine.spec.read_spec`."""
    return read_spec(path, sql=_LateReader(), tables=tables, check_key=check_key)


def specs_beside(release: Path) -> list[Path]:
    """The specs beside a release that have its key and vintage."""
    record = verify_release(release)
    found = []
    for path in sorted(release.absolute().parent.glob("*.toml")):
        with contextlib.suppress(SpecError, OSError):
            spec = read(path)
            if (read_key(spec.key_path).id, spec.vintage) == (record.key_id, record.vintage):
                found.append(path)
    return found


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
