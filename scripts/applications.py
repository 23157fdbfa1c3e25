"""The three applications of the paper on auditable generation, its tables 1 to 4, on a simulated census.

Usage: .venv/bin/python scripts/applications.py [--people N] [--repeats N] [--only WORD ...] [--mbi PYTHON]
    [--keep FOLDER] [--ready] [--record]
Generators: both modes of tablepack, iterative proportional fitting, Private-PGM and MST (with --mbi, the interpreter of
an environment with mbi 2.0.0 and pandas), sequential CART, and dishonest ones. With --keep each figure is written to a
folder as it is ready, and what is there is not measured again. --only: jobs whose names begin so, as "audit 1 IPF".
"""

from __future__ import annotations

import argparse
import json
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from pathlib import Path
from types import TracebackType
from typing import Any

import numpy as np
import pandas as pd
from applications_census import ACTIVE, APPLICATIONS, Application, census
from applications_utility import (
    Forest,
    forest_figures,
    forest_of,
    gap_errors,
    means,
    regression_accuracy,
    rows_of,
    split_of,
)
from measured import add_option, command_line, markdown, record

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
from engine.evaluation.baselines import Cart, Schema
from engine.evaluation.baselines.outside import recipe_of
from engine.params import PROFILES, DPParams
from engine.schema import Int64Array

PEOPLE = 570_000
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
        script = Path(__file__).with_name("applications_pgm.py")
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
        """Fit and draw rows.

        Raises
        ------
        RuntimeError
            The process ended.
        """
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

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
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
        return census(self.people)

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


def generator_of(kind: str, app: str, domain: Domain, mbi: str | None, seed: int) -> Generator:
    """A generator of an application; a dishonest one takes the forbidden margin too."""
    told: Application = APPLICATIONS[app]
    name = kind.removesuffix(DISHONEST)
    margins = (*told.safe, told.forbidden) if name != kind else told.safe
    if name == "IPF":
        return RakedGenerator(domain, margins)
    if name == "tablepack sticky":
        return StickyGenerator(domain, margins, PROFILES["standard"])
    if name == "tablepack dp, epsilon 1":
        return JointGenerator(domain, DPParams(epsilon=1.0, margins=margins))
    if name == "Private-PGM" and mbi is not None:
        return PgmGenerator(domain, app, margins, mbi)
    if name == "sequential CART":
        rng = np.random.default_rng(seed)
        return FrameGenerator(domain, partial(Cart().synthesize, schema=Schema(), rng=rng), name)
    raise ValueError(f"no generator {kind!r}")


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
        made = Cart().synthesize(bench.frame, Schema(), rng)
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


def audited(bench: Bench, app: str, kind: str) -> dict[str, Any]:
    """Audit a generator that says it uses the safe margins alone.

    Raises
    ------
    RuntimeError
        There was nothing to test.
    """
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
            yield f"audit {app} {kind}", partial(audited, bench, app, kind)


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


def main() -> None:
    """Measure, print, record."""
    reader = argparse.ArgumentParser(description=__doc__)
    reader.add_argument("--people", type=int, default=PEOPLE)
    reader.add_argument("--repeats", type=int, help="of each generator of margins; 20, 10 and 2")
    reader.add_argument("--only", nargs="*", default=[""])
    reader.add_argument("--mbi", help="interpreter of an environment with mbi")
    reader.add_argument("--keep", type=Path)
    reader.add_argument("--ready", action="store_true", help="only what --keep holds")
    add_option(reader)
    given = reader.parse_args()
    bench = Bench(people=given.people, mbi=given.mbi, keep=given.keep)
    repeats = dict.fromkeys(REPEATS, given.repeats) if given.repeats else REPEATS
    found = {}
    for name, job in jobs_of(bench, repeats):
        place = bench.place(name)
        is_ready = place is not None and place.exists()
        if name.startswith(tuple(given.only)) and (is_ready or not given.ready):
            start = time.perf_counter()
            found[name] = bench.kept(name, job)
            print(name, found[name], f"{time.perf_counter() - start:.1f} s", flush=True)
    remark = REMARK.format(people=given.people)
    parts = [
        table_of(table, found)
        for table in TABLES
        if any(n.startswith(f"table {table} ") for n in found)
    ]
    if any(name.startswith("audit") for name in found):
        parts.append(audit_table(found))
    text = "\n\n".join([*parts, remark])
    print(text)
    if given.record:
        record("applications", command_line(".venv/bin/python scripts/applications.py"), text)


if __name__ == "__main__":
    main()
