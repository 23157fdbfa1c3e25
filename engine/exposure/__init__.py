"""CONFIDENTIAL. Exposure: how much the tables of a release reveal about people, and what attackers make of it.

Takes codes of sampled rows, and measurements (noisy counts of passing buckets).
Gives, for every column, how often an attacker guesses it right, rounded so that it may be shown; and ways to reveal
    less.
May import the engine's root.
"""

from __future__ import annotations

from engine.exposure.estimator import ColumnExposure, Estimator, right
from engine.exposure.incidence import Incidence
from engine.exposure.remedies import Remedies, remedies
from engine.exposure.statement import (
    Exposure,
    Group,
    auc_of,
    caught,
    groups_of,
    in_order,
    stated,
    tables_mu2,
    total_mu2,
)

__all__ = [
    "ColumnExposure",
    "Estimator",
    "Exposure",
    "Group",
    "Incidence",
    "Remedies",
    "auc_of",
    "caught",
    "groups_of",
    "in_order",
    "remedies",
    "right",
    "stated",
    "tables_mu2",
    "total_mu2",
]
