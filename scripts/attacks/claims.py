"""Attacks on cells that were not released: claiming that someone is there, and subtracting what was released.

Observers, as `attacks.tables`: published beside true. A place is the deepest released bucket that holds a cell.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from attacks.tables import magnitude, range_label, true_counts
from attacks.trials import Trial
from engine.ranges import levels_at
from engine.schema import BoolArray, ColumnSet, FloatArray, Int64Array, Measurement, Support


@dataclass(frozen=True, kw_only=True, slots=True)
class PairCells:
    """All combinations of two columns' codes: what is published, what is true, and where they lie.

    Attributes
    ----------
    codes : ndarray of int64, shape (n_cells, 2)
    n, truth : ndarray of int64, shape (n_cells,)
        Published and true count.
    guess : ndarray of float64, shape (n_cells,)
        n_a * n_b / N, from the published one-way tables alone.
    place : ndarray of int64, shape (n_cells,)
        Deepest released bucket that holds the cell, plus 1; 0 where none does.
    released : ndarray of bool, shape (n_cells,)
        The cell is itself a released bucket.
    """

    codes: Int64Array
    n: Int64Array
    truth: Int64Array
    guess: FloatArray
    place: Int64Array
    released: BoolArray


def cells_of_pair(trial: Trial, columns: ColumnSet) -> PairCells:
    """Both sides of a two-column table, cell by cell."""
    supports = [trial.supports[name] for name in columns]
    sizes = [len(support) for support in supports]
    codes = np.indices(sizes).reshape(2, -1).T.astype(np.int64)
    table = trial.tables[columns]
    n = np.zeros(len(codes), dtype=np.int64)
    n[table.codes[:, 0].astype(np.int64) * sizes[1] + table.codes[:, 1]] = table.n
    one_way = [support.n[codes[:, j]].astype(np.float64) for j, support in enumerate(supports)]
    place, released = _places(trial.measurements[columns], supports, codes)
    return PairCells(
        codes=codes,
        n=n,
        truth=true_counts(trial, columns, codes),
        guess=one_way[0] * one_way[1] / max(float(supports[0].n.sum()), 1.0),
        place=place,
        released=released,
    )


@dataclass(frozen=True, kw_only=True, slots=True)
class Claims:
    """Claims "someone is there" about cells that were not released, and how many of them are right.

    Attributes
    ----------
    claims, right : int
        Unreleased cells published as 1 or more; those in which someone is.
    ones, right_ones : int
        The same of those published as exactly 1.
    ranked, drawn : int
        Right ones among as many guesses in the same places: on the cells of the largest n_a * n_b / N there, and on
        cells drawn in proportion to it.
    anywhere : int
        Right ones among as many guesses on the unreleased cells of the largest n_a * n_b / N, wherever they lie:
        what the one-way tables say to someone who does not know the places.
    """

    claims: int
    right: int
    ones: int
    right_ones: int
    ranked: int
    drawn: int
    anywhere: int

    def precision(self, which: str = "right") -> float:
        """Share of right ones: of the release's claims, or of a baseline's guesses by its name."""
        return float(getattr(self, which)) / max(self.claims, 1)


def claims(cells: Sequence[PairCells], seed: int, *, looking: bool = False) -> Claims:
    """Score the claims of some two-column tables.

    Parameters
    ----------
    cells : sequence of PairCells
    seed : int
        Of the random baseline.
    looking : bool
        The positive control: as many claims in the same places, put where people are, as a fill that uses the true
        left-over would.
    """
    rng = np.random.default_rng(seed)
    total = np.zeros(7, dtype=np.int64)
    for table in cells:
        open_ = ~table.released
        n, place, guess = table.n[open_], table.place[open_], table.guess[open_]
        here, claimed = table.truth[open_] >= 1, n >= 1
        wanted = np.bincount(place[claimed], minlength=int(place.max(initial=0)) + 1)
        if looking:
            claimed = np.zeros(len(here), dtype=bool)
            claimed[_largest_of(place, table.truth[open_] + rng.random(len(here)), wanted)] = True
        # Sampling without replacement in proportion: the largest of log weight + Gumbel noise.
        drawn = np.log(np.maximum(guess, 1e-300)) + rng.gumbel(size=len(guess))
        chosen = (
            claimed,
            claimed & (n == 1),
            _largest_of(place, guess, wanted),
            _largest_of(place, drawn, wanted),
            np.argsort(-guess, kind="stable")[: claimed.sum()],
        )
        right, right_ones, ranked, by_chance, anywhere = (int(here[c].sum()) for c in chosen)
        ones = int(chosen[1].sum())
        total += (int(claimed.sum()), right, ones, right_ones, ranked, by_chance, anywhere)
    return Claims(**dict(zip(Claims.__slots__, total.tolist(), strict=True)))


def _largest_of(place: Int64Array, score: FloatArray, wanted: Int64Array) -> Int64Array:
    """Positions of the wanted[p] largest scores of each place p."""
    order = np.lexsort((-score, place))
    rank = np.arange(len(order)) - np.searchsorted(place[order], place[order])
    chosen: Int64Array = order[rank < wanted[place[order]]]
    return chosen


@dataclass(frozen=True, kw_only=True, slots=True)
class Complements:
    """What subtraction tells of the suppressed mass of a two-column table.

    Attributes
    ----------
    difference, filled : ndarray of int64, shape (n_values,)
        For each value of the first column: its published one-way count minus the published counts of its released
        cells; and what the release shows in its other cells.
    shown, measured, truth : ndarray of int64, shape (n_places,)
        For each place that holds unreleased cells: the rows published in them; the noisy count of the place minus
        those of its released children, before the fit; and the truth.
    """

    difference: Int64Array
    filled: Int64Array
    shown: Int64Array
    measured: Int64Array
    truth: Int64Array


def complements(trial: Trial, columns: ColumnSet) -> Complements:
    """Subtract what was released from what holds it, value by value and place by place."""
    cells, support = cells_of_pair(trial, columns), trial.supports[columns[0]]
    tree, open_ = trial.measurements[columns], ~cells.released
    of_value = np.bincount(cells.codes[:, 0], cells.n, len(support)).astype(np.int64)
    filled = np.bincount(cells.codes[open_, 0], cells.n[open_], len(support)).astype(np.int64)
    size = tree.n_nodes + 1
    held = np.unique(cells.place[open_])
    held = held[held > 0]
    children = np.bincount(tree.parent + 1, tree.n, size).astype(np.int64)
    shown, truth = (
        np.bincount(cells.place[open_], n[open_], size).astype(np.int64)[held]
        for n in (cells.n, cells.truth)
    )
    return Complements(
        difference=support.n - (of_value - filled),
        filled=filled,
        shown=shown,
        measured=tree.n[held - 1] - children[held],
        truth=truth,
    )


def _places(
    tree: Measurement, supports: Sequence[Support], codes: Int64Array
) -> tuple[Int64Array, BoolArray]:
    """Deepest released node of each cell plus 1, and whether the cell is it. Its own twin of the engine's."""
    place = np.zeros(len(codes), dtype=np.int64)
    tops = tuple(int(v) for v in tree.level.max(axis=0, initial=0))
    kinds = [a.kind[codes[:, j]] for j, a in enumerate(supports)]
    magnitudes = [magnitude(a)[codes[:, j]] for j, a in enumerate(supports)]
    for depth in range(len(tree.scale)):
        nodes = np.flatnonzero(tree.depth == depth)
        label = [np.zeros(len(nodes), dtype=np.int64), np.zeros(len(codes), dtype=np.int64)]
        for j, level in enumerate(levels_at(tops, depth)):
            both = np.concatenate(
                [
                    range_label(tree.kind[nodes, j], tree.index[nodes, j]),
                    range_label(kinds[j], magnitudes[j] >> level),
                ]
            )
            number = np.unique(both, return_inverse=True)[1]
            joined = np.concatenate(label) * (int(number.max(initial=0)) + 1) + number
            joined = np.unique(joined, return_inverse=True)[1]
            label = [joined[: len(nodes)], joined[len(nodes) :]]
        at = np.full(int(np.concatenate(label).max(initial=0)) + 1, -1, dtype=np.int64)
        at[label[0]] = nodes
        hit = at[label[1]]
        place = np.where(hit >= 0, hit + 1, place)
    released = (place > 0) & (tree.level[place - 1] == 0).all(axis=1)
    return place, released
