"""The catalogue of figures: what each one says, which direction is good, and what it can be.

Gathered from the modules that compute them. Invariant: every figure that a measure or an attack returns is here.
"""

from __future__ import annotations

from engine.risk import apparent, attribution, identification, inference, linkage, uniques
from engine.score import Figure
from engine.utility import (
    components,
    correlations,
    counts,
    distributions,
    estimates,
    gaps,
    learning,
    marginals,
    margins,
    models,
    propensity,
    regression,
    rules,
    tables,
)

_UTILITY = (
    counts,
    correlations,
    marginals,
    propensity,
    regression,
    components,
    rules,
    tables,
    models,
    distributions,
    estimates,
    learning,
    gaps,
    margins,
)
_RISK = (uniques, apparent, attribution, identification, linkage, inference)
UTILITY: dict[str, Figure] = {f.name: f for module in _UTILITY for f in module.FIGURES}
RISK: dict[str, Figure] = {f.name: f for module in _RISK for f in module.FIGURES}
FIGURES: dict[str, Figure] = {**UTILITY, **RISK}
