"""Strangers' statements, in processes that can open no file and take no more than their share of memory and time.

Takes a release's path, limits, statements.
Gives answers and refusals over a pipe.
May import `engine.errors`, `engine.schema`, `engine.store`, `queries.sql`, `queries.release`.
"""

from __future__ import annotations

from queries.sandbox.limits import ProcessLimits, shared_out
from queries.sandbox.processes import LimitedProcesses, limited_processes

__all__ = ["LimitedProcesses", "ProcessLimits", "limited_processes", "shared_out"]
