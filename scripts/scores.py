"""Build a study's release with fresh keys, score each, print and write the table. Called by ./scripts/scores."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from math import isfinite
from pathlib import Path

import numpy as np
import study
from attacks.cloning import clone_accuracy
from bench import TABLEPACK, floor_of
from measured import command_line, markdown, record
from study import RELEASES, SEED

from engine.api.reading import read
from engine.errors import TablepackError
from engine.evaluation.data.aligned import align
from engine.evaluation.data.reading import read_original, read_release, released_columns
from engine.evaluation.findings import named
from engine.evaluation.measures.suite import score_all
from engine.evaluation.study import Row, Study, read_study

HEADS = ("measure", "reference", "reach", "median", "worst", "reached")
FOLDERS = {"nist-acs": study.NIST, "sd2011": study.SYNTHPOP}
FILES = {
    "nist-acs": ("national2019.csv", "workload.json", "rules.json"),
    "sd2011": ("SD2011.csv",),
    "census": ("people.parquet",),
}
CENSUS_PEOPLE = 27_253  # as many as in the NIST excerpt
CLONES = (1, 4, 16, 64)


def measured(name: str, scored: Study, source: Path, number: int) -> dict[str, float]:
    """Build with a fresh key, time it and its floor, and score it; write each measure's breakdown beside it."""
    folder = RELEASES / name / str(number)
    shutil.rmtree(folder, ignore_errors=True)
    (folder / "scores").mkdir(parents=True)
    path = study.spec_of(scored.spec, folder, source=source, key=f"{scored.folder}.key")
    release = folder / f"{scored.folder}.duckdb"
    start = time.perf_counter()
    subprocess.run([*TABLEPACK, "build", str(path), "-o", str(release)], check=True)
    seconds, spec = time.perf_counter() - start, read(path)
    nulls = study.null_spellings(spec)
    floor, _ = floor_of(str(source), [list(t) for t in spec.tables], nulls=nulls, repeat=1)
    reading = scored.model_copy(update={"nulls": nulls})
    original = read_original(source, reading, like=released_columns(release))
    scores = score_all(align(original, read_release(release).tables, scored), scored, seed=SEED)
    for measure, found in scores.items():
        found.breakdown.to_csv(folder / "scores" / f"{measure}.csv", index=False)
    print(f"key {number} done", flush=True)
    return {
        "build.seconds": seconds,
        "build.floor": floor,
        "build.over_floor": seconds / floor,
        "build.megabytes": release.stat().st_size / 1e6,
        "build.tables": float(len(spec.tables)),
        **named(scores),
    }


def is_reached(figure: float, reach: str) -> bool:
    """Whether a figure is what is to be reached, such as "<= .05"."""
    sign, _, bound = reach.partition(" ")
    return figure <= float(bound) if sign == "<=" else figure >= float(bound)


def line(row: Row, found: Sequence[float]) -> list[str]:
    """Median and worst over keys. A figure that a key lacks is said not to be measured, never counted as reached."""
    if not found or not all(map(isfinite, found)):
        shown = ["not measured"] * 2 + ["no" if row.reach else ""]
        return [row.label, row.reference, row.reach, *shown]
    lowest = row.reach.startswith(">=") or row.better == "higher"
    worst = min(found) if lowest else max(found)
    texts = [f"{figure:,.{row.digits}f}" for figure in (float(np.median(found)), worst)]
    answer = {True: "yes", False: "no"}[is_reached(worst, row.reach)] if row.reach else ""
    return [row.label, row.reference, row.reach, *texts, answer]


def table_of(scored: Study, by_key: Sequence[Mapping[str, float]]) -> str:
    """The study's rows."""
    rows = [
        line(row, [told.get(row.measure, float("nan")) for told in by_key]) for row in scored.rows
    ]
    return markdown(HEADS, [[cell.replace("|", "\\|") for cell in row] for row in rows])


def main() -> None:
    """Build, score, print, write."""
    reader = study.parser(__doc__, prog="./scripts/scores", keys=5)
    reader.add_argument("study", help="name of a study: releases/STUDY.study.toml")
    reader.add_argument("data", nargs="?", type=Path, help="folder that holds the data")
    chosen = reader.parse_args()
    name, files = chosen.study, FILES.get(chosen.study, ())
    if name == "census" and chosen.data is None:
        data = study.census_file(RELEASES / name / "data", CENSUS_PEOPLE).parent
    else:
        data = study.folder_of(chosen.data, FOLDERS.get(name, Path()), *files)
    scored = read_study(RELEASES / f"{name}.study.toml", beside=[data])
    source = (
        data / files[0] if files else data / Path(read(RELEASES / scored.spec).source.path).name
    )
    whole = {}
    if any(row.measure.startswith("cloning.") for row in scored.rows):
        # How often the attacker of attacks/cloning.py is right, at worst over the numbers of clones.
        whole["cloning.accuracy"] = max(clone_accuracy(n).locked.share for n in CLONES)
    by_key = [
        {**measured(name, scored, source, number), **whole} for number in range(1, chosen.keys + 1)
    ]
    page = (
        f"**{scored.title}**\n\nMedian and worst over {len(by_key)} keys; {by_key[0]['build.tables']:.0f} tables. "
        f"Plain GROUP BYs of the same column sets took {np.median([f['build.floor'] for f in by_key]):.1f} s.\n\n"
        f"{table_of(scored, by_key)}\n"
    )
    out = RELEASES / name
    (out / "scores.md").write_text(page)
    (out / "scores.json").write_text(json.dumps({"title": scored.title, "keys": by_key}, indent=1))
    print(f"{page}\nwritten to {out / 'scores.md'} and {out / 'scores.json'}")
    if chosen.record and files:
        record(f"scores-{name}", command_line("./scripts/scores"), page)


if __name__ == "__main__":
    try:
        main()
    except TablepackError as error:
        sys.exit(f"error: {error}")
