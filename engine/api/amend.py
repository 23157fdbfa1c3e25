"""Tables added to a release, and taken out of it, without building the others again.

Takes a release, its spec and its source; gives the release that a build of the larger, or smaller, spec would give.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from engine import release as releases
from engine.api.reading import read
from engine.errors import SpecError
from engine.outputs import SPEC, write_output
from engine.progress import Progress
from engine.schema import ColumnSet, column_set
from engine.spec import ReleaseSpec, amended, with_entries, without_entries
from engine.store import released_tables
from engine.texts import parsed_toml
from queries.release import Release

Tables = Sequence[Sequence[str]]


@dataclass(frozen=True, kw_only=True, slots=True)
class Change:
    """What a release is to become.

    Attributes
    ----------
    release : Path
        The release file, which is replaced.
    spec : ReleaseSpec
        Of the release to come.
    tables : tuple of ColumnSet
        Those that are added, or taken out.
    spec_path : Path or None
        The spec's file, where it is one.
    text : str or None
        What that file becomes; None: it stays as it is.
    """

    release: Path
    spec: ReleaseSpec
    tables: tuple[ColumnSet, ...]
    spec_path: Path | None = None
    text: str | None = None


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


def addition(
    release: Release | str | Path, tables: Tables | None, spec: ReleaseSpec | str | Path | None
) -> Change:
    """Say what `add` would do.

    Raises
    ------
    SpecError, StoreError
    """
    path, there, known = _opened(release)
    given, spec_path = _spec(path, spec)
    text = None
    if spec_path is None:
        wanted = amended(given, more=tables or ())
    else:
        listed = {*given.tables}
        new = [t for t in dict.fromkeys(map(column_set, tables or ())) if t not in listed]
        text = with_entries(spec_path.read_text(encoding="utf-8-sig"), new) if new else None
        wanted = given if text is None else read(spec_path, tables=parsed_toml(text)["tables"])
    if strange := sorted(known - {*wanted.tables}):
        raise SpecError(
            f"{there}: has tables that the spec does not list ({_some(strange)}); list them, or take them out: "
            f"tablepack drop {there}"
        )
    more = tuple(t for t in wanted.tables if t not in known)
    if not more:
        raise SpecError(f"{there}: has all of these tables already; nothing to add")
    return Change(release=path, spec=wanted, tables=more, spec_path=spec_path, text=text)


def removal(
    release: Release | str | Path, tables: Tables | None, spec: ReleaseSpec | str | Path | None
) -> Change:
    """Say what `drop` would do.

    Raises
    ------
    SpecError, StoreError
    """
    path, there, known = _opened(release)
    given, spec_path = _spec(path, spec)
    gone = [*dict.fromkeys(map(column_set, tables or ()))]
    if unknown := [t for t in gone if t not in known]:
        raise SpecError(f"{there}: has no table of {_some(unknown)}")
    text = None
    if spec_path is None:
        wanted = amended(given, fewer=gone)
    else:
        listed = {*given.tables}
        taken = [t for t in gone if t in listed]
        if taken:
            text = without_entries(spec_path.read_text(encoding="utf-8-sig"), taken)
        wanted = given if text is None else read(spec_path, tables=parsed_toml(text)["tables"])
    if strange := [t for t in wanted.tables if t not in known]:
        raise SpecError(
            f"{there}: the spec lists tables that it has not ({_some(strange)}); add them first: tablepack add {there}"
        )
    fewer = tuple(sorted(known - {*wanted.tables}, key=lambda t: (len(t), t)))
    if not fewer:
        raise SpecError(f"{there}: has no other tables than the spec; nothing to take out")
    return Change(release=path, spec=wanted, tables=fewer, spec_path=spec_path, text=text)


def changed(
    change: Change, *, frame: Any = None, jobs: int = 2, progress: Progress | None = None
) -> Release:
    """Make a change: the release first, then the text of its spec."""
    releases.build(
        change.spec,
        change.release,
        frame=frame,
        jobs=jobs,
        force=True,
        earlier=change.release,
        progress=progress,
    )
    if change.spec_path is not None and change.text is not None:
        write_output(change.spec_path, change.text, force=True, own=SPEC)
    return BuiltRelease.of(change.release, change.spec_path or change.spec, frame)


def _opened(release: Release | str | Path) -> tuple[Path, str, frozenset[ColumnSet]]:
    """The file, how it is called, and its tables."""
    path = Path(release.path if isinstance(release, Release) else release)
    return path, str(path), released_tables(path)


def _spec(release: Path, spec: ReleaseSpec | str | Path | None) -> tuple[ReleaseSpec, Path | None]:
    """The spec of a release, and its file if it is one."""
    if isinstance(spec, ReleaseSpec):
        found, path = spec, None
    else:
        path = release.with_suffix(".toml") if spec is None else Path(spec)
        if spec is None and not path.exists():
            raise SpecError(f"{release}: which spec was it built from? Name it: --spec (spec=)")
        found = read(path)
    if found.mode == "dp":
        raise SpecError(
            "mode dp: put the table into the spec and build; tables of margins that were measured cost nothing"
        )
    return found, path


def _some(tables: Sequence[ColumnSet]) -> str:
    """Some tables by name, of many."""
    named = "; ".join(", ".join(t) for t in tables[:3])
    return named if len(tables) <= 3 else f"{named}; and {len(tables) - 3:,} more"
