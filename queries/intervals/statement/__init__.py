"""Intervals and marks of SQL statements: the text is run again on variants of the table that answers it.

Takes a statement; gives its answer with intervals and statuses beside the figures.
May import what `queries.intervals` may, and its modules.
"""
