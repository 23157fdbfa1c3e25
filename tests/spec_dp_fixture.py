"""A spec of mode dp on four small columns, for the tests of its checks and of its plan."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from engine.errors import SpecError
from engine.spec import read_spec

HEAD = """
[release]
vintage = "1"
key = "my.key"
mode = "{mode}"
[source]
path = "people.csv"
{source}
"""
COLUMNS = """
[columns.AGE]
kind = "integer"
domain = { min = 0, max = 99 }
public = true
breaks = [18, 65]
[columns.AREA]
kind = "category"
domain = ["n", "s", "e"]
public = true
nullable = false
[columns.JOB]
kind = "category"
domain = ["a", "b", "c", "d"]
public = true
[columns.OWNS]
kind = "boolean"
"""
SIZES = {"AGE": 4, "AREA": 3, "JOB": 5, "OWNS": 3}
NAMES = tuple(SIZES)
DATE = (
    '[columns.D]\nkind = "date"\npublic = true\ndomain = { min = 2020-01-01, max = 2020-12-31 }\n'
)
ALL = "[[tables]]\nall = 1\n"


Writer = Callable[..., Path]


def spec_writer(folder: Path) -> Writer:
    """Write `release.toml` and a key into a folder; gives a function of the section [dp] and more."""
    key = folder / "my.key"
    key.write_bytes(os.urandom(32))
    key.chmod(0o600)

    def written(
        dp: str | None = "epsilon = 1.0",
        *,
        columns: str = COLUMNS,
        tables: str = ALL,
        mode: str = "dp",
        source: str = "",
    ) -> Path:
        section = "" if dp is None else f"[dp]\n{dp}\n"
        head = HEAD.format(mode=mode, source=source)
        (folder / "release.toml").write_text(head + columns + section + tables)
        return folder / "release.toml"

    return written


def mistakes(path: Path) -> list[str]:
    """The sentences that a spec is refused with."""
    with pytest.raises(SpecError) as caught:
        read_spec(path)
    return list(caught.value.problems)
