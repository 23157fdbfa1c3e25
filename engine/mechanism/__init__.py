"""The mechanism of mode sticky: cells in, noisy counts of snapped ranges out. Public, like the paper it follows.

Takes a `CellSource`, the keyed draws, the column sets wanted. Gives one `Measurement` a column set: buckets that passed
the threshold, each with its noisy count. Knows no file and no key but that of its draws: `engine.measure` runs it on
the rows of people, `engine.fit` replays a release on itself with it. May import the engine's root.
"""

from __future__ import annotations

from engine.mechanism.bounds import RowBounds, row_bounds
from engine.mechanism.cells import (
    AdditiveEntities,
    ArrayCells,
    Cells,
    CellSource,
    PairedEntities,
    Rows,
    chosen_share,
    grouped,
    stacked,
)
from engine.mechanism.draws import Draws, EntitySets, StickyDraws
from engine.mechanism.forest import grow, passing_runs
from engine.mechanism.measuring import (
    Measured,
    measure_columns,
    measure_total,
    measure_wider,
    passing,
)
from engine.mechanism.sums import summable

__all__ = [
    "AdditiveEntities",
    "ArrayCells",
    "CellSource",
    "Cells",
    "Draws",
    "EntitySets",
    "Measured",
    "PairedEntities",
    "RowBounds",
    "Rows",
    "StickyDraws",
    "chosen_share",
    "grouped",
    "grow",
    "measure_columns",
    "measure_total",
    "measure_wider",
    "passing",
    "passing_runs",
    "row_bounds",
    "stacked",
    "summable",
]
