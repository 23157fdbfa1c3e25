"""The same release from rows of ever more people: DuckDB against Spark on this machine, and a model of a cluster.

Builds 12 columns of a simulated census, each and every pair of them and 20 tables of three columns, from part files.
Prints a table; writes `scale.json` and `scale.svg`. Memory is that of all processes together, Java's too; disk is the
most seen of scratch, kept rows and the release. Data stay in the folder for the next run. Called by
./scripts/bench scale.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import shutil
import subprocess
import sys
import time
from dataclasses import asdict, dataclass
from itertools import combinations
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
from bench_cost import Peak
from bench_picture import draw_scale
from bench_series import COLUMNS, numbers
from measured import FOLDER, add_option, command_line, markdown, record

from engine.cli import ENVIRONMENT
from engine.key_files import new_key
from engine.simulation.census import BLOCK_PEOPLE, draw_people_of, write_part
from engine.simulation.columns import CENSUS_COLUMNS

N_COLUMNS, N_TRIPLES, TRIPLES_OF = 12, 20, 7
ROWS = (100_000, 1_000_000, 10_000_000)
SPARK_ROWS, MODEL_ROWS = 10_000_000, (100_000, 1_000_000)
SEED, ENTITY = 7, "person_id"
PASSES = 5
"""Looks at all columns of all rows before the first table: values, codes, extremes, tokens, digests."""
TABLES_A_LOOK = 32
"""Spark counts about so many in one look: of a million rows the 86 wide ones took three."""
LANES = 2
CODE_BYTES = 8


@dataclass(frozen=True, kw_only=True)
class Run:
    """One build."""

    engine: str
    cores: int
    rows: int
    tables: int
    seconds: float
    cpu_seconds: float
    first_table_seconds: float
    peak_bytes: int
    disk_bytes: int
    spilled_bytes: int
    driver_cells: int
    driver_bytes: int
    content_hash: str
    measure_peak_bytes: int = 0
    left_off: float | None = None

    @property
    def scanned_bytes(self) -> float:
        """Bytes of codes that are looked at: in passes before the first table, and by looks for several tables each."""
        looks = PASSES + -(-self.tables // TABLES_A_LOOK)
        return float(looks * (N_COLUMNS + LANES) * CODE_BYTES * self.rows)


def scale_tables() -> list[list[str]]:
    """Each column, each pair, some triples; narrower before wider."""
    pool = COLUMNS[:N_COLUMNS]
    triples = list(combinations(pool[:TRIPLES_OF], 3))[:N_TRIPLES]
    return [list(s) for s in (*((c,) for c in pool), *combinations(pool, 2), *triples)]


def people_of(folder: Path, rows: int) -> str:
    """The glob of the part files of so many people, which are drawn where they are not there yet.

    Parts belong to blocks of one large census: more rows are the same people and others, and no id occurs twice.
    """
    parts, place = folder / "parts", folder / f"rows-{rows}"
    parts.mkdir(parents=True, exist_ok=True)
    place.mkdir(exist_ok=True)
    wanted = {ENTITY, *COLUMNS[:N_COLUMNS]}
    columns = tuple(column for column in CENSUS_COLUMNS if column.name in wanted)
    with duckdb.connect(config={"memory_limit": "800MB", "threads": 1}) as con:
        con.execute("SET enable_progress_bar = false")
        for block in range(-(-rows // BLOCK_PEOPLE)):
            n = min(BLOCK_PEOPLE, rows - block * BLOCK_PEOPLE)
            part = parts / f"{block:04}-{n}.parquet"
            if not part.exists():
                drawn = draw_people_of(block, people=100_000_000, seed=SEED)
                new = part.with_suffix(".new")
                write_part(con, columns, {name: v[:n] for name, v in drawn.items()}, new)
                new.rename(part)
            if not (place / part.name).exists():
                os.link(part, place / part.name)
    return str(place / "*.parquet")


def built(
    folder: Path, source: str, rows: int, *, engine: str, cores: int, tables: int, memory: str
) -> Run:
    """Build in a process of its own and look at what it takes."""
    place = folder / "work"
    out, scratch = place / f"{engine}.duckdb", place / "scratch"
    shutil.rmtree(place, ignore_errors=True)
    scratch.mkdir(parents=True)
    key = folder / "scale.key"
    if not key.exists():
        new_key(key)
    settings = {"engine": engine}
    if memory:
        settings["memory"] = memory
    if engine == "spark":
        settings["master"] = f"local[{cores}]"
    sets = scale_tables()[:tables]
    job = {
        "source": source,
        "columns": sorted({name for columns in sets for name in columns}),
        "tables": sets,
        "key": str(key),
        "out": str(out),
        "settings": settings,
        "reports": str(folder / f"reports-{engine}-{cores}-{rows}-{len(sets)}.json"),
    }
    (folder / "job.json").write_text(json.dumps(job))
    script = Path(__file__).with_name("bench_build.py")
    used, start = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
    with subprocess.Popen(
        [sys.executable, str(script), str(folder / "job.json")],
        stdout=subprocess.PIPE,
        text=True,
        env=ENVIRONMENT | os.environ | {"TMPDIR": str(scratch)},  # as the command has it
    ) as child:
        if engine == "spark" and hasattr(os, "sched_setaffinity"):
            # Java and Python work at once: without this, one core of Spark's is more than one of the machine.
            os.sched_setaffinity(child.pid, sorted(os.sched_getaffinity(0))[:cores])
        peak = Peak(child.pid, place)
        told = child.stdout.read() if child.stdout else ""
        failed = child.wait()
        seconds = time.perf_counter() - start
        peak.stop()
    if failed:
        raise SystemExit(f"{engine}, {rows:,} rows: the build failed")
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    manifest = json.loads(out.with_name(out.name + ".manifest.json").read_text())
    found = json.loads(told)
    run = Run(
        engine=engine,
        cores=cores,
        rows=rows,
        tables=len(sets),
        seconds=seconds,
        cpu_seconds=after.ru_utime + after.ru_stime - used.ru_utime - used.ru_stime,
        first_table_seconds=found["first_table_seconds"],
        peak_bytes=peak.together,
        measure_peak_bytes=peak.own,
        disk_bytes=peak.on_disk,
        spilled_bytes=peak.spilled,
        driver_cells=found["driver_cells"],
        driver_bytes=found["driver_bytes"],
        content_hash=manifest["accepts"][0]["content_hash"],
        left_off=left_off(json.loads(Path(job["reports"]).read_text())),
    )
    print(
        f"{engine}[{cores}] {rows:>11,} rows {len(sets):>3} tables: {seconds:.1f} s, {run.cpu_seconds:.1f} s of "
        f"processor, first table after {run.first_table_seconds:.1f} s, {run.peak_bytes / 1e9:.2f} GB of memory "
        f"({run.measure_peak_bytes / 1e9:.2f} left of the wall), "
        f"{run.disk_bytes / 1e9:.2f} GB on disk ({run.spilled_bytes / 1e9:.2f} spilled), {run.driver_bytes / 1e6:.1f} "
        "MB to the driver",
        flush=True,
    )
    return run


def left_off(reports: list[tuple[float, str, int, int]]) -> float | None:
    """By how much the time left that was told was off at worst, as a share of it: from a tenth of the way to nine.

    It is told in whole seconds: half a second is no fault.
    """
    end = reports[-1][0]
    found = [
        max(abs(told - (end - at)) - 0.5, 0) / (end - at)
        for at, stage, told, _ in reports
        if stage == "left" and 0.1 * end <= at <= 0.9 * end
    ]
    return max(found, default=None)


def check_equal(runs: list[Run]) -> None:
    """Both engines gave the same releases."""
    for rows in {run.rows for run in runs}:
        found = {r.content_hash for r in runs if r.rows == rows and r.tables == len(scale_tables())}
        if len(found) > 1:
            raise SystemExit(f"{rows:,} rows: the content hashes differ")


@dataclass(frozen=True, kw_only=True)
class Model:
    """Seconds of a build by Spark: start + (bytes scanned / scan rate + cells / cell rate) / cores."""

    start: float
    scan_rate: float
    cell_rate: float

    def seconds(self, run: Run) -> float:
        """Predicted for a build."""
        work = run.scanned_bytes / self.scan_rate + run.driver_cells / self.cell_rate
        return self.start + work / run.cores


def model_of(runs: list[Run]) -> Model:
    """The model that fits some builds best by the ratio of seconds; no rate is negative."""
    facts = np.array([[1.0, r.scanned_bytes / r.cores, r.driver_cells / r.cores] for r in runs])
    seconds = np.array([run.seconds for run in runs])
    weighted = facts / seconds[:, None]
    used = [0, 1, 2]
    while True:
        found = np.linalg.lstsq(weighted[:, used], np.ones(len(runs)), rcond=None)[0]
        if (found >= 0).all():
            break
        del used[int(np.argmin(found))]
    cost = np.zeros(3)
    cost[used] = found
    rates = [1 / c if c else float("inf") for c in cost[1:]]
    return Model(start=float(cost[0]), scan_rate=rates[0], cell_rate=rates[1])


def figures(runs: list[Run], fitted: list[Run], model: Model | None) -> str:
    """The tables in Markdown."""
    heads = ["rows", "engine", "seconds", "processor s", "first table after s", "peak GB",
             "left of the wall", "disk GB", "of it spilled", "MB to the driver", "time left off by"]  # fmt: skip
    lines = [
        [f"{r.rows:,}", r.engine if r.engine == "duckdb" else f"spark, {r.cores} cores", f"{r.seconds:.1f}",
         f"{r.cpu_seconds:.0f}", f"{r.first_table_seconds:.1f}", f"{r.peak_bytes / 1e9:.2f}",
         f"{r.measure_peak_bytes / 1e9:.2f}" if r.measure_peak_bytes else "-",
         f"{r.disk_bytes / 1e9:.2f}", f"{r.spilled_bytes / 1e9:.2f}",
         f"{r.driver_bytes / 1e6:.1f}" if r.engine == "spark" else "-",
         "-" if r.left_off is None else f"{r.left_off:.0%}"]
        for r in runs
    ]  # fmt: skip
    said = [markdown(heads, lines)]
    if model is not None:
        said.append(
            f"Model of Spark: seconds = {model.start:.0f} + (bytes scanned / {model.scan_rate / 1e6:,.1f} million + "
            f"cells / {model.cell_rate:,.0f}) / cores, fitted to {len(fitted)} builds on one core; predicted and found:"
        )
        said.append(
            markdown(
                ["rows", "tables", "cores", "GB scanned", "cells", "predicted s", "found s"],
                [
                    [
                        f"{r.rows:,}",
                        r.tables,
                        r.cores,
                        f"{r.scanned_bytes / 1e9:.2f}",
                        f"{r.driver_cells:,}",
                        f"{model.seconds(r):.0f}",
                        f"{r.seconds:.0f}",
                    ]
                    for r in (*fitted, *(r for r in runs if r.engine == "spark"))
                ],
            )
        )
    return "\n\n".join(said)


def options() -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(prog="./scripts/bench scale", description=__doc__)
    parser.add_argument("--rows", type=numbers, default=ROWS, help="such as 100000,1000000")
    parser.add_argument(
        "--spark-rows",
        type=int,
        default=SPARK_ROWS,
        help="most rows that Spark builds; 0: no Spark",
    )
    parser.add_argument(
        "--memory", default="", help="of DuckDB, as in a spec, whose default it is otherwise"
    )
    parser.add_argument("--no-model", action="store_true", help="no builds by Spark on one core")
    parser.add_argument("--keep", type=Path, help="JSON of an earlier run, whose builds stay")
    parser.add_argument("--folder", type=Path, default=Path("releases/bench/scale"))
    add_option(parser)
    return parser.parse_args()


def runs_of(chosen: argparse.Namespace) -> tuple[list[Run], list[Run]]:
    """The builds by either engine, and those by Spark on one core."""
    runs: list[Run] = []
    common: dict[str, Any] = {"tables": len(scale_tables()), "memory": chosen.memory}
    for rows in chosen.rows:
        source = people_of(chosen.folder, rows)
        runs.append(built(chosen.folder, source, rows, engine="duckdb", cores=2, **common))
        if rows <= chosen.spark_rows:
            runs.append(built(chosen.folder, source, rows, engine="spark", cores=2, **common))
        check_equal(runs)
    one: list[Run] = []
    if chosen.spark_rows and not chosen.no_model:
        for rows in MODEL_ROWS:
            source = people_of(chosen.folder, rows)
            for tables in (len(scale_tables()), N_COLUMNS):
                how = common | {"tables": tables}
                one.append(built(chosen.folder, source, rows, engine="spark", cores=1, **how))
    return runs, one


def main() -> None:
    """Build, compare, draw, record."""
    chosen = options()
    chosen.folder.mkdir(parents=True, exist_ok=True)
    earlier: dict[str, Any] = json.loads(chosen.keep.read_text()) if chosen.keep else {}
    runs, one = runs_of(chosen)
    known = {(r.engine, r.cores, r.rows) for r in runs}
    kept = [Run(**r) for r in earlier.get("runs", [])]
    runs = [r for r in kept if (r.engine, r.cores, r.rows) not in known] + runs
    runs.sort(key=lambda r: (r.rows, r.engine))
    one = one or [Run(**r) for r in earlier.get("model", [])]
    text = figures(runs, one, model_of(one) if one else None)
    print(text)
    told = {"runs": [asdict(r) for r in runs], "model": [asdict(r) for r in one]}
    (chosen.folder / "scale.json").write_text(json.dumps(told, indent=1) + "\n")
    (chosen.folder / "scale.svg").write_text(draw_scale(told["runs"]))
    if chosen.record:
        record("bench-scale", command_line("./scripts/bench scale"), text)
        shutil.copy(chosen.folder / "scale.svg", FOLDER.parent / "bench-scale.svg")


if __name__ == "__main__":
    main()
