"""What routing adds to a statement: the same SQL through a release, and on the table itself by plain DuckDB.

Usage: ./scripts/bench sql [RELEASE] [--repeat N]     (default releases/demo/census.duckdb, as ./scripts/demo leaves it)
Both sides are asked in turn in one process with one thread each, every answer is fetched, and answers must be equal.
Prints Markdown: median of each, and of their differences, in milliseconds.
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Callable
from pathlib import Path

import duckdb
from measured import add_option, command_line, markdown, record

from engine.schema import ColumnSet, quoted
from engine.store import table_name
from queries.release import Release, open_release


def statements(release: Release) -> list[str]:
    """One-way and two-way counts, filters, windows, pivots over columns that the release has together."""
    out = [
        f"SELECT {quoted(c)}, count(*) FROM data GROUP BY ALL" for (c,) in narrow(release, 1)[:4]
    ]
    for a, b in (tuple(map(quoted, t)) for t in narrow(release, 2)[:4]):
        out += [
            f"SELECT {a}, {b}, count(*) FROM data GROUP BY ALL ORDER BY ALL",
            f"SELECT {a}, count(DISTINCT {b}) FROM data WHERE {b} IS NOT NULL GROUP BY {a} ORDER BY ALL",
            f"SELECT {a}, {b}, 100.0 * count(*) / sum(count(*)) OVER (PARTITION BY {a}) FROM data "
            f"GROUP BY {a}, {b} ORDER BY ALL",
            f"WITH t AS (SELECT * FROM data) SELECT {a}, max({b}) FROM t GROUP BY {a} ORDER BY ALL",
        ]
    return out


def narrow(release: Release, width: int) -> list[ColumnSet]:
    """The released tables of one width."""
    return [t for t in release.tables if len(t) == width]


def milliseconds(work: Callable[[], object]) -> tuple[float, object]:
    """Time of one call, and what it gave."""
    start = time.perf_counter()
    gave = work()
    return 1e3 * (time.perf_counter() - start), gave


def plain_view(con: duckdb.DuckDBPyConnection, release: Release, table: ColumnSet) -> None:
    """Put the table itself under the logical name, blank where it has no such column."""
    listed = ", ".join(
        quoted(c) if c in table else f"CAST(NULL AS {type_}) AS {quoted(c)}"
        for c, type_ in release.columns.items()
    )
    con.execute(
        f"CREATE OR REPLACE TEMP VIEW data AS SELECT {listed} FROM main.{quoted(table_name(table))}"
    )


def measured(release: Release, sql: str, repeat: int) -> tuple[float, float, float]:
    """Medians: plain, routed, and the difference of each pair."""
    table = release.sql(sql).table
    plain, routed = [], []
    with duckdb.connect(str(release.path), read_only=True, config={"threads": 1}) as con:
        if table is not None:
            plain_view(con, release, table)
        for i in range(repeat + 3):
            a, wanted = milliseconds(lambda: con.execute(sql).fetchall())
            b, got = milliseconds(lambda: release.sql(sql).rows)
            if sorted(map(repr, wanted)) != sorted(map(repr, got)):
                raise SystemExit(f"not the answer of the table itself: {sql}")
            if i >= 3:
                plain.append(a)
                routed.append(b)
    added = [b - a for a, b in zip(plain, routed, strict=True)]
    return statistics.median(plain), statistics.median(routed), statistics.median(added)


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser()
    parser.add_argument("release", nargs="?", default="releases/demo/census.duckdb", type=Path)
    parser.add_argument("--repeat", type=int, default=25)
    add_option(parser)
    chosen = parser.parse_args()
    with open_release(chosen.release, threads=1) as release:
        if release.logical_name != "data":
            raise SystemExit("the statements here ask over `data`")
        rows = [(sql, *measured(release, sql, chosen.repeat)) for sql in statements(release)]
    medians = [statistics.median(column) for column in zip(*(row[1:] for row in rows), strict=True)]
    named = [(f"`{sql[:80]}`", *figures) for sql, *figures in rows]
    shown = [
        [what, *(f"{f:.2f}" for f in figures)] for what, *figures in (*named, ("median", *medians))
    ]
    text = markdown(
        ["statement", "on the table, ms", "through the release, ms", "added, ms"], shown
    )
    print(text)
    if chosen.record:
        record("bench-sql", command_line("./scripts/bench sql"), text)


if __name__ == "__main__":
    main()
