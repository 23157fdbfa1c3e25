"""Publishing from Python: write a pack of a release to a folder, without anything confidential.

from engine.api.publish import publish_pack
publish_pack("census.duckdb", "pack/", spec="pack.toml")
"""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

from engine.evaluation.compare import refuse_scratch
from engine.evaluation.report.verdicts import refuse_confidential
from engine.progress import Progress, silent
from queries.packs import Pack, PackSpec, preview, publish, read_pack_spec
from queries.release import open_release


def publish_pack(
    release: str | os.PathLike[str],
    directory: str | os.PathLike[str],
    *,
    spec: str | Path | None = None,
    unprotected: bool = False,
    accept_detected: bool = False,
    progress: Progress | None = None,
    warn: Callable[[str], None] | None = None,
    trust: str | os.PathLike[str] | None = None,
) -> list[Path]:
    """Write the pack of a release, ready for publication.

    Parameters
    ----------
    release : path-like
        Release file.
    directory : path-like
        Folder to create; may exist if it is empty.
    spec : str or Path, optional
        pack.toml with titles, labels, languages and tables; without it, up to 200 tables of at most 3 columns.

        The documents that it includes are relative to its folder.
    unprotected : bool
        Publish a dp release built with guarantee = false.
    accept_detected : bool
        Publish although nobody has reviewed the detected columns; the pack states this.
    trust : path-like, optional
        Public key: refuse releases that are not signed by it.
    progress, warn
        As in `queries.packs.publish`.

    Returns
    -------
    list of Path
        All files, sorted.

    Raises
    ------
    PrivacyError
        The release was built for a comparison, has no guarantee, or has settings that nobody reviewed; or a document
        is a confidential report.
    SpecError, StoreError, DamagedRelease
        As in `queries.packs.publish` and `queries.open_release`.
    """
    path = Path(release)
    pack_spec = read_pack_spec(spec) if spec is not None else PackSpec()
    base = Path(spec).parent if spec is not None else Path()
    documents = [base / name for name in pack_spec.pack.include]
    refuse_confidential([p for p in (path, *documents) if p.is_file()])
    if path.is_file():
        refuse_scratch(path)
    with open_release(path, verify="hash", trust=trust) as opened:
        return publish(
            opened,
            directory,
            pack_spec,
            base=base,
            unprotected=unprotected,
            accept_detected=accept_detected,
            progress=progress or silent,
            warn=warn,
        )


def preview_pack(
    release: str | os.PathLike[str],
    *,
    spec: str | Path | None = None,
    unprotected: bool = False,
    accept_detected: bool = False,
    progress: Progress | None = None,
    trust: str | os.PathLike[str] | None = None,
) -> Pack:
    """The pack that `publish_pack` would write, with the same parameters and errors; nothing is written."""
    pack_spec = read_pack_spec(spec) if spec is not None else PackSpec()
    if Path(release).is_file():
        refuse_scratch(Path(release))
    with open_release(release, verify="hash", trust=trust) as opened:
        return preview(
            opened,
            pack_spec,
            unprotected=unprotected,
            accept_detected=accept_detected,
            progress=progress or silent,
        )
