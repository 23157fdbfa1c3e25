"""Build a structure with a key of its own, and hold what the product states against an attack on the files."""

from __future__ import annotations

import tempfile
import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

import engine
from attacks.reconstructing import (
    MOST_LP,
    Secret,
    belief,
    least_squares,
    linear_program,
    right_of,
    system_of,
)
from attacks.structures import PERSON, Structure
from engine.exposure import statement

WHY = "People are made up: their exposure is measured."
FINER = 1_000
"""Steps a share is stated in here, of so many in all, to hold it against attacks."""
MOST_EXPOSED, FEWEST = 0.005, 30


@contextmanager
def unrounded() -> Iterator[None]:
    """State shares in finer steps."""
    steps, statement.STEPS = statement.STEPS, FINER
    try:
        yield
    finally:
        statement.STEPS = steps


@dataclass(frozen=True, kw_only=True)
class Stated:
    """What is stated of one column."""

    most: float
    of_all: float
    is_refused: bool


def key_at(path: Path) -> Path:
    """A fresh key."""
    engine.new_key(path)
    return path


def given(found: Structure, key: Path, profile: str, **more: Any) -> dict[str, Any]:
    """Parameters of `engine.build` and `engine.plan`."""
    privacy = {"profile": profile, **found.privacy, **more.pop("privacy", {})}
    known = {"max_rows": found.max_rows} if found.max_rows else {}
    return {
        "key": key,
        "columns": found.columns,
        "entities": [PERSON],
        "privacy": privacy,
        **known,
        **more,
    }


def stated_of(exposure: Any, told: str) -> Stated:
    """What a plan states of a column, earlier builds counted."""
    groups = exposure.together or exposure.groups  # most exposed first
    one = next(group for group in groups if told in ("", group.told))
    return Stated(most=one.guessed, of_all=one.guessed_all, is_refused=exposure.is_refused)


def planned(found: Structure, profile: str = "standard") -> Stated:
    """What is stated of all tables of a structure, by one build."""
    with tempfile.TemporaryDirectory() as folder, unrounded():
        tables = [t for build in found.builds for t in build]
        key = key_at(Path(folder) / "trial.key")
        plan = engine.plan(found.frame, tables=tables, **given(found, key, profile))
    return stated_of(plan.exposure, found.told)


@contextmanager
def built(found: Structure, profile: str = "standard") -> Iterator[tuple[Stated, list[Path]]]:
    """All builds of a structure, whatever they tell."""
    with tempfile.TemporaryDirectory() as name, unrounded():
        folder = Path(name)
        key = key_at(folder / "trial.key")
        paths: list[Path] = []
        stated, release = None, None
        tables: list[tuple[str, ...]] = []
        for number, each in enumerate(found.builds):
            vintage = str(number + 1) if found.ways == "vintage" else "1"
            tables = [*tables, *each] if found.ways == "add" else list(each)
            if number == len(found.builds) - 1:
                plan = engine.plan(
                    found.frame, tables=tables, vintage=vintage, **given(found, key, profile)
                )
                stated = stated_of(plan.exposure, found.told)
            if found.ways == "add" and release is not None:
                release = release.add(each)
                continue
            path = folder / f"{number}.duckdb"
            accepted = given(found, key, profile, privacy={"accept_risk": WHY})
            release = engine.build(
                found.frame, out=path, tables=tables, vintage=vintage, **accepted
            )
            paths.append(path)
        if found.ways == "dp":
            path, known = (
                folder / "dp.duckdb",
                given(found, key_at(folder / "dp.key"), profile),
            )
            known["privacy"] = {}
            dp = {"epsilon": 4.0, "public_n": True, "each_row_from_one_entity": True}
            with warnings.catch_warnings(action="ignore"):
                engine.build(found.frame, out=path, tables=tables, dp=dp, **known)
            paths.append(path)
        yield stated, paths


def attacked(
    paths: Sequence[Path],
    secret: Secret,
    group: np.ndarray | None = None,
    solvers: Sequence[str] = ("lsqr", "belief"),
) -> dict[str, tuple[float, float]]:
    """How often secrets are guessed right, of all and of the most exposed, by solver."""
    out = {}
    for thresholds in (False, True):
        system = system_of(paths, secret, thresholds=thresholds)
        n = len(secret.truth)
        most = group
        if most is None:
            most = np.argsort(-system.ratio(), kind="stable")[
                : max(FEWEST, round(MOST_EXPOSED * n))
            ]
        solving = {"lsqr": least_squares, "belief": belief, "lp": linear_program}
        for name in solvers:
            if name == "lp" and (n > MOST_LP or thresholds):
                continue
            guess = solving[name](system)
            out[name + "+" * thresholds] = (
                right_of(guess, secret.truth),
                right_of(guess, secret.truth, most),
            )
    return out


def means(found: Sequence[Mapping[str, tuple[float, float]]]) -> dict[str, tuple[float, float]]:
    """Mean over keys."""
    return {
        name: tuple(float(np.mean([one[name][j] for one in found])) for j in (0, 1))  # type: ignore[misc]
        for name in found[0]
    }
