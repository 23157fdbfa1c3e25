"""Files of a report: one HTML file and JSON beside it, confidential unless asked otherwise.

Takes an `Evaluation`; gives files. Invariants: a confidential file has mode 0600 from its first byte, also where it
replaces a wider one; a file is there whole or not at all; a marker in it says what it is, and `publish` reads it.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterable
from pathlib import Path

from engine.errors import PrivacyError, StoreError
from engine.evaluation.report.document import document
from engine.evaluation.report.verdicts import Catalogue
from engine.evaluation.result import Evaluation
from engine.outputs import check_output, write_output

ENDINGS = (".html", ".htm")
_HEAD = 1 << 20
_LARGEST_JSON = 1 << 28
_MARKER = re.compile(rb"<meta\s+name=.tablepack.\s+content=.confidential.", re.IGNORECASE)


def check_target(path: Path, *, force: bool = False, inputs: Iterable[object] = ()) -> None:
    """Refuse a path that no report can be written to, before anything is measured.

    inputs: What is read to make it; paths among them are never replaced.
    """
    if path.suffix.lower() not in ENDINGS:
        raise StoreError(f"{path}: a report ends in .html; JSON goes beside it")
    read = [what for what in inputs if isinstance(what, str | Path)]
    for file in (path, path.with_suffix(".json")):
        check_output(file, force=force, inputs=read)
    if not os.access(path.parent, os.W_OK):
        raise StoreError(f"{path}: its folder cannot be written to")


def write_report(
    evaluation: Evaluation,
    path: Path,
    *,
    publishable: bool = False,
    force: bool = False,
    catalogue: Catalogue | None = None,
) -> tuple[Path, Path]:
    """Write the report, and JSON beside it.

    path: Ends in .html; the JSON file has the same stem.
    publishable: Rounded scores only; files may be read by all that the umask lets. Otherwise they have mode
        0600.
    """
    from engine.evaluation.report.page import (
        page,  # loads Jinja and Matplotlib, which need a moment
    )

    check_target(path, force=force)
    beside = path.with_suffix(".json")
    texts = {
        path: page(evaluation, publishable=publishable, catalogue=catalogue),
        beside: as_json(evaluation, publishable=publishable, catalogue=catalogue),
    }
    for file, text in texts.items():
        write_output(file, text, force=force, private=not publishable)
    return path, beside


def as_json(
    evaluation: Evaluation, *, publishable: bool = False, catalogue: Catalogue | None = None
) -> str:
    """Return the JSON document, with a line break at its end; see `engine.evaluation.report.document`."""
    content = document(evaluation, publishable=publishable, catalogue=catalogue)
    return json.dumps(content, ensure_ascii=False, indent=1, allow_nan=False) + "\n"


def is_confidential(path: Path) -> bool:
    """Return whether a file says of itself that it is a confidential report, or its JSON; by content, not name."""
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
    """Refuse to let confidential reports out; folders are looked through."""
    for given in paths:
        for path in sorted(given.rglob("*")) if given.is_dir() else [given]:
            if path.is_file() and is_confidential(path):
                raise PrivacyError(
                    f"{path}: is a confidential report: it holds the original beside the synthetic; "
                    "publish one written with --publishable"
                )


def write_confidential(
    path: Path, *, page: str, document: str, force: bool = False
) -> tuple[Path, Path]:
    """Write a page, and its JSON document beside it, both of mode 0600."""
    beside = path.with_suffix(".json")
    for file, text in {path: page, beside: document}.items():
        write_output(file, text, force=force, private=True)
    return path, beside
