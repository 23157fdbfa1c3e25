"""Rows whose counts come near to targets, where no table of all columns fits into memory.

Targets in, rows of level indexes out, as many as are asked for. Dealt and searched as wide tables of mode sticky are;
impossible combinations get no row; a combination whose target is 0 gets one only where targets contradict each other,
or where no exchange leads away from it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import combinations

import numpy as np
from numpy.typing import NDArray

from engine.errors import SpecError
from engine.fit.budget import BUDGET
from engine.fit.joint.margins import Nesting, Target, finest_above
from engine.fit.wide.exchange import (
    IMPOSSIBLE,
    MOST,
    WEIGHT_ONE,
    Shuffles,
    information_of,
    spanning_tree,
    target_of,
)
from engine.fit.wide.exchange import Target as Wanted
from engine.fit.wide.rows import brought_near, searched_rows
from engine.levels import StructuralZero
from engine.schema import BoolArray, ColumnSet, FloatArray, Int64Array

ZERO_TARGET = 5 * WEIGHT_ONE
"""Weight where a target is 0."""
FINE_STEPS = 1 << 30
"""In so many parts the rows of a pair are dealt out along the tree."""
LEAST = 1e-9
"""Rows taken for a possible combination of none, so that proportional fitting can give it some."""
TRIES = 2_000
"""Rows that are tried where none of those asked for is possible."""
Rows = NDArray[np.int32]
Axes = tuple[int, ...]
Rule = tuple[Axes, BoolArray]
"""Places of columns, ascending, and the combinations of their levels that are impossible."""


def support_rows(
    targets: Sequence[Target],
    columns: ColumnSet,
    sizes: Mapping[str, int],
    *,
    zeros: Sequence[StructuralZero],
    nested: Sequence[Nesting] = (),
    n_rows: int,
    rng: np.random.Generator,
) -> Rows:
    """Find rows whose counts are near the targets, scaled to the number of rows.

    targets: Of some of the columns; where narrower and wider ones hold the same pair, the narrowest
        counts.
    zeros: Those of columns that are not there are left aside.
    nested: Of coarser columns, there or not, counts are met as well as they can be.

    Returns: Rows may repeat. The same for the same arguments.
    """
    shape = tuple(sizes[name] for name in columns)
    counts = _counts(targets, columns, shape, n_rows)
    rules = _rules(zeros, columns)
    information = information_of(_pairs(counts), len(columns))

    def search(n: int) -> Rows:
        scaled = {axes: count * (n / max(n_rows, 1)) for axes, count in counts.items()}
        parts = FINE_STEPS / max(n, 1)
        pairs = {a: np.rint(c * parts).astype(np.int64) for a, c in _pairs(scaled).items()}
        rows, _ = searched_rows(
            _whole(_singles(scaled, rules, shape), columns, nested, n),
            _wanted(scaled, rules, shape),
            pairs,
            spanning_tree(information),
            information,
            Shuffles(rng.bytes(16)),
            lambda _done, _of: None,
            is_thorough=False,  # other rows are taken for those that stay impossible
        )
        return rows.T.astype(np.int32)

    rows = search(n_rows)
    wrong = np.flatnonzero(~_possible(rows, rules))
    if not len(wrong):
        return rows
    others = rows if len(wrong) < len(rows) else search(TRIES)
    possible = np.flatnonzero(_possible(others, rules))
    if not len(possible):
        raise SpecError("dp: no combination of levels was found that the structural zeros allow")
    rows[wrong] = others[rng.choice(possible, len(wrong))]
    return rows


def nearer_rows(
    rows: Rows,
    targets: Sequence[Target],
    columns: ColumnSet,
    sizes: Mapping[str, int],
    *,
    zeros: Sequence[StructuralZero],
    nested: Sequence[Nesting] = (),
    rng: np.random.Generator,
) -> Rows:
    """Let drawn rows exchange values where that brings their counts nearer to the targets.

    A draw meets sums of neighbours only: counts of the columns that vary fastest are off as those of a random sample,
    by more than the noise of their margins. Parameters as in `support_rows`.

    Returns: In the same order. No row is changed to what the structural zeros rule out.
    """
    shape = tuple(sizes[name] for name in columns)
    counts = _counts(targets, columns, shape, len(rows))
    rules = _rules(zeros, columns)
    information = information_of(_pairs(counts), len(columns))
    changed = np.ascontiguousarray(rows.T, dtype=np.int64)
    singles = _whole(_singles(counts, rules, shape), columns, nested, len(rows))
    wanted = _wanted(counts, rules, shape)
    shuffles = Shuffles(rng.bytes(16))
    brought_near(changed, singles, wanted, information, shuffles, is_thorough=False)
    out = changed.T.astype(np.int32)
    wrong = ~_possible(out, rules)
    out[wrong] = rows[wrong]
    return out


def farthest_of(rows: Rows, targets: Sequence[Target], columns: ColumnSet) -> float:
    """Largest sum of absolute differences between a margin of the rows and its target, as a share of all rows."""
    error = 0.0
    for target in targets:
        at = tuple(rows[:, columns.index(name)] for name in target.columns)
        have = np.bincount(np.ravel_multi_index(at, target.n.shape), minlength=target.n.size)
        error = max(error, float(np.abs(have - target.n.ravel()).sum()))
    return error / max(float(targets[0].n.sum()), 1e-300)


def _counts(
    targets: Sequence[Target], columns: ColumnSet, shape: tuple[int, ...], n_rows: int
) -> dict[Axes, FloatArray]:
    """Target counts by places of columns: every single, every pair that a target has, and wider targets."""
    counts: dict[Axes, FloatArray] = {}
    for target in sorted(targets, key=lambda t: len(t.columns)):
        axes = tuple(columns.index(name) for name in target.columns)
        n = np.transpose(target.n, np.argsort(axes)) if axes else target.n
        axes = tuple(sorted(axes))
        total = float(n.sum())
        n = n * (n_rows / total) if total > 0 else np.full(n.shape, n_rows / max(n.size, 1))
        for width in {1, 2, len(axes)} - {0}:
            for chosen in combinations(range(len(axes)), width):
                key = tuple(axes[i] for i in chosen)
                out = tuple(i for i in range(len(axes)) if i not in chosen)
                if key not in counts:
                    counts[key] = n.sum(axis=out)
    for place, size in enumerate(shape):
        counts.setdefault((place,), np.full(size, n_rows / size))
    return counts


def _pairs(counts: Mapping[Axes, FloatArray]) -> dict[tuple[int, int], FloatArray]:
    """Those of two columns."""
    return {(axes[0], axes[1]): n for axes, n in counts.items() if len(axes) == 2}


def _rules(zeros: Sequence[StructuralZero], columns: ColumnSet) -> list[Rule]:
    """The structural zeros by places of columns; one for each set of columns."""
    rules: dict[Axes, BoolArray] = {}
    for zero in zeros:
        if not zero.columns or not {*zero.columns} <= {*columns}:
            continue
        axes = tuple(columns.index(name) for name in zero.columns)
        cells = np.transpose(zero.cells, np.argsort(axes))
        axes = tuple(sorted(axes))
        rules[axes] = rules[axes] | cells if axes in rules else cells
    return list(rules.items())


def _singles(
    counts: Mapping[Axes, FloatArray], rules: Sequence[Rule], shape: tuple[int, ...]
) -> list[FloatArray]:
    """Counts of each column that the rules of one and of two columns allow together."""
    singles = [counts[(place,)] for place in range(len(shape))]
    for axes, cells in rules:
        if len(axes) == 1 and not cells.all():
            n = np.where(cells, 0.0, singles[axes[0]])
            singles[axes[0]] = n if n.any() else (~cells).astype(np.float64)
    pairs = [(axes, cells) for axes, cells in rules if len(axes) == 2 and not cells.all()]
    # Several turns, as a column that gives way may be in several rules.
    for _ in range(BUDGET.raking_cycles if len(pairs) > 1 else 1):
        for (one, other), cells in pairs:
            start = counts.get((one, other), np.outer(singles[one], singles[other]))
            start = np.where(cells, 0.0, start + LEAST)
            fitted = _allowed(start, singles[one], singles[other])
            if shape[one] >= shape[other]:  # the finer column keeps its counts
                singles[other] = fitted.sum(axis=0)
            else:
                singles[one] = fitted.sum(axis=1)
    return singles


def _whole(
    singles: Sequence[FloatArray], columns: ColumnSet, nested: Sequence[Nesting], n_rows: int
) -> list[Int64Array]:
    """Whole counts of each column, and of the coarser ones that it lies in.

    Running sums are rounded, within each level of the coarser column, so that sums of neighbours are right, too, and
    many small counts do not all become 0.
    """

    def whole(n: FloatArray, name: str) -> Int64Array:
        one = finest_above((name,), nested)
        of = np.zeros(len(n), dtype=np.int64) if one is None else one.of
        sums = np.array([n_rows]) if one is None else whole(one.summed(n, 0), one.coarser)
        out = np.zeros(len(n), dtype=np.int64)
        for level in np.flatnonzero(sums):
            inside = np.flatnonzero(of == level)
            running = np.cumsum(n[inside])
            if running[-1] > 0:
                reached = np.floor(running * (sums[level] / running[-1]) + 0.5).astype(np.int64)
                out[inside] = np.diff(reached, prepend=0)
        return out

    return [whole(n, name) for n, name in zip(singles, columns, strict=True)]


def _allowed(table: FloatArray, rows: FloatArray, columns: FloatArray) -> FloatArray:
    """A table of two columns by iterative proportional fitting, at last to the sums of the one with more levels."""
    # Sums that the rules contradict would leave nothing at all.
    sums = [np.maximum(n, LEAST) for n in (rows[:, np.newaxis], columns[np.newaxis, :])]
    order = (1, 0) if len(rows) >= len(columns) else (0, 1)
    for _ in range(BUDGET.raking_cycles):
        for axis in order:
            have = table.sum(axis=1 - axis, keepdims=True)
            table = table * np.divide(sums[axis], have, out=np.zeros_like(have), where=have > 0)
    return table


def _wanted(
    counts: Mapping[Axes, FloatArray], rules: Sequence[Rule], shape: tuple[int, ...]
) -> list[Wanted]:
    """What the search goes for: pairs and wider tables, and what is impossible."""
    barred = {a: cells * np.int64(IMPOSSIBLE * MOST) for a, cells in rules if len(a) > 1}
    wanted = []
    for axes, n in counts.items():
        if len(axes) > 1:
            table = target_of(axes, n, barred=barred.pop(axes, None))
            weight = np.where(n > 0, table.weight, ZERO_TARGET)
            wanted.append(Wanted(axes=axes, n=n, weight=weight, barred=table.barred))
    for axes, cells in barred.items():
        nothing = np.zeros(tuple(shape[axis] for axis in axes), dtype=np.int64)
        wanted.append(Wanted(axes=axes, n=nothing, weight=nothing, barred=cells))
    return wanted


def _possible(rows: Rows, rules: Sequence[Rule]) -> BoolArray:
    """Rows that no rule declares impossible."""
    possible = np.ones(len(rows), dtype=bool)
    for axes, cells in rules:
        possible &= ~cells[tuple(rows[:, axis] for axis in axes)]
    return possible
