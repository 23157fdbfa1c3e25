"""The wall as a process boundary: fit, sample and store run in a fresh interpreter that never sees the data.

The parent (measure) sends pickled messages down a pipe: perhaps how many workers to start; an order, which says how
to fit; then what was measured: `Measurement`s for a `FitOrder`, `Margin`s for a `JointOrder`. The child answers each
with a line of JSON: what was fitted, or the error it met; in between it may report progress. The child inherits no file
but the pipe, no environment but what Python needs, and starts in the folder of the release; so do the workers that it
has lock tables. They die with their parent: the pipe closes.
"""

from __future__ import annotations

import contextlib
import json
import subprocess
import sys
from collections.abc import Callable
from functools import partial
from importlib import import_module
from typing import TYPE_CHECKING, Any, BinaryIO

from engine import errors
from engine.errors import InternalError, TablepackError, place_of
from engine.fit import FitOrder
from engine.levels import Margin
from engine.progress import Progress
from engine.release.pipes import (
    Ahead,
    Finish,
    Place,
    Settle,
    end_interpreter,
    leave_quietly,
    pipe_of,
    read_message,
    start_interpreter,
    write_message,
)
from engine.schema import ColumnSet, Measurement

if TYPE_CHECKING:
    from engine.release.fit_workers import FitWorkers
    from engine.release.fitter import Fitter
    from engine.release.joint_fitter import JointFitter, JointOrder
    from engine.store import ReleaseRecord, Staging

_MODULE = "engine.release.fit_process"
HELD, HELD_LIGHT = 2, 16
"""Tables of each worker that the fit process may hold back: of any size, and of few buckets."""
GIVE_WAY_S = 0.0002
"""Seconds after which a running thread gives way to others. Python's own 5 ms are several times what a small table
takes: the thread that has a worker's answer would wait that long before it asks for the next."""


class FitProcess:
    """The parent's side. Use as a context manager; leaving it without `finish` abandons the build.

    progress: Called with the stage, and how much of how much is done, as the child reports it.
    """

    def __init__(
        self,
        order: FitOrder | JointOrder,
        progress: Progress | None = None,
        child: subprocess.Popen[bytes] | None = None,
    ) -> None:
        self._progress = progress
        self._child = child or start_interpreter(_MODULE, order.release_path.resolve().parent)
        self._waiting = 0
        try:
            self._put(order)
            answer = self._get()
        except BaseException:
            end_interpreter(self._child)
            raise
        self.finished: frozenset[ColumnSet] = frozenset(tuple(c) for c in answer["finished"])

    def __enter__(self) -> FitProcess:
        return self

    def __exit__(self, *_: object) -> None:
        end_interpreter(self._child)

    @property
    def pid(self) -> int:
        """Process id of the child."""
        return self._child.pid

    def send(self, measurement: Measurement | Margin, *, ahead: int) -> list[dict[str, Any]]:
        """Hand one measurement over the wall.

        ahead: How many measurements may be under way at once, at least `HELD_LIGHT` for each worker, since so
            many answers may be held back; 0 waits for the answer.
        """
        self._put(measurement)
        self._waiting += 1
        answers = []
        while self._waiting > ahead:
            answers.append(self._get())
            self._waiting -= 1
        return answers

    def settle(self) -> None:
        """Say that everything was measured: it fits and writes what is left, while exposure is reckoned here."""
        self._put(Settle())

    def finish(
        self,
        exposure: dict[str, Any] | None = None,
        note: Callable[[str], None] | None = None,
    ) -> list[dict[str, Any]]:
        """Wait for the rest, write the release; the last answer is about the finished file.

        note: Called with the SHA-256 of the finished file before that is put in place: so no release is there
            that was not noted, whenever the two processes are killed.
        """
        self._put(Finish(exposure=exposure, is_awaited=note is not None))
        answers = [self._get() for _ in range(self._waiting)]
        self._waiting = 0
        if note is not None:
            note(self._get()["whole"])
            self._put(Place())
        return [*answers, self._get()]

    def _put(self, message: object) -> None:
        try:
            write_message(pipe_of(self._child.stdin), message)
        except BrokenPipeError:
            while True:  # what it answered before comes first; the last answer raises why it ended
                self._get()

    def _get(self) -> dict[str, Any]:
        """Read one answer, passing on what comes before it of progress; raise the error it carries."""
        while True:
            line = pipe_of(self._child.stdout).readline()
            if not line:
                raise InternalError("the fit process ended without an answer")
            answer: dict[str, Any] = json.loads(line)
            if "error" in answer:
                raise getattr(errors, answer["error"], InternalError)(answer["message"])
            if "progress" not in answer:
                return answer
            if self._progress is not None:
                self._progress(*answer["progress"])


def start_workers(child: subprocess.Popen[bytes], workers: int) -> None:
    """Have a child without an order start so many workers of its own, and get ready for one."""
    with contextlib.suppress(BrokenPipeError):  # whoever gives it an order will be told
        write_message(pipe_of(child.stdin), Ahead(workers=workers))


def _fitter_for(
    order: object,
) -> Callable[[Staging, FitWorkers], Fitter | JointFitter] | None:
    """What makes the fitter of an order; None: it is none."""
    if isinstance(order, FitOrder):
        from engine.release.fitter import Fitter

        return partial(Fitter, order)
    from engine.release.joint_fitter import JointFitter, JointOrder

    if isinstance(order, JointOrder):
        return lambda staging, _: JointFitter(order, staging)
    return None


def _work(
    fitter: Any,
    order: FitOrder | JointOrder,
    staging: Staging,
    workers: FitWorkers,
    source: BinaryIO,
    answer: Callable[..., None],
) -> None:
    """Fit what comes, then write the release; put it in place at once, or when told."""

    def settle(n_workers: int) -> None:
        for fitted in fitter.settle(HELD * n_workers, HELD_LIGHT * n_workers):
            answer(fitted=fitted.columns, cells=fitted.cells, gap=fitted.gap)

    def placed_when_told(record: ReleaseRecord) -> None:
        answer(whole=record.sha256)
        if not isinstance(read_message(source), Place):
            raise BrokenPipeError  # the parent is gone: what is staged is whole, and the next build places it

    while isinstance(message := read_message(source), Measurement | Margin):
        fitter.begin(message)
        settle(order.workers)
    if message is None:
        raise BrokenPipeError  # the parent is gone: nobody waits for what is under way
    settle(0)
    workers.dismiss()  # they end while the file is closed
    if isinstance(message, Settle):
        staging.write()
        message = read_message(source)
    if not isinstance(message, Finish):
        raise BrokenPipeError  # the parent is gone before it had reckoned exposure
    made = fitter.finish(
        lambda *stage: answer(progress=stage),
        message,
        placed_when_told if message.is_awaited else None,
    )
    path, sha256 = str(order.release_path), made.sha256
    answer(release=path, sha256=sha256, content_hash=made.content_hash)


def serve(source: BinaryIO, answers: BinaryIO) -> None:
    """Run the child's side: one answer for each message but `Ahead`, until the pipe closes or an error ends it."""
    from engine.release.fit_workers import OUT_OF_MEMORY, FitWorkers  # the parent needs none of it

    def answer(**what: object) -> None:
        answers.write(json.dumps(what).encode() + b"\n")
        answers.flush()

    def failed(kind: str, message: str) -> None:
        with contextlib.suppress(BrokenPipeError):  # the parent may be gone: nobody to answer
            answer(error=kind, message=message)

    try:
        order = read_message(source)
        with FitWorkers(order.workers if isinstance(order, Ahead) else 0) as workers:
            # Copies of this process, which has not imported DuckDB yet.
            workers.start(lambda *stage: answer(progress=stage))
            from engine.store import Staging

            import_module(
                "engine.release.fitter"
            )  # while the source is read, before an order comes
            if isinstance(order, Ahead):
                order = read_message(source)
            if (make_fitter := _fitter_for(order)) is None:
                return
            with Staging.open(
                order.release_path,
                order.header,
                build_id=order.build_id,
                force=order.force,
                earlier=order.earlier,
            ) as staging:
                answer(finished=sorted(staging.finished()))
                workers.allow(order.workers)
                _work(make_fitter(staging, workers), order, staging, workers, source, answer)
    except TablepackError as error:
        failed(type(error).__name__, str(error))
    except MemoryError:
        failed("StoreError", OUT_OF_MEMORY)
    except BrokenPipeError:
        pass  # the parent is gone: nobody to answer
    except Exception as error:  # noqa: BLE001  # reported by its kind and place, as the command line does
        failed("InternalError", f"{type(error).__name__} in {place_of(error)}")


if __name__ == "__main__":
    sys.setswitchinterval(GIVE_WAY_S)
    serve(sys.stdin.buffer, sys.stdout.buffer)
    leave_quietly()
