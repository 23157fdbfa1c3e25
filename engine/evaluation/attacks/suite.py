"""The suite of strong attacks, in the order that the report has them.

Takes what is attacked and what attackers are taken to know; gives the risks. Invariant: the seed and an attack's own
name fix what it draws.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from engine.evaluation.attacks.adaptive import adaptive
from engine.evaluation.attacks.assumptions import Assumptions
from engine.evaluation.attacks.attribute import attribute
from engine.evaluation.attacks.averaging import averaging
from engine.evaluation.attacks.cloning import cloning
from engine.evaluation.attacks.empty import empty
from engine.evaluation.attacks.linear import linear
from engine.evaluation.attacks.membership import membership
from engine.evaluation.attacks.reconstruction import reconstruction
from engine.evaluation.attacks.sights import Attacked
from engine.evaluation.data.sampling import generator
from engine.evaluation.score import Risk
from engine.progress import Progress

StrongAttack = Callable[[Attacked, Assumptions, np.random.Generator], Risk]
STRONG_ATTACKS: dict[str, StrongAttack] = {
    "membership": membership,
    "reconstruction": reconstruction,
    "linear": linear,
    "attribute": attribute,
    "averages": averaging,
    "cloning": cloning,
    "empty": empty,
    "adaptive": adaptive,
}


def attack_strongly(
    target: Attacked,
    assumptions: Assumptions,
    *,
    seed: int,
    progress: Progress | None = None,
) -> dict[str, Risk]:
    """Run every strong attack on what is attacked."""
    risks = {}
    for done, (name, attack) in enumerate(STRONG_ATTACKS.items()):
        if progress is not None:
            progress(name, done, len(STRONG_ATTACKS))
        risks[name] = attack(target, assumptions, generator(seed, name))
    return risks
