"""Results of a comparison of levers: nouns for the map, the JSON and the command line.

`engine.evaluation.compare.levers` makes them. CONFIDENTIAL: every figure holds the original beside the synthetic.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from math import isfinite
from typing import Any, Literal

from engine.evaluation.compare.risks import LOSS, RISKS, beside
from engine.evaluation.compare.runs import Spread, spread_of
from engine.evaluation.findings import Figure

Lever = Literal["spec", "threshold", "noise", "profile", "tables", "swapping"]
LEVERS: Mapping[Lever, str] = {
    "spec": "the spec",
    "threshold": "threshold",
    "noise": "noise",
    "profile": "profile",
    "tables": "fewer tables",
    "swapping": "swapping",
}
"""What the levers are called."""
FORMAT = 1


@dataclass(frozen=True, kw_only=True, slots=True)
class Setting:
    """One setting of the levers."""

    lever: Lever
    name: str  # For people: "threshold of mean 8"; "the spec" for the spec's own


@dataclass(frozen=True, kw_only=True, slots=True)
class Point:
    """One release that was built, held against the data, attacked and thrown away."""

    setting: Setting
    repeat: int  # Which of several alike, from 1 on; each has a key of its own
    figures: Mapping[str, float]  # The loss, and the risks that could be computed
    seconds: float  # To build it


@dataclass(frozen=True, kw_only=True, slots=True)
class LeverMap:
    """What a spec's levers cost, and what they gain."""

    title: str
    points: tuple[Point, ...]  # The first setting is the spec's own
    repeats: int
    n_tables: int
    n_rows: int  # Rows of the original
    has_control: bool  # Whether non_members were given
    notes: tuple[str, ...]  # What a reader must know
    version: str  # Of tablepack

    def settings(self) -> tuple[Setting, ...]:
        """Return the settings in the order of tables, the spec's own first."""
        return tuple(dict.fromkeys(point.setting for point in self.points))

    def figures(self) -> tuple[Figure, ...]:
        """Return the loss and those risks that any release has."""
        return tuple(f for f in (LOSS, *RISKS) if any(f.name in p.figures for p in self.points))

    def spread(self, figure: str, setting: Setting) -> Spread | None:
        """Return a figure over the repeats; None where no release has it."""
        return spread_of([p.figures.get(figure) for p in self.points if p.setting == setting])

    def verdict(self, setting: Setting) -> str:
        """Return what a setting gains and costs beside the spec's own, in words; empty for that one."""
        own = self.settings()[0]
        if setting == own:
            return ""
        return beside(self.figures(), lambda figure: _apart(self, figure, setting, own))


def _apart(found: LeverMap, figure: Figure, setting: Setting, own: Setting) -> float | None:
    """How much a setting's median lies above that of the spec's own."""
    one, other = (found.spread(figure.name, s) for s in (setting, own))
    return None if one is None or other is None else one.median - other.median


def map_document(found: LeverMap) -> dict[str, Any]:
    """Return a map as plain data, for JSON: no NaN, no infinity."""
    return {
        "confidential": True,
        "kind": "levers",
        "format": FORMAT,
        "title": found.title,
        "tablepack": found.version,
        "rows": found.n_rows,
        "tables": found.n_tables,
        "repeats": found.repeats,
        "control": found.has_control,
        "notes": list(found.notes),
        "figures": [
            {"name": f.name, "title": f.title, "words": f.words, "better": f.better}
            for f in found.figures()
        ],
        "summary": [
            {
                "lever": setting.lever,
                "setting": setting.name,
                "figure": figure.name,
                "median": spread.median,
                "low": spread.low,
                "high": spread.high,
                "n": spread.n,
            }
            for setting in found.settings()
            for figure in found.figures()
            if (spread := found.spread(figure.name, setting)) is not None
        ],
        "runs": [
            {
                "lever": point.setting.lever,
                "setting": point.setting.name,
                "repeat": point.repeat,
                "seconds": round(point.seconds, 3),
                "figures": {k: v for k, v in point.figures.items() if isfinite(v)},
            }
            for point in found.points
        ],
    }
