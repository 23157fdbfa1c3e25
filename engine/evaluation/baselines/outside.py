"""Baselines outside of Python, or in an environment of their own: a command that reads a file and writes another.

Takes a command with the places `{in}` and `{out}` (and `{seed}`), as of R, or a recipe that lies beside this module.
Invariant: what a command prints is not trusted: a message repeats its last lines without numbers, without quoted texts
and without values of the data. CONFIDENTIAL: both files lie in the scratch folder alone.
"""

from __future__ import annotations

import os
import re
import shlex
import sys
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from engine.errors import DataError, SpecError
from engine.evaluation.baselines.baseline import Schema, assembled
from engine.evaluation.command import run_command
from engine.evaluation.data.reading import read_like
from engine.evaluation.study.model import Study
from engine.source import scratch_directory

SECONDS = 3600.0
"""A command that runs longer is stopped."""
LAST = 5
"""Lines of its output that a message repeats."""
_WIDEST = 160
_NUMBER = re.compile(r"[-+]?\d[\d.,]*(?:[eE][-+]?\d+)?")
_QUOTED = re.compile(r"'([^']*)'|\"([^\"]*)\"|`([^`]*)`")


@dataclass(frozen=True, kw_only=True, slots=True)
class Recipe:
    """How to run a published generator that is no dependency of ours."""

    module: str  # By which one sees that an interpreter can run it
    packages: str  # What `pip install` wants
    promise: str
    origin: str


RECIPES: Mapping[str, Recipe] = {
    "mst": Recipe(
        module="mbi",
        packages="mbi==2.0.0 pandas",
        promise=(
            "(epsilon, delta)-differential privacy of a person's row, epsilon 1 and delta 1e-9, if the values of each "
            "column are public; the recipe takes them from the data, which is outside of the guarantee."
        ),
        origin="theirs: estimation by Private-PGM (mbi); selection after McKenna, Miklau and Sheldon, arXiv:2108.04978",
    ),
}


@dataclass(frozen=True, kw_only=True, slots=True)
class Command:
    """A generator that is a command."""

    name: str
    words: tuple[str, ...]  # The command; `{in}`, `{out}` and `{seed}` are replaced in each word
    promise: str = "What its makers promise; tablepack knows nothing of it."
    origin: str = "theirs"
    seconds: float = SECONDS  # After which it is stopped

    def synthesize(
        self, frame: pd.DataFrame, schema: Schema, rng: np.random.Generator
    ) -> pd.DataFrame:
        """Return what the command makes of the rows; see `Baseline`. Blanks are empty fields.

        It is handed all columns; of what it gives, columns that are kept are replaced by those of the data.
        """
        schema.changed(frame)
        with scratch_directory() as folder:
            source, target = folder / "in.csv", folder / "out.csv"
            _whole(frame).to_csv(source, index=False)
            places = {
                "{in}": str(source),
                "{out}": str(target),
                "{seed}": str(rng.integers(2**31)),
            }
            hide = _hidden(frame)
            run([_filled(w, places) for w in self.words], self.name, self.seconds, folder, hide)
            if not target.is_file():
                raise DataError(f"{self.name}: ended well, but wrote no file {{out}}")
            found = _read(target, frame, self.name)
        require_alike(found, frame, self.name, as_many=bool(schema.kept))
        if schema.kept:
            found = found.head(len(frame))
        return assembled(found, {c: frame[c].reset_index(drop=True) for c in schema.kept})


def command_of(text: str, *, name: str = "", seconds: float = SECONDS) -> Command:
    """Return the baseline that a command is."""
    try:
        words = tuple(shlex.split(text))
    except ValueError as error:
        raise SpecError(f"command {text!r}: cannot be read: {error}") from None
    missing = [place for place in ("{in}", "{out}") if not any(place in w for w in words)]
    if not words or missing:
        raise SpecError(
            f"command {text!r}: lacks {' and '.join(missing)}; write it as 'cmd {{in}} {{out}}'"
        )
    return Command(name=name or Path(words[0]).name, words=words, seconds=seconds)


def recipe_of(name: str, python: str | None = None) -> Command:
    """Return a recipe as a baseline."""
    recipe = RECIPES[name]
    how = (
        f"make an environment for it (python -m venv .venv-{name}; .venv-{name}/bin/pip install {recipe.packages}) and "
        f"name its interpreter: --with {name}=.venv-{name}/bin/python"
    )
    if python is None and find_spec(recipe.module) is None:
        raise SpecError(
            f"{name}: is an outside generator, and {recipe.module} is not installed here; {how}"
        )
    if python is not None and not os.access(python, os.X_OK):
        raise SpecError(f"{name}: there is no interpreter {python}; {how}")
    script = Path(__file__).parent / "recipes" / f"{name}.py"
    return Command(
        name=name,
        words=(python or sys.executable, "-I", str(script), "{in}", "{out}", "{seed}"),
        promise=recipe.promise,
        origin=recipe.origin,
    )


def run(
    words: list[str], name: str, seconds: float, folder: Path, hide: Collection[str] = ()
) -> None:
    """Run a command until it ends, where the caller is."""
    try:
        ended = run_command(words, folder, seconds)
    except OSError as error:
        raise DataError(f"{name}: cannot be started: {error.strerror}") from None
    if ended.code is None:
        raise DataError(
            f"{name}: ran longer than {seconds:g} seconds and was stopped{_tail(ended.said, hide)}"
        )
    if ended.code:
        raise DataError(f"{name}: failed with exit code {ended.code}{_tail(ended.said, hide)}")


def _tail(said: str, hide: Collection[str]) -> str:
    """The last lines of what a command said, for a message."""
    lines = [line.strip() for line in said.splitlines() if line.strip()][-LAST:]
    shown = "\n".join(f"  {masked(line, hide)[:_WIDEST]}" for line in lines)
    return (
        f"; its last lines, without numbers and values:\n{shown}" if lines else "; it said nothing"
    )


def masked(line: str, hide: Collection[str]) -> str:
    """Return a line of foreign output without what may be a value of the data.

    hide: Texts of the data, in small letters. Numbers and quoted texts go in any case.
    """
    low = line.lower()
    for text in sorted((t for t in hide if t in low), key=len, reverse=True):
        line = re.sub(rf"(?<!\w){re.escape(text)}(?!\w)", "[...]", line, flags=re.IGNORECASE)
    line = _QUOTED.sub("'...'", line)
    return _NUMBER.sub("#", line)


def _hidden(frame: pd.DataFrame) -> set[str]:
    """Every text of the data, in small letters; numbers are hidden anyway."""
    texts: set[str] = set()
    for name in frame.columns:
        column = frame[name]
        if not pd.api.types.is_numeric_dtype(column):
            texts.update(str(v).strip().lower() for v in column.dropna().unique())
    return texts - {""}


def _whole(frame: pd.DataFrame) -> pd.DataFrame:
    """The frame with whole numbers written as such."""
    out = frame.copy()
    for name in frame.columns:
        column = frame[name]
        if pd.api.types.is_float_dtype(column):
            filled = column.dropna()
            if len(filled) and (filled.abs() < 2**53).all() and (filled == filled.round()).all():
                out[name] = column.astype("Int64")
    return out


def _filled(word: str, places: Mapping[str, str]) -> str:
    """A word of a command with its places filled."""
    for place, text in places.items():
        word = word.replace(place, text)
    return word


def _read(path: Path, frame: pd.DataFrame, name: str) -> pd.DataFrame:
    """What a command wrote, as the data is read."""
    try:
        return read_like(str(path), frame, Study(title=""), name=name)
    except DataError as error:
        told = str(error).replace(str(path), "the table that it wrote")
        raise DataError(f"{name}: {told}") from None


def require_alike(found: Any, frame: pd.DataFrame, name: str, *, as_many: bool = False) -> None:
    """Refuse a synthetic table that is none of the data's.

    as_many: It must have exactly as many rows, not at least.
    """
    if not isinstance(found, pd.DataFrame):
        raise DataError(f"{name}: gave a {type(found).__name__} and no table")
    there, wanted = [str(c) for c in found.columns], [str(c) for c in frame.columns]
    if sorted(there) != sorted(wanted):
        lacks = ", ".join(c for c in wanted if c not in there) or "none"
        more = ", ".join(c for c in there if c not in wanted) or "none"
        raise DataError(
            f"{name}: gave other columns than it was given; lacking: {lacks}; new: {more}"
        )
    if len(found) < len(frame) or (as_many and len(found) != len(frame)):
        raise DataError(
            f"{name}: gave {'other than as many' if len(found) > len(frame) else 'fewer'} rows than it was given"
        )
    blank = [c for c in wanted if found[c].isna().any() and not frame[c].isna().any()]
    if blank:
        raise DataError(f"{name}: gave blanks where there were none: {', '.join(blank)}")
