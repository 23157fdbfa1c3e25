"""A release of a small simulated census, its people, and other synthetic tables of them, in files."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd
from pipeline_fixture import CENSUS, tablepack, write_spec

CANARY = "Zzyzx-Canary-7731"
"""A value of the original that no message, and no publishable file, may hold."""
COLUMNS = ("age", "sex", "region", "income")
SETS = (("age",), ("sex",), ("region",), ("income",), ("age", "sex"), ("region", "sex"), ("age", "income"),
        ("age", "region", "sex"))  # fmt: skip
STUDY = """
title = "A short study"
[bins]
income = {ranks = 8}
[univariate]
[correlations]
columns = ["age", "income"]
[marginals]
width = 2
[[estimates]]
name = "mean age"
kind = "mean"
column = "age"
[risks]
quasi_identifiers = ["age", "region", "sex"]
targets = ["income"]
attempts = 60
model_rows = 100
linkage = {targets = 40}
"""


@dataclass(frozen=True)
class World:
    """Files of one custodian."""

    folder: Path
    release: Path
    data: Path
    study: Path
    spec: Path
    csv: Path
    parquet: Path
    control: Path
    original: pd.DataFrame
    synthetic: pd.DataFrame


def shuffled(frame: pd.DataFrame, seed: int, n: int = 500) -> pd.DataFrame:
    """Rows of independent columns."""
    rng = np.random.default_rng(seed)
    return pd.DataFrame({c: rng.permutation(frame[c].to_numpy())[:n] for c in frame})


def make_world(folder: Path, census: Path) -> World:
    """Build the release; write the other files."""
    spec = write_spec(
        folder,
        census / "people.parquet",
        {name: CENSUS[name] for name in ("person_id", *COLUMNS)},
        SETS,
    )
    release = folder / "ours.duckdb"
    assert tablepack("build", spec, "-o", release, cwd=folder).returncode == 0
    people = pd.read_parquet(census / "people.parquet")[list(COLUMNS)]
    people = people.assign(age=people["age"].astype(float), income=people["income"].astype(float))
    data, study = folder / "people.csv", folder / "short.study.toml"
    people.to_csv(data, index=False)
    study.write_text(STUDY)
    synthetic = shuffled(people, 3)
    synthetic.to_csv(folder / "theirs.csv", index=False)
    synthetic.to_parquet(folder / "theirs.parquet")
    shuffled(people, 4, 400).to_csv(folder / "control.csv", index=False)
    return World(
        folder=folder,
        release=release,
        data=data,
        study=study,
        spec=spec,
        csv=folder / "theirs.csv",
        parquet=folder / "theirs.parquet",
        control=folder / "control.csv",
        original=people,
        synthetic=synthetic,
    )
