"""Every attack of a study, in the order that the report has them.

Takes a `Comparison` and a study; gives the risks. Invariant: as in `engine.measures`, the seed and an attack's own name
fix what it draws.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np

from engine.measures import Report, generator
from engine.risk.apparent import apparent_match
from engine.risk.attribution import attribution
from engine.risk.identification import identification
from engine.risk.inference import inference
from engine.risk.linkage import linkage
from engine.risk.uniques import uniques
from engine.score import Risk
from engine.study_risks import Risks
from engine.utility.comparison import Comparison

Attack = Callable[[Comparison, Risks, np.random.Generator], Risk]


def risk_all(
    comparison: Comparison,
    told: Risks,
    *,
    seed: int,
    baselines: Mapping[str, float] | None = None,
    report: Report | None = None,
) -> dict[str, Risk]:
    """Run every attack.

    Parameters
    ----------
    comparison : Comparison
    told : Risks
    seed : int
    baselines : dict of str to float, optional
        Column -> precision of a model on people outside the data; modelled where absent.
    report : callable, optional
    """

    def apparent(comparison: Comparison, told: Risks, rng: np.random.Generator) -> Risk:
        return apparent_match(comparison, told, rng, baselines=baselines)

    attacks: dict[str, Attack] = {
        "uniques": uniques,
        "apparent_match": apparent,
        "attribution": attribution,
        "identification": identification,
        "linkage": linkage,
        "inference": inference,
    }
    found = {}
    for done, (name, attack) in enumerate(attacks.items()):
        if report is not None:
            report(name, done, len(attacks))
        found[name] = attack(comparison, told, generator(seed, name))
    return found
