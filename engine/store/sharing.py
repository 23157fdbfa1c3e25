"""Tables of one release in another: what was fitted once is copied, not fitted again.

A table depends on the recipe (data, spec, key, engine) and its columns alone, not on which other tables there are. So a
build may take tables from an earlier release of the same recipe, and the result is what a build of all would be.
Right of the wall but for `check_shared`, which asks before anything is read.
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
    """A release whose tables another one takes over."""

    path: Path
    # What the manifest said of the file, whose bytes were compared with it: what lies there later may be
    # another.
    record: ReleaseRecord
    tables: frozenset[ColumnSet]

    @property
    def file(self) -> tuple[Path, str]:
        """What crosses the wall of it: the file, and its SHA-256."""
        return self.path, self.record.sha256


def earlier_release(path: Path, noted: Collection[str] = ()) -> EarlierRelease:
    """Look at a release whose tables another one is to take over.

    noted: SHA-256 of releases that were built here: these need not be opened, their manifest says what is in
        them.
    """
    record = verify_release(path, verify="hash")
    if record.sha256 not in noted:
        con, record = open_release(
            path, verify="hash"
        )  # where the manifest agrees with the catalogue
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

    Asked of what was looked at; that the file is still that is asked by whoever copies of it.

    noted: Recipes of the releases that the journal beside the key knows, by their SHA-256.
    """
    path, record = earlier.path, earlier.record
    if record.key_id != key_id:
        why = f"it was built with another key ({record.key_id}, the spec's is {key_id})"
    elif record.vintage != vintage:
        why = f"it is of vintage {record.vintage!r}, the spec's is {vintage!r}"
    elif record.engine_version != engine_version:
        why = f"tablepack {record.engine_version} built it, this is {engine_version}"
    elif record.sha256 not in noted:
        why = (
            "the journal beside the key does not know this file: it was changed, or built elsewhere"
        )
    elif noted[record.sha256] != recipe:
        why = "the spec says something else than its tables, title and notes in another way than when it was built"
    else:
        return
    raise StoreError(
        f"{path}: {why}, so its tables cannot be kept; build all of it: tablepack build SPEC -o {path} --force"
    )


def check_unchanged(earlier: tuple[Path, str], sha256: str | None = None) -> None:
    """Refuse a release that is another file by now."""
    path, known = earlier
    try:
        now = sha256 or file_hash(path)
    except OSError:
        now = ""
    if now != known:
        raise StoreError(f"{path}: was changed meanwhile; nothing was done, say it again")


def copy_file(earlier: tuple[Path, str], to: Path) -> None:
    """Copy an earlier release, so that tables can be added to it."""
    shutil.copyfile(earlier[0], to)
    check_unchanged(earlier, file_hash(to))  # what was copied, whatever lies there now


def can_grow(
    con: duckdb.DuckDBPyConnection, tables: Collection[ColumnSet], positions: Mapping[str, int]
) -> bool:
    """Whether a release becomes another one by adding tables to it and closing its catalogue anew."""
    widest = max(map(len, tables))
    there = con.execute("SELECT columns FROM catalog.tables").fetchall()
    places = con.execute("SELECT name, position FROM catalog.columns").fetchall()
    ends = con.execute(
        "SELECT count(*) FROM duckdb_columns() WHERE database_name = current_database() "
        "AND schema_name = 'catalog' AND table_name = 'cell_ranges' AND starts_with(column_name, 'low_')"
    ).fetchall()
    # Tables wider than these are modelled: what is in them hangs on which others there are.
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
        check_unchanged(earlier)  # attached: what is put there from now on is not what is read
        rows = con.execute(f"SELECT table_id, columns FROM {_EARLIER}.catalog.tables").fetchall()
        # Wider ones are modelled: what is in them hangs on which others there are.
        shared = {old: ids[tuple(c)] for old, c in rows if tuple(c) in ids and len(c) <= MAX_WIDTH}
        if shared:
            width = max(len(columns) for _, columns in rows if len(columns) <= MAX_WIDTH)
            width = min(width, max(map(len, ids)))
            con.execute("; ".join(_statements(shared, positions, width)))
    finally:
        con.execute(f"DETACH {_EARLIER}")


def _statements(shared: Mapping[int, int], positions: Mapping[str, int], width: int) -> list[str]:
    """The statements that copy tables, by their numbers there and here."""
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
