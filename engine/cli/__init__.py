"""The command line and its entry point: however a command ends, it prints one message and sets an exit code.

Takes arguments.
Gives text, JSON and exit codes.
May import everything.

Ctrl-C and SIGTERM end a command with exit code 130 or 143 and one sentence; while modules are imported and nothing is
open yet, with the signal itself.
"""

from __future__ import annotations

import atexit
import os
import signal
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from types import FrameType
from typing import NoReturn

from engine.errors import InternalError, SpecError, TablepackError, place_of

STOPPED = "stopped; run the same command again (an interrupted build resumes)"
GRACE_S = 2.0
"""Seconds during which a second signal does not interrupt the clean-up that the first one started."""
_SIGNALS = signal.SIGINT, signal.SIGTERM
ENVIRONMENT = {"OPENBLAS_THREAD_TIMEOUT": "4", "PYDANTIC_DISABLE_PLUGINS": "__all__"}
"""Environment variables that libraries read when they are imported: idle OpenBLAS threads sleep at once instead of
spinning, and no third-party pydantic plugin is loaded, so that none can read a spec."""


class SignalHandler:
    """Raises in the main thread, and records which signal it was: libraries turn what is raised into their own errors.

    received: Number of the signal; 0: none, or a Ctrl-C that was dealt with, as by the SQL prompt.
    """

    def __init__(self) -> None:
        self.received = 0
        self._since = 0.0

    def __call__(self, number: int, _frame: FrameType | None) -> None:
        now = time.monotonic()
        if self.received and now - self._since < GRACE_S:
            return
        self.received, self._since = number, now
        # SIGTERM does not raise KeyboardInterrupt, because the SQL prompt continues after that.
        raise KeyboardInterrupt if number == signal.SIGINT else SystemExit(128 + number)


def signal_handler() -> SignalHandler | None:
    """Return the handler of Ctrl-C in this process; None if it is not the command line's."""
    handler = signal.getsignal(signal.SIGINT)
    return handler if isinstance(handler, SignalHandler) else None


@contextmanager
def loading() -> Iterator[None]:
    """Import modules in this context: a signal ends the process, for C libraries abort if they are interrupted."""
    if signal_handler() is None:
        yield
        return
    before = {number: signal.signal(number, signal.SIG_DFL) for number in _SIGNALS}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


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
    code: int | None = None
    if _is_program():
        atexit.register(lambda: _exit_now(code))  # registered first, so run last
    for number in _SIGNALS:
        signal.signal(number, handler)
    try:
        code = _exit_code(application, handler)
        _flush()
    except BaseException:
        if not handler.received:
            raise
    for number in _SIGNALS:  # the command is over
        signal.signal(number, signal.SIG_IGN)
    if handler.received and code in (None, 128 + handler.received):
        code = 128 + handler.received
        _print_plain(STOPPED)
        _mute_stderr()
    sys.exit(code)


def _exit_now(code: int | None) -> None:
    """Exit without freeing Python's objects one by one, which takes half a second; not where an error was raised."""
    if code is None:
        return
    for stream in (sys.stdout, sys.stderr):
        with suppress(OSError, ValueError):
            stream.flush()
    os._exit(code)


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
        application()
    except SystemExit as leaving:
        if handler.received:
            return 128 + handler.received
        if isinstance(leaving.__context__, BrokenPipeError):
            return 0
        return leaving.code if isinstance(leaving.code, int) else 0
    except BrokenPipeError:
        return 0
    except KeyboardInterrupt:
        handler.received = handler.received or signal.SIGINT
        return 128 + handler.received
    except TablepackError as error:
        if handler.received:
            return 128 + handler.received
        _print_error(_message(error))
        return error.exit_code
    except Exception as error:  # noqa: BLE001  # the text of a foreign error may contain a value of the data
        if handler.received:  # a library made another error of it
            return 128 + handler.received
        bug = InternalError(f"{type(error).__name__} in {place_of(error)}")
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
