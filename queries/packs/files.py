"""Files of a pack: what a format is, what is recorded of each file, and figures as files contain them."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from engine.schema import BoolArray, FloatArray
from queries.packs.model import Pack

CSV, JSON = "text/csv", "application/json"
MAX_SHEET = 31
"""UTF-16 units in the name of a sheet."""


@dataclass(frozen=True, kw_only=True, slots=True)
class File:
    """One file of a pack."""

    path: str  # Within the pack
    write: Callable[[Path], object]  # Writes it to a path
    # Of a file with figures, which the DCAT catalogue lists; empty: it describes other files
    media_type: str = ""
    table: str = ""  # Id of its table; empty: it belongs to the whole pack


def text_file(path: str, text: Callable[[], str], *, media_type: str = "", table: str = "") -> File:
    """Return a file of text, rendered when it is written."""
    write = lambda target: write_text(target, text())  # noqa: E731
    return File(path=path, write=write, media_type=media_type, table=table)


@dataclass(frozen=True, kw_only=True, slots=True)
class Format:
    """One format of a pack."""

    name: str  # In the progress and in a dry run
    path: str  # What its paths begin with, as in the pack's README
    about: str  # Its description in the README
    # Returns its files for a pack; none where it can represent none of the tables
    files: Callable[[Pack], Iterable[File]]
    packages: tuple[str, ...] = ()  # Packages of the extra `pack` that it imports


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
    """Return a file's name without its suffix; for other than the main language with `~LANGUAGE`."""
    return f"{stem}~{language}" if place else stem


def sheet_name(name: str, taken: Collection[str]) -> str:
    """Return a name that workbooks allow for a sheet, different from those taken."""
    plain = re.sub(r"[\x00-\x1f\[\]:*?/\\]", " ", name).strip("' ") or "Sheet"
    used = {"history", *(one.casefold() for one in taken)}  # Excel reserves History
    for suffix in ("", *(f" ({i})" for i in range(2, len(used) + 3))):
        room = 2 * (MAX_SHEET - len(suffix))
        cut = plain.encode("utf-16-le")[:room].decode("utf-16-le", errors="ignore").strip("' ")
        if (found := f"{cut}{suffix}").casefold() not in used:
            break
    return found


def write_text(path: Path, text: str) -> None:
    """Write text as UTF-8, with line ends as they are."""
    path.write_text(text, encoding="utf-8", newline="\n")


def as_json(what: object, *, compact: bool = False) -> str:
    """Return JSON for a file, with a final newline."""
    separators, indent = ((",", ":"), None) if compact else ((",", ": "), 1)
    text = json.dumps(
        what, ensure_ascii=False, indent=indent, separators=separators, allow_nan=False
    )
    return text + "\n"


def rounded(figures: FloatArray, is_whole: bool) -> tuple[Any, BoolArray]:
    """Return figures as integers or with ten significant digits (0 where unknown), and which are known."""
    is_known = np.isfinite(figures)
    filled = np.where(is_known, figures, 0)
    return np.rint(filled).astype(np.int64) if is_whole else significant(filled), is_known


def significant(figures: FloatArray, digits: int = 10) -> FloatArray:
    """Return figures rounded to significant digits: further digits carry no information and differ by platform."""
    with np.errstate(divide="ignore", invalid="ignore"):
        size = np.where(figures == 0, 0, np.floor(np.log10(np.abs(figures))))
    places = np.clip(digits - 1 - size, -15, 15).astype(np.int64)
    scale = 10.0 ** np.abs(places)
    up, down = np.rint(figures * scale) / scale, np.rint(figures / scale) * scale
    out: FloatArray = np.where(places >= 0, up, down)
    return out


def numbers_of(figures: FloatArray, is_whole: bool) -> list[float | None]:
    """Return figures as numbers; None where unknown."""
    numbers, is_known = rounded(figures, is_whole)
    pairs = zip(numbers.tolist(), is_known.tolist(), strict=True)
    return [number if known else None for number, known in pairs]


def number_texts(figures: FloatArray, is_whole: bool) -> list[str]:
    """Return figures as text; empty where unknown."""
    numbers = numbers_of(figures, is_whole)
    return ["" if number is None else plain_number(number) for number in numbers]


def plain_number(number: float) -> str:
    """Return a number without an exponent, which PC-Axis does not allow."""
    if isinstance(number, int):
        return str(number)
    return str(np.format_float_positional(number, trim="0"))
