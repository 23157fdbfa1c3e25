"""Releases that were built in this session, which know their spec and data, for `add` and `drop`."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import engine
from engine.progress import Progress
from engine.spec import ReleaseSpec
from queries.release import Release


class BuiltRelease(Release):
    """A release that was built in this session, to which tables can be added."""

    _made_from: tuple[ReleaseSpec | Path, Any]

    @classmethod
    def of(cls, path: Path, spec: ReleaseSpec | Path, frame: Any) -> BuiltRelease:
        """Open a release and remember what it was built from."""
        release = cls.open(path)
        release._made_from = spec, frame
        return release

    def add(self, tables: Sequence[Sequence[str]], *, progress: Progress | None = None) -> Release:
        """Add tables; see `add`. Returns the new release; this object still reads the old one."""
        spec, frame = self._made_from
        return engine.add(self, tables, spec=spec, frame=frame, progress=progress)

    def drop(self, tables: Sequence[Sequence[str]], *, progress: Progress | None = None) -> Release:
        """Remove tables; see `drop`. Returns the new release; this object still reads the old one."""
        spec, frame = self._made_from
        return engine.drop(self, tables, spec=spec, frame=frame, progress=progress)
