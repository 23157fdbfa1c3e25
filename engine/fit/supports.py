"""Columns by themselves: their released values with whole numbers of rows, universes, and what they imply of others."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import replace
from graphlib import CycleError, TopologicalSorter
from typing import Any

import numpy as np
from numpy.typing import NDArray

from engine.cell_keys import distinct_cells, run_starts
from engine.errors import InternalError, SpecError
from engine.fit.tree import Codes, FittedTree, Noise, Placement, fitted_tree, tree_of
from engine.params import NOISE_LAYERS
from engine.ranges import code_bounds
from engine.relations import Relation, Relations
from engine.schema import (
    GRID_KINDS,
    KIND_NEGATIVE,
    KIND_NONNEGATIVE,
    KIND_NULL,
    KIND_OTHER,
    NULL_CODE,
    OTHER_CODE,
    BoolArray,
    CellGroups,
    CodedUniverse,
    Column,
    ColumnSet,
    FloatArray,
    Int64Array,
    Measurement,
    Support,
    SyntheticTable,
    UInt8Array,
    is_leaf,
)
from engine.sticky_prf import siphash

# Fit a one-way table: the released values of a column, each with a whole number of rows.
#
# From the root down every node's rows are shared out among its released children and its remainder in whole numbers, so
# that each range keeps its fitted count. A single released value is itself. Rows inside a released range are given
# values of the column's own grid, drawn once with the sampling key: every wider table uses these same values.
#
# Of columns that declare no bounds values are drawn up to where released ranges end. A snapped range reaches to the
# next power of two, so beyond the data: days of 2021 lie in a range that begins in 2020. Nothing is drawn beyond the
# outermost released range, and of that range only its inner end: people in it are there or further out. So no
# value is drawn that is smaller than all of the data, or larger. All of it follows from measurements, so it is no
# further look: which ranges are released depends on noisy thresholds alone.


ENDS_OF = 10
"""An outermost range with more than one in so many rows is drawn from in full: data so few have no tails."""


def fit_support(
    tree: Measurement,
    column: Column,
    *,
    noise: Noise,
    total: int,
    total_sd: float = 0.0,
    code_limits: tuple[int, int] | None,
    key: bytes,
    together: int = 1,
) -> Support:
    """Fit one column.

    together: Rows that share a value where values are drawn. With as many as a hidden value may have, tables of three
        columns keep more of what they measured: where each row has a value of its own, two pairs decide it.

    code_limits: Smallest and largest code the column can have, where declared (ranked columns: 0 and the last
        rank).
    """
    tree = _without_folded(tree, column)
    low, high = code_bounds(tree.kind[:, 0], tree.level[:, 0], tree.index[:, 0])
    room_low, room_high = _room(tree, low, high, code_limits)
    room_low, room_high = _on_steps(room_low, room_high, column.step, is_leaf(tree))
    listed = None if tree.values is None else np.fromiter(tree.values, dtype=np.int64)
    room_low, room_high = _on_list(tree.kind[:, 0], room_low, room_high, listed)
    has_room = np.concatenate([[False], room_low <= room_high])
    anything = np.empty(0)
    fitted = fitted_tree(
        tree_of(tree, noise), float(total), has_room, total_sd**2, anything, anything
    )
    parts, remainders, rate = fitted.mass, fitted.remainder, 0.0
    if tree.sums:
        parts, remainders, rate = _calibrated(tree, fitted, room_low, room_high, noise.layer_sd)
    mass, left = share_out(tree, parts, remainders, total)
    single = (tree.level[:, 0] == 0) & is_leaf(tree)
    rows = np.where(single, 0, left[1:])
    node, codes = _drawn(
        tree.kind[:, 0], room_low, room_high, rows, column.step, listed, key, together
    )
    if rate:
        codes = _moved(codes, room_low[node], room_high[node], column.step, rate)
    kind = np.concatenate([tree.kind[single, 0], tree.kind[node, 0]])
    code = np.concatenate([low[single], codes])
    n = np.concatenate([mass[1:][single], np.ones(len(codes), dtype=np.int64)])
    measured = np.arange(len(n)) < np.count_nonzero(single)
    support = _merged(column, kind, code, n, measured, tree.values)
    return replace(support, noise_sd=_stated_sd(tree, fitted.variance[1:][single], noise.layer_sd))


def _stated_sd(tree: Measurement, variance: FloatArray, layer_sd: int) -> float:
    """Root mean square error of the single values, never below that of their own noise."""
    own = NOISE_LAYERS * (float(layer_sd) * float(tree.scale[-1])) ** 2
    variance = np.maximum(variance, own)
    return float(np.sqrt(np.cumsum(variance)[-1] / len(variance))) if len(variance) else own**0.5


def _without_folded(tree: Measurement, column: Column) -> Measurement:
    """Drop the bucket of unreleased values where the column has no placeholder for it."""
    if column.placeholder is not None or not (tree.kind == KIND_OTHER).any():
        return tree
    return tree.kept(tree.kind[:, 0] != KIND_OTHER)


def is_valued(kind: NDArray[np.integer]) -> BoolArray:
    """Kinds that lie on the grid."""
    valued: BoolArray = (kind == KIND_NEGATIVE) | (kind == KIND_NONNEGATIVE)
    return valued


def _room(
    tree: Measurement, low: Int64Array, high: Int64Array, limits: tuple[int, int] | None
) -> tuple[Int64Array, Int64Array]:
    """Codes of each node that lie in no released child and are possible; low > high where there are none."""
    room_low, room_high = low.copy(), high.copy()
    of_child = np.flatnonzero(tree.parent >= 0)
    same = of_child[tree.level[of_child, 0] == tree.level[tree.parent[of_child], 0]]
    room_high[tree.parent[same]] = room_low[tree.parent[same]] - 1
    halves = of_child[tree.level[of_child, 0] < tree.level[tree.parent[of_child], 0]]
    above = tree.parent[halves]
    upper = low[halves] > low[above]
    # A released upper half leaves the lower one; two released halves leave nothing.
    room_high[above[upper]] = low[halves[upper]] - 1
    room_low[above[~upper]] = high[halves[~upper]] + 1
    if limits is not None:
        valued = is_valued(tree.kind[:, 0])
        inside = np.maximum(room_low, limits[0]), np.minimum(room_high, limits[1])
        # A leaf that lies wholly outside was released all the same: it keeps its own range.
        narrowed = valued & ((inside[0] <= inside[1]) | ~is_leaf(tree))
        room_low = np.where(narrowed, inside[0], room_low)
        room_high = np.where(narrowed, inside[1], room_high)
    return room_low, room_high


def share_out(
    tree: Measurement,
    mass: FloatArray,
    remainder: FloatArray,
    total: int,
) -> tuple[Int64Array, Int64Array]:
    """Round fitted masses to whole numbers from the root down, by largest remainder within each parent.

    Returns: Entry 0 is the virtual root. Children and remainder add up to their parent exactly.
    """
    parent = tree.parent + 1
    whole = np.zeros(len(mass), dtype=np.int64)
    left = np.zeros(len(mass), dtype=np.int64)
    whole[0] = total
    depth = np.concatenate([[0], tree.depth.astype(np.int64) + 1])
    for level in range(int(depth.max(initial=0)) + 1):
        owners = np.flatnonzero(depth == level)
        children = np.flatnonzero(depth == level + 1)
        owner = np.concatenate([parent[children - 1], owners])
        weight = np.concatenate([mass[children], remainder[owners]])
        parts = largest_remainder(owner, weight, whole)
        whole[children] = parts[: len(children)]
        left[owners] = parts[len(children) :]
    return whole, left


def largest_remainder(owner: Int64Array, weight: FloatArray, whole: Int64Array) -> Int64Array:
    """Share whole[o] among the entries of each owner o in proportion to their weights."""
    sums = np.bincount(owner, weights=weight, minlength=len(whole))
    scale = np.divide(whole, sums, out=np.zeros(len(whole)), where=sums > 0)
    exact = weight * scale[owner]
    floor: Int64Array = np.floor(exact).astype(np.int64)
    # Fractions in fixed point, so that ties are ties everywhere; the earlier entry wins them.
    fraction = ((exact - floor) * (1 << 20)).astype(np.int64)
    missing = whole - np.bincount(owner, weights=floor, minlength=len(whole)).astype(np.int64)
    missing[sums <= 0] = 0
    order = np.lexsort((np.arange(len(owner)), -fraction, owner))
    placed = owner[order]
    heads = np.searchsorted(placed, placed)
    rank = np.arange(len(order)) - heads
    floor[order] += rank < missing[placed]
    return floor


def _on_steps(
    low: Int64Array, high: Int64Array, step: int, leaf: BoolArray
) -> tuple[Int64Array, Int64Array]:
    """Narrow ranges to their first and last multiple of the step; a leaf without one keeps its own range."""
    if step == 1:
        return low, high
    first, last = low + -low % step, high // step * step  # no sum leaves the 64 bits
    narrowed = (first <= last) | ~leaf
    return np.where(narrowed, first, low), np.where(narrowed, last, high)


def _on_list(
    kind: UInt8Array, low: Int64Array, high: Int64Array, listed: Int64Array | None
) -> tuple[Int64Array, Int64Array]:
    """Narrow ranges of codes to the first and last one that stands for anything; low > high where none does."""
    if listed is None or not len(listed):
        return low, high
    first, last = np.searchsorted(listed, low), np.searchsorted(listed, high, side="right") - 1
    of_values, n = kind == KIND_NONNEGATIVE, len(listed)
    none = of_values & (first > last)
    low = np.where(of_values, listed[np.minimum(first, n - 1)], low)
    high = np.where(of_values, listed[np.maximum(last, 0)], high)
    return np.where(none, 1, low), np.where(none, 0, high)


def _drawn(
    kind: UInt8Array,
    low: Int64Array,
    high: Int64Array,
    rows: Int64Array,
    step: int,
    listed: Int64Array | None,
    key: bytes,
    together: int,
) -> tuple[Int64Array, Int64Array]:
    """Draw a code for each row inside a range, fixed by range and row's number.

    Uniform on low, low + step, .., or on the listed codes; so many rows in turn have the same one.

    Returns: node: Of each row; its code.
    """
    rows = np.where(low <= high, rows, 0)
    node = np.repeat(np.arange(len(rows)), rows)
    number = np.arange(len(node)) - np.repeat(np.cumsum(rows) - rows, rows)
    if not len(node):
        return node, low[:0]
    bits = siphash(
        key,
        [
            kind[node].astype(np.uint64),
            low[node].view(np.uint64),
            high[node].view(np.uint64),
            (number // together).astype(np.uint64),
        ],
    )
    if listed is not None and len(listed):
        first, last = np.searchsorted(listed, low)[node], np.searchsorted(listed, high)[node]
        drawn = first + (bits % (last - first + 1).view(np.uint64)).view(np.int64)
        is_value = kind[node] == KIND_NONNEGATIVE
        return node, np.where(is_value, listed[np.where(is_value, drawn, 0)], low[node])
    stride = np.where((high - low) % step == 0, step, 1)[node]
    size = (high[node] - low[node]).view(np.uint64) // stride.view(np.uint64) + np.uint64(1)
    # A range of one whole sign wraps the size to 2**63 at most, never to 0.
    offset = (bits % np.maximum(size, np.uint64(1))).view(np.int64)
    return node, low[node] + offset * stride


def _calibrated(
    tree: Measurement, fitted: FittedTree, low: Int64Array, high: Int64Array, layer_sd: int
) -> tuple[FloatArray, FloatArray, float]:
    """Bring fitted rows nearer to the measured sum of the column: linear calibration, as in `engine.fit.sums`.

    low, high: Codes of each node that lie in no released child.

    Returns: mass, remainder: As of `FittedTree`; how much a row inside a range counts for where it lies, by code.
    """
    (sums,) = tree.sums
    if not len(sums.n):
        return fitted.mass, fitted.remainder, 0.0
    rows = np.where(is_valued(tree.kind[:, 0]), fitted.remainder[1:], 0.0)
    first, last = (np.clip(ends, sums.low[0], sums.high[0]) for ends in (low, high))
    value = (first - sums.middle[0] + last - sums.middle[0]) / 2
    width = (last - first).astype(np.float64)
    gives = np.minimum(
        rows, NOISE_LAYERS * (layer_sd * tree.scale[tree.depth].astype(np.float64)) ** 2
    )
    away = value - _sum(gives * value) / max(_sum(gives), 1e-300)
    variance = _sum(gives * away * away) + _sum(rows * width * width) / 12
    noise = NOISE_LAYERS * (layer_sd * float(sums.scale[0])) ** 2
    rate = (int(sums.n[0]) - _sum(rows * value)) / (variance + noise)
    remainder = fitted.remainder.copy()
    remainder[1:] = np.maximum(remainder[1:] + rate * gives * away, remainder[1:] / 4)
    mass = remainder.copy()
    for depth in range(int(tree.depth.max(initial=0)), -1, -1):
        here = np.flatnonzero(tree.depth == depth)
        np.add.at(mass, tree.parent[here] + 1, mass[here + 1])
    return mass, remainder, rate


def _sum(x: FloatArray) -> float:
    """Sum in the order of the entries."""
    return float(np.cumsum(x)[-1]) if len(x) else 0.0


def _moved(
    codes: Int64Array, low: Int64Array, high: Int64Array, step: int, rate: float
) -> Int64Array:
    """Move codes towards one end of their ranges, by a share of the way that grows with the range."""
    way = (high - codes if rate > 0 else low - codes) // step
    share = np.minimum(abs(rate) * (high - low) / 6, 1.0)
    moved: Int64Array = codes + step * np.floor(way * share + 0.5).astype(np.int64)
    return moved


def with_counts(support: Support, n: Int64Array, noise_sd: float) -> Support:
    """A support with other counts of its values; those without rows are dropped."""
    occupied = n > 0
    return replace(
        support,
        kind=support.kind[occupied],
        grid=support.grid[occupied],
        n=n[occupied],
        measured=support.measured[occupied],
        noise_sd=noise_sd,
    )


def _merged(
    column: Column,
    kind: UInt8Array,
    code: Int64Array,
    n: Int64Array,
    measured: BoolArray,
    values: Mapping[int, object] | None,
) -> Support:
    """Sort by kind and code, add up repeats, drop values without rows."""
    code = np.where((kind == KIND_NULL) | (kind == KIND_OTHER), 0, code)
    order = np.lexsort((code, kind))
    kind, code, n, measured = kind[order], code[order], n[order], measured[order]
    at = run_starts(kind, code)
    sums = np.add.reduceat(n, at) if len(at) else n
    occupied = sums > 0
    at = at[occupied]
    if values is not None and len(values) <= max(
        values, default=-1
    ):  # with gaps: values without rows are not listed
        used = {*code[at][kind[at] == KIND_NONNEGATIVE].tolist()}
        values = {code: value for code, value in values.items() if code in used}
    return Support(
        column=column,
        kind=kind[at],
        grid=code[at],
        n=sums[occupied],
        measured=measured[at],
        values=values,
    )


def found_limits(
    trees: Mapping[str, Measurement], columns: Iterable[Column], deciders: Collection[str] = ()
) -> dict[str, tuple[int, int]]:
    """Smallest and largest code to be drawn, of the columns on a grid that declare no bounds.

    deciders: Columns that decide a universe of any column of the source: they keep their outermost ranges
        whole, for the border may lie in one.
    """
    out = {}
    for column in columns:
        if column.kind not in GRID_KINDS or column.bounds is not None:
            continue
        tree = trees[column.name]
        limits = _limits(tree, column.step, is_whole=column.name in deciders)
        if limits is not None:
            out[column.name] = limits
    return out


def _limits(tree: Measurement, step: int, *, is_whole: bool) -> tuple[int, int] | None:
    """Where the released ranges of one column end; None where it has none."""
    valued = is_valued(tree.kind[:, 0])
    leaves = np.flatnonzero(valued & is_leaf(tree))
    if not len(leaves):
        return None
    low, high = code_bounds(tree.kind[leaves, 0], tree.level[leaves, 0], tree.index[leaves, 0])
    first, last = int(np.argmin(low)), int(np.argmax(high))
    total = int(tree.n[valued & (tree.depth == 0)].sum())
    few = [not is_whole and int(tree.n[leaves[end]]) * ENDS_OF <= total for end in (first, last)]
    smallest = _inner(int(low[first]), int(high[first]), step) if few[0] else int(low[first])
    largest = -_inner(-int(high[last]), -int(low[last]), step) if few[1] else int(high[last])
    return (smallest, largest) if smallest <= largest else (int(low[first]), int(high[last]))


def _inner(low: int, high: int, step: int) -> int:
    """The last multiple of the step in a range; its last code where it has none."""
    on_step = high // step * step
    return on_step if on_step >= low else high


# Borders that declared universes draw: which codes lie inside, and which combinations cannot be.
#
# A code of a column is marked, for each universe, as of rows inside (1), outside (-1), or of either (0). Two codes
# one of which is inside and the other outside never meet in a row: a structural zero by rule. And a column that is null
# exactly outside has as many nulls as the deciding column has rows outside, so that the tables of both can agree.


Marks = dict[tuple[Any, ...], NDArray[np.int8]]
"""By universe (its condition): the mark of each code of a column."""
TOLERATED, SURE = 0.01, 8.0
"""A declaration is refused if it is off by more than this share of the rows and so many standard deviations."""
Universes = dict[str, CodedUniverse]
"""By name of the column that has the universe."""


def marks_of(support: Support, universes: Universes) -> Marks:
    """Mark the codes of a column in every universe that it decides or has."""
    name = support.column.name
    marks: Marks = {}
    for universe in universes.values():
        if universe.declared.column == name:
            marks[universe.declared.condition] = _sides(support, universe)
    own = universes.get(name)
    if own is None:
        return marks
    outside, unknown = _says_outside(support, own), _may_say_outside(support, own)
    not_inside = -1 if own.declared.complete else 0
    mark = np.where(unknown, 0, np.where(outside, not_inside, 1)).astype(np.int8)
    marks[own.declared.condition] = mark
    above = universes.get(own.declared.column)
    while above is not None and above.declared.outside is None:
        # People inside have a value in the deciding column, so are inside that one's universe too.
        marks[above.declared.condition] = np.maximum(mark, 0)
        above = universes.get(above.declared.column)
    return marks


def possible(codes: Codes, marks: tuple[Marks, ...]) -> BoolArray:
    """Whether no universe rules a combination out."""
    out = np.ones(len(codes), dtype=bool)
    for condition in {c for of_column in marks for c in of_column}:
        lowest = np.ones(len(codes), dtype=np.int8)
        highest = -lowest
        for j, of_column in enumerate(marks):
            if condition in of_column:
                mark = of_column[condition][codes[:, j]]
                lowest, highest = np.minimum(lowest, mark), np.maximum(highest, mark)
        out &= (lowest >= 0) | (highest <= 0)
    return out


def classes_of(n_values: int, marks: Marks) -> tuple[Int64Array, Int64Array]:
    """Number values of a column that all universes mark alike; and the first value of each number."""
    if not marks:
        return np.zeros(n_values, dtype=np.int64), np.zeros(1, dtype=np.int64)
    together = np.column_stack([marks[condition] for condition in marks])
    _, first, of = np.unique(together, axis=0, return_index=True, return_inverse=True)
    return of.ravel().astype(np.int64), first.astype(np.int64)


def allowed_pairs(firsts: list[Int64Array], marks: tuple[Marks, ...]) -> BoolArray:
    """Which classes of two columns may meet in a row, shape (n_classes, n_classes)."""
    shape = (len(firsts[0]), len(firsts[1]))
    if not marks:
        return np.ones(shape, dtype=bool)
    pairs = np.stack(np.meshgrid(*firsts, indexing="ij"), axis=-1).reshape(-1, 2)
    return possible(pairs.astype(np.int32), marks).reshape(shape)


def with_rows_outside(
    support: Support, universe: CodedUniverse, decider: Support, variance: float
) -> Support:
    """Give a column as many nulls as there are rows outside its universe; at least, where it may be null inside.

    The other codes share the difference, each by its noise variance.

    Returns: With the same total.
    """
    sides = _sides(decider, universe)
    if (sides == 0).any() or _may_say_outside(support, universe).any():
        return support  # unreleased values hide who is outside
    support = _with_code_for_outside(support, universe)
    says = _says_outside(support, universe)
    wanted, have = int(decider.n[sides < 0].sum()), int(support.n[says].sum())
    if not universe.declared.complete:
        wanted = max(wanted, have)
    total = int(support.n.sum())
    parts = _widest_cover(int(np.count_nonzero(sides < 0)))
    doubt = parts * decider.noise_sd**2 + support.noise_sd**2
    if not says.any() or abs(wanted - have) > TOLERATED * total + SURE * doubt**0.5:
        raise SpecError(
            [
                f"columns.{support.column.name}.universe: the released counts contradict it: about {have:,} rows "
                f"say that they are outside, but about {wanted:,} should"
            ]
        )
    n = support.n.copy()
    n[says] = wanted
    n[~says] = _shared(support.n[~says].astype(np.float64), total - wanted, variance)
    # The rows outside are a sum over the deciding column: its codes' errors add up.
    squares = support.noise_sd**2 * (len(n) - 1) + parts * decider.noise_sd**2
    return with_counts(support, n, max(support.noise_sd, (squares / len(n)) ** 0.5))


def _with_code_for_outside(support: Support, universe: CodedUniverse) -> Support:
    """A column without nulls gets a code for them: there may be rows outside all the same."""
    if universe.declared.outside is not None or (support.kind == KIND_NULL).any():
        return support
    return replace(
        support,
        kind=np.concatenate([np.array([KIND_NULL], dtype=np.uint8), support.kind]),
        grid=np.concatenate([[0], support.grid]),
        n=np.concatenate([[0], support.n]),
        measured=np.concatenate([[False], support.measured]),
    )


def _widest_cover(codes: int) -> int:
    """Most ranges of a tree that it takes to cover so many neighbouring codes."""
    return min(max(2 * codes.bit_length() - 2, 1), codes)


def _shared(n: FloatArray, total: int, variance: float) -> NDArray[np.int64]:
    """Bring counts to a total; each gives way by its variance, none by more than it has."""
    weight = np.minimum(n, variance)
    sums = float(np.cumsum(weight)[-1])
    moved = np.maximum(n + weight * ((total - float(np.cumsum(n)[-1])) / max(sums, 1e-9)), n / 4)
    return largest_remainder(
        np.zeros(len(n), dtype=np.int64), moved, np.array([total], dtype=np.int64)
    )


def _sides(support: Support, universe: CodedUniverse) -> NDArray[np.int8]:
    """Codes of the deciding column: 1 inside, -1 outside, 0 where unreleased values may be either."""
    inside = is_valued(support.kind)
    if universe.low is not None:
        inside &= support.grid >= universe.low
    if universe.high is not None:
        inside &= support.grid <= universe.high
    values = universe.declared.values
    if values is not None:
        inside &= _is_one_of(support, values)
    out = np.where(inside, 1, -1).astype(np.int8)
    folded = support.kind == KIND_OTHER
    if values is None:
        out[folded] = 1  # any value will do, an unreleased one too
    elif not set(values) <= {*(support.values or {}).values()}:
        out[folded] = 0
    return out


def _may_say_outside(support: Support, universe: CodedUniverse) -> BoolArray:
    """The placeholder of a column whose value for outside was not released."""
    outside = universe.declared.outside
    hidden = outside is not None and outside not in (support.values or {}).values()
    folded: BoolArray = (support.kind == KIND_OTHER) & hidden
    return folded


def _says_outside(support: Support, universe: CodedUniverse) -> BoolArray:
    """Codes of a column that say that a row is outside its universe."""
    outside = universe.declared.outside
    if outside is not None:
        return is_valued(support.kind) & _is_one_of(support, (outside,))
    null: BoolArray = support.kind == KIND_NULL
    return null


def _is_one_of(support: Support, values: tuple[Any, ...]) -> BoolArray:
    """Codes of a column with a list of values that are some of these."""
    ranks = [code for code, value in (support.values or {}).items() if value in values]
    matches: BoolArray = np.isin(support.grid, ranks)
    return matches


# Tables that need no measurement of their own, for some of their columns are implied by others.
#
# Takes the relations between columns, fitted supports and base tables; gives supports that agree with each other and
# the tables of implied columns: what a base table shows, relabelled. Sees measurements and published tables only.


Step = tuple[str, bool]
"""A column, and whether it is benchmarked to the columns that it implies."""


def steps_of(deciders: Mapping[str, str], relations: Relations, names: ColumnSet) -> list[Step]:
    """In which order columns are fitted, and benchmarked to what they imply.

    The counts of a column are benchmarked to the coarser columns that it implies, so these come first; and after the
    column that decides its universe comes the one that has it. Where both cannot be, a universe follows from counts
    that are not benchmarked yet; where not even that can be, the column may come before the one that decides.
    """
    for ways in (0, 1, 2):  # universes from benchmarked counts, from others, or ignored
        graph: dict[Step, set[Step]] = {}
        for name in names:
            implied, before = relations.coarser.get(name, {}), set()
            if name in relations.copies:
                before.add((relations.copies[name].finer, True))
            elif ways < 2 and name in deciders and deciders[name] in names:
                decider = deciders[name]
                is_benchmarked = ways == 0 and name not in relations.coarser.get(decider, {})
                before.add((decider, is_benchmarked))
            graph[name, False] = before
            graph[name, True] = {
                (name, False),
                *((c, True) for c in implied if c in names and c not in relations.copies),
            }
        try:
            return list(TopologicalSorter(graph).static_order())
        except CycleError:
            continue
    raise InternalError("relations between columns are circular")


def support_codes(support: Support) -> Int64Array:
    """Grid code of each value, null and other by theirs."""
    codes = np.where(support.kind == KIND_NULL, NULL_CODE, support.grid)
    return np.where(support.kind == KIND_OTHER, OTHER_CODE, codes)


def positions_in_support(support: Support, wanted: Int64Array) -> Int64Array:
    """Position in a support of each grid code, null and other by theirs; -1 where it has none."""
    codes = support_codes(support)
    order = np.argsort(codes)
    found = _positions(codes[order], wanted)
    return np.where(found >= 0, order[found], -1)


def implied_codes(relation: Relation, finer: Support, coarser: Support) -> Int64Array:
    """Which value of the coarser support each value of the finer one implies.

    A value that was drawn inside a range implies what its neighbour in the support implies.
    """
    return _with_neighbours(_implied(relation, finer, coarser))


def _implied(relation: Relation, finer: Support, coarser: Support) -> Int64Array:
    """The same, -1 where nothing is implied."""
    known = _positions(relation.of, support_codes(finer))
    return np.where(known >= 0, positions_in_support(coarser, relation.to[known]), -1)


def _positions(ascending: Int64Array, wanted: Int64Array) -> Int64Array:
    """Where each wanted code stands among others, -1 where it does not."""
    at = np.minimum(np.searchsorted(ascending, wanted), len(ascending) - 1)
    return np.where(ascending[at] == wanted, at, -1)


def _with_neighbours(at: Int64Array) -> Int64Array:
    """Fill the gaps (-1) with the entry before, at the beginning with the first one there is."""
    known = np.flatnonzero(at >= 0)
    if not len(known):
        return np.zeros_like(at)
    before = np.searchsorted(known, np.arange(len(at)), side="right") - 1
    filled: Int64Array = at[known[np.maximum(before, 0)]]
    return filled


def benchmarked(finer: Support, coarser: Support, implied: Int64Array, variance: float) -> Support:
    """Benchmark the counts of a column to those of a coarser one that it implies; each gives way by its variance.

    Returns: With the same total.
    """
    n = finer.n.astype(np.float64)
    have = np.bincount(implied, weights=n, minlength=len(coarser))
    # What belongs to values that nothing implies is shared out among the others.
    share = np.where(have > 0, coarser.n, 0).astype(np.float64)
    target = largest_remainder(
        np.zeros(len(coarser), dtype=np.int64), share, np.array([finer.n.sum()])
    )
    weight = np.minimum(n, variance)
    sums = np.bincount(implied, weights=weight, minlength=len(coarser))
    rate = np.divide(target - have, sums, out=np.zeros(len(coarser)), where=sums > 0)
    moved = np.maximum(n + weight * rate[implied], n / 4)
    shared = largest_remainder(implied, moved, target)
    # Moved by more than noise explains, counts are as uncertain as they were moved.
    moved_sd = float(np.sqrt(np.cumsum((shared - finer.n) ** 2)[-1] / len(shared)))
    return with_counts(finer, shared, max(finer.noise_sd, coarser.noise_sd, moved_sd))


def copied(relation: Relation, finer: Support, own: Support) -> tuple[Support, Int64Array]:
    """The support of a copy: the values it has itself, with the counts of the column that stands for it.

    Values that nothing implies, drawn inside ranges, follow in order, by how many rows have smaller ones: upward or
    downward, as most of the others.

    own: As fitted from the copy's own measurement; only its values are used.

    Returns: support; implied: Position in it of what each value of the finer column is called.
    """
    implied = _implied(relation, finer, own)
    free = np.setdiff1d(np.arange(len(own)), implied)
    open_values = np.flatnonzero(implied < 0)
    if len(free) and len(open_values):
        known = implied[implied >= 0]
        if np.sign(np.diff(known)).sum() < 0:
            free = free[::-1]
        upto = np.cumsum(finer.n[open_values]) - (finer.n[open_values] + 1) // 2
        ends = np.cumsum(own.n[free])
        # Whole numbers: a share of the one side, set against the same share of the other.
        at = np.searchsorted(
            ends * int(finer.n[open_values].sum()), upto * int(ends[-1]), side="right"
        )
        implied[open_values] = free[np.minimum(at, len(free) - 1)]
    implied = _with_neighbours(implied)
    n = np.bincount(implied, weights=finer.n, minlength=len(own)).astype(np.int64)
    blind = np.bincount(implied, weights=~finer.measured, minlength=len(own)) > 0
    surely = replace(own, measured=own.measured & ~blind)
    return with_counts(surely, n, finer.noise_sd), (np.cumsum(n > 0) - 1)[implied]


def derived_table(
    columns: ColumnSet,
    base: SyntheticTable,
    implied: Mapping[str, tuple[int, Int64Array]],
    supports: tuple[Support, ...],
    placement: Placement,
) -> SyntheticTable:
    """The table of columns of which some are implied by those of a base table.

    implied: By implied column: the base column that implies it, and the code that each of its codes implies.
    """
    own = [_codes_of(name, base, implied) for name in columns]
    cells, number = distinct_cells(own, [len(support) for support in supports])
    n = np.bincount(number, weights=base.n, minlength=len(cells[0])).astype(np.int64)
    blind = np.bincount(number, weights=~base.measured, minlength=len(n)) > 0
    return replace(
        base,
        columns=columns,
        codes=np.column_stack(cells).astype(np.int32),
        n=n,
        measured=~blind,
        groups=_derived_groups(columns, base, implied, supports, placement),
        noise_sd=max(base.noise_sd, *(support.noise_sd for support in supports)),
    )


def _codes_of(
    name: str, base: SyntheticTable, implied: Mapping[str, tuple[int, Int64Array]]
) -> Codes:
    """Codes of one column of a derived table, for each cell of its base."""
    if name in base.columns:
        return base.codes[:, base.columns.index(name)]
    j, to = implied[name]
    return to[base.codes[:, j]].astype(np.int32)


def _derived_groups(
    columns: ColumnSet,
    base: SyntheticTable,
    implied: Mapping[str, tuple[int, Int64Array]],
    supports: tuple[Support, ...],
    placement: Placement,
) -> CellGroups:
    """What is known of the noise: the base's groups, each split by the values that its cells imply."""
    group = 2 * placement.node + placement.released
    present, place = np.unique(group, return_inverse=True)
    parts = [place.astype(np.int64)] + [
        _codes_of(name, base, implied).astype(np.int64) for name in columns if name in implied
    ]
    sizes = [len(present)] + [
        len(support) for name, support in zip(columns, supports, strict=True) if name in implied
    ]
    split, number = distinct_cells(parts, sizes)
    at = split[0]  # position among the base's groups, which are sorted alike
    kind = np.zeros((len(at), len(columns)), dtype=np.uint8)
    low, high = np.zeros((2, len(at), len(columns)), dtype=np.int64)
    is_inside = base.groups.depth[at] >= 0
    codes = iter(split[1:])
    for j, (name, support) in enumerate(zip(columns, supports, strict=True)):
        if name in implied:
            code = next(codes)
            kind[:, j], grid = support.kind[code], support.grid[code]
            low[:, j], high[:, j] = grid, grid
            kind[~is_inside, j], low[~is_inside, j], high[~is_inside, j] = KIND_NEGATIVE, 1, 0
        else:
            of_base = base.columns.index(name)
            kind[:, j] = base.groups.kind[at, of_base]
            low[:, j], high[:, j] = base.groups.low[at, of_base], base.groups.high[at, of_base]
    tops = dict(zip(base.columns, base.groups.tops, strict=True))
    return replace(
        base.groups,
        kind=kind,
        low=low,
        high=high,
        n=np.bincount(number, weights=base.n, minlength=len(at)).astype(np.int64),
        noise_sd=base.groups.noise_sd[at],
        measured=base.groups.measured[at],
        depth=base.groups.depth[at],
        tops=tuple(tops.get(name, 0) for name in columns),
    )
