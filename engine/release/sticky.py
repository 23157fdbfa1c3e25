"""Measure in mode sticky: from a spec to a measurement folder. Rows, key and true counts are seen here only."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from engine.fit import FitOrder, found_limits
from engine.mechanism import Measured, StickyDraws, measure_wider
from engine.mechanism.warm import warm
from engine.params import NOISE_LAYERS
from engine.progress import Progress
from engine.release.exposing import charged, estimator_of, stated_before
from engine.release.folder import MeasurementFolder
from engine.release.header import MeasuredRelease, bounds_notes, counted_of, header_of
from engine.release.relating import Columns, check_added, measure_columns
from engine.schema import MAX_WIDTH, ColumnSet, Measurement
from engine.source import (
    Opened,
    code_limits,
    coded_universes,
    noted_releases,
    open_rows,
    pin_vintage,
)
from engine.spec import ReleaseSpec
from engine.store import EarlierRelease, check_shared
from engine.version import ENGINE_VERSION


def measure_sticky(
    spec: ReleaseSpec,
    folder: MeasurementFolder,
    report: Progress,
    *,
    frame: Any = None,
    earlier: EarlierRelease | None = None,
    on_open: Callable[[str], None] = lambda _: None,
    n_fitted: Callable[[], int] | None = None,
) -> MeasuredRelease:
    """Read, measure, and charge what the release discloses: all that a fit needs is then in the folder.

    earlier: A release of the same recipe, whose tables are neither measured nor fitted again.
    on_open: Called with the build id once the source is open.
    n_fitted: Gives the number of tables fitted so far; None: no fit is running.
    """
    warm(report)
    with open_rows(spec, frame, report) as opened:
        _check_earlier(spec, opened, earlier)
        draws = StickyDraws(opened.key, opened.draws, spec.counted)
        columns = measure_columns(spec, opened, draws, report)
        check_added(spec, columns.relations)
        on_open(opened.fingerprint)
        copied = {copy.finer for copy in columns.relations.copies.values()}
        # Before anything leaves this process.
        is_new = pin_vintage(spec.key_path, spec.vintage, opened.state, copied)
        folder.begin(
            opened.recipe, fit_order(spec, opened, columns), columns.measured.one_way.values()
        )
        finished = () if earlier is None else [t for t in earlier.tables if len(t) <= MAX_WIDTH]
        wanted = columns.relations.left(spec.tables, finished)
        estimator = estimator_of(spec, columns, report)
        already = stated_before(spec, columns, estimator, earlier)
        before = len(columns.columns) + 1
        report("tables", 0, 1)
        for done, tree in enumerate(_wider(columns.measured, wanted, draws, folder), before + 1):
            estimator.add(tree)
            n_done = done if n_fitted is None else n_fitted()
            report("tables", n_done, before + len(wanted))
        exposure = charged(
            spec, opened, columns, estimator, draws, already, is_new=is_new, frame=frame
        )
        stated = exposure.as_dict()
        folder.finish(stated | {"sentences": exposure.sentences()})
        return MeasuredRelease(key_id=opened.key.id, recipe=opened.recipe, exposure=stated)


def _wider(
    measured: Measured,
    wanted: tuple[ColumnSet, ...],
    draws: StickyDraws,
    folder: MeasurementFolder,
) -> Iterator[Measurement]:
    """Tables of several columns, in their order: those in the folder as they are there, others measured now."""
    kept = {columns for columns in wanted if folder.has(columns)}
    fresh = measure_wider(measured, [columns for columns in wanted if columns not in kept], draws)
    for columns in wanted:
        if columns in kept:
            yield folder.measurement(columns)
            continue
        tree = next(fresh)
        folder.put(tree)
        yield tree


def _check_earlier(spec: ReleaseSpec, opened: Opened, earlier: EarlierRelease | None) -> None:
    """Check that tables of an earlier release, if there is one, may be taken over."""
    if earlier is not None:
        check_shared(
            earlier,
            recipe=opened.recipe,
            noted=noted_releases(spec.key_path, spec.vintage),
            key_id=opened.key.id,
            vintage=spec.vintage,
            engine_version=ENGINE_VERSION,
        )


def fit_order(spec: ReleaseSpec, opened: Opened, columns: Columns) -> FitOrder:
    """How these columns are to be fitted."""
    privacy = spec.counted
    # Of all columns of the spec: what a table shows must not depend on which others are requested.
    deciders = {c.universe.column for c in spec.columns if c.universe is not None}
    found = found_limits(columns.measured.one_way, columns.columns, deciders)
    limits = {column.name: code_limits(column) for column in columns.columns}
    declared = {name: [*map(int, within)] for name, within in limits.items() if within is not None}
    return FitOrder(
        header=header_of(
            spec,
            opened,
            columns.columns,
            privacy=privacy.public()
            | {"noise_layers": NOISE_LAYERS, "bounds": declared}
            | {"sums": sorted(columns.measured.summed), "weight": spec.weight}
            | counted_of(spec),
            notes=(*columns.notes, *bounds_notes(columns.columns, found)),
        ),
        build_id=opened.fingerprint,
        universes=coded_universes(columns.columns),
        limits={
            c.name: within
            for c in columns.columns
            if (within := _intersection(limits[c.name], found.get(c.name))) is not None
        },
        sampling_key=opened.key.derive("sampling", opened.draws),
        low_threshold=privacy.low_threshold,
        threshold_mean=privacy.threshold_mean,
        layer_sd=privacy.layer_sd,
        profile=privacy.profile,
        relations=columns.relations,
        targets=spec.targets,
        sets=spec.sets,
    )


def _intersection(
    one: tuple[int, int] | None, other: tuple[int, int] | None
) -> tuple[int, int] | None:
    """The intersection of two ranges, either of which may be unknown."""
    if one is None or other is None:
        return other if one is None else one
    return max(one[0], other[0]), min(one[1], other[1])
