"""Fit, sample and store: all that happens right of the wall, in the order in which measurements arrive.

Takes a `FitOrder` (public), then measurements: the total, every one-way table, then wider sets, narrower before
wider. Gives synthetic tables to the staging store. Knows no row, no true count and no key but the sampling key;
`engine.release.fit_process` runs it in a process of its own.
"""

from __future__ import annotations

from collections import Counter, deque
from concurrent.futures import Future
from dataclasses import dataclass, field
from hashlib import blake2b
from pathlib import Path
from typing import Any

from engine.errors import InternalError
from engine.fit import (
    Marks,
    Universes,
    fit_support,
    is_leaf,
    marks_of,
    one_way_table,
    sub_tables,
    with_rows_outside,
)
from engine.keys import pack_strings
from engine.params import NOISE_LAYERS
from engine.progress import Progress
from engine.release.fit_workers import FitWorkers
from engine.schema import (
    ColumnSet,
    Measurement,
    ReleaseHeader,
    Support,
    SyntheticTable,
)
from engine.store import GeneratorCard, Staging

CONVERGED = 0.01
"""Largest share of rows that margins are off by in a raking called converged."""


@dataclass(frozen=True, kw_only=True, slots=True)
class FitOrder:
    """How to fit, sent before any measurement. All of it is public but the sampling key.

    Attributes
    ----------
    release_path : Path
        File to be made.
    build_id : str
        Keyed digest of all that decides the release; tells whether a staging area can be resumed.
    limits : dict
        Smallest and largest possible code of the columns that declare bounds.
    sampling_key : bytes
    low_threshold, threshold_mean, layer_sd : int
        Public privacy parameters; see `PrivacyParams`.
    workers : int
        Processes that lock tables for the one that stores them; 0: it does so itself.
    universes : dict
        Declared universes, by the column that has one.
    """

    header: ReleaseHeader
    release_path: Path
    build_id: str
    limits: dict[str, tuple[int, int]]
    sampling_key: bytes
    low_threshold: int
    threshold_mean: int
    layer_sd: int
    profile: str
    workers: int = 0
    universes: Universes = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True, slots=True)
class FitAnswer:
    """What is answered about a fitted measurement."""

    columns: ColumnSet
    cells: int = 1
    gap: int = 0


@dataclass(frozen=True, kw_only=True, slots=True)
class Finish:
    """The last message: everything was measured.

    Attributes
    ----------
    exposure : dict or None
        Mode sticky: what the release says of what it gives away, in plain values.
    """

    exposure: dict[str, Any] | None = None


def needed_tables(published: tuple[ColumnSet, ...]) -> tuple[ColumnSet, ...]:
    """Published tables of two and more columns with all narrower ones they are locked to, narrower first."""
    needed: set[ColumnSet] = set()
    frontier = {columns for columns in published if len(columns) > 1}
    while frontier:
        needed |= frontier
        frontier = {
            sub for columns in frontier if len(columns) > 2 for sub in sub_tables(columns)
        } - needed
    return tuple(sorted(needed, key=lambda columns: (len(columns), columns)))


class Fitter:
    """Fits measurements as they come and stores the published tables; keeps what wider tables need.

    Parameters
    ----------
    workers : FitWorkers, optional
        None: every table is locked at once, here.
    """

    def __init__(
        self, order: FitOrder, staging: Staging, workers: FitWorkers | None = None
    ) -> None:
        self._order = order
        self._staging = staging
        self._workers = workers or FitWorkers(0)
        self._columns = {column.name: column for column in order.header.columns}
        self._published = frozenset(order.header.tables)
        self._finished = staging.finished()
        self._supports: dict[str, Support] = {}
        self._marks: dict[str, Marks] = {}
        self._tables: dict[ColumnSet, SyntheticTable] = {}
        self._under_way: deque[tuple[Measurement, Future[SyntheticTable] | None]] = deque()
        self._settled: list[FitAnswer] = []
        self._noisy_total: int | None = None
        self._total_scale = 1
        self._still_needed = Counter(
            sub
            for columns in needed_tables(tuple(self._published - self._finished))
            for sub in sub_tables(columns)
        )

    def take(self, measurement: Measurement) -> SyntheticTable | None:
        """Fit one measurement to the end and store it if it is to be published.

        Raises
        ------
        InternalError
            If it comes before what it is locked to.
        """
        self.begin(measurement)
        _, future = self._under_way[-1]
        self.settle(0)
        return future.result() if future else None

    def begin(self, measurement: Measurement) -> None:
        """Start to fit a measurement, waiting for the narrower tables that are still under way.

        Raises
        ------
        InternalError
            If it comes before what it is locked to.
        """
        columns = measurement.columns
        if not columns:
            self._noisy_total = max(int(measurement.n[0]), 0)
            self._total_scale = int(measurement.scale[0])
            self._under_way.append((measurement, None))
            return
        if self._noisy_total is None:
            raise InternalError("the total must be measured first")
        if len(columns) == 1:
            fitted: Future[SyntheticTable] = Future()
            fitted.set_result(self._fit_column(measurement, self._noisy_total))
        else:
            fitted = self._lock(measurement, self._noisy_total)
        self._under_way.append((measurement, fitted))

    def settle(self, most: int) -> list[FitAnswer]:
        """Store finished tables in the order in which they came, until at most so many are under way."""
        while self._under_way and (len(self._under_way) > most or self._is_done()):
            self._store_first()
        settled, self._settled = self._settled, []
        return settled

    def finish(self, _progress: Progress, last: Finish) -> None:
        """Write the release, once all is settled; nothing is left to report."""
        self._staging.finish(exposure=last.exposure)

    def _is_done(self) -> bool:
        """Whether the first table under way is fitted."""
        future = self._under_way[0][1]
        return future is None or future.done()

    def _store_first(self) -> None:
        """Wait for the first table under way; store it, and keep it as long as wider tables need it."""
        measurement, future = self._under_way.popleft()
        if future is None:
            self._settled.append(FitAnswer(columns=()))
            return
        table = future.result()
        self._publish(table, measurement)
        self._tables[table.columns] = table
        self._drop_narrower(table.columns)
        self._settled.append(FitAnswer(columns=table.columns, cells=len(table.n), gap=table.gap))

    def _fit_column(self, measurement: Measurement, total: int) -> SyntheticTable:
        """The one-way table of a column, and its support."""
        name, order = measurement.columns[0], self._order
        unit = order.layer_sd * NOISE_LAYERS**0.5
        support = fit_support(
            measurement,
            self._columns[name],
            noisy_total=total,
            total=total,
            floor=order.low_threshold,
            layer_sd=order.layer_sd,
            total_sd=self._total_scale * unit,
            code_limits=self._limits(measurement),
            key=self._key(measurement.columns),
        )
        universe = order.universes.get(name)
        if universe is not None:
            decider = self._supports.get(universe.declared.column)
            if decider is None:
                raise InternalError("a column came before the one that decides its universe")
            variance = (unit * float(measurement.scale[-1])) ** 2
            support = with_rows_outside(support, universe, decider, variance)
        self._supports[name] = support
        self._marks[name] = marks_of(support, order.universes)
        return one_way_table(support, measurement, order.layer_sd)

    def _lock(self, measurement: Measurement, total: int) -> Future[SyntheticTable]:
        """The synthetic table of a measurement of two and more columns."""
        columns, order = measurement.columns, self._order
        needed = sub_tables(columns)
        while self._under_way and any(sub not in self._tables for sub in needed):
            self._store_first()
        try:
            narrower = tuple(self._tables[sub] for sub in needed)
        except KeyError:
            raise InternalError("a table came before the narrower ones it is locked to") from None
        return self._workers.lock(
            tree=measurement,
            supports=tuple(self._supports[name] for name in columns),
            narrower=narrower,
            noisy_total=total,
            floor=order.low_threshold,
            layer_sd=order.layer_sd,
            key=self._key(columns),
            marks=tuple(self._marks[name] for name in columns) if len(columns) == 2 else (),
        )

    def _limits(self, measurement: Measurement) -> tuple[int, int] | None:
        """Smallest and largest possible code of a column."""
        if measurement.values is not None:
            return 0, len(measurement.values) - 1
        return self._order.limits.get(measurement.columns[0])

    def _key(self, columns: ColumnSet) -> bytes:
        """Sampling key of one column set."""
        return blake2b(
            pack_strings(columns), key=self._order.sampling_key, person=b"sampling", digest_size=16
        ).digest()

    def _publish(self, table: SyntheticTable, measurement: Measurement) -> None:
        """Store a table, with its supports, unless an earlier run has."""
        if table.columns not in self._published or table.columns in self._finished:
            return
        for name in table.columns:
            self._staging.put_support(self._supports[name])
        self._staging.put_table(table, self._card(table, measurement))

    def _card(self, table: SyntheticTable, measurement: Measurement) -> GeneratorCard:
        """What went into a table."""
        order, header = self._order, self._order.header
        filled = int(table.groups.n[~table.groups.measured].sum())
        released = int(((measurement.level == 0).all(axis=1) & is_leaf(measurement)).sum())
        unit = order.layer_sd * NOISE_LAYERS**0.5
        return GeneratorCard(
            columns=table.columns,
            sub_tables=sub_tables(table.columns) if len(table.columns) > 1 else (),
            mode=header.mode,
            profile=order.profile,
            vintage=header.vintage,
            key_id=header.key_id,
            engine_version=header.engine_version,
            low_threshold=order.low_threshold,
            threshold_mean=order.threshold_mean,
            noise_sd=table.noise_sd,
            noise_sd_total=unit * self._total_scale,
            buckets_released=measurement.n_nodes,
            cells_released=released,
            cells=len(table.n),
            rows=table.n_rows,
            suppressed_share=round(filled / max(table.n_rows, 1), 6),
            rounding_gap=table.gap,
            rake_cycles=table.rake_cycles,
            rake_error=table.rake_error,
            rake_converged=table.rake_error <= CONVERGED,
            cells_per_entity=round(released / max(table.n_rows, 1), 6),
            scale=max(int(measurement.scale.max()), self._total_scale),
        )

    def _drop_narrower(self, columns: ColumnSet) -> None:
        """Drop narrower tables that no later table is locked to, so that memory follows the widest."""
        if len(columns) < 2:
            return
        for sub in sub_tables(columns):
            self._still_needed[sub] -= 1
            if len(sub) > 1 and self._still_needed[sub] <= 0:
                self._tables.pop(sub, None)
        if len(columns) > 1 and self._still_needed[columns] <= 0:
            self._tables.pop(columns, None)
