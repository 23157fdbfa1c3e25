"""Iterative proportional fitting on a junction tree: when the table is too large, but its margins' cliques are not.

Targets and a junction tree in; the fitted tables of its cliques, and rows drawn from them, out. The fitted distribution
is the product of the cliques' tables over that of their separators', so only cliques are stored: the same result as
fitting the full table. Jirousek and Preucil 1995, doi:10.1016/0167-9473(93)E0055-9.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from math import prod

import numpy as np
from numpy.typing import NDArray

from engine.errors import SpecError
from engine.fit.joint.dense import (
    NOTHING_POSSIBLE,
    Block,
    aligned,
    blocks_of,
    farthest,
    multiply,
    rake_table,
    ratio,
    seed,
    summed,
)
from engine.fit.joint.sampling import sampled
from engine.fit.joint.target import FitReport, Target, run_cycles
from engine.levels import StructuralZero
from engine.params import Sample
from engine.schema import ColumnSet, FloatArray, Int64Array

Neighbours = dict[str, set[str]]
Rule = Callable[[str, Neighbours], int]


@dataclass(frozen=True, kw_only=True, slots=True)
class JunctionTree:
    """Cliques of columns; those that hold a column are connected through others that hold it."""

    cliques: tuple[ColumnSet, ...]  # A clique comes after its parent
    parent: tuple[int, ...]  # Place of each clique's parent; -1 for the first
    separators: tuple[ColumnSet, ...]  # Columns that each clique shares with its parent
    cells: int  # Of all cliques' tables together

    def children(self, place: int) -> tuple[int, ...]:
        """Places of a clique's children."""
        return tuple(k for k, parent in enumerate(self.parent) if parent == place)

    def home(self, columns: ColumnSet) -> int:
        """Place of the smallest clique, in columns, that holds the columns."""
        places = [k for k, clique in enumerate(self.cliques) if set(columns) <= set(clique)]
        return min(places, key=lambda k: len(self.cliques[k]))


def junction_tree(column_sets: Sequence[ColumnSet], sizes: Mapping[str, int]) -> JunctionTree:
    """Make a junction tree with few cells: columns are eliminated by two greedy rules, and the better one counts.

    column_sets: Each ends up inside a clique; at least one column among them.

    Returns: A spanning tree of the cliques with the largest separators. Parts that share no column are joined
    by an empty separator.

    Source: Kjaerulff 1992, doi:10.1007/BF01889704 (elimination by least fill and by least weight); Jensen and
    Jensen 1994
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

    eliminations = [_cliques(graph, rules) for rules in ((weight, fill), (fill, weight))]
    cliques = min(eliminations, key=lambda many: _cells(many, sizes))
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


def fit_junction_tree(
    targets: Sequence[Target],
    tree: JunctionTree,
    sizes: Mapping[str, int],
    *,
    zeros: Sequence[StructuralZero] = (),
    max_cycles: int = 200,
    tolerance: float = 1e-4,
) -> tuple[tuple[FloatArray, ...], FitReport]:
    """Fit the cliques' tables."""
    total = float(targets[0].n.sum())
    homes = [tree.home(target.columns) for target in targets]
    inside = [[k for k, home in enumerate(homes) if home == c] for c in range(len(tree.cliques))]
    work = []
    for place, clique in enumerate(tree.cliques):
        here = [targets[k] for k in inside[place]]
        block = blocks_of(clique, [target.columns for target in here], sizes)
        work.append((block, aligned(here, clique)))
    tables = _start(tree, sizes, zeros)

    def visit(place: int) -> float:
        error = rake_table(tables[place], *work[place])
        for child in tree.children(place):
            _pass_message(tree, tables, place, child)
            error = max(error, visit(child))
            _pass_message(tree, tables, child, place)
        return error

    cycles, at_rest = run_cycles(
        lambda: visit(0) / max(total, 1e-300), max_cycles=max_cycles, tolerance=tolerance
    )
    if not tables[0].any():  # no target can be met anywhere: what is possible, all alike
        tables[:] = _start(tree, sizes, zeros)
    _pass_all(tree, tables)
    error = _finish(tables, work, total)
    return tuple(tables), FitReport(
        how="junction tree",
        cycles=cycles,
        error=error,
        converged=error <= tolerance,
        at_rest=at_rest,
    )


def _start(
    tree: JunctionTree, sizes: Mapping[str, int], zeros: Sequence[StructuralZero]
) -> list[FloatArray]:
    """Tables of the distribution that is even over all possible combinations."""
    homes = [tree.home(zero.columns) for zero in zeros]
    tables = []
    for place, clique in enumerate(tree.cliques):
        here = [zero for zero, home in zip(zeros, homes, strict=True) if home == place]
        table = seed(clique, sizes, here).astype(np.float64)
        tables.append(table / prod(table.shape))
    for place in range(len(tables) - 1, 0, -1):
        # Not yet tables of one distribution: each takes in the sums of what lies beyond it.
        up = summed(tables[place], _shared_axes(tree, place, place))
        multiply(
            tables[tree.parent[place]],
            up / (up.max() or 1.0),
            _shared_axes(tree, tree.parent[place], place),
        )
    if not tables[0].any():
        raise SpecError(NOTHING_POSSIBLE)
    _pass_all(tree, tables)
    return tables


def _pass_all(tree: JunctionTree, tables: list[FloatArray]) -> None:
    """Make all cliques agree with the first."""
    for place in range(1, len(tables)):
        _pass_message(tree, tables, tree.parent[place], place)


def _pass_message(tree: JunctionTree, tables: list[FloatArray], here: int, there: int) -> None:
    """Bring a neighbour's table to this one's sums over their separator."""
    child = there if tree.parent[there] == here else here
    axes = _shared_axes(tree, there, child)
    new = summed(tables[here], _shared_axes(tree, here, child))
    multiply(tables[there], ratio(new, summed(tables[there], axes)), axes)


def _shared_axes(tree: JunctionTree, place: int, child: int) -> tuple[bool, ...]:
    """Axes of a clique that are in the separator between a child and its parent."""
    return tuple(name in tree.separators[child] for name in tree.cliques[place])


def _finish(
    tables: list[FloatArray], work: Sequence[tuple[Block, tuple[FloatArray, ...]]], total: float
) -> float:
    """Scale all tables to the total, in place; give the error as a share."""
    for table in tables:
        table *= total / max(float(table.sum()), 1e-300)
    errors = [farthest(table, *here) for table, here in zip(tables, work, strict=True)]
    return max(errors) / max(total, 1e-300)


def sample_tree(
    tables: Sequence[FloatArray],
    tree: JunctionTree,
    columns: ColumnSet,
    n: int,
    method: Sample,
    rng: np.random.Generator,
) -> NDArray[np.int32]:
    """Draw rows: the first clique, then the rest of each next clique given its separator.

    method: "rounded": the counts of each clique, given the counts of its separator, are their expectations
        rounded up or down, and which rows get them is drawn at random. "multinomial": independent rows.
    """
    rows = np.zeros((n, len(columns)), dtype=np.int32)
    if not n:
        return rows
    first = sampled(tables[0], n, method, rng)
    _put(
        rows, columns, tree.cliques[0], np.repeat(np.arange(first.size), first.ravel()), first.shape
    )
    for place in range(1, len(tables)):
        separator = tree.separators[place]
        axes = _shared_axes(tree, place, place)
        free = tuple(name for name in tree.cliques[place] if name not in separator)
        table, clique = tables[place], tree.cliques[place]
        order = [clique.index(name) for name in (*separator, *free)]
        shape = np.transpose(table, order).shape
        groups = prod(n for n, stays in zip(table.shape, axes, strict=True) if stays)
        expected = np.transpose(table, order).reshape(groups, -1)
        code = _code(rows, columns, separator, shape[: len(separator)])
        n_rows = np.bincount(code, minlength=groups)
        count = _sampled_within(expected, n_rows, method, rng)
        mixed = rng.permutation(n)
        by_group = mixed[np.argsort(code[mixed], kind="stable")]
        codes = np.empty(n, dtype=np.int64)
        inner = np.tile(np.arange(expected.shape[1]), groups)
        codes[by_group] = np.repeat(inner, count.ravel())
        _put(rows, columns, free, codes, shape[len(separator) :])
    return rows


def _sampled_within(
    expected: FloatArray, n_rows: Int64Array, method: Sample, rng: np.random.Generator
) -> Int64Array:
    """Counts of every group, shape (n_groups, n_codes), that sum to the rows it holds."""
    sums = expected.sum(axis=1, keepdims=True)
    share = np.where(sums > 0, expected, 1.0)
    share /= share.sum(axis=1, keepdims=True)
    if method == "multinomial":
        drawn: Int64Array = rng.multinomial(n_rows, share)
        return drawn
    reached = np.cumsum(share, axis=1) * n_rows[:, None]
    # From the last code with a share on, all rows are given out: floats do not sum to exactly that.
    last = share.shape[1] - 1 - np.argmax(share[:, ::-1] > 0, axis=1)
    reached = np.where(np.arange(share.shape[1]) >= last[:, None], n_rows[:, None], reached)
    marks = np.floor(np.minimum(reached, n_rows[:, None]) + rng.random((len(n_rows), 1)))
    counts: Int64Array = np.diff(marks, axis=1, prepend=0.0).astype(np.int64)
    return counts


def _code(
    rows: NDArray[np.int32], columns: ColumnSet, shared: ColumnSet, shape: tuple[int, ...]
) -> NDArray[np.intp]:
    """Cell of each row in the table of some columns."""
    if not shared:
        return np.zeros(len(rows), dtype=np.intp)
    picked = tuple(rows[:, columns.index(name)] for name in shared)
    code: NDArray[np.intp] = np.ravel_multi_index(picked, shape)
    return code


def _put(
    rows: NDArray[np.int32],
    columns: ColumnSet,
    names: ColumnSet,
    code: Int64Array,
    shape: tuple[int, ...],
) -> None:
    """Write the level indexes that codes stand for into the rows' columns."""
    for name, index in zip(names, np.unravel_index(code, shape), strict=True):
        rows[:, columns.index(name)] = index
