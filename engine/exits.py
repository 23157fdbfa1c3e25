"""How the command line ends: every error becomes one message on standard error and an exit code.

Takes the command line application; never returns. Invariant: the text of an error that is not one of our own is
never shown, for it may hold a value of the data; its kind and the place in our code are.
"""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable
from typing import NoReturn

from engine.console import notes
from engine.errors import InternalError, TablepackError, place_of

INTERRUPTED = 130
"""Exit code after Ctrl-C, as shells have it."""


def run_and_exit(app: Callable[[], object]) -> NoReturn:
    """Run an application and end the process with its exit code.

    Parameters
    ----------
    app : callable
        Raises what went wrong, or SystemExit.
    """
    signal.signal(signal.SIGTERM, _stop)
    code = _run(app)
    try:
        sys.stdout.flush()
    except BrokenPipeError:
        # Whoever read us (`| head`) has enough; the interpreter flushes once more as it ends.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    sys.exit(code)


def _run(app: Callable[[], object]) -> int:
    """Run an application; its exit code."""
    try:
        app()
    except SystemExit as leaving:
        if isinstance(leaving.__context__, BrokenPipeError):
            return 0
        if leaving.code == INTERRUPTED:
            _say_stopped()
        return leaving.code if isinstance(leaving.code, int) else 0
    except TablepackError as error:
        _say_error(_told(error))
        return error.exit_code
    except KeyboardInterrupt:
        _say_stopped()
        return INTERRUPTED
    except BrokenPipeError:
        return 0
    except Exception as error:  # noqa: BLE001  # whatever it is, its text may hold a value of the data
        _say_error(_told(InternalError(f"{type(error).__name__} in {place_of(error)}")))
        return InternalError.exit_code
    return 0


def _stop(*_: object) -> None:
    """End at a request to terminate as at Ctrl-C, so that nothing confidential is left behind."""
    raise KeyboardInterrupt


def _told(error: TablepackError) -> str:
    """The message of an error of ours."""
    if isinstance(error, InternalError):
        return f"InternalError: {error}; this is our bug, please report it"
    return str(error)


def _say_error(message: str) -> None:
    """Tell an error."""
    notes().print(f"error: {message}", soft_wrap=True, markup=False, style="red")


def _say_stopped() -> None:
    """Tell how to go on."""
    notes().print("stopped; run the same command again (a build goes on where it was)")
