"""What one more table costs: `tablepack add` of a 3-column table over a full build, NIST's tables. ./scripts/bench add.

The full release is built once untimed, so that loops are compiled and the journal knows the data; then builds and
additions take turns, each as a command of its own. An addition is timed only if its release has the content hash of the
full build.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path

from bench_series import nist_spec
from measured import add_option, command_line, markdown, record

import engine
from engine.key_files import new_key
from engine.schema import ColumnSet
from engine.spec import ReleaseSpec, read_spec

WIDTH = 3
"""Columns of the table that is added."""


@dataclass(frozen=True, kw_only=True)
class Took:
    """What a command took, with all processes it started: seconds, and processor seconds."""

    seconds: float
    cpu_seconds: float


def timed(*words: str) -> Took:
    """Run a command of tablepack."""
    before, start = os.times(), time.perf_counter()
    command = [sys.executable, "-c", "import sys; from engine.cli import main; sys.exit(main())"]
    done = subprocess.run([*command, *words], capture_output=True, text=True, check=False)
    seconds, after = time.perf_counter() - start, os.times()
    if done.returncode:
        raise SystemExit(f"tablepack {words[0]} failed: {done.stderr.strip()}")
    cpu = after.children_user + after.children_system - before.children_user
    return Took(seconds=seconds, cpu_seconds=cpu - before.children_system)


def content_hash(path: Path) -> str:
    """Of a release."""
    with engine.open(path) as release:
        return release.content_hash


def added_table(spec: ReleaseSpec) -> ColumnSet:
    """The table that is taken out and added: the last of its width, so that none hangs on the order of others."""
    found = [columns for columns in spec.tables if len(columns) == WIDTH]
    if not found:
        raise SystemExit(f"the spec has no table of {WIDTH} columns")
    return found[-1]


def compared(path: Path, folder: Path, repeat: int) -> tuple[Took, Took]:
    """The quickest full build and the quickest addition, in turn.

    Parameters
    ----------
    path : Path
        The spec of the full release.
    """
    spec, out = read_spec(str(path)), folder / "add.duckdb"
    full, table = ("build", str(path), "-o", str(out), "--force"), added_table(spec)
    timed(*full)
    builds, additions = [], []
    for _ in range(repeat):
        builds.append(timed(*full))
        wanted = content_hash(out)
        engine.drop(out, [table], spec=spec).close()
        if content_hash(out) == wanted:
            raise SystemExit(f"{', '.join(table)} was not taken out")
        additions.append(timed("add", str(out), "--spec", str(path)))
        if content_hash(out) != wanted:
            raise SystemExit("the release with the table added is not that of a full build")

    def quickest(runs: list[Took]) -> Took:
        return min(runs, key=lambda one: one.seconds)

    return quickest(builds), quickest(additions)


def figures(tables: int, build: Took, more: Took) -> str:
    """The figures in Markdown."""
    return markdown(
        ["what", "seconds", "CPU seconds"],
        [
            [f"full build, {tables} tables", f"{build.seconds:.2f}", f"{build.cpu_seconds:.2f}"],
            [f"one {WIDTH}-column table added", f"{more.seconds:.2f}", f"{more.cpu_seconds:.2f}"],
            [
                "added / full build",
                f"1/{build.seconds / more.seconds:.1f}",
                f"1/{build.cpu_seconds / more.cpu_seconds:.1f}",
            ],
        ],
    )


def main() -> None:
    """Build, add, and write what was found."""
    parser = argparse.ArgumentParser(prog="./scripts/bench add")
    parser.add_argument("--nist", type=Path, default=Path("../shared/nist"), help="folder")
    parser.add_argument("--spec", type=Path, help="of another release than NIST's")
    parser.add_argument("--repeat", type=int, default=2, help="runs each; the quickest counts")
    parser.add_argument("--folder", type=Path, default=Path("releases/bench"))
    add_option(parser)
    chosen = parser.parse_args()
    folder: Path = chosen.folder
    folder.mkdir(parents=True, exist_ok=True)
    path = chosen.spec
    if path is None:
        if not (key := folder / "add.key").exists():
            new_key(key)
        path = nist_spec(folder / "add.toml", chosen.nist, key)
    build, more = compared(path, folder, chosen.repeat)
    text = figures(len(read_spec(str(path)).tables), build, more)
    print(text)
    if chosen.record:
        record("bench-add", command_line("./scripts/bench add"), text)


if __name__ == "__main__":
    main()
