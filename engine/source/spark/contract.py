"""What the engine asks of rows that Spark holds: the contract between measuring and `engine.source.spark.rows`.

Columns are meant by their short names: `c0`, `c1`, ... codes; `e0`, ... entities; `l0_0`, `l0_1`, ... lanes of tokens.
Confidential. Needs neither pyspark nor pyarrow.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from engine.cell_keys import CodeSpan
from engine.schema import Entity, Int64Array, UInt64Array


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


class RowsInSpark(Protocol):
    """Encoded rows that are not on the driver."""

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

    def name_entities(
        self, codes: Sequence[str], names: Sequence[Entity], n_rows: int, entity_key: bytes
    ) -> list[UInt64Array | None]:
        """Put tokens in the place of ids; of each kind of entity give its tokens, None where each has one row."""

    def weights(self, numbers: Sequence[int]) -> list[str]:
        """SQL of a row's secret weights by its entities, as `content_sums` wants them."""

    def sums(self, sums: list[str]) -> list[str]:
        """Whole sums over all rows, as texts."""

    def shapes(self, codes: Sequence[str], numbers: Sequence[int]) -> Iterator[tuple[int, int]]:
        """Of each column: how many groups it makes, and the sum of the squares of their weights modulo a prime."""

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

    def sample(self, names: Sequence[str], n: int) -> str:
        """Name of a table of the driver with some of the rows."""

    def n_rows(self) -> int:
        """How many there are."""

    def below(self, lane: str, limit: int, names: Sequence[str]) -> dict[str, Int64Array]:
        """Columns of the rows in which a lane, without sign, is below a limit; in no order."""

    def relations(self, sets: Sequence[tuple[str, ...]], by: tuple[str, ...]) -> list[str]:
        """Names of tables of the driver with the cells of some columns: their codes, entities, and rows as `n`."""

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
