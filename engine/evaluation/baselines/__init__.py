"""CONFIDENTIAL. Baselines: other ways to make microdata safe, as baselines that a release is held beside.

Takes rows as a frame, what is known of their columns (`Schema`), and a generator.
Gives frames of the same columns. What comes out holds, or is near, the rows that went in: it is confidential until it
    is evaluated.
May import what `engine.evaluation` may, and its `data`, `score`, `study`.
"""
