"""SQL over a release: a statement is planned on a stub, routed to one released table, and run unchanged over its view.

Takes a release file, and statements of untrusted users.
Gives `Session`, a read-only, locked-down handle; `Result`s; refusals that say what is allowed.
May import `engine.errors`, `engine.schema`, `engine.store`, `engine.units`.
"""

from __future__ import annotations

from queries.sql.budget import Oversight, Plan, megabytes_of
from queries.sql.exports import export, file_stem, workbook_of
from queries.sql.planner import (
    StatementReader,
    columns_read,
    has_stored_figures,
    plan_of,
    selected,
)
from queries.sql.refusals import near_names, unknown_column
from queries.sql.result import GivenRows, Result, Statement, Unreleased
from queries.sql.router import nearest, to_measure
from queries.sql.session import TIMEOUT_S, Session
from queries.sql.unreleased import MARK, NOT_RELEASED, Marks, marked
from queries.sql.views import Variants

__all__ = [
    "MARK",
    "NOT_RELEASED",
    "TIMEOUT_S",
    "GivenRows",
    "Marks",
    "Oversight",
    "Plan",
    "Result",
    "Session",
    "Statement",
    "StatementReader",
    "Unreleased",
    "Variants",
    "columns_read",
    "export",
    "file_stem",
    "has_stored_figures",
    "marked",
    "megabytes_of",
    "near_names",
    "nearest",
    "plan_of",
    "selected",
    "to_measure",
    "unknown_column",
    "workbook_of",
]
