"""Iterative proportional fitting on the cliques of a junction tree, and rows drawn from what is fitted.

Targets, structural zeros and a junction tree in; the fitted tables of its cliques, and rows, out. The fitted
distribution is the product of the cliques' tables over that of their separators', so only cliques are stored: the same
result as fitting the table of all columns (Jirousek and Preucil 1995, doi:10.1016/0167-9473(93)E0055-9), which is a
tree of one clique. Deming and Stephan 1940, doi:10.1214/aoms/1177731829. The start is 1 in every possible cell and 0 in
impossible ones, so the result is the distribution of largest entropy among those that meet the targets (Csiszar 1975,
doi:10.1214/aop/1176996454). Sums of 0 stay 0: what a target wants there is part of the error.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import combinations
from math import log, prod

import numpy as np
from numpy.typing import NDArray

from engine.errors import InternalError, SpecError
from engine.fit.joint.margins import FitReport, Target, possible_cells, run_cycles
from engine.kernels import Whole, kernel, part
from engine.levels import StructuralZero
from engine.params import Sample
from engine.schema import ColumnSet, FloatArray, Int64Array

# One table: blocks of columns, so that most margins are raked on a sum of the table that is much smaller.


SHRINK = 8
"""A block's table is at most this part of the table it is summed from."""
SMALL = 4096
"""Cells of a table that is not worth blocks."""
MOST = 1e30
"""Largest factor: a sum that is all but 0 cannot be raised in one step."""
NOTHING_POSSIBLE = "the structural zeros (universes and dp.zeros) leave no possible combination"


@dataclass(frozen=True, kw_only=True, slots=True)
class Block:
    """Columns, and what is raked on their table."""

    columns: ColumnSet  # In the order of the table's axes
    parts: tuple[Block, ...]  # Raked first, in this order
    targets: tuple[int, ...]  # Places of the targets with just these columns; raked last


def blocks_of(columns: ColumnSet, margins: Sequence[ColumnSet], sizes: Mapping[str, int]) -> Block:
    """Pack margins into a tree of blocks."""
    return _packed(columns, tuple(enumerate(margins)), sizes)


def raking_order(block: Block) -> tuple[int, ...]:
    """Places of the targets in the order in which one cycle rakes to them."""
    inner = tuple(place for part in block.parts for place in raking_order(part))
    return inner + block.targets


def axes_together(block: Block, sizes: Mapping[str, int]) -> ColumnSet:
    """The columns in an order that keeps those side by side which the same blocks sum over; the largest runs last."""
    runs: dict[tuple[bool, ...], list[str]] = {}
    for name in block.columns:
        runs.setdefault(tuple(name in inner.columns for inner in block.parts), []).append(name)
    by_size = sorted(runs.values(), key=lambda run: prod(sizes[name] for name in run))
    return tuple(name for run in by_size for name in run)


def _packed(
    columns: ColumnSet, margins: tuple[tuple[int, ColumnSet], ...], sizes: Mapping[str, int]
) -> Block:
    own = tuple(place for place, margin in margins if set(margin) == set(columns))
    rest = tuple((place, margin) for place, margin in margins if place not in set(own))
    cells = prod(sizes[name] for name in columns)
    groups = [[k] for k in range(len(rest))]
    if cells > SMALL:
        groups = _groups([margin for _, margin in rest], sizes, cells // SHRINK)
    parts = []
    for group in groups:
        named = {name for k in group for name in rest[k][1]}
        inside = tuple(name for name in columns if name in named)
        parts.append(_packed(inside, tuple(rest[k] for k in group), sizes))
    return Block(columns=columns, parts=tuple(parts), targets=own)


def _groups(margins: list[ColumnSet], sizes: Mapping[str, int], limit: int) -> list[list[int]]:
    """Share margins out to groups whose union has few cells: grow each by the margin that enlarges it least."""
    names = sorted({name for margin in margins for name in margin})
    holds = np.array([[name in margin for name in names] for margin in margins], dtype=bool)
    logs = np.array([log(sizes[name]) for name in names])
    cells = holds @ logs
    most = log(max(limit, 1)) + 1e-9
    left = np.ones(len(margins), dtype=bool)
    groups = []
    while left.any():
        start = int(np.argmax(np.where(left, cells, -1.0)))
        block = holds[start].copy()
        while True:
            outside = holds & ~block
            growth = np.where(left & outside.any(axis=1), outside @ logs, np.inf)
            best = int(np.argmin(growth))
            if not np.isfinite(growth[best]) or block @ logs + growth[best] > most:
                break
            block |= holds[best]
        inside = left & ~(holds & ~block).any(axis=1)
        groups.append([int(k) for k in np.flatnonzero(inside)])
        left &= ~inside
    return groups


def used_columns(
    columns: ColumnSet, targets: Sequence[Target], zeros: Sequence[StructuralZero]
) -> ColumnSet:
    """The columns that a target or a zero names; all others are uniform."""
    named = {name for target in targets for name in target.columns}
    named |= {name for zero in zeros for name in zero.columns}
    return tuple(name for name in columns if name in named)


def aligned(targets: Sequence[Target], axes: ColumnSet) -> tuple[FloatArray, ...]:
    """The targets' arrays, with their axes in the order that their columns have in the table."""
    return tuple(
        np.transpose(
            target.n, [target.columns.index(name) for name in axes if name in target.columns]
        ).astype(np.float64)
        for target in targets
    )


def rake_table(table: FloatArray, block: Block, wanted: Sequence[FloatArray]) -> float:
    """Rake a table, in place, to all targets of its block once.

    Returns: Largest sum of absolute differences between a margin and its target, each taken before it was
    raked, in rows.
    """
    error = 0.0
    for inner in block.parts:
        axes = tuple(name in inner.columns for name in block.columns)
        before = summed(table, axes)
        after = before.copy()
        error = max(error, rake_table(after, inner, wanted))
        multiply(table, ratio(after, before), axes)
    for place in block.targets:
        error = max(error, float(np.abs(table - wanted[place]).sum()))
        np.copyto(table, wanted[place], where=table > 0)
    return error


def ratio(after: FloatArray, before: FloatArray) -> FloatArray:
    """What takes one table to the other, written over the first; 0 where both are 0."""
    with np.errstate(over="ignore"):
        np.divide(after, before, out=after, where=before > 0)
    return np.minimum(after, MOST, out=after)


def farthest(table: FloatArray, block: Block, wanted: Sequence[FloatArray]) -> float:
    """Largest sum of absolute differences between a margin of the table and its target, in rows."""
    error = 0.0
    for inner in block.parts:
        axes = tuple(name in inner.columns for name in block.columns)
        error = max(error, farthest(summed(table, axes), inner, wanted))
    for place in block.targets:
        error = max(error, float(np.abs(table - wanted[place]).sum()))
    return error


def summed(table: FloatArray, axes: tuple[bool, ...]) -> FloatArray:
    """Sum a table over the axes that are not kept."""
    small = np.zeros([n for n, stays in zip(table.shape, axes, strict=True) if stays])
    _sum_up(table.reshape(-1), *_runs(axes, table.shape), small.reshape(-1))
    return small


def multiply(table: FloatArray, factor: FloatArray, axes: tuple[bool, ...]) -> None:
    """Multiply a factor over the kept axes into the table, in place."""
    _multiply(table.reshape(-1), *_runs(axes, table.shape), factor.reshape(-1))


def _runs(axes: tuple[bool, ...], shape: tuple[int, ...]) -> tuple[Int64Array, Int64Array]:
    """Lengths of runs of neighbouring axes that are all kept or all not, and how far apart neighbours along each are
    in the table of the kept axes: 0 along those that are not."""
    lengths: list[int] = []
    kept: list[bool] = []
    for stays, n in zip(axes, shape, strict=True):
        if kept and kept[-1] == stays:
            lengths[-1] *= n
        else:
            kept.append(stays)
            lengths.append(n)
    held = [n if stays else 1 for stays, n in zip(kept, lengths, strict=True)]
    steps = [prod(held[at + 1 :]) * stays for at, stays in enumerate(kept)]
    return np.array(lengths, dtype=np.int64), np.array(steps, dtype=np.int64)


@part
def _next(index: Int64Array, lengths: Int64Array, steps: Int64Array, at: Whole) -> Whole:
    """Where the next stretch along the last run begins in the smaller table."""
    for run in range(len(lengths) - 2, -1, -1):
        index[run] += 1
        at += steps[run]
        if index[run] < lengths[run]:
            break
        index[run] = 0
        at -= steps[run] * lengths[run]
    return at


@kernel
def _sum_up(table: FloatArray, lengths: Int64Array, steps: Int64Array, small: FloatArray) -> None:
    """Add each cell to its cell of a table of fewer axes."""
    at: Whole = np.int64(0)
    index, length = np.zeros(len(lengths), dtype=np.int64), lengths[-1]
    for begin in range(0, len(table), length):
        if steps[-1]:
            for j in range(length):
                small[at + j] += table[begin + j]
        else:
            total = 0.0
            for j in range(length):
                total += table[begin + j]
            small[at] += total
        at = _next(index, lengths, steps, at)


@kernel
def _multiply(
    table: FloatArray, lengths: Int64Array, steps: Int64Array, factor: FloatArray
) -> None:
    """Multiply each cell by its cell of a table of fewer axes."""
    at: Whole = np.int64(0)
    index, length = np.zeros(len(lengths), dtype=np.int64), lengths[-1]
    for begin in range(0, len(table), length):
        if steps[-1]:
            for j in range(length):
                table[begin + j] *= factor[at + j]
        else:
            once = factor[at]
            for j in range(length):
                table[begin + j] *= once
        at = _next(index, lengths, steps, at)


# Junction trees.


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
    asked = tree.cliques
    margins = [target.columns for target in targets]
    columns = tuple(sorted({name for clique in asked for name in clique}))
    order = axes_together(blocks_of(columns, margins, sizes), sizes)
    cliques = tuple(tuple(name for name in order if name in clique) for clique in asked)
    tree = replace(tree, cliques=cliques)
    work = []
    for place, clique in enumerate(cliques):
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
    in_order = (
        np.transpose(table, [axes.index(name) for name in clique])
        for table, axes, clique in zip(tables, cliques, asked, strict=True)
    )
    return tuple(in_order), FitReport(
        how="dense" if len(tree.cliques) == 1 else "junction tree",
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
        possible = possible_cells(clique, tuple(sizes[name] for name in clique), here)
        if not possible.any():
            raise SpecError(NOTHING_POSSIBLE)
        tables.append(possible / possible.size)
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


# From expected counts to whole numbers of rows.
#
# Takes an array of expectations of any shape, the number of rows and a generator; gives counts that add up to the
# number of rows. An expectation of 0 never gets a row, so structural zeros hold. No loop over cells.


WHOLE = 1e-9
"""An expectation so near below a whole number is that number: sums of floats are not exact."""


def sampled(
    expected: NDArray[np.floating], n: int, method: Sample, rng: np.random.Generator
) -> Int64Array:
    """Draw counts whose expectations are given.

    method: "multinomial": independent rows. "rounded": each count is its scaled expectation rounded up or
        down, unbiased, and so is, within 1, the sum of every run of cells that are neighbours in C order:
        systematic sampling, Madow 1949, doi:10.1214/aoms/1177729988.
    """
    flat = np.ravel(expected)
    mass = float(flat.sum(dtype=np.float64)) if flat.size else 0.0
    if n < 0 or not np.isfinite(mass) or (flat.size and flat.min() < 0):
        raise InternalError("expected counts must be numbers, none below 0")
    out = np.zeros(flat.shape, dtype=np.int64)
    if n:
        if mass <= 0:
            raise InternalError("no cell may hold the rows to be drawn")
        at = np.flatnonzero(flat)  # the others get nothing, whatever rounding does
        positive = flat[at].astype(np.float64)
        if method == "multinomial":
            out[at] = rng.multinomial(n, positive / mass)
        else:
            out[at] = _systematic(positive, n, mass, rng)
    return out.reshape(np.shape(expected))


def _systematic(positive: FloatArray, n: int, mass: float, rng: np.random.Generator) -> Int64Array:
    """Whole parts, then as many single rows as are left over, at even distances along the running sum of the rest."""
    scaled = positive / mass * n  # in this order, for the smallest floats
    whole = np.floor(scaled + WHOLE)
    reached = np.cumsum(np.maximum(scaled - whole, 0.0))
    count = whole.astype(np.int64)
    left = n - int(count.sum())
    if left <= 0 or reached[-1] <= 0:
        # Only where WHOLE or the last bits of large floats made up a row: the largest count bears it.
        count[np.argmax(count)] += left
        return count
    reached *= left / reached[-1]
    reached[np.searchsorted(reached, reached[-1]) :] = left
    marks: Int64Array = np.floor(reached + rng.random()).astype(np.int64)
    count[0] += marks[0]
    count[1:] += np.diff(marks)
    return count


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
