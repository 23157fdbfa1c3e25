"""Studies: how a data set's releases are evaluated, as data read from a TOML file, so that no code names a column.

A `Study` says how the data spells blanks, bins, orders, which columns each measure reads, rules that no record may
break, what attackers know, and the rows of the printed table with the figures to reach. It comes from a file, a preset
(`NAME.study.toml` in a folder `releases`), the spec of a release, or is chosen by what the columns look like. Files
that a study names are looked for beside it and beside the data. Invariant: an unknown key is a mistake.
"""

from __future__ import annotations

import tomllib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal

import pandas as pd
from pydantic import BaseModel, Field, StrictFloat, StrictInt, TypeAdapter, ValidationError

from engine.errors import SpecError
from engine.evaluation.attacks.protocol import Assumptions, Attacker
from engine.evaluation.data.aligned import Binning, Distinct, Reading
from engine.evaluation.data.reading import Kind, is_number, kind_of_column
from engine.evaluation.findings import Section
from engine.evaluation.measures.analyses import Components, Estimate
from engine.evaluation.measures.association import Correlations
from engine.evaluation.measures.combinations import Marginals, Tables
from engine.evaluation.measures.counts import Distributions, Univariate
from engine.evaluation.measures.learning import Learning
from engine.evaluation.measures.propensity import Models, Propensity
from engine.evaluation.measures.rules import Rule
from engine.evaluation.measures.suite import Sections
from engine.schema import ColumnSet
from engine.spec import ReleaseSpec
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
    """Read a study."""
    try:
        study = Study.model_validate(parsed_toml(path.read_text(encoding="utf-8")))
    except FileNotFoundError:
        raise SpecError(f"no study {path}") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise SpecError(f"study {path}: is not TOML: {error}") from None
    except ValidationError as error:
        wrong = [
            f"study {path}: {'.'.join(map(str, e['loc']))}: {e['msg']}" for e in error.errors()
        ]
        raise SpecError(wrong) from None
    declared = study.inconsistencies
    if declared is None or declared.file is None:
        return study
    file = find_file(declared.file, [path.parent, *beside])
    more = _json(file, "a JSON list of rules", tuple[Rule, ...])
    whole = declared.model_copy(update={"rules": declared.rules + more, "file": None})
    return study.model_copy(update={"inconsistencies": whole})


def find_file(name: str, folders: Sequence[Path]) -> Path:
    """Find a file that a study names: by its path in one of the folders, or by its bare name."""
    tried = [folder / relative for folder in folders for relative in (name, Path(name).name)]
    for path in tried:
        if path.is_file():
            return path
    places = ", ".join(dict.fromkeys(str(path.parent) for path in tried))
    raise SpecError(f"the study names the file {Path(name).name}, which is not in {places}")


# Finding the study that somebody names


OF_A_RELEASE = frozenset({"release", "source", "privacy"})
"""Sections by which a file is known to be the spec of a release."""


def named_study(
    what: str | Path, *, beside: Sequence[Path], read_spec: Callable[[Path], ReleaseSpec]
) -> tuple[Study | None, ReleaseSpec | None]:
    """Return the study, or the spec of a release, that somebody names."""
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


def _preset(name: str) -> Path:
    there: dict[str, Path] = {}
    # In `releases` here, and beside the installed engine
    for folder in (Path("releases"), Path(__file__).parents[2] / "releases"):
        for path in sorted(folder.glob(f"*{ENDING}")):
            there.setdefault(path.name.removesuffix(ENDING), path)
    if name not in there:
        presets = ", ".join(there) or "none"
        raise SpecError(f"--spec {name}: no such file, and no such preset; presets: {presets}")
    return there[name]


# Files that a study names beside its own


class _SchemaColumn(BaseModel):
    dtype: Any = None
    values: list[Any] = []
    null_value: Any = None


class _SchemaFile(BaseModel):
    columns: dict[str, _SchemaColumn] = Field(alias="schema")


class _Described(BaseModel):
    description: Any = None
    values: dict[str, Any] = {}


BLANK_LABEL = ""
"""Key, among the labels of a column's values, of the blank."""


def with_files(study: Study, folders: Sequence[Path]) -> Study:
    """Return the study with orders, texts and spellings of blanks that its schema file says.

    study: Its `schema_file` has the form of NIST's schema.json: column -> dtype, values in their order,
        null_value.
    """
    if study.schema_file is None:
        return study
    path = find_file(study.schema_file, folders)
    what = "a JSON object of one object a column under 'schema', whose values are a list"
    schema = _json(path, what, _SchemaFile).columns
    order, texts, nulls = dict(study.order), list(study.texts), list(study.nulls)
    for name, entry in schema.items():
        null = entry.null_value
        nulls += [str(null)] if null is not None else []
        values = [str(v) for v in entry.values if v != null]
        if entry.dtype == "object" and not all(map(is_number, values)):
            texts.append(name)
            order.setdefault(name, values)
    once = {"texts": tuple(dict.fromkeys(texts)), "nulls": tuple(dict.fromkeys(nulls))}
    return study.model_copy(update={"order": order, **once})


def labels_of(
    study: Study,
    folders: Sequence[Path],
    *,
    labels: Mapping[str, str] | None = None,
    value_labels: Mapping[str, Mapping[str, str]] | None = None,
) -> tuple[dict[str, str], dict[str, dict[str, str]]]:
    """Return what columns, and their values as text, are called.

    study: Its `dictionary` has the form of NIST's data_dictionary.json: column -> description, values.
    labels, value_labels: Those that a release carries count where neither the study nor its dictionary says
        any.

    Returns: Column -> value as text (whole numbers without a point; `BLANK_LABEL`: the blank) -> label.
    """
    named = dict(labels or {})
    values = {name: dict(of_values) for name, of_values in (value_labels or {}).items()}
    if study.dictionary is not None:
        path = find_file(study.dictionary, folders)
        blanks = {"", *with_files(study, folders).nulls}
        what = "a JSON object of one object a column, whose values are one, too"
        for name, entry in _json(path, what, dict[str, _Described]).items():
            if entry.description:
                named[name] = str(entry.description)
            # "min" and "max" are limits, not values: what they have are numbers.
            texts = {
                BLANK_LABEL if value in blanks else value: text
                for value, text in entry.values.items()
                if isinstance(text, str)
            }
            if texts:
                values[name] = texts
    return {**named, **study.labels}, values


def read_baselines(study: Study, folders: Sequence[Path]) -> dict[str, float] | None:
    """Return the declared precisions of a model on people outside the data, by column; None: none are declared."""
    if study.risks is None or study.risks.baselines is None:
        return None
    path = find_file(study.risks.baselines, folders)
    share = Annotated[StrictFloat | StrictInt, Field(ge=0, le=1)]
    found = _json(path, "a JSON object of numbers from 0 to 1", dict[str, share])
    return {name: float(value) for name, value in found.items()}


def _json(path: Path, what: str, kind: Any) -> Any:
    """The content of a JSON file, of some type."""
    try:
        return TypeAdapter(kind).validate_python(parsed_json(path.read_text(encoding="utf-8")))
    except ValueError:
        raise SpecError(f"{path}: is not {what}") from None


# The study of data that nobody has declared one for


RANKS, FEW = 20, 20
"""Numbers of more than `FEW` values are cut into `RANKS` groups of equal share of the original."""
MOST_MARGINALS, MOST_ESTIMATES, MOST_LEVELS = 500, 12, 100
LEARNED = 5_000
"""Rows that a learner chosen by rule is trained on at most."""
MOST_KNOWN = 8
"""Quasi-identifiers, as many as NIST's SDNIST report takes."""
COMMON = 0.9
"""A target of learning whose commonest value has a larger share leaves nothing to learn."""
_ROWS_OF_IDS = 50


@dataclass(frozen=True, kw_only=True, slots=True)
class DefaultStudy:
    study: Study
    notes: tuple[str, ...]  # What was chosen and left out, and why; names columns, never values


@dataclass(frozen=True, kw_only=True, slots=True)
class _Column:
    name: str
    kind: Kind
    n_values: int  # Distinct values, the blank not counted
    has_blanks: bool
    commonest: object  # The commonest value; None where all are blank
    share: float  # Its share of all rows, or that of the blank where it is larger
    is_id: bool  # Nearly every row has a value of its own
    n_tables: int  # Tables that have it
    width: int  # Columns of the widest of them

    @property
    def is_constant(self) -> bool:
        return self.n_values + self.has_blanks < 2


def default_study(
    original: pd.DataFrame, tables: Mapping[ColumnSet, Distinct], *, title: str
) -> DefaultStudy:
    """Choose a study by what the columns look like."""
    seen = [
        _seen(original[name], sets)
        for name in original.columns
        if (sets := [columns for columns in tables if name in columns])
    ]
    ids = tuple(c.name for c in seen if c.is_id)
    used = [c for c in seen if not c.is_id]
    varied = [c for c in used if not c.is_constant]
    notes = ["no study was declared: columns are read, binned and aligned by what they look like"]
    if ids:
        notes.append(
            f"{', '.join(ids)}: nearly every row has a value of its own, left out of most measures"
        )
    if constant := [c.name for c in seen if c.is_constant and not c.is_id]:
        notes.append(f"{', '.join(constant)}: the same in all rows of the original")
    ordered = tuple(c.name for c in varied if c.kind != "text")
    unvaried = tuple(c.name for c in seen if c not in varied)
    width = max((c.width for c in used), default=0)
    # Numbers and times of many values, in groups of equal share.
    wide = [c.name for c in used if c.kind != "text" and c.n_values > FEW]
    declared: dict[str, object] = {
        "title": title,
        "bins": {name: Binning(ranks=RANKS) for name in wide},
    }
    if used:
        declared |= {
            "univariate": Univariate(leave_out=ids),
            "marginals": Marginals(width=min(width, 3), leave_out=ids, most=MOST_MARGINALS),
            "propensity": Propensity(),
            "tables": Tables(leave_out=ids),
        }
    if len(varied) > 1:
        declared |= {
            "correlations": Correlations(columns=ordered),
            "components": Components(n=min(5, len(varied)), leave_out=unvaried),
            "models": Models(leave_out=unvaried),
        }
    if ordered:
        declared["distributions"] = Distributions(columns=ordered)
    # Means of numbers, and shares of the commonest value of texts.
    means = [
        Estimate(name=f"mean of {c.name}", kind="mean", column=c.name)
        for c in varied
        if c.kind == "number" and c.n_values
    ]
    shares = [
        Estimate(name=f"share of the commonest {name}", kind="share", column=name, value=str(value))
        for name, value in [
            (c.name, c.commonest) for c in varied if c.kind == "text" and c.n_values
        ]
    ]
    declared["estimates"] = (*means[:MOST_ESTIMATES], *shares[:MOST_ESTIMATES])
    # One task: a column of few values, none of them too common, in the widest table and in most tables.
    several = [c for c in varied if c.width > 1] if len(varied) > 1 else []
    fitting = [c for c in several if 2 <= c.n_values <= FEW // 2 and c.share <= COMMON]
    fitting = fitting or [c for c in several if c.name in wide]
    if fitting:
        best = max(fitting, key=lambda c: (c.width, c.n_tables, -c.share, c.name))
        notes.append(
            f"learners predict {best.name}, which was chosen by rule, from at most {LEARNED:,} rows"
        )
        declared["learning"] = (Learning(target=best.name, rows=LEARNED),)
    elif len(varied) > 1:
        notes.append("no column is fit to be learned from the others")
    # Known columns: those of 2 to 100 values that most tables have, at most half of all; the first ones of equals.
    fitting = [c for c in varied if 2 <= c.n_values + c.has_blanks <= MOST_LEVELS]
    most = max(min(MOST_KNOWN, (len(varied) + 1) // 2, len(varied) - 1), 0)
    known = sorted(fitting, key=lambda c: -c.n_tables)[:most]
    if known:
        names = tuple(c.name for c in varied if c in known)
        targets = tuple(c.name for c in varied if c not in known)
        declared["risks"] = Attacker(quasi_identifiers=names, targets=targets)
        notes.append(
            f"an attacker is taken to know {', '.join(names)}, chosen by rule (columns of few values that most tables "
            "have); declare what an attacker can know of your people"
        )
    else:
        notes.append("no attack is run: no two columns that an attacker could know and want")
    return DefaultStudy(study=Study.model_validate(declared), notes=tuple(notes))


def _seen(column: pd.Series, column_sets: Sequence[ColumnSet]) -> _Column:
    kind, filled = kind_of_column(column), column.dropna()
    counted = filled.value_counts(sort=True) if len(filled) else pd.Series(dtype="int64")
    counted = counted[counted > 0]  # categories that no row has
    n_blank, n_values = len(column) - len(filled), len(counted)
    largest = int(counted.iloc[0]) if n_values else 0
    # Texts mostly of one row each (names), and whole numbers of one row each; measured numbers may well be so.
    is_id = len(filled) >= _ROWS_OF_IDS and kind != "time"
    if is_id and kind == "text":
        is_id = 2 * n_values > len(filled)
    elif is_id:
        is_id = n_values == len(filled) and bool((filled.astype("float64") % 1 == 0).all())
    return _Column(
        name=str(column.name),
        kind=kind,
        n_values=n_values,
        has_blanks=n_blank > 0,
        commonest=counted.index[0] if n_values else None,
        share=max(largest, n_blank) / max(len(column), 1),
        is_id=is_id,
        n_tables=len(column_sets),
        width=max(map(len, column_sets)),
    )
