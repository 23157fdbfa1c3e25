"""The public functions for Python users, one module per task; `engine` resolves them when they are first used.

Takes paths, frames and plain values.
Gives releases, plans, evaluations, comparisons, packs.
May import everything: it is the top layer, together with `engine.cli`.
"""
