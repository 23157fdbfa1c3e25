"""Fit, sample and store in mode dp: all that happens right of the wall.

Takes a `JointOrder` (public but for the sampling key), then the noisy total and every noisy margin; gives synthetic
tables to the staging store, all of them projections of the same rows. Knows no row, no true count (unless the order
says that nothing is guaranteed) and no key but the sampling key; `engine.release.fit_process` runs it in its own
process.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field
from hashlib import blake2b
from pathlib import Path
from typing import Any

import numpy as np

from engine.errors import InternalError
from engine.fit.joint import (
    FitReport,
    Precision,
    Synthesis,
    joint_rows,
    precision_of,
    projected,
    synthesise,
)
from engine.levels import Levels, Margin, StructuralZero, n_cells, sizes_of
from engine.params import DPParams
from engine.progress import Progress
from engine.release.fitter import FitAnswer, Placing
from engine.release.pipes import Finish
from engine.schema import ColumnSet, ReleaseHeader, SyntheticTable
from engine.store import GeneratorCard, ReleaseRecord, Staging, detected_of, words_of, written_of

NEARLY = 0.01
"""Share of rows that an exact margin may be off by."""


@dataclass(frozen=True, kw_only=True, slots=True)
class JointOrder:
    """How to fit, sent before any margin. All of it is public but the sampling key."""

    header: ReleaseHeader
    release_path: Path  # File to be made
    # Keyed digest of all that decides the release, noisy counts among it; tells whether a staging area can
    # be resumed.
    build_id: str
    levels: dict[str, Levels]  # Of all columns of the joint distribution
    zeros: tuple[StructuralZero, ...]
    params: DPParams
    sampling_key: bytes
    # `epsilon`, `delta` and `rho` of this build, as accounted; `epsilon` None: nothing is guaranteed.
    cost: dict[str, float | None]
    promised: dict[str, Any]  # What cards say of the guarantee: see `Guarantee.of`
    ledger: tuple[dict[str, Any], ...] = field(default=())  # Entries of the ledger in plain values
    # workers, force, earlier: As in `FitOrder`; a joint fit has no use for workers, and takes no tables
    # from elsewhere.
    workers: int = 0
    force: bool = False
    earlier: None = None


class JointFitter:
    """Collects margins; fits, draws and stores once they are all there. The same face as `Fitter`."""

    def __init__(self, order: JointOrder, staging: Staging) -> None:
        self._order = order
        self._staging = staging
        self._total: Margin | None = None
        self._margins: list[Margin] = []
        self._taken: deque[FitAnswer] = deque()

    def begin(self, margin: Margin) -> None:
        """Take one margin; the total, which has no columns, comes first."""
        if not margin.columns:
            self._total = margin
        elif self._total is None:
            raise InternalError("the total must be measured first")
        else:
            self._margins.append(margin)
        self._taken.append(FitAnswer(columns=margin.columns, cells=int(margin.n.size)))

    def settle(self, _most: int = 0, _light: int = 0) -> list[FitAnswer]:
        """What was taken since; nothing is under way before `finish`."""
        taken = list(self._taken)
        self._taken.clear()
        return taken

    def finish(
        self, progress: Progress, _last: Finish, placing: Placing | None = None
    ) -> ReleaseRecord:
        """Fit, draw and store all tables that an earlier run has not, then write the release."""
        if self._total is None:
            raise InternalError("the total must be measured first")
        missing = [t for t in self._order.header.tables if t not in self._staging.finished()]
        if missing:
            self._store(missing, self._total, progress)
        return self._staging.finish(self._order.ledger, placing=placing)

    def _store(self, tables: list[ColumnSet], total: Margin, progress: Progress) -> None:
        """Fit, draw and store these tables."""
        order = self._order
        rng = generator(order.sampling_key)
        synthesis = synthesise(
            self._margins,
            total,
            params=order.params,
            levels=order.levels,
            zeros=order.zeros,
            rng=rng,
            progress=progress,
        )
        rows = joint_rows(
            synthesis.columns,
            synthesis.cells,
            synthesis.n,
            order.levels,
            uniform=synthesis.uniform,
            rng=rng,
        )
        for name in sorted({name for columns in tables for name in columns}):
            self._staging.put_support(rows.supports[name])
        sizes = {name: len(levels) for name, levels in order.levels.items()}
        for done, columns in enumerate(tables):
            progress("tables", done, len(tables))
            precision = precision_of(columns, self._margins, sizes)
            table = projected(rows, columns, precision)
            card = joint_card(table, precision, order, total, self._margins, synthesis)
            self._staging.put_table(table, card)
        progress("tables", len(tables), len(tables))


def generator(sampling_key: bytes) -> np.random.Generator:
    """The generator of everything random right of the wall: the same for the same key."""
    seed = blake2b(b"joint", key=sampling_key, person=b"sampling", digest_size=16).digest()
    return np.random.Generator(np.random.PCG64(int.from_bytes(seed, "little")))


def joint_card(
    table: SyntheticTable,
    precision: Precision,
    order: JointOrder,
    total: Margin,
    margins: list[Margin],
    synthesis: Synthesis,
) -> GeneratorCard:
    """What went into a table."""
    header, rows = order.header, table.n_rows
    released = n_cells(sizes_of(order.levels, table.columns)) if precision.is_covered else 0
    loose = int(table.n[~table.measured].sum())
    inside = sum(set(margin.columns) <= set(table.columns) for margin in margins)
    dp = fit_values(order, total, margins, synthesis)
    dp |= {"margins_inside": inside, "covered": precision.is_covered}
    return GeneratorCard(
        columns=table.columns,
        sub_tables=(),
        mode=header.mode,
        profile="dp",
        vintage=header.vintage,
        key_id=header.key_id,
        engine_version=header.engine_version,
        low_threshold=0,
        threshold_mean=0,
        noise_sd=precision.noise_sd,
        noise_sd_total=float(total.variance) ** 0.5,
        buckets_released=released,
        cells_released=released,
        cells=len(table.n),
        rows=rows,
        suppressed_share=round(loose / max(rows, 1), 6),
        rounding_gap=0,
        rake_cycles=dp["cycles"],
        rake_error=dp["error"],
        rake_converged=dp["converged"],
        cells_per_entity=round(released / max(rows, 1), 6),
        scale=order.params.max_rows,
        dp=dp,
        words=words_of(header.unit, header.entity),
        detected=detected_of(header, table.columns),
        written=written_of(header, table.columns),
    )


def is_settled(report: FitReport) -> bool:
    """Whether a fit to noisy margins ended: these contradict each other, so it may come to rest short of them."""
    return report.at_rest


def is_exact(report: FitReport) -> bool:
    """Whether a fit to exact margins met them, which it can."""
    return report.converged or report.error <= NEARLY


def fit_values(
    order: JointOrder, total: Margin, margins: list[Margin], synthesis: Synthesis
) -> dict[str, Any]:
    """What the cards of all tables say alike: `GeneratorCard.dp` but for what is the table's own."""
    params, reports = order.params, synthesis.reports
    sds = [float(margin.variance) ** 0.5 for margin in margins]
    return {
        **order.promised,
        "method": params.method,
        "post": params.post,
        "sample": params.sample,
        "noise": params.noise,
        "margins": len(margins),
        "sd": [min(sds, default=0.0), max(sds, default=0.0)],
        "total_sd": float(total.variance) ** 0.5,
        "strata": list(params.strata),
        "prior": params.prior,
        "zeros": [zero.why for zero in order.zeros],
        "how": ", ".join(sorted({report.how for report in reports})),
        "cycles": max((report.cycles for report in reports), default=0),
        "error": max((report.error for report in reports), default=0.0),
        "tolerance": params.tolerance,
        "converged": all(map(is_settled if params.is_protected else is_exact, reports)),
        "uniform": list(synthesis.uniform),
    }
