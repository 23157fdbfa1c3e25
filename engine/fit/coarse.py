"""Tables that the sums of a wider-grained one must equal: a column replaced by a coarser one that it tells.

Takes candidate cells and the published coarser tables; gives margins to rake and round to. Sees published tables only.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from engine.fit.candidates import Candidates, Codes, MarginBounds, Narrower, position_in
from engine.relations import Relation
from engine.schema import (
    BoolArray,
    ColumnSet,
    FloatArray,
    Int64Array,
    Support,
    SyntheticTable,
)


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class Coarse:
    """A coarser table, and how cells of the finer one are read in it."""

    table: Narrower
    # For each column of the coarser table, the finer table's column that says its code.
    at: tuple[int, ...]
    replaced: int  # Which of them is the coarser column
    told: Int64Array  # shape (n_values,): Code of the coarser column by that of the finer one

    def positions(self, codes: Codes) -> Int64Array:
        """Position of each cell in the coarser table, -1 where it has none."""
        read = codes[:, self.at]
        read[:, self.replaced] = self.told[read[:, self.replaced]]
        both = np.concatenate([self.table.codes, read]).max(axis=0, initial=0)
        return position_in(self.table, read, tuple(int(size) + 1 for size in both))

    def gap(self, codes: Codes, n: Int64Array) -> int:
        """Largest difference between sums of the finer table and the coarser one."""
        at = self.positions(codes)
        inside = at >= 0
        sums = np.bincount(at[inside], weights=n[inside], minlength=len(self.table.n))
        outside = int(n[~inside].max(initial=0))
        return max(int(np.abs(sums - self.table.n).max(initial=0)), outside)


def coarse_of(
    relation: Relation, columns: ColumnSet, told: Int64Array, table: SyntheticTable
) -> Coarse:
    """How a table of some columns is read in one where a relation's finer column is replaced."""
    names = [relation.finer if c == relation.coarser else c for c in table.columns]
    return Coarse(
        table=Narrower(codes=table.codes, n=table.n, measured=table.measured),
        at=tuple(columns.index(name) for name in names),
        replaced=names.index(relation.finer),
        told=told,
    )


def within(
    candidates: Candidates, coarse: tuple[Coarse, ...]
) -> tuple[Candidates, tuple[Int64Array, ...]]:
    """The candidates that every coarser table holds, and where.

    Returns: candidates; at: Position in each coarser table.
    """
    places = [one.positions(candidates.codes) for one in coarse]
    allowed: BoolArray = np.logical_and.reduce([place >= 0 for place in places])
    kept = Candidates(
        codes=candidates.codes[allowed],
        at=tuple(at[allowed] for at in candidates.at),
        last=candidates.last,
    )
    return kept, tuple(place[allowed] for place in places)


def loose_bounds(of: Int64Array, table: Narrower) -> MarginBounds:
    """A margin in which measured counts are met, and filled ones may be off by one."""
    slack = np.where(table.measured, 0, 1)
    return MarginBounds(of=of, low=np.maximum(table.n - slack, 0), high=table.n + slack)


def sharpened(
    weight: FloatArray,
    codes: Codes,
    supports: tuple[Support, ...],
    coarse: tuple[Coarse, ...],
    at: tuple[Int64Array, ...],
) -> FloatArray:
    """Weights of pairs, n_A n_B, made n_A n_CB / n_C where A tells C: maximum entropy given the coarser table."""
    for one, place in zip(coarse, at, strict=True):
        finer = one.at[one.replaced]
        (other,) = set(range(2)) - {finer}
        of_class = np.bincount(one.told, weights=supports[finer].n, minlength=1)
        pair = of_class[one.told[codes[:, finer]]] * supports[other].n[codes[:, other]]
        weight = weight * one.table.n[place] / pair
    return weight
