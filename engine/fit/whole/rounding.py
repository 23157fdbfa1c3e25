"""Controlled rounding: fitted cells to whole numbers whose margins are the published ones.

Cells that share all columns but one are a fibre. At the start fibres have their totals, and runs of neighbours are near
their fitted rows: in a fibre, and of two columns along both (engine/fit/whole/start.py). Then units are moved, at first
within fibres and then also in pairs between two of them, from sums of the other margins that are too large to ones
that are too small (engine/fit/whole/kernels.py). Released boxes stay near their fitted rows; more of that is given up
only where it brings every margin to its published counts.
Seeded by the sampling key; what decides an integer is a whole number, or made of + - * / in a fixed order.
Cox 1987, doi:10.1080/01621459.1987.10478456.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from engine.cell_keys import has_runs
from engine.fit.candidates import MarginBounds
from engine.fit.whole.kernels import FILLED, LOOSE, MEASURED, Sums, Units, go_on, until_idle
from engine.fit.whole.start import by_running_sums, in_halves
from engine.fit.whole.sums import asked_for, boxes_of, laid_out, tells
from engine.schema import FloatArray, Int64Array
from engine.sticky_prf import siphash

NARROWER, BOX, STIFF = 4, 1, 1 << 8
"""Weights of penalties: of the margins that are asked for; of boxes; of margins that moves for boxes must not cost."""
CAREFUL, BOLD, ANY = -12, (36, 52), 1 << 10
"""Most that a move may cost: where it is to gain enough, where it may cost boxes, and where it is made at any cost."""
PATIENCE, LEAST_PATIENCE, WORK = 10, 6, 1 << 18
"""Rounds that may go by without: in small tables, in large ones, and in between so many as look at WORK cells."""
BOLD_CELLS = 30_000
"""Larger tables have so many filled cells that hardly one of them comes out whole: not worth the time."""


def controlled_rounding(
    x: FloatArray,
    fibres: MarginBounds,
    others: Sequence[MarginBounds],
    one_way: MarginBounds,
    boxes: Int64Array,
    key: bytes,
    *,
    is_pair: bool = False,
) -> Int64Array:
    """Round cells to whole numbers.

    fibres: The narrower table without the column in which neighbours differ; its sums are exact.
    others: What else the table is locked to but for columns. Sums between two bounds were filled in: wanted
        is the number in the middle.
    is_pair: The table has two columns: fibres follow each other as the values of the other one do.

    Returns: All >= 0. Sums over fibres are as asked for; all others as nearly as the moves allow.
    """
    if not len(x):
        return np.zeros(0, dtype=np.int64)
    fibre = _numbered(fibres.of)
    order = np.lexsort((boxes, fibre))
    x, fibre, box = x[order], fibre[order], boxes[order]
    heads = np.flatnonzero(np.diff(fibre, prepend=-1))
    name = fibres.of[order[heads]]
    if is_pair and has_runs(len(heads), len(one_way.low), len(x)):
        n = in_halves(x, fibre, one_way.of[order], fibres.low[name], key)
    else:
        n = by_running_sums(x, fibres.low[name], heads, name, key)
    lot = (siphash(key, [np.arange(len(x), dtype=np.uint64)]) >> np.uint64(48)).astype(np.int64)
    code = one_way.of[order]
    units = Units(n, x, fibre, np.append(heads, len(x)), lot, code)
    narrower = [asked_for(m, order) for m in others]
    margins = [*narrower, asked_for(one_way, order), boxes_of(box, x)]
    # The column's counts follow from tables that have the column.
    implied = any(tells(margin.of, code) for margin in narrower)
    _Walk(units, laid_out(margins, n), is_column_asked=not implied).move_units()
    out = np.empty_like(n)
    out[order] = n
    return out


def _numbered(of: Int64Array) -> Int64Array:
    """Runs of equal neighbours, numbered from 0."""
    return np.cumsum(np.diff(of, prepend=-1) != 0) - 1


class _Walk:
    """Rounds of moves, and the way back. The last two margins are the column along the fibres, and boxes."""

    def __init__(self, units: Units, sums: Sums, *, is_column_asked: bool) -> None:
        self._units, self._sums, self._number = units, sums, 0
        n_margins = len(sums.of)
        self._column, self._boxes = n_margins - 2, n_margins - 1
        self._narrower = np.arange(self._column)
        self._asked = np.arange(self._column + is_column_asked)
        self._patience = min(max(WORK // len(units.n), LEAST_PATIENCE), PATIENCE)
        self._judged = np.append(self._asked, self._boxes)
        self._weights = np.append(np.full(len(self._asked), NARROWER), BOX)

    def move_units(self) -> None:
        """Move units until every sum that is asked for is met, or no round helps any more.

        First as long as no move costs boxes more than it is worth. Where that leaves faults, they may cost boxes more
        on their way; if some are left even so, nothing is won, and the boxes get back what they gave.
        """
        units, sums = self._units, self._sums
        if len(self._narrower):
            self._go_on(CAREFUL)
            if len(units.n) <= BOLD_CELLS:
                self._be_bold()
        else:
            until_idle(self._boxes, self._judged, self._weights, -1, units, sums)
            self._go_on(0)
        # What repair would do blindly; then boxes, where that costs nobody else.
        once = np.ones_like(self._narrower)
        until_idle(self._column, self._narrower, once, ANY, units, sums)
        every = np.arange(self._boxes + 1)
        stiff = np.append(np.full(self._boxes, STIFF), BOX)
        until_idle(self._boxes, every, stiff, -1, units, sums)

    def _go_on(self, most: int) -> int:
        """Make moves that cost no more than that, as long as it helps; return the least penalty, where it ends."""
        self._number, least = go_on(
            self._asked,
            self._judged,
            self._weights,
            most,
            self._number,
            self._patience,
            self._units,
            self._sums,
        )
        return least

    def _be_bold(self) -> None:
        """Ask for filled counts too, at more cost to boxes; all or nothing."""
        n, off = self._units.n.copy(), self._sums.off.copy()
        self._ask_for_filled(FILLED)
        if all(self._go_on(most) for most in BOLD):
            self._units.n[:], self._sums.off[:] = n, off
            self._ask_for_filled(LOOSE)

    def _ask_for_filled(self, kind: int) -> None:
        """From now on ask for filled counts, or let them be off by one."""
        of_narrower = self._sums.kind[: self._sums.base[self._column]]
        of_narrower[of_narrower != MEASURED] = kind
