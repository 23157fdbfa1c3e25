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
import threading
import time
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any, BinaryIO

from engine import errors
from engine.errors import InternalError, StoreError, TablepackError, place_of
from engine.fit import WITH_PARENT, are_compiled, can_compile, load_compiled, lock_table
from engine.release.pipes import (
    Forked,
    Locked,
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
"""Seconds of processor of locking before workers may start, and what is compiled is brought in. They do where what is
left would take so many times as long: a worker needs most of a second to begin."""
READY = "ready"
"""What a worker says first that was started ahead."""

Child = subprocess.Popen[bytes] | Forked


class FitWorkers:
    """A pool of worker processes, started once there is enough to do, or by `start`. Use as a context manager.

    Parameters
    ----------
    count : int
        0: tables are locked here, one after the other.
    """

    def __init__(self, count: int) -> None:
        self._count = count
        self._spent, self._done = 0.0, 0
        self._children: list[Child] = []
        self._waited_for: list[Child] = []
        self._idle: queue.SimpleQueue[Child] = queue.SimpleQueue()
        self._is_ready = threading.Event()
        self._threads: ThreadPoolExecutor | None = None
        self._compiling: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> FitWorkers:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        ended = self._children if kind is not None else self._waited_for
        for child in (*ended,):
            child.kill()  # nobody waits for what it is at
        self.dismiss()
        for child in self._children:
            end_interpreter(child)
        if self._compiling is not None:
            self._compiling.kill()  # what it has compiled is kept
            end_interpreter(self._compiling)

    @property
    def pids(self) -> list[int]:
        """Process ids of the workers."""
        return [child.pid for child in self._children]

    def start(self) -> None:
        """Start the workers ahead of any table; until one is ready tables are locked here.

        They are copies of this process where that can be, so call it before anything is read. Several share the
        compiled loops, which are brought in here first; a single one brings them in while this process goes on.
        """
        is_copied = can_fork()
        if self._count > 1:
            load_compiled()
            if not is_copied:
                self._start_interpreters()
        if is_copied:
            self._children = [fork(_serve_ahead) for _ in range(self._count)]
            self._waited_for = [*self._children]
            for child in self._children:  # threads come after the last copy was made
                threading.Thread(target=self._await, args=(child,), daemon=True).start()
        if self._count > 1:
            self._compile()

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

        A table is the same wherever it is locked, and by whatever loops.
        """
        is_worth = self._is_worth(left)
        if is_worth and len(self._children) < self._count:
            self._start_interpreters()
            self._compile()
        if self._is_ready.is_set():
            if self._threads is None:
                self._threads = ThreadPoolExecutor(max_workers=self._count)
            return self._threads.submit(self._ask, job)
        if is_worth:
            load_compiled()
        began = time.thread_time()
        done: Future[SyntheticTable] = Future()
        done.set_result(lock_table(**job))
        self._book(time.thread_time() - began)
        return done

    def _is_worth(self, left: int | None) -> bool:
        """Whether so much is left that it pays to start workers, or to bring in what is compiled."""
        if self._spent < HERE_FIRST or left is None:
            return self._spent >= HERE_FIRST
        return self._spent * left >= WORTH * HERE_FIRST * self._done

    def _book(self, seconds: float) -> None:
        """Count a table that was locked. What two threads book at once may count once: it is for a guess."""
        self._spent += seconds
        self._done += 1

    def _start_interpreters(self) -> None:
        """Start the workers that are allowed and not there yet; what is to be locked may wait for them."""
        for _ in range(self._count - len(self._children)):
            child = start_interpreter("engine.release.fit_workers", Path.cwd())
            self._children.append(child)
            self._idle.put(child)
        self._is_ready.set()

    def _compile(self) -> None:
        """Have the loops compiled, unless they are."""
        if self._compiling is None and can_compile() and not are_compiled():
            self._compiling = start_interpreter("engine.fit.compiled", Path.cwd(), WITH_PARENT)

    def _await(self, child: Child) -> None:
        """Wait until a worker that was started ahead is ready, or has ended, which whoever asks it will find."""
        with contextlib.suppress(OSError, ValueError):
            read_message(pipe_of(child.stdout))
        self._waited_for.remove(child)
        self._idle.put(child)
        self._is_ready.set()

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


def _serve_ahead(source: BinaryIO, answers: BinaryIO) -> None:
    """The side of a worker that is started ahead: it says so once it is ready."""
    load_compiled()
    write_message(answers, READY)
    serve(source, answers)


def serve(source: BinaryIO, answers: BinaryIO) -> None:
    """A worker's side: one table, or the name and message of an error, for each job, until the pipe closes."""
    while (job := read_message(source)) is not None:
        answer: object
        load_compiled()  # they may have been compiled since the last job
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
