"""Lock a table to the narrower ones: fill, rake, round, repair.

Takes a measurement of k >= 2 columns, the columns' supports and the published tables of k - 1 columns; gives the
synthetic table. Candidate cells are those that no narrower table rules out. Each belongs to the deepest released
bucket that holds it; what a bucket holds beyond its released children is spread over its own candidates in
proportion to the narrower tables (maximum entropy given them; of pairs times what the group has near the value,
`engine.fit.expected`), capped where a cell that large would have been released. Then all is raked to the narrower
tables and rounded. Pairs of columns of very many values go another way (`engine.fit.fine`). Sees measurements and
published tables only.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from itertools import combinations

import numpy as np

from engine.cell_keys import shorter
from engine.fit.borders import Marks, possible
from engine.fit.candidates import (
    Candidates,
    Codes,
    MarginBounds,
    Narrower,
    exact_bounds,
    join_candidates,
    sums_in,
)
from engine.fit.coarse import Coarse, loose_bounds, sharpened, within
from engine.fit.expected import (
    expected_rows,
    ordered_column,
    prior_weights,
    total,
    weighed_nearby,
)
from engine.fit.fine.pairs import fine_pair, is_fine
from engine.fit.placement import (
    UNRELEASED_CAP,
    Placement,
    cell_groups,
    most_unreleased,
    place_candidates,
)
from engine.fit.rake import RakeResult, rake
from engine.fit.tree import FittedTree, fit_tree
from engine.fit.whole.repair import place_missing_rows, remove_surplus
from engine.fit.whole.rounding import controlled_rounding
from engine.fit.whole.settling import FAR, settle
from engine.params import NOISE_LAYERS
from engine.schema import (
    ColumnSet,
    FloatArray,
    Int64Array,
    Measurement,
    Support,
    SyntheticTable,
)

EVERYWHERE = 1e-6
"""Share of the rows spread over all candidates alike, so that raking can reach every margin."""


def sub_tables(columns: ColumnSet) -> tuple[ColumnSet, ...]:
    """Column sets one column narrower, the one without the last column first."""
    return tuple(combinations(columns, len(columns) - 1))


def one_way_table(support: Support, tree: Measurement, layer_sd: int) -> SyntheticTable:
    """The synthetic table of a single column: its support."""
    codes = np.arange(len(support), dtype=np.int32)[:, None]
    placement = place_candidates(tree, (support,), codes)
    return SyntheticTable(
        columns=tree.columns,
        codes=codes,
        n=support.n,
        measured=support.measured,
        groups=cell_groups(tree, placement, support.n, layer_sd, support.noise_sd),
        noise_sd=support.noise_sd,
    )


def lock_table(
    tree: Measurement,
    supports: tuple[Support, ...],
    narrower: tuple[SyntheticTable, ...],
    *,
    noisy_total: int,
    floor: int,
    layer_sd: int,
    key: bytes,
    marks: tuple[Marks, ...] = (),
    coarse: tuple[Coarse, ...] = (),
) -> SyntheticTable:
    """Fit one table of two or more columns.

    coarse: The published tables of a coarser column in the place of one that tells it.
    """
    without = tuple(Narrower(codes=t.codes, n=t.n, measured=t.measured) for t in reversed(narrower))
    job = _Job(
        tree=tree,
        supports=supports,
        without=without,
        noisy_total=noisy_total,
        floor=floor,
        layer_sd=layer_sd,
        key=key,
        marks=marks,
        coarse=coarse,
    )
    is_listed = not is_fine([len(support) for support in supports])
    codes, n, raked = _fitted(job) if is_listed else _fitted_fine(job)
    gap = table_gap(codes, n, without, coarse)
    placement = place_candidates(tree, supports, codes)
    noise_sd = stated_sd(tree, layer_sd, [table.noise_sd for table in narrower])
    return SyntheticTable(
        columns=tree.columns,
        codes=codes,
        n=n,
        measured=placement.released,
        groups=cell_groups(tree, placement, n, layer_sd, noise_sd),
        noise_sd=noise_sd,
        gap=gap,
        rake_cycles=raked.cycles if raked else 0,
        rake_error=raked.error if raked else 0.0,
    )


@dataclass(frozen=True, kw_only=True, slots=True)
class _Job:
    """All that a table is fitted to; see `lock_table`. Entry j of `without` is the published table without column j."""

    tree: Measurement
    supports: tuple[Support, ...]
    without: tuple[Narrower, ...]
    noisy_total: int
    floor: int
    layer_sd: int
    key: bytes
    marks: tuple[Marks, ...]
    coarse: tuple[Coarse, ...]


def _fitted_fine(job: _Job) -> tuple[Codes, Int64Array, None]:
    """Cells and their rows where combinations of values cannot be listed; nothing is raked."""
    codes, n = fine_pair(
        job.tree,
        job.supports,
        noisy_total=job.noisy_total,
        floor=job.floor,
        layer_sd=job.layer_sd,
        key=job.key,
        marks=job.marks,
        coarse=job.coarse,
    )
    return codes, n, None


def _fitted(job: _Job) -> tuple[Codes, Int64Array, RakeResult]:
    """Cells and their rows: candidates filled, raked, rounded, repaired, settled."""
    tree, supports, without, coarse = job.tree, job.supports, job.without, job.coarse
    candidates = find_candidates(supports, without, job.marks)
    candidates, at_coarse = within(candidates, coarse) if coarse else (candidates, ())
    placement = place_candidates(tree, supports, candidates.codes)
    start = _started(job, candidates, placement, at_coarse)
    noise = NOISE_LAYERS * (float(job.layer_sd) * float(tree.scale[-1])) ** 2
    fibres, others, one_ways = lock_margins(candidates, without, supports)
    others += tuple(loose_bounds(at, c.table) for at, c in zip(at_coarse, coarse, strict=True))
    raked = rake(
        start,
        [*one_ways, *others, fibres] if others else [*one_ways],
        variance=np.where(placement.released, noise, np.inf),
    )
    last = candidates.last
    n = controlled_rounding(
        raked.x,
        fibres,
        others,
        one_ways[last],
        placement.node,
        job.key,
        is_pair=len(supports) == 2,
    )
    codes, n = _repaired(candidates, n, without, supports, job.marks)
    if len(supports) > 2 and table_gap(codes, n, without, coarse) >= FAR:
        codes, n = settle(codes, n, candidates, without, job.key, coarse)
    return codes, n, raked


def _started(
    job: _Job, candidates: Candidates, placement: Placement, at_coarse: tuple[Int64Array, ...]
) -> FloatArray:
    """Rows of candidates before raking: those of a pair fitted twice, the second time by what the first has nearby."""
    tree, supports = job.tree, job.supports
    has_room = np.zeros(tree.n_nodes + 1, dtype=bool)
    has_room[placement.node[~placement.released]] = True
    most, cap = most_unreleased(tree), UNRELEASED_CAP * float(tree.scale[-1])

    def fitted(weight: FloatArray, expected: FloatArray | None) -> FloatArray:
        masses = fit_tree(
            tree,
            noisy_total=job.noisy_total,
            total=float(supports[0].n.sum()),
            has_room=has_room,
            floor=job.floor,
            layer_sd=job.layer_sd,
            most=most,
            expected=expected,
        )
        return spread(masses, placement, weight, cap)

    weight = prior_weights(candidates, job.without, supports)
    if len(supports) > 2:
        return fitted(weight, None)
    codes = candidates.codes
    weight = sharpened(weight, codes, supports, job.coarse, at_coarse)
    first = fitted(weight, expected_rows(tree, placement, weight, codes, supports))
    along = ordered_column(supports)
    if along is None:
        return first
    weight = weighed_nearby(weight, first, codes, supports, along)
    return fitted(weight, expected_rows(tree, placement, weight, codes, supports))


def stated_sd(tree: Measurement, layer_sd: int, narrower: Iterable[float]) -> float:
    """Return the noise that is stated for a table's finest counts, in plans, on cards and with answers.

    narrower: What is stated for the tables that it is locked to: their error is its own, too.
    """
    own: float = NOISE_LAYERS**0.5 * layer_sd * float(tree.scale[-1])
    return max(own, *narrower)


def lock_margins(
    candidates: Candidates, without: tuple[Narrower, ...], supports: tuple[Support, ...]
) -> tuple[MarginBounds, tuple[MarginBounds, ...], tuple[MarginBounds, ...]]:
    """What a table is locked to: its fibres, the other narrower tables of two and more columns, the columns.

    In the fibres and the columns every count is met. In the other narrower tables a measured count is met and one
    that was filled in blindly may be off by one: whether it came out 0 or 1 was by lot, and raking to the lots of
    three tables would bend what was measured. Rounding meets them where all can be met.
    """
    fibres = exact_bounds(candidates.at[candidates.last], without[candidates.last].n)
    one_ways = tuple(
        exact_bounds(candidates.codes[:, j].astype(np.int64), support.n)
        for j, support in enumerate(supports)
    )
    others = []
    for j, table in enumerate(without):
        if j != candidates.last and len(supports) > 2:
            others.append(loose_bounds(candidates.at[j], table))
    return fibres, tuple(others), one_ways


def _repaired(
    candidates: Candidates,
    n: Int64Array,
    without: tuple[Narrower, ...],
    supports: tuple[Support, ...],
    marks: tuple[Marks, ...],
) -> tuple[Codes, Int64Array]:
    """The cells that hold rows, in lexicographic order, each code as often as its column's table says."""
    occupied = np.flatnonzero(n)
    codes, n = candidates.codes[occupied], n[occupied]
    one_way = supports[candidates.last].n
    n = remove_surplus(codes, n, candidates.last, one_way)
    return place_missing_rows(codes, n, without, candidates.last, one_way, marks)


def find_candidates(
    supports: tuple[Support, ...], without: tuple[Narrower, ...], marks: tuple[Marks, ...] = ()
) -> Candidates:
    """Join the narrower tables (entry j: without column j).

    Fibres run along the column without which most is measured: what is met exactly is then best known. Of two columns
    both are met: along the one of fewer values, so that runs of the other's are split the fewest times.
    """
    sizes = tuple(len(support) for support in supports)
    known = [int(table.n[table.measured].sum()) for table in without]
    if len(sizes) == 2:
        last = shorter(sizes)
    else:
        last = max(range(len(sizes)), key=lambda j: (known[j], j))
    candidates = join_candidates(without, sizes, last)
    if len(sizes) > 2:  # what universes rule out is in no table of two columns
        return candidates
    allowed = possible(candidates.codes, marks)
    if allowed.all():
        return candidates
    return Candidates(
        codes=candidates.codes[allowed], at=tuple(at[allowed] for at in candidates.at), last=last
    )


def spread(
    fitted: FittedTree, placement: Placement, weight: FloatArray, cap: float = UNRELEASED_CAP
) -> FloatArray:
    """Give each node's remainder to its own candidates by weight, capped for cells that were not released."""
    filled = ~placement.released
    x = fitted.mass[placement.node]  # right for released cells; each is alone in its node
    node, mass = placement.node[filled], fitted.remainder
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
    reachable: FloatArray = x + weight * (EVERYWHERE * fitted.mass[0] / (total(weight) or 1.0))
    return reachable


def _shares(node: Int64Array, weight: FloatArray, mass: FloatArray) -> FloatArray:
    """Share each node's mass among its candidates by weight."""
    sums = np.bincount(node, weights=weight, minlength=len(mass))
    rate = np.divide(mass, sums, out=np.zeros_like(mass), where=sums > 0)
    return weight * rate[node]


def table_gap(
    codes: Codes, n: Int64Array, without: tuple[Narrower, ...], coarse: tuple[Coarse, ...]
) -> int:
    """Largest difference between a margin of a table and what it is locked to."""
    return max(
        *(margin_gap(codes, n, table, j) for j, table in enumerate(without)),
        *(one.gap(codes, n) for one in coarse),
    )


def margin_gap(codes: Codes, n: Int64Array, table: Narrower, dropped: int) -> int:
    """Largest difference between a table summed over one column and the published narrower table.

    table: The published table without column `dropped`.
    """
    sums, outside = sums_in(table, np.delete(codes, dropped, axis=1), n)
    return max(int(np.abs(sums - table.n).max(initial=0)), outside)
