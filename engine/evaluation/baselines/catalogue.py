"""Baselines by name, as `tablepack compare --with` takes them: cart, pram80, sample40, mst, a file, a command.

Takes what was typed; gives `Baseline`s. A command reads a file and writes another (`engine.evaluation.command`). Any
baseline can be applied to named columns only: Little, "Statistical analysis of masked data", Journal of Official
Statistics 9 (1993), 407-426. Invariants: every name that is allowed is in the message that refuses another; columns
that are not named come out as they went in.
"""

from __future__ import annotations

import math
import os
import re
import sys
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from importlib import import_module
from importlib.metadata import EntryPoint, entry_points
from importlib.resources import files
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from engine.errors import DataError, SpecError
from engine.evaluation.baselines.baseline import (
    Baseline,
    Schema,
    Synthesize,
    assembled,
    require_columns,
)
from engine.evaluation.command import command_words, made_by
from engine.evaluation.data.reading import read_like
from engine.evaluation.study import Study

# Partial synthesis


WARNING = (
    "Rows are those of people and all other columns are true: confidential until it is evaluated."
)


def partial_synthesis(baseline: Baseline, columns: tuple[str, ...]) -> Baseline:
    if not columns:
        raise SpecError(f"{baseline.name}: partial synthesis wants columns")
    name = f"{baseline.name}:{'+'.join(columns)}"

    def synthesize(frame: pd.DataFrame, schema: Schema, rng: np.random.Generator) -> Any:
        names = [str(c) for c in frame.columns]
        require_columns(names, columns, name)
        kept = tuple(c for c in names if c not in columns)
        return baseline.synthesize(frame, replace(schema, kept=kept), rng)

    promise = (
        f"Partial synthesis of {', '.join(columns)}. {WARNING} Of those columns: {baseline.promise}"
    )
    return replace(baseline, name=name, promise=promise, synthesize=synthesize)


# Commands, and recipes that lie beside this module


SECONDS = 3600.0
"""A command that runs longer is stopped."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Recipe:
    module: str  # By which one sees that an interpreter can run it
    packages: str  # What `pip install` wants
    promise: str
    origin: str


TEXTS = tomllib.loads(
    files("engine.evaluation.baselines").joinpath("baselines.toml").read_text("utf-8")
)
RECIPES = {name: Recipe(**fields) for name, fields in TEXTS.pop("recipes").items()}


def command_of(
    text: str | Sequence[str],
    *,
    name: str = "",
    promise: str = "What its makers promise; tablepack cannot check it.",
    origin: str = "theirs",
    seconds: float = SECONDS,
) -> Baseline:
    """A command as a baseline; `{in}`, `{out}` and `{seed}` are replaced in each word, and blanks are empty fields.

    It is handed all columns; of what it gives, columns that are kept are replaced by those of the data.
    """
    words = command_words(text, "command") if isinstance(text, str) else tuple(text)
    called = name or Path(words[0]).name

    def synthesize(frame: pd.DataFrame, schema: Schema, rng: np.random.Generator) -> Any:
        schema.changed(frame)
        found = table_of(words, frame, called, seconds=seconds, seed=int(rng.integers(2**31)))
        require_alike(found, frame, called, as_many=bool(schema.kept))
        if schema.kept:
            found = found.head(len(frame))
        return assembled(found, {c: frame[c].reset_index(drop=True) for c in schema.kept})

    return Baseline(
        name=called, promise=promise, origin=origin, synthesize=synthesize, kind="outside"
    )


def recipe_of(name: str, python: str | None = None) -> Baseline:
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


def table_of(
    words: Sequence[str], frame: pd.DataFrame, name: str, *, seconds: float, seed: int = 0
) -> pd.DataFrame:
    """The table that a command makes of rows, read as these are; numbers that are whole are written so."""
    whole = frame.copy()
    for column in frame.select_dtypes("float"):
        filled = frame[column].dropna()
        if len(filled) and (filled.abs() < 2**53).all() and (filled == filled.round()).all():
            whole[column] = frame[column].astype("Int64")
    with made_by(words, whole, name, seconds=seconds, seed=seed) as file:
        try:
            return read_like(str(file), frame, Study(title=""), name=name)
        except DataError as error:
            reason = str(error).replace(str(file), "the table that it wrote")
            raise DataError(f"{name}: {reason}") from None


def require_alike(found: Any, frame: pd.DataFrame, name: str, *, as_many: bool = False) -> None:
    """Refuse a synthetic table that is none of the data's."""
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


# By name


GROUP = "tablepack.baselines"
"""Entry points of other packages: a name, and a function that makes a `Baseline`, or what has its attributes."""
_ENDINGS = (".csv", ".csv.gz", ".parquet")
_NAMED = re.compile(r"^([a-z]+)(\d+(?:\.\d+)?)?$")


@dataclass(frozen=True, kw_only=True, slots=True)
class Listed:
    """A baseline of the catalogue."""

    run: str = ""  # module:function
    promise: str = ""  # With {n}, the number behind the name, and {others}, one less
    origin: str = "ours"
    number: str = ""  # The option that a number behind the name sets; empty: there is none
    default: float = 0  # The number where none is behind the name
    low: float = 0  # low, high: What it may be
    high: float = math.inf
    percent: bool = False  # The number is in percent
    example: str = ""
    plugin: EntryPoint | None = None

    def made(self, name: str, number: str | None) -> Baseline:
        if self.plugin is not None:
            other = self.plugin.load()()
            told = {field: getattr(other, field) for field in ("name", "promise", "origin")}
            return Baseline(synthesize=other.synthesize, **told)
        module, _, of = self.run.partition(":")
        run: Synthesize = getattr(import_module(module), of)
        if self.number:
            n = self.default if number is None else float(number)
            if not self.percent and n != int(n):
                raise SpecError(f"{name}: wants a whole number")
            if not self.low <= n <= self.high:
                raise SpecError(
                    f"{name}: wants a number from {self.low:g} to {self.high:g} ({self.example})"
                )
            run = partial(run, **{self.number: n / 100 if self.percent else int(n)})
            name, promise = f"{name}{n:g}", self.promise.format(n=f"{n:g}", others=f"{n - 1:g}")
            return Baseline(name=name, promise=promise, origin=self.origin, synthesize=run)
        return Baseline(name=name, promise=self.promise, origin=self.origin, synthesize=run)


def _catalogue() -> Mapping[str, Listed]:
    """Baselines by name; our own come before those of other packages."""
    own = {name: Listed(**fields) for name, fields in TEXTS.items()}
    others = {point.name: Listed(plugin=point) for point in entry_points(group=GROUP)}
    return own | {name: one for name, one in others.items() if name not in own}


def of_file(path: Path) -> Baseline:
    """A synthetic table that is there already."""
    if not path.is_file():
        raise SpecError(f"--with: there is no file {path}")
    return Baseline(
        name=path.name.split(".")[0],
        promise="What its makers promise; tablepack does not know how it was made.",
        synthesize=lambda *_: path,
        origin="theirs: a file",
        kind="file",
        path=path,
    )


def entrants(given: Sequence[str]) -> tuple[Baseline, ...]:
    """Return what is to be compared."""
    entries: list[str] = []
    for one in given:
        # Commas of a command are its own; names may stand before it.
        listed, command = re.fullmatch(r"((?:[^\s={},]+,)*)(.*)", one, re.DOTALL).groups()  # type: ignore[union-attr]
        rest = [command] if "{" in command else command.split(",")
        entries += [part.strip() for part in (*listed.split(","), *rest)]
    found = [entrant(entry) for entry in entries if entry]
    names = [one.name for one in found]
    # A file called as a baseline is: cart.csv beside cart.
    found = [
        replace(one, name=one.path.name) if one.path and names.count(one.name) > 1 else one
        for one in found
    ]
    names = [one.name for one in found]
    if twice := sorted({n for n in names if names.count(n) > 1}):
        raise SpecError(f"--with: {', '.join(twice)} is there twice")
    if not found:
        raise SpecError(f"--with: names nothing; allowed: {allowed()}")
    return tuple(found)


def entrant(entry: str) -> Baseline:
    before, _, after = entry.partition("=")
    if "{" in entry:
        named = bool(after) and re.fullmatch(r"[\w.-]+", before) is not None
        return command_of(after, name=before) if named else command_of(entry)
    if after and before in RECIPES:
        return recipe_of(before, after)
    if entry.lower().endswith(_ENDINGS):
        return of_file(Path(entry))
    name, _, columns = entry.partition(":")
    baseline = baseline_of(name)
    return partial_synthesis(baseline, tuple(columns.split("+"))) if columns else baseline


def baseline_of(name: str) -> Baseline:
    catalogue, match = _catalogue(), _NAMED.match(name)
    if name in catalogue:
        return catalogue[name].made(name, None)
    if name in RECIPES:
        return recipe_of(name)
    if match is None or match[1] not in catalogue or not catalogue[match[1]].number:
        raise SpecError(f"--with: there is no baseline {name!r}; allowed: {allowed()}")
    return catalogue[match[1]].made(match[1], match[2])


def allowed() -> str:
    catalogue = _catalogue()
    return "; ".join(
        [
            ", ".join(name for name, one in catalogue.items() if not one.number),
            *(one.example for one in catalogue.values() if one.number),
            f"{', '.join(RECIPES)} (outside, each with its interpreter: mst=.venv-mst/bin/python)",
            "NAME:COLUMN+COLUMN for these columns only",
            "a CSV or Parquet file",
            "a command, NAME='cmd {in} {out}'",
        ]
    )
