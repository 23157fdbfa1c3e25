"""Commands of others that read a CSV file and write another: run with a limit, and ended with all that they started.

Takes words with the places `{in}` and `{out}` (and `{seed}`), and rows. Gives the file that the command wrote.
CONFIDENTIAL: both files lie in a scratch folder alone. Invariants: no process of a command's group is left when it is
over, however it ends (what makes a session of its own cannot be reached); what a command prints is not trusted: a
message repeats its last lines without numbers, without quoted texts and without values of the data.
"""

from __future__ import annotations

import os
import re
import shlex
import signal
import subprocess
from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

import pandas as pd

from engine.errors import DataError, SpecError
from engine.source import scratch_directory

_LONGEST = 1 << 16
"""Bytes of output that are kept."""
_LAST, _WIDEST = 5, 160
"""Lines of it that a message repeats, and their characters."""
_NUMBER = re.compile(r"[-+]?\d[\d.,]*(?:[eE][-+]?\d+)?")
_QUOTED = re.compile(r"'([^']*)'|\"([^\"]*)\"|`([^`]*)`")


def command_words(text: str, who: str) -> tuple[str, ...]:
    """Split a command as a shell does; it must say where the names of the files go."""
    try:
        words = tuple(shlex.split(text))
    except ValueError as error:
        raise SpecError(f"{who} {text!r}: cannot be read: {error}") from None
    missing = [place for place in ("{in}", "{out}") if not any(place in w for w in words)]
    if not words or missing:
        raise SpecError(
            f"{who} {text!r}: lacks {' and '.join(missing)}; write it as 'cmd {{in}} {{out}}'"
        )
    return words


@contextmanager
def made_by(
    words: Sequence[str], frame: pd.DataFrame, who: str, *, seconds: float, seed: int = 0
) -> Iterator[Path]:
    """Run a command on rows, in scratch; yields the file that it wrote."""
    with scratch_directory() as folder:
        source, target = folder / "in.csv", folder / "out.csv"
        frame.to_csv(source, index=False)
        places = {"{in}": str(source), "{out}": str(target), "{seed}": str(seed)}
        filled = [re.sub(r"\{(in|out|seed)\}", lambda m: places[m.group()], w) for w in words]
        try:
            ended = run_command(filled, folder, seconds)
        except OSError as error:
            raise DataError(f"{who}: cannot be started: {error.strerror}") from None
        if ended.code != 0:
            what = (
                f"ran longer than {seconds:g} seconds and was stopped"
                if ended.code is None
                else f"failed with exit code {ended.code}"
            )
            lines = [line.strip() for line in ended.said.splitlines() if line.strip()][-_LAST:]
            hide = texts_of(frame)
            shown = "\n".join(f"  {masked(line, hide)[:_WIDEST]}" for line in lines)
            last = f"; its last lines, without numbers and values:\n{shown}"
            raise DataError(f"{who}: {what}{last if lines else '; it said nothing'}")
        if not target.is_file():
            raise DataError(f"{who}: ended well, but wrote no file {{out}}")
        yield target


def texts_of(frame: pd.DataFrame) -> set[str]:
    """Return every text of the data, in small letters; numbers are masked anyway."""
    texts: set[str] = set()
    for name in frame.columns:
        if not pd.api.types.is_numeric_dtype(frame[name]):
            texts.update(str(v).strip().lower() for v in frame[name].dropna().unique())
    return texts - {""}


def masked(line: str, hide: Collection[str]) -> str:
    """Return a line of foreign output without what may be a value of the data."""
    low = line.lower()
    for text in sorted((t for t in hide if t in low), key=len, reverse=True):
        line = re.sub(rf"(?<!\w){re.escape(text)}(?!\w)", "[...]", line, flags=re.IGNORECASE)
    line = _QUOTED.sub("'...'", line)
    return _NUMBER.sub("#", line)


@dataclass(frozen=True, kw_only=True, slots=True)
class Ended:
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
            # Its group, whose number nobody else gets while one of them is left. Nobody is left, or on macOS only who
            # has ended and is not waited for, where that fails.
            with suppress(ProcessLookupError, PermissionError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()
    with log.open("rb") as said:
        said.seek(max(log.stat().st_size - _LONGEST, 0))
        return Ended(code=code, said=said.read().decode("utf-8", "replace"))
