"""From a tally to figures a person: for every group and column, and the groups that are most exposed."""

from __future__ import annotations

from collections.abc import Collection
from copy import copy
from dataclasses import dataclass, replace

import numpy as np

from engine.exposure.attackers import guessed_right
from engine.exposure.statement import Pairs
from engine.exposure.tally import Int32Array, Tally
from engine.schema import BoolArray, ColumnSet, FloatArray, Int64Array


@dataclass(frozen=True, kw_only=True, slots=True)
class Worst:
    """The most exposed bucket of one table of groups, for one column told."""

    group: ColumnSet
    node: int  # The bucket's place in the measurement of `group`
    told: str
    people: float
    # figures, cells: shape (n_tables,): Figures of each table that shows the column, and cells of its other
    # columns, inside the bucket.
    figures: FloatArray
    cells: FloatArray
    values: float  # Values or ranges of the column that are released inside the bucket

    @property
    def exposure(self) -> float:
        """Figures a person."""
        return float(self.figures.sum()) / self.people

    def guessed(self, layer_sd: float) -> float:
        """How often an even bit in the column's place is guessed right; see `guessed_right`."""
        # Where all values of a cell are released, one of them follows from the others.
        news = np.minimum(self.figures, self.cells * (self.values - 1))
        return guessed_right(self.people, news, self.cells, layer_sd)


class Figures:
    """All figures of a tally, group by group, of which tables can be left out."""

    def __init__(self, tally: Tally) -> None:
        self._of: dict[ColumnSet, _Split] = {}
        for group, splits in tally.splits.items():
            if splits:
                cells, of, figures = tally.figures(group)
                tables = [split.columns for split in splits]
                self._of[group] = _Split(
                    tables=tables,
                    counts=np.ones(len(tables), dtype=bool),
                    cells=cells,
                    table=np.array([at for at, _ in of]),
                    told=[name for _, name in of],
                    figures=figures,
                    people=tally.people(group, cells.max(axis=1)),
                )

    @property
    def groups(self) -> tuple[ColumnSet, ...]:
        """Tables of groups that some table splits."""
        return tuple(self._of)

    def without(self, tables: Collection[ColumnSet]) -> Figures:
        """The same figures, but some tables do not count; what was reckoned is shared."""
        out = copy(self)
        out._of = {
            group: replace(
                split, counts=split.counts & [table not in tables for table in split.tables]
            )
            for group, split in self._of.items()
        }
        return out

    def leave_out(self, table: ColumnSet) -> None:
        """Count a table no longer."""
        for split in self._of.values():
            if table in split.tables:
                split.counts[split.tables.index(table)] = False

    def worst(self, group: ColumnSet) -> list[Worst]:
        """The most exposed bucket of a table of groups, for each column that is told of it."""
        split = self._of[group]
        if not len(split.people) or not split.counts[split.table].any():
            return []
        told = sorted(set(split.told))
        shows = np.array([[name == one for one in told] for name in split.told], dtype=np.float64)
        shows *= split.counts[split.table][:, None]
        exposure = (split.figures @ shows) / split.people[:, None]
        return [
            split.worst(group, int(node), name, np.flatnonzero(shows[:, j]))
            for j, (node, name) in enumerate(zip(exposure.argmax(axis=0), told, strict=True))
            if exposure[node, j] > 0
        ]

    def largest(self, group: ColumnSet, node: int, told: str) -> ColumnSet:
        """The table that tells most of a column in one bucket; of equals the widest."""
        split = self._of[group]
        of: list[tuple[float, int, ColumnSet]] = [
            (float(split.figures[node, place]), len(split.tables[at]), split.tables[at])
            for place, at in enumerate(split.table)
            if split.told[place] == told and split.counts[at]
        ]
        return max(of)[2]


@dataclass(kw_only=True, slots=True)
class _Split:
    """How all tables split the groups of one."""

    tables: list[ColumnSet]
    counts: BoolArray  # shape (n_tables,): Which of the tables count
    cells: Int32Array  # shape (n_nodes, n_tables)
    table: Int64Array  # shape (n_figures,)
    told: list[str]  # Of each column of `figures`, its table and what it tells
    figures: Int32Array  # shape (n_nodes, n_figures)
    people: FloatArray  # shape (n_nodes,)

    def worst(self, group: ColumnSet, node: int, told: str, places: Int64Array) -> Worst:
        """What is known of one bucket and column."""
        cells = self.cells[node].astype(np.float64)
        known = []
        for table in (self.tables[self.table[place]] for place in places):
            rest = tuple(name for name in table if name != told)
            known.append(1.0 if rest == group else cells[self.tables.index(rest)])
        return Worst(
            group=group,
            node=node,
            told=told,
            people=float(self.people[node]),
            figures=self.figures[node, places].astype(np.float64),
            cells=np.maximum(np.array(known), 1.0),
            values=float(cells[self.tables.index(tuple(sorted((*group, told))))]),
        )


def all_worst(figures: Figures) -> list[Worst]:
    """The most exposed bucket of every group and column told, worst first."""
    found = [one for group in figures.groups for one in figures.worst(group)]
    return sorted(found, key=lambda one: (-one.exposure, one.group, one.told))


def pairs_of(found: list[Worst]) -> Pairs:
    """Most figures a person by group and column told."""
    return {(one.group, one.told): one.exposure for one in found}
