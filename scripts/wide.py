"""How good and how safe wide tables are, and where the rest of their loss comes from. Called by ./scripts/wide.

A release of a study's columns, pairs and some tables of three columns is built with fresh keys, with one wide table of
all columns. The wide table alone is scored, then attacked, beside the narrower tables that it was made from. For the
ablations a reader's fit of the released tables is made again with less.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import combinations
from pathlib import Path

import numpy as np
import pandas as pd
import study as shared
from bench import reference_seconds
from measured import command_line, markdown, record
from scores import CENSUS_PEOPLE, FILES, FOLDERS, is_reached
from study import RELEASES

import engine
from engine.api.reading import read
from engine.errors import TablepackError
from engine.evaluation.attacks import Held
from engine.evaluation.attacks.records import apparent_match, uniques
from engine.evaluation.data.aligned import Aligned, Distinct, align, generator
from engine.evaluation.data.reading import read_original, read_release, released_columns
from engine.evaluation.findings import Finding
from engine.evaluation.measures import score_one
from engine.evaluation.result import named
from engine.evaluation.study import read_baselines
from engine.evaluation.study.model import Study, read_study
from engine.fit.wide import fit_wide
from engine.fit.wide import rows as of_fit
from engine.schema import (
    KIND_NONNEGATIVE,
    KIND_NULL,
    CellGroups,
    Column,
    ColumnSet,
    Support,
    SyntheticTable,
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
READER_KEY = b"a reader has one"
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
    "fit of the wide table, processor seconds": ("fit.cpu", "228", "<= 30", 1),
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


@dataclass(frozen=True, kw_only=True, slots=True)
class Tables:
    """A release's tables as a fit takes them, and how to read rows."""

    columns: ColumnSet
    supports: dict[str, Support]
    locked: list[SyntheticTable]
    values: dict[str, pd.Series]

    def frame(self, codes: np.ndarray) -> pd.DataFrame:
        """The rows of a fit."""
        return pd.DataFrame(
            {
                name: self.values[name].iloc[codes[:, j]].reset_index(drop=True)
                for j, name in enumerate(self.columns)
            }
        )


def reader_tables(tables: Mapping[ColumnSet, Distinct]) -> Tables:
    """What any reader of a release can fit a wide table to: its tables of one, two and three columns."""
    one = {names[0]: table for names, table in tables.items() if len(names) == 1}
    values, supports = {}, {}
    for name, table in one.items():
        order = table.frame[name].sort_values(na_position="first", kind="stable").index
        own = table.frame[name].loc[order].reset_index(drop=True)
        values[name] = own
        supports[name] = Support(
            column=Column(name=name, kind="integer", value_type="integer"),
            kind=np.where(own.isna(), KIND_NULL, KIND_NONNEGATIVE).astype(np.uint8),
            grid=np.arange(len(own)),
            n=table.n[order],
            measured=np.ones(len(own), dtype=bool),
        )
    locked = []
    for names, table in tables.items():
        if len(names) not in (2, 3):
            continue
        codes = [_positions(values[name], table.frame[name]) for name in names]
        locked.append(
            SyntheticTable(
                columns=names,
                codes=np.stack(codes, axis=1).astype(np.int32),
                n=table.n,
                measured=np.ones(len(table.n), dtype=bool),
                groups=_no_groups(len(names)),
            )
        )
    return Tables(columns=column_set(list(one)), supports=supports, locked=locked, values=values)


def _positions(values: pd.Series, found: pd.Series) -> np.ndarray:
    """The position among the values of each of a table's."""
    known = pd.Index(values.astype(object).where(values.notna(), None))
    out: np.ndarray = known.get_indexer(found.astype(object).where(found.notna(), None))
    return out


def _no_groups(width: int) -> CellGroups:
    none = np.empty((0, width), dtype=np.int64)
    return CellGroups(
        kind=none.astype(np.uint8), low=none, high=none, n=np.empty(0, dtype=np.int64),
        noise_sd=np.empty(0), measured=np.empty(0, dtype=bool), depth=np.empty(0, dtype=np.int8),
    )  # fmt: skip


def counted_tables(rows: pd.DataFrame, sets: Sequence[ColumnSet]) -> dict[ColumnSet, Distinct]:
    """The same tables counted from the data without noise and suppression."""
    out = {}
    for names in sets:
        own = rows.groupby(list(names), dropna=False, observed=True).size().reset_index(name="n")
        out[names] = Distinct(frame=own[list(names)], n=own["n"].to_numpy(np.int64))
    return out


@contextmanager
def without_search() -> Iterator[None]:
    """Fits are rows along the tree, as they come."""
    before = of_fit.BUDGET
    of_fit.BUDGET = before._replace(block_sweeps=0, pair_sweeps=0, sweeps=0, repairs=0)
    try:
        yield
    finally:
        of_fit.BUDGET = before


def fitted(tables: Tables, most: int) -> tuple[Distinct, float]:
    """A reader's fit to the tables of at most so many columns, and its processor seconds."""
    inside = [table for table in tables.locked if len(table.columns) <= most]
    before = time.process_time()
    fit = fit_wide(tables.columns, tables.supports, inside, key=READER_KEY)
    seconds = time.process_time() - before
    return Distinct(frame=tables.frame(fit.codes), n=fit.n), seconds


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
    found["fit.cpu"] = fitted(reader_tables(released.tables), 3)[1]
    return found


def ablations(study: Study, release: Path, rows: pd.DataFrame) -> str:
    """Where the loss comes from: one line a fit."""
    released = read_release(release).tables
    with_noise = reader_tables(released)
    exact = reader_tables(
        counted_tables(rows[list(with_noise.columns)], [t for t in released if len(t) <= 3])
    )
    lines = []
    for label, tables, most, is_searched in (
        ("tree only", with_noise, 2, False),
        ("pairs", with_noise, 2, True),
        ("pairs and triples", with_noise, 3, True),
        ("pairs, noise and suppression off", exact, 2, True),
        ("pairs and triples, noise and suppression off", exact, 3, True),
    ):
        if is_searched:
            made, seconds = fitted(tables, most)
        else:
            with without_search():
                made, seconds = fitted(tables, most)
        found = named(measures(align(rows, {tables.columns: made}, study), study))
        picked = [
            f"{found[figure]:.{digits}f}" if figure in found else ""
            for label_, (figure, _, _, digits) in ROWS.items()
            if label_ in ABLATED
        ]
        lines.append([label, *picked, f"{seconds:.0f}"])
        print(lines[-1], flush=True)
    return markdown(["fit", *ABLATED, "processor seconds"], lines)


ABLATED = (
    "principal components, mean KS", "3-marginals", "... age unbinned", "pMSE", "Kendall, median difference",
    "inconsistent records",
)  # fmt: skip


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


def halves(case: Case, folder: Path) -> str:
    """Records equal to one of half of the data: in a wide table made from it, and in one made from the other half."""
    is_parquet = case.source.suffix == ".parquet"
    rows = (
        pd.read_parquet(case.source)
        if is_parquet
        else pd.read_csv(case.source, dtype=str, keep_default_na=False)
    )
    order = np.random.default_rng(SEED).permutation(len(rows))
    made = {}
    for name, at in (("own", order[::2]), ("other", order[1::2])):
        part = folder / name / case.source.name
        part.parent.mkdir(parents=True)
        some = rows.iloc[np.sort(at)]
        some.to_parquet(part) if is_parquet else some.to_csv(part, index=False)
        half = Case(name=case.name, study=case.study, source=part)
        made[name] = (half, half.built(part.parent)[0])
    half, own = made["own"]
    original, counts = half.original(own), {}
    for name, (_, path) in made.items():
        tables = read_release(path).tables
        wide = max(tables, key=len)
        risks = attacks(align(original, {wide: tables[wide]}, case.study), case.study, {})
        counts[name] = int(risks["uniques"].values["exact_matches"]) if risks else 0
    return (
        f"Records equal to one of a half of the data: {counts['own']} in a wide table made from that half, "
        f"{counts['other']} in one made from the other half."
    )


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


def run(name: str, chosen: argparse.Namespace, folder: Path) -> str:
    """Build, score, attack, fit with less."""
    if name == "census":
        data = shared.census_file(folder / "data", 4 * CENSUS_PEOPLE).parent
    else:
        data = shared.folder_of(None, FOLDERS[name], *FILES[name])
    study = read_study(RELEASES / f"{name}.study.toml", beside=[data])
    case = Case(name=name, study=study, source=data / FILES[name][0])
    nulls = shared.NULLS["nist" if name == "nist-acs" else name]
    # First: where it cannot run, nothing else is lost.
    theirs = chosen.syndiffix and reference_seconds(
        chosen.syndiffix, case.source, nulls, [case.columns]
    )
    by_key = []
    for number in range(chosen.keys):
        by_key.append(scored_key(case, folder / str(number)))
        print(f"{name}: key {number + 1} of {chosen.keys} done", flush=True)
    release = folder / "0" / "release.duckdb"
    parts = [
        table_of(by_key, is_nist=name == "nist-acs"),
        f"Median and worst over {len(by_key)} keys; the wide table alone is read.",
        ablations(study, release, case.original(release)),
        "Fits by a reader from the tables of the first key's release, and from the same counted without noise.",
        halves(case, folder / "halves"),
    ]
    if theirs:
        ours = fitted(reader_tables(read_release(release).tables), 3)[1]
        parts.append(
            f"In one run: SynDiffix takes {theirs[0]:.0f} processor seconds for {len(case.columns)} columns, the fit "
            f"of the wide table {ours:.1f}: 1/{theirs[0] / ours:.0f}."
        )
    return "\n\n".join(parts)


def main() -> None:
    """Run the studies."""
    reader = shared.parser(__doc__, prog="./scripts/wide", keys=5)
    reader.add_argument("--study", choices=FILES, action="append", help="one study only")
    reader.add_argument(
        "--syndiffix", type=Path, metavar="PYTHON", help="a Python that has SynDiffix"
    )
    chosen = reader.parse_args()
    for name in chosen.study or FILES:
        with shared.workplace(chosen.folder and chosen.folder / name) as folder:
            text = run(name, chosen, folder)
        print(text)
        if chosen.record:
            record(f"wide-{name}", command_line("./scripts/wide"), text)


if __name__ == "__main__":
    try:
        main()
    except TablepackError as error:
        sys.exit(f"error: {error}")
