"""A study: how a data set's releases are evaluated. Data, read from a TOML file, so that no code names a column.

Gives a checked `Study`: how the data spells blanks, bins, orders, which columns each measure reads, rules that no
record may break, what attackers know, and the rows of the printed table with the figures to reach. Files that a study
names are looked for beside it and beside the data. Invariant: an unknown key is a mistake.
"""

from __future__ import annotations

import json
import tomllib
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Literal

from pydantic import Field, ValidationError

from engine.errors import SpecError
from engine.study_risks import Risks
from engine.study_sections import (
    Binning,
    Components,
    Correlations,
    Distributions,
    Estimate,
    Gap,
    Inconsistencies,
    Learning,
    Marginals,
    Models,
    Propensity,
    Ranges,
    Regression,
    Rule,
    Section,
    Tables,
    Univariate,
)

ENDING = ".study.toml"


class Row(Section):
    """One row of the printed table, and what a figure is to reach.

    Attributes
    ----------
    label : str
    measure : str
        Name of a figure: `measure.value`.
    reference : str
        What the reference reaches, as text.
    reach : str
        What is to be reached: "<= 0.3" or ">= 960"; empty: the figure is only stated.
    digits : int
        Digits after the point.
    better : str
        Where nothing is to be reached: whether "lower" or "higher" figures are better.
    """

    label: str
    measure: str
    reference: str = ""
    reach: str = Field(default="", pattern=r"^((<=|>=) -?[0-9.]+)?$")
    digits: int = 2
    better: Literal["lower", "higher"] = "lower"


class Study(Section):
    """How a data set's releases are evaluated. Sections that are absent are not measured.

    Attributes
    ----------
    title : str
    spec, folder : str
        For ./scripts/scores: the spec of the release, relative to the study; the folder, relative to the spec's, that
        holds key and data.
    nulls : tuple of str
        How the data, and synthetic tables of it, spell blanks in text files; an empty field always is one.
    texts : tuple of str
        Columns that are texts though they look like numbers.
    schema_file : str, optional
        JSON file in the form of NIST's schema.json: lists of values give their order (key `schema` in the file).
    dictionary : str, optional
        JSON file in the form of NIST's data_dictionary.json: what columns and values are called.
    labels : dict of str to str
        What columns are called.
    bins : dict of str to Binning
    order : dict of str to list of str
        Texts of a column in their order; other texts are ordered by code point.
    """

    title: str
    spec: str = ""
    folder: str = ""
    nulls: tuple[str, ...] = ()
    texts: tuple[str, ...] = ()
    schema_file: str | None = None
    dictionary: str | None = None
    labels: dict[str, str] = Field(default_factory=dict)
    bins: dict[str, Binning] = Field(default_factory=dict)
    order: dict[str, list[str]] = Field(default_factory=dict)
    univariate: Univariate | None = None
    correlations: Correlations | None = None
    marginals: Marginals | None = None
    propensity: Propensity | None = None
    regression: Regression | None = None
    inconsistencies: Inconsistencies | None = None
    ranges: Ranges | None = None
    components: Components | None = None
    tables: Tables | None = None
    models: Models | None = None
    distributions: Distributions | None = None
    estimates: tuple[Estimate, ...] = ()
    learning: tuple[Learning, ...] = ()
    gaps: tuple[Gap, ...] = ()
    risks: Risks | None = None
    rows: tuple[Row, ...] = ()


def read_study(path: Path, *, beside: Sequence[Path] = ()) -> Study:
    """Read a study.

    Parameters
    ----------
    path : Path
        A TOML file.
    beside : sequence of Path
        Folders where files that the study names are looked for, after its own.

    Raises
    ------
    SpecError
        The file, or one that it names, is absent or wrong.
    """
    try:
        study = Study.model_validate(tomllib.loads(path.read_text(encoding="utf-8")))
    except FileNotFoundError:
        raise SpecError(f"no study {path}") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise SpecError(f"study {path}: is not TOML: {error}") from None
    except ValidationError as error:
        wrong = [f"study {path}: {_place(e['loc'])}: {e['msg']}" for e in error.errors()]
        raise SpecError(wrong) from None
    told = study.inconsistencies
    if told is None or told.file is None:
        return study
    return _with_rules(study, told, _rules(find_file(told.file, [path.parent, *beside])))


def find_file(name: str, folders: Sequence[Path]) -> Path:
    """Find a file that a study names: by its path in one of the folders, or by its bare name.

    Raises
    ------
    SpecError
        None of them has it.
    """
    tried = [folder / told for folder in folders for told in (name, Path(name).name)]
    for path in tried:
        if path.is_file():
            return path
    places = ", ".join(dict.fromkeys(str(path.parent) for path in tried))
    raise SpecError(f"the study names the file {Path(name).name}, which is not in {places}")


def _rules(path: Path) -> tuple[Rule, ...]:
    """Rules of a JSON file."""
    try:
        return tuple(Rule.model_validate(raw) for raw in json.loads(path.read_text("utf-8")))
    except (ValueError, TypeError):
        raise SpecError(f"file of rules {path}: is not a JSON list of rules") from None


def _with_rules(study: Study, told: Inconsistencies, more: tuple[Rule, ...]) -> Study:
    """Return the study with rules read from a file."""
    whole = told.model_copy(update={"rules": told.rules + more, "file": None})
    return study.model_copy(update={"inconsistencies": whole})


def _place(parts: tuple[Any, ...]) -> str:
    """Dotted place of a mistake."""
    return ".".join(map(str, parts))
