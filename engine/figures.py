"""The catalogue of figures: what each one says, which direction is good, what it can be, and who says so.

Read from `figures.toml` beside it. Invariant: every figure that a measure or an attack returns is there.
"""

from __future__ import annotations

import tomllib
from importlib.resources import files

from engine.score import Figure


def _read() -> dict[str, Figure]:
    """The catalogue by `measure.value`, in the order of reports."""
    text = files("engine").joinpath("figures.toml").read_text(encoding="utf-8")
    return {
        f"{measure}.{value}": Figure(name=f"{measure}.{value}", **told)
        for measure, values in tomllib.loads(text).items()
        for value, told in values.items()
    }


FIGURES: dict[str, Figure] = _read()


def figures_of(*measures: str) -> tuple[Figure, ...]:
    """Return the figures of some measures or attacks, in their order."""
    return tuple(f for name, f in FIGURES.items() if name.partition(".")[0] in measures)
