"""CONFIDENTIAL. Measure, sticky mode: true counts in, noisy counts of snapped ranges out.

Takes encoded rows with tokens, the keyed draws, the column sets wanted.
Gives one `Measurement` a column set: buckets that passed the threshold, each with its noisy count.
May import the engine's root, `engine.mechanism`, `engine.spec`, `engine.source`.
"""

from __future__ import annotations

from engine.measure.coding import coded_cells
from engine.measure.sticky import measure_arrays, measure_one_way

__all__ = ["coded_cells", "measure_arrays", "measure_one_way"]
