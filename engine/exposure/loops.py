"""Compiled loops of the exposure computation: people in cells, and what the cells reveal of them.

Imported where exposure is computed, not with the package: numba takes half a second.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from engine.kernels import kernel, part
from engine.schema import FloatArray, Int32Array, Int64Array

Float32Array = NDArray[np.float32]

_MIX = np.int64(-7046029254386353131)  # 2**64 divided by the golden ratio


LARGE = 500
"""What a sum over more people reveals of each is taken as known by itself: together they reveal next to nothing."""
MOST_TURNS, NEGLIGIBLE, TINY = 100, 0.03, 1e-300
"""Iterations at most; share of the variance of a guess that it may be too small by at which they end."""


@part
def _find(slots: Int32Array, keys: Int32Array, key: Int32Array) -> int:
    """Where a key is in a hash table with linear probing, or the free slot for it.

    slots: By slot the number of a row of `keys`, from 1; 0: free.
    """
    mixed = np.int64(0)
    for j in range(len(key)):
        mixed = (mixed * _MIX) ^ key[j]
    mixed *= _MIX
    at = int(mixed ^ (mixed >> 32)) & (len(slots) - 1)
    while slots[at] > 0:
        same = True
        for j in range(len(key)):
            same = same and keys[slots[at], j] == key[j]
        if same:
            break
        at = (at + 1) & (len(slots) - 1)
    return at


@kernel
def place(
    ranges: Int32Array,
    depth: NDArray[np.uint8],
    n: Int64Array,
    least: int,
    levels: Int64Array,
    leaf: Int32Array,
    above: Int32Array,
    first: Int64Array,
) -> tuple[Int32Array, FloatArray, FloatArray, Int32Array, Int32Array]:
    """Find the finest cell of some columns around each row. Cells are numbered from 1; 0 is none.

    ranges: shape (n_nodes, n_columns), the number of each bucket's range in the columns; depth, n: its depth,
        ascending, and its count.
    least: Buckets that a cell must hold.
    levels: shape (n_depths, n_columns), the level of each column by depth. Of buckets that lie deeper than the last,
        whose ranges of these columns get no finer, those of the first depth that has so many in a cell count.
    leaf: shape (n_rows, n_columns), the number of the finest range of each row; above, first: of range k of column j
        the range around it at a level is above[first[j, level] + k].

    Returns: cell of each row; by cell its count, and how many figures there are of it: one, and one for each next finer
        cell inside; the next finer cell of each row, which holds fewer buckets (0: its ranges are not released); by
        next finer cell its range of the first column.
    """
    n_nodes, n_columns = ranges.shape
    last = len(levels) - 1
    size = 8
    while size < 2 * n_nodes:
        size *= 2
    slots = np.zeros(size, np.int32)
    keys = np.zeros((n_nodes + 1, n_columns + 1), np.int32)  # ranges, and the depth up to the last
    measured = np.zeros(n_nodes + 1, np.int32)  # at which depth
    held = np.zeros(n_nodes + 1, np.int32)
    people = np.zeros(n_nodes + 1)
    key = np.zeros(n_columns + 1, np.int32)
    n_cells = 0
    for node in range(n_nodes):
        key[:n_columns] = ranges[node]
        key[n_columns] = min(depth[node], last)
        at = _find(slots, keys, key)
        cell = slots[at]
        if cell == 0:
            n_cells += 1
            cell = slots[at] = n_cells
            keys[cell] = key
            measured[cell] = depth[node]
        elif measured[cell] < depth[node]:
            if held[cell] >= least:
                continue
            held[cell], people[cell], measured[cell] = 0, 0.0, depth[node]
        held[cell] += 1
        people[cell] += max(n[node], 0)
    # A bucket lies in buckets of all lower depths, so each cell lies in one of the depth before.
    around = np.zeros(n_cells + 1, np.int32)
    for cell in range(1, n_cells + 1):
        own = keys[cell, n_columns] - 1
        if own >= 0:
            for j in range(n_columns):
                key[j] = above[first[j, levels[own, j]] + keys[cell, j]]
            key[n_columns] = own
            parent = slots[_find(slots, keys, key)]
            around[cell] = parent if held[parent] >= least else around[parent]
    cell_of, finer_of = np.zeros(len(leaf), np.int32), np.zeros(len(leaf), np.int32)
    size = 8
    while size < 2 * len(leaf):
        size *= 2
    finer_slots = np.zeros(size, np.int32)
    finer_keys = np.zeros((len(leaf) + 1, n_columns + 1), np.int32)
    n_finer = 0
    for row in range(len(leaf)):
        low, high, cell = 0, last + 1, 0
        while low < high:  # the deepest one around the row, by bisection
            own = (low + high) // 2
            is_within = True
            for j in range(n_columns):
                key[j] = above[first[j, levels[own, j]] + leaf[row, j]]
                is_within = is_within and key[j] > 0
            key[n_columns] = own
            found = slots[_find(slots, keys, key)] if is_within else 0
            if found > 0:
                low, cell = own + 1, found
            else:
                high = own
        cell = cell if held[cell] >= least else around[cell]
        cell_of[row] = cell
        own = keys[cell, n_columns] + 1 if cell > 0 else 0
        is_within = own <= last
        for j in range(n_columns if is_within else 0):
            key[j] = above[first[j, levels[own, j]] + leaf[row, j]]
            is_within = is_within and key[j] > 0
        if is_within:
            key[n_columns] = own
            at = _find(finer_slots, finer_keys, key)
            if finer_slots[at] == 0:
                n_finer += 1
                finer_slots[at] = n_finer
                finer_keys[n_finer] = key
            finer_of[row] = finer_slots[at]
    figures = np.ones(n_cells + 1)
    for cell in range(1, n_cells + 1):
        if held[cell] >= least and around[cell] > 0:
            figures[around[cell]] += 1
    finer_range = np.zeros(n_finer + 1, np.int32)
    if n_columns > 0:
        finer_range[:] = finer_keys[: n_finer + 1, 0]
    return cell_of, people[: n_cells + 1], figures, finer_of, finer_range


@kernel
def lessen(
    share: FloatArray, people: FloatArray, cell: Int32Array, around: FloatArray, wider: Int32Array
) -> None:
    """Multiply each row's share by what part of a wider cell is outside of its own; people, around: counts by cell."""
    for row in range(len(share)):
        of = around[wider[row]]
        if of > 0:
            share[row] *= min(max(1 - people[cell[row]] / of, 0.0), 1.0)


@kernel
def reveal(
    person: Int64Array,
    cell: Int32Array,
    weight: FloatArray,
    share: FloatArray,
    noise: FloatArray,
    larger: FloatArray,
    gain: float,
    unknown: FloatArray,
    out: FloatArray,
) -> None:
    """What the cells of one table reveal of each person, as a ratio of signal to noise, added to `out`.

    unknown: shape (n_people,), variance of what is not known of each person's secret; the others: see `Cells`.
    """
    known = gain * gain
    variance = np.zeros(len(noise))  # of the sum
    for edge in range(len(cell)):
        of = known * unknown[person[edge]] + 1 - known
        variance[cell[edge]] += of * weight[edge] ** 2
    for at in range(len(noise)):
        variance[at] = noise[at] + variance[at] * larger[at]
    for edge in range(len(cell)):
        who, square = person[edge], known * weight[edge] ** 2
        out[who] += share[edge] * square / (variance[cell[edge]] - square * unknown[who])


@kernel
def by_cell(
    person: Int64Array,
    cell: Int32Array,
    weight: FloatArray,
    noise: FloatArray,
    larger: FloatArray,
    gain: float,
    errors: int,
    unknown: FloatArray,
    prior: FloatArray,
) -> tuple[Int64Array, Int64Array, Int32Array, Float32Array, FloatArray]:
    """The people of each small cell of one table; what large cells reveal of people is added to `prior`.

    errors: Where the error of each person is numbered from, if the table shows the secret with errors.
    unknown: shape (n_people,), variance of what is not known of each person's secret; the others: see `Cells`.

    Returns: by small cell of which anything is shown: its number, and how many entries it has; by entry who, and with
        which weight; by cell the variance of the secrets of its people who were not sampled.
    """
    known, n_cells = gain * gain, len(noise)
    times = 2 if gain < 1 else 1  # a correlation may be rounded to more than 1
    sampled, of_all = np.zeros(n_cells), np.zeros(n_cells)
    n_each = np.zeros(n_cells, np.int64)
    for edge in range(len(cell)):
        at, square = cell[edge], weight[edge] ** 2
        sampled[at] += square
        of_all[at] += (1 - known + known * unknown[person[edge]]) * square
        n_each[at] += 1
    first, n_edges = np.full(n_cells, -1), 0
    for at in range(n_cells):
        if n_each[at] > 0 and sampled[at] <= LARGE and np.isfinite(noise[at]):
            first[at] = n_edges
            n_edges += n_each[at] * times
    held = np.flatnonzero(first >= 0)
    who, by = np.empty(n_edges, np.int32), np.empty(n_edges, np.float32)
    for edge in range(len(cell)):
        at, one = cell[edge], person[edge]
        place = first[at]
        if sampled[at] > LARGE:
            mine = known * weight[edge] ** 2
            prior[one] += mine / (noise[at] + of_all[at] * larger[at] - mine * unknown[one])
        elif place >= 0:
            who[place], by[place] = one, weight[edge] * gain
            if gain < 1:
                who[place + 1], by[place + 1] = one + errors, weight[edge] * np.sqrt(1 - known)
            first[at] += times
    return held, n_each[held] * times, who, by, of_all[held] * (larger[held] - 1)


@kernel
def solve(
    first: Int64Array,
    person: Int32Array,
    weight: Float32Array,
    precision: Float32Array,
    prior: FloatArray,
    who: Int64Array,
) -> Float32Array:
    """Columns of the covariance of what noisy sums over cells leave unknown, by conjugate gradients (Jacobi).

    first, person, weight: The people of cell k, and their weights, stand from first[k] up to first[k + 1].
    precision: shape (n_cells, n_who), of the noise.
    prior: shape (n_people,), precision of what is known of each beforehand, that its variance is 1 included.
    who: shape (n_who,), whose columns.

    Returns: shape (n_people, n_who).
    """
    n_who = len(
        who
    )  # not a constant: numba would unroll the loops over it, and not compute several at once
    shape = (len(prior), n_who)
    inverse, known = np.zeros(shape, np.float32), prior.astype(np.float32)  # of the diagonal
    for cell in range(len(precision)):
        for edge in range(first[cell], first[cell + 1]):
            one, by = inverse[person[edge]], weight[edge] ** 2
            for k in range(n_who):
                one[k] += by * precision[cell, k]
    for i in range(len(prior)):
        for k in range(n_who):
            inverse[i, k] = 1 / (inverse[i, k] + prior[i])
    guess, rest = np.zeros(shape, np.float32), np.zeros(shape, np.float32)
    way, along = np.zeros(shape, np.float32), np.zeros(shape, np.float32)
    square, after = np.zeros(n_who), np.zeros(n_who)
    step = np.zeros(n_who, np.float32)
    for k in range(n_who):
        rest[who[k], k] = 1.0
        way[who[k], k] = square[k] = inverse[who[k], k]
    for _ in range(MOST_TURNS):
        for i in range(len(prior)):
            for k in range(n_who):
                along[i, k] = known[i] * way[i, k]
        _through_cells(first, person, weight, precision, way, along)
        after[:] = 0.0
        for i in range(len(prior)):
            for k in range(n_who):
                after[k] += way[i, k] * along[i, k]
        for k in range(n_who):
            step[k] = square[k] / after[k] if after[k] > 0 else 0.0
        after[:] = 0.0
        for i in range(len(prior)):
            for k in range(n_who):
                guess[i, k] += step[k] * way[i, k]
                rest[i, k] -= step[k] * along[i, k]
                after[k] += rest[i, k] ** 2 * inverse[i, k]
        is_settled = True
        for k in range(n_who):
            left = guess[who[k], k]
            is_settled = is_settled and after[k] <= NEGLIGIBLE * left * (1 - left)
        if is_settled:
            break
        for k in range(n_who):
            step[k] = after[k] / max(square[k], TINY)
        for i in range(len(prior)):
            for k in range(n_who):
                way[i, k] = rest[i, k] * inverse[i, k] + step[k] * way[i, k]
        square[:] = after
    return guess


@part
def _through_cells(
    first: Int64Array,
    person: Int32Array,
    weight: Float32Array,
    precision: Float32Array,
    of_people: Float32Array,
    out: Float32Array,
) -> None:
    """Sum over the people of each cell, and add what the sum says to each of them."""
    total = np.zeros(out.shape[1], out.dtype)
    for cell in range(len(precision)):
        total[:] = 0.0
        for edge in range(first[cell], first[cell + 1]):
            one, by = of_people[person[edge]], weight[edge]
            for k in range(len(total)):
                total[k] += by * one[k]
        total *= precision[cell]
        for edge in range(first[cell], first[cell + 1]):
            one, by = out[person[edge]], weight[edge]
            for k in range(len(total)):
                one[k] += by * total[k]
