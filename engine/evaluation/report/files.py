"""Files of a report: one HTML file and JSON beside it, confidential unless asked otherwise.

Takes an `Evaluation`; gives files. Invariants: a confidential file has mode 0600 from its first byte, also where it
replaces a wider one; a file is there whole or not at all; a marker in it says what it is, and `publish` reads it.
"""

from __future__ import annotations

import json
import os
import re
import secrets
from collections.abc import Iterable
from pathlib import Path

from engine.errors import PrivacyError, StoreError
from engine.evaluation.report.document import document
from engine.evaluation.report.verdicts import Catalogue
from engine.evaluation.result import Evaluation

ENDINGS = (".html", ".htm")
_HEAD = 1 << 20
_LARGEST_JSON = 1 << 28
_MARKER = re.compile(rb"<meta\s+name=.tablepack.\s+content=.confidential.", re.IGNORECASE)


def check_target(path: Path) -> None:
    """Refuse a path that no report can be written to, before anything is measured.

    Raises
    ------
    StoreError
    """
    if path.suffix.lower() not in ENDINGS:
        raise StoreError(f"{path}: a report ends in .html; JSON goes beside it")
    if not path.parent.is_dir():
        raise StoreError(f"{path}: its folder does not exist")
    for file in (path, path.with_suffix(".json")):
        if file.is_dir():
            raise StoreError(f"{file}: is a directory; name the report's file")
    if not os.access(path.parent, os.W_OK):
        raise StoreError(f"{path}: its folder cannot be written to")


def write_report(
    evaluation: Evaluation,
    path: Path,
    *,
    publishable: bool = False,
    catalogue: Catalogue | None = None,
) -> tuple[Path, Path]:
    """Write the report, and JSON beside it.

    Parameters
    ----------
    path : Path
        Ends in .html; the JSON file has the same stem.
    publishable : bool
        Rounded scores only; files may be read by all that the umask lets. Otherwise they have mode 0600.
    catalogue : dict of str to Figure, optional
        As for `engine.evaluation.report.verdicts.lines`.

    Returns
    -------
    tuple of Path
        HTML, JSON.

    Raises
    ------
    StoreError
        The path is unfit, a package is missing, or a file cannot be written.
    """
    from engine.evaluation.report.page import (
        page,  # loads Jinja and Matplotlib, which need a moment
    )

    check_target(path)
    beside = path.with_suffix(".json")
    texts = {
        path: page(evaluation, publishable=publishable, catalogue=catalogue),
        beside: as_json(evaluation, publishable=publishable, catalogue=catalogue),
    }
    for file, text in texts.items():
        write_text(file, text, mode=0o666 if publishable else 0o600)
    return path, beside


def as_json(
    evaluation: Evaluation, *, publishable: bool = False, catalogue: Catalogue | None = None
) -> str:
    """Return the JSON document, with a line break at its end; see `engine.evaluation.report.document`."""
    content = document(evaluation, publishable=publishable, catalogue=catalogue)
    return json.dumps(content, ensure_ascii=False, indent=1, allow_nan=False) + "\n"


def write_text(path: Path, text: str, *, mode: int) -> None:
    """Put a file in its place at once; its mode is set when it is created."""
    part = path.with_name(f".{path.name}.{secrets.token_hex(4)}.part")
    try:
        handle = os.open(part, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode)
        with os.fdopen(handle, "w", encoding="utf-8", errors="replace", newline="\n") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        part.replace(path)
    except OSError as error:
        raise StoreError(f"{path}: cannot be written: {error.strerror}") from None
    finally:
        part.unlink(missing_ok=True)


def is_confidential(path: Path) -> bool:
    """Return whether a file says of itself that it is a confidential report, or its JSON; by content, not name.

    Raises
    ------
    StoreError
        It cannot be read.
    """
    try:
        with path.open("rb") as file:
            head = file.read(_HEAD)
            if _MARKER.search(head):
                return True
            if not head.lstrip().startswith(b"{"):
                return False
            whole = head + file.read(_LARGEST_JSON)
    except OSError as error:
        raise StoreError(f"{path}: cannot be read: {error.strerror}") from None
    try:
        parsed = json.loads(whole)
    except ValueError:
        return re.search(rb'"confidential"\s*:\s*true', head) is not None
    return isinstance(parsed, dict) and parsed.get("confidential") is True


def refuse_confidential(paths: Iterable[Path]) -> None:
    """Refuse to let confidential reports out; folders are looked through.

    Raises
    ------
    PrivacyError
        A file is one; it is named.
    StoreError
        A file cannot be read.
    """
    for given in paths:
        for path in sorted(given.rglob("*")) if given.is_dir() else [given]:
            if path.is_file() and is_confidential(path):
                raise PrivacyError(
                    f"{path}: is a confidential report: it holds the original beside the synthetic; "
                    "publish one written with --publishable"
                )
