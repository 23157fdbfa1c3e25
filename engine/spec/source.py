"""Turns the `[source]` section of a spec into where the rows are, how they are written and whom they are about.

Takes the checked section; gives a `schema.SourceSpec` with absolute paths, and a `schema.Writing`. It looks at file
names only: whether the rows can be read is up to `engine.source`.
"""

from __future__ import annotations

import codecs
import datetime
import glob
import re
from collections.abc import Sequence
from dataclasses import fields, replace
from pathlib import Path

from engine.errors import SpecError
from engine.schema import (
    DATE_KINDS,
    Format,
    SourceFormat,
    SourceSpec,
    Writing,
    as_entities,
    columns_of,
)
from engine.spec.model import (
    DECIMALS,
    LEAST_MB,
    STATISTICAL,
    SUFFIXES,
    THOUSANDS,
    ColumnSection,
    SourceSection,
    did_you_mean,
)

FORMATS = tuple(dict.fromkeys(SUFFIXES.values()))
DATABASES: tuple[Format, ...] = ("postgres", "mysql")
"""Reached by an address, not by a file."""
SPARK_FORMATS: tuple[SourceFormat, ...] = ("parquet", "csv", "table")
WITH_TABLES = {"duckdb", "sqlite", *DATABASES}
_SIZE = re.compile(r"(\d+)\s*(MB|GB|TB)", re.IGNORECASE)
_IN_MB = {"MB": 1, "GB": 1_000, "TB": 1_000_000}
_WRITING = tuple(field.name for field in fields(Writing))
_CENTURY = re.compile(r"([1-9][0-9]{3})\.\.([1-9][0-9]{3})")
_MOMENT = datetime.datetime(2013, 11, 29, 21, 47, 58)


def source_from(section: SourceSection, folder: Path, problems: list[str]) -> SourceSpec:
    """Make the source of a spec file."""
    paths = [section.path] if isinstance(section.path, str) else section.path
    if not paths:
        problems.append("source.path: names no file")
    if section.memory and _megabytes(section.memory) < LEAST_MB:
        problems.append(
            f'source.memory: {section.memory!r} is not a size of at least {LEAST_MB}MB, such as "4GB"'
        )
    if section.engine == "spark":
        return _in_spark(section, paths, folder, problems)
    if section.master:
        problems.append('source.master: needs engine = "spark"')
    forms = [section.format or format_of(path) for path in paths]
    form = next(iter(forms), None)
    if None in forms:
        known = " or ".join(f'"{one}"' for one in (*FORMATS, *DATABASES))
        problems.append(f"source.format: not clear from the file name; specify {known}")
    else:
        problems += _misplaced(section, {str(one) for one in forms})
    located = [
        path if form in DATABASES else _located(path, folder)
        for path, form in zip(paths, forms, strict=True)
    ]
    return SourceSpec(
        path=next(iter(located), None),
        format=form or "csv",
        table=section.table,
        entities=as_entities(section.entities),
        identity=tuple(section.identity),
        more=tuple(located[1:]),
        encoding=section.encoding,
        delimiter=section.delimiter,
        skip=section.skip,
        sheet=section.sheet,
        sql=section.sql,
        count_column=section.count_column,
        memory=section.memory,
    )


def _in_spark(
    section: SourceSection, paths: list[str], folder: Path, problems: list[str]
) -> SourceSpec:
    """Make the source of a spec that Spark reads: Parquet, text in UTF-8, or a table of its catalogue."""
    forms: set[str] = {section.format or format_of(path) or "table" for path in paths}
    if len(forms) > 1:
        problems.append("source.path: Spark reads files of one format only")
    form = min(forms, default="table")
    if form not in SPARK_FORMATS:
        problems.append(
            f'source.format: engine = "spark" reads Parquet, text (csv) and tables of its catalogue, not {form}'
        )
    if form == "table" and len(paths) > 1:
        problems.append("source.path: names several tables; name one, or create a view over them")
    for key in ("table", "sheet", "sql", "encoding", "skip", "count_column"):
        if getattr(section, key):
            problems.append(f'source.{key}: not available with engine = "spark"')
    if section.delimiter is not None and (form != "csv" or not _is_delimiter(section.delimiter)):
        problems.append("source.delimiter: must be one character, and the source must be text")
    located = [p if form == "table" or "://" in p else _located(p, folder) for p in paths]
    return SourceSpec(
        path=next(iter(located), None),
        format=next((one for one in SPARK_FORMATS if one == form), "table"),
        entities=as_entities(section.entities),
        identity=tuple(section.identity),
        more=tuple(located[1:]),
        delimiter=section.delimiter,
        engine="spark",
        master=section.master,
        memory=section.memory,
    )


def _misplaced(section: SourceSection, forms: set[str]) -> list[str]:
    """Say which keys do not fit the format, or have impossible values."""
    problems = []
    if section.table is not None and (not forms & WITH_TABLES or section.sql is not None):
        problems.append("source.table: only a database has tables, and sql names its own")
    if len(forms) > 1 and section.sql is None:
        problems.append('source.path: files of several formats need sql = "SELECT ..." over them')
    if section.sheet is not None and "xlsx" not in forms:
        problems.append("source.sheet: only a workbook has sheets")
    if section.encoding is not None and not forms & ({"csv", *STATISTICAL} - {"por"}):
        problems.append("source.encoding: only text, and files of SPSS, Stata and SAS, have one")
    if section.delimiter is not None and "csv" not in forms:
        problems.append("source.delimiter: only text has one")
    if section.skip < 0 or (section.skip and not forms & {"csv", "xlsx"}):
        problems.append(
            "source.skip: must be a whole number of at least 0; only text and workbooks have it"
        )
    if section.delimiter is not None and not _is_delimiter(section.delimiter):
        problems.append('source.delimiter: must be one character, such as ";" or "\\t"')
    if section.encoding is not None and not is_encoding(section.encoding):
        problems.append(
            f"source.encoding: {section.encoding!r} is not known; use utf-8, utf-16, cp1252, latin-1 or another"
        )
    return problems


def _megabytes(size: str) -> int:
    """A size such as 500MB or 4 GB in megabytes; 0 if it is not a size."""
    found = _SIZE.fullmatch(size.strip())
    return int(found[1]) * _IN_MB[found[2].upper()] if found else 0


def _is_delimiter(text: str) -> bool:
    """Whether a text can separate the fields of a line."""
    return len(text) == 1 and text not in '\r\n"' and text.isascii()


def is_encoding(name: str) -> bool:
    """Whether Python knows a text encoding of this name."""
    try:
        return bool(codecs.lookup(name)._is_text_encoding)
    except (LookupError, ValueError):  # ValueError: a null character
        return False


def check_names(source: SourceSpec, names: Sequence[str], problems: list[str]) -> None:
    """Check the columns that a source names."""
    named = {"entities": source.entity_columns, "identity": source.identity}
    for key, listed in (("entities", source.entities), ("identity", source.identity)):
        for name in dict.fromkeys(named[key]):
            if name not in names:
                problems.append(
                    f"source.{key}: no section [columns.{name}]{did_you_mean(name, names)}"
                )
        if len(set(listed)) < len(listed):
            problems.append(f"source.{key}: names a column twice")
    if source.count_column and source.entities:
        problems.append(
            "source.count_column: a row that stands for several units names none of them; remove source.entities"
        )
    if source.count_column in names:
        problems.append(
            f"source.count_column: {source.count_column} is no column of the units; remove its section [columns]"
        )
    problems += [
        f"source.entities: {list(one)} must name different columns, and at least one"
        for one in source.entities
        if len(set(columns_of(one))) < max(len(columns_of(one)), 1)
    ]
    if source.identity and source.entities:
        problems.append("source.identity: only for sources without entities; remove one of the two")


def format_of(path: str) -> Format | None:
    """The format of a source by the suffix of its name; None if the suffix is unknown."""
    name = path.lower()
    return next((form for suffix, form in SUFFIXES.items() if name.endswith(suffix)), None)


def knows_null(source: SourceSpec) -> bool:
    """Whether a source tells null from text, as all do but text files and workbooks."""
    return not {source.format, *map(format_of, source.more)} & {"csv", "xlsx"}


def named_format(path: str) -> Format:
    """The format of a source by the suffix of its name."""
    form = format_of(path)
    if form is None:
        endings = ", ".join(f".{one}" for one in FORMATS)
        raise SpecError(f"{path}: the format is not clear from the name; use one of {endings}")
    return form


def _located(path: str, folder: Path) -> str:
    """A path or glob relative to the folder; magic characters in the folder's own name are escaped."""
    plain = folder / path
    if Path(path).is_absolute() or plain.exists() or not glob.has_magic(path):
        return str(plain)
    return str(Path(glob.escape(str(folder))) / path)


def writing_of(section: SourceSection, problems: list[str]) -> Writing:
    """How `[source]` says that all columns are written."""
    writing = Writing(**{key: getattr(section, key) for key in _WRITING})
    problems += writing_problems(writing, "source")
    return writing


def own_writing(section: ColumnSection, usual: Writing, place: str, problems: list[str]) -> Writing:
    """How a column is written: what it says itself, otherwise what `[source]` says."""
    own = {key: said for key in _WRITING if (said := getattr(section, key)) is not None}
    writing = replace(usual, **own)
    problems += writing_problems(writing, place) if own else []
    if section.kind in DATE_KINDS and writing.has_short_years and not writing.century:
        problems.append(
            f"{place}.century: is missing; date_format has years of two digits, so say which hundred years they mean, "
            'such as "1927..2026", here or in [source]'
        )
    return writing


def writing_problems(writing: Writing, place: str) -> list[str]:
    """Say which values are impossible."""
    problems = []
    if writing.decimal not in DECIMALS:
        problems.append(f'{place}.decimal: must be "." or ",", not {writing.decimal!r}')
    if writing.thousands not in THOUSANDS:
        listed = ", ".join(f'"{one}"' for one in THOUSANDS)
        problems.append(f"{place}.thousands: must be one of {listed}, not {writing.thousands!r}")
    elif writing.thousands == writing.decimal:
        problems.append(f"{place}.thousands: is the decimal separator, too")
    if writing.date_format and not _is_whole(writing.date_format):
        problems.append(
            f'{place}.date_format: must contain year, month and day in strftime notation, such as "%d.%m.%Y" or '
            '"%m/%d/%Y %H:%M"'
        )
    years = _CENTURY.fullmatch(writing.century)
    if writing.century and not (years and int(years[2]) - int(years[1]) == 99):
        problems.append(
            f"{place}.century: must be the first and the last of a hundred years, such as "
            f'"1927..2026", not {writing.century!r}'
        )
    return problems


def _is_whole(date_format: str) -> bool:
    """Whether a format determines a day."""
    try:
        written = _MOMENT.strftime(date_format)
        return datetime.datetime.strptime(written, date_format).date() == _MOMENT.date()
    except (ValueError, re.error):  # re.error: a directive occurs twice, as in "%d.%d.%Y"
        return False
