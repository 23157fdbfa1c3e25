"""Specs as people write them: TOML, with `sql` entries understood by the planner of queries."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from engine.spec import ReleaseSpec, read_spec
from queries.sql import StatementReader


def read(path: Path, *, tables: Sequence[Mapping[str, Any]] = ()) -> ReleaseSpec:
    """Read a spec, with SQL table entries understood; `tables` as `engine.spec.read_spec`."""
    return read_spec(path, sql=StatementReader(), tables=tables)
