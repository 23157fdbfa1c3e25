"""Drafts: releases under a throw-away key, to try settings out without spending anything of the release's own key."""

from __future__ import annotations

import atexit
import shutil
import tempfile
import warnings
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Unpack

from engine import release
from engine.api.build import SpecOrFrame, new_key, resolve, with_settings
from engine.api.build import open as open_release
from engine.api.reading import read
from engine.errors import StoreError, TablepackError
from engine.progress import Progress
from engine.source.detection import SourceSettings
from engine.spec import ReleaseSpec
from engine.store import DRAFT_TITLE

if TYPE_CHECKING:
    from queries.release import Release

_ENDING, _KEYS = ".draft.duckdb", ".draft-key-"
_NOTE = (
    "A draft to try settings out: not for publication. Its noise comes from a key that no longer exists, so it adds an "
    "independent look at the same people to whatever is published; keep it as confidential as the data and delete it."
)
_WHAT_IT_MEANS = (
    "synthesize makes a draft: its key is deleted now. The next call draws fresh noise, and several releases of the "
    "same people disclose more than one, which no ledger counts. Do not share it. To publish, make a key once with "
    "new_key(...) and use build(..., key=...)"
)
_REASON = "a draft, which stays with its custodian"


@with_settings
def draft(
    what: SpecOrFrame,
    *,
    out: str | Path | None = None,
    jobs: int = 2,
    progress: Progress | None = None,
    **source: Unpack[SourceSettings],
) -> Release:
    """Build a release under a throw-away key, and open it: nothing is charged, pinned or noted anywhere.

    A draft shows what a spec gives. Its figures differ from those of the release, since its noise does, and nobody
    should see both: a draft that leaks counts as one more independent release of the same people. It says so in its
    title, and `publish_pack` and `tablepack sign` refuse it.

    Parameters
    ----------
    what : ReleaseSpec, str, Path, DataFrame or Arrow table
        Spec file.

        Or what else `build` takes. The key file that a spec names need not exist.
    out : str or Path, optional
        Draft to write; by default census.draft.duckdb for census.toml.

        Only its owner can read it; an earlier draft is replaced.
    jobs, progress
        As in `build`.
    **source
        Settings of a source.

    Returns
    -------
    Release
        The open draft.

    Raises
    ------
    SpecError, DataError, PrivacyError, StoreError
    """
    is_file = isinstance(what, str | Path) and Path(what).suffix == ".toml"
    target = Path(out) if out is not None else default_draft(what if is_file else "release")
    if target.exists() and not is_draft(target):
        raise StoreError(f"{target}: exists and is no draft; give another output")
    if not target.absolute().parent.is_dir():
        raise StoreError(f"{target.parent}: no such folder")
    with tempfile.TemporaryDirectory(prefix=_KEYS, dir=target.absolute().parent) as folder:
        key, made = Path(folder, "draft.key"), Path(folder, "draft") / target.name
        made.parent.mkdir()
        new_key(key)
        given = read(Path(what), check_key=False) if is_file else what
        if not isinstance(given, ReleaseSpec):
            source["key"] = key
        spec, frame = resolve(given, source)
        spec = replace(
            spec,
            key_path=key,
            previous=None,
            title=": ".join(filter(None, (DRAFT_TITLE, spec.title.strip()))),
            notes=(_NOTE, *spec.notes),
            bounds=replace(spec.bounds, accept_risk=spec.bounds.accept_risk or _REASON),
        )
        release.build(spec, made, frame=frame, jobs=jobs, progress=progress)
        _remove(target)
        for one in made.parent.iterdir():  # the manifest, and further sets of wide tables
            one.chmod(0o600)
            one.rename(target.with_name(one.name))
    return open_release(target)


@with_settings
def synthesize(
    frame: Any,
    *,
    out: str | Path | None = None,
    progress: Progress | None = None,
    **source: Unpack[SourceSettings],
) -> Release:
    """Draft a release of a frame, to try tablepack: under a throw-away key, not for publication.

    Parameters
    ----------
    frame : DataFrame or Arrow table
        The confidential data. Unless `tables` is given, it is 2.
    out : str or Path, optional
        File to write; an earlier draft is replaced. By default the draft is in a temporary folder until Python exits.
    progress
        As in `build`.
    **source
        Settings of a source.

    Returns
    -------
    Release
        It counts rows. Counts of entities (patients instead of stays) need a separate release: give `build` a spec with
        ``count = "entities"``.

    Warns
    -----
    UserWarning
        What the throw-away key implies.

    Raises
    ------
    SpecError, DataError, PrivacyError, StoreError

    Examples
    --------
    >>> release = tablepack.synthesize(frame, entities="person_id")  # doctest: +SKIP
    >>> release["age", "sex"].df()  # doctest: +SKIP
    """
    if source.get("tables") is None:
        source["tables"] = 2
    out = _temporary() / "release.duckdb" if out is None else out
    made = draft(frame, out=out, progress=progress, **source)
    warnings.warn(_WHAT_IT_MEANS, stacklevel=2)
    return made


def _temporary() -> Path:
    """A private folder that is deleted when Python exits."""
    folder = Path(tempfile.mkdtemp(prefix="tablepack-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return folder


def default_draft(what: str | Path) -> Path:
    """Where a draft of a spec goes: beside it."""
    return Path(what).with_suffix(_ENDING)


def is_draft(path: Path) -> bool:
    """Whether a file is a draft."""
    try:
        with open_release(path) as opened:
            return opened.title.startswith(DRAFT_TITLE)
    except TablepackError:
        return False


def remove_drafts(folder: str | Path) -> list[Path]:
    """Delete the drafts of a folder (`*.draft.duckdb`) with all that belongs to them, and keys of interrupted drafts.

    Parameters
    ----------
    folder : str or Path

    Returns
    -------
    list of Path
        The drafts that were deleted.
    """
    drafts = [path for path in sorted(Path(folder).glob(f"*{_ENDING}")) if is_draft(path)]
    for path in drafts:
        _remove(path)
    for left in Path(folder).glob(f"{_KEYS}*"):
        shutil.rmtree(left, ignore_errors=True)
    return drafts


def _remove(draft: Path) -> None:
    """Delete a draft with what belongs to it: manifest, replays, further sets of wide tables."""
    for one in draft.parent.glob(f"{draft.stem}.*"):
        if one.is_dir():
            shutil.rmtree(one)
        else:
            one.unlink()
