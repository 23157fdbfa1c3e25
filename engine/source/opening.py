"""Open a source: read it, name its entities, pin its vintage. The door into the confidential zone.

Takes a spec; gives encoded rows with entity tokens, in scratch space that is swept afterwards. Nothing is drawn
before the journal beside the key has pinned the vintage to this state of the source.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import asdict, dataclass, replace
from hashlib import blake2b
from pathlib import Path
from typing import Any

import duckdb

from engine.errors import (
    DataError,
    InternalError,
    SpecError,
    StoreError,
    TablepackError,
    place_of,
)
from engine.key_files import read_key
from engine.keys import MasterKey, Purpose, pack_strings
from engine.params import DPParams
from engine.progress import Progress, stages_only
from engine.schema import MEMORY, Column, entity_name, entity_option
from engine.signals import interruptible
from engine.source.charges import Sketch
from engine.source.detection.identifiers import check_identifiers
from engine.source.detection.thresholds import keyed_thresholds
from engine.source.encoding import encoding_digest
from engine.source.entities import (
    SKETCHED,
    EntityColumn,
    add_tokens,
    column_shapes,
    sketch_of,
    source_fingerprints,
)
from engine.source.forms.opened import open_source
from engine.source.forms.query import RowWise
from engine.source.ingest import Ingested, add_levels, ingest
from engine.source.journal import (
    MOST_OF,
    VintageState,
    check_vintage,
    read_journal,
)
from engine.source.relation import Source, matching_files
from engine.source.scratch import confidential_connection, scratch_directory
from engine.source.spark import check_packages, is_spark_frame
from engine.source.swapping import exchange
from engine.source.units import choose_rows, one_row_each, with_few_values
from engine.spec import ReleaseSpec, with_deciders, with_determined
from engine.version import ENGINE_VERSION

ON_DISK_BYTES = 256 << 20
"""Sources of more bytes as plain text are worked on in an encrypted scratch file, not in memory."""
PACKED = 4
"""How much smaller Parquet and DuckDB files are than the same as plain text, roughly."""
CELL_BYTES = 4
"""Of a cell as plain text, roughly."""
MANY_ROWS = 500_000
"""Fewer rows are counted by one thread: a second one only gets in the way of small queries."""
# What DuckDB raises when memory or the disk refuses: at once, at commit, and after a failed checkpoint.
_DISK_ERRORS = (
    duckdb.OutOfMemoryException,
    duckdb.IOException,
    duckdb.TransactionException,
    duckdb.FatalException,
)


@dataclass(frozen=True, kw_only=True, slots=True)
class Opened:
    """A source ready to be measured. Confidential."""

    key: MasterKey
    ingested: Ingested
    entities: tuple[EntityColumn, ...]
    columns: tuple[Column, ...]  # Columns that the tables use, sorted by name
    # Names of the source's columns in its order, in which people are shown them.
    source_order: tuple[str, ...]
    state: VintageState  # What the vintage is to be pinned to before anything is released
    # The vintage whose draws are used: its own name, or that of the first one before it (`previous`).
    draws: str
    sketch: Sketch  # Of its entities, comparable over vintages
    # Columns that stood for copies of theirs in earlier builds of this vintage.
    stands_here: frozenset[str]
    # stands, seen: Columns that stood for copies of theirs in earlier builds with these draws, and all that
    # these had.
    stands: frozenset[str]
    seen: frozenset[str]
    # Mode sticky: how each column groups the rows, as a keyed digest; see `column_shapes`.
    shapes: dict[str, str]
    named: tuple[object, ...]  # The source as the spec names it, wherever its files lie
    # Keyed digest of all that decides a table of a release, whichever others there are.
    recipe: str
    fingerprint: str  # Keyed digest of all that decides a release


@contextmanager
def open_rows(spec: ReleaseSpec, frame: Any, report: Progress) -> Iterator[Opened]:
    """Read, encode and tokenise the source in scratch space that is swept afterwards; check the vintage."""
    is_sticky = spec.mode == "sticky"
    if not is_sticky:
        report = stages_only(report)
    key = read_key(spec.key_path)
    journal = read_journal(spec.key_path)
    draws = journal.draws_of(spec.vintage, spec.previous)
    known = journal.vintages.get(draws)
    order = known.order if known is not None else ()
    is_spark = spec.source.engine == "spark" or is_spark_frame(frame)
    with contextlib.ExitStack() as ends:
        scratch = ends.enter_context(scratch_directory())
        con = confidential_connection(
            scratch,
            on_disk=is_spark or _bytes_as_text(spec) > ON_DISK_BYTES,
            memory_limit=spec.source.memory or MEMORY,
        )
        ends.callback(con.close)
        ends.enter_context(interruptible(con))
        try:
            report("reading", 0, 1)
            if is_spark:
                source, ingested = ends.enter_context(_in_spark(con, spec, frame, scratch))
            else:
                source, ingested = _in_duckdb(con, spec, frame, report)
            report("tokens", 0, 100)
            identity = _identity(spec, ingested, known.identity if known is not None else ())
            sketch = sketch_of(ingested, key, identity)
            report("tokens", SKETCHED, 100)
            entities = add_tokens(ingested, key, draws, identity, order, report)
            if is_sticky and spec.privacy.swap:
                # Before the contents are digested: a vintage is pinned to what is counted.
                exchange(ingested, entities, spec.privacy.swap, key, draws)
            report("digests", 0, 1)
            # How many values of a column count of an entity: under another number other people are in its buckets.
            most_of = {} if spec.each is None else {f"{MOST_OF}{spec.each}": str(spec.most)}
            state = VintageState(
                draws=draws,
                entities=spec.source.entities,
                identity=identity,
                privacy=_privacy_print(spec, ingested),
                encodings={c.name: encoding_digest(c) for c in ingested.columns} | most_of,
                contents=source_fingerprints(ingested, entities, key, draws),
            )
            used = {name for columns in spec.tables for name in columns}
            if is_sticky:  # fresh noise has no use for pins, and mode dp publishes values of declared lists only
                journal = read_journal(spec.key_path)  # another build may have ended meanwhile
                check_vintage(spec.key_path, journal, spec.vintage, state)
                _check_bound(spec, entities)
                check_identifiers(ingested, entities, used, keyed_thresholds(key, draws))
                if spec.count == "rows":
                    # Of entities, what tells a column of a table need not be the same in all their rows.
                    used = with_determined(spec.columns, used)
            used = with_deciders(spec.columns, used)
            shapes = column_shapes(ingested, entities, key, draws) if is_sticky else {}
            # Last, so that a vintage is pinned to its source, whatever is counted of it.
            ingested, entities = _counted(spec, ingested, entities, used, key, draws)
            if ingested.n_rows < MANY_ROWS:
                con.execute("SET threads = 1")
            recipe = _recipe(spec, state, source.columns, key)
            here = journal.vintages.get(spec.vintage)
            yield Opened(
                key=key,
                ingested=ingested,
                entities=entities,
                columns=tuple(c for c in ingested.columns if c.name in used),
                source_order=source.columns,
                state=state,
                draws=draws,
                sketch=sketch,
                stands_here=frozenset(here.stands if here is not None else ()),
                stands=journal.stands(draws),
                seen=frozenset(order),
                shapes=shapes,
                named=_named(spec),
                recipe=recipe,
                fingerprint=_fingerprint(spec, recipe, key),
            )
        except duckdb.Error as error:
            raise _in_our_words(error) from None


def _dp(spec: ReleaseSpec) -> DPParams | None:
    """The section [dp], in mode dp."""
    return spec.dp if spec.mode == "dp" else None


def _in_duckdb(
    con: duckdb.DuckDBPyConnection, spec: ReleaseSpec, frame: Any, report: Progress
) -> tuple[Source, Ingested]:
    """Rows as codes."""
    row_wise, dp = None, _dp(spec)
    if dp is not None:  # `source.sql` must show that one entity changes its own rows only
        public = frozenset(dp.public_tables)
        row_wise = RowWise(public=public, is_declared=dp.stability is not None)
    source = open_source(con, spec.source, frame, row_wise=row_wise)
    source = add_levels(con, source, spec.columns)
    settle = dp.missing_ids if dp is not None else None
    columns, entities = _read_columns(spec), spec.source.entities
    return source, ingest(con, source, columns, entities, settle=settle, report=report)


def _in_spark(
    con: duckdb.DuckDBPyConnection, spec: ReleaseSpec, frame: Any, scratch: Path
) -> AbstractContextManager[tuple[Source, Ingested]]:
    """Rows as codes where Spark holds them."""
    check_packages()
    from engine.source.spark.encoding import rows_in_spark

    only, way = "by DuckDB only", "leave source.engine out"
    problems = []
    if spec.privacy.swap and spec.mode == "sticky":
        problems.append(f"privacy.swap: records are exchanged {only}; {way}")
    if spec.count == "entities":
        problems.append(f"release.count: entities are counted {only}; {way}")
    if spec.privacy.max_rows is not None and spec.privacy.max_rows_by == "entity":
        problems.append(f'privacy.max_rows_by: rows are chosen {only}; say "bucket", or {way}')
    if problems:
        raise SpecError(problems)
    dp = _dp(spec)
    settle = dp.missing_ids if dp is not None else None
    return rows_in_spark(con, spec.source, _read_columns(spec), frame, scratch, settle=settle)


def _read_columns(spec: ReleaseSpec) -> tuple[Column, ...]:
    """Columns that are read: in mode dp those that are counted and the entities', nothing else can matter then."""
    dp = _dp(spec)
    if dp is None:
        return spec.columns
    wanted = {*dp.columns, *spec.source.entity_columns}
    return tuple(column for column in spec.columns if column.name in wanted)


def _named(spec: ReleaseSpec) -> tuple[object, ...]:
    """What a spec calls its source, and how it is to be read; folders may move."""
    source = spec.source
    files = [path if "=" in path else Path(path).name for path in source.paths]
    reading = {
        "encoding": source.encoding,
        "delimiter": source.delimiter,
        "skip": source.skip,
        "sheet": source.sheet,
        "count_column": source.count_column,
    }
    said = tuple((key, how) for key, how in reading.items() if how)
    return (source.format, *files, source.table, source.sql, *said)


def _counted(
    spec: ReleaseSpec,
    ingested: Ingested,
    entities: tuple[EntityColumn, ...],
    used: set[str],
    key: MasterKey,
    draws: str,
) -> tuple[Ingested, tuple[EntityColumn, ...]]:
    """What is counted of the source: all rows, those of each entity that count, or the entities."""
    if spec.mode == "dp":
        return ingested, entities
    secret = key.derive("rows", draws)
    if spec.count == "rows":
        if spec.privacy.max_rows is None or spec.privacy.max_rows_by == "bucket":
            return ingested, entities
        bounds = {c.name: c.max_rows for c in ingested.columns if c.max_rows is not None}
        return choose_rows(ingested, entities, spec.privacy.max_rows, bounds, secret), entities
    ingested, entity = one_row_each(
        ingested, entities[0], used, spec.each, keyed_thresholds(key, draws)
    )
    if spec.each is not None and spec.most is not None:
        ingested = with_few_values(ingested, entity, spec.each, spec.most, secret)
    columns = tuple(
        replace(
            c,
            max_rows=1 if c.name == spec.each else None,
            detected=tuple(d for d in c.detected if d != "max_rows"),
        )
        for c in ingested.columns
    )
    return replace(ingested, columns=columns), (entity,)


def _check_bound(spec: ReleaseSpec, entities: tuple[EntityColumn, ...]) -> None:
    """Refuse entities of several rows where nobody said how many count."""
    is_said = spec.privacy.max_rows is not None or spec.count == "entities"
    several = [spec.source.entities[e.number] for e in entities if e.tokens is not None]
    if is_said or not several:
        return
    start = f"column {entity_name(several[0])!r}: names entities with several rows; say in "
    end = f"tablepack init DATA --entity {entity_option(several[0])} proposes one, and one for each column"
    raise DataError(
        f"{start}[privacy] how many rows of one entity count at most in any figure, a power of two such as "
        "max_rows = 16 (rows beyond it are not counted, and the noise is multiplied by it). To find it: "
        + end
    )


def _in_our_words(error: duckdb.Error) -> TablepackError | KeyboardInterrupt:
    """What went wrong in the working database, without its wording, which may hold a value."""
    if isinstance(error, duckdb.InterruptException):
        return KeyboardInterrupt()
    if isinstance(error, _DISK_ERRORS):
        return StoreError("memory or the scratch disk is full while measuring")
    return InternalError(f"{type(error).__name__} in {place_of(error)}")


def _identity(spec: ReleaseSpec, ingested: Ingested, pinned: tuple[str, ...]) -> tuple[str, ...]:
    """Identity columns of rows: the spec's, else those the vintage is pinned to, else all."""
    if spec.source.entities:
        return ()
    if spec.source.identity and spec.mode == "sticky":
        return tuple(sorted(spec.source.identity))
    # Pinned to none: the vintage had entity columns, which the journal will refuse to change.
    of_all = tuple(c.name for c in ingested.columns)
    return (pinned or of_all) if spec.mode == "sticky" else of_all


def _privacy_print(spec: ReleaseSpec, ingested: Ingested) -> str:
    """Digest of the privacy parameters; where rows are chosen once, also of all that the choice depends on."""
    if spec.privacy.max_rows is None or spec.privacy.max_rows_by == "bucket":
        return spec.privacy.fingerprint()
    columns = [f"{c.name} {c.max_rows}" for c in ingested.columns]
    parts = pack_strings([spec.privacy.fingerprint(), *columns])
    return blake2b(parts, digest_size=16).hexdigest()


def _recipe(
    spec: ReleaseSpec, state: VintageState, source_order: tuple[str, ...], key: MasterKey
) -> str:
    """Keyed digest of data, spec, key and engine, but for what a release says of itself and which tables it has."""
    parts = [
        ENGINE_VERSION,
        spec.mode,
        repr(asdict(state)),
        repr([asdict(c) for c in spec.columns]),
        repr(source_order),
        # Said in catalogue and cards, though nothing that is drawn depends on it.
        repr((spec.unit, spec.entity, spec.is_reviewed, spec.privacy)),
        repr((spec.dp, spec.zeros)) if spec.mode == "dp" else "",
        *([repr((spec.count, spec.each, spec.most))] if spec.count != "rows" else []),
    ]
    return _digest("recipe", parts, spec, key)


def _fingerprint(spec: ReleaseSpec, recipe: str, key: MasterKey) -> str:
    """Keyed digest of all that decides a release: equal where the releases would be equal."""
    own = [spec.title, spec.logical_name, repr(spec.tables), repr(spec.notes), repr(spec.bounds)]
    if spec.targets:
        own.append(repr(sorted(spec.targets.items())))
    if spec.sets:
        own.append(repr(("sets", sorted(spec.sets.items()))))
    return _digest("fingerprint", [recipe, *own], spec, key)


def _digest(purpose: Purpose, parts: list[str], spec: ReleaseSpec, key: MasterKey) -> str:
    """Keyed digest of some texts."""
    secret = key.derive(purpose, spec.vintage)
    return blake2b(pack_strings(parts), key=secret, digest_size=16).hexdigest()


def rows_about(spec: ReleaseSpec) -> float:
    """About how many rows the files of a source have, by their size; 0: nothing is known."""
    with contextlib.suppress(SpecError, OSError):  # who opens them will say what is wrong
        return _bytes_as_text(spec) / (CELL_BYTES * max(len(spec.columns), 1))
    return 0.0


def _bytes_as_text(spec: ReleaseSpec) -> int:
    """About how large a source would be as plain text; 0 where it lies in no files of ours."""
    if spec.source.format in ("frame", "postgres", "mysql", "table"):
        return 0
    files = [Path(file) for path in spec.source.paths for file in matching_files(path)]
    size = sum(file.stat().st_size for file in files if file.is_file())
    return size * (1 if spec.source.format == "csv" else PACKED)
