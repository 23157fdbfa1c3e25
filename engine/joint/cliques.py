"""Junction trees: from the column sets of margins to the cliques that hold them all.

The margins' columns make a graph; it is triangulated by eliminating columns one by one, and its maximal cliques are
joined to a tree. Public sizes only; no counts.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from math import prod

from engine.schema import ColumnSet

Neighbours = dict[str, set[str]]
Rule = Callable[[str, Neighbours], int]


@dataclass(frozen=True, kw_only=True, slots=True)
class JunctionTree:
    """Cliques of columns; those that hold a column are connected through others that hold it.

    Attributes
    ----------
    cliques : tuple of ColumnSet
        A clique comes after its parent.
    parent : tuple of int
        Place of each clique's parent; -1 for the first.
    separators : tuple of ColumnSet
        Columns that each clique shares with its parent.
    cells : int
        Of all cliques' tables together.
    """

    cliques: tuple[ColumnSet, ...]
    parent: tuple[int, ...]
    separators: tuple[ColumnSet, ...]
    cells: int

    def children(self, place: int) -> tuple[int, ...]:
        """Places of a clique's children."""
        return tuple(k for k, parent in enumerate(self.parent) if parent == place)

    def home(self, columns: ColumnSet) -> int:
        """Place of the smallest clique, in columns, that holds the columns."""
        places = [k for k, clique in enumerate(self.cliques) if set(columns) <= set(clique)]
        return min(places, key=lambda k: len(self.cliques[k]))


def junction_tree(column_sets: Sequence[ColumnSet], sizes: Mapping[str, int]) -> JunctionTree:
    """Make a junction tree with few cells: columns are eliminated by two greedy rules, and the better one counts.

    Parameters
    ----------
    column_sets : sequence of ColumnSet
        Each ends up inside a clique; at least one column among them.
    sizes : mapping of str to int

    Returns
    -------
    JunctionTree
        A spanning tree of the cliques with the largest separators. Parts that share no column are joined by an empty
        separator.

    References
    ----------
    Kjaerulff 1992, doi:10.1007/BF01889704 (elimination by least fill and by least weight); Jensen and Jensen 1994
    (the spanning tree).
    """
    graph: Neighbours = {name: set() for columns in column_sets for name in columns}
    for columns in column_sets:
        for name in columns:
            graph[name] |= {*columns} - {name}

    def weight(name: str, left: Neighbours) -> int:
        return prod(sizes[other] for other in left[name]) * sizes[name]

    def fill(name: str, left: Neighbours) -> int:
        return sum(b not in left[a] for a, b in combinations(sorted(left[name]), 2))

    found = [_cliques(graph, rules) for rules in ((weight, fill), (fill, weight))]
    cliques = min(found, key=lambda many: _cells(many, sizes))
    return _spanning(cliques, sizes)


def _cells(cliques: Sequence[ColumnSet], sizes: Mapping[str, int]) -> int:
    return sum(prod(sizes[name] for name in clique) for clique in cliques)


def _cliques(graph: Neighbours, rules: Sequence[Rule]) -> list[ColumnSet]:
    """Maximal cliques once all columns are eliminated one after the other, the least by the rules first."""
    left = {name: set(others) for name, others in graph.items()}
    cliques: list[set[str]] = []
    while left:
        name = min(sorted(left), key=lambda name: tuple(rule(name, left) for rule in rules))
        others = left.pop(name)
        if not any(others | {name} <= clique for clique in cliques):
            cliques.append(others | {name})
        for other in others:
            left[other] |= others - {other}
            left[other].discard(name)
    return [tuple(sorted(clique)) for clique in cliques]


def _spanning(cliques: list[ColumnSet], sizes: Mapping[str, int]) -> JunctionTree:
    """Join each next clique where it shares the most columns with one that is in the tree."""
    order, parent = [0], [-1]
    separators: list[ColumnSet] = [()]
    left = set(range(1, len(cliques)))

    def shared(pair: tuple[int, int]) -> ColumnSet:
        return tuple(name for name in cliques[pair[1]] if name in cliques[pair[0]])

    while left:
        pairs = [(inside, outside) for inside in order for outside in sorted(left)]
        best = max(pairs, key=lambda pair: (len(shared(pair)), -pair[1]))
        parent.append(order.index(best[0]))
        separators.append(shared(best))
        order.append(best[1])
        left.discard(best[1])
    return JunctionTree(
        cliques=tuple(cliques[k] for k in order),
        parent=tuple(parent),
        separators=tuple(separators),
        cells=_cells(cliques, sizes),
    )
