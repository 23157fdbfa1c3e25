"""What one build costs, what the floor costs, and whether the release is right. Used by `bench_series.py`.

The floor: the same source in a plain in-memory DuckDB table, one `GROUP BY` with `count(*)` for each published
column set, every answer fetched. It does what no private release can do without: count. Memory is the resident
memory of the build and of all its child processes together, looked at every few hundredths of a second.
"""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys
import threading
import time
from itertools import count
from pathlib import Path
from typing import Any

import duckdb

from engine.cli import ENVIRONMENT
from engine.schema import literal, quoted

LOOK_EVERY = 0.03
FILES_EVERY = 10
"""Files are looked at every so many looks at memory."""
SD = 2**0.5
"""Noise of a count where each entity has one row: two layers of sd 1."""
FAR = 7
"""Standard deviations that no count may be off by."""


def floor_of(
    source: str, tables: list[list[str]], *, nulls: tuple[str, ...], repeat: int
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
        truth = {
            name: dict(
                con.execute(
                    f"SELECT CAST({quoted(name)} AS VARCHAR), count(*) FROM source GROUP BY ALL"
                ).fetchall()
            )
            for name in wanted
        }
    return min(seconds), truth


def build_of(job: dict[str, Any], place: Path, *, tree: Path | None = None) -> dict[str, float]:
    """Build once in a process of its own: seconds from start to end, peak memory, and what it tells.

    Parameters
    ----------
    tree : Path or None
        A folder with another version of all files of the project, which builds then; None: this one.
    """
    out = Path(job["out"])
    for left in (out, out.with_name(out.name + ".manifest.json")):
        left.unlink(missing_ok=True)
    (place / "job.json").write_text(json.dumps(job))
    script = Path(__file__).with_name("bench_build.py")
    environment = ENVIRONMENT | os.environ  # as the command has it
    if tree is not None:
        script = tree / "scripts" / "bench_build.py"
        environment["PYTHONPATH"] = str(tree)  # before what is installed
    start = time.perf_counter()
    with subprocess.Popen(
        [sys.executable, str(script), str(place / "job.json")],
        stdout=subprocess.PIPE,
        text=True,
        env=environment,
    ) as child:
        peak = Peak(child.pid)
        told = child.stdout.read() if child.stdout else ""
        failed = child.wait()
        seconds = time.perf_counter() - start
        peak.stop()
    if failed:
        raise SystemExit(f"the build of {out} failed")
    memory = {
        "peak_bytes": peak.together,
        "measure_peak_bytes": peak.own,
        "fit_peak_bytes": peak.children,
    }
    return {"seconds": seconds, **memory, **json.loads(told)}


class Peak(threading.Thread):
    """Looks at the memory of a process and its descendants until told to stop.

    The most bytes seen at a time: `together`, in the process itself (`own`), in its descendants (`children`); and, of
    files below a folder, of working data (`on_disk`) and of what was spilled (`spilled`).
    """

    def __init__(self, pid: int, folder: Path | None = None) -> None:
        super().__init__(daemon=True)
        self._pid, self._folder, self._ended = pid, folder, threading.Event()
        self.together = self.own = self.children = self.on_disk = self.spilled = 0
        self.start()

    def run(self) -> None:
        look = _from_proc if Path("/proc/self/status").exists() else _from_ps
        looks = count()
        while not self._ended.wait(LOOK_EVERY):
            own, children = look(self._pid)
            self.together = max(self.together, own + children)
            self.own, self.children = max(self.own, own), max(self.children, children)
            if self._folder is not None and not next(looks) % FILES_EVERY:
                working, spilled = _files_below(self._folder)
                self.on_disk = max(self.on_disk, working + spilled)
                self.spilled = max(self.spilled, spilled)

    def stop(self) -> None:
        """Look no more."""
        self._ended.set()
        self.join()


def _files_below(folder: Path) -> tuple[int, int]:
    """Bytes of files below a folder: of working databases, of all others."""
    sizes = {True: 0, False: 0}
    for place, _, names in os.walk(folder):
        for name in names:
            with contextlib.suppress(OSError):  # it is gone meanwhile
                held = Path(place, name).lstat().st_size
                sizes[".duckdb" in name] += held
    return sizes[True], sizes[False]


def _from_proc(pid: int) -> tuple[int, int]:
    """Resident bytes of a process, and of all its descendants, where the system has /proc."""
    try:
        status = Path(f"/proc/{pid}/status").read_text()
        children = [
            int(word)
            for listed in Path(f"/proc/{pid}/task").glob("*/children")
            for word in listed.read_text().split()
        ]
    except (FileNotFoundError, ProcessLookupError):  # it has ended meanwhile
        return 0, 0
    kilobytes = [line.split()[1] for line in status.splitlines() if line.startswith("VmRSS:")]
    return sum(int(k) * 1024 for k in kilobytes), sum(sum(_from_proc(c)) for c in children)


def _from_ps(pid: int) -> tuple[int, int]:
    """The same by the command `ps`."""
    listed = subprocess.run(
        ["ps", "-A", "-o", "pid=,ppid=,rss="], capture_output=True, text=True, check=True
    )
    rows = [tuple(map(int, line.split())) for line in listed.stdout.splitlines()]
    family, children = {pid}, 0
    for own, parent, kilobytes in sorted(rows):
        if parent in family:
            family.add(own)
            children += kilobytes * 1024
    return sum(kilobytes * 1024 for own, _, kilobytes in rows if own == pid), children


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
                    _check_margin(
                        con, name, physical[narrow], narrow, 0 if len(narrow) == 1 else gap
                    )
                    done += 1
    return done


def _check_counts(con: Any, name: str, column: str, truth: dict[Any, int], sd: float) -> int:
    """One-way counts of public codes lie within the noise. Gives the number of codes."""
    shown = dict(
        con.execute(
            f"SELECT CAST({quoted(column)} AS VARCHAR), sum(n) FROM tables.{name} GROUP BY 1"
        ).fetchall()
    )
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
