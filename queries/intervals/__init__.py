"""How sure: noise intervals and statuses of counts, sums, means, shares, ratios and quantiles.

Takes a `Session` and a question about groups (`tabulate`), or a statement (`annotated`, `differing`).
Gives a `Tabulation`, or a `Result` with its intervals beside the figures; replays of a table as rows.
May import `engine.errors`, `engine.schema`, `engine.store`, `queries.sql`.
"""

from __future__ import annotations

from queries.intervals.crosstable import EACH, TOTAL, CrossTable, Slice, adding_up
from queries.intervals.estimates import Measure, Status, counts, statuses
from queries.intervals.model import Groups, noise_model
from queries.intervals.regions import region_within
from queries.intervals.statement.aggregates import annotated, marks_of, with_statuses
from queries.intervals.statement.differences import differing, has_differs
from queries.intervals.statement.replicated import has_replicates, with_replicates
from queries.intervals.tabulation import Tabulation, tabulate
from queries.intervals.universes import ruled_out

__all__ = [
    "EACH",
    "TOTAL",
    "CrossTable",
    "Groups",
    "Measure",
    "Slice",
    "Status",
    "Tabulation",
    "adding_up",
    "annotated",
    "counts",
    "differing",
    "has_differs",
    "has_replicates",
    "marks_of",
    "noise_model",
    "region_within",
    "ruled_out",
    "statuses",
    "tabulate",
    "with_replicates",
    "with_statuses",
]
