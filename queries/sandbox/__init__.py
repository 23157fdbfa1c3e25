"""SQL of untrusted users, run in processes that cannot open files and have limited memory and time.

In: a release's path, limits, statements.
Out: answers and refusals, received over a pipe.
May import `engine.errors`, `engine.schema`, `engine.store`, `queries.sql`, `queries.release`.
"""

from __future__ import annotations

from queries.sandbox.limits import ProcessLimits, shared_out
from queries.sandbox.processes import LimitedProcesses

__all__ = ["LimitedProcesses", "ProcessLimits", "shared_out"]
