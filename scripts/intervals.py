"""Do the noise intervals hold? Releases of the same data under fresh keys, against the data: coverage by stratum.

Asks counts of single values and ranges, sums, means, quantiles, shares, ratios and differences, the statements of
intervals.toml, counts of stays and patients of a simulated hospital (`events`), and differences of groups that are
alike (`alike`). Keys are made from `--key-seed`, so that nobody has to believe that they were fresh. Gives Markdown:
the share of intervals that hold what the data say, and how much wider they are than the shortest of their shape of
which 94 % do. What a folder holds of an earlier run is used again, release by release and data set by data set.
"""

from __future__ import annotations

import argparse
import pickle
import re
import subprocess
import sys
import tomllib
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pandas as pd
import study
from measured import command_line, markdown, record
from study import Keys, spec_of

import engine
from engine.simulation import simulate_census
from queries.intervals import annotated, tabulate
from queries.release import Release

PEOPLE, SEED = 20_000, 1811
WANTED = 0.94
"""Share of 95 % intervals that must hold the truth in every stratum."""
RANGES, RANGES_OF_MEASURES = 12, 3
"""Random ranges asked of each table and ordered column."""
Tables = tuple[tuple[str, ...], ...]
TABLES: Mapping[str, Tables] = {
    "nist": (
        ("AGEP",), ("PINCP",), ("PINCP_DECILE",), ("AGEP", "SEX"), ("AGEP", "PUMA"), ("PINCP", "SEX"),
        ("EDU", "PINCP"), ("PINCP", "PUMA"), ("MSP", "RAC1P"), ("AGEP", "PINCP_DECILE"), ("AGEP", "MSP"),
        ("PINCP_DECILE", "SEX"), ("MSP", "PINCP_DECILE"), ("AGEP", "MSP", "SEX"), ("AGEP", "MSP", "PINCP_DECILE"),
    ),
    "census": (
        ("age",), ("income",), ("hours",), ("age", "sex"), ("age", "region"), ("income", "sex"), ("hours", "sex"),
        ("activity", "income"), ("income", "region"), ("activity", "education"), ("age", "hours"),
        ("age", "education"), ("activity", "sex"), ("region", "sex"), ("age", "region", "sex"), ("age", "hours", "sex"),
    ),
    "sd2011": (
        ("age",), ("income",), ("height",), ("depress",), ("age", "sex"), ("age", "edu"), ("income", "sex"),
        ("income", "region"), ("income", "socprof"), ("height", "sex"), ("age", "depress"), ("depress", "sex"),
        ("edu", "sex"), ("age", "edu", "sex"),
    ),
    "census-dp": (
        ("age",), ("sex",), ("region",), ("tenure",), ("age", "sex"), ("age", "marital_status"), ("region", "tenure"),
        ("health", "region"), ("health", "sex"), ("age", "region", "sex"),
    ),
    "sd2011-dp": (
        ("sex",), ("edu",), ("marital",), ("placesize",), ("socprof",), ("edu", "sex"), ("edu", "placesize"),
        ("marital", "sex"), ("placesize", "socprof"), ("edu", "socprof"), ("edu", "marital", "sex"),
    ),
}  # fmt: skip
EVENTS, ALIKE = "events", "alike"
ORDERED = ("AGEP", "PINCP", "INDP", "PINCP_DECILE", "age", "income", "hours", "height", "depress")
NUMBERS = tuple(name for name in ORDERED if name not in ("INDP", "PINCP_DECILE"))
SPECS = {"census": "demo.toml", "census-dp": "census-dp.toml", "sd2011-dp": "sd2011-dp.toml"}
"""Specs whose columns and parameters are taken, where their names are others."""
LEAST, MANY, FEWER = 100, 500, 0.92
"""Intervals of a stratum that is shown, and of one in which 94 % must hold; 92 % where there are fewer."""
MOST_WIDE, ONE = 1.25, 1.0
"""Times, or integers a side, that intervals may be wider than the shortest that hold."""
WHOLE = ("median", "quantile")
"""Figures in whole numbers, mostly: years, centimetres, incomes."""
COUNTS = ("count", "SQL count FILTER")
KINDS = {
    "second moments": ("stddev", "var_", "sem(", "corr", "regr", "covar", "skewness", "kurtosis"),
    "quantiles and modes": ("quantile", "median", "mode(", "mad(", "ntile"),
    "windows": (" OVER ",),
    "joins": (" JOIN ", "LATERAL"),
    "subqueries": ("(SELECT", "WITH"),
}
"""Kinds of statements by what they call; the first that fits."""


@dataclass(frozen=True, slots=True, order=True)
class Stratum:
    data: str
    statistic: str
    columns: int  # Of the table that answers
    counted: str = "people"
    asked: str = "any"  # A range or single values
    filled: str = "no"  # Whether that was filled in, or how much of the table
    size: str = "any"  # The true count


# --- coverage and width; `found`: truth, value, low and high, shape (4, n)


def coverage(found: np.ndarray, narrower: int = 0) -> float:
    """Share of intervals, cut by some integers a side but never past the figure, that hold the truth."""
    truth, _, low, high = cut(found, narrower)
    slack = 1e-9 * np.maximum(np.abs(truth), 1.0)
    return float(((truth >= low - slack) & (truth <= high + slack)).mean())


def cut(found: np.ndarray, narrower: int) -> np.ndarray:
    """The same with narrower intervals; of what is not released it is not told whether it is 0 or 1, so 1 stays in."""
    if not narrower:
        return found
    truth, value, low, high = found
    centre = np.where(np.isnan(value), np.minimum(1.0, high), value)
    low_cut = np.minimum(low + narrower, np.maximum(centre, low))
    return np.stack([truth, value, low_cut, np.maximum(high - narrower, centre)])


def excess(found: np.ndarray, most: int | None = None) -> float:
    """Integers a side, `most` at most, by which intervals could be narrowed so that enough hold, on average."""
    most = int(np.max(found[3] - found[2], initial=0)) if most is None else most
    most = max((k for k in range(most + 1) if coverage(found, k) >= WANTED), default=0)
    shorter = cut(found, most)
    return float(np.maximum(shorter[2] - found[2], found[3] - shorter[3]).mean())


def widened(found: np.ndarray) -> float:
    """Factor by which the intervals are wider, on both sides, than the shortest that hold often enough."""
    truth, value, low, high = found[:, np.isfinite(found[3])]
    value = np.where(np.isnan(value), low, value)
    side = np.where(truth > value, high - value, value - low)
    off = np.abs(truth - value)
    with np.errstate(divide="ignore", invalid="ignore"):
        reach = np.where(off <= 1e-9 * np.maximum(np.abs(truth), 1.0), 0.0, off / side)
    needed = float(np.quantile(reach, WANTED, method="higher"))
    if needed:
        return 1 / needed
    has_width = np.quantile(high - low, WANTED) > 0  # nothing is shorter than none
    return float("inf") if has_width else 1.0


def failures(
    found: Mapping[Any, np.ndarray], *, slack: float = 0.0, widths: bool = True
) -> list[str]:
    """Strata in which too few intervals hold the truth, or that are too wide by more than 1 a side.

    A key gives all its intervals at once, so they are fewer than they look: that is what the slack is for.
    """
    out = []
    for key in sorted(found):
        if coverage(found[key]) < WANTED - slack:
            out.append(f"{key}: {coverage(found[key]):.1%} hold the truth")
        if widths and excess(found[key]) > ONE + 10 * slack:
            out.append(f"{key}: too wide by {excess(found[key]):.1f} a side")
    return out


class Held:
    """What releases said, beside the truth, by stratum; and how many figures had no interval."""

    def __init__(self) -> None:
        self._parts: dict[Any, list[np.ndarray]] = {}
        self.without: dict[Any, int] = {}

    def add(self, stratum: Any, found: np.ndarray) -> None:
        known = np.isfinite(found[0]) & ~np.isnan(found[2]) & ~np.isnan(found[3])
        self.without[stratum] = self.without.get(stratum, 0) + int((~known).sum())
        if known.any():
            self._parts.setdefault(stratum, []).append(found[:, known])

    def all(self) -> dict[Any, np.ndarray]:
        return {key: np.concatenate(parts, axis=1) for key, parts in self._parts.items()}


# --- data and releases


def data_of(
    name: str, folder: Path, tables: Tables | None = None, *, seed: int = SEED
) -> pd.DataFrame | None:
    """The columns of the tables, numbers as integers, None for blanks; None where the data are not there."""
    columns = sorted({c for table in tables or TABLES[name] for c in table})
    if name.startswith("census"):
        return census_data(folder / "census", PEOPLE, columns, seed)
    name = name.removesuffix("-dp")
    if study.missing(name) is not None:
        return None
    text = pd.read_csv(study.data_file(name), dtype=str, keep_default_na=False)
    out = {}
    for c in columns:
        known = ~text[c].isin(["", *study.NULLS[name]])
        values = text[c].where(known, "0")
        is_number = c in ORDERED or (name == "nist" and c != "PUMA")
        typed = (values.astype(float).astype(int) if is_number else values).astype(object)
        out[c] = typed.where(known, None)
    return pd.DataFrame(out)


def census_data(folder: Path, people: int, columns: list[str], seed: int = SEED) -> pd.DataFrame:
    if not (folder / "people.parquet").exists():
        simulate_census(folder, people=people, seed=seed)
    frame = pd.read_parquet(folder / "people.parquet")[columns]
    return frame.astype(object).where(frame.notna(), None)


def releases(
    name: str,
    folder: Path,
    keys: int,
    tables: Tables | None = None,
    make_key: Callable[[Path, int], object] | None = None,
    epsilon: float | None = None,
) -> Iterator[Release]:
    """Releases of the same data under fresh keys; those in the folder are used again.

    epsilon: Of mode dp, in place of the spec's.
    """
    is_census = name.startswith("census")
    source = folder / "census" / "people.parquet"
    source = source if is_census else study.data_file(name.removesuffix("-dp"))
    made = spec_of(
        SPECS.get(name, f"{name}.toml"),
        folder,
        source=source,
        tables=tables or TABLES[name],
        accept_risk="simulated people" if is_census else None,
    )
    if epsilon is not None:
        text = re.sub(r"(?m)^epsilon = \S+", f"epsilon = {epsilon}", made.read_text("utf-8"))
        made.write_text(re.sub(r"(?m)^budget = .*\n", "", text), "utf-8")
    yield from study.releases(made.rename(folder / f"{name}.toml"), keys, make_key)


class Truth:
    """What the data itself answers, asked once."""

    def __init__(self, data: pd.DataFrame, **more: pd.DataFrame) -> None:
        self._con = duckdb.connect()
        self._con.register("frame", data.convert_dtypes())
        self._con.execute("CREATE TABLE data AS SELECT * FROM frame")
        for name, frame in more.items():
            self._con.register(name, frame)
        self.of = cache(self._of)

    def _of(self, text: str) -> dict[tuple[Any, ...], float]:
        rows = self._con.execute(text).fetchall()
        return {row[:-1]: float(row[-1]) for row in rows if row[-1] is not None}


def select(by: tuple[str, ...], figure: str, where: Mapping[str, tuple[int, int]]) -> str:
    """A statement: keys first, the figure last."""
    keys = "".join(f'"{c}", ' for c in by)
    limit = " AND ".join(f'"{c}" BETWEEN {a} AND {b}' for c, (a, b) in where.items())
    group = f" GROUP BY {', '.join(map(str, range(1, len(by) + 1)))}" if by else ""
    return f"SELECT {keys}{figure} AS f FROM data{f' WHERE {limit}' if limit else ''}{group}"


def ranges(
    data: pd.DataFrame, column: str, n: int, rng: np.random.Generator, least: float = 0.0
) -> Iterator[dict[str, tuple[int, int]]]:
    """Random ranges of a column, of all widths, at least a share of its values wide."""
    values = np.unique([v for v in data[column] if v is not None])
    for _ in range(n):
        low = np.log(max(2.0, least * len(values)))
        width = int(np.exp(rng.uniform(low, max(low, np.log(len(values))))))
        start = int(rng.integers(0, len(values) - width + 1))
        yield {column: (int(values[start]), int(values[start + width - 1]))}


# --- what is asked


def counts(
    data: pd.DataFrame, tables: Tables, each: Iterable[Release], seed: int = SEED
) -> dict[tuple[int, str, str], np.ndarray]:
    """Counts, by columns of the table, whether a range was asked, and whether what was counted was filled in."""
    truth, rng, found = Truth(data), np.random.default_rng(seed), Held()
    questions: list[tuple[Any, Any, dict[str, tuple[int, int]]]] = [(t, t, {}) for t in tables]
    for table in tables:
        for column in [c for c in table if c in ORDERED]:
            by = tuple(c for c in table if c != column)
            questions += [(table, by, where) for where in ranges(data, column, RANGES, rng)]
    for release in each:
        for table, by, where in questions:
            right = truth.of(select(by, "count(*)", where))
            got = tabulate(release, by, where=where)
            status = np.array(got.status)
            hidden, held = status == "not released", rows_of(release, table, by, where)
            has_rows = np.array([key in held for key in got.keys], dtype=bool)
            is_filled = hidden | np.array([held.get(key, False) for key in got.keys], dtype=bool)
            listed = np.array([right.get(key, 0) for key in got.keys], dtype=float)
            ends = np.stack([listed, got.value, got.low, got.high])
            placed = np.array(["(other)" in key for key in got.keys])
            # Mode dp: modelled tables have no intervals.
            usable = (status != "structural zero") & ~placed & np.isfinite(got.high)
            asked = "range" if where else "single"
            found.add((len(table), asked, "measured"), ends[:, usable & ~is_filled])
            shown = usable & is_filled & (~hidden | has_rows)
            found.add((len(table), asked, "filled"), ends[:, shown])
    return found.all()


def rows_of(
    release: Release,
    table: tuple[str, ...],
    by: tuple[str, ...],
    where: Mapping[str, tuple[int, int]],
) -> dict[tuple[Any, ...], bool]:
    """Groups that have synthetic rows, and whether any was filled in."""
    listed = list(release.route(set(table)))
    asked = f"SELECT physical FROM catalog.tables WHERE columns = {listed!r}"
    view = f"FROM tables.{release.sql(asked).rows[0][0]}"
    text = select(by, "NOT bool_and(measured)", where).replace("FROM data", view)
    return {row[:-1]: bool(row[-1]) for row in release.sql(text).rows}


@dataclass(frozen=True, kw_only=True, slots=True)
class Question:
    """A statement that the data answers, and the parameters of `tabulate` by which a release is asked, if any."""

    kind: str
    text: str
    n_keys: int
    asked: dict[str, Any] | None = None


def of_column(of: str, by: tuple[str, ...], where: dict[str, Any]) -> Iterator[Question]:
    """Sum, mean and quantiles of a column of numbers, and figures put together in SQL."""
    spelled = {
        "sum": f'sum("{of}")',
        "mean": f'avg("{of}")',
        "median": f'median("{of}")',
        "quantile": f'quantile_cont("{of}", 0.9)',
    }
    for measure, figure in spelled.items():
        asked = {"columns": by, "where": where, "measure": measure, "of": of, "quantile": 0.9}
        yield Question(kind=measure, text=select(by, figure, where), n_keys=len(by), asked=asked)
    text = select(by, f'sum("{of}") / count("{of}")', where)
    yield Question(kind="SQL sum / count", text=text, n_keys=len(by))
    if by:
        text = select(by, f'100.0 * sum("{of}") / sum(sum("{of}")) OVER ()', where)
        yield Question(kind="SQL share of the sum", text=text, n_keys=len(by))


def of_rows(by: tuple[str, ...], where: dict[str, Any]) -> Iterator[Question]:
    """Shares and ratios of the groups, of everything and within the first column."""
    for over in ((), by[:1]) if len(by) > 1 else ((),):
        total = f"sum(count(*)) OVER ({f'PARTITION BY {over[0]}' if over else ''})"
        for measure, figure in (
            ("share", f"count(*) / {total}"),
            ("ratio", f"count(*) / nullif({total} - count(*), 0)"),
        ):
            asked = {"columns": by, "where": where, "measure": measure, "over": over}
            yield Question(
                kind=measure, text=select(by, figure, where), n_keys=len(by), asked=asked
            )


def filtered(x: str, by: tuple[str, ...], low: int, high: int) -> Iterator[Question]:
    """What only SQL says: rates by FILTER, and differences of counts and means."""
    keep, others = (
        f'FILTER (WHERE "{x}" BETWEEN {low} AND {high})',
        f'FILTER (WHERE "{x}" > {high})',
    )
    for kind, figure in (
        ("SQL count FILTER", f"count(*) {keep}"),
        ("SQL rate by FILTER", f"100.0 * count(*) {keep} / count(*)"),
        ("SQL difference of counts", f"count(*) {keep} - count(*) {others}"),
        ("SQL difference of means", f'avg("{x}") {others} - avg("{x}") {keep}'),
    ):
        yield Question(kind=kind, text=select(by, figure, {}), n_keys=len(by))


def questions(data: pd.DataFrame, tables: Tables, seed: int) -> Iterator[Question]:
    """Questions for sums, means, quantiles, shares, ratios and differences, the same for every release."""
    rng = np.random.default_rng(seed)
    for table in tables:
        numbers = [c for c in table if c in NUMBERS]
        if len(table) == 1 or {"PINCP", "income"}.isdisjoint(table):
            yield from of_rows(
                table if len(table) < 3 else tuple(c for c in table if c not in numbers), {}
            )
        for number in numbers:
            by = tuple(c for c in table if c != number)
            yield from of_column(number, by, {})
            for where in ranges(data, number, RANGES_OF_MEASURES, rng, 0.05):
                yield from of_column(number, by, where)
                yield from filtered(number, by, *where[number])
                if by:
                    yield from of_rows(by, where)


def measures(
    data: pd.DataFrame, tables: Tables, each: Iterable[Release], seed: int = SEED
) -> dict[tuple[str, int, str, str], np.ndarray]:
    """Figures by kind, columns of the table that answers, whether a range was asked, and the table's filled share."""
    truth, listed, found = Truth(data), list(questions(data, tables, seed)), Held()
    for release in each:
        for question in listed:
            table, rows = answered(release, question)
            share = release.card(*table).suppressed_share if table else 0.0
            absent = 0.0 if question.kind in ("share", "ratio") else np.nan
            right = truth.of(question.text)
            kept = [
                (right.get(key, absent), *map(_number, ends))
                for key, *ends in rows
                if "(other)" not in key
            ]
            asked = "range" if " WHERE " in question.text else "single"
            stratum = (question.kind, len(table), asked, step(share, FILLED, "40 % and more"))
            if kept:
                known = np.array(kept, dtype=float).T
                found.add(stratum, known[:, np.isfinite(known[0])])
    return found.all()


def _number(x: Any) -> float:
    return np.nan if x is None else float(x)


def answered(release: Release, question: Question) -> tuple[tuple[str, ...], list[tuple[Any, ...]]]:
    """Columns of the table that answers; key, value, low and high of every group."""
    if question.asked is not None:
        got = tabulate(release, **question.asked)
        rows = zip(got.keys, got.value, got.low, got.high, got.status, strict=True)
        return got.table, [row[:4] for row in rows if row[4] != "structural zero"]
    said = annotated(release, question.text.replace("FROM data", f'FROM "{release.logical_name}"'))
    n = question.n_keys
    has_ends = len(said.columns) == n + 4  # else not understood: no interval at all
    ends = [row[n : n + 3] if has_ends else (row[n], None, None) for row in said.rows]
    return said.table or (), [(row[:n], *end) for row, end in zip(said.rows, ends, strict=True)]


def statements(
    data: pd.DataFrame, each: Iterable[Release], texts: Mapping[str, str]
) -> tuple[dict[str, np.ndarray], dict[str, int], dict[str, tuple[str, int, float]]]:
    """Statements by name: intervals, figures without, and kind, columns and filled share."""
    regions = sorted(set(data["region"].dropna())) if "region" in data else []
    areas = pd.DataFrame({"region": regions, "weight": range(1, len(regions) + 1)})
    truth, found, facts = Truth(data, areas=areas), Held(), {}
    for release in each:
        for name, text in texts.items():
            own = {"areas": areas} if "areas" in text else None
            said = release.sql(text, tables=own, intervals=True)
            has_ends = said.columns[-1].endswith("_status")
            at = len(said.columns) - (4 if has_ends else 1)
            right, kept = truth.of(text), []
            for row in said.rows:
                if row[:at] in right and row[at] is not None:
                    ends = row[at : at + 3] if has_ends else (row[at], None, None)
                    kept.append((right[row[:at]], *map(_number, ends)))
            kind = next(
                (k for k, calls in KINDS.items() if any(c in text for c in calls)), "others"
            )
            facts[name] = (kind, len(said.table or ()), said.filled_share or 0.0)
            if kept:
                found.add(name, np.array(kept).T)
    return found.all(), found.without, facts


# --- entities with many rows, and groups that are alike

WARDS = ("Medicine", "Surgery", "Dialysis", "Oncology", "Children", "Maternity", "Eyes", "Emergency",
         "Hearts", "Nerves", "Skin", "Psychiatry")  # fmt: skip
UNITS: Mapping[str, tuple[str, Tables]] = {
    "stays": ("", (("ward",), ("sex",), ("born",), ("diagnosis",), ("days",), ("sex", "ward"), ("days", "ward"))),
    "patients": ('count = "entities"\n', (("sex",), ("born",), ("born", "sex"))),
    "patients in each ward": ('count = "entities"\neach = "ward"\n', (("ward",), ("sex", "ward"), ("born", "ward"))),
}  # fmt: skip


def hospital(patients: int = 5_000, stays: int = 100_000, *, seed: int = 14) -> pd.DataFrame:
    """One row a stay; the number of stays of a patient falls off like a power, up to 400 times the middle."""
    rng = np.random.default_rng(seed)
    weight = np.minimum(rng.pareto(1.6, patients) + 0.3, 60.0)
    more = rng.choice(patients, stays - patients, p=weight / weight.sum())
    of = np.concatenate([np.arange(patients), more])
    sex = rng.choice(["F", "M"], patients)
    born = 2020 - np.clip(rng.gamma(6.0, 9.0, patients), 0, 100).astype(int)
    home = rng.choice(12, patients, p=_falling(12))
    ward = np.where(rng.random(stays) < 0.7, home[of], rng.choice(12, stays))
    code = ward + 12 * rng.choice(5, stays, p=_falling(5))  # 60, each at home in one ward
    days = rng.geometric(0.22, stays)
    order = rng.permutation(stays)
    admitted = np.datetime64("2021-01-01") + rng.integers(0, 4 * 365, stays).astype(
        "timedelta64[D]"
    )
    columns = {
        "patient": 100_000 + of * 7,
        "sex": sex[of],
        "born": born[of],
        "ward": np.array(WARDS)[ward],
        "diagnosis": np.array([f"{'ABCDEFGHIJKL'[c % 12]}{c // 12}{c % 7}" for c in code]),
        "admitted": admitted,
        "days": days,
        "cost": np.round(days * rng.lognormal(5.5, 0.5, stays)).astype(int),
    }
    return pd.DataFrame(columns).iloc[order].reset_index(drop=True)


def _falling(n: int) -> np.ndarray:
    """Shares that fall off."""
    share = 1.0 / np.arange(1, n + 1)
    return share / share.sum()


def events(
    folder: Path, frame: pd.DataFrame, keys: int, make_key: Callable[[Path, int], object]
) -> dict[tuple[str, tuple[str, ...]], np.ndarray]:
    """Counts of stays and of patients, by unit and table; the spec is what `init` proposes."""
    frame.to_parquet(folder / "stays.parquet")
    command = [sys.executable, "-c", "from engine.cli import main; main()", "init", "stays.parquet"]
    command += ["--entity", "patient", "-o", "stays.toml", "--force"]
    subprocess.run(command, cwd=folder, check=True, capture_output=True)
    text = (folder / "stays.toml").read_text("utf-8").split("[[tables]]")[0]
    text = text.replace("[privacy]", '[privacy]\naccept_risk = "simulated"', 1)
    found, key = Held(), folder / "stays.key"
    for number in range(keys):
        study.drop_key(key)
        make_key(key, number)
        for unit, (lines, tables) in UNITS.items():
            spec = folder / "release.toml"
            listed = "".join(f"[[tables]]\ncolumns = {list(t)}\n" for t in tables)
            spec.write_text(text.replace("[release]\n", f"[release]\n{lines}", 1) + listed, "utf-8")
            with engine.build(spec, out=folder / "stays.duckdb", jobs=1, force=True) as release:
                for table in tables:
                    own = frame if unit == "stays" else frame.drop_duplicates(["patient", *table])
                    true = own.groupby(list(table)).size()
                    got = tabulate(release, table)
                    right = [true.get(key if len(key) > 1 else key[0], 0) for key in got.keys]
                    ends = np.stack([right, got.value, got.low, got.high])
                    found.add((unit, table), ends[:, np.array(got.status) != "not released"])
    return found.all()


def alike(folder: Path, keys: int, key: Keys) -> Iterator[tuple[Stratum, np.ndarray]]:
    """Differences of groups that are alike: the truth is 0. Where the interval leaves it out, `differs` says yes."""
    letters = "ABCDEFGHIJKLMNOPQRST"
    rows = [(g, int(age)) for g in letters for age in np.repeat(np.arange(20, 40), 10)]
    frame = pd.DataFrame(rows, columns=["region", "age"]).sample(frac=1, random_state=5)
    frame.insert(0, "person_id", range(len(frame)))
    frame.to_parquet(folder / "alike.parquet")
    spec = folder / "alike.toml"
    spec.write_text(
        f'[release]\ntitle = "Alike"\nvintage = "1"\nkey = "{folder / "fresh.key"}"\n[source]\n'
        f'path = "{folder / "alike.parquet"}"\nentities = ["person_id"]\n[privacy]\naccept_risk = "simulated"\n'
        '[columns.person_id]\nkind = "integer"\n[columns.region]\nkind = "category"\n[columns.age]\nkind = "integer"\n'
        '[[tables]]\ncolumns = ["age"]\n[[tables]]\ncolumns = ["region"]\n[[tables]]\ncolumns = ["age", "region"]\n',
        "utf-8",
    )
    pairs = list(zip(letters[::2], letters[1::2], strict=True))
    for figure, columns in {
        "count(*)": 1,
        "avg(age)": 2,
        "sum(age)": 2,
        "stddev_pop(age)": 2,
    }.items():
        side = figure + " FILTER (WHERE region = '{}')"
        listed = ", ".join(
            f"differs({side.format(a)}, {side.format(b)}) AS d{i}" for i, (a, b) in enumerate(pairs)
        )
        found = []
        for release in study.releases(spec, keys, key):
            row = release.sql(f"SELECT {listed} FROM data", intervals=True).rows[0]
            low, high = np.array(row, dtype=object).reshape(len(pairs), -1)[:, 1:3].astype(float).T
            found.append(np.stack([0 * low, (low + high) / 2, low, high]))
        yield (
            Stratum(ALIKE, f"differs: {figure}", columns, asked="single", filled="under 1 %"),
            np.concatenate(found, axis=1),
        )


# --- strata

SIZES = ((10, "under 10"), (100, "10 to 99"), (1_000, "100 to 999"))
FILLED = ((0.01, "under 1 %"), (0.1, "1 to 9 %"), (0.4, "10 to 39 %"))


def step(x: float, steps: tuple[tuple[float, str], ...], last: str) -> str:
    return next((word for most, word in steps if x < most), last)


def by_size(base: Stratum, found: np.ndarray) -> Iterator[tuple[Stratum, np.ndarray]]:
    """Counts by the size of the true one."""
    words = np.array([step(x, SIZES, "1,000 and more") for x in found[0]])
    for word in np.unique(words):
        yield replace(base, size=str(word)), found[:, words == word]


def strata(
    name: str, folder: Path, chosen: argparse.Namespace, epsilon: float | None = None
) -> Iterator[tuple[Stratum, np.ndarray]]:
    key = Keys(f"{chosen.key_seed} {name}")
    if name == EVENTS:
        frame = hospital(chosen.patients, chosen.stays, seed=chosen.seed)
        for (unit, table), found in events(folder, frame, chosen.keys, key).items():
            yield from by_size(Stratum(EVENTS, "count", len(table), unit, "single"), found)
        return
    if name == ALIKE:
        yield from alike(folder, 3 * chosen.keys, key)
        return
    data = data_of(name, folder, seed=chosen.seed)
    if data is None:
        print(f"({name}: {study.missing(name)})")
        return

    def each(keys: int) -> Iterator[Release]:
        return releases(name, folder, keys, make_key=key, epsilon=epsilon)

    for (n, asked, word), found in counts(
        data, TABLES[name], each(chosen.keys), chosen.seed
    ).items():
        filled = "yes" if word == "filled" else "no"
        yield from by_size(Stratum(name, "count", n, asked=asked, filled=filled), found)
    of_measures = (
        {} if name.endswith("dp") else measures(data, TABLES[name], each(chosen.keys), chosen.seed)
    )
    for (kind, n, asked, filled), found in of_measures.items():
        yield Stratum(name, kind, n, asked=asked, filled=filled), found
    found_by, _, facts = statements(data, each(chosen.replays), texts_of("listed", name))
    parts: dict[Stratum, list[np.ndarray]] = {}
    for statement, found in found_by.items():
        kind, n, share = facts[statement]
        stratum = Stratum(name, f"replays: {kind}", n, filled=step(share, FILLED, "40 % and more"))
        parts.setdefault(stratum, []).append(found)
    yield from ((stratum, np.concatenate(each_, axis=1)) for stratum, each_ in parts.items())


def by_epsilon(name: str, folder: Path, chosen: argparse.Namespace) -> list[list[str]]:
    """Coverage and width in mode dp: all strata of a kind of question together, epsilon by epsilon."""
    rows = []
    for epsilon in chosen.epsilon:
        place = folder / f"{name}-{epsilon:g}"
        place.mkdir(exist_ok=True)
        parts: dict[tuple[str, ...], list[np.ndarray]] = {}
        for one, found in strata(name, place, chosen, epsilon):
            parts.setdefault((one.statistic, str(one.columns), one.asked), []).append(found)
        for kind, each in sorted(parts.items()):
            got = np.concatenate(each, axis=1)
            held = f"{coverage(got):.1%}"
            rows.append(
                [name, f"{epsilon:g}", *kind, f"{got.shape[1]:,}", held, f"{widened(got):.2f}"]
            )
            print(rows[-1], flush=True)
    return rows


def texts_of(part: str, name: str) -> dict[str, str]:
    found = tomllib.loads(Path(__file__).with_suffix(".toml").read_text("utf-8"))
    texts: dict[str, str] = found[part][name]
    return texts


def wider(stratum: Stratum, found: np.ndarray) -> tuple[str, bool]:
    """Integers a side for counts, a factor for all else, both for quantiles; and whether that is too wide."""
    if stratum.statistic in COUNTS and stratum.data != EVENTS:
        return f"{(side := excess(found)):.1f} a side", side > ONE
    times = widened(found)
    if stratum.statistic not in WHOLE or times <= MOST_WIDE:
        return f"{times:.2f} times", times > MOST_WIDE
    side = excess(found[:, np.isfinite(found).all(axis=0)], most=2)
    return f"{times:.2f} times, {'more than ' * (side > ONE)}one a side", side > ONE


def table_of(found: Mapping[Stratum, np.ndarray]) -> str:
    rows, short, wide, few = [], 0, 0, []
    for stratum, got in found.items():
        n = got.shape[1]
        if n < LEAST:
            few.append(got)
            continue
        holds = coverage(got)
        short += holds < (WANTED if n >= MANY else FEWER)
        width, is_wide = wider(stratum, got)
        wide += is_wide
        known = got[:, np.isfinite(got[2:]).all(axis=0)]
        mean = float(np.mean(known[3] - known[2]))
        fields = [getattr(stratum, name) for name in Stratum.__slots__]
        rows.append([*fields, f"{n:,}", f"{100 * holds:.1f}", f"{mean:,.4g}", width])
    rows.sort(key=lambda row: float(row[-3]))
    heads = ["data", "statistic", "columns", "counted", "asked", "filled in", "true count", "intervals",
             "% that hold", "mean width", "wider than the shortest that hold"]  # fmt: skip
    text = (
        f"{len(rows)} strata of {LEAST} and more intervals; {short} fall short of 94 % ({MANY} and more) or 92 %, "
        f"{wide} are too wide."
    )
    if few:
        together = np.concatenate(few, axis=1)
        share = coverage(together)
        text += f" {len(few)} smaller strata have {together.shape[1]:,} intervals, of which {share:.1%} hold."
    return f"{text}\n\n{markdown(heads, rows)}"


def unlisted(name: str, folder: Path, chosen: argparse.Namespace) -> str:
    """Statements that no rule was made on, worst first."""
    data = data_of(name, folder, seed=chosen.seed)
    if data is None:
        return f"{name}: {study.missing(name)}"
    each = releases(name, folder, chosen.keys, make_key=Keys(f"{chosen.key_seed} {name}"))
    texts = texts_of("unlisted", name)
    found, without, _ = statements(data, each, texts)
    rows = sorted(
        ([statement, f"{got.shape[1]:,}", f"{coverage(got):.1%}", f"{widened(got):.2f}"]
         for statement, got in found.items()),
        key=lambda row: float(row[2][:-1]),
    )  # fmt: skip
    rows += [[statement, "0", "", ""] for statement in texts if statement not in found]
    enough = sum(coverage(got) >= WANTED for got in found.values())
    together = coverage(np.concatenate(list(found.values()), axis=1))
    heads = [
        "statement",
        "intervals",
        "hold the truth",
        "wider than needed for 94 %, factor",
        "without",
    ]
    return (
        f"{chosen.keys} keys. Of {len(texts)} statements {len(found)} have intervals, {enough} of which hold in 94 % "
        f"and more; all intervals together: {together:.1%}.\n\n"
        + markdown(heads, [[*row, f"{without.get(row[0], 0):,}"] for row in rows])
    )


def main() -> None:
    names = (*TABLES, EVENTS, ALIKE)
    reader = study.parser(__doc__, keys=6, data=names, seed=SEED)
    reader.add_argument("--replays", type=int, default=3, help="keys of them asked statements, too")
    reader.add_argument("--key-seed", default="strata 1811")
    reader.add_argument("--patients", type=int, default=3_000)
    reader.add_argument("--stays", type=int, default=30_000)
    reader.add_argument("--epsilon", type=float, nargs="+", help="mode dp: a study for each")
    reader.add_argument("--unlisted", action="store_true", help="only statements without a rule")
    chosen = reader.parse_args()
    command = command_line(".venv/bin/python scripts/intervals.py")
    with study.workplace(chosen.folder) as folder:
        if chosen.epsilon:
            names = chosen.data or [name for name in TABLES if name.endswith("-dp")]
            rows = [row for name in names for row in by_epsilon(name, folder, chosen)]
            heads = [
                "data",
                "epsilon",
                "statistic",
                "columns",
                "asked",
                "intervals",
                "hold",
                "wider",
            ]
            said = (
                f"{chosen.keys} keys a data set and epsilon, {chosen.replays} of them for replays, "
                f'made from "{chosen.key_seed}".'
            )
            text = f"{said} Wider: factor to the shortest intervals of which 94 % hold.\n\n{markdown(heads, rows)}"
            print(text)
            if chosen.record:
                record("intervals-dp-epsilon", command, text)
            return
        if chosen.unlisted:
            for name in chosen.data or ("census", "nist", "sd2011"):
                text = unlisted(name, folder, chosen)
                print(f"{name}: {text}", flush=True)
                if chosen.record:
                    record(f"intervals-unlisted-{name}", command, text)
            return
        found: dict[Stratum, np.ndarray] = {}
        for name in chosen.data or names:
            kept = folder / f"{name}.strata"
            if not kept.exists():
                kept.write_bytes(pickle.dumps(dict(strata(name, folder, chosen))))
            found |= pickle.loads(kept.read_bytes())
    said = f'{chosen.keys} keys a data set, {chosen.replays} of them for replays, made from "{chosen.key_seed}".'
    text = f"{said} {table_of(found)}"
    print(text)
    if chosen.record:
        for name in chosen.data or ("strata",):
            record(f"intervals-{name}", command, text)


if __name__ == "__main__":
    main()
