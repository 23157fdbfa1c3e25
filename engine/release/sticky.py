"""The main path: spec -> measure -> fit -> sample -> store; in mode dp `engine.release.dp` is the path.

`make` reads as the method. Left of `FitProcess` are the rows, the key and true counts; right of it, in a process
of its own, measurements only.
"""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from engine.exposure import Estimator
from engine.fit import FitOrder, found_limits, is_leaf
from engine.measure import Measured, StickyDraws, looks_at_rows, measure_wider
from engine.params import NOISE_LAYERS
from engine.progress import Progress, TimeLeft, silent, work_of_build
from engine.release import Made
from engine.release.exposing import charged, estimator_of, stated_before
from engine.release.fit_process import HELD_LIGHT, FitProcess, start_workers
from engine.release.header import bounds_notes, counted_of, header_of, inputs_of
from engine.release.relating import Columns, check_added, measure_columns
from engine.schema import ColumnSet, Measurement
from engine.source import (
    Opened,
    code_limits,
    coded_universes,
    note_release,
    noted_releases,
    open_rows,
    pin_vintage,
    rows_about,
)
from engine.spec import ReleaseSpec
from engine.store import (
    EarlierRelease,
    check_shared,
    check_target,
    remove_sets,
    removed_if_refused,
    set_path,
    writing,
)
from engine.version import ENGINE_VERSION

AHEAD = 48
"""Measurements that may be under way between the two processes."""
SOME = 30
"""So many tables are worth workers for certain, which then begin while the source is read."""


def make(
    spec: ReleaseSpec,
    out: Path,
    child: subprocess.Popen[bytes] | None = None,
    *,
    frame: Any = None,
    jobs: int = 2,
    force: bool = False,
    earlier: EarlierRelease | None = None,
    report: Progress | None = None,
    placing: Callable[[], None] | None = None,
) -> Made:
    """Build a release: see `engine.release.build`; `out` is an absolute path, `report` its progress."""
    clock, is_replaced = TimeLeft(report or silent), force or out.exists()
    report = clock.report
    with writing(out):
        check_target(out, force=force, inputs=inputs_of(spec))
    _prepared(spec, clock)
    if child is not None:
        start_workers(child, 0 if earlier else _workers_ahead(len(spec.tables), jobs))
    with open_rows(spec, frame, report, release=out) as opened:
        # Before: too few entities end the build here.
        _check_earlier(spec, opened, earlier)
        draws = StickyDraws(opened.key, opened.draws, spec.counted)
        columns = measure_columns(spec, opened, draws, report)
        check_added(spec, columns.relations)
        _check_targets(spec, out, build_id=opened.fingerprint, force=force)
        order = replace(
            fit_order(spec, opened, out, columns, workers=jobs if jobs > 1 else 0, force=force),
            earlier=None if earlier is None else earlier.file,
        )
        stands = {copy.finer for copy in columns.relations.copies.values()}
        # Before the wall is crossed.
        is_new = pin_vintage(spec.key_path, spec.vintage, opened.state, stands)
        with removed_if_refused(out), FitProcess(order, report, child) as fit:
            unfinished = columns.relations.left(spec.tables, fit.finished)
            done = 0
            # At least what the fit process may hold back, or both would wait for each other.
            under_way = 0 if jobs < 2 else max(AHEAD, HELD_LIGHT * jobs + 2)
            sizes = {n: int(is_leaf(t).sum()) for n, t in columns.measured.one_way.items() if n}
            if opened.ingested.spark is None:
                clock.expect(_work(spec, opened.ingested.n_rows, sizes, unfinished))
            estimator = estimator_of(spec, columns)
            before = stated_before(spec, columns, estimator, earlier)
            trees = measurements(columns.measured, unfinished, draws)
            report("tables", 0, 1)
            for sent, measurement in enumerate(_seen(estimator, trees)):
                done += len(fit.send(measurement, ahead=under_way))
                report("tables", done, len(unfinished) + len(columns.columns) + 1, begun=sent + 1)
            fit.settle()
            exposure = charged(
                spec, opened, columns, estimator, draws, before, is_new=is_new, frame=frame
            )
            told = exposure.as_dict()

            def noted(sha256: str) -> None:
                note_release(spec.key_path, spec.vintage, sha256, opened.recipe, told)
                if is_replaced:  # like new sets before the release: whoever is stopped builds again
                    remove_sets(out, max(spec.sets.values(), default=1))
                if placing is not None:
                    placing()

            *_, last = fit.finish(
                told | {"sentences": exposure.sentences()},
                noted,
            )
    report("done", 1, 1)
    return Made(path=out, key_id=opened.key.id, content_hash=last["content_hash"], exposure=told)


def _prepared(spec: ReleaseSpec, clock: TimeLeft) -> None:
    """Tell the clock what the steps will cost, where anything is known."""
    # Of Spark nothing is known of what a step costs.
    about = rows_about(spec) if spec.source.engine == "duckdb" else 0.0
    if about:
        clock.expect(_work(spec, about, {}, spec.tables))


def _workers_ahead(n_tables: int, jobs: int) -> int:
    """Workers that are started while the source is read."""
    return jobs if jobs > 1 and n_tables >= SOME and (os.cpu_count() or 1) > 1 else 0


def _check_earlier(spec: ReleaseSpec, opened: Opened, earlier: EarlierRelease | None) -> None:
    """Whether an earlier release, if there is one, may lend its tables."""
    if earlier is not None:
        check_shared(
            earlier,
            recipe=opened.recipe,
            noted=noted_releases(spec.key_path, spec.vintage),
            key_id=opened.key.id,
            vintage=spec.vintage,
            engine_version=ENGINE_VERSION,
        )


def _check_targets(spec: ReleaseSpec, out: Path, *, build_id: str, force: bool) -> None:
    """Whether this build may write where the release and the further sets of its wide tables go."""
    with writing(out):
        may = check_target(out, force=force, build_id=build_id)
        for number in range(2, max(spec.sets.values(), default=1) + 1):
            place = set_path(out, number)
            check_target(place, force=may, build_id=build_id, inputs=inputs_of(spec))


def _work(
    spec: ReleaseSpec, n_rows: float, sizes: dict[str, int], tables: Sequence[ColumnSet]
) -> dict[str, list[float]]:
    """What the steps of a build cost; before columns were measured by what the spec says of them."""
    data = [column for column in spec.columns if column.name not in spec.source.entity_columns]
    declared = {column.name: len(column.domain or ()) for column in data}
    for column in data:
        if column.bounds is not None and column.kind == "integer":
            declared[column.name] = int(column.bounds[1] - column.bounds[0]) + 1
        elif column.kind == "boolean":
            declared[column.name] = 2
    lists = sum(column.is_ranked for column in data)
    known, narrow = declared | sizes, [(), *((column.name,) for column in data)]
    wide = [columns for columns in tables if len(columns) > 1]
    # As cells are counted: by codes, not by released ranges, which are fewer; codes that nothing bounds are many.
    codes = {c.name: sizes[c.name] for c in data if c.is_ranked and c.name in sizes}
    codes |= {name: n for name, n in declared.items() if n}
    if spec.privacy.max_rows in (None, 1):
        looks = looks_at_rows(wide, codes, round(n_rows))
    else:  # of entities with several rows each table is counted by itself
        looks = [True] * len(wide)
    return work_of_build(n_rows, known, lists, [*narrow, *wide], [False] * len(narrow) + looks)


def _seen(estimator: Estimator, trees: Iterator[Measurement]) -> Iterator[Measurement]:
    """Measurements, of which the wider ones are seen by the estimator of exposure."""
    for tree in trees:
        if len(tree.columns) > 1:
            estimator.add(tree)
        yield tree


def measurements(
    measured: Measured, column_sets: tuple[ColumnSet, ...], draws: StickyDraws
) -> Iterator[Measurement]:
    """The total, every one-way table, then the wider sets: the order in which the fit needs them."""
    yield from measured.one_way.values()
    yield from measure_wider(measured, column_sets, draws)


def fit_order(
    spec: ReleaseSpec,
    opened: Opened,
    out: Path,
    columns: Columns,
    *,
    workers: int = 0,
    force: bool = False,
) -> FitOrder:
    """How the fit process is to fit these columns."""
    privacy = spec.counted
    # Of all columns of the spec: what a table shows must not hang on which others are asked for.
    deciders = {c.universe.column for c in spec.columns if c.universe is not None}
    found = found_limits(columns.measured.one_way, columns.columns, deciders)
    return FitOrder(
        header=header_of(
            spec,
            opened,
            columns.columns,
            privacy=privacy.public() | {"noise_layers": NOISE_LAYERS} | counted_of(spec),
            notes=(*columns.notes, *bounds_notes(columns.columns, found)),
        ),
        release_path=out.absolute(),
        build_id=opened.fingerprint,
        universes=coded_universes(columns.columns),
        limits={
            c.name: within
            for c in columns.columns
            if (within := _common(code_limits(c), found.get(c.name))) is not None
        },
        sampling_key=opened.key.derive("sampling", opened.draws),
        low_threshold=privacy.low_threshold,
        threshold_mean=privacy.threshold_mean,
        layer_sd=privacy.layer_sd,
        profile=privacy.profile,
        workers=workers,
        relations=columns.relations,
        force=force,
        targets=spec.targets,
        sets=spec.sets,
    )


def _common(one: tuple[int, int] | None, other: tuple[int, int] | None) -> tuple[int, int] | None:
    """What lies within two bounds, either of which may not be known."""
    if one is None or other is None:
        return other if one is None else one
    return max(one[0], other[0]), min(one[1], other[1])
