"""Baselines outside of Python, or in an environment of their own: a command that reads a file and writes another.

Takes a command with the places `{in}` and `{out}` (and `{seed}`), as of R, or a recipe that lies beside this module.
How it is run: `engine.evaluation.command`.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from engine.errors import DataError, SpecError
from engine.evaluation.baselines.baseline import Baseline, Schema, assembled
from engine.evaluation.command import command_words, made_by
from engine.evaluation.data.reading import read_like
from engine.evaluation.study.model import Study

SECONDS = 3600.0
"""A command that runs longer is stopped."""


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


def command_of(
    text: str | Sequence[str],
    *,
    name: str = "",
    promise: str = "What its makers promise; tablepack knows nothing of it.",
    origin: str = "theirs",
    seconds: float = SECONDS,
) -> Baseline:
    """A command as a baseline; `{in}`, `{out}` and `{seed}` are replaced in each word, and blanks are empty fields.

    It is handed all columns; of what it gives, columns that are kept are replaced by those of the data.
    """
    words = command_words(text, "command") if isinstance(text, str) else tuple(text)
    called = name or Path(words[0]).name

    def synthesize(frame: pd.DataFrame, schema: Schema, rng: np.random.Generator) -> pd.DataFrame:
        schema.changed(frame)
        seed = int(rng.integers(2**31))
        with made_by(words, _whole(frame), called, seconds=seconds, seed=seed) as file:
            found = _read(file, frame, called)
        require_alike(found, frame, called, as_many=bool(schema.kept))
        if schema.kept:
            found = found.head(len(frame))
        return assembled(found, {c: frame[c].reset_index(drop=True) for c in schema.kept})

    return Baseline(name=called, promise=promise, origin=origin, synthesize=synthesize)


def recipe_of(name: str, python: str | None = None) -> Baseline:
    """A recipe as a baseline."""
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
    words = (python or sys.executable, "-I", str(script), "{in}", "{out}", "{seed}")
    return command_of(words, name=name, promise=recipe.promise, origin=recipe.origin)


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
