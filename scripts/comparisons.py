"""Comparisons: baselines beside each other and beside archived files, a sweep of parameters, attacks on releases.

Usage: .venv/bin/python scripts/comparisons.py PART [--folder FOLDER] [--record] ...
  partial   partial synthesis of two columns of SD2011 by CART and by DPMPM, beside full synthesis
  archived  synthetic files that others archived of NIST's excerpt, beside what the same kind of baseline makes here
  baselines both modes beside all baselines on a simulated census: `tablepack compare --with`
  sweep     parameters of mode sticky, what each costs and what it takes from attackers: `tablepack compare --sweep`
  attacks   all attacks on releases under fresh keys; --million: of a census of a million people
--mst is the interpreter of an environment with mbi 2.0.0 and pandas; without it MST is left out. Part of the people of
a sweep and of attacks are held out of every release: they are the non-members that attacks are held against.
"""

from __future__ import annotations

import argparse
import json
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import study
from measured import command_line, markdown, record
from study import NIST, RELEASES, SEED, SYNTHPOP

import engine
from engine.api.reading import read
from engine.evaluation.attacks import Attacker, Held
from engine.evaluation.attacks.records import identification
from engine.evaluation.baselines import (
    Baseline,
    Schema,
    baseline_of,
    partial_synthesis,
    recipe_of,
    schema_of,
    syntheses,
)
from engine.evaluation.baselines.cart import cart
from engine.evaluation.compare import Comparison
from engine.evaluation.compare.building import built_in_scratch, marked_as_scratch
from engine.evaluation.data.aligned import Aligned, align, distinct, generator
from engine.evaluation.data.reading import read_like, read_original
from engine.evaluation.measures import Sections, score_all
from engine.evaluation.measures.analyses import combined_estimates
from engine.evaluation.report import comparison_table
from engine.evaluation.result import named
from engine.evaluation.study import Study
from engine.evaluation.study.model import read_study
from engine.params import SwapParams
from engine.release import build
from engine.schema import column_set
from engine.spec import ReleaseSpec

COMMAND = ".venv/bin/python scripts/comparisons.py"


def told(what: str, done: int, of: int) -> None:
    """Progress as lines."""
    print(f"{done} of {of}: {what}", flush=True)


# --- partial synthesis

COLUMNS = ["sex", "age", "region", "edu", "marital", "socprof", "income", "smoke"]
SYNTHESISED = ("age", "income")
KNOWN = ("sex", "age", "region", "edu", "marital")
NOT_KNOWN = -8
"""How the data says that an income is not known."""
STUDY = Study.model_validate(
    {
        "title": "SD2011",
        "distributions": {"columns": SYNTHESISED},
        "propensity": {},
        "estimates": [
            {"name": "income", "kind": "mean", "column": "income"},
            {"name": "age", "kind": "mean", "column": "age"},
            {"name": "smokers", "kind": "share", "column": "smoke", "value": "YES"},
            {"name": "income on age", "kind": "slope", "column": "income", "on": "age"},
            {
                "name": "income of women",
                "kind": "mean",
                "column": "income",
                "where": {"sex": ["FEMALE"]},
            },
            {
                "name": "age of the widowed",
                "kind": "mean",
                "column": "age",
                "where": {"marital": ["WIDOWED"]},
            },
        ],
    }
)
OF_TABLES = {
    "distributions.largest_u_m": "U_m, larger of age and income",
    "distributions.largest_u_a": "U_a, larger of age and income",
    "propensity.pmse": "pMSE, tree on all columns",
}
RISKS = {
    "expected_match_risk": "expected match risk, people",
    "true_match_rate": "true match rate",
    "false_match_rate": "false match rate",
}
OVERLAP = "overlap of intervals of the sets together"


def ways() -> dict[str, Baseline]:
    """What is compared, by name."""
    found: dict[str, Baseline] = {}
    for name in ("cart", "dpmpm"):
        baseline = baseline_of(name)
        found[f"{name}, partial"] = partial_synthesis(baseline, SYNTHESISED)
        found[f"{name}, full"] = baseline
    return found


def beside(original: pd.DataFrame, synthetic: pd.DataFrame) -> Aligned:
    """A synthetic table beside the data."""
    return align(original, {column_set(list(synthetic)): distinct(synthetic)}, STUDY)


def risks_of(aligned: Aligned, *, is_aligned: bool) -> dict[str, float]:
    """Matches by who knows five columns; a record is a person's own by its row, or in full synthesis by its values."""
    attacker = Attacker(quasi_identifiers=KNOWN, aligned=is_aligned)
    values = identification(
        Held(aligned=aligned), attacker, generator(SEED, "identification")
    ).values
    return {name: float(values.get(name, np.nan)) for name in RISKS}


def measured(
    original: pd.DataFrame, sets: Sequence[pd.DataFrame], *, is_aligned: bool
) -> dict[str, float]:
    """Means over the sets; overlap of intervals of all sets by the rules for partial synthesis."""
    found: list[dict[str, float]] = []
    comparisons = [beside(original, one) for one in sets]
    for aligned in comparisons:
        scores = score_all(aligned, STUDY, seed=SEED)
        values = {f"{s}.{k}": float(v) for s, one in scores.items() for k, v in one.values.items()}
        risks = risks_of(aligned, is_aligned=is_aligned)
        found.append({name: values[name] for name in OF_TABLES} | risks)
    means = pd.DataFrame(found).mean().to_dict()
    together = combined_estimates(comparisons, STUDY.estimates)
    return {str(k): float(v) for k, v in means.items()} | {
        OVERLAP: float(together.values["mean_overlap"])
    }


def partial_and_full(given: argparse.Namespace) -> None:
    """Partial synthesis beside full synthesis: utility and risk."""
    folder = study.folder_of(given.data, SYNTHPOP, study.FILES["sd2011"])
    original = pd.read_csv(folder / "SD2011.csv", usecols=COLUMNS, low_memory=False)[COLUMNS]
    original["income"] = original["income"].where(original["income"] != NOT_KNOWN)
    columns = {"the data itself": measured(original, [original], is_aligned=True)}
    for name, baseline in ways().items():
        start = time.process_time()
        rng = generator(SEED, name)
        sets = syntheses(baseline, original, schema_of(original), given.sets, rng)
        spent = (time.process_time() - start) / given.sets
        is_aligned = name.endswith("partial")
        columns[name] = measured(original, sets, is_aligned=is_aligned) | {"seconds": spent}
        print(name, columns[name], flush=True)
    names = {**OF_TABLES, OVERLAP: OVERLAP, **RISKS, "seconds": "CPU seconds a set"}
    rows = [
        [words, *(f"{c[name]:.4g}" if name in c else "" for c in columns.values())]
        for name, words in names.items()
    ]
    remark = (
        f"{len(original):,} people, columns {', '.join(COLUMNS)}; partial: {' and '.join(SYNTHESISED)}. Means of "
        f"{given.sets} sets; income {NOT_KNOWN} is a blank. The attacker knows {', '.join(KNOWN)}. A person's own "
        "record is row i in partial synthesis and in the data, and in full synthesis one that equals the person's in "
        "all columns: match figures of the two kinds are not of one scale."
    )
    text = f"{markdown(['SD2011', *columns], rows)}\n\n{remark}"
    print(text)
    if given.record:
        record("baselines-sd2011", command_line(COMMAND), text)


# --- archived files

WITHIN = 0.15
SCORED = (
    "univariate",
    "correlations",
    "marginals",
    "propensity",
    "regression",
    "components",
    "inconsistencies",
)
"""Sections of the study that are measured, beside those that say how the data is read."""
FIGURES: Mapping[str, str] = {
    "univariate.median_composite_error": "univariate, median composite error",
    "correlations.median_difference": "Kendall's tau, median difference",
    "marginals.score": "3-marginals, age ranked",
    "propensity.pmse": "pMSE",
    "components.mean_ks": "components, mean KS",
    "regression.median_error": "slopes, median error",
    "inconsistencies.records": "inconsistent records",
}
NUMBERS = "cart, codes as numbers"
FILES: Mapping[str, tuple[str, ...]] = {
    "cart": ("cart", NUMBERS),
    "sample40": ("sample40",),
    "mwem_pgm": ("mst",),
}
"""Archived file, and the baselines of its kind."""


def coded_cart() -> Baseline:
    """CART that takes every code for a number, as R does that reads such a file; a blank is -1."""

    def synthesize(frame: pd.DataFrame, _: Schema, rng: np.random.Generator) -> pd.DataFrame:
        numbers = [c for c in frame if pd.api.types.is_numeric_dtype(frame[c])]
        filled = frame.assign(**{c: frame[c].astype(float).fillna(-1.0) for c in numbers})
        made = cart().synthesize(filled, Schema(numbers=frozenset(numbers)), rng)
        blank = [c for c in numbers if frame[c].isna().any()]
        return made.assign(**{c: made[c].where(made[c] != -1.0) for c in blank})

    return replace(cart(), name=NUMBERS, synthesize=synthesize)


def scores(original: pd.DataFrame, made: pd.DataFrame, scored: Study) -> dict[str, float]:
    """The figures of one synthetic table."""
    aligned = align(original, {column_set(list(made)): distinct(made)}, scored)
    found = named(score_all(aligned, scored, seed=SEED))
    return {name: float(found.get(name, np.nan)) for name in FIGURES}


def is_near(file: float, baseline: float) -> bool:
    """Whether a figure of a file is within 15 % of that of a baseline; of nothing both must be nothing."""
    return abs(file - baseline) <= WITHIN * abs(baseline)


def is_near_one(file: float, baselines: Sequence[float]) -> bool:
    """Whether a figure of a file is within 15 % of what some draw has, or between two."""
    return (
        is_near(file, min(baselines))
        or is_near(file, max(baselines))
        or min(baselines) < file < max(baselines)
    )


def beside_file(
    file: Mapping[str, float], baselines: Sequence[Mapping[str, float]]
) -> list[list[str]]:
    """Rows of the table of one file: its figures, the baseline's median and range, and the one over the other."""
    rows = []
    for name, words in FIGURES.items():
        found = sorted(one[name] for one in baselines)
        middle = float(np.median(found))
        rows.append(
            [
                words,
                f"{file[name]:.4g}",
                f"{middle:.4g} ({found[0]:.4g} to {found[-1]:.4g})",
                f"{file[name] / middle:.2f}" if middle else "",
                "yes" if is_near(file[name], middle) else "no",
                "yes" if is_near_one(file[name], found) else "no",
            ]
        )
    return rows


def archived(given: argparse.Namespace) -> None:
    """Archived files beside baselines of the same columns."""
    data = study.folder_of(given.data, NIST, study.FILES["nist"], "rules.json", "peers")
    whole = read_study(RELEASES / "nist-acs.study.toml", beside=[data])
    unused = {
        name: field.get_default()
        for name, field in Sections.model_fields.items()
        if name not in SCORED
    }
    scored = whole.model_copy(update={**unused, "risks": None})
    original = read_original(data / "national2019.csv", scored)
    baselines = {name: baseline_of(name) for name in ("cart", "sample40")} | {NUMBERS: coded_cart()}
    if given.mst:
        baselines["mst"] = recipe_of("mst", given.mst)
    parts = []
    for name_of_file, kinds in FILES.items():
        path = data / "peers" / f"{name_of_file}.csv"
        file = read_like(path, original, scored, name=name_of_file)
        rows = original[[c for c in original.columns if c in file.columns]]
        of_file = scores(original, file[list(rows)], scored)
        for name in (n for n in kinds if n in baselines):
            found = []
            for seed in range(1, given.seeds + 1):
                rng = generator(SEED + seed, name)
                made = baselines[name].synthesize(rows, schema_of(rows), rng)
                found.append(scores(original, made, scored))
                print(name_of_file, name, seed, found[-1], flush=True)
            heads = [f"{name_of_file}, {rows.shape[1]} columns", "file", f"{name} here"]
            heads += ["ratio", "within 15 %", "of some seed"]
            parts.append(markdown(heads, beside_file(of_file, found)))
    parts.append(
        f"{len(original):,} people. Each baseline sees the columns of its file alone; medians, and ranges, over "
        f"{given.seeds} seeds. Known: CART is R's synthpop, here with its defaults (leaves of 5, splits of 15, "
        "complexity 1e-8), without smoothing: no value of its file is new; the sample has 40 % of the rows, MWEM+PGM "
        "has epsilon 1. Not known: the order in which CART's columns were synthesised, and which were numbers; the "
        "workload, rounds, delta and groups of numbers of MWEM+PGM. MST is another way to choose what is measured for "
        "the same estimation: of the same kind, not of the same settings. Of some seed: within 15 % of what one has, "
        "or between two."
    )
    text = "\n\n".join(parts)
    print(text)
    if given.record:
        record("baselines-nist", command_line(COMMAND), text)


# --- both modes beside all baselines

BASELINES = (
    "margins,sample40,bootstrap100,pram80,swap5,kanon5,mdav3,cart,cart:age+health,parametric,dpmpm"
)
"""Every baseline that needs no environment of its own."""


def baselines(given: argparse.Namespace) -> None:
    """Both modes beside all baselines on one page: utility, risk, seconds."""
    names = given.names if given.mst is None else f"{given.names},mst={given.mst}"
    with study.workplace(given.folder) as folder:
        people = study.census_file(folder / "census", given.people, SEED)
        others = study.census_file(folder / "non_members", given.people, SEED + 1)
        spec = study.spec_of("demo-dp.toml", folder, source=people)
        found = engine.compare_rivals(
            spec,
            names,
            control=others,
            areas=("region",),
            out=given.page,
            force=True,
            progress=told,
        )
    heads, rows = comparison_table(found)
    shown = []
    for one, row in zip(found.generators(), rows, strict=True):
        spent = found.seconds(one.name)[1]
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
    print(text)
    if given.record:
        record("baselines-census", command_line(COMMAND), text)


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
        seconds = found.seconds(one.name)[0]
        shown = ["–" if s is None else f"{s.median:.3f}" for s in spreads]
        rows.append([one.name, *shown, "–" if seconds is None else f"{seconds.median:.0f}"])
    heads = ["setting", *(f.title for f in found.weighed()), *(f"gain {c}" for c in wanted)]
    return markdown([*heads, "seconds"], rows)


def sweep(given: argparse.Namespace) -> None:
    """Parameters of mode sticky, one changed at a time; with places exchanged by records once."""
    for name in given.only or ("nist", "census"):
        with held_out(name, given.data, 20_000) as (spec, others):
            spec = replace(spec, privacy=replace(spec.privacy, swap=PLACES[name]))
            found = engine.compare_levers(
                spec, control=others, seeds=given.keys, out=given.page, force=True, progress=told
            )
        text = (
            f"{found.title}; {found.n_tables} tables, {found.n_rows:,} people, medians of {found.repeats} "
            f"key(s)\n\n{sweep_table(found, WANTED[name])}"
        )
        print(text, flush=True)
        if given.record:
            record(f"sweep-{name}", command_line(COMMAND), text)


def attacks(given: argparse.Namespace) -> None:
    """All attacks on finished releases, each built with a fresh key."""
    texts = []
    for name in ("million",) if given.million else given.only or ("nist", "sd2011", "census"):
        found: list[dict[str, Any]] = []
        with held_out(name, given.data, 1_000_000 if given.million else 20_000) as (spec, others):
            for key in range(1, given.keys + 1):
                report = others.with_name("attacks.html")
                with built_in_scratch(marked_as_scratch(spec), partial(build, jobs=2)) as (path, _):
                    start, data = time.perf_counter(), spec.source.path
                    engine.attack(path, data=data, control=others, out=report, seed=key, force=True)
                one = json.loads(report.with_suffix(".json").read_text("utf-8"))["subjects"][0]
                found.append(one | {"seconds": time.perf_counter() - start})
                print(name, f"key {key}: {found[-1]['seconds']:.0f} s", flush=True)
        rows = []
        for at, figure in enumerate(found[0]["figures"]):
            values = [one["figures"][at]["value"] for one in found]
            if figure["headline"] and None not in values:
                worst = max(values) if figure["better"] == "lower" else min(values)
                limits = f"{figure['good']} / {figure['poor']}"
                rows.append([figure["title"], f"{np.median(values):.3f}", f"{worst:.3f}", limits])
        seconds = [one["seconds"] for one in found]
        rows.append(
            ["seconds of all attacks", f"{np.median(seconds):.0f}", f"{max(seconds):.0f}", ""]
        )
        title = TITLES.get(name, "simulated census")
        heads = [
            f"{title}, {found[0]['tables']} tables",
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
    """Run one part."""
    reader = study.parser(__doc__)
    reader.formatter_class = argparse.RawDescriptionHelpFormatter
    parts = {
        "partial": (partial_and_full, 1),
        "archived": (archived, 1),
        "baselines": (baselines, 1),
        "sweep": (sweep, 3),
        "attacks": (attacks, 5),
    }
    reader.add_argument("part", choices=parts)
    reader.add_argument("data", nargs="?", type=Path, help="folder of the data")
    reader.add_argument("--keys", type=int, help="of a sweep (3) or of attacks (5)")
    reader.add_argument("--only", nargs="+", choices=("nist", "sd2011", "census"))
    reader.add_argument("--million", action="store_true")
    reader.add_argument("--sets", type=int, default=5, help="of partial synthesis")
    reader.add_argument("--seeds", type=int, default=3, help="beside archived files")
    reader.add_argument("--people", type=int, default=10_000, help="beside baselines")
    reader.add_argument("--with", dest="names", default=BASELINES)
    reader.add_argument("--mst")
    reader.add_argument("--page", type=Path, help="HTML of a comparison or a sweep")
    given = reader.parse_args()
    run, keys = parts[given.part]
    given.keys = given.keys or keys
    run(given)


if __name__ == "__main__":
    main()
