"""Audits of generators, and what an analyst gets of them, on simulated censuses.

Usage: .venv/bin/python scripts/audit.py [repeated] [--audits N] [--mixed N] [--workers N] [--quick] [--record]
       .venv/bin/python scripts/audit.py applications [--people N] [--repeats N] [--only WORD ...] [--mbi PYTHON]
           [--folder FOLDER] [--ready] [--record]
repeated: 100 audits of each honest generator and of mixtures of IPF, 10 of mixtures of our modes (--mixed), 3 of whole
cheats; several minutes on two free cores. All but the noise of mode dp, which is fresh, is fixed by seeds.
applications: the three of the paper on auditable generation (Houssiau et al. 2022, arXiv:2211.11540), its tables 1
to 4, by both modes of tablepack, iterative proportional fitting, Private-PGM and MST (--mbi: the interpreter of an
environment with mbi 2.0.0 and pandas), sequential CART, and dishonest ones. With --folder each figure is written as
it is ready, and what is there is not measured again. --only: jobs whose names begin so, as "audit 1 IPF".
"""

from __future__ import annotations

import argparse
import json
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from functools import cached_property, partial
from itertools import combinations
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import study
from measured import command_line, markdown, record
from sklearn.ensemble import RandomForestClassifier
from sklearn.inspection import permutation_importance
from sklearn.linear_model import LogisticRegression
from sklearn.preprocessing import OneHotEncoder

from engine.evaluation.audit import (
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
from engine.evaluation.audit.domain import cells_of
from engine.evaluation.audit.ours import raked
from engine.evaluation.audit.safe import margin_of
from engine.evaluation.baselines import Schema, recipe_of
from engine.evaluation.baselines.cart import cart
from engine.params import PROFILES, DPParams
from engine.schema import ColumnSet, FloatArray, Int64Array

SEED = 2021
COMMAND = ".venv/bin/python scripts/audit.py"


def simulated(people: int) -> pd.DataFrame:
    """A simulated census."""
    with tempfile.TemporaryDirectory() as folder:
        return pd.read_parquet(study.census_file(Path(folder) / "census", people, SEED))


def ours(kind: str, domain: Domain, margins: Sequence[Sequence[str]], seed: int) -> Generator:
    """A generator of margins; CART takes whatever it likes."""
    if kind == "sticky":
        return StickyGenerator(domain, margins, PROFILES["standard"])
    if kind == "dp":
        return JointGenerator(domain, DPParams(epsilon=1.0, margins=tuple(margins)))
    if kind == "ipf":
        return RakedGenerator(domain, margins)
    rng = np.random.default_rng(seed)
    made = partial(cart().synthesize, schema=Schema(), rng=rng)
    return FrameGenerator(domain, made, "sequential CART")


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
        """What it is."""
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
    """A row of the table."""
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
    """Honest generators, ones that cheat, cheats by a share, CART."""
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
    with ProcessPoolExecutor(given.workers, mp_context=get_context("spawn")) as pool:
        for kind, share, many in plan:
            jobs = [(kind, share, seed) for seed in range(1, many + 1)]
            found = np.array(list(pool.map(partial(audited, frame), jobs)))
            rows.append(row_of(kind, share, found))
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

TRAINED = 0.75
FOREST = {"n_estimators": 30, "min_samples_leaf": 50, "random_state": 1, "n_jobs": 1}
MOST_TRAINED, MOST_PERMUTED, PERMUTATIONS = 50_000, 20_000, 3
"""Rows that a forest is grown on, and tested on; and that importance is measured on, so often."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Split:
    """Real rows: those that the real model is trained on, and those that every model is tested on."""

    train: Int64Array
    test: Int64Array


def split_of(rows: Int64Array, rng: np.random.Generator) -> Split:
    """Split rows at random."""
    order = rng.permutation(len(rows))
    cut = int(TRAINED * len(rows))
    return Split(train=rows[order[:cut]], test=rows[order[cut:]])


def rows_of(cells: Cells, n_rows: int, rng: np.random.Generator) -> Int64Array:
    """Rows of cells that have whole numbers of them, shuffled; else so many drawn by their shares."""
    if np.issubdtype(cells.n.dtype, np.integer):
        return cells.rows(rng)
    drawn = rng.multinomial(n_rows, cells.n / cells.n.sum())
    return Cells(codes=cells.codes, n=drawn).rows(rng)


def shares_of(cells: Cells, sizes: Sequence[int]) -> FloatArray:
    """Shares of all combinations, one axis a column."""
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


def regression_accuracy(
    real: Split, made: Int64Array, sizes: Sequence[int], target: int
) -> dict[str, float]:
    """Table 2: a multinomial regression of three quarters of the synthetic rows, on real rows and on the others."""
    cut = int(TRAINED * len(made))
    others = [axis for axis in range(len(sizes)) if axis != target]
    coder = OneHotEncoder(categories=[np.arange(sizes[a]) for a in others], handle_unknown="ignore")
    rows, n = np.unique(made[:cut], axis=0, return_counts=True)
    model = LogisticRegression(C=1e6, max_iter=2_000)
    model.fit(coder.fit_transform(rows[:, others]), rows[:, target], sample_weight=n)
    return {
        where: float(model.score(coder.transform(x[:, others]), x[:, target]))
        for where, x in (("on real", real.test), ("on synthetic", made[cut:]))
    }


@dataclass(frozen=True, kw_only=True, slots=True)
class Forest:
    """What a forest came to: accuracies, and the importance of each feature on real rows."""

    on_real: float
    on_synthetic: float
    importance: FloatArray

    def order(self, among: Sequence[int] | None = None) -> str:
        """Features, or some of them, from the most important one, a letter each."""
        ranked = np.argsort(-self.importance, kind="stable")
        return "".join(chr(ord("a") + i) for i in ranked if among is None or i in among)


def forest_of(real: Split, made: Int64Array, target: int) -> Forest:
    """Table 3: a forest grown on synthetic rows, three quarters but for a limit; importance by permutation."""
    cut = int(TRAINED * len(made))
    others = [axis for axis in range(made.shape[1]) if axis != target]
    grown = made[: min(cut, MOST_TRAINED)]
    model = RandomForestClassifier(**FOREST).fit(grown[:, others], grown[:, target])
    shown = real.test[:MOST_PERMUTED]
    found = permutation_importance(
        model, shown[:, others], shown[:, target], n_repeats=PERMUTATIONS, random_state=1
    )
    real_rest, rest = real.test[:MOST_TRAINED], made[cut:][:MOST_TRAINED]
    return Forest(
        on_real=float(model.score(real_rest[:, others], real_rest[:, target])),
        on_synthetic=float(model.score(rest[:, others], rest[:, target])),
        importance=np.asarray(found.importances_mean),
    )


def forest_figures(real: Forest, made: Forest, chance: float) -> dict[str, float]:
    """A forest beside that of the real rows."""
    sure = np.flatnonzero(real.importance > chance).tolist()
    return {
        "on real": made.on_real,
        "on synthetic": made.on_synthetic,
        "importance, largest difference": float(np.abs(made.importance - real.importance).max()),
        "order": jaro(real.order(), made.order()),
        "order of those above chance": jaro(real.order(sure), made.order(sure)),
        "so many": len(sure),
    }


def jaro(one: str, other: str) -> float:
    """Jaro's similarity of two words (1989, doi:10.1080/01621459.1989.10478785)."""
    if not one or not other:
        return float(one == other)
    reach = max(max(len(one), len(other)) // 2 - 1, 0)
    free, kept = list(other), []
    for i, letter in enumerate(one):
        for j in range(max(0, i - reach), min(len(other), i + reach + 1)):
            if free[j] == letter:
                kept.append((i, j))
                free[j] = ""
                break
    if not kept:
        return 0.0
    matched = sorted(j for _, j in kept)
    moved = sum(one[i] != other[j] for (i, _), j in zip(kept, matched, strict=True)) / 2
    m = len(kept)
    return (m / len(one) + m / len(other) + (m - moved) / m) / 3


def means(found: Sequence[Mapping[str, float]]) -> dict[str, float]:
    """Means of figures over several syntheses."""
    return {name: float(np.mean([one[name] for one in found])) for name in found[0]}


# --- applications: generators and jobs

TABLES = {"1": "1", "2": "2", "3": "3", "3b": "3"}
"""Application of each table. The last two have a forest each: what is important to health of simulated people is their
age, and little else; so there is one of a column that several others tell."""
REPEATS = {"1": 20, "2": 10, "3": 2, "3b": 2}
"""Syntheses of each generator of margins; of the others one."""
REAL = "real data"
AGAIN = "real data, other rows"
"""How much a forest, and the order of what is important to it, differ by chance."""
MARGINAL = ("tablepack sticky", "tablepack dp, epsilon 1", "IPF", "Private-PGM")
"""They are told which margins to use, and nothing else."""
WHOLE = ("MST, epsilon 1000", "sequential CART")
"""They take all 15 columns, and choose by themselves."""
FITTED = "IPF's table itself"
DISHONEST = " (dishonest)"
EPSILON, DELTA = 1000.0, 1e-5
"""Of Private-PGM and MST, as in the paper."""
ITERATIONS = {"1": 1_000, "2": 1_000, "3": 300}
"""Of Private-PGM; its third model has 1.4 million cells in one clique."""
TARGETS = {"2": "grade", "3": "health", "3b": "occupation"}
ROWS = {"1": 20_000, "2": 60_000, "3": 20_000}
"""Of the data sets of an audit."""
LEAST = PROFILES["standard"].threshold_mean + 9
"""Smallest safe count in them, for all alike: no threshold touches it."""
AUDITED = {"1": (*MARGINAL, WHOLE[1]), "2": (*MARGINAL, WHOLE[1]), "3": (*MARGINAL[:3], WHOLE[1])}
"""Private-PGM is not audited in the third: each of 40 runs takes minutes."""
TITLES = {
    "1": "Table 1, gender gap by occupation: root mean squared errors",
    "2": "Table 2, multinomial regression of social grade: accuracy",
    "3": "Table 3, random forest of health",
    "3b": "Table 3 again, random forest of occupation",
}
REMARK = (
    "{people:,} people of a simulated census, 15 categorical columns. Generators of margins see the columns of their "
    f"application, MST and CART all 15. Private-PGM and MST have epsilon {EPSILON:g}. Dishonest ones take the margin "
    "of all columns, in application 3 of marital status, occupation and hours. Forests of 30 trees on 50,000 rows, "
    "importance by permutation of 20,000 real rows; order: Jaro's similarity to that of the real data, of all six "
    "features, and of those whose importance is above what two forests of real rows differ by."
)


class PgmGenerator:
    """Private-PGM of margins, in a process of another environment."""

    def __init__(
        self, domain: Domain, app: str, margins: Sequence[Sequence[str]], python: str
    ) -> None:
        self._domain, self._app = domain, app
        names = domain.names
        wide = max(map(len, margins))
        self._margins = np.array(
            [[names.index(n) for n in m] + [-1] * (wide - len(m)) for m in margins]
        )
        script = Path(__file__).with_name("audit_pgm.py")
        self._process = subprocess.Popen(
            [python, "-I", str(script)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        )

    @property
    def words(self) -> str:
        """What it is."""
        return "Private-PGM"

    def draw(self, data: Cells, rng: np.random.Generator) -> Cells:
        """Fit and draw rows."""
        if self._process.stdin is None or self._process.stdout is None:
            raise RuntimeError("Private-PGM has no pipes")
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "told.npz"
            np.savez(
                path,
                codes=data.codes,
                n=data.n,
                sizes=np.array(self._domain.sizes),
                margins=self._margins,
                seed=rng.integers(2**31),
                epsilon=EPSILON,
                delta=DELTA,
                iterations=ITERATIONS[self._app],
            )
            self._process.stdin.write(f"{path}\n")
            self._process.stdin.flush()
            if self._process.stdout.readline().strip() != "done":
                raise RuntimeError("Private-PGM ended; is mbi 2.0.0 in the environment of --mbi?")
            with np.load(f"{path}.out.npz") as made:
                return cells_of(made["rows"], self._domain.sizes)

    def __enter__(self) -> PgmGenerator:
        return self

    def __exit__(self, *_: object) -> None:
        """End the process."""
        self._process.communicate()


@dataclass(frozen=True, kw_only=True)
class Bench:
    """The data, and what every job needs of it."""

    people: int
    mbi: str | None
    keep: Path | None

    @cached_property
    def frame(self) -> pd.DataFrame:
        """The census in 15 columns."""
        return recoded(simulated(self.people))

    @cached_property
    def domains(self) -> Mapping[str, Domain]:
        """Combinations of each application's columns."""
        return {app: domain_of(self.frame, told.columns) for app, told in APPLICATIONS.items()}

    @cached_property
    def codes(self) -> Mapping[str, Int64Array]:
        """The people by codes of each application's columns."""
        return {app: domain.coded(self.frame, "the census") for app, domain in self.domains.items()}

    def real(self, app: str) -> Cells:
        """The people by combination."""
        return cells_of(self.codes[app], self.domains[app].sizes)

    def place(self, name: str) -> Path | None:
        """Where a job's figures are kept."""
        return (
            None
            if self.keep is None
            else self.keep / f"{name.replace(' ', '_').replace(',', '')}.json"
        )

    def kept(self, name: str, found: Callable[[], Any]) -> Any:
        """What a job found, read where it is there."""
        path = self.place(name)
        if path is None:
            return found()
        if not path.exists():
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(json.dumps(found()), encoding="utf-8")
        return json.loads(path.read_text(encoding="utf-8"))


def whole_rows(bench: Bench, kind: str, seed: int) -> pd.DataFrame:
    """Rows of all 15 columns by a generator that chooses by itself."""
    path = (
        None
        if bench.keep is None
        else bench.keep / f"{kind.split(',')[0].split()[-1]}-{seed}.parquet"
    )
    if path is not None and path.exists():
        return pd.read_parquet(path)
    rng = np.random.default_rng(seed)
    if kind == "sequential CART":
        made = cart().synthesize(bench.frame, Schema(), rng)
    else:
        recipe = recipe_of("mst", bench.mbi)
        made = type(recipe)(name="mst", words=(*recipe.words, f"{EPSILON:g}")).synthesize(
            bench.frame, Schema(), rng
        )
    if path is not None:
        path.parent.mkdir(parents=True, exist_ok=True)
        made.to_parquet(path)
    return made


def made_by(bench: Bench, kind: str, app: str, seed: int) -> Cells:
    """Synthetic data of an application's columns."""
    domain, real = bench.domains[app], bench.real(app)
    if kind in (REAL, AGAIN):
        return real
    if kind == FITTED:
        sizes = domain.sizes
        axes = [tuple(domain.names.index(n) for n in m) for m in APPLICATIONS[app].safe]
        table = raked({a: margin_of(real, a, sizes).astype(np.float64) for a in axes}, sizes)
        held = np.flatnonzero(table)
        return Cells(codes=np.column_stack(np.unravel_index(held, sizes)), n=table.ravel()[held])
    if kind in WHOLE:
        return cells_of(domain.coded(whole_rows(bench, kind, seed), kind), domain.sizes)
    generator = generator_of(kind, app, domain, bench.mbi, seed)
    rng = np.random.default_rng(seed)
    if isinstance(generator, PgmGenerator):
        with generator:
            return generator.draw(real, rng)
    return generator.draw(real, rng)


def utility(bench: Bench, table: str, kind: str, seed: int) -> dict[str, Any]:
    """What an analyst gets of one synthesis."""
    app = TABLES[table]
    domain, codes = bench.domains[app], bench.codes[app]
    made = made_by(bench, kind, app, seed)
    rows = rows_of(made, len(codes), np.random.default_rng(seed))
    if app == "1":
        drawn = made if kind == REAL else cells_of(rows, domain.sizes)
        return {
            **gap_errors(bench.real(app), drawn, domain, ACTIVE),
            **{
                f"{k}, no rows drawn": v
                for k, v in gap_errors(bench.real(app), made, domain, ACTIVE).items()
            },
        }
    split = split_of(codes, np.random.default_rng(0))
    target = domain.names.index(TARGETS[table])
    if kind in (REAL, AGAIN):  # trained on rows that it is not tested on
        train = split.train if kind == REAL else split.train[::-1]
        rows = np.concatenate([train, split.test])
    if app == "2":
        return regression_accuracy(split, rows, domain.sizes, target)
    found = forest_of(split, rows, target)
    return {
        "on real": found.on_real,
        "on synthetic": found.on_synthetic,
        "importance": found.importance.tolist(),
    }


def kinds_of(bench: Bench, app: str, *, is_audit: bool) -> Iterator[str]:
    """Generators of an application, those that cannot run here left out."""
    honest = AUDITED[app] if is_audit else (REAL, *MARGINAL, *WHOLE)
    if app == "1" and not is_audit:
        honest = (*honest[:4], FITTED, *honest[4:])
    if app == "3" and not is_audit:
        honest = (REAL, AGAIN, *honest[1:])
    for kind in honest:
        if bench.mbi is None and kind in ("Private-PGM", WHOLE[0]):
            continue
        yield kind
        if kind in MARGINAL and (is_audit or kind == MARGINAL[0]):
            yield kind + DISHONEST


def jobs_of(bench: Bench, repeats: Mapping[str, int]) -> Iterator[tuple[str, Callable[[], Any]]]:
    """Every job by its name: what is measured, of which application and generator."""
    for table, app in TABLES.items():
        for kind in kinds_of(bench, app, is_audit=False):
            is_fresh = kind not in (REAL, AGAIN, FITTED, *WHOLE)
            often = repeats[table] if is_fresh else 1
            for seed in range(1, often + 1):
                yield f"table {table} {kind} {seed}", partial(utility, bench, table, kind, seed)
    for app in APPLICATIONS:
        for kind in kinds_of(bench, app, is_audit=True):
            yield f"audit {app} {kind}", partial(audit_of, bench, app, kind)


def table_of(table: str, found: Mapping[str, Any]) -> str:
    """One of the tables 1 to 3b: means over the syntheses of each generator."""
    kinds: dict[str, list[dict[str, Any]]] = {}
    for name, figures in found.items():
        if name.startswith(f"table {table} "):
            kinds.setdefault(name.removeprefix(f"table {table} ").rsplit(" ", 1)[0], []).append(
                figures
            )
    if TABLES[table] == "3" and REAL in kinds:
        real = _forest(kinds[REAL][0])
        again = _forest(kinds[AGAIN][0]) if AGAIN in kinds else real
        chance = float(np.abs(again.importance - real.importance).max())
        kinds = {
            k: [forest_figures(real, _forest(one), chance) for one in v] for k, v in kinds.items()
        }
    told = {kind: means(figures) for kind, figures in kinds.items()}
    heads = list(next(iter(told.values()))) if told else []
    rows = [
        [kind, len(kinds[kind]), *(f"{figures[head]:.4g}" for head in heads)]
        for kind, figures in told.items()
    ]
    return f"**{TITLES[table]}**\n\n{markdown(['generator', 'syntheses', *heads], rows)}"


def _forest(told: Mapping[str, Any]) -> Forest:
    return Forest(
        on_real=told["on real"],
        on_synthetic=told["on synthetic"],
        importance=np.array(told["importance"]),
    )


def audit_table(found: Mapping[str, Any]) -> str:
    """Table 4: p of each generator in each application, and what comes through of what is not safe."""
    cells = {
        name.removeprefix("audit "): told
        for name, told in found.items()
        if name.startswith("audit ")
    }
    kinds = dict.fromkeys(name[2:] for name in cells)
    rows = [
        [
            kind,
            *(
                f"{told['p']:.2g} ({100 * told['copied']:.1f} %)"
                if (told := cells.get(f"{app} {kind}"))
                else ""
                for app in APPLICATIONS
            ),
        ]
        for kind in kinds
    ]
    facts = [
        f"application {app}: {told['cells']:,} combinations, {told['dimension']:,} dimensions that are not safe, "
        f"{told['rows']:,} rows, {100 * told['left out']:.1f} % of them left out beforehand"
        for app in APPLICATIONS
        if (
            told := next(
                (cells[f"{app} {kind}"] for kind in kinds if f"{app} {kind}" in cells), None
            )
        )
    ]
    heads = ["generator", *(f"application {app}" for app in APPLICATIONS)]
    return (
        f"**Table 4: p of an audit, and how much of what is not safe comes through**\n\n{markdown(heads, rows)}\n\n"
        f"K = 10; safe counts of at least {LEAST}; {'; '.join(facts)}."
    )


def generator_of(kind: str, app: str, domain: Domain, mbi: str | None, seed: int) -> Generator:
    """A generator of an application; a dishonest one takes the forbidden margin too."""
    told, name = APPLICATIONS[app], kind.removesuffix(DISHONEST)
    margins = (*told.safe, told.forbidden) if name != kind else told.safe
    if name == "Private-PGM" and mbi is not None:
        return PgmGenerator(domain, app, margins, mbi)
    return ours(OURS[name], domain, margins, seed)


OURS = {
    "IPF": "ipf",
    "tablepack sticky": "sticky",
    "tablepack dp, epsilon 1": "dp",
    "sequential CART": "cart",
}


def audit_of(bench: Bench, app: str, kind: str) -> dict[str, Any]:
    """Audit a generator that says it uses the safe margins alone."""
    domain = bench.domains[app]
    generator = generator_of(kind, app, domain, bench.mbi, seed=1)
    try:
        found = run_audit(
            bench.codes[app],
            safe_statistics(domain, APPLICATIONS[app].safe),
            generator,
            Settings(rows=ROWS[app], least=LEAST, seed=1),
        )
    finally:
        if isinstance(generator, PgmGenerator):
            generator.__exit__(None, None, None)
    if found.p is None:
        raise RuntimeError(found.why_nothing)
    return {
        "p": found.p,
        "copied": found.tests[0].copied,
        "rows": found.rows,
        "left out": found.left_out,
        "dimension": found.dimension,
        "cells": domain.n_cells,
    }


def applications(given: argparse.Namespace) -> None:
    """Tables 1 to 4 of the paper."""
    bench = Bench(people=given.people, mbi=given.mbi, keep=given.folder)
    repeats = dict.fromkeys(REPEATS, given.repeats) if given.repeats else REPEATS
    found = {}
    for name, job in jobs_of(bench, repeats):
        place = bench.place(name)
        is_ready = place is not None and place.exists()
        if name.startswith(tuple(given.only)) and (is_ready or not given.ready):
            start = time.perf_counter()
            found[name] = bench.kept(name, job)
            print(name, found[name], f"{time.perf_counter() - start:.1f} s", flush=True)
    parts = [
        table_of(table, found)
        for table in TABLES
        if any(n.startswith(f"table {table} ") for n in found)
    ]
    if any(name.startswith("audit") for name in found):
        parts.append(audit_table(found))
    text = "\n\n".join([*parts, REMARK.format(people=given.people)])
    print(text)
    if given.record:
        record("applications", command_line(COMMAND), text)


def main() -> None:
    """Run a part."""
    reader = study.parser(__doc__)
    reader.formatter_class = argparse.RawDescriptionHelpFormatter
    reader.add_argument("part", nargs="?", choices=("repeated", "applications"), default="repeated")
    reader.add_argument("--audits", type=int, default=100)
    reader.add_argument("--mixed", type=int, default=10)
    reader.add_argument("--workers", type=int, default=2)
    reader.add_argument("--quick", action="store_true", help="one audit of each, of 2,000 people")
    reader.add_argument("--people", type=int, default=570_000)
    reader.add_argument("--repeats", type=int, help="of each generator of margins; 20, 10 and 2")
    reader.add_argument("--only", nargs="*", default=[""])
    reader.add_argument("--mbi", help="interpreter of an environment with mbi")
    reader.add_argument("--ready", action="store_true", help="only what --folder holds")
    given = reader.parse_args()
    repeated(given) if given.part == "repeated" else applications(given)


if __name__ == "__main__":
    main()
