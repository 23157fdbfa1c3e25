"""A simulated census of any size: people in households in areas, and their health visits.

Takes a folder, a number of people and a seed; gives `people.parquet` and `events.parquet`, made to
look like a real census (UK-like shares, "not applicable" nulls that follow rules, impossible pairs
that never occur). Nobody in it exists, so all of it is public.

Invariants: the same number of people, seed and numpy version give the same rows in the same order, in bounded memory:
blocks of `BLOCK_PEOPLE` people are drawn and written one after the other, each with a generator of its own. `MISSING`
(and NaN) becomes null.
"""

from __future__ import annotations

import contextlib
import os
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pandas as pd

from engine.errors import SpecError, StoreError
from engine.outputs import check_folder
from engine.schema import Column, literal, quoted
from engine.simulation.codes import COUNTRIES, REASONS
from engine.simulation.columns import CENSUS_COLUMNS, EVENT_COLUMNS
from engine.simulation.draw import permuted
from engine.simulation.events import draw_events
from engine.simulation.people import MISSING, Columns, draw_people

SMALLEST, LARGEST = 1_000, 100_000_000
"""Fewest and most people in a census."""
BLOCK_PEOPLE = 250_000
"""People drawn at a time: bounds the memory; with another block size, a seed gives another census."""
_PERSON, _HOUSEHOLD = 0, 1
_PEOPLE_STREAM, _EVENT_STREAM = 0, 1
_TABLES = {"people": CENSUS_COLUMNS, "events": EVENT_COLUMNS}
_UNLISTED = {"birth_country": COUNTRIES, "reason": REASONS}
_VALUES = {
    column.name: pd.CategoricalDtype(
        pd.Index([*(column.domain or _UNLISTED[column.name])], dtype=object)
    )
    for column in (*CENSUS_COLUMNS, *EVENT_COLUMNS)
    if column.is_ranked
}


@dataclass(frozen=True, kw_only=True, slots=True)
class SimulatedCensus:
    """What `simulate_census` wrote."""

    # people, events: The Parquet files.
    people: Path
    events: Path
    csv: tuple[Path, ...]  # The same as CSV, if requested
    seed: int
    # n_people, n_households, n_events: Rows (and households); public, as nobody in them exists.
    n_people: int
    n_households: int
    n_events: int


def simulate_census(
    directory: Path,
    *,
    people: int = 20_000,
    seed: int = 2021,
    csv: bool = False,
    progress: Callable[[int, int], None] | None = None,
) -> SimulatedCensus:
    """Simulate a census and write it to an empty or new folder.

    Parameters
    ----------
    directory : Path
        Folder to create.
    people : int
        Number of people, 1,000 to 100 million.
    seed : int
        Random seed.
    csv : bool
        Also write CSV files.
    progress : callable, optional
        Called with the number of people that are made, and of all.
    """
    directory = Path(directory)
    _check_numbers(people, seed)
    check_folder(directory)
    is_new = not directory.exists()
    try:
        directory.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(prefix=".simulate-", dir=directory) as staging:
            households, events = _write_tables(Path(staging), people, seed, progress, csv)
            files = _move_finished(Path(staging) / "done", directory)
    except (OSError, duckdb.Error) as error:
        _remove_new(directory, is_new)
        reason = error.strerror if isinstance(error, OSError) else type(error).__name__
        raise StoreError(f"census: cannot write to {directory}: {reason}") from error
    except BaseException:
        _remove_new(directory, is_new)
        raise
    return SimulatedCensus(
        people=files["people.parquet"],
        events=files["events.parquet"],
        csv=tuple(path for name, path in sorted(files.items()) if name.endswith(".csv")),
        seed=seed,
        n_people=people,
        n_households=households,
        n_events=events,
    )


def draw_block(block: int, *, people: int, seed: int) -> tuple[Columns, Columns]:
    """Draw the people and events of one block, as codes, in the order of the files."""
    columns = draw_people_of(block, people=people, seed=seed)
    return columns, draw_events(_generator(seed, block, _EVENT_STREAM), columns)


def draw_people_of(block: int, *, people: int, seed: int) -> Columns:
    """Draw only the people of one block; parameters as in `draw_block`."""
    first = block * BLOCK_PEOPLE
    n = min(BLOCK_PEOPLE, people - first)
    rng = _generator(seed, block, _PEOPLE_STREAM)
    columns = draw_people(rng, n)
    places = first + np.arange(n)
    household = first + columns["household_place"]
    columns["person_id"] = 1 + permuted(places, size=people, seed=seed, purpose=_PERSON)
    columns["household_id"] = 1 + permuted(household, size=people, seed=seed, purpose=_HOUSEHOLD)
    # Neighbouring rows must not show who lives together.
    order = rng.permutation(n)
    return {name: values[order] for name, values in columns.items()}


def _generator(seed: int, block: int, stream: int) -> np.random.Generator:
    return np.random.default_rng(np.random.SeedSequence(seed, spawn_key=(block, stream)))


def _check_numbers(people: int, seed: int) -> None:
    problems = []
    if not _is_whole(people) or not SMALLEST <= people <= LARGEST:
        problems.append(
            f"census.people: {people!r} is not a whole number from {SMALLEST:,} to {LARGEST:,}"
        )
    if not _is_whole(seed) or seed < 0:
        problems.append(f"census.seed: {seed!r} is not a whole number of at least 0")
    if problems:
        raise SpecError(problems)


def _is_whole(number: Any) -> bool:
    return isinstance(number, int) and not isinstance(number, bool)


def _write_tables(
    staging: Path,
    people: int,
    seed: int,
    progress: Callable[[int, int], None] | None,
    csv: bool,
) -> tuple[int, int]:
    """Write all blocks as parts, then each table; number of households and of events."""
    done = staging / "done"
    done.mkdir()
    households = events = 0
    n_blocks = -(-people // BLOCK_PEOPLE)
    with duckdb.connect(config=_configuration(staging)) as connection:
        connection.execute("SET enable_progress_bar = false")  # standard output is the caller's
        for block in range(n_blocks):
            drawn = draw_block(block, people=people, seed=seed)
            for (table, columns), values in zip(_TABLES.items(), drawn, strict=True):
                write_part(connection, columns, values, staging / f"{table}-{block:04}.parquet")
            households += len(np.unique(drawn[0]["household_place"]))
            events += len(drawn[1]["person_id"])
            if progress is not None:
                progress(min(people, (block + 1) * BLOCK_PEOPLE), people)
        for table in _TABLES:
            parts = [staging / f"{table}-{block:04}.parquet" for block in range(n_blocks)]
            merge_parts(connection, parts, done / f"{table}.parquet", csv)
    return households, events


def _configuration(staging: Path) -> dict[str, str | bool | int | float | list[str]]:
    return {
        "memory_limit": "800MB",
        "temp_directory": str(staging / "spill"),
        # Only this thread: an interrupted writer may wait for other writing threads for ever (DuckDB 2.0).
        "threads": 1,
        "async_threads": 0,
    }


def _move_finished(done: Path, directory: Path) -> dict[str, Path]:
    files = {path.name: directory / path.name for path in sorted(done.iterdir())}
    for name, target in files.items():
        os.replace(done / name, target)
    return files


def _remove_new(directory: Path, is_new: bool) -> None:
    """Leave the folder as it was: empty or absent."""
    with contextlib.suppress(OSError):
        for name in _TABLES:
            for ending in ("parquet", "csv"):
                (directory / f"{name}.{ending}").unlink(missing_ok=True)
        if is_new:
            directory.rmdir()


def write_part(
    connection: duckdb.DuckDBPyConnection,
    columns: tuple[Column, ...],
    values: Columns,
    path: Path,
) -> None:
    """Write one block as a Parquet file, its codes decoded; columns not listed are left out."""
    frame = pd.DataFrame(
        {column.name: _for_frame(column, values[column.name]) for column in columns}, copy=False
    )
    chosen = ", ".join(f"{_decoded(column)} AS {quoted(column.name)}" for column in columns)
    connection.register("block", frame)
    connection.execute(
        f"COPY (SELECT {chosen} FROM block) TO {literal(str(path))} (FORMAT parquet)"
    )
    connection.unregister("block")


def _for_frame(column: Column, codes: np.ndarray[Any, np.dtype[Any]]) -> Any:
    if not column.is_ranked:
        return codes
    positions = np.maximum(codes, -1).astype(np.int16)
    return pd.Categorical.from_codes(positions, dtype=_VALUES[column.name])


def _decoded(column: Column) -> str:
    """SQL that turns the codes of a block into values."""
    name = quoted(column.name)
    known = f"nullif({name}, {MISSING})"
    if column.kind == "integer":
        return f"CAST({known} AS BIGINT)"
    if column.kind == "real":
        return f"CASE WHEN isnan({name}) THEN NULL ELSE {name} END"
    if column.kind == "decimal":
        return f"CAST({known} / 100.0 AS DECIMAL(10, 2))"
    if column.kind == "boolean":
        return f"{known} = 1"
    if column.kind == "date":
        return f"DATE '1970-01-01' + CAST({known} AS INTEGER)"
    if column.kind == "timestamp":
        return f"make_timestamp({name})"
    return f"CAST({name} AS VARCHAR)"


def merge_parts(
    connection: duckdb.DuckDBPyConnection, parts: list[Path], path: Path, csv: bool
) -> None:
    """Merge parts into one Parquet file, in their order, and delete them; with `csv` also write the same as CSV."""
    listed = ", ".join(literal(str(part)) for part in parts)
    connection.execute(
        f"COPY (FROM read_parquet([{listed}])) TO {literal(str(path))}"
        " (FORMAT parquet, COMPRESSION zstd)"
    )
    for part in parts:
        part.unlink()
    if csv:
        connection.execute(
            f"COPY (FROM read_parquet({literal(str(path))}))"
            f" TO {literal(str(path.with_suffix('.csv')))} (FORMAT csv, HEADER)"
        )
