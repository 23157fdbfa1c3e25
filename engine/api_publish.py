"""The Python face of publishing: a pack of a release in a folder, and nothing confidential in it.

from engine.api_publish import publish_pack
publish_pack("census.duckdb", "pack/", spec="pack.toml")
"""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

from engine.comparing import refuse_scratch
from engine.opening import Progress, silent
from engine.report.files import refuse_confidential
from queries.packs import Pack, PackSpec, preview, publish, read_pack_spec
from queries.session import open_release


def publish_pack(
    release: str | os.PathLike[str],
    directory: str | os.PathLike[str],
    *,
    spec: str | Path | None = None,
    unprotected: bool = False,
    progress: Progress | None = None,
    warn: Callable[[str], None] | None = None,
) -> list[Path]:
    """Write the pack of a release.

    Parameters
    ----------
    release : path-like
    directory : path-like
        Empty or absent.
    spec : str or Path, optional
        A pack.toml; documents that it includes are relative to its folder. By default every table of at most three
        columns becomes a long table of counts.
    unprotected : bool
        Publish a release of mode dp that guarantees nothing.
    progress : callable, optional
        Called with a stage, the number done and of all.
    warn : callable, optional
        Called with each thing that a publisher should look at.

    Returns
    -------
    list of Path
        All files, sorted.

    Raises
    ------
    PrivacyError
        The release was built for a comparison or guarantees nothing, or a document is a confidential report.
    SpecError, StoreError, DamagedRelease
        As `queries.packs.publish` and `queries.open_release`.
    """
    path = Path(release)
    told = read_pack_spec(spec) if spec is not None else PackSpec()
    base = Path(spec).parent if spec is not None else Path()
    documents = [base / name for name in told.pack.include]
    given = [p for p in (path, *documents) if p.is_file()]
    refuse_confidential(given)
    if path.is_file():
        refuse_scratch(path)
    with open_release(path, verify="hash") as opened:
        return publish(
            opened,
            directory,
            told,
            base=base,
            unprotected=unprotected,
            progress=progress or silent,
            warn=warn,
        )


def preview_pack(
    release: str | os.PathLike[str],
    *,
    spec: str | Path | None = None,
    unprotected: bool = False,
    progress: Progress | None = None,
) -> Pack:
    """Return what a pack would hold, and write nothing; parameters and errors as for `publish_pack`."""
    told = read_pack_spec(spec) if spec is not None else PackSpec()
    if Path(release).is_file():
        refuse_scratch(Path(release))
    with open_release(release, verify="hash") as opened:
        return preview(opened, told, unprotected=unprotected, progress=progress or silent)
