"""Fit, sample and store, mode dp: all that happens to noisy margins once no row is seen any more.

Takes a `JointOrder` (public but for the sampling key) and the noisy total and margins; gives synthetic tables to the
staging store, all of them projections of the same rows. Knows no row, no true count (unless the order says that nothing
is guaranteed) and no key but the sampling key.
"""

from __future__ import annotations

from collections.abc import Callable
from hashlib import blake2b
from typing import Any

import numpy as np

from engine.fit.joint import (
    Precision,
    Synthesis,
    joint_rows,
    precision_of,
    projected,
    synthesise,
)
from engine.fit.order import JointOrder
from engine.levels import Margin, n_cells, sizes_of
from engine.progress import Progress, silent
from engine.release.fitter import Store
from engine.schema import SyntheticTable
from engine.store import GeneratorCard

NEARLY = 0.01
"""Share of rows that an exact margin may be off by."""


def fit_joint(
    order: JointOrder,
    store: Store,
    measured: Callable[..., Margin],
    report: Progress = silent,
) -> None:
    """Fit, draw and store all tables that an earlier run has not.

    measured: Gives the margin of a column set, the total has no columns; or the sums of a further column.
    """
    missing = [t for t in order.header.tables if t not in store.finished()]
    if not missing:
        return
    total, *margins = map(measured, order.margins)
    rng = generator(order.sampling_key)
    synthesis = synthesise(
        margins,
        total,
        params=order.params,
        levels=order.levels,
        zeros=order.zeros,
        rng=rng,
        progress=report,
    )
    rows = joint_rows(
        synthesis.columns,
        synthesis.cells,
        synthesis.n,
        order.levels,
        uniform=synthesis.uniform,
        sums=[measured(*one) for one in order.sums],
        rng=rng,
    )
    for name in sorted({name for columns in missing for name in columns}):
        store.put_support(rows.supports[name])
    sizes = {name: len(levels) for name, levels in order.levels.items()}
    for done, columns in enumerate(missing):
        report("tables", done, len(missing))
        precision = precision_of(columns, margins, sizes)
        table = projected(rows, columns, precision)
        card = joint_card(table, precision, order, total, margins, synthesis)
        store.put_table(table, card)
    report("tables", len(missing), len(missing))


def generator(sampling_key: bytes) -> np.random.Generator:
    """The generator of everything random in the fit process: the same for the same key."""
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
    rows = max(table.n_rows, 1)
    released = n_cells(sizes_of(order.levels, table.columns)) if precision.is_covered else 0
    inside = sum(set(margin.columns) <= set(table.columns) for margin in margins)
    dp = fit_values(order, total, margins, synthesis)
    return GeneratorCard.of(
        table,
        order.header,
        sub_tables=(),
        profile="dp",
        noise_sd=precision.noise_sd,
        noise_sd_total=float(total.variance) ** 0.5,
        buckets_released=released,
        cells_released=released,
        suppressed_share=round(int(table.n[~table.measured].sum()) / rows, 6),
        rake_cycles=dp["cycles"],
        rake_error=dp["error"],
        rake_converged=dp["converged"],
        cells_per_entity=round(released / rows, 6),
        scale=order.params.max_rows,
        dp=dp | {"margins_inside": inside, "covered": precision.is_covered},
    )


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
        # Noisy margins contradict each other, so their fit comes to rest short of them; exact ones can be met.
        "converged": all(
            one.at_rest if params.is_protected else one.converged or one.error <= NEARLY
            for one in reports
        ),
        "uniform": list(synthesis.uniform),
        **({"sums": sorted({name for _, name in order.sums})} if order.sums else {}),
    }
