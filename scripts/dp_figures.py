"""Figures of mode dp, a part a time, as Markdown tables; called by ./scripts/dp.

sd2011, nist7 and census synthesise one coded table many times (see dp_loops: margins counted once, the rest is the real
path); nist24 and ranges build releases.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from dp_loops import Loop, data_in, markdown, mean_and_error, params_for
from dp_tables import nist7, published, sd2011, shape

SEED = 2021
EPSILONS = (0.1, 0.5, 1.0, 2.0, 10.0)
PAPER = {"post": "paper", "sample": "multinomial", "prior": 1.0, "public_n": True}
"""As seed 000 did it."""
WAYS: dict[str, dict[str, object]] = {
    "paper": PAPER,
    "wls": {**PAPER, "post": "wls"},
    "default (wls, rounded, noisy n)": {},
}
LONG = 20
"""How many times the syntheses of S3 are repeated for its own table."""
NIST_EPSILONS = (0.5, 1.0, 2.0, 10.0, None)
NIST_GOALS = {0.5: 14.0, 1.0: 7.0, 2.0: 3.2, 10.0: 1.2}


def figures(loop: Loop, repeats: int, **told: object) -> dict[str, tuple[float, float]]:
    """Means and their standard errors of several syntheses."""
    found = list(loop.scores(params_for(loop.table, **told), repeats, SEED))
    return {name: mean_and_error([one[name] for one in found]) for name in found[0]}


def with_error(value: tuple[float, float], digits: int = 2) -> str:
    """A mean with its standard error."""
    mean, error = value
    return f"{mean:.{digits}f} ± {error:.{digits}f}" if error == error else f"{mean:.{digits}f}"


def not_converged(found: dict[str, tuple[float, float]], repeats: int) -> str:
    """How many fits did not converge."""
    missed = round((1 - found["converged"][0]) * repeats)
    return f"{missed} of {repeats}" if missed else "–"


def part_sd2011(folder: Path | None, repeats: int, _rows: int | None) -> None:
    """Seed 000's tables 2 and 3 on SD2011."""
    data = data_in(folder or Path("../shared/synthpop"), "SD2011.csv", "published_tables.csv")
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
    print(markdown(["", "figure", "here", "published"], rows), "\n")
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
    print(markdown(heads, rows), "\n")
    print(long_run(Loop(tables["S3"]), data, LONG * repeats))


def long_run(loop: Loop, data: Path, repeats: int) -> str:
    """S3 as published, over so many syntheses that their own error is small beside that of a mean of ten."""
    rows = []
    for epsilon in EPSILONS:
        told = params_for(loop.table, **PAPER, epsilon=epsilon)
        found = [one["s_pmse_2"] for one in loop.scores(told, repeats, SEED, ways=(2,))]
        mean, error = mean_and_error(found)
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
        told = published(data, method, measure, name, epsilon)
        out += [with_error(got[figure]), f"{told:.2f}" if told == told else "–"]
    return out


def part_nist7(folder: Path | None, repeats: int, _rows: int | None) -> None:
    """Seven columns of the NIST excerpt, 21 two-way margins, every post-processing and sampling."""
    data = data_in(folder or Path("../shared/nist"), "national2019.csv", "schema.json")
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
    print(markdown(heads, rows))


def part_census(folder: Path | None, repeats: int, rows: int | None) -> None:
    """The shape of seed 000's P tables, on the simulated census: utility improves with n, lack of fit stays."""
    from dp_census import census_tables

    out = []
    with tempfile.TemporaryDirectory() as scratch:
        for n in (20_000, rows or 1_000_000):
            for name, table in census_tables(folder or Path(scratch), n).items():
                loop, told = Loop(table), shape(table)
                for epsilon in (0.1, 1.0, 10.0, None):
                    got = figures(loop, repeats, epsilon=epsilon, sample="multinomial")
                    out.append(
                        [
                            f"{n:,}",
                            name,
                            f"{told['k']:,}",
                            f"{told['p0']:.1f}",
                            "none" if epsilon is None else f"{epsilon:g}",
                            with_error(got["s_pmse_2"]),
                            with_error(got["s_pmse_3"]),
                            f"{got['ru'][0]:.3f}",
                            f"{got['seconds'][0]:.1f}",
                        ]
                    )
    heads = ["rows", "table", "cells", "p0", "epsilon", "two-way", "three-way", "ru", "seconds"]
    print(markdown(heads, out))


def part_nist24(folder: Path | None, repeats: int, _rows: int | None) -> None:
    """All 24 columns of the NIST excerpt, built and evaluated."""
    from dp_releases import nist24

    print(nist24(folder or Path("../shared/nist"), repeats))


def part_ranges(folder: Path | None, repeats: int, rows: int | None) -> None:
    """Seed 004's questions, asked of releases through SQL; and error against width."""
    from dp_ranges import ranges

    print(ranges(folder, repeats, rows or 27_253))


PARTS: dict[str, tuple[Callable[[Path | None, int, int | None], None], int]] = {
    "sd2011": (part_sd2011, 10),
    "nist7": (part_nist7, 5),
    "nist24": (part_nist24, 1),
    "census": (part_census, 3),
    "ranges": (part_ranges, 20),
}
"""Each part, and how often it is repeated by default."""


def main() -> None:
    """Run one part."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("part", choices=PARTS)
    parser.add_argument("folder", nargs="?", type=Path)
    parser.add_argument("--repeats", type=int)
    parser.add_argument("--rows", type=int, help="people of the simulated census")
    told = parser.parse_args()
    run, repeats = PARTS[told.part]
    start = time.perf_counter()
    run(told.folder, told.repeats or repeats, told.rows)
    print(f"\n{told.part}: {time.perf_counter() - start:.0f} s")


if __name__ == "__main__":
    main()
