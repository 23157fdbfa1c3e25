"""CONFIDENTIAL. Forms that sources come in: text, workbooks, Parquet, databases, frames, and SQL over them.

Takes where the rows are.
Gives one relation named `source`, with every cell as it was read.
May import the engine's root, `engine.spec`, `engine.source`.
"""
