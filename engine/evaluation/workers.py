"""More processes for an evaluation: each measures, or attacks, one thing at a time, given all that it needs.

Takes what is compared and a list of jobs; gives their findings, in the order of the list. What a job draws is fixed by
the seed and its own name, and workers add up with as many threads as we do, so that figures are the same wherever they
are made, to the last bit. CONFIDENTIAL: a worker holds what the evaluation holds. It ends at once when its pipe closes,
which happens however its parent ends.
"""

from __future__ import annotations

import contextlib
import os
import pickle
import queue
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import FIRST_EXCEPTION, Future, ThreadPoolExecutor, wait
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, BinaryIO, Literal

from engine import errors
from engine.errors import InternalError, StoreError, TablepackError, place_of
from engine.evaluation.collector import uncollected
from engine.evaluation.data.paired import Paired
from engine.evaluation.data.sampling import generator, sampled
from engine.evaluation.memory import free_memory
from engine.evaluation.risk.suite import ATTACKS, attack_one
from engine.evaluation.score import Risk, Score, optional
from engine.evaluation.study.model import Study
from engine.evaluation.threads import one_thread, unchecked
from engine.evaluation.utility.suite import MEASURES
from engine.processes import end_interpreter, leave_quietly, start_interpreter

OUT_OF_MEMORY = "a worker of the evaluation ran out of memory; try fewer jobs"
MOST = 4
"""Processes, where nobody says how many: no evaluation has more than a few jobs that take long."""
_ALONE, _TIMES = 300_000_000, 10
"""Bytes of a process that compares nothing, and times the size of the files that it takes to compare them."""
IDLE = {"OPENBLAS_THREAD_TIMEOUT": "4"}
"""Threads of OpenBLAS that have nothing to add up sleep at once: they would take processors from other workers."""
WEIGHTS = {
    "univariate": 5,
    "learning": 4,
    "inference": 3,
    "propensity": 2,
    "attribution": 1,
    "linkage": 1,
}
"""Jobs that are begun first: one that pictures wait for, then those that take long."""
Stage = Literal["measuring", "sampling", "attacking"]
Found = Score | Risk | None


@dataclass(frozen=True, kw_only=True, slots=True)
class Job:
    """One measure, the same of a sample of the original, or one attack."""

    stage: Stage
    name: str


EVERY = (
    *(Job(stage="measuring", name=name) for name in MEASURES),
    *(Job(stage="sampling", name=name) for name, measure in MEASURES.items() if measure.on_sample),
    *(Job(stage="attacking", name=name) for name in ATTACKS),
)
"""All jobs that there are: more processes find nothing to do."""


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class Compared:
    """What jobs need. The sample that is the scale is drawn where it is first asked for."""

    paired: Paired
    study: Study
    share: float  # Of the original, that the scale samples
    seed: int
    baselines: Mapping[str, float] | None = None
    _drawn: list[Paired] = field(default_factory=list)

    def jobs(self) -> list[Job]:
        """All that is to be done, in the order of the report."""
        has_attacks = self.study.risks is not None
        return [job for job in EVERY if has_attacks or job.stage != "attacking"]

    def do(self, job: Job) -> Found:
        """What a job finds; None where the study does not declare it."""
        if job.stage == "attacking" and (attacker := self.study.risks) is not None:
            return attack_one(
                job.name, self.paired, attacker, seed=self.seed, baselines=self.baselines
            )
        paired = self._sample() if job.stage == "sampling" else self.paired
        return MEASURES[job.name].score(paired, self.study, generator(self.seed, job.name))

    def _sample(self) -> Paired:
        """A sample of the original in the place of the tables."""
        if not self._drawn:
            self._drawn.append(sampled(self.paired, self.share, generator(self.seed, "scale")))
        return self._drawn[0]

    def packed(self) -> Compared:
        """The same, without what is drawn again as quickly."""
        return Compared(
            paired=self.paired,
            study=self.study,
            share=self.share,
            seed=self.seed,
            baselines=None if self.baselines is None else dict(self.baselines),
        )


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


class Workers:
    """Processes beside this one, which works, too. Use as a context manager: none is left when it is over.

    jobs: Processes, this one with them; no more are started than there are jobs to do.
    meanwhile: Called once from here when the others have got to work, so that what comes later finds it done.
    """

    def __init__(self, jobs: int, meanwhile: Callable[[], None] | None = None) -> None:
        self._children: list[subprocess.Popen[bytes]] = []
        self._meanwhile = meanwhile
        self._count = min(jobs, len(EVERY)) - 1

    def __enter__(self) -> Workers:
        try:
            for _ in range(self._count):
                child = start_interpreter(
                    "engine.evaluation.workers", Path.cwd(), environment={**IDLE, **os.environ}
                )
                self._children.append(child)
        except BaseException:
            self._end()  # nobody else would
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self._end()

    @property
    def pids(self) -> list[int]:
        """Process ids of the workers."""
        return [child.pid for child in self._children]

    def run(
        self,
        compared: Compared,
        jobs: Sequence[Job],
        tell: Callable[[Job, int, int], None],
        aside: Callable[[Mapping[Job, Found]], bool] | None = None,
    ) -> list[Found]:
        """Do all jobs, here and in the workers; after an error none is begun, and it is raised.

        tell: Called from here with a job that begins here, how many are done, and how many there are.
        aside: Called from here between jobs with what is found, until it says that it has done its own; not
            where there is no other worker.
        """
        if not self._children:
            with unchecked():
                return [
                    self._told(compared, job, done, len(jobs), tell)
                    for done, job in enumerate(jobs)
                ]
        waiting: queue.SimpleQueue[int] = queue.SimpleQueue()
        for place in sorted(range(len(jobs)), key=lambda i: -WEIGHTS.get(jobs[i].name, 0)):
            waiting.put(place)
        found: dict[int, Found] = {}
        packed = _packed(compared)
        with ThreadPoolExecutor(max_workers=len(self._children)) as threads:
            try:
                asked = [
                    threads.submit(self._ask_all, child, packed, jobs, waiting, found)
                    for child in self._children
                ]
                if self._meanwhile is not None:
                    self._meanwhile()
                    self._meanwhile = None
                with unchecked(), one_thread():  # scikit-learn is loaded while others work
                    is_open = aside is not None
                    while (i := _next(waiting)) is not None and not _failed(asked):
                        if is_open and aside is not None:
                            is_open = not aside(
                                {jobs[place]: one for place, one in [*found.items()]}
                            )
                        found[i] = self._told(compared, jobs[i], len(found), len(jobs), tell)
                _raised(asked)
            except BaseException:
                _emptied(waiting)
                self._end()  # so that nobody waits for an answer
                raise
        return [found[i] for i in range(len(jobs))]

    def _told(
        self,
        compared: Compared,
        job: Job,
        done: int,
        total: int,
        tell: Callable[[Job, int, int], None],
    ) -> Found:
        """Do one job here."""
        tell(job, done, total)
        return compared.do(job)

    def _ask_all(
        self,
        child: subprocess.Popen[bytes],
        packed: bytes,
        jobs: Sequence[Job],
        waiting: queue.SimpleQueue[int],
        found: dict[int, Found],
    ) -> None:
        """Have a worker do one job after the other; raise the error it met."""
        try:
            self._asked(child, packed)
            while (i := _next(waiting)) is not None:
                found[i] = self._asked(child, pack_message(jobs[i]))
        except BaseException:
            _emptied(waiting)
            raise

    def _asked(self, child: subprocess.Popen[bytes], packed: bytes) -> Found:
        """The answer of a worker to a packed message."""
        try:
            write_packed(pipe_of(child.stdin), packed)
            answer = read_message(pipe_of(child.stdout))
        except BrokenPipeError:
            answer = None
        if isinstance(answer, _Answer):
            if answer.error:
                raise getattr(errors, answer.error, InternalError)(answer.message)
            return answer.found
        if child.wait() == -signal.SIGKILL:
            raise StoreError(OUT_OF_MEMORY)  # or we ended it ourselves, and nobody hears of it
        raise InternalError("a worker of the evaluation ended without an answer")

    def _end(self) -> None:
        """End all workers, whatever they are at."""
        for child in self._children:
            if child.poll() is None:
                child.kill()
        while self._children:
            end_interpreter(self._children.pop())


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class _Answer:
    """What a job found, or the name and message of the error that it met."""

    found: Found = None
    error: str = ""
    message: str = ""


_TOO_LARGE = object()
"""Stands for a message that there was no memory for."""


def _next(waiting: queue.SimpleQueue[int]) -> int | None:
    """The next job, if any."""
    try:
        return waiting.get_nowait()
    except queue.Empty:
        return None


def _packed(compared: Compared) -> bytes:
    """What every worker is told first: packed once, however many there are."""
    try:
        return pack_message(compared.packed())
    except MemoryError:
        raise StoreError(OUT_OF_MEMORY) from None


def _emptied(waiting: queue.SimpleQueue[int]) -> None:
    """Begin no further job."""
    while _next(waiting) is not None:
        pass


def _raised(asked: Sequence[Future[None]]) -> None:
    """Wait until all is done, or one has met an error, which is raised."""
    done, _ = wait(asked, return_when=FIRST_EXCEPTION)
    for one in done:
        one.result()


def _failed(asked: Sequence[Future[None]]) -> bool:
    """Whether a worker has met an error."""
    return any(one.done() and one.exception() is not None for one in asked)


def pipe_of(stream: Any) -> BinaryIO:
    """The pipe of a process that was started with one."""
    pipe: BinaryIO = stream
    return pipe


def pack_message(message: object) -> bytes:
    """A message as it is sent."""
    return pickle.dumps(message, protocol=5)


def write_packed(stream: BinaryIO, packed: bytes) -> None:
    """Send one packed message, its length first."""
    stream.write(len(packed).to_bytes(8, "little"))
    stream.write(packed)
    stream.flush()


def write_message(stream: BinaryIO, message: object) -> None:
    """Send one message, its length first."""
    write_packed(stream, pack_message(message))


def read_message(stream: BinaryIO) -> Any:
    """One message, None where the pipe has closed, be it in the middle of one."""
    head = stream.read(8)
    size = int.from_bytes(head, "little")
    raw = stream.read(size) if len(head) == 8 else b""
    if len(head) < 8 or len(raw) < size:
        return None
    return pickle.loads(raw)  # noqa: S301  # between processes of ours, over our own pipe


def serve(source: BinaryIO, answers: BinaryIO) -> None:
    """A worker's side: what is compared, then jobs; an answer each, until the pipe closes, which ends it at once."""
    messages: queue.SimpleQueue[Any] = queue.SimpleQueue()
    threading.Thread(target=_receive, args=(source, messages), daemon=True).start()
    with uncollected(), contextlib.suppress(StoreError):  # who needs it says so
        optional("sklearn.ensemble", "learners")  # while the source is read
        optional("sklearn.linear_model", "learners")
    compared: Compared | None = None
    with unchecked(), one_thread():
        while True:
            message = messages.get()
            answer = _Answer()
            if message is _TOO_LARGE:
                answer = _Answer(error=StoreError.__name__, message=OUT_OF_MEMORY)
            elif isinstance(message, Compared):
                compared = message
            elif compared is not None:
                answer = _answer(compared, message)
            try:
                write_message(answers, answer)
            except BrokenPipeError:
                return  # nobody to answer
            except MemoryError:  # it was found, but not packed
                write_message(answers, _Answer(error=StoreError.__name__, message=OUT_OF_MEMORY))


def _receive(source: BinaryIO, messages: queue.SimpleQueue[Any]) -> None:
    """Pass on what comes; end this process at once where nothing comes any more, or nothing that can be read."""
    try:
        while (message := read_message(source)) is not None:
            messages.put(message)
    except MemoryError:
        messages.put(_TOO_LARGE)
        return
    except Exception:  # noqa: BLE001  # in this thread nobody would hear of it; the parent sees how we ended
        os._exit(1)
    leave_quietly()


def _answer(compared: Compared, job: Job) -> _Answer:
    """What a job found, or the error it met, by its kind and place."""
    try:
        return _Answer(found=compared.do(job))
    except TablepackError as error:
        return _Answer(error=type(error).__name__, message=str(error))
    except MemoryError:
        return _Answer(error=StoreError.__name__, message=OUT_OF_MEMORY)
    except Exception as error:  # noqa: BLE001  # reported by its kind and place, as the command line does
        return _Answer(
            error=InternalError.__name__, message=f"{type(error).__name__} in {place_of(error)}"
        )


if __name__ == "__main__":
    # Classes of this module are those that the parent knows it by.
    from engine.evaluation.workers import serve as run

    run(sys.stdin.buffer, sys.stdout.buffer)
    leave_quietly()
