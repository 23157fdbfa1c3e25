"""Load the kernels of the mechanism, and compile those that never were."""

from __future__ import annotations

import numpy as np

from engine.kernels import report_compiling
from engine.keys import MasterKey
from engine.mechanism.bounds import RowBounds
from engine.mechanism.cells import AdditiveEntities, Cells, PairedEntities
from engine.mechanism.draws import StickyDraws
from engine.mechanism.forest import grow
from engine.params import PROFILES
from engine.progress import Progress, silent


def warm(report: Progress = silent) -> None:
    """Grow a forest of two cells."""
    report_compiling(_grow, report)


def _grow() -> None:
    lanes, at = np.zeros((2, 2), dtype=np.uint64), np.arange(2)
    cells = Cells(
        columns=("A",),
        codes=at[:, None],
        n_rows=np.array([9, 9]),
        entities=(
            AdditiveEntities(lanes=lanes),
            PairedEntities(cell=at, entity=at, n_rows=at + 1, tokens=lanes),
        ),
    )
    draws = StickyDraws(MasterKey(bytes(32)), "", PROFILES["standard"])
    grow(cells, (1,), draws, RowBounds(most=None, of_values={}))
