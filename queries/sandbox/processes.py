"""Untrusted SQL, run in separate processes that the operating system limits.

`LimitedProcesses` has a `sql()` that answers like `Release.sql`, in rows. A statement that fills the
memory, exceeds its time or crashes is refused and its process ended; the next statement gets a fresh one. Answers are
read as plain values only, so that a compromised process can at worst give a wrong answer.
"""

from __future__ import annotations

import itertools
import json
import os
import queue
import select
import subprocess
import sys
import threading
import time
from dataclasses import asdict, dataclass
from pathlib import Path
from types import TracebackType
from typing import Any, Literal

from engine import errors
from engine.errors import (
    DuckDBFailed,
    NotAnswerable,
    QueryRefused,
    ReplacedRelease,
    StoreError,
    TablepackError,
    TimedOut,
    TooLarge,
)
from engine.schema import ColumnSet
from engine.store import ReleaseRecord
from queries.sandbox.limits import ProcessLimits, plain_loads, write_frame
from queries.sql import Marks

GRACE_S = 1.0
"""Seconds after a statement's time limit until its process is ended."""
_STOP_S = 0.5
"""Seconds a process has to abandon a cancelled statement before it is ended."""
_POLL_S = 0.05
_FRAME_OVERHEAD = 2**20  # bytes of a frame besides its answer
_KEPT_ENVIRONMENT = ("LANG", "LC_ALL", "TZ", "SYSTEMROOT")


@dataclass(frozen=True, kw_only=True, slots=True)
class Answer:
    """The result of a statement, with the attributes of `queries.sql.result.Result`."""

    columns: tuple[str, ...]
    types: tuple[str, ...]
    rows: list[tuple[Any, ...]]  # At most one more than the limit, which shows that there are more
    table: ColumnSet | None
    source: str
    warnings: tuple[str, ...]
    # statuses, unknown: Which figures in these rows are not released; see `marks`.
    statuses: dict[int, list[str]]
    unknown: tuple[str, ...]

    def marks(self, n: int) -> Marks:
        """Return which figures in the first rows are not released."""
        return Marks(
            statuses={at: of[:n] for at, of in self.statuses.items()}, unknown=tuple(self.unknown)
        )

    def head(self, n: int) -> list[tuple[Any, ...]]:
        """Return the first rows."""
        return self.rows[:n]


class _Worker:
    """One process that opens a release; ready after `wait`; its owner replaces it when it fails."""

    def __init__(self, path: Path, limits: ProcessLimits, verify: str) -> None:
        self._limits = limits
        self._child = _started()
        self._n_asked = 0
        self.record: dict[str, Any] = {}  # empty until it has opened the release
        self._send({"path": str(path.resolve()), "limits": asdict(limits), "verify": verify})

    @property
    def is_alive(self) -> bool:
        """Whether the process is running."""
        return self._child.poll() is None

    def wait(self) -> None:
        """Wait until it has opened the release; end it if it cannot."""
        if self.record:
            return
        start = time.monotonic()
        try:
            reply = self._received(self._limits.start_s)
            if reply is None or reply[0] not in ("open", "refused"):
                raise StoreError(
                    f"the worker process did not start ({self._why(time.monotonic() - start)})"
                )
            if reply[0] == "refused":
                raise _error_of(reply)
        except BaseException:
            self.close()
            raise
        self.record = reply[1]

    def _why(self, seconds: float) -> str:
        """Why a process did not open the release."""
        if seconds >= self._limits.start_s:
            return f"no reply within {seconds:.0f} seconds"
        try:
            code = self._child.wait(1)
        except subprocess.TimeoutExpired:
            return "invalid reply"
        return f"killed by signal {-code}" if code < 0 else f"exit code {code}"

    def ask(
        self, text: str, how: dict[str, bool], stop: threading.Event | None = None
    ) -> Answer | TablepackError | None:
        """Return the answer or the refusal; None if the process failed."""
        self._n_asked += 1
        is_sent = self._send({"sql": text, "how": how, "number": self._n_asked})
        until = time.monotonic() + self._limits.seconds + GRACE_S
        if stop is not None and self._is_cancelled(stop, until):
            self._send({"stop": self._n_asked})
            until = time.monotonic() + _STOP_S
        reply = self._received(until - time.monotonic()) if is_sent else None
        if reply is None or reply[0] not in ("answer", "refused"):
            return None
        return Answer(**plain_loads(reply[1])) if reply[0] == "answer" else _error_of(reply)

    def _is_cancelled(self, stop: threading.Event, until: float) -> bool:
        """Wait for the start of an answer; whether the statement was cancelled before that."""
        pipe = self._child.stdout.fileno()  # type: ignore[union-attr]
        while time.monotonic() < until:
            if select.select([pipe], [], [], _POLL_S)[0]:
                return False
            if stop.is_set():
                return True
        return False

    def _send(self, request: dict[str, Any]) -> bool:
        """Send a request; whether the process accepted it."""
        try:
            write_frame(self._child.stdin, json.dumps(request).encode())  # type: ignore[arg-type]
        except (BrokenPipeError, ValueError):
            return False
        return True

    def _received(self, seconds: float) -> tuple[Any, ...] | None:
        """Return the reply; None if no complete one arrives in time."""
        until = time.monotonic() + seconds
        head = self._read(8, until)
        size = int.from_bytes(head or b"", "little")
        if head is None or size > self._limits.answer_mb * 2**20 + _FRAME_OVERHEAD:
            return None
        raw = self._read(size, until)
        try:
            return None if raw is None else tuple(plain_loads(raw))
        except Exception:  # noqa: BLE001  # anything may come from a compromised process
            return None

    def _read(self, size: int, until: float) -> bytes | None:
        """Read exactly this many bytes; None at the deadline or if the pipe is closed."""
        pipe = self._child.stdout.fileno()  # type: ignore[union-attr]
        parts: list[bytes] = []
        left = size
        while left:
            ready, _, _ = select.select([pipe], [], [], max(0.0, until - time.monotonic()))
            part = os.read(pipe, min(left, 2**20)) if ready else b""
            if not part:
                return None
            parts.append(part)
            left -= len(part)
        return b"".join(parts)

    def kill(self) -> None:
        """Kill the process; the thread that waits for its answer cleans up."""
        self._child.kill()

    def close(self) -> None:
        """End the process."""
        self.kill()
        self._child.wait()
        for pipe in (self._child.stdin, self._child.stdout):
            if pipe is not None:
                try:
                    pipe.close()
                except BrokenPipeError:
                    pass


class LimitedProcesses:
    """A release that is open for untrusted SQL, in worker processes; a context manager.

    n: Number of processes, that is, of statements that run at the same time.
    record: The manifest's record of the release; processes that opened one with another record are not used. None: the
        one that the first process finds.
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        *,
        limits: ProcessLimits | None = None,
        n: int = 2,
        record: ReleaseRecord | None = None,
        verify: Literal["size", "hash"] = "size",
    ) -> None:
        if sys.platform == "win32":
            raise StoreError("statements cannot be sandboxed on this system; use Linux or macOS")
        self.path, self.limits = Path(path), limits or ProcessLimits()
        self._verify = verify
        # Ready processes come first, the most recently used before others; the number breaks ties.
        self._idle: queue.PriorityQueue[tuple[bool, int, _Worker | None]] = queue.PriorityQueue()
        self._turns = itertools.count(0, -1)
        self._n = n
        self._all: set[_Worker] = set()
        self._is_closed = False
        workers: list[_Worker] = []
        try:
            for _ in range(n):  # all start at the same time
                workers.append(self._new())
            for worker in workers:
                worker.wait()
            self.record = asdict(record) if record is not None else workers[0].record
            for worker in workers:
                self._check(worker)
        except BaseException:
            for worker in workers:
                worker.close()
            raise
        for worker in workers:
            self._give_back(worker)

    def sql(self, text: str, *, stop: threading.Event | None = None, **how: bool) -> Answer:
        """Answer one statement as `Release.sql` does; wait if all processes are busy."""
        *_, worker = self._idle.get()
        reply: Answer | TablepackError | None = None
        start = time.monotonic()
        try:
            worker = self._ready(worker)
            start = time.monotonic()
            reply = worker.ask(text, how, stop)
        finally:
            # After a statement that was too large, too little memory may be left; after an internal failure, DuckDB
            # answers nothing more.
            if worker is not None and (reply is None or isinstance(reply, TooLarge | DuckDBFailed)):
                self._end(worker)
                worker = None if self._is_closed else self._next()
            self._give_back(worker)
        if isinstance(reply, Answer):
            return reply
        if reply is not None:
            raise reply
        if stop is not None and stop.is_set():
            raise TimedOut("The statement was cancelled")
        if time.monotonic() - start >= self.limits.seconds:
            raise TimedOut(f"The statement was stopped after {self.limits.seconds:g} s")
        raise TooLarge("The statement needs more memory than allowed, or crashed its process")

    def _give_back(self, worker: _Worker | None) -> None:
        """Make a process available; one that is still starting is used only if no other is idle."""
        is_starting = worker is None or not worker.record
        self._idle.put((is_starting, next(self._turns), worker))

    def _next(self) -> _Worker | None:
        """Start another process, which opens the release in the background."""
        try:
            return self._new()
        except StoreError:
            return None  # the next statement tries again and raises

    def _ready(self, worker: _Worker | None) -> _Worker:
        """Return a process that has opened the same release, replacing one that died while idle."""
        if worker is not None and worker.record and not worker.is_alive:
            self._end(worker)
            worker = None
        worker = worker or self._new()
        worker.wait()
        self._check(worker)
        return worker

    def _check(self, worker: _Worker) -> None:
        """End and refuse a process that has opened another release."""
        if worker.record != self.record:
            self._end(worker)
            raise ReplacedRelease(
                f"{self.path.name}: the release was replaced since it was opened; open it again (restart a server)"
            )

    def _new(self) -> _Worker:
        if self._is_closed:
            raise StoreError("the worker processes are closed")
        worker = _Worker(self.path, self.limits, self._verify)
        self._all.add(worker)
        return worker

    def _end(self, worker: _Worker) -> None:
        worker.close()
        self._all.discard(worker)

    def close(self, wait_s: float | None = None) -> None:
        """End all processes when their statements are done, or after `wait_s` seconds."""
        self._is_closed = self._is_closed or wait_s is not None
        until = None if wait_s is None else time.monotonic() + wait_s
        while self._n:
            left = None if until is None else max(0.0, until - time.monotonic())
            try:
                *_, worker = self._idle.get(timeout=left)
            except queue.Empty:
                break
            self._n -= 1
            if worker is not None:
                self._end(worker)
        for worker in list(self._all):
            worker.kill()

    def __enter__(self) -> LimitedProcesses:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()


def _started() -> subprocess.Popen[bytes]:
    """Start the process with only the environment that Python needs."""
    environment = {k: v for k, v in os.environ.items() if k in _KEPT_ENVIRONMENT}
    environment["PYTHONPATH"] = os.pathsep.join(str(Path(p).resolve()) for p in sys.path)
    try:
        return subprocess.Popen(
            [sys.executable, "-P", "-m", "queries.sandbox.worker"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env=environment,
            cwd="/",
            process_group=0,
        )
    except OSError as error:
        raise StoreError(f"the worker process cannot be started ({error.strerror})") from None


def _error_of(reply: tuple[Any, ...]) -> TablepackError:
    """Return the error that a refusal describes."""
    _, name, message, missing, nearest = reply
    if name == "NotAnswerable":
        return NotAnswerable(message, missing=tuple(missing), nearest=tuple(nearest))
    known = getattr(errors, str(name), None)
    is_ours = isinstance(known, type) and issubclass(known, TablepackError)
    return known(message) if is_ours and known is not None else QueryRefused(message)
