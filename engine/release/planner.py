"""Plan: what a release would hold and cost, before anything is built.

Shows only what the sticky measurement would release anyway: numbers of released buckets and noisy shares. Times are
estimates from the number of released buckets.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from itertools import chain, combinations
from typing import Any, ClassVar

import numpy as np

from engine.exposure import Exposure, Remedies
from engine.fit import (
    Cost,
    FitOrder,
    cost_of,
    is_fine,
    stated_sd,
    sub_tables,
    table_seconds,
)
from engine.fit.columns import fit_columns
from engine.mechanism import Measured, StickyDraws, measure_wider
from engine.periods import LENGTHS, PERIODS, unit
from engine.progress import Progress, silent
from engine.release.exposing import PLANNED, Assessment, assess, estimator_of
from engine.release.header import heavy_notes, unpublishable
from engine.release.relating import (
    Columns,
    added_for,
    check_added,
    measure_columns,
)
from engine.release.sticky import fit_order
from engine.schema import (
    KIND_NONNEGATIVE,
    KIND_OTHER,
    MAX_WIDTH,
    NUMBER_KINDS,
    BoolArray,
    Column,
    ColumnSet,
    Measurement,
    Prefix,
    Resolution,
    column_set,
    is_leaf,
)
from engine.source import open_rows, pinned_vintages
from engine.source.detection import asked_first
from engine.spec import ReleaseSpec, WideOptions, Workload
from engine.texts import N_SHOWN, html_table, text_table
from engine.units import ROWS, Unit

MOSTLY_FILLED = 0.8
"""A table with a larger suppressed share gets a warning."""
MOST_LEVEL = 40
"""Ranges of larger levels have more values than anything has rows."""
MOST_TRIED = 3
"""Once so many tables were too much for a column, no more of it are tried."""
SAMPLED = 10
"""An estimate measures one in so many tables."""


@dataclass(frozen=True, kw_only=True, slots=True)
class PlannedTable:
    """One table of a plan."""

    columns: ColumnSet
    cells: int  # Combinations that would be released as such
    suppressed_share: (
        float  # Noisy share of the rows outside of them: to be filled in, or under a placeholder
    )
    # Where most is suppressed, of numbers, dates and times: about what share would be at the next two resolutions.
    coarser: Mapping[str, Mapping[str, float]]
    noise_sd: float  # Standard deviation of the noise on such a cell, in rows
    seconds: float  # Estimated time to fit and store it
    is_published: bool  # False: only needed by wider tables


@dataclass(frozen=True, kw_only=True, slots=True)
class FurtherTable:
    """A table that is not in the spec, and what it would reveal beside those that are."""

    columns: ColumnSet
    told: str  # The column of which it would reveal most
    guessed: float  # How often a secret of that would be guessed right of the most exposed, with it; rounded up
    is_refused: bool  # A build with it would be

    def __str__(self) -> str:
        then = "; a build would be refused" if self.is_refused else ""
        return f"{', '.join(self.columns)}: {self.guessed:.0%} ({self.told}){then}"


@dataclass(frozen=True, kw_only=True, slots=True)
class Plan:
    """What a build would make."""

    tables: tuple[PlannedTable, ...]
    rows: int  # Noisy total
    warnings: tuple[str, ...]
    # What the release would disclose, with all that was built of the same people before.
    exposure: Exposure
    # Asked for: pairs of columns that the spec leaves out, those that reveal least first.
    further: tuple[FurtherTable, ...] = ()
    # Why a build would be refused, and the ways out, a sentence each; empty: it would not.
    refused: tuple[str, ...] = ()
    # Tables without which it would not; None: it would without any, or it would not with all.
    leave_out: tuple[ColumnSet, ...] | None = None
    unit: Unit = ROWS  # What rows are called
    cost: Cost  # Of the whole build, with one job
    bounded: Sequence[str] = ()  # That rows of an entity are left out, if so
    workload: Workload | None = None  # Which statements of files the tables answer
    # Wide tables: nothing is measured for them but all pairs of their columns.
    modelled: tuple[ColumnSet, ...] = ()
    # Of some of these: what they are to be.
    wide_options: dict[ColumnSet, WideOptions] = field(default_factory=dict)
    # Of each of these: how many tables of two columns are measured for it alone.
    added: dict[ColumnSet, int] = field(default_factory=dict)
    heads: ClassVar[tuple[str, ...]] = (
        "table",
        "cells shown",
        "suppressed share",
        "noise sd",
        "seconds",
    )
    width_heads: ClassVar[tuple[str, ...]] = (
        "columns",
        "tables",
        "cells shown",
        "suppressed: median",
        "worst",
        "seconds",
    )

    @property
    def seconds(self) -> float:
        """Estimated time of one core to measure, fit and store all tables."""
        return self.cost.seconds

    def as_dict(self) -> dict[str, Any]:
        """Plain values, for JSON."""
        return {
            "rows": self.rows,
            "unit": self.unit.as_dict(),
            "seconds": round(self.seconds, 1),
            "megabytes": round(self.cost.megabytes),
            "warnings": list(self.warnings),
            "exposure": self.exposure.as_dict(),
            "refused": list(self.refused),
            "leave_out": [list(columns) for columns in self.leave_out or ()],
            "further": [asdict(table) for table in self.further],
            "modelled": [list(columns) for columns in self.modelled],
            "targets": [self._wish(columns).target for columns in self.modelled],
            "sets": [self._wish(columns).sets for columns in self.modelled],
            "added": [self.added.get(columns, 0) for columns in self.modelled],
            "tables": [
                {
                    "columns": list(t.columns),
                    "cells": t.cells,
                    "suppressed_share": round(t.suppressed_share, 4),
                    "noise_sd": round(t.noise_sd, 3),
                    "seconds": round(t.seconds, 3),
                    "published": t.is_published,
                }
                for t in self.tables
            ],
        } | ({"workload": self.workload.as_dict()} if self.workload else {})

    @property
    def published(self) -> tuple[PlannedTable, ...]:
        """Tables that would be published, worst first: largest suppressed share, then most cells."""
        wanted = (t for t in self.tables if t.is_published)
        return tuple(sorted(wanted, key=lambda t: (-t.suppressed_share, -t.cells, t.columns)))

    def rows_of(self, top: int | None = None) -> list[tuple[str, ...]]:
        """Published tables as texts under `heads`, worst first; the first ones, or all."""
        return [
            (
                ", ".join(t.columns),
                f"{t.cells:,}",
                f"{t.suppressed_share:.1%}",
                f"{t.noise_sd:.2f}",
                f"{t.seconds:.2f}",
            )
            for t in self.published[:top]
        ]

    def by_width(self) -> list[tuple[str, ...]]:
        """What tables of each width would hold, as texts under `width_heads`."""
        of_width: dict[int, list[PlannedTable]] = {}
        for table in self.published:
            of_width.setdefault(len(table.columns), []).append(table)
        return [
            (
                str(width),
                f"{len(held):,}",
                f"{sum(t.cells for t in held):,}",
                f"{held[len(held) // 2].suppressed_share:.1%}",
                f"{held[0].suppressed_share:.1%}",
                f"{sum(t.seconds for t in held):.1f}",
            )
            for width, held in sorted(of_width.items())
        ]

    def sentences(self) -> list[str]:
        """What all tables together are, and what they disclose."""
        n, helpers = len(self.published), len(self.tables) - len(self.published)
        return [
            f"{n:,} table{'' if n == 1 else 's'} ({helpers} more are needed to lock them), about "
            f"{self.unit.counted(self.rows)}, {self.cost}",
            *map(self._of_wide, self.modelled),
            *chain(self.bounded, self.exposure.sentences()),
        ]

    def _wish(self, wide: ColumnSet) -> WideOptions:
        """What a wide table is to be."""
        return self.wide_options.get(wide, WideOptions())

    def _of_wide(self, wide: ColumnSet) -> str:
        """What a wide table is modelled from."""
        widths = [len(t.columns) for t in self.tables if set(t.columns) <= set(wide)]
        wish, alone = self._wish(wide), self.added.get(wide, 0)
        return (
            f"One table more, of {len(wide)} columns ({', '.join(wide)}), is modelled from {widths.count(2):,} of "
            f"these of two columns and {widths.count(3):,} of three; it tells nothing beyond them"
            + (f"; {alone:,} of two are measured for it alone" if alone else "")
            + (f"; tables with {wish.target}, its target, count more" if wish.target else "")
            + (f"; {wish.sets} sets of it, each a file" if wish.sets > 1 else "")
        )

    def __repr__(self) -> str:
        return text_table(self.heads, self.rows_of(N_SHOWN), self._below())

    def _repr_html_(self) -> str:
        return html_table(self.heads, self.rows_of(N_SHOWN), below=self._below())

    def _below(self) -> list[str]:
        """What people read below the first tables."""
        more = len(self.published) - N_SHOWN
        return [
            *([f"... and {more:,} more tables, with less suppressed"] if more > 0 else []),
            *self.sentences(),
            *(self.workload.sentences(N_SHOWN) if self.workload else ()),
            *(f"warning: {warning}" for warning in self.warnings),
            *(f"build would refuse: {sentence}" for sentence in self.refused),
        ]


def plan(
    spec: ReleaseSpec,
    *,
    frame: Any = None,
    further: bool = False,
    progress: Progress | None = None,
) -> Plan:
    """Measure what a build would measure, and keep the sizes only.

    further: Also say what each pair of columns that is not in the spec would reveal.
    """
    spec, report = _drawn_alike(spec), progress or silent
    tables, sizes, fine = [], [], []
    with open_rows(spec, frame, report) as opened:
        draws = StickyDraws(opened.key, opened.draws, spec.counted)
        columns = measure_columns(spec, opened, draws, report)
        measured, relations = columns.measured, columns.relations
        check_added(spec, relations)
        wider = relations.needed(spec.tables)
        shown: dict[ColumnSet, list[ColumnSet]] = {}
        for table in spec.tables:
            shown.setdefault(relations.base(table), []).append(table)
        of_all = measured.one_way[""]
        total = max(int(of_all.n[0]), 1)
        narrow = [tree for name, tree in measured.one_way.items() if name]
        noise = _Noise(spec, fit_order(spec, opened, columns), measured.one_way)
        values = {name: _n_values(tree) for name, tree in measured.one_way.items()}
        steps = {column.name: _coarser(column) for column in spec.columns}
        prefixes = _prefixes(measured)
        estimator = estimator_of(spec, columns, report)
        for done, tree in enumerate(chain(narrow, measure_wider(measured, wider, draws))):
            if len(tree.columns) > 1:
                estimator.add(tree)
            sizes.append(tree.n_nodes)
            of_fine = is_fine([values[name] for name in tree.columns])
            fine += [tree.n_nodes] * of_fine
            if relations.base(tree.columns) == tree.columns:  # of a copy only its values are used
                noise.add(tree)
                seconds = table_seconds(tree.n_nodes, fine_rows=total * of_fine)
                tables += _planned(
                    tree, total, noise, shown.get(tree.columns, []), seconds, prefixes, steps
                )
            report("planning", done + 1, len(narrow) + len(wider))
        report("exposure", 0, 0)
        found = assess(spec, opened, columns, estimator, draws)
        more = _further(spec, columns, found, draws, report) if further else ()
    ways: Remedies | None = None
    refused: tuple[str, ...] = ()
    if found.exposure.is_refused:
        ways = found.ways(spec, columns)
        is_pinned = spec.vintage in pinned_vintages(spec.key_path)
        refused = tuple(found.refusal(spec, ways, is_pinned=is_pinned))
    return Plan(
        tables=tuple(tables),
        rows=total,
        warnings=(
            # Tables with survey weights are there for their sums, however little of the weights themselves is shown.
            *_warnings([t for t in tables if spec.weight not in t.columns], spec.unit),
            *_exposed(found.exposure),
            *unpublishable(spec),
        ),
        exposure=found.exposure,
        unit=spec.unit,
        bounded=heavy_notes(spec),
        workload=spec.workload,
        modelled=tuple(t for t in spec.tables if len(relations.base(t)) > MAX_WIDTH),
        wide_options=spec.wide_options,
        added={
            wide: len(added_for(spec, relations, wide))
            for wide in spec.tables
            if len(relations.base(wide)) > MAX_WIDTH
        },
        cost=cost_of(sizes, rows=total, is_paired=spec.counted.max_rows is not None, fine=fine),
        refused=refused,
        leave_out=None if ways is None else ways.drop,
        further=more,
    )


def further_tables(spec: ReleaseSpec) -> list[ColumnSet]:
    """Pairs of the columns of a spec that are no table of it, and age or place by sex with each other one."""
    names = sorted({name for table in spec.tables for name in table})
    about = {name: asked_first(name) for name in names}
    by = [
        (a, s) for a in names for s in names if about[a] in ("age", "place") and about[s] == "sex"
    ]
    triples = {
        column_set((*both, name))
        for both in by
        for name in names
        if name not in both and about[name] != about[both[0]]
    }
    return [one for one in (*combinations(names, 2), *sorted(triples)) if one not in spec.tables]


def _further(
    spec: ReleaseSpec,
    columns: Columns,
    found: Assessment,
    draws: StickyDraws,
    report: Progress,
) -> tuple[FurtherTable, ...]:
    """What each usual table of columns of the spec that is not in it would reveal."""
    pairs, out = further_tables(spec), []
    for done, pair in enumerate(pairs):
        groups, is_over = found.with_table(spec, columns, pair, draws)
        first = groups[0]
        out.append(
            FurtherTable(columns=pair, told=first.told, guessed=first.guessed, is_refused=is_over)
        )
        report("further tables", done + 1, len(pairs))
    return tuple(sorted(out, key=lambda one: (one.is_refused, one.guessed, one.columns)))


def fitting(
    spec: ReleaseSpec, most_right: float, *, progress: Progress | None = None
) -> tuple[ColumnSet, ...]:
    """The tables of a spec and the most useful further ones with which no secret is guessed right more often than so.

    Pairs of age, sex and places first, then pairs of one of these with another column, then age or place by sex with
    each column, then other pairs: by how much their columns have to do with each other (mutual information) and how
    much of them is shown. What is nearly all suppressed is not proposed.
    """
    report = progress or silent
    with open_rows(spec, None, report) as opened:
        draws = StickyDraws(opened.key, opened.draws, spec.counted)
        columns = measure_columns(spec, opened, draws, report)
        measured, relations = columns.measured, columns.relations
        estimator = estimator_of(spec, columns, report)
        further = further_tables(spec)
        wider = relations.needed([*spec.tables, *further])
        total = max(int(measured.one_way[""].n[0]), 1)
        use, hidden = dict[ColumnSet, float](), set[ColumnSet]()
        prefixes = _prefixes(measured)
        for done, tree in enumerate(measure_wider(measured, wider, draws)):
            estimator.add(tree)
            share = _suppressed(tree, _is_shown(tree, prefixes), total)
            use[tree.columns] = (1 - share) * (_information(tree) if len(tree.columns) == 2 else 1)
            hidden |= {tree.columns} if share > MOSTLY_FILLED else set()
            report("planning", done + 1, len(wider))
        kept: list[ColumnSet] = [*spec.tables]
        rank = {
            one: 2 if len(one) > 2 else (3, 1, 0)[len({*map(asked_first, one)} - {"none"})]
            for one in further
            if relations.base(one) not in hidden
        }
        pairs = sorted(rank, key=lambda one: (rank[one], -use.get(relations.base(one), 0.0), one))
        singles: list[ColumnSet] = [(name,) for name in measured.one_way if name]
        times = dict.fromkeys([*singles, *relations.needed(spec.tables)], 1)
        over: Counter[str] = Counter()
        for done, pair in enumerate(pairs):
            new = dict.fromkeys({*relations.needed([pair])} - {*times}, 1)
            revealed = estimator.revealed(new)
            if all(over[name] < MOST_TRIED for name in revealed):
                found = estimator.exposures(times | new, columns=revealed, most_right=most_right)
                if not found or found[0].most <= most_right:
                    times |= new
                    kept.append(pair)
                else:
                    over[found[0].column] += 1
            report("exposure", done + 1, len(pairs))
    return tuple(kept)


def _information(tree: Measurement) -> float:
    """Mutual information of the two columns of a table, from its noisy cells, in rows."""
    at = is_leaf(tree)
    n = np.maximum(tree.n[at], 0).astype(np.float64)
    ranges = [
        np.unique(
            np.column_stack([held[at, j] for held in (tree.kind, tree.level, tree.index)]),
            axis=0,
            return_inverse=True,
        )[1].ravel()
        for j in (0, 1)
    ]
    sums = [np.bincount(one, weights=n) for one in ranges]
    expected = sums[0][ranges[0]] * sums[1][ranges[1]] / max(n.sum(), 1.0)
    some = n > 0
    found = float((n[some] * np.log(n[some] / expected[some])).sum())
    return found - (len(sums[0]) - 1) * (len(sums[1]) - 1) / 2  # as much by chance


def _drawn_alike(spec: ReleaseSpec) -> ReleaseSpec:
    """The spec with one name for all vintages that were never built: else noise would average away over plans."""
    if spec.previous is not None or spec.vintage in pinned_vintages(spec.key_path):
        return spec
    return replace(spec, vintage=PLANNED)


@dataclass(frozen=True, kw_only=True, slots=True)
class Estimate:
    """What a build would cost, from few of its tables; what it would disclose is not looked at."""

    # tables, measured: How many are needed, and how many of them were measured for this.
    tables: int
    measured: int
    rows: int  # Noisy total
    cost: Cost
    unit: Unit = ROWS

    def as_dict(self) -> dict[str, Any]:
        """Plain values, for JSON."""
        return {
            "tables": self.tables,
            "measured": self.measured,
            "rows": self.rows,
            "seconds": round(self.cost.seconds, 1),
            "megabytes": round(self.cost.megabytes),
        }

    def sentences(self) -> list[str]:
        """What people read."""
        return [
            f"{self.tables:,} tables are measured (with those needed to lock others), about "
            f"{self.unit.counted(self.rows)}, {self.cost}",
            f"from {self.measured:,} of the tables; what the release would disclose is not looked at: plan without "
            "--quick does that",
        ]

    def __repr__(self) -> str:
        return "\n".join(self.sentences())


def estimate(spec: ReleaseSpec, *, frame: Any = None, progress: Progress | None = None) -> Estimate:
    """Measure one wider table in ten, and estimate from these what all would cost."""
    spec, report = _drawn_alike(spec), progress or silent
    with open_rows(spec, frame, report) as opened:
        draws = StickyDraws(opened.key, opened.draws, spec.counted)
        columns = measure_columns(spec, opened, draws, report)
        one_way = columns.measured.one_way
        wider = columns.relations.needed(spec.tables)
        guess = {table: _guessed_buckets(one_way, table, draws.smallest) for table in wider}
        held = {}
        for tree in measure_wider(columns.measured, _tenth(wider, guess), draws):
            held[tree.columns] = tree.n_nodes
            report("planning", len(held), len(wider))
    sizes: list[float] = [tree.n_nodes for tree in one_way.values()]
    fine: list[float] = []
    values = {name: _n_values(tree) for name, tree in one_way.items()}
    for width in {len(table) for table in wider}:
        alike = [table for table in wider if len(table) == width]
        seen = [table for table in alike if table in held]
        rate = sum(held[t] for t in seen) / max(sum(guess[t] for t in seen), 1e-9)
        sizes += (found := [held.get(table, rate * guess[table]) for table in alike])
        fine += [
            size
            for table, size in zip(alike, found, strict=True)
            if is_fine([values[name] for name in table])
        ]
    total = max(int(one_way[""].n[0]), 1)
    return Estimate(
        tables=len(sizes) - 1,
        measured=len(one_way) - 1 + len(held),
        rows=total,
        cost=cost_of(sizes, rows=total, is_paired=spec.counted.max_rows is not None, fine=fine),
        unit=spec.unit,
    )


def _tenth(wider: tuple[ColumnSet, ...], guess: Mapping[ColumnSet, float]) -> tuple[ColumnSet, ...]:
    """Of the tables of each width one in ten, of all sizes, three at least."""
    chosen: list[ColumnSet] = []
    for width in sorted({len(table) for table in wider}):
        alike = sorted((t for t in wider if len(t) == width), key=lambda t: (guess[t], t))
        n = min(len(alike), max(3, len(alike) // SAMPLED))
        chosen += [alike[(2 * i + 1) * len(alike) // (2 * n)] for i in range(n)]
    return tuple(chosen)


def _guessed_buckets(one_way: Mapping[str, Measurement], columns: ColumnSet, least: int) -> float:
    """Combinations that would hold enough rows if columns did not hang together, by powers of two of their shares."""
    total = max(int(one_way[""].n[0]), 1)
    found = np.ones(1)
    for name in columns:
        tree = one_way[name]
        leaf = np.ones(tree.n_nodes, dtype=bool)
        leaf[tree.parent[tree.parent >= 0]] = False
        share = np.clip(tree.n[leaf] / total, 2.0**-40, 1.0)
        found = np.convolve(found, np.bincount(np.round(-np.log2(share)).astype(np.int64)))
    enough = int(np.floor(np.log2(max(total / least, 1.0)))) + 1
    return float(found[:enough].sum()) + 1.0


def _n_values(tree: Measurement) -> int:
    """About how many values a column will have: the released ones, and in released ranges as many as rows or grid."""
    if not tree.columns:
        return 0
    leaf = is_leaf(tree)
    level = np.minimum(tree.level[leaf, 0], MOST_LEVEL).astype(np.int64)
    return int(np.minimum(np.maximum(tree.n[leaf], 1), 1 << level).sum())


class _Noise:
    """The noise that cards will state: columns are fitted as a build fits them, wider tables follow from these."""

    def __init__(
        self, spec: ReleaseSpec, order: FitOrder, one_way: Mapping[str, Measurement]
    ) -> None:
        of_all = one_way[""]
        trees = {name: tree for name, tree in one_way.items() if name}
        total, scale = max(int(of_all.n[0]), 0), int(of_all.scale[0])
        supports = fit_columns(order, trees, total, scale).supports
        self._layer_sd = spec.privacy.layer_sd
        self._columns = {name: support.noise_sd for name, support in supports.items()}
        self._tables: dict[ColumnSet, float] = {}

    def add(self, tree: Measurement) -> None:
        """Compute the noise of a table, after those that it is locked to."""
        columns = tree.columns
        self._tables[columns] = (
            self._columns[columns[0]]
            if len(columns) == 1
            else stated_sd(tree, self._layer_sd, [self._tables[s] for s in sub_tables(columns)])
        )

    def of(self, columns: ColumnSet, base: ColumnSet) -> float:
        """What is stated for a table that shows what its base does."""
        if columns == base:
            return self._tables[base]
        return max(self._tables[base], *(self._columns[name] for name in columns))


def _planned(
    tree: Measurement,
    total: int,
    noise: _Noise,
    published: list[ColumnSet],
    seconds: float,
    prefixes: Mapping[str, list[int]],
    steps: Mapping[str, Mapping[str, float]],
) -> list[PlannedTable]:
    """Sizes of the tables that one measurement gives: its own, and those of which it implies the other columns.

    prefixes: Codes of each column that stand for hidden values; steps: The next two resolutions of each, in steps.
    """
    share = _suppressed(tree, _is_shown(tree, prefixes), total)
    coarser: dict[str, dict[str, float]] = {}
    for j, name in enumerate(tree.columns):
        if share > MOSTLY_FILLED and steps[name]:
            others = (np.delete(tree.level, j, axis=1) == 0).all(axis=1)

            def within(level: int, others: BoolArray = others, j: int = j) -> float:
                fits = others & (tree.level[:, j] <= level)
                shown = fits & ~(fits[tree.parent] & (tree.parent >= 0))
                return _suppressed(tree, shown, total)

            # Ten steps of now, say, lie between ranges of 8 and 16 of them.
            coarser[name] = {
                step: (low + 1 - at) * within(low) + (at - low) * within(low + 1)
                for step, n_steps in steps[name].items()
                for at in [math.log2(n_steps)]
                for low in [int(at)]
            }
    own = PlannedTable(
        columns=tree.columns,
        cells=int(_is_single(tree).sum()),
        suppressed_share=share,
        coarser=coarser,
        noise_sd=noise.of(tree.columns, tree.columns),
        seconds=seconds,
        is_published=tree.columns in published,
    )
    implied = [
        replace(own, columns=columns, is_published=True, noise_sd=noise.of(columns, tree.columns))
        for columns in published
        if columns != own.columns
    ]
    return [own, *implied]


def _prefixes(measured: Measured) -> dict[str, list[int]]:
    """Codes of each column that stand for hidden values."""
    return {
        name: [code for code, value in (tree.values or {}).items() if isinstance(value, Prefix)]
        for name, tree in measured.one_way.items()
    }


def _is_single(tree: Measurement) -> BoolArray:
    """Which buckets are cells of single values."""
    single: BoolArray = is_leaf(tree) & (tree.level == 0).all(axis=1)
    return single


def _is_shown(tree: Measurement, prefixes: Mapping[str, list[int]]) -> BoolArray:
    """Which buckets are cells of single values that hide nobody, as placeholders and prefixes do."""
    is_shown: BoolArray = _is_single(tree) & (tree.kind != KIND_OTHER).all(axis=1)
    for j, name in enumerate(tree.columns):
        is_shown &= ~(
            (tree.kind[:, j] == KIND_NONNEGATIVE) & np.isin(tree.index[:, j], prefixes[name])
        )
    return is_shown


def _suppressed(tree: Measurement, is_shown: BoolArray, total: int) -> float:
    """The noisy share of all rows that are in no bucket shown."""
    released = int(np.maximum(tree.n[is_shown], 0).sum())
    return min(max(1 - released / total, 0.0), 1.0)


def _coarser(column: Column) -> dict[str, float]:
    """The next two resolutions of a number, date or time, and how many of its steps each holds."""
    now = column.resolution or Resolution()
    if column.kind in PERIODS:
        held = LENGTHS[now.period] if now.period else unit(column.kind)
        longer = [one for one in PERIODS[column.kind] if LENGTHS[one] > held][:2]
        return {Resolution(period=one).toml: LENGTHS[one] / held for one in longer}
    if column.kind not in NUMBER_KINDS or (now.base != 10 and now.step < 1):
        return {}
    if now.base == 10:
        next_two = [replace(now, exponent=now.exponent + more) for more in (1, 2)]
    else:
        next_two = [Resolution.read(int(now.step) * 10**more) for more in (1, 2)]
    return {step.toml: 10.0**more for more, step in enumerate(next_two, 1)}


def _warnings(tables: list[PlannedTable], unit: Unit) -> list[str]:
    """What a custodian should look at before building."""

    def way_out(table: PlannedTable) -> str:
        ways = [
            f"with {name}'s resolution = "
            + ", or ".join(f"{step} about {share:.0%}" for step, share in shares.items())
            for name, shares in table.coarser.items()
            if shares
        ]
        return "; ".join(ways) or "coarser columns or fewer of them would show more"

    filled = [t for t in tables if t.is_published and t.suppressed_share > MOSTLY_FILLED]
    out = [
        f"{', '.join(t.columns)}: about {t.suppressed_share:.0%} of the {unit.many} lie in groups too small to show; "
        f"{way_out(t)}"
        for t in filled[:5]
    ]
    if len(filled) > 5:
        out.append(f"... and {len(filled) - 5} more tables like these")
    return out


def _exposed(exposure: Exposure) -> list[str]:
    """A warning where much is disclosed of the most exposed, though not too much."""
    if not exposure.is_warned or exposure.is_refused:
        return []
    bounds = exposure.bounds
    return [
        f"the most exposed are guessed up to {exposure.guessed:.0%} right (warning above "
        f"{0.5 + bounds.warn_at / 2:.0%}, refused above {bounds.most_right:.0%}): fewer or coarser tables tell less"
    ]
