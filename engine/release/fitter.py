"""Fit, sample and store: all that happens right of the wall, in the order in which measurements arrive.

Takes a `FitOrder` (public), then measurements: the total, every one-way table, then wider sets, narrower before
wider. Gives synthetic tables to the staging store. Knows no row, no true count and no key but the sampling key;
`engine.release.fit_process` runs it in a process of its own.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any, Protocol

from engine.errors import InternalError
from engine.fit import (
    FitOrder,
    coarse_of,
    derived_table,
    is_leaf,
    place_candidates,
    sub_tables,
)
from engine.params import NOISE_LAYERS
from engine.progress import Progress
from engine.relations import Relation
from engine.release.fit_workers import FitWorkers
from engine.release.one_ways import FittedColumns, fit_columns
from engine.release.pipes import Finish
from engine.schema import MAX_WIDTH, ColumnSet, Measurement, Support, SyntheticTable
from engine.store import (
    GeneratorCard,
    ReleaseRecord,
    Staging,
    detected_of,
    set_note,
    set_path,
    swap_of_table,
    words_of,
    written_of,
)

if TYPE_CHECKING:
    from engine.fit.wide import WideFit

Placing = Callable[[ReleaseRecord], None]
FEW_BUCKETS = 1 << 20
"""Tables under way are light where they have no more buckets together; of a fitted one, its cells count with them."""
CONVERGED = 0.01
"""Largest share of rows that margins are off by in a raking called converged."""


@dataclass(frozen=True, kw_only=True, slots=True)
class FitAnswer:
    """What is answered about a fitted measurement."""

    columns: ColumnSet
    cells: int = 1
    gap: int = 0


class Store(Protocol):
    """Where fitted tables go: `Staging`, or a trial's memory."""

    def finished(self) -> frozenset[ColumnSet]:
        """Tables that are there already."""

    def put_support(self, support: Support) -> None:
        """Take the values of a column."""

    def put_table(self, table: SyntheticTable, card: GeneratorCard) -> None:
        """Take a table."""

    def finish(
        self, *, exposure: dict[str, Any] | None = None, placing: Placing | None = None
    ) -> ReleaseRecord:
        """Write the release."""


class Fitter:
    """Fits measurements as they come and stores the published tables; keeps what wider tables need.

    workers: None: every table is locked at once, here.
    """

    def __init__(self, order: FitOrder, staging: Store, workers: FitWorkers | None = None) -> None:
        self._order = order
        self._staging = staging
        self._workers = workers or FitWorkers(0)
        finished = staging.finished()
        self._unfinished: dict[ColumnSet, list[ColumnSet]] = {}
        for columns in order.header.tables:
            if columns not in finished:
                self._unfinished.setdefault(order.relations.base(columns), []).append(columns)
        self._one_ways: dict[str, Measurement] = {}
        self._fitted: FittedColumns | None = None
        self._tables: dict[ColumnSet, SyntheticTable] = {}
        self._under_way: deque[tuple[Measurement, Future[SyntheticTable] | None]] = deque()
        self._settled: list[FitAnswer] = []
        self._noisy_total: int | None = None
        self._total_scale = 1
        left = order.relations.left(order.header.tables, finished)
        self._still_needed = Counter(
            narrower for columns in left for narrower in self._locked_to(columns)
        )
        self._wide = [
            columns
            for base, tables in self._unfinished.items()
            if len(base) > MAX_WIDTH
            for columns in tables
        ]
        self._n_left = sum(len(columns) > 1 for columns in left)
        self._keep_for_wide(left)

    def _keep_for_wide(self, left: Sequence[ColumnSet]) -> None:
        """Locked tables that a wide one is fitted to stay until the end."""
        if self._wide:
            from engine.fit.wide import (
                used_by,  # slow to import, and most releases have no such table
            )

            self._still_needed.update(
                columns for columns in left if any(used_by(wide, columns) for wide in self._wide)
            )

    def take(self, measurement: Measurement) -> SyntheticTable | None:
        """Fit one measurement to the end and store it if it is to be published."""
        self.begin(measurement)
        _, future = self._under_way[-1]
        self.settle(0)
        return future.result() if future else None

    def begin(self, measurement: Measurement) -> None:
        """Start to fit a measurement, waiting for the narrower tables that are still under way."""
        columns = measurement.columns
        if not columns:
            self._noisy_total = max(int(measurement.n[0]), 0)
            self._total_scale = int(measurement.scale[0])
            self._under_way.append((measurement, None))
            return
        if self._noisy_total is None:
            raise InternalError("the total must be measured first")
        if len(columns) == 1:
            if self._fitted is not None:
                raise InternalError("a column came after tables that it could be told by")
            self._one_ways[columns[0]] = measurement
            self._under_way.append((measurement, None))
            if len(self._one_ways) == len(self._order.header.columns):
                self._columns()
            return
        self._under_way.append((measurement, self._lock(measurement, self._noisy_total)))

    def settle(self, most: int, light: int = 0) -> list[FitAnswer]:
        """Store finished tables in the order in which they came, until at most so many are under way.

        Up to `light` may be where they have few buckets together: a slow one then keeps nobody waiting.
        """
        while self._under_way and (self._are_more_than(most, light) or self._is_done()):
            self._store_first()
        settled, self._settled = self._settled, []
        return settled

    def _are_more_than(self, most: int, light: int) -> bool:
        """Whether more are under way than may be."""
        n = len(self._under_way)
        buckets = sum(_held(measurement, future) for measurement, future in self._under_way)
        return n > (max(light, most) if buckets <= FEW_BUCKETS else most)

    def finish(
        self, progress: Progress, last: Finish, placing: Placing | None = None
    ) -> ReleaseRecord:
        """Fit the wide tables and write the release, once all else is settled; `placing` as `Staging.finish`."""
        if self._one_ways:
            self._columns()
        self._put_sets(progress, last)
        self.fit_wide(progress)
        return self._staging.finish(exposure=last.exposure, placing=placing)

    def fit_wide(self, progress: Progress) -> None:
        """Fit the wide tables, once all else is settled."""
        if self._one_ways:
            self._columns()
        for columns in sorted(self._wide, key=_by_width):
            self._put_wide(columns, progress, self._staging, 1)

    def _put_sets(self, progress: Progress, last: Finish) -> None:
        """Write the further syntheses of wide tables, each set as a release of its own.

        They come before the release's own wide tables: where one of these is stored, they are all there.
        """
        order = self._order
        if not {*order.sets} <= {*self._wide}:
            return
        for number in range(2, max(order.sets.values(), default=1) + 1):
            wanted = [one for one in self._wide if order.sets.get(one, 1) >= number]
            tables = tuple(sorted(wanted, key=_by_width))
            note = set_note(order.release_path, number)
            header = replace(order.header, tables=tables, notes=(*order.header.notes, note))
            path = set_path(order.release_path, number)
            # Whether what is there may be replaced was asked before anything was measured.
            with Staging.open(path, header, build_id=order.build_id, force=True) as staging:
                for columns in tables:
                    if columns not in staging.finished():
                        self._put_wide(columns, progress, staging, number)
                staging.finish(exposure=last.exposure)

    def _put_wide(
        self, columns: ColumnSet, progress: Progress, staging: Store, number: int
    ) -> None:
        """Fit a wide table to the locked ones inside it, and store it."""
        from engine.fit.warm import warm_wide
        from engine.fit.wide import wide_table

        warm_wide(progress)
        staging.finished()  # a disk that the table before has filled is told of before minutes of fitting
        fitted, n_sets = self._columns(), self._order.sets.get(columns, 1)
        table, fit = wide_table(
            columns,
            fitted.supports,
            self._tables,
            key=self._order.sampling_key_of(columns, number),
            told=fitted.told,
            target=self._order.targets.get(columns),
            report=partial(progress, "wide table"),
        )
        told = {"set": number, "sets": n_sets} if n_sets > 1 else {}
        for name in columns:
            staging.put_support(fitted.supports[name])
        staging.put_table(table, _wide_card(table, fit, self._order, told))

    def _is_done(self) -> bool:
        """Whether the first table under way is fitted."""
        future = self._under_way[0][1]
        return future is None or future.done()

    def _store_first(self) -> None:
        """Wait for the first table under way; store it, and keep it as long as wider tables need it."""
        measurement, future = self._under_way.popleft()
        if future is None:
            self._settled.append(FitAnswer(columns=measurement.columns))
            return
        table = future.result()
        self._publish(table, measurement)
        self._tables[table.columns] = table
        self._drop_narrower(table.columns)
        self._settled.append(FitAnswer(columns=table.columns, cells=len(table.n), gap=table.gap))

    def _columns(self) -> FittedColumns:
        """All columns, fitted and their tables stored once the last one has come."""
        if self._fitted is None:
            total = self._noisy_total or 0
            self._fitted = fit_columns(self._order, self._one_ways, total, self._total_scale)
            self._tables |= self._fitted.tables
            for columns, table in self._fitted.tables.items():
                self._publish(table, self._one_ways[columns[0]])
        return self._fitted

    def _lock(self, measurement: Measurement, total: int) -> Future[SyntheticTable]:
        """The synthetic table of a measurement of two and more columns."""
        columns, order, fitted = measurement.columns, self._order, self._columns()
        while self._under_way and any(one not in self._tables for one in self._locked_to(columns)):
            self._store_first()
        try:
            narrower = tuple(self._tables[sub] for sub in sub_tables(columns))
            coarser = [
                (relation, self._tables[one])
                for relation, one in order.relations.coarsened(columns)
            ]
        except KeyError:
            raise InternalError("a table came before the narrower ones it is locked to") from None
        self._n_left -= 1
        return self._workers.lock(
            left=self._n_left + 1,
            tree=measurement,
            supports=tuple(fitted.supports[name] for name in columns),
            narrower=narrower,
            noisy_total=total,
            floor=order.low_threshold,
            layer_sd=order.layer_sd,
            key=order.sampling_key_of(columns),
            marks=tuple(fitted.marks[name] for name in columns) if len(columns) == 2 else (),
            coarse=tuple(
                coarse_of(one, columns, fitted.told[one.finer, one.coarser], table)
                for one, table in coarser
            ),
        )

    def _locked_to(self, columns: ColumnSet) -> tuple[ColumnSet, ...]:
        """The published tables that a base table is locked to."""
        coarser = self._order.relations.coarsened(columns) if len(columns) > 1 else ()
        return (*sub_tables(columns), *(one for _, one in coarser))

    def _publish(self, table: SyntheticTable, measurement: Measurement) -> None:
        """Store all that a base table shows, unless an earlier run has."""
        fitted, relations = self._columns(), self._order.relations
        for columns in self._unfinished.get(table.columns, ()):
            for name in columns:
                self._staging.put_support(fitted.supports[name])
            card = self._card(table, measurement)
            if columns == table.columns:
                self._staging.put_table(table, card)
                continue
            sources = {name: relations.source(name, table.columns) for name in columns}
            told = {
                name: (table.columns.index(one.finer), fitted.told[one.finer, one.coarser])
                for name, one in sources.items()
                if one is not None
            }
            derived = derived_table(
                columns,
                table,
                told,
                tuple(fitted.supports[name] for name in columns),
                place_candidates(
                    measurement, tuple(fitted.supports[name] for name in table.columns), table.codes
                ),
            )
            self._staging.put_table(derived, _derived_card(card, derived, table, sources))

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
            swap=swap_of_table(header.privacy.get("swap"), table.columns),
            words=words_of(header.unit, header.entity),
            detected=detected_of(header, table.columns),
            written=written_of(header, table.columns),
        )

    def _drop_narrower(self, columns: ColumnSet) -> None:
        """Drop narrower tables that no later table is locked to, so that memory follows the widest."""
        for sub in self._locked_to(columns):
            self._still_needed[sub] -= 1
            if len(sub) > 1 and self._still_needed[sub] <= 0:
                self._tables.pop(sub, None)
        if self._still_needed[columns] <= 0:
            self._tables.pop(columns, None)


def _held(measurement: Measurement, future: Future[SyntheticTable] | None) -> int:
    """Buckets of a table under way, and its cells once it is fitted: few buckets may be filled with many."""
    is_fitted = future is not None and future.done() and future.exception() is None
    return measurement.n_nodes + (len(future.result().n) if future and is_fitted else 0)


def _derived_card(
    card: GeneratorCard,
    derived: SyntheticTable,
    base: SyntheticTable,
    sources: Mapping[str, Relation | None],
) -> GeneratorCard:
    """The card of a table that shows what its base shows."""
    return replace(
        card,
        columns=derived.columns,
        sub_tables=(base.columns,),
        noise_sd=derived.noise_sd,
        cells=len(derived.n),
        told={name: one.finer for name, one in sources.items() if one is not None},
    )


def _by_width(columns: ColumnSet) -> tuple[int, ColumnSet]:
    """The order of tables."""
    return len(columns), columns


def _wide_card(
    table: SyntheticTable, fit: WideFit, order: FitOrder, told: Mapping[str, Any]
) -> GeneratorCard:
    """What went into a wide table; `told` is said beside what the fit says."""
    header = order.header
    return GeneratorCard(
        columns=table.columns,
        sub_tables=tuple((name,) for name in table.columns),
        mode=header.mode,
        profile=order.profile,
        vintage=header.vintage,
        key_id=header.key_id,
        engine_version=header.engine_version,
        low_threshold=order.low_threshold,
        threshold_mean=order.threshold_mean,
        noise_sd=0.0,
        noise_sd_total=0.0,
        buckets_released=0,
        cells_released=0,
        cells=len(table.n),
        rows=table.n_rows,
        suppressed_share=1.0 if table.n_rows else 0.0,
        rounding_gap=0,
        rake_cycles=0,
        rake_error=0.0,
        rake_converged=True,
        cells_per_entity=0.0,
        wide=_wide_values(fit) | {**told},
        swap=swap_of_table(header.privacy.get("swap"), table.columns),
        words=words_of(header.unit, header.entity),
        detected=detected_of(header, table.columns),
        written=written_of(header, table.columns),
    )


def _wide_values(fit: WideFit) -> dict[str, Any]:
    """What the card says of the fit: `GeneratorCard.wide`."""
    widths = [len(columns) for columns in fit.fitted]
    told: dict[str, Any] = {} if fit.target is None else {"target": fit.target}
    told |= {"step": fit.step} if fit.step > 1 else {}
    return told | {
        "pairs": widths.count(2),
        "triples": widths.count(3),
        "off": {str(width): share for width, share in fit.off.items()},
        "impossible": fit.impossible,
    }
