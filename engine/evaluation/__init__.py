"""CONFIDENTIAL. Evaluation: how good and how safe synthetic tables are, compared with their original.

Takes releases or tables of any tool, the original, a study.
Gives figures with their scale (`utility`), attacks with baseline and control (`risk`), reports, comparisons of
    modes.
May import the engine's root, `engine.spec`, `engine.source` (readers), `engine.store`.
"""
