"""Files of a pack: what a format is, and what is recorded of each file."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path

from queries.packs.model import Pack

CSV, JSON = "text/csv", "application/json"


@dataclass(frozen=True, kw_only=True, slots=True)
class File:
    """One file of a pack."""

    path: str  # Inside the pack
    write: Callable[[Path], object]  # Writes it to a path
    # Of a file that holds figures: the DCAT catalogue lists it; empty: it describes others.
    media_type: str = ""
    table: str = ""  # Id of the table that it holds; empty: it is of the whole pack


def text_file(path: str, text: Callable[[], str], *, media_type: str = "", table: str = "") -> File:
    """Return a file of text, rendered when it is written."""
    write = lambda target: write_text(target, text())  # noqa: E731
    return File(path=path, write=write, media_type=media_type, table=table)


@dataclass(frozen=True, kw_only=True, slots=True)
class Format:
    """One format of a pack."""

    name: str  # In the progress and in a dry run
    path: str  # What its paths begin with, as the pack's README has it
    about: str  # What the README says of it
    # Gives its files for a pack; none where it cannot hold any of its tables.
    files: Callable[[Pack], Iterable[File]]
    packages: tuple[str, ...] = ()  # What it imports beyond the dependencies of the project


@dataclass(frozen=True, kw_only=True, slots=True)
class FileRecord:
    """Size in bytes and SHA-256 of a file."""

    size: int
    sha256: str


def record_of(path: Path) -> FileRecord:
    """Return size and hash of a file."""
    with path.open("rb") as file:
        digest = hashlib.file_digest(file, "sha256").hexdigest()
    return FileRecord(size=path.stat().st_size, sha256=digest)


def in_language(stem: str, language: str, place: int) -> str:
    """Return a file's name without its ending; in a further language it ends on `~LANGUAGE`."""
    return f"{stem}~{language}" if place else stem


def write_text(path: Path, text: str) -> None:
    """Write text as UTF-8, lines as they are."""
    path.write_text(text, encoding="utf-8", newline="\n")


def as_json(what: object, *, compact: bool = False) -> str:
    """Return JSON for a file, with a line break at its end."""
    separators, indent = ((",", ":"), None) if compact else ((",", ": "), 1)
    text = json.dumps(
        what, ensure_ascii=False, indent=indent, separators=separators, allow_nan=False
    )
    return text + "\n"
