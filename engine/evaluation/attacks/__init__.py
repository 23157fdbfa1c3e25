"""CONFIDENTIAL. Attacks of strong attackers on finished releases, each with a control: what `tablepack attack` runs.

Takes released tables (of any tool) with the noise that they state, the data, strangers if there are any, a generator.
Gives one `Risk` an attack, with a verdict in words.
May import what `engine.evaluation` may, and its `data`, `risk`.
"""

from engine.evaluation.attacks.assumptions import Assumptions, Group
from engine.evaluation.attacks.sights import Attacked, Sight, held, sights_of
from engine.evaluation.attacks.suite import STRONG_ATTACKS, attack_strongly

__all__ = [
    "STRONG_ATTACKS",
    "Assumptions",
    "Attacked",
    "Group",
    "Sight",
    "attack_strongly",
    "held",
    "sights_of",
]
