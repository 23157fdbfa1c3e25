"""What builds and answers cost. Called by ./scripts/bench; a case each, the cost of builds in series without one.

The floor of a build: the same source in a plain in-memory DuckDB table, one `GROUP BY` with `count(*)` for each
published column set, every answer fetched. It does what no private release can do without: count. Every release is
checked before its time counts. Memory is the resident memory of a build and of its child processes together, looked at
every few hundredths of a second (where the system has /proc).
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile
import threading
import time
from collections.abc import Callable, Sequence
from io import BytesIO
from itertools import combinations
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
from measured import command_line, markdown, record
from study import NIST, NULLS, ROOT, SYNTHPOP, census_file, data_file, missing, parser, spec_of

import engine
from engine.cli import ENVIRONMENT
from engine.schema import literal, quoted
from engine.simulation.census import BLOCK_PEOPLE, draw_people_of, write_part
from engine.simulation.columns import CENSUS_COLUMNS
from engine.spec import read_spec
from engine.store import table_name
from queries.release import Release, open_release

COLUMNS = (
    *("region", "age", "sex", "education", "activity", "tenure", "health", "income"),
    *("marital_status", "hours", "household_type", "carer", "ethnic_group", "disability"),
    *("rent_weekly", "industry", "relation", "travel_km", "district", "birth_country"),
)
"""Of the simulated census, in the order in which builds take them."""
SMALL, MILLION, TEN_MILLION = 27_253, 1_000_000, 10_000_000
SEED, ENTITY = 7, "person_id"
SD = 2**0.5
"""Noise of a count where each entity has one row: two layers of sd 1."""
FAR = 7
"""Standard deviations that no count may be off by."""
PLACE = Path("releases/bench")
TABLEPACK = [sys.executable, "-c", "import sys; from engine.cli import main; sys.exit(main())"]


# --- one build, its floor, and whether it is right


def floor_of(
    source: str, tables: list[list[str]], *, nulls: Sequence[str] = (), repeat: int = 2
) -> tuple[float, dict[str, dict[Any, int]]]:
    """Seconds of the plain GROUP BYs, the least of some repeats; and the true one-way counts."""
    reader = f"read_csv({literal(source)}, nullstr = [{', '.join(map(literal, nulls))}])"
    if source.endswith(".parquet"):
        reader = f"read_parquet({literal(source)})"
    wanted = sorted({name for columns in tables for name in columns})
    with duckdb.connect(config={"memory_limit": "3GB"}) as con:
        con.execute(f"CREATE TABLE source AS SELECT {', '.join(map(quoted, wanted))} FROM {reader}")
        seconds = []
        for _ in range(repeat):
            start = time.perf_counter()
            for columns in tables:
                chosen = ", ".join(map(quoted, columns))
                con.execute(f"SELECT {chosen}, count(*) FROM source GROUP BY ALL").fetchnumpy()
            seconds.append(time.perf_counter() - start)
        counts = "SELECT CAST({0} AS VARCHAR), count(*) FROM source GROUP BY ALL"
        truth = {c: dict(con.execute(counts.format(quoted(c))).fetchall()) for c in wanted}
    return min(seconds), truth


class Peak(threading.Thread):
    """The most memory of a process and its descendants, and the most bytes of files below a folder, until stopped."""

    def __init__(self, pid: int, folder: Path | None = None) -> None:
        super().__init__(daemon=True)
        self._pid, self._folder, self._ended = pid, folder, threading.Event()
        self.together = self.own = self.children = self.on_disk = self.spilled = 0
        self.start()

    def run(self) -> None:
        looks = 0
        while not self._ended.wait(0.03):
            own, children = _memory(self._pid)
            self.together = max(self.together, own + children)
            self.own, self.children = max(self.own, own), max(self.children, children)
            looks += 1
            if self._folder is not None and looks % 10 == 0:
                working, spilled = _files_below(self._folder)
                self.on_disk = max(self.on_disk, working + spilled)
                self.spilled = max(self.spilled, spilled)

    def stop(self) -> None:
        self._ended.set()
        self.join()


def _memory(pid: int) -> tuple[int, int]:
    """Resident bytes of a process, and of all its descendants."""
    try:
        status = Path(f"/proc/{pid}/status").read_text()
        listed = [p.read_text() for p in Path(f"/proc/{pid}/task").glob("*/children")]
    except OSError:  # it has ended meanwhile, or the system has no /proc
        return 0, 0
    kilobytes = re.search(r"VmRSS:\s+(\d+)", status)
    children = [int(word) for text in listed for word in text.split()]
    return int(kilobytes[1]) * 1024 if kilobytes else 0, sum(sum(_memory(c)) for c in children)


def _files_below(folder: Path) -> tuple[int, int]:
    """Bytes of files below a folder: of working databases, of all others."""
    sizes = {True: 0, False: 0}
    for place, _, names in os.walk(folder):
        for name in names:
            with contextlib.suppress(OSError):  # it is gone meanwhile
                sizes[".duckdb" in name] += Path(place, name).lstat().st_size
    return sizes[True], sizes[False]


def clean(out: Path) -> None:
    """Take away what a build left."""
    for left in (out, out.with_name(out.name + ".manifest.json")):
        left.unlink(missing_ok=True)


def build_of(
    job: dict[str, Any],
    place: Path,
    *,
    tree: Path = ROOT,
    scratch: Path | None = None,
    cores: int | None = None,
) -> dict[str, Any]:
    """Build once in a process of its own: seconds from start to end, peak memory, and what it tells.

    tree: a folder with another version of all files of the project, which builds then.
    """
    clean(Path(job["out"]))
    (place / "job.json").write_text(json.dumps(job))
    environment = ENVIRONMENT | os.environ  # as the command has it
    if tree != ROOT:
        environment["PYTHONPATH"] = str(tree)  # before what is installed
    if scratch is not None:
        environment["TMPDIR"] = str(scratch)
    script = tree / "scripts" / "bench_build.py"
    used, start = os.times(), time.perf_counter()
    with subprocess.Popen(
        [sys.executable, str(script), str(place / "job.json")],
        stdout=subprocess.PIPE,
        text=True,
        env=environment,
    ) as child:
        if cores is not None and hasattr(os, "sched_setaffinity"):
            # Java and Python work at once: without this, one core of Spark's is more than one of the machine.
            os.sched_setaffinity(child.pid, sorted(os.sched_getaffinity(0))[:cores])
        peak = Peak(child.pid, scratch and scratch.parent)
        told = child.stdout.read() if child.stdout else ""
        failed = child.wait()
        seconds = time.perf_counter() - start
        peak.stop()
    if failed:
        raise SystemExit(f"the build of {job['out']} failed")
    now = os.times()
    cpu = now.children_user + now.children_system - used.children_user - used.children_system
    memory = {"peak": peak.together, "measure_peak": peak.own, "fit_peak": peak.children}
    disk = {"disk": peak.on_disk, "spilled": peak.spilled}
    return {"seconds": seconds, "cpu_seconds": cpu, **memory, **disk, **json.loads(told)}


def check(release: Path, truth: dict[str, dict[Any, int]], public: set[str]) -> int:
    """Hold a release against the truth and against itself; say what is wrong by ending the run.

    Totals and counts of public codes may be off by noise only; margins of two-column tables equal the one-column
    tables; wider ones differ from narrower ones by no more than their card says. Gives the number of comparisons.
    """
    done = 0
    with duckdb.connect(str(release), read_only=True) as con:
        listed = con.execute(
            "SELECT columns, physical, rows, rounding_gap, noise_sd FROM catalog.tables ORDER BY width"
        ).fetchall()
        physical = {tuple(columns): name for columns, name, *_ in listed}
        n_rows = sum(next(iter(truth.values())).values())
        for columns, name, rows, gap, noise_sd in listed:
            if abs(rows - n_rows) > FAR * SD:
                raise SystemExit(f"{columns}: {rows} rows, {n_rows} in the source")
            done += 1
            if len(columns) == 1 and columns[0] in public:
                done += _check_counts(con, name, columns[0], truth[columns[0]], max(noise_sd, SD))
            for left_out in columns if len(columns) > 1 else ():
                narrow = tuple(c for c in columns if c != left_out)
                if narrow in physical:
                    allowed = 0 if len(narrow) == 1 else gap
                    _check_margin(con, name, physical[narrow], narrow, allowed)
                    done += 1
    return done


def _check_counts(con: Any, name: str, column: str, truth: dict[Any, int], sd: float) -> int:
    """One-way counts of public codes lie within the noise. Gives the number of codes."""
    asked = f"SELECT CAST({quoted(column)} AS VARCHAR), sum(n) FROM tables.{name} GROUP BY 1"
    shown = dict(con.execute(asked).fetchall())
    off = {value: shown.get(value, 0) - truth.get(value, 0) for value in {*shown, *truth}}
    far = [value for value, difference in off.items() if abs(difference) > FAR * sd]
    if far:
        raise SystemExit(f"{column}: counts of {far[:5]} are off by more than noise")
    return len(off)


def _check_margin(con: Any, wide: str, narrow: str, columns: tuple[str, ...], gap: int) -> None:
    """A margin of a wider table is the narrower table, but for what its card allows."""
    chosen = ", ".join(map(quoted, columns))
    ((largest,),) = con.execute(
        f"SELECT max(abs(n)) FROM (SELECT {chosen}, sum(s * n) AS n FROM ("
        f"SELECT {chosen}, n, 1 AS s FROM tables.{wide} UNION ALL "
        f"SELECT {chosen}, n, -1 AS s FROM tables.{narrow}) GROUP BY ALL)"
    ).fetchall()
    if largest > gap:
        raise SystemExit(f"{wide}: its margin {columns} differs by {largest}, its card says {gap}")


# --- what is built


def sets_of(n_columns: int, *widths: int) -> list[list[str]]:
    """All column sets of the first columns, narrower before wider."""
    return [list(s) for width in widths for s in combinations(COLUMNS[:n_columns], width)]


def row_tables() -> list[list[str]]:
    """The column sets of the series of rows: 1-, 2- and 3-way, the same at every size."""
    return [*sets_of(8, 1, 2), *sets_of(7, 3), ["education", "income", "sex"]]


def key_in(folder: Path) -> Path:
    """A key for all builds of a folder."""
    folder.mkdir(parents=True, exist_ok=True)
    if not (folder / "bench.key").exists():
        engine.new_key(folder / "bench.key")
    return folder / "bench.key"


def census_job(folder: Path, people: int, tables: list[list[str]]) -> dict[str, Any]:
    """Tables of a simulated census."""
    source = census_file(folder / f"census-{people}", people, SEED)
    columns = sorted({name for table in tables for name in table})
    return {"source": str(source), "columns": columns, "tables": tables}


def spec_job(name: str, data: Path, folder: Path, tree: Path = ROOT) -> dict[str, Any]:
    """All tables of a shipped spec."""
    source = data_file(name, data)
    path = spec_of(f"{name}.toml", folder, source=source, key="bench.key", tree=tree)
    spec = read_spec(str(path))
    tables = [list(columns) for columns in spec.tables]
    columns = sorted({name for table in tables for name in table})
    return {"spec": str(path), "source": str(source), "columns": columns, "tables": tables}


# --- the series


class Series:
    """Builds, checks, and keeps a line a build."""

    def __init__(self, folder: Path, repeat: int) -> None:
        self.folder, self._repeat = folder, repeat
        self.lines: list[dict[str, Any]] = []
        self._key = key_in(folder)

    def census(self, series: str, rows: int, tables: list[list[str]]) -> None:
        public = {c.name for c in CENSUS_COLUMNS if c.public}
        self._add(series, rows, census_job(self.folder, rows, tables), public)

    def shipped(self, name: str, data: Path) -> None:
        job = spec_job(name, data, self.folder)
        with open(job["source"], encoding="utf-8") as lines:
            rows = sum(1 for _ in lines) - 1
        public = {column.name for column in read_spec(job["spec"]).columns if column.public}
        self._add(name, rows, job, public, NULLS[name])

    def _add(
        self,
        series: str,
        rows: int,
        job: dict[str, Any],
        public: set[str],
        nulls: Sequence[str] = (),
    ) -> None:
        """Time the floor, build, check; the quickest of the repeats counts, the largest memory."""
        out = self.folder / "release.duckdb"
        job |= {"key": str(self._key), "out": str(out)}
        repeat = self._repeat if rows < MILLION else 1
        floor, truth = floor_of(job["source"], job["tables"], nulls=nulls, repeat=max(repeat, 2))
        builds = []
        for _ in range(repeat):
            builds.append(build_of(job, self.folder))
            checked = check(out, truth, public)  # a wrong release has no time
        best = min(builds, key=lambda one: one["seconds"])
        line = best | {
            "series": series,
            "rows": rows,
            "tables": len(job["tables"]),
            "columns": len(job["columns"]),
            "floor": floor,
            "ratio": best["seconds"] / floor,
            "peak": max(one["peak"] for one in builds),
            "bytes": out.stat().st_size,
            "checked": checked,
        }
        self.lines.append(line)
        print(
            {name: round(v, 2) if isinstance(v, float) else v for name, v in line.items()},
            flush=True,
        )
        clean(out)


def targets(lines: list[dict[str, Any]]) -> list[tuple[str, float, float]]:
    """What is to be reached, and what was: (what, at most, got)."""
    by_rows = {line["rows"]: line for line in lines if line["series"] == "rows"}
    out = []
    if {SMALL, MILLION} <= by_rows.keys():
        times = by_rows[MILLION]["seconds"] / by_rows[SMALL]["seconds"]
        out.append(("1 million rows against 27 thousand, times", 4.0, times))
        out.append(("1 million rows, peak memory in GB", 2.0, by_rows[MILLION]["peak"] / 1e9))
    for rows, most in ((SMALL, 12.0), (MILLION, 4.0)):
        if rows in by_rows:
            out.append((f"{rows:,} rows, times the plain GROUP BYs", most, by_rows[rows]["ratio"]))
    if TEN_MILLION in by_rows:
        out.append(("10 million rows, peak memory in GB", 4.0, by_rows[TEN_MILLION]["peak"] / 1e9))
    for line in lines:
        if line["series"] == "nist":
            out.append((f"NIST's {line['tables']} tables, seconds", 12.0, line["seconds"]))
            out.append(("... times the plain GROUP BYs", 8.0, line["ratio"]))
            out.append(("... file in MB", 60.0, line["bytes"] / 1e6))
        if line["series"] == "sd2011":
            what = f"SD2011's {line['tables']} tables, times the plain GROUP BYs"
            out.append((what, 10.0, line["ratio"]))
    return out


def series(words: list[str] | None = None) -> None:
    """Builds against rows, tables and columns; those of NIST and SD2011."""
    reader = parser(__doc__, prog="./scripts/bench", folder=PLACE)
    reader.add_argument("--quick", action="store_true", help="few and small builds")
    reader.add_argument("--full", action="store_true", help="10 million rows too")
    reader.add_argument("--rows", type=numbers, help="sizes of the census")
    reader.add_argument("--tables", type=numbers, help="numbers of tables")
    reader.add_argument("--columns", type=numbers, help="numbers of columns")
    reader.add_argument("--people", type=int, default=SMALL, help="people of the last two series")
    reader.add_argument("--nist", type=Path, default=NIST, help="folder")
    reader.add_argument("--sd2011", type=Path, default=SYNTHPOP, help="folder")
    reader.add_argument("--repeat", type=int, default=2, help="builds each; the quickest counts")
    chosen = reader.parse_args(words)
    whole = ((SMALL, 100_000, MILLION), (12, 45, 78, 160, 298), (4, 8, 12, 16, 20))
    quick = ((SMALL, 100_000), (12, 78), (4, 8))
    given = (chosen.rows, chosen.tables, chosen.columns)
    plan = [
        d if g is None else g for g, d in zip(given, quick if chosen.quick else whole, strict=True)
    ]
    bench = Series(chosen.folder, chosen.repeat)
    for n in (*plan[0], *((TEN_MILLION,) if chosen.full else ())):
        bench.census("rows", n, row_tables())
    for n in plan[1]:
        bench.census("tables", chosen.people, sets_of(12, 1, 2, 3)[:n])
    for n in plan[2]:
        bench.census("columns", chosen.people, sets_of(n, 1, 2))
    for name in ("nist", "sd2011"):
        if reason := missing(name, getattr(chosen, name)):
            print(f"({name}: {reason})")
        else:
            bench.shipped(name, getattr(chosen, name))
    reached = targets(bench.lines)
    told = {"lines": bench.lines, "targets": reached}
    (chosen.folder / "bench.json").write_text(json.dumps(told, indent=1) + "\n")
    heads = ["series", "rows", "tables", "columns", "seconds", "times GROUP BYs", "peak GB", "MB"]
    rows = [
        [
            one["series"],
            f"{one['rows']:,}",
            one["tables"],
            one["columns"],
            f"{one['seconds']:.1f}",
            f"{one['ratio']:.1f}",
            f"{one['peak'] / 1e9:.1f}",
            f"{one['bytes'] / 1e6:.1f}",
        ]
        for one in bench.lines
    ]
    goals = [
        [what, f"{got:.2f}", f"<= {most:g}", "yes" if got <= most else "no"]
        for what, most, got in reached
    ]
    text = markdown(heads, rows)
    if goals:
        text += "\n\n" + markdown(["what", "figure", "reach", "reached"], goals)
    print(text)
    if chosen.record:
        record("bench", command_line("./scripts/bench"), text)
    if not sys.argv[1:] or {*sys.argv[1:]} <= {"--quick", "--full"}:
        steps(["--repeat", "1"] if sys.argv[1:] else [])


def numbers(text: str) -> tuple[int, ...]:
    """Numbers of an option, such as 4,8,12; none where it is empty."""
    return tuple(int(word) for word in text.replace("_", "").split(",") if word)


# --- the steps of a build, and an earlier version in the same run


def git(*words: str) -> bytes:
    """What git answers in the project's folder."""
    done = subprocess.run(["git", *words], cwd=ROOT, capture_output=True, check=False)
    if done.returncode:
        raise SystemExit(f"git {words[0]} failed: {done.stderr.decode().strip()}")
    return done.stdout


def last_release() -> str:
    """The newest tag of a version; without one, the last commit before CHANGELOG.md began its newest version."""
    tags = git("tag", "--list", "v*", "--merged", "HEAD", "--sort=-version:refname").decode()
    if tags.split():
        return tags.split()[0]
    newest = re.search(r"(?m)^## (\S+)", (ROOT / "CHANGELOG.md").read_text(encoding="utf-8"))
    if newest is None:
        raise SystemExit("CHANGELOG.md names no version; give --against REV")
    begun = git("log", "--format=%H", "-S", f"## {newest[1]} ", "--", "CHANGELOG.md").decode()
    if not begun.split():
        raise SystemExit(f"no commit began {newest[1]} in CHANGELOG.md; give --against REV")
    return git("rev-parse", "--short", f"{begun.split()[-1]}^").decode().strip()


def tree_of(revision: str, folder: Path) -> Path:
    """The files of a revision, in a fresh folder, its kernels compiled."""
    tree = folder / "against"
    shutil.rmtree(tree, ignore_errors=True)
    with tarfile.open(fileobj=BytesIO(git("archive", revision))) as files:
        files.extractall(tree, filter="data")
    if not (tree / "scripts" / "bench_build.py").exists():
        raise SystemExit(f"{revision} has no scripts/bench_build.py, so it cannot be timed")
    module = "warm" if (tree / "engine" / "fit" / "warm.py").exists() else "compiled"
    words = [sys.executable, "-m", f"engine.fit.{module}"]
    subprocess.run(words, env=os.environ | {"PYTHONPATH": str(tree)}, check=False)
    return tree


def steps(words: list[str] | None = None) -> None:
    """The share of each module in a build, and seconds of an earlier version, built in turn with this one."""
    reader = parser(steps.__doc__, prog="./scripts/bench steps", folder=PLACE)
    reader.add_argument("--against", metavar="REV", help="version to compare with; none: no other")
    reader.add_argument("--people", type=int, default=SMALL, help="people of the census")
    reader.add_argument("--nist", type=Path, default=NIST, help="folder")
    reader.add_argument("--repeat", type=int, default=2, help="builds each; the quickest counts")
    chosen = reader.parse_args(words)
    folder, key = chosen.folder, str(key_in(chosen.folder))
    revision = last_release() if chosen.against is None else chosen.against
    tree = None if revision in ("", "none") else tree_of(revision, folder)
    given = {"key": key, "out": str(folder / "steps.duckdb")}
    tables = row_tables()
    census = census_job(folder, chosen.people, tables) | given
    jobs = {f"{len(tables)} tables, simulated census of {chosen.people:,}": (census, census)}
    if missing("nist", chosen.nist) is None:
        (folder / "then").mkdir(exist_ok=True)
        shutil.copy(key, folder / "then" / "bench.key")
        now = spec_job("nist", chosen.nist, folder)
        then = spec_job("nist", chosen.nist, folder / "then", tree) if tree else now
        jobs["438 tables, NIST's excerpt"] = (now | given, then | given)
    shares: dict[str, dict[str, float]] = {}
    rows = []
    for name, (now, then) in jobs.items():
        found = build_of(now | {"profile": True}, folder)
        modules = {k: v for k, v in found.items() if "seconds" not in k and isinstance(v, float)}
        total = sum(modules.values())
        shares[name] = {module: s / total for module, s in modules.items() if s >= 0.01 * total}
        if tree is None:
            continue
        built: dict[str, list[dict[str, Any]]] = {"then": [], "now": []}
        for _ in range(chosen.repeat):
            built["then"].append(build_of(then, folder, tree=tree))
            built["now"].append(build_of(now, folder))
        best = [min(one["seconds"] for one in runs) for runs in built.values()]
        cpu = [min(one["cpu_seconds"] for one in runs) for runs in built.values()]
        told = [*best, best[1] / best[0], *cpu]
        rows.append([name, *(f"{x:.2f}" for x in told)])
    clean(Path(given["out"]))
    listed = dict.fromkeys(module for found in shares.values() for module in found)
    text = markdown(
        ["module", *shares],
        [
            [m, *(f"{found[m]:.0%}" if m in found else "" for found in shares.values())]
            for m in listed
        ],
    )
    if tree is not None:
        heads = ["build", f"seconds at {revision}", "now", "now / then", "CPU seconds then", "now"]
        text += "\n\n" + markdown(heads, rows)
        shutil.rmtree(tree)
    print(text)
    if chosen.record:
        record("bench-steps", command_line("./scripts/bench steps"), text)


# --- one table added, and SynDiffix


def timed(*words: str) -> tuple[float, float]:
    """Seconds, and processor seconds with all processes it started, of a command of tablepack."""
    before, start = os.times(), time.perf_counter()
    done = subprocess.run([*TABLEPACK, *words], capture_output=True, text=True, check=False)
    seconds, after = time.perf_counter() - start, os.times()
    if done.returncode:
        raise SystemExit(f"tablepack {words[0]} failed: {done.stderr.strip()}")
    cpu = after.children_user + after.children_system
    return seconds, cpu - before.children_user - before.children_system


def content_hash(path: Path) -> str:
    """Of a release."""
    with engine.open(path) as release:
        return release.content_hash


def add() -> None:
    """One 3-column table added over a full build. An addition counts only if it has the content hash of the build."""
    reader = parser(add.__doc__, prog="./scripts/bench add", folder=PLACE)
    reader.add_argument("--nist", type=Path, default=NIST, help="folder")
    reader.add_argument("--spec", type=Path, help="of another release than NIST's")
    reader.add_argument("--repeat", type=int, default=2, help="runs each; the quickest counts")
    chosen = reader.parse_args()
    key_in(chosen.folder)
    path = chosen.spec or Path(spec_job("nist", chosen.nist, chosen.folder)["spec"])
    spec, out = read_spec(str(path)), chosen.folder / "add.duckdb"
    table = [columns for columns in spec.tables if len(columns) == 3][-1]  # no other hangs on it
    full = ("build", str(path), "-o", str(out), "--force")
    timed(*full)  # so that loops are compiled and the journal knows the data
    builds, additions = [], []
    for _ in range(chosen.repeat):
        builds.append(timed(*full))
        wanted = content_hash(out)
        engine.drop(out, [table], spec=spec).close()
        if content_hash(out) == wanted:
            raise SystemExit(f"{', '.join(table)} was not taken out")
        additions.append(timed("add", str(out), "--spec", str(path)))
        if content_hash(out) != wanted:
            raise SystemExit("the release with the table added is not that of a full build")
    build, more = min(builds), min(additions)
    named = ((f"full build, {len(spec.tables)} tables", build), ("one 3-column table added", more))
    rows = [[what, f"{s:.2f}", f"{cpu:.2f}"] for what, (s, cpu) in named]
    rows.append(
        ["added / full build", *(f"1/{b / m:.1f}" for b, m in zip(build, more, strict=True))]
    )
    text = markdown(["what", "seconds", "CPU seconds"], rows)
    print(text)
    if chosen.record:
        record("bench-add", command_line("./scripts/bench add"), text)


REFERENCE = """
import json, sys, time
import pandas as pd
from syndiffix import Synthesizer
rows = pd.read_csv(sys.argv[1], keep_default_na=False, na_values=json.loads(sys.argv[2]))
for columns in json.loads(sys.argv[3]):
    begin = time.process_time()
    made = Synthesizer(rows[columns]).sample()
    print(json.dumps([time.process_time() - begin, len(made)]), flush=True)
"""


def reference_seconds(
    python: Path, source: Path, nulls: Sequence[str], tables: Sequence[Sequence[str]]
) -> list[float]:
    """Processor seconds of SynDiffix for each table; all ends where it fails."""
    words = [str(python), "-c", REFERENCE, str(source), json.dumps(nulls), json.dumps(tables)]
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    if done.returncode:
        why = (done.stderr.strip().splitlines() or ["no reason given"])[-1]
        sys.exit(f"{python}: SynDiffix fails ({why}); version 1.0.8 wants pandas below 3")
    return [json.loads(line)[0] for line in done.stdout.splitlines()]


def syndiffix() -> None:
    """A build against SynDiffix, on tables drawn from NIST's workload.

    SynDiffix makes each drawn table by itself, one after the other in one process; we build the whole workload, and one
    of its tables counts as its share of that build, with all that a command costs. Processor seconds, which other work
    on the machine moves less than the clock.
    """
    reader = parser(syndiffix.__doc__, prog="./scripts/bench syndiffix", seed=1, folder=PLACE)
    reader.add_argument("--python", type=Path, required=True, help="a Python that has SynDiffix")
    reader.add_argument("--nist", type=Path, default=NIST, help="folder")
    reader.add_argument("--tables", type=int, default=12, help="how many are drawn")
    chosen = reader.parse_args()
    key_in(chosen.folder)
    job = spec_job("nist", chosen.nist, chosen.folder)
    out = chosen.folder / "syndiffix.duckdb"
    _, cpu = timed("build", job["spec"], "-o", str(out), "--force")
    at = np.random.default_rng(chosen.seed).choice(len(job["tables"]), chosen.tables, replace=False)
    tables = [job["tables"][i] for i in sorted(at)]
    theirs = reference_seconds(chosen.python, Path(job["source"]), ["N"], tables)
    each, own = sum(theirs) / len(theirs), cpu / len(job["tables"])
    rows = [[", ".join(table), f"{s:.2f}"] for table, s in zip(tables, theirs, strict=True)]
    rows += [
        [f"SynDiffix, mean of {len(tables)} tables", f"{each:.2f}"],
        [f"ours, build of {len(job['tables'])} tables: one of them", f"{own:.4f}"],
        ["times", f"{each / own:.0f}"],
    ]
    text = markdown(["table", "CPU seconds"], rows)
    print(text)
    if chosen.record:
        record("bench-syndiffix", command_line("./scripts/bench syndiffix"), text)


# --- answers


def milliseconds(work: Callable[[], object]) -> tuple[float, Any]:
    """Time of one call, and what it gave."""
    start = time.perf_counter()
    gave = work()
    return 1e3 * (time.perf_counter() - start), gave


def routed(release: Release) -> list[str]:
    """One-way and two-way counts, filters, windows, CTEs over columns that the release has together."""
    out = [
        f"SELECT {quoted(t[0])}, count(*) FROM data GROUP BY ALL"
        for t in [t for t in release.tables if len(t) == 1][:4]
    ]
    for t in [t for t in release.tables if len(t) == 2][:4]:
        a, b = map(quoted, t)
        out += [
            f"SELECT {a}, {b}, count(*) FROM data GROUP BY ALL ORDER BY ALL",
            f"SELECT {a}, count(DISTINCT {b}) FROM data WHERE {b} IS NOT NULL GROUP BY {a} ORDER BY ALL",
            f"SELECT {a}, {b}, 100.0 * count(*) / sum(count(*)) OVER (PARTITION BY {a}) FROM data "
            f"GROUP BY {a}, {b} ORDER BY ALL",
            f"WITH t AS (SELECT * FROM data) SELECT {a}, max({b}) FROM t GROUP BY {a} ORDER BY ALL",
        ]
    return out


def beside_plain(release: Release, sql: str, repeat: int) -> tuple[float, float, float]:
    """Medians: on the table by plain DuckDB, through the release, and the difference of each pair."""
    table, took = release.sql(sql).table, []
    with duckdb.connect(str(release.path), read_only=True, config={"threads": 1}) as con:
        if table is not None:
            listed = ", ".join(
                quoted(c) if c in table else f"CAST(NULL AS {type_}) AS {quoted(c)}"
                for c, type_ in release.columns.items()
            )
            view = f"SELECT {listed} FROM main.{quoted(table_name(table))}"
            con.execute(f"CREATE OR REPLACE TEMP VIEW data AS {view}")
        for _ in range(repeat + 3):
            a, wanted = milliseconds(lambda: con.execute(sql).fetchall())
            b, got = milliseconds(lambda: release.sql(sql).rows)
            if sorted(map(repr, wanted)) != sorted(map(repr, got)):
                raise SystemExit(f"not the answer of the table itself: {sql}")
            took.append((a, b, b - a))
    plain, through, added = np.median(took[3:], axis=0)
    return float(plain), float(through), float(added)


DEMO = Path("releases/demo/census.duckdb")
"""As ./scripts/demo leaves it."""


def sql() -> None:
    """What routing a statement adds over the same SQL on the table itself; answers must be equal."""
    reader = parser(sql.__doc__, prog="./scripts/bench sql")
    reader.add_argument("release", nargs="?", default=DEMO, type=Path)
    reader.add_argument("--repeat", type=int, default=25)
    chosen = reader.parse_args()
    with open_release(chosen.release, threads=1) as release:
        if release.logical_name != "data":
            raise SystemExit("the statements here ask over `data`")
        rows = [(text, beside_plain(release, text, chosen.repeat)) for text in routed(release)]
    rows.append(("median", tuple(np.median([figures for _, figures in rows], axis=0))))
    shown = [
        [f"`{t[:80]}`" if " " in t else t, *(f"{x:.2f}" for x in figures)] for t, figures in rows
    ]
    text = markdown(
        ["statement", "on the table, ms", "through the release, ms", "added, ms"], shown
    )
    print(text)
    if chosen.record:
        record("bench-sql", command_line("./scripts/bench sql"), text)


KINDS = ("first count", "the same again", "another count", "first mean", "another mean")


def of_three_columns(release: Release) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """The largest table of three columns, one of them of numbers, and a statement of each of `KINDS`."""
    found = []
    for table in release.tables:
        kinds = ("BIGINT", "INTEGER", "DOUBLE", "DECIMAL")
        numeric = [c for c in table if release.columns[c].startswith(kinds)]
        if len(table) == 3 and numeric:
            listed = ", ".join(map(quoted, table))
            rows = release.sql(f"SELECT {listed} FROM {release.logical_name} GROUP BY ALL").rows
            found.append((len(rows), table, numeric[0]))
    if not found:
        raise SystemExit(f"{release.path}: no table of three columns, one of them of numbers")
    _, table, of = max(found)
    name, x, (a, b) = release.logical_name, quoted(of), (quoted(c) for c in table if c != of)
    count = f"SELECT {', '.join(map(quoted, table))}, count(*) FROM {name} GROUP BY ALL"
    some = f"FROM {name} WHERE {x} > 20 GROUP BY ALL"
    means = f"SELECT {a}, {b}, avg({x})"
    other = f"SELECT {a}, {b}, count(*) {some}"
    return table, (count, count, other, f"{means} FROM {name} GROUP BY ALL", f"{means} {some}")


def asked(path: str, texts: list[str], with_intervals: bool) -> list[float]:
    """Milliseconds of processor time of each statement, of a release that has answered one before."""
    took = []
    with engine.open(path) as release:
        release.sql(f"SELECT count(*) FROM {release.logical_name}")
        for text in texts:
            start = time.process_time()
            release.sql(text, intervals=with_intervals).rows  # noqa: B018  # fetches them
            took.append((time.process_time() - start) * 1000)
    return took


def drawn(path: str, table: list[str]) -> float:
    """Milliseconds of processor time until the replays of a table are drawn and kept on disk."""
    from queries.intervals.replays import replays

    with engine.open(path) as release:
        start = time.process_time()
        replays(release, tuple(table))
        return (time.process_time() - start) * 1000


def in_process(what: Callable[..., Any], *given: Any) -> Any:
    """What a function of this module returns in a process of its own."""
    words = f"import json, sys, bench; print(json.dumps(bench.{what.__name__}(*json.loads(sys.argv[1]))))"
    command = [sys.executable, "-c", words, json.dumps(given)]
    out = subprocess.run(
        command, cwd=Path(__file__).parent, capture_output=True, text=True, check=True
    )
    return json.loads(out.stdout)


def intervals() -> None:
    """What noise intervals cost in processor time: statements with and without them, in processes of their own.

    Of each release the largest table of three columns with numbers is asked; every answer is fetched. Replays are
    drawn once before, and read from the cache beside the release.
    """
    reader = parser(intervals.__doc__, prog="./scripts/bench intervals")
    reader.add_argument("releases", nargs="*", default=[DEMO], type=Path)
    reader.add_argument("--repeat", type=int, default=7)
    chosen = reader.parse_args()
    rows = []
    for path in chosen.releases:
        with engine.open(path) as release:
            table, texts = of_three_columns(release)
            for text in texts:
                wanted, got = (release.sql(text, intervals=i) for i in (False, True))
                n = len(wanted.columns)
                cut = [repr(tuple(row[:n])) for row in got.rows]
                if sorted(map(repr, wanted.rows)) != sorted(cut):
                    raise SystemExit(f"not the figures that are shown without intervals: {text}")
        with tempfile.TemporaryDirectory() as folder:
            copied = Path(folder, "release.duckdb")
            for ending in ("", ".manifest.json"):
                shutil.copy(f"{path}{ending}", f"{copied}{ending}")
            of_drawing = in_process(drawn, str(copied), table)
            took = np.array(
                [
                    [in_process(asked, str(copied), texts, i) for i in (False, True)]
                    for _ in range(chosen.repeat)
                ]
            )
        rows.append([" x ".join(table), "drawing, once", "", "", f"{of_drawing:.0f}"])
        sides = np.median(took, axis=0)
        added = np.median(took[:, 1] - took[:, 0], axis=0)
        for kind, *figures in zip(KINDS, *sides, added, strict=True):
            rows.append([" x ".join(table), kind, *(f"{x:.1f}" for x in figures)])
    heads = ["table", "statement", "without intervals, ms", "with, ms", "added, ms"]
    text = markdown(heads, rows)
    print(text)
    if chosen.record:
        record("bench-intervals", command_line("./scripts/bench intervals"), text)


# --- many rows, DuckDB against Spark


def parts_of(folder: Path, rows: int, columns: Sequence[str]) -> str:
    """The glob of the part files of so many people, which are drawn where they are not there yet.

    Parts belong to blocks of one large census: more rows are the same people and others, and no id occurs twice.
    """
    parts, place = folder / "parts", folder / f"rows-{rows}"
    parts.mkdir(parents=True, exist_ok=True)
    place.mkdir(exist_ok=True)
    wanted = tuple(column for column in CENSUS_COLUMNS if column.name in {ENTITY, *columns})
    with duckdb.connect(config={"memory_limit": "800MB", "threads": 1}) as con:
        con.execute("SET enable_progress_bar = false")
        for block in range(-(-rows // BLOCK_PEOPLE)):
            n = min(BLOCK_PEOPLE, rows - block * BLOCK_PEOPLE)
            part = parts / f"{block:04}-{n}.parquet"
            if not part.exists():
                drawn = draw_people_of(block, people=100_000_000, seed=SEED)
                new = part.with_suffix(".new")
                write_part(con, wanted, {name: v[:n] for name, v in drawn.items()}, new)
                new.rename(part)
            if not (place / part.name).exists():
                os.link(part, place / part.name)
    return str(place / "*.parquet")


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


def scale() -> None:
    """The same release from rows of ever more people, by DuckDB and by Spark on this machine.

    12 columns of a simulated census, each and every pair of them and 20 tables of three columns, from part files, which
    stay in the folder. Memory is that of all processes together, Java's too; disk is the most seen of scratch, kept
    rows and the release. Both engines must give the same content hash.
    """
    reader = parser(scale.__doc__, prog="./scripts/bench scale", folder=PLACE / "scale")
    reader.add_argument("--rows", type=numbers, default=(100_000, MILLION, TEN_MILLION))
    most = "most rows that Spark builds; 0: no Spark"
    reader.add_argument("--spark-rows", type=int, default=TEN_MILLION, help=most)
    reader.add_argument("--memory", help="of DuckDB, as in a spec")
    reader.add_argument("--keep", type=Path, help="JSON of an earlier run, whose builds stay")
    chosen = reader.parse_args()
    folder, key = chosen.folder, str(key_in(chosen.folder))
    tables = [*sets_of(12, 1, 2), *sets_of(7, 3)[:20]]
    columns = sorted({name for table in tables for name in table})
    kept = json.loads(chosen.keep.read_text()) if chosen.keep else []
    runs = {(run["engine"], run["rows"]): run for run in kept}
    for rows in chosen.rows:
        source = parts_of(folder, rows, columns)
        for name in ("duckdb", "spark") if rows <= chosen.spark_rows else ("duckdb",):
            work = folder / "work"
            shutil.rmtree(work, ignore_errors=True)
            (work / "scratch").mkdir(parents=True)
            reports = folder / f"reports-{name}-{rows}.json"
            settings = {"engine": name} | ({"memory": chosen.memory} if chosen.memory else {})
            settings |= {"master": "local[2]"} if name == "spark" else {}
            job = {
                **{"source": source, "columns": columns, "tables": tables, "key": key},
                **{"out": str(work / "r.duckdb"), "settings": settings, "reports": str(reports)},
            }
            cores = 2 if name == "spark" else None
            run = build_of(job, folder, scratch=work / "scratch", cores=cores)
            run |= {"engine": name, "rows": rows, "content_hash": content_hash(work / "r.duckdb")}
            run["left_off"] = left_off(json.loads(reports.read_text()))
            runs[name, rows] = run
            print(run, flush=True)
        if len({run["content_hash"] for (_, n), run in runs.items() if n == rows}) > 1:
            raise SystemExit(f"{rows:,} rows: the content hashes differ")
    found = sorted(runs.values(), key=lambda run: (run["rows"], run["engine"]))
    (folder / "scale.json").write_text(json.dumps(found, indent=1) + "\n")
    heads = ["rows", "engine", "seconds", "processor s", "first table after s", "peak GB",
             "before the boundary", "disk GB", "of it spilled", "MB to the driver", "time left off by"]  # fmt: skip
    lines = [
        [f"{r['rows']:,}", r["engine"], f"{r['seconds']:.1f}", f"{r['cpu_seconds']:.0f}"]
        + [f"{r['first_table_seconds']:.1f}"]
        + [f"{r[name] / 1e9:.2f}" for name in ("peak", "measure_peak", "disk", "spilled")]
        + [f"{r['driver_bytes'] / 1e6:.1f}" if r["engine"] == "spark" else "-"]
        + ["-" if r["left_off"] is None else f"{r['left_off']:.0%}"]
        for r in found
    ]
    text = markdown(heads, lines)
    print(text)
    if chosen.record:
        record("bench-scale", command_line("./scripts/bench scale"), text)


CASES = {case.__name__: case for case in (steps, sql, intervals, add, syndiffix, scale)}

if __name__ == "__main__":
    if sys.argv[1:2] and sys.argv[1] in CASES:
        CASES[sys.argv.pop(1)]()
    else:
        series()
