"""What builds and answers cost. Called by ./scripts/bench; a case each, the cost of builds without one.

The floor of a build: the same source in a plain in-memory DuckDB table, one `GROUP BY` with `count(*)` for each
published column set, every answer fetched. It does what no private release can do without: count. Memory is the
resident memory of a build and of its child processes together, looked at every few hundredths of a second (where the
system has /proc).
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Sequence
from functools import partial
from itertools import combinations
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
from measured import keep, markdown
from study import NIST, SYNTHPOP, census_file, data_file, missing, null_spellings, parser, spec_of

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
    *("marital_status", "hours", "household_type", "carer"),
)
"""Of the simulated census, in the order in which builds take them."""
SMALL, MILLION, TEN_MILLION = 27_253, 1_000_000, 10_000_000
SEED = 7
PLACE = Path("releases/bench")
TABLEPACK = [sys.executable, "-c", "import sys; from engine.cli import main; sys.exit(main())"]


# --- one build and its floor


def floor_of(
    source: str, tables: Sequence[Sequence[str]], nulls: Sequence[str] = (), repeat: int = 1
) -> tuple[float, int]:
    """Seconds of the plain GROUP BYs, the least of some repeats; and the number of rows."""
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
        ((n_rows,),) = con.execute("SELECT count(*) FROM source").fetchall()
    return min(seconds), n_rows


class Peak(threading.Thread):
    """The most memory of a process and its descendants, and the most bytes of files below a folder, until stopped."""

    def __init__(self, pid: int, folder: Path | None = None) -> None:
        super().__init__(daemon=True)
        self._pid, self._folder, self._ended = pid, folder, threading.Event()
        self.memory = self.disk = 0
        self.start()

    def run(self) -> None:
        looks = 0
        while not self._ended.wait(0.03):
            self.memory = max(self.memory, resident(self._pid))
            looks += 1
            if self._folder is not None and looks % 10 == 0:
                self.disk = max(self.disk, _bytes_below(self._folder))

    def stop(self) -> None:
        self._ended.set()
        self.join()


def resident(pid: int) -> int:
    """Bytes of memory of a process and its descendants."""
    try:
        status = Path(f"/proc/{pid}/status").read_text()
        listed = [p.read_text() for p in Path(f"/proc/{pid}/task").glob("*/children")]
    except OSError:  # it has ended meanwhile, or the system has no /proc
        return 0
    kilobytes = re.search(r"VmRSS:\s+(\d+)", status)
    own = int(kilobytes[1]) * 1024 if kilobytes else 0
    return own + sum(resident(int(word)) for text in listed for word in text.split())


def _bytes_below(folder: Path) -> int:
    total = 0
    for place, _, names in os.walk(folder):
        for name in names:
            with contextlib.suppress(OSError):  # it is gone meanwhile
                total += Path(place, name).lstat().st_size
    return total


def timed(
    *words: str, folder: Path | None = None, cores: int | None = None, scratch: Path | None = None
) -> dict[str, float]:
    """Seconds, processor seconds with all it started, memory and disk of a command of tablepack."""
    before, start = os.times(), time.perf_counter()
    environment = ENVIRONMENT | os.environ | ({"TMPDIR": str(scratch)} if scratch else {})
    with subprocess.Popen(
        [*TABLEPACK, *words], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, env=environment
    ) as child:
        if cores is not None and hasattr(os, "sched_setaffinity"):
            # Java and Python work at once: without this, one core of Spark's is more than one of the machine.
            os.sched_setaffinity(child.pid, sorted(os.sched_getaffinity(0))[:cores])
        peak = Peak(child.pid, folder)
        told = child.stdout.read() if child.stdout else b""
        failed = child.wait()
        seconds, after = time.perf_counter() - start, os.times()
        peak.stop()
    if failed:
        raise SystemExit(f"tablepack {words[0]} failed: {told.decode().strip()}")
    cpu = after.children_user + after.children_system
    cpu -= before.children_user + before.children_system
    return {"seconds": seconds, "cpu": cpu, "memory": peak.memory, "disk": peak.disk}


def sets_of(n_columns: int, *widths: int) -> list[list[str]]:
    """All column sets of the first columns, narrower before wider."""
    return [list(s) for width in widths for s in combinations(COLUMNS[:n_columns], width)]


def census_spec(
    path: Path, source: str, tables: Sequence[Sequence[str]], key: Path, **settings: str
) -> Path:
    """A spec of tables of a simulated census, its columns as an office would declare them."""
    made = spec_of("census.toml", path.parent, source=Path("people"), key=key, tables=tables)
    text = made.read_text("utf-8")
    more = "".join(f"{name} = {json.dumps(value)}\n" for name, value in settings.items())
    for name, value in (("path", source), ("vintage", Path(source).parent.name)):
        text = re.sub(rf'(?m)^{name} = "[^"]*"', f"{name} = {json.dumps(value)}", text, count=1)
    made.write_text(text.replace("[source]\n", f"[source]\n{more}", 1), "utf-8")
    return made.rename(path)


def shipped_spec(name: str, data: Path | None, folder: Path) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    return spec_of(f"{name}.toml", folder, source=data_file(name, data), key=f"{name}.key")


def builds() -> None:
    """Builds of a simulated census by its size, and of NIST's and SD2011's tables, beside plain GROUP BYs."""
    reader = parser(__doc__, prog="./scripts/bench", folder=PLACE)
    reader.add_argument("--quick", action="store_true", help="small ones, once")
    reader.add_argument("--nist", type=Path, default=NIST, help="folder")
    reader.add_argument("--sd2011", type=Path, default=SYNTHPOP, help="folder")
    chosen = reader.parse_args()
    folder, specs = chosen.folder, []
    folder.mkdir(parents=True, exist_ok=True)
    tables = [*sets_of(8, 1, 2), *sets_of(7, 3), ["education", "income", "sex"]]
    for people in (SMALL, 100_000) if chosen.quick else (SMALL, 100_000, MILLION):
        source = str(census_file(folder / f"census-{people}", people, SEED).resolve())
        key = folder.resolve() / f"census-{people}.key"  # other people's would count as told before
        spec = census_spec(folder / f"census-{people}.toml", source, tables, key)
        specs.append((f"census, {people:,}", spec))
    for name in ("nist", "sd2011"):
        if reason := missing(name, getattr(chosen, name)):
            print(f"({name}: {reason})")
        else:
            specs.append((name, shipped_spec(name, getattr(chosen, name), folder)))
    rows = []
    for name, path in specs:
        spec, out = read_spec(str(path)), folder / "release.duckdb"
        repeat = 1 if chosen.quick or f"{MILLION:,}" in name else 2
        floor, n_rows = floor_of(spec.source.path, spec.tables, null_spellings(spec), 2)
        words = ("build", str(path), "-o", str(out), "--force")
        runs = [timed(*words) for _ in range(repeat)]
        best = min(runs, key=lambda one: one["seconds"])
        columns = {column for table in spec.tables for column in table}
        shown = [name, f"{n_rows:,}", len(spec.tables), len(columns), f"{best['seconds']:.1f}"]
        memory, size = max(one["memory"] for one in runs), out.stat().st_size
        shown += [f"{best['seconds'] / floor:.1f}", f"{memory / 1e9:.1f}", f"{size / 1e6:.1f}"]
        rows.append(shown)
        print(*shown, sep="; ", flush=True)
    heads = ["data", "rows", "tables", "columns", "seconds", "times GROUP BYs", "peak GB", "MB"]
    text = markdown(heads, rows)
    keep(chosen, "bench", "./scripts/bench", text)


# --- one table added, and SynDiffix


def content_hash(path: Path) -> str:
    with engine.open(path) as release:
        return release.content_hash


def add() -> None:
    """One 3-column table added over a full build. An addition counts only if it has the content hash of the build."""
    reader = parser(add.__doc__, prog="./scripts/bench add", folder=PLACE)
    reader.add_argument("--data", default="nist", choices=("nist", "sd2011"))
    reader.add_argument("--repeat", type=int, default=2, help="runs each; the quickest counts")
    chosen = reader.parse_args()
    path = shipped_spec(chosen.data, None, chosen.folder)
    spec, out = read_spec(str(path)), chosen.folder / "add.duckdb"
    table = [columns for columns in spec.tables if len(columns) == 3][-1]  # no other depends on it
    full = ("build", str(path), "-o", str(out), "--force")
    timed(*full)  # so that kernels are compiled and the journal knows the data
    built, added = [], []
    for _ in range(chosen.repeat):
        built.append(timed(*full))
        wanted = content_hash(out)
        engine.drop(out, [table], spec=spec).close()
        if content_hash(out) == wanted:
            raise SystemExit(f"{', '.join(table)} was not taken out")
        added.append(timed("add", str(out), "--spec", str(path)))
        if content_hash(out) != wanted:
            raise SystemExit("the release with the table added is not that of a full build")
    (b, b_cpu), (a, a_cpu) = (
        (min(one["seconds"] for one in runs), min(one["cpu"] for one in runs))
        for runs in (built, added)
    )
    rows = [
        [f"full build, {len(spec.tables)} tables", f"{b:.2f}", f"{b_cpu:.2f}"],
        ["one 3-column table added", f"{a:.2f}", f"{a_cpu:.2f}"],
        ["added / full build", f"1/{b / a:.1f}", f"1/{b_cpu / a_cpu:.1f}"],
    ]
    text = markdown(["what", "seconds", "CPU seconds"], rows)
    keep(chosen, "bench-add", "./scripts/bench add", text)


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
    path = shipped_spec("nist", chosen.nist, chosen.folder)
    spec, out = read_spec(str(path)), chosen.folder / "syndiffix.duckdb"
    cpu = timed("build", str(path), "-o", str(out), "--force")["cpu"]
    at = np.random.default_rng(chosen.seed).choice(len(spec.tables), chosen.tables, replace=False)
    tables = [spec.tables[i] for i in sorted(at)]
    words = [str(chosen.python), "-c", REFERENCE, spec.source.path, '["N"]', json.dumps(tables)]
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    if done.returncode:
        why = (done.stderr.strip().splitlines() or ["no reason given"])[-1]
        sys.exit(f"{chosen.python}: SynDiffix fails ({why}); version 1.0.8 wants pandas below 3")
    theirs = [json.loads(line)[0] for line in done.stdout.splitlines()]
    each, own = sum(theirs) / len(theirs), cpu / len(spec.tables)
    rows = [[", ".join(table), f"{s:.2f}"] for table, s in zip(tables, theirs, strict=True)]
    rows += [
        [f"SynDiffix, mean of {len(tables)} tables", f"{each:.2f}"],
        [f"ours, build of {len(spec.tables)} tables: one of them", f"{own:.4f}"],
        ["times", f"{each / own:.0f}"],
    ]
    text = markdown(["table", "CPU seconds"], rows)
    keep(chosen, "bench-syndiffix", "./scripts/bench syndiffix", text)


# --- answers


def milliseconds(work: Callable[[], object]) -> tuple[float, Any]:
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
    keep(chosen, "bench-sql", "./scripts/bench sql", text)


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
    keep(chosen, "bench-intervals", "./scripts/bench intervals", text)


# --- a small build beside its imports, one replicate, entities with many rows

STAYS = """[release]
title = "Stays of a simulated hospital"
vintage = "1"
key = "hospital.key"
unit = "stays"
[source]
path = "stays.parquet"
entities = ["patient"]
[privacy]
max_rows = 16
accept_risk = "simulated"
[[tables]]
all = 2
[[tables]]
columns = ["cost", "sex", "ward"]
[[tables]]
columns = ["admitted", "days", "ward"]
[[tables]]
columns = ["born", "sex", "ward"]
"""
REPLICATE = ("AGEP", "EDU", "SEX")


def replicate(path: str) -> float:
    """Milliseconds of one replicate: measured and fitted again, in process; the median of all that an answer takes."""
    import engine.fit.replay
    from queries.intervals.replays import replays

    real, given = engine.fit.replay.replay, []

    def kept(*arguments: Any) -> Any:
        given.append(arguments)
        return real(*arguments)

    engine.fit.replay.replay = kept
    with engine.open(path) as release:
        replays(release, REPLICATE)
    return float(np.median([milliseconds(partial(real, *one))[0] for one in given]))


def core() -> None:
    """SD2011's build over its imports; a replicate of a NIST table; a hospital of a million stays."""
    reader = parser(core.__doc__, prog="./scripts/bench core", folder=PLACE / "core")
    chosen = reader.parse_args()
    folder, rows = chosen.folder.resolve(), []
    folder.mkdir(parents=True, exist_ok=True)
    if not missing("sd2011", None):
        path, out = shipped_spec("sd2011", None, folder), folder / "sd2011.duckdb"
        words = ("build", str(path), "-o", str(out), "--force")
        built = min(timed(*words)["seconds"] for _ in range(3))
        imports = [sys.executable, "-c", "import pandas, duckdb, numba"]
        took = [milliseconds(lambda: subprocess.run(imports, check=True))[0] for _ in range(3)]
        over = f"{1e3 * built / min(took):.1f}"
        rows.append([f"SD2011, {len(read_spec(str(path)).tables)} tables", f"{built:.1f} s", over])
    if not missing("nist", None):
        path, out = shipped_spec("nist", None, folder), folder / "replicate.duckdb"
        text = path.read_text("utf-8").split("[[tables]]")[0]
        path.write_text(f"{text}[[tables]]\ncolumns = {json.dumps(REPLICATE)}\n", "utf-8")
        shutil.rmtree(f"{out}.replays", ignore_errors=True)
        timed("build", str(path), "-o", str(out), "--force")
        each = in_process(replicate, str(out))
        rows.append([f"one replicate of {' x '.join(REPLICATE)}", f"{each:.1f} ms", ""])
    from intervals import hospital

    stays = hospital(200_000, MILLION)
    second = np.arange(len(stays)) * 7919 % 86_400
    stays["at"] = stays["admitted"] + second.astype("timedelta64[s]")
    stays.to_parquet(folder / "stays.parquet")
    kinds = dict.fromkeys(("sex", "ward"), "category") | {"diagnosis": "text"}
    kinds |= {"admitted": "date", "at": "timestamp"}
    columns = "".join(f'[columns.{c}]\nkind = "{kinds.get(c, "integer")}"\n' for c in stays.columns)
    (folder / "stays.toml").write_text(STAYS.replace("[[tables]]", columns + "[[tables]]", 1))
    for left in folder.glob("hospital.key*"):
        left.unlink()
    engine.new_key(folder / "hospital.key")
    out = folder / "stays.duckdb"
    run = timed("build", str(folder / "stays.toml"), "-o", str(out), "--force")
    figures = f"{run['cpu']:.0f} processor s, {run['memory'] / 1e9:.1f} GB"
    n = len(read_spec(str(folder / "stays.toml")).tables)
    rows.append([f"hospital, {MILLION:,} stays, {n} tables", figures, ""])
    text = markdown(["what", "took", "times imports of pandas, duckdb and numba"], rows)
    keep(chosen, "bench-core", "./scripts/bench core", text)


# --- many rows, DuckDB against Spark


def parts_of(folder: Path, rows: int) -> str:
    """The glob of the part files of so many people, which are drawn where they are not there yet.

    Parts belong to blocks of one large census: more rows are the same people and others, and no id occurs twice.
    """
    parts, place = folder / "parts", folder / f"rows-{rows}"
    parts.mkdir(parents=True, exist_ok=True)
    place.mkdir(exist_ok=True)
    with duckdb.connect(config={"memory_limit": "800MB", "threads": 1}) as con:
        con.execute("SET enable_progress_bar = false")
        for block in range(-(-rows // BLOCK_PEOPLE)):
            n = min(BLOCK_PEOPLE, rows - block * BLOCK_PEOPLE)
            part = parts / f"{block:04}-{n}.parquet"
            if not part.exists():
                drawn = draw_people_of(block, people=100_000_000, seed=SEED)
                new = part.with_suffix(".new")
                write_part(con, CENSUS_COLUMNS, {name: v[:n] for name, v in drawn.items()}, new)
                new.rename(part)
            if not (place / part.name).exists():
                os.link(part, place / part.name)
    return str(place / "*.parquet")


def scale() -> None:
    """The same release from rows of ever more people, by DuckDB and by Spark on this machine.

    12 columns of a simulated census, each and every pair of them and 20 tables of three columns, from part files, which
    stay in the folder. Memory is that of all processes together, Java's too; disk is the most seen of scratch, kept
    rows and the release. Both engines must give the same content hash.
    """
    reader = parser(scale.__doc__, prog="./scripts/bench scale", folder=PLACE / "scale")
    sizes = (100_000, MILLION, TEN_MILLION)
    reader.add_argument("--rows", type=int, nargs="+", default=sizes)
    most = "most rows that Spark builds; 0: no Spark"
    reader.add_argument("--spark-rows", type=int, default=TEN_MILLION, help=most)
    reader.add_argument("--memory", help="of DuckDB, as in a spec")
    chosen = reader.parse_args()
    tables = [*sets_of(12, 1, 2), *sets_of(7, 3)[:20]]
    rows = []
    for n in chosen.rows:
        source, hashes = parts_of(chosen.folder.resolve(), n), set()
        for name in ("duckdb", "spark") if n <= chosen.spark_rows else ("duckdb",):
            work = chosen.folder / "work"
            shutil.rmtree(work, ignore_errors=True)
            (work / "scratch").mkdir(parents=True)
            settings = {"engine": name} | ({"memory": chosen.memory} if chosen.memory else {})
            settings |= {"master": "local[2]"} if name == "spark" else {}
            key, out = chosen.folder.resolve() / "bench.key", work / "r.duckdb"
            spec = census_spec(work / "r.toml", source, tables, key, **settings)
            run = timed(
                "build", str(spec), "-o", str(out), folder=work, scratch=work / "scratch",
                cores=2 if name == "spark" else None,
            )  # fmt: skip
            hashes.add(content_hash(out))
            shown = [f"{run['seconds']:.1f}", f"{run['cpu']:.0f}"]
            shown += [f"{run['memory'] / 1e9:.2f}", f"{run['disk'] / 1e9:.2f}"]
            rows.append([f"{n:,}", name, *shown])
            print(*rows[-1], sep="; ", flush=True)
        if len(hashes) > 1:
            raise SystemExit(f"{n:,} rows: the content hashes differ")
    text = markdown(["rows", "engine", "seconds", "processor s", "peak GB", "disk GB"], rows)
    keep(chosen, "bench-scale", "./scripts/bench scale", text)


CASES = {case.__name__: case for case in (sql, intervals, add, syndiffix, core, scale)}

if __name__ == "__main__":
    if sys.argv[1:2] and sys.argv[1] in CASES:
        CASES[sys.argv.pop(1)]()
    else:
        builds()
