"""Baselines by name, as `tablepack compare --with` takes them: cart, pram80, sample40, mst, a file, a command.

Takes what was typed; gives `Entrant`s. Invariant: every name that is allowed is in the message that refuses another.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from importlib import import_module
from importlib.metadata import EntryPoint, entry_points
from importlib.resources import files
from pathlib import Path

from engine.errors import SpecError
from engine.evaluation.baselines.baseline import Baseline
from engine.evaluation.baselines.outside import RECIPES, command_of, recipe_of
from engine.evaluation.baselines.partial import partial_synthesis

GROUP = "tablepack.baselines"
"""Entry points of other packages: a name, and a function that makes a `Baseline`, or what has its attributes."""
_ENDINGS = (".csv", ".csv.gz", ".parquet")
_NAMED = re.compile(r"^([a-z]+)(\d+(?:\.\d+)?)?$")


@dataclass(frozen=True, kw_only=True, slots=True)
class Listed:
    """A baseline of the catalogue."""

    run: str = ""  # module:function
    number: str = ""  # The option that a number behind the name sets; empty: there is none
    percent: bool = False  # The number is in percent
    example: str = ""
    plugin: EntryPoint | None = None

    def made(self, name: str, number: str | None) -> Baseline:
        """Return the baseline, with the number that stands behind its name."""
        module, _, of = self.run.partition(":")
        make: Callable[..., Baseline] = (
            getattr(import_module(module), of) if self.plugin is None else self.plugin.load()
        )
        if number is None:
            return make()
        if self.percent:
            return make(**{self.number: float(number) / 100})
        if float(number) != int(float(number)):
            raise SpecError(f"{name}: wants a whole number")
        return make(**{self.number: int(float(number))})


def _catalogue() -> Mapping[str, Listed]:
    """Baselines by name; our own come before those of other packages."""
    told = files("engine.evaluation.baselines").joinpath("baselines.toml").read_text("utf-8")
    own = {name: Listed(**fields) for name, fields in tomllib.loads(told).items()}
    others = {point.name: Listed(plugin=point) for point in entry_points(group=GROUP)}
    return own | {name: one for name, one in others.items() if name not in own}


@dataclass(frozen=True, kw_only=True, slots=True)
class Entrant:
    """What a release is compared with: a baseline, or a synthetic table that is there already."""

    name: str
    baseline: Baseline | None = None
    is_command: bool = False  # The baseline is a command of somebody else's
    path: Path | None = None  # Of a table; then there is no baseline

    @property
    def promise(self) -> str:
        """What it promises."""
        if self.baseline is not None:
            return self.baseline.promise
        return "What its makers promise; tablepack knows nothing of how it was made."

    @property
    def origin(self) -> str:
        """Whose code made it."""
        return "theirs: a file" if self.baseline is None else self.baseline.origin


def entrants(given: Sequence[str]) -> tuple[Entrant, ...]:
    """Return what is to be compared.

    given: Lists with commas between, of names, files, `NAME:COLUMN+COLUMN` (partial synthesis),
        `RECIPE=INTERPRETER`; or one command, `NAME=cmd {in} {out}`.
    """
    entries: list[str] = []
    for one in given:
        entries += [one] if "{" in one else [part.strip() for part in one.split(",")]
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


def entrant(entry: str) -> Entrant:
    """Return one of them; see `entrants`."""
    before, _, after = entry.partition("=")
    if "{" in entry:
        named = bool(after) and re.fullmatch(r"[\w.-]+", before) is not None
        baseline = command_of(after, name=before) if named else command_of(entry)
        return Entrant(name=baseline.name, baseline=baseline, is_command=True)
    if after and before in RECIPES:
        return Entrant(name=before, baseline=recipe_of(before, after), is_command=True)
    if entry.lower().endswith(_ENDINGS):
        path = Path(entry)
        if not path.is_file():
            raise SpecError(f"--with: there is no file {entry}")
        return Entrant(name=path.name.split(".")[0], path=path)
    name, _, columns = entry.partition(":")
    baseline = baseline_of(name)
    if columns:
        baseline = partial_synthesis(baseline, tuple(columns.split("+")))
    return Entrant(name=baseline.name, baseline=baseline, is_command=name in RECIPES)


def baseline_of(name: str) -> Baseline:
    """Return a baseline by its name."""
    catalogue, match = _catalogue(), _NAMED.match(name)
    if name in catalogue:
        return catalogue[name].made(name, None)
    if name in RECIPES:
        return recipe_of(name)
    if match is None or match[1] not in catalogue or not catalogue[match[1]].number:
        raise SpecError(f"--with: there is no baseline {name!r}; allowed: {allowed()}")
    return catalogue[match[1]].made(match[1], match[2])


def allowed() -> str:
    """What may be typed, in words."""
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
