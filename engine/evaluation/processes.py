"""More processes for an evaluation, joblib's: each does one measure or attack at a time, and so does this one.

What a job draws is fixed by the seed and its own name, and arithmetic takes one thread everywhere, so that figures are
the same wherever they are made, to the last bit. CONFIDENTIAL: a worker holds what the evaluation holds, in memory
alone. It ends when its parent does, however that ends.
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
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from engine.errors import InternalError, StoreError, TablepackError, place_of
from engine.evaluation.attacks import ATTACKS, Held, attack_one
from engine.evaluation.data.aligned import Aligned, generator, sampled
from engine.evaluation.findings import ENTRIES, Finding, optional
from engine.evaluation.measures import MEASURES, score_one
from engine.evaluation.study.model import Study

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
        """All that is to be done, in the order of the report."""
        attacks = ATTACKS if self.study.risks is not None else ()
        return [
            *(Job(stage="measuring", name=name) for name in MEASURES),
            *(Job(stage="sampling", name=n) for n in MEASURES if ENTRIES[n].on_sample),
            *(Job(stage="attacking", name=name) for name in attacks),
        ]

    def do(self, job: Job) -> Finding | None:
        """What a job finds; None where the study does not declare it."""
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
    """Processes where nobody says how many: one a processor that we may use, as memory allows, not too many.

    size: Bytes of the files that are compared, of which each process has a copy.
    """
    processors = os.cpu_count() or 1
    with contextlib.suppress(AttributeError):  # not everywhere
        processors = len(os.sched_getaffinity(0))
    free = free_memory()
    most = MOST if free is None else free // (_ALONE + _TIMES * size)
    return max(min(processors, MOST, most), 1)


def free_memory() -> int | None:
    """Bytes that this process could have, of the system and of its control group; None where Linux does not tell."""
    told = []
    with contextlib.suppress(OSError, ValueError, IndexError):
        text = Path("/proc/meminfo").read_text("utf-8")
        told.append(int(text.partition("MemAvailable:")[2].split()[0]) << 10)
    groups = Path("/sys/fs/cgroup")
    names = ("memory.max", "memory.current"), ("memory.limit_in_bytes", "memory.usage_in_bytes")
    for folder, (limit, used) in zip((groups, groups / "memory"), names, strict=True):
        with contextlib.suppress(OSError, ValueError):  # "max": no limit
            most, has = (int((folder / name).read_text("utf-8")) for name in (limit, used))
            told.append(max(most - has, 0))
    return min(told, default=None)


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
    """Processes beside this one, which works, too. Use as a context manager: none is left when it is over.

    jobs: Processes, this one with them.
    """

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
        """Do all jobs, here and in the workers; after an error none is begun, and it is raised.

        tell: Called from here with a job that begins here, how many are done, and how many there are.
        """
        order = {name: i for i, name in enumerate(reversed(LONG), 1)}
        todo = deque(sorted(range(len(jobs)), key=lambda i: -order.get(jobs[i].name, 0)))
        found: dict[int, Finding | None] = {}
        failed: list[BaseException] = []

        def begun() -> Iterator[int]:
            """The next jobs, taken by whoever is free."""
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
        told, packed = _given.get()
        _task = told, pickle.loads(packed)  # noqa: S301  # from our own parent, over our own pipe
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
