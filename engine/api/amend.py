"""Add tables to a release, or remove them, without building the others again.

Takes a release, its spec and its source; gives the release that a build of the changed spec would give. Imports the
query layer only to open that release, so that the command line starts fast.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from engine import release as releases
from engine.api.reading import read, specs_beside
from engine.errors import SpecError
from engine.outputs import SPEC, write_output
from engine.progress import Progress
from engine.schema import ColumnSet, column_set
from engine.source import noted_releases
from engine.spec import ReleaseSpec, amended, with_entries, without_entries
from engine.store import EarlierRelease, earlier_release
from engine.texts import names_text, parsed_toml

if TYPE_CHECKING:
    from queries.release import Release

Tables = Sequence[Sequence[str]]


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
        Release file.

        Or an open release; the file is replaced once the new one is complete, and its signature is removed.
    tables : sequence of sequences of str, optional
        Column sets, which are also added to the spec if that is a file. None: the tables that are in the spec and not
        in the release.
    spec : ReleaseSpec, str or Path, optional
        Spec that the release was built from; by default r.toml next to r.duckdb. It is updated too.
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
    from engine.api.built import BuiltRelease

    carry_out(change, frame=frame, jobs=jobs, progress=progress)
    return BuiltRelease.of(change.before.path, change.spec_path or change.spec, frame)


@dataclass(frozen=True, kw_only=True, slots=True)
class Change:
    """A planned change of a release.

    Attributes
    ----------
    before : EarlierRelease
        The release as it is; its file is replaced.
    spec : ReleaseSpec
        Spec of the changed release.
    tables : tuple of ColumnSet
        Tables that are added, or removed.
    is_more : bool
        Whether they are added.
    spec_path : Path or None
        File of the spec, if it has one.
    edited : tuple of ColumnSet
        Tables whose entries are added to that file, or removed from it.
    """

    before: EarlierRelease
    spec: ReleaseSpec
    tables: tuple[ColumnSet, ...]
    is_more: bool
    spec_path: Path | None = None
    edited: tuple[ColumnSet, ...] = ()


def addition(
    release: Release | str | Path,
    tables: Tables | None,
    spec: ReleaseSpec | str | Path | None,
    *,
    again: bool = False,
) -> Change:
    """Plan what `add` would do.

    again: Allow that there is nothing to add, because an earlier attempt was interrupted.
    """
    given = _spec(release, spec)
    before = _before(release, given.spec)
    named = _named(given.spec, tables)
    listed = {*given.spec.tables}
    wanted = given.spec
    missing = tuple(t for t in named if t not in listed)
    if missing:
        wanted = _with(given, missing)
    return _change(before, given, wanted, named, missing, is_more=True, again=again)


def _with(given: _Given, missing: tuple[ColumnSet, ...]) -> ReleaseSpec:
    """A spec with more tables; mistakes in them are reported by name, not by place in a generated text."""
    n_own = 0 if given.path is None else len(parsed_toml(given.text).get("tables", []))
    try:
        if given.path is None:
            return amended(given.spec, more=missing)
        return _read_as(given.path, with_entries(given.text, missing))
    except SpecError as error:
        problems = list(error.problems)
    for i, columns in enumerate(missing, start=n_own + 1):
        place, asked = f"tables[{i}].columns: ", f"--columns {names_text(columns, ',')} (tables=): "
        problems = [asked + p.removeprefix(place) if p.startswith(place) else p for p in problems]
    raise SpecError(problems)


def removal(
    release: Release | str | Path, tables: Tables | None, spec: ReleaseSpec | str | Path | None
) -> Change:
    """Plan what `drop` would do."""
    given = _spec(release, spec)
    before = _before(release, given.spec)
    named = _named(given.spec, tables)
    if unknown := [t for t in named if t not in before.tables]:
        raise SpecError(f"{before.path}: has no table of {some(unknown)}")
    wanted = given.spec
    surplus = tuple(t for t in named if t in {*given.spec.tables})
    if surplus and given.path is None:
        wanted = amended(given.spec, fewer=surplus)
    elif surplus:
        shorter = without_entries(given.text, surplus, each=given.spec.each)
        wanted = _read_as(given.path, shorter)
    return _change(before, given, wanted, named, surplus, is_more=False)


def carry_out(
    change: Change, *, frame: Any = None, jobs: int = 2, progress: Progress | None = None
) -> releases.Made | None:
    """Make a change, and edit the text of its spec just before the release is put in place.

    After an interruption between the two, the same call is repeated; a release ahead of its spec would be refused.

    Returns: What was built; None if there was nothing to build.
    """
    if not change.tables:
        _edit_spec(change)
        return None
    return releases.make(
        change.spec,
        change.before.path,
        frame=frame,
        jobs=jobs,
        force=True,
        earlier=change.before,
        progress=progress,
        before_placing=lambda: _edit_spec(change),
    )


def _edit_spec(change: Change) -> None:
    """Add the entries of tables to the text of a spec, or remove them."""
    if change.spec_path is None or not change.edited:
        return
    # As it is now: somebody may have edited it meanwhile.
    text = _text(change.spec_path)
    edited = (
        with_entries(text, change.edited)
        if change.is_more
        else without_entries(text, change.edited, each=change.spec.each)
    )
    _read_as(change.spec_path, edited)
    write_output(change.spec_path, edited, force=True, own=SPEC)


@dataclass(frozen=True, kw_only=True, slots=True)
class _Given:
    """A spec, with its file and text if it has any."""

    spec: ReleaseSpec
    path: Path | None = None
    text: str = ""


def _change(
    before: EarlierRelease,
    given: _Given,
    wanted: ReleaseSpec,
    named: tuple[ColumnSet, ...],
    edited: tuple[ColumnSet, ...],
    *,
    is_more: bool,
    again: bool = False,
) -> Change:
    """The change from a release to a spec; refused if it is more than was asked for, or nothing."""
    own, there = {*wanted.tables}, before.path
    more, fewer = sorted(own - before.tables), sorted(before.tables - own)
    tables, strange = (more, fewer) if is_more else (fewer, more)
    unasked = [t for t in tables if named and t not in named]
    for others, is_in_spec in ((strange, not is_more), (unasked, is_more)):
        if others:
            what = (
                "does not have all tables of the spec"
                if is_in_spec
                else "has tables that are not in the spec"
            )
            how = f", or run first: tablepack {'add' if is_in_spec else 'drop'} {there}"
            raise SpecError(
                f"{there}: {what} ({some(others)}); edit [[tables]] to match the release"
                + ("" if more and fewer else how)
            )
    if not tables and not edited and not again:
        what = "has all of these tables already; nothing to add"
        raise SpecError(
            f"{there}: {what if is_more else 'has no tables beyond those of the spec; nothing to remove'}"
        )
    return Change(
        before=before,
        spec=wanted,
        tables=tuple(sorted(tables, key=lambda t: (len(t), t))),
        is_more=is_more,
        spec_path=given.path,
        edited=edited,
    )


def _before(release: Release | str | Path, spec: ReleaseSpec) -> EarlierRelease:
    """The release as it is."""
    return earlier_release(_file_of(release), noted_releases(spec.key_path, spec.vintage))


def _file_of(release: Release | str | Path) -> Path:
    return Path(release if isinstance(release, str | Path) else release.path)


def _named(spec: ReleaseSpec, tables: Tables | None) -> tuple[ColumnSet, ...]:
    """The given tables as the release has them: with the column `release.each`, if there is one."""
    each = () if spec.each is None else (spec.each,)
    return tuple(dict.fromkeys(column_set([*{*columns, *each}]) for columns in tables or ()))


def _spec(release: Release | str | Path, spec: ReleaseSpec | str | Path | None) -> _Given:
    """The spec of a release, with its file if it has one."""
    if isinstance(spec, ReleaseSpec):
        given = _Given(spec=spec)
    else:
        file = _file_of(release)
        path = _beside(file) if spec is None else Path(spec)
        given = _Given(spec=read(path), path=path, text=_text(path))
    if given.spec.mode == "dp":
        raise SpecError(
            "mode dp: add the table to the spec and build again; margins that were measured before cost nothing"
        )
    return given


def _beside(release: Path) -> Path:
    """The spec beside a release: of its name, or the only one with its key and vintage."""
    path = release.with_suffix(".toml")
    if path.exists():
        return path
    found = specs_beside(release)
    if len(found) == 1:
        return found[0]
    several = f"{', '.join(path.name for path in found)} have its key and vintage"
    raise SpecError(
        f"{release}: its spec is not known ({several if found else 'no spec beside it has its key and vintage'}); "
        "give it: --spec (spec=)"
    )


def _text(path: Path) -> str:
    """The text of a spec, with line ends unchanged."""
    with path.open(encoding="utf-8-sig", newline="") as file:
        return file.read()


def _read_as(path: Path | None, text: str) -> ReleaseSpec:
    """The spec that a file would contain with another text."""
    return read(path or Path(), tables=parsed_toml(text).get("tables", []))


def some(tables: Sequence[ColumnSet]) -> str:
    """The first tables by name, and how many more there are."""
    named = "; ".join(", ".join(t) for t in tables[:3])
    return named if len(tables) <= 3 else f"{named}; and {len(tables) - 3:,} more"
