"""Generators that an audit runs: anything that makes rows of rows. A function of frames, or a command on CSV files.

What comes back is checked: columns, number of rows, blanks, values. Messages never hold a value of the data: of a
command's output they show the last lines, values masked.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import pandas as pd

from engine.errors import DataError, SpecError
from engine.evaluation.audit.domain import Cells, Domain, cells_of
from engine.evaluation.command import run_command
from engine.source import scratch_directory

Function = Callable[[pd.DataFrame], Any]
"""Takes a frame, gives a frame of as many rows and the same columns."""
LAST_LINES, LONGEST_LINE = 5, 200
FEWEST = 0.5
"""Fewer rows than this share of those given are refused: then it is not clear what was made."""
_BLANKS = ("", "NA", "NaN", "nan", "None", "NULL", "null", "<NA>", "N/A")
"""How commands write that there is no value."""
_WORD = re.compile(r"[\w.+-]+")


class Generator(Protocol):
    """Makes synthetic data of data, with randomness of its own."""

    @property
    def words(self) -> str:
        """What it is, for people."""

    def draw(self, data: Cells, rng: np.random.Generator) -> Cells:
        """Make synthetic data: combinations with numbers of rows, or shares."""


class FrameGenerator:
    """A Python function of frames.

    function: Takes a frame, gives another; must draw anew whenever it is called.
    """

    def __init__(self, domain: Domain, function: Function, words: str = "") -> None:
        self._domain = domain
        self._function = function
        self._words = words or f"the function {getattr(function, '__name__', 'given')}"

    @property
    def words(self) -> str:
        """What it is."""
        return self._words

    def draw(self, data: Cells, rng: np.random.Generator) -> Cells:
        """Run it on shuffled rows."""
        frame = self._domain.frame(data.rows(rng))
        try:
            made = self._function(frame)
        except Exception as error:  # noqa: BLE001  # of whatever kind: it is not our code
            told = masked(str(error), self._domain)
            raise DataError(f"the generator failed: {type(error).__name__}: {told}") from None
        if not isinstance(made, pd.DataFrame):
            raise DataError(f"the generator gave {type(made).__name__}, not a data frame")
        return checked(made, self._domain, n_rows=len(frame))


class CommandGenerator:
    """A command that reads a CSV file and writes another.

    command: With `{in}` and `{out}` where the paths of the files go; split as a shell does, run without one.
    """

    def __init__(self, domain: Domain, command: str, *, seconds: float = 600) -> None:
        if missing := [word for word in ("{in}", "{out}") if word not in command]:
            raise SpecError(
                f"--generator: lacks {' and '.join(missing)}: the command reads the file {{in}} and writes {{out}}"
            )
        try:
            self._parts = shlex.split(command)
        except ValueError as error:
            raise SpecError(f"--generator: {error}") from None
        self._domain = domain
        self._command = command
        self._seconds = seconds

    @property
    def words(self) -> str:
        """What it is."""
        return f"the command {self._command}"

    def draw(self, data: Cells, rng: np.random.Generator) -> Cells:
        """Run it in a scratch folder on shuffled rows."""
        frame = self._domain.frame(data.rows(rng))
        with scratch_directory() as folder:
            source, target = folder / "in.csv", folder / "out.csv"
            frame.to_csv(source, index=False)
            said = self._run(source, target)
            if not target.exists():
                raise DataError(f"the generator wrote no file {{out}}{_told(said, self._domain)}")
            try:
                made = _read(target, self._domain)
            except (ValueError, OSError):
                raise DataError("the generator's file {out} is no CSV") from None
        return checked(made, self._domain, n_rows=len(frame))

    def _run(self, source: Path, target: Path) -> str:
        """Run the command; what it said."""
        words = [
            part.replace("{in}", str(source)).replace("{out}", str(target)) for part in self._parts
        ]
        try:
            ended = run_command(words, source.parent, self._seconds)
        except OSError as error:
            raise DataError(f"the generator cannot be started: {error.strerror}") from None
        if ended.code is None:
            raise DataError(
                f"the generator ran for more than {self._seconds:g} seconds (--seconds) and was ended"
                f"{_told(ended.said, self._domain)}"
            )
        if ended.code:
            raise DataError(
                f"the generator ended with code {ended.code}{_told(ended.said, self._domain)}"
            )
        return ended.said


def _read(path: Path, domain: Domain) -> pd.DataFrame:
    """What a command wrote: texts as they stand, so that 01 stays 01, and NA is blank only where no value is NA."""
    texts = [c.name for c in domain.columns if any(isinstance(value, str) for value in c.values)]
    blanks = {
        c.name: [word for word in _BLANKS if c.name not in texts or word not in c.values]
        for c in domain.columns
    }
    return pd.read_csv(
        path, dtype=dict.fromkeys(texts, "string"), keep_default_na=False, na_values=blanks
    )


def checked(made: pd.DataFrame, domain: Domain, *, n_rows: int) -> Cells:
    """Count what a generator made."""
    strange = [str(name) for name in made.columns if name not in domain.names]
    missing = [name for name in domain.names if name not in made.columns]
    if strange or missing:
        told = [f"lacks {', '.join(missing)}"] if missing else []
        told += [f"has {len(strange)} that were not given"] if strange else []
        raise DataError(f"the generator gave other columns: {' and '.join(told)}")
    if len(made) < FEWEST * n_rows:
        raise DataError(
            f"the generator gave {len(made):,} rows of {n_rows:,}: an audit wants about as many as it gives"
        )
    codes = domain.coded(made, "what the generator gave")
    return cells_of(codes, domain.sizes)


def masked(text: str, domain: Domain) -> str:
    """Return text without the values of a domain."""
    values = [value for column in domain.columns for value in column.values if value is not None]
    known = {str(value) for value in values} | {
        str(float(value)) for value in values if not isinstance(value, str)
    }
    for value in sorted((v for v in known if not _WORD.fullmatch(v)), key=len, reverse=True):
        text = text.replace(value, "[value]") if value else text
    return _WORD.sub(lambda word: "[value]" if word.group() in known else word.group(), text)


def _told(text: str, domain: Domain) -> str:
    """The last lines of a command's output, for an error."""
    lines = [line[:LONGEST_LINE] for line in masked(text, domain).splitlines() if line.strip()]
    return ". It said: " + " | ".join(lines[-LAST_LINES:]) if lines else ". It said nothing"
