"""A build against SynDiffix, on tables drawn at random from NIST's workload, in one run. ./scripts/bench syndiffix.

SynDiffix makes each drawn table by itself, one after the other in one process; we build the whole workload, and one of
its tables counts as its share of that build, with all that a command costs. Processor seconds, which other work on the
machine moves less than the clock.

Usage: bench_syndiffix.py --python PYTHON [--nist FOLDER] [--tables 12] [--seed 1] [--record]
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from bench_add import timed
from bench_series import nist_spec
from measured import add_option, command_line, markdown, record

from engine.key_files import new_key
from engine.schema import ColumnSet
from engine.spec import ReleaseSpec, read_spec

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


def drawn(spec: ReleaseSpec, n: int, seed: int) -> list[ColumnSet]:
    """Some tables of a workload, by lot."""
    at = np.random.default_rng(seed).choice(len(spec.tables), n, replace=False)
    return [spec.tables[i] for i in sorted(at)]


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


def options() -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(prog="./scripts/bench syndiffix")
    parser.add_argument("--python", type=Path, required=True, help="a Python that has SynDiffix")
    parser.add_argument("--nist", type=Path, default=Path("../shared/nist"), help="folder")
    parser.add_argument("--tables", type=int, default=12, help="how many are drawn")
    parser.add_argument("--seed", type=int, default=1, help="of the draw")
    parser.add_argument("--folder", type=Path, default=Path("releases/bench"))
    add_option(parser)
    return parser.parse_args()


def main() -> None:
    """Build, time, and write what was found."""
    chosen = options()
    folder: Path = chosen.folder
    folder.mkdir(parents=True, exist_ok=True)
    key = folder / "syndiffix.key"
    if not key.exists():
        new_key(key)
    path = nist_spec(folder / "syndiffix.toml", chosen.nist, key)
    spec, out = read_spec(str(path)), folder / "syndiffix.duckdb"
    full = timed("build", str(path), "-o", str(out), "--force")
    tables = drawn(spec, chosen.tables, chosen.seed)
    theirs = reference_seconds(chosen.python, chosen.nist / "national2019.csv", ["N"], tables)
    each, own = sum(theirs) / len(theirs), full.cpu_seconds / len(spec.tables)
    rows = [
        [", ".join(columns), f"{seconds:.2f}"]
        for columns, seconds in zip(tables, theirs, strict=True)
    ]
    rows += [
        [f"SynDiffix, mean of {len(tables)} tables", f"{each:.2f}"],
        [f"ours, build of {len(spec.tables)} tables: one of them", f"{own:.4f}"],
        ["times", f"{each / own:.0f}"],
    ]
    text = markdown(["table", "CPU seconds"], rows)
    print(text)
    if chosen.record:
        record("bench-syndiffix", command_line("./scripts/bench syndiffix"), text)


if __name__ == "__main__":
    main()
