"""Releases that were built in this session, which know their spec and data; `add` and `drop` from Python."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from engine.api.amend import Change, Tables, addition, carry_out, removal
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
        return add(self, tables, spec=spec, frame=frame, progress=progress)

    def drop(self, tables: Sequence[Sequence[str]], *, progress: Progress | None = None) -> Release:
        """Remove tables; see `drop`. Returns the new release; this object still reads the old one."""
        spec, frame = self._made_from
        return drop(self, tables, spec=spec, frame=frame, progress=progress)


def add(
    release: Release | str | Path,
    tables: Tables | None = None,
    *,
    spec: ReleaseSpec | str | Path | None = None,
    frame: Any = None,
    jobs: int = 2,
    progress: Progress | None = None,
) -> Release:
    """Add tables to a release; only the new ones are fitted. The result is the same as that of a full build.

    Parameters
    ----------
    release : Release, str or Path
        The release; its file is replaced once the new one is complete, and its signature is removed.
    tables : sequence of sequences of str, optional
        Column sets, which are also added to the spec if that is a file. None: the tables that are in the spec and not
        in the release.
    spec : ReleaseSpec, str or Path, optional
        The spec of the release; by default the file next to it, `r.toml` for `r.duckdb`.
    frame : object, optional
        The pandas or Arrow table, if the spec's source is a frame.
    jobs, progress
        As in `build`.

    Returns
    -------
    Release
        The new release, open.

    Raises
    ------
    SpecError
        There is nothing to add, or the release has tables that are not in the spec.
    DataError, PrivacyError, StoreError
        As in `build`; or data, key or spec are not those of the release.
    """
    return changed(addition(release, tables, spec), frame=frame, jobs=jobs, progress=progress)


def drop(
    release: Release | str | Path,
    tables: Tables | None = None,
    *,
    spec: ReleaseSpec | str | Path | None = None,
    frame: Any = None,
    jobs: int = 2,
    progress: Progress | None = None,
) -> Release:
    """Remove tables from a release; parameters, errors and result as in `add`.

    Recipients of the earlier release still have these tables, so the exposure ledger keeps them.
    """
    return changed(removal(release, tables, spec), frame=frame, jobs=jobs, progress=progress)


def changed(
    change: Change, *, frame: Any = None, jobs: int = 2, progress: Progress | None = None
) -> Release:
    """Make a change, and open the result."""
    carry_out(change, frame=frame, jobs=jobs, progress=progress)
    return BuiltRelease.of(change.before.path, change.spec_path or change.spec, frame)
