"""Comparisons: baselines beside each other, a sweep of parameters, attacks on releases.

Usage: .venv/bin/python scripts/comparisons.py PART [--folder FOLDER] [--record] ...
  baselines both modes beside all baselines on a simulated census: `tablepack compare --with`
  sweep     parameters of mode sticky, what each costs and what it takes from attackers: `tablepack compare --sweep`
  attacks   all attacks on releases under fresh keys; --million: of a census of a million people
Part of the people of a sweep and of attacks are held out of every release: they are the non-members that attacks are
held against. --with: more baselines, such as mst=PYTHON, a Python that has mbi 2.0.0 and pandas.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path

import numpy as np
import pandas as pd
import study
from measured import command_line, keep, markdown, record
from study import NIST, SEED

import engine
from engine.api.reading import read
from engine.evaluation.compare import Comparison, built_in_scratch, marked_as_scratch
from engine.evaluation.findings import FIGURES
from engine.evaluation.report.page import comparison_table
from engine.params import SwapParams
from engine.release import build
from engine.spec import ReleaseSpec

COMMAND = ".venv/bin/python scripts/comparisons.py"


def told(what: str, done: int, of: int) -> None:
    print(f"{done} of {of}: {what}", flush=True)


# --- both modes beside all baselines

BASELINES = (
    "margins,sample40,bootstrap100,pram80,swap5,kanon5,mdav3,cart,cart:age+health,parametric,dpmpm"
)
"""Every baseline that needs no environment of its own."""


def baselines(given: argparse.Namespace) -> None:
    """Both modes beside all baselines on one page: utility, risk, seconds."""
    with study.workplace(given.folder) as folder:
        people = study.census_file(folder / "census", given.people, SEED)
        others = study.census_file(folder / "non_members", given.people, SEED + 1)
        spec = study.spec_of("demo-dp.toml", folder, source=people)
        found = engine.compare(
            spec,
            generators=given.names,
            control=others,
            areas=("region",),
            out=given.page,
            force=True,
            progress=told,
        )
    heads, rows = comparison_table(found)
    shown = []
    for one, row in zip(found.generators(), rows, strict=True):
        spent = found.spread("cpu_seconds", one.name)
        code = one.origin.split(",")[0].split(":")[0]
        shown.append(
            [one.name, code, row[1], "" if spent is None else f"{spent.median:.1f}", *row[2:]]
        )
    text = "\n\n".join(
        [
            markdown([heads[0], "code", heads[1], "of processor", *heads[2:]], shown),
            f"{found.n_rows:,} people of a simulated census, {found.n_tables} tables of releases/demo-dp.toml, each "
            "made once; attacks are held against as many non-members. MST has epsilon 1.",
            *(f"- {note}" for note in found.notes),
        ]
    )
    keep(given, "baselines-census", COMMAND, text)


# --- people held out: a sweep, and attacks

HELD_OUT = {"nist": 5_253, "sd2011": 1_000, "census": 4_000, "million": 10_000}
"""People who are in no release."""
TITLES = {"nist": "NIST ACS excerpt", "sd2011": "SD2011"}
PLACES = {
    "nist": SwapParams(
        columns=("DENSITY", "PUMA"), similar=("SEX", "MSP"), rare=("EDU", "INDP_CAT", "NPF", "RAC1P"), rate=0.05
    ),
    "census": SwapParams(
        columns=("district", "region"),
        similar=("sex", "household_type"),
        rare=("age", "education", "ethnic_group", "occupation"),
        rate=0.05,
    ),
}  # fmt: skip
"""Records exchange their place, as in the censuses of England and Wales."""
WANTED = {"nist": ("SEX", "EDU", "PINCP_DECILE"), "census": ("sex", "education", "health")}


@contextmanager
def held_out(name: str, data: Path | None, people: int) -> Iterator[tuple[ReleaseSpec, Path]]:
    """The shipped spec of most of the people of a data set, and a file of the others."""
    with tempfile.TemporaryDirectory() as scratch:
        home, n = Path(scratch), HELD_OUT[name]
        if name in study.FILES:
            whole = pd.read_csv(study.data_file(name, data), dtype=str, keep_default_na=False)
        else:
            whole = pd.read_parquet(study.census_file(home / "all", people + n, SEED))
        order = np.random.default_rng(SEED).permutation(len(whole))
        ending = "csv" if name in study.FILES else "parquet"
        for file, at in (("people", order[n:]), ("others", order[:n])):
            some, path = whole.iloc[at], home / f"{file}.{ending}"
            some.to_csv(path, index=False) if ending == "csv" else some.to_parquet(path)
        if name == "nist":
            (home / "workload.json").symlink_to(((data or NIST) / "workload.json").resolve())
        shipped = f"{'census' if name == 'million' else name}.toml"
        spec = read(study.spec_of(shipped, home, source=home / f"people.{ending}"))
        yield spec, home / f"others.{ending}"


def sweep_table(found: Comparison, wanted: Sequence[str]) -> str:
    """A row a setting: loss, risks, gains of single columns, seconds of a build."""
    names = [f.name for f in found.weighed()] + [f"attribute/{column}" for column in wanted]
    rows = []
    for one in found.generators():
        spreads = [found.spread(name, one.name) for name in names]
        seconds = found.spread("seconds", one.name)
        shown = ["–" if s is None else f"{s.median:.3f}" for s in spreads]
        rows.append([one.name, *shown, "–" if seconds is None else f"{seconds.median:.0f}"])
    heads = ["setting", *(f.title for f in found.weighed()), *(f"gain {c}" for c in wanted)]
    return markdown([*heads, "seconds"], rows)


def sweep(given: argparse.Namespace) -> None:
    """Parameters of mode sticky, one changed at a time; with places exchanged by records once."""
    for name in given.only or ("nist", "census"):
        with held_out(name, given.data, 20_000) as (spec, others):
            spec = replace(spec, privacy=replace(spec.privacy, swap=PLACES[name]))
            found = engine.compare(
                spec,
                sweep=True,
                control=others,
                seeds=given.keys,
                out=given.page,
                force=True,
                progress=told,
            )
        text = (
            f"{found.title}; {found.n_tables} tables, {found.n_rows:,} people, medians of {found.repeats} "
            f"key(s)\n\n{sweep_table(found, WANTED[name])}"
        )
        keep(given, f"sweep-{name}", COMMAND, text)


def attacks(given: argparse.Namespace) -> None:
    """All attacks on finished releases, each built with a fresh key."""
    texts = []
    for name in ("million",) if given.million else given.only or ("nist", "sd2011", "census"):
        found, seconds = list[dict[str, float]](), list[float]()
        with held_out(name, given.data, 1_000_000 if given.million else 20_000) as (spec, others):
            for key in range(1, given.keys + 1):
                with built_in_scratch(marked_as_scratch(spec), partial(build, jobs=2)) as (path, _):
                    start, data = time.perf_counter(), spec.source.path
                    attacked = engine.attack(path, data=data, control=others, seed=key).results[0]
                found.append(attacked.figures())
                seconds.append(time.perf_counter() - start)
                print(name, f"key {key}: {seconds[-1]:.0f} s", flush=True)
        rows = []
        for figure, told in FIGURES.items():
            values = [one.get(figure, np.nan) for one in found]
            if told.is_headline and np.isfinite(values).all():
                worst = max(values) if told.better == "lower" else min(values)
                limits = f"{told.good} / {told.poor}"
                rows.append([told.title, f"{np.median(values):.3f}", f"{worst:.3f}", limits])
        rows.append(
            ["seconds of all attacks", f"{np.median(seconds):.0f}", f"{max(seconds):.0f}", ""]
        )
        title = TITLES.get(name, "simulated census")
        heads = [
            f"{title}, {len(spec.tables)} tables",
            f"median of {given.keys}",
            "worst",
            "good / poor",
        ]
        texts.append(markdown(heads, rows))
        print(texts[-1], flush=True)
    if given.record and given.million:
        record("attacks-million", command_line(COMMAND), "\n\n".join(texts))
    elif given.record:
        record("attacks", command_line(COMMAND), "\n\n".join(texts))


def main() -> None:
    reader = study.parser(__doc__)
    reader.formatter_class = argparse.RawDescriptionHelpFormatter
    parts = {
        "baselines": (baselines, 1),
        "sweep": (sweep, 3),
        "attacks": (attacks, 5),
    }
    reader.add_argument("part", choices=parts)
    reader.add_argument("data", nargs="?", type=Path, help="folder of the data")
    reader.add_argument("--keys", type=int, help="of a sweep (3) or of attacks (5)")
    reader.add_argument("--only", nargs="+", choices=("nist", "sd2011", "census"))
    reader.add_argument("--million", action="store_true")
    reader.add_argument("--people", type=int, default=10_000, help="beside baselines")
    reader.add_argument("--with", dest="names", default=BASELINES)
    reader.add_argument("--page", type=Path, help="HTML of a comparison or a sweep")
    given = reader.parse_args()
    run, keys = parts[given.part]
    given.keys = given.keys or keys
    run(given)


if __name__ == "__main__":
    main()
