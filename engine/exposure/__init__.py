"""Public. Exposure: how much the tables of a release tell of small groups, and what attackers make of it.

Takes measurements (noisy counts of passing buckets).
Gives figures a person for every group and column, a statement in words, and ways to tell less.
May import the engine's root.
"""

from __future__ import annotations

from engine.exposure.attackers import auc_of, caught, guessed_right, tables_mu2, total_mu2
from engine.exposure.reckoning import Figures, Worst, all_worst, pairs_of
from engine.exposure.remedies import Remedies, remedies
from engine.exposure.remembered import Remembered, bytes_of, packed
from engine.exposure.statement import Exposure, Group, Pairs
from engine.exposure.tally import Tally, grouped

__all__ = [
    "Exposure",
    "Figures",
    "Group",
    "Pairs",
    "Remedies",
    "Remembered",
    "Tally",
    "Worst",
    "all_worst",
    "auc_of",
    "bytes_of",
    "caught",
    "grouped",
    "guessed_right",
    "packed",
    "pairs_of",
    "remedies",
    "tables_mu2",
    "total_mu2",
]
