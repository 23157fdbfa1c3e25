"""Fit, sample and store: all that happens right of the wall, in the order in which measurements arrive.

Takes a `FitOrder` (public), then measurements: the total, every one-way table, then wider sets, narrower before
wider. Gives synthetic tables to the staging store. Knows no row, no true count and no key but the sampling key;
`engine.fit_process` runs it in a process of its own.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from hashlib import blake2b
from pathlib import Path

from engine.alphabet import fit_alphabet, is_leaf
from engine.card import GeneratorCard
from engine.errors import InternalError
from engine.keys import pack_strings
from engine.locking import lock_table, one_way_table, sub_tables
from engine.schema import (
    Alphabet,
    ColumnSet,
    Measurement,
    ReleaseHeader,
    SyntheticTable,
)
from engine.store import Staging
from engine.tree import NOISE_LAYERS

CONVERGED = 0.01
"""Largest relative margin error of a raking called converged."""


@dataclass(frozen=True, kw_only=True, slots=True)
class FitOrder:
    """What the fit is told before any measurement. All of it is public but the sampling key.

    Attributes
    ----------
    header : ReleaseHeader
    release_path : Path
        File to be made.
    build_id : str
        Keyed digest of all that decides the release; tells whether a staging area can be resumed.
    limits : dict
        Smallest and largest possible code of the columns that declare bounds.
    sampling_key : bytes
    low_threshold, threshold_mean, layer_sd : int
        Public privacy parameters; see `PrivacyParams`.
    profile : str
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
    order : FitOrder
    staging : Staging
    """

    def __init__(self, order: FitOrder, staging: Staging) -> None:
        self._order = order
        self._staging = staging
        self._columns = {column.name: column for column in order.header.columns}
        self._published = frozenset(order.header.tables)
        self._finished = staging.finished()
        self._alphabets: dict[str, Alphabet] = {}
        self._tables: dict[ColumnSet, SyntheticTable] = {}
        self._noisy_total: int | None = None
        self._total_scale = 1
        self._still_needed = Counter(
            sub
            for columns in needed_tables(tuple(self._published - self._finished))
            for sub in sub_tables(columns)
        )

    def take(self, measurement: Measurement) -> SyntheticTable | None:
        """Fit one measurement and store it if it is to be published.

        Raises
        ------
        InternalError
            If it comes before what it is locked to.
        """
        if not measurement.columns:
            self._noisy_total = max(int(measurement.n[0]), 0)
            self._total_scale = int(measurement.scale[0])
            return None
        if self._noisy_total is None:
            raise InternalError("the total must be measured first")
        table = self._fit(measurement, self._noisy_total)
        self._publish(table, measurement)
        self._tables[measurement.columns] = table
        self._forget(measurement.columns)
        return table

    def _fit(self, measurement: Measurement, total: int) -> SyntheticTable:
        """The synthetic table of a measurement."""
        columns, order = measurement.columns, self._order
        if len(columns) == 1:
            alphabet = fit_alphabet(
                measurement,
                self._columns[columns[0]],
                noisy_total=total,
                total=total,
                floor=order.low_threshold,
                layer_sd=order.layer_sd,
                total_sd=self._total_scale * order.layer_sd * NOISE_LAYERS**0.5,
                code_limits=self._limits(measurement),
                key=self._key(columns),
            )
            self._alphabets[columns[0]] = alphabet
            return one_way_table(alphabet, measurement, order.layer_sd)
        try:
            narrower = tuple(self._tables[sub] for sub in sub_tables(columns))
        except KeyError:
            raise InternalError("a table came before the narrower ones it is locked to") from None
        return lock_table(
            measurement,
            tuple(self._alphabets[name] for name in columns),
            narrower,
            noisy_total=total,
            floor=order.low_threshold,
            layer_sd=order.layer_sd,
            key=self._key(columns),
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
        """Store a table, with the alphabets it is spelled with, unless an earlier run has."""
        if table.columns not in self._published or table.columns in self._finished:
            return
        for name in table.columns:
            self._staging.put_alphabet(self._alphabets[name])
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

    def _forget(self, columns: ColumnSet) -> None:
        """Drop narrower tables that no later table is locked to, so that memory follows the widest."""
        if len(columns) < 2:
            return
        for sub in sub_tables(columns):
            self._still_needed[sub] -= 1
            if len(sub) > 1 and self._still_needed[sub] <= 0:
                self._tables.pop(sub, None)
        if len(columns) > 1 and self._still_needed[columns] <= 0:
            self._tables.pop(columns, None)
