"""From a tally to figures a person: for every group and column, and the groups that are most exposed."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

import numpy as np

from engine.exposure.attackers import guessed_right
from engine.exposure.statement import Pairs
from engine.exposure.tally import Tally
from engine.schema import BoolArray, ColumnSet, FloatArray


@dataclass(frozen=True, kw_only=True, slots=True)
class Worst:
    """The most exposed bucket of one table of groups, for one column told.

    Attributes
    ----------
    group : ColumnSet
    node : int
        The bucket's place in the measurement of `group`.
    told : str
    people : float
    figures, cells : ndarray of float64, shape (n_tables,)
        Figures of each table that shows the column, and cells of its other columns, inside the bucket.
    values : float
        Values or ranges of the column that are released inside the bucket.
    """

    group: ColumnSet
    node: int
    told: str
    people: float
    figures: FloatArray
    cells: FloatArray
    values: float

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
    """All figures of a tally, group by group, of which tables can be left out.

    Parameters
    ----------
    left_out : collection of ColumnSet
        Tables that do not count.
    """

    def __init__(self, tally: Tally, left_out: Collection[ColumnSet] = ()) -> None:
        self._tally = tally
        self._tables: dict[ColumnSet, list[ColumnSet]] = {}
        self._figures: dict[ColumnSet, FloatArray] = {}
        self._people: dict[ColumnSet, FloatArray] = {}
        self._counts: dict[ColumnSet, BoolArray] = {}
        for group in tally.groups:
            tables, figures = tally.figures(group)
            if tables:
                self._tables[group], self._figures[group] = tables, figures
                self._people[group] = tally.people(group, figures.max(axis=1))
                self._counts[group] = np.array([t not in left_out for t in tables])

    @property
    def groups(self) -> tuple[ColumnSet, ...]:
        """Tables of groups that some table splits."""
        return tuple(self._tables)

    def leave_out(self, table: ColumnSet) -> None:
        """Count a table no longer."""
        for group, tables in self._tables.items():
            if table in tables:
                self._counts[group][tables.index(table)] = False

    def worst(self, group: ColumnSet) -> list[Worst]:
        """The most exposed bucket of a table of groups, for each column that is told of it."""
        tables, figures = self._tables[group], self._figures[group]
        told = sorted({name for table in tables for name in table} - set(group))
        shows = np.array([[name in table for name in told] for table in tables], dtype=np.float64)
        shows *= self._counts[group][:, None]
        exposure = (figures @ shows) / self._people[group][:, None]
        if not len(exposure):
            return []
        nodes = exposure.argmax(axis=0)
        return [
            self._worst(group, int(node), name, np.flatnonzero(shows[:, j]))
            for j, (node, name) in enumerate(zip(nodes, told, strict=True))
            if exposure[node, j] > 0
        ]

    def _worst(self, group: ColumnSet, node: int, told: str, at: np.ndarray) -> Worst:
        tables, figures = self._tables[group], self._figures[group][node]
        cells = []
        for i in at:
            rest = tuple(name for name in tables[i] if name != told)
            cells.append(1.0 if rest == group else figures[tables.index(rest)])
        return Worst(
            group=group,
            node=node,
            told=told,
            people=float(self._people[group][node]),
            figures=figures[at],
            cells=np.maximum(np.array(cells), 1.0),
            values=float(figures[tables.index(tuple(sorted((*group, told))))]),
        )

    def largest(self, group: ColumnSet, node: int, told: str) -> ColumnSet:
        """The table that tells most of a column in one bucket; of equals the widest."""
        tables, counts = self._tables[group], self._counts[group]
        of = [i for i, table in enumerate(tables) if told in table and counts[i]]
        figures = self._figures[group][node]
        return tables[max(of, key=lambda i: (figures[i], len(tables[i]), tables[i]))]


def all_worst(figures: Figures) -> list[Worst]:
    """The most exposed bucket of every group and column told, worst first."""
    found = [one for group in figures.groups for one in figures.worst(group)]
    return sorted(found, key=lambda one: (-one.exposure, one.group, one.told))


def pairs_of(found: list[Worst]) -> Pairs:
    """Most figures a person by group and column told."""
    return {(one.group, one.told): one.exposure for one in found}
