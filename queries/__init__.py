"""Questions to a release: SQL, tables, cards, exports.

Reads a release and nothing else: no module here can reach rows, noise or keys. `open` a file, then `.sql()`:
a statement over the logical table is answered from the smallest released table that covers its columns.
"""

from __future__ import annotations

from queries.release import Release, open_release
from queries.sql import Result, export

__all__ = ["Release", "Result", "export", "open_release"]
