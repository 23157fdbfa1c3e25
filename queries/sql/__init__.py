"""SQL over a release: a statement is planned on a stub, routed to one released table, run untouched over its view.

Takes a release file, and statements of anyone.
Gives `Session`, a read-only, locked-down handle; `Result`s; refusals that say what is allowed.
May import `engine.errors`, `engine.schema`, `engine.store`.
"""

from __future__ import annotations

from queries.sql.budget import megabytes_of
from queries.sql.exports import export, file_stem
from queries.sql.planner import columns_read
from queries.sql.refusals import near_names
from queries.sql.result import Form, Result, Statement, html_table, text_table
from queries.sql.router import nearest, spec_entry
from queries.sql.session import TIMEOUT_S, Session

__all__ = [
    "TIMEOUT_S",
    "Form",
    "Result",
    "Session",
    "Statement",
    "columns_read",
    "export",
    "file_stem",
    "html_table",
    "megabytes_of",
    "near_names",
    "nearest",
    "spec_entry",
    "text_table",
]
