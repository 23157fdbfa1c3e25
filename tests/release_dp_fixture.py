"""A small source, its spec in mode dp, and where to find both."""

from __future__ import annotations

import numpy as np
import pandas as pd
from pipeline_fixture import write_spec

from engine.spec import read_spec

N = 3_000
COLUMNS = {
    "pid": {"kind": "integer"},
    "age": {"kind": "integer", "domain": {"min": 0, "max": 105}, "public": True,
            "breaks": [15, 30, 65], "nullable": False},
    "job": {"kind": "category", "domain": ["a", "b", "c"], "public": True,
            "universe": {"column": "age", "min": 15}},
    "region": {"kind": "category", "domain": ["R1", "R2", "R3"], "public": True, "nullable": False},
    "sex": {"kind": "category", "domain": ["f", "m"], "public": True, "nullable": False},
}  # fmt: skip
WIDEST = ("age", "job", "region", "sex")
TABLES = [
    ("age",),
    ("region",),
    ("age", "sex"),
    ("job", "region"),
    ("age", "region", "sex"),
    WIDEST,
]
PLANTED = 105
"""An age that nobody of the source has."""


def people(n: int = N, seed: int = 1) -> pd.DataFrame:
    rng = np.random.default_rng(seed)
    age = rng.integers(0, 95, n)
    return pd.DataFrame(
        {
            "pid": np.arange(n) + 7_360_194_528_371,
            "age": age,
            "job": np.where(age < 15, None, rng.choice(list("abc"), n, p=[0.6, 0.3, 0.1])),
            "region": rng.choice(["R1", "R2", "R3"], n, p=[0.5, 0.3, 0.2]),
            "sex": rng.choice(["f", "m"], n),
        }
    )


def spec_in(folder, *, tables=TABLES, dp: str = "epsilon = 5.0\nbudget = 12.0", columns=COLUMNS):
    """A spec with its source and key in a folder."""
    if not (folder / "rows.parquet").exists():
        people().to_parquet(folder / "rows.parquet")
    path = write_spec(
        folder, "rows.parquet", columns, tables, entities=("pid",), release={"mode": "dp"}
    )
    path.write_text(path.read_text() + f"[dp]\n{dp}\n")
    return read_spec(path)
