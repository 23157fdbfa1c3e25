"""Whether records of a release really were exchanged, as its cards say: an observer's check, who holds the data.

Noise alone leaves an error of the same size in every released cell. An exchange moves people between cells: where it
touches a table its errors are larger than in tables that it does not touch, which are the control.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from engine.evaluation.attacks import Held
from engine.evaluation.attacks.protocol import cells
from engine.schema import ColumnSet

MOVED = 1.5
"""Times as large the mean square of errors is at least where records were exchanged."""
FEWEST = 30
"""Rows of a cell that is looked at: hardly anybody moves into or out of a smaller one."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Errors:
    """Errors of released cells, as multiples of the noise that is stated.

    Attributes
    ----------
    touched, untouched : float
        Mean squares in tables whose cards say that records were exchanged, and in all others; NaN: there are none.
    """

    touched: float
    untouched: float

    @property
    def is_swapped(self) -> bool:
        """Whether the tables show what the cards say."""
        return self.touched > MOVED * self.untouched


def errors_of(attacked: Held, cards: Mapping[ColumnSet, Mapping[str, Any]]) -> Errors:
    """Hold the cells of a release's tables of two and more columns against the data.

    Parameters
    ----------
    cards : dict of ColumnSet to dict
        As stored in the release.
    """
    squares: dict[bool, list[np.ndarray]] = {True: [], False: []}
    for view in attacked.views:
        if len(view.columns) > 1:
            found = cells(attacked.aligned, view)
            kept = found.is_released & (found.truth >= FEWEST)
            off = np.square(found.shown - found.truth)[kept] / view.noise_sd**2
            squares[bool(cards[view.columns].get("swap"))].append(off)
    means = {
        side: float(np.concatenate(found).mean()) if found else float("nan")
        for side, found in squares.items()
    }
    return Errors(touched=means[True], untouched=means[False])
