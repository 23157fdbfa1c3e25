"""The public functions of Python users, one module a job; `engine` resolves them when they are first used.

Takes paths, frames and plain values.
Gives releases, plans, evaluations, comparisons, packs.
May import everything: it is the top, beside `engine.cli`.
"""
