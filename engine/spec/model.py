"""The shape of a spec file: which keys there are and what each may hold.

Takes the plain values of one section; gives a checked model of it, or sentences that say what is
wrong, each with its dotted place (`columns.AGE.kind`). Invariant: an unknown key is a mistake,
never ignored: a typing error in a privacy setting must not weaken it. What depends on other
sections is checked in `spec`.
"""

from __future__ import annotations

import datetime
import difflib
from collections.abc import Iterable
from typing import Any, Literal, TypeVar

from pydantic import BaseModel, ConfigDict, ValidationError
from pydantic_core import ErrorDetails

from engine.params import Allocation, Method, Noise, Post, Sample
from engine.schema import ColumnKind, ValueType

Format = Literal["csv", "parquet", "xlsx", "duckdb", "sqlite", "postgres", "mysql"]
Scalar = bool | int | float | datetime.datetime | datetime.date | str
"""What TOML can hold as a single value of a column."""
SUFFIXES: dict[str, Format] = {
    **dict.fromkeys((".csv", ".tsv", ".txt", ".csv.gz", ".tsv.gz", ".txt.gz"), "csv"),
    **dict.fromkeys((".parquet", ".pq"), "parquet"),
    **dict.fromkeys((".xlsx", ".xlsm", ".xlsb", ".xls", ".ods"), "xlsx"),
    **dict.fromkeys((".sqlite", ".sqlite3"), "sqlite"),
    **dict.fromkeys((".duckdb", ".ddb", ".db"), "duckdb"),
}


class _Section(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True, frozen=True)


class ReleaseSection(_Section):
    """`[release]`: what the release is called and what belongs to it."""

    vintage: str
    key: str
    previous: str | None = None
    title: str = ""
    name: str = "data"
    mode: str = "sticky"
    count: Literal["rows", "entities"] = "rows"
    each: str | None = None
    most: int | None = None
    notes: list[str] = []
    unit: Any = None
    entity: Any = None
    reviewed: bool = False


class SourceSection(_Section):
    """`[source]`: where the rows are and whom they are about."""

    path: str | list[str]
    format: Format | None = None
    table: str | None = None
    entities: list[str] = []
    identity: list[str] = []
    nulls: list[str] = [""]
    encoding: str | None = None
    delimiter: str | None = None
    skip: int = 0
    sheet: str | None = None
    decimal: str = "."
    thousands: str = ""
    date_format: str = ""
    sql: str | None = None
    engine: Literal["duckdb", "spark"] = "duckdb"
    master: str = ""
    memory: str = ""


class UniverseSection(_Section):
    """`universe` of a column: for which rows it has a value."""

    column: str
    min: Scalar | None = None
    max: Scalar | None = None
    values: list[Scalar] | None = None
    complete: bool = True
    outside: Scalar | None = None


class ColumnSection(_Section):
    """`[columns.X]`: how a column is encoded and what of it is public."""

    kind: ColumnKind
    type: ValueType | None = None
    resolution: int | float | None = None
    step: int = 1
    domain: list[Scalar] | dict[str, Scalar] | None = None
    public: bool = False
    detected: list[
        Literal["kind", "type", "resolution", "domain", "nulls", "max_rows", "determines", "drop"]
    ] = []
    nulls: list[str] | None = None
    placeholder: str | None = None
    label: str = ""
    labels: dict[str, str] = {}
    universe: UniverseSection | None = None
    breaks: list[Scalar] | None = None
    nullable: bool = True
    max_rows: int | None = None
    determines: list[str] = []
    drop: bool = False
    release: str = ""
    decimal: str | None = None
    thousands: str | None = None
    date_format: str | None = None


class SwapSection(_Section):
    """`swap` in `[privacy]`: which records are exchanged before anything is counted."""

    columns: list[str]
    within: list[str] = []
    similar: list[str] = []
    rare: list[str] = []
    rate: float
    publish_rate: bool = False


class PrivacySection(_Section):
    """`[privacy]`: a profile and what is stronger than it."""

    profile: Literal["standard", "strict"] = "standard"
    low_threshold: int | None = None
    threshold_mean: int | None = None
    layer_sd: int | None = None
    max_rows: int | None = None
    max_rows_by: Literal["bucket", "entity"] = "bucket"
    detected: list[Literal["max_rows"]] = []
    warn_at: float | None = None
    refuse_at: float | None = None
    max_looks: int | None = None
    accept_risk: str = ""
    swap: SwapSection | None = None


class DPSection(_Section):
    """`[dp]`: how margins are measured under a budget, fitted and sampled."""

    epsilon: float | None = None
    guarantee: bool = True
    delta: float | None = None
    noise: Noise = "laplace"
    method: Method = "ipf"
    margins: int | list[list[str]] | None = None
    extra: list[list[str]] = []
    strata: list[str] = []
    ranges: dict[str, int] = {}
    zeros: list[dict[str, list[Scalar] | dict[str, Scalar]]] = []
    post: Post = "wls"
    sample: Sample = "rounded"
    prior: float = 0.0
    allocation: Allocation | None = None
    total_share: float = 0.02
    public_n: bool = False
    max_rows: int | None = None
    max_cells: int = 10_000_000
    max_cycles: int = 200
    tolerance: float = 1e-4
    budget: float | None = None


class TableEntry(_Section):
    """`[[tables]]`: one table, or a family of them."""

    columns: list[str] | Literal["all"] | None = None
    all: int | None = None
    of: list[str] | None = None
    sql: str | None = None
    file: str | None = None
    max_width: int | None = None
    target: str | None = None
    sets: int | None = None
    max_added: int | None = None


SECTIONS = ("release", "source", "columns", "privacy", "dp", "tables")
_Model = TypeVar("_Model", bound=_Section)
_BELOW: dict[str, type[_Section]] = {"universe": UniverseSection, "swap": SwapSection}
"""Keys that hold a section of their own."""
_WANTED = {
    "string_type": "wants a text",
    "int_type": "wants a whole number",
    "int_from_float": "wants a whole number",
    "float_type": "wants a number",
    "bool_type": "wants true or false",
    "list_type": "wants a list, such as [...]",
    "dict_type": "wants a table, such as {...}",
}
_SHAPES = {
    "columns": 'wants a list of columns, such as ["A", "B"], or "all"',
    "path": "wants a file or a glob, or a list of them",
    "domain": "wants a list of values, or { min = ..., max = ... }",
    "resolution": "wants a number",
    "breaks": "wants a list of values: where each group but the first begins",
    "margins": 'wants a number from 1 to 4, or a list of lists of columns, such as [["A", "B"], ["C"]]',
    "extra": 'wants a list of lists of columns, such as [["A", "B"]]',
    "ranges": "wants columns with whole numbers, such as { A = 16 }",
    "zeros": "wants a list of rules, such as [{ A = { max = 14 }, B = [1, 2] }]",
}
"""What keys want that hold more than one kind of thing."""


def checked(
    model: type[_Model], raw: Any, place: str, problems: list[str], *, keep_rest: bool = False
) -> _Model | None:
    """Check one section.

    keep_rest: Give the model of what is right, so that the rest can be checked further.

    Returns: None if there is anything wrong (or, with `keep_rest`, nothing left to go on with).
    """
    if not isinstance(raw, dict):
        problems.append(f"{place}: wants a section with keys, not a single value")
        return None
    try:
        return model.model_validate(raw)
    except ValidationError as error:
        details = error.errors(include_url=False, include_context=True)
    sentences = [_sentence(detail, place, tuple(model.model_fields)) for detail in details]
    problems.extend(dict.fromkeys(sentences))
    wrong = {str(detail["loc"][0]) for detail in details if detail["loc"]}
    rest = {key: value for key, value in raw.items() if key not in wrong}
    return checked(model, rest, place, []) if keep_rest and len(rest) < len(raw) else None


def _sentence(detail: ErrorDetails, place: str, keys: tuple[str, ...]) -> str:
    """One mistake in our words."""
    below = _BELOW.get(str(detail["loc"][0])) if len(detail["loc"]) > 1 else None
    if below is not None:
        inner: ErrorDetails = {**detail, "loc": detail["loc"][1:]}
        return _sentence(inner, f"{place}.{detail['loc'][0]}", tuple(below.model_fields))
    # Only names and positions make up a place: pydantic adds its own words for the arms of a union.
    path = detail["loc"][:1] if detail["loc"] and detail["loc"][0] in keys else detail["loc"]
    where = ".".join([place, *map(str, path)])
    kind = detail["type"]
    if kind == "extra_forbidden":
        return f"{where}: unknown key{did_you_mean(str(path[-1]), keys)}; the keys are: {', '.join(keys)}"
    if kind == "missing":
        return f"{where}: is missing"
    if path and path[0] in _SHAPES:
        return f"{where}: {_SHAPES[str(path[0])]}"
    if kind == "literal_error":
        allowed = detail.get("ctx", {}).get("expected", "")
        return f"{where}: wants {allowed}, not {detail['input']!r}"
    if kind in ("string_type", "int_type") and len(detail["loc"]) > 1:
        return f"{where}: wants a list or table of texts only"
    return f"{where}: {_WANTED.get(kind, 'is not of a kind that can stand here')}"


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """Suggest the nearest known name, as the tail of a sentence; empty if none is near."""
    folded = {one.casefold(): one for one in known}
    near = difflib.get_close_matches(name.casefold(), folded, n=1, cutoff=0.6)
    return f"; did you mean {folded[near[0]]!r}?" if near else ""
