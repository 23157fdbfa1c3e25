"""How often an even secret of each person is guessed right by who knows all other columns, from all tables at once.

Density evolution on the incidence of people and cells (the local form of the fixed point of Tse and Hanly 1999,
doi:10.1109/18.749008): what a cell reveals of one person is limited by its noise and by what is not known yet of the
others in it. Deterministic: no secret is drawn.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from engine.exposure.incidence import Cells
from engine.schema import FloatArray

STEPS = 60
"""Iterations at most; what is within the bound settles in about ten."""
SETTLED = 2e-3
"""Change of anybody's variance at which it has settled."""
KNOWN = 2.7
"""From this ratio on, 95 of 100 right, nobody asks how much more is known."""
_SNR = np.concatenate([[0.0], np.logspace(-4, 3, 400)])
_Z = np.linspace(-6, 6, 241)
_WEIGHT = np.exp(-_Z * _Z / 2) / np.exp(-_Z * _Z / 2).sum()
_LEFT = np.array([1 - float((_WEIGHT * np.tanh(s + math.sqrt(s) * _Z)).sum()) for s in _SNR])
_RIGHT = np.array([0.5 * (1 + math.erf(math.sqrt(s / 2))) for s in _SNR])


def right(snr: FloatArray) -> FloatArray:
    """How often an even secret is guessed right at a ratio of signal to noise."""
    return np.asarray(np.interp(snr, _SNR, _RIGHT), np.float64)


def evolve(
    tables: Sequence[Cells], n_people: int, before: float = 0.0, n_most: int = 1
) -> tuple[FloatArray, FloatArray]:
    """What all tables reveal of each person, as a ratio of signal to noise.

    before: What is known of everybody already.
    n_most: It ends early where so many people's secrets are as good as known.

    Returns: ratio, shape (n_people,); what each table adds to it, shape (n_tables, n_people).
    """
    from engine.exposure.loops import reveal

    unknown = np.full(n_people, float(np.interp(before, _SNR, _LEFT)))
    by = np.zeros((len(tables), n_people))
    snr = np.full(n_people, before)
    for _ in range(STEPS):
        by[:] = 0.0
        for one, added in zip(tables, by, strict=True):
            reveal(
                one.person,
                one.cell,
                one.weight,
                one.share,
                one.noise,
                one.larger,
                one.gain,
                one.n_tables,
                unknown,
                added,
            )
        snr = before + by.sum(axis=0)
        now = np.interp(snr, _SNR, _LEFT)
        moved = float(np.abs(now - unknown).max(initial=0.0))
        unknown = now
        if moved < SETTLED or np.count_nonzero(snr > KNOWN) >= n_most:
            break
    return snr, by
