"""Do the intervals of statements that no closed form covers hold? Their spread over copies, under fresh keys.

Gives Markdown: per statement (correlations, approximate quantiles, modes, windows, joins, CTEs) the share of intervals
over all keys that hold what the data say, by what factor they are wider than the shortest that hold in 94 % of cases,
and how many figures have none. What is refused by rule is asked too.
Usage: python scripts/intervals_copies.py [--unlisted] [--keys N] [--data nist|census|sd2011] [--folder F] [--seed S]
(default: all data, 60 keys; --unlisted asks the statements of intervals_unlisted.toml, which no rule was made on)
"""

from __future__ import annotations

import re
import tempfile
import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

import duckdb
import intervals
import numpy as np
import pandas as pd
from intervals_measures import Held, coverage, widened
from measured import command_line, record

from queries.release import Release

TABLES: Mapping[str, intervals.Tables] = {
    "census": (
        ("age",), ("hours",), ("income",), ("age", "sex"), ("age", "region"), ("age", "education"), ("hours", "sex"),
        ("age", "hours"), ("income", "sex"), ("activity", "education"), ("activity", "sex"), ("region", "sex"),
        ("age", "region", "sex"), ("age", "hours", "sex"),
    ),
    "nist": (
        ("AGEP",), ("PINCP",), ("PINCP_DECILE",), ("AGEP", "SEX"), ("AGEP", "MSP"), ("PINCP_DECILE", "SEX"),
        ("MSP", "PINCP_DECILE"), ("AGEP", "PINCP_DECILE"), ("MSP", "RAC1P"), ("AGEP", "MSP", "PINCP_DECILE"),
    ),
    "sd2011": (
        ("age",), ("height",), ("depress",), ("income",), ("age", "sex"), ("age", "edu"), ("height", "sex"),
        ("depress", "sex"), ("age", "depress"), ("edu", "sex"),
    ),
}  # fmt: skip
_GINI = (
    "WITH t AS (SELECT {x} AS x, row_number() OVER (ORDER BY {x}) AS i, count(*) OVER () AS n FROM data "
    "WHERE {x} IS NOT NULL) SELECT sum((2.0 * i - n - 1) * x) / (any_value(n) * sum(x)) FROM t"
)
STATEMENTS: Mapping[str, Mapping[str, str]] = {
    "census": {
        "corr": "SELECT corr(age, hours) FROM data",
        "corr of a condition": "SELECT corr(age, (sex = 'Male')::INT) FROM data",
        "regr_slope": "SELECT regr_slope(hours, age) FROM data",
        "regr_intercept": "SELECT regr_intercept(hours, age) FROM data",
        "regr_r2": "SELECT regr_r2(hours, age) FROM data",
        "covar_pop": "SELECT covar_pop(age, hours) FROM data",
        "approx_quantile": "SELECT sex, approx_quantile(age, 0.75) FROM data GROUP BY sex",
        "approx_quantile by region": "SELECT region, approx_quantile(age, 0.25) FROM data GROUP BY region",
        "mode": "SELECT region, mode(age) FROM data GROUP BY region",
        "mode by education": "SELECT education, mode(age) FROM data GROUP BY education",
        "stddev_samp": "SELECT region, stddev_samp(age) FROM data GROUP BY region",
        "stddev of hours": "SELECT sex, stddev_pop(hours) FROM data GROUP BY sex",
        "variance": "SELECT education, var_pop(age) FROM data GROUP BY education",
        "standard error": "SELECT sex, sem(age) FROM data GROUP BY sex",
        "coefficient of variation": "SELECT region, stddev_pop(age) / avg(age) FROM data GROUP BY region",
        "mad": "SELECT region, mad(age) FROM data GROUP BY region",
        "interquartile range": "SELECT region, quantile_cont(age, 0.75) - quantile_cont(age, 0.25) FROM data "
        "GROUP BY region",
        "ratio of medians": "SELECT region, median(age) FILTER (WHERE sex = 'Female') / "
        "median(age) FILTER (WHERE sex = 'Male') FROM data GROUP BY region",
        "mean of logarithms": "SELECT sex, avg(ln(1 + age)) FROM data GROUP BY sex",
        "geometric mean": "SELECT education, geomean(1 + age) FROM data GROUP BY education",
        "effect size": "SELECT (avg(age) FILTER (WHERE sex = 'Female') - avg(age) FILTER (WHERE sex = 'Male')) / "
        "stddev_pop(age) FROM data",
        "Gini": _GINI.format(x="age"),
        "Gini of hours": _GINI.format(x="hours"),
        "running total": "SELECT age, sum(count(*)) OVER (ORDER BY age) FROM data WHERE age BETWEEN 20 AND 60 GROUP "
        "BY age",
        "cumulative share": "SELECT age, sum(count(*)) OVER (ORDER BY age) / sum(count(*)) OVER () FROM data GROUP "
        "BY age",
        "moving mean": "SELECT age, avg(count(*)) OVER (ORDER BY age ROWS BETWEEN 2 PRECEDING AND 2 FOLLOWING) FROM "
        "data "
        "WHERE age BETWEEN 20 AND 60 GROUP BY age",
        "difference to the row before": "SELECT age, count(*) - lag(count(*)) OVER (ORDER BY age) FROM data "
        "WHERE age BETWEEN 20 AND 60 GROUP BY age",
        "rank": "SELECT region, rank() OVER (ORDER BY avg(age)) FROM data GROUP BY region",
        "rank within": "SELECT activity, sex, rank() OVER (PARTITION BY sex ORDER BY count(*)) FROM data "
        "GROUP BY activity, sex",
        "percent_rank": "SELECT region, percent_rank() OVER (ORDER BY avg(age)) FROM data GROUP BY region",
        "share partitioned by a text": "SELECT region, sex, count(*) / sum(count(*)) OVER (PARTITION BY region || 'x') "
        "FROM data GROUP BY region, sex",
        "above the mean": "SELECT region, count(*) FROM data WHERE age > (SELECT avg(age) FROM data) GROUP BY region",
        "share of a CTE": "WITH t AS (SELECT region, sum(age) AS s FROM data GROUP BY region) "
        "SELECT region, s / (SELECT sum(s) FROM t) FROM t",
        "mean against all": "SELECT region, avg(age) - (SELECT avg(age) FROM data) FROM data GROUP BY region",
        "dissimilarity": "WITH t AS (SELECT activity, count(*) FILTER (WHERE sex = 'Male') AS m, "
        "count(*) FILTER (WHERE sex = 'Female') AS f FROM data GROUP BY activity) "
        "SELECT sum(abs(m / (SELECT sum(m) FROM t) - f / (SELECT sum(f) FROM t))) / 2 FROM t",
        "join with own table": "SELECT sex, sum(weight * age) / sum(weight) FROM data JOIN areas USING (region) "
        "GROUP BY sex",
        "spread with own weights": "SELECT sex, stddev_pop(weight * age) FROM data JOIN areas USING (region) GROUP "
        "BY sex",
        "GREATEST": "SELECT education, avg(greatest(age, 40)) FROM data GROUP BY education",
        "odds ratio": "SELECT activity, (count(*) FILTER (WHERE sex = 'Male') / count(*) FILTER (WHERE sex = "
        "'Female')) "
        "/ (SELECT count(*) FILTER (WHERE sex = 'Male') / count(*) FILTER (WHERE sex = 'Female') FROM data) FROM data "
        "GROUP BY activity",
        "lateral join": "SELECT b, avg(age) FROM data, LATERAL (SELECT age // 20 * 20 AS b) GROUP BY b",
        "refused: stddev of income": "SELECT sex, stddev_samp(income) FROM data GROUP BY sex",
        "refused: entropy": "SELECT region, entropy(age) FROM data GROUP BY region",
        "refused: median of groups": "SELECT median(n) FROM (SELECT age, count(*) AS n FROM data GROUP BY age)",
        "refused: median less mean": "SELECT region, median(age) - avg(age) FROM data GROUP BY region",
    },
    "nist": {
        "corr": "SELECT corr(AGEP, PINCP_DECILE) FROM data",
        "regr_slope": "SELECT regr_slope(PINCP_DECILE, AGEP) FROM data",
        "stddev_samp": "SELECT MSP, stddev_samp(AGEP) FROM data GROUP BY MSP",
        "approx_quantile": "SELECT SEX, approx_quantile(PINCP_DECILE, 0.75) FROM data GROUP BY SEX",
        "mode": "SELECT MSP, mode(PINCP_DECILE) FROM data GROUP BY MSP",
        "mad": "SELECT MSP, mad(AGEP) FROM data GROUP BY MSP",
        "coefficient of variation": "SELECT MSP, stddev_pop(PINCP_DECILE) / avg(PINCP_DECILE) FROM data GROUP BY MSP",
        "Gini": _GINI.format(x="AGEP"),
        "cumulative share": "SELECT AGEP, sum(count(*)) OVER (ORDER BY AGEP) / sum(count(*)) OVER () FROM data GROUP "
        "BY AGEP",
        "rank": "SELECT RAC1P, MSP, rank() OVER (PARTITION BY RAC1P ORDER BY count(*)) FROM data GROUP BY RAC1P, MSP",
        "share of a CTE": "WITH t AS (SELECT MSP, sum(AGEP) AS s FROM data GROUP BY MSP) "
        "SELECT MSP, s / (SELECT sum(s) FROM t) FROM t",
        "above the mean": "SELECT SEX, count(*) FROM data WHERE AGEP > (SELECT avg(AGEP) FROM data) GROUP BY SEX",
        "refused: stddev of income": "SELECT stddev_samp(PINCP) FROM data",
    },
    "sd2011": {
        "corr": "SELECT corr(age, depress) FROM data",
        "regr_slope": "SELECT regr_slope(depress, age) FROM data",
        "stddev_samp": "SELECT edu, stddev_samp(age) FROM data GROUP BY edu",
        "stddev of height": "SELECT sex, stddev_samp(height) FROM data GROUP BY sex",
        "approx_quantile": "SELECT sex, approx_quantile(height, 0.75) FROM data GROUP BY sex",
        "mode": "SELECT sex, mode(depress) FROM data GROUP BY sex",
        "mad": "SELECT edu, mad(age) FROM data GROUP BY edu",
        "coefficient of variation": "SELECT sex, stddev_pop(depress) / avg(depress) FROM data GROUP BY sex",
        "Gini": _GINI.format(x="age"),
        "cumulative share": "SELECT age, sum(count(*)) OVER (ORDER BY age) / sum(count(*)) OVER () FROM data GROUP "
        "BY age",
        "rank": "SELECT edu, sex, rank() OVER (PARTITION BY sex ORDER BY count(*)) FROM data GROUP BY edu, sex",
        "above the mean": "SELECT edu, count(*) FROM data WHERE age > (SELECT avg(age) FROM data) GROUP BY edu",
        "refused: stddev of income": "SELECT stddev_samp(income) FROM data",
    },
}  # fmt: skip
"""By data set; keys first, the figure last."""
UNLISTED = Path(__file__).with_name("intervals_unlisted.toml")


KINDS = {
    "second moments": r"stddev|var_|sem\(|corr|regr|covar|skewness|kurtosis",
    "quantiles and modes": r"quantile|median|mode\(|mad\(|ntile",
    "windows": r"\bOVER\b",
    "joins": r"\bJOIN\b|LATERAL",
    "subqueries": r"\(SELECT|WITH",
}
"""Kinds of statistics by what a statement calls; the first that fits."""


@dataclass
class Asked(Held):
    """What releases said of one statement, and of which tables."""

    kind: str = "others"
    columns: int = 0
    filled: list[float] = field(default_factory=list)

    @property
    def stratum(self) -> tuple[str, str, str]:
        """Kind of statistic, columns of the table, and how much of it was filled in."""
        share = float(np.mean(self.filled)) if self.filled else 0.0
        steps = ((0.01, "under 1 %"), (0.05, "1 to 5 %"), (0.2, "5 to 20 %"))
        return (
            self.kind,
            str(self.columns),
            next((w for s, w in steps if share < s), "20 % and more"),
        )


def _kind_of(text: str) -> str:
    """Kind of statistic of a statement."""
    return next((kind for kind, calls in KINDS.items() if re.search(calls, text)), "others")


def answer_of(
    data: pd.DataFrame, areas: pd.DataFrame, statements: Mapping[str, str]
) -> dict[str, dict[tuple[object, ...], float]]:
    """What the data say, by statement and keys."""
    con = duckdb.connect()
    con.register("given", data)
    numbers = [c for c in data.columns if c in intervals.ORDERED]
    cast = ", ".join(f"CAST({c} AS BIGINT) AS {c}" for c in numbers)
    con.execute(f"CREATE TABLE data AS SELECT * REPLACE ({cast}) FROM given")
    con.register("areas", areas)
    return {
        name: {
            row[:-1]: float(row[-1]) for row in con.execute(text).fetchall() if row[-1] is not None
        }
        for name, text in statements.items()
    }


def areas_of(data: pd.DataFrame) -> pd.DataFrame:
    """A table of one's own: a weight for each region."""
    regions = sorted(set(data["region"].dropna())) if "region" in data else []
    return pd.DataFrame({"region": regions, "weight": range(1, len(regions) + 1)})


def collect(
    data: pd.DataFrame, each: Iterator[Release], statements: Mapping[str, str]
) -> dict[str, Asked]:
    """Ask every release all statements and keep what it said beside the truth."""
    areas = areas_of(data)
    truth = answer_of(data, areas, statements)
    found = {name: Asked(kind=_kind_of(text)) for name, text in statements.items()}
    for release in each:
        for name, text in statements.items():
            own = {"areas": areas} if "areas" in text else None
            said = release.sql(text, tables=own, intervals=True)
            found[name].columns = len(said.table or ())
            found[name].filled.append(said.filled_share or 0.0)
            _keep(found[name], truth[name], said.columns, said.rows)
    return found


def _keep(
    held: Held,
    right: Mapping[tuple[object, ...], float],
    columns: tuple[str, ...],
    rows: list[tuple[object, ...]],
) -> None:
    """Add the figures of one answer: truth, value, low, high."""
    has_ends = columns[-1].endswith("_status")
    at = len(columns) - (4 if has_ends else 1)
    kept = []
    for row in rows:
        true = right.get(row[:at])
        if true is None or row[at] is None:
            continue
        if not has_ends or row[at + 1] is None or row[at + 2] is None:
            held.without += 1
        else:
            kept.append((true, *map(float, row[at : at + 3])))  # type: ignore[arg-type]
    if kept:
        held.parts.append(np.array(kept, dtype=float).T)


def markdown(found: Mapping[str, Held]) -> str:
    """The statements as a table, worst first."""
    rows, shares = [], []
    for name, held in found.items():
        got = held.all()
        share = coverage(got) if got.shape[1] else np.nan
        said = f"{share:.1%} | {widened(got):.2f}" if got.shape[1] else "| "
        shares += [share] if got.shape[1] else []
        rows.append((share, f"| {name} | {got.shape[1]:,} | {said} | {held.without:,} |"))
    rows.sort(key=lambda row: (row[0] != row[0], row[0]))
    enough = sum(share >= intervals.WANTED for share in shares)
    every = [held.all() for held in found.values()]
    together = coverage(np.concatenate(every, axis=1)) if shares else float("nan")
    return "\n".join(
        [
            f"Of {len(found)} statements {len(shares)} have intervals, {enough} of which hold in 94 % and more; all "
            f"intervals together: {together:.1%}.",
            "",
            "| statement | intervals | hold the truth | wider than needed for 94 %, factor | without |",
            "|---|---|---|---|---|",
            *(text for _, text in rows),
        ]
    )


def strata(found: Mapping[str, Asked]) -> str:
    """The same by kind of statistic, columns and filled share, worst first; of statements with intervals."""
    parts: dict[tuple[str, str, str], list[np.ndarray]] = {}
    for held in found.values():
        if held.parts:
            parts.setdefault(held.stratum, []).append(held.all())
    rows = []
    for stratum, each in parts.items():
        got = np.concatenate(each, axis=1)
        said = f"{got.shape[1]:,} | {coverage(got):.1%} | {widened(got):.2f}"
        rows.append((coverage(got), f"| {' | '.join(stratum)} | {said} |"))
    return "\n".join(
        [
            "| kind of statistic | columns | filled in | intervals | hold the truth | wider than needed, factor |",
            "|---|---|---|---|---|---|",
            *(text for _, text in sorted(rows)),
        ]
    )


def main() -> None:
    """Run it."""
    chosen = intervals.chosen_by(__doc__, "--unlisted")
    asked = tomllib.loads(UNLISTED.read_text("utf-8")) if chosen.unlisted else STATEMENTS
    section = "intervals-unlisted" if chosen.unlisted else "intervals-copies"
    with tempfile.TemporaryDirectory() as scratch:
        folder = (chosen.folder or Path(scratch)).resolve()
        folder.mkdir(parents=True, exist_ok=True)
        for name in [chosen.data] if chosen.data else TABLES:
            columns = sorted({c for table in TABLES[name] for c in table})
            data = intervals.data_of(name, folder, columns, seed=chosen.seed)
            if data is None:
                print(f"({name}: the data are not beside the checkout)")
                continue
            each = intervals.releases(name, folder, chosen.keys, TABLES[name])
            found = collect(data, each, asked[name])
            text = f"{chosen.keys} keys\n\n{markdown(found)}\n\n{strata(found)}"
            print(f"\n{name}, {len(data):,} rows, {text}")
            if chosen.record:
                script = command_line("scripts/intervals_copies.py")
                record(f"{section}-{name}", f".venv/bin/python {script}", text)


if __name__ == "__main__":
    main()
