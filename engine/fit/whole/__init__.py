"""PUBLIC, right of the wall. Whole numbers: fitted cells are rounded, and what is left off its margins is repaired.

Takes fitted cells, the published tables that they are locked to, a sampling key.
Gives whole numbers whose sums are the published ones, as far as these allow.
May import the engine's root and `engine.fit.candidates`, `engine.fit.coarse` and `engine.fit.borders`.
"""
