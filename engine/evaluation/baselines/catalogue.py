"""Baselines by name, as `tablepack compare --with` takes them: cart, pram80, sample40, mst, a file, a command.

Takes what was typed; gives `Entrant`s. Invariant: every name that is allowed is in the message that refuses another.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from engine.errors import SpecError
from engine.evaluation.baselines.anonymity import Anonymity
from engine.evaluation.baselines.baseline import Baseline
from engine.evaluation.baselines.cart import Cart
from engine.evaluation.baselines.dpmpm import Dpmpm
from engine.evaluation.baselines.margins import Margins
from engine.evaluation.baselines.microaggregation import Microaggregation
from engine.evaluation.baselines.outside import RECIPES, command_of, recipe_of
from engine.evaluation.baselines.parametric import Parametric
from engine.evaluation.baselines.partial import Partial
from engine.evaluation.baselines.pram import Pram
from engine.evaluation.baselines.sample import Sample
from engine.evaluation.baselines.swapping import Swapping

Make = Callable[[float | None], Baseline]
_ENDINGS = (".csv", ".csv.gz", ".parquet")
_NAMED = re.compile(r"^([a-z]+)(\d+(?:\.\d+)?)?$")


def _percent(number: float | None, otherwise: float) -> float:
    """A share of percent."""
    return otherwise if number is None else number / 100


def _whole(number: float | None, otherwise: int, name: str) -> int:
    """A whole number."""
    if number is not None and number != int(number):
        raise SpecError(f"{name}: wants a whole number")
    return otherwise if number is None else int(number)


NUMBERED: Mapping[str, tuple[Make, str]] = {
    "sample": (lambda p: Sample(share=_percent(p, 0.4)), "sample40: 40 % of the rows"),
    "bootstrap": (
        lambda p: Sample(share=_percent(p, 1.0), replace=True),
        "bootstrap100: as many rows, drawn with replacement",
    ),
    "pram": (lambda p: Pram(keep=_percent(p, 0.8)), "pram80: a value stays with a chance of 80 %"),
    "swap": (lambda p: Swapping(rate=_percent(p, 0.05)), "swap5: 5 % of the rows exchange areas"),
    "kanon": (lambda k: Anonymity(k=_whole(k, 5, "kanon")), "kanon5: classes of at least 5"),
    "mdav": (lambda k: Microaggregation(k=_whole(k, 3, "mdav")), "mdav3: groups of at least 3"),
}
"""With a number behind the name: how each is made, and an example."""
PLAIN: Mapping[str, Callable[[], Baseline]] = {
    "margins": Margins,
    "cart": Cart,
    "parametric": Parametric,
    "dpmpm": Dpmpm,
}


@dataclass(frozen=True, kw_only=True, slots=True)
class Entrant:
    """What a release is compared with: a baseline, or a synthetic table that is there already."""

    name: str
    baseline: Baseline | None = None
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
        baseline: Baseline = command_of(after, name=before) if named else command_of(entry)
        return Entrant(name=baseline.name, baseline=baseline)
    if after and before in RECIPES:
        return Entrant(name=before, baseline=recipe_of(before, after))
    if entry.lower().endswith(_ENDINGS):
        path = Path(entry)
        if not path.is_file():
            raise SpecError(f"--with: there is no file {entry}")
        return Entrant(name=path.name.split(".")[0], path=path)
    name, _, columns = entry.partition(":")
    baseline = baseline_of(name)
    if columns:
        baseline = Partial(baseline=baseline, columns=tuple(columns.split("+")))
    return Entrant(name=baseline.name, baseline=baseline)


def baseline_of(name: str) -> Baseline:
    """Return a baseline by its name."""
    if name in PLAIN:
        return PLAIN[name]()
    if name in RECIPES:
        return recipe_of(name)
    match = _NAMED.match(name)
    if match is None or match[1] not in NUMBERED:
        raise SpecError(f"--with: there is no baseline {name!r}; allowed: {allowed()}")
    return NUMBERED[match[1]][0](None if match[2] is None else float(match[2]))


def allowed() -> str:
    """What may be typed, in words."""
    return "; ".join(
        [
            ", ".join(PLAIN),
            *(words for _, words in NUMBERED.values()),
            f"{', '.join(RECIPES)} (outside, each with its interpreter: mst=.venv-mst/bin/python)",
            "NAME:COLUMN+COLUMN for these columns only",
            "a CSV or Parquet file",
            "a command, NAME='cmd {in} {out}'",
        ]
    )
