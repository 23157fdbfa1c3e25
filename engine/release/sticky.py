"""The main path: spec -> measure -> fit -> sample -> store; in mode dp `engine.release.dp` is the path.

`build` reads as the method. Left of `FitProcess` are the rows, the key and true counts; right of it, in a process
of its own, measurements only.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path
from typing import Any

from engine.exposure import Tally
from engine.measure import Measured, StickyDraws, measure_one_way, measure_wider
from engine.params import NOISE_LAYERS
from engine.progress import Progress, silent
from engine.release.dp import build_joint
from engine.release.exposing import charged
from engine.release.fit_process import FitProcess
from engine.release.fitter import FitOrder, needed_tables
from engine.release.header import header_of
from engine.schema import ColumnSet, Measurement
from engine.source import Opened, code_limits, coded_universes, open_rows, pin_vintage
from engine.spec import ReleaseSpec
from engine.store import check_target, removed_if_refused, writing

AHEAD = 12
"""Measurements that may be under way between the two processes."""


def build(
    spec: ReleaseSpec,
    out: Path,
    *,
    frame: Any = None,
    jobs: int = 2,
    progress: Progress | None = None,
) -> Path:
    """Build a release.

    Parameters
    ----------
    out : Path
        The release file to be made; an older release there serves until the new one is whole.
    frame : object, optional
        The pandas or Arrow table where the spec's source is a frame.
    jobs : int
        1: measure and fit take turns. 2 and more: they work at the same time, and so many tables are fitted at once.

    Raises
    ------
    SpecError, DataError, PrivacyError, BudgetError, StoreError
    """
    report = progress or silent
    out = Path(os.path.abspath(out))  # the fit process has a working folder of its own
    if spec.mode == "dp":
        return build_joint(spec, out, frame=frame, progress=progress)
    with writing(out):
        check_target(out)
    with open_rows(spec, frame, report) as opened:
        order = fit_order(spec, opened, out, workers=jobs if jobs > 1 else 0)
        # Before anything is staged: too few entities end the build here.
        draws = StickyDraws(opened.key, opened.draws, spec.privacy)
        measured = measure_one_way(opened.ingested, opened.entities, opened.columns, draws)
        is_new = pin_vintage(
            spec.key_path, spec.vintage, opened.state
        )  # before the wall is crossed
        tally, needed = Tally(spec.privacy.threshold_mean), needed_tables(spec.tables)
        with removed_if_refused(out), FitProcess(order) as fit:
            unfinished = needed_tables(tuple(t for t in spec.tables if t not in fit.finished))
            done = 0
            # At least what the fit process may hold back, or both would wait for each other.
            ahead = 0 if jobs < 2 else max(AHEAD, 2 * jobs + 2)
            for measurement in measurements(measured, needed, draws):
                tally.add(measurement)
                if len(measurement.columns) < 2 or measurement.columns in unfinished:
                    done += len(fit.send(measurement, ahead=ahead))
                report("tables", done, len(unfinished) + len(opened.columns) + 1)
            exposure = charged(spec, opened, tally, measured.one_way[""], is_new=is_new)
            fit.finish(exposure.as_dict() | {"sentences": exposure.sentences()})
    report("done", 1, 1)
    return out


def measurements(
    measured: Measured, column_sets: tuple[ColumnSet, ...], draws: StickyDraws
) -> Iterator[Measurement]:
    """The total, every one-way table, then the wider sets: the order in which the fit needs them."""
    yield from measured.one_way.values()
    yield from measure_wider(measured, column_sets, draws)


def fit_order(spec: ReleaseSpec, opened: Opened, out: Path, *, workers: int = 0) -> FitOrder:
    """How the fit process is to fit."""
    privacy = spec.privacy
    return FitOrder(
        header=header_of(
            spec, opened, opened.columns, privacy=asdict(privacy) | {"noise_layers": NOISE_LAYERS}
        ),
        release_path=out.absolute(),
        build_id=opened.fingerprint,
        universes=coded_universes(opened.columns),
        limits={c.name: limits for c in opened.columns if (limits := code_limits(c)) is not None},
        sampling_key=opened.key.derive("sampling", opened.draws),
        low_threshold=privacy.low_threshold,
        threshold_mean=privacy.threshold_mean,
        layer_sd=privacy.layer_sd,
        profile=privacy.profile,
        workers=workers,
    )
