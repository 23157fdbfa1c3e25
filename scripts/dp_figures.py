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

from dp_loops import Loop, data_in, mean_and_error, params_for
from dp_tables import nist7, published, sd2011, shape
from measured import add_option, command_line, markdown, record

SEED = 2021
EPSILONS = (0.1, 0.5, 1.0, 2.0, 10.0)
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


def part_sd2011(folder: Path | None, repeats: int, _rows: int | None) -> str:
    """Tables 2 and 3 of Raab 2022, on SD2011."""
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


def part_nist7(folder: Path | None, repeats: int, _rows: int | None) -> str:
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
    return markdown(heads, rows)


def part_census(folder: Path | None, repeats: int, rows: int | None) -> str:
    """The shape of the P tables of Raab 2022, on the simulated census: utility improves with n, lack of fit stays."""
    from dp_census import census_tables

    out = []
    with tempfile.TemporaryDirectory() as scratch:
        for n in (20_000, rows or 1_000_000):
            for name, table in census_tables(folder or Path(scratch), n).items():
                loop, cells = Loop(table), shape(table)
                for epsilon in (0.1, 1.0, 10.0, None):
                    got = figures(loop, repeats, epsilon=epsilon, sample="multinomial")
                    out.append(
                        [
                            f"{n:,}",
                            name,
                            f"{cells['k']:,}",
                            f"{cells['p0']:.1f}",
                            "none" if epsilon is None else f"{epsilon:g}",
                            with_error(got["s_pmse_2"]),
                            with_error(got["s_pmse_3"]),
                            f"{got['ru'][0]:.3f}",
                            f"{got['seconds'][0]:.1f}",
                        ]
                    )
    heads = ["rows", "table", "cells", "p0", "epsilon", "two-way", "three-way", "ru", "seconds"]
    return markdown(heads, out)


def part_nist24(folder: Path | None, repeats: int, _rows: int | None) -> str:
    """All 24 columns of the NIST excerpt, built and evaluated."""
    from dp_releases import nist24

    return nist24(folder or Path("../shared/nist"), repeats)


def part_ranges(folder: Path | None, repeats: int, rows: int | None) -> str:
    """The questions of Near and Abuah, asked of releases through SQL; and error against width."""
    from dp_ranges import ranges

    return ranges(folder, repeats, rows or 27_253)


PARTS: dict[str, tuple[Callable[[Path | None, int, int | None], str], int]] = {
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
    add_option(parser)
    options = parser.parse_args()
    run, repeats = PARTS[options.part]
    start = time.perf_counter()
    text = run(options.folder, options.repeats or repeats, options.rows)
    print(f"{text}\n\n{options.part}: {time.perf_counter() - start:.0f} s")
    if options.record:
        record(f"dp-{options.part}", command_line("./scripts/dp"), text)


if __name__ == "__main__":
    main()
