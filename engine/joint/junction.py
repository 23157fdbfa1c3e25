"""Iterative proportional fitting on a junction tree: when the table is too large, but its margins' cliques are not.

Targets and a junction tree in; the fitted tables of its cliques, and rows drawn from them, out. The fitted distribution
is the product of the cliques' tables over that of their separators', so only cliques are held: the same result as
fitting the full table. Jirousek and Preucil 1995, doi:10.1016/0167-9473(93)E0055-9.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import prod

import numpy as np
from numpy.typing import NDArray

from engine.errors import SpecError
from engine.joint.blocks import Block, blocks_of
from engine.joint.cliques import JunctionTree
from engine.joint.cycles import run_cycles
from engine.joint.dense import (
    NOTHING_POSSIBLE,
    aligned,
    farthest,
    multiply,
    rake,
    ratio,
    seed,
    summed,
)
from engine.joint.sampling import sampled
from engine.joint.target import FitReport, Target
from engine.levels import StructuralZero
from engine.params_dp import Sample
from engine.schema import ColumnSet, FloatArray, Int64Array


def fit_tree(
    targets: Sequence[Target],
    tree: JunctionTree,
    sizes: Mapping[str, int],
    *,
    zeros: Sequence[StructuralZero] = (),
    max_cycles: int = 200,
    tolerance: float = 1e-4,
) -> tuple[tuple[FloatArray, ...], FitReport]:
    """Fit the cliques' tables.

    Parameters
    ----------
    targets : sequence of Target
        Each within a clique.
    tree : JunctionTree
    sizes : mapping of str to int
    zeros : sequence of StructuralZero
        Each within a clique.
    max_cycles : int
    tolerance : float
        See `FitReport.error`.

    Returns
    -------
    tuple of ndarray of float64, FitReport
        Expected counts of each clique; neighbours agree on their separator.

    Raises
    ------
    SpecError
        The zeros leave no cell of a clique.
    """
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
        error = rake(tables[place], *work[place])
        for child in tree.children(place):
            _tell(tree, tables, place, child)
            error = max(error, visit(child))
            _tell(tree, tables, child, place)
        return error

    cycles, at_rest = run_cycles(
        lambda: visit(0) / max(total, 1e-300), max_cycles=max_cycles, tolerance=tolerance
    )
    if not tables[0].any():  # no target can be met anywhere: what is possible, all alike
        tables[:] = _start(tree, sizes, zeros)
    _tell_all(tree, tables)
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
        up = summed(tables[place], _kept(tree, place, place))
        multiply(
            tables[tree.parent[place]],
            up / (up.max() or 1.0),
            _kept(tree, tree.parent[place], place),
        )
    if not tables[0].any():
        raise SpecError(NOTHING_POSSIBLE)
    _tell_all(tree, tables)
    return tables


def _tell_all(tree: JunctionTree, tables: list[FloatArray]) -> None:
    """Make all cliques agree with the first."""
    for place in range(1, len(tables)):
        _tell(tree, tables, tree.parent[place], place)


def _tell(tree: JunctionTree, tables: list[FloatArray], here: int, there: int) -> None:
    """Bring a neighbour's table to this one's sums over their separator."""
    child = there if tree.parent[there] == here else here
    kept = _kept(tree, there, child)
    new = summed(tables[here], _kept(tree, here, child))
    multiply(tables[there], ratio(new, summed(tables[there], kept)), kept)


def _kept(tree: JunctionTree, place: int, child: int) -> tuple[bool, ...]:
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

    Parameters
    ----------
    tables : sequence of ndarray of float64
        As fitted.
    tree : JunctionTree
    columns : ColumnSet
        Of the rows; those of the tree, in any order.
    n : int
    method : str
        "rounded": the counts of each clique, given the counts of its separator, are their expectations rounded up or
        down, and which rows get them is drawn at random. "multinomial": independent rows.
    rng : numpy.random.Generator

    Returns
    -------
    ndarray of int32, shape (n, n_columns)
        Level indexes.
    """
    rows = np.zeros((n, len(columns)), dtype=np.int32)
    if not n:
        return rows
    first = sampled(tables[0], n, method, rng)
    _put(
        rows, columns, tree.cliques[0], np.repeat(np.arange(first.size), first.ravel()), first.shape
    )
    for place in range(1, len(tables)):
        given = tree.separators[place]
        kept = _kept(tree, place, place)
        free = tuple(name for name in tree.cliques[place] if name not in given)
        table, clique = tables[place], tree.cliques[place]
        order = [clique.index(name) for name in (*given, *free)]
        shape = np.transpose(table, order).shape
        groups = prod(n for n, stays in zip(table.shape, kept, strict=True) if stays)
        expected = np.transpose(table, order).reshape(groups, -1)
        code = _code(rows, columns, given, shape[: len(given)])
        held = np.bincount(code, minlength=groups)
        count = _sampled_within(expected, held, method, rng)
        mixed = rng.permutation(n)
        by_group = mixed[np.argsort(code[mixed], kind="stable")]
        letters = np.empty(n, dtype=np.int64)
        inner = np.tile(np.arange(expected.shape[1]), groups)
        letters[by_group] = np.repeat(inner, count.ravel())
        _put(rows, columns, free, letters, shape[len(given) :])
    return rows


def _sampled_within(
    expected: FloatArray, held: Int64Array, method: Sample, rng: np.random.Generator
) -> Int64Array:
    """Counts of every group, shape (n_groups, n_letters), that sum to the rows it holds."""
    sums = expected.sum(axis=1, keepdims=True)
    share = np.where(sums > 0, expected, 1.0)
    share /= share.sum(axis=1, keepdims=True)
    if method == "multinomial":
        drawn: Int64Array = rng.multinomial(held, share)
        return drawn
    reached = np.cumsum(share, axis=1) * held[:, None]
    # From the last letter with a share on, all rows are given out: floats do not sum to exactly that.
    last = share.shape[1] - 1 - np.argmax(share[:, ::-1] > 0, axis=1)
    reached = np.where(np.arange(share.shape[1]) >= last[:, None], held[:, None], reached)
    marks = np.floor(np.minimum(reached, held[:, None]) + rng.random((len(held), 1)))
    counts: Int64Array = np.diff(marks, axis=1, prepend=0.0).astype(np.int64)
    return counts


def _code(
    rows: NDArray[np.int32], columns: ColumnSet, given: ColumnSet, shape: tuple[int, ...]
) -> NDArray[np.intp]:
    """Cell of each row in the table of some columns."""
    if not given:
        return np.zeros(len(rows), dtype=np.intp)
    picked = tuple(rows[:, columns.index(name)] for name in given)
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
