"""Tables shared between releases: tables that were fitted before are copied, not fitted again.

A table depends only on the recipe (data, spec, key, engine) and its columns, not on which other tables there are. So a
build may take tables from an earlier release of the same recipe, with the same result as a complete build.
Everything but `check_shared`, which is called before anything is read, runs in the fit process.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from pathlib import Path

import duckdb

from engine.errors import StoreError
from engine.schema import MAX_WIDTH, ColumnSet, literal
from engine.store.catalogue import columns_of_name, physical_name
from engine.store.manifest import ReleaseRecord, file_hash, verify_release
from engine.store.opening import open_release

_EARLIER = "earlier"


@dataclass(frozen=True, kw_only=True, slots=True)
class EarlierRelease:
    """A release whose tables are reused."""

    path: Path
    # The manifest's record, which the bytes of the file matched; the file may be replaced later.
    record: ReleaseRecord
    tables: frozenset[ColumnSet]

    @property
    def file(self) -> tuple[Path, str]:
        """What the fit process is given: the file and its SHA-256."""
        return self.path, self.record.sha256


def earlier_release(path: Path, noted: Collection[str] = ()) -> EarlierRelease:
    """Check a release whose tables are to be reused.

    noted: SHA-256 of releases that were built here; these need not be opened, their manifest lists their tables.
    """
    record = verify_release(path, verify="hash")
    if record.sha256 not in noted:
        # An opened release has a manifest that agrees with its catalogue.
        con, record = open_release(path, verify="hash")
        con.close()
    return EarlierRelease(
        path=Path(os.path.abspath(path)),
        record=record,
        tables=frozenset(map(columns_of_name, record.tables)),
    )


def check_shared(
    earlier: EarlierRelease,
    *,
    recipe: str,
    noted: Mapping[str, str],
    key_id: str,
    vintage: str,
    engine_version: str,
) -> None:
    """Refuse a release whose tables are not what a build by this recipe would make.

    This concerns the file as it was checked; `check_unchanged` makes sure that the file copied from is the same.

    noted: Recipes of the releases in the journal next to the key, by their SHA-256.
    """
    path, record = earlier.path, earlier.record
    if record.key_id != key_id:
        why = f"it was built with key {record.key_id}, but the spec's key is {key_id}"
    elif record.vintage != vintage:
        why = f"its vintage is {record.vintage!r}, but the spec's vintage is {vintage!r}"
    elif record.engine_version != engine_version:
        why = f"it was built by tablepack {record.engine_version}, but this is {engine_version}"
    elif record.sha256 not in noted:
        why = "the journal next to the key does not list this file: it was changed, or built elsewhere"
    elif noted[record.sha256] != recipe:
        why = "the spec has changed in more than its tables, title and notes since it was built"
    else:
        return
    raise StoreError(
        f"{path}: {why}, so its tables cannot be reused; rebuild it: tablepack build SPEC -o {path} --force"
    )


def check_unchanged(earlier: tuple[Path, str], sha256: str | None = None) -> None:
    """Refuse a release that has been replaced since it was checked."""
    path, known = earlier
    try:
        now = sha256 or file_hash(path)
    except OSError:
        now = ""
    if now != known:
        raise StoreError(
            f"{path}: changed in the meantime; nothing was done, please run the command again"
        )


def copy_file(earlier: tuple[Path, str], to: Path) -> None:
    """Copy an earlier release, so that tables can be added to it."""
    shutil.copyfile(earlier[0], to)
    check_unchanged(earlier, file_hash(to))  # checks the copy, whatever the path contains now


def can_grow(
    con: duckdb.DuckDBPyConnection, tables: Collection[ColumnSet], positions: Mapping[str, int]
) -> bool:
    """Whether adding tables to a release and completing its catalogue again gives the release to be built."""
    widest = max(map(len, tables))
    there = con.execute("SELECT columns FROM catalog.tables").fetchall()
    places = con.execute("SELECT name, position FROM catalog.columns").fetchall()
    ends = con.execute(
        "SELECT count(*) FROM duckdb_columns() WHERE database_name = current_database() "
        "AND schema_name = 'catalog' AND table_name = 'cell_ranges' AND starts_with(column_name, 'low_')"
    ).fetchall()
    # Wider tables are modelled: they depend on which other tables there are.
    return (
        dict(places) == dict(positions)
        and ends == [(widest,)]
        and all(tuple(c) in tables and len(c) <= MAX_WIDTH for (c,) in there)
    )


def copy_tables(
    con: duckdb.DuckDBPyConnection,
    earlier: tuple[Path, str],
    *,
    ids: Mapping[ColumnSet, int],
    positions: Mapping[str, int],
) -> None:
    """Copy the tables that two releases share into an empty staging database, in one transaction."""
    con.execute(f"ATTACH {literal(str(earlier[0]))} AS {_EARLIER} (READ_ONLY, TYPE duckdb)")
    try:
        check_unchanged(
            earlier
        )  # it is attached: replacing the file no longer changes what is read
        rows = con.execute(f"SELECT table_id, columns FROM {_EARLIER}.catalog.tables").fetchall()
        # Wider tables are modelled: they depend on which other tables there are.
        shared = {old: ids[tuple(c)] for old, c in rows if tuple(c) in ids and len(c) <= MAX_WIDTH}
        if shared:
            width = max(len(columns) for _, columns in rows if len(columns) <= MAX_WIDTH)
            width = min(width, max(map(len, ids)))
            con.execute("; ".join(_statements(shared, positions, width)))
    finally:
        con.execute(f"DETACH {_EARLIER}")


def _statements(shared: Mapping[int, int], positions: Mapping[str, int], width: int) -> list[str]:
    """The statements that copy tables; `shared` maps old to new table numbers."""
    numbers = ", ".join(
        f"({old}, {new}, {literal(physical_name(new))})" for old, new in sorted(shared.items())
    )
    places = ", ".join(f"({literal(name)}, {place})" for name, place in positions.items())
    catalog = f"{_EARLIER}.catalog"
    ends = ", ".join(f"low_{j}, span_{j}" for j in range(1, width + 1))
    return [
        "BEGIN",
        f"CREATE TEMP TABLE shared AS SELECT * FROM (VALUES {numbers}) AS t(old, new, name)",
        f"CREATE TEMP TABLE places AS SELECT * FROM (VALUES {places}) AS t(name, place)",
        "CREATE TEMP TABLE used AS SELECT DISTINCT unnest(columns) AS name "
        f"FROM {catalog}.tables JOIN shared ON table_id = old",
        *(
            f"CREATE TABLE tables.{physical_name(new)} AS "
            f"SELECT * FROM {_EARLIER}.tables.{physical_name(old)}"
            for old, new in sorted(shared.items())
        ),
        f"INSERT INTO catalog.cell_ranges BY NAME SELECT new AS table_id, {ends}, n, noise_sd, measured, depth "
        f"FROM {catalog}.cell_ranges JOIN shared ON table_id = old",
        "INSERT INTO catalog.tables SELECT r.* REPLACE (new AS table_id, shared.name AS physical) "
        f"FROM {catalog}.tables AS r JOIN shared ON table_id = old",
        f"INSERT INTO catalog.codes SELECT * FROM {catalog}.codes "
        "WHERE column_name IN (SELECT name FROM used)",
        "INSERT INTO catalog.columns SELECT c.* REPLACE (place AS position) "
        f"FROM {catalog}.columns AS c JOIN places USING (name) WHERE name IN (SELECT name FROM used)",
        "DROP TABLE shared; DROP TABLE places; DROP TABLE used",
        "COMMIT",
    ]
