"""Finding the study that somebody names: a preset by its name, a file, or the spec of a release.

Takes what `--spec` says; gives a study, or what a release's spec says of how the data is written. Presets are files
`NAME.study.toml` in a folder `releases`; none is code.
"""

from __future__ import annotations

import glob
import tomllib
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from engine.errors import SpecError
from engine.evaluation.study.model import ENDING, Study, read_study
from engine.schema import Writing
from engine.spec import ReleaseSpec
from engine.texts import parsed_toml

OF_A_RELEASE = frozenset({"release", "source", "privacy"})
"""Sections by which a file is known to be the spec of a release."""


def named_study(
    what: str | Path, *, beside: Sequence[Path], read_spec: Callable[[Path], ReleaseSpec]
) -> tuple[Study | None, ReleaseSpec | None]:
    """Return the study, or the spec of a release, that somebody names.

    Parameters
    ----------
    what : str or Path
        A file, or the name of a preset.
    beside : sequence of Path
        Folders where files that the study names are looked for, after its own.
    read_spec : callable
        Reads the spec of a release.

    Raises
    ------
    SpecError
        There is no such file or preset, or it is wrong.
    """
    path = Path(what)
    if not path.is_file():
        path = _preset(str(what))
    try:
        sections = parsed_toml(path.read_text(encoding="utf-8")).keys()
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise SpecError(f"{path}: is not TOML: {error}") from None
    if OF_A_RELEASE & sections:
        return None, read_spec(path)
    return read_study(path, beside=beside), None


def of_spec(spec: ReleaseSpec, study: Study) -> Study:
    """Return a study that reads the data as the spec of a release does: its blanks, texts, orders and labels."""
    texts = tuple(c.name for c in spec.columns if c.value_type == "text")
    order = {
        c.name: [str(v) for v in c.domain]
        for c in spec.columns
        if c.value_type == "text" and c.domain
    }
    nulls = dict.fromkeys(n for c in spec.columns for n in c.nulls if n)
    labels = {c.name: c.label for c in spec.columns if c.label}
    return study.model_copy(
        update={"nulls": tuple(nulls), "texts": texts, "order": order, "labels": labels}
    )


def check_plain(spec: ReleaseSpec, data: Any = None) -> None:
    """Refuse a source that is not one plain file, which is all that an evaluation reads: figures would be wrong.

    Parameters
    ----------
    data : object, optional
        What is read in its place; all is well if that is not one of its files.

    Raises
    ------
    SpecError
    """
    if spec.source.path is None or (data is not None and not _is_of(spec, data)):
        return
    if found := _beyond_plain(spec):
        raise SpecError(
            f"source: {', '.join(found)}: an evaluation reads one plain file of UTF-8 text, Parquet or DuckDB, with "
            "numbers such as 1.5 and dates such as 2021-12-31; write the same rows as one Parquet file and give that, "
            "or hand them over in Python as a frame"
        )


def _is_of(spec: ReleaseSpec, data: Any) -> bool:
    """Whether something is one of the files of a spec's source."""
    if not isinstance(data, str | Path):
        return False
    files = {Path(f).resolve() for p in spec.source.paths for f in (p, *glob.glob(p))}
    return Path(data).resolve() in files


def _beyond_plain(spec: ReleaseSpec) -> list[str]:
    """What of a source is more than one plain file."""
    source, path = spec.source, spec.source.path or ""
    given = {
        "several files": source.more or (glob.has_magic(path) and not Path(path).exists()),
        f'format = "{source.format}"': source.format not in ("csv", "parquet", "duckdb"),
        "sql": source.sql,
        "encoding": (source.encoding or "utf-8").lower().replace("_", "-") not in ("utf-8", "utf8"),
        "delimiter": source.delimiter not in (None, ",", ";", "\t", "|"),
        "skip": source.skip,
        "sheet": source.sheet,
        "decimal, thousands or date_format": any(c.writing != Writing() for c in spec.columns),
    }
    return [name for name, is_so in given.items() if is_so]


def preset_folders() -> list[Path]:
    """Return the folders that hold presets: `releases` here, and beside the installed engine."""
    here = Path("releases")
    installed = Path(__file__).parents[3] / "releases"
    return [folder for folder in dict.fromkeys((here, installed)) if folder.is_dir()]


def _preset(name: str) -> Path:
    """The file of a preset."""
    there: dict[str, Path] = {}
    for folder in preset_folders():
        for path in sorted(folder.glob(f"*{ENDING}")):
            there.setdefault(path.name.removesuffix(ENDING), path)
    if name not in there:
        presets = ", ".join(there) or "none"
        raise SpecError(f"--spec {name}: no such file, and no such preset; presets: {presets}")
    return there[name]
