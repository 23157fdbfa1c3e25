"""The cost of builds in series: against rows, tables and columns; those of NIST and SD2011. Called by ./scripts/bench.

Prints a table and what is to be reached, and writes `bench.json` and `bench.svg`. Each line has its floor from the
same run: `bench_cost.floor_of`.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import shutil
from dataclasses import asdict, dataclass
from itertools import combinations
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
from bench_cost import build_of, check, floor_of
from bench_picture import draw
from measured import FOLDER, add_option, command_line, markdown, record

from engine.key_files import new_key
from engine.simulation import simulate_census
from engine.simulation.columns import CENSUS_COLUMNS
from engine.spec import read_spec

COLUMNS = (
    *("region", "age", "sex", "education", "activity", "tenure", "health", "income"),
    *("marital_status", "hours", "household_type", "carer", "ethnic_group", "disability"),
    *("rent_weekly", "industry", "relation", "travel_km", "district", "birth_country"),
)
"""Of the simulated census, in the order in which the series takes them."""
SMALL, MILLION, TEN_MILLION = 27_253, 1_000_000, 10_000_000
ROWS, TABLES, N_COLUMNS = (SMALL, 100_000, MILLION), (12, 45, 78, 160, 298), (4, 8, 12, 16, 20)
QUICK_ROWS, QUICK_TABLES, QUICK_COLUMNS = (SMALL, 100_000), (12, 78), (4, 8)
WIDEST_POOL = 12
"""Columns that the series of tables draws on."""
SEED = 7
ROOT = Path(__file__).resolve().parents[1]
PEAKS = ("peak_bytes", "measure_peak_bytes", "fit_peak_bytes")


@dataclass(frozen=True, kw_only=True)
class Line:
    """One build and its floor."""

    series: str
    rows: int
    tables: int
    columns: int
    seconds: float
    floor_seconds: float
    first_table_seconds: float
    measure_cpu_seconds: float
    fit_cpu_seconds: float
    peak_bytes: int
    measure_peak_bytes: int
    fit_peak_bytes: int
    release_bytes: int
    checked: int

    @property
    def ratio(self) -> float:
        """Times the floor."""
        return self.seconds / self.floor_seconds


def row_tables() -> list[list[str]]:
    """The column sets of the series of rows: 1-, 2- and 3-way, the same at every size."""
    singles = [[name] for name in COLUMNS[:8]]
    pairs = [list(pair) for pair in combinations(COLUMNS[:8], 2)]
    triples = [list(triple) for triple in combinations(COLUMNS[:7], 3)]
    return [*singles, *pairs, *triples, ["education", "income", "sex"]]


def many_tables(n: int) -> list[list[str]]:
    """The first n column sets, narrower before wider, of the first columns."""
    pool = COLUMNS[:WIDEST_POOL]
    return [list(s) for width in (1, 2, 3) for s in combinations(pool, width)][:n]


def pair_tables(n_columns: int) -> list[list[str]]:
    """Every column and every pair of the first columns."""
    pool = COLUMNS[:n_columns]
    return [list(s) for width in (1, 2) for s in combinations(pool, width)]


class Bench:
    """Makes sources and keys in a folder, builds, checks, and keeps the lines."""

    def __init__(self, folder: Path, repeat: int) -> None:
        self._folder, self._repeat = folder, repeat
        self.lines: list[Line] = []
        folder.mkdir(parents=True, exist_ok=True)
        self._key = folder / "bench.key"
        if not self._key.exists():
            new_key(self._key)

    def census(self, series: str, rows: int, tables: list[list[str]]) -> None:
        """Build tables of a simulated census."""
        place = self._folder / f"census-{rows}"
        if not place.exists():
            simulate_census(place, people=rows, seed=SEED)
        columns = sorted({name for table in tables for name in table})
        job = {"source": str(place / "people.parquet"), "columns": columns, "tables": tables}
        public = {c.name for c in CENSUS_COLUMNS if c.public}
        self._add(series, rows, job, tables, public, nulls=())

    def nist(self, data: Path) -> None:
        """Build the 438 tables of at most four columns of the NIST workload."""
        path = nist_spec(self._folder / "nist.toml", data, self._key)
        self._study("nist", path, data / "national2019.csv", nulls=("N",))

    def sd2011(self, data: Path) -> None:
        """Build the 142 tables of the survey that R's synthpop ships."""
        text = (ROOT / "releases" / "sd2011.toml").read_text()
        text = text.replace("sd2011/data", str(data.resolve()))
        path = self._folder / "sd2011.toml"
        path.write_text(text.replace("sd2011/sd2011.key", str(self._key.resolve())))
        self._study("sd2011", path, data / "SD2011.csv", nulls=("",))

    def _study(self, series: str, path: Path, data: Path, *, nulls: tuple[str, ...]) -> None:
        """Build what a spec lists."""
        spec = read_spec(path)
        tables = [list(columns) for columns in spec.tables]
        with open(data, encoding="utf-8") as lines:
            rows = sum(1 for _ in lines) - 1
        public = {column.name for column in spec.columns if column.public}
        columns = sorted({name for table in tables for name in table})
        job = {"spec": str(path), "source": str(data), "columns": columns}
        self._add(series, rows, job, tables, public, nulls=nulls)

    def _add(
        self,
        series: str,
        rows: int,
        job: dict[str, Any],
        tables: list[list[str]],
        public: set[str],
        *,
        nulls: tuple[str, ...],
    ) -> None:
        """Time the floor, build, check; the quickest of the repeats counts, the largest memory."""
        out = self._folder / "release.duckdb"
        job |= {"key": str(self._key), "out": str(out)}
        repeat = self._repeat if rows < MILLION else 1
        floor, truth = floor_of(job["source"], tables, nulls=nulls, repeat=max(repeat, 2))
        builds, checked = [], 0
        for _ in range(repeat):
            builds.append(build_of(job, self._folder))
            checked = check(out, truth, public)  # a wrong release has no time
        best = min(builds, key=lambda one: one["seconds"])
        line = Line(
            series=series,
            rows=rows,
            tables=len(tables),
            columns=len(job["columns"]),
            seconds=best["seconds"],
            floor_seconds=floor,
            first_table_seconds=best["first_table_seconds"],
            measure_cpu_seconds=best["measure_cpu_seconds"],
            fit_cpu_seconds=best["fit_cpu_seconds"],
            **{name: max(int(one[name]) for one in builds) for name in PEAKS},
            release_bytes=out.stat().st_size,
            checked=checked,
        )
        if not self.lines:
            print(HEAD)
        self.lines.append(line)
        print(spelled(line), flush=True)
        out.unlink()
        out.with_name(out.name + ".manifest.json").unlink(missing_ok=True)


def nist_spec(path: Path, data: Path, key: Path, *, tree: Path = ROOT) -> Path:
    """Write the spec of NIST's workload, as a version of the project has it, for the data and a key of this machine."""
    text = (tree / "releases" / "nist.toml").read_text()
    text = text.replace("nist/data", str(data.resolve()))
    path.write_text(text.replace("nist/nist.key", str(key.resolve())))
    return path


HEAD = (
    f"{'series':8} {'rows':>10} {'tables':>6} {'columns':>7} {'seconds':>8} {'floor':>7} {'ratio':>6} "
    f"{'CPU measure':>11} {'CPU fit':>8} {'peak MB':>8} {'measure':>8} {'fit':>8} {'file MB':>8} {'checked':>8}"
)


def spelled(line: Line) -> str:
    """One line of the table."""
    return (
        f"{line.series:8} {line.rows:>10,} {line.tables:>6} {line.columns:>7} {line.seconds:>8.2f} "
        f"{line.floor_seconds:>7.2f} {line.ratio:>6.1f} {line.measure_cpu_seconds:>11.2f} "
        f"{line.fit_cpu_seconds:>8.2f} {line.peak_bytes / 1e6:>8,.0f} {line.measure_peak_bytes / 1e6:>8,.0f} "
        f"{line.fit_peak_bytes / 1e6:>8,.0f} {line.release_bytes / 1e6:>8.1f} {line.checked:>8,}"
    )


def targets(lines: list[Line]) -> list[tuple[str, float, float]]:
    """What is to be reached, and what was: (what, at most, got)."""
    by_rows = {line.rows: line for line in lines if line.series == "rows"}
    out = []
    if {SMALL, MILLION} <= by_rows.keys():
        times = by_rows[MILLION].seconds / by_rows[SMALL].seconds
        out.append(("1 million rows against 27 thousand, times", 4.0, times))
        out.append(("1 million rows, peak memory in GB", 2.0, by_rows[MILLION].peak_bytes / 1e9))
    for rows, most in ((SMALL, 12.0), (MILLION, 4.0)):
        if rows in by_rows:
            out.append((f"{rows:,} rows, times the plain GROUP BYs", most, by_rows[rows].ratio))
    if TEN_MILLION in by_rows:
        out.append(
            ("10 million rows, peak memory in GB", 4.0, by_rows[TEN_MILLION].peak_bytes / 1e9)
        )
    for line in lines:
        if line.series == "nist":
            out.append((f"NIST's {line.tables} tables, seconds", 12.0, line.seconds))
            out.append(("... times the plain GROUP BYs", 8.0, line.ratio))
            out.append(("... file in MB", 60.0, line.release_bytes / 1e6))
        if line.series == "sd2011":
            what = f"SD2011's {line.tables} tables, times the plain GROUP BYs"
            out.append((what, 10.0, line.ratio))
    return out


def write(folder: Path, lines: list[Line], reached: list[tuple[str, float, float]]) -> None:
    """The figures as JSON, and the picture."""
    content = {
        "machine": {
            "cores": os.cpu_count(),
            "python": platform.python_version(),
            "numpy": np.__version__,
            "duckdb": duckdb.__version__,
        },
        "lines": [{**asdict(line), "ratio": line.ratio} for line in lines],
        "targets": [
            {"what": what, "at_most": most, "got": got, "reached": got <= most}
            for what, most, got in reached
        ],
    }
    (folder / "bench.json").write_text(json.dumps(content, indent=1) + "\n")
    (folder / "bench.svg").write_text(draw(content["lines"]))
    print(f"wrote {folder / 'bench.json'} and {folder / 'bench.svg'}")


def figures(lines: list[Line], reached: list[tuple[str, float, float]]) -> str:
    """The figures in Markdown: a line a build, and what was to be reached."""
    heads = ["series", "rows", "tables", "columns", "seconds", "times GROUP BYs", "peak GB", "MB"]
    rows = [
        [
            *(line.series, f"{line.rows:,}", line.tables, line.columns, f"{line.seconds:.1f}"),
            *(
                f"{line.ratio:.1f}",
                f"{line.peak_bytes / 1e9:.1f}",
                f"{line.release_bytes / 1e6:.1f}",
            ),
        ]
        for line in lines
    ]
    goals = [
        [what, f"{got:.2f}", f"<= {most:g}", "yes" if got <= most else "no"]
        for what, most, got in reached
    ]
    tables = [markdown(heads, rows)]
    tables += [markdown(["what", "figure", "reach", "reached"], goals)] if goals else []
    return "\n\n".join(tables)


def numbers(text: str) -> tuple[int, ...]:
    """Numbers of an option, such as 4,8,12; none where it is empty."""
    return tuple(int(word) for word in text.replace("_", "").split(",") if word)


def options() -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(prog="./scripts/bench")
    parser.add_argument("--quick", action="store_true", help="few and small builds")
    parser.add_argument("--full", action="store_true", help="10 million rows too")
    parser.add_argument("--rows", type=numbers, help="sizes of the census")
    parser.add_argument("--tables", type=numbers, help="numbers of tables")
    parser.add_argument("--columns", type=numbers, help="numbers of columns")
    parser.add_argument("--people", type=int, default=SMALL, help="people of the last two series")
    parser.add_argument("--nist", default="../shared/nist", help="folder; empty: leave it out")
    parser.add_argument(
        "--sd2011", default="../shared/synthpop", help="folder; empty: leave it out"
    )
    parser.add_argument("--repeat", type=int, default=2, help="builds each; the quickest counts")
    parser.add_argument("--folder", type=Path, default=Path("releases/bench"))
    add_option(parser)
    return parser.parse_args()


def main() -> None:
    """Run the series."""
    chosen = options()
    quick = (QUICK_ROWS, QUICK_TABLES, QUICK_COLUMNS) if chosen.quick else (ROWS, TABLES, N_COLUMNS)
    given = (chosen.rows, chosen.tables, chosen.columns)
    rows, tables, columns = (q if g is None else g for g, q in zip(given, quick, strict=True))
    if chosen.full:
        rows = (*rows, TEN_MILLION)
    bench = Bench(chosen.folder, chosen.repeat)
    for n in rows:
        bench.census("rows", n, row_tables())
    for n in tables:
        bench.census("tables", chosen.people, many_tables(n))
    for n in columns:
        bench.census("columns", chosen.people, pair_tables(n))
    if chosen.nist and (Path(chosen.nist) / "national2019.csv").exists():
        bench.nist(Path(chosen.nist))
    if chosen.sd2011 and (Path(chosen.sd2011) / "SD2011.csv").exists():
        bench.sd2011(Path(chosen.sd2011))
    reached = targets(bench.lines)
    for what, most, got in reached:
        print(
            f"{what}: {got:.2f}, to reach {most:g}: {'reached' if got <= most else 'NOT reached'}"
        )
    write(chosen.folder, bench.lines, reached)
    if chosen.record:
        text = figures(bench.lines, reached)
        record("bench", command_line("./scripts/bench"), text)
        shutil.copy(chosen.folder / "bench.svg", FOLDER.parent / "bench.svg")


if __name__ == "__main__":
    main()
