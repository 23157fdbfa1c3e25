"""Propose tables for a source that has no spec yet: every column, and as many pairs as a build would accept.

Takes what was detected; gives the entries of a spec. The data are read by `plan`, with a key that is thrown away unless
one is given: what is left out follows from noisy figures, and is for the custodian's eyes like all that was detected.
"""

from __future__ import annotations

import tempfile
from dataclasses import replace
from pathlib import Path
from typing import Any

from engine import release as releases
from engine.api.reading import read
from engine.errors import TablepackError
from engine.key_files import new_key
from engine.progress import Progress
from engine.source import rows_about
from engine.source.detection import Detection, spec_text

MOST_ROWS = 200_000
"""Of more rows all pairs of a few dozen columns are seldom too much, and to plan them takes long."""
ROOM = 0.9
"""Share of the bound that is used up: a build draws other noise than this."""


def fitting(
    detection: Detection, key: Path | None, report: Progress | None = None
) -> tuple[list[dict[str, Any]], int]:
    """Entries of tables, and how many pairs are left out of them; none where all pairs fit, or nobody can tell."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "release.toml"
        own = Path(folder) / "own.key"
        try:
            if key is None:
                new_key(own)
            path.write_text(
                spec_text(detection, spec_path=path, key_path=(key or own).absolute()),
                encoding="utf-8",
            )
            spec = read(path)
            if rows_about(spec) > MOST_ROWS or max(map(len, spec.tables), default=1) < 2:
                return [], 0
            bounds = spec.bounds
            less = replace(
                bounds,
                refuse_at=ROOM * bounds.refuse_at,
                warn_at=min(bounds.warn_at, ROOM * bounds.refuse_at),
            )
            plan = releases.plan(replace(spec, bounds=less), progress=report)
        except TablepackError:
            return [], 0  # who plans the written spec is told why
    if not plan.refused:
        return [], 0
    left_out = {*(plan.leave_out or (t for t in spec.tables if len(t) > 1))}
    kept = [{"columns": list(t)} for t in spec.tables if len(t) > 1 and t not in left_out]
    single = [{"columns": list(t)} for t in spec.tables if len(t) == 1 and t not in left_out]
    return [*single, *kept], len(left_out)
