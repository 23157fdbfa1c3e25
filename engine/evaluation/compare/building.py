"""Compare ways to make synthetic data on the same rows: make each in scratch, score and attack all alike, let them go.

Takes a spec, and what it is held beside: the other mode, other settings, other generators; gives a `Comparison`. The
path: candidates -> make each, a key each -> score, attack -> remove. CONFIDENTIAL. Invariants: what is built lies in a
scratch folder of mode 0700, with keys and ledgers that end with it, and says in its notes that it must not be
published; the budget of the spec's own key is not touched; what a baseline draws depends on its name alone.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pandas as pd

from engine.errors import PrivacyError, SpecError
from engine.evaluation.attacks import Assumptions
from engine.evaluation.baselines import Entrant, schema_of
from engine.evaluation.compare.result import Comparison, Generator, Run, View
from engine.evaluation.compare.scoring import SEED, Scorer
from engine.evaluation.data.aligned import generator
from engine.evaluation.study.model import Study
from engine.key_files import new_key
from engine.params import LEAST_EPSILON, MOST_EPSILON, MOST_SWAPPED, PROFILES
from engine.progress import Progress, silent
from engine.schema import MAX_WIDTH
from engine.source import begin_ledger, scratch_directory
from engine.spec import DPContext, ReleaseSpec, dp_from
from engine.store import open_release
from engine.version import ENGINE_VERSION

SCRATCH = "SCRATCH: comparison, must not be published"
"""First note of every release that a comparison builds."""
EPSILONS = (0.1, 0.5, 1.0, 2.0, 10.0)
MOST_EPSILONS, MOST_REPEATS = 20, 50
FURTHER_THRESHOLDS = (3, 7)
"""By how much a sweep raises the mean threshold."""
NOISIER = (2, 4)
"""With what it multiplies the noise."""
SWAPPED = (0.5, 2.0)
"""With what it multiplies the share of exchanged records."""
THE_SPEC = "the spec"
OURS = "ours: tablepack"
STICKY = (
    "Only counts of tables leave, with keyed noise; small cells are left out, and nobody's row. No guarantee against "
    "every attacker; what known ones get is measured."
)
DP = "({epsilon})-differential privacy of a person, as its card states it."
EXACT = "Nothing: it is what the model of dp mode could reach."
HOW = (
    "All releases are scored by the values that they hold, as in evaluate: numbers of many values in groups of equal "
    "share; only the tables that the spec publishes count."
)
GROUPED = (
    "Columns with breaks are scored twice: by their values, and by the groups that breaks make, in which dp mode "
    "counts and inside which it can know nothing; figures by groups say so. Rows misplaced are counted by values."
)
NO_CONTROL = (
    "No control rows were given: attributes are held against exact tables of all other people, and membership "
    "is left out."
)
WHOLE = (
    "A release has several tables, a baseline one of all columns. Figures of one to four columns are of the same "
    "columns for both; figures of whole tables (propensity, models, components, attacks on records) are of the tables "
    "that each has: a release's say little beside a baseline's."
)
SAMPLES = "A sample has fewer rows than the data: counts of it are too low by that factor; scaled figures are not."
Build = Callable[[ReleaseSpec, Path], object]
"""Builds a release of a spec at a path."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Candidate:
    """Something that is compared: a release of a spec, or a baseline or file."""

    generator: Generator
    spec: ReleaseSpec | None = None  # Its key path is still that of the spec given
    entrant: Entrant | None = None


# --- what is compared


def checked_epsilons(given: str | Sequence[float]) -> tuple[float, ...]:
    """Return a list of epsilons, ascending."""
    listed = given.split(",") if isinstance(given, str) else list(given)
    epsilons = []
    for one in listed:
        try:
            epsilons.append(float(one))
        except (TypeError, ValueError):
            raise SpecError(
                f"epsilon: {str(one).strip()!r} is no number; write them as 0.1,0.5,1"
            ) from None
    if wrong := [e for e in epsilons if not LEAST_EPSILON <= e <= MOST_EPSILON]:
        raise SpecError(
            f"epsilon: wants numbers from {LEAST_EPSILON:g} to {MOST_EPSILON:g}, not {wrong[0]:g}"
        )
    if len(set(epsilons)) < len(epsilons):
        raise SpecError("epsilon: one is there twice")
    if not 0 < len(epsilons) <= MOST_EPSILONS:
        raise SpecError(f"epsilon: wants 1 to {MOST_EPSILONS} numbers")
    return tuple(sorted(epsilons))


def with_defaults(spec: ReleaseSpec) -> ReleaseSpec:
    """Return a spec without a section `[dp]` with the defaults of that section."""
    problems: list[str] = []
    entities = spec.source.entity_columns
    context = DPContext(
        names=tuple(c.name for c in spec.columns if c.name not in entities),
        entities=entities,
        n_kinds=len(spec.source.entities),
        columns=tuple(c for c in spec.columns if c.name not in entities),
        tables=spec.tables,
    )
    bound = {} if spec.privacy.max_rows is None else {"max_rows": spec.privacy.max_rows}
    params, zeros = dp_from({"epsilon": EPSILONS[0], **bound}, context, problems)
    if params is None:
        raise SpecError(problems)
    return replace(spec, dp=params, zeros=zeros)


def variants(spec: ReleaseSpec, epsilons: Sequence[float]) -> tuple[Candidate, ...]:
    """Return the ways that a spec's tables are built: sticky, dp at each epsilon, dp without noise."""
    if spec.dp is None:
        raise SpecError("compare: the spec has no parameters of dp mode")
    marked = _narrow(spec)
    if spec.dp.noise == "gaussian" and not spec.dp.delta:
        raise SpecError(
            'compare: noise = "gaussian" wants a delta, and a spec with guarantee = false has none: '
            "give it an epsilon and a delta (epsilon is replaced here)"
        )
    params = replace(spec.dp, budget=None)  # the throw-away key's own ledger
    budgets = [(dp_name(e), "dp", e) for e in epsilons] + [("dp without noise", "exact", None)]
    dp = [
        Candidate(
            generator=Generator(
                name=name,
                kind=kind,
                promise=EXACT if e is None else DP.format(epsilon=f"epsilon = {e:g}"),
                origin=OURS,
                epsilon=e,
            ),
            spec=replace(marked, mode="dp", dp=replace(params, epsilon=e)),
        )
        for name, kind, e in budgets
    ]
    return (_sticky(marked), *dp)


def dp_name(epsilon: float) -> str:
    """Return what a dp release is called."""
    return f"dp, epsilon {epsilon:g}"


def _sticky(narrow: ReleaseSpec) -> Candidate:
    """The sticky release of a spec."""
    made = Generator(name="sticky", kind="sticky", promise=STICKY, origin=OURS)
    return Candidate(generator=made, spec=replace(narrow, mode="sticky", dp=None))


def _narrow(spec: ReleaseSpec) -> ReleaseSpec:
    """A spec of the tables that both modes build, marked as scratch."""
    tables = tuple(t for t in spec.tables if len(t) <= MAX_WIDTH)
    if not tables:
        raise SpecError(
            f"compare: sticky mode builds tables of at most {MAX_WIDTH} columns, and the spec has none"
        )
    return marked_as_scratch(replace(spec, tables=tables))


def marked_as_scratch(spec: ReleaseSpec) -> ReleaseSpec:
    """Return a spec whose releases say that they must not be published, and are built whatever they tell."""
    return replace(
        spec,
        title=f"SCRATCH: {spec.title}".rstrip(": "),
        notes=(SCRATCH, *spec.notes),
        # What is never published gives nothing away.
        bounds=replace(spec.bounds, accept_risk="a scratch release of a comparison"),
        previous=None,
    )


def settings_of(spec: ReleaseSpec) -> tuple[Candidate, ...]:
    """Return a spec in sticky mode, and the settings that it is compared with, each with one parameter changed."""
    own = replace(_narrow(spec), mode="sticky", dp=None)
    privacy, swap = own.privacy, own.privacy.swap
    found: list[tuple[str, str, ReleaseSpec]] = [("spec", THE_SPEC, own)]

    def add(kind: str, name: str, **changed: Any) -> None:
        found.append((kind, name, replace(own, privacy=replace(privacy, **changed))))

    for mean in (privacy.threshold_mean + more for more in FURTHER_THRESHOLDS):
        add("threshold", f"threshold of mean {mean}", threshold_mean=mean)
    for sd in (privacy.layer_sd * times for times in NOISIER):
        add("noise", f"noise layers of sd {sd}", layer_sd=sd)
    for name, profile in PROFILES.items():
        if name != privacy.profile:
            other = replace(profile, max_rows=privacy.max_rows, swap=swap)
            found.append(("profile", f"profile {name}", replace(own, privacy=other)))
    if swap is not None:
        add("swapping", "swapping off", swap=None)
        for rate in (min(swap.rate * times, MOST_SWAPPED) for times in SWAPPED):
            if rate != swap.rate:
                add("swapping", f"swapping at {rate:.2%}", swap=replace(swap, rate=rate))
    for width in sorted({len(t) for t in own.tables})[:-1]:
        name = f"tables of at most {width} column{'s' if width > 1 else ''}"
        tables = tuple(t for t in own.tables if len(t) <= width)
        found.append(("tables", name, replace(own, tables=tables)))
    return tuple(
        Candidate(generator=Generator(name=name, kind=kind, promise=STICKY, origin=OURS), spec=one)
        for kind, name, one in found
    )


def beside_baselines(
    spec: ReleaseSpec, epsilons: Sequence[float], entrants: Sequence[Entrant]
) -> tuple[Candidate, ...]:
    """Return our modes (without parameters of dp mode the sticky one), and other generators."""
    if spec.dp is None:
        ours = [_sticky(_narrow(spec))]
    else:
        ours = [c for c in variants(spec, epsilons) if c.generator.kind != "exact"]
    theirs = [
        Candidate(
            generator=Generator(
                name=one.name, kind=_kind(one), promise=one.promise, origin=one.origin
            ),
            entrant=one,
        )
        for one in entrants
    ]
    return (*ours, *theirs)


def _kind(entrant: Entrant) -> str:
    """Which kind of generator it is."""
    if entrant.baseline is None:
        return "file"
    return "outside" if entrant.is_command else "baseline"


# --- how it is compared


def compare_all(
    view: View,
    spec: ReleaseSpec,
    candidates: Sequence[Candidate],
    *,
    repeats: int,
    build: Build,
    frame: Any = None,
    control: Any = None,
    study: Study | None = None,
    areas: Sequence[str] = (),
    notes: tuple[str, ...] = (),
    assumptions: Assumptions | None = None,
    progress: Progress | None = None,
) -> Comparison:
    """Make every candidate several times; score and attack each result against the original.

    candidates: The first is a release.
    control: People of the same population whom the source does not hold.
    areas: Columns that record swapping exchanges; by default those of the spec's own swapping.
    """
    if not 1 <= repeats <= MOST_REPEATS:
        raise SpecError(f"seeds: wants 1 to {MOST_REPEATS}, not {repeats}")
    built = candidates[0].spec
    if built is None:
        raise SpecError("compare: wants a release first")
    tell, known = progress or silent, assumptions or Assumptions()
    scorer = Scorer(built, frame, control, known, study)
    # Everything once before anything a second time: what cannot be made fails soon. A file is there once.
    todo = [
        (one, repeat)
        for repeat in range(1, repeats + 1)
        for one in candidates
        if repeat == 1 or one.generator.kind != "file"
    ]
    runs = []
    for done, (one, repeat) in enumerate(todo):
        what = "table" if one.spec is None else "release"
        tell(f"{one.generator.name}: {what} {repeat} of {repeats}", done, len(todo))
        with _made(one, repeat, spec, areas, build, scorer) as (made, seconds, cpu):
            runs.append(
                Run(
                    generator=one.generator,
                    repeat=repeat,
                    figures=scorer.figures(made, one.generator.name, view),
                    seconds=seconds,
                    cpu=cpu,
                    n_rows=len(made) if isinstance(made, pd.DataFrame) else None,
                )
            )
    tell("done", len(todo), len(todo))
    own = _own(view, spec)
    told = _notes(view, spec, built, runs, known, own, has_control=control is not None)
    return Comparison(
        view=view,
        title=spec.title,
        runs=tuple(runs),
        own=own if own in {run.generator.name for run in runs} else "",
        repeats=repeats,
        n_tables=len(built.tables),
        n_rows=len(scorer.original),
        has_control=control is not None,
        study=study.title if study is not None else "chosen by what the columns look like",
        notes=(*told, *notes),
        version=ENGINE_VERSION,
    )


@contextmanager
def _made(
    one: Candidate,
    repeat: int,
    spec: ReleaseSpec,
    areas: Sequence[str],
    build: Build,
    scorer: Scorer,
) -> Iterator[tuple[Any, float | None, float | None]]:
    """A release in scratch, a baseline's table or a file, and seconds to make it, on the clock and of processors."""
    start, start_cpu = time.perf_counter(), _cpu()
    if one.spec is not None:
        with built_in_scratch(one.spec, build) as (release, seconds):
            yield release, seconds, _cpu() - start_cpu
    elif one.entrant is not None and one.entrant.baseline is not None:
        rows = rows_of(spec, scorer.original)
        risks = scorer.study.risks
        quasi = () if risks is None else tuple(c for c in risks.quasi_identifiers if c in rows)
        schema = schema_of(rows, spec, known=quasi, areas=areas)
        rng = generator(SEED + repeat, one.generator.name)
        made = one.entrant.baseline.synthesize(rows, schema, rng)
        yield made, time.perf_counter() - start, _cpu() - start_cpu
    else:
        yield one.entrant and one.entrant.path, None, None


def rows_of(spec: ReleaseSpec, original: pd.DataFrame) -> pd.DataFrame:
    """Return the rows that a baseline is given: the columns that the spec's tables show."""
    shown = {c for table in spec.tables for c in table}
    return original[[c for c in original.columns if c in shown]].reset_index(drop=True)


def _cpu() -> float:
    """Seconds of processors so far, those of child processes that have ended too."""
    times = os.times()
    return times.user + times.system + times.children_user + times.children_system


def _own(view: View, spec: ReleaseSpec) -> str:
    """Name of the generator that the spec itself is."""
    if view == "sweep":
        return THE_SPEC
    if spec.mode != "dp" or spec.dp is None:
        return "sticky"
    return "dp without noise" if spec.dp.epsilon is None else dp_name(spec.dp.epsilon)


def _notes(
    view: View,
    spec: ReleaseSpec,
    built: ReleaseSpec,
    runs: Sequence[Run],
    assumptions: Assumptions,
    own: str,
    *,
    has_control: bool,
) -> tuple[str, ...]:
    """What a reader must know."""
    names = {run.generator.name for run in runs}
    notes = [WHOLE] if view == "generators" else [HOW] if view == "modes" else []
    if view == "generators" and any(name.startswith("sample") for name in names):
        notes.append(SAMPLES)
    if view == "modes" and any(c.breaks for c in spec.columns):
        notes.append(GROUPED)
    if view == "modes":
        notes.append(
            "Attacks know the same and look at the same people in all releases: up to "
            f"{assumptions.people:,} of the data, drawn once, and as many non-members, where they are given. "
            "The figures say what these attacks get; only dp mode bounds what any other can."
        )
    if view == "sweep" and spec.privacy.swap is None:
        notes.append("The spec declares no swap in [privacy]: swapping is not swept.")
    if not has_control:
        notes.append(NO_CONTROL)
    if left_out := len(spec.tables) - len(built.tables):
        notes.append(
            f"Tables of more than {MAX_WIDTH} columns, which sticky mode does not build, are left out: {left_out}."
        )
    if view == "modes" and own not in names:
        notes.append(
            "The epsilon of the spec is not among those compared: no point is the spec's own."
        )
    return tuple(notes)


@contextmanager
def built_in_scratch(spec: ReleaseSpec, build: Build) -> Iterator[tuple[Path, float]]:
    """Build a release in a scratch folder, with a key of its own, and let the folder go at the end.

    Yields: release; seconds: To build it.
    """
    with scratch_directory() as folder:
        key = folder / "scratch.key"
        new_key(key)
        begin_ledger(key)
        release = folder / "scratch.duckdb"
        start = time.perf_counter()
        build(replace(spec, key_path=key), release)
        yield release, time.perf_counter() - start


def is_scratch(release: Path) -> bool:
    """Whether a release says of itself that a comparison built it."""
    con, _ = open_release(release)
    with con:
        notes = con.execute("SELECT note FROM catalog.notes WHERE topic = 'release'").fetchall()
    return any(str(note) == SCRATCH for (note,) in notes)


def refuse_scratch(release: Path) -> None:
    """Refuse to let out a release that a comparison built."""
    if is_scratch(release):
        raise PrivacyError(
            f"{release}: was built for a comparison, outside the ledger; build the spec itself"
        )
