"""A study: how a data set's releases are evaluated. Data, read from a TOML file, so that no code names a column.

Gives a checked `Study`: how the data spells blanks, bins, orders, which columns each measure reads, rules that no
record may break, what attackers know, and the rows of the printed table with the figures to reach. Files that a study
names are looked for beside it and beside the data. Invariant: an unknown key is a mistake.
"""

from __future__ import annotations

import tomllib
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Literal

from pydantic import Field, ValidationError

from engine.errors import SpecError
from engine.evaluation.attacks import Assumptions, Attacker
from engine.evaluation.data.aligned import Reading
from engine.evaluation.findings import Section
from engine.evaluation.measures import Inconsistencies, Rule, Sections
from engine.texts import parsed_json, parsed_toml

ENDING = ".study.toml"


class Row(Section):
    """One row of the printed table, and what a figure is to reach."""

    label: str
    measure: str  # Name of a figure: `measure.value`
    reference: str = ""  # What the reference reaches, as text
    # What is to be reached: "<= 0.3" or ">= 960"; empty: the figure is only stated.
    reach: str = Field(default="", pattern=r"^((<=|>=) -?[0-9.]+)?$")
    digits: int = 2  # Digits after the point
    # Where nothing is to be reached: whether "lower" or "higher" figures are better.
    better: Literal["lower", "higher"] = "lower"


class Study(Reading, Sections):
    """How a data set's releases are evaluated: how the data is read, what is measured, what attackers know."""

    title: str
    # spec, folder: For ./scripts/scores: the spec of the release, relative to the study; the folder,
    # relative to the spec's, that holds key and data.
    spec: str = ""
    folder: str = ""
    # JSON file in the form of NIST's schema.json: lists of values give their order (key `schema` in the
    # file).
    schema_file: str | None = None
    # JSON file in the form of NIST's data_dictionary.json: what columns and values are called.
    dictionary: str | None = None
    labels: dict[str, str] = Field(default_factory=dict)  # What columns are called
    risks: Attacker | None = None
    # What `tablepack attack` assumes; `evaluate` does not read it.
    attacks: Assumptions = Assumptions()
    rows: tuple[Row, ...] = ()


def read_study(path: Path, *, beside: Sequence[Path] = ()) -> Study:
    """Read a study.

    beside: Folders where files that the study names are looked for, after its own.
    """
    try:
        study = Study.model_validate(parsed_toml(path.read_text(encoding="utf-8")))
    except FileNotFoundError:
        raise SpecError(f"no study {path}") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise SpecError(f"study {path}: is not TOML: {error}") from None
    except ValidationError as error:
        wrong = [f"study {path}: {_place(e['loc'])}: {e['msg']}" for e in error.errors()]
        raise SpecError(wrong) from None
    declared = study.inconsistencies
    if declared is None or declared.file is None:
        return study
    return _with_rules(study, declared, _rules(find_file(declared.file, [path.parent, *beside])))


def find_file(name: str, folders: Sequence[Path]) -> Path:
    """Find a file that a study names: by its path in one of the folders, or by its bare name."""
    tried = [folder / relative for folder in folders for relative in (name, Path(name).name)]
    for path in tried:
        if path.is_file():
            return path
    places = ", ".join(dict.fromkeys(str(path.parent) for path in tried))
    raise SpecError(f"the study names the file {Path(name).name}, which is not in {places}")


def _rules(path: Path) -> tuple[Rule, ...]:
    """Rules of a JSON file."""
    try:
        return tuple(Rule.model_validate(raw) for raw in parsed_json(path.read_text("utf-8")))
    except (ValueError, TypeError):
        raise SpecError(f"file of rules {path}: is not a JSON list of rules") from None


def _with_rules(study: Study, section: Inconsistencies, more: tuple[Rule, ...]) -> Study:
    """Return the study with rules read from a file."""
    whole = section.model_copy(update={"rules": section.rules + more, "file": None})
    return study.model_copy(update={"inconsistencies": whole})


def _place(parts: tuple[Any, ...]) -> str:
    """Dotted place of a mistake."""
    return ".".join(map(str, parts))
