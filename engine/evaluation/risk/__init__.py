"""CONFIDENTIAL. Risk: what attackers achieve against released tables, each attack with its baseline and control.

Takes a `Paired`, what an attacker knows, a generator.
Gives one `Risk` an attack.
May import what `engine.evaluation` may, and its `data`, `study`.
"""

from engine.evaluation.risk.attacker import Attacker, Linkage
from engine.evaluation.risk.suite import ATTACKS, attack_all

__all__ = ["ATTACKS", "Attacker", "Linkage", "attack_all"]
