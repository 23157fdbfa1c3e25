"""The section `[dp]` of a spec: what mode dp spends, counts by, and holds for impossible.

Takes plain values of the section, and the spec's columns and tables.
Gives `DPParams` and rules, or sentences with their places.
May import the engine's root, `engine.spec`.
"""

from __future__ import annotations

from engine.spec.dp.levels import misplaced_breaks, missing_domain
from engine.spec.dp.section import DPContext, dp_from

__all__ = ["DPContext", "dp_from", "misplaced_breaks", "missing_domain"]
