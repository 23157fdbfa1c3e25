"""Copies of a table's counts: each as far from the released ones as these may be from the data.

Takes an open release and a column set.
Gives counts of its distinct rows copy by copy, others with rows moved to where nothing is released, and the ends of a
figure from what it is on each.
May import what `queries.intervals` may, and `buckets`, `model`, `sums`, `tree`, `estimates` of it.
"""
