"""Takes files of the corpus through the commands: init, key, plan, build, sql, publish."""

from __future__ import annotations

import functools
from dataclasses import dataclass
from pathlib import Path

from corpus.files import Nasty
from fixtures.pipeline import tablepack


@dataclass(frozen=True, kw_only=True)
class Journey:
    """How far a file came."""

    ended: str  # The last command
    code: int  # Its exit code
    said: str  # What it said, where it failed
    spec: str  # What `init` wrote


def travel(nasty: Nasty, folder: Path) -> Journey:
    """Go all the way, or to where a command refuses."""
    path = nasty.make(folder)
    spec = folder / "release.toml"
    commands = (
        ("init", path, "--width", 1, *nasty.init),
        ("key", "new", "release.key"),
        ("plan", "release.toml"),
        ("build", "release.toml"),
        ("sql", "release.duckdb", "SELECT count(*) AS n FROM data"),
        ("publish", "release.duckdb", "pack", "--spec", "pack.toml", *_accepted()),
    )
    (folder / "pack.toml").write_text(PACK)
    for command in commands:
        done = tablepack(*command, cwd=folder, tmp=folder)
        if done.returncode:
            break
    return Journey(
        ended=command[0],
        code=done.returncode,
        said=done.stderr if done.returncode else "",
        spec=spec.read_text("utf-8") if spec.exists() else "",
    )


@functools.cache
def _accepted() -> tuple[str, ...]:
    """What `publish` wants where nobody has reviewed what `init` wrote."""
    helped = tablepack("publish", "--help", cwd=Path.cwd()).stdout
    return ("--accept-detected",) if "--accept-detected" in helped else ()


PACK = """\
[pack]
title = "Corpus"
max_width = 1
"""
