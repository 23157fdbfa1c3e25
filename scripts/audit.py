"""Audits of honest and dishonest generators, again and again, on a simulated census.

100 audits of each honest generator and of mixtures of IPF, 10 of mixtures of our modes (--mixed), 3 of whole cheats;
several minutes on two free cores. All but the noise of mode dp, which is fresh, is fixed by seeds.
"""

from __future__ import annotations

import argparse
import tempfile
from collections.abc import Sequence
from functools import partial
from itertools import combinations
from pathlib import Path

import numpy as np
import pandas as pd
import study
from joblib import Parallel, delayed
from measured import keep, markdown

from engine.evaluation.audit import (
    Cells,
    Domain,
    Generator,
    Settings,
    domain_of,
    frame_generator,
    joint_generator,
    raked_generator,
    run_audit,
    safe_statistics,
    sticky_generator,
)
from engine.evaluation.baselines.baseline import Schema
from engine.evaluation.baselines.cart import cart
from engine.params import PROFILES, DPParams
from engine.schema import ColumnSet

SEED = 2021
COMMAND = ".venv/bin/python scripts/audit.py"


def simulated(people: int) -> pd.DataFrame:
    with tempfile.TemporaryDirectory() as folder:
        return pd.read_parquet(study.census_file(Path(folder) / "census", people, SEED))


def ours(kind: str, domain: Domain, margins: Sequence[Sequence[str]], seed: int) -> Generator:
    """A generator of margins; CART takes whatever it likes."""
    if kind == "sticky":
        return sticky_generator(domain, margins, PROFILES["standard"])
    if kind == "dp":
        return joint_generator(domain, DPParams(epsilon=1.0, margins=tuple(margins)))
    if kind == "ipf":
        return raked_generator(domain, margins)
    rng = np.random.default_rng(seed)
    made = partial(cart, schema=Schema(), rng=rng)
    return frame_generator(domain, made, "sequential CART")


AUDITED_COLUMNS = ("education", "health", "tenure")
PAIRS: tuple[ColumnSet, ...] = tuple(combinations(AUDITED_COLUMNS, 2))
TRIPLE: tuple[ColumnSet, ...] = (AUDITED_COLUMNS,)
LEAST_COUNT = 14
"""Smallest safe count, for all alike: no threshold of the standard profile touches it."""
HEADS = ("generator", "audits", "refuted, p < .01", "least p", "median p", "through", "1 % found")
PEOPLE = 4_000


class Mixed:
    """A generator of which a share of the rows comes from another one."""

    def __init__(self, honest: Generator, cheat: Generator, share: float) -> None:
        self._parts, self._share = (honest, cheat), share

    @property
    def words(self) -> str:
        honest, cheat = self._parts
        return f"{1 - self._share:.0%} {honest.words}, {self._share:.0%} {cheat.words}"

    def draw(self, data: Cells, rng: np.random.Generator) -> Cells:
        """Run both; cells come with their share of all rows."""
        one, other = (part.draw(data, rng) for part in self._parts)
        shares = [(1 - self._share) * one.n / one.n.sum(), self._share * other.n / other.n.sum()]
        return Cells(codes=np.concatenate([one.codes, other.codes]), n=np.concatenate(shares))


def audited(frame: pd.DataFrame, job: tuple[str, float, int]) -> tuple[float, float, float]:
    """p of one audit, what comes through, and the power against 1 %; a share of what it gives is from all columns.

    The job: kind of generator, share, seed.
    """
    kind, share, seed = job
    domain = domain_of(frame, AUDITED_COLUMNS)
    if share in (0, 1):
        generator = ours(kind, domain, TRIPLE if share else PAIRS, seed)
    else:
        generator = Mixed(*(ours(kind, domain, m, seed) for m in (PAIRS, TRIPLE)), share)
    found = run_audit(
        domain.coded(frame, "the census"),
        safe_statistics(domain, PAIRS),
        generator,
        Settings(rows=len(frame), least=LEAST_COUNT, seed=seed),
    )
    if found.p is None:
        raise RuntimeError(found.why_nothing)
    return found.p, found.tests[0].copied, found.tests[0].power[0.01]


def row_of(kind: str, share: float, found: np.ndarray) -> tuple[str, ...]:
    p, copied, one_percent = found.T
    names = {"ipf": "IPF", "dp": "dp, epsilon 1", "cart": "sequential CART"}
    said = {0.0: "honest", 1.0: "uses the 3-way margin"}
    words = said.get(share, f"{share:.0%} from the 3-way margin")
    return (
        names.get(kind, kind) + ("" if kind == "cart" else f": {words}"),
        str(len(found)),
        f"{(p < 0.01).sum()}",
        f"{p.min():.1e}",
        f"{np.median(p):.1e}" if np.median(p) < 0.001 else f"{np.median(p):.2f}",
        f"{100 * np.median(copied):.1f} %",
        f"{np.median(one_percent):.2f}",
    )


def repeated(given: argparse.Namespace) -> None:
    people = simulated(2_000 if given.quick else PEOPLE)
    frame = people[list(AUDITED_COLUMNS)].dropna().astype(str)
    audits, mixed = (1, 1) if given.quick else (given.audits, given.mixed)
    times = {"ipf": audits, "dp": mixed, "sticky": mixed}
    plan = [
        *((kind, 0.0, audits) for kind in times),
        *((kind, 1.0, min(3, audits)) for kind in (*times, "cart")),
        *((kind, share, many) for share in (0.1, 0.01) for kind, many in times.items()),
    ]
    rows = []
    for kind, share, many in plan:
        jobs = (delayed(audited)(frame, (kind, share, seed)) for seed in range(1, many + 1))
        rows.append(row_of(kind, share, np.array(Parallel(n_jobs=-1)(jobs))))
        print(*rows[-1], sep="; ", flush=True)
    sizes = domain_of(frame, AUDITED_COLUMNS).sizes
    text = (
        f"{len(frame):,} people of a simulated census; {', '.join(AUDITED_COLUMNS)} with {', '.join(map(str, sizes))} "
        "values; safe are the three pairs. K = 10, one direction, seeds 1 to the number of audits; the noise of mode "
        "dp is fresh. Through: the median share of what is not safe that comes through. 1 % found: the median of the "
        "computed power, at level .01, against a generator that takes 1 % of what is not safe.\n\n"
        f"{markdown(HEADS, rows)}"
    )
    keep(given, "audit", COMMAND, text)


def main() -> None:
    reader = study.parser(__doc__)
    reader.add_argument("--audits", type=int, default=100)
    reader.add_argument("--mixed", type=int, default=10)
    reader.add_argument("--quick", action="store_true", help="one audit of each, of 2,000 people")
    repeated(reader.parse_args())


if __name__ == "__main__":
    main()
