"""One build in a process of its own, as `./scripts/bench` times it. Prints what it took as one line of JSON.

Usage: bench_build.py JOB.json, with `source`, `columns`, `tables`, `key`, `out`, and `spec` instead of the first
three where the release has a spec file; `reports`: a file for progress; `profile`: the share of each module instead.
"""

from __future__ import annotations

import json
import re
import resource
import sys
import threading
import time
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any

from engine.params import BOUNDS, PROFILES
from engine.processes import leave_quietly
from engine.release import build, building, fit_process
from engine.schema import SourceSpec, column_set
from engine.spec import ReleaseSpec, read_spec

ENTITY = "person_id"
ENGINE = re.compile(r"/engine/(?!signals)")  # there a caller's query runs
WAITING = ("threading.py", "queue.py", "selectors.py")


def census_spec(job: dict[str, Any]) -> ReleaseSpec:
    """The spec of a job on the simulated census: its columns as an office would declare them."""
    from engine.simulation.columns import CENSUS_COLUMNS  # a release with a spec file needs none

    tables = {column_set(columns) for columns in job["tables"]}
    chosen = {ENTITY, *job["columns"]}
    return ReleaseSpec(
        title="bench",
        logical_name="data",
        vintage=Path(job["source"]).parent.name,
        key_path=Path(job["key"]),
        mode="sticky",
        source=SourceSpec(
            path=job["source"], format="parquet", entities=(ENTITY,), **job.get("settings", {})
        ),
        columns=tuple(column for column in CENSUS_COLUMNS if column.name in chosen),
        privacy=PROFILES["standard"],
        bounds=replace(BOUNDS["standard"], accept_risk="simulated people"),
        tables=tuple(sorted(tables, key=lambda columns: (len(columns), columns))),
    )


def cpu_seconds(who: int) -> float:
    """Processor time of this process or of its children that have ended."""
    used = resource.getrusage(who)
    return used.ru_utime + used.ru_stime


def arrivals() -> list[int]:
    """Count from now on what Spark sends to the driver: rows, bytes."""
    from engine.source.spark.rows import SparkRows

    found, gathered = [0, 0], SparkRows.gathered

    def counted(self: SparkRows, frame: Any) -> Any:
        table = gathered(self, frame)
        found[0] += table.num_rows
        found[1] += table.nbytes
        return table

    SparkRows.gathered = counted  # type: ignore[method-assign]
    return found


class FitHere:
    """In the place of the fit process: the same in this process, once all is measured."""

    def __init__(self, *given: Any) -> None:
        self._given = given

    def __enter__(self) -> FitHere:
        return self

    def __exit__(self, *_: object) -> None:
        pass

    def fitted(self) -> int:
        return 0

    def staged(self, _report: Any) -> Any:
        return fit_process.fit(*self._given)


class Sampler(threading.Thread):
    """Looks every few milliseconds which module of the engine each thread is in."""

    def __init__(self) -> None:
        super().__init__(daemon=True)
        self.seen: Counter[str] = Counter()
        self.start()

    def run(self) -> None:
        while True:
            time.sleep(0.004)
            for thread, frame in sys._current_frames().items():
                if thread == self.ident or frame.f_code.co_filename.endswith(WAITING):
                    continue
                while frame and not ENGINE.search(frame.f_code.co_filename):
                    frame = frame.f_back
                if frame:
                    module = frame.f_code.co_filename.rpartition("/engine/")[2]
                    self.seen[module.removesuffix(".py").replace("/", ".")] += 1


def profiled(spec: ReleaseSpec, out: Path) -> dict[str, float]:
    """Seconds by module of a build in this process: what processes cost is left out."""
    building.FitProcess = FitHere  # type: ignore[assignment, misc]
    fit_process._tell = lambda *_: None
    sampler, start = Sampler(), time.perf_counter()
    building.make(spec, out, jobs=1)
    seconds, n = time.perf_counter() - start, sampler.seen.total() or 1
    return {module: seconds * k / n for module, k in sampler.seen.most_common()}


def timed(spec: ReleaseSpec, job: dict[str, Any]) -> dict[str, Any]:
    """What a build took."""
    marks: dict[str, float] = {}
    reports: list[tuple[float, str, int, int]] = []
    start = time.perf_counter()

    def note(stage: str, done: int, total: int) -> None:
        marks.setdefault(stage, time.perf_counter() - start)
        reports.append((time.perf_counter() - start, stage, done, total))

    arrived = arrivals() if job.get("settings", {}).get("engine") == "spark" else [0, 0]
    build(spec, Path(job["out"]), progress=note)
    if "reports" in job:
        Path(job["reports"]).write_text(json.dumps(reports))
    return {
        "first_table_seconds": marks["tables"],
        "measure_cpu_seconds": cpu_seconds(resource.RUSAGE_SELF),
        "fit_cpu_seconds": cpu_seconds(resource.RUSAGE_CHILDREN),
        "tables": len(spec.tables),
        "driver_cells": arrived[0],
        "driver_bytes": arrived[1],
    }


if __name__ == "__main__":
    given = json.loads(Path(sys.argv[1]).read_text())
    wanted = read_spec(given["spec"]) if "spec" in given else census_spec(given)
    found = profiled(wanted, Path(given["out"])) if "profile" in given else timed(wanted, given)
    print(json.dumps(found))
    leave_quietly()  # as the command does
