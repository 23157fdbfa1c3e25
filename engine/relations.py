"""Columns that determine each other: which tables need no measurement of their own.

A column (the finer) determines another (the coarser) if rows that agree in the finer agree in the coarser too. Then a
table of both holds nothing that the table without the coarser does not; and of two columns that determine each other,
copies, one stands for both. What is left of a column set is its base: only bases are measured and locked, so that no
table shows the same people again under fresh noise. Public: it is made from released buckets.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass
from functools import cached_property
from itertools import combinations

from engine.schema import MAX_WIDTH, ColumnSet, Int64Array


@dataclass(frozen=True, kw_only=True, eq=False)
class Relation:
    """One column tells another."""

    finer: str
    coarser: str
    # shape (n_values,): Codes of the finer column's released values (as in `engine.schema`, null and other
    # included), ascending.
    of: Int64Array
    to: Int64Array  # shape (n_values,): The coarser column's code for each
    # The coarser column determines the finer one too: its tables are those of the finer, relabelled.
    is_copy: bool = False


@dataclass(frozen=True, kw_only=True, eq=False)
class Relations:
    """All relations of a release.

    relations: Closed: what a determined column determines in turn is among them. A copy is the coarser column
        of one relation, with the column that stands for it, and of no other.
    """

    relations: tuple[Relation, ...] = ()

    @cached_property
    def copies(self) -> dict[str, Relation]:
        """By copy: its relation to the column that stands for it."""
        return {one.coarser: one for one in self.relations if one.is_copy}

    @cached_property
    def coarser(self) -> dict[str, dict[str, Relation]]:
        """By finer column: what it determines, copies left out."""
        out: dict[str, dict[str, Relation]] = {}
        for one in self.relations:
            if not one.is_copy:
                out.setdefault(one.finer, {})[one.coarser] = one
        return out

    def base(self, columns: ColumnSet) -> ColumnSet:
        """The column set without what the others in it tell, copies replaced by what stands for them."""
        names = {self.copies[name].finer if name in self.copies else name for name in columns}
        told = {c for name in names for c in self.coarser.get(name, {})}
        return tuple(sorted(names - told))

    def source(self, name: str, base: ColumnSet) -> Relation | None:
        """What tells a column of a table from the columns of its base; None: it is one of them."""
        if name in base:
            return None
        if name in self.copies and self.copies[name].finer in base:
            return self.copies[name]
        # A copy of a coarser column is told by the finer, too: the relations are closed.
        return next(
            self.coarser[finer][name] for finer in base if name in self.coarser.get(finer, {})
        )

    def coarsened(self, base: ColumnSet) -> tuple[tuple[Relation, ColumnSet], ...]:
        """The tables that a base table's sums must equal: one of its columns replaced by the next coarser one."""
        out = []
        for name in base:
            for one in self.next_coarser(name).values():
                columns = tuple(sorted({*base, one.coarser} - {name}))
                if self.base(columns) == columns:
                    out.append((one, columns))
        return tuple(out)

    def next_coarser(self, name: str) -> dict[str, Relation]:
        """What a column determines, without copies and what follows from others."""
        told = self.coarser.get(name, {})
        further = {c for other in told for c in self.coarser.get(other, {})}
        return {c: one for c, one in told.items() if c not in further and c not in self.copies}

    def needed(self, published: Iterable[ColumnSet]) -> tuple[ColumnSet, ...]:
        """Base tables of two and more columns, of published tables and of all that these are locked to.

        A table whose base is wider than `MAX_WIDTH` is modelled: its pairs are needed, not itself.
        """
        needed: set[ColumnSet] = set()
        bases = {base for columns in published if len(base := self.base(columns)) > 1}
        wide = {base for base in bases if len(base) > MAX_WIDTH}
        frontier = (bases - wide) | {pair for base in wide for pair in combinations(base, 2)}
        while frontier:
            needed |= frontier
            locked_to = {
                sub
                for columns in frontier
                for sub in (
                    *(combinations(columns, len(columns) - 1) if len(columns) > 2 else ()),
                    *(coarse for _, coarse in self.coarsened(columns)),
                )
            }
            frontier = locked_to - needed
        return tuple(sorted(needed, key=lambda s: (len(s), sum(map(self._rank, s)), s)))

    def left(
        self, published: Iterable[ColumnSet], finished: Collection[ColumnSet]
    ) -> tuple[ColumnSet, ...]:
        """The same for the tables that are not finished; what is inside a modelled one is needed again for its fit."""
        tables = tuple(published)
        unfinished = [columns for columns in tables if columns not in finished]
        wide = [{*columns} for columns in unfinished if len(self.base(columns)) > MAX_WIDTH]
        again = [
            columns
            for columns in (self.needed(tables) if wide else ())
            if any(names.issuperset(columns) for names in wide)
        ]
        return self.needed([*unfinished, *again])

    def _rank(self, name: str) -> int:
        """How many columns it tells: a coarser one tells fewer, for what it tells the finer tells too."""
        return len(self.coarser.get(name, {}))


NO_RELATIONS = Relations()
