"""Terms of a statement's figures, read off DuckDB's own parse, so that each is a weighted sum of rows.

Takes a statement and the table that answers it.
Gives figures with the noise of each.
May import what `queries.intervals` may, and its modules.
"""
