"""The counts of all tables of a release, added up: for whoever is about to read or write all rows.

A count may stand for any number of rows: one that is not what its table says could fill a disk.
"""

from __future__ import annotations

from pathlib import Path

import duckdb

from engine.schema import quoted
from engine.store.catalogue import count_names, physical_name
from engine.store.checks.structure import damaged
from engine.store.manifest import ATTACHED

_MANY = 100
"""Tables whose counts are added up by one statement."""


def check_counts(con: duckdb.DuckDBPyConnection, path: Path) -> None:
    """Check that every table's counts are above 0 and make up its number of rows."""
    listed = con.execute(
        f"SELECT table_id, columns, rows FROM {ATTACHED}.catalog.tables ORDER BY table_id"
    ).fetchall()
    for start in range(0, len(listed), _MANY):
        some = listed[start : start + _MANY]
        counted = con.execute(" UNION ALL ".join(_sums(i, columns) for i, columns, _ in some))
        sums = {i: tuple(sums) for i, *sums in counted.fetchall()}
        for table_id, _, rows in some:
            total, least, n_blank = sums[table_id]
            if (total or 0) != rows or n_blank or (least is not None and least < 1):
                raise damaged(
                    path,
                    f"table {physical_name(table_id)}",
                    "has not the rows that its card counts",
                )


def _sums(table_id: int, columns: list[str]) -> str:
    """Return SQL for the sum, the least and the number of missing counts of a table."""
    count, measured = map(quoted, count_names(columns))
    return (
        f"SELECT {table_id}, sum({count}), min({count}), count_if({count} IS NULL OR {measured} IS NULL) "
        f"FROM {ATTACHED}.tables.{physical_name(table_id)}"
    )
