"""Functional dependencies between columns, and the tables that need no measurement of their own because of them.

A column (the finer) implies another (the coarser) if rows that agree in the finer agree in the coarser too. Then a
table of both contains nothing that the table without the coarser does not; and of two columns that imply each other
(one-to-one columns), one represents both. What is left of a column set is its base: only bases are measured and locked,
so that no table shows the same people again with fresh noise. Public, because it is made from released buckets.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass
from functools import cached_property
from itertools import combinations

from engine.schema import MAX_WIDTH, ColumnSet, Int64Array


@dataclass(frozen=True, kw_only=True, eq=False)
class Relation:
    """One column implies another."""

    finer: str
    coarser: str
    # shape (n_values,): Codes of the finer column's released values (as in `engine.schema`, including null and
    # other), ascending.
    of: Int64Array
    to: Int64Array  # shape (n_values,): The coarser column's code for each
    # One-to-one: the coarser column implies the finer one too, and its tables are those of the finer, relabelled.
    is_copy: bool = False


@dataclass(frozen=True, kw_only=True, eq=False)
class Relations:
    """All functional dependencies of a release.

    relations: Transitively closed. A one-to-one column is the coarser column of one relation only, with the column that
        represents it.
    chosen: Tables of three columns that modelled tables are fitted to besides pairs.
    """

    relations: tuple[Relation, ...] = ()
    chosen: tuple[ColumnSet, ...] = ()

    @cached_property
    def copies(self) -> dict[str, Relation]:
        """Relations of one-to-one columns to the columns that represent them, by name."""
        return {one.coarser: one for one in self.relations if one.is_copy}

    @cached_property
    def coarser(self) -> dict[str, dict[str, Relation]]:
        """Relations by finer and coarser column, without one-to-one columns."""
        out: dict[str, dict[str, Relation]] = {}
        for one in self.relations:
            if not one.is_copy:
                out.setdefault(one.finer, {})[one.coarser] = one
        return out

    def base(self, columns: ColumnSet) -> ColumnSet:
        """The column set without implied columns, one-to-one columns replaced by those that represent them."""
        names = {self.copies[name].finer if name in self.copies else name for name in columns}
        implied = {c for name in names for c in self.coarser.get(name, {})}
        return tuple(sorted(names - implied))

    def source(self, name: str, base: ColumnSet) -> Relation | None:
        """The relation that yields a column of a table from its base; None: the column is in the base."""
        if name in base:
            return None
        if name in self.copies and self.copies[name].finer in base:
            return self.copies[name]
        # A one-to-one column of a coarser one is implied by the finer, too: the relations are closed.
        return next(
            self.coarser[finer][name] for finer in base if name in self.coarser.get(finer, {})
        )

    def coarsened(self, base: ColumnSet) -> tuple[tuple[Relation, ColumnSet], ...]:
        """Tables that must equal sums of a base table: one of its columns replaced by the next coarser one."""
        out = []
        for name in base:
            for one in self.next_coarser(name).values():
                columns = tuple(sorted({*base, one.coarser} - {name}))
                if self.base(columns) == columns:
                    out.append((one, columns))
        return tuple(out)

    def next_coarser(self, name: str) -> dict[str, Relation]:
        """Relations to the columns that a column implies directly, without one-to-one columns."""
        implied = self.coarser.get(name, {})
        further = {c for other in implied for c in self.coarser.get(other, {})}
        return {c: one for c, one in implied.items() if c not in further and c not in self.copies}

    def needed(self, published: Iterable[ColumnSet]) -> tuple[ColumnSet, ...]:
        """Base tables of at least two columns, of published tables and of all tables that these are locked to.

        A table whose base is wider than `MAX_WIDTH` is modelled: its pairs are needed instead, and what was chosen.
        """
        needed: set[ColumnSet] = set()
        bases = {base for columns in published if len(base := self.base(columns)) > 1}
        wide = {base for base in bases if len(base) > MAX_WIDTH}
        frontier = (bases - wide) | {pair for base in wide for pair in combinations(base, 2)}
        frontier |= {one for one in self.chosen if any({*one} <= {*base} for base in wide)}
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
        """The same for unfinished tables; tables inside a modelled one are needed again for its fit."""
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
        """Number of columns that it implies: fewer for a coarser column."""
        return len(self.coarser.get(name, {}))


NO_RELATIONS = Relations()
