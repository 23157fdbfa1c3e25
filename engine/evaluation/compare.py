"""Comparison: modes, settings or generators on the same rows, made in scratch, scored and attacked alike, let go.

Takes a spec, and what it is held beside: the other mode, other settings, other generators; gives a `Comparison`. The
path: candidates -> make each, a key each -> score, attack -> remove. CONFIDENTIAL. Invariants: what is built lies in a
scratch folder of mode 0700, with keys and ledgers that end with it, and says in its notes that it must not be
published; the budget of the spec's own key is not touched; the study, its groups, the tables that count and what is
drawn are settled by the spec and the first release, and are the same for all; of the loss and the risks lower is
better.
"""

from __future__ import annotations

import os
import time
import tomllib
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import asdict, dataclass, replace
from importlib.resources import files
from math import isfinite
from pathlib import Path
from typing import Any, Literal, NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from engine.errors import InternalError, PrivacyError, SpecError
from engine.evaluation.attacks.inference import attribute
from engine.evaluation.attacks.protocol import ATTACKS, Assumptions, Held, held
from engine.evaluation.attacks.strong import membership, reconstruction
from engine.evaluation.baselines.baseline import Baseline, schema_of
from engine.evaluation.data.aligned import (
    Aligned,
    Coded,
    align,
    covering,
    generator,
    key_of,
    places,
)
from engine.evaluation.data.reading import (
    Subject,
    data_of,
    read_like,
    read_original,
    read_subject,
    released_columns,
)
from engine.evaluation.findings import FIGURES, FRAME, Figure, Finding, named, notes_frame
from engine.evaluation.measures.suite import MEASURES, score_all
from engine.evaluation.runner import Job, Task, do_jobs
from engine.evaluation.study import Study, default_study, of_spec
from engine.key_files import new_key
from engine.params import LEAST_EPSILON, MOST_EPSILON, MOST_SWAPPED, PROFILES
from engine.progress import Progress, silent
from engine.schema import MAX_WIDTH, ColumnSet
from engine.source import begin_ledger, scratch_directory
from engine.spec import DPContext, ReleaseSpec, dp_from
from engine.store import open_release
from engine.version import ENGINE_VERSION

View = Literal["modes", "sweep", "generators"]
"""What is compared: the two modes, settings of sticky mode one at a time, or our modes with other generators."""
TEXTS = tomllib.loads(files("engine.evaluation").joinpath("comparison.toml").read_text("utf-8"))
NOTES, CHOSEN = TEXTS["notes"], TEXTS["first"]
IN_GROUPS = "groups/"
"""Stands before figures that were scored by the groups that breaks make."""
CHOSEN_IN_GROUPS = ("tables.s_pmse_2", "tables.s_pmse_3", "marginals.score")
LOSS, *RISKS = (
    Figure(name=name, better="lower", **fields) for name, fields in TEXTS["figures"].items()
)
"""The loss of an analyst, and what attackers get."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Generator:
    name: str  # For people; unique within a comparison: "sticky", "dp, epsilon 1", "threshold of mean 8"
    # What it has in common with others: a mode, the parameter that is changed, whose generator it is.
    kind: str
    promise: str = ""  # What it promises, in words
    origin: str = ""  # Whose code it is
    epsilon: float | None = None  # Of dp releases only


@dataclass(frozen=True, kw_only=True, slots=True)
class Run:
    """One release, or synthetic table, that was made, scored, attacked and thrown away."""

    generator: Generator
    repeat: int  # Which of several alike, from 1 on; each has a key, or noise, of its own
    # Those that could be computed, by `measure.value`; the loss and the risks, by the names of `RISKS`; and "rows" of a
    # table, "seconds" on the clock and "cpu_seconds" of processors (of child processes too) to make it.
    figures: Mapping[str, float]


@dataclass(frozen=True, kw_only=True, slots=True)
class Spread:
    median: float
    low: float
    high: float
    n: int  # Repeats that have the figure


@dataclass(frozen=True, kw_only=True, slots=True)
class Comparison:
    view: View
    title: str
    runs: tuple[Run, ...]
    own: str  # Name of the generator that is the spec itself; empty: it is none of those compared
    repeats: int
    n_tables: int
    n_rows: int  # Rows of the original
    has_control: bool  # Whether non-members were given
    study: str = ""  # Title of the study, or that it was chosen by rule
    notes: tuple[str, ...] = ()  # What a reader must know
    version: str  # Of tablepack

    def generators(self) -> tuple[Generator, ...]:
        return tuple(dict.fromkeys(run.generator for run in self.runs))

    def figures(self) -> tuple[Figure, ...]:
        """Return the figures of the catalogue that any run has, those by groups first."""
        there = {name for run in self.runs for name in run.figures}
        order = (*(f"{IN_GROUPS}{n}" for n in CHOSEN_IN_GROUPS), *CHOSEN, *FIGURES)
        if self.view == "generators":
            order = tuple(FIGURES)
        found = []
        for name in dict.fromkeys(order):
            if name in there:
                plain = FIGURES[name.removeprefix(IN_GROUPS)]
                by = ", by groups" if name.startswith(IN_GROUPS) else ""
                found.append(replace(plain, name=name, title=f"{plain.title}{by}"))
        return tuple(found)

    def weighed(self) -> tuple[Figure, ...]:
        return tuple(f for f in (LOSS, *RISKS) if any(f.name in r.figures for r in self.runs))

    def spread(self, figure: str, generator: str) -> Spread | None:
        return spread_of([run.figures.get(figure) for run in self._of(generator)])

    def beside(self) -> tuple[str, tuple[tuple[str, str], ...]]:
        """Return the generator that others are held beside, and names of these with what each costs and gains.

        It is the spec's own, or the first where that was not compared. There are no others where no attack ran.
        """
        own = self.own or self.generators()[0].name
        others = [g.name for g in self.generators() if g.name != own] if self.weighed() else []
        return own, tuple((name, self._apart(name, own)) for name in others)

    def _apart(self, name: str, own: str) -> str:
        """What one generator costs and gains beside another."""
        by = {
            f: one.median - other.median
            for f in self.weighed()
            for one, other in [(self.spread(f.name, name), self.spread(f.name, own))]
            if one is not None and other is not None
        }
        cost = f"{LOSS.title} {by[LOSS]:+.3f}; " if LOSS in by else ""
        changes = {f: round(v, 3) for f, v in by.items() if f != LOSS}
        less = [f"{f.title} {v:+.3f}" for f, v in changes.items() if v < 0]
        more = [f"{f.title} {v:+.3f}" for f, v in changes.items() if v > 0]
        parts = [f"lower: {', '.join(less)}"] if less else []
        parts += [f"higher: {', '.join(more)}"] if more else []
        return cost + ("; ".join(parts) or "no risk changed")

    def frame(self) -> pd.DataFrame:
        """Every figure of every generator: median and range over the repeats, then each repeat (`by`)."""
        figures: dict[str, str] = {f.name: f.better for f in (*self.weighed(), *self.figures())}
        rows: list[tuple[Any, ...]] = []
        for one in self.generators():
            for name, better in figures.items():
                if (all_ := self.spread(name, one.name)) is not None:
                    span = (all_.median, all_.low, all_.high)
                    rows.append((one.name, name, "", "", *span, better, f"median of {all_.n}"))
            for run in self._of(one.name):
                for name, value in run.figures.items():
                    if isfinite(value):
                        by, better = f"repeat {run.repeat}", figures.get(name, "")
                        rows.append((one.name, name, "", by, value, None, None, better, ""))
        return pd.concat(
            [pd.DataFrame(rows, columns=list(FRAME)), notes_frame("", self.notes)],
            ignore_index=True,
        )

    def about(self) -> dict[str, Any]:
        return {
            "kind": self.view,
            "title": self.title,
            "tablepack": self.version,
            "rows": self.n_rows,
            "tables": self.n_tables,
            "repeats": self.repeats,
            "own": self.own or None,
            "control": self.has_control,
            "study": self.study or None,
            "generators": [asdict(one) for one in self.generators()],
        }

    def _of(self, generator: str) -> list[Run]:
        return [run for run in self.runs if run.generator.name == generator]


def spread_of(values: Iterable[float | None]) -> Spread | None:
    """Return some values as a spread, those that are missing left out; None where all are."""
    kept = [value for value in values if value is not None and isfinite(value)]
    if not kept:
        return None
    return Spread(median=float(np.median(kept)), low=min(kept), high=max(kept), n=len(kept))


# Scoring


SEED = 2021
"""Fixes what measures and attacks draw, alike for all."""
ASSUMED = Assumptions()
"""What attackers know."""
READ = ("nulls", "texts", "order", "labels")
"""What a study says of how data is read."""
SECTIONS = ("bins", "univariate", "marginals", "tables", "correlations", "propensity")
"""Sections of the study chosen by rule that a comparison of modes takes."""
Floats = NDArray[np.float64]


class Scorer:
    """The original, read once the first release says of what types its columns are, and the study chosen for all."""

    def __init__(
        self, spec: ReleaseSpec, frame: Any, control: Any, study: Study | None = None
    ) -> None:
        self._spec = spec
        self._source = data_of(spec) if frame is None else frame
        self._given = control
        self._is_declared = study is not None
        self._original: pd.DataFrame | None = None
        self._control: pd.DataFrame | None = None
        self._breaks = {c.name: c.breaks for c in spec.columns if c.breaks}
        self.study = study or of_spec(spec, Study(title=spec.title))

    @property
    def original(self) -> pd.DataFrame:
        if self._original is None:
            raise InternalError("the original is read with the first release, and there was none")
        return self._original

    def figures(self, made: Any, name: str, view: View) -> dict[str, float]:
        """Return the figures of a release, or of a synthetic table: the loss, the risks, and what the view has."""
        subject = self._read(made, name)
        found = held([subject], self.original, self.study, control=self._control)
        figures: dict[str, float] = {}
        if view == "generators":
            attacks = ATTACKS if self.study.risks is not None else ()
            jobs = [
                *(Job("measuring", n) for n in MEASURES),
                *(Job("attacking", n) for n in attacks),
            ]
            task = Task(held=found, study=self.study, seed=SEED)
            made_of = do_jobs(task, jobs, 1, lambda *_: None)
            every = named({job.name: one for job, one in made_of.items()})
            figures = {key: value for key, value in every.items() if isfinite(value)}
        if view == "modes":
            sections = {n: getattr(self.study, n) for n in (*READ, *SECTIONS)}
            chosen = Study(title=self.study.title, **sections)
            figures = _scores(found.aligned, chosen, CHOSEN) | self._by_groups(subject, chosen)
        lost = [misplaced(found.aligned, columns) for columns in self._spec.tables]
        return {**figures, "misplaced": float(np.mean(lost)), **risks_of(found)}

    def _read(self, made: Any, name: str) -> Subject:
        """What was made, beside the original; the first one settles how that is read, and the study."""
        is_first = self._original is None
        if self._original is None:
            like, table = released_columns(made), self._spec.source.table
            self._original = read_original(self._source, self.study, like=like, table=table)
            if self._given is not None:
                self._control = read_like(
                    self._given, self._original, self.study, name="control", is_control=True
                )
        what = str(made) if isinstance(made, Path) else made
        subject = read_subject(what, self._original, self.study, name)
        if is_first and not self._is_declared:
            chosen = default_study(self._original, subject.tables, title=self.study.title).study
            # Bins are the default's, as are its sections; how the data is read is the spec's.
            read = {field: getattr(self.study, field) for field in READ}
            self.study = chosen.model_copy(update=read)
        return subject

    def _by_groups(self, subject: Subject, study: Study) -> dict[str, float]:
        """Figures of columns with breaks by the groups that these make."""
        if not self._breaks:
            return {}
        by_groups = Study(
            title=study.title,
            tables=study.tables,
            marginals=study.marginals,
            bins={c: b for c, b in study.bins.items() if c not in self._breaks},
        )
        tables = {c: replace(t, frame=self._in_groups(t.frame)) for c, t in subject.tables.items()}
        aligned = align(self._in_groups(self.original), tables, by_groups)
        scores = _scores(aligned, by_groups, CHOSEN_IN_GROUPS)
        return {f"{IN_GROUPS}{name}": value for name, value in scores.items()}

    def _in_groups(self, frame: pd.DataFrame) -> pd.DataFrame:
        """A frame with the groups of breaks, as texts, in the place of values."""
        return frame.assign(
            **{c: grouped(frame[c], at) for c, at in self._breaks.items() if c in frame}
        )


def _scores(aligned: Aligned, study: Study, names: Sequence[str]) -> dict[str, float]:
    figures = named(score_all(aligned, study, seed=SEED))
    return {name: figures[name] for name in names if name in figures}


def grouped(column: pd.Series, breaks: Sequence[Any]) -> pd.Series:
    is_time = pd.api.types.is_datetime64_any_dtype(column)
    kind = "datetime64[us]" if is_time else "float64"
    at = np.searchsorted(np.array(breaks, dtype=kind), column.to_numpy().astype(kind), "right")
    names = np.array([f"group {i:05d}" for i in range(len(breaks) + 1)], dtype=object)
    groups = pd.Series(names[at], index=column.index, dtype=object)
    return groups.mask(column.isna()).astype("category")


def risks_of(attacked: Held) -> dict[str, float]:
    found = attribute(attacked, ASSUMED, generator(SEED, "attribute"))
    out = {"attribute": _gain_of(found)}
    if len(found.breakdown):
        rare = found.breakdown["right_unusual"] - found.breakdown["control_unusual"]
        out["attribute_unusual"] = float(rare.mean())
        gains = found.breakdown["right"] - found.breakdown["control"]
        out |= {
            f"attribute/{column}": float(gain)
            for column, gain in zip(found.breakdown["column"], gains, strict=True)
        }
    out["reconstruction"] = _gain_of(
        reconstruction(attacked, ASSUMED, generator(SEED, "reconstruction"))
    )
    non_members = membership(attacked, ASSUMED, generator(SEED, "membership"))
    out["membership"] = non_members.values.get("auc_population", float("nan"))
    # Rates that are alike differ by nothing, not by the last bit of a float.
    return {name: round(value, 12) + 0.0 for name, value in out.items() if np.isfinite(value)}


def _gain_of(risk: Finding) -> float:
    """How much oftener an attack is right than its control, chance or not; NaN where there is none."""
    if risk.rate is None or risk.control is None:
        return float("nan")
    return risk.rate.value - risk.control.value


def misplaced(aligned: Aligned, columns: ColumnSet) -> float:
    """Share of rows that would have to move for a released table to be the true one.

    A table that is not released is put together from released ones of separate columns, the widest first, as if they
    were independent. Columns are counted in the study's groups, where it has any.
    """
    # Separate columns, and the smallest released table of each
    left, pieces = list(columns), list[tuple[ColumnSet, Coded]]()
    while True:
        shown = (tuple(c for c in left if c in own) for own in aligned.tables)
        if not (widest := max(shown, key=len, default=())):
            break
        if (table := covering(aligned, widest)) is not None:
            pieces.append((widest, table))
        left = [c for c in left if c not in widest]
    together = tuple(c for c in columns if any(c in piece for piece, _ in pieces))
    if not pieces:
        return float("nan")
    true_key = key_of(aligned, aligned.original, together, binned=together)
    kept = true_key >= 0
    _, first, count = np.unique(true_key[kept], return_index=True, return_counts=True)
    rows = np.flatnonzero(kept)[first]
    share = np.ones(len(rows))
    for piece, table in pieces:
        share *= _shares(aligned, table, piece, rows)
    truth = count / max(count.sum(), 1)
    # What is shown of combinations that nobody has is the rest of the whole.
    return float((np.abs(truth - share).sum() + max(1 - share.sum(), 0.0)) / 2)


def _shares(
    aligned: Aligned, table: Coded, columns: Collection[str], rows: Sequence[int] | Any
) -> Floats:
    """Share that a table shows of the combination that some rows of the original have."""
    shown = key_of(aligned, table, columns, binned=columns)
    wanted = key_of(aligned, aligned.original, columns, binned=columns)[rows]
    keys, place = np.unique(shown, return_inverse=True)
    counts = np.bincount(place, table.n.astype(np.float64), minlength=len(keys))
    found = np.append(counts, 0.0)[places(keys, wanted)]
    return np.asarray(found / max(float(counts[keys >= 0].sum()), 1.0), np.float64)


# What is compared, and how


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
Build = Callable[[ReleaseSpec, Path], object]
"""Builds a release of a spec at a path."""


class Candidate(NamedTuple):
    """Something that is compared."""

    generator: Generator
    # A release of a spec, whose key path is still that of the spec given; or a baseline, or file.
    made_by: ReleaseSpec | Baseline


# --- what is compared


def checked_epsilons(given: str | Sequence[float]) -> tuple[float, ...]:
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
        _ours(kind, name, replace(marked, mode="dp", dp=replace(params, epsilon=e)), e)
        for name, kind, e in budgets
    ]
    return (_ours("sticky", "sticky", replace(marked, mode="sticky", dp=None)), *dp)


def dp_name(epsilon: float) -> str:
    return f"dp, epsilon {epsilon:g}"


def _ours(kind: str, name: str, spec: ReleaseSpec, epsilon: float | None = None) -> Candidate:
    promise = TEXTS["promises"].get(kind, TEXTS["promises"]["sticky"])
    told = promise.format(epsilon=f"epsilon = {epsilon:g}" if epsilon else "")
    made = Generator(name=name, kind=kind, promise=told, origin=OURS, epsilon=epsilon)
    return Candidate(made, spec)


def _narrow(spec: ReleaseSpec) -> ReleaseSpec:
    """A spec of the tables that both modes build, marked as scratch."""
    tables = tuple(t for t in spec.tables if len(t) <= MAX_WIDTH)
    if not tables:
        raise SpecError(
            f"compare: compares tables of at most {MAX_WIDTH} columns, and the spec has none"
        )
    return marked_as_scratch(replace(spec, tables=tables))


def marked_as_scratch(spec: ReleaseSpec) -> ReleaseSpec:
    """Return a spec whose releases say that they must not be published, and are built whatever they reveal."""
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
    found = [_ours("spec", THE_SPEC, own)]

    def add(kind: str, name: str, **changed: Any) -> None:
        found.append(_ours(kind, name, replace(own, privacy=replace(privacy, **changed))))

    for mean in (privacy.threshold_mean + more for more in FURTHER_THRESHOLDS):
        add("threshold", f"threshold of mean {mean}", threshold_mean=mean)
    for sd in (privacy.layer_sd * times for times in NOISIER):
        add("noise", f"noise layers of sd {sd}", layer_sd=sd)
    for name, profile in PROFILES.items():
        if name != privacy.profile:
            other = replace(profile, max_rows=privacy.max_rows, swap=swap)
            found.append(_ours("profile", f"profile {name}", replace(own, privacy=other)))
    if swap is not None:
        add("swapping", "swapping off", swap=None)
        for rate in (min(swap.rate * times, MOST_SWAPPED) for times in SWAPPED):
            if rate != swap.rate:
                add("swapping", f"swapping at {rate:.2%}", swap=replace(swap, rate=rate))
    for width in sorted({len(t) for t in own.tables})[:-1]:
        name = f"tables of at most {width} column{'s' if width > 1 else ''}"
        tables = tuple(t for t in own.tables if len(t) <= width)
        found.append(_ours("tables", name, replace(own, tables=tables)))
    return tuple(found)


def beside_baselines(
    spec: ReleaseSpec, epsilons: Sequence[float], baselines: Sequence[Baseline]
) -> tuple[Candidate, ...]:
    """Return our modes (without parameters of dp mode the sticky one), and other generators."""
    if spec.dp is None:
        ours = [_ours("sticky", "sticky", replace(_narrow(spec), mode="sticky", dp=None))]
    else:
        ours = [c for c in variants(spec, epsilons) if c.generator.kind != "exact"]
    told = ("name", "kind", "promise", "origin")
    theirs = [
        Candidate(Generator(**{field: getattr(one, field) for field in told}), one)
        for one in baselines
    ]
    return (*ours, *theirs)


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
    progress: Progress | None = None,
) -> Comparison:
    """Make every candidate several times; score and attack each result against the original."""
    if not 1 <= repeats <= MOST_REPEATS:
        raise SpecError(f"seeds: wants 1 to {MOST_REPEATS}, not {repeats}")
    built = candidates[0].made_by
    if not isinstance(built, ReleaseSpec):
        raise SpecError("compare: wants a release first")
    tell, scorer = progress or silent, Scorer(built, frame, control, study)
    # Everything once before anything a second time: what cannot be made fails soon. A file is there once.
    todo = [
        (one, repeat)
        for repeat in range(1, repeats + 1)
        for one in candidates
        if repeat == 1 or one.generator.kind != "file"
    ]
    runs = []
    for done, (one, repeat) in enumerate(todo):
        name, way, is_release = (
            one.generator.name,
            one.made_by,
            isinstance(one.made_by, ReleaseSpec),
        )
        tell(
            f"{name}: {'release' if is_release else 'table'} {repeat} of {repeats}", done, len(todo)
        )
        with ExitStack() as stack:
            start_cpu = _cpu()
            if isinstance(way, ReleaseSpec):
                made: Any
                made, seconds = stack.enter_context(built_in_scratch(way, build))
            else:
                rows, risks = rows_of(spec, scorer.original), scorer.study.risks
                quasi = () if risks is None else risks.quasi_identifiers
                known = tuple(c for c in quasi if c in rows)
                schema = schema_of(rows, spec, known=known, areas=areas)
                start = time.perf_counter()
                made = way.synthesize(rows, schema, generator(SEED + repeat, name))
                seconds = time.perf_counter() - start
            taken = {"seconds": seconds, "cpu_seconds": _cpu() - start_cpu}
            if one.generator.kind == "file":  # it was there already
                taken = {}
            if isinstance(made, pd.DataFrame):
                taken["rows"] = len(made)
            figures = {**scorer.figures(made, name, view), **taken}
            runs.append(Run(generator=one.generator, repeat=repeat, figures=figures))
    tell("done", len(todo), len(todo))
    own = "sticky"  # Name of the generator that the spec itself is
    if view == "sweep":
        own = THE_SPEC
    elif spec.mode == "dp" and spec.dp is not None:
        own = "dp without noise" if spec.dp.epsilon is None else dp_name(spec.dp.epsilon)
    names = {run.generator.name for run in runs}
    left_out = len(spec.tables) - len(built.tables)
    said = {  # What a reader must know
        "whole": view == "generators",
        "samples": view == "generators" and any(name.startswith("sample") for name in names),
        "scored": view == "modes",
        "grouped": view == "modes" and any(c.breaks for c in spec.columns),
        "alike": view == "modes",
        "no_swap": view == "sweep" and spec.privacy.swap is None,
        "no_control": control is None,
        "wide": left_out,
        "not_own": view == "modes" and own not in names,
    }
    values = {"people": ASSUMED.people, "width": MAX_WIDTH, "n": left_out}
    return Comparison(
        view=view,
        title=spec.title,
        runs=tuple(runs),
        own=own if own in names else "",
        repeats=repeats,
        n_tables=len(built.tables),
        n_rows=len(scorer.original),
        has_control=control is not None,
        study=study.title if study is not None else "chosen by what the columns look like",
        notes=(*(NOTES[name].format(**values) for name, is_so in said.items() if is_so), *notes),
        version=ENGINE_VERSION,
    )


def rows_of(spec: ReleaseSpec, original: pd.DataFrame) -> pd.DataFrame:
    """Return the rows that a baseline is given: the columns that the spec's tables show."""
    shown = {c for table in spec.tables for c in table}
    return original[[c for c in original.columns if c in shown]].reset_index(drop=True)


def _cpu() -> float:
    """Seconds of processors so far, those of child processes that have ended too."""
    times = os.times()
    return times.user + times.system + times.children_user + times.children_system


@contextmanager
def built_in_scratch(spec: ReleaseSpec, build: Build) -> Iterator[tuple[Path, float]]:
    """Build a release in a scratch folder, with a key of its own, and let the folder go at the end."""
    with scratch_directory() as folder:
        key = folder / "scratch.key"
        new_key(key)
        begin_ledger(key)
        release = folder / "scratch.duckdb"
        start = time.perf_counter()
        build(replace(spec, key_path=key), release)
        yield release, time.perf_counter() - start


def refuse_scratch(release: Path) -> None:
    con, _ = open_release(release)
    with con:
        notes = con.execute("SELECT note FROM catalog.notes WHERE topic = 'release'").fetchall()
    if any(str(note) == SCRATCH for (note,) in notes):
        raise PrivacyError(
            f"{release}: was built for a comparison, outside the ledger; build the spec itself"
        )
