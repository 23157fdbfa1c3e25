"""Replays of a released table: what the data may have been, and what a release of these data would have shown.

Takes an open release and a column set; gives pairs of imagined and replayed rows, all drawn from the release alone: the
keys follow from its content hash, the table and the number of the replay. Run on both rows of each pair, any statement
tells how far off its answer is; see README.md. What filling leaves out on average, every replay leaves out alike:
some are drawn once more at twice the threshold, which tells how much a figure changes where twice as much is hidden.
"""

from __future__ import annotations

import contextlib
import hashlib
import math
from collections.abc import Callable, Collection, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from functools import cached_property
from importlib import import_module
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np

from engine.errors import DamagedRelease
from engine.params import PrivacyParams
from engine.schema import (
    KIND_NEGATIVE,
    KIND_NONNEGATIVE,
    KIND_NULL,
    KIND_OTHER,
    NULL_CODE,
    OTHER_CODE,
    CodedUniverse,
    Column,
    ColumnSet,
    FloatArray,
    Int64Array,
    Support,
    Universe,
    WeightedRows,
)
from engine.store import carrier, decode_values
from queries.intervals import cache
from queries.intervals.buckets import (
    ReleasedValues,
    Stack,
    TableBuckets,
    deepest_buckets,
    joined,
    places_in,
    read_buckets,
    stacked,
    stored_codes,
)
from queries.intervals.regions import MOST_GROUPS, region_of, ruled_out
from queries.intervals.spread import Figures
from queries.sql import Session, Variants

if TYPE_CHECKING:
    from engine.fit.replay import Mechanism

N_REPLAYS, N_DOUBLED = 24, 6
"""Replays, and how many of them are drawn at twice the threshold, too. With Student's t coverage hardly depends on
their number; 24 give steady widths."""
MANY_ROWS, N_OF_MANY, N_DOUBLED_OF_MANY = 20_000, 8, 3
"""Distinct rows from which a table has fewer replays, since each takes long, and how many."""
N_PLACED = 10
"""How often imputed rows are placed anew to see which figures rest on released buckets."""
_RULE_OF_THREE = -math.log(0.05)
"""A random sample that has none of something comes, in 95 of 100 cases, from a population that has fewer than so many
in a sample of its size on average (Hanley and Lippman-Hand 1983)."""
LEAST_SAMPLE = 30
"""Of a smaller effective sample a mean says little of how far it is off: the usual least one of official statistics
(Parker et al. 2017, National Center for Health Statistics). In NIST's excerpt 67 to 86 of 100 intervals of means hold
in smaller groups, and 94 to 97 in others."""
MOST_MODELLED = 4
"""Figures that a model has of more columns have no interval, except counts: of five, 89 of 100 means in SD2011 held."""
MOST_TABLES = 64
"""Tables that a release keeps in memory for the next question."""
MOST_BYTES = 200 * 2**20
"""What the replays of a release may take in memory; the oldest go first."""


KINDS = ("released", "placed", "possible", "imagined", "replayed", "doubled", "extreme")
"""Kinds of variants of a table, in the order in which they are stacked."""
N_CHEAP = 3
"""How many of these need no drawing of replays."""
Drawn = tuple[Stack, tuple[int, ...]]
"""Variants of the other kinds, and how many of each."""


@dataclass(frozen=True, kw_only=True)
class Replays:
    """The replays of one table; without any, its rows placed anew.

    stack, counts: Variants, and how many there are of each kind. `extreme`: tables that the release does not rule out,
        with values far beyond the outermost released ones, with columns as closely associated inside imputed ranges as
        can be, in the same and in opposite directions, and with drawn values at the ends of their ranges.
        `possible`: every combination that the declared universes of its columns allow, once; none where there are none.
    doublings: How often a number of one person doubles up to the threshold. Each doubling of what is hidden moves a
        figure by about as much as the last one, which `doubled` shows.
    reworded: The released rows with other texts for hidden values, for a statement that looks into them; no replays.
    of_none: What a count of none, and so any, may be at least where nothing is suppressed; NaN where replays tell.
    least_rows: Of fewer rows, figures other than counts have no interval.
    reason: Why there are no replays, as part of a sentence; empty where there are.
    """

    stack: Stack
    counts: tuple[int, ...]
    reworded: Replays | None = None
    doublings: float = 0.0
    of_none: float = math.nan
    least_rows: float = 0.0
    reason: str = ""
    released: tuple[ReleasedValues, ...]
    columns: tuple[Column, ...]

    def of(self, kind: str) -> tuple[WeightedRows, ...]:
        """The variants of one kind."""
        begin, n = self.first(kind), self.counts[KINDS.index(kind)]
        return tuple(self.stack.rows(begin + i) for i in range(n))

    def first(self, kind: str) -> int:
        """Number of the first variant of a kind."""
        return sum(self.counts[: KINDS.index(kind)])

    def figures(self, on_all: FloatArray, value: FloatArray | None = None) -> Figures:
        """Figures on all variants, shape (n_variants, n_figures), by the kind of variant.

        value: The figures as answered; None: those on the released rows.
        """
        n_reworded = 0 if self.reworded is None else self.reworded.stack.n_variants
        ends = np.cumsum([0, *self.counts, n_reworded])
        each = [on_all[begin:end].T for begin, end in pairwise(ends)]
        _, placed, possible, imagined, replayed, doubled, extreme, reworded = each
        return Figures(
            value=on_all[0] if value is None else value,
            again=on_all[0],
            placed=placed,
            imagined=imagined,
            replayed=replayed,
            doubled=doubled,
            extreme=extreme,
            reworded=reworded,
            possible=possible,
            doublings=self.doublings,
            of_none=self.of_none,
        )

    @property
    def n_variants(self) -> int:
        """Number of variants of all kinds."""
        return self.stack.n_variants

    @cached_property
    def values(self) -> dict[str, list[Any]]:
        """By column, the value of each of the stack's codes; None for a blank."""
        return {
            column.name: decode_values(_support(column, released, self.stack.codes[column.name]))
            for column, released in zip(self.columns, self.released, strict=True)
        }

    def variants(self, begin: int = 0, end: int | None = None) -> Variants:
        """Variants as SQL can read them, all or some, numbered from 0."""
        ends = np.cumsum([0, *self.stack.sizes])
        sizes = self.stack.sizes[begin:end]
        at = slice(ends[begin], ends[begin + len(sizes)])
        values, expressions = {}, {}
        for column, released in zip(self.columns, self.released, strict=True):
            index = self.stack.index[column.name][at]
            carried = carrier(_support(column, released, self.stack.codes[column.name]))
            values[column.name] = carried.array[index]
            if carried.has_nulls and carried.array.dtype != object:
                is_null = carried.is_null[index]
                values[column.name] = np.ma.MaskedArray(values[column.name], mask=is_null)
            expressions[column.name] = f"CAST({carried.expression} AS {released.sql_type})"
        return Variants(
            values=values,
            expressions=expressions,
            variant=np.repeat(np.arange(len(sizes)), sizes),
            n=self.stack.n[at],
        )


def table_of(release: Session, columns: ColumnSet) -> TableBuckets:
    """Read a released table, or of a modelled one what it has of these columns; once as long as the release is open."""

    def read() -> TableBuckets:
        with damage_told(release, columns):
            if columns in release.tables:
                return read_buckets(release, columns)
            return table_of(release, release.route(columns)).of(columns)

    table = release.once(("table", columns), read)
    held = [one for one in release.models if one[0] == "table"]
    for oldest in held[:-MOST_TABLES]:
        release.models.pop(oldest, None)
    return table


def placements(release: Session, columns: ColumnSet) -> Replays:
    """The rows of one table placed anew, without replays; once as long as the release is open."""

    def made() -> Replays:
        table = table_of(release, columns)
        rng = np.random.default_rng([*_key(release.content_hash, columns, -1)])
        kinds = ((released_rows(table),), _placed(table, rng), _possible(release, table))
        stack, counts = stacked(table.columns, kinds)
        return Replays(
            stack=stack,
            counts=(*counts, *[0] * (len(KINDS) - N_CHEAP)),
            released=table.released,
            columns=_columns_stated(release, table),
        )

    return _once(release, "placements", columns, made)


def replays(
    release: Session, columns: ColumnSet, check_cancelled: Callable[[], None] | None = None
) -> Replays:
    """Replay one table; once as long as the release is open, and `MOST_BYTES` hold them, and read from the cache.

    check_cancelled: Called before each replay; raises where drawing should end. None: `release.check_cancelled`.
    """

    def made() -> Replays:
        table, placed = table_of(release, columns), placements(release, columns)
        check = check_cancelled or release.check_cancelled
        if table.card["mode"] == "dp":
            from queries.intervals.dp_mechanism import columns_of, joint_mechanism, unreplayed

            mechanism, why = joint_mechanism(release), unreplayed(release, columns)
            if mechanism is None or why:
                return replace(placed, reason=why or "it does not state how it was measured")
            in_domains, released = columns_of(mechanism, table.released)
            placed = replace(placed, columns=in_domains, released=released)
        elif table.card.get("wide"):
            effect = table.card["wide"].get("design_effect")
            if effect is None:
                why = (
                    "it is modelled from columns alone, and no table shows how far the model is off"
                )
                return replace(placed, reason=why)
            effect = max(float(effect), 1.0)  # less uncertain than a sample: as one
            if effect >= table.n.sum():
                why = "it is modelled, and the model is farther off than a sample of one row"
                return replace(placed, reason=why)
            return _with(
                placed,
                stacked(columns, _resampled(release, table, effect, check)),
                of_none=float(np.ceil(_RULE_OF_THREE * effect)),
                least_rows=math.inf if len(columns) > MOST_MODELLED else LEAST_SAMPLE * effect,
            )
        else:
            placed = replace(placed, doublings=float(np.log2(table.card["threshold_mean"])))
        drawn = cache.read(release, columns)
        if drawn is None:
            draw = _drawn_dp if table.card["mode"] == "dp" else _drawn
            drawn = stacked(columns, draw(release, table, check))
            cache.write(release, columns, *drawn)
        return _with(placed, drawn)

    return _once(release, "replays", columns, made)


def _with(placed: Replays, drawn: Drawn, **more: Any) -> Replays:
    """The rows of a table placed anew, with replays."""
    stack, counts = drawn
    return replace(
        placed,
        stack=joined(placed.stack, stack),
        counts=(*placed.counts[:N_CHEAP], *counts),
        **more,
    )


def load_fit() -> None:
    """Import what draws replays, where no file can be opened or written later on."""
    for name in ("replay", "replay_dp"):
        import_module(f"engine.fit.{name}")


def _once(release: Session, kind: str, columns: ColumnSet, made: Callable[[], Replays]) -> Replays:
    """Make it once as long as the release is open; the oldest is dropped where it is too much for the memory."""
    with damage_told(release, columns):
        found = release.once((kind, columns), made)
    held = [key for key in release.models if key[0] == kind]
    while len(held) > 1 and sum(release.models[key].stack.n_bytes for key in held) > MOST_BYTES:
        release.models.pop(held.pop(0), None)
    return found


@contextlib.contextmanager
def damage_told(release: Session, columns: ColumnSet) -> Iterator[None]:
    """Say of what does not fit together that the release is damaged."""
    try:
        yield
    except (IndexError, KeyError, OverflowError, RecursionError, ZeroDivisionError):
        named = ", ".join(columns)
        raise DamagedRelease(
            f"{release.path}: what is known of the noise of table {named} contradicts itself"
        ) from None


def _placed(table: TableBuckets, rng: np.random.Generator) -> tuple[WeightedRows, ...]:
    """The table with the imputed rows of each released range at one place in it, drawn anew every time.

    What a figure has in all of these rests on released buckets; what it has in some rests on where rows were imputed.
    In mode dp, and in modelled tables, nothing is suppressed.
    """
    if not table.n_depths:
        return ()
    is_imputed = ~table.row_measured
    if not is_imputed.any():
        return ()
    bucket = deepest_buckets(table, table.rows[is_imputed])
    held = np.unique(bucket[bucket >= 0])
    first, last = table.first[held], np.maximum(table.last[held], table.first[held])
    n = np.bincount(bucket[bucket >= 0], table.n[is_imputed][bucket >= 0], len(table.first))[held]
    # Of a range with one released combination its rows may have a value beside it, which is not released.
    is_lone = (first == last).all(axis=1)
    out = []
    for _ in range(N_PLACED):
        at = rng.integers(first, last + 1)
        kept = ~is_lone | (rng.random(len(held)) < 0.5)
        rows = np.concatenate([table.rows[~is_imputed], at[kept]])
        counts = np.concatenate([table.n[~is_imputed], n[kept].astype(np.int64)])
        out.append(table.coded(rows, counts))
    return tuple(out)


def _associated(table: TableBuckets) -> tuple[WeightedRows, ...]:
    """The table with imputed rows as closely associated in each range as can be, in the same and opposite directions.

    Every range keeps the values that each column has in it, so that nothing which was released changes.
    """
    bucket = np.full(len(table.n), -1)
    bucket[~table.row_measured] = deepest_buckets(table, table.rows[~table.row_measured])
    is_placed = bucket >= 0
    if len(table.columns) == 1 or not is_placed.any():
        return ()
    n = table.n[is_placed]
    own, of = np.repeat(table.rows[is_placed], n, axis=0), np.repeat(bucket[is_placed], n)
    out = []
    for direction in (1, -1):
        ordered = [*own.T[:-1], direction * own[:, -1]]
        placed = np.column_stack([codes[np.lexsort((codes, of))] for codes in ordered])
        placed[:, -1] *= direction
        rows, at = np.unique(
            np.concatenate([table.rows[~is_placed], placed]), axis=0, return_inverse=True
        )
        counts = np.concatenate([table.n[~is_placed], np.ones(len(placed), dtype=np.int64)])
        summed = np.bincount(at.reshape(-1), counts, len(rows)).astype(np.int64)
        out.append(table.coded(rows, summed))
    return tuple(out)


def _shifted(
    release: Session, table: TableBuckets, mechanism: Mechanism
) -> tuple[WeightedRows, ...]:
    """The table with every value that was drawn inside a released range at an end of that range.

    In each of the tables one column has the lower ends and all others the upper ones; of a single column, one table for
    each end. Where in their ranges people are is not released, so a figure that this moves rests on it.
    """
    ends = [_ends_of_ranges(release, values, mechanism) for values in table.released]
    moved = [[end[table.rows[:, j]] for end in of] for j, of in enumerate(ends)]
    if all((low == high).all() for low, high in moved):
        return ()
    sides = [[0], [1]] if len(ends) == 1 else np.where(np.eye(len(ends)), 0, 1).tolist()
    return tuple(
        table.coded(
            np.column_stack([of[side] for of, side in zip(moved, chosen, strict=True)]), table.n
        )
        for chosen in sides
    )


def _ends_of_ranges(
    release: Session, values: ReleasedValues, mechanism: Mechanism
) -> tuple[Int64Array, Int64Array]:
    """Places of the lowest and the highest value in the range that each drawn value of a column was drawn inside.

    Where the table of the column alone is not published, its ranges are not either: a range that was not halved holds
    fewer than two thresholds of people, so on average its ends are about a threshold of people away.
    """
    places = np.arange(len(values.values))
    if (values.name,) in release.tables:
        own = table_of(release, (values.name,))
        bucket = deepest_buckets(own, places[:, None])
        is_drawn = ~values.measured & (bucket >= 0)
        low, high = own.first[bucket, 0], np.maximum(own.last[bucket, 0], own.first[bucket, 0])
    else:
        is_drawn, ends = ~values.measured & values.valued, np.cumsum(values.n)
        away = mechanism.privacy.threshold_mean
        low = np.searchsorted(ends, ends - values.n - away, side="right")
        high = np.minimum(np.searchsorted(ends, ends + away), len(places) - 1)
        first, last = np.flatnonzero(values.valued)[[0, -1]] if values.valued.any() else (0, 0)
        low, high = np.clip(low, first, last), np.clip(high, first, last)
    return np.where(is_drawn, low, places), np.where(is_drawn, high, places)


def _possible(release: Session, table: TableBuckets) -> tuple[WeightedRows, ...]:
    """Every combination of released values that the declared universes allow, if there are any and not too many."""
    n_rows = math.prod(len(column.values) for column in table.released)
    universes = (release.described[name].universe for name in table.columns)
    has_universe = any(one is not None and one.column in table.columns for one in universes)
    if not has_universe or n_rows > MOST_GROUPS:
        return ()
    region = region_of(table, table.columns, {})
    sizes = [len(column.values) for column in table.released]
    measured = places_in(table.rows[table.row_measured], region.codes, sizes) >= 0
    rows = region.codes[~ruled_out(release, table, region, measured)]
    return (table.coded(rows, np.ones(len(rows), dtype=np.int64)),)


def _drawn(
    release: Session, table: TableBuckets, check_cancelled: Callable[[], None]
) -> tuple[tuple[WeightedRows, ...], ...]:
    """Variants that were imagined, replayed, replayed at twice the threshold, and extreme ones."""
    from engine.fit.replay import imagine, replay, stretched  # slow to import

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
    is_large = len(rows.n) > MANY_ROWS
    n_replays = N_OF_MANY if is_large else N_REPLAYS
    n_doubled = N_DOUBLED_OF_MANY if is_large else N_DOUBLED

    def drawn(number: int) -> tuple[WeightedRows, ...]:
        check_cancelled()
        key = _key(release.content_hash, table.columns, number)
        rng = np.random.default_rng([*key, 1])  # not the stream of the replay
        own = imagine(rows, table.row_measured, mechanism, rng)
        again = replay(own, mechanism, table.columns, key)
        if number >= n_doubled:
            return own, again
        check_cancelled()
        return own, again, replay(own, twice, table.columns, key)

    with ThreadPoolExecutor(2) as pool:
        each = [*pool.map(drawn, range(n_replays))]
    return (
        tuple(own for own, *_ in each),
        tuple(again for _, again, *_ in each),
        tuple(hidden for _, _, hidden in each[:n_doubled]),
        (
            stretched(rows, table.row_measured, mechanism),
            *_associated(table),
            *_shifted(release, table, mechanism),
        ),
    )


def _resampled(
    release: Session, table: TableBuckets, effect: float, check_cancelled: Callable[[], None]
) -> tuple[tuple[WeightedRows, ...], ...]:
    """The same of a modelled table, whose rows are drawn again: as uncertain as a sample with a design effect.

    Numbers of rows are Dirichlet-multinomial: their sum is that of the table, their variance `effect` times that of
    random samples.
    """
    rows, total = released_rows(table), int(table.n.sum())
    n_replays = N_OF_MANY if len(rows.n) > MANY_ROWS else N_REPLAYS
    again = []
    for number in range(n_replays):
        check_cancelled()
        rng = np.random.default_rng([*_key(release.content_hash, table.columns, number)])
        share = rows.n / total
        if effect > 1:
            drawn = rng.standard_gamma(share * ((total - effect) / (effect - 1)))
            if drawn.sum() == 0:  # too small to tell apart: all rows are one's
                drawn[rng.choice(len(share), p=share)] = 1.0
            share = drawn / drawn.sum()
        n = rng.multinomial(total, share)
        kept = n > 0
        codes = {name: of[kept] for name, of in rows.codes.items()}
        again.append(WeightedRows(codes=codes, n=n[kept]))
    return (rows,) * n_replays, tuple(again), (), ()


def _drawn_dp(
    release: Session, table: TableBuckets, check_cancelled: Callable[[], None]
) -> tuple[tuple[WeightedRows, ...], ...]:
    """The same in mode dp, where nothing is hidden: margins are measured with noise, and rows fitted to them."""
    from queries.intervals.dp_mechanism import dp_pairs

    keys = [_key(release.content_hash, table.columns, number) for number in range(N_REPLAYS)]
    return (
        *dp_pairs(
            release,
            table.columns,
            lambda columns: released_rows(table_of(release, columns)),
            keys,
            check_cancelled,
        ),
        (),
        (),
    )


def _support(column: Column, released: ReleasedValues, codes: Int64Array) -> Support:
    """Distinct stored codes of a column as a support."""
    kind = np.where(codes < 0, KIND_NEGATIVE, KIND_NONNEGATIVE)
    kind = np.where(codes == NULL_CODE, KIND_NULL, kind)
    kind = np.where(codes == OTHER_CODE, KIND_OTHER, kind).astype(np.uint8)
    is_special = (kind == KIND_NULL) | (kind == KIND_OTHER)
    # Of ranks that are not released no row is told; any value gives them the type of the others.
    held = np.flatnonzero(released.valued)
    some = released.values[held[0]] if len(held) else None
    listed: dict[int, Any] = dict.fromkeys(column.domain or (), some)
    if column.is_ranked:
        listed |= {int(released.grid[at]): released.values[at] for at in held}
    return Support(
        column=column,
        kind=kind,
        grid=np.where(is_special, 0, codes),
        n=np.ones(len(codes), dtype=np.int64),
        measured=np.ones(len(codes), dtype=bool),
        values=listed if column.is_ranked else None,
    )


def _key(content_hash: str, columns: ColumnSet, number: int) -> bytes:
    """The key of one replay: of the released file, and of nothing else."""
    return hashlib.sha256(f"{content_hash} {columns!r} {number}".encode()).digest()


def released_rows(table: TableBuckets) -> WeightedRows:
    """The distinct rows of a released table."""
    return table.coded(table.rows, table.n, table.row_measured)


def mechanism_of(release: Session, table: TableBuckets) -> Mechanism:
    """What the release states of how a table was made."""
    from engine.fit.replay import Mechanism  # slow to import

    stated = release.privacy
    summed = stated.get("sums", ())
    columns = tuple(
        replace(column, sums=column.name in summed) for column in _columns_stated(release, table)
    )
    return Mechanism(
        columns=columns,
        privacy=_privacy(stated) if table.n_depths else PrivacyParams(),
        limits={
            name: (int(low), int(high))
            for name in table.columns
            for low, high in [stated.get("bounds", {}).get(name, (None, None))]
            if low is not None and high is not None
        },
        universes={
            column.name: _coded(declared, column.universe, table)
            for column in columns
            if column.universe is not None
            and (declared := release.described[column.name].universe) is not None
        },
        by_prefix=frozenset(v.name for v in table.released if v.hidden.any()),
    )


def _columns_stated(release: Session, table: TableBuckets) -> tuple[Column, ...]:
    """The columns of a table, of ranked ones the ranks of the released values as their domain."""
    return tuple(_column(values, release.described, table) for values in table.released)


def _privacy(stated: dict[str, Any]) -> PrivacyParams:
    names = ("profile", "low_threshold", "threshold_mean", "layer_sd", "max_rows")
    known: dict[str, Any] = {}
    for name in names:
        value = stated.get(name)
        if value is not None:
            known[name] = int(value) if isinstance(value, float) else value
    return PrivacyParams(**known)


def _column(values: ReleasedValues, described: Mapping[str, Column], table: TableBuckets) -> Column:
    column = described[values.name]
    universe = _ranked(column.universe, values.name, described, table)
    if not column.is_ranked:
        return replace(column, step=values.step, universe=universe)
    codes = values.grid[values.valued]
    ranks = codes if values.hidden.any() else np.arange(codes.max(initial=-1) + 1)
    return replace(column, domain=tuple(ranks.tolist()), universe=universe)


def _ranked(
    universe: Universe | None, name: str, described: Mapping[str, Column], table: TableBuckets
) -> Universe | None:
    """A universe in the terms of a replay, which knows the values of a ranked column by their ranks."""
    if universe is None or universe.column not in table.columns:
        return None

    def ranks(name: str, values: Collection[Any]) -> tuple[Any, ...]:
        column = table.released[table.columns.index(name)]
        if not described[name].is_ranked:
            return tuple(values)
        rank = dict(zip(column.values, column.grid.tolist(), strict=True))
        return tuple(rank[value] for value in values if value in rank)

    listed = None if universe.values is None else ranks(universe.column, universe.values)
    outside = () if universe.outside is None else ranks(name, [universe.outside])
    return replace(universe, values=listed, outside=outside[0] if outside else None)


def _coded(declared: Universe, ranked: Universe, table: TableBuckets) -> CodedUniverse:
    """A universe by codes of the deciding column."""
    deciding = table.released[table.columns.index(declared.column)]
    low = high = None
    if declared.values is None and (declared.low is not None or declared.high is not None):
        inside = deciding.within(declared.low, declared.high) & deciding.valued
        places = stored_codes(deciding)[inside]
        low = int(places.min()) if declared.low is not None and len(places) else None
        high = int(places.max()) if declared.high is not None and len(places) else None
    return CodedUniverse(declared=ranked, low=low, high=high)
