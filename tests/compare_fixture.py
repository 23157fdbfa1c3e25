"""A spec small enough to be built many times, a builder of our own whose dp releases are as bad as we say, figures."""

from __future__ import annotations

from dataclasses import replace
from math import nan
from pathlib import Path

import numpy as np
import pandas as pd

from engine.compared import Compared, Run
from engine.release import build
from engine.spec import ReleaseSpec

SPEC = """
[release]
title = "Small"
vintage = "1"
key = "small.key"
notes = ["Nobody is described."]

[source]
path = "small.csv"

[columns.a]
kind = "category"
domain = ["a0", "a1", "a2"]
public = true
nullable = false

[columns.b]
kind = "category"
domain = ["b0", "b1", "b2", "b3", "b4"]
public = true
nullable = false

[columns.c]
kind = "integer"
domain = { min = 0, max = 39 }
public = true
nullable = false
breaks = [10, 20, 30]

[[tables]]
all = 1

[[tables]]
all = 2
"""
DP = """
[dp]
epsilon = 1.0
"""
ROWS = 700
TWO_WAY = "tables.s_pmse_2"


def make_small(folder: Path, *, dp: str = DP, more: str = "") -> Path:
    """Write data, key and spec; give the spec's path."""
    rng = np.random.default_rng(3)
    a = rng.integers(0, 3, ROWS)
    b = (a + rng.integers(0, 3, ROWS)) % 5
    c = (13 * a + rng.integers(0, 12, ROWS)) % 40
    frame = pd.DataFrame({"a": [f"a{i}" for i in a], "b": [f"b{i}" for i in b], "c": c})
    frame.to_csv(folder / "small.csv", index=False)
    (folder / "small.key").write_bytes(bytes(range(32)))
    (folder / "small.key").chmod(0o600)
    path = folder / "small.toml"
    path.write_text(SPEC + dp + more, "utf-8")
    return path


class Builder:
    """Builds every variant in sticky mode, dp ones from columns shuffled the more the smaller epsilon is.

    Attributes
    ----------
    seen : list of (ReleaseSpec, Path)
        What was asked for.
    """

    def __init__(self) -> None:
        self.seen: list[tuple[ReleaseSpec, Path]] = []

    def __call__(self, spec: ReleaseSpec, path: Path) -> object:
        self.seen.append((spec, path))
        frame = pd.read_csv(spec.source.path)
        if spec.mode == "dp" and spec.dp is not None and spec.dp.epsilon is not None:
            rng = np.random.default_rng(len(self.seen))
            moved = rng.random(len(frame)) < 1 / (1 + 3 * spec.dp.epsilon)
            frame.loc[moved, "a"] = rng.permutation(frame.loc[moved, "a"].to_numpy())
        source = path.with_name("shuffled.csv")
        frame.to_csv(source, index=False)
        other = replace(spec, mode="sticky", dp=None, source=replace(spec.source, path=str(source)))
        return build(other, path, jobs=1)


def made(**figures: dict[tuple[str, float | None], list[float]]) -> Compared:
    """A comparison with given values of each figure, by way."""
    ways = {way for values in figures.values() for way in values}
    runs = [
        Run(
            kind=kind,
            epsilon=epsilon,
            repeat=i + 1,
            figures={
                name.replace("__", "."): values[kind, epsilon][i]
                for name, values in figures.items()
                if i < len(values.get((kind, epsilon), ()))
            },
            seconds=0.5,
        )
        for kind, epsilon in ways
        for i in range(3)
    ]
    return Compared(
        title="<made> & up",
        runs=tuple(runs),
        epsilons=(0.5, 2.0),
        repeats=3,
        n_tables=4,
        n_rows=1000,
        notes=("a note",),
        version="0",
    )


VALUES = {
    ("sticky", None): [1.5, 1.1, 1.3],
    ("dp", 0.5): [30.0, 50.0, 40.0],
    ("dp", 2.0): [4.0, nan, 8.0],
    ("exact", None): [1.0],
}
