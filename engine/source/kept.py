"""The encoded source of a build, kept beside its release until that is whole: a build that was killed goes on from it.

Takes the place of a release; gives the working database that lies there, in a folder that only we can open, under a
key derived from the key file. It is gone on when the same files, spec, vintage and key come again, and swept when
they do not, and whenever a build ends. Sources so small that they are worked on in memory are never kept. CONFIDENTIAL.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import shutil
import stat
from collections.abc import Iterator
from dataclasses import asdict, dataclass, field
from hashlib import blake2b
from pathlib import Path
from typing import Any

import duckdb
import numpy as np

from engine.errors import StoreError
from engine.keys import MasterKey, pack_strings
from engine.source.charges import Sketch
from engine.source.entities import ROWS_WITH_TOKENS, EntityColumn
from engine.source.files import replace_file
from engine.source.ingest import Ingested
from engine.source.relation import matching_files
from engine.spec import ReleaseSpec
from engine.version import ENGINE_VERSION

ENDING = ".rows"
"""Of the folder beside a release."""
_DATABASE, _LOCK, _WHOLE = "confidential.duckdb", "lock", "whole"
_TOLD = "kept"
_LAYOUT = 3
"""Raise it whenever what is kept changes: names of tables, what they hold, what is told of them."""
_INTERRUPTED = "Query interrupted"
"""What DuckDB makes of a signal that comes while a statement runs."""


@dataclass(frozen=True, kw_only=True, slots=True)
class KeptRows:
    """Where an encoded source is kept, and what it must be of."""

    database: Path  # Its file
    secret: str = field(repr=False)  # Key of the file, hex
    # Keyed digest of all that decides the encoded rows; stands in a file of its own once these are whole.
    digest: str


@dataclass(frozen=True, kw_only=True, slots=True)
class Encoded:
    """An encoded source with tokens, and what else a build learnt while it was read."""

    ingested: Ingested
    entities: tuple[EntityColumn, ...]
    sketch: Sketch
    source_columns: tuple[str, ...]


def kept_folder(release: Path) -> Path:
    """The folder beside a release, without links: DuckDB names files so."""
    return release.parent.resolve() / f"{release.name}{ENDING}"


def left_folders(place: Path) -> list[Path]:
    """Return the folders in a folder that builds of any release there have left, or hold."""
    with contextlib.suppress(OSError):
        found = (f for f in sorted(place.resolve().iterdir()) if f.name.endswith(ENDING))
        return [f for f in found if _is_ours(f.lstat()) and (f / _LOCK).exists()]
    return []


def left_rows(folder: Path) -> str | None:
    """Return what lies in the folder beside a release, in words; None where there is none."""
    try:
        info = folder.lstat()
        _check_ours(folder, info)
        size = sum(entry.lstat().st_size for entry in folder.iterdir())
        with (folder / _LOCK).open("rb") as file:
            fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except FileNotFoundError:
        return f"{folder}: holds no lock, so no build left it" if folder.exists() else None
    except BlockingIOError:
        return f"{folder}: a build is at work"
    except OSError as error:
        raise StoreError(f"{folder}: cannot be looked at ({error.strerror})") from None
    return (
        f"{folder}: {size / 1e6:,.1f} MB of a build that was stopped, confidential and encrypted; the next build of "
        f"{folder.name.removesuffix(ENDING)} goes on from there, and removes it; if there will be none, remove it"
    )


@contextlib.contextmanager
def kept_rows(
    release: Path, spec: ReleaseSpec, key: MasterKey, pinned: tuple[object, ...]
) -> Iterator[KeptRows | None]:
    """Hold the folder beside a release; remove it at the end, unless the build is interrupted.

    Yields: None: another build holds it, or the disk has no folders that are ours alone.
    """
    folder = kept_folder(release)
    try:
        lock = _locked(folder)
    except OSError as error:
        raise StoreError(f"{folder}: cannot be written ({error.strerror})") from None
    if lock is None:
        yield None
        return
    try:
        secret = key.derive("kept", spec.vintage)
        kept = KeptRows(
            database=folder / _DATABASE,
            secret=secret.hex(),
            digest=blake2b(_decides(spec, pinned), key=secret, digest_size=16).hexdigest(),
        )
        if not is_whole(kept):
            clear(kept)
        yield kept
    except BaseException as error:
        if not _is_interrupt(error):  # else the next build goes on from here
            _remove(folder)
        raise
    else:
        _remove(folder)
    finally:
        os.close(lock)


def _is_interrupt(error: BaseException) -> bool:
    """Whether a build ends because somebody ended it."""
    if isinstance(error, RuntimeError):
        return str(error) == _INTERRUPTED
    return isinstance(error, KeyboardInterrupt | SystemExit)


def _remove(folder: Path) -> None:
    """Remove a folder whose lock is held: first what says that it can be gone on from, the lock last."""
    with contextlib.suppress(OSError):
        _empty(folder)
        (folder / _LOCK).unlink()
        folder.rmdir()


def _empty(folder: Path) -> None:
    (folder / _WHOLE).unlink(missing_ok=True)
    for entry in folder.iterdir():
        if entry.name == _LOCK:
            continue
        if entry.is_dir() and not entry.is_symlink():
            shutil.rmtree(entry)
        else:
            entry.unlink()


def _locked(folder: Path) -> int | None:
    """Make the folder, and hold its lock; None: another process has it, or no folder is private on this disk."""
    while True:
        is_made = False
        with contextlib.suppress(FileExistsError):
            folder.mkdir(mode=0o700)
            is_made = True
        try:
            info = folder.lstat()
            if is_made and not _is_ours(info):  # as on a share without owners and modes
                folder.rmdir()
                return None
            _check_ours(folder, info)
            lock = os.open(folder / _LOCK, os.O_CREAT | os.O_RDWR | os.O_NOFOLLOW, 0o600)
        except FileNotFoundError:
            continue  # a build that ended just now took the folder away
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            if os.stat(folder / _LOCK).st_ino == os.fstat(lock).st_ino:
                return lock
        except FileNotFoundError:
            pass  # it is that build's, which has unlinked it
        except BlockingIOError:
            os.close(lock)
            return None
        os.close(lock)


def _is_ours(info: os.stat_result) -> bool:
    """Whether this is a folder that we alone can open."""
    return stat.S_ISDIR(info.st_mode) and info.st_uid == os.getuid() and not info.st_mode & 0o077


def _check_ours(folder: Path, info: os.stat_result) -> None:
    if not _is_ours(info):
        raise StoreError(f"{folder}: is not a folder that you alone can open; remove it")


def _decides(spec: ReleaseSpec, pinned: tuple[object, ...]) -> bytes:
    """All that decides the encoded rows: of the files what changes whenever they are written."""
    files = []
    for path in spec.source.paths:
        for file in matching_files(path):
            info = Path(file).stat()
            written = (info.st_size, info.st_mtime_ns, info.st_ctime_ns, info.st_ino, info.st_dev)
            files.append(f"{Path(file).resolve()} {written}")
    said = [
        str(_LAYOUT),
        ENGINE_VERSION,
        duckdb.__version__,
        spec.mode,
        spec.vintage,
        repr(spec.source),
    ]
    columns = [repr(asdict(column)) for column in spec.columns]
    return pack_strings([*said, repr(spec.privacy.swap), repr(pinned), *columns, *files])


def clear(kept: KeptRows) -> None:
    """Remove what is kept."""
    _empty(kept.database.parent)


def is_whole(kept: KeptRows) -> bool:
    """Whether the encoded source that is wanted is there."""
    try:
        return (
            kept.database.is_file() and kept.database.with_name(_WHOLE).read_text() == kept.digest
        )
    except OSError:
        return False


def _tables(con: duckdb.DuckDBPyConnection) -> set[str]:
    listed = "SELECT table_name FROM duckdb_tables() WHERE database_name = current_database()"
    return {name for (name,) in con.execute(listed).fetchall()}


def keep(con: duckdb.DuckDBPyConnection, kept: KeptRows, encoded: Encoded) -> None:
    """Say what the database holds, all of it on disk: from now on a build can go on from it."""
    told = {
        "source_columns": encoded.source_columns,
        "sketch": asdict(encoded.sketch),
        "n_rows": encoded.ingested.n_rows,
        "own_ids": sorted(encoded.ingested.own_ids),
        "entities": [(entity.number, entity.tokens is None) for entity in encoded.entities],
    }
    for entity in encoded.entities:
        if entity.tokens is not None:
            ids = np.arange(len(entity.tokens))
            lanes = {f"lane_{lane}": entity.tokens[:, lane] for lane in (0, 1)}
            con.register("new_tokens", {"id": ids, **lanes})
            con.execute(f"CREATE TABLE tokens_{entity.number} AS SELECT * FROM new_tokens")
            con.unregister("new_tokens")
    con.execute(f"CREATE TABLE {_TOLD} AS SELECT ? AS told", [json.dumps(told)])
    con.execute("CHECKPOINT")
    replace_file(kept.database.with_name(_WHOLE), kept.digest.encode(), "the encoded source")


def taken_up(con: duckdb.DuckDBPyConnection, spec: ReleaseSpec) -> Encoded:
    """What a build that was killed had encoded; what else it made is dropped."""
    ((text,),) = con.execute(f"SELECT told FROM {_TOLD}").fetchall()
    told: dict[str, Any] = json.loads(text)
    data = tuple(
        sorted(
            (c for c in spec.columns if c.name not in spec.source.entity_columns),
            key=lambda c: c.name,
        )
    )
    sql_names = {column.name: f"c{number}" for number, column in enumerate(data)}
    lists = {column.name: f"list_{sql_names[column.name]}" for column in data if column.is_ranked}
    entities = tuple(
        EntityColumn(number=number, tokens=None if is_additive else _tokens_of(con, number))
        for number, is_additive in told["entities"]
    )
    held = {_TOLD, ROWS_WITH_TOKENS, *lists.values()}
    held |= {f"tokens_{entity.number}" for entity in entities if entity.tokens is not None}
    for name in _tables(con) - held:
        con.execute(f"DROP TABLE {name}")
    dictionaries = {
        name: tuple(v for (v,) in con.execute(f"SELECT value FROM {held} ORDER BY id").fetchall())
        for name, held in lists.items()
    }
    sketch = told["sketch"]
    return Encoded(
        ingested=Ingested(
            con=con,
            columns=data,
            sql_names=sql_names,
            dictionaries=dictionaries,
            entity_names=spec.source.entities,
            n_rows=told["n_rows"],
            own_ids=frozenset(told["own_ids"]),
            is_kept=True,
        ),
        entities=entities,
        sketch=Sketch(
            of=tuple(sketch["of"]),
            named=sketch["named"],
            hashes=tuple(sketch["hashes"]),
            size=sketch["size"],
        ),
        source_columns=tuple(told["source_columns"]),
    )


def _tokens_of(con: duckdb.DuckDBPyConnection, number: int) -> Any:
    """Token lanes of the entities of one kind."""
    held = con.execute(f"SELECT lane_0, lane_1 FROM tokens_{number} ORDER BY id").fetchnumpy()
    return np.column_stack([held["lane_0"], held["lane_1"]]).astype(np.uint64)
