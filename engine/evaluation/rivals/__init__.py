"""CONFIDENTIAL. Rivals: other ways to make microdata safe, as baselines that a release is held beside.

Takes rows as a frame, what is known of their columns (`Schema`), and a generator.
Gives frames of the same columns. What comes out holds, or is near, the rows that went in: it is confidential until it
    is evaluated.
May import what `engine.evaluation` may, and its `data`, `score`, `study`.
"""

from engine.evaluation.rivals.cart import Cart
from engine.evaluation.rivals.catalogue import Entrant, entrants, rival_of
from engine.evaluation.rivals.dpmpm import Dpmpm
from engine.evaluation.rivals.outside import Command, command_of, require_alike
from engine.evaluation.rivals.parametric import Parametric
from engine.evaluation.rivals.partial import Partial, syntheses
from engine.evaluation.rivals.rival import Rival, Schema, schema_of

__all__ = [
    "Cart",
    "Command",
    "Dpmpm",
    "Entrant",
    "Parametric",
    "Partial",
    "Rival",
    "Schema",
    "command_of",
    "entrants",
    "require_alike",
    "rival_of",
    "schema_of",
    "syntheses",
]
