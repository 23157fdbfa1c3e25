"""Controlled rounding: fitted cells to whole numbers whose margins are the published ones.

Cells that share all columns but one are a fibre. At the start fibres have their totals, and runs of neighbours are near
their fitted rows: in a fibre, and of two columns along both (engine/fit/whole/start.py). Then units are moved, at first
within fibres and then also in pairs between two of them, from sums of the other margins that are too large to ones
that are too small (engine/fit/whole/walks.py). Released boxes stay near their fitted rows; more of that is given up
only where it brings every margin to its published counts.
Seeded by the sampling key; what decides an integer is a whole number, or made of + - * / in a fixed order.
Cox 1987, doi:10.1080/01621459.1987.10478456.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from engine.cell_keys import has_runs
from engine.fit.candidates import MarginBounds
from engine.fit.whole.start import by_running_sums, in_halves
from engine.fit.whole.steps import Steps, steps_of
from engine.fit.whole.sums import FILLED, LOOSE, FittedSums, Moving, asked_for
from engine.schema import FloatArray, Int64Array
from engine.sticky_prf import siphash

NARROWER, BOX, STIFF = 4, 1, 1 << 8
"""Weights of penalties: of the margins that are asked for; of boxes; of margins that moves for boxes must not cost."""
CAREFUL, BOLD, ANY = -12, (36, 52), 1 << 10
"""Most that a move may cost: where it is to gain enough, where it may cost boxes, and where it is made at any cost."""
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
    moving = Moving(
        n=n,
        x=x,
        fibre=fibre,
        heads=np.append(heads, len(x)),
        lot=(siphash(key, [np.arange(len(x), dtype=np.uint64)]) >> np.uint64(48)).astype(np.int64),
        narrower=tuple(asked_for(m, order, n) for m in others),
        one_way=asked_for(one_way, order, n),
        boxes=FittedSums(box, np.bincount(box, weights=x).astype(np.float64), n),
    )
    _move_units(moving)
    out = np.empty_like(n)
    out[order] = n
    return out


def _numbered(of: Int64Array) -> Int64Array:
    """Runs of equal neighbours, numbered from 0."""
    return np.cumsum(np.diff(of, prepend=-1) != 0) - 1


def _move_units(moving: Moving) -> None:
    """Move units until every sum that is asked for is met, or no round helps any more.

    First as long as no move costs boxes more than it is worth. Where that leaves faults, they may cost boxes more on
    their way; if some are left even so, nothing is won, and the boxes get back what they gave.
    """
    steps = steps_of(moving)
    walk = _Walk(steps)
    if moving.narrower:
        walk.go_on(CAREFUL)
        if len(moving.n) <= BOLD_CELLS:
            walk.be_bold()
    else:
        steps.until_idle(moving.boxes, walk.judged, -1)
        walk.go_on(0)
    # What repair would do blindly; then boxes, where that costs nobody else.
    steps.until_idle(moving.one_way, [(margin, 1) for margin in moving.narrower], ANY)
    stiff = [(margin, STIFF) for margin in (*moving.narrower, moving.one_way)]
    steps.until_idle(moving.boxes, [*stiff, (moving.boxes, BOX)], -1)


class _Walk:
    """Rounds of moves, and the way back.

    judged: What moves are judged by, with weights.
    """

    def __init__(self, steps: Steps) -> None:
        self._steps, self._moving = steps, steps.moving
        self.judged = [*((m, NARROWER) for m in steps.asked), (steps.moving.boxes, BOX)]
        self._number = 0

    def go_on(self, most: int) -> int:
        """Make moves that cost no more than that, as long as it helps; return the least penalty, where it ends."""
        self._number, least = self._steps.go_on(self.judged, most, self._number)
        return least

    def be_bold(self) -> None:
        """Ask for filled counts too, at more cost to boxes; all or nothing."""
        careful = self._moving.state()
        self._ask_for_filled(FILLED)
        if all(self.go_on(most) for most in BOLD):
            self._moving.restore(careful)
            self._ask_for_filled(LOOSE)

    def _ask_for_filled(self, kind: int) -> None:
        """From now on ask for filled counts, or let them be off by one."""
        for margin in self._moving.narrower:
            margin.ask_for_filled(kind)
