"""Replay in mode dp: run the mechanism on a released table as if it were the data, in one process, in memory.

The same two verbs as `engine.fit.replay`. `imagine` draws what the data may have been, given the release: what
shrinking took out of its margins, and where people stand inside a level of several values. `replay` measures their
margins with fresh noise of the stated spread, reconciles and fits them as a build does, and gives the table that would
be shown. `stated` and `read` are how a release says what that takes: its margins with their noise, and its public
levels. Everything here is public.

Margins that stretch beyond the rows' columns are measured as far as these go: their noise adds up over what is summed.
A table that a margin covers is read off that margin's target, which the drawn rows of a release are brought near to;
others are drawn row by row from the fit.

Unlike what is released, the data were not shrunk: a release is smoother than they are. It states how strong each
component of its margins is without noise; what is imagined is rougher than the rows, by what these lack (`_rough`).
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from itertools import combinations, pairwise
from math import prod
from typing import Any

import numpy as np

from engine.fit.joint import joint_rows, reconciled, synthesise
from engine.fit.joint.ipf import sampled
from engine.fit.joint.margins import (
    WIDEST,
    assembled,
    components,
    on_simplex,
    possible_cells,
    signals,
)
from engine.fit.joint.synthesis import distinct, values_inside
from engine.levels import (
    Levels,
    Margin,
    StructuralZero,
    inner_depths,
    level_of,
    positions,
)
from engine.params import DPParams
from engine.schema import (
    KIND_NULL,
    NULL_CODE,
    Column,
    ColumnSet,
    FloatArray,
    Int64Array,
    WeightedRows,
    column_set,
)

HALVINGS = 5
"""How often a level is halved where people are placed inside it at random; inside the last parts they are even."""

RAKINGS = 10
"""How often imagined margins are raked to the sums of their columns, which putting out what is below 0 has moved."""


@dataclass(frozen=True, kw_only=True, slots=True)
class MarginNoise:
    """One margin that was measured, and its noise."""

    columns: ColumnSet
    variance: float  # Of each count, in rows squared
    branching: int = 0  # See `Margin`
    sum_of: str = ""


@dataclass(frozen=True, kw_only=True, slots=True)
class JointMechanism:
    """What a release of mode dp states of how it was made.

    total: Variance of the noise of the number of rows; 0: it is public.
    """

    params: DPParams
    margins: tuple[MarginNoise, ...]
    total: float
    levels: Mapping[str, Levels]
    zeros: tuple[StructuralZero, ...] = ()
    sums: tuple[MarginNoise, ...] = ()  # Sums of positions in levels
    # Of components, see `engine.fit.joint.margins.signals`; those that are not there are estimated.
    signals: Mapping[ColumnSet, float] = field(default_factory=dict)

    @property
    def unmeasured(self) -> ColumnSet:
        """Columns that no margin names: they were spread evenly."""
        named = {name for margin in self.margins for name in margin.columns}
        return tuple(name for name in self.params.columns if name not in named)

    def covers(self, columns: ColumnSet) -> bool:
        """Whether a margin holds all these columns."""
        return any({*columns} <= {*margin.columns} for margin in self.margins)


@dataclass(frozen=True, kw_only=True, slots=True)
class ImaginedData:
    """What the data of a table may have been.

    rows: Of the table's columns.
    margins: All that are measured of it, exact; `variance` is that of the noise which they get.
    """

    rows: WeightedRows
    columns: ColumnSet
    margins: tuple[Margin, ...]


def imagine(
    rows: WeightedRows, table: ColumnSet, mechanism: JointMechanism, rng: np.random.Generator
) -> ImaginedData:
    """Draw what the data of a table may have been: rougher than the rows, and anywhere inside their levels.

    rows: Of its columns and more: of all margins that inform a table that no margin covers.
    """
    columns = column_set(tuple(rows.codes))
    params = _params_of(mechanism.params, columns)
    margins = _margins_of(_by_level(rows, columns, mechanism), params, mechanism)
    zeros = [zero for zero in mechanism.zeros if {*zero.columns} <= {*columns}]
    best = _best(margins, table, params)
    if best is None:
        rough = _rougher(margins, {m.columns for m in margins}, mechanism.signals, zeros, rng)
        by_columns = {m.columns: replace(m, variance=0.0, branching=0) for m in rough}
        total = Margin(columns=(), n=np.array(int(rows.n.sum()), dtype=np.int64), variance=0.0)
        made = _drawn([*by_columns.values()], total, params, mechanism, zeros, rng)
        own = _projected(made, columns, table, mechanism)
    else:  # margins that share no column with the table say nothing but of the total
        near = [m for m in margins if {*table} & {*m.columns}]
        rough = _rougher(near, {best.columns}, mechanism.signals, zeros, rng)
        counts = next(m.n for m in rough if m.columns == best.columns)
        summed = tuple(k for k, name in enumerate(best.columns) if name not in table)
        own = _cells_of(counts.sum(axis=summed))
    return ImaginedData(
        rows=_placed(own, table, mechanism, rng), columns=columns, margins=tuple(rough)
    )


def replay(
    data: ImaginedData, mechanism: JointMechanism, table: ColumnSet, key: bytes
) -> WeightedRows:
    """The table of some columns that a release of these data would show.

    key: 32 bytes; all that is random follows from them.
    """
    rng = np.random.default_rng(list(key))
    params = _params_of(mechanism.params, data.columns)
    total, margins = _noisy(data, params, mechanism, rng)
    zeros = [zero for zero in mechanism.zeros if {*zero.columns} <= {*data.columns}]
    best = _best(margins, table, params)
    if best is None:
        made = _drawn(margins, total, params, mechanism, zeros, rng)
        cells, n = _projected(made, data.columns, table, mechanism)
    else:
        cells, n = _off_target(best, margins, total, table, params, mechanism, zeros, rng)
    sums = _noisy_sums(data.rows, mechanism, rng)
    shown = joint_rows(table, cells.astype(np.int32), n, mechanism.levels, sums=sums, rng=rng)
    stored = {}
    for name, code in zip(table, shown.codes, strict=True):
        support = shown.supports[name]
        stored[name] = np.where(support.kind == KIND_NULL, NULL_CODE, support.grid)[code]
    return _distinct(stored, shown.n)


def _best(margins: Sequence[Margin], table: ColumnSet, params: DPParams) -> Margin | None:
    """The margin from whose target a table follows with the least noise; None without a consistent one."""
    covering = [m for m in margins if {*table} <= {*m.columns} and params.post == "wls"]
    return min(covering, key=lambda m: (m.variance * m.n.size, m.columns), default=None)


def _cells_of(counts: Int64Array) -> tuple[Int64Array, Int64Array]:
    """Combinations that have rows, shape (n, n_columns), and the rows of each."""
    held = np.flatnonzero(counts)
    return np.stack(np.unravel_index(held, counts.shape), axis=1), counts.ravel()[held]


def _drawn(
    margins: Sequence[Margin],
    total: Margin,
    params: DPParams,
    mechanism: JointMechanism,
    zeros: Sequence[StructuralZero],
    rng: np.random.Generator,
) -> tuple[np.ndarray[Any, np.dtype[np.int32]], Int64Array]:
    """Rows drawn one by one from the fit, where a release of a consistent fit also brings them near the margins."""
    drawn = params if params.post != "wls" else replace(params, sample="multinomial")
    made = synthesise(margins, total, params=drawn, levels=mechanism.levels, zeros=zeros, rng=rng)
    return made.cells, made.n


def _projected(
    cells: tuple[np.ndarray[Any, np.dtype[np.int32]], Int64Array],
    columns: ColumnSet,
    table: ColumnSet,
    mechanism: JointMechanism,
) -> tuple[Int64Array, Int64Array]:
    """Combinations of some of the columns."""
    sizes = [len(mechanism.levels[name]) for name in table]
    chosen = [np.ascontiguousarray(cells[0][:, columns.index(name)]) for name in table]
    places, n = distinct(chosen, sizes, cells[1])
    return places.astype(np.int64), n


def _rougher(
    margins: Sequence[Margin],
    chosen: Collection[ColumnSet],
    signals: Mapping[ColumnSet, float],
    zeros: Sequence[StructuralZero],
    rng: np.random.Generator,
) -> list[Margin]:
    """What margins of the data may have been, given those of released rows.

    chosen: Those whose associations matter; others follow the sums by one column.
    """
    in_trees = {name for m in margins if m.branching for name in m.columns}  # not shrunk
    ways: dict[str, FloatArray] = {}
    for name in sorted({name for margin in margins for name in margin.columns}):
        one, own = next(m for m in margins if name in m.columns), (name,)
        n = one.n.sum(
            axis=tuple(k for k, c in enumerate(one.columns) if c != name), dtype=np.float64
        )
        parts = components(n, own)
        if name not in in_trees:
            variance = _variance(own, len(n), margins)
            parts[own] = _rough(parts[own], 0.0, variance, signals.get(own), rng)
        ways[name] = _possible(assembled(parts, n.shape, own), own, zeros)
    out = []
    for margin in margins:
        n = margin.n.astype(np.float64)
        if margin.columns in chosen and 1 < n.ndim <= WIDEST:
            n = _possible(_associated(margin, margins, signals, rng), margin.columns, zeros)
        raked = _raked(n, [ways[name] for name in margin.columns])
        raked = raked if raked.any() else margin.n.astype(np.float64)
        out.append(replace(margin, n=sampled(raked, int(margin.n.sum()), "rounded", rng)))
    return out


def _possible(n: FloatArray, columns: ColumnSet, zeros: Sequence[StructuralZero]) -> FloatArray:
    """A margin brought to what its counts can be."""
    return on_simplex(n, possible_cells(columns, n.shape, zeros), max(float(n.sum()), 0.0))


def _variance(subset: ColumnSet, size: int, margins: Sequence[Margin]) -> float:
    """Of the noise of a component, of so many combinations, in the mean of all margins that have it."""
    having = [m for m in margins if {*subset} <= {*m.columns}]
    return 1 / sum(size / (m.variance * m.n.size) if m.variance else np.inf for m in having)


def _associated(
    margin: Margin,
    margins: Sequence[Margin],
    signals: Mapping[ColumnSet, float],
    rng: np.random.Generator,
) -> FloatArray:
    """A margin with other associations of its columns."""
    n, names = margin.n.astype(np.float64), margin.columns
    rows, size = max(float(n.sum()), 1.0), dict(zip(names, n.shape, strict=True))
    released = components(n, names)
    parts = dict(released)
    for subset, part in released.items():
        if len(subset) < 2 or not part.size:
            continue
        expected = released[subset[:1]]
        for name in subset[1:]:
            expected = np.multiply.outer(expected, released[(name,)]) / rows
        variance = _variance(subset, prod(size[name] for name in subset), margins)
        parts[subset] = _rough(part, expected, variance, signals.get(subset), rng)
    return assembled(parts, n.shape, names)


def _rough(
    part: FloatArray,
    expected: FloatArray | float,
    variance: float,
    signal: float | None,
    rng: np.random.Generator,
) -> FloatArray:
    """A component as it may have been before it was shrunk.

    The released one is the mean of what it may have been, so that its squared sum lacks the variance of that: in any
    direction, and no more than there was noise. Chance moves the signal's estimate, of d coordinates with noise of
    variance v each, by about v sqrt(2 d). Unstated, it is the S for which James and Stein leave S**2 / (S + d v).
    """
    if not part.size or not variance:
        return part
    left, noise = float(((part - expected) ** 2).sum()), part.size * variance
    if signal is None:
        signal = (left + np.sqrt(left**2 + 4 * left * noise)) / 2
    signal += rng.standard_normal() * variance * np.sqrt(2 * part.size)
    lacking = min(max(signal - left, 0.0), noise)
    out: FloatArray = part + rng.normal(0.0, np.sqrt(lacking / part.size), part.shape)
    return out


def _raked(n: FloatArray, ways: Sequence[FloatArray]) -> FloatArray:
    """Counts with given sums by each column, where there is anything to be raked."""
    for _ in range(RAKINGS):
        for axis, want in enumerate(ways):
            others = tuple(k for k in range(n.ndim) if k != axis)
            have = n.sum(axis=others, keepdims=True)
            wanted = np.expand_dims(want, others)
            n = n * np.divide(wanted, have, out=np.zeros_like(have), where=have > 0)
    return n


def joint_of(
    tables: Sequence[WeightedRows], mechanism: JointMechanism, rng: np.random.Generator
) -> WeightedRows:
    """Rows of all columns that released tables are projections of, as far as these determine them: fitted to them.

    What a margin was measured of and no table shows is as independent as the tables let it be.
    """
    params = mechanism.params
    n_rows = max((int(rows.n.sum()) for rows in tables), default=0)
    margins: dict[ColumnSet, Margin] = {}
    for margin in mechanism.margins:
        for rows in tables:
            inside = tuple(name for name in margin.columns if name in rows.codes)
            if inside and inside not in margins:
                places, n = _by_level(rows, inside, mechanism)
                counts = np.zeros([len(mechanism.levels[name]) for name in inside], dtype=np.int64)
                counts[tuple(places.T)] = n
                margins[inside] = Margin(columns=inside, n=counts, variance=0.0)
    total = Margin(columns=(), n=np.array(n_rows, dtype=np.int64), variance=0.0)
    made = synthesise(
        [one for name, one in margins.items() if not any({*name} < {*other} for other in margins)],
        total,
        params=replace(params, strata=(), post="wls", sample="rounded", prior=0.0),
        levels=mechanism.levels,
        zeros=mechanism.zeros,
        rng=rng,
    )
    return WeightedRows(codes=_low_codes(made.cells, params.columns, mechanism), n=made.n)


def _low_codes(
    cells: np.ndarray[Any, np.dtype[np.int32]], columns: ColumnSet, mechanism: JointMechanism
) -> dict[str, Int64Array]:
    """The first code of each level."""
    out = {}
    for j, name in enumerate(columns):
        levels = mechanism.levels[name]
        code = levels.low[cells[:, j]]
        out[name] = np.where(levels.has_null & (cells[:, j] == 0), NULL_CODE, code)
    return out


def _off_target(
    best: Margin,
    margins: Sequence[Margin],
    total: Margin,
    table: ColumnSet,
    params: DPParams,
    mechanism: JointMechanism,
    zeros: Sequence[StructuralZero],
    rng: np.random.Generator,
) -> tuple[Int64Array, Int64Array]:
    """Combinations of a table off the target of a margin that covers it."""
    sizes = {name: len(levels) for name, levels in mechanism.levels.items()}
    inner = tuple(name for name in best.columns if name not in params.strata)
    expected = np.zeros(tuple(sizes[name] for name in table))
    for place, targets, _ in reconciled(margins, total, params=params, sizes=sizes, zeros=zeros):
        at = dict(zip(params.strata, place, strict=True))
        n = next(one.n for one in targets if one.columns == inner) if inner else targets[0].n.sum()
        summed = tuple(k for k, name in enumerate(inner) if name not in table)
        expected[tuple(at.get(name, slice(None)) for name in table)] += n.sum(axis=summed)
    return _cells_of(sampled(expected, round(float(expected.sum())), params.sample, rng))


def _params_of(params: DPParams, columns: ColumnSet) -> DPParams:
    """The parameters for fewer columns; strata are kept where there is anything else."""
    strata = params.strata if {*params.strata} < {*columns} else ()
    return replace(params, columns=columns, strata=strata)


def _margins_of(
    rows: tuple[Int64Array, Int64Array], params: DPParams, mechanism: JointMechanism
) -> list[Margin]:
    """All margins as far as the rows' columns go, exact, with the variance of the noise that they get.

    Several that come to the same columns are one of their mean by precision.
    """
    columns, (places, n) = params.columns, rows
    size = {name: len(levels) for name, levels in mechanism.levels.items()}
    precision: dict[tuple[ColumnSet, int], float] = {}
    for margin in mechanism.margins:
        inside = tuple(name for name in margin.columns if name in columns)
        own = [name for name in inside if name not in params.strata]
        branching = margin.branching if len(own) == 1 else 0
        variance = margin.variance * prod(
            size[name] for name in margin.columns if name not in columns
        )
        if inside:
            weight = 1 / variance if variance else np.inf
            key = inside, branching
            precision[key] = precision.get(key, 0.0) + weight
    out = []
    for (inside, branching), weight in precision.items():
        shape = tuple(size[name] for name in inside)
        at = np.ravel_multi_index([places[:, columns.index(name)] for name in inside], shape)
        exact = np.bincount(at, weights=n, minlength=prod(shape)).astype(np.int64).reshape(shape)
        out.append(Margin(columns=inside, n=exact, variance=1 / weight, branching=branching))
    return out


def _noisy(
    data: ImaginedData, params: DPParams, mechanism: JointMechanism, rng: np.random.Generator
) -> tuple[Margin, list[Margin]]:
    """The total and all margins with noise."""
    noise, out = mechanism.params.noise, []
    for margin in data.margins:
        tree: tuple[Int64Array, ...] = ()
        if margin.branching:
            (ranged,) = (k for k, c in enumerate(margin.columns) if c not in params.strata)
            tree = inner_depths(margin.n, margin.branching, ranged)
        n, *depths = (
            one + _noise(one.shape, noise, margin.variance, rng) for one in (margin.n, *tree)
        )
        out.append(replace(margin, n=n, tree=tuple(depths)))
    n_rows = int(data.rows.n.sum()) + _noise((), noise, mechanism.total, rng)
    total = Margin(columns=(), n=np.asarray(n_rows, dtype=np.int64), variance=mechanism.total)
    return total, out


def _noisy_sums(
    rows: WeightedRows, mechanism: JointMechanism, rng: np.random.Generator
) -> list[Margin]:
    """Sums of positions of those rows' columns, with noise."""
    out = []
    for one in mechanism.sums:
        if not {one.sum_of, *one.columns} <= {*rows.codes}:
            continue
        shape = tuple(len(mechanism.levels[name]) for name in one.columns)
        at = [level_of(rows.codes[name], mechanism.levels[name]) for name in one.columns]
        place = np.ravel_multi_index(at, shape) if at else np.zeros(len(rows.n), dtype=np.int64)
        held = rows.n * positions(rows.codes[one.sum_of], mechanism.levels[one.sum_of])
        exact = np.bincount(place, held, prod(shape)).astype(np.int64).reshape(shape)
        n = exact + _noise(shape, mechanism.params.noise, one.variance, rng)
        out.append(Margin(columns=one.columns, n=n, variance=one.variance, sum_of=one.sum_of))
    return out


def _noise(
    shape: tuple[int, ...], noise: str, variance: float, rng: np.random.Generator
) -> Int64Array:
    """Whole numbers of the stated distribution and variance."""
    if not variance:
        return np.zeros(shape, dtype=np.int64)
    if noise == "laplace":  # the difference of two geometric numbers is an integer Laplace one
        scale = 0.5 / np.arcsinh(np.sqrt(0.5 / variance))
        drawn = rng.geometric(-np.expm1(-1 / scale), size=(2, *shape))
        return np.asarray(drawn[0] - drawn[1], dtype=np.int64)
    # Rounding adds a variance of 1/12; a narrower integer Gaussian is nearly always 0.
    sd = np.sqrt(max(variance - 1 / 12, 0.0))
    return np.asarray(np.rint(rng.normal(0.0, sd, size=shape)), dtype=np.int64)


def _by_level(
    rows: WeightedRows, columns: ColumnSet, mechanism: JointMechanism
) -> tuple[Int64Array, Int64Array]:
    """Distinct combinations of level indexes, shape (n, n_columns), and the rows of each."""
    places = [level_of(rows.codes[name], mechanism.levels[name]) for name in columns]
    sizes = [len(mechanism.levels[name]) for name in columns]
    cells, n = distinct([place.astype(np.int32) for place in places], sizes, rows.n)
    return cells.astype(np.int64), n


def _placed(
    cells: tuple[Int64Array, Int64Array],
    columns: ColumnSet,
    mechanism: JointMechanism,
    rng: np.random.Generator,
) -> WeightedRows:
    """Values for level indexes, at random inside levels of several values."""
    places, n = cells
    inside = [values_inside(mechanism.levels[name]) for name in columns]
    is_wide = any((size > 1).any() for _, size, _ in inside)
    row = np.repeat(np.arange(len(n)), n) if is_wide else np.arange(len(n))
    stored = {}
    for j, name in enumerate(columns):
        levels, (first, size, step) = mechanism.levels[name], inside[j]
        level = places[row, j]
        stored[name] = first[level]
        if (size > 1).any():
            share = _shares(places[:, j], len(levels), row, rng)
            room = size.astype(np.float64)[level]
            offset = np.minimum((share * room).astype(np.uint64), size[level] - np.uint64(1))
            stored[name] = stored[name] + offset.view(np.int64) * step[level]
        if levels.has_null:
            stored[name] = np.where(level == 0, NULL_CODE, stored[name])
    return _distinct(stored, np.ones(len(row), dtype=np.int64) if is_wide else n)


def _shares(
    level: Int64Array, n_levels: int, row: Int64Array, rng: np.random.Generator
) -> FloatArray:
    """Where in [0, 1) of its level each person stands, by a random tree common to all and one of each row's own."""
    place = np.zeros(len(row), dtype=np.int64)
    for depth in range(HALVINGS):
        common = rng.random((n_levels, 2**depth))[level]
        own = rng.beta(2 * common + 1e-9, 2 * (1 - common) + 1e-9)
        place = 2 * place + (rng.random(len(row)) >= own[row, place])
    share: FloatArray = (place + rng.random(len(row))) / 2**HALVINGS
    return share


def _distinct(codes: Mapping[str, Int64Array], n: Int64Array) -> WeightedRows:
    """Each combination of codes once."""
    stored = np.column_stack([*codes.values()])
    found, at = np.unique(stored, axis=0, return_inverse=True)
    summed = np.bincount(at.reshape(-1), weights=n, minlength=len(found)).astype(np.int64)
    return WeightedRows(codes={name: found[:, j] for j, name in enumerate(codes)}, n=summed)


# What a release states, as plain values for JSON, and back.


def stated(
    total: Margin,
    margins: Sequence[Margin],
    levels: Mapping[str, Levels],
    zeros: Sequence[StructuralZero],
    text: Callable[[object], str],
) -> dict[str, Any]:
    """What a replay takes beside the parameters: margins with their noise, levels and what is impossible.

    text: Writes a value of a domain.
    """
    sums = [[list(m.columns), float(m.variance), m.sum_of] for m in margins if m.sum_of]
    counts = [m for m in margins if not m.sum_of]
    found = signals([replace(m, branching=0, tree=()) for m in counts], total, zeros)
    return {
        "total": float(total.variance),
        "margins": [[list(m.columns), float(m.variance), m.branching] for m in counts],
        "levels": {name: _stated_levels(own, text) for name, own in levels.items()},
        "zeros": [[list(zero.columns), _runs_of(zero.cells.ravel())] for zero in zeros],
        # Without noise nothing is shrunk, and exact figures of what no table shows are nobody's business.
        "signals": [
            float(f"{found[columns]:.4g}")
            for columns in _stated_components(counts)
            if any(m.variance for m in counts)
        ],
    } | ({"sums": sums} if sums else {})


def read(
    told: Mapping[str, Any],
    privacy: Mapping[str, Any],
    columns: Mapping[str, Column],
    values: Mapping[str, tuple[object, ...]],
) -> JointMechanism:
    """The mechanism of what `stated` gave.

    privacy: The parameters as plain values.
    columns: All that are measured, ranked ones without their domain.
    values: The domains of ranked columns, typed.
    """
    known = {one.name for one in fields(DPParams)}
    plain = {name: _tuples(value) for name, value in privacy.items() if name in known}
    levels = {
        name: _read_levels(told["levels"][name], column, values.get(name))
        for name, column in columns.items()
    }
    margins = tuple(
        MarginNoise(columns=tuple(names), variance=variance, branching=branching)
        for names, variance, branching in told["margins"]
    )
    known_signals = told.get("signals")
    if known_signals and not all(
        type(one) in (int, float) and abs(one) < 1e300 for one in known_signals
    ):
        raise ValueError("signals")
    return JointMechanism(
        params=DPParams(**plain),
        margins=margins,
        total=told["total"],
        levels=levels,
        signals=dict(zip(_stated_components(margins), known_signals, strict=True))
        if known_signals
        else {},
        sums=tuple(
            MarginNoise(columns=tuple(names), variance=variance, sum_of=name)
            for names, variance, name in told.get("sums", ())
        ),
        zeros=tuple(
            StructuralZero(
                columns=tuple(names),
                cells=_of_runs(runs, tuple(len(levels[name]) for name in names)),
                why="",
            )
            for names, runs in told["zeros"]
        ),
    )


def _stated_components(margins: Sequence[Margin | MarginNoise]) -> list[ColumnSet]:
    """Components whose signal is stated, in order: those of at most three columns, for shortness."""
    return sorted(
        {
            subset
            for margin in margins
            if len(margin.columns) <= WIDEST
            for k in (1, 2, 3)
            for subset in combinations(margin.columns, k)
        }
    )


def _tuples(value: Any) -> Any:
    return tuple(map(_tuples, value)) if isinstance(value, list) else value


def _stated_levels(levels: Levels, text: Callable[[object], str]) -> dict[str, Any]:
    if levels.values is not None:
        return {"null": levels.has_null, "values": [text(value) for value in levels.values]}
    low = levels.low[int(levels.has_null) :].tolist()
    distances: list[list[int]] = []
    for before, after in pairwise(low):
        if distances and distances[-1][0] == after - before:
            distances[-1][1] += 1
        else:
            distances.append([after - before, 1])
    return {
        "null": levels.has_null,
        "step": levels.column.step,
        "first": low[0],
        "distances": distances,  # between the first codes of levels, and how often each in a row
        "last": int(levels.high[-1]),
    }


def _read_levels(
    told: Mapping[str, Any], column: Column, values: tuple[object, ...] | None
) -> Levels:
    if values is not None:
        low = high = np.arange(len(values), dtype=np.int64)
        column = replace(column, domain=values)
    else:
        distances = [gap for gap, times in told["distances"] for _ in range(times)]
        low = told["first"] + np.cumsum([0, *distances], dtype=np.int64)
        high = np.append(low[1:] - 1, np.int64(told["last"]))
        column = replace(column, step=told["step"])
    if told["null"]:
        low, high = (np.concatenate([[np.int64(0)], codes]) for codes in (low, high))
    return Levels(column=column, low=low, high=high, has_null=told["null"], values=values)


def _runs_of(cells: np.ndarray[Any, np.dtype[np.bool_]]) -> list[int]:
    """Where runs of True begin and end."""
    edges = np.diff(np.concatenate([[False], cells, [False]]).astype(np.int8))
    found: list[int] = np.flatnonzero(edges).tolist()
    return found


def _of_runs(runs: Sequence[int], shape: tuple[int, ...]) -> np.ndarray[Any, np.dtype[np.bool_]]:
    cells = np.zeros(prod(shape), dtype=bool)
    for begin, end in zip(runs[::2], runs[1::2], strict=True):
        cells[begin:end] = True
    return cells.reshape(shape)
