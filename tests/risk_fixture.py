"""Attacks side by side with small tables, and what must hold of every risk."""

from __future__ import annotations

import numpy as np
import pandas as pd

from engine.figures import FIGURES
from engine.schema import column_set
from engine.score import WHOLE, Risk
from engine.study import Study
from engine.study_risks import Risks
from engine.utility.comparison import Comparison, Distinct, compare, distinct

BARE = Study(title="")


def rng() -> np.random.Generator:
    return np.random.default_rng(4)


def against(
    original: pd.DataFrame, *tables: pd.DataFrame | Distinct, control: pd.DataFrame | None = None
) -> Comparison:
    """Tables beside their original; a frame is a table of rows."""
    given = [t if isinstance(t, Distinct) else distinct(t) for t in tables]
    sets = {column_set(list(t.frame.columns)): t for t in given}
    return compare(original, sets, BARE, control=control)


def told(*known: str, **more) -> Risks:
    return Risks(quasi_identifiers=known, **more)


def checked(found: Risk) -> Risk:
    """Its figures are in the catalogue, within bounds, and either there or not computed."""
    for name, value in found.values.items():
        figure = FIGURES[f"{found.attack}.{name}"]
        assert figure.low <= value <= figure.high, name
    for name in found.why_not:
        assert name == WHOLE or f"{found.attack}.{name}" in FIGURES, name
        assert name not in found.values
    return found
