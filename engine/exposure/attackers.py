"""Whether one person is in the data, asked by who knows everybody else: what noisy figures tell, in closed form."""

from __future__ import annotations

import math
from collections.abc import Iterable
from statistics import NormalDist

from engine.exposure.incidence import Incidence
from engine.schema import ColumnSet, Measurement

_NORMAL = NormalDist()


def tables_mu2(people: Incidence, tables: Iterable[ColumnSet], layer_sd: float) -> float:
    """What locked tables add to the squared mu of a typical person, for who knows everybody else.

    layer_sd: Standard deviation of each of the two noise layers, in rows, before a table's own scale.

    One person more shifts one released count of a table by 1 under noise of variance 2 * layer_sd**2; of the shift the
    table's share is news.
    """
    return sum(
        people.news(one) / (2 * (layer_sd * float(people.scale(one))) ** 2) for one in tables
    )


def total_mu2(total: Measurement, layer_sd: float) -> float:
    """What the total adds to it."""
    return 1 / (2 * (layer_sd * float(total.scale[0])) ** 2)


def auc_of(mu: float) -> float:
    """Area under the ROC curve of telling two normal distributions that lie mu standard deviations apart."""
    return _NORMAL.cdf(mu / math.sqrt(2))


def caught(mu: float, false_alarms: float = 0.01) -> float:
    """Share of people found at so many false alarms (Dong, Roth and Su 2022, doi:10.1111/rssb.12454)."""
    return _NORMAL.cdf(mu - _NORMAL.inv_cdf(1 - false_alarms))
