"""The same release from DuckDB and from Spark: content hashes, and what each took.

Builds each case with either engine, the same key and one job, in processes of their own; Spark runs on this machine
in two threads. A hash that differs ends the run. Seconds: processor time of all processes, Java's too.
Usage: python scripts/engines.py [--case NAME ...] [--people N]
  Cases: census (persons and households; dates, decimals, universes), events (a simulated census's visits; moments),
  dp (the census in mode dp), nist (438 tables of national2019.csv in ../shared/nist).
"""

from __future__ import annotations

import argparse
import json
import os
import re
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from measured import add_option, command_line, markdown, record

import engine
from engine.simulation import simulate_census

ROOT = Path(__file__).resolve().parents[1]
RELEASES = ROOT / "releases"
ENGINES = ("duckdb", "spark")
SEED = 20
SECONDS = ("DuckDB, processor s", "Spark, processor s", "Spark / DuckDB by the clock")
EVENTS = """
[release]
title = "Visits"
vintage = "2021"
key = "census.key"
unit = "visits"

[source]
path = "census/events.parquet"
entities = ["person_id"]

[privacy]
max_rows = 4
accept_risk = "simulated"

[columns.person_id]
kind = "integer"

[columns.visit_at]
kind = "timestamp"

[columns.visit_date]
kind = "date"

[columns.department]
kind = "category"

[columns.reason]
kind = "text"

[[tables]]
all = 2
"""


@dataclass(frozen=True, kw_only=True, slots=True)
class Case:
    """A spec that both engines build.

    Attributes
    ----------
    spec : callable
        Its text.
    data : Path or None
        Where a folder `nist/data` beside it is found; None: it needs none.
    """

    spec: Callable[[], str]
    data: Path | None = None


def households() -> str:
    """The demo's census, with the households protected, too."""
    text = (RELEASES / "demo.toml").read_text()
    text = text.replace('entities = ["person_id"]', 'entities = ["person_id", "household_id"]')
    text = text.replace(
        'profile = "standard"', 'max_rows = 8\naccept_risk = "simulated"\nprofile = "standard"'
    )
    return text.replace(
        "[columns.person_id]", '[columns.household_id]\nkind = "integer"\n\n[columns.person_id]', 1
    )


def released(name: str) -> str:
    """A spec of the repository."""
    return (RELEASES / name).read_text()


CASES = {
    "census": Case(spec=households),
    "events": Case(spec=lambda: EVENTS),
    "dp": Case(spec=lambda: released("demo-dp.toml")),
    "nist": Case(spec=lambda: released("nist.toml"), data=ROOT.parent / "shared" / "nist"),
}


@dataclass(frozen=True, kw_only=True, slots=True)
class Built:
    """What one build gave: tables, content hash, seconds by the clock and of the processor."""

    tables: int
    digest: str
    clock: float
    processor: float


def build(folder: Path, spec: str, engine_name: str) -> Built:
    """Build in a process of its own."""
    path, out = folder / f"{engine_name}.toml", folder / f"{engine_name}.duckdb"
    path.write_text(
        spec.replace("[source]", f'[source]\nengine = "{engine_name}"\n{_master(engine_name)}', 1)
    )
    command = [str(Path(sys.executable).with_name("tablepack")), "build", str(path), "-o", str(out)]
    command += ["--jobs", "1", "--json"]
    before, start = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
    done = subprocess.run(command, capture_output=True, text=True, env=os.environ)
    if done.returncode:
        sys.exit(f"{engine_name}: {done.stderr.strip()[-1000:]}")
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    told = json.loads(done.stdout)
    return Built(
        tables=int(told["tables"]),
        digest=str(told["content_hash"]),
        clock=time.perf_counter() - start,
        processor=after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime,
    )


def _master(engine_name: str) -> str:
    return 'master = "local[2]"\n' if engine_name == "spark" else ""


def row(name: str, census: Path) -> list[object]:
    """One line of the table."""
    case = CASES[name]
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch)
        if case.data is not None:
            if not case.data.exists():
                sys.exit(f"{name}: no {case.data.name} beside the checkout, in ../shared")
            (folder / "nist").mkdir()
            (folder / "nist" / "data").symlink_to(case.data)
        (folder / "census").symlink_to(census)
        spec = re.sub(r'(?m)^key = ".*?"', 'key = "own.key"', case.spec(), count=1)
        engine.new_key(folder / "own.key")
        one, other_one = (build(folder, spec, engine_name) for engine_name in ENGINES)
    if one.digest != other_one.digest:
        sys.exit(f"{name}: the content hashes differ")
    print(f"{name}: equal", flush=True)
    return [name, one.tables, f"{one.digest[:8]} ...", "yes",
            f"{one.processor:.0f}", f"{other_one.processor:.0f}", f"{other_one.clock / one.clock:.1f}"]  # fmt: skip


def main() -> None:
    """Build, compare, print, record."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--case", choices=CASES, action="append", help="one case only")
    parser.add_argument("--people", type=int, default=20_000, help="of the simulated census")
    add_option(parser)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as scratch:
        census = Path(scratch) / "census"
        simulate_census(census, people=options.people, seed=SEED)
        heads = ("case", "tables", "content hash", "equal", *SECONDS)
        text = markdown(heads, [row(name, census) for name in options.case or CASES])
    print(text)
    if options.record:
        record("engines", command_line("scripts/engines.py"), text)


if __name__ == "__main__":
    main()
