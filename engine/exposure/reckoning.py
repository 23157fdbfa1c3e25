"""How exposed people are: how often a secret in the place of each column is guessed right, from all tables together."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace

import numpy as np

from engine.exposure.evolution import evolve, right
from engine.exposure.incidence import Cells, Incidence, Split
from engine.exposure.shared import telling
from engine.schema import BoolArray, ColumnSet, FloatArray

MOST_EXPOSED = 0.005
"""Share of people who count as the most exposed, ..."""
FEWEST = 30
"""... so many at least."""
MORE = 0.05
"""So many alone may be exposed by so much more."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Told:
    """What all tables tell of one column, on the rows. Confidential until it is rounded."""

    column: str
    # How often an even secret in its place is guessed right by who knows all other columns: of the most exposed
    # people (or of the very most exposed, less what they may be exposed more), of 1 % and 5 %, and of all.
    most: float
    of_1: float
    of_5: float
    of_all: float
    snr: float  # Of the most exposed, as a ratio of signal to noise
    figures: float  # Noisy figures a person that tell of the most exposed
    by: dict[ColumnSet, float]  # What each table adds to the ratio of the most exposed


class Reckoner:
    """Reckons exposure; columns that tell the same are looked for once."""

    def __init__(self, people: Incidence, columns: Collection[str]) -> None:
        self._people = people
        self.columns = tuple(sorted(columns))
        self._telling = telling(people, self.columns)

    def all_told(
        self,
        times: Mapping[ColumnSet, int],
        before: Mapping[str, float] | None = None,
        louder: int = 1,
    ) -> list[Told]:
        """Every column told, most exposed first; parameters as of `told`."""
        found = [
            self.told(name, times, (before or {}).get(name, 0.0), louder) for name in self.columns
        ]
        return sorted(found, key=lambda one: (-one.most, one.column))

    def told(
        self, column: str, times: Mapping[ColumnSet, int], before: float = 0.0, louder: int = 1
    ) -> Told:
        """What tables tell of one column.

        times: How often each table was measured with noise of its own; others are left out.
        before: Ratio of signal to noise at which everybody's is known already.
        louder: How many times the noise.
        """
        snr, cells, by = self.ratios(column, times, before, louder)
        order, n_people = np.argsort(-snr, kind="stable"), max(len(snr), 1)
        guessed = np.append(right(snr[order]), 0.5)  # chance, of nobody

        def mean(share: float) -> float:
            return float(guessed[: max(FEWEST, round(share * n_people))][:n_people].mean())

        top = order[: max(FEWEST, round(MOST_EXPOSED * n_people))]
        most, fewest = mean(MOST_EXPOSED), mean(0.0) - MORE
        if fewest > most:
            most, top = fewest, order[:FEWEST]
        is_top = np.zeros(len(snr), dtype=bool)
        is_top[top] = True
        return Told(
            column=column,
            most=most,
            of_1=mean(0.01),
            of_5=mean(0.05),
            of_all=mean(1.0),
            snr=float(snr[top].mean()) if len(top) else 0.0,
            figures=sum(_figures(one, is_top) for one in cells.values()),
            by={table: float(each[top].mean()) for table, each in by.items()},
        )

    def ratios(
        self, column: str, times: Mapping[ColumnSet, int], before: float = 0.0, louder: int = 1
    ) -> tuple[FloatArray, dict[ColumnSet, Cells], dict[ColumnSet, FloatArray]]:
        """Ratio of signal to noise of each person, cells of each table, and what it adds; parameters as of `told`."""
        cells = {
            table: one
            for table, n in times.items()
            if (one := self._cells(table, column, n, louder)) is not None
        }
        alike: dict[object, list[ColumnSet]] = {}
        for table in cells:
            alike.setdefault(self._groups(table, column), []).append(table)
        merged = [
            replace(
                cells[tables[0]],
                looks=len(tables),
                gain=sum(cells[table].gain for table in tables) / len(tables),
            )
            for tables in alike.values()
        ]
        n_people = self._people.n_people
        n_most = max(FEWEST, round(MOST_EXPOSED * n_people))
        snr, told = evolve(merged, n_people, before, n_most)
        by = {
            table: each / len(tables)
            for tables, each in zip(alike.values(), told, strict=True)
            for table in tables
        }
        return snr, cells, by

    def _groups(self, table: ColumnSet, column: str) -> object:
        """What tables have in common that tell of the same groups: sums of those are known no better than exactly."""
        by, how = self._through(table, column)
        return table if how is not None and how.rest is not None else frozenset(table) - {by}

    def _cells(self, table: ColumnSet, column: str, times: int, louder: int) -> Cells | None:
        """What a table tells of a column, itself or through the one that is most like it."""
        by, how = self._through(table, column)
        if by is None:
            return None
        return self._people.cells(table, by, how, times=times, noise_factor=louder)

    def _through(self, table: ColumnSet, column: str) -> tuple[str | None, Split | None]:
        """The column of a table that tells of another, and how; None: none does."""
        how = self._telling[column]
        if column in table:
            return column, how.own
        like = [name for name in table if name in how.by]
        by = max(like, key=lambda name: (how.by[name].gain, name), default=None)
        return by, None if by is None else how.by[by]


def _figures(cells: Cells, among: BoolArray) -> float:
    """Noisy figures a person, of some people, about those who share a cell with each: two a cell."""
    at = among[cells.person]
    people = np.bincount(cells.cell, minlength=len(cells.larger)) * cells.larger
    return float((2 * cells.share[at] / people[cells.cell[at]]).sum() / max(among.sum(), 1))
