"""PUBLIC, right of the wall. Fit, mode dp: from noisy margins to a joint distribution and rows drawn from it.

Takes noisy margins with their variances, structural zeros, a sampling key.
Gives synthetic rows of level indexes, and every table as their projection.
May import the engine's root.
"""

from __future__ import annotations

from engine.fit.joint.margins import FitReport
from engine.fit.joint.synthesis import (
    Precision,
    Synthesis,
    expected_counts,
    joint_rows,
    precision_of,
    projected,
    reconciled,
    synthesise,
)

__all__ = [
    "FitReport",
    "Precision",
    "Synthesis",
    "expected_counts",
    "joint_rows",
    "precision_of",
    "projected",
    "reconciled",
    "synthesise",
]
