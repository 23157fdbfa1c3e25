"""How sure: noise intervals and statuses of the figures of a release, by replays of its tables.

Takes a `Session` and a question about groups (`tabulate`), or a statement (`annotated`, `differing`).
Gives a `Tabulation`, or a `Result` with its intervals beside the figures; replays of a table as rows.
May import `engine.errors`, `engine.schema`, `engine.fit`, `engine.store`, `queries.sql`.
"""

from __future__ import annotations

from queries.intervals.crosstable import EACH, TOTAL, CrossTable, Slice, adding_up
from queries.intervals.spread import Status
from queries.intervals.statement.aggregates import annotated, marks_of
from queries.intervals.statement.differences import differing, has_differs
from queries.intervals.statement.replicated import has_replicates, with_replicates
from queries.intervals.statement.weighted import has_weighted, with_weights
from queries.intervals.tabulation import Measure, Tabulation, measured_counts, tabulate

__all__ = [
    "EACH",
    "TOTAL",
    "CrossTable",
    "Measure",
    "Slice",
    "Status",
    "Tabulation",
    "adding_up",
    "annotated",
    "differing",
    "has_differs",
    "has_replicates",
    "has_weighted",
    "marks_of",
    "measured_counts",
    "tabulate",
    "with_replicates",
    "with_weights",
]
