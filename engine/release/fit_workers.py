"""More processes for the fit: each locks one table at a time, given all that it needs.

A table depends on its measurement, its columns and the narrower tables alone, so any process gives the same table.
Right of the wall: a worker is sent what the fit process has, and has nothing else.
"""

from __future__ import annotations

import contextlib
import queue
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any, BinaryIO

from engine import errors
from engine.errors import InternalError, StoreError, TablepackError, place_of
from engine.fit import lock_table
from engine.fit.warm import warm
from engine.progress import Progress, silent
from engine.release.pipes import (
    Forked,
    Locked,
    Serving,
    can_fork,
    end_interpreter,
    fork,
    leave_quietly,
    pipe_of,
    read_message,
    start_interpreter,
    write_message,
)
from engine.schema import SyntheticTable

OUT_OF_MEMORY = "the fit ran out of memory; ask for narrower tables"

HERE_FIRST, WORTH = 0.5, 4
"""Seconds of processor of locking before workers may start. They do where what is left would take so many times as
long: a worker that is started so late needs some tenths of a second to begin."""

Child = subprocess.Popen[bytes] | Forked


class FitWorkers:
    """A pool of worker processes, started once there is enough to do, or by `start`. Use as a context manager."""

    def __init__(self, count: int) -> None:
        self._count = count
        self._spent, self._done = 0.0, 0
        self._children: list[Child] = []
        self._idle: queue.SimpleQueue[Child] = queue.SimpleQueue()
        self._threads: ThreadPoolExecutor | None = None

    def __enter__(self) -> FitWorkers:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if kind is not None:
            for child in self._children:
                child.kill()  # nobody waits for what it is at
        self.dismiss()
        for child in self._children:
            end_interpreter(child)

    @property
    def pids(self) -> list[int]:
        """Process ids of the workers."""
        return [child.pid for child in self._children]

    def start(self, report: Progress = silent) -> None:
        """Bring in the kernels, compiled now if they never were, and start the workers ahead of any table.

        They are copies of this process where that can be, with its kernels; so call it before anything is read.
        """
        warm(report)
        if self._count:
            self._start(fork if can_fork() else None)

    def allow(self, count: int) -> None:
        """Let so many workers be started once there is enough to do; those that were started ahead stay."""
        self._count = max(count, len(self._children))

    def dismiss(self) -> None:
        """Let the workers end, once what is under way is done; nothing can be locked any more."""
        if self._threads is not None:
            self._threads.shutdown(wait=True, cancel_futures=True)
        for child in self._children:
            with contextlib.suppress(BrokenPipeError):
                pipe_of(child.stdin).close()

    def lock(self, *, left: int | None = None, **job: Any) -> Future[SyntheticTable]:
        """Lock one table; takes what `lock_table` takes, and how many tables are left, this one with them (None: many).

        A table is the same wherever it is locked.
        """
        is_worth = self._is_worth(left)
        if is_worth and len(self._children) < self._count:
            self._start()
        if self._children:
            if self._threads is None:
                self._threads = ThreadPoolExecutor(max_workers=self._count)
            return self._threads.submit(self._ask, job)
        began = time.thread_time()
        done: Future[SyntheticTable] = Future()
        done.set_result(lock_table(**job))
        self._book(time.thread_time() - began)
        return done

    def _is_worth(self, left: int | None) -> bool:
        """Whether so much is left that it pays to start workers."""
        if self._spent < HERE_FIRST or left is None:
            return self._spent >= HERE_FIRST
        return self._spent * left >= WORTH * HERE_FIRST * self._done

    def _book(self, seconds: float) -> None:
        """Count a table that was locked. What two threads book at once may count once: it is for a guess."""
        self._spent += seconds
        self._done += 1

    def _start(self, copied: Callable[[Serving], Child] | None = None) -> None:
        """Start the workers that are allowed and not there yet; what is to be locked may wait for them."""
        for _ in range(self._count - len(self._children)):
            if copied is not None:
                child = copied(serve)
            else:
                child = start_interpreter("engine.release.fit_workers", Path.cwd())
            self._children.append(child)
            self._idle.put(child)

    def _ask(self, job: dict[str, Any]) -> SyntheticTable:
        """Have an idle worker lock a table; raise the error it met."""
        child = self._idle.get()
        try:
            write_message(pipe_of(child.stdin), job)
            answer = read_message(pipe_of(child.stdout))
        except BrokenPipeError:
            answer = None
        finally:
            self._idle.put(child)
        if isinstance(answer, Locked):
            self._book(answer.seconds)
            return answer.table
        if answer is None and child.wait() == -signal.SIGKILL:
            raise StoreError(OUT_OF_MEMORY)  # nobody else kills workers
        if answer is None:
            raise InternalError("a worker of the fit ended without an answer")
        name, message = answer
        raise getattr(errors, name, InternalError)(message)


def serve(source: BinaryIO, answers: BinaryIO) -> None:
    """A worker's side: one table, or the name and message of an error, for each job, until the pipe closes."""
    while (job := read_message(source)) is not None:
        answer: object
        began = time.thread_time()
        try:
            answer = Locked(table=lock_table(**job), seconds=time.thread_time() - began)
        except TablepackError as error:
            answer = type(error).__name__, str(error)
        except MemoryError:
            answer = StoreError.__name__, OUT_OF_MEMORY
        except Exception as error:  # noqa: BLE001  # reported by its kind and place, as the command line does
            answer = InternalError.__name__, f"{type(error).__name__} in {place_of(error)}"
        try:
            write_message(answers, answer)
        except BrokenPipeError:
            return  # the fit process is gone: nobody to answer
        except MemoryError:  # the table was made, but not packed
            write_message(answers, (StoreError.__name__, OUT_OF_MEMORY))


if __name__ == "__main__":
    serve(sys.stdin.buffer, sys.stdout.buffer)
    leave_quietly()
