"""Hold what is stated of a structure, or of a shipped spec with an even secret, against an attack on the files."""

from __future__ import annotations

import re
import tempfile
import tomllib
import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import study

import engine
from attacks.reconstructing import (
    Secret,
    belief,
    least_squares,
    right_of,
    system_of,
)
from attacks.structures import BIT, PERSON, Structure
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
    most: float
    of_all: float
    is_refused: bool


def key_at(path: Path) -> Path:
    engine.new_key(path)
    return path


def given(found: Structure, key: Path, profile: str, **more: Any) -> dict[str, Any]:
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
    groups = exposure.together or exposure.groups  # most exposed first
    one = next(group for group in groups if told in ("", group.told))
    return Stated(most=one.guessed, of_all=one.guessed_all, is_refused=exposure.is_refused)


def planned(found: Structure, profile: str = "standard") -> Stated:
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
        solving = {"lsqr": least_squares, "belief": belief}
        for name in solvers:
            guess = solving[name](system)
            out[name + "+" * thresholds] = (
                right_of(guess, secret.truth),
                right_of(guess, secret.truth, most),
            )
    return out


def means(found: Sequence[Mapping[str, tuple[float, float]]]) -> dict[str, tuple[float, float]]:
    return {
        name: tuple(float(np.mean([one[name][j] for one in found])) for j in (0, 1))  # type: ignore[misc]
        for name in found[0]
    }


# --- shipped specs, with an even secret in the place of one of their columns

FILES = {name: study.FOLDERS[name] / file for name, file in study.FILES.items()}
SECTION = r"(?ms)^\[columns\.{}\]\n.*?(?=^\[)"
DECLARED = (
    '[columns.{}]\nkind = "category"\ndomain = ["0", "1"]\npublic = true\nnullable = false\n\n'
)


@dataclass(frozen=True, kw_only=True)
class Shipped:
    """A shipped spec beside its data."""

    text: str
    home: Path
    secret: Secret

    def plan(self, text: str) -> engine.release.Plan:  # type: ignore[name-defined]
        path = self.home / "spec.toml"
        path.write_text(text, "utf-8")
        return engine.plan(path)


def why_not(name: str) -> str | None:
    file = FILES.get(name)
    return None if file is None or file.exists() else f"{file.name} is not in ../shared"


def frame_of(name: str, folder: Path, people: int, seed: int = 2021) -> pd.DataFrame:
    if name in FILES:
        return pd.read_csv(FILES[name], dtype=str, keep_default_na=False)
    return pd.read_parquet(study.census_file(folder / "simulated", people, seed))


@contextmanager
def with_secret(
    name: str, column: str, seed: int, *, people: int = 20_000, tables: Sequence[Sequence[str]] = ()
) -> Iterator[Shipped]:
    """A shipped spec and its data, an even secret in the place of a column; or with other tables of it."""
    with tempfile.TemporaryDirectory() as folder:
        home = Path(folder)
        text = (study.RELEASES / f"{name}.toml").read_text("utf-8")
        text, n = re.subn(SECTION.format(column), DECLARED.format(column), text)
        if n != 1:
            raise ValueError(f"{name}.toml must declare {column} once")
        text = re.sub(r"(?m)^accept_risk = .*\n", "", text)
        if "[privacy]" not in text:
            text = text.replace("[source]", "[privacy]\n\n[source]", 1)
        if tables:
            text = text[: text.index("[[tables]]")]
            text += "".join(f"[[tables]]\ncolumns = {list(t)}\n" for t in tables)
        spec = tomllib.loads(text)
        data = frame_of(name, home, people)
        bit = np.random.default_rng([50, seed]).integers(0, 2, len(data))
        data[column] = bit.astype(str)
        path = home / spec["source"]["path"]
        path.parent.mkdir(parents=True)
        if path.suffix == ".csv":
            data.to_csv(path, index=False)
        else:
            data.to_parquet(path)
        if name == "nist":
            (path.parent / "workload.json").symlink_to(study.NIST / "workload.json")
        key = home / spec["release"]["key"]
        key.parent.mkdir(parents=True, exist_ok=True)
        key_at(key)
        nulls = [*spec["source"].get("nulls", []), ""]
        known = data.mask(data.isin(nulls)) if path.suffix == ".csv" else data
        secret = Secret(
            known=known, person=np.arange(len(data)), truth=2 * bit - 1, shown={column: BIT}
        )
        yield Shipped(text=text, home=home, secret=secret)


def tried(
    name: str, column: str, seed: int, **more: object
) -> tuple[Stated, dict[str, tuple[float, float]], int]:
    """What is stated of the secret in a column, and how often it is guessed right; and the number of tables."""
    with with_secret(name, column, seed, **more) as found, unrounded():  # type: ignore[arg-type]
        plan = found.plan(found.text)
        stated = stated_of(plan.exposure, column)
        text = found.text.replace("[privacy]", f'[privacy]\naccept_risk = "{WHY}"', 1)
        (found.home / "spec.toml").write_text(text, "utf-8")
        out = found.home / "release.duckdb"
        engine.build(found.home / "spec.toml", out=out)
        return stated, attacked([out], found.secret, solvers=("lsqr",)), len(plan.tables)
