"""Finding the study that somebody names: a preset by its name, a file, or the spec of a release.

Takes what `--spec` says; gives a study, or what a release's spec says of how the data is written. Presets are files
`NAME.study.toml` in a folder `releases`; none is code.
"""

from __future__ import annotations

import tomllib
from collections.abc import Callable, Sequence
from pathlib import Path

from engine.errors import SpecError
from engine.evaluation.study.model import ENDING, Study, read_study
from engine.spec import ReleaseSpec
from engine.texts import parsed_toml

OF_A_RELEASE = frozenset({"release", "source", "privacy"})
"""Sections by which a file is known to be the spec of a release."""


def named_study(
    what: str | Path, *, beside: Sequence[Path], read_spec: Callable[[Path], ReleaseSpec]
) -> tuple[Study | None, ReleaseSpec | None]:
    """Return the study, or the spec of a release, that somebody names.

    beside: Folders where files that the study names are looked for, after its own.
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
    nulls = dict.fromkeys(n for c in spec.columns for n in c.spellings if n)
    labels = {c.name: c.label for c in spec.columns if c.label}
    return study.model_copy(
        update={"nulls": tuple(nulls), "texts": texts, "order": order, "labels": labels}
    )


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
