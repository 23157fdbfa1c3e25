"""Replays of a released table: what the data may have been, and what a release of these data would have shown.

Takes an open release and a column set; gives pairs of imagined and replayed rows, all drawn from the release alone: the
keys follow from its content hash, the table and the number of the replay. Run on both rows of each pair, any statement
tells how far off its answer is; see README.md. What filling leaves out on average, every replay leaves out alike:
replays at twice the threshold tell how much a figure changes where twice as much is hidden (`doubled`).
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from engine.errors import StoreError
from engine.fit.replay import Mechanism, WeightedRows, imagine, replay
from engine.params import PrivacyParams
from engine.schema import (
    KIND_NEGATIVE,
    KIND_NONNEGATIVE,
    KIND_NULL,
    KIND_OTHER,
    NULL_CODE,
    OTHER_CODE,
    RANKED_KINDS,
    CodedUniverse,
    Column,
    ColumnSet,
    Int64Array,
    Resolution,
    Support,
    Universe,
)
from engine.store import carrier
from queries.intervals.buckets import ReleasedValues, TableBuckets, read_buckets
from queries.intervals.dp_mechanism import columns_of, dp_pairs, joint_mechanism
from queries.intervals.universes import StatedUniverse, stated_universes
from queries.sql import Session, Variants

N_REPLAYS, N_DOUBLED = 24, 6
"""Replays, and those at twice the threshold. With Student's t coverage hardly depends on their number; 24 give steady
widths."""
SECONDS_OF_DAY = (0, 86_399)
MOST_BYTES = 200 * 2**20
"""What the replays of a release may take in memory; the oldest go first."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Replays:
    """The replays of one table.

    doublings: How often a number of one person doubles up to the threshold. Each doubling of what is hidden moves a
        figure by about as much as the last one, which `doubled` shows.
    """

    imagined: tuple[WeightedRows, ...]
    replayed: tuple[WeightedRows, ...]
    doubled: tuple[WeightedRows, ...]
    doublings: float
    released: WeightedRows
    values: tuple[ReleasedValues, ...]
    columns: tuple[Column, ...]

    def variants(self, *which: tuple[WeightedRows, ...]) -> Variants:
        """Rows as SQL can read them, one variant after the other."""
        every = [rows for chosen in which for rows in chosen]
        sizes = [len(rows.n) for rows in every]
        values, expressions = {}, {}
        for column, released in zip(self.columns, self.values, strict=True):
            stored = np.concatenate([rows.codes[column.name] for rows in every])
            values[column.name], expressions[column.name] = _decoded(column, released, stored)
        return Variants(
            values=values,
            expressions=expressions,
            variant=np.repeat(np.arange(len(every)), sizes),
            n=np.concatenate([rows.n for rows in every]),
        )

    @property
    def n_bytes(self) -> int:
        """What they take in memory."""
        every = (*self.imagined, *self.replayed, *self.doubled)
        return sum(rows.n.nbytes * (len(rows.codes) + 1) for rows in every)


def replays(
    release: Session, columns: ColumnSet, check_cancelled: Callable[[], None] | None = None
) -> Replays:
    """Replay one table; once as long as the release is open, and `MOST_BYTES` hold them.

    check_cancelled: Called before each replay; raises where drawing should end. None: `release.check_cancelled`.
    """
    key = ("replays", columns)
    found: Replays | None = release.models.get(key)
    if found is None:
        table = read_buckets(release, columns)
        found = _replayed(release, table, check_cancelled or release.check_cancelled)
        release.models[key] = found
        held = [k for k in release.models if k[0] == "replays"]
        while len(held) > 1 and sum(release.models[k].n_bytes for k in held) > MOST_BYTES:
            release.models.pop(held.pop(0), None)
    return found


def _replayed(
    release: Session, table: TableBuckets, check_cancelled: Callable[[], None]
) -> Replays:
    if table.card["mode"] == "dp":
        return _replayed_dp(release, table, check_cancelled)
    mechanism, rows = mechanism_of(release, table), released_rows(table)
    privacy = mechanism.privacy
    twice = replace(
        mechanism,
        privacy=replace(
            privacy,
            low_threshold=2 * privacy.low_threshold,
            threshold_mean=2 * privacy.threshold_mean,
        ),
    )
    imagined, replayed, doubled = [], [], []
    for number in range(N_REPLAYS + N_DOUBLED):
        check_cancelled()
        key = _key(release.content_hash, table.columns, number)
        if number >= N_REPLAYS:
            doubled.append(replay(rows, twice, table.columns, key))
            continue
        rng = np.random.default_rng([*key, 1])  # not the stream of the replay
        imagined.append(imagine(rows, table.row_measured, mechanism, rng))
        replayed.append(replay(imagined[-1], mechanism, table.columns, key))
    return Replays(
        imagined=tuple(imagined),
        replayed=tuple(replayed),
        doubled=tuple(doubled),
        doublings=float(np.log2(privacy.threshold_mean)),
        released=rows,
        values=table.released,
        columns=mechanism.columns,
    )


def _replayed_dp(
    release: Session, table: TableBuckets, check_cancelled: Callable[[], None]
) -> Replays:
    mechanism = joint_mechanism(release)
    if mechanism is None:
        raise StoreError("The release does not state how its margins were measured")
    keys = [_key(release.content_hash, table.columns, number) for number in range(N_REPLAYS)]
    imagined, replayed = dp_pairs(
        release,
        table.columns,
        lambda columns: released_rows(read_buckets(release, columns)),
        keys,
        check_cancelled,
    )
    columns, values = columns_of(mechanism, table.released)
    return Replays(
        imagined=imagined,
        replayed=replayed,
        doubled=(),
        doublings=0.0,
        released=released_rows(table),
        values=values,
        columns=columns,
    )


def _decoded(
    column: Column, released: ReleasedValues, stored: Int64Array
) -> tuple[NDArray[Any], str]:
    """Values of stored codes as an array, and SQL that gives them the type they have in the release."""
    codes, place = np.unique(stored, return_inverse=True)
    kind = np.where(codes < 0, KIND_NEGATIVE, KIND_NONNEGATIVE)
    kind = np.where(codes == NULL_CODE, KIND_NULL, kind)
    kind = np.where(codes == OTHER_CODE, KIND_OTHER, kind).astype(np.uint8)
    is_special = (kind == KIND_NULL) | (kind == KIND_OTHER)
    ranks: list[Any] = [None] * len(column.domain or ())
    if column.is_ranked:
        for at in np.flatnonzero(released.valued):
            ranks[int(released.grid[at])] = released.values[at]
    carried = carrier(
        Support(
            column=column,
            kind=kind,
            grid=np.where(is_special, 0, codes),
            n=np.ones(len(codes), dtype=np.int64),
            measured=np.ones(len(codes), dtype=bool),
            values=tuple(ranks) if column.is_ranked else None,
        )
    )
    values = carried.array[place]
    if carried.has_nulls and values.dtype != object:
        values = np.ma.MaskedArray(values, mask=carried.is_null[place])
    return values, f"CAST({carried.expression} AS {released.sql_type})"


def _key(content_hash: str, columns: ColumnSet, number: int) -> bytes:
    """The key of one replay: of the released file, and of nothing else."""
    return hashlib.sha256(f"{content_hash} {columns!r} {number}".encode()).digest()


def stored_codes(values: ReleasedValues) -> Int64Array:
    """Code of each released value of a column, with those of a blank and of the placeholder."""
    codes = np.where(values.kind == KIND_NULL, NULL_CODE, values.grid)
    return np.where(values.kind == KIND_OTHER, OTHER_CODE, codes)


def released_rows(table: TableBuckets) -> WeightedRows:
    """The distinct rows of a released table."""
    codes = {
        values.name: stored_codes(values)[table.rows[:, j]]
        for j, values in enumerate(table.released)
    }
    return WeightedRows(codes=codes, n=table.n)


def mechanism_of(release: Session, table: TableBuckets) -> Mechanism:
    """What the release states of how a table was made."""
    with release.cursor() as con:
        (privacy,) = con.execute("SELECT privacy FROM catalog.release").fetchall()[0]
        described = con.execute(
            "SELECT name, kind, value_type, public, placeholder, resolution_base, "
            "resolution_exponent FROM catalog.columns"
        ).fetchall()
    of_name = {name: rest for name, *rest in described}
    universes = [
        one
        for one in stated_universes(release)
        if one.column in table.columns and one.decided_by in table.columns
    ]
    return Mechanism(
        columns=tuple(
            _column(values, of_name[values.name], universes) for values in table.released
        ),
        privacy=_privacy(json.loads(privacy)),
        limits={
            values.name: SECONDS_OF_DAY
            for values in table.released
            if of_name[values.name][0] == "time"
        },
        universes={one.column: _coded(one, table) for one in universes},
    )


def _privacy(stated: dict[str, Any]) -> PrivacyParams:
    names = ("profile", "low_threshold", "threshold_mean", "layer_sd", "max_rows")
    return PrivacyParams(**{name: stated[name] for name in names if name in stated})


def _column(
    values: ReleasedValues, described: list[Any], universes: list[StatedUniverse]
) -> Column:
    kind, value_type, public, placeholder, base, exponent = described
    own = next((one for one in universes if one.column == values.name), None)
    is_ranked = kind in RANKED_KINDS
    return Column(
        name=values.name,
        kind=kind,
        value_type=value_type,
        resolution=None
        if base is None or exponent is None
        else Resolution(base=base, exponent=exponent),
        public=public,
        placeholder=placeholder,
        step=1 if is_ranked else values.step,
        domain=tuple(range(int(values.grid[values.valued].max(initial=-1)) + 1))
        if is_ranked
        else None,
        universe=None if own is None else _universe(own),
    )


def _universe(stated: StatedUniverse) -> Universe:
    return Universe(
        column=stated.decided_by,
        low=stated.low,
        high=stated.high,
        values=stated.listed,
        complete=stated.complete,
        outside=stated.outside,
    )


def _coded(stated: StatedUniverse, table: TableBuckets) -> CodedUniverse:
    """A universe by codes of the deciding column: of a list of values by their ranks."""
    deciding = table.released[table.columns.index(stated.decided_by)]
    universe = _universe(stated)
    low = high = None
    if stated.listed is None and (stated.low is not None or stated.high is not None):
        inside = deciding.within(stated.low, stated.high) & deciding.valued
        places = stored_codes(deciding)[inside]
        low = int(places.min()) if stated.low is not None and len(places) else None
        high = int(places.max()) if stated.high is not None and len(places) else None
    return CodedUniverse(declared=universe, low=low, high=high)
