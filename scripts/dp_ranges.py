"""Questions of Near and Abuah (Programming Differential Privacy, chapter on synthetic data), asked of releases by SQL.

Ranges of ages, mean age and a two-column table, on the simulated census.
A flat release measures every year of age once, a hierarchical one as a tree. A wide domain (income in steps of 100
pounds) shows error against width by `engine.fit.joint.margins.leaves` on many draws.
"""

from __future__ import annotations

import tempfile
from dataclasses import replace
from pathlib import Path

import duckdb
import numpy as np
import pandas as pd
from dp_releases import placed, with_epsilon
from measured import markdown
from numpy.typing import NDArray

from engine.fit.joint.margins import leaves
from engine.levels import Margin, tree_sizes
from engine.measure.dp import shares
from engine.measure.dp.noise import noised
from engine.params import DPParams
from engine.release import build
from engine.schema import literal
from engine.simulation import simulate_census
from queries.release import open_release

SEED = 2021
EPSILON = 0.1
QUESTIONS = {
    "aged 21 to 33": "SELECT count(*) FROM data WHERE age BETWEEN 21 AND 33",
    "aged 30 to 71": "SELECT count(*) FROM data WHERE age BETWEEN 30 AND 71",
    "mean age": "SELECT avg(age) FROM data",
}
TABLE = "SELECT health, sex, count(*) AS n FROM data GROUP BY ALL"
LARGEST_INCOME, STEP, FAN = 100_000, 100, 16
WIDTHS = (1, 4, 16, 64, 256, 900)
DRAWS = 400


def ranges(folder: Path | None, repeats: int, people: int) -> str:
    """Both tables."""
    with tempfile.TemporaryDirectory() as scratch:
        place = Path(scratch)
        data = folder or place / "data"
        if not (data / "people.parquet").exists():
            simulate_census(data, people=people, seed=SEED)
        return "\n\n".join((_questions(data, place, repeats), _widths(data)))


def _questions(data: Path, place: Path, repeats: int) -> str:
    """Root mean squared errors of the answers over many releases."""
    spec = placed("census-dp.toml", data, place)
    # Age stands in no other margin, so that its answers come from its own histogram.
    alone = replace(spec.dp, ranges=(), margins=(("age",), ("health", "sex")))
    tree = replace(alone, ranges=(("age", FAN),))
    truth = _truth(data)
    errors: dict[str, list[list[float]]] = {}
    for name, params in (("flat", alone), ("hierarchical", tree)):
        errors[name] = []
        for i in range(repeats):
            release = place / f"{name}-{i}.duckdb"
            one = with_epsilon(replace(spec, dp=params), EPSILON, release.with_suffix(".key"))
            build(one, release)
            errors[name].append(_errors(release, truth))
            release.unlink()
    rms = {name: np.sqrt(np.mean(np.square(found), axis=0)) for name, found in errors.items()}
    rows = []
    for i, question in enumerate([*QUESTIONS, "health by sex, each count"]):
        true = truth[0][i] if i < len(QUESTIONS) else None
        shown = (
            ""
            if true is None
            else (f"{true:,.2f}" if question.startswith("mean") else f"{true:,.0f}")
        )
        rows.append([question, shown, *(f"{rms[name][i]:.2f}" for name in rms)])
    heads = [f"question ({repeats} releases, epsilon {EPSILON:g})", "truth"]
    return markdown([*heads, *(f"error, {name}" for name in rms)], rows)


def _truth(data: Path) -> tuple[list[float], dict[tuple[str, str], float]]:
    """True answers; the data are simulated, so that they may be shown."""
    with duckdb.connect() as con:
        con.execute(
            f"CREATE VIEW data AS FROM read_parquet({literal(str(data / 'people.parquet'))})"
        )
        answers = [float(con.execute(q).fetchone()[0]) for q in QUESTIONS.values()]
        table = {(d, s): float(n) for d, s, n in con.execute(TABLE).fetchall()}
    return answers, table


def _errors(release: Path, truth: tuple[list[float], dict[tuple[str, str], float]]) -> list[float]:
    """Errors of one release's answers, and the root mean squared one of its two-column table."""
    with open_release(release) as opened:
        answers = [float(opened.sql(q).rows[0][0]) for q in QUESTIONS.values()]
        table = {(str(d), str(s)): float(n) for d, s, n in opened.sql(TABLE).rows}
    of_table = [table.get(cell, 0.0) - truth[1].get(cell, 0.0) for cell in {*table, *truth[1]}]
    errors = [a - t for a, t in zip(answers, truth[0], strict=True)]
    return [*errors, float(np.sqrt(np.mean(np.square(of_table))))]


def _widths(data: Path) -> str:
    """Root mean squared error of ranges of income against their width, flat and hierarchical, of the same budget."""
    income = pd.read_parquet(data / "people.parquet", columns=["income"])["income"].dropna()
    at = np.clip(income.to_numpy(), 0, LARGEST_INCOME - 1).astype(np.int64) // STEP
    counts = np.bincount(at, minlength=LARGEST_INCOME // STEP).astype(np.int64)
    rng = np.random.default_rng(SEED)
    starts = {w: rng.integers(0, len(counts) - w + 1, 50) for w in WIDTHS}
    found = {name: _range_errors(counts, fan, starts) for name, fan in (("flat", 0), ("tree", FAN))}
    rows = [
        [
            w,
            f"{found['flat'][w]:.1f}",
            f"{found['tree'][w]:.1f}",
            f"{found['flat'][w] / found['tree'][w]:.2f}",
        ]
        for w in WIDTHS
    ]
    heads = [
        f"width, of {len(counts):,} ({DRAWS} draws, epsilon {EPSILON:g})",
        "flat",
        "hierarchical",
        "ratio",
    ]
    return markdown(heads, rows)


def _range_errors(
    counts: NDArray[np.int64], fan: int, starts: dict[int, NDArray[np.int64]], draws: int = DRAWS
) -> dict[int, float]:
    """Root mean squared error by width over draws and places; a fan of 0 measures flat."""
    params = DPParams(
        epsilon=EPSILON,
        columns=("income",),
        margins=() if fan else (("income",),),
        ranges=(("income", fan),) if fan else (),
    )
    for_total, share = shares(params, {"income": len(counts)})
    inner = [
        _summed(counts, fan, len(tree_sizes(len(counts), fan)) - d) for d in range(share.depths - 1)
    ]
    squares = {w: 0.0 for w in starts}
    for _ in range(draws):
        total = Margin(
            columns=(),
            n=noised(np.array(counts.sum(), np.int64), params.noise, for_total.scale),
            variance=for_total.variance,
        )
        margin = Margin(
            columns=("income",),
            n=noised(counts, params.noise, share.scale),
            variance=share.variance,
            branching=fan,
            tree=tuple(noised(one, params.noise, share.scale) for one in inner),
        )
        off = np.concatenate(([0.0], np.cumsum(leaves(margin, total)[0] - counts)))
        for width, places in starts.items():
            squares[width] += float(np.mean((off[places + width] - off[places]) ** 2))
    return {w: float(np.sqrt(s / draws)) for w, s in squares.items()}


def _summed(counts: NDArray[np.int64], fan: int, up: int) -> NDArray[np.int64]:
    """Counts of the nodes so many depths up."""
    size = fan**up
    return np.add.reduceat(counts, np.arange(0, len(counts), size))
