"""The command line, and its door: every command ends with one message and an exit code, whatever ends it.

Takes arguments.
Gives text, JSON and exit codes.
May import everything.

`main` catches Ctrl-C and SIGTERM before it
imports anything that takes time, so that a command ends cleanly at any moment: exit code 130 or 143, one sentence.
"""

from __future__ import annotations

import atexit
import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from types import FrameType
from typing import Any, NoReturn

from engine.errors import InternalError, SpecError, TablepackError, place_of

STOPPED = "stopped; run the same command again (a build goes on where it was)"
PATIENCE = 2.0
"""Seconds in which a second signal does not disturb what the first one ended."""
_AGAIN = 0.02
_LOOK = 0.5
"""Seconds after which it is looked whether what was raised still ends the command."""
_IMPORT = "<frozen importlib._bootstrap>"
ENVIRONMENT = {"OPENBLAS_THREAD_TIMEOUT": "4", "PYDANTIC_DISABLE_PLUGINS": "__all__"}
"""What libraries read as they are loaded: threads of OpenBLAS that have nothing to add up sleep at once, instead of
keeping a processor busy for a while; and no plugin of others is looked for, or sees what a spec says."""


class Ending:
    """Handler of Ctrl-C and SIGTERM: raises in the main thread, and remembers which it was.

    What comes out at the top may be another exception (libraries turn it into theirs); `received` says why.

    received: Number of the signal; 0: none.
    """

    def __init__(self) -> None:
        self.received = 0
        self._since = 0.0
        self._is_over = False
        self._is_loading = False
        self._is_waiting = False  # for a module to be loaded
        self._is_to_end = False  # by a SIGTERM that came while a Ctrl-C was under way
        self._beside: BaseException | None = None  # what was being handled when it was raised
        self._last: int | None = None

    @property
    def code(self) -> int:
        """Exit code, as shells have it."""
        return 128 + self.received

    def __call__(self, number: int, frame: FrameType | None = None) -> None:
        """Raise, unless all is over or what the signal before began is under way."""
        now = time.monotonic()
        if self._is_over:
            return
        if self.received and now - self._since < PATIENCE:
            self._is_to_end = self._is_to_end or number == signal.SIGTERM
            return
        may_wait = not self.received  # a module may never be loaded
        self.received, self._since = self.received or number, now
        if self._is_loading:
            # Libraries of C abort where something is raised while they load; nothing is open yet that has to be closed.
            _say(STOPPED)
            os._exit(self.code)
        self._raise(frame, may_wait=may_wait)

    def again(self, _number: int = 0, frame: FrameType | None = None) -> None:
        """Raise what was received, where it had to wait, or something swallowed it: it is not being handled then."""
        if not self.received or self._is_over:
            return
        handled = sys.exc_info()[1]
        if self._is_waiting or handled is None or handled is self._beside:
            self._raise(frame)
        else:
            self._wake_in(_LOOK)

    def _raise(self, frame: FrameType | None, *, may_wait: bool = True) -> None:
        """Raise, and look later whether it counts; a moment later where a module is being loaded.

        Libraries of C abort in the middle of that, and Python's own compiler swallows what ends a process.
        """
        self._is_waiting = may_wait and _is_importing(frame) and self._wake_in(_AGAIN)
        if self._is_waiting:
            return
        self._beside = sys.exc_info()[1]
        self._wake_in(_LOOK)
        # SIGTERM is no KeyboardInterrupt: a prompt goes on after that.
        raise KeyboardInterrupt if self.received == signal.SIGINT else SystemExit(self.code)

    def _wake_in(self, seconds: float) -> bool:
        """Have `again` called later; False where this is not the handler of the process."""
        is_ours = signal.getsignal(signal.SIGALRM) == self.again
        if is_ours:
            signal.setitimer(signal.ITIMER_REAL, seconds)
        return is_ours

    def forget(self) -> bool:
        """Take a Ctrl-C as answered, as a prompt does; whether there was one and nothing else."""
        was_asked = self.received == signal.SIGINT
        if was_asked:
            self.received, self._beside = signal.SIGTERM if self._is_to_end else 0, None
            self._is_waiting = bool(self.received) and self._wake_in(_AGAIN)
        return was_asked

    def __enter__(self) -> None:
        """Begin what a signal ends."""

    def __exit__(self, *_: object) -> None:
        """Hear no more where it was ended: what it held is let go of undisturbed."""
        if self.received:
            self.close()

    @contextmanager
    def loading(self) -> Iterator[None]:
        """End at once at a signal, while modules are loaded and nothing is open."""
        self._is_loading = True
        try:
            yield
        finally:
            self._is_loading = False

    def close(self) -> None:
        """Ignore what comes from now on, also while Python ends: the command is over."""
        self._is_over, self._beside = True, None
        signal.setitimer(signal.ITIMER_REAL, 0)
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGALRM):
            signal.signal(number, signal.SIG_IGN)

    def leave_with(self, code: int) -> NoReturn:
        """End with this exit code."""
        self._last = code
        sys.exit(code)

    def leave(self) -> None:
        """End at once, after all else that is done as Python ends: to take apart what it holds takes half a second."""
        if self._last is not None:
            for stream in (sys.stdout, sys.stderr):
                with suppress(OSError, ValueError):
                    stream.flush()
            os._exit(self._last)

    def ignored(self, what: Any) -> None:
        """Hook for exceptions that Python cannot raise where they happen: ours is raised a moment later."""
        if self.received and issubclass(what.exc_type, KeyboardInterrupt | SystemExit):
            self._wake_in(_AGAIN)
        else:
            sys.__unraisablehook__(what)

    def in_thread(self, what: Any) -> None:
        """Hook for exceptions of other threads: silent once all is being ended."""
        if not self.received:
            threading.__excepthook__(what)


def ending() -> Ending | None:
    """Return what handles Ctrl-C in this process; None where that is not the command line."""
    handler = signal.getsignal(signal.SIGINT)
    return handler if isinstance(handler, Ending) else None


def loading() -> AbstractContextManager[None]:
    """Load modules in this context: see `Ending.loading`."""
    handler = ending()
    return nullcontext() if handler is None else handler.loading()


def main() -> NoReturn:
    """Run the command line; every error becomes one message and an exit code."""

    def application() -> None:
        _check_words(sys.argv)
        for name, value in ENVIRONMENT.items():
            os.environ.setdefault(name, value)
        with loading():
            from engine.cli.app import app
        app()

    run_and_exit(application)


def _check_words(words: list[str]) -> None:
    """Refuse arguments that are no text: nothing behind could name them, or find them."""
    for place, word in enumerate(words[1:], 1):
        try:
            word.encode("utf-8")
        except UnicodeEncodeError as error:
            raise SpecError(
                f"argument {place}: is not UTF-8 (its character {error.start + 1}); statements, names and paths are"
            ) from None


def run_and_exit(application: Callable[[], object]) -> NoReturn:
    """Run an application and end the process with its exit code."""
    handler = Ending()
    code = 0
    if _is_program():
        atexit.register(handler.leave)  # what is registered first is done last
    try:
        signal.signal(signal.SIGINT, handler)
        signal.signal(signal.SIGTERM, handler)
        signal.signal(signal.SIGALRM, handler.again)
        sys.unraisablehook = handler.ignored
        threading.excepthook = handler.in_thread
        code = _exit_code(application, handler)
        _flush()
        handler.close()
    except BaseException:
        handler.close()
        if not handler.received:
            raise
    if handler.received:
        code = handler.code
        _say(STOPPED)
        _silence()
    handler.leave_with(code)


def _is_importing(frame: FrameType | None) -> bool:
    """Whether a module is being loaded in this frame or in one that called it, up to the door."""
    while frame is not None and frame.f_code is not run_and_exit.__code__:
        if frame.f_code.co_filename == _IMPORT:
            return True
        frame = frame.f_back
    return False


def _is_program() -> bool:
    """Whether this process is the command, and not one that calls it."""
    return getattr(sys.modules.get("__main__"), "main", None) is main


def _silence() -> None:
    """Print nothing more: libraries of C report leaks while Python ends, of what the signal left open."""
    with suppress(OSError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), 2)


def _exit_code(application: Callable[[], object], handler: Ending) -> int:
    """Run an application; its exit code."""
    try:
        with handler:
            application()
    except SystemExit as leaving:
        if isinstance(leaving.__context__, BrokenPipeError):
            return 0
        return leaving.code if isinstance(leaving.code, int) else 0
    except BrokenPipeError:
        return 0
    except KeyboardInterrupt:
        handler.received = handler.received or signal.SIGINT
    except TablepackError as error:
        if not handler.received:
            _note(f"error: {_message(error)}")
        return error.exit_code
    except Exception as error:  # noqa: BLE001  # whatever it is, its text may hold a value of the data
        bug = InternalError(f"{type(error).__name__} in {place_of(error)}")
        if not handler.received:
            _note(f"error: {_message(bug)}")
        return bug.exit_code
    return 0


def _message(error: TablepackError) -> str:
    """The message of an error of ours."""
    if isinstance(error, InternalError):
        return f"InternalError: {error}; this is our bug, please report it"
    return str(error)


def _note(message: str) -> None:
    """Print an error on standard error."""
    from engine.cli.console import notes

    notes().print(message, soft_wrap=True, markup=False, style="red")


def _say(message: str) -> None:
    """Print a sentence with nothing that would have to be imported."""
    try:
        sys.stderr.write(message + "\n")
        sys.stderr.flush()
    except (OSError, ValueError):
        return


def _flush() -> None:
    """Write what is left of the output."""
    if not sys.stdout:  # closed by the shell (`>&-`)
        return
    try:
        sys.stdout.flush()
    except BrokenPipeError:
        # Whoever read us (`| head`) has enough; the interpreter flushes once more as it ends.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
