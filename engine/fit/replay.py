"""Replay: run the mechanism on a released table as if it were the data, in one process, in memory.

`imagine` draws what the data may have been, given a released table: rows that were filled in are drawn anew, in
clumps, rows beyond the outermost released values and rows with hidden values get their share. `replay` runs the shipped
measurement and fit on weighted rows under a key and gives the table that a release of them would show. The difference
between a statement on the replay and on what was imagined is distributed like the error of the release. Everything here
is public; anybody with the release can run it. Measured coverage: `queries/intervals/README.md`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from itertools import combinations

import numpy as np

from engine.fit.columns import fit_columns, lock_job
from engine.fit.order import FitOrder
from engine.fit.supports import Universes, found_limits
from engine.keys import MasterKey
from engine.mechanism import (
    ArrayCells,
    StickyDraws,
    measure_columns,
    measure_total,
    measure_wider,
    passing,
    row_bounds,
    summable,
)
from engine.params import PrivacyParams
from engine.schema import (
    KIND_NULL,
    KIND_OTHER,
    NULL_CODE,
    OTHER_CODE,
    BoolArray,
    Column,
    ColumnSet,
    FloatArray,
    Int64Array,
    ReleaseHeader,
    Support,
    SyntheticTable,
    WeightedRows,
)

VINTAGE = "replay"


@dataclass(frozen=True, kw_only=True, slots=True)
class Mechanism:
    """What a release states of how one of its tables was made.

    columns: Those of the table, and those that decide their universes; by name. Of ranked columns the domain holds the
        codes of the released values.
    limits: Smallest and largest code of the columns that declare bounds.
    """

    columns: tuple[Column, ...]
    privacy: PrivacyParams
    limits: Mapping[str, tuple[int, int]] = field(default_factory=dict)
    universes: Universes = field(default_factory=dict)
    by_prefix: frozenset[str] = frozenset()  # Ranked columns whose codes are those of prefixes


CLUMP_SHAPE = 0.5
"""Shape of the Gamma factor by which a clump of imagined people is more or fewer than its filled rows. A choice of the
prototype, not a derivation: with shapes from .3 to 1, coverage by kind of figure changed by up to 7 points."""
TAIL_ROWS = 25
"""Rows from which the tail beyond an outermost value is estimated."""
FURTHEST_CODE = 1 << 62
"""No imagined code lies further from 0: a code is an int64."""
TAIL_MOST, TAIL_FURTHEST = 0.7, 3.0
"""Most that a tail index is estimated to be, and most times that a value lies beyond the one it is drawn from: limits
of the prototype, not derived."""


def imagine(
    rows: WeightedRows, measured: BoolArray, mechanism: Mechanism, rng: np.random.Generator
) -> WeightedRows:
    """What the data may have been.

    measured: shape (n_rows,): The number of this combination was measured; else it was filled in.

    Returns: distinct rows.
    """
    rows = WeightedRows(codes=dict(rows.codes), n=_clumped(rows, measured, mechanism, rng))
    rows = _hidden(rows, mechanism, rng)
    # What was appended for hidden values is as good as filled.
    known = np.concatenate([measured, np.zeros(len(rows.n) - len(measured), dtype=bool)])
    for column in mechanism.columns:
        if not column.is_ranked:
            for sign in (1, -1):
                rows, known = _with_tail(rows, known, column.name, sign, mechanism, rng)
    return _distinct(rows)


def stretched(rows: WeightedRows, measured: BoolArray, mechanism: Mechanism) -> WeightedRows:
    """What the data may have been at the most that is imagined: with far outermost values.

    At each end of a column that does not end there, about as many people as are usually hidden have a value
    `TAIL_FURTHEST` times as far from 0 as the outermost released one, or as near, where the end is towards 0.
    """
    for column in mechanism.columns:
        if not column.is_ranked:
            for sign in (1, -1):
                rows, measured = _with_tail(rows, measured, column.name, sign, mechanism, None)
    return _distinct(rows)


def _clumped(
    rows: WeightedRows, measured: BoolArray, mechanism: Mechanism, rng: np.random.Generator
) -> Int64Array:
    """Numbers of rows once the filled ones are drawn anew.

    People of similar values in one group come together: runs of about as many rows as are usually hidden, along the
    column of most values, are as a whole more or fewer.
    """
    filled, n = np.flatnonzero(~measured), rows.n.copy()
    total = int(n[filled].sum())
    if not total:
        return n
    n_values = {name: len(np.unique(codes)) for name, codes in rows.codes.items()}
    on_grid = {column.name for column in mechanism.columns if not column.is_ranked}
    along = max(n_values, key=lambda name: (name in on_grid, n_values[name], name))
    groups = [codes[filled] for name, codes in rows.codes.items() if name != along]
    order = np.lexsort((rows.codes[along][filled], *groups))
    is_new = np.zeros(total and len(filled), dtype=bool)
    is_new[0] = True
    for codes in groups:
        is_new[1:] |= np.diff(codes[order]) != 0
    group = np.cumsum(is_new) - 1
    own = n[filled][order]
    before = np.cumsum(own) - own
    within = before - before[is_new][group]
    size = max(mechanism.privacy.threshold_mean - 1, 1)
    run = ((within + rng.random(group[-1] + 1)[group] * size) // size).astype(np.int64)
    _, clump = np.unique(group * (run.max() + 1) + run, return_inverse=True)
    weight = own * rng.gamma(CLUMP_SHAPE, 1 / CLUMP_SHAPE, size=clump.max() + 1)[clump]
    if weight.sum() > 0:
        n[filled[order]] = rng.multinomial(total, weight / weight.sum())
    return n


def _hidden(rows: WeightedRows, mechanism: Mechanism, rng: np.random.Generator) -> WeightedRows:
    """Some rows of each column that shows no placeholder may hold a value that was too rare to be shown."""
    for column in mechanism.columns:
        codes = rows.codes[column.name]
        if not column.is_ranked or column.public or (codes == OTHER_CODE).any():
            continue
        n_hidden = int(rng.integers(0, mechanism.privacy.threshold_mean + 1))
        taken = _drawn(rows.n, n_hidden, rng)
        rows = _moved(rows, taken, column.name, np.full(len(taken), OTHER_CODE))
    return rows


def _with_tail(
    rows: WeightedRows,
    measured: BoolArray,
    name: str,
    sign: int,
    mechanism: Mechanism,
    rng: np.random.Generator | None,
) -> tuple[WeightedRows, BoolArray]:
    """Rows at the outermost value of a column, and some of those before, drawn anew beyond it.

    Hidden rows beyond the outermost released value are counted at it or further inside. Where it was measured and many
    rows stand there, the scale ends. Else the tail is a power law, its index estimated by Hill's estimator with the
    rows at the outermost value censored, on the logarithm of the distance from 0: outwards or inwards.

    sign: 1 for the upper end, -1 for the lower one; rng: None for as far out as is ever drawn.
    """
    codes, n = rows.codes[name], rows.n
    is_value = (codes != NULL_CODE) & (codes != OTHER_CODE) & (n > 0)
    at = np.flatnonzero(is_value)
    x = codes[at].astype(np.float64)
    order = np.argsort(-sign * x, kind="stable")
    at, x = at[order], x[order]
    threshold = mechanism.privacy.threshold_mean
    if not len(x) or x[0] == 0 or _is_bounded(mechanism, name, sign, x[0]):
        return rows, measured
    side = np.sign(x[0])
    is_last = x == x[0]
    n_last, n_filled = int(n[at[is_last]].sum()), int(n[at[is_last & ~measured[at]]].sum())
    if n_filled < n_last and n_last > 4 * threshold:
        return rows, measured
    same_side = np.sign(x) == side
    at, x = at[same_side], x[same_side]
    out = sign * side * np.log(np.abs(x))  # grows towards the end
    upto = int(np.searchsorted(np.cumsum(n[at]), 2 * threshold)) + 1
    upto = max(upto, int(is_last.sum()) if n_filled else 0)
    of_end = np.repeat(np.arange(upto)[: len(at)], n[at][:upto])[: max(2 * threshold, n_filled)]
    if rng is None:
        drawn = np.full(len(of_end), out[0] + np.log(TAIL_FURTHEST))
        return _with_values(
            rows, measured, at[of_end], name, side * np.exp(sign * side * drawn), mechanism
        )
    near = np.repeat(out[: upto + 8 * TAIL_ROWS], n[at][: upto + 8 * TAIL_ROWS])
    below = near[(near < out[0]) & (near >= out[0] - np.log(4.0))][:TAIL_ROWS]
    if len(below) < 3:
        return rows, measured
    censored = int((near == out[0]).sum())
    index = (below - below[-1]).sum() + censored * (out[0] - below[-1])
    index *= len(below) / (max(len(below) - 1, 1) * rng.gamma(len(below)))
    index = min(max(index, 1e-3), TAIL_MOST)
    n_moved = len(of_end) if n_filled else int(rng.integers(0, len(of_end) + 1))
    of_end = rng.permutation(of_end)[:n_moved]
    begin = np.maximum(out[of_end], out[min(upto, len(out) - 1)])
    drawn = begin + np.minimum(rng.exponential(index, n_moved), np.log(TAIL_FURTHEST))
    return _with_values(
        rows, measured, at[of_end], name, side * np.exp(sign * side * drawn), mechanism
    )


def _with_values(
    rows: WeightedRows,
    measured: BoolArray,
    taken: Int64Array,
    name: str,
    values: FloatArray,
    mechanism: Mechanism,
) -> tuple[WeightedRows, BoolArray]:
    """The same rows with one person of each position taken at another value, within the declared bounds."""
    codes = np.clip(np.rint(values), -FURTHEST_CODE, FURTHEST_CODE).astype(np.int64)
    if name in mechanism.limits:
        codes = np.clip(codes, *mechanism.limits[name])
    moved = _moved(rows, taken, name, codes)
    return moved, np.concatenate([measured, np.zeros(len(taken), dtype=bool)])


def _is_bounded(mechanism: Mechanism, name: str, sign: int, last: float) -> bool:
    """Whether a column's outermost value is the declared end."""
    if name not in mechanism.limits:
        return False
    low, high = mechanism.limits[name]
    return last >= high if sign > 0 else last <= low


def _drawn(n: Int64Array, wanted: int, rng: np.random.Generator) -> Int64Array:
    """Positions of some of the people at random, each as often as it is drawn."""
    ends = np.cumsum(n)
    who = rng.choice(ends[-1], size=min(wanted, int(ends[-1])), replace=False)
    return np.searchsorted(ends, who, side="right")


def _moved(rows: WeightedRows, taken: Int64Array, name: str, values: Int64Array) -> WeightedRows:
    """The same rows, with one person of each position taken given another value of a column, in rows at the end."""
    n = rows.n.copy()
    np.subtract.at(n, taken, 1)
    codes = {
        other: np.concatenate([own, values if other == name else own[taken]])
        for other, own in rows.codes.items()
    }
    return WeightedRows(codes=codes, n=np.concatenate([n, np.ones(len(taken), dtype=np.int64)]))


def _distinct(rows: WeightedRows) -> WeightedRows:
    """Rows with people, each combination once."""
    held = rows.n > 0
    stored = np.column_stack([codes[held] for codes in rows.codes.values()])
    distinct, at = np.unique(stored, axis=0, return_inverse=True)
    n = np.bincount(at.reshape(-1), weights=rows.n[held], minlength=len(distinct))
    return WeightedRows(
        codes={name: distinct[:, j].copy() for j, name in enumerate(rows.codes)},
        n=n.astype(np.int64),
    )


def replay(rows: WeightedRows, mechanism: Mechanism, table: ColumnSet, key: bytes) -> WeightedRows:
    """The table of some columns that a release of these rows would show; without rows where it would show nothing.

    key: 32 bytes; all that is random follows from them.
    """
    master = MasterKey(key)
    draws = StickyDraws(master, VINTAGE, mechanism.privacy)
    bounds = row_bounds(draws.max_rows, mechanism.columns)
    # People are not known one by one: those of a row are one bunch, with a random sum of tokens.
    lanes = np.random.default_rng(list(key)).integers(
        0, 2**64, size=(len(rows.n), 2), dtype=np.uint64
    )
    first = ArrayCells(rows.codes, len(rows.n), ((lanes, None),), rows.n)
    total = measure_total(first, draws, bounds)
    if not total.n_nodes:
        none = np.zeros(0, dtype=np.int64)
        return WeightedRows(codes=dict.fromkeys(table, none), n=none)
    values: dict[str, dict[int, object]] = {}
    codes = dict(rows.codes)
    for column in mechanism.columns:
        if not column.is_ranked:
            continue
        ranks = np.array(column.domain or (), dtype=np.int64)
        if column.name in mechanism.by_prefix:
            values[column.name] = {code: code for code in ranks.tolist()}
            continue
        if not column.public:
            cells = first.cells((column.name,))
            shown = cells.codes[passing(cells, draws), 0]
            ranks = np.sort(shown[shown >= 0])
            codes[column.name] = _ranked(rows.codes[column.name], ranks)
        values[column.name] = dict(enumerate(ranks.tolist()))
    source = ArrayCells(codes, len(rows.n), ((lanes, None),), rows.n)
    names = [column.name for column in mechanism.columns]
    measured = measure_columns(
        source, names, values, total, draws, bounds, summable(mechanism.columns)
    )
    deciders = {universe.declared.column for universe in mechanism.universes.values()}
    order = FitOrder(
        header=_header(mechanism, table),
        build_id="",
        limits=found_limits(measured.one_way, mechanism.columns, deciders) | dict(mechanism.limits),
        sampling_key=master.derive("sampling", VINTAGE),
        low_threshold=mechanism.privacy.low_threshold,
        threshold_mean=mechanism.privacy.threshold_mean,
        layer_sd=mechanism.privacy.layer_sd,
        profile=mechanism.privacy.profile,
        universes=mechanism.universes,
    )
    wider = [s for k in range(2, len(table) + 1) for s in combinations(table, k)]
    trees = {tree.columns: tree for tree in measure_wider(measured, wider, draws)}
    one_way = {name: tree for name, tree in measured.one_way.items() if name}
    n_total = max(int(total.n[0]), 0)
    fitted = fit_columns(order, one_way, n_total, int(total.scale[0]))
    tables = dict(fitted.tables)
    for columns in wider:
        tables[columns] = lock_job(order, fitted, n_total, trees[columns], tables)()
    return _rows_of(tables[table], fitted.supports)


def _ranked(codes: Int64Array, ranks: Int64Array) -> Int64Array:
    """Positions of codes among those that stay; others are the placeholder's."""
    if not len(ranks):
        return np.where(codes == NULL_CODE, NULL_CODE, OTHER_CODE)
    at = np.minimum(np.searchsorted(ranks, codes), len(ranks) - 1)
    found = np.where(ranks[at] == codes, at, OTHER_CODE)
    return np.where(codes == NULL_CODE, NULL_CODE, found)


def _rows_of(table: SyntheticTable, supports: Mapping[str, Support]) -> WeightedRows:
    """The rows of a fitted table by code of the mechanism's columns."""
    codes = {}
    for j, name in enumerate(table.columns):
        support = supports[name]
        stored = support.grid
        if support.values is not None:
            is_value = (support.kind != KIND_NULL) & (support.kind != KIND_OTHER)
            stored = np.array(
                [
                    support.values[code] if has else 0
                    for code, has in zip(stored.tolist(), is_value, strict=True)
                ],
                dtype=np.int64,
            )
        stored = np.where(support.kind == KIND_NULL, NULL_CODE, stored)
        stored = np.where(support.kind == KIND_OTHER, OTHER_CODE, stored)
        codes[name] = stored[table.codes[:, j]]
    return WeightedRows(codes=codes, n=table.n, measured=table.measured)


def _header(mechanism: Mechanism, table: ColumnSet) -> ReleaseHeader:
    return ReleaseHeader(
        title="",
        logical_name="",
        vintage=VINTAGE,
        mode="sticky",
        key_id="",
        privacy={},
        engine_version="",
        columns=mechanism.columns,
        tables=(table,),
    )
