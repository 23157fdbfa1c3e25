"""CONFIDENTIAL. Baselines: other ways to make microdata safe, as baselines that a release is held beside.

Takes rows as a frame, what is known of their columns (`Schema`), and a generator.
Gives frames of the same columns. What comes out holds, or is near, the rows that went in: it is confidential until it
    is evaluated.
May import what `engine.evaluation` may, and its `data`, `score`, `study`.
"""

from engine.evaluation.baselines.baseline import Baseline, Schema, schema_of
from engine.evaluation.baselines.catalogue import Entrant, baseline_of, entrants
from engine.evaluation.baselines.outside import command_of, recipe_of, require_alike
from engine.evaluation.baselines.partial import partial_synthesis, syntheses

__all__ = [
    "Baseline",
    "Entrant",
    "Schema",
    "baseline_of",
    "command_of",
    "entrants",
    "partial_synthesis",
    "recipe_of",
    "require_alike",
    "schema_of",
    "syntheses",
]
