"""What two attackers get from noisy figures, in closed form.

The figures of a release are independent noisy looks at its people. An attacker who knows the other columns of a group
solves for the unknown one; an attacker who knows everybody else asks whether one person is there.
"""

from __future__ import annotations

import math
from statistics import NormalDist

import numpy as np

from engine.exposure.tally import Tally
from engine.schema import FloatArray, Measurement

_NORMAL = NormalDist()
_STEPS = 200
"""Iterations of the fixed point; it converges geometrically."""


def guessed_right(people: float, figures: FloatArray, cells: FloatArray, layer_sd: float) -> float:
    """How often an evenly distributed bit is guessed right by who knows all other columns of a group.

    cells: Cells of known columns that each table splits the group into, before it is split by the bit.

    The best linear estimate from random sums: its error is the fixed point of Tse and Hanly 1999
    (doi:10.1109/18.749008). A cell's two counts, locked to their sum, tell the number of ones with the noise variance
    of one layer; that of a bit is 1/4.
    """
    if people <= 0 or not figures.sum():
        return 0.5
    power = people / np.maximum(cells, 1.0)
    noise = 4 * layer_sd**2
    left = 1.0
    for _ in range(_STEPS):
        left = 1 / (1 + float((figures / people * power / (noise + power * left)).sum()))
    return _NORMAL.cdf(math.sqrt((1 - left) / left))


def tables_mu2(tally: Tally, layer_sd: float) -> float:
    """What locked tables add to the squared mu of a typical person, for who knows everybody else.

    layer_sd: Standard deviation of each of the two noise layers, in rows, before a table's own scale.

    One person more shifts one released count of a table by 1 under noise of variance 2 * layer_sd**2; of the shift the
    table's share is news.
    """
    return sum(table.news / (2 * (layer_sd * float(table.scale)) ** 2) for table in tally.tables)


def total_mu2(total: Measurement, layer_sd: float) -> float:
    """What the total adds to it."""
    return 1 / (2 * (layer_sd * float(total.scale[0])) ** 2)


def auc_of(mu: float) -> float:
    """Area under the ROC curve of telling two normal distributions that lie mu standard deviations apart."""
    return _NORMAL.cdf(mu / math.sqrt(2))


def caught(mu: float, false_alarms: float = 0.01) -> float:
    """Share of people found at so many false alarms (Dong, Roth and Su 2022, doi:10.1111/rssb.12454)."""
    return _NORMAL.cdf(mu - _NORMAL.inv_cdf(1 - false_alarms))
