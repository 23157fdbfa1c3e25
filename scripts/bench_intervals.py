"""What noise intervals cost: the same statements with and without them, in processes of their own, in turn.

Usage: ./scripts/bench intervals [RELEASE ...] [--repeat N]     (default releases/demo/census.duckdb of ./scripts/demo)
Of each release the largest table of three columns with numbers is asked: a count, the same again, another count, a
mean, another mean. Every answer is fetched. Prints Markdown: medians of both sides and of their differences, in
milliseconds.
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
import time
from pathlib import Path

from measured import add_option, command_line, markdown, record

from engine.schema import ColumnSet, quoted
from queries.release import Release, open_release

DEMO = Path("releases/demo/census.duckdb")
NUMBERS = ("BIGINT", "INTEGER", "DOUBLE", "DECIMAL")
KINDS = ("first count", "the same again", "another count", "first mean", "another mean")


def largest(release: Release) -> tuple[ColumnSet, str]:
    """The table of three columns with most rows, and a column of it that holds numbers."""
    found = []
    for table in release.tables:
        numbers = [c for c in table if release.columns[c].startswith(NUMBERS)]
        if len(table) == 3 and numbers:
            listed = ", ".join(map(quoted, table))
            rows = release.sql(f"SELECT {listed} FROM {release.logical_name} GROUP BY ALL").rows
            found.append((len(rows), table, numbers[0]))
    if not found:
        raise SystemExit(f"{release.path}: no table of three columns, one of them of numbers")
    _, table, of = max(found)
    return table, of


def statements(name: str, table: ColumnSet, of: str) -> tuple[str, ...]:
    """One of each of `KINDS`."""
    number, (a, b) = quoted(of), (quoted(c) for c in table if c != of)
    count = f"SELECT {', '.join(map(quoted, table))}, count(*) FROM {name} GROUP BY ALL"
    means = f"SELECT {a}, {b}, avg({number}) FROM {name}"
    some = f"WHERE {number} > 20 GROUP BY ALL"
    return (
        count,
        count,
        f"SELECT {a}, {b}, count(*) FROM {name} {some}",
        f"{means} GROUP BY ALL",
        f"{means} {some}",
    )


def check(release: Release, texts: tuple[str, ...]) -> None:
    """Refuse to time answers that are not the same figures with and without intervals."""
    for text in texts:
        wanted, got = (release.sql(text, intervals=i) for i in (False, True))
        n = len(wanted.columns)
        if sorted(map(repr, wanted.rows)) != sorted(repr(tuple(row[:n])) for row in got.rows):
            raise SystemExit(f"not the figures that are shown without intervals: {text}")


def asked(path: Path, texts: list[str], *, intervals: bool) -> list[float]:
    """Milliseconds of each statement, of a release that has answered one before."""
    took = []
    with open_release(path) as release:
        release.sql(f"SELECT count(*) FROM {release.logical_name}")
        for text in texts:
            start = time.perf_counter()
            _ = release.sql(text, intervals=intervals).rows
            took.append(1e3 * (time.perf_counter() - start))
    return took


def in_process(path: Path, texts: tuple[str, ...], *, intervals: bool) -> list[float]:
    """`asked` in a process of its own."""
    job = json.dumps([str(path), texts, intervals])
    command = [sys.executable, __file__, "--job", job]
    out = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    took: list[float] = json.loads(out)
    return took


def compared(path: Path, repeat: int) -> list[list[object]]:
    """Rows of the table: one a kind of statement."""
    with open_release(path) as release:
        table, of = largest(release)
        texts = statements(release.logical_name, table, of)
        check(release, texts)
    without, beside = [], []
    for _ in range(repeat):
        without.append(in_process(path, texts, intervals=False))
        beside.append(in_process(path, texts, intervals=True))
    rows: list[list[object]] = []
    by_kind = zip(KINDS, zip(*without, strict=True), zip(*beside, strict=True), strict=True)
    for kind, one, other in by_kind:
        added = statistics.median(b - a for a, b in zip(one, other, strict=True))
        figures = (statistics.median(one), statistics.median(other), added)
        rows.append([" x ".join(table), kind, *(f"{figure:.1f}" for figure in figures)])
    return rows


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("releases", nargs="*", default=[DEMO], type=Path)
    parser.add_argument("--repeat", type=int, default=7)
    parser.add_argument("--job", help=argparse.SUPPRESS)
    add_option(parser)
    chosen = parser.parse_args()
    if chosen.job:
        path, texts, intervals = json.loads(chosen.job)
        print(json.dumps(asked(Path(path), texts, intervals=intervals)))
        return
    rows = [row for path in chosen.releases for row in compared(path, chosen.repeat)]
    heads = ["table", "statement", "without intervals, ms", "with, ms", "added, ms"]
    text = markdown(heads, rows)
    print(text)
    if chosen.record:
        record("bench-intervals", command_line("./scripts/bench intervals"), text)


if __name__ == "__main__":
    main()
