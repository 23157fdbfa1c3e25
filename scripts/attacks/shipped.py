"""The specs that are shipped, with an even secret in the place of one of their columns."""

from __future__ import annotations

import re
import tempfile
import tomllib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd

import engine
from attacks.reconstructing import Secret
from attacks.structures import BIT
from attacks.trying import WHY, Stated, attacked, key_at, stated_of, unrounded
from engine.simulation import simulate_census

ROOT = Path(__file__).resolve().parents[2]
SHARED = ROOT.parent / "shared"
FILES = {"nist": SHARED / "nist" / "national2019.csv", "sd2011": SHARED / "synthpop" / "SD2011.csv"}
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
        """Plan a changed spec."""
        path = self.home / "spec.toml"
        path.write_text(text, "utf-8")
        return engine.plan(path)


def why_not(name: str) -> str | None:
    """Why a data set cannot be attacked."""
    file = FILES.get(name)
    return None if file is None or file.exists() else f"{file.name} is not in ../shared"


def frame_of(name: str, folder: Path, people: int, seed: int = 2021) -> pd.DataFrame:
    """The data of a shipped spec."""
    if name in FILES:
        return pd.read_csv(FILES[name], dtype=str, keep_default_na=False)
    simulate_census(folder / "simulated", people=people, seed=seed)
    return pd.read_parquet(folder / "simulated" / "people.parquet")


@contextmanager
def with_secret(
    name: str, column: str, seed: int, *, people: int = 20_000, tables: Sequence[Sequence[str]] = ()
) -> Iterator[Shipped]:
    """A shipped spec and its data, an even secret in the place of a column; or with other tables of it."""
    with tempfile.TemporaryDirectory() as folder:
        home = Path(folder)
        text = (ROOT / "releases" / f"{name}.toml").read_text("utf-8")
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
            (path.parent / "workload.json").symlink_to(SHARED / "nist" / "workload.json")
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
