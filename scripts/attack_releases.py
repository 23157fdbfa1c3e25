"""Attack finished releases of NIST's excerpt, SD2011 and simulated censuses, each built with fresh keys.

Usage: .venv/bin/python scripts/attack_releases.py [--keys N] [--only NAME ...] [--million] [--record]
5 keys; about 10 minutes on two cores. Part of the people are held out of every release: they are the non_members that
attacks are held against. --million attacks releases of a census of a million people instead (about 6 minutes a key and
4 GB), and records a section of its own.
"""

from __future__ import annotations

import argparse
import json
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from levers import ROOT, census, nist, read_beside
from measured import add_option, command_line, markdown, record

import engine
from engine.evaluation.compare.building import built_in_scratch, marked_as_scratch
from engine.release import build
from engine.spec import ReleaseSpec

SHARED = ROOT.parent / "shared"
MILLION, NON_MEMBERS = 1_000_000, 10_000
HELD_OUT = 1_000
Given = AbstractContextManager[tuple[ReleaseSpec, Path]]


@contextmanager
def sd2011() -> Iterator[tuple[ReleaseSpec, Path]]:
    """The spec of SD2011's tables on most of its people, and the others."""
    with tempfile.TemporaryDirectory() as folder:
        home = Path(folder)
        (home / "sd2011" / "data").mkdir(parents=True)
        source = SHARED / "synthpop" / "SD2011.csv"
        people = pd.read_csv(source, dtype=str, keep_default_na=False)
        order = np.random.default_rng(2021).permutation(len(people))
        people.iloc[order[HELD_OUT:]].to_csv(home / "sd2011/data/SD2011.csv", index=False)
        people.iloc[order[:HELD_OUT]].to_csv(home / "non_members.csv", index=False)
        text = (ROOT / "releases" / "sd2011.toml").read_text("utf-8")
        yield read_beside(home, text, "sd2011/sd2011.key"), home / "non_members.csv"


SOURCES: dict[str, tuple[str, Callable[[], Given]]] = {
    "nist": ("NIST ACS excerpt, 22,000 people", partial(nist, SHARED / "nist")),
    "sd2011": ("SD2011, 4,000 people", sd2011),
    "census": ("simulated census, 20,000 people", census),
}
LARGE = {
    "million": (
        "simulated census, 1,000,000 people",
        partial(census, people=MILLION, non_members=NON_MEMBERS),
    )
}


def attacked(given: Given, keys: int) -> Iterator[dict[str, Any]]:
    """Figures of the attacks on one release a key."""
    with given as (spec, non_members):
        for key in range(1, keys + 1):
            with (
                built_in_scratch(marked_as_scratch(spec), partial(build, jobs=2)) as (path, _),
                tempfile.TemporaryDirectory() as folder,
            ):
                report = Path(folder) / "attacks.html"
                start = time.perf_counter()
                engine.attack(
                    path, data=spec.source.path, control=non_members, out=report, seed=key
                )
                seconds = time.perf_counter() - start
                found = json.loads(report.with_suffix(".json").read_text("utf-8"))["subjects"][0]
            yield found | {"seconds": seconds}
            print(spec.title, f"key {key}: {seconds:.0f} s", flush=True)


def rows_of(found: list[dict[str, Any]]) -> Iterator[tuple[str, ...]]:
    """A row a figure: median, the worst key, what is good and poor."""
    for at, figure in enumerate(found[0]["figures"]):
        values = [one["figures"][at]["value"] for one in found]
        if figure["headline"] and None not in values:
            worst = max(values) if figure["better"] == "lower" else min(values)
            limits = f"{figure['good']} / {figure['poor']}"
            yield figure["title"], f"{np.median(values):.3f}", f"{worst:.3f}", limits
    seconds = [one["seconds"] for one in found]
    yield "seconds of all attacks", f"{np.median(seconds):.0f}", f"{max(seconds):.0f}", ""


def main() -> None:
    """Run it."""
    reader = argparse.ArgumentParser(description=__doc__)
    reader.add_argument("--keys", type=int, default=5)
    reader.add_argument("--only", nargs="+", choices=SOURCES, default=list(SOURCES))
    reader.add_argument("--million", action="store_true")
    add_option(reader)
    chosen = reader.parse_args()
    parts = list(LARGE.values()) if chosen.million else [SOURCES[name] for name in chosen.only]
    texts = []
    for title, make in parts:
        found = list(attacked(make(), chosen.keys))
        heads = (
            f"{title}, {found[0]['tables']} tables",
            f"median of {chosen.keys}",
            "worst",
            "good / poor",
        )
        texts.append(markdown(heads, list(rows_of(found))))
        print(texts[-1], flush=True)
    if chosen.record:
        text = "\n\n".join(texts)
        command = command_line(".venv/bin/python scripts/attack_releases.py")
        if chosen.million:
            record("attacks-million", command, text)
        else:
            record("attacks", command, text)


if __name__ == "__main__":
    main()
