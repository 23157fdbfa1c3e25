"""Mode dp: what a release states of its mechanism, and the rows that its replays take for the data.

Takes an open release; gives its `JointMechanism` (the same for all tables), and for a table imagined and replayed rows
(`dp_pairs`), or the reason why there are none (`unreplayed`). Reads the catalogue and released tables alone.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from dataclasses import replace

import numpy as np

from engine.errors import StoreError
from engine.fit.replay_dp import JointMechanism, imagine, joint_of, read, replay
from engine.schema import KIND_NONNEGATIVE, Column, ColumnSet, WeightedRows
from queries.intervals.buckets import ReleasedValues
from queries.sql import Session

RowsOf = Callable[[ColumnSet], WeightedRows]
"""Gives the distinct rows of a released table."""


def unreplayed(release: Session, columns: ColumnSet) -> str | None:
    """Why a table of mode dp cannot be replayed, or None."""
    mechanism = joint_mechanism(release)
    if mechanism is None:
        return (
            "the release does not state its margins and levels: it was built by an earlier version, or they take "
            "too much room"
        )
    bare = [name for name in columns if name in mechanism.unmeasured]
    return f"nothing was measured of {', '.join(bare)}" if bare else None


def joint_mechanism(release: Session) -> JointMechanism | None:
    """What the release states of how its margins were measured and fitted; None where it does not."""
    return release.once(("joint mechanism",), lambda: _read(release))


def _read(release: Session) -> JointMechanism | None:
    told = release.privacy.get("measured")
    if told is None:
        return None
    try:
        columns = {
            name: release.described[name] for name in release.columns if name in told["levels"]
        }
        values = {}
        with release.cursor() as con:
            for name in (name for name, column in columns.items() if column.is_ranked):
                texts = told["levels"][name]["values"]
                typed = con.execute(
                    f"SELECT CAST(unnest(CAST(? AS VARCHAR[])) AS {release.columns[name]})", [texts]
                ).fetchall()
                values[name] = tuple(value for (value,) in typed)
        return read(told, release.privacy, columns, values)
    except (KeyError, TypeError, ValueError, IndexError):
        raise StoreError("catalog.release: privacy: states no margins and levels") from None


def columns_of(
    mechanism: JointMechanism, released: tuple[ReleasedValues, ...]
) -> tuple[tuple[Column, ...], tuple[ReleasedValues, ...]]:
    """Columns of a table, and their values with those of their domains that are in no released row."""
    columns, values = [], []
    for own in released:
        levels = mechanism.levels[own.name]
        if levels.values is None:
            columns.append(levels.column)
            values.append(own)
            continue
        n = len(levels.values)
        columns.append(replace(levels.column, domain=tuple(range(n))))
        values.append(
            ReleasedValues(
                name=own.name,
                sql_type=own.sql_type,
                values=levels.values,
                kind=np.full(n, KIND_NONNEGATIVE, dtype=np.int64),
                grid=np.arange(n),
                n=np.zeros(n, dtype=np.int64),
                hidden=np.zeros(n, dtype=bool),
                measured=np.ones(n, dtype=bool),
            )
        )
    return tuple(columns), tuple(values)


def dp_pairs(
    release: Session,
    columns: ColumnSet,
    rows_of: RowsOf,
    keys: list[bytes],
    check_cancelled: Callable[[], None],
) -> tuple[tuple[WeightedRows, ...], tuple[WeightedRows, ...]]:
    """What the data of a table may have been, and what a release of it would show, once for each key."""
    mechanism = joint_mechanism(release)
    if mechanism is None:
        raise StoreError("The release does not state how its margins were measured")
    rows = _data(release, columns, mechanism, rows_of)
    imagined, replayed = [], []
    for key in keys:
        check_cancelled()
        data = imagine(rows, columns, mechanism, np.random.default_rng([*key, 1]))
        imagined.append(data.rows)
        replayed.append(replay(data, mechanism, columns, key))
    return tuple(imagined), tuple(replayed)


def _data(
    release: Session, columns: ColumnSet, mechanism: JointMechanism, rows_of: RowsOf
) -> WeightedRows:
    """Rows that stand for the data of a table, of its columns and others.

    Of a table that a margin covers: the released one that holds most of the margins that inform it. Of any other all
    columns, whose relations inform it: as a table shows them, or fitted to all that are released.
    """
    near = [margin for margin in mechanism.margins if {*margin.columns} & {*columns}]

    def is_told(table: ColumnSet) -> tuple[int, int]:
        return sum({*margin.columns} <= {*table} for margin in near), -len(table)

    wider = [table for table in release.tables if {*columns} <= {*table}]
    best = max(wider, key=is_told)
    needed = {*mechanism.params.columns} - {*mechanism.unmeasured}
    if mechanism.covers(columns) or needed <= {*best}:
        return rows_of(best)

    def joint() -> WeightedRows:
        widest = [
            table
            for table in release.tables
            if not any({*table} < {*other} for other in release.tables)
        ]
        seed = hashlib.sha256(f"{release.content_hash} joint".encode()).digest()
        rng = np.random.default_rng(list(seed))
        return joint_of([rows_of(table) for table in widest], mechanism, rng)

    return release.once(("joint rows",), joint)
