"""Turns the `[source]` section of a spec into where the rows are and whom they are about.

Takes the checked section; gives a `schema.SourceSpec` whose path stands by itself. It looks at file
names only: whether the rows can be read is the business of `sources`.
"""

from __future__ import annotations

import glob
from collections.abc import Sequence
from pathlib import Path

from engine.errors import SpecError
from engine.schema import SourceSpec
from engine.spec.model import SUFFIXES, Format, SourceSection, did_you_mean

FORMATS = tuple(dict.fromkeys(SUFFIXES.values()))


def source_from(section: SourceSection, folder: Path, problems: list[str]) -> SourceSpec:
    """Make the source of a spec file.

    Parameters
    ----------
    folder : Path
        Relative paths start here.
    problems : list of str
        Sentences are added here.
    """
    form = section.format or format_of(section.path)
    if form is None:
        known = " or ".join(f'"{one}"' for one in FORMATS)
        problems.append(f"source.format: the name does not tell it; say {known}")
    elif section.table is not None and form != "duckdb":
        problems.append("source.table: only a DuckDB file has tables")
    return SourceSpec(
        path=_located(section.path, folder),
        format=form or "csv",
        table=section.table,
        entities=tuple(section.entities),
        identity=tuple(section.identity),
    )


def check_names(source: SourceSpec, names: Sequence[str], problems: list[str]) -> None:
    """Check the columns that a source names.

    Parameters
    ----------
    names : sequence of str
        All declared columns.
    problems : list of str
        Sentences are added here.
    """
    for key, listed in (("entities", source.entities), ("identity", source.identity)):
        for name in dict.fromkeys(listed):
            if name not in names:
                problems.append(
                    f"source.{key}: no section [columns.{name}]{did_you_mean(name, names)}"
                )
        if len(set(listed)) < len(listed):
            problems.append(f"source.{key}: names a column twice")
    if source.identity and source.entities:
        problems.append(
            "source.identity: is for sources without entities; leave one of the two out"
        )


def format_of(path: str) -> Format | None:
    """The format of a source by the ending of its name, None if it tells nothing."""
    name = path.lower()
    return next((form for suffix, form in SUFFIXES.items() if name.endswith(suffix)), None)


def named_format(path: str) -> Format:
    """The format of a source by the ending of its name.

    Raises
    ------
    SpecError
        The ending tells nothing.
    """
    form = format_of(path)
    if form is None:
        endings = " or ".join(f".{one}" for one in FORMATS)
        raise SpecError(f"{path}: the name does not tell the format; use {endings}")
    return form


def _located(path: str, folder: Path) -> str:
    """A path or glob relative to the folder, whose own name is not part of the glob."""
    plain = folder / path
    if Path(path).is_absolute() or plain.exists() or not glob.has_magic(path):
        return str(plain)
    return str(Path(glob.escape(str(folder))) / path)
