"""How sure: noise intervals and statuses of the figures of a release, by replays of its tables.

Takes a `Session` and a question about groups (`tabulate`), or a statement (`annotated`, `differing`).
Gives a `Tabulation`, or a `Result` with its intervals beside the figures; replays of a table as rows.
May import `engine.errors`, `engine.schema`, `engine.fit`, `engine.store`, `queries.sql`.
"""

from __future__ import annotations

from queries.intervals.crosstable import EACH, TOTAL, CrossTable, Slice, adding_up
from queries.intervals.spread import Status
from queries.intervals.statement.aggregates import annotated, marks_of
from queries.intervals.statement.functions import differing, without_functions
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
    "marks_of",
    "measured_counts",
    "tabulate",
    "without_functions",
]
