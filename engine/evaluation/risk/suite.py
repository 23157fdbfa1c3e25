"""The suite of attacks, in the order that the report has them.

Takes a `Paired` and what an attacker knows; gives the risks. Invariant: as in `engine.evaluation.utility.suite`, the
seed and an attack's own name fix what it draws.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial

import numpy as np

from engine.evaluation.data.paired import Paired
from engine.evaluation.data.sampling import generator
from engine.evaluation.risk.apparent import apparent_match
from engine.evaluation.risk.attacker import Attacker
from engine.evaluation.risk.attribution import attribution
from engine.evaluation.risk.identification import identification
from engine.evaluation.risk.inference import inference
from engine.evaluation.risk.linkage import linkage
from engine.evaluation.risk.uniques import uniques
from engine.evaluation.score import Risk

Attack = Callable[[Paired, Attacker, np.random.Generator], Risk]
ATTACKS: dict[str, Attack] = {
    "uniques": uniques,
    "apparent_match": apparent_match,
    "attribution": attribution,
    "identification": identification,
    "linkage": linkage,
    "inference": inference,
}


def attack_all(
    paired: Paired,
    attacker: Attacker,
    *,
    seed: int,
    baselines: Mapping[str, float] | None = None,
) -> dict[str, Risk]:
    """Run every attack.

    baselines: Column -> precision of a model on people outside the data, for apparent matches; modelled where
        absent.
    """
    return {
        name: attack_one(name, paired, attacker, seed=seed, baselines=baselines) for name in ATTACKS
    }


def attack_one(
    name: str,
    paired: Paired,
    attacker: Attacker,
    *,
    seed: int,
    baselines: Mapping[str, float] | None = None,
) -> Risk:
    """Run one attack; takes what `attack_all` takes."""
    attack = ATTACKS[name]
    if name == "apparent_match":
        attack = partial(apparent_match, baselines=baselines)
    return attack(paired, attacker, generator(seed, name))
