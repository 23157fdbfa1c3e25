"""The command line and its entry point: however a command ends, it prints one message and sets an exit code.

Takes arguments.
Gives text, JSON and exit codes.
May import everything.

`main` handles Ctrl-C and SIGTERM before it imports anything slow, so that a command can be stopped cleanly at any
moment: exit code 130 or 143 and one sentence.
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

STOPPED = "stopped; run the same command again (an interrupted build resumes)"
GRACE_S = 2.0
"""Seconds during which a second signal does not interrupt the clean-up that the first one started."""
_RETRY_S = 0.02
_RECHECK_S = 0.5
"""Seconds after which we check that the exception we raised was not swallowed."""
_IMPORT = "<frozen importlib._bootstrap>"
ENVIRONMENT = {"OPENBLAS_THREAD_TIMEOUT": "4", "PYDANTIC_DISABLE_PLUGINS": "__all__"}
"""Environment variables that libraries read when they are imported: idle OpenBLAS threads sleep at once instead of
spinning, and no third-party pydantic plugin is loaded, so that none can read a spec."""


class SignalHandler:
    """Handler for Ctrl-C and SIGTERM: raises in the main thread and records which signal it was.

    Libraries may convert the exception into one of their own before it reaches the top; `received` keeps the reason.

    received: Number of the signal; 0: none.
    """

    def __init__(self) -> None:
        self.received = 0
        self._since = 0.0
        self._is_over = False
        self._is_loading = False
        self._is_waiting = False  # until a module is imported
        self._has_sigterm = False  # a SIGTERM arrived while a Ctrl-C was being handled
        self._handled: BaseException | None = (
            None  # the exception being handled when we raised ours
        )
        self._exit_code: int | None = None

    @property
    def code(self) -> int:
        """Exit code, by the convention of shells."""
        return 128 + self.received

    def __call__(self, number: int, frame: FrameType | None = None) -> None:
        """Raise, unless the command is over or an earlier signal is still being handled."""
        now = time.monotonic()
        if self._is_over:
            return
        if self.received and now - self._since < GRACE_S:
            self._has_sigterm = self._has_sigterm or number == signal.SIGTERM
            return
        may_wait = not self.received  # an import may hang: the second signal does not wait for it
        self.received, self._since = self.received or number, now
        if self._is_loading:
            # C libraries abort if an exception is raised while they load; nothing is open yet that needs closing.
            _print_plain(STOPPED)
            os._exit(self.code)
        self._raise(frame, may_wait=may_wait)

    def raise_pending(self, _number: int = 0, frame: FrameType | None = None) -> None:
        """Raise the received signal again if it had to wait or something swallowed it."""
        if not self.received or self._is_over:
            return
        handled = sys.exc_info()[1]
        if self._is_waiting or handled is None or handled is self._handled:
            self._raise(frame)
        else:
            self._wake_in(_RECHECK_S)

    def _raise(self, frame: FrameType | None, *, may_wait: bool = True) -> None:
        """Raise, and check later that it took effect; wait a moment while a module is being imported.

        C libraries abort in the middle of an import, and Python's compiler swallows exceptions that end a process.
        """
        self._is_waiting = may_wait and _is_importing(frame) and self._wake_in(_RETRY_S)
        if self._is_waiting:
            return
        self._handled = sys.exc_info()[1]
        self._wake_in(_RECHECK_S)
        # SIGTERM does not raise KeyboardInterrupt, because the SQL prompt continues after that.
        raise KeyboardInterrupt if self.received == signal.SIGINT else SystemExit(self.code)

    def _wake_in(self, seconds: float) -> bool:
        """Schedule `raise_pending`; False if this is not the handler of the process."""
        is_ours = signal.getsignal(signal.SIGALRM) == self.raise_pending
        if is_ours:
            signal.setitimer(signal.ITIMER_REAL, seconds)
        return is_ours

    def clear_interrupt(self) -> bool:
        """Mark a Ctrl-C as dealt with, as the SQL prompt does; whether there was one."""
        was_interrupt = self.received == signal.SIGINT
        if was_interrupt:
            self.received, self._handled = signal.SIGTERM if self._has_sigterm else 0, None
            self._is_waiting = bool(self.received) and self._wake_in(_RETRY_S)
        return was_interrupt

    def __enter__(self) -> None:
        """Begin the part of a command that a signal ends."""

    def __exit__(self, *_: object) -> None:
        """After a signal ignore further ones, so that resources are released undisturbed."""
        if self.received:
            self.close()

    @contextmanager
    def loading(self) -> Iterator[None]:
        """Exit at once on a signal, while modules are imported and nothing is open."""
        self._is_loading = True
        try:
            yield
        finally:
            self._is_loading = False

    def close(self) -> None:
        """Ignore all further signals, also during interpreter shutdown: the command is over."""
        self._is_over, self._handled = True, None
        signal.setitimer(signal.ITIMER_REAL, 0)
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGALRM):
            signal.signal(number, signal.SIG_IGN)

    def exit_with(self, code: int) -> NoReturn:
        """Exit with this code."""
        self._exit_code = code
        sys.exit(code)

    def exit_now(self) -> None:
        """Exit without freeing Python's objects one by one, which takes half a second; the last of the exit hooks."""
        if self._exit_code is not None:
            for stream in (sys.stdout, sys.stderr):
                with suppress(OSError, ValueError):
                    stream.flush()
            os._exit(self._exit_code)

    def on_unraisable(self, unraisable: Any) -> None:
        """Hook for exceptions that Python cannot raise where they occur: ours is raised a moment later."""
        if self.received and issubclass(unraisable.exc_type, KeyboardInterrupt | SystemExit):
            self._wake_in(_RETRY_S)
        else:
            sys.__unraisablehook__(unraisable)

    def on_thread_exception(self, args: Any) -> None:
        """Hook for exceptions in other threads: silent once the command is being stopped."""
        if not self.received:
            threading.__excepthook__(args)


def signal_handler() -> SignalHandler | None:
    """Return the handler of Ctrl-C in this process; None if it is not the command line's."""
    handler = signal.getsignal(signal.SIGINT)
    return handler if isinstance(handler, SignalHandler) else None


def loading() -> AbstractContextManager[None]:
    """Import modules in this context: see `SignalHandler.loading`."""
    handler = signal_handler()
    return nullcontext() if handler is None else handler.loading()


def main() -> NoReturn:
    """Run the command line; every error becomes one message and an exit code."""

    def application() -> None:
        _check_arguments(sys.argv)
        for name, value in ENVIRONMENT.items():
            os.environ.setdefault(name, value)
        with loading():
            from engine.cli.app import app
        app()

    run_and_exit(application)


def _check_arguments(arguments: list[str]) -> None:
    """Refuse arguments that are not UTF-8 here, before code that assumes text fails on them."""
    for position, argument in enumerate(arguments[1:], 1):
        try:
            argument.encode("utf-8")
        except UnicodeEncodeError as error:
            raise SpecError(
                f"argument {position}: not valid UTF-8 at character {error.start + 1}; statements, names and paths "
                "must be UTF-8"
            ) from None


def run_and_exit(application: Callable[[], object]) -> NoReturn:
    """Run an application and end the process with its exit code."""
    handler = SignalHandler()
    code = 0
    if _is_program():
        atexit.register(handler.exit_now)  # registered first, so run last
    try:
        signal.signal(signal.SIGINT, handler)
        signal.signal(signal.SIGTERM, handler)
        signal.signal(signal.SIGALRM, handler.raise_pending)
        sys.unraisablehook = handler.on_unraisable
        threading.excepthook = handler.on_thread_exception
        code = _exit_code(application, handler)
        _flush()
        handler.close()
    except BaseException:
        handler.close()
        if not handler.received:
            raise
    if handler.received:
        code = handler.code
        _print_plain(STOPPED)
        _mute_stderr()
    handler.exit_with(code)


def _is_importing(frame: FrameType | None) -> bool:
    """Whether a module is being imported in this frame or in one of its callers, up to `run_and_exit`."""
    while frame is not None and frame.f_code is not run_and_exit.__code__:
        if frame.f_code.co_filename == _IMPORT:
            return True
        frame = frame.f_back
    return False


def _is_program() -> bool:
    """Whether this process is the command itself, not a program that calls `main`."""
    return getattr(sys.modules.get("__main__"), "main", None) is main


def _mute_stderr() -> None:
    """Discard further errors: during shutdown C libraries report leaks of what the signal left open."""
    with suppress(OSError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), 2)


def _exit_code(application: Callable[[], object], handler: SignalHandler) -> int:
    """Run an application and return its exit code."""
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
            _print_error(_message(error))
        return error.exit_code
    except Exception as error:  # noqa: BLE001  # the text of a foreign error may contain a value of the data
        bug = InternalError(f"{type(error).__name__} in {place_of(error)}")
        if not handler.received:
            _print_error(_message(bug))
        return bug.exit_code
    return 0


def _message(error: TablepackError) -> str:
    """The text that is printed for one of our errors."""
    if isinstance(error, InternalError):
        return f"InternalError: {error}; this is a bug in tablepack, please report it"
    return str(error)


def _print_error(message: str) -> None:
    from engine.cli.console import notes

    notes().print(f"error: {message}", soft_wrap=True, markup=False, style="red")


def _print_plain(message: str) -> None:
    """Print a sentence on standard error without importing anything."""
    try:
        sys.stderr.write(message + "\n")
        sys.stderr.flush()
    except (OSError, ValueError):
        return


def _flush() -> None:
    """Flush standard output."""
    if not sys.stdout:  # closed by the shell (`>&-`)
        return
    try:
        sys.stdout.flush()
    except BrokenPipeError:
        # The reader has closed the pipe (`| head`); the interpreter would flush once more as it exits.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
