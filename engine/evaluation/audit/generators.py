"""Generators that an audit runs: anything that makes rows of rows. A function of frames, or a command on CSV files.

What comes back is checked: columns, number of rows, blanks, values. Messages never hold a value of the data; see
`engine.evaluation.command`.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import pandas as pd

from engine.errors import DataError
from engine.evaluation.audit.domain import Cells, Domain, cells_of
from engine.evaluation.command import command_words, made_by, masked, texts_of

Function = Callable[[pd.DataFrame], Any]
"""Takes a frame, gives a frame of as many rows and the same columns."""
FEWEST = 0.5
"""Fewer rows than this share of those given are refused: then it is not clear what was made."""
_BLANKS = ("", "NA", "NaN", "nan", "None", "NULL", "null", "<NA>", "N/A")
"""How commands write that there is no value."""


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
            told = masked(str(error), texts_of(frame))
            raise DataError(f"the generator failed: {type(error).__name__}: {told}") from None
        if not isinstance(made, pd.DataFrame):
            raise DataError(f"the generator gave {type(made).__name__}, not a data frame")
        return checked(made, self._domain, n_rows=len(frame))


class CommandGenerator:
    """A command that reads a CSV file and writes another.

    command: With `{in}` and `{out}` where the paths of the files go; split as a shell does, run without one.
    """

    def __init__(self, domain: Domain, command: str, *, seconds: float = 600) -> None:
        self._words = command_words(command, "--generator")
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
        with made_by(self._words, frame, "the generator", seconds=self._seconds) as file:
            try:
                made = _read(file, self._domain)
            except (ValueError, OSError):
                raise DataError("the generator's file {out} is no CSV") from None
        return checked(made, self._domain, n_rows=len(frame))


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
