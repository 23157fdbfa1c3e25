"""First steps: a release of a frame in one call, with a temporary key.

Takes a frame; gives a release. The key, its journal and its ledger are in a private folder while the release is built,
and deleted afterwards. Invariant: a warning says what that means.
"""

from __future__ import annotations

import atexit
import shutil
import tempfile
import warnings
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from engine.api.build import build, new_key
from engine.progress import Progress
from engine.schema import Column
from queries.release import Release

WHAT_IT_MEANS = (
    "synthesize used a temporary key, which is deleted now. The next call draws fresh noise, and several releases of "
    "the same people disclose more than one, which no ledger counts. Do not share this release. To publish, make a key "
    "once with new_key(...) and use build(..., key=...)"
)


def synthesize(
    frame: Any,
    *,
    entity: str | Iterable[str | Iterable[str]] | None = None,
    tables: Iterable[Iterable[str]] | int = 2,
    columns: Mapping[str, Column] | Iterable[Column] | None = None,
    privacy: str | Mapping[str, Any] = "standard",
    max_rows: int | None = None,
    out: str | Path | None = None,
    force: bool = False,
    progress: Progress | None = None,
) -> Release:
    """Make a release of a frame with a temporary key, to try tablepack: not for publication.

    Parameters
    ----------
    frame : DataFrame or Arrow table
        The confidential data.
    entity : str or iterable of str, optional
        Column, or columns, that identify the protected entities; [["site", "patient"]]: both together. []: each row
        is one. Required if a column looks like an identifier.
    tables : iterable of iterable of str, or int
        Column sets, or a number: every combination of this many columns.
    columns, privacy, max_rows
        As in `build`.
    out : str or Path, optional
        File to write. By default the release is in a temporary folder until Python exits.
    force, progress
        As in `build`.

    Returns
    -------
    Release
        It counts rows. Counts of entities (patients instead of stays) need a separate release: give `build` a spec with
        ``count = "entities"``.

    Warns
    -----
    UserWarning
        What the temporary key implies.

    Raises
    ------
    SpecError, DataError, PrivacyError, StoreError

    Examples
    --------
    >>> release = tablepack.synthesize(frame, entity="person_id")  # doctest: +SKIP
    >>> release["age", "sex"].df()  # doctest: +SKIP
    """
    path = _temporary() / "release.duckdb" if out is None else Path(out)
    with tempfile.TemporaryDirectory(prefix="tablepack-key-") as folder:
        key = Path(folder) / "temporary.key"
        new_key(key)
        release = build(
            frame,
            tables=tables,
            key=key,
            columns=columns,
            entities=[entity] if isinstance(entity, str) else entity,
            privacy=privacy,
            max_rows=max_rows,
            out=path,
            force=force,
            progress=progress,
        )
    warnings.warn(WHAT_IT_MEANS, stacklevel=2)
    return release


def _temporary() -> Path:
    """A private folder that is deleted when Python exits."""
    folder = Path(tempfile.mkdtemp(prefix="tablepack-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return folder
