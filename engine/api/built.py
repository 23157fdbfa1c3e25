"""A release in the hands of whoever built it, and `add` and `drop` for Python users."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from engine.api.amend import Change, Tables, addition, carry_out, removal
from engine.progress import Progress
from engine.spec import ReleaseSpec
from queries.release import Release


class BuiltRelease(Release):
    """A release in the hands of whoever built it: tables can be added to it."""

    _made_from: tuple[ReleaseSpec | Path, Any]

    @classmethod
    def of(cls, path: Path, spec: ReleaseSpec | Path, frame: Any) -> BuiltRelease:
        """Open a release, knowing what it was built from."""
        release = cls.open(path)
        release._made_from = spec, frame
        return release

    def add(self, tables: Sequence[Sequence[str]], *, progress: Progress | None = None) -> Release:
        """Add tables; see `add`. Returns the new release, this handle stays with the old one."""
        spec, frame = self._made_from
        return add(self, tables, spec=spec, frame=frame, progress=progress)

    def drop(self, tables: Sequence[Sequence[str]], *, progress: Progress | None = None) -> Release:
        """Take tables out; see `drop`. Returns the new release, this handle stays with the old one."""
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
    """Add tables to a release; only what is new is fitted. The result is what a build of all would be.

    Parameters
    ----------
    release : Release, str or Path
        The release; its file is replaced once the new one is whole, its signature is removed.
    tables : sequence of sequences of str, optional
        Column sets; they are written into the spec where that is a file. None: what the spec lists beyond the release.
    spec : ReleaseSpec, str or Path, optional
        What the release was built from; by default the file beside it: `r.toml` of `r.duckdb`.
    frame : object, optional
        The pandas or Arrow table where the spec's source is a frame.
    jobs, progress
        As in `build`.

    Raises
    ------
    SpecError
        Nothing to add, or the release has tables that the spec does not list.
    DataError, PrivacyError, StoreError
        As `build`; or data, key or spec are not those that the release was built from.
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
    """Take tables out of a release; parameters, errors and result as `add`.

    Whoever has the release as it was knows them still: what was told is told, and stays in the ledger.
    """
    return changed(removal(release, tables, spec), frame=frame, jobs=jobs, progress=progress)


def changed(
    change: Change, *, frame: Any = None, jobs: int = 2, progress: Progress | None = None
) -> Release:
    """Make a change, and open what it made."""
    carry_out(change, frame=frame, jobs=jobs, progress=progress)
    return BuiltRelease.of(change.before.path, change.spec_path or change.spec, frame)
