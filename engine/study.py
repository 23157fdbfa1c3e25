"""A study: what a data set's scores are about. Data, read from a TOML file, so that no code names a column.

Gives a checked `Study`: bins, orders, which columns each measure reads, rules that no record may break, groups of
regressions, and the rows of the printed table, with the figures to reach. Invariant: an unknown key is a mistake.
"""

from __future__ import annotations

import json
import tomllib
from pathlib import Path
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from engine.errors import SpecError


class _Section(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class Binning(_Section):
    """How the values of a column are grouped: by ranks of the original, or by edges.

    Attributes
    ----------
    ranks : int, optional
        Number of groups of equal share of the original; ties stay together.
    apart : tuple of float
        Values that are no part of the ranking and a group each.
    edges : tuple of float
        Groups (edges[i], edges[i + 1]]; what lies outside belongs to none and is left out.
    """

    ranks: int | None = None
    apart: tuple[float, ...] = ()
    edges: tuple[float, ...] = ()


class Univariate(_Section):
    """Counts of one column.

    Attributes
    ----------
    leave_out : tuple of str
        Columns that are not counted.
    known : tuple of str
        Columns of which only values of the original count, blanks not.
    """

    leave_out: tuple[str, ...] = ()
    known: tuple[str, ...] = ()


class Correlations(_Section):
    """Kendall's tau of pairs of columns.

    Attributes
    ----------
    columns : tuple of str
    binned : tuple of str
        Columns that are binned first.
    blanks : str
        "lowest": a blank is the lowest value; "left out": pairs with a blank do not count.
    diagonal : bool
        Count each column's tau with itself too, whose difference is nought (a published median did).
    """

    columns: tuple[str, ...]
    binned: tuple[str, ...] = ()
    blanks: Literal["lowest", "left out"] = "left out"
    diagonal: bool = False


class Marginals(_Section):
    """Densities of combinations of columns.

    Attributes
    ----------
    width : int
        Number of columns combined, beside `group`.
    group : tuple of str
        Columns that are in every combination.
    leave_out : tuple of str
        Columns in none.
    unbinned : tuple of str
        Columns that a second score leaves unbinned.
    """

    width: int = 2
    group: tuple[str, ...] = ()
    leave_out: tuple[str, ...] = ()
    unbinned: tuple[str, ...] = ()


class Propensity(_Section):
    """How well a decision tree tells synthetic rows from original ones.

    Attributes
    ----------
    depth : int
        Depth of the tree.
    binned : tuple of str
        Columns that are binned first.
    blanks_last : tuple of str
        Columns whose blanks are the highest value; elsewhere they are the lowest.
    """

    depth: int = 6
    binned: tuple[str, ...] = ()
    blanks_last: tuple[str, ...] = ()


class RegressionGroup(_Section):
    """Rows of one regression: those with one of the listed values in every column of `where`."""

    name: str
    where: dict[str, list[float | str]] = {}


class Regression(_Section):
    """Slopes of `y` on `x` by least squares, one for each group, rounded to `digits`."""

    x: str
    y: str
    digits: int = 2
    groups: tuple[RegressionGroup, ...]


class Rule(_Section):
    """Something that never is: DuckDB SQL over `columns`, true where a record is impossible; counted in `group`."""

    name: str
    columns: tuple[str, ...]
    violated: str
    group: str = "all"


class Inconsistencies(_Section):
    """Rules, and how they spell a blank.

    Attributes
    ----------
    file : str, optional
        JSON list of rules, relative to the study.
    rules : tuple of Rule
        Rules; those of `file` are added.
    blank : str, optional
        Columns are texts in the rules and a blank is this one; without it they have their types, and blanks are NULL.
    unless : dict of str to tuple of str
        Rule -> columns; the rule does not count in a table that has any of them.
    """

    file: str | None = None
    rules: tuple[Rule, ...] = ()
    blank: str | None = None
    unless: dict[str, tuple[str, ...]] = {}


class Ranges(_Section):
    """A column of whole numbers whose ranges are counted: all snapped ones, and `random` others."""

    column: str
    random: int = 200


class Row(_Section):
    """One row of the printed table.

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


class Study(_Section):
    """What a data set's scores are about. Sections that are absent are not measured.

    Attributes
    ----------
    title : str
    spec : str
        File of the release's spec, relative to the study.
    folder : str
        Folder, relative to the spec's, that holds the key and the data.
    bins : dict of str to Binning
    order : dict of str to list of str
        Texts of a column in their order; other texts are ordered by code point.
    """

    title: str
    spec: str
    folder: str
    bins: dict[str, Binning] = {}
    order: dict[str, list[str]] = {}
    univariate: Univariate | None = None
    correlations: Correlations | None = None
    marginals: Marginals | None = None
    propensity: Propensity | None = None
    regression: Regression | None = None
    inconsistencies: Inconsistencies | None = None
    ranges: Ranges | None = None
    rows: tuple[Row, ...] = ()


def read_study(path: Path, *, rules_in: Path | None = None) -> Study:
    """Read a study.

    Parameters
    ----------
    path : Path
        A TOML file.
    rules_in : Path, optional
        Folder that the file of rules is in; by default it is found from the study's.

    Raises
    ------
    SpecError
        The file is absent or wrong.
    """
    try:
        study = Study.model_validate(tomllib.loads(path.read_text(encoding="utf-8")))
    except FileNotFoundError:
        raise SpecError(f"no study {path}") from None
    except tomllib.TOMLDecodeError as error:
        raise SpecError(f"study {path}: is not TOML: {error}") from None
    except ValidationError as error:
        wrong = "; ".join(f"{_place(e['loc'])}: {e['msg']}" for e in error.errors())
        raise SpecError(f"study {path}: {wrong}") from None
    told = study.inconsistencies
    if told is None or told.file is None:
        return study
    listed = path.parent / told.file if rules_in is None else rules_in / Path(told.file).name
    return _with_rules(study, told, _rules(listed))


def _rules(path: Path) -> tuple[Rule, ...]:
    """Rules of a JSON file."""
    try:
        return tuple(Rule.model_validate(raw) for raw in json.loads(path.read_text("utf-8")))
    except FileNotFoundError:
        raise SpecError(f"no file of rules {path}") from None
    except (ValueError, TypeError):
        raise SpecError(f"file of rules {path}: is not a JSON list of rules") from None


def _with_rules(study: Study, told: Inconsistencies, more: tuple[Rule, ...]) -> Study:
    """Return the study with rules read from a file."""
    whole = told.model_copy(update={"rules": told.rules + more, "file": None})
    return study.model_copy(update={"inconsistencies": whole})


def _place(parts: tuple[Any, ...]) -> str:
    """Dotted place of a mistake."""
    return ".".join(map(str, parts))
