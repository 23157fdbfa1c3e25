"""First steps: a release of a frame with one call, and a key that nobody keeps.

Takes a frame; gives a release. The key, its journal and its ledger live in a private folder while the release is
built, and are gone then. Invariant: whoever calls is told what that means.
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
    "synthesize made a key for this call and threw it away. The next call draws other noise, and two releases of the "
    "same people tell more than one: nobody counts that up. Keep what comes out to yourself; to publish, make a key "
    "once with new_key(...) and use build(..., key=...)"
)


def synthesize(
    frame: Any,
    *,
    entity: str | Iterable[str] | None = None,
    tables: Iterable[Iterable[str]] | int = 2,
    columns: Mapping[str, Column] | Iterable[Column] | None = None,
    privacy: str | Mapping[str, Any] = "standard",
    max_rows: int | None = None,
    out: str | Path | None = None,
    force: bool = False,
    progress: Progress | None = None,
) -> Release:
    """Make a release of a frame with a temporary key: to look at, not to publish.

    Parameters
    ----------
    frame : DataFrame or Arrow table
    entity : str or iterable of str, optional
        Column that names whom to protect, or several; []: each row is one. Must be said where a column looks like an
        identifier.
    tables : iterable of iterable of str, or int
        Column sets, or a width: every set of so many columns.
    columns, privacy, max_rows
        As in `build`.
    out : str or Path, optional
        File to write. By default the release lies in a temporary folder until Python ends.

    Returns
    -------
    Release
        Its counts are of rows. Counts of entities (patients beside stays) are a release of its own: give `build` a
        spec with ``count = "entities"``.

    Warns
    -----
    UserWarning
        What a temporary key means.

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
    """A private folder that is removed when Python ends."""
    folder = Path(tempfile.mkdtemp(prefix="tablepack-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return folder
