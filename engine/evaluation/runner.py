"""Evaluate and attack releases, and synthetic tables of any tool, against their original.

The path: read -> align -> score -> score a sample of the original, as the scale -> attack: an `Evaluation`.
CONFIDENTIAL: everything here sees both sides; a worker holds what the evaluation holds, in memory alone, and ends when
its parent does, however that ends. Invariants: the order of subjects, and which others there are, changes no figure of
one; what a job draws is fixed by the seed and its own name, and arithmetic takes one thread everywhere, so that figures
are the same wherever they are made, to the last bit.
"""

from __future__ import annotations

import contextlib
import os
import pickle
import signal
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import BrokenExecutor
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Literal, NamedTuple

import pandas as pd

from engine.errors import InternalError, SpecError, StoreError, TablepackError, place_of
from engine.evaluation.attacks.protocol import (
    ATTACKS,
    STRONG_ATTACKS,
    Held,
    attack_one,
    held,
)
from engine.evaluation.data.aligned import Aligned, align, generator, sampled
from engine.evaluation.data.reading import Subject
from engine.evaluation.findings import ENTRIES, STRONG, Finding, frame, named, notes_frame, optional
from engine.evaluation.measures.analyses import Rule, combined_estimates
from engine.evaluation.measures.suite import MEASURES, score_one
from engine.evaluation.study import Study
from engine.progress import Progress, silent
from engine.texts import html_table, text_table
from engine.version import ENGINE_VERSION

N_SHOWN = 20
"""Figures that a notebook shows."""


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class Result:
    subject: Subject
    aligned: Aligned
    scores: Mapping[str, Finding]  # By measure
    # The same measures of a sample of the original in the place of the subject.
    scale: Mapping[str, Finding]
    risks: Mapping[str, Finding]  # By attack
    seconds: float

    @property
    def findings(self) -> dict[str, Finding]:
        return {**self.scores, **self.risks}

    def figures(self) -> dict[str, float]:
        return named(self.findings)

    def why_not(self) -> dict[str, str]:
        return {
            f"{name}.{figure}".rstrip("."): why
            for name, one in self.findings.items()
            for figure, why in one.why_not.items()
        }


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class Evaluation:
    title: str
    study: Study
    # In the order given; the first is the one that the others are compared with.
    results: tuple[Result, ...]
    share: float  # Share of the original that the scale samples, 0 to 1
    data: str  # Name of the file of the original; no path
    n_rows: int  # Rows of the original
    labels: Mapping[str, str] = field(default_factory=dict)  # What columns are called
    # Column -> value as text -> what it is called.
    value_labels: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    # What a reader must know: how the study was chosen, what of the original was left out.
    notes: tuple[str, ...] = ()
    seed: int = 0
    version: str = ""  # Of tablepack

    def frame(self, *, breakdowns: bool = True) -> pd.DataFrame:
        """All results as a tidy frame: subject, measure, columns, by, value, low, high, better, note.

        The sample that is the scale is a subject of its own, "40 % sample"; what is said of breakdowns stands under
        `measure/column`. Notes about a subject have no measure, those about the evaluation no subject.
        """
        parts = [
            frame(one.findings, one.subject.name, breakdowns=breakdowns) for one in self.results
        ]
        parts.append(notes_frame("", self.notes))
        parts += [notes_frame(one.subject.name, one.subject.notes) for one in self.results]
        if self.results and self.results[0].scale:
            scale = {n: f for n, f in self.results[0].scale.items() if f.values}
            parts.append(frame(scale, f"{self.share:.0%} sample", breakdowns=False))
        return pd.concat([p for p in parts if len(p)], ignore_index=True)

    def __repr__(self) -> str:
        return text_table(*self._first())

    def _repr_html_(self) -> str:
        heads, rows, below = self._first()
        return html_table(heads, rows, below=below)

    def _first(self) -> tuple[list[str], list[list[object]], list[str]]:
        """The heads, the first figures of all subjects, and what is said below: never anything of the original."""
        figures = [result.figures() for result in self.results]
        names = list(dict.fromkeys(name for one in figures for name in one))
        rows: list[list[object]] = [
            [name, *(one.get(name) for one in figures)] for name in names[:N_SHOWN]
        ]
        more = len(names) - N_SHOWN
        below = [f"... and {more:,} more: .results[0].figures()"] if more > 0 else []
        below.append("CONFIDENTIAL: these figures are about the data.")
        return ["figure", *(result.subject.name for result in self.results)], rows, below


# Jobs, and processes that do them


OUT_OF_MEMORY = "a worker of the evaluation ran out of memory; try fewer jobs"
MOST = 4
"""Processes, where nobody says how many: no evaluation has more than a few jobs that take long."""
_ALONE, _TIMES = 300_000_000, 10
"""Bytes of a process that compares nothing, and times the size of the files that it takes to compare them."""
LONG = ("learning", "inference", "propensity", "attribution", "linkage")
"""Jobs that are begun first, as they take longest."""


class Job(NamedTuple):
    """One measure, the same of a sample of the original, or one attack."""

    stage: Literal["measuring", "sampling", "attacking"]
    name: str


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class Task:
    """What jobs need. The sample that is the scale is drawn where it is first asked for."""

    held: Held
    study: Study
    share: float = 0.0  # Of the original, that the scale samples
    seed: int
    _drawn: list[Aligned] = field(default_factory=list)

    def do(self, job: Job) -> Finding | None:
        if job.stage == "attacking":
            options = self.study.attacks if job.name in STRONG else self.study.risks
            return attack_one(job.name, self.held, options, seed=self.seed)
        aligned = self.held.aligned
        if job.stage == "sampling":
            if not self._drawn:
                self._drawn.append(sampled(aligned, self.share, generator(self.seed, "scale")))
            aligned = self._drawn[0]
        return score_one(job.name, aligned, self.study, self.seed)


def default_jobs(size: int) -> int:
    """Processes where nobody says how many: one a processor that we may use, as memory allows, not too many."""
    processors = os.cpu_count() or 1
    with contextlib.suppress(AttributeError):  # not everywhere
        processors = len(os.sched_getaffinity(0))
    free = free_memory()
    most = MOST if free is None else free // (_ALONE + _TIMES * size) - 1  # beside this one
    return max(min(processors, MOST, most), 1)


def free_memory() -> int | None:
    """Bytes that this process could have, of the system and of its control group; None where Linux does not say."""
    limits = []
    with contextlib.suppress(OSError, ValueError, IndexError):
        text = Path("/proc/meminfo").read_text("utf-8")
        limits.append(int(text.partition("MemAvailable:")[2].split()[0]) << 10)
    groups = Path("/sys/fs/cgroup")
    names = ("memory.max", "memory.current"), ("memory.limit_in_bytes", "memory.usage_in_bytes")
    for folder, (limit, used) in zip((groups, groups / "memory"), names, strict=True):
        with contextlib.suppress(OSError, ValueError):  # "max": no limit
            most, has = (int((folder / name).read_text("utf-8")) for name in (limit, used))
            limits.append(max(most - has, 0))
    return min(limits, default=None)


@contextlib.contextmanager
def one_thread() -> Iterator[None]:
    """Arithmetic in one thread, and scikit-learn without checks of what we pass it: small models cost less to fit."""
    try:
        from sklearn import config_context
        from threadpoolctl import threadpool_limits
    except ImportError:  # who needs them says so
        yield
        return
    with threadpool_limits(1), config_context(skip_parameter_validation=True, assume_finite=True):
        yield


def do_jobs(
    task: Task, jobs: Sequence[Job], processes: int, tell: Callable[[Job, int, int], None]
) -> dict[Job, Finding]:
    """Do all jobs, here or in worker processes, of which none is left at the end; the first error is raised."""
    found: dict[Job, Finding | None] = {}
    if processes == 1:
        with one_thread():
            for job in jobs:
                tell(job, len(found), len(jobs))
                found[job] = task.do(job)
        return {job: one for job, one in found.items() if one is not None}
    loky = optional("joblib.externals.loky", "several processes")
    given = (_packed(task), os.getpid())
    executor = loky.ProcessPoolExecutor(processes, initializer=_prepare, initargs=given)
    try:
        order = sorted(jobs, key=lambda job: job.name not in LONG)
        doing = {executor.submit(_do, job): job for job in order}
        for done in loky.as_completed(doing):
            found[doing[done]] = done.result()
            tell(doing[done], len(found), len(jobs))
    except (BrokenExecutor, MemoryError):  # the system ended one, or there was no room to answer
        raise StoreError(OUT_OF_MEMORY) from None
    finally:
        executor.shutdown(wait=True, kill_workers=True)
    return {job: one for job in jobs if (one := found[job]) is not None}


def _packed(task: Task) -> bytes:
    try:
        return pickle.dumps(task, protocol=5)
    except MemoryError:
        raise StoreError(OUT_OF_MEMORY) from None


# In a worker


_task: Task | None = None


def _prepare(packed: bytes, parent: int) -> None:
    """Receive the task; end with the parent."""
    global _task  # a worker's own
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the parent, who ends us

    def watch() -> None:
        while os.getppid() == parent:
            time.sleep(0.2)
        os._exit(1)

    threading.Thread(target=watch, daemon=True).start()
    _task = pickle.loads(packed)  # noqa: S301  # from our own parent, over our own pipe


def _do(job: Job) -> Finding | None:
    if _task is None:
        raise InternalError("a worker was given no task")
    with one_thread():
        return done_safely(_task, job)


def done_safely(task: Task, job: Job) -> Finding | None:
    """What a job finds; an error that is not ours goes on by its kind and place alone: its words may hold a value."""
    try:
        return task.do(job)
    except TablepackError as error:
        raise type(error)(str(error)) from None
    except MemoryError:
        raise StoreError(OUT_OF_MEMORY) from None
    except Exception as error:  # noqa: BLE001  # as the command line does
        raise InternalError(f"{type(error).__name__} in {place_of(error)}") from None


# Evaluate, attack


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class Given:
    """What is evaluated."""

    subjects: Sequence[Subject]
    original: pd.DataFrame
    study: Study
    data: str  # Name of the original
    control: pd.DataFrame | None = None  # Non-members: people of the same population
    labels: Mapping[str, str] = field(default_factory=dict)
    value_labels: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    # What a reader must know: how the study was chosen, what was left out
    notes: tuple[str, ...] = ()
    # Column -> precision of a model on people outside the data
    baselines: Mapping[str, float] = field(default_factory=dict)


def evaluate_all(
    given: Given,
    *,
    share: float = 0.4,
    seed: int = 2021,
    attacks: bool = False,
    combining: Rule | None = None,
    processes: int = 1,
    progress: Progress | None = None,
) -> Evaluation:
    """Evaluate subjects against one original.

    share: Of the original, that the scale samples, 0 to 1. attacks: Strong attackers attack, too. combining: The
    subjects are sets of one synthesis: scores are averaged, estimates combined.
    """
    names = [subject.name for subject in given.subjects]
    if not names or len(set(names)) < len(names):
        raise SpecError("evaluate needs synthetic tables, each with a name of its own")
    if not 0 < share < 1:
        raise SpecError("the sampled share lies between 0 and 100 percent, both excluded")
    jobs = [
        *(Job("measuring", name) for name in MEASURES),
        *(Job("sampling", name) for name in MEASURES if ENTRIES[name].on_sample),
        *(Job("attacking", name) for name in (ATTACKS if given.study.risks is not None else ())),
        *(Job("attacking", name) for name in (STRONG_ATTACKS if attacks else ())),
    ]
    results = [
        _result(given, [subject], jobs, share, seed, processes, progress or silent)
        for subject in given.subjects
    ]
    if combining is not None:
        results = [as_one(results, given.study, combining)]
    return _evaluation(given, results, share, seed)


def attack_subjects(
    given: Given, *, seed: int, together: bool = False, progress: Progress | None = None
) -> Evaluation:
    """Attack finished releases, or tables of any tool, one by one or, together, as one attacker holds them.

    Then only strong attacks run.
    """
    if not given.subjects:
        raise SpecError("attack needs at least one release or synthetic table")
    groups = [list(given.subjects)] if together else [[one] for one in given.subjects]
    quick = ATTACKS if given.study.risks is not None and max(map(len, groups)) == 1 else ()
    jobs = [Job("attacking", name) for name in (*quick, *STRONG_ATTACKS)]
    results = [_result(given, group, jobs, 0.0, seed, 1, progress or silent) for group in groups]
    return _evaluation(given, results, 0.0, seed)


def _result(
    given: Given,
    group: Sequence[Subject],
    jobs: Sequence[Job],
    share: float,
    seed: int,
    processes: int,
    tell: Progress,
) -> Result:
    """What jobs find about one subject, or about several that are one attacker's."""
    start, subject = time.perf_counter(), group[0]
    if len(group) > 1:
        together = f"one attacker holds {', '.join(one.name for one in group)}"
        notes = (together, *(note for one in group for note in one.notes))
        subject = replace(subject, name=f"{len(group)} together", notes=notes)
    holds = held(group, given.original, given.study, control=given.control)
    holds = replace(holds, baselines=given.baselines)
    task = Task(held=holds, study=given.study, share=share, seed=seed)

    def report(job: Job, done: int, n: int) -> None:
        tell(f"{subject.name}: {job.stage} {job.name}", done, n)

    found = do_jobs(task, jobs, processes, report)
    return Result(
        subject=subject,
        aligned=align(given.original, subject.tables, given.study, control=given.control)
        if len(group) > 1
        else holds.aligned,
        scores={job.name: one for job, one in found.items() if job.stage == "measuring"},
        scale={j.name: at_full_size(one) for j, one in found.items() if j.stage == "sampling"},
        risks={job.name: one for job, one in found.items() if job.stage == "attacking"},
        seconds=time.perf_counter() - start,
    )


def _evaluation(given: Given, results: Sequence[Result], share: float, seed: int) -> Evaluation:
    return Evaluation(
        title=given.study.title,
        study=given.study,
        results=tuple(results),
        share=share,
        data=given.data,
        n_rows=len(given.original),
        labels={**given.study.labels, **given.labels},
        value_labels=given.value_labels,
        notes=given.notes,
        seed=seed,
        version=ENGINE_VERSION,
    )


def at_full_size(score: Finding) -> Finding:
    """The score of a sample with counts as of the original's size, where the measure has them, for its own."""
    figures = {n: score.figures.get(f"scaled_{n}", v) for n, v in score.figures.items()}
    return replace(score, figures=figures)


def as_one(results: Sequence[Result], study: Study, combining: Rule) -> Result:
    """Put m synthetic sets of one synthesis together: figures are means over the sets, estimates are combined.

    Breakdowns are those of the first set. Snoke et al. 2018 average the pMSE over sets; Reiter 2003 combines estimates.
    """
    first = results[0]
    note = f"means over {len(results)} sets of one synthesis; the breakdown is the first set's"

    def mean(several: Sequence[Finding]) -> Finding:
        """Mean of the figures that every set has; those that one lacks are not computed."""
        figures: dict[str, Any] = {
            name: sum(one.values[name] for one in several) / len(several)
            for name in several[0].values
            if all(name in one.values for one in several)
        }
        figures |= {k: why for one in several for k, why in one.why_not.items()}
        return replace(several[0], figures=figures, notes=(*several[0].notes, note))

    scores = {name: mean([r.scores[name] for r in results]) for name in first.scores}
    if study.estimates:
        every = [r.aligned for r in results]
        scores["estimates"] = combined_estimates(every, study.estimates, rule=combining)
    names = ", ".join(r.subject.name for r in results)
    return replace(
        first,
        subject=replace(first.subject, name=f"{len(results)} sets: {names}"),
        scores=scores,
        risks={name: mean([r.risks[name] for r in results]) for name in first.risks},
        seconds=sum(r.seconds for r in results),
    )


def names_of(subjects: Sequence[object]) -> list[str]:
    """Names for subjects, each of its own: two files of one name are distinguished by their folders."""

    def name_of(what: object, number: int) -> str:
        if not isinstance(what, str | Path):
            return f"table {number}"
        name = Path(what).name
        for ending in (".gz", ".csv", ".parquet", ".duckdb"):
            name = name.removesuffix(ending)
        return name

    plain = [name_of(what, i + 1) for i, what in enumerate(subjects)]
    names = [
        f"{Path(what).resolve().parent.name}/{name}"
        if plain.count(name) > 1 and isinstance(what, str | Path)
        else name
        for what, name in zip(subjects, plain, strict=True)
    ]
    return [name if names.count(name) == 1 else f"{name} ({i + 1})" for i, name in enumerate(names)]
