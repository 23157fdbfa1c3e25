"""Figures of mode dp, a part a time, beside the published ones. Called by ./scripts/dp.

sd2011 synthesises one coded table many times by `engine.release.trials`: the engine's own accounting, noise
(OpenDP, fresh entropy), fit and sample, without DuckDB, ledger, process boundary and file. nist24 builds releases.
"""

from __future__ import annotations

import json
import os
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from itertools import combinations
from math import prod
from pathlib import Path

import numpy as np
import pandas as pd
import study
from measured import keep, markdown
from scores import original_of
from study import SEED

import engine
from engine.api.reading import read
from engine.evaluation.data.aligned import align, generator
from engine.evaluation.data.reading import read_release
from engine.evaluation.measures.combinations import fit, k_marginals
from engine.evaluation.study import read_study
from engine.keys import MasterKey
from engine.levels import level_of
from engine.measure import coded_cells
from engine.measure.dp import levels_of
from engine.measure.dp.accounting import rho_of
from engine.params import DPParams
from engine.progress import silent
from engine.release import build
from engine.release.trials import TrialRows, TrialTable, joint_trial
from engine.schema import FloatArray, Int64Array, column_set
from engine.source import open_rows

EPSILONS = (0.1, 0.5, 1.0, 2.0, 10.0)
SD2011 = ("sex", "age", "placesize", "edu", "socprof", "income", "marital")
"""S3, S5 and S7 are the first 3, 5 and 7 (Raab 2022, table 4)."""
NIST7 = ("SEX", "AGEP", "EDU", "MSP", "RAC1P", "OWN_RENT", "HISP")
NIST_AGE_BREAKS = (18, 35, 50, 65)
NIST_GOALS = {0.5: 14.0, 1.0: 7.0, 2.0: 3.2, 10.0: 1.2}
PEERS_DELTA = 1e-6
NOT_APPLICABLE = -8
PAPER = {"post": "paper", "sample": "multinomial", "prior": 1.0, "public_n": True}
"""As Raab 2022 did it."""
WAYS: dict[str, dict[str, object]] = {
    "paper": PAPER,
    "wls": {**PAPER, "post": "wls"},
    "default (wls, rounded, noisy n)": {},
}
LONG = 20
"""How many times the syntheses of S3 are repeated for its own table."""
PEERS = (("mwem-pgm", "", "847", ""), ("AIM", "10", "710", ""))
"""3-marginals that NIST's archive of deidentified data reports."""
FIGURES = {
    "two_way": "mean_two_way_S_pMSE",
    "three_way": "mean_three_way_S_pMSE",
    "ru": "ru_pct",
}


# --- coded tables, and the published figures


def coded(frame: pd.DataFrame, domains: dict[str, Sequence[object]]) -> TrialRows:
    """Code a frame by its columns' lists; a value that a list lacks is an error."""
    columns = column_set(tuple(frame.columns))
    codes = np.column_stack([pd.Index(domains[c]).get_indexer(frame[c]) for c in columns])
    if (codes < 0).any():
        raise ValueError("a value is not in its list")
    values = tuple(tuple(map(str, domains[c])) for c in columns)
    return TrialRows(columns=columns, values=values, codes=codes.astype(np.int64))


def quintile(values: FloatArray) -> Int64Array:
    """Group of each value between the quintiles of all of them; a limit belongs to the group below (as R's `cut`)."""
    return np.searchsorted(np.quantile(values, (0.2, 0.4, 0.6, 0.8)), values).astype(np.int64)


def sd2011(folder: Path, first: int, *, blanks: bool = False) -> TrialRows:
    """Code SD2011 as Raab 2022 did, as far as that can be recovered: k = 60, 2,160, 77,760.

    Age and income in quintile groups of the data; missing education, group and marital status are the commonest value;
    income that is missing or does not apply is one level more. With `blanks` every kind of blank is a level of its own,
    as synthpop's syntheses have them (k = 60, 3,000, 147,000). The project's own users declare breaks instead: groups
    that are cut from the data are a leak.
    """
    raw = pd.read_csv(folder / "SD2011.csv")
    frame = raw[["sex", "placesize"]].assign(age=quintile(raw["age"].to_numpy(np.float64)))
    for name in ("edu", "socprof", "marital"):
        frame[name] = raw[name].fillna("(blank)" if blanks else raw[name].mode()[0])
    has = raw["income"].notna() & (raw["income"] != NOT_APPLICABLE)
    frame["income"] = 5
    frame.loc[has, "income"] = quintile(raw.loc[has, "income"].to_numpy(np.float64))
    if blanks:
        frame.loc[raw["income"].isna(), "income"] = 6
    chosen = frame[list(SD2011[:first])]
    return coded(chosen, {c: sorted(chosen[c].unique()) for c in chosen})


def nist7(folder: Path) -> TrialRows:
    """Seven columns of the NIST excerpt by the lists of its schema, age in 5 public groups: 122,850 cells."""
    raw = pd.read_csv(folder / "national2019.csv", dtype=str, keep_default_na=False)
    schema = json.loads((folder / "schema.json").read_text("utf-8"))["schema"]
    domains: dict[str, Sequence[object]] = {"AGEP": range(len(NIST_AGE_BREAKS) + 1)}
    for name in NIST7:
        if name != "AGEP":
            nulls = ["N"] if schema[name].get("has_null") else []
            domains[name] = list(dict.fromkeys([*nulls, *map(str, schema[name]["values"])]))
    ages = np.searchsorted(NIST_AGE_BREAKS, raw["AGEP"].astype(int), side="right")
    return coded(raw[list(NIST7)].assign(AGEP=ages), domains)


def sizes_of(rows: TrialRows) -> list[int]:
    return [len(values) for values in rows.values]


def shape(rows: TrialRows) -> dict[str, float]:
    """k cells, percentage of them that are empty (p0), percentage of rows that are unique (p1)."""
    n = np.unique(rows.codes, axis=0, return_counts=True)[1]
    k = prod(sizes_of(rows))
    return {"k": k, "p0": 100 * (1 - len(n) / k), "p1": 100 * (n == 1).sum() / len(rows.codes)}


def replicated_uniques(rows: TrialRows, made: TrialTable) -> float:
    """Uniques of the synthetic rows that are unique in the original too, in percent of the original's rows (ru)."""
    sizes = sizes_of(rows)
    keys, n = np.unique(np.ravel_multi_index(tuple(rows.codes.T), sizes), return_counts=True)
    found = np.ravel_multi_index(tuple(made.codes[made.n == 1].T), sizes)
    return 100 * float(np.isin(found, keys[n == 1]).sum()) / len(rows.codes)


def mean_s_pmse(rows: TrialRows, made: TrialTable, way: int) -> float:
    found = []
    for at in combinations(range(len(rows.columns)), way):
        sizes = [len(rows.values[i]) for i in at]
        left, right = (
            np.bincount(np.ravel_multi_index(tuple(codes[:, at].T), sizes), n, prod(sizes))
            for codes, n in ((rows.codes, None), (made.codes, made.n))
        )
        found.append(fit(left.astype(np.float64), right).s_pmse)
    return float(np.mean(found))


def published(
    folder: Path, method: str, measure: str, data: str, epsilon: float | None = None
) -> float:
    """A figure of tables 1 to 3 of Raab 2022; NaN where they have none."""
    told = pd.read_csv(folder / "published_tables.csv")
    is_it = (told["method"] == method) & (told["measure"] == measure)
    is_it &= told["epsilon"].isna() if epsilon is None else told["epsilon"] == epsilon
    return float(told.loc[is_it, data].iloc[0]) if is_it.any() else float("nan")


# --- syntheses


def params_for(rows: TrialRows, **parameters: object) -> DPParams:
    """Parameters over all columns of a table: all two-way margins, or all columns for catall, unless they are given."""
    way = len(rows.columns) if parameters.get("method") == "catall" else 2
    margins = tuple(column_set(m) for m in combinations(rows.columns, way))
    by_cells = parameters.get("post", "wls") == "wls" and parameters.get("epsilon") is not None
    # As a spec has it by default.
    allocation = "cells" if by_cells else "equal"
    return DPParams(columns=rows.columns, margins=margins, allocation=allocation, **parameters)


def figures(
    rows: TrialRows, repeats: int, ways: Sequence[str] = tuple(FIGURES), **parameters: object
) -> dict[str, tuple[float, float]]:
    """Means and their standard errors over several syntheses: mean S_pMSE of each width, ru, seconds."""
    params, rng = params_for(rows, **parameters), np.random.default_rng(SEED)
    measures: dict[str, Callable[[TrialTable], float]] = {
        "two_way": lambda made: mean_s_pmse(rows, made, 2),
        "three_way": lambda made: mean_s_pmse(rows, made, 3),
        "ru": lambda made: replicated_uniques(rows, made),
    }
    found: dict[str, list[float]] = {}
    for _ in range(repeats):
        start = time.perf_counter()
        made = joint_trial(rows, params, MasterKey(rng.bytes(32)))
        found.setdefault("seconds", []).append(time.perf_counter() - start)
        for name in ways:
            found.setdefault(name, []).append(measures[name](made))
    return {
        name: (float(np.mean(all_)), float(np.std(all_, ddof=1) / np.sqrt(repeats)))
        if repeats > 1
        else (all_[0], float("nan"))
        for name, all_ in found.items()
    }


def with_error(value: tuple[float, float]) -> str:
    mean, error = value
    return f"{mean:.2f} ± {error:.2f}" if error == error else f"{mean:.2f}"


# --- parts


def beside(
    got: dict[str, tuple[float, float]], data: Path, method: str, name: str, epsilon: float | None
) -> Iterator[str]:
    """Two-way, three-way and ru, each beside the published figure."""
    for figure, measure in FIGURES.items():
        told = published(data, method, measure, name, epsilon)
        yield with_error(got[figure])
        yield f"{told:.2f}" if told == told else "–"


def part_sd2011(folder: Path | None, repeats: int) -> str:
    """Tables 2 and 3 of Raab 2022, on SD2011."""
    data = study.folder_of(folder, study.SYNTHPOP, "SD2011.csv", "published_tables.csv")
    tables = {f"S{k}": sd2011(data, k) for k in (3, 5, 7)}
    tables |= {f"S{k} with blanks": sd2011(data, k, blanks=True) for k in (5, 7)}
    shapes = [
        [name, figure, f"{found[figure]:,.2f}", f"{published(data, 'original', of, name[:2]):,.2f}"]
        for name, table in tables.items()
        for found in [shape(table)]
        for figure, of in (("k", "k_cells"), ("p0", "p0_pct_empty_cells"), ("p1", "p1_pct_uniques"))
    ]
    heads = ["", "method", "two-way", "published", "three-way", "published", "ru", "published"]
    rows = []
    for name, table in tables.items():
        for method, of_paper in (("catall", "catall"), ("ipf", "ipf_two_way")):
            got = figures(table, repeats, **{**PAPER, "epsilon": None, "method": method})
            rows.append([name, f"{method}, no noise", *beside(got, data, of_paper, name[:2], None)])
        for epsilon in EPSILONS:
            for words, told in WAYS.items():
                got = figures(table, repeats, **told, epsilon=epsilon)
                found = beside(got, data, "dp_ipf_two_way", name[:2], epsilon)
                rows.append([name, f"ipf, {words}, epsilon {epsilon:g}", *found])
    # S3 over so many syntheses that their own error is small beside that of the published mean of ten.
    n, long = LONG * repeats, []
    for epsilon in EPSILONS:
        mean, error = figures(tables["S3"], n, ("two_way",), **PAPER, epsilon=epsilon)["two_way"]
        told = published(data, "dp_ipf_two_way", FIGURES["two_way"], "S3", epsilon)
        off, of_ten = f"{100 * (mean / told - 1):+.0f} %", f"{error * (n / 10) ** 0.5:.2f}"
        long.append([f"{epsilon:g}", with_error((mean, error)), told, off, of_ten])
    long_heads = ["epsilon", f"S3, paper, two-way, {n} syntheses", "published (10)", "difference"]
    return "\n\n".join(
        (
            markdown(["", "figure", "here", "published"], shapes),
            markdown(heads, rows),
            markdown([*long_heads, "sd of a mean of 10"], long),
        )
    )


def part_nist24(folder: Path | None, repeats: int) -> str:
    """All 24 columns of the NIST excerpt: releases/nist-dp.toml built at two epsilons, 3-marginals beside peers."""
    data = study.folder_of(folder, study.NIST, study.FILES["nist"])
    how = read_study(study.RELEASES / "nist-acs.study.toml", beside=[data])
    rows = []
    with tempfile.TemporaryDirectory() as scratch:
        place = Path(scratch)
        spec = read(study.spec_of("nist-dp.toml", place, source=study.data_file("nist", data)))
        for epsilon in (1.0, 10.0):
            for repeat in range(repeats):
                release = place / f"{epsilon:g}-{repeat}.duckdb"
                key = release.with_suffix(".key")
                engine.new_key(key)  # whose ledger has nothing spent
                dp = replace(spec.dp, epsilon=epsilon, budget=None)
                start = time.perf_counter()
                build(replace(spec, key_path=key, dp=dp), release)
                seconds = time.perf_counter() - start
                original = original_of(spec, how, release)
                aligned = align(original, read_release(release).tables, how)
                found = k_marginals(aligned, how.marginals, generator(SEED, "marginals"))
                shown = f"{found.values['score']:.0f}"
                rows.append(("here", f"{epsilon:g}", shown, f"{seconds:.0f}"))
    return markdown(["method", "epsilon", "3-marginals", "seconds"], [*rows, *PEERS])


def coded_nist(data: Path) -> TrialRows:
    """All 24 columns of the NIST excerpt, by the levels that releases/nist-dp.toml declares."""
    with tempfile.TemporaryDirectory() as scratch:
        place = Path(scratch)
        spec = read(study.spec_of("nist-dp.toml", place, source=study.data_file("nist", data)))
        engine.new_key(place / "my.key")
        with open_rows(replace(spec, key_path=place / "my.key"), None, silent) as opened:
            columns = tuple(c for c in opened.ingested.columns if c.name in spec.dp.columns)
            levels = [levels_of(column) for column in columns]
            values = {c.name: dict(enumerate(c.domain)) for c in columns if c.is_ranked}
            cells = coded_cells(opened.ingested, columns, values, ()).cells(spec.dp.columns)
            by_name = {one.column.name: one for one in levels}
            codes = [
                level_of(cells.codes[:, j], by_name[name]) for j, name in enumerate(cells.columns)
            ]
            return TrialRows(
                columns=cells.columns,
                values=tuple(
                    tuple(f"{k:04d}" for k in range(len(by_name[name]))) for name in cells.columns
                ),
                codes=np.repeat(np.column_stack(codes), cells.n_rows, axis=0),
            )


def distances(rows: TrialRows, codes: Int64Array) -> dict[str, float]:
    """Total variation of columns, pairs (mean and worst), and 3-marginals: those with PUMA and without INDP."""
    sizes, names = sizes_of(rows), rows.columns

    def apart(*at: int) -> float:
        shape = [sizes[i] for i in at]
        one, other = (
            np.bincount(np.ravel_multi_index(of[:, at].T, shape), minlength=prod(shape)) / len(of)
            for of in (rows.codes, codes)
        )
        return float(np.abs(one - other).sum() / 2)

    rest = [k for k, name in enumerate(names) if name not in ("PUMA", "INDP")]
    pairs = [apart(*at) for at in combinations(range(len(names)), 2)]
    triples = [apart(names.index("PUMA"), *at) for at in combinations(rest, 2)]
    return {
        "columns": float(np.mean([apart(k) for k in range(len(names))])),
        "pairs": float(np.mean(pairs)),
        "worst": max(pairs),
        "three": 1000 * (1 - float(np.mean(triples))),
    }


def part_peers(folder: Path | None, repeats: int) -> str:
    """Ours and MST on the same codes of the NIST excerpt at the same rho; what it made is kept beside the data.

    A run whose rows are not in the folder PEERS is made with the interpreter PEERS_PYTHON (see ./scripts/dp), if set.
    """
    rows = coded_nist(study.folder_of(folder, study.NIST, study.FILES["nist"]))
    single = tuple((name,) for name in rows.columns)
    pairs = tuple(combinations(rows.columns, 2))
    ways = {"all pairs": {"margins": pairs}, "chosen": {"margins": single, "candidates": pairs}}
    place = Path(os.environ.get("PEERS", ".peers"))
    place.mkdir(exist_ok=True)
    np.savez(place / "rows.npz", names=rows.columns, sizes=sizes_of(rows), codes=rows.codes)
    found: list[list[str]] = []

    def told(epsilon: float, method: str, all_: Sequence[dict[str, float]]) -> None:
        mean = {name: float(np.mean([one[name] for one in all_])) for name in all_[0]}
        shown = [f"{mean[name]:.4f}" for name in ("columns", "pairs", "worst")]
        last = [f"{mean['three']:.1f}", str(len(all_)), f"{mean['seconds']:.0f}"]
        found.append([f"{epsilon:g}", method, *shown, *last])

    for epsilon in EPSILONS[1:]:
        for way, margins in ways.items():
            got = []
            for seed in range(repeats):
                params = DPParams(
                    columns=rows.columns,
                    **margins,
                    epsilon=epsilon,
                    delta=PEERS_DELTA,
                    noise="gaussian",
                    allocation="cells",
                )
                start = time.perf_counter()
                made = joint_trial(rows, params, MasterKey(bytes([seed]) * 32))
                seconds = time.perf_counter() - start
                codes = np.repeat(made.codes, made.n, axis=0)
                got.append(distances(rows, codes) | {"seconds": seconds})
            told(epsilon, f"ours, {way}", got)
        got = []
        for seed in range(repeats):
            out = place / f"mst-{epsilon:g}-{seed}.npz"
            if not out.exists() and (python := os.environ.get("PEERS_PYTHON")):
                rho = repr(rho_of(epsilon, PEERS_DELTA))
                script = Path(__file__).with_name("dp_peers.py")
                command = [python, script, place / "rows.npz", out, rho, str(seed)]
                subprocess.run(command, check=True)
            if out.exists():
                with np.load(out) as held:
                    seconds = {"seconds": float(held["seconds"])}
                    got.append(distances(rows, held["codes"].astype(np.int64)) | seconds)
        if got:
            told(epsilon, "MST", got)
    heads = [
        "epsilon",
        "method",
        "columns",
        "pairs",
        "worst pair",
        "3-marginals",
        "runs",
        "seconds",
    ]
    return markdown(heads, found)


PARTS = {
    "sd2011": (part_sd2011, 10),
    "nist24": (part_nist24, 1),
    "peers": (part_peers, 5),
}
"""Each part, and how often it is repeated by default."""


def main() -> None:
    reader = study.parser(__doc__, prog="./scripts/dp")
    reader.add_argument("part", choices=PARTS)
    reader.add_argument("data", nargs="?", type=Path, help="folder that holds the data")
    reader.add_argument("--repeats", type=int)
    chosen = reader.parse_args()
    run, repeats = PARTS[chosen.part]
    text = run(chosen.data, chosen.repeats or repeats)
    keep(chosen, f"dp-{chosen.part}", "./scripts/dp", text)


if __name__ == "__main__":
    main()
