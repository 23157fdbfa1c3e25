"""Statements of strangers, run in processes of their own that the operating system holds within limits.

A release and limits in; an object whose `sql()` answers like `Release.sql`, in rows. What fills its memory, runs on
after its time or crashes is ended with its process and refused; the next statement has a fresh one. The answer is
read as plain values only, so that a process that was taken over cannot reach further than a wrong answer.
"""

from __future__ import annotations

import json
import os
import queue
import select
import subprocess
import sys
import time
from dataclasses import asdict, dataclass
from pathlib import Path
from types import TracebackType
from typing import Any

from engine import errors
from engine.errors import (
    NotAnswerable,
    QueryRefused,
    ReplacedRelease,
    StoreError,
    TablepackError,
    TimedOut,
    TooLarge,
)
from engine.schema import ColumnSet
from queries.sandbox.limits import ProcessLimits, plain_loads, write_frame

GRACE_S = 1.0
"""Seconds beyond a statement's own after which its process is ended."""
_MORE = 2**20  # bytes of a frame beside the answer in it
_KEPT_ENVIRONMENT = ("LANG", "LC_ALL", "TZ", "SYSTEMROOT")


@dataclass(frozen=True, kw_only=True, slots=True)
class Answer:
    """What a statement returned, as `queries.sql.result.Result` has it.

    Attributes
    ----------
    rows : list of tuple
        At most one more than the limit: then there were more.
    """

    columns: tuple[str, ...]
    types: tuple[str, ...]
    rows: list[tuple[Any, ...]]
    table: ColumnSet | None
    noise_sd: float | None
    filled_share: float | None
    source: str
    warnings: tuple[str, ...]

    def head(self, n: int) -> list[tuple[Any, ...]]:
        """Return the first rows."""
        return self.rows[:n]


class _Worker:
    """One process that opens a release; ready after `wait`; its owner replaces it when it has failed."""

    def __init__(self, path: Path, limits: ProcessLimits) -> None:
        self._limits = limits
        self._child = _started()
        self.content_hash = ""  # until it has opened the release
        self._send({"path": str(path.resolve()), "limits": asdict(limits)})

    @property
    def is_alive(self) -> bool:
        """Whether the process runs."""
        return self._child.poll() is None

    def wait(self) -> None:
        """Wait until it has opened the release; it is ended where it cannot."""
        if self.content_hash:
            return
        start = time.monotonic()
        try:
            reply = self._received(self._limits.start_s)
            if reply is None or reply[0] not in ("open", "refused"):
                raise StoreError(
                    f"the process for statements did not start ({self._why(time.monotonic() - start)})"
                )
            if reply[0] == "refused":
                raise _error_of(reply)
        except BaseException:
            self.close()
            raise
        self.content_hash = reply[1]

    def _why(self, seconds: float) -> str:
        """Why nothing came from a process that was to open a release."""
        if seconds >= self._limits.start_s:
            return f"nothing came from it in {seconds:.0f} seconds"
        try:
            code = self._child.wait(1)
        except subprocess.TimeoutExpired:
            return "what came from it is no answer"
        return f"the system ended it, signal {-code}" if code < 0 else f"it left with code {code}"

    def ask(self, text: str, how: dict[str, bool]) -> Answer | TablepackError | None:
        """Return the answer or the refusal; None where the process has failed."""
        is_sent = self._send({"sql": text, "how": how})
        reply = self._received(self._limits.seconds + GRACE_S) if is_sent else None
        if reply is None or reply[0] not in ("answer", "refused"):
            return None
        return Answer(**plain_loads(reply[1])) if reply[0] == "answer" else _error_of(reply)

    def _send(self, request: dict[str, Any]) -> bool:
        """Send a request; whether somebody takes it."""
        try:
            write_frame(self._child.stdin, json.dumps(request).encode())  # type: ignore[arg-type]
        except (BrokenPipeError, ValueError):
            return False
        return True

    def _received(self, seconds: float) -> tuple[Any, ...] | None:
        """Return what comes back in time; None where nothing whole does."""
        until = time.monotonic() + seconds
        head = self._read(8, until)
        size = int.from_bytes(head or b"", "little")
        if head is None or size > self._limits.answer_mb * 2**20 + _MORE:
            return None
        raw = self._read(size, until)
        try:
            return None if raw is None else tuple(plain_loads(raw))
        except Exception:  # noqa: BLE001  # whatever it was: not an answer
            return None

    def _read(self, size: int, until: float) -> bytes | None:
        """Read so many bytes; None where the time is up or the pipe has closed."""
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

    def close(self) -> None:
        """End the process."""
        self._child.kill()
        self._child.wait()
        for pipe in (self._child.stdin, self._child.stdout):
            if pipe is not None:
                try:
                    pipe.close()
                except BrokenPipeError:
                    pass


class LimitedProcesses:
    """Processes that answer statements over one release; a context manager. Make them with `limited_processes`.

    Attributes
    ----------
    content_hash : str
        Of the release; one that has replaced it answers nothing.
    """

    def __init__(self, path: Path, limits: ProcessLimits, n: int) -> None:
        self.path, self.limits = path, limits
        self._idle: queue.LifoQueue[_Worker | None] = queue.LifoQueue()
        self._n = n
        workers: list[_Worker] = []
        try:
            for _ in range(n):  # all start at once: nobody waits for one later
                workers.append(_Worker(path, limits))
            for worker in workers:
                worker.wait()
        except BaseException:
            for worker in workers:
                worker.close()
            raise
        self.content_hash = workers[0].content_hash
        for worker in workers:
            self._idle.put(worker)

    def sql(self, text: str, **how: bool) -> Answer:
        """Answer one statement as `Release.sql` does; waits where all processes are busy.

        Raises
        ------
        QueryRefused, NotAnswerable
            As `Release.sql`; or it took too long, too much memory, or its answer is too large.
        ReplacedRelease
            The release was replaced since it was opened, and a new process would ask the other one.
        StoreError
            No process can be started.
        """
        worker = self._idle.get()
        reply: Answer | TablepackError | None = None
        start = time.monotonic()
        try:
            worker = self._ready(worker)
            start = time.monotonic()
            reply = worker.ask(text, how)
        finally:
            # After a statement that took too much, the memory left may be too little for the next one.
            if worker is not None and (reply is None or isinstance(reply, TooLarge)):
                worker.close()
                worker = self._next()
            self._idle.put(worker)
        if isinstance(reply, Answer):
            return reply
        if reply is not None:
            raise reply
        if time.monotonic() - start >= self.limits.seconds:
            raise TimedOut(f"The statement was stopped after {self.limits.seconds:g} seconds")
        raise TooLarge(
            "The statement needs more memory than a query may use, or broke the process that ran it"
        )

    def _next(self) -> _Worker | None:
        """Begin to start another process, which opens the release while nobody waits for it."""
        try:
            return _Worker(self.path, self.limits)
        except StoreError:
            return None  # the next statement tries again, and raises

    def _ready(self, worker: _Worker | None) -> _Worker:
        """Return a process that has opened the same release: a new one for one that died while it was idle."""
        if worker is not None and worker.content_hash and not worker.is_alive:
            worker.close()
            worker = None
        worker = worker or _Worker(self.path, self.limits)
        worker.wait()
        if worker.content_hash != self.content_hash:
            worker.close()
            raise ReplacedRelease(
                f"{self.path.name}: was replaced since it was opened: open it again (a server: start it again)"
            )
        return worker

    def close(self) -> None:
        """End all processes, once their statements are done."""
        for _ in range(self._n):
            worker = self._idle.get()
            if worker is not None:
                worker.close()
        self._n = 0

    def __enter__(self) -> LimitedProcesses:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()


def limited_processes(
    path: str | os.PathLike[str], *, limits: ProcessLimits | None = None, n: int = 2
) -> LimitedProcesses:
    """Open a release for statements of strangers.

    Parameters
    ----------
    n : int
        Processes: statements that run at the same time.

    Raises
    ------
    StoreError, DamagedRelease
        As `queries.release.open_release`; or the system has no such limits (Windows).
    """
    if sys.platform == "win32":
        raise StoreError("statements cannot be limited on this system: use Linux or macOS")
    return LimitedProcesses(Path(path), limits or ProcessLimits(), n)


def _started() -> subprocess.Popen[bytes]:
    """Start the process, with no environment but what Python needs."""
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
        raise StoreError(
            f"the process for statements cannot be started ({error.strerror})"
        ) from None


def _error_of(reply: tuple[Any, ...]) -> TablepackError:
    """Return the error in a refusal."""
    _, name, message, missing, nearest = reply
    if name == "NotAnswerable":
        return NotAnswerable(message, missing=tuple(missing), nearest=tuple(nearest))
    known = getattr(errors, str(name), None)
    is_ours = isinstance(known, type) and issubclass(known, TablepackError)
    return known(message) if is_ours and known is not None else QueryRefused(message)
