"""What a picture is, and what it is drawn from: nouns, and checks of the frames that measures give.

Invariant: where the figures are not there, `NothingToDraw` says why; nothing is drawn from half of them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
import pandas as pd
from numpy.typing import NDArray


class NothingToDraw(Exception):
    """A picture's data are not there; says why. Never leaves this package."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Picture:
    """A picture, or why there is none."""

    title: str
    words: str = ""  # What is seen, and how to read it
    svg: str = ""  # Empty where there is none
    table: pd.DataFrame = field(default_factory=pd.DataFrame)  # The figures behind it
    why_not: str = ""
    is_wide: bool = False  # It wants more room than a column of the page


@dataclass(frozen=True, kw_only=True, slots=True)
class Group:
    """Pictures that belong together."""

    title: str
    words: str
    pictures: tuple[Picture, ...]


def needed(frame: pd.DataFrame | None, columns: Sequence[str]) -> pd.DataFrame:
    """Return a table that has all of some columns and a row."""
    if frame is None or not set(columns) <= set(frame.columns):
        raise NothingToDraw("the measure gives no figures to draw it from")
    if frame.empty:
        raise NothingToDraw("there are no figures to draw it from")
    return frame


def numbers(column: pd.Series) -> NDArray[np.float64]:
    """Return a column as floats; what is no number is NaN."""
    return np.asarray(pd.to_numeric(column, errors="coerce"), np.float64)
