"""Fit, sample and store, mode sticky: all steps after the process boundary.

Takes a `FitOrder` (public) and measurements: the total, every column, wider sets. Gives synthetic tables to the staging
store, or to a trial's memory. Knows no row, no true count and no key but the sampling key.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from concurrent.futures import FIRST_COMPLETED, Executor, Future, wait
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from engine.fit import (
    FitOrder,
    derived_table,
    place_candidates,
    sub_tables,
)
from engine.fit.columns import fit_columns, lock_job
from engine.fit.sums import beyond
from engine.params import NOISE_LAYERS
from engine.progress import Progress, silent
from engine.relations import Relation
from engine.schema import MAX_WIDTH, ColumnSet, Measurement, Sums, Support, SyntheticTable, is_leaf
from engine.store import (
    GeneratorCard,
    Staging,
    as_text,
    grid_value,
    set_note,
    set_path,
    swap_of_table,
)

if TYPE_CHECKING:
    from engine.fit.wide import WideFit

CONVERGED = 0.01
"""Largest share of rows that margins are off by in a raking called converged."""


class Store(Protocol):
    """Where fitted tables go: `Staging`, or a trial's memory."""

    def finished(self) -> frozenset[ColumnSet]:
        """Tables that are there already."""

    def put_support(self, support: Support) -> None:
        """Take the values of a column."""

    def put_table(self, table: SyntheticTable, card: GeneratorCard) -> None:
        """Take a table."""


class _SerialExecutor(Executor):
    """Runs each call in the thread that submits it, before it returns."""

    def submit(self, call: Callable[..., Any], /, *values: Any, **named: Any) -> Future[Any]:
        """Run a call."""
        done: Future[Any] = Future()
        done.set_result(call(*values, **named))
        return done


class Fitter:
    """Fits the tables of an order, narrower before wider, and stores the published ones; keeps what wider ones need.

    measured: Gives the measurement of a column set; the total has no columns.
    pool, ahead: Executor that locks tables, and how many may be under way there.
    """

    def __init__(
        self,
        order: FitOrder,
        store: Store,
        measured: Callable[[ColumnSet], Measurement],
        *,
        pool: Executor | None = None,
        ahead: int = 1,
        report: Progress = silent,
    ) -> None:
        self._order, self._store, self._measured = order, store, measured
        self._pool, self._ahead, self._report = pool or _SerialExecutor(), ahead, report
        finished, relations = store.finished(), order.relations
        self._left = relations.left(order.header.tables, finished)
        self._unfinished: dict[ColumnSet, list[ColumnSet]] = {}
        for columns in order.header.tables:
            if columns not in finished:
                self._unfinished.setdefault(relations.base(columns), []).append(columns)
        self._wide = sorted(
            (
                columns
                for base, tables in self._unfinished.items()
                if len(base) > MAX_WIDTH
                for columns in tables
            ),
            key=_by_width,
        )
        self._tables: dict[ColumnSet, SyntheticTable] = {}
        self._still_needed = Counter(
            narrower for columns in self._left for narrower in self._locked_to(columns)
        )
        if self._wide:
            from engine.fit.wide import used_by  # slow to import, and most releases need none

            self._still_needed.update(
                columns
                for columns in self._left
                if any(used_by(wide, columns) for wide in self._wide)
            )
        total = measured(())
        self._total_scale = int(total.scale[0])
        self._noisy_total = max(int(total.n[0]), 0)
        self._one_ways = {c.name: measured((c.name,)) for c in order.header.columns}
        self._fitted = fit_columns(order, self._one_ways, self._noisy_total, self._total_scale)

    def fit(self) -> None:
        """Fit all tables but the wide ones."""
        self._tables |= self._fitted.tables
        for columns, table in self._fitted.tables.items():
            self._publish(table, self._one_ways[columns[0]])
        before = len(self._one_ways) + 1
        under_way: dict[Future[SyntheticTable], Measurement] = {}
        stored = 0

        def store_done() -> None:
            """Wait for a table, and store what is fitted."""
            nonlocal stored
            done, _ = wait(under_way, return_when=FIRST_COMPLETED)
            for future in done:
                self._take(future.result(), under_way.pop(future))
                stored += 1
                self._report("tables", before + stored, before + len(self._left))

        self._report("tables", before, before + len(self._left))
        for columns in self._left:
            while any(future.done() for future in under_way):
                store_done()  # before a measurement is waited for
            measurement = self._measured(columns)
            locked_to = self._locked_to(columns)
            while under_way and (
                len(under_way) >= self._ahead or any(one not in self._tables for one in locked_to)
            ):
                store_done()
            job = lock_job(self._order, self._fitted, self._noisy_total, measurement, self._tables)
            under_way[self._pool.submit(job)] = measurement
        while under_way:
            store_done()

    def fit_wide(self, out: Path | None = None, exposure: dict[str, Any] | None = None) -> None:
        """Fit the wide tables, once all else is fitted.

        out, exposure: The release, beside which further sets of them lie, and what it states about exposure.
        """
        if out is not None:
            self._put_sets(out, exposure)
        for columns in self._wide:
            self._put_wide(columns, self._store, 1)

    def _put_sets(self, out: Path, exposure: dict[str, Any] | None) -> None:
        """Write the further syntheses of wide tables, each set as a release of its own.

        They come before the release's own wide tables: where one of these is stored, they are all there.
        """
        order = self._order
        if not {*order.sets} <= {*self._wide}:
            return
        for number in range(2, max(order.sets.values(), default=1) + 1):
            tables = tuple(one for one in self._wide if order.sets.get(one, 1) >= number)
            notes = (*order.header.notes, set_note(out, number))
            header = replace(order.header, tables=tables, notes=notes)
            # Whether what is there may be replaced was checked before anything was measured.
            with Staging.open(
                set_path(out, number), header, build_id=order.build_id, force=True
            ) as staging:
                for columns in tables:
                    if columns not in staging.finished():
                        self._put_wide(columns, staging, number)
                staging.finish(exposure=exposure)

    def _put_wide(self, columns: ColumnSet, store: Store, number: int) -> None:
        """Fit a wide table to the locked ones inside it, and store it."""
        from engine.fit.warm import warm_wide
        from engine.fit.wide import wide_table

        warm_wide(self._report)
        store.finished()  # fails on a disk that is full by now, not after minutes of fitting
        fitted, n_sets = self._fitted, self._order.sets.get(columns, 1)
        table, fit = wide_table(
            columns,
            fitted.supports,
            self._tables,
            key=self._order.sampling_key_of(columns, number),
            implied=fitted.implied,
            target=self._order.targets.get(columns),
            report=partial(self._report, "wide table"),
        )
        more = {"set": number, "sets": n_sets} if n_sets > 1 else {}
        for name in columns:
            store.put_support(fitted.supports[name])
        store.put_table(table, _wide_card(table, fit, self._order, more))

    def _take(self, table: SyntheticTable, measurement: Measurement) -> None:
        """Store a table; keep it as long as wider ones need it."""
        self._publish(table, measurement)
        self._tables[table.columns] = table
        for sub in self._locked_to(table.columns):
            self._still_needed[sub] -= 1
            if len(sub) > 1 and self._still_needed[sub] <= 0:
                self._tables.pop(sub, None)
        if self._still_needed[table.columns] <= 0:
            self._tables.pop(table.columns, None)

    def _locked_to(self, columns: ColumnSet) -> tuple[ColumnSet, ...]:
        """The tables that a base table is locked to."""
        coarser = self._order.relations.coarsened(columns) if len(columns) > 1 else ()
        return (*sub_tables(columns), *(one for _, one in coarser))

    def _publish(self, table: SyntheticTable, measurement: Measurement) -> None:
        """Store all that a base table shows, unless an earlier run has."""
        fitted, relations = self._fitted, self._order.relations
        for columns in self._unfinished.get(table.columns, ()):
            for name in columns:
                self._store.put_support(fitted.supports[name])
            card = self._card(table, measurement)
            if columns == table.columns:
                self._store.put_table(table, card)
                continue
            sources = {name: relations.source(name, table.columns) for name in columns}
            implied = {
                name: (table.columns.index(one.finer), fitted.implied[one.finer, one.coarser])
                for name, one in sources.items()
                if one is not None
            }
            derived = derived_table(
                columns,
                table,
                implied,
                tuple(fitted.supports[name] for name in columns),
                place_candidates(
                    measurement, tuple(fitted.supports[name] for name in table.columns), table.codes
                ),
            )
            self._store.put_table(derived, _derived_card(card, derived, table, sources))

    def _card(self, table: SyntheticTable, measurement: Measurement) -> GeneratorCard:
        """What went into a table."""
        order, header = self._order, self._order.header
        filled = int(table.groups.n[~table.groups.measured].sum())
        released = int(((measurement.level == 0).all(axis=1) & is_leaf(measurement)).sum())
        return GeneratorCard.of(
            table,
            header,
            sub_tables=sub_tables(table.columns) if len(table.columns) > 1 else (),
            profile=order.profile,
            low_threshold=order.low_threshold,
            threshold_mean=order.threshold_mean,
            noise_sd=table.noise_sd,
            noise_sd_total=order.layer_sd * NOISE_LAYERS**0.5 * self._total_scale,
            buckets_released=measurement.n_nodes,
            cells_released=released,
            suppressed_share=round(filled / max(table.n_rows, 1), 6),
            rounding_gap=table.gap,
            rake_cycles=table.rake_cycles,
            rake_error=table.rake_error,
            rake_converged=table.rake_error <= CONVERGED,
            cells_per_entity=round(released / max(table.n_rows, 1), 6),
            scale=max(int(measurement.scale.max()), self._total_scale),
            swap=swap_of_table(header.privacy.get("swap"), table.columns),
            sums={
                one.column: self._clipping(one, measurement, table)
                for one in measurement.sums
                if len(one.n)
            },
        )

    def _clipping(self, sums: Sums, tree: Measurement, table: SyntheticTable) -> dict[str, Any]:
        """What a card says of the ends to which measured sums are clipped."""
        supports = [self._fitted.supports[name] for name in table.columns]
        column = self._fitted.supports[sums.column].column
        low, high = (
            [as_text(grid_value(column, int(code))) for code in (ends.min(), ends.max())]
            for ends in (sums.low, sums.high)
        )
        share = beyond(sums, tree, supports, table)
        return {"low": low, "high": high, "beyond": round(share, 4)}


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
        sums={name: ends for name, ends in card.sums.items() if name in derived.columns},
    )


def _by_width(columns: ColumnSet) -> tuple[int, ColumnSet]:
    """Sort key of tables."""
    return len(columns), columns


def _wide_card(
    table: SyntheticTable, fit: WideFit, order: FitOrder, more: Mapping[str, Any]
) -> GeneratorCard:
    """What went into a wide table: figures of its fit, and `more`."""
    header = order.header
    return GeneratorCard.of(
        table,
        header,
        sub_tables=tuple((name,) for name in table.columns),
        profile=order.profile,
        low_threshold=order.low_threshold,
        threshold_mean=order.threshold_mean,
        suppressed_share=1.0 if table.n_rows else 0.0,
        wide=_wide_values(fit) | {**more},
        swap=swap_of_table(header.privacy.get("swap"), table.columns),
    )


def _wide_values(fit: WideFit) -> dict[str, Any]:
    """What the card says of the fit: `GeneratorCard.wide`."""
    widths = [len(columns) for columns in fit.fitted]
    values: dict[str, Any] = {} if fit.target is None else {"target": fit.target}
    values |= {"step": fit.step} if fit.step > 1 else {}
    if fit.design_effect is not None:
        values["design_effect"] = round(fit.design_effect, 3)
    return values | {
        "pairs": widths.count(2),
        "triples": widths.count(3),
        "off": {str(width): share for width, share in fit.off.items()},
        "impossible": fit.impossible,
    }
