"""Figures of mode dp, a part a time, beside the published ones. Called by ./scripts/dp.

sd2011 and nist7 synthesise one coded table many times by the engine's own parts: true margins are counted once;
what each margin gets, noise (OpenDP, fresh entropy), targets, fit and sample are real. Left out are counting in DuckDB,
ledger, process boundary and file. nist24 builds releases. Data are read where they lie.
"""

from __future__ import annotations

import csv
import json
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import combinations
from math import prod
from pathlib import Path

import numpy as np
import pandas as pd
import study
from measured import command_line, markdown, record
from numpy.typing import NDArray

import engine
from engine.api.reading import read
from engine.evaluation.data.aligned import align, generator
from engine.evaluation.data.reading import read_original, read_release, released_columns
from engine.evaluation.measures.combinations import fit, k_marginals
from engine.evaluation.study.model import read_study
from engine.fit.joint import synthesise
from engine.levels import Levels, Margin
from engine.measure.dp import levels_of, shares
from engine.measure.dp.noise import noised
from engine.params import DPParams
from engine.release import build
from engine.schema import Column, ColumnSet, column_set
from engine.spec import ReleaseSpec

SEED = 2021
EPSILONS = (0.1, 0.5, 1.0, 2.0, 10.0)


# --- coded tables, and the published figures

SD2011 = ("sex", "age", "placesize", "edu", "socprof", "income", "marital")
"""S3, S5 and S7 are the first 3, 5 and 7 (Raab 2022, table 4)."""
NIST7 = ("SEX", "AGEP", "EDU", "MSP", "RAC1P", "OWN_RENT", "HISP")
NIST_AGE_BREAKS = (18, 35, 50, 65)
NOT_APPLICABLE = -8
GROUPS = 5


@dataclass(frozen=True, kw_only=True)
class Coded:
    """A table as codes."""

    columns: tuple[str, ...]
    codes: NDArray[np.int64]
    sizes: tuple[int, ...]

    def first(self, n: int) -> Coded:
        """The first columns only."""
        return Coded(columns=self.columns[:n], codes=self.codes[:, :n], sizes=self.sizes[:n])

    def margin(self, columns: Sequence[str]) -> NDArray[np.int64]:
        """Counts of every combination of levels, one axis a column in the order given."""
        at = [self.columns.index(c) for c in columns]
        shape = tuple(self.sizes[i] for i in at)
        key = np.zeros(len(self.codes), np.int64)
        for i in at:
            key = key * self.sizes[i] + self.codes[:, i]
        return np.bincount(key, minlength=prod(shape)).reshape(shape)


def coded(frame: pd.DataFrame, domains: dict[str, Sequence[object]]) -> Coded:
    """Code a frame by its columns' lists; a value that a list lacks is an error."""
    columns = tuple(frame.columns)
    codes = np.empty((len(frame), len(columns)), np.int64)
    for i, name in enumerate(columns):
        codes[:, i] = pd.Index(domains[name]).get_indexer(frame[name])
        if (codes[:, i] < 0).any():
            raise ValueError(f"{name}: a value is not in its list")
    return Coded(columns=columns, codes=codes, sizes=tuple(len(domains[c]) for c in columns))


def quintile(values: NDArray[np.float64]) -> NDArray[np.int64]:
    """Group of each value between the quintiles of all of them; a limit belongs to the group below (as R's `cut`)."""
    limits = np.quantile(values, np.arange(1, GROUPS) / GROUPS)
    return np.searchsorted(limits, values, side="left").astype(np.int64)


def sd2011(folder: Path, *, blanks: bool = False) -> Coded:
    """Code SD2011 as Raab 2022 did, as far as that can be recovered: k = 60, 2,160, 77,760.

    Age and income in quintile groups of the data; missing education, group and marital status are the commonest value;
    income that is missing or does not apply is one level more. With `blanks` every kind of blank is a level of its own,
    as synthpop's syntheses have them (k = 60, 3,000, 147,000). The project's own users declare breaks instead: groups
    that are cut from the data are a leak.
    """
    raw = pd.read_csv(folder / "SD2011.csv")
    frame = pd.DataFrame({"sex": raw["sex"], "age": quintile(raw["age"].to_numpy(np.float64))})
    frame["placesize"] = raw["placesize"]
    for name in ("edu", "socprof", "marital"):
        frame[name] = raw[name].fillna("(blank)" if blanks else raw[name].mode()[0])
    income = raw["income"].to_numpy(np.float64)
    has = ~np.isnan(income) & (income != NOT_APPLICABLE)
    group = np.full(len(raw), GROUPS, np.int64)
    group[has] = quintile(income[has])
    if blanks:
        group[np.isnan(income)] = GROUPS + 1
    frame["income"] = group
    return coded(frame[list(SD2011)], {c: sorted(frame[c].unique()) for c in SD2011})


def nist7(folder: Path) -> Coded:
    """Seven columns of the NIST excerpt by the lists of its schema, age in 5 public groups: 122,850 cells."""
    raw = pd.read_csv(folder / "national2019.csv", dtype=str, keep_default_na=False)
    schema = json.loads((folder / "schema.json").read_text("utf-8"))["schema"]
    frame = raw[list(NIST7)].copy()
    ages = raw["AGEP"].astype(int).to_numpy()
    frame["AGEP"] = np.searchsorted(NIST_AGE_BREAKS, ages, side="right")
    domains: dict[str, Sequence[object]] = {
        name: _listed(schema[name]) for name in NIST7 if name != "AGEP"
    }
    domains["AGEP"] = range(len(NIST_AGE_BREAKS) + 1)
    return coded(frame, domains)


def _listed(described: dict[str, object]) -> list[str]:
    """Values of a column of the schema as texts, N (a blank) among them where it may be null."""
    values = [str(v) for v in described["values"]]
    nulls = ["N"] if described.get("has_null") else []
    return list(dict.fromkeys(nulls + values))


def shape(table: Coded) -> dict[str, float]:
    """k cells, percentage of them that are empty (p0), percentage of rows that are unique (p1)."""
    n = np.unique(table.codes, axis=0, return_counts=True)[1]
    k = prod(table.sizes)
    return {
        "k": k,
        "p0": 100 * (1 - len(n) / k),
        "p1": 100 * float((n == 1).sum()) / len(table.codes),
    }


def replicated_uniques(original: Coded, cells: NDArray[np.int64], n: NDArray[np.int64]) -> float:
    """Uniques of the synthetic rows that are unique in the original too, in percent of the original's rows (ru)."""
    keys, counts = np.unique(_keys(original.codes, original.sizes), return_counts=True)
    found = _keys(cells[n == 1], original.sizes)
    return 100 * float(np.isin(found, keys[counts == 1]).sum()) / len(original.codes)


def _keys(codes: NDArray[np.int64], sizes: Sequence[int]) -> NDArray[np.int64]:
    key = np.zeros(len(codes), np.int64)
    for i, size in enumerate(sizes):
        key = key * size + codes[:, i]
    return key


def mean_s_pmse(original: Coded, cells: NDArray[np.int64], n: NDArray[np.int64], way: int) -> float:
    """Mean S_pMSE over all tables of so many columns; arguments as in `replicated_uniques`."""
    found = []
    for at in combinations(range(len(original.columns)), way):
        size = prod(original.sizes[i] for i in at)
        sizes = [original.sizes[i] for i in at]
        left = np.bincount(_keys(original.codes[:, at], sizes), minlength=size)
        right = np.bincount(_keys(cells[:, at], sizes), weights=n, minlength=size)
        found.append(fit(left.astype(np.float64), right).s_pmse)
    return float(np.mean(found))


def published(
    folder: Path, method: str, measure: str, data: str, epsilon: float | None = None
) -> float:
    """A figure of tables 1 to 3 of Raab 2022; NaN where they have none."""
    with (folder / "published_tables.csv").open(newline="", encoding="utf-8") as file:
        for row in csv.DictReader(file):
            row_epsilon = float(row["epsilon"]) if row["epsilon"] else None
            if (row["method"], row["measure"], row_epsilon) == (method, measure, epsilon):
                return float(row[data]) if row[data] else float("nan")
    return float("nan")


MARGIN_WAY = 2


@dataclass(frozen=True, kw_only=True)
class Synthetic:
    """One synthesis."""

    cells: NDArray[np.int64]
    n: NDArray[np.int64]
    converged: bool
    cycles: int
    seconds: float


def levels_for(table: Coded) -> dict[str, Levels]:
    """Public levels of a coded table's columns."""
    return {
        name: levels_of(
            Column(
                name=name,
                kind="category",
                value_type="integer",
                domain=tuple(range(size)),
                public=True,
                nullable=False,
            )
        )
        for name, size in zip(table.columns, table.sizes, strict=True)
    }


def params_for(table: Coded, **parameters: object) -> DPParams:
    """Parameters over all columns of a table: all two-way margins, or all columns for catall, unless they are given."""
    way = len(table.columns) if parameters.get("method") == "catall" else MARGIN_WAY
    margins = tuple(column_set(m) for m in combinations(sorted(table.columns), way))
    by_cells = parameters.get("post", "wls") == "wls" and parameters.get("epsilon") is not None
    plain = {"columns": column_set(table.columns), "margins": margins}
    plain["allocation"] = (
        "cells" if by_cells else "equal"
    )  # as a spec has it by default, with Laplace noise
    return DPParams(**plain, **parameters)


class Loop:
    """A coded table whose true margins are counted once."""

    def __init__(self, table: Coded) -> None:
        self.table = table
        self.levels = levels_for(table)
        self._counted: dict[ColumnSet, NDArray[np.int64]] = {}

    def counted(self, columns: ColumnSet) -> NDArray[np.int64]:
        """True counts of one margin."""
        if columns not in self._counted:
            self._counted[columns] = np.asarray(self.table.margin(columns), np.int64)
        return self._counted[columns]

    def measured(self, params: DPParams) -> tuple[Margin, tuple[Margin, ...]]:
        """The total and the margins, with fresh noise."""
        noise = params.noise if params.is_protected else None
        sizes = dict(zip(self.table.columns, self.table.sizes, strict=True))
        found = []
        for share in shares(params, sizes):
            counts = np.asarray(
                self.counted(share.columns) if share.columns else len(self.table.codes), np.int64
            )
            found.append(
                Margin(
                    columns=share.columns,
                    n=noised(counts, noise, share.scale),
                    variance=share.variance,
                )
            )
        totals = [m for m in found if not m.columns]
        exact = Margin(columns=(), n=np.array(len(self.table.codes), np.int64), variance=0.0)
        return (totals or [exact])[0], tuple(m for m in found if m.columns)

    def synthesis(self, params: DPParams, rng: np.random.Generator) -> Synthetic:
        """Measure, fit and sample once."""
        total, margins = self.measured(params)
        start = time.perf_counter()
        made = synthesise(
            margins,
            total,
            params=params,
            levels=self.levels,
            zeros=(),
            rng=rng,
            progress=lambda *_: None,
        )
        order = [made.columns.index(c) for c in self.table.columns]
        return Synthetic(
            cells=np.asarray(made.cells, np.int64)[:, order],
            n=made.n,
            converged=all(r.at_rest for r in made.reports),
            cycles=max((r.cycles for r in made.reports), default=0),
            seconds=time.perf_counter() - start,
        )

    def scores(
        self, params: DPParams, repeats: int, seed: int, ways: Sequence[int] = (2, 3)
    ) -> Iterator[dict[str, float]]:
        """Figures of several syntheses: mean S_pMSE of each width, ru, rows, seconds, whether the fit converged."""
        for repeat in range(repeats):
            made = self.synthesis(params, np.random.default_rng([seed, repeat]))
            yield {
                **{f"s_pmse_{w}": mean_s_pmse(self.table, made.cells, made.n, w) for w in ways},
                "ru": replicated_uniques(self.table, made.cells, made.n),
                "rows": float(made.n.sum()),
                "converged": float(made.converged),
                "cycles": float(made.cycles),
                "seconds": made.seconds,
            }


def mean_and_error(values: Sequence[float]) -> tuple[float, float]:
    """Mean and its standard error."""
    found = np.asarray(values, np.float64)
    error = float(found.std(ddof=1) / np.sqrt(len(found))) if len(found) > 1 else float("nan")
    return float(found.mean()), error


# --- parts

PAPER = {"post": "paper", "sample": "multinomial", "prior": 1.0, "public_n": True}
"""As Raab 2022 did it."""
WAYS: dict[str, dict[str, object]] = {
    "paper": PAPER,
    "wls": {**PAPER, "post": "wls"},
    "default (wls, rounded, noisy n)": {},
}
LONG = 20
"""How many times the syntheses of S3 are repeated for its own table."""
NIST_EPSILONS = (0.5, 1.0, 2.0, 10.0, None)
NIST_GOALS = {0.5: 14.0, 1.0: 7.0, 2.0: 3.2, 10.0: 1.2}


def figures(loop: Loop, repeats: int, **parameters: object) -> dict[str, tuple[float, float]]:
    """Means and their standard errors of several syntheses."""
    scores = list(loop.scores(params_for(loop.table, **parameters), repeats, SEED))
    return {name: mean_and_error([one[name] for one in scores]) for name in scores[0]}


def with_error(value: tuple[float, float], digits: int = 2) -> str:
    """A mean with its standard error."""
    mean, error = value
    return f"{mean:.{digits}f} ± {error:.{digits}f}" if error == error else f"{mean:.{digits}f}"


def not_converged(found: dict[str, tuple[float, float]], repeats: int) -> str:
    """How many fits did not converge."""
    missed = round((1 - found["converged"][0]) * repeats)
    return f"{missed} of {repeats}" if missed else "–"


def part_sd2011(folder: Path | None, repeats: int) -> str:
    """Tables 2 and 3 of Raab 2022, on SD2011."""
    data = study.folder_of(folder, study.SYNTHPOP, "SD2011.csv", "published_tables.csv")
    whole = sd2011(data)
    with_blanks = sd2011(data, blanks=True)
    tables = {f"S{k}": whole.first(k) for k in (3, 5, 7)}
    tables |= {f"S{k} with blanks": with_blanks.first(k) for k in (5, 7)}
    rows: list[list[object]] = []
    for name, table in tables.items():
        found = shape(table)
        for figure, measure, digits in (
            ("k", "k_cells", 0),
            ("p0", "p0_pct_empty_cells", 2),
            ("p1", "p1_pct_uniques", 2),
        ):
            told = published(data, "original", measure, name[:2])
            rows.append([name, figure, f"{found[figure]:,.{digits}f}", f"{told:,.{digits}f}"])
    shapes = markdown(["", "figure", "here", "published"], rows)
    heads = ["", "method", "two-way", "published", "three-way", "published", "ru", "published"]
    rows = []
    for name, table in tables.items():
        loop = Loop(table)
        for method, of_paper in (("catall", "catall"), ("ipf", "ipf_two_way")):
            told = {**PAPER, "epsilon": None, "method": method}
            got = figures(loop, repeats, **told)
            rows.append([name, f"{method}, no noise", *beside(got, data, of_paper, name[:2], None)])
        for epsilon in EPSILONS:
            for words, told in WAYS.items():
                got = figures(loop, repeats, **told, epsilon=epsilon)
                rows.append(
                    [
                        name,
                        f"ipf, {words}, epsilon {epsilon:g}",
                        *beside(got, data, "dp_ipf_two_way", name[:2], epsilon),
                    ]
                )
    long = long_run(Loop(tables["S3"]), data, LONG * repeats)
    return "\n\n".join((shapes, markdown(heads, rows), long))


def long_run(loop: Loop, data: Path, repeats: int) -> str:
    """S3 as published, over so many syntheses that their own error is small beside that of a mean of ten."""
    rows = []
    for epsilon in EPSILONS:
        parameters = params_for(loop.table, **PAPER, epsilon=epsilon)
        scores = [one["s_pmse_2"] for one in loop.scores(parameters, repeats, SEED, ways=(2,))]
        mean, error = mean_and_error(scores)
        of_paper = published(data, "dp_ipf_two_way", "mean_two_way_S_pMSE", "S3", epsilon)
        of_ten = error * (repeats / 10) ** 0.5
        off = f"{100 * (mean / of_paper - 1):+.0f} %"
        rows.append([f"{epsilon:g}", with_error((mean, error)), of_paper, off, f"{of_ten:.2f}"])
    heads = [
        "epsilon",
        f"S3, paper, two-way, {repeats} syntheses",
        "published (10)",
        "difference",
        "sd of a mean of 10",
    ]
    return markdown(heads, rows)


def part_nist7(folder: Path | None, repeats: int) -> str:
    """Seven columns of the NIST excerpt, 21 two-way margins, every post-processing and sampling."""
    data = study.folder_of(folder, study.NIST, "national2019.csv", "schema.json")
    loop = Loop(nist7(data))
    heads = [
        "post",
        "sample",
        "epsilon",
        "two-way",
        "goal",
        "three-way",
        "not converged",
        "seconds",
    ]
    rows = []
    for post in ("paper", "synthpop", "wls"):
        for sample in ("multinomial", "rounded"):
            for epsilon in NIST_EPSILONS:
                got = figures(loop, repeats, post=post, sample=sample, epsilon=epsilon)
                goal = NIST_GOALS.get(epsilon or 0.0) if post == "wls" else None
                rows.append(
                    [
                        post,
                        sample,
                        "none" if epsilon is None else f"{epsilon:g}",
                        with_error(got["s_pmse_2"]),
                        f"<= {goal:g}" if goal else "",
                        with_error(got["s_pmse_3"]),
                        not_converged(got, repeats),
                        f"{got['seconds'][0]:.2f}",
                    ]
                )
    return markdown(heads, rows)


def beside(
    got: dict[str, tuple[float, float]], data: Path, method: str, name: str, epsilon: float | None
) -> list[str]:
    """Two-way, three-way and ru, each beside the published figure."""
    out = []
    for figure, measure in (
        ("s_pmse_2", "mean_two_way_S_pMSE"),
        ("s_pmse_3", "mean_three_way_S_pMSE"),
        ("ru", "ru_pct"),
    ):
        goal = published(data, method, measure, name, epsilon)
        out += [
            with_error(got[figure]),
            f"{goal:.2f}" if goal == goal else "–",
        ]
    return out


PEERS = (("mwem-pgm", "", "847"), ("AIM", "10", "710"))
"""3-marginals that NIST's archive of deidentified data reports."""


def with_epsilon(spec: ReleaseSpec, epsilon: float | None, key: Path) -> ReleaseSpec:
    """The same spec with another budget and a fresh key, whose ledger has nothing spent."""
    engine.new_key(key)
    return replace(spec, key_path=key, dp=replace(spec.dp, epsilon=epsilon, budget=None))


def part_nist24(folder: Path | None, repeats: int) -> str:
    """All 24 columns of the NIST excerpt: releases/nist-dp.toml built at two epsilons, 3-marginals beside peers."""
    data = study.folder_of(folder, study.NIST, study.FILES["nist"])
    scored = read_study(study.RELEASES / "nist-acs.study.toml", beside=[data])
    rows: list[list[object]] = []
    with tempfile.TemporaryDirectory() as scratch:
        place = Path(scratch)
        spec = read(study.spec_of("nist-dp.toml", place, source=study.data_file("nist", data)))
        reading = scored.model_copy(update={"nulls": study.null_spellings(spec)})
        for epsilon in (1.0, 10.0):
            for repeat in range(repeats):
                release = place / f"{epsilon:g}-{repeat}.duckdb"
                one = with_epsilon(spec, epsilon, release.with_suffix(".key"))
                start = time.perf_counter()
                build(one, release)
                seconds = time.perf_counter() - start
                original = read_original(spec.source.path, reading, like=released_columns(release))
                aligned = align(original, read_release(release).tables, scored)
                found = k_marginals(aligned, scored.marginals, generator(SEED, "marginals"))
                score = f"{found.values['score']:.0f}"
                rows.append(["here", f"{epsilon:g}", score, f"{seconds:.0f}"])
    rows += [[name, epsilon, told, ""] for name, epsilon, told in PEERS]
    return markdown(["method", "epsilon", "3-marginals", "seconds"], rows)


PARTS: dict[str, tuple[Callable[[Path | None, int], str], int]] = {
    "sd2011": (part_sd2011, 10),
    "nist7": (part_nist7, 5),
    "nist24": (part_nist24, 1),
}
"""Each part, and how often it is repeated by default."""


def main() -> None:
    """Run one part."""
    reader = study.parser(__doc__, prog="./scripts/dp")
    reader.add_argument("part", choices=PARTS)
    reader.add_argument("data", nargs="?", type=Path, help="folder that holds the data")
    reader.add_argument("--repeats", type=int)
    chosen = reader.parse_args()
    run, repeats = PARTS[chosen.part]
    start = time.perf_counter()
    text = run(chosen.data, chosen.repeats or repeats)
    print(f"{text}\n\n{chosen.part}: {time.perf_counter() - start:.0f} s")
    if chosen.record:
        record(f"dp-{chosen.part}", command_line("./scripts/dp"), text)


if __name__ == "__main__":
    main()
