"""Write measured figures into releases/MEASURED.md: each script replaces its own section.

Takes the name of a section, the command that measured, a table. Needs nothing but the standard library, so that
scripts in environments of their own can use it. A plain run of a script writes its section; a run with options, which
is often a shorter one, does so only with --record. Every section says how and where it was measured.
"""

from __future__ import annotations

import argparse
import os
import platform
import re
import shlex
import sys
from collections.abc import Sequence
from datetime import date
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

MEASURED = Path(__file__).resolve().parents[1] / "releases" / "MEASURED.md"
PACKAGES = ("numpy", "duckdb")
"""Whose versions decide times."""


def add_option(parser: argparse.ArgumentParser) -> None:
    """Let a script's command line say whether its figures are kept."""
    plain = not any(word.startswith("--") for word in sys.argv[1:])
    parser.add_argument(
        "--record",
        action="store_true",
        default=plain,
        help="write the figures into releases/MEASURED.md (without options: always)",
    )


def command_line(script: str) -> str:
    """The command as typed, folders of this machine left out."""
    words = (
        "FOLDER" if Path(word).is_absolute() else word
        for word in sys.argv[1:]
        if word != "--record"
    )
    return " ".join([script, *map(shlex.quote, words)])


def machine() -> str:
    """The class of this machine: cores, memory, versions; nothing that names it."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30
    found = [f"Python {platform.python_version()}"]
    for package in PACKAGES:
        try:
            found.append(f"{package} {version(package)}")
        except PackageNotFoundError:
            continue
    return f"{cores} cores, {memory:.0f} GiB, {', '.join(found)}"


def markdown(heads: Sequence[str], rows: Sequence[Sequence[object]]) -> str:
    """A table in Markdown."""
    lines = [heads, ["---"] * len(heads), *rows]
    return "\n".join("| " + " | ".join(map(str, line)) + " |" for line in lines)


def record(section: str, command: str, body: str, *, file: Path = MEASURED) -> None:
    """Replace a section's figures and say that it was done.

    Parameters
    ----------
    section : str
        Its name between the markers, `<!-- measured NAME -->` and `<!-- end NAME -->`.
    body : str
        Table and remarks, in Markdown.

    Raises
    ------
    ValueError
        The file lacks the section, or has it twice; nothing is written.
    """
    start, end = f"<!-- measured {section} -->", f"<!-- end {section} -->"
    text = file.read_text(encoding="utf-8")
    if (text.count(start), text.count(end)) != (1, 1) or text.index(end) < text.index(start):
        raise ValueError(f"{file.name} wants '{start}' and then '{end}', once each")
    if re.search(r"^<!-- (measured|end) ", body, re.MULTILINE):
        raise ValueError(f"the figures of {section} hold a marker themselves")
    head = f"`{command}` on {date.today():%Y-%m-%d}; {machine()}"
    before, after = text.partition(start)[0], text.partition(end)[2]
    file.write_text(f"{before}{start}\n{head}\n\n{body.strip()}\n{end}{after}", encoding="utf-8")
    print(f"wrote section '{section}' of {file.name}")
