"""Workloads: statements that analysts ask, from files and query logs, and the fewest tables that answer them.

Takes a file of statements, a reader of SQL, the data columns and the tables that the spec names anyway; never the
    data.
Gives the tables to add, and a `Workload` that says which statement each serves and which get no answer.
May import the engine's root.
"""

from __future__ import annotations

from engine.spec.workload.files import SqlReader, Statement, is_workload, statements_of
from engine.spec.workload.merging import merged
from engine.spec.workload.report import Asked, Question, Unanswered, Workload, workload_of

__all__ = [
    "Asked",
    "Question",
    "SqlReader",
    "Statement",
    "Unanswered",
    "Workload",
    "is_workload",
    "merged",
    "statements_of",
    "workload_of",
]
