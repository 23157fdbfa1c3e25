"""The main path, the same in both modes: measure into a folder, fit from it, put the release in place.

    spec, rows, key  ->  measure_sticky, measure_joint  ->  measurement folder  ->  fit process  ->  release

Rows, key and true counts are on this side of the folder only; the process that fits gets nothing else.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

from engine.errors import PrivacyError
from engine.fit.order import FitOrder
from engine.progress import Progress, silent
from engine.release import Made
from engine.release.fit_process import FitOptions, FitProcess
from engine.release.folder import MeasurementFolder, folder_of_build, writing_folder
from engine.release.header import MeasuredRelease, inputs_of
from engine.source import note_release
from engine.spec import ReleaseSpec
from engine.store import (
    EarlierRelease,
    ReleaseRecord,
    check_target,
    place,
    remove_sets,
    removed_if_refused,
    set_path,
    writing,
)


def make(
    spec: ReleaseSpec,
    out: Path,
    *,
    frame: Any = None,
    jobs: int = 2,
    force: bool = False,
    earlier: EarlierRelease | None = None,
    progress: Progress | None = None,
    before_placing: Callable[[], None] | None = None,
) -> Made:
    """Build a release; parameters as `engine.release.build`.

    before_placing: Called once all is made, before the release is put in place.
    """
    out, report = Path(os.path.abspath(out)), progress or silent
    may_replace, sets = force or out.exists(), max(spec.sets.values(), default=1)
    _check_targets(out, 1, force=force, inputs=inputs_of(spec))
    options = FitOptions(
        jobs=min(jobs, len({*spec.tables} - (earlier.tables if earlier else set()))),
        force=force,
        earlier=None if earlier is None else (str(earlier.path), earlier.record.sha256),
    )
    with (
        removed_if_refused(out),
        writing_folder(folder_of_build(spec.key_path, out)) as folder,
        FitProcess(folder.path, out, options) as fit,
    ):
        measured = _measured(
            spec,
            folder,
            report,
            frame=frame,
            earlier=earlier,
            on_open=lambda build_id: _check_targets(
                out, sets, force=force, inputs=inputs_of(spec), build_id=build_id
            ),
            n_fitted=fit.fitted,
        )
        staged = fit.staged(report)
        record = ReleaseRecord(**staged.record)
        if measured.recipe is not None:
            # Before it is in place, so that no release is there that was not noted, whenever a build is killed.
            note_release(
                spec.key_path, spec.vintage, record.sha256, measured.recipe, measured.exposure
            )
        if may_replace:  # like new sets before the release: a build that is stopped runs again
            remove_sets(out, sets)
        if before_placing is not None:
            before_placing()
        place(out, record, build_id=staged.build_id, may_replace=staged.may_replace)
        folder.remove()
    report("done", 1, 1)
    return Made(
        path=out,
        key_id=measured.key_id,
        content_hash=record.content_hash,
        exposure=measured.exposure,
    )


def measure(
    spec: ReleaseSpec,
    folder: Path,
    *,
    frame: Any = None,
    force: bool = False,
    progress: Progress | None = None,
) -> Path:
    """Measure a release into a folder, and charge what it discloses; goes on from an interrupted run.

    force: A whole measurement that is there may be replaced.
    """
    path, report = Path(os.path.abspath(folder)), progress or silent
    with writing_folder(path, force=force) as held:
        _measured(spec, held, report, frame=frame)
    report("done", 1, 1)
    return path


def fit(
    folder: Path,
    out: Path,
    *,
    jobs: int = 2,
    force: bool = False,
    progress: Progress | None = None,
) -> Path:
    """Make a release of a measurement folder, which is all that this needs."""
    out, folder = Path(os.path.abspath(out)), Path(os.path.abspath(folder))
    report = progress or silent
    measured = MeasurementFolder(folder)
    measured.check()
    order = measured.order()
    may_replace = force or out.exists()
    sets = max(order.sets.values(), default=1) if isinstance(order, FitOrder) else 1
    _check_targets(out, sets, force=force, inputs=[folder], build_id=order.build_id)
    with FitProcess(folder, out, FitOptions(jobs=jobs, force=force)) as process:
        staged = process.staged(report)
        if may_replace:
            remove_sets(out, sets)
        record = ReleaseRecord(**staged.record)
        place(out, record, build_id=staged.build_id, may_replace=staged.may_replace)
    report("done", 1, 1)
    return out


def _measured(
    spec: ReleaseSpec,
    folder: MeasurementFolder,
    report: Progress,
    *,
    frame: Any,
    on_open: Callable[[str], None] = lambda _: None,
    **sticky: Any,
) -> MeasuredRelease:
    """Measure in the mode of the spec; the folder goes where that is refused. `sticky`: What only that mode takes."""
    try:
        if spec.mode == "dp":
            from engine.release.dp import measure_joint  # its imports are slow

            return measure_joint(spec, folder, report, frame=frame, on_open=on_open)
        from engine.release.sticky import measure_sticky

        return measure_sticky(spec, folder, report, frame=frame, on_open=on_open, **sticky)
    except PrivacyError:
        folder.remove()
        raise


def _check_targets(
    out: Path, sets: int, *, force: bool, inputs: list[Any], build_id: str | None = None
) -> None:
    """Refuse to write over anything but a release, or a set of its wide tables, that may be replaced."""
    with writing(out):
        may_replace = check_target(out, force=force, build_id=build_id, inputs=inputs)
        for number in range(2, sets + 1):
            check_target(set_path(out, number), force=may_replace, build_id=build_id, inputs=inputs)
