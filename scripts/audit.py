"""Audit generators again and again on a simulated census: honest ones, ones that cheat, cheats by a share, CART.

Usage: .venv/bin/python scripts/audit.py [--audits N] [--mixed N] [--workers N] [--quick] [--record]
100 audits of each honest generator and of mixtures of IPF, 10 of mixtures of our modes (--mixed), 3 of whole cheats;
several minutes on two free cores. All but the noise of mode dp is fixed by seeds; that is fresh whenever it runs.
"""

from __future__ import annotations

import argparse
import tempfile
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from functools import partial
from itertools import combinations
from multiprocessing import get_context
from pathlib import Path

import numpy as np
import pandas as pd
from measured import add_option, command_line, markdown, record

from engine.evaluation.audit import (
    Audit,
    Cells,
    Domain,
    FrameGenerator,
    Generator,
    JointGenerator,
    RakedGenerator,
    Settings,
    StickyGenerator,
    domain_of,
    run_audit,
    safe_statistics,
)
from engine.evaluation.baselines import Cart, Schema
from engine.params import PROFILES, DPParams
from engine.schema import ColumnSet
from engine.simulation import simulate_census

COLUMNS = ("education", "health", "tenure")
PAIRS: tuple[ColumnSet, ...] = tuple(combinations(COLUMNS, 2))
WHOLE: tuple[ColumnSet, ...] = (COLUMNS,)
PEOPLE, SEED = 4_000, 2021
LEAST = 14
"""Smallest safe count, for all alike: no threshold of the standard profile touches it."""
HEADS = ("generator", "audits", "refuted, p < .01", "least p", "median p", "through", "1 % found")


class Mixed:
    """A generator of which a share of the rows comes from another one."""

    def __init__(self, honest: Generator, cheat: Generator, share: float) -> None:
        self._parts, self._share = (honest, cheat), share

    @property
    def words(self) -> str:
        """What it is."""
        honest, cheat = self._parts
        return f"{1 - self._share:.0%} {honest.words}, {self._share:.0%} {cheat.words}"

    def draw(self, data: Cells, rng: np.random.Generator) -> Cells:
        """Run both; cells come with their share of all rows."""
        one, other = (part.draw(data, rng) for part in self._parts)
        shares = [(1 - self._share) * one.n / one.n.sum(), self._share * other.n / other.n.sum()]
        return Cells(codes=np.concatenate([one.codes, other.codes]), n=np.concatenate(shares))


@dataclass(frozen=True, kw_only=True, slots=True)
class Job:
    """One audit: of what, how much of it is a cheat, and the seed."""

    kind: str
    share: float
    seed: int


@dataclass(frozen=True, kw_only=True, slots=True)
class Found:
    """What an audit came to."""

    p: float
    copied: float
    one_percent: float


def census(people: int) -> pd.DataFrame:
    """The audited columns of a simulated census, without blanks."""
    with tempfile.TemporaryDirectory() as folder:
        made = simulate_census(Path(folder) / "census", people=people, seed=SEED)
        return pd.read_parquet(made.people, columns=list(COLUMNS)).dropna().astype(str)


def generator_of(kind: str, share: float, domain: Domain, seed: int) -> Generator:
    """A generator that says it uses pairs, and takes a share of what it gives from all three columns.

    CART takes whatever it likes, and has no share.
    """

    def of(margins: tuple[ColumnSet, ...]) -> Generator:
        if kind == "sticky":
            return StickyGenerator(domain, margins, PROFILES["standard"])
        if kind == "dp":
            return JointGenerator(domain, DPParams(epsilon=1.0, margins=margins))
        return RakedGenerator(domain, margins)

    if kind == "cart":
        rng = np.random.default_rng(seed)
        return FrameGenerator(
            domain, partial(Cart().synthesize, schema=Schema(), rng=rng), "sequential CART"
        )
    if share in (0, 1):
        return of(WHOLE if share else PAIRS)
    return Mixed(of(PAIRS), of(WHOLE), share)


def audited(frame: pd.DataFrame, job: Job) -> Found:
    """Make one audit.

    Raises
    ------
    RuntimeError
        There was nothing to test: then the script's columns are wrong.
    """
    domain = domain_of(frame, COLUMNS)
    found: Audit = run_audit(
        domain.coded(frame, "the census"),
        safe_statistics(domain, PAIRS),
        generator_of(job.kind, job.share, domain, job.seed),
        Settings(rows=len(frame), least=LEAST, seed=job.seed),
    )
    if found.p is None:
        raise RuntimeError(found.why_nothing)
    test = found.tests[0]
    return Found(p=found.p, copied=test.copied, one_percent=test.power[0.01])


def row_of(kind: str, share: float, found: Sequence[Found]) -> tuple[str, ...]:
    """A row of the table."""
    p = np.array([one.p for one in found])
    names = {"ipf": "IPF", "dp": "dp, epsilon 1", "cart": "sequential CART"}
    said = {0.0: "honest", 1.0: "uses the 3-way margin"}
    words = said.get(share, f"{share:.0%} from the 3-way margin")
    return (
        names.get(kind, kind) + ("" if kind == "cart" else f": {words}"),
        str(len(found)),
        f"{(p < 0.01).sum()}",
        f"{p.min():.1e}",
        f"{np.median(p):.1e}" if np.median(p) < 0.001 else f"{np.median(p):.2f}",
        f"{100 * np.median([one.copied for one in found]):.1f} %",
        f"{np.median([one.one_percent for one in found]):.2f}",
    )


def measured(
    frame: pd.DataFrame, plan: Sequence[tuple[str, float, int]], workers: int
) -> Iterator[tuple[str, ...]]:
    """Rows of the table, as they are ready: a kind, a share, a number of audits each."""
    with ProcessPoolExecutor(workers, mp_context=get_context("spawn")) as pool:
        for kind, share, audits in plan:
            jobs = [Job(kind=kind, share=share, seed=seed) for seed in range(1, audits + 1)]
            yield row_of(kind, share, list(pool.map(partial(audited, frame), jobs)))


def plan_of(audits: int, mixed: int) -> list[tuple[str, float, int]]:
    """What is audited how often: whole cheats and CART at most 3 times."""
    times = {"ipf": audits, "dp": mixed, "sticky": mixed}
    return [
        *((kind, 0.0, audits) for kind in times),
        *((kind, 1.0, min(3, audits)) for kind in (*times, "cart")),
        *((kind, share, many) for share in (0.1, 0.01) for kind, many in times.items()),
    ]


def main() -> None:
    """Run it."""
    reader = argparse.ArgumentParser(description=__doc__)
    reader.add_argument("--audits", type=int, default=100)
    reader.add_argument("--mixed", type=int, default=10)
    reader.add_argument("--workers", type=int, default=2)
    reader.add_argument("--quick", action="store_true", help="one audit of each, of 2,000 people")
    add_option(reader)
    chosen = reader.parse_args()
    frame = census(2_000 if chosen.quick else PEOPLE)
    plan = plan_of(1, 1) if chosen.quick else plan_of(chosen.audits, chosen.mixed)
    rows = []
    for row in measured(frame, plan, chosen.workers):
        print(*row, sep="; ", flush=True)
        rows.append(row)
    sizes = domain_of(frame, COLUMNS).sizes
    text = (
        f"{len(frame):,} people of a simulated census; {', '.join(COLUMNS)} with {', '.join(map(str, sizes))} values; "
        "safe are the three pairs. K = 10, one direction, seeds 1 to the number of audits; the noise of mode dp is "
        "fresh. Through: the median share of what is not safe that comes through. 1 % found: the median of the "
        "computed power, at level .01, against a generator that takes 1 % of what is not safe.\n\n"
        f"{markdown(HEADS, rows)}"
    )
    print(text)
    if chosen.record:
        record("audit", command_line(".venv/bin/python scripts/audit.py"), text)


if __name__ == "__main__":
    main()
