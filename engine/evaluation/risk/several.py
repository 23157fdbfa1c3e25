"""Guessing a value from several released tables at once: each tells it from some of the known columns.

Takes a `Paired`, people, and a column; gives for each person a value and how sure it is. The tables are joined as a
tree: each that adds known columns is read given what it shares with one before (Chow and Liu 1968,
doi:10.1109/TIT.1968.1054142; with one shared column, the tree-augmented naive Bayes of Friedman, Geiger and Goldszmidt
1997, doi:10.1023/A:1007465528199). Invariant: only the released tables are read, and of people only the known columns.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from engine.evaluation.data.paired import Coded, Numbers, Paired, covering
from engine.evaluation.risk.records import row_ids
from engine.schema import ColumnSet, column_set

Floats = NDArray[np.float64]
MOST_VALUES = 100
"""Values of a column that are told apart in guessing; a rarer one is guessed only where all who agree have it."""
BACK_OFF = 1.0
"""Records' worth of what is known without a table that each of its cells is mixed with."""


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class Guess:
    """What is guessed about people."""

    code: Numbers  # shape (n_people,): Of the guessed value
    confidence: Floats  # shape (n_people,): Probability that the attacker gives it, 0 to 1
    read: tuple[ColumnSet, ...]  # Tables that were read, those that tell most first


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class Chances:
    """How likely each value is for each person."""

    values: Numbers  # shape (n_values,): Codes, in order
    worth: Floats  # shape (n_people, n_values): Probabilities; each row adds up to 1
    read: tuple[ColumnSet, ...]  # As in `Guess`


@dataclass(frozen=True, kw_only=True, slots=True)
class _Link:
    """A step of the tree: columns of a table with the target, and those of them known from an earlier step."""

    columns: ColumnSet
    shared: ColumnSet


def guess(paired: Paired, people: Coded, target: str, known: Collection[str]) -> Guess | None:
    """Guess a column of people by all tables that hold it and some of the known columns.

    paired: Its tables are read; the original is not.

    Returns: None: no table holds the column and a known one, or those that do have no rows.
    """
    found = chances(paired, people, target, known)
    if found is None:
        return None
    at = found.worth.argmax(axis=1)
    confidence = found.worth[np.arange(len(at)), at]
    return Guess(code=found.values[at], confidence=confidence, read=found.read)


def chances(paired: Paired, people: Coded, target: str, known: Collection[str]) -> Chances | None:
    """Return how likely each value of a column is for each person; arguments and None as of `guess`."""
    whole = covering(paired, [target])
    sets = known_sets(paired, target, [c for c in known if c in people.codes and c != target])
    if whole is None or whole.total == 0 or not sets:
        return None
    values = common_values(whole, target)
    prior = _shares(whole, target, values)
    links = _tree(paired, target, sets)
    logs = np.broadcast_to(np.log(prior), (len(people.n), len(values)))
    for link in links:
        # A table that shows nobody of a kind says no more than what it shares with one before.
        before = _share_among(paired, people, target, link.shared, values, prior)
        after = _share_among(paired, people, target, link.columns, values, before)
        logs = logs + np.log(after / before)
    worth = np.exp(logs - logs.max(axis=1, keepdims=True))
    worth /= worth.sum(axis=1, keepdims=True)
    return Chances(values=values, worth=worth, read=tuple(link.columns for link in links))


def known_sets(paired: Paired, target: str, known: Collection[str]) -> list[ColumnSet]:
    """Return the sets of known columns that a table with rows holds together with the target; only the largest ones."""
    wanted = set(known)
    sets = {
        frozenset(wanted & set(columns))
        for columns, table in paired.tables.items()
        if target in columns and table.total
    } - {frozenset()}
    return sorted(column_set(list(s)) for s in sets if not any(s < other for other in sets))


def common_values(table: Coded, target: str) -> Numbers:
    """Return the codes of the most frequent values of a column, in order."""
    count = np.bincount(table.codes[target], table.n.astype(np.float64))
    at = np.argsort(-count, kind="stable")[:MOST_VALUES]
    return np.sort(at[count[at] > 0])


def sharpened(
    prior: Floats, values: Numbers, cells: tuple[Numbers, Numbers], codes: Numbers, n: Numbers
) -> tuple[Numbers, Floats]:
    """Mix what a model expects of people with the records that agree with them in all that is known.

    A person whom n records agree with has for each value (their number with it + `BACK_OFF` x its prior) / (n +
    `BACK_OFF`). Values that the model does not know are guessed where enough of the agreeing records have them.
    """
    person, row = cells
    _, person, inside, row = _of_people(person, row)
    codes, weight = codes[inside], n[inside].astype(np.float64)
    size = int(person.max(initial=-1)) + 1
    number = np.bincount(row, weight, minlength=size)
    at, common = _place(values, codes)
    count = _table(row[common], at[common], weight[common], (size, len(values)))
    worth = (count[person] + BACK_OFF * prior) / (number[person] + BACK_OFF)[:, None]
    chosen = worth.argmax(axis=1)
    code, confidence = values[chosen], worth[np.arange(len(chosen)), chosen]
    rare, most = _most(row[~common], codes[~common], weight[~common], size)
    other = most[person] / (number[person] + BACK_OFF)
    return np.where(other > confidence, rare[person], code), np.maximum(other, confidence)


def _shares(table: Coded, target: str, values: Numbers) -> Floats:
    """Share of each of the values among them, none of which is zero."""
    at, common = _place(values, table.codes[target])
    count = np.bincount(at[common], table.n[common].astype(np.float64), minlength=len(values))
    return np.asarray((count + 1 / len(values)) / (count.sum() + 1), np.float64)


def _share_among(
    paired: Paired,
    people: Coded,
    target: str,
    columns: ColumnSet,
    values: Numbers,
    before: Floats,
) -> Floats:
    """Share of each value among those who are like a person in some columns; rare kinds are mixed with what is known.

    before: Shares without these columns.
    """
    table = covering(paired, {*columns, target})
    known = np.broadcast_to(before, (len(people.n), len(values)))
    if table is None or not columns:
        return known
    cells, person, inside, row = _of_people(*row_ids(paired, [people, table], columns))
    at, common = _place(values, table.codes[target][inside])
    n = table.n[inside].astype(np.float64)
    count = _table(row[common], at[common], n[common], (len(cells), len(values)))
    number = count.sum(axis=1, keepdims=True)
    return np.asarray((count[person] + BACK_OFF * known) / (number[person] + BACK_OFF), np.float64)


def _tree(paired: Paired, target: str, sets: list[ColumnSet]) -> list[_Link]:
    """Order the sets: next comes the one that tells most of the target beyond what it shares with one before."""
    gain = _Gains(paired=paired, target=target)
    links: list[_Link] = []
    open_sets = list(sets)
    while open_sets:
        covered = {c for link in links for c in link.columns}
        options = [
            (gain.of(columns) - gain.of(shared), _Link(columns=columns, shared=shared))
            for columns in open_sets
            for shared in [_shared(columns, links)]
            # What it has in common with others must be in one of them, else it would be counted twice.
            if set(shared) == set(columns) & covered and set(columns) - covered
        ]
        worth, link = max(options, key=lambda option: option[0], default=(0.0, None))
        if link is None or worth <= 0:
            break
        links.append(link)
        open_sets.remove(link.columns)
    return links


def _shared(columns: ColumnSet, links: Iterable[_Link]) -> ColumnSet:
    """Largest part of some columns that one earlier step tells."""
    parts = [[c for c in columns if c in link.columns] for link in links]
    return column_set(max(parts, key=lambda part: len(part), default=[]))


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class _Gains:
    """Mutual information of the target and sets of columns, less what a table of its size has by chance."""

    paired: Paired
    target: str
    known: dict[ColumnSet, float] = field(default_factory=dict)

    def of(self, columns: ColumnSet) -> float:
        """Mutual information of the target and some columns, in nats; 0 for none."""
        if columns not in self.known:
            self.known[columns] = self._reckoned(columns)
        return self.known[columns]

    def _reckoned(self, columns: ColumnSet) -> float:
        """The same, reckoned."""
        table = covering(self.paired, {*columns, self.target})
        if not columns or table is None or table.total == 0:
            return 0.0
        (cell,) = row_ids(self.paired, [table], columns)
        (both,) = row_ids(self.paired, [table], (*columns, self.target))
        alone = table.codes[self.target].astype(np.int64)
        entropies = [_entropy(part, table.n) for part in (alone, cell, both)]
        by_chance = (entropies[2][1] - entropies[0][1] - entropies[1][1] + 1) / (2 * table.total)
        return entropies[0][0] + entropies[1][0] - entropies[2][0] - by_chance


def _entropy(ids: Numbers, n: Numbers) -> tuple[float, int]:
    """Entropy of a column, in nats, and how many values there are."""
    count = np.bincount(ids, n.astype(np.float64))
    share = count[count > 0] / count.sum()
    return float(-(share * np.log(share)).sum()), len(share)


def _of_people(person: Numbers, row: Numbers) -> tuple[Numbers, Numbers, Numbers, Numbers]:
    """Cells that people are in, the cell of each person, and which rows are in one of them, and in which."""
    cells = np.flatnonzero(np.bincount(person))
    at, is_there = _place(cells, row)
    inside = np.flatnonzero(is_there)
    return cells, _place(cells, person)[0], inside, at[inside]


def _place(values: Numbers, codes: NDArray[np.integer]) -> tuple[Numbers, NDArray[np.bool_]]:
    """Place of each code in an ordered list, and whether it is there; codes are small numbers, from 0."""
    size = max(int(values.max(initial=-1)), int(codes.max(initial=-1))) + 1
    place = np.full(size, -1, np.int64)
    place[values] = np.arange(len(values))
    at = place[codes]
    return np.maximum(at, 0), at >= 0


def _table(row: Numbers, column: Numbers, n: Floats, shape: tuple[int, int]) -> Floats:
    """Sums of n by row and column."""
    flat = np.bincount(row * shape[1] + column, n, minlength=shape[0] * shape[1])
    return np.asarray(flat.reshape(shape), np.float64)


def _most(cell: Numbers, codes: Numbers, n: Floats, size: int) -> tuple[Numbers, Floats]:
    """Most frequent code of each cell and how often it is there; 0 times where there is none."""
    code, most = np.zeros(size, np.int64), np.zeros(size)
    if not len(codes):
        return code, most
    width = int(codes.max()) + 1
    pairs, at = np.unique(cell * width + codes, return_inverse=True)
    number = np.bincount(at.reshape(-1), n)
    order = np.argsort(number, kind="stable")  # the last one written wins: the most frequent
    cells = pairs[order] // width
    code[cells], most[cells] = pairs[order] % width, number[order]
    return code, most
