"""The spec of a pack, `pack.toml`: publisher, languages, tables, groups and areas.

Takes a TOML file; returns a checked `PackSpec`. Invariants: unknown keys are refused, and all mistakes are reported at
once. A text is a string, or a table with one string per language. `queries.packs.dimensions` checks columns and values
against the release.
"""

from __future__ import annotations

import datetime
import difflib
import re
import tomllib
from pathlib import Path
from typing import Any, Literal

import pydantic

from engine.errors import SpecError
from engine.texts import parsed_toml

Text = str | dict[str, str]
LANGUAGE = r"[a-z]{2,3}(-[A-Za-z0-9]+)*"
UNNAMED = "urn:tablepack"
"""Prefix of a pack's identifier where the spec gives none; the release's hash follows."""
_SHAPES = {
    "id": "is not a valid id: an id begins with a letter and has only letters, digits, and . _ -",
    "identifier": "is not an identifier: use a URI such as https://example.org/census, without spaces",
}
INCLUDED = (".html", ".htm", ".pdf", ".md", ".txt", ".csv", ".json", ".png", ".svg")
"""Suffixes of files that `include` may name: documents, never a key or a database."""


class _Strict(pydantic.BaseModel):
    model_config = pydantic.ConfigDict(extra="forbid", frozen=True)


class PackInfo(_Strict):
    """Section [pack]: publisher, languages, limits."""

    title: Text = ""
    description: Text = ""
    publisher: str = ""
    publisher_url: str = ""
    licence: str = ""
    licence_url: str = ""
    contact: str = ""
    email: str = ""
    identifier: str = pydantic.Field(default=UNNAMED, pattern=r"^[^\s<>\"{}|\\^`]+$")
    version: str = "1.0"
    issued: datetime.date | None = None
    keywords: list[str] = []
    languages: list[str] = pydantic.Field(default=["en"], min_length=1)
    unit: Text = ""
    reviewed: bool = False
    include: list[str] = []
    release_file: bool = False
    max_width: int = pydantic.Field(default=3, ge=1, le=24)
    max_tables: int = pydantic.Field(default=200, ge=1, le=100_000)
    max_cells: int = pydantic.Field(default=20_000, ge=1, le=2_000_000)
    workbook_rows: int = pydantic.Field(default=10_000, ge=0, le=50_000)

    @pydantic.field_validator("languages")
    @classmethod
    def _are_languages(cls, value: list[str]) -> list[str]:
        bad = [v for v in value if not re.fullmatch(LANGUAGE, v)]
        if bad or len({v.lower() for v in value}) != len(value):
            raise ValueError("languages must be codes such as 'en', each listed once")
        return value

    @pydantic.field_validator("publisher_url", "licence_url")
    @classmethod
    def _are_links(cls, value: str) -> str:
        if value and not re.fullmatch(r"https?://[^\s<>\"]+", value):
            raise ValueError("a link must begin with https:// or http://")
        return value


class GroupSpec(_Strict):
    """A subtotal of a column: a list of its values, or a range."""

    code: str = pydantic.Field(min_length=1)
    label: Text = ""
    values: list[str] = []
    range: tuple[float, float] | None = None

    @pydantic.model_validator(mode="after")
    def _one_of_two(self) -> GroupSpec:
        if bool(self.values) == (self.range is not None):
            raise ValueError("a group must have either values or a range")
        if self.range is not None and self.range[0] > self.range[1]:
            raise ValueError("a range must be [low, high], both inclusive")
        return self


class ColumnSpec(_Strict):
    """Section [columns.NAME]: labels, subtotals, larger areas."""

    label: Text = ""
    values: dict[str, Text] = {}
    groups: list[GroupSpec] = []
    parents: str | dict[str, list[str]] | list[str | dict[str, list[str]]] = ""
    parent_labels: dict[str, Text] = {}

    @property
    def levels(self) -> list[str | dict[str, list[str]]]:
        """Larger areas, lowest level first: columns of the release, or codes with what they contain."""
        given = self.parents if isinstance(self.parents, list) else [self.parents]
        return [level for level in given if level]


class TableSpec(_Strict):
    """One [[tables]] entry."""

    id: str = pydantic.Field(default="", pattern=r"^([A-Za-z][A-Za-z0-9_.-]*)?$", max_length=24)
    title: Text = ""
    columns: list[str] = []
    rows: list[str] = []
    cols: list[str] = []
    measure: Literal["count", "sum", "mean", "median", "quantile"] = "count"
    of: str | None = None
    quantile: float = pydantic.Field(default=0.5, ge=0, le=1)
    percent: Literal["", "total", "row", "column"] = ""
    totals: list[str] = []
    subtotals: list[str] = []
    only_groups: list[str] = []
    where: dict[str, list[Any]] = {}
    unit: Text = ""
    footnotes: list[Text] = []

    @pydantic.model_validator(mode="after")
    def _is_sound(self) -> TableSpec:
        names = self.names
        if not names:
            raise ValueError("a table must have columns, or rows and cols")
        if self.columns and (self.rows or self.cols):
            raise ValueError("a table must have either columns or rows and cols")
        if len(set(names)) != len(names):
            raise ValueError("a table must not list a column twice")
        for what in ("totals", "subtotals", "only_groups"):
            extra = [c for c in getattr(self, what) if c not in names]
            if extra:
                raise ValueError(
                    f"{what}: {extra[0]!r} is not a column of the table; its columns are {', '.join(names)}"
                )
        for name, values in self.where.items():
            if not values:
                raise ValueError(f"where: {name!r} has no values; list some, or leave it out")
            if name in names:
                raise ValueError(
                    f"where: {name!r} is a column of the table; show some of its values with groups and only_groups"
                )
        if (self.of is None) != (self.measure == "count"):
            raise ValueError("every measure except count requires a column: of = ...")
        if self.percent and self.measure not in ("count", "sum"):
            raise ValueError("percent requires a count or a sum")
        if self.percent in ("row", "column") and not (self.rows and self.cols):
            raise ValueError("row and column percentages require rows and cols")
        return self

    @property
    def names(self) -> list[str]:
        """Its columns: rows first, then cols."""
        return self.columns or [*self.rows, *self.cols]


class PackSpec(_Strict):
    """A whole pack.toml."""

    pack: PackInfo = PackInfo()
    words: dict[str, Text] = {}
    columns: dict[str, ColumnSpec] = {}
    tables: list[TableSpec] = []
    footnotes: list[Text] = []


def read_pack_spec(path: str | Path) -> PackSpec:
    """Read and check a pack.toml."""
    path = Path(path)
    try:
        raw = parsed_toml(path.read_text(encoding="utf-8-sig"))
    except FileNotFoundError:
        raise SpecError(f"there is no pack spec {path}") from None
    except UnicodeDecodeError as error:
        raise SpecError(f"pack spec {path}: is not UTF-8 (at byte {error.start + 1})") from None
    except OSError:
        raise SpecError(f"pack spec {path}: cannot be read") from None
    except tomllib.TOMLDecodeError as error:
        raise SpecError(f"pack spec {path}: is not TOML: {error}") from None
    return pack_spec_from(raw)


def pack_spec_from(raw: dict[str, Any]) -> PackSpec:
    """Check the values of a pack.toml; see `read_pack_spec`."""
    try:
        spec = PackSpec.model_validate(raw)
    except pydantic.ValidationError as error:
        raise SpecError([_message(e, raw) for e in error.errors()]) from None
    problems = [
        f"pack.include: {name!r} is not a document; allowed: {', '.join(INCLUDED)}"
        for name in spec.pack.include
        if Path(name).suffix.lower() not in INCLUDED
    ]
    ids = [t.id.lower() for t in spec.tables if t.id]
    twice = {t.id for t in spec.tables if ids.count(t.id.lower()) > 1}
    if twice:
        named = ", ".join(repr(name) for name in sorted(twice))
        problems.append(f"tables: duplicate ids (case is ignored): {named}")
    if problems:
        raise SpecError(problems)
    return spec


def _message(error: Any, raw: dict[str, Any]) -> str:
    """An error message: where, what is wrong, what is allowed."""
    loc = [part for part in error["loc"] if part not in ("str", "dict[str,str]")]
    where = f"pack spec, {_place(loc, raw)}"
    if error["type"] == "extra_forbidden":
        known = list(_section(loc).model_fields)
        near = difflib.get_close_matches(str(loc[-1]), known, 1)
        hint = f"; near: {near[0]}" if near else ""
        return f"{where}: there is no such key{hint}; allowed: {', '.join(known)}"
    if error["type"] == "string_pattern_mismatch":
        return f"{where}: {error['input']!r} {_SHAPES.get(str(loc[-1]), error['msg'])}"
    return f"{where}: {error['msg'].removeprefix('Value error, ')}"


def _place(loc: list[Any], raw: dict[str, Any]) -> str:
    """The path of a mistake, with tables by their id."""
    if len(loc) > 1 and loc[0] == "tables":
        entry = raw["tables"][loc[1]]
        name = entry.get("id") if isinstance(entry, dict) else None
        loc = [f"table {name}" if isinstance(name, str) and name else f"tables.{loc[1]}", *loc[2:]]
    return ".".join(str(part) for part in loc)


def _section(loc: list[Any]) -> type[pydantic.BaseModel]:
    """The model of the section that a path leads into."""
    if len(loc) == 1:
        return PackSpec
    if loc[0] == "columns":
        return GroupSpec if "groups" in loc[2:-1] else ColumnSpec
    return PackInfo if loc[0] == "pack" else TableSpec
