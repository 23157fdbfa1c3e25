"""Do the noise intervals of sums, means, quantiles, shares, ratios hold? Releases under fresh keys, against the data.

Gives Markdown: per measure and number of columns of the table that answers, the share of intervals that hold what the
data says, by what factor they are wider than the shortest that hold in 94 % of cases, and how many figures have no
interval. Figures of `tabulate` and of SQL are asked of the same releases.
Usage: python scripts/intervals_measures.py [--keys N] [--data nist|census|sd2011] [--folder F] [--seed S]
(default: all data, 60 keys; another seed asks other questions, of another census)
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import duckdb
import intervals
import numpy as np
import pandas as pd
from measured import command_line, record

from queries.intervals import tabulate
from queries.intervals.tabulation import annotated
from queries.release import Release

TABLES: dict[str, tuple[tuple[str, ...], ...]] = {
    "nist": (
        ("PINCP",), ("AGEP",), ("PINCP", "SEX"), ("AGEP", "SEX"), ("AGEP", "PUMA"), ("AGEP", "MSP"),
        ("PINCP", "PUMA"), ("MSP", "SEX"), ("AGEP", "PUMA", "SEX"), ("MSP", "PUMA", "RAC1P"),
        ("PINCP", "PUMA", "SEX"), ("AGEP", "MSP", "SEX"),
    ),
    "census": (
        ("income",), ("age",), ("hours",), ("income", "sex"), ("age", "region"), ("income", "region"),
        ("hours", "sex"), ("activity", "education"), ("age", "region", "sex"),
        ("income", "region", "sex"), ("activity", "age", "sex"),
    ),
    "sd2011": (
        ("income",), ("age",), ("height",), ("income", "sex"), ("income", "edu"), ("age", "edu"),
        ("height", "sex"), ("depress", "region"), ("age", "edu", "sex"), ("edu", "income", "sex"),
    ),
}  # fmt: skip
NUMBERS = ("AGEP", "PINCP", "age", "income", "hours", "height", "depress")
RANGES = 3
"""Random ranges of each column of numbers, beside all of it."""
OWN = ("sum", "mean", "median", "quantile")
QUANTILE = 0.9


@dataclass(frozen=True, kw_only=True, slots=True)
class Question:
    """One question: the statement that the data answers, and how a release is asked.

    Attributes
    ----------
    kind : str
        Stratum.
    text : str
        Keys first, the figure last.
    n_keys : int
    asked : dict or None
        Parameters of `tabulate`; None: the statement itself is asked.
    """

    kind: str
    text: str
    n_keys: int
    asked: dict[str, Any] | None = None


@dataclass
class Held:
    """What releases said of one stratum, beside the truth."""

    parts: list[np.ndarray] = field(default_factory=list)
    without: int = 0

    def all(self) -> np.ndarray:
        """Truth, value, low and high; shape (4, n)."""
        return np.concatenate(self.parts, axis=1) if self.parts else np.zeros((4, 0))


def coverage(found: np.ndarray) -> float:
    """Share of intervals that hold the truth."""
    truth, _, low, high = found
    slack = 1e-9 * np.maximum(np.abs(truth), 1.0)
    return float(((truth >= low - slack) & (truth <= high + slack)).mean())


def widened(found: np.ndarray) -> float:
    """Factor by which the intervals are wider, on both sides, than the shortest that hold often enough."""
    truth, value, low, high = found[:, np.isfinite(found[3])]
    value = np.where(np.isnan(value), low, value)
    side = np.where(truth > value, high - value, value - low)
    off = np.abs(truth - value)
    with np.errstate(divide="ignore", invalid="ignore"):
        reach = np.where(off <= 1e-9 * np.maximum(np.abs(truth), 1.0), 0.0, off / side)
    needed = float(np.quantile(reach, intervals.WANTED, method="higher"))
    if needed:
        return 1 / needed
    has_width = np.quantile(high - low, intervals.WANTED) > 0  # nothing is shorter than none
    return float("inf") if has_width else 1.0


def _condition(where: dict[str, tuple[int, int]]) -> str:
    if not where:
        return ""
    return " WHERE " + " AND ".join(f'"{c}" BETWEEN {a} AND {b}' for c, (a, b) in where.items())


def _select(by: tuple[str, ...], figure: str, where: dict[str, tuple[int, int]]) -> str:
    keys = "".join(f'"{c}", ' for c in by)
    group = f" GROUP BY {', '.join(map(str, range(1, len(by) + 1)))}" if by else ""
    return f"SELECT {keys}{figure} AS f FROM data{_condition(where)}{group}"


def _of_column(of: str, by: tuple[str, ...], where: dict[str, Any]) -> Iterator[Question]:
    """Sum, mean and quantiles of a column of numbers, and the mean put together in SQL."""
    spelled = {
        "sum": f'sum("{of}")',
        "mean": f'avg("{of}")',
        "median": f'median("{of}")',
        "quantile": f'quantile_cont("{of}", {QUANTILE})',
    }
    for measure, figure in spelled.items():
        asked = {"columns": by, "where": where, "measure": measure, "of": of, "quantile": QUANTILE}
        text = _select(by, figure, where)
        yield Question(kind=f"{measure} of {of}", text=text, n_keys=len(by), asked=asked)
    text = _select(by, f'sum("{of}") / count("{of}")', where)
    yield Question(kind=f"SQL sum / count of {of}", text=text, n_keys=len(by))
    if by:
        text = _select(by, f'100.0 * sum("{of}") / sum(sum("{of}")) OVER ()', where)
        yield Question(kind=f"SQL share of the sum of {of}", text=text, n_keys=len(by))


def _of_rows(by: tuple[str, ...], where: dict[str, Any]) -> Iterator[Question]:
    """Shares and ratios of the groups, of everything and within the first column."""
    for over in ((), by[:1]) if len(by) > 1 else ((),):
        window = f"PARTITION BY {', '.join(over)}" if over else ""
        total = f"sum(count(*)) OVER ({window})"
        for measure, figure in (
            ("share", f"count(*) / {total}"),
            ("ratio", f"count(*) / nullif({total} - count(*), 0)"),
        ):
            asked = {"columns": by, "where": where, "measure": measure, "over": over}
            text = _select(by, figure, where)
            yield Question(kind=measure, text=text, n_keys=len(by), asked=asked)


def _filtered(number: str, by: tuple[str, ...], low: int, high: int) -> Iterator[Question]:
    """What only SQL says: rates by FILTER, and differences of counts and means."""
    keep = f'FILTER (WHERE "{number}" BETWEEN {low} AND {high})'
    others = f'FILTER (WHERE "{number}" > {high})'
    for kind, figure in (
        ("SQL count FILTER", f"count(*) {keep}"),
        ("SQL rate by FILTER", f"100.0 * count(*) {keep} / count(*)"),
        ("SQL difference of counts", f"count(*) {keep} - count(*) {others}"),
        (f"SQL difference of means of {number}", f'avg("{number}") {others} - avg("{number}") {keep}'),
    ):  # fmt: skip
        yield Question(kind=kind, text=_select(by, figure, {}), n_keys=len(by))


def questions(
    data: pd.DataFrame, tables: intervals.Tables, seed: int = intervals.SEED
) -> list[Question]:
    """All questions, the same for every release."""
    rng = np.random.default_rng(seed)
    out: list[Question] = []
    for table in tables:
        numbers = [c for c in table if c in NUMBERS]
        if len(table) == 1 or {"PINCP", "income"}.isdisjoint(table):
            out += _of_rows(
                table if len(table) < 3 else tuple(c for c in table if c not in numbers), {}
            )
        for number in numbers:
            by = tuple(c for c in table if c != number)
            out += _of_column(number, by, {})
            values = np.unique([v for v in data[number] if v is not None])
            for _ in range(RANGES):
                width = int(np.exp(rng.uniform(np.log(len(values) / 20), np.log(len(values)))))
                start = int(rng.integers(0, len(values) - width + 1))
                low, high = int(values[start]), int(values[start + width - 1])
                out += _of_column(number, by, {number: (low, high)})
                out += _filtered(number, by, low, high)
                if by:
                    out += _of_rows(by, {number: (low, high)})
    return out


class Truth:
    """What the data itself answers, asked once."""

    def __init__(self, data: pd.DataFrame) -> None:
        self._con = duckdb.connect()
        self._con.register("frame", data.convert_dtypes())
        self._con.execute("CREATE TABLE data AS SELECT * FROM frame")
        self._known: dict[str, dict[tuple[Any, ...], float]] = {}

    def of(self, question: Question) -> dict[tuple[Any, ...], float]:
        """Figure by key; what is null has none."""
        if question.text not in self._known:
            rows = self._con.execute(question.text).fetchall()
            self._known[question.text] = {r[:-1]: float(r[-1]) for r in rows if r[-1] is not None}
        return self._known[question.text]


def _asked(release: Release, question: Question) -> tuple[tuple[str, ...], list[tuple[Any, ...]]]:
    """Columns of the table that answers; key, value, low and high of every group."""
    if question.asked is not None:
        got = tabulate(release, **question.asked)
        rows = zip(got.keys, got.value, got.low, got.high, got.status, strict=True)
        return got.table, [row[:4] for row in rows if row[4] != "structural zero"]
    text = question.text.replace("FROM data", f'FROM "{release.logical_name}"')
    said = annotated(release, text)
    n, none = question.n_keys, float("nan")
    if len(said.columns) != n + 4:  # not understood: no interval at all
        return said.table or (), [(row[:n], row[n], none, none) for row in said.rows]
    ends = [tuple(none if x is None else float(x) for x in row[n : n + 3]) for row in said.rows]
    return said.table or (), [(row[:n], *end) for row, end in zip(said.rows, ends, strict=True)]


StratumOf = Callable[[Release, Question, tuple[str, ...]], Any]


def _kind_and_width(_: Release, question: Question, table: tuple[str, ...]) -> tuple[str, int]:
    """The stratum of a question: its kind, and the columns of the table that answers."""
    return question.kind, len(table)


def collect(
    data: pd.DataFrame,
    tables: intervals.Tables,
    each: Iterator[Release],
    seed: int = intervals.SEED,
    stratum_of: StratumOf = _kind_and_width,
) -> dict[Any, Held]:
    """Ask every release the same questions and keep what it said beside the truth, by stratum."""
    truth, found = Truth(data), dict[Any, Held]()
    listed = questions(data, tables, seed)
    for release in each:
        for question in listed:
            right = truth.of(question)
            table, rows = _asked(release, question)
            stratum = found.setdefault(stratum_of(release, question, table), Held())
            absent = 0.0 if question.kind in ("share", "ratio") else None
            kept = []
            for key, value, low, high in rows:
                true = right.get(tuple(key), absent)
                if true is None or "(other)" in key:
                    continue
                if low != low or high != high:
                    stratum.without += 1
                else:
                    kept.append((true, value, low, high))
            if kept:
                stratum.parts.append(np.array(kept, dtype=float).T)
    return found


def markdown(found: dict[tuple[str, int], Held]) -> str:
    """The strata as a table."""
    lines = [
        "| measure | columns | intervals | hold the truth | wider than needed for 94 %, factor | without |",
        "|---|---|---|---|---|---|",
    ]
    for key in sorted(found):
        got = found[key].all()
        said = f"{coverage(got):.1%} | {widened(got):.2f}" if got.shape[1] else "| "
        lines.append(
            f"| {key[0]} | {key[1]} | {got.shape[1]:,} | {said} | {found[key].without:,} |"
        )
    return "\n".join(lines)


def failures(found: dict[tuple[str, int], Held], *, slack: float = 0.0) -> list[str]:
    """Strata in which too few intervals hold the truth."""
    held = {key: coverage(got.all()) for key, got in found.items() if got.parts}
    return [
        f"{key}: {share:.1%} hold the truth"
        for key, share in sorted(held.items())
        if share < intervals.WANTED - slack
    ]


def main() -> None:
    """Run it."""
    chosen = intervals.chosen_by(__doc__)
    with tempfile.TemporaryDirectory() as scratch:
        folder = (chosen.folder or Path(scratch)).resolve()
        folder.mkdir(parents=True, exist_ok=True)
        for name in [chosen.data] if chosen.data else TABLES:
            tables = TABLES[name]
            columns = sorted({c for table in tables for c in table})
            data = intervals.data_of(name, folder, columns, seed=chosen.seed)
            if data is None:
                print(f"({name}: the data are not beside the checkout)")
                continue
            each = intervals.releases(name, folder, chosen.keys, tables)
            found = collect(data, tables, each, chosen.seed)
            text = f"{chosen.keys} keys\n\n{markdown(found)}"
            print(f"\n{name}, {text}")
            print("\n".join(["", *failures(found)]))
            if chosen.record:
                script = ".venv/bin/python scripts/intervals_measures.py"
                record(f"intervals-measures-{name}", command_line(script), text)


if __name__ == "__main__":
    main()
