"""CONFIDENTIAL. What is evaluated, read alike: the original, releases, tables of any tool, side by side as codes.

Takes paths or frames, and how they are read.
Gives frames, subjects, and `Aligned`, which every measure counts with.
May import what `engine.evaluation` may.
"""
