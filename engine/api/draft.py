"""Drafts: releases under a throw-away key, to try settings out without spending anything of the release's own key."""

from __future__ import annotations

import shutil
import tempfile
from dataclasses import replace
from pathlib import Path
from typing import Any

from engine import release
from engine.api.build import SpecOrFrame, new_key, resolve
from engine.api.reading import read
from engine.errors import StoreError, TablepackError
from engine.params import DRAFT_TITLE
from engine.progress import Progress
from engine.spec import ReleaseSpec
from queries.release import Release, open_release

_ENDING, _KEYS = ".draft.duckdb", ".draft-key-"
_NOTE = (
    "A draft to try settings out: not for publication. Its noise comes from a key that no longer exists, so it adds an "
    "independent look at the same people to whatever is published; keep it as confidential as the data and delete it."
)
_REASON = "a draft, which stays with its custodian"


def draft(
    what: SpecOrFrame,
    *,
    out: str | Path | None = None,
    jobs: int = 2,
    progress: Progress | None = None,
    **of_source: Any,
) -> Release:
    """Build a release under a throw-away key, and open it: nothing is charged, pinned or noted anywhere.

    A draft shows what a spec gives. Its figures differ from those of the release, since its noise does, and nobody
    should see both: a draft that leaks counts as one more independent release of the same people. It says so in its
    title, and `publish_pack` and `tablepack sign` refuse it.

    Parameters
    ----------
    what : ReleaseSpec, str, Path, DataFrame or Arrow table
        As in `build`. The key file that a spec names need not exist.
    out : str or Path, optional
        File to write, readable only by its owner; an earlier draft is replaced. By default census.draft.duckdb for
        census.toml.
    jobs, progress, **of_source
        As in `build`.

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
    with tempfile.TemporaryDirectory(prefix=_KEYS, dir=target.absolute().parent) as folder:
        key = Path(folder, "draft.key")
        new_key(key)
        given = read(Path(what), check_key=False) if is_file else what
        if not isinstance(given, ReleaseSpec):
            of_source["key"] = key
        spec, frame = resolve(given, **of_source)
        spec = replace(
            spec,
            key_path=key,
            previous=None,
            title=f"{DRAFT_TITLE}: {spec.title}",
            notes=(_NOTE, *spec.notes),
            bounds=replace(spec.bounds, accept_risk=spec.bounds.accept_risk or _REASON),
        )
        release.build(
            spec, target, frame=frame, jobs=jobs, force=target.exists(), progress=progress
        )
        target.chmod(0o600)
    return open_release(target)


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
        for one in [*path.parent.glob(f"{path.name}.*"), path]:
            shutil.rmtree(one) if one.is_dir() else one.unlink()
    for left in Path(folder).glob(f"{_KEYS}*"):
        shutil.rmtree(left, ignore_errors=True)
    return drafts
