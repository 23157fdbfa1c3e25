"""CONFIDENTIAL. How cells are spelled: numbers and dates as people write them, and what is nearly one.

Takes an opened source and noisy thresholds.
Gives how each column is written, and remarks in plain words.
May import the engine's root, `engine.spec`, `engine.source`.
"""
