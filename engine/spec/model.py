"""The shape of a spec file: which keys there are, what each may hold and what it means.

The models are the single source of the spec reference (REFERENCE.md, written by `./scripts/reference --spec`): every
key has its help here. `checked` turns the plain values of one section into its model, or into sentences that say what
is wrong, each with its dotted place (`columns.AGE.kind`). Invariant: an unknown key is a mistake, never ignored: a
typing error in a privacy setting must not weaken it. What depends on other sections is checked in
`engine.spec.reading`.
"""

from __future__ import annotations

import datetime
import difflib
from collections.abc import Iterable
from typing import Any, Literal, TypeVar

from pydantic import BaseModel, ConfigDict, Field, ValidationError
from pydantic_core import ErrorDetails

from engine.params import (
    BOUNDS,
    FLOORS,
    LEAST_EPSILON,
    MOST_CHOSEN,
    MOST_DELTA,
    MOST_EPSILON,
    MOST_ROWS,
    MOST_SWAPPED,
    PROFILES,
    Allocation,
    Method,
    MissingIds,
    Noise,
    Post,
    Sample,
)
from engine.periods import PERIODS
from engine.schema import (
    DEFAULT_PLACEHOLDER,
    MAX_WIDTH,
    MEMORY,
    WIDEST,
    ColumnKind,
    Format,
    ValueType,
)
from engine.units import EXPECTED_WORDS

Scalar = bool | int | float | datetime.datetime | datetime.date | datetime.time | str
"""What TOML can hold as a single value of a column."""
SUFFIXES: dict[str, Format] = {
    **dict.fromkeys((".csv", ".tsv", ".txt", ".csv.gz", ".tsv.gz", ".txt.gz"), "csv"),
    **dict.fromkeys((".parquet", ".pq"), "parquet"),
    **dict.fromkeys((".xlsx", ".xlsm", ".xlsb", ".xls", ".ods"), "xlsx"),
    **dict.fromkeys((".sqlite", ".sqlite3"), "sqlite"),
    **dict.fromkeys((".duckdb", ".ddb", ".db"), "duckdb"),
    **dict.fromkeys((".sav", ".zsav"), "sav"),
    ".por": "por",
    ".dta": "dta",
    ".xpt": "xpt",
    ".sas7bdat": "sas7bdat",
}
STATISTICAL: frozenset[str] = frozenset({"sav", "por", "dta", "xpt", "sas7bdat"})
"""Files of SPSS, Stata and SAS."""
DECIMALS = (".", ",")
THOUSANDS = ("", ".", ",", " ", "'")
DEFAULT_MOST = 16
"""Values of `each` that count for one entity unless the spec says otherwise."""
MAX_VINTAGE = 64
"""Characters of a vintage's name."""
LEAST_MB = 200
"""Less memory is too little for the working database."""
MOST_STEP = 10**15
MOST_SETS = 100
"""Most syntheses of one wide table."""
WIDEST_MARGINS = 4
MOST_LEVELS = 10_000
"""Most values of a grid column that are levels of their own; a column with more needs `breaks`."""
_POWER = f"a power of two from 1 to {MOST_ROWS:,}"


def _by_profile(values: dict[str, Any], name: str) -> str:
    """The default of a setting under each profile, in words."""
    return "default " + ", ".join(f"{getattr(v, name):g} ({p})" for p, v in values.items())


class _Section(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True, frozen=True)


class ReleaseSection(_Section):
    """What the release is called and what it counts."""

    vintage: str = Field(
        description="Name of one state of the source; a source that has changed is a new vintage. At most "
        f"{MAX_VINTAGE} characters"
    )
    key: str = Field(
        description="Key file, made with `tablepack key new FILE`; keep it, and never publish it"
    )
    previous: str | None = Field(
        None,
        description="Vintage that this one updates: whatever did not change keeps its noise (mode sticky)",
    )
    title: str = Field("", description="Title for readers; `tablepack publish` requires one")
    name: str = Field(
        "data", description="Name of the table in SQL: letters, digits and _, at most 63"
    )
    mode: Literal["sticky", "dp"] = Field(
        "sticky",
        description='"sticky": noise that repeats whenever the same table is built. "dp": differential privacy, with a '
        "section `[dp]`",
    )
    count: Literal["rows", "entities"] = Field(
        "rows",
        description="What is counted. A release that counts entities is separate from the one that counts their rows",
    )
    each: str | None = Field(
        None,
        description='With `count = "entities"`: count an entity once in each value of this column; every table then '
        "has the column",
    )
    most: int | None = Field(
        None,
        description=f"With `each`: how many of its values count for one entity, {_POWER}; default {DEFAULT_MOST}",
    )
    weight: str | None = Field(
        None,
        description="Column of survey weights (mode sticky): every table of one or two columns is measured with it as "
        "well, so that weighted counts are nearly as accurate as counts",
    )
    notes: list[str] = Field([], description="Sentences for readers of the release")
    unit: Any = Field(None, description="What a row is, such as a stay")
    entity: Any = Field(
        None, description="What the protected entities are called, such as patients"
    )
    reviewed: bool = Field(
        False,
        description="A person has checked every setting marked `detected`; `tablepack publish` requires this if there "
        "are any",
    )


class SourceSection(_Section):
    """Where the rows are, how to read them, and whom they are about."""

    path: str | list[str] = Field(
        description="Files relative to the spec; with a database server, its connection string"
    )
    format: Format | None = Field(
        None,
        description='Format of the source; by default from the file name. "csv" is any text, "xlsx" any workbook; '
        '"sav" and "por" (SPSS), "dta" (Stata), "xpt" and "sas7bdat" (SAS) need the extra `stat`',
    )
    table: str | None = Field(None, description="Table of a database")
    entities: list[str | list[str]] = Field(
        [],
        description="Columns that identify the protected entities, each one kind of entity; a list in the list is one "
        'kind that its columns identify together: `[["household", "person_no"]]`. Without any, each row is one entity',
    )
    identity: list[str] = Field(
        [],
        description="Without `entities`: columns that identify a row, so that the order of rows never matters; "
        "default all",
    )
    nulls: list[str] | None = Field(
        None,
        description='Spellings of a missing value in text; default `[""]`, but none for text columns of sources that '
        "tell null from text (Parquet, databases)",
    )
    count_column: str | None = Field(
        None,
        description="Of a table of frequencies: the column that says for how many units a row stands. It is read as so "
        "many rows, each a unit of its own",
    )
    encoding: str | None = Field(
        None, description='Encoding of text, such as "cp1252" or "utf-16"; default UTF-8'
    )
    delimiter: str | None = Field(
        None, description="One character between fields; by default found in the first lines"
    )
    skip: int = Field(0, description="Lines of text, or rows of a sheet, above the column names")
    sheet: str | None = Field(None, description="Sheet of a workbook that has several")
    decimal: str = Field(
        ".", description=f"Decimal separator in text: {' or '.join(f'`{one}`' for one in DECIMALS)}"
    )
    thousands: str = Field(
        "",
        description="Thousands separator in text: none, a full stop, a comma, a space or an apostrophe",
    )
    date_format: str = Field(
        "",
        description='Dates in text, in `strftime` notation, such as "%d.%m.%Y"; default ISO 8601',
    )
    century: str = Field(
        "",
        description="Which years are meant where `date_format` has two digits (`%y`): the first and the last of a "
        'hundred, such as "1927..2026"',
    )
    sql: str | None = Field(
        None,
        description="One SELECT that makes the rows, over the files named in `path` (each a table named after its "
        "file; text files have columns of text, so write CAST(born AS DATE))",
    )
    engine: Literal["duckdb", "spark"] = Field(
        "duckdb",
        description='What reads and counts: "spark" if one machine is too small (extra `spark`)',
    )
    master: str = Field(
        "", description="Spark master; by default what Spark's configuration says, or this machine"
    )
    memory: str = Field(
        "",
        description=f'Memory limit of the working database, such as "4GB", at least {LEAST_MB}MB; the rest spills to '
        f'encrypted disk. Default "{MEMORY}"',
    )


class UniverseSection(_Section):
    """For which rows a column has a value, as code books say it."""

    column: str = Field(description="Column that decides it; rows where it is null are outside")
    min: Scalar | None = Field(None, description="Smallest value inside (numbers and dates)")
    max: Scalar | None = Field(None, description="Largest value inside (numbers and dates)")
    values: list[Scalar] | None = Field(
        None, description="Values inside (columns with a public list of values)"
    )
    complete: bool = Field(True, description="The column is never null inside")
    outside: Scalar | None = Field(
        None, description="Value of all rows outside; by default they are null"
    )


class ColumnSection(_Section):
    """How a column is encoded, and what about it is public. Columns without a section are not read."""

    kind: ColumnKind = Field(
        description="How its values are encoded: on a grid (numbers, dates, timestamps, times of day), or as a list "
        "of values (category, text)"
    )
    type: ValueType | None = Field(None, description="Categories: type of the values; default text")
    resolution: int | float | str | None = Field(
        None,
        description="Numbers: values are rounded to multiples of it, a whole number or a power of ten or of two; "
        "default 1 for integer, 0.01 for decimal. Dates: the period whose first day stands for its days, "
        f"{' or '.join(PERIODS['date'])}; timestamps also {', '.join(PERIODS['timestamp'][:3])}; times of day "
        f"{' or '.join(PERIODS['time'])}",
    )
    step: int = Field(
        1,
        description="Integer columns: values are multiples of it in the source; to round them, say `resolution`",
    )
    domain: list[Scalar] | dict[str, Scalar] | None = Field(
        None,
        description="Categories and text: the values, in the order of tables. Numbers and dates: smallest and largest "
        "value",
    )
    order: Literal["", "numeric"] = Field(
        "",
        description='Text values without `domain`, which has its own order: "numeric" sorts them by the numbers that '
        "they begin with, as bands such as <5, 5-9, 10-14, 65+ want it; by default by code point",
    )
    hierarchy: list[int] | str | None = Field(
        None,
        description="Text that holds codes, without `domain`: characters of each level, such as [1, 2, 4], or a public "
        'list of codes, "isco.csv" with columns code, parent and, if there are any, label. Every level is a column '
        "(occupation_1, occupation_2, ...) in all tables of this one, locked to it. Mode dp: a list only, whose codes "
        "without others below them are the public values; every level is measured, too",
    )
    public: bool = Field(
        False,
        description="The domain is public knowledge, so no value is suppressed for being rare. Must be declared, "
        "never detected",
    )
    detected: list[
        Literal[
            "kind",
            "type",
            "resolution",
            "domain",
            "nulls",
            "max_rows",
            "determines",
            "order",
            "drop",
            "century",
        ]
    ] = Field([], description="Keys that `tablepack init` detected and nobody has confirmed yet")
    nulls: list[str] | None = Field(
        None, description="Spellings of a missing value in this column; default as in `[source]`"
    )
    placeholder: str | None = Field(
        None,
        description=f'Text shown for values that too few entities share; default "{DEFAULT_PLACEHOLDER}"',
    )
    label: str = Field("", description="Label for readers")
    labels: dict[str, str] = Field({}, description="Labels of single values")
    universe: UniverseSection | None = Field(None, description=f"{UniverseSection.__doc__}")
    breaks: list[Scalar] | None = Field(
        None,
        description="Mode dp, numbers and dates: lower ends of the groups that are counted, without the first (the "
        f"smallest value). Needed above {MOST_LEVELS:,} values",
    )
    nullable: bool = Field(True, description="The column may be null (mode dp)")
    outside: Literal["clamp", "drop"] | None = Field(
        None,
        description='Mode dp, numbers and dates beyond the domain: "clamp" moves them to its nearer end, "drop" leaves '
        "the row out of all counts. Default clamp, without `other`",
    )
    other: Scalar | None = Field(
        None,
        description="Mode dp: value of the domain that stands for values outside it, for what cannot be read and for "
        "nulls where `nullable = false`; without it such rows are left out",
    )
    max_rows: int | None = Field(
        None,
        description=f"Most rows of one entity that count in a single value of this column, {_POWER}; default "
        "`privacy.max_rows`",
    )
    determines: list[str] = Field(
        [], description="Columns implied by this one (functional dependency): ward implies region"
    )
    drop: bool = Field(False, description="Left out of every table")
    sums: bool = Field(
        True,
        description="Numbers in mode sticky: sums in groups are measured too, so that means are as accurate as counts",
    )
    release: str = Field(
        "",
        description="Why a column that looks like an identifier may be published; shown in the release",
    )
    decimal: str | None = Field(None, description="As in `[source]`, for this column")
    thousands: str | None = Field(None, description="As in `[source]`, for this column")
    date_format: str | None = Field(None, description="As in `[source]`, for this column")
    century: str | None = Field(None, description="As in `[source]`, for this column")


class SwapSection(_Section):
    """Record swapping before anything is counted (mode sticky, one row per entity)."""

    columns: list[str] = Field(description="Columns whose values are swapped, all together")
    within: list[str] = Field([], description="Columns in which partners must agree")
    similar: list[str] = Field(
        [], description="Columns in which partners agree where possible; the last is given up first"
    )
    rare: list[str] = Field(
        [],
        description="Records that share these with few others are swapped first; default `within` and `similar`",
    )
    rate: float = Field(
        description=f"Share of records to swap, above 0 and at most {MOST_SWAPPED:g}"
    )
    publish_rate: bool = Field(False, description="Publish the rate with the release")


class PrivacySection(_Section):
    """Disclosure control: a profile, and settings that strengthen it. None may be weaker than `standard`."""

    profile: Literal["standard", "strict"] = Field(
        "standard", description="Starting point for all settings below"
    )
    low_threshold: int | None = Field(
        None,
        description="Buckets with fewer entities are always suppressed; at least "
        f"{FLOORS['low_threshold']}; {_by_profile(PROFILES, 'low_threshold')}",
    )
    threshold_mean: int | None = Field(
        None,
        description="Mean of the noisy suppression threshold; at least "
        f"{FLOORS['threshold_mean']}; {_by_profile(PROFILES, 'threshold_mean')}",
    )
    layer_sd: int | None = Field(
        None,
        description="Standard deviation of each of two noise layers, a power of two; "
        f"{_by_profile(PROFILES, 'layer_sd')}",
    )
    max_rows: int | None = Field(
        None,
        description=f"Most rows of one entity that count in any figure, {_POWER}; noise grows in proportion. Required "
        "if an entity has several rows",
    )
    max_rows_by: Literal["bucket", "entity"] = Field(
        "bucket",
        description='"bucket": apply the limit to each bucket, which keeps more rows. "entity": choose the rows once '
        "for all tables, so that groups add up",
    )
    detected: list[Literal["max_rows"]] = Field(
        [], description="Keys that `tablepack init` detected and nobody has confirmed yet"
    )
    warn_at: float | None = Field(
        None,
        description="Exposure from which a build warns: how much more often than wrong an even secret of the most "
        "exposed people is guessed right, so that 0.2 is 60 %; "
        f"{_by_profile(BOUNDS, 'warn_at')}; can only be lowered",
    )
    refuse_at: float | None = Field(
        None,
        description="Exposure from which a build is refused, so that 0.4 is 70 % right; "
        f"{_by_profile(BOUNDS, 'refuse_at')}; can only be lowered",
    )
    max_looks: int | None = Field(
        None,
        description="Most independent releases of nearly the same data with one key; "
        f"{_by_profile(BOUNDS, 'max_looks')}; can only be lowered",
    )
    accept_risk: str = Field(
        "",
        description="Reason for building although `refuse_at` or `max_looks` is exceeded; shown on every card",
    )
    swap: SwapSection | None = Field(None, description=f"{SwapSection.__doc__}")


class DPSection(_Section):
    """Mode dp: how noisy margins are measured under a privacy budget, fitted and sampled."""

    epsilon: float | None = Field(
        None,
        description=f"Privacy budget of this build, {LEAST_EPSILON:g} to {MOST_EPSILON:g}; required unless `guarantee "
        "= false`",
    )
    guarantee: bool = Field(
        True, description="`false`: exact counts, which protect nobody (for comparisons)"
    )
    delta: float | None = Field(
        None, description="Failure probability of Gaussian noise, between 0 and 1, such as 1e-6"
    )
    accept_delta: str = Field(
        "",
        description=f"Reason for a `delta` above {MOST_DELTA:g}, which is refused otherwise; shown on every card",
    )
    noise: Noise | None = Field(
        None,
        description='"laplace": pure epsilon-DP. "gaussian": epsilon at `delta`, less noise where margins are many. '
        'Default: where `delta` is given, whichever gives less noise; else "laplace"',
    )
    method: Method = Field(
        "ipf", description='"ipf": chosen margins. "catall": one table of all columns'
    )
    margins: int | list[list[str]] | None = Field(
        None,
        description=f"Margins to measure: all of this many columns (1 to {WIDEST_MARGINS}), or a list; default 2",
    )
    extra: list[list[str]] = Field([], description="Margins to measure in addition")
    adaptive: bool = Field(
        False,
        description="Of `margins` of several columns measure those that promise most, by noisy scores within the "
        "budget; those of `extra` and single columns always",
    )
    sums: bool = Field(
        False,
        description="Numbers in groups (`breaks`): measure what their values add up to, too, of each column and within "
        "the other column of each table of two; not with `strata`",
    )
    strata: list[str] = Field(
        [], description="Measure and fit every margin separately within each value of these columns"
    )
    ranges: dict[str, int] = Field(
        {}, description="Columns measured as trees of ranges, each with its branching factor"
    )
    zeros: list[dict[str, list[Scalar] | dict[str, Scalar]]] = Field(
        [], description="Structural zeros: combinations that cannot occur"
    )
    post: Post = Field("wls", description="How noisy margins are made consistent")
    sample: Sample = Field(
        "rounded",
        description='How rows are drawn: expected counts rounded up or down, or independently ("multinomial")',
    )
    prior: float = Field(
        0.0, description="Rows spread evenly over the cells of each margin before the fit"
    )
    allocation: Allocation | None = Field(
        None,
        description='How margins share the budget: "cells" gives more to larger ones. Default "cells" with '
        '`post = "wls"`, else "equal"',
    )
    total_share: float = Field(
        0.02, description="Share of the budget for the number of rows, between 0 and 1"
    )
    public_n: bool = Field(False, description="The number of rows is public, and used exactly")
    max_rows: int | None = Field(
        None,
        description="Most rows of one entity that count, whatever the data hold; the noise grows with it. Default 1",
    )
    missing_ids: MissingIds = Field(
        "drop",
        description='Rows that name no entity: "drop" leaves them out, "own" makes each an entity of its own',
    )
    public_tables: list[str] = Field(
        [],
        description="Tables of `source.sql` whose rows anybody may see, such as code lists; rows may be joined to them",
    )
    stability: int | None = Field(
        None,
        description="A `source.sql` that does not make each row from one row: how many entities' rows one more entity "
        "changes at most, where a changed row is two (one gone, one new); the noise grows with it. Not verified",
    )
    each_row_is_one_entity: bool = Field(
        False, description="Instead of `source.entities`: nobody has two rows. Not verified"
    )
    each_row_from_one_entity: bool = Field(
        False,
        description="Frames, tables and views of databases: nothing in a row was computed from rows of other entities. "
        "Not verified, and required",
    )
    max_cells: int = Field(10_000_000, description="Size of the largest table of counts")
    max_cycles: int = Field(200, description="Most cycles of the fit")
    tolerance: float = Field(
        1e-4,
        description="The fit stops when no margin is off by more than this share of the rows",
    )
    budget: float | None = Field(
        None,
        description="Total epsilon that may ever be spent with this key; default that of the first build",
    )


class TableEntry(_Section):
    """One table, or a family of tables: exactly one of `columns`, `all`, `sql` and `file`. Entries may be repeated."""

    columns: list[str] | Literal["all"] | None = Field(
        None,
        description=f"One table. With more than {MAX_WIDTH} columns, at most {WIDEST}, it is modelled from narrower "
        "tables (mode sticky)",
    )
    all: int | None = Field(None, description="Every combination of this many columns")
    of: list[str] | None = Field(
        None, description="With `all`: the columns to combine; default all"
    )
    sql: str | None = Field(None, description="The columns that this statement reads")
    file: str | None = Field(
        None,
        description="A JSON list of lists of columns; or statements (.sql) or a query log (.jsonl, .csv, .txt, .log), "
        "for the fewest tables that answer them",
    )
    max_width: int | None = Field(None, description="With `file`: ignore wider tables")
    target: str | None = Field(
        None,
        description="Wide tables: column to be predicted by models trained on it; tables with it count more",
    )
    sets: int | None = Field(
        None,
        description=f"Wide tables: number of independent syntheses, at most {MOST_SETS}; the others are named "
        "NAME.set2.duckdb and so on. Default 1",
    )
    max_added: int | None = Field(
        None,
        description="Wide tables: most tables to measure for it beyond those listed; default all pairs and, with "
        f"`accept_risk`, as many tables of three columns; with `choose` {MOST_CHOSEN}",
    )


SECTIONS: dict[str, type[_Section]] = {
    "release": ReleaseSection,
    "source": SourceSection,
    "columns": ColumnSection,
    "privacy": PrivacySection,
    "dp": DPSection,
    "tables": TableEntry,
}
NESTED: dict[str, type[_Section]] = {"universe": UniverseSection, "swap": SwapSection}
"""Keys that hold a section of their own."""
_Model = TypeVar("_Model", bound=_Section)
_EXPECTED = {
    "string_type": "text",
    "int_type": "a whole number",
    "int_from_float": "a whole number",
    "float_type": "a number",
    "bool_type": "true or false",
    "list_type": "a list, such as [...]",
    "dict_type": "a table, such as {...}",
}
SHAPES = {
    "columns": 'a list of columns, such as ["A", "B"], or "all"',
    "path": "a file or a glob, or a list of them",
    "entities": 'a list of columns, such as ["patient"], or of lists: [["site", "patient"]] is one by both',
    "domain": "a list of values, or { min = ..., max = ... }",
    "resolution": 'a number, or of dates and times a period, such as "month"',
    "breaks": "a list of values: the lower end of each group but the first",
    "margins": 'a number from 1 to 4, or a list of lists of columns, such as [["A", "B"], ["C"]]',
    "extra": 'a list of lists of columns, such as [["A", "B"]]',
    "ranges": "columns with whole numbers, such as { A = 16 }",
    "zeros": "a list of rules, such as [{ A = { max = 14 }, B = [1, 2] }]",
    "unit": EXPECTED_WORDS,
    "entity": EXPECTED_WORDS,
}
"""What the keys hold whose type alone does not say it."""


def shape_of(place: str, key: str) -> str | None:
    """What a key of a section holds, in words; None if its type says it."""
    is_swap = place.endswith("swap")  # its columns are a plain list
    return None if is_swap else SHAPES.get(key)


def checked(
    model: type[_Model], raw: Any, place: str, problems: list[str], *, keep_rest: bool = False
) -> _Model | None:
    """Check one section.

    keep_rest: Return a model of the keys that are right, so that the rest of the spec can be checked against it.

    Returns: None if anything is wrong (or, with `keep_rest`, if nothing usable is left).
    """
    if not isinstance(raw, dict):
        problems.append(f"{place}: must be a section with keys, not a single value")
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
    nested = NESTED.get(str(detail["loc"][0])) if len(detail["loc"]) > 1 else None
    if nested is not None:
        inner: ErrorDetails = {**detail, "loc": detail["loc"][1:]}
        return _sentence(inner, f"{place}.{detail['loc'][0]}", tuple(nested.model_fields))
    # Only names and positions make up a place: pydantic adds its own words for the arms of a union.
    path = detail["loc"][:1] if detail["loc"] and detail["loc"][0] in keys else detail["loc"]
    where = ".".join([place, *map(str, path)])
    kind = detail["type"]
    if kind == "extra_forbidden":
        return f"{where}: unknown key{did_you_mean(str(path[-1]), keys)}; the keys are: {', '.join(keys)}"
    if kind == "missing":
        return f"{where}: is missing"
    if path and (shape := shape_of(place, str(path[0]))):
        return f"{where}: must be {shape}"
    if kind == "literal_error":
        allowed = detail.get("ctx", {}).get("expected", "")
        return f"{where}: must be {allowed}, not {detail['input']!r}"
    if kind in ("string_type", "int_type") and len(detail["loc"]) > 1:
        return f"{where}: must be a list or table of texts only"
    expected = _EXPECTED.get(kind)
    return f"{where}: must be {expected}" if expected else f"{where}: has an invalid value"


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """Suggest the nearest known name, as the tail of a sentence; empty if none is near."""
    folded = {one.casefold(): one for one in known}
    near = difflib.get_close_matches(name.casefold(), folded, n=1, cutoff=0.6)
    return f"; did you mean {folded[near[0]]!r}?" if near else ""
