"""How good and how safe wide tables are. Called by ./scripts/wide.

A release of a study's columns, pairs and some tables of three columns is built with fresh keys, with one wide table of
all columns. The wide table alone is scored, then attacked, beside the narrower tables that it was made from.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from pathlib import Path

import numpy as np
import pandas as pd
import study as shared
from measured import command_line, markdown, record
from scores import CENSUS_PEOPLE, FILES, FOLDERS, is_reached
from study import RELEASES

import engine
from engine.api.reading import read
from engine.errors import TablepackError
from engine.evaluation.attacks import Held
from engine.evaluation.attacks.records import apparent_match, uniques
from engine.evaluation.data.aligned import Aligned, align, generator
from engine.evaluation.data.reading import read_original, read_release, released_columns
from engine.evaluation.findings import Finding
from engine.evaluation.measures import score_one
from engine.evaluation.result import named
from engine.evaluation.study import read_baselines
from engine.evaluation.study.model import Study, read_study
from engine.schema import (
    column_set,
)

SEED = 17
MEASURED = (
    "univariate",
    "correlations",
    "marginals",
    "propensity",
    "components",
    "inconsistencies",
)
ROWS = {
    "principal components, mean KS": ("components.mean_ks", ".0272", "<= .0062", 4),
    "3-marginals": ("marginals.score", "801", "", 1),
    "... age unbinned": ("marginals.score_unbinned", "801", ">= 955", 1),
    "pMSE": ("propensity.pmse_wide", ".0859", "<= .0020", 4),
    "Kendall, median difference": ("correlations.median_difference", ".0117", "<= .0020", 4),
    "univariate, median composite error": ("univariate.median_composite_error", "8.0", "", 2),
    "inconsistent records": ("inconsistencies.records", "481", "<= 0", 0),
    "quasi-identifier matches, precision improvement, median": (
        "apparent_match.median_pi",
        "-.21",
        "<= 0",
        2,
    ),
    "... largest": ("apparent_match.largest_pi", ".03", "<= .05", 2),
    "... median, narrower tables pooled": ("pooled.median_pi", "", "", 2),
    "... largest, narrower tables pooled": ("pooled.largest_pi", "", "", 2),
    "records equal to one of the data": ("uniques.exact_matches", "4", "", 0),
    "rows with an impossible pair": ("fit.impossible", "", "", 0),
    "build, processor seconds": ("build.cpu", "", "", 0),
}
"""By label: figure, SynDiffix with 24 columns on NIST's excerpt, what is to be reached there, digits."""


def measures(aligned: Aligned, study: Study) -> dict[str, Finding]:
    """The utility measures, those that the study declares."""
    found = {name: score_one(name, aligned, study, SEED) for name in MEASURED}
    return {name: score for name, score in found.items() if score is not None}


def attacks(aligned: Aligned, study: Study, baselines: Mapping[str, float]) -> dict[str, Finding]:
    """What a unique match tells, and records that are in the data."""
    if study.risks is None:
        return {}
    return {
        "apparent_match": apparent_match(
            Held(aligned=aligned, baselines=baselines or {}),
            study.risks,
            generator(SEED, "apparent_match"),
        ),
        "uniques": uniques(Held(aligned=aligned), study.risks, generator(SEED, "uniques")),
    }


def scored_key(case: Case, folder: Path) -> dict[str, float]:
    """All figures of one key."""
    study = case.study
    path, seconds = case.built(folder)
    rows, released = case.original(path), read_release(path)
    wide = max(released.tables, key=len)
    baselines = read_baselines(study, [case.source.parent]) or {}
    aligned = align(rows, {wide: released.tables[wide]}, study)
    risks = attacks(aligned, study, baselines)
    found = {**named(measures(aligned, study)), **named(risks), "build.cpu": seconds}
    found["fit.impossible"] = float(released.cards[wide]["wide"]["impossible"])
    narrow = {names: table for names, table in released.tables.items() if len(names) in (2, 3)}
    if study.risks is not None:
        pooled = apparent_match(
            Held(aligned=align(rows, narrow, study), baselines=baselines or {}),
            study.risks,
            generator(SEED, "pooled"),
        )
        found |= {f"pooled.{name}": value for name, value in pooled.values.items()}
    return found


TRIPLES = {
    "sd2011": ("sex", "age", "edu", "marital", "socprof", "ls", "smoke"),
    "census": ("region", "age", "sex", "education", "activity", "health", "tenure"),
}
"""Columns of which all tables of three are measured beside all pairs; NIST's: each pair with PUMA."""


@dataclass(frozen=True, kw_only=True)
class Case:
    """A study and its data."""

    name: str
    study: Study
    source: Path

    @property
    def columns(self) -> list[str]:
        """Columns of the spec without those that name the entities."""
        spec = read(RELEASES / self.study.spec)
        return [c.name for c in spec.columns if c.name not in spec.source.entities]

    def original(self, release: Path) -> pd.DataFrame:
        """The data as a release has them."""
        nulls = shared.NULLS["nist" if self.name == "nist-acs" else self.name]
        reading = self.study.model_copy(update={"nulls": nulls})
        return read_original(self.source, reading, like=released_columns(release))

    def built(self, folder: Path) -> tuple[Path, float]:
        """A release with a fresh key, and its processor seconds."""
        folder.mkdir(parents=True, exist_ok=True)
        if self.name in TRIPLES:
            triples = [column_set(t) for t in combinations(TRIPLES[self.name], 3)]
        else:
            others = [name for name in self.columns if name != "PUMA"]
            triples = [column_set(["PUMA", *two]) for two in combinations(others, 2)]
        listed = [f"columns = {json.dumps(table)}" for table in triples]
        entries = ["all = 1", "all = 2", *listed, 'columns = "all"']
        tables = "".join(f"[[tables]]\n{entry}\n\n" for entry in entries)
        spec = shared.spec_of(self.study.spec, folder, source=self.source, tables=tables)
        before, out = os.times(), folder / "release.duckdb"
        engine.build(spec, out=out).close()
        return out, sum(os.times()[:4]) - sum(before[:4])


def table_of(by_key: Sequence[Mapping[str, float]], *, is_nist: bool) -> str:
    """Median and worst of each figure over the keys."""
    lines = []
    for label, (figure, reference, reach, digits) in ROWS.items():
        found = [one[figure] for one in by_key if figure in one]
        if not found:
            continue
        worst = min(found) if figure.startswith("marginals") else max(found)
        shown = [f"{float(np.median(found)):.{digits}f}", f"{worst:.{digits}f}"]
        if is_nist:
            answer = {True: "yes", False: "no"}[is_reached(worst, reach)] if reach else ""
            shown = [reference, reach, *shown, answer]
        lines.append([label, *shown])
    heads = (
        ["SynDiffix", "to reach", "median", "worst", "reached"] if is_nist else ["median", "worst"]
    )
    return markdown(["measure", *heads], lines)


def run(name: str, keys: int, folder: Path) -> str:
    """Build, score, attack."""
    if name == "census":
        data = shared.census_file(folder / "data", 4 * CENSUS_PEOPLE).parent
    else:
        data = shared.folder_of(None, FOLDERS[name], *FILES[name])
    study = read_study(RELEASES / f"{name}.study.toml", beside=[data])
    case = Case(name=name, study=study, source=data / FILES[name][0])
    by_key = []
    for number in range(keys):
        by_key.append(scored_key(case, folder / str(number)))
        print(f"{name}: key {number + 1} of {keys} done", flush=True)
    return (
        f"{table_of(by_key, is_nist=name == 'nist-acs')}\n\n"
        f"Median and worst over {len(by_key)} keys; the wide table alone is read."
    )


def main() -> None:
    """Run the studies."""
    reader = shared.parser(__doc__, prog="./scripts/wide", keys=5)
    reader.add_argument("--study", choices=FILES, action="append", help="one study only")
    chosen = reader.parse_args()
    for name in chosen.study or FILES:
        with shared.workplace(chosen.folder and chosen.folder / name) as folder:
            text = run(name, chosen.keys, folder)
        print(text)
        if chosen.record:
            record(f"wide-{name}", command_line("./scripts/wide"), text)


if __name__ == "__main__":
    try:
        main()
    except TablepackError as error:
        sys.exit(f"error: {error}")
