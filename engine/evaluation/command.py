"""Commands of others that read a file and write another: run with a limit, and ended with all that they started.

Takes words and a folder of scratch. Gives what the command came to, and the end of what it said, which is not masked:
whoever repeats it takes values of the data out. Invariant: no process of a command's group is left when it is over,
however it ends; what makes a session of its own cannot be reached.
"""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

_LONGEST = 1 << 16
"""Bytes of output that are kept."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Ended:
    """What a command came to."""

    code: int | None  # Of its exit; None: it ran too long and was ended
    said: str  # The end of its output and its errors


def run_command(words: Sequence[str], folder: Path, seconds: float) -> Ended:
    """Run a command until it ends, where the caller is, so that it reads as typed; then end what it left behind."""
    log = folder / "said.txt"
    with log.open("wb") as said:
        process = subprocess.Popen(
            list(words),
            stdin=subprocess.DEVNULL,
            stdout=said,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
        try:
            code = process.wait(seconds)
        except subprocess.TimeoutExpired:
            code = None
        finally:
            _end_group(process)
    with log.open("rb") as said:
        said.seek(max(log.stat().st_size - _LONGEST, 0))
        return Ended(code=code, said=said.read().decode("utf-8", "replace"))


def _end_group(process: subprocess.Popen[bytes]) -> None:
    """End a command and all of its group, whose number nobody else gets while one of them is left."""
    try:
        os.killpg(process.pid, signal.SIGKILL)
    except (ProcessLookupError, PermissionError):
        pass  # nobody is left, or on macOS only who has ended and is not waited for
    process.wait()
