"""Forms of an answer that need a module of their own: the workbook.

Takes plain values of an answer, and a book.
Gives a sheet in it.
May import what `queries.serve` may.
"""
