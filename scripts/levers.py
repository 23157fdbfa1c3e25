"""Sweep the parameters of sticky mode: what each costs, and what it takes from attackers; draw the map.

Usage: .venv/bin/python scripts/levers.py [DATA] [--keys N] [--only nist|census] [--maps FOLDER] [--record]
DATA is the folder of NIST's data (default ../shared/nist). 3 keys; about 40 minutes on two cores.
Part of NIST's people are held out: they are the non-members that attacks are held against. Records once exchange their
place, as statistical offices do, once what is to be kept of them.
"""

from __future__ import annotations

import argparse
import json
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from measured import add_option, command_line, markdown, record

from engine.api.reading import read
from engine.evaluation.attacks import Assumptions
from engine.evaluation.compare.building import Candidate, compare_all, settings_of
from engine.evaluation.compare.result import Comparison, Generator, Run, document
from engine.evaluation.report.comparison import KINDS, risk_pictures
from engine.params import PROFILES, SwapParams
from engine.progress import Progress
from engine.release import build
from engine.simulation import simulate_census
from engine.spec import ReleaseSpec

ROOT = Path(__file__).resolve().parents[1]
HELD_OUT = 5_253
"""People of NIST's excerpt who are in no release."""
PEOPLE, NON_MEMBERS = 20_000, 4_000
RATES = (0.05, 0.2)
HIGHER = (("standard", 20), ("strict", 6), ("strict", 12))
"""Further thresholds."""
ATTACKED = 5_000
"""People of the data, and non-members, at most."""
PLACES = {
    "nist": SwapParams(
        columns=("DENSITY", "PUMA"),
        similar=("SEX", "MSP"),
        rare=("EDU", "INDP_CAT", "NPF", "RAC1P"),
        rate=RATES[0],
    ),
    "census": SwapParams(
        columns=("district", "region"),
        similar=("sex", "household_type"),
        rare=("age", "education", "ethnic_group", "occupation"),
        rate=RATES[0],
    ),
}
"""Records exchange their place, as in the censuses of England and Wales."""
ATTRIBUTES = {
    "nist": SwapParams(
        columns=("EDU", "PINCP", "PINCP_DECILE", "SEX"),
        within=("AGEP",),
        similar=("PUMA",),
        rare=("INDP_CAT", "MSP", "PUMA", "RAC1P"),
        rate=RATES[0],
    ),
    "census": SwapParams(
        columns=("education", "health"),
        within=("age",),
        similar=("region", "sex"),
        rare=("activity", "occupation", "region"),
        rate=RATES[0],
    ),
}
"""Records exchange what attackers want."""
WANTED = {"nist": ("SEX", "EDU", "PINCP_DECILE"), "census": ("sex", "education", "health")}


def settings(spec: ReleaseSpec, name: str) -> list[Candidate]:
    """The settings of a sweep of the spec, and two kinds of exchange at two rates."""
    found = [c for c in settings_of(spec) if c.spec and max(map(len, c.spec.tables)) > 1]
    own = found[0].spec
    assert own is not None
    further = [
        ("threshold", f"{profile}, threshold of mean {mean}", replace(PROFILES[profile], threshold_mean=mean))
        for profile, mean in HIGHER
    ]  # fmt: skip
    further += [
        ("swapping", f"{rate:.0%} exchange {what}", replace(own.privacy, swap=replace(swap, rate=rate)))
        for what, swap in (("places", PLACES[name]), ("attributes", ATTRIBUTES[name]))
        for rate in RATES
    ]  # fmt: skip
    for kind, called, privacy in further:
        made = Generator(name=called, kind=kind)
        found.append(Candidate(generator=made, spec=replace(own, privacy=privacy)))
    return found


@contextmanager
def nist(data: Path) -> Iterator[tuple[ReleaseSpec, Path]]:
    """The spec of NIST's tables on most of its people, and the others."""
    with tempfile.TemporaryDirectory() as folder:
        home = Path(folder)
        (home / "nist" / "data").mkdir(parents=True)
        people = pd.read_csv(data / "national2019.csv", dtype=str, keep_default_na=False)
        order = np.random.default_rng(2021).permutation(len(people))
        people.iloc[order[HELD_OUT:]].to_csv(home / "nist/data/national2019.csv", index=False)
        people.iloc[order[:HELD_OUT]].to_csv(home / "non_members.csv", index=False)
        (home / "nist/data/workload.json").symlink_to((data / "workload.json").resolve())
        text = (ROOT / "releases" / "nist.toml").read_text("utf-8")
        yield read_beside(home, text, "nist/nist.key"), home / "non_members.csv"


@contextmanager
def census(
    _data: Path | None = None, *, people: int = PEOPLE, non_members: int = NON_MEMBERS
) -> Iterator[tuple[ReleaseSpec, Path]]:
    """The spec of the census's tables on simulated people, and others."""
    with tempfile.TemporaryDirectory() as folder:
        home = Path(folder)
        simulate_census(home / "all", people=people + non_members, seed=2021)
        all_of_them = pd.read_parquet(home / "all" / "people.parquet")
        order = np.random.default_rng(2021).permutation(len(all_of_them))
        (home / "census" / "data").mkdir(parents=True)
        all_of_them.iloc[order[non_members:]].to_parquet(home / "census/data/people.parquet")
        all_of_them.iloc[order[:non_members]].to_parquet(home / "non_members.parquet")
        text = (ROOT / "releases" / "census.toml").read_text("utf-8")
        yield read_beside(home, text, "census/census.key"), home / "non_members.parquet"


def read_beside(home: Path, text: str, key: str) -> ReleaseSpec:
    """A shipped spec, read where its data lies."""
    (home / "spec.toml").write_text(text, "utf-8")
    (home / key).touch(mode=0o600)
    (home / key).write_bytes(bytes(32))
    return read(home / "spec.toml")


def told(found: Comparison, wanted: tuple[str, ...]) -> str:
    """A row a setting, in Markdown: loss, risks, gains of single columns, seconds of a build."""
    names = [f.name for f in found.weighed()] + [f"attribute/{column}" for column in wanted]
    rows = []
    for one in found.generators():
        spreads = [found.spread(name, one.name) for name in names]
        seconds = found.seconds(one.name)[0]
        shown = ["–" if s is None else f"{s.median:.3f}" for s in spreads]
        rows.append([one.name, *shown, "–" if seconds is None else f"{seconds.median:.0f}"])
    heads = ["setting", *(f.title for f in found.weighed()), *(f"gain {c}" for c in wanted)]
    return markdown([*heads, "seconds"], rows)


SOURCES = {"nist": nist, "census": census}
COLOURS = {
    "ink": "#24292f",
    "quiet": "#57606a",
    "rule": "#d0d7de",
    "original": "#57606a",
    "synthetic": "#0969da",
    "more": "#bc4c00",
    "less": "#8250df",
    "third": "#1a7f37",
    "fourth": "#cf222e",
    "paper": "#ffffff",
}
"""A file of its own has no page to take colours from."""


def drawn(found: Comparison) -> str:
    """The map of the first risk as a file."""
    svg = risk_pictures(found)[0].svg
    for name, colour in COLOURS.items():
        svg = svg.replace(f"var(--{name})", colour)
    plain = 'xmlns="http://www.w3.org/2000/svg" xmlns:xlink="http://www.w3.org/1999/xlink"'
    return svg.replace("<svg ", f'<svg {plain} font-family="sans-serif" ', 1) + "\n"


def shown(name: str) -> Progress:
    """Progress as lines."""
    return lambda what, done, n: print(f"{name} {done}/{n} {what}", flush=True)


def measured_map(name: str, data: Path, keys: int, parameter: str | None = None) -> Comparison:
    """Build and attack every setting, or those of one parameter beside the spec's own."""
    with SOURCES[name](data) as (spec, non_members):
        chosen = [c for c in settings(spec, name) if parameter in (None, c.generator.kind)]
        return compare_all(
            "sweep",
            spec,
            chosen,
            repeats=keys,
            build=partial(build, jobs=2),
            control=non_members,
            assumptions=Assumptions(people=ATTACKED),
            progress=shown(name),
        )


def replaced(found: Comparison, again: Comparison) -> Comparison:
    """A sweep with the settings of another one in the place of its own."""
    kept = tuple(run for run in found.runs if run.generator not in again.generators())
    return replace(found, runs=kept + again.runs)


def sweep_of(kept: dict[str, Any]) -> Comparison:
    """A sweep from its document."""
    generators = {g["name"]: Generator(**g) for g in kept["generators"]}
    runs = tuple(
        Run(
            generator=generators[run["generator"]],
            **{field: run[field] for field in ("repeat", "figures", "seconds")},
        )
        for run in kept["runs"]
    )
    return Comparison(
        view="sweep",
        title=kept["title"],
        runs=runs,
        own=kept["own"],
        repeats=kept["repeats"],
        n_tables=kept["tables"],
        n_rows=kept["rows"],
        has_control=kept["control"],
        notes=tuple(kept["notes"]),
        version=kept["tablepack"],
    )


def main() -> None:
    """Run it."""
    reader = argparse.ArgumentParser(description=__doc__)
    reader.add_argument("data", nargs="?", type=Path, default=ROOT.parent / "shared" / "nist")
    reader.add_argument("--keys", type=int, default=3)
    reader.add_argument("--only", choices=tuple(SOURCES))
    reader.add_argument("--maps", type=Path, help="folder of maps: those that are there are read")
    reader.add_argument(
        "--again", choices=tuple(KINDS), help="measure a parameter of kept maps again"
    )
    add_option(reader)
    chosen = reader.parse_args()
    for name in [chosen.only] if chosen.only else SOURCES:
        kept = chosen.maps / f"{name}.json" if chosen.maps else None
        if kept is not None and kept.exists():
            found = sweep_of(json.loads(kept.read_text("utf-8")))
            if chosen.again:
                again = measured_map(name, chosen.data, chosen.keys, chosen.again)
                found = replaced(found, again)
        else:
            found = measured_map(name, chosen.data, chosen.keys)
        if kept is not None:
            kept.write_text(json.dumps(document(found)), "utf-8")
        text = (
            f"{found.title}; {found.n_tables} tables, {found.n_rows:,} people, medians of {found.repeats} "
            f"{'key' if found.repeats == 1 else 'keys'}\n\n{told(found, WANTED[name])}"
        )
        print(text, flush=True)
        if chosen.record:
            (ROOT / "releases" / f"levers-{name}.svg").write_text(drawn(found), "utf-8")
            record(f"levers-{name}", command_line(".venv/bin/python scripts/levers.py"), text)


if __name__ == "__main__":
    main()
