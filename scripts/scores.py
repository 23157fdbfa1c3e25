"""Build a study's release with fresh keys, score each, print the figures beside what is to be reached.

Called by ./scripts/scores with one study, and by ./scripts/wide (--wide), where the release has one table of all
columns beside all columns and pairs. The wide table alone is scored, and attacked: also one that was made of a half of
the data, with the other half as people who are not in it.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from math import isfinite
from pathlib import Path

import numpy as np
import pandas as pd
import study
from attacks.cloning import clone_accuracy
from bench import TABLEPACK, floor_of
from measured import command_line, markdown, record
from pandas.api.types import is_numeric_dtype
from study import RELEASES, SEED

from engine.api.reading import read
from engine.errors import TablepackError
from engine.evaluation.attacks.protocol import Held
from engine.evaluation.attacks.records import apparent_match, uniques
from engine.evaluation.data.aligned import align, generator
from engine.evaluation.data.reading import read_original, read_release, released_columns
from engine.evaluation.findings import Finding, named
from engine.evaluation.measures.suite import score_all, score_one
from engine.evaluation.study import Row, Study, read_baselines, read_study
from engine.schema import quoted
from engine.spec import ReleaseSpec
from queries.release import open_release

FOLDERS = {"nist-acs": study.NIST, "sd2011": study.SYNTHPOP}
FILES = {
    "nist-acs": ("national2019.csv", "workload.json", "rules.json"),
    "sd2011": ("SD2011.csv",),
    "census": ("people.parquet",),
}
CENSUS_PEOPLE = 27_253  # as many as in the NIST excerpt
CLONES = (1, 4, 16, 64)
QUESTIONS, MOST_VALUES, TINY = 60, 25, 1e-9
"""Statements asked of the wide table, and the most values of a column that they group by."""
TABLES = "".join(f"[[tables]]\n{entry}\n\n" for entry in ("all = 1", "all = 2", 'columns = "all"'))
"""Of a release with a wide table."""
MEASURES = (
    "univariate correlations marginals propensity components inconsistencies regression".split()
)
"""Of a wide table."""
WIDE = [
    Row(label=label, measure=measure, reference=reference, reach=reach, digits=digits, better=better)
    for label, measure, reference, reach, digits, better in (
        ("principal components, mean KS", "components.mean_ks", ".0272", "<= .0062", 4, "lower"),
        ("3-marginals", "marginals.score", "801", "", 1, "higher"),
        ("... age unbinned", "marginals.score_unbinned", "801", ">= 955", 1, "higher"),
        ("pMSE", "propensity.pmse_wide", ".0859", "<= .0020", 4, "lower"),
        ("Kendall, median difference", "correlations.median_difference", ".0117", "<= .0020", 4, "lower"),
        ("univariate, median composite error", "univariate.median_composite_error", "8.0", "", 2, "lower"),
        ("inconsistent records", "inconsistencies.records", "481", "<= 0", 0, "lower"),
        ("slopes of regressions, median error", "regression.median_error", "", "<= .02", 3, "lower"),
        ("... worst", "regression.largest_error", "", "<= .08", 2, "lower"),
        ("quasi-identifier matches, precision gain, median", "apparent_match.median_pi", "-.21", "<= 0", 2, "lower"),
        ("... largest", "apparent_match.largest_pi", ".03", "<= .30", 2, "lower"),
        ("... largest, made of a half: of its people", "members.largest_pi", "", "", 2, "lower"),
        ("... largest, made of a half: of others", "others.largest_pi", "", "", 2, "lower"),
        ("records equal to one of the data", "uniques.exact_matches", "4", "", 0, "lower"),
        ("... made of a half: of its people", "members.exact_matches", "", "", 0, "lower"),
        ("... made of a half: of others", "others.exact_matches", "", "", 0, "lower"),
        ("intervals that hold, counts by 3 and 4 columns", "modelled.counts", "", ">= .90", 3, "higher"),
        ("... means of one in groups by 2 and 3 others", "modelled.means", "", ">= .90", 3, "higher"),
        ("rows with an impossible pair", "fit.impossible", "", "", 0, "lower"),
        ("build, processor seconds", "build.cpu", "", "", 0, "lower"),
    )
]  # fmt: skip
"""References and goals are those of NIST's excerpt, 24 columns; SynDiffix is the reference."""


def original_of(spec: ReleaseSpec, how: Study, release: Path) -> pd.DataFrame:
    reading = how.model_copy(update={"nulls": study.null_spellings(spec)})
    return read_original(spec.source.path, reading, like=released_columns(release))


def measured(how: Study, source: Path, folder: Path, *, wide: bool = False) -> dict[str, float]:
    """Build with a fresh key, time it, and score it; each measure's breakdown is written beside it."""
    shutil.rmtree(folder, ignore_errors=True)
    (folder / "scores").mkdir(parents=True)
    used, start = os.times(), time.perf_counter()
    spec, release = built(how, source, folder, wide=wide)
    seconds, after = time.perf_counter() - start, os.times()
    cpu = after.children_user + after.children_system - used.children_user - used.children_system
    original, released = original_of(spec, how, release), read_release(release)
    found = {
        "build.seconds": seconds,
        "build.cpu": cpu,
        "build.megabytes": release.stat().st_size / 1e6,
        "build.tables": float(len(spec.tables)),
    }
    if not wide:
        floor, _ = floor_of(str(source), spec.tables, study.null_spellings(spec))
        found |= {"build.floor": floor, "build.over_floor": seconds / floor}
        scores = score_all(align(original, released.tables, how), how, seed=SEED)
    else:
        widest = max(released.tables, key=len)
        aligned = align(original, {widest: released.tables[widest]}, how)
        each = {measure: score_one(measure, aligned, how, SEED) for measure in MEASURES}
        scores = {measure: one for measure, one in each.items() if one is not None}
        if how.risks is not None:
            baselines = read_baselines(how, [source.parent]) or {}
            held = Held(aligned=aligned, baselines=baselines)
            for attack in (uniques, apparent_match):
                name = attack.__name__
                scores[name] = attack(held, how.risks, generator(SEED, name))
            scores |= of_half(how, source, folder / "half", baselines)
        found |= modelled(original, release)
        found["fit.impossible"] = float(released.cards[widest]["wide"]["impossible"])
    for measure, one in scores.items():
        one.breakdown.to_csv(folder / "scores" / f"{measure}.csv", index=False)
    return found | named(scores)


def modelled(original: pd.DataFrame, release: Path) -> dict[str, float]:
    """Share of intervals that hold, of random groups that only the wide table answers for."""
    rng, held = np.random.default_rng(SEED), {"counts": [], "means": []}
    with open_release(release) as opened:
        known = [name for name in original if name in opened.columns]
        few = [name for name in known if original[name].nunique() <= MOST_VALUES]
        numbers = [n for n in known if is_numeric_dtype(original[n]) and n not in few]
        for _ in range(QUESTIONS):
            by = rng.choice(few, rng.integers(2, 4), replace=False).tolist()
            of = str(rng.choice(numbers))
            listed = ", ".join(map(quoted, by))
            text = f"SELECT {listed}, count({quoted(of)}) AS n, avg({quoted(of)}) AS m FROM data GROUP BY ALL"
            answer = opened.sql(text, intervals=True).df()
            groups = original.assign(**{name: plain(original[name]) for name in by}).groupby(by)[of]
            truth = groups.agg(["count", "mean"])
            keys = pd.MultiIndex.from_arrays([plain(answer[name]) for name in by])
            real = truth.reindex(keys)
            for name, one in (("n", real["count"].fillna(0)), ("m", real["mean"])):
                ends = [
                    answer[f"{name}_{end}"].to_numpy(float, na_value=np.nan)
                    for end in ("low", "high")
                ]
                is_known = np.isfinite(ends[0]) & one.notna().to_numpy()
                inside = (ends[0] <= one.to_numpy() + TINY) & (one.to_numpy() - TINY <= ends[1])
                held["counts" if name == "n" else "means"] += inside[is_known].tolist()
    return {f"modelled.{name}": float(np.mean(each)) for name, each in held.items()}


def plain(values: pd.Series) -> pd.Series:
    """Values as texts that do not depend on a type; a blank is the empty one."""
    number = pd.to_numeric(values, errors="coerce")
    return (
        number.map("{:.10g}".format)
        .where(number.notna(), values.astype(str))
        .where(values.notna(), "")
    )


def built(how: Study, source: Path, folder: Path, *, wide: bool) -> tuple[ReleaseSpec, Path]:
    path = study.spec_of(
        how.spec,
        folder,
        source=source,
        key=f"{how.folder}.key",
        tables=TABLES if wide else None,
        accept_risk="a wide table is measured" if wide else None,
    )
    release = folder / f"{how.folder}.duckdb"
    subprocess.run([*TABLEPACK, "build", str(path), "-o", str(release)], check=True)
    return read(path), release


def of_half(
    how: Study, source: Path, folder: Path, baselines: Mapping[str, float]
) -> dict[str, Finding]:
    """Attacks on a wide table made of a half of the rows: the same on its people and on the others."""
    folder.mkdir()
    is_text = source.suffix == ".csv"
    rows = (
        pd.read_csv(source, dtype=str, keep_default_na=False)
        if is_text
        else pd.read_parquet(source)
    )
    order = np.random.default_rng(SEED).permutation(len(rows))
    originals = {}
    for who, at in zip(("members", "others"), np.array_split(order, 2), strict=True):
        path = folder / f"{who}{source.suffix}"
        half = rows.iloc[np.sort(at)]
        half.to_csv(path, index=False) if is_text else half.to_parquet(path)
        originals[who] = path
    spec, release = built(how, originals["members"], folder, wide=True)
    released, out = read_release(release), {}
    widest = max(released.tables, key=len)
    for who, path in originals.items():
        of_these = replace(spec, source=replace(spec.source, path=path))
        original = original_of(of_these, how, release)
        held = Held(
            aligned=align(original, {widest: released.tables[widest]}, how), baselines=baselines
        )
        found = [
            attack(held, how.risks, generator(SEED, who)) for attack in (apparent_match, uniques)
        ]
        out |= {who: replace(found[0], figures=found[1].figures | found[0].figures)}
    return out


def is_reached(figure: float, reach: str) -> bool:
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


def table_of(rows: Sequence[Row], by_key: Sequence[Mapping[str, float]]) -> str:
    heads = ("measure", "reference", "reach", "median", "worst", "reached")
    lines = [line(row, [one.get(row.measure, float("nan")) for one in by_key]) for row in rows]
    return markdown(heads, [[cell.replace("|", "\\|") for cell in one] for one in lines])


def run(name: str, folder: Path | None, keys: int, *, wide: bool) -> str:
    files = FILES.get(name, ())
    if name == "census" and folder is None:
        place, people = ("wide-data", 4 * CENSUS_PEOPLE) if wide else ("data", CENSUS_PEOPLE)
        data = study.census_file(RELEASES / name / place, people).parent
    else:
        data = study.folder_of(folder, FOLDERS.get(name, Path()), *files)
    how = read_study(RELEASES / f"{name}.study.toml", beside=[data])
    source = data / files[0] if files else data / Path(read(RELEASES / how.spec).source.path).name
    rows, out = (WIDE if wide else how.rows), RELEASES / (f"wide-{name}" if wide else name)
    if wide and name != "nist-acs":
        rows = [row.model_copy(update={"reference": "", "reach": ""}) for row in rows]
    whole = {}
    if any(row.measure.startswith("cloning.") for row in rows):
        # How often the attacker of attacks/cloning.py is right, at worst over the numbers of clones.
        whole["cloning.accuracy"] = max(clone_accuracy(n).locked.share for n in CLONES)
    by_key = []
    for number in range(1, keys + 1):
        by_key.append(whole | measured(how, source, out / str(number), wide=wide))
        print(f"key {number} done", flush=True)
    head = f"Median and worst over {keys} keys; {by_key[0]['build.tables']:.0f} tables."
    if wide:
        head += " The table of all columns alone is read."
    else:
        floor = np.median([one["build.floor"] for one in by_key])
        head += f" Plain GROUP BYs of the same column sets took {floor:.1f} s."
    page = f"**{how.title}**\n\n{head}\n\n{table_of(rows, by_key)}\n"
    (out / "scores.md").write_text(page)
    (out / "scores.json").write_text(json.dumps({"title": how.title, "keys": by_key}, indent=1))
    print(f"{page}\nwritten to {out / 'scores.md'} and {out / 'scores.json'}")
    return page


def main() -> None:
    reader = study.parser(__doc__, prog="./scripts/scores", keys=5)
    reader.add_argument("study", nargs="?", help="releases/STUDY.study.toml; with --wide: all")
    reader.add_argument("data", nargs="?", type=Path, help="folder that holds the data")
    reader.add_argument("--wide", action="store_true", help="a table of all columns")
    chosen = reader.parse_args()
    if not (chosen.study or chosen.wide):
        reader.error("which study?")
    for name in [chosen.study] if chosen.study else FILES:
        page = run(name, chosen.data, chosen.keys, wide=chosen.wide)
        if chosen.record and name in FILES:
            command = command_line("./scripts/scores")
            if chosen.wide:
                record(f"wide-{name}", command, page)
            else:
                record(f"scores-{name}", command, page)


if __name__ == "__main__":
    try:
        main()
    except TablepackError as error:
        sys.exit(f"error: {error}")
