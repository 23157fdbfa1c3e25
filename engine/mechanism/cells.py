"""Cells: distinct combinations of a column set with their rows, and who is in them.

One protocol, `CellSource`: any engine that can do COUNT and SUM can serve it. What is counted decides whether the cells
are confidential: people's rows in `engine.measure`, the rows of a released table in a replay.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from engine.cell_keys import cell_keys
from engine.schema import ColumnSet, Int64Array, UInt64Array


@dataclass(frozen=True, kw_only=True, slots=True)
class AdditiveEntities:
    """Entities that have one row each: sums of cells are sums of distinct entities."""

    # shape (n_cells, 2): Sums of the token lanes of each cell's entities, mod 2**64.
    lanes: UInt64Array


@dataclass(frozen=True, kw_only=True, slots=True)
class PairedEntities:
    """Entities with several rows: which entity has how many rows in which cell."""

    cell: Int64Array  # shape (n_pairs,): Position of the cell
    entity: Int64Array  # shape (n_pairs,): Dense entity number, a position in `tokens`
    n_rows: Int64Array  # shape (n_pairs,)
    tokens: UInt64Array  # shape (n_entities, 2)


@dataclass(frozen=True, kw_only=True, slots=True)
class Cells:
    """The distinct combinations of a column set."""

    columns: ColumnSet
    codes: Int64Array  # shape (n_cells, n_columns)
    n_rows: Int64Array  # shape (n_cells,)
    # One for each kind of entity, at least one.
    entities: tuple[AdditiveEntities | PairedEntities, ...]


@dataclass(frozen=True, kw_only=True, slots=True)
class Rows:
    """Rows of some of the entities, chosen by their tokens, so always of the same ones."""

    codes: dict[str, Int64Array]  # By column
    entity: (
        Int64Array | None
    )  # shape (n_rows,): Numbers of the chosen entities; None: each has one row
    share: float  # Share of the entities that was chosen


class CellSource(Protocol):
    """Counts the cells of column sets."""

    def rows(self, columns: ColumnSet, most: int) -> Rows:
        """Rows of about so many entities; of several kinds of entities the first counts."""

    def cells(self, columns: ColumnSet) -> Cells:
        """Count the distinct combinations of a column set; empty: everything is one cell."""

    def each(self, column_sets: Sequence[ColumnSet]) -> Iterator[Cells]:
        """Count column sets, in their order; perhaps several in one scan of the rows."""


class ArrayCells:
    """Counts cells of few rows in numpy: one sort of small numbers a column set, and no query to plan.

    columns: Codes of the rows by column name, each an ndarray of int64 of shape (n_rows,).
    entities: By kind: the token lanes of each row, uint64 of shape (n_rows, 2), and None; or, where an entity has
        several rows, its dense number in each row, int64 of shape (n_rows,), and the tokens of all entities.
    weights: How many rows each row stands for; None: one. Entities then have one row each.
    """

    def __init__(
        self,
        columns: dict[str, Int64Array],
        n_rows: int,
        entities: tuple[tuple[NDArray[Any], UInt64Array | None], ...],
        weights: Int64Array | None = None,
    ) -> None:
        self._n_rows = n_rows
        self._entities = entities
        self._weights = weights
        self._codes: dict[str, Int64Array] = {}
        self._places: dict[str, Int64Array] = {}
        for name, codes in columns.items():
            self._codes[name], self._places[name] = np.unique(codes, return_inverse=True)

    def cells(self, columns: ColumnSet) -> Cells:
        """Sort the rows by the column set; a run of equals is a cell."""
        label, size = cell_keys(
            [self._places[name] for name in columns],
            [len(self._codes[name]) for name in columns],
            n=self._n_rows,
        )
        order = np.argsort(label.astype(np.uint32) if size <= 2**32 else label)
        label = label[order]
        fresh = np.ones(len(label), dtype=bool)
        fresh[1:] = label[1:] != label[:-1]
        first = np.flatnonzero(fresh)
        codes = [self._codes[name][self._places[name][order[first]]] for name in columns]
        if self._weights is None or not len(first):
            n_rows = np.diff(np.append(first, self._n_rows))
        else:
            n_rows = np.add.reduceat(self._weights[order], first)
        return Cells(
            columns=columns,
            codes=stacked(codes, len(first)),
            n_rows=n_rows,
            entities=tuple(
                _additive(held, order, first)
                if tokens is None
                else _paired(held[order], np.cumsum(fresh) - 1, tokens)
                for held, tokens in self._entities
            ),
        )

    def each(self, column_sets: Sequence[ColumnSet]) -> Iterator[Cells]:
        """One after the other."""
        yield from map(self.cells, column_sets)

    def rows(self, columns: ColumnSet, most: int) -> Rows:
        """Those whose tokens are small."""
        held, of_entities = self._entities[0]
        tokens = held if of_entities is None else of_entities
        share, limit = chosen_share(len(tokens), most)
        taken = tokens[:, 0] < np.uint64(limit)
        numbers = None
        if of_entities is not None:
            numbers, taken = (np.cumsum(taken) - 1)[held], taken[held]
            numbers = numbers[taken]
        codes = {name: self._codes[name][self._places[name][taken]] for name in columns}
        return Rows(codes=codes, entity=numbers, share=share)


def grouped(cells: Cells, group: Int64Array) -> Cells:
    """Cells of groups of cells, whose codes are the numbers of the groups.

    group: shape (n_cells,): The group of each cell.
    """
    numbers, place = np.unique(group, return_inverse=True)
    n_rows = np.zeros(len(numbers), dtype=np.int64)
    np.add.at(n_rows, place, cells.n_rows)
    kinds: list[AdditiveEntities | PairedEntities] = []
    for kind in cells.entities:
        if isinstance(kind, AdditiveEntities):
            lanes = np.zeros((len(numbers), 2), dtype=np.uint64)
            np.add.at(lanes, place, kind.lanes)
            kinds.append(AdditiveEntities(lanes=lanes))
        else:
            entity = np.repeat(kind.entity, kind.n_rows)
            kinds.append(_paired(entity, np.repeat(place[kind.cell], kind.n_rows), kind.tokens))
    return Cells(
        columns=cells.columns, codes=numbers[:, None], n_rows=n_rows, entities=tuple(kinds)
    )


def chosen_share(n: int, most: int) -> tuple[float, int]:
    """Share of entities that are chosen, and the token below which they are."""
    share = min(most / max(n, 1), 1.0)
    return share, min(int(share * 2.0**64), 2**64 - 1)


def _additive(lanes: UInt64Array, order: Int64Array, first: Int64Array) -> AdditiveEntities:
    """Sums of the rows' lanes in each run."""
    if not len(first):
        return AdditiveEntities(lanes=np.zeros((0, 2), dtype=np.uint64))
    sums = [np.add.reduceat(lanes[:, lane][order], first) for lane in (0, 1)]
    return AdditiveEntities(lanes=np.column_stack(sums))


def _paired(entity: Int64Array, cell: Int64Array, tokens: UInt64Array) -> PairedEntities:
    """How many rows each entity has in each cell."""
    pairs, n_rows = np.unique(cell * len(tokens) + entity, return_counts=True)
    of_cell, of_entity = np.divmod(pairs, max(len(tokens), 1))
    return PairedEntities(cell=of_cell, entity=of_entity, n_rows=n_rows, tokens=tokens)


def stacked(columns: list[Any], n: int) -> Int64Array:
    """Columns side by side, shape (n, 0) if there are none."""
    if not columns:
        return np.zeros((n, 0), dtype=np.int64)
    return np.column_stack([np.asarray(column, dtype=np.int64) for column in columns])
