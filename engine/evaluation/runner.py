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
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Literal

import pandas as pd

from engine.errors import InternalError, SpecError, StoreError, TablepackError, place_of
from engine.evaluation.attacks.protocol import (
    ATTACKS,
    STRONG_ATTACKS,
    Held,
    attack_all,
    attack_one,
    held,
)
from engine.evaluation.data.aligned import Aligned, align, generator, sampled
from engine.evaluation.data.reading import Subject
from engine.evaluation.findings import ENTRIES, Finding, frame, named, notes_frame, optional
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


# Processes


OUT_OF_MEMORY = "a worker of the evaluation ran out of memory; try fewer jobs"
MOST = 4
"""Processes, where nobody says how many: no evaluation has more than a few jobs that take long."""
_ALONE, _TIMES = 300_000_000, 10
"""Bytes of a process that compares nothing, and times the size of the files that it takes to compare them."""
LONG = ("learning", "inference", "propensity", "attribution", "linkage")
"""Jobs that are begun first, as they take longest."""
Stage = Literal["measuring", "sampling", "attacking"]


@dataclass(frozen=True, kw_only=True, slots=True)
class Job:
    """One measure, the same of a sample of the original, or one attack."""

    stage: Stage
    name: str


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class Task:
    """What jobs need. The sample that is the scale is drawn where it is first asked for."""

    aligned: Aligned
    study: Study
    share: float  # Of the original, that the scale samples
    seed: int
    baselines: Mapping[str, float] = field(default_factory=dict)
    _drawn: list[Aligned] = field(default_factory=list)

    def jobs(self) -> list[Job]:
        attacks = ATTACKS if self.study.risks is not None else ()
        return [
            *(Job(stage="measuring", name=name) for name in MEASURES),
            *(Job(stage="sampling", name=n) for n in MEASURES if ENTRIES[n].on_sample),
            *(Job(stage="attacking", name=name) for name in attacks),
        ]

    def do(self, job: Job) -> Finding | None:
        if job.stage == "attacking":
            held = Held(aligned=self.aligned, baselines=self.baselines)
            return attack_one(job.name, held, self.study.risks, seed=self.seed)
        aligned = self.aligned
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
    most = MOST if free is None else free // (_ALONE + _TIMES * size)
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


class Processes:
    """Processes beside this one, which works, too. Use as a context manager: none is left when it is over."""

    def __init__(self, jobs: int) -> None:
        self._count = jobs - 1
        self._number = 0  # Of the task that is done
        self._executor: Any = None

    def __enter__(self) -> Processes:
        if self._count > 0:
            loky = optional("joblib.externals.loky", "several processes")
            self._given = loky.backend.context.get_context("loky").SimpleQueue()
            self._executor = loky.ProcessPoolExecutor(
                max_workers=self._count, initializer=_prepare, initargs=(self._given, os.getpid())
            )
            self._executor.submit(int)  # they are started, and load what they need, while we read
        return self

    def __exit__(self, *_: object) -> None:
        if self._executor is not None:
            self._executor.shutdown(wait=True, kill_workers=True)

    @property
    def pids(self) -> list[int]:
        return [] if self._executor is None else list(self._executor._processes)

    def run(
        self, task: Task, jobs: Sequence[Job], tell: Callable[[Job, int, int], None]
    ) -> list[Finding | None]:
        """Do all jobs, here and in the workers; after an error none is begun, and it is raised."""
        order = {name: i for i, name in enumerate(reversed(LONG), 1)}
        todo = deque(sorted(range(len(jobs)), key=lambda i: -order.get(jobs[i].name, 0)))
        found: dict[int, Finding | None] = {}
        failed: list[BaseException] = []

        def begun() -> Iterator[int]:
            """The next jobs, taken by the next free worker."""
            while todo and not failed:
                with contextlib.suppress(IndexError):
                    yield todo.popleft()

        def served() -> None:
            """Hand a worker one job after the other."""
            try:
                for at in begun():
                    found[at] = self._executor.submit(_do, self._number, jobs[at]).result()
            except BaseException as error:  # noqa: BLE001  # raised below
                failed.append(error)

        servers = [threading.Thread(target=served, daemon=True) for _ in range(self._count)]
        if self._executor is not None:
            self._number += 1
            threading.Thread(target=self._give, args=(_packed(task),), daemon=True).start()
            for server in servers:
                server.start()
        with one_thread():
            for at in begun():
                tell(jobs[at], len(found), len(jobs))
                found[at] = task.do(jobs[at])
        while not failed and any(server.is_alive() for server in servers):
            time.sleep(0.005)
        if failed:
            self._executor.shutdown(wait=True, kill_workers=True)
            if isinstance(failed[0], TablepackError):
                raise failed[0]
            raise StoreError(
                OUT_OF_MEMORY
            ) from None  # the system ended it, or there was no room to answer
        return [found[i] for i in range(len(jobs))]

    def _give(self, packed: bytes) -> None:
        for _ in range(self._count):
            self._given.put((self._number, packed))


def _packed(task: Task) -> bytes:
    try:
        return pickle.dumps(task, protocol=5)
    except MemoryError:
        raise StoreError(OUT_OF_MEMORY) from None


# In a worker


_given: Any = None
_task: tuple[int, Task] | None = None


def _prepare(given: Any, parent: int) -> None:
    """Load what jobs need; end with the parent."""
    global _given  # a worker's own
    _given = given
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the parent, who ends us

    def watch() -> None:
        while os.getppid() == parent:
            time.sleep(0.2)
        os._exit(1)

    threading.Thread(target=watch, daemon=True).start()
    with contextlib.suppress(StoreError):
        optional("sklearn.ensemble", "learners")
        optional("sklearn.linear_model", "learners")


def _do(number: int, job: Job) -> Finding | None:
    """Do a job of a task, which is received where it is new; each worker takes one copy."""
    global _task  # a worker's own
    while _task is None or _task[0] != number:
        number_given, packed = _given.get()
        _task = number_given, pickle.loads(packed)  # noqa: S301  # from our own parent, over our own pipe
    with one_thread():
        return done_safely(_task[1], job)


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
    subjects: Sequence[Subject]
    original: pd.DataFrame
    study: Study
    data: str  # Name of the original
    control: pd.DataFrame | None = None  # Non-members: people of the same population
    labels: Mapping[str, str] = field(default_factory=dict)
    value_labels: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    notes: tuple[
        str, ...
    ] = ()  # What a reader must know: how the study was chosen, what was left out

    def evaluation(self, results: Sequence[Result], share: float, seed: int) -> Evaluation:
        return Evaluation(
            title=self.study.title,
            study=self.study,
            results=tuple(results),
            share=share,
            data=self.data,
            n_rows=len(self.original),
            labels={**self.study.labels, **self.labels},
            value_labels=self.value_labels,
            notes=self.notes,
            seed=seed,
            version=ENGINE_VERSION,
        )


def evaluate_all(
    given: Given,
    *,
    share: float = 0.4,
    seed: int = 2021,
    baselines: Mapping[str, float] | None = None,
    attacks: bool = False,
    together: bool = False,
    combining: Rule = "partial",
    processes: Processes | None = None,
    progress: Progress | None = None,
) -> Evaluation:
    """Evaluate subjects against one original.

    share: Of the original, that the scale samples, 0 to 1. baselines: Column -> precision of a model on people outside
    the data. attacks: Strong attackers attack, too. together: The subjects are sets of one synthesis: scores are
    averaged, estimates combined.
    """
    names = [subject.name for subject in given.subjects]
    if not names or len(set(names)) < len(names):
        raise SpecError("evaluate needs synthetic tables, each with a name of its own")
    if not 0 < share < 1:
        raise SpecError("the sampled share lies between 0 and 100 percent, both excluded")
    tell, study, results = progress or silent, given.study, []
    for subject in given.subjects:
        start = time.perf_counter()
        task = Task(
            aligned=align(given.original, subject.tables, study, control=given.control),
            study=study,
            share=share,
            seed=seed,
            baselines=baselines or {},
        )

        def report(job: Job, done: int, n: int, name: str = subject.name) -> None:
            tell(f"{name}: {job.stage} {job.name}", done, n)

        jobs = task.jobs()
        found: dict[str, dict[str, Finding]] = {"measuring": {}, "sampling": {}, "attacking": {}}
        every = (processes or Processes(1)).run(task, jobs, report)
        for job, one in zip(jobs, every, strict=True):
            if one is not None:
                found[job.stage][job.name] = one
        risks = found["attacking"]
        if attacks:
            risks |= _attacks([subject], given, study, STRONG_ATTACKS, seed, tell)
        results.append(
            Result(
                subject=subject,
                aligned=task.aligned,
                scores=found["measuring"],
                scale={name: at_full_size(score) for name, score in found["sampling"].items()},
                risks=risks,
                seconds=time.perf_counter() - start,
            )
        )
    if together:
        results = [as_one(results, study, combining)]
    return given.evaluation(results, share, seed)


def _attacks(
    group: Sequence[Subject],
    given: Given,
    study: Study,
    names: tuple[str, ...],
    seed: int,
    progress: Progress,
) -> dict[str, Finding]:
    """Attacks on what one attacker holds; strong ones need no groups of values."""
    return attack_all(
        held(group, given.original, study, control=given.control),
        study.attacks if names == STRONG_ATTACKS else study.risks,
        seed=seed,
        names=names,
        progress=lambda what, done, n: progress(f"{group[0].name}: attacking {what}", done, n),
    )


def at_full_size(score: Finding) -> Finding:
    """The score of a sample with counts as of the original's size, where the measure has them, for its own."""
    values = {name: score.values.get(f"scaled_{name}", v) for name, v in score.values.items()}
    return replace(score, values=values)


def attack_subjects(
    given: Given,
    *,
    seed: int,
    study: Study | None = None,
    together: bool = False,
    progress: Progress | None = None,
) -> Evaluation:
    """Attack finished releases, or tables of any tool, one by one or, together, as one attacker holds them."""
    if not given.subjects:
        raise SpecError("attack needs at least one release or synthetic table")
    results, tell = [], progress or silent
    for group in [list(given.subjects)] if together else [[one] for one in given.subjects]:
        start, risks = time.perf_counter(), {}
        name = group[0].name if len(group) == 1 else f"{len(group)} together"
        notes = tuple(note for one in group for note in one.notes)
        if len(group) > 1:
            notes = (f"one attacker holds {', '.join(one.name for one in group)}", *notes)
        elif study is not None and study.risks is not None:
            risks = _attacks(group, given, study, ATTACKS, seed, tell)
        results.append(
            Result(
                subject=replace(group[0], name=name, notes=notes),
                aligned=align(given.original, group[0].tables, given.study, control=given.control),
                scores={},
                scale={},
                risks=risks | _attacks(group, given, given.study, STRONG_ATTACKS, seed, tell),
                seconds=time.perf_counter() - start,
            )
        )
    return given.evaluation(results, 0.0, seed)


def as_one(results: Sequence[Result], study: Study, combining: Rule = "partial") -> Result:
    """Put m synthetic sets of one synthesis together: figures are means over the sets, estimates are combined.

    Breakdowns are those of the first set. Snoke et al. 2018 average the pMSE over sets; Reiter 2003 combines estimates.
    """
    first = results[0]
    note = f"means over {len(results)} sets of one synthesis; the breakdown is the first set's"

    def mean(several: Sequence[Finding]) -> Finding:
        """Mean of the figures that every set has; those that one lacks are not computed."""
        values = {
            name: sum(one.values[name] for one in several) / len(several)
            for name in several[0].values
            if all(name in one.values for one in several)
        }
        lacking = {k: why for one in several for k, why in one.why_not.items()}
        notes = (*several[0].notes, note)
        return replace(several[0], values=values, why_not=lacking, notes=notes)

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
