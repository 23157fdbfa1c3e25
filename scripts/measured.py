"""Write measured figures into releases/measured/: one file for each study.

Needs nothing but the standard library, so that scripts in environments of their own can use it. A plain run of a
script writes its file; a run with options, which is often a shorter one, does so only with --record. Every file says
how, when and where it was measured. The summary in releases/measured quotes these files.
"""

from __future__ import annotations

import argparse
import os
import platform
import shlex
import sys
from collections.abc import Sequence
from datetime import date
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

FOLDER = Path(__file__).resolve().parents[1] / "releases" / "measured"
START, END = "<!-- measured -->", "<!-- end -->"
PACKAGES = ("numpy", "duckdb")
"""Whose versions decide times."""


def add_option(parser: argparse.ArgumentParser) -> None:
    """Let a script's command line say whether its figures are kept."""
    plain = not any(word.startswith("--") for word in sys.argv[1:])
    parser.add_argument(
        "--record",
        action="store_true",
        default=plain,
        help="write the figures into releases/measured/ (without options: always)",
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
    lines = [heads, ["---"] * len(heads), *rows]
    return "\n".join("| " + " | ".join(map(str, line)) + " |" for line in lines)


def record(name: str, command: str, body: str, *, folder: Path = FOLDER) -> None:
    """Write a study's figures between the markers of `releases/measured/NAME.md`; what people wrote around them stays.

    Raises ValueError where the file has the markers in another number than one, or the figures hold a marker.
    """
    file = folder / f"{name}.md"
    text = file.read_text("utf-8") if file.exists() else f"# {name}\n\n{START}\n{END}\n"
    if (text.count(START), text.count(END)) != (1, 1) or text.index(END) < text.index(START):
        raise ValueError(f"{file.name} must contain '{START}' and then '{END}', once each")
    if START in body or END in body:
        raise ValueError(f"the figures of {name} contain a marker themselves")
    head = f"`{command}` on {date.today():%Y-%m-%d}; {machine()}"
    before, after = text.partition(START)[0], text.partition(END)[2]
    file.write_text(f"{before}{START}\n{head}\n\n{body.strip()}\n{END}{after}", encoding="utf-8")
    print(f"wrote {file.name}; check the summary in MEASURED.md")


def keep(options: argparse.Namespace, name: str, script: str, body: str) -> None:
    """Print a study's figures, and record them where the command line says so."""
    print(body, flush=True)
    if options.record:
        record(name, command_line(script), body)
