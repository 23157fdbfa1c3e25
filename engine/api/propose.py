"""Propose tables for a source that has no spec yet: every column, and the most useful pairs that a build would accept.

Takes what was detected; gives the entries of a spec. The data are read as by `plan`, with keys that are thrown away
unless one is given: what is left out follows from noisy figures, and is for the custodian's eyes like all that was
detected.
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

MOST_ROWS = 2_000_000
"""Of more rows no pairs are proposed: to plan all of them takes long."""
ROOMS = (0.8, 0.65, 0.5)
"""Shares of the bound that are used up: a build draws other noise than this, and what the most exposed column of a few
dozen reveals differs by up to .03 between keys."""
TRIALS = 3
"""Other keys with which it must not be refused."""


def fitting(
    detection: Detection, key: Path | None, report: Progress | None = None
) -> tuple[list[dict[str, Any]], int]:
    """Entries of tables, and how many pairs are left out of them; no entries where this cannot be computed."""
    with tempfile.TemporaryDirectory() as folder:
        path, keys = (
            Path(folder) / "release.toml",
            [Path(folder) / f"{n}.key" for n in range(1 + TRIALS)],
        )
        try:
            for own in keys:
                new_key(own)
            path.write_text(
                spec_text(detection, spec_path=path, key_path=(key or keys[0]).absolute()),
                encoding="utf-8",
            )
            spec = read(path)
            # Whether a column that looks like an identifier may be published is asked by `plan` of the written spec.
            columns = (replace(c, release=c.release or "asked by plan") for c in spec.columns)
            spec = replace(spec, columns=tuple(columns))
            pairs = {table for table in spec.tables if len(table) > 1}
            spec = replace(spec, tables=tuple(table for table in spec.tables if len(table) == 1))
            if not pairs:
                return [], 0
            kept = spec.tables
            for room in ROOMS if rows_about(spec) <= MOST_ROWS else ():
                most_right = 0.5 + room * spec.bounds.refuse_at / 2
                some = releases.fitting(spec, most_right, progress=report)
                trials = (replace(spec, tables=some, key_path=own) for own in keys[1:])
                if not any(releases.plan(one, progress=report).refused for one in trials):
                    kept = some
                    break
        except TablepackError:
            return [], 0  # who plans the written spec is told why
    left_out = len(pairs - {*kept})
    every: list[dict[str, Any]] = [] if left_out else [{"all": 1}, {"all": 2}]
    listed = [table for table in kept if left_out or len(table) > 2]
    return [*every, *({"columns": list(table)} for table in listed)], left_out
