"""Turns the `[source]` section of a spec into where the rows are and whom they are about.

Takes the checked section; gives a `schema.SourceSpec` whose path stands by itself. It looks at file
names only: whether the rows can be read is the business of `sources`.
"""

from __future__ import annotations

import codecs
import glob
import re
from collections.abc import Sequence
from pathlib import Path

from engine.errors import SpecError
from engine.schema import SourceFormat, SourceSpec
from engine.spec.model import SUFFIXES, Format, SourceSection, did_you_mean

FORMATS = tuple(dict.fromkeys(SUFFIXES.values()))
DATABASES: tuple[Format, ...] = ("postgres", "mysql")
"""Reached by an address, not by a file."""
SPARK_FORMATS: tuple[SourceFormat, ...] = ("parquet", "csv", "table")
WITH_TABLES = {"duckdb", "sqlite", *DATABASES}


LEAST_MB = 200
"""Less memory is too little for the working database."""
_SIZE = re.compile(r"(\d+)\s*(MB|GB|TB)", re.IGNORECASE)
_IN_MB = {"MB": 1, "GB": 1_000, "TB": 1_000_000}


def source_from(section: SourceSection, folder: Path, problems: list[str]) -> SourceSpec:
    """Make the source of a spec file."""
    paths = [section.path] if isinstance(section.path, str) else section.path
    if not paths:
        problems.append("source.path: names no file")
    if section.memory and _megabytes(section.memory) < LEAST_MB:
        problems.append(
            f'source.memory: {section.memory!r} is no size; say one of at least {LEAST_MB}MB, such as "4GB"'
        )
    if section.engine == "spark":
        return _in_spark(section, paths, folder, problems)
    if section.master:
        problems.append('source.master: is for engine = "spark"')
    forms = [section.format or format_of(path) for path in paths]
    form = next(iter(forms), None)
    if None in forms:
        known = " or ".join(f'"{one}"' for one in (*FORMATS, *DATABASES))
        problems.append(f"source.format: the name does not tell it; say {known}")
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
        entities=tuple(section.entities),
        identity=tuple(section.identity),
        more=tuple(located[1:]),
        encoding=section.encoding,
        delimiter=section.delimiter,
        skip=section.skip,
        sheet=section.sheet,
        sql=section.sql,
        memory=section.memory,
    )


def _in_spark(
    section: SourceSection, paths: list[str], folder: Path, problems: list[str]
) -> SourceSpec:
    """Make the source of a spec that Spark reads: Parquet, text in UTF-8, or a table of its catalogue."""
    forms: set[str] = {section.format or format_of(path) or "table" for path in paths}
    if len(forms) > 1:
        problems.append("source.path: Spark reads files of one format; name files of one kind")
    form = min(forms, default="table")
    if form not in SPARK_FORMATS:
        problems.append(
            f'source.format: engine = "spark" reads Parquet, text (csv) and tables of its catalogue, not {form}'
        )
    if form == "table" and len(paths) > 1:
        problems.append("source.path: names several tables; name one, or make a view of them")
    for key in ("table", "sheet", "sql", "encoding", "skip"):
        if getattr(section, key):
            problems.append(f'source.{key}: is not for engine = "spark"')
    if section.delimiter is not None and (form != "csv" or not _is_delimiter(section.delimiter)):
        problems.append("source.delimiter: wants one sign, and text to be read")
    located = [p if form == "table" or "://" in p else _located(p, folder) for p in paths]
    return SourceSpec(
        path=next(iter(located), None),
        format=next((one for one in SPARK_FORMATS if one == form), "table"),
        entities=tuple(section.entities),
        identity=tuple(section.identity),
        more=tuple(located[1:]),
        delimiter=section.delimiter,
        engine="spark",
        master=section.master,
        memory=section.memory,
    )


def _misplaced(section: SourceSection, forms: set[str]) -> list[str]:
    """Say which keys do not go with the format, or cannot be meant."""
    problems = []
    if section.table is not None and (not forms & WITH_TABLES or section.sql is not None):
        problems.append("source.table: only a database has tables, and sql names its own")
    if len(forms) > 1 and section.sql is None:
        problems.append('source.path: files of several formats want sql = "SELECT ..." over them')
    if section.sheet is not None and "xlsx" not in forms:
        problems.append("source.sheet: only a workbook has sheets")
    for key in ("encoding", "delimiter"):
        if getattr(section, key) is not None and "csv" not in forms:
            problems.append(f"source.{key}: only text has one")
    if section.skip < 0 or (section.skip and not forms & {"csv", "xlsx"}):
        problems.append("source.skip: wants a whole number from 0; only text and workbooks have it")
    if section.delimiter is not None and not _is_delimiter(section.delimiter):
        problems.append('source.delimiter: wants one sign, such as ";" or "\\t"')
    if section.encoding is not None and not is_encoding(section.encoding):
        problems.append(
            f"source.encoding: {section.encoding!r} is not known; say utf-8, utf-16, cp1252, latin-1 or another"
        )
    return problems


def _megabytes(size: str) -> int:
    """A size such as 500MB or 4 GB in megabytes; 0 where it is none."""
    found = _SIZE.fullmatch(size.strip())
    return int(found[1]) * _IN_MB[found[2].upper()] if found else 0


def _is_delimiter(text: str) -> bool:
    """Whether a sign can part the fields of a line."""
    return len(text) == 1 and text not in '\r\n"' and text.isascii()


def is_encoding(name: str) -> bool:
    """Whether an encoding of text is known by a name."""
    try:
        return bool(codecs.lookup(name)._is_text_encoding)
    except (LookupError, ValueError):  # a zero byte in it is a ValueError
        return False


def check_names(source: SourceSpec, names: Sequence[str], problems: list[str]) -> None:
    """Check the columns that a source names."""
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
    """The format of a source by the ending of its name."""
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
