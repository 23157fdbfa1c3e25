"""Audits of generators, and what an analyst gets of them, on simulated censuses.

Usage: .venv/bin/python scripts/audit.py [repeated] [--audits N] [--mixed N] [--quick] [--record]
       .venv/bin/python scripts/audit.py applications [--people N] [--repeats N] [--record]
repeated: 100 audits of each honest generator and of mixtures of IPF, 10 of mixtures of our modes (--mixed), 3 of whole
cheats; several minutes on two free cores. All but the noise of mode dp, which is fresh, is fixed by seeds.
applications: of the three of the paper on auditable generation (Houssiau et al. 2022, arXiv:2211.11540) the gender gap
(table 1) and the audits (table 4), by both modes of tablepack, iterative proportional fitting, sequential CART, and
dishonest ones; an hour and more.
"""

from __future__ import annotations

import argparse
import tempfile
from collections.abc import Mapping, Sequence
from functools import partial
from itertools import combinations
from pathlib import Path

import numpy as np
import pandas as pd
import study
from joblib import Parallel, delayed
from measured import command_line, markdown, record

from engine.evaluation.audit import (
    Cells,
    Domain,
    Generator,
    Settings,
    cells_of,
    domain_of,
    frame_generator,
    joint_generator,
    margin_of,
    raked,
    run_audit,
    safe_statistics,
    sticky_generator,
    tables_text,
)
from engine.evaluation.baselines.baseline import Schema
from engine.evaluation.baselines.cart import cart
from engine.params import PROFILES, DPParams
from engine.schema import ColumnSet, FloatArray, Int64Array, column_set

SEED = 2021
COMMAND = ".venv/bin/python scripts/audit.py"


def simulated(people: int) -> pd.DataFrame:
    with tempfile.TemporaryDirectory() as folder:
        return pd.read_parquet(study.census_file(Path(folder) / "census", people, SEED))


def raked_generator(domain: Domain, margins: Sequence[Sequence[str]]) -> Generator:
    """Plain iterative proportional fitting: exact margins, the table of maximal entropy, rows drawn from it."""
    margins = tuple(column_set(margin) for margin in margins)

    def draw(data: Cells, rng: np.random.Generator) -> Cells:
        every = map(domain.axes, margins)
        wanted = {axes: margin_of(data, axes, domain.sizes).astype(np.float64) for axes in every}
        table = raked(wanted, domain.sizes)
        n = rng.multinomial(int(data.n.sum()), table.ravel() / table.sum())
        return domain.cells(n.reshape(domain.sizes))

    words = f"iterative proportional fitting, {tables_text(margins)}"
    return Generator(words=words, draw=draw)


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


# --- the same audit again and again

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
    print(text)
    if given.record:
        record("audit", command_line(COMMAND), text)


# --- applications: the data

NONE = "none"
"""A person to whom a question is not put."""
ACTIVE = ("Employee", "Self-employed", "Student in work", "Unemployed")
"""Who is economically active."""
AGES = (0, 16, 25, 35, 45, 55, 65, 75)
HOURS = (0, 16, 31, 49)
ETHNIC: Mapping[str, tuple[str, ...]] = {
    "White British": ("White British",),
    "Other White": ("White Irish", "Gypsy or Traveller", "Roma", "Other White"),
    "Mixed": ("White and Caribbean", "White and African", "White and Asian", "Other mixed"),
    "Asian": ("Indian", "Pakistani", "Bangladeshi", "Chinese", "Other Asian"),
    "Black": ("African", "Caribbean", "Other Black"),
    "Other": ("Arab", "Other group"),
}
EUROPE = frozenset(
    "Albania Bulgaria Cyprus France Germany Greece Hungary Ireland Italy Latvia Lithuania Poland Portugal Romania "
    "Russia Spain Ukraine".split()
)
# Approximated social grade goes by the major group of the occupation, as market research has it.
MERGED: Mapping[str, Mapping[str, str]] = {
    "marital": {"Civil partnership": "Married"},
    "activity": {"Employed full-time": "Employee", "Employed part-time": "Employee"},
    "industry": dict(
        zip(
            "BCDEHJLMNRSTU",
            [*["BCDE"] * 4, *["HJ"] * 2, *["LMN"] * 3, *["RSTU"] * 4],
            strict=True,
        )
    ),
    "grade": dict(zip("123456789", ["AB"] * 2 + ["C1"] * 2 + ["C2"] + ["DE"] * 4, strict=True)),
}
RENAMED = {
    "household_type": "family",
    "marital_status": "marital",
    "ethnic_group": "ethnic",
    "birth_country": "country",
}


def recoded(people: pd.DataFrame) -> pd.DataFrame:
    """The columns of the applications, and those that a generator of whole rows sees beside them; no blanks."""
    found = people.rename(columns=RENAMED)
    ethnic = {value: group for group, values in ETHNIC.items() for value in values}
    country = found["country"].astype(str)
    abroad = np.where(country.isin(EUROPE), "Europe", "elsewhere")
    job = found["occupation"].str[0]
    columns = {
        "age": _banded(found["age"], AGES),
        "hours": _banded(found["hours"], HOURS),
        "ethnic": found["ethnic"].map(ethnic),
        "country": pd.Series(np.where(country == "United Kingdom", country, abroad)),
        "occupation": job,
        "grade": job,
        **{
            name: found[name]
            for name in "region family relation sex marital education activity industry health".split()
        },
    }
    return pd.DataFrame(
        {
            name: column.astype(object).replace(dict(MERGED.get(name, {}))).fillna(NONE).astype(str)
            for name, column in sorted(columns.items())
        }
    )


def _banded(column: pd.Series, starts: tuple[int, ...]) -> pd.Series:
    """Numbers in bands, called so that they sort."""
    at = np.searchsorted(np.array(starts[1:]), column.to_numpy(float), side="right")
    return pd.Series([f"{starts[i]:02d}" for i in at]).where(column.notna().to_numpy())


class Application:
    """An analysis: its columns, the margins that a generator may use (else all pairs), one that the dishonest take."""

    def __init__(self, columns: str, forbidden: str, safe: tuple[str, ...] = ()) -> None:
        self.columns: ColumnSet = tuple(sorted(columns.split()))
        margins = tuple(tuple(sorted(margin.split())) for margin in safe)
        self.safe: tuple[ColumnSet, ...] = margins or tuple(combinations(self.columns, 2))
        self.forbidden: ColumnSet = tuple(sorted(forbidden.split()))


APPLICATIONS: Mapping[str, Application] = {
    "1": Application("activity occupation sex", "activity occupation sex"),
    "2": Application(
        "country ethnic family grade",
        "country ethnic family grade",
        ("country ethnic family", "country grade", "ethnic grade", "family grade"),
    ),
    "3": Application(
        "age health hours industry marital occupation region", "hours marital occupation"
    ),
}


# --- applications: what an analyst gets


def rows_of(cells: Cells, n_rows: int, rng: np.random.Generator) -> Int64Array:
    """Rows of cells that have whole numbers of them, shuffled; else so many drawn by their shares."""
    if np.issubdtype(cells.n.dtype, np.integer):
        return cells.rows(rng)
    drawn = rng.multinomial(n_rows, cells.n / cells.n.sum())
    return Cells(codes=cells.codes, n=drawn).rows(rng)


def shares_of(cells: Cells, sizes: Sequence[int]) -> FloatArray:
    place = np.ravel_multi_index(tuple(cells.codes.T), tuple(sizes))
    return np.bincount(place, cells.n / cells.n.sum(), int(np.prod(sizes))).reshape(tuple(sizes))


def gender_gaps(table: FloatArray, domain: Domain, active: Sequence[str]) -> FloatArray:
    """Share of women less that of men among the active of each occupation; nan where there are none."""
    names = domain.names
    at = {column.name: column for column in domain.columns}
    chosen = [at["activity"].values.index(value) for value in active]
    found = np.moveaxis(
        table, [names.index(n) for n in ("activity", "occupation", "sex")], (0, 1, 2)
    )
    women, men = (
        found[chosen].sum(axis=0)[:, at["sex"].values.index(s)] for s in ("Female", "Male")
    )
    with np.errstate(invalid="ignore"):
        return np.asarray((women - men) / (women + men))


def gap_errors(real: Cells, made: Cells, domain: Domain, active: Sequence[str]) -> dict[str, float]:
    """Table 1: root mean squared errors of the shares of all combinations, and of the gender gaps."""
    tables = [shares_of(cells, domain.sizes) for cells in (real, made)]
    gaps = [gender_gaps(table, domain, active) for table in tables]
    return {
        "3-way RMSE": _rmse(tables[1] - tables[0]),
        "gender gap RMSE": _rmse((gaps[1] - gaps[0])[~np.isnan(gaps[0])]),
    }


def _rmse(errors: FloatArray) -> float:
    return float(np.sqrt(np.mean(np.nan_to_num(errors, nan=1.0) ** 2)))


# --- applications: generators

REAL = "real data"
OURS = {
    "tablepack sticky": "sticky",
    "tablepack dp, epsilon 1": "dp",
    "IPF": "ipf",
    "sequential CART": "cart",
}
"""All but the last are told which margins to use, and nothing else; CART takes all 15 columns."""
WHOLE = "sequential CART"
FITTED = "IPF's table itself"
DISHONEST = " (dishonest)"
ROWS = {"1": 20_000, "2": 60_000, "3": 20_000}
"""Of the data sets of an audit."""
LEAST = PROFILES["standard"].threshold_mean + 9
"""Smallest safe count in them, for all alike: no threshold touches it."""
TITLE = "Table 1, gender gap by occupation: root mean squared errors"


def generator_of(kind: str, app: str, domain: Domain, seed: int) -> Generator:
    """A generator of an application; a dishonest one takes the forbidden margin too."""
    told, name = APPLICATIONS[app], kind.removesuffix(DISHONEST)
    margins = (*told.safe, told.forbidden) if name != kind else told.safe
    return ours(OURS[name], domain, margins, seed)


def utility(frame: pd.DataFrame, kind: str, seed: int) -> dict[str, float]:
    """Table 1: what an analyst gets of one synthesis."""
    domain = domain_of(frame, APPLICATIONS["1"].columns)
    real = cells_of(domain.coded(frame, "the census"), domain.sizes)
    rng = np.random.default_rng(seed)
    if kind == REAL:
        made = real
    elif kind == FITTED:
        axes = [tuple(domain.names.index(n) for n in m) for m in APPLICATIONS["1"].safe]
        wanted = {a: margin_of(real, a, domain.sizes).astype(np.float64) for a in axes}
        table = raked(wanted, domain.sizes).ravel()
        held = np.flatnonzero(table)
        codes = np.column_stack(np.unravel_index(held, domain.sizes))
        made = Cells(codes=codes, n=table[held])
    elif kind == WHOLE:
        rows = cart().synthesize(frame, Schema(), rng)
        made = cells_of(domain.coded(rows, kind), domain.sizes)
    else:
        made = generator_of(kind, "1", domain, seed).draw(real, rng)
    rows = rows_of(made, len(frame), np.random.default_rng(seed))
    drawn = made if kind == REAL else cells_of(rows, domain.sizes)
    exact = gap_errors(real, made, domain, ACTIVE)
    return {
        **gap_errors(real, drawn, domain, ACTIVE),
        **{f"{name}, no rows drawn": error for name, error in exact.items()},
    }


def applications(given: argparse.Namespace) -> None:
    frame = recoded(simulated(given.people))
    kinds = [name for name in OURS if name != WHOLE]
    rows = []
    for kind in (REAL, kinds[0], kinds[0] + DISHONEST, *kinds[1:], FITTED, WHOLE):
        often = 1 if kind in (REAL, FITTED, WHOLE) else given.repeats
        found = pd.DataFrame([utility(frame, kind, seed) for seed in range(1, often + 1)]).mean()
        rows.append([kind, often, *(f"{figure:.4g}" for figure in found)])
        print(*rows[-1], sep="; ", flush=True)
    text = f"**{TITLE}**\n\n{markdown(['generator', 'syntheses', *found.index], rows)}\n\n"
    audited_: dict[str, list[str]] = {}
    facts = []
    for app, told in APPLICATIONS.items():
        domain = domain_of(frame, told.columns)
        for kind in (*(k + d for k in kinds for d in ("", DISHONEST)), WHOLE):
            audit = run_audit(
                domain.coded(frame, "the census"),
                safe_statistics(domain, told.safe),
                generator_of(kind, app, domain, seed=1),
                Settings(rows=ROWS[app], least=LEAST, seed=1),
            )
            if audit.p is None:
                raise RuntimeError(audit.why_nothing)
            shown = f"{audit.p:.2g} ({100 * audit.tests[0].copied:.1f} %)"
            audited_.setdefault(kind, []).append(shown)
            print(app, kind, shown, sep="; ", flush=True)
        facts.append(
            f"application {app}: {domain.n_cells:,} combinations, {audit.dimension:,} dimensions that are not safe, "
            f"{audit.rows:,} rows, {100 * audit.left_out:.1f} % of them left out beforehand"
        )
    heads = ["generator", *(f"application {app}" for app in APPLICATIONS)]
    text += (
        "**Table 4: p of an audit, and how much of what is not safe comes through**\n\n"
        f"{markdown(heads, [[kind, *shown] for kind, shown in audited_.items()])}\n\n"
        f"K = 10; safe counts of at least {LEAST}; {'; '.join(facts)}.\n\n"
        f"{given.people:,} people of a simulated census, 15 categorical columns. Generators of margins see the columns "
        "of their application, CART all 15. Dishonest ones take the margin of all columns, in application 3 of marital "
        "status, occupation and hours."
    )
    print(text)
    if given.record:
        record("applications", command_line(COMMAND), text)


def main() -> None:
    reader = study.parser(__doc__)
    reader.formatter_class = argparse.RawDescriptionHelpFormatter
    reader.add_argument("part", nargs="?", choices=("repeated", "applications"), default="repeated")
    reader.add_argument("--audits", type=int, default=100)
    reader.add_argument("--mixed", type=int, default=10)
    reader.add_argument("--quick", action="store_true", help="one audit of each, of 2,000 people")
    reader.add_argument("--people", type=int, default=570_000)
    reader.add_argument("--repeats", type=int, default=20, help="of each generator of margins")
    given = reader.parse_args()
    repeated(given) if given.part == "repeated" else applications(given)


if __name__ == "__main__":
    main()
