"""One build in a process of its own, as `./scripts/bench` times it. Prints what it took as one line of JSON.

Usage: bench_build.py JOB.json, with `source`, `columns`, `tables`, `key`, `out`, and `spec` instead of the first
three where the release has a spec file.
"""

from __future__ import annotations

import json
import resource
import sys
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

from engine.params import BOUNDS, PROFILES
from engine.processes import leave_quietly
from engine.release import build
from engine.schema import SourceSpec, column_set
from engine.spec import ReleaseSpec, read_spec

ENTITY = "person_id"


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


def main() -> None:
    """Build and print the phases."""
    job = json.loads(Path(sys.argv[1]).read_text())
    spec = read_spec(job["spec"]) if "spec" in job else census_spec(job)
    marks: dict[str, float] = {}
    reports: list[tuple[float, str, int, int]] = []
    start = time.perf_counter()

    def note(stage: str, done: int, total: int) -> None:
        marks.setdefault(stage, time.perf_counter() - start)
        reports.append((time.perf_counter() - start, stage, done, total))

    arrived = arrivals() if job.get("settings", {}).get("engine") == "spark" else [0, 0]

    build(spec, Path(job["out"]), progress=note)
    told = {
        "first_table_seconds": marks["tables"],
        "measure_cpu_seconds": cpu_seconds(resource.RUSAGE_SELF),
        "fit_cpu_seconds": cpu_seconds(resource.RUSAGE_CHILDREN),
        "tables": len(spec.tables),
        "driver_cells": arrived[0],
        "driver_bytes": arrived[1],
    }
    if "reports" in job:
        Path(job["reports"]).write_text(json.dumps(reports))
    print(json.dumps(told))


if __name__ == "__main__":
    main()
    leave_quietly()  # as the command does
