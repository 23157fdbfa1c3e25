"""The encoded rows where Spark holds them, and what the driver asks of them: sums, samples and cells.

Takes the frame of codes that `encoding` makes; gives tokens and cells. Tokens are made on executors, by keys that are
derived for them and broadcast to the function that needs them. Confidential; everything that was kept or broadcast is
let go at the end.
"""

from __future__ import annotations

import contextlib
import secrets
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import duckdb
import numpy as np
import pyarrow as pa

from engine.cell_keys import CodeSpan
from engine.schema import Entity, Int64Array, UInt64Array
from engine.source.entities import PRIME, ROWS_WITH_TOKENS
from engine.source.relation import lent
from engine.source.spark import tasks
from engine.source.spark.frames import in_our_words

MOST_CELLS = 2_000_000
"""Cells that come to the driver at a time, unless one column set has more."""
_ARROW = {
    "bigint": pa.int64(),
    "double": pa.float64(),
    "boolean": pa.bool_(),
    "date": pa.date32(),
    "timestamp_ntz": pa.timestamp("us"),
    "string": pa.string(),
    "binary": pa.binary(),
}
"""The Arrow types of Spark's types that we use."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Groups:
    """Cells of one column set as Spark counted them."""

    codes: Int64Array  # shape (n_cells, n_columns)
    n: Int64Array  # shape (n_cells,): Rows
    # Of entities that were counted apart: their numbers, int64 of shape (n_cells,), by short name.
    by: dict[str, Int64Array]
    # Sums of the low and of the high halves of lanes, int64 of shape (n_cells,) each, by short name.
    halves: dict[str, tuple[Int64Array, Int64Array]]

    def lanes(self, number: int) -> UInt64Array:
        """Sums of the lanes of one kind of entity, mod 2**64, shape (n_cells, 2)."""
        sums = []
        for lane in (0, 1):
            low, high = self.halves[f"l{number}_{lane}"]
            sums.append(low.view(np.uint64) + (high.view(np.uint64) << np.uint64(32)))
        return np.column_stack(sums)


class SparkRows:
    """Encoded rows that Spark holds, as measuring asks of them.

    Columns are meant by their short names: `c0`, `c1`, ... codes; `e0`, ... entities; `l0_0`, `l0_1`, ... lanes of
    tokens.
    """

    def __init__(
        self, session: Any, frame: Any, con: duckdb.DuckDBPyConnection, place: str
    ) -> None:
        self._session = session
        self._frame = frame
        self._con = con
        self._place = place
        self._kept: list[Any] = []
        self._sent: list[Any] = []
        self._spans: dict[str, CodeSpan] = {}
        self._firsts: dict[str, Int64Array] = {}
        self._found: dict[str, int] = {}  # distinct codes of columns that were counted alone

    def close(self) -> None:
        """Let go of what Spark keeps for us."""
        with contextlib.suppress(Exception):  # Spark may be gone
            for frame in self._kept:
                frame.unpersist()
        with contextlib.suppress(Exception):
            for one in self._sent:
                one.destroy()
        self._kept, self._sent = [], []

    def send(self, value: Any) -> Any:
        """Broadcast a value to the tasks that are given it."""
        sent = in_our_words(lambda: self._session.sparkContext.broadcast(value), self._place)
        self._sent.append(sent)
        return sent

    def keep(self, frame: Any) -> Any:
        """Let Spark keep a frame, in memory and encrypted on disk."""
        from pyspark import StorageLevel

        kept = frame.persist(StorageLevel.MEMORY_AND_DISK)
        self._kept.append(kept)
        return kept

    def gathered(self, frame: Any) -> Any:
        """A frame as an Arrow table on the driver."""
        return in_our_words(frame.toArrow, self._place)

    def mapped(self, frame: Any, task: tasks.Task, ddl: Mapping[str, str], **given: Any) -> Any:
        """A frame of what a task makes of the partitions of another."""
        schema = pa.schema([(name, _ARROW[held]) for name, held in ddl.items()])
        said = ", ".join(f"{name} {held}" for name, held in ddl.items())
        return frame.mapInArrow(partial(task, schema=schema, **given), said)

    def use(self, frame: Any, spans: dict[str, CodeSpan] | None = None) -> None:
        """Count these rows from now on."""
        self._frame = frame
        self._spans = spans or self._spans

    def number_rows(
        self,
        codes: Sequence[str],
        words: Mapping[str, UInt64Array],
        identity: tuple[str, ...],
        order: Sequence[str],
        *,
        fingerprint_key: bytes,
        entity_key: bytes,
    ) -> None:
        """Put tokens beside rows that are entities, each.

        identity, order: Columns that identify a row, and all of them in the order by which equal rows are
            numbered.
        """
        given = dict.fromkeys(codes, "bigint")
        printed = self.mapped(
            self._frame,
            tasks.fingerprint,
            given | dict.fromkeys(("f0", "f1"), "bigint"),
            identity=identity,
            words=self.send(dict(words)),
            secret=self.send(fingerprint_key),
        )
        numbered = self.mapped(
            printed.repartition("f0", "f1"),
            tasks.number_equals,
            given | dict.fromkeys(("l0_0", "l0_1"), "bigint"),
            order=tuple(order),
            secret=self.send(entity_key),
        )
        self.use(self.keep(numbered))
        self._as_tokens()

    def name_entities(
        self, codes: Sequence[str], names: Sequence[Entity], n_rows: int, entity_key: bytes
    ) -> list[UInt64Array | None]:
        """Put tokens in the place of ids; of each kind of entity give its tokens, None where each has one row."""
        lanes = {f"l{j}_{lane}": "bigint" for j in range(len(names)) for lane in (0, 1)}
        named = self.keep(
            self.mapped(
                self._frame,
                tasks.name_entities,
                dict.fromkeys(codes, "bigint") | lanes,
                names={f"e{j}": name for j, name in enumerate(names)},
                secret=self.send(entity_key),
            )
        )
        found: list[UInt64Array | None] = []
        for j in range(len(names)):
            ids = named.select(f"l{j}_0", f"l{j}_1").distinct()
            tokens = None
            if in_our_words(ids.count, self._place) != n_rows:
                named, tokens = self._numbered(named, ids, j)
            found.append(tokens)
        self.use(named)
        self._as_tokens()
        return found

    def _numbered(self, rows: Any, ids: Any, j: int) -> tuple[Any, UInt64Array]:
        """Rows with the column `e<j>`, and the tokens in the order of these numbers."""
        from pyspark.sql import functions as F

        lanes = [f"l{j}_0", f"l{j}_1"]
        # Sorted, so that a partition that is made anew, where an executor was lost, gives the same numbers.
        ordered = ids.repartition(*lanes).sortWithinPartitions(*lanes)
        ids = self.keep(ordered.withColumn(f"e{j}", F.monotonically_increasing_id()))
        table = self.gathered(ids)
        held = {name: np.asarray(table.column(name)) for name in table.column_names}
        order = np.argsort(held[f"e{j}"])
        self._firsts[f"e{j}"] = held[f"e{j}"][order]
        tokens = np.column_stack([held[name][order] for name in lanes]).view(np.uint64)
        return self.keep(rows.join(ids, on=lanes, how="inner")), tokens

    def _as_tokens(self) -> None:
        """The driver's table of extremes stands for the rows with tokens."""
        self._con.execute(f"ALTER TABLE rows RENAME TO {ROWS_WITH_TOKENS}")

    def weights(self, numbers: Sequence[int]) -> list[str]:
        """SQL of a row's secret weights by its entities, as `content_sums` wants them."""
        return [f"CAST(l{number}_0 & 4294967295 AS HUGEINT)" for number in numbers]

    def sums(self, sums: list[str]) -> list[str]:
        """Whole sums over all rows, as texts."""
        # Some hold secret factors: they go as a broadcast, never in a plan.
        ddl = {f"s{i}": "string" for i in range(len(sums))}
        found = self.gathered(self.mapped(self._frame, tasks.sum_up, ddl, sums=self.send(sums)))
        return [str(sum(map(int, column.to_pylist()))) for column in found.columns]

    def shapes(self, codes: Sequence[str], numbers: Sequence[int]) -> Iterator[tuple[int, int]]:
        """Of each column: how many groups it makes, and the sum of the squares of their weights modulo a prime."""
        lanes = tuple(f"l{number}_0" for number in numbers)
        for groups in self.groups([(code,) for code in codes], lanes=lanes):
            weight = np.sum([groups.halves[lane][0] % PRIME for lane in lanes], axis=0) % PRIME
            yield len(weight), sum(map(int, weight * weight))

    def smallest_hashes(
        self,
        of: tuple[str, ...],
        words: Mapping[str, UInt64Array],
        secret: bytes,
        size: int,
        *,
        is_named: bool,
    ) -> UInt64Array:
        """The smallest keyed hashes of the entities, for a sketch."""
        found = self.gathered(
            self.mapped(
                self._frame.select(*of),
                tasks.sketch,
                {"h": "bigint"},
                of=of,
                is_named=is_named,
                words=self.send(dict(words)),
                secret=self.send(secret),
                size=size,
            )
        )
        return np.unique(np.asarray(found.column("h")).view(np.uint64))[:size]

    def sample(self, names: Sequence[str], n: int) -> str:
        """Name of a table of the driver with some of the rows."""
        return self._stored(self.gathered(self._frame.select(*names).limit(n)))

    def n_rows(self) -> int:
        """How many there are."""
        return int(in_our_words(self._frame.count, self._place))

    def below(self, lane: str, limit: int, names: Sequence[str]) -> dict[str, Int64Array]:
        """Columns of the rows in which a lane, without sign, is below a limit; in no order."""
        from pyspark.sql import functions as F

        small = F.shiftrightunsigned(lane, 1) <= limit >> 1
        table = self.gathered(self._frame.filter(small).select(*names))
        return {name: np.asarray(table.column(name), dtype=np.int64) for name in names}

    def relations(self, sets: Sequence[tuple[str, ...]], by: tuple[str, ...]) -> list[str]:
        """Names of tables of the driver with the cells of some columns: their codes, entities, and rows as `n`."""
        return [
            self._stored(
                pa.table(
                    {name: groups.codes[:, place] for place, name in enumerate(names)}
                    | groups.by
                    | {"n": groups.n}
                )
            )
            for names, groups in zip(sets, self.groups(sets, by=by), strict=True)
        ]

    def _stored(self, table: Any) -> str:
        """Put an Arrow table into the driver's database."""
        name = f"cells_{secrets.token_hex(8)}"
        with lent(self._con, "arrived", table):
            self._con.execute(f"CREATE TABLE {name} AS SELECT * FROM arrived")
        return name

    def groups(
        self,
        sets: Iterable[tuple[str, ...]],
        *,
        by: tuple[str, ...] = (),
        lanes: tuple[str, ...] = (),
        ranks: Mapping[str, Int64Array] | None = None,
        spans: Mapping[str, CodeSpan] | None = None,
    ) -> Iterator[Groups]:
        """Cells of column sets, in their order; several sets in one look at the rows.

        spans: Of columns, where they are not those of the rows.
        """
        spans = {**self._spans, **(spans or {})}
        sizes = {name: span.n_codes for name, span in spans.items()}
        for name, found in self._found.items():
            sizes[name] = min(sizes[name], found)
        for batch in _batches(list(sets), sizes, MOST_CELLS):
            yield from self._counted(batch, by, lanes, ranks or {}, spans)

    def _counted(
        self,
        sets: list[tuple[str, ...]],
        by: tuple[str, ...],
        lanes: tuple[str, ...],
        ranks: Mapping[str, Int64Array],
        spans: Mapping[str, CodeSpan],
    ) -> Iterator[Groups]:
        """Cells of some sets from one look at the rows: counted on executors, summed by Spark."""
        from pyspark.sql import functions as F

        used = list(dict.fromkeys(name for names in sets for name in names))
        keys = ["s", *(f"k{place}" for place in range(max(map(len, sets))))]
        halves = [f"{lane}_{half}" for lane in lanes for half in ("low", "high")]
        ddl = dict.fromkeys([*keys, *by, "n", *halves], "bigint")
        chosen = [*used, *by, *lanes] or self._frame.columns[:1]
        parts = self.mapped(
            self._frame.select(*chosen),
            tasks.count,
            ddl,
            sets=tuple(sets),
            by=by,
            lanes=lanes,
            codes=self.send(
                tasks.Codes(
                    spans={name: spans[name] for name in used},
                    ranks={name: held for name, held in ranks.items() if name in used},
                )
            ),
        )
        sums = [F.sum(name).alias(name) for name in ("n", *halves)]
        table = self.gathered(parts.groupBy(*keys, *by).agg(*sums))
        held = {name: np.asarray(table.column(name), dtype=np.int64) for name in table.column_names}
        order = np.argsort(held["s"], kind="stable")
        ends = np.searchsorted(held["s"][order], np.arange(len(sets) + 1))
        for number, names in enumerate(sets):
            rows = order[ends[number] : ends[number + 1]]
            codes = [_whole(spans[c], held[f"k{i}"][rows]) for i, c in enumerate(names)]
            if len(names) == 1 and names[0] not in ranks:
                self._found[names[0]] = len(np.unique(codes[0])) if by else len(rows)
            yield Groups(
                codes=np.column_stack(codes) if codes else np.zeros((len(rows), 0), np.int64),
                n=held["n"][rows],
                by={e: np.searchsorted(self._firsts[e], held[e][rows]) for e in by},
                halves={
                    lane: (held[f"{lane}_low"][rows], held[f"{lane}_high"][rows]) for lane in lanes
                },
            )


def _whole(span: CodeSpan, small: Int64Array) -> Int64Array:
    """The codes of what a task counted."""
    return span.codes(small) if span.sql_type else small


def _batches(
    sets: list[tuple[str, ...]], sizes: Mapping[str, int], most: int
) -> Iterator[list[tuple[str, ...]]]:
    """Column sets that may be counted at a time: as many as have, by the sizes of their columns, so many cells."""
    batch: list[tuple[str, ...]] = []
    held = 0
    for names in sets:
        size = 1
        for name in names:
            size = min(size * sizes[name], most)
        if batch and held + size > most:
            yield batch
            batch, held = [], 0
        batch.append(names)
        held += size
    if batch:
        yield batch
