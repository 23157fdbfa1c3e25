"""CONFIDENTIAL. Exposure: how much the tables of a release tell of its people, and what attackers make of it.

Takes codes of sampled rows, and measurements (noisy counts of passing buckets).
Gives, for every column told, how often an attacker guesses right, rounded so that it may be shown; and ways to tell
    less.
May import the engine's root.
"""

from __future__ import annotations

from engine.exposure.attackers import auc_of, caught, tables_mu2, total_mu2
from engine.exposure.evolution import right
from engine.exposure.incidence import Incidence
from engine.exposure.reckoning import Reckoner, Told
from engine.exposure.remedies import Remedies, remedies
from engine.exposure.statement import Exposure, Group, stated

__all__ = [
    "Exposure",
    "Group",
    "Incidence",
    "Reckoner",
    "Remedies",
    "Told",
    "auc_of",
    "caught",
    "remedies",
    "right",
    "stated",
    "tables_mu2",
    "total_mu2",
]
