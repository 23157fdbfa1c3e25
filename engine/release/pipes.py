"""Interpreters of our own, talked to over their standard input and output; nothing else is shared with them.

Such a process inherits no file but its pipes and no environment but what Python needs. It ends when its input closes,
which happens however its parent ends.
"""

from __future__ import annotations

import contextlib
import os
import pickle
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO, NoReturn

from engine.errors import InternalError, StoreError

if TYPE_CHECKING:
    from engine.schema import SyntheticTable

Serving = Callable[[BinaryIO, BinaryIO], None]

PASSED_ENVIRONMENT = (
    *("PATH", "LANG", "LC_ALL", "TZ", "SYSTEMROOT", "NPY_DISABLE_CPU_FEATURES"),
    *("HOME", "XDG_CACHE_HOME", "NUMBA_CACHE_DIR"),  # where machine code is kept: `engine.kernels`
)


@dataclass(frozen=True, kw_only=True, slots=True)
class Ahead:
    """To the fit process, before its order: so many workers are to be started, while the source is read."""

    workers: int


@dataclass(frozen=True, kw_only=True, slots=True)
class Settle:
    """To the fit process: everything was measured; what is under way can be written before `Finish` comes."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Finish:
    """To the fit process: everything was measured, and this is what it gives away."""

    # Mode sticky: what the release says of what it gives away, in plain values.
    exposure: dict[str, Any] | None = None
    # The release is put in place once a `Place` has come, which is the last message; else at once.
    is_awaited: bool = False


@dataclass(frozen=True, kw_only=True, slots=True)
class Place:
    """To the fit process: put the release in place."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Locked:
    """From a worker of the fit: a table, and the seconds of processor that it took."""

    table: SyntheticTable
    seconds: float


def start_interpreter(
    module: str, folder: Path, *arguments: str, environment: Mapping[str, str] | None = None
) -> subprocess.Popen[bytes]:
    """Run a module of ours in a fresh interpreter that works in `folder`.

    environment: In the place of the few variables that Python needs, and of one thread for arithmetic.
    """
    if environment is None:
        passed = {k: v for k, v in os.environ.items() if k in PASSED_ENVIRONMENT}
        environment = {**passed, "OMP_NUM_THREADS": "1"}
    # The empty entry of an interactive session means the folder we are in, which is not the child's.
    python_path = os.pathsep.join(str(Path(p).resolve()) for p in sys.path)
    try:
        return subprocess.Popen(
            # -P: no module is taken from the folder of the release.
            [sys.executable, "-P", "-m", module, *arguments],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env={**environment, "PYTHONPATH": python_path},
            cwd=folder,
            process_group=0,  # Ctrl-C reaches the parent only; the child ends when its pipe closes
        )
    except OSError as error:
        raise StoreError(f"a further process cannot be started ({error.strerror})") from None


@contextlib.contextmanager
def interpreter_ahead(module: str, release_path: Path) -> Iterator[subprocess.Popen[bytes] | None]:
    """Run a module of ours in the folder of a release, ahead of its order; None where the folder is not there."""
    try:
        folder = release_path.resolve().parent
        is_there = folder.is_dir()
    except OSError:
        is_there = False
    if not is_there:
        yield None
        return
    child = start_interpreter(module, folder)
    try:
        yield child
    finally:
        if child.poll() is None:
            child.kill()  # it was given no order, or has had time to end
        end_interpreter(child)


class Forked:
    """A copy of this process, with those parts of `subprocess.Popen` that are used of it."""

    def __init__(self, pid: int, stdin: BinaryIO, stdout: BinaryIO) -> None:
        self.pid, self.stdin, self.stdout = pid, stdin, stdout
        self._code: int | None = None

    def wait(self) -> int:
        """Wait for its end; the negative number of a signal that ended it, or its exit code."""
        if self._code is None:
            self._code = os.waitstatus_to_exitcode(os.waitpid(self.pid, 0)[1])
        return self._code

    def kill(self) -> None:
        """End it at once."""
        if self._code is None:
            # It may be over, but the number is its own until waited for.
            os.kill(self.pid, signal.SIGKILL)


def can_fork() -> bool:
    """Whether a copy of this process is whole: it has a single thread, and the system says so."""
    tasks = Path("/proc/self/task")
    return sys.platform == "linux" and tasks.is_dir() and len(os.listdir(tasks)) == 1


def fork(serve: Serving) -> Forked:
    """Copy this process; the copy serves its pipes and ends.

    It begins with all that this process has imported, in milliseconds; so it is for one that has read nothing yet. Of
    what is open it keeps its pipes and the standard error.
    """
    taken, given = os.pipe(), os.pipe()
    try:
        pid = os.fork()
    except OSError as error:
        for end in (*taken, *given):
            os.close(end)
        raise StoreError(f"a further process cannot be started ({error.strerror})") from None
    if not pid:
        _serve_here(serve, taken[0], given[1])
    os.close(taken[0])
    os.close(given[1])
    return Forked(pid, os.fdopen(taken[1], "wb"), os.fdopen(given[0], "rb"))


def _serve_here(serve: Serving, taken: int, given: int) -> NoReturn:
    """The copy's side: nothing of what the process was at is gone on with, nor taken apart."""
    try:
        _close_others(taken, given)
        serve(os.fdopen(taken, "rb"), os.fdopen(given, "wb"))
    finally:
        os._exit(0)


def _close_others(*kept: int) -> None:
    """Close all files but the standard error and those kept; standard input and output lead nowhere."""
    first = 3
    for end in (*sorted(kept), os.sysconf("SC_OPEN_MAX")):
        os.closerange(first, end)
        first = end + 1
    nowhere = os.open(os.devnull, os.O_RDWR)
    os.dup2(nowhere, 0)
    os.dup2(nowhere, 1)
    os.close(nowhere)


def end_interpreter(child: subprocess.Popen[bytes] | Forked) -> None:
    """Close its pipes and wait for it to end."""
    if child.stdin is not None and not child.stdin.closed:
        try:
            child.stdin.close()
        except BrokenPipeError:
            pass
    if child.stdout is not None:
        child.stdout.close()  # first: nobody reads any more, and it must not wait for that
    child.wait()


def leave_quietly() -> NoReturn:
    """End this process at once, without a word where nobody reads what it wrote.

    Python would take apart what it holds first, which takes up to half a second after a build.
    """
    with contextlib.suppress(BrokenPipeError):
        sys.stdout.flush()
    sys.stderr.flush()
    os._exit(0)


def pipe_of(stream: Any) -> BinaryIO:
    """The pipe of a process that was started with one."""
    if stream is None:
        raise InternalError("a process of ours has no pipe")
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
