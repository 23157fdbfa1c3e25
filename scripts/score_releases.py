"""Build a study's release with fresh keys, score each, print and write the table. Called by ./scripts/scores."""

from __future__ import annotations

import argparse
import json
import shutil
import subprocess
import sys
import time
from pathlib import Path

import duckdb
import numpy as np
import pandas as pd
from attacks.cloning import clone_accuracy
from attacks.scorecard import HEADINGS, lines, markdown
from measured import add_option, command_line, record

from engine.api.reading import read
from engine.errors import TablepackError
from engine.evaluation.data.aligned import align
from engine.evaluation.data.reading import read_original, read_release, released_columns
from engine.evaluation.measures import score_all
from engine.evaluation.result import named
from engine.evaluation.study.model import Study, read_study
from engine.schema import literal, quoted
from engine.simulation.rules import CENSUS_RULES
from engine.spec import ReleaseSpec

RELEASES = Path("releases")
SHARED = {"nist-acs": Path("../shared/nist"), "sd2011": Path("../shared/synthpop")}
NEEDED = {"nist-acs": ["national2019.csv", "workload.json", "rules.json"], "sd2011": ["SD2011.csv"]}
CENSUS_PEOPLE = 27_253  # as many as in the NIST excerpt
SEED = 2021
CLONES = (1, 4, 16, 64)
COMMAND = Path(sys.executable).with_name("tablepack")
CLI = (
    [str(COMMAND)]
    if COMMAND.exists()
    else [sys.executable, "-c", "from engine.cli import main; main()"]
)


def tablepack(*arguments: str) -> float:
    """Run one command; return its seconds."""
    start = time.perf_counter()
    subprocess.run([*CLI, *arguments], check=True)
    return time.perf_counter() - start


def simulated(folder: Path) -> Path:
    """Simulate a census, and write its rules beside it."""
    if not (folder / "people.parquet").exists():
        shutil.rmtree(folder, ignore_errors=True)
        tablepack("simulate", str(folder), "--people", str(CENSUS_PEOPLE), "--seed", str(SEED))
    rules = [
        {"name": rule.name, "columns": rule.columns, "violated": rule.condition}
        for rule in CENSUS_RULES
    ]
    (folder / "rules.json").write_text(json.dumps(rules, indent=1))
    return folder


def data_folder(name: str, given: Path | None) -> Path:
    """The folder that holds a study's data."""
    if name == "census" and given is None:
        return simulated(RELEASES / name / "data")
    folder = given or SHARED.get(name, Path())
    missing = [file for file in NEEDED.get(name, []) if not (folder / file).exists()]
    if missing:
        sys.exit(f"no {', '.join(missing)} in {folder}: give the folder that holds the data")
    return folder


def run_folder(name: str, study: Study, data: Path, number: int) -> Path:
    """Make a folder for one key: the spec, the data by link, and a fresh key, where the spec says they are."""
    folder = RELEASES / name / str(number)
    shutil.rmtree(folder, ignore_errors=True)
    (folder / study.folder).mkdir(parents=True)
    shutil.copy(RELEASES / study.spec, folder / study.spec)
    (folder / study.folder / "data").symlink_to(data.resolve())
    tablepack("key", "new", str(folder / study.folder / f"{study.folder}.key"))
    return folder


def null_spellings(spec: ReleaseSpec) -> tuple[str, ...]:
    """How the source spells blanks."""
    return tuple(sorted({spelling for column in spec.columns for spelling in column.spellings}))


def floor_seconds(spec: ReleaseSpec) -> float:
    """Seconds that DuckDB takes to read the source and count the same column sets, with nothing else."""
    start = time.perf_counter()
    path = literal(str(spec.source.path))
    spelled = ", ".join(map(literal, null_spellings(spec)))
    source = f"read_csv({path}, header = true, nullstr = [{spelled}], sample_size = -1)"
    if spec.source.format == "parquet":
        source = f"read_parquet({path})"
    with duckdb.connect() as con:
        con.execute(f"CREATE TABLE source AS FROM {source}")
        for columns in spec.tables:
            listed = ", ".join(map(quoted, columns))
            con.execute(
                f"SELECT {listed}, count(*) AS n FROM source GROUP BY {listed}"
            ).fetchnumpy()
    return time.perf_counter() - start


def cloning() -> dict[str, float]:
    """How often the cloning attacker is right, at worst over the numbers of clones; see scripts/attacks/cloning.py."""
    return {"cloning.accuracy": max(clone_accuracy(clones).locked.share for clones in CLONES)}


def score(study: Study, spec: ReleaseSpec, release: Path, what: str) -> dict[str, float]:
    """Score one release; write each measure's breakdown beside it."""
    start = time.perf_counter()
    reading = study.model_copy(update={"nulls": null_spellings(spec)})
    original = read_original(spec.source.path, reading, like=released_columns(release))
    aligned = align(original, read_release(release).tables, study)
    scores = score_all(aligned, study, seed=SEED, progress=show_progress)
    print(f"{what} scored in {time.perf_counter() - start:.1f} s")
    folder = release.parent / "scores"
    folder.mkdir(exist_ok=True)
    for name, found in scores.items():
        found.breakdown.to_csv(folder / f"{name}.csv", index=False)
    return named(scores)


def show_progress(measure: str, done: int, n: int) -> None:
    """Say on a terminal's line how far it is."""
    if sys.stderr.isatty():
        sys.stderr.write(f"\r{measure} {done} of {n}" + ("\r\033[K" if done + 1 == n else ""))


def measured(name: str, study: Study, data: Path, number: int) -> dict[str, float]:
    """Build with a fresh key, time it and its floor, and score it."""
    folder = run_folder(name, study, data, number)
    release = folder / f"{study.folder}.duckdb"
    spec_path = folder / study.spec
    seconds = tablepack("build", str(spec_path), "-o", str(release))
    spec = read(spec_path)
    floor = floor_seconds(spec)
    return {
        "build.seconds": seconds,
        "build.floor": floor,
        "build.over_floor": seconds / floor,
        "build.megabytes": release.stat().st_size / 1e6,
        "build.tables": float(len(spec.tables)),
        **score(study, spec, release, f"key {number}"),
    }


def arguments() -> argparse.Namespace:
    """What the command line says."""
    parser = argparse.ArgumentParser(prog="scripts/scores", description=__doc__)
    parser.add_argument("study", help="name of a study: releases/STUDY.study.toml")
    parser.add_argument("data", nargs="?", type=Path, help="folder that holds the data")
    parser.add_argument("--keys", type=int, default=5, help="number of fresh keys (default 5)")
    add_option(parser)
    return parser.parse_args()


def main() -> None:
    """Build, score, print, write."""
    options = arguments()
    data = data_folder(options.study, options.data)
    study = read_study(RELEASES / f"{options.study}.study.toml", beside=[data])
    whole = cloning() if any(row.measure.startswith("cloning.") for row in study.rows) else {}
    by_key = [
        {**measured(options.study, study, data, number), **whole}
        for number in range(1, options.keys + 1)
    ]
    table = lines(study, by_key)
    note = (
        f"Median and worst over {len(by_key)} keys; {by_key[0]['build.tables']:.0f} tables. "
        f"Plain GROUP BYs of the same column sets took {np.median([f['build.floor'] for f in by_key]):.1f} s."
    )
    out = RELEASES / options.study
    page = markdown(study.title, table, notes=[note])
    (out / "scores.md").write_text(page)
    (out / "scores.json").write_text(json.dumps({"title": study.title, "keys": by_key}, indent=1))
    print(study.title, note, sep="\n")
    print(pd.DataFrame([line.texts() for line in table], columns=HEADINGS).to_string(index=False))
    print(f"written to {out / 'scores.md'} and {out / 'scores.json'}")
    if options.record and options.study in {"census", *NEEDED}:
        record(f"scores-{options.study}", command_line("./scripts/scores"), page)


if __name__ == "__main__":
    try:
        main()
    except TablepackError as error:
        sys.exit(f"error: {error}")
