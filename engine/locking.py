"""Lock a table to the narrower ones: fill, rake, round.

Takes a measurement of k >= 2 columns, the columns' alphabets and the published tables of k - 1 columns; gives the
synthetic table. Candidate cells are those that no narrower table rules out. Each belongs to the deepest released
bucket that holds it; what a bucket holds beyond its released children is spread over its own candidates in
proportion to the narrower tables (maximum entropy given them), capped where a cell that large would have been
released. Then all is raked to the narrower tables and rounded. Sees measurements and published tables only.
"""

from __future__ import annotations

from itertools import combinations

import numpy as np
from numpy.typing import NDArray

from engine.borders import Marks, possible
from engine.candidates import (
    Candidates,
    Letters,
    Margin,
    Narrower,
    exactly,
    join_candidates,
    sampled_pairs,
    sums_in,
)
from engine.ipf import rake
from engine.leftovers import place_leftovers, without_surplus
from engine.noise import siphash
from engine.places import (
    UNRELEASED_CAP,
    Places,
    cell_groups,
    most_unreleased,
    place_candidates,
)
from engine.ranges import code_bounds
from engine.rounding import controlled_rounding
from engine.schema import (
    Alphabet,
    ColumnSet,
    FloatArray,
    Int64Array,
    Measurement,
    SyntheticTable,
    UInt8Array,
)
from engine.tree import NOISE_LAYERS, FittedTree, fit_tree

PAIR_LIMIT = 400_000
"""Most candidate pairs listed in full; above it they are sampled."""
DRAWS_PER_ROW = 6
"""Candidate pairs drawn for each row that lies in a box but in no smaller one."""
MOST_DRAWS = 1 << 21
"""Most candidate pairs drawn: cost follows cells, not rows."""
COMMONEST = 16
"""Letters of the other column that every letter is paired with where pairs are sampled."""
EVERYWHERE = 1e-6
"""Share of the rows spread over all candidates alike, so that raking can reach every margin."""


def sub_tables(columns: ColumnSet) -> tuple[ColumnSet, ...]:
    """Column sets one column narrower, the one without the last column first."""
    return tuple(combinations(columns, len(columns) - 1))


def one_way_table(alphabet: Alphabet, tree: Measurement, layer_sd: int) -> SyntheticTable:
    """The synthetic table of a single column: its alphabet.

    Parameters
    ----------
    alphabet : Alphabet
    tree : Measurement
    layer_sd : int
        Standard deviation of each noise layer at scale 1.
    """
    letters = np.arange(len(alphabet), dtype=np.int32)[:, None]
    places = place_candidates(tree, (alphabet,), letters)
    return SyntheticTable(
        columns=tree.columns,
        letters=letters,
        n=alphabet.n,
        measured=alphabet.measured,
        groups=cell_groups(tree, places, alphabet.n, layer_sd, alphabet.noise_sd),
        noise_sd=alphabet.noise_sd,
    )


def lock_table(
    tree: Measurement,
    alphabets: tuple[Alphabet, ...],
    narrower: tuple[SyntheticTable, ...],
    *,
    noisy_total: int,
    floor: int,
    layer_sd: int,
    key: bytes,
    marks: tuple[Marks, ...] = (),
) -> SyntheticTable:
    """Fit one table of two or more columns.

    Parameters
    ----------
    tree : Measurement
    alphabets : tuple of Alphabet
        In the order of `tree.columns`.
    narrower : tuple of SyntheticTable
        The published tables of one column less, in the order of `sub_tables`.
    noisy_total : int
    floor : int
        Fewest rows a released bucket can hold.
    layer_sd : int
        Standard deviation of each noise layer at scale 1.
    key : bytes
        Sampling key of this column set.
    marks : tuple of dict
        Of each column's letters in the declared universes.

    Returns
    -------
    SyntheticTable
    """
    without = tuple(
        Narrower(letters=t.letters, n=t.n, measured=t.measured) for t in reversed(narrower)
    )
    found = find_candidates(tree, alphabets, without, key, marks)
    places = place_candidates(tree, alphabets, found.letters)
    has_room = np.zeros(tree.n_nodes + 1, dtype=bool)
    has_room[places.node[~places.released]] = True
    fitted = fit_tree(
        tree,
        noisy_total=noisy_total,
        total=float(alphabets[0].n.sum()),
        has_room=has_room,
        floor=floor,
        layer_sd=layer_sd,
        most=most_unreleased(tree),
    )
    cap = UNRELEASED_CAP * float(tree.scale[-1])
    start = spread(fitted, places, prior_weights(found, without, alphabets), cap)
    noise = NOISE_LAYERS * (float(layer_sd) * float(tree.scale[-1])) ** 2
    noise_sd = max(noise**0.5, *(table.noise_sd for table in narrower))
    fibres, others, one_ways = lock_margins(found, without, alphabets)
    raked = rake(
        start,
        [*one_ways, *others, fibres] if others else [*one_ways],
        variance=np.where(places.released, noise, np.inf),
    )
    n = controlled_rounding(raked.x, fibres, others, one_ways[found.last], places.node, key)
    letters, n = _whole(found, n, without, alphabets, marks)
    places = place_candidates(tree, alphabets, letters)
    return SyntheticTable(
        columns=tree.columns,
        letters=letters,
        n=n,
        measured=places.released,
        groups=cell_groups(tree, places, n, layer_sd, noise_sd),
        noise_sd=noise_sd,
        gap=max((margin_gap(letters, n, table, j) for j, table in enumerate(without)), default=0),
        rake_cycles=raked.cycles,
        rake_error=raked.error,
    )


def lock_margins(
    found: Candidates, without: tuple[Narrower, ...], alphabets: tuple[Alphabet, ...]
) -> tuple[Margin, tuple[Margin, ...], tuple[Margin, ...]]:
    """What a table is locked to: its fibres, the other narrower tables of two and more columns, the columns.

    In the fibres and the columns every count is met. In the other narrower tables a measured count is met and one
    that was filled in blindly may be off by one: whether it came out 0 or 1 was by lot, and to carry the lots of three
    tables on into a fourth would contradict what was measured.
    """
    fibres = exactly(found.at[found.last], without[found.last].n)
    one_ways = tuple(
        exactly(found.letters[:, j].astype(np.int64), alphabet.n)
        for j, alphabet in enumerate(alphabets)
    )
    others = []
    for j, table in enumerate(without):
        if j != found.last and len(alphabets) > 2:
            slack = np.where(table.measured, 0, 1)
            others.append(
                Margin(of=found.at[j], low=np.maximum(table.n - slack, 0), high=table.n + slack)
            )
    return fibres, tuple(others), one_ways


def _whole(
    found: Candidates,
    n: Int64Array,
    without: tuple[Narrower, ...],
    alphabets: tuple[Alphabet, ...],
    marks: tuple[Marks, ...],
) -> tuple[Letters, Int64Array]:
    """The cells that hold rows, in lexicographic order, each letter as often as its column's table says."""
    held = np.flatnonzero(n)
    letters, n = found.letters[held], n[held]
    one_way = alphabets[found.last].n
    n = without_surplus(letters, n, found.last, one_way)
    return place_leftovers(letters, n, without, found.last, one_way, marks)


def find_candidates(
    tree: Measurement,
    alphabets: tuple[Alphabet, ...],
    without: tuple[Narrower, ...],
    key: bytes,
    marks: tuple[Marks, ...] = (),
) -> Candidates:
    """Join the narrower tables (entry j: without column j), or sample pairs where all would be too many.

    Fibres run along the column without which most is measured: what is met exactly is then best known.
    """
    sizes = tuple(len(alphabet) for alphabet in alphabets)
    known = [int(table.n[table.measured].sum()) for table in without]
    last = max(range(len(sizes)), key=lambda j: (known[j], j))
    if len(sizes) > 2:  # what universes rule out is in no table of two columns
        return join_candidates(without, sizes, last)
    if sizes[0] * sizes[1] <= PAIR_LIMIT:
        found = join_candidates(without, sizes, last)
    else:
        pairs = _sampled(tree, alphabets, key)
        pairs = pairs[np.argsort(pairs[:, 1 - last], kind="stable")]
        at = (pairs[:, 1], pairs[:, 0])
        found = Candidates(letters=pairs.astype(np.int32), at=at, last=last)
    kept = possible(found.letters, marks)
    if kept.all():
        return found
    return Candidates(letters=found.letters[kept], at=tuple(at[kept] for at in found.at), last=last)


def _sampled(tree: Measurement, alphabets: tuple[Alphabet, ...], key: bytes) -> Int64Array:
    """Pairs drawn inside every released box for the rows in no smaller one, and some for each letter."""
    low, high = code_bounds(tree.kind, tree.level, tree.index)
    boxes = np.empty((tree.n_nodes + 1, 5), dtype=np.int64)
    for j, alphabet in enumerate(alphabets):
        place = _sort_key(alphabet.kind, alphabet.code)
        boxes[1:, 2 * j] = np.searchsorted(place, _sort_key(tree.kind[:, j], low[:, j]))
        boxes[1:, 2 * j + 1] = (
            np.searchsorted(place, _sort_key(tree.kind[:, j], high[:, j]), side="right") - 1
        )
        boxes[0, 2 * j : 2 * j + 2] = 0, len(alphabet) - 1
    counts = np.concatenate([[int(alphabets[0].n.sum())], tree.n])
    beyond = counts - np.bincount(tree.parent + 1, weights=tree.n, minlength=len(counts))
    boxes[:, 4] = DRAWS_PER_ROW * np.maximum(beyond.astype(np.int64), 1)
    boxes = boxes[(boxes[:, 0] <= boxes[:, 1]) & (boxes[:, 2] <= boxes[:, 3])]
    wanted = int(boxes[:, 4].sum())
    if wanted > MOST_DRAWS:
        boxes[:, 4] = np.maximum(boxes[:, 4] * MOST_DRAWS // wanted, 1)
    number = np.arange(int(boxes[:, 4].sum()), dtype=np.uint64)
    bits = np.column_stack([siphash(key, [number, np.full_like(number, j)]) for j in (0, 1)])
    drawn = sampled_pairs(alphabets[0].n, alphabets[1].n, boxes, bits)
    # Every letter meets the other column's commonest ones, so that raking can reach its margin.
    sizes = tuple(len(alphabet) for alphabet in alphabets)
    sure = []
    for j in (0, 1):
        common = np.argsort(-alphabets[1 - j].n, kind="stable")[:COMMONEST]
        grid = np.meshgrid(np.arange(sizes[j]), common, indexing="ij")
        sure.append(np.column_stack([grid[j].ravel(), grid[1 - j].ravel()]))
    pairs = np.concatenate([drawn, *sure])
    return np.column_stack(np.divmod(np.unique(pairs[:, 0] * sizes[1] + pairs[:, 1]), sizes[1]))


def _sort_key(kind: UInt8Array, code: Int64Array) -> NDArray[np.void]:
    """Values in the order of an alphabet, as records that numpy can compare."""
    out = np.empty(len(code), dtype=[("kind", np.int64), ("code", np.int64)])
    out["kind"], out["code"] = kind, code
    return out


def prior_weights(
    found: Candidates, without: tuple[Narrower, ...], alphabets: tuple[Alphabet, ...]
) -> FloatArray:
    """Weight of each candidate from the narrower tables: their product, each letter counted once.

    A letter stands in k - 1 of the narrower tables, so k - 2 of its one-way counts are divided out: n_A n_B for
    two columns, n_AB n_AC n_BC / (n_A n_B n_C) for three.
    """
    weight = np.ones(len(found.letters))
    for at, table in zip(reversed(found.at), reversed(without), strict=True):
        weight = weight * table.n[at]
    for j, alphabet in enumerate(alphabets):
        once = alphabet.n[found.letters[:, j]]
        for _ in range(len(alphabets) - 2):
            weight = weight / once
    return weight


def spread(
    fitted: FittedTree, places: Places, weight: FloatArray, cap: float = UNRELEASED_CAP
) -> FloatArray:
    """Give each node's remainder to its own candidates by weight, capped for cells that were not released.

    Returns
    -------
    ndarray of float64, shape (n_candidates,)
        Fitted rows before raking.
    """
    filled = ~places.released
    x = fitted.mass[places.node]  # right for released cells; each is alone in its node
    node, mass = places.node[filled], fitted.remainder
    own = _shares(node, weight[filled], mass)
    for _ in range(3):  # what the cap cuts off goes to the others of the box
        over = own > cap
        if not over.any():
            break
        cut = np.where(over, cap, 0.0)
        left = mass - np.bincount(node, weights=cut, minlength=len(mass))
        free = np.where(over, 0.0, weight[filled])
        # A box whose candidates are all full keeps its mass: shared out over them again.
        full = np.bincount(node, weights=free, minlength=len(mass)) <= 0
        own = np.where(full[node], own, cut + _shares(node, free, np.maximum(left, 0.0)))
    x[filled] = own
    everywhere = float(np.cumsum(weight)[-1]) if len(weight) else 1.0
    reachable: FloatArray = x + weight * (EVERYWHERE * fitted.mass[0] / everywhere)
    return reachable


def _shares(node: Int64Array, weight: FloatArray, mass: FloatArray) -> FloatArray:
    """Share each node's mass among its candidates by weight."""
    sums = np.bincount(node, weights=weight, minlength=len(mass))
    rate = np.divide(mass, sums, out=np.zeros_like(mass), where=sums > 0)
    return weight * rate[node]


def margin_gap(letters: Letters, n: Int64Array, table: Narrower, dropped: int) -> int:
    """Largest difference between a table summed over one column and the published narrower table.

    Parameters
    ----------
    letters : ndarray of int32, shape (n_cells, n_columns)
    n : ndarray of int64, shape (n_cells,)
    table : Narrower
        The published table without column `dropped`.
    dropped : int
    """
    sums, outside = sums_in(table, np.delete(letters, dropped, axis=1), n)
    return max(int(np.abs(sums - table.n).max(initial=0)), outside)
