"""How exposed people are: how often a secret in the place of each column is guessed right, from all tables together."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, replace

import numpy as np

from engine.exposure.evolution import evolve, right
from engine.exposure.incidence import Cells, Incidence, Split
from engine.exposure.shared import SharedSecret, shared_secrets
from engine.schema import BoolArray, ColumnSet, FloatArray, Measurement

MOST_EXPOSED = 0.005
"""Share of people who count as the most exposed. A compromise: of 1 % a group of 150 in 27,000 is about half, and its
exposure was hardly seen; with .1 % releases that reveal little were refused."""
FEWEST = 30
"""So many count at least: the mean of fewer says little of what an attack would find."""
ALLOWANCE = 0.05
"""The 30 most exposed alone may be exposed by so much more. What an attack finds of 30 people has a standard deviation
of .08, so a smaller difference could not be observed."""


@dataclass(frozen=True, kw_only=True, slots=True)
class ColumnExposure:
    """What all tables reveal of one column, on the rows. Confidential until it is rounded."""

    column: str
    # How often an even secret in its place is guessed right by who knows all other columns: of the most exposed
    # people (or of the 30 most exposed, less their allowance), of 1 % and 5 %, and of all.
    most: float
    of_1: float
    of_5: float
    of_all: float
    error: float = 0.0  # Standard error of the first, where people were sampled
    snr: float  # Of the most exposed, as a ratio of signal to noise
    figures: float  # Noisy figures a person that reveal the secrets of the most exposed
    by: dict[ColumnSet, float]  # What each table adds to the ratio of the most exposed


class Estimator:
    """Estimates exposure on people in the cells of tables; columns with the same secret are looked for once."""

    def __init__(self, people: Incidence, columns: Collection[str]) -> None:
        self.people = people
        self.columns = tuple(sorted(columns))
        self._secrets = shared_secrets(people, self.columns)
        splits = (
            (by, split)
            for name, secrets in self._secrets.items()
            for shared in secrets
            for by, split in (*shared.proxies.items(), (name, shared.own))
        )
        self._split = {
            by for by, split in splits if split and (split.rest is not None or split.is_null)
        }

    def add(self, tree: Measurement) -> None:
        """Take in a further table."""
        self.people.add(tree, is_full=not self._split.isdisjoint(tree.columns))

    def revealed(self, tables: Iterable[ColumnSet]) -> list[str]:
        """Columns that any of some tables reveals."""
        known = list(tables)
        return [name for name in self.columns if any(self.revealed_by(t, [name]) for t in known)]

    def revealed_by(self, table: ColumnSet, columns: Iterable[str]) -> bool:
        """Whether a table reveals any of some columns."""
        return any(
            _through(table, name, shared)[0] is not None
            for name in columns
            for shared in self._secrets[name]
        )

    def exposures(
        self,
        times: Mapping[ColumnSet, int],
        before: Mapping[str, float] | None = None,
        columns: Collection[str] | None = None,
    ) -> list[ColumnExposure]:
        """Of some columns, or all, most exposed first; parameters as of `exposure`."""
        names = self.columns if columns is None else columns
        found = [self.exposure(name, times, (before or {}).get(name, 0.0)) for name in names]
        return sorted(found, key=lambda one: (-one.most, one.column))

    def exposure(
        self,
        column: str,
        times: Mapping[ColumnSet, int],
        before: float = 0.0,
        noise_factor: int = 1,
    ) -> ColumnExposure:
        """What tables reveal of one column: of the secret in it that they reveal most.

        times: How often each table was measured with noise of its own; others are left out.
        before: Ratio of signal to noise at which everybody's is known already.
        noise_factor: How many times the noise.
        """
        found = [
            self._of_secret(column, shared, times, before, noise_factor)
            for shared in self._secrets[column]
        ]
        return max(found, key=lambda one: one.most)

    def _of_secret(
        self,
        column: str,
        shared: SharedSecret,
        times: Mapping[ColumnSet, int],
        before: float,
        noise_factor: int,
    ) -> ColumnExposure:
        """What tables reveal of one secret of a column."""
        cells: dict[ColumnSet, Cells] = {}
        alike: dict[object, list[ColumnSet]] = {}
        for table, n in times.items():
            by, how = _through(table, column, shared)
            if by is None:
                continue
            one = self.people.cells(table, by, how, times=n, noise_factor=noise_factor)
            if one is not None:
                cells[table] = one
                # Sums of the same groups, from several tables, are known no better than exactly.
                of = table if how is not None and how.rest is not None else frozenset(table) - {by}
                alike.setdefault(of, []).append(table)
        merged = [
            replace(
                cells[tables[0]],
                n_tables=len(tables),
                gain=sum(cells[table].gain for table in tables) / len(tables),
            )
            for tables in alike.values()
        ]
        n_people = self.people.n_people
        n_most = max(FEWEST, round(MOST_EXPOSED * n_people))
        snr, added = evolve(merged, n_people, before, n_most)
        by_table = {
            table: each / len(tables)
            for tables, each in zip(alike.values(), added, strict=True)
            for table in tables
        }
        order = np.argsort(-snr, kind="stable")
        guessed = np.append(right(snr[order]), 0.5)  # chance, of nobody

        def top(share: float) -> FloatArray:
            return guessed[: max(FEWEST, round(share * n_people))][: max(n_people, 1)]

        most, fewest = top(MOST_EXPOSED), top(0.0)
        if fewest.mean() - ALLOWANCE > most.mean():
            most = fewest
        allowed = ALLOWANCE if most is fewest else 0.0
        is_top = np.zeros(n_people, dtype=bool)
        is_top[order[: len(most)]] = True
        return ColumnExposure(
            column=column,
            most=float(most.mean()) - allowed,
            of_1=float(top(0.01).mean()),
            of_5=float(top(0.05).mean()),
            of_all=float(top(1.0).mean()),
            error=_sampling_error(most, len(most) / max(n_people, 1), self.people.share),
            snr=float(snr[is_top].mean()) if n_people else 0.0,
            figures=sum(_figures(one, is_top) for one in cells.values()),
            by={table: float(each[is_top].mean()) for table, each in by_table.items()},
        )


def _through(
    table: ColumnSet, column: str, shared: SharedSecret
) -> tuple[str | None, Split | None]:
    """The column of a table that reveals a secret of another, and how; None: none does."""
    if column in table:
        return column, shared.own
    like = [name for name in table if name in shared.proxies]
    by = max(like, key=lambda name: (shared.proxies[name].gain, name), default=None)
    return by, None if by is None else shared.proxies[by]


def _sampling_error(guessed: FloatArray, share: float, sampled: float) -> float:
    """Standard error of the mean of the largest values of a sample, by their share of it (expected shortfall).

    guessed: These values, descending; sampled: the share of people that was sampled.
    """
    if sampled >= 1 or not len(guessed):
        return 0.0
    variance = guessed.var() + (1 - share) * (guessed.mean() - guessed[-1]) ** 2
    return math.sqrt(variance * (1 - sampled) / len(guessed))


def _figures(cells: Cells, among: BoolArray) -> float:
    """Noisy figures a person, of some people, about those who share a cell with each: two a cell."""
    at = among[cells.person]
    people = np.bincount(cells.cell, minlength=len(cells.larger)) * cells.larger
    return float((2 * cells.share[at] / people[cells.cell[at]]).sum() / max(among.sum(), 1))
