"""Tables of the simulated census with as many cells as the P tables of Raab 2022, which are not public."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
from dp_tables import Coded, coded

from engine.simulation import simulate_census

SEED = 2021
AGE_BREAKS = (16, 30, 45, 65)
COLUMNS = ("household_type", "health", "sex", "age", "marital_status", "education", "tenure")
"""P3, P5, P7: the first 3, 5 and 7; 70, 2,450 and 132,300 cells (published: 70, 2,100 and 94,500)."""
BLANK = "(blank)"


def census_tables(folder: Path, people: int) -> dict[str, Coded]:
    """Simulate a census of so many people into a folder, unless it is there, and code three tables of it."""
    place = folder / f"census-{people}"
    if not (place / "people.parquet").exists():
        simulate_census(place, people=people, seed=SEED)
    raw = pd.read_parquet(place / "people.parquet", columns=list(COLUMNS))
    frame = pd.DataFrame(index=raw.index)
    for name in COLUMNS:
        if name == "age":
            frame[name] = np.searchsorted(AGE_BREAKS, raw[name].to_numpy(), side="right")
        else:
            frame[name] = raw[name].astype(object).fillna(BLANK)
    domains = {name: sorted(frame[name].unique()) for name in COLUMNS}
    whole = coded(frame, domains)
    return {f"P{k}": whole.first(k) for k in (3, 5, 7)}
