"""PUBLIC, right of the wall. Tables of two columns with so many values that their combinations cannot be listed.

Takes a measurement, supports, what the table is locked to.
Gives cells whose margins are the published ones: from released buckets, then row by row.
May import `engine.fit` and the engine's root.
"""
