"""Reading for evaluations: the original, and what is compared with it, a release or a synthetic table of any tool.

Takes paths or frames and a study; gives frames for `engine.evaluation.data.aligned.align`, and subjects. The
original says what kind of values a column has (or the release that is evaluated does), synthetic tables follow.
Invariant: what is left out of a table is in its notes. Rows of the original are CONFIDENTIAL.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

import duckdb
import numpy as np
import pandas as pd
import xxhash

import engine.store.manifest
import engine.store.opening
from engine.errors import DamagedRelease, DataError, StoreError
from engine.evaluation.data.aligned import Distinct, Reading, distinct
from engine.evaluation.data.columns import ReleasedColumn, columns_in
from engine.evaluation.data.facts import Facts, facts_of, labels_in
from engine.evaluation.data.kinds import (
    Kind,
    fitting_kinds,
    kind_of_column,
    kind_of_type,
    kinds_of,
    like_texts,
    moment_of_clock,
    read_kinds,
)
from engine.evaluation.data.relation import Relation, form_of_file, opened
from engine.schema import (
    Column,
    ColumnSet,
    Entity,
    column_set,
    entity_columns,
    entity_name,
    literal,
    quoted,
)
from engine.store import GeneratorCard, count_names, swap_sentences

_NAMED = 8
_FEW_TEXTS = 2_000
"""Texts of a column that are listed as a type, at most: every table that is read then has them all."""


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class Subject:
    """What is evaluated: a release, or one synthetic table of any tool."""

    name: str  # For people; unique within an evaluation
    kind: Literal["release", "table"]  # "release" or "table"
    tables: Mapping[ColumnSet, Distinct]  # One for a synthetic table; all of a release
    content_hash: str  # Of a release, as its manifest has it; of a table xxh3-128 of the file
    # Cards of a release's tables, as stored.
    cards: Mapping[ColumnSet, Mapping[str, Any]] = field(default_factory=dict)
    notes: tuple[str, ...] = ()  # What was left out in reading, and why
    facts: Facts | None = None  # What a release says of itself
    # What stands for the rare values of a release's columns of texts.
    placeholders: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class Released:
    """A release as it is read for an evaluation, in one opening."""

    tables: dict[ColumnSet, Distinct]
    cards: dict[ColumnSet, Mapping[str, Any]]
    columns: dict[str, ReleasedColumn]  # Every column
    content_hash: str
    facts: Facts
    # labels, value_labels: What columns, and their values as text, are called.
    labels: dict[str, str]
    value_labels: dict[str, dict[str, str]]


def is_release(what: Any) -> bool:
    """Whether something is the path of a release."""
    return isinstance(what, str | Path) and engine.store.manifest.manifest_path(Path(what)).exists()


def read_release(path: Path) -> Released:
    """Read all tables of a release, with their cards."""
    con, record = engine.store.opening.open_release(path, counts=True)
    tables, cards = {}, {}
    with con:
        listed = con.execute(
            "SELECT columns, physical, card FROM catalog.tables ORDER BY width, name"
        ).fetchall()
        known, facts = columns_in(con), facts_of(con)
        labels, value_labels = labels_in(con)
        clocks = [c for c, one in known.items() if one.sql_type == "TIME"]
        texts = _text_types(con, known, {physical: names for names, physical, _ in listed})
        for names, physical, card in listed:
            columns = column_set(names)
            frame = con.execute(_rows(columns, physical, texts, clocks)).df()
            count, measured = (frame.pop(name) for name in count_names(columns))
            tables[columns] = Distinct(
                frame=frame if tuple(frame) == columns else frame[list(columns)],
                n=count.to_numpy(np.int64),
                measured=measured.to_numpy(np.bool_),
            )
            if GeneratorCard.from_json(card).columns != columns:  # refuses what is no card, too
                raise DamagedRelease(f"{path}: a card is that of another table")
            cards[columns] = json.loads(card)
    return Released(
        tables=tables,
        cards=cards,
        columns=known,
        content_hash=record.content_hash,
        facts=facts,
        labels=labels,
        value_labels=value_labels,
    )


def released_columns(path: Path) -> dict[str, ReleasedColumn]:
    """Return every column of a release; see `read_release` for what it raises."""
    con, _ = engine.store.opening.open_release(path)
    with con:
        return columns_in(con)


def _text_types(
    con: duckdb.DuckDBPyConnection,
    known: Mapping[str, ReleasedColumn],
    tables: Mapping[str, Sequence[str]],
) -> dict[str, str]:
    """Types that list the values of columns of texts, where they are few: texts are then read once, not once a row."""
    found: dict[str, str] = {}
    for name in [c for c, one in known.items() if one.sql_type == "VARCHAR"]:
        parts = [
            f"SELECT DISTINCT {quoted(name)} AS text FROM tables.{quoted(physical)}"
            for physical, columns in tables.items()
            if name in columns
        ]
        if not parts:
            continue
        every = f"SELECT DISTINCT text FROM ({' UNION ALL '.join(parts)}) WHERE text IS NOT NULL"
        texts = [t for (t,) in con.execute(f"{every} LIMIT {_FEW_TEXTS + 1}").fetchall()]
        if 0 < len(texts) <= _FEW_TEXTS:
            found[name] = f"memory.main.texts_{len(found)}"
            listed = ", ".join(map(literal, sorted(texts)))
            con.execute(f"CREATE TYPE {found[name]} AS ENUM ({listed})")
    return found


def _rows(
    columns: ColumnSet, physical: str, texts: Mapping[str, str], clocks: Collection[str]
) -> str:
    """SQL that reads a table, texts as their types and times of day as moments of one day."""
    cells = {c: f"CAST({quoted(c)} AS {of_type})" for c, of_type in texts.items()}
    cells |= {c: moment_of_clock(quoted(c)) for c in clocks}
    typed = ", ".join(f"{cells[c]} AS {quoted(c)}" for c in columns if c in cells)
    return f"SELECT * {f'REPLACE ({typed})' if typed else ''} FROM tables.{quoted(physical)}"


def read_original(
    what: Any,
    reading: Reading,
    *,
    like: Mapping[str, ReleasedColumn] | None = None,
    table: str | None = None,
) -> pd.DataFrame:
    """Read the original: numbers and truth values as floats, times as datetimes, texts as categoricals.

    what: CSV (may be gzipped), Parquet or DuckDB file; or a source that is read as its spec says.
    reading: Says how blanks are spelled, and which columns are texts whatever their values look like.
    like: Columns of a release: their types decide, and values are put on their grids, as its build did. Else
        a column is what all of its values are.

    Returns: `attrs` has `place`, what it is for messages, `notes`, what was left out (see `notes_of`), and
    `grids`, the columns of `like`.
    """
    written = [one.column for one in (like or {}).values()]
    with opened(what, name="the data", table=table, written=written) as relation:
        kinds, notes = kinds_of(relation, nulls=reading.nulls, texts=reading.texts)
        kinds |= _released_kinds(relation, kinds, reading, like or {})
        grids = {c: one.column for c, one in (like or {}).items()}
        frame = _frame(relation, kinds, reading, grids)
        all_notes = (*relation.notes, *notes)
        frame.attrs = {"place": relation.place, "notes": all_notes, "grids": grids}
    return frame


def _released_kinds(
    relation: Relation,
    kinds: Mapping[str, Kind],
    reading: Reading,
    like: Mapping[str, ReleasedColumn],
) -> dict[str, Kind]:
    """Kinds of a release's columns where the values look like another one; they must be of the release's."""
    wanted = {
        c: kind
        for c, one in like.items()
        if c in kinds and (kind := kind_of_type(one.sql_type)) not in (None, kinds[c])
    }
    fitting: dict[str, Kind] = {}
    for name, kind in wanted.items():
        nulls = (*reading.nulls, *like[name].column.spellings)
        fitting |= fitting_kinds(relation, {name: kind}, nulls=nulls)[0]
    if wrong := [c for c in wanted if c not in fitting]:
        raise DataError(
            f"{relation.place}: {_listed(wrong)}: the values are not of the release's types; "
            "check that it is made from these data, and how numbers, dates and blanks are written: the spec of the "
            "release (--spec) says it"
        )
    return fitting


def notes_of(original: pd.DataFrame) -> tuple[str, ...]:
    """Return what was left out when the original was read."""
    return tuple(original.attrs.get("notes", ()))


def read_like(
    what: Any,
    original: pd.DataFrame,
    reading: Reading,
    *,
    name: str = "the table",
    is_control: bool = False,
) -> pd.DataFrame:
    """Read other rows, synthetic ones or control rows, with the kinds of the original and on its grids.

    is_control: They are written as the original is.
    """
    wanted: dict[str, Kind] = {str(c): kind_of_column(original[c]) for c in original.columns}
    written = list(original.attrs.get("grids", {}).values()) if is_control else []
    with opened(what, name=name, wanted=wanted, written=written) as relation:
        kinds, notes = fitting_kinds(relation, wanted, nulls=reading.nulls)
        lacking = _lacking(list(relation.types), list(wanted))
        if not kinds:
            place = original.attrs.get("place", "the data")
            message = "; ".join(
                [f"{relation.place} and {place} have no usable column in common", *notes]
            )
            raise DataError(message if notes else "; ".join([message, *lacking]))
        frame = _frame(relation, kinds, reading, original.attrs.get("grids", {}))
    for column, kind in kinds.items():
        if kind == "text":
            frame[column] = like_texts(frame[column], original[column])
    frame.attrs = {"place": relation.place, "notes": (*relation.notes, *lacking, *notes)}
    return frame


def read_subject(
    what: Any,
    original: pd.DataFrame,
    reading: Reading,
    name: str,
    *,
    released: Released | None = None,
) -> Subject:
    """Read a release, or a synthetic table of any tool, for an evaluation against its original."""
    if is_release(what):
        path = Path(what)
        return _release(path, released or read_release(path), original, name)
    if isinstance(what, str | Path):
        path = Path(what)
        if form_of_file(path) == "duckdb":
            lacks = engine.store.manifest.manifest_path(path).name
            raise StoreError(
                f"{path}: is no release, as {lacks} is not beside it; "
                "a table of a DuckDB file is read once it is written to Parquet or CSV"
            )
    frame = read_like(what, original, reading, name=name)
    content_hash = hash_of(what if isinstance(what, str | Path) else frame)
    return Subject(
        name=name,
        kind="table",
        tables={column_set(list(frame.columns)): distinct(frame)},
        content_hash=content_hash,
        notes=notes_of(frame),
    )


def hash_of(what: str | Path | pd.DataFrame) -> str:
    """Return the xxh3-128 of a file, or of names and values, hex, so that a report says what it is about."""
    if not isinstance(what, pd.DataFrame):
        with Path(what).open("rb") as file:
            return hashlib.file_digest(file, xxhash.xxh3_128).hexdigest()
    digest = xxhash.xxh3_128(json.dumps(list(map(str, what.columns))).encode())
    for name in what.columns:
        hashed = pd.util.hash_pandas_object(what[name], index=False)
        digest.update(hashed.to_numpy("<u8").tobytes())
    return digest.hexdigest()


def _release(path: Path, release: Released, original: pd.DataFrame, name: str) -> Subject:
    """A release as a subject; tables with columns that the original lacks, or has in another kind, are left out."""
    kinds = {c: kind_of_type(one.sql_type) for c, one in release.columns.items()}
    has = {str(c): kind_of_column(original[c]) for c in original.columns}
    shown = sorted({c for columns in release.tables for c in columns})
    notes = _lacking(shown, [c for c in has if c in kinds])
    other = [c for c in shown if c in has and kinds[c] != has[c] and original[c].notna().any()]
    notes += [f"{c}: of another type than in the data" for c in other]
    usable = {c for c in shown if c in has and c not in other}
    tables = {columns: t for columns, t in release.tables.items() if usable >= set(columns)}
    if not any(len(t.n) for t in tables.values()):
        place = original.attrs.get("place", "the data")
        raise DataError("; ".join([f"{path} and {place} have no table in common", *notes]))
    _refuse_others(path, shown, original)
    _refuse_rows(path, release.facts.counted, original)
    if len(tables) < len(release.tables):
        notes.append(f"{len(release.tables) - len(tables)} tables with such columns are left out")
    swapped = [card["swap"] for card in release.cards.values() if card.get("swap")]
    notes += swap_sentences(swapped[0]) if swapped else []
    return Subject(
        name=name,
        kind="release",
        tables=tables,
        content_hash=release.content_hash,
        cards={columns: release.cards[columns] for columns in tables},
        notes=tuple(notes),
        facts=release.facts,
        placeholders={
            c: text
            for c, one in release.columns.items()
            if (text := one.column.placeholder) is not None
        },
    )


def _refuse_others(path: Path, shown: Sequence[str], original: pd.DataFrame) -> None:
    """Refuse data that lacks most columns of a release: what is left is hardly what it was made from."""
    missing = [c for c in shown if c not in original.columns]
    if 2 * len(missing) > len(shown):
        place = original.attrs.get("place", "the data")
        raise DataError(
            f"{place} lacks {len(missing)} of the {len(shown)} columns of {path}: "
            f"{_listed(missing)}; give the data that it was made from, with half of its columns at least (others are "
            "left out, and a note says so)"
        )


def _refuse_rows(path: Path, counted: tuple[Entity, ...], original: pd.DataFrame) -> None:
    """Refuse data of several rows an entity for a release that counts each once."""
    if not counted:
        return
    place = original.attrs.get("place", "the data")
    names = entity_columns(counted)
    wanted = f"give as data one row for each {' and '.join(names)}, with what the tables show"
    told = f"{path} counts each {entity_name(counted[0])} once" + "".join(
        f" in each {entity_name(c)}" for c in counted[1:]
    )
    if missing := [name for name in names if name not in original.columns]:
        raise DataError(
            f"{told}, and {place} has no column {', '.join(missing)}: whether it does, too, cannot be told; {wanted}, "
            f"and the column {', '.join(missing)}"
        )
    if original.duplicated(list(names)).any():
        raise DataError(f"{told}, but {place} has several rows of some: {wanted}")


def _frame(
    relation: Relation, kinds: Mapping[str, Kind], reading: Reading, grids: Mapping[str, Column]
) -> pd.DataFrame:
    """Read columns; there must be one."""
    if not kinds:
        raise DataError(f"{relation.place}: has no column that can be evaluated")
    return read_kinds(relation, kinds, nulls=reading.nulls, grids=grids)


def _lacking(here: Sequence[str], original: Sequence[str]) -> list[str]:
    """Say which columns one side lacks, and which may be meant."""
    notes = []
    strange = [c for c in here if c not in original]
    missing = [c for c in original if c not in here]
    if strange:
        notes.append(f"the data has no {_listed(strange)}: left out")
    if missing:
        notes.append(f"it has no {_listed(missing)}: not evaluated")
    plain = {c.strip().casefold(): c for c in missing}
    for name in strange:
        if meant := plain.get(name.strip().casefold()):
            notes.append(f"{name!r} is not {meant!r}: capital letters and blanks in names count")
    return notes


def _listed(names: Collection[str]) -> str:
    """Names for a message, not too many."""
    first = list(names)[:_NAMED]
    more = len(names) - len(first)
    return ", ".join(first) + (f" and {more} more" if more else "")
