"""The file beside a release that says what its variables mean: `census.about.toml` beside `census.duckdb`.

Takes the release's path; gives an `About`, empty where there is no such file. Nobody signs it: it is the word of who
runs the server.

    about = "What the release is about."
    contact = "statistics@example.org"

    [variables.age]
    definition = "Age on census day, in full years."
    source = "Census form, question 3"
    contact = "demography@example.org"

    [maps.region]               # a column whose values are areas
    file = "regions.geojson"    # beside this file, or in a folder below
    key = "code"                # the property of a feature that holds the column's value
"""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from engine.errors import SpecError
from engine.texts import parsed_toml

Text = Annotated[str, Field(max_length=10_000)]
Name = Annotated[str, Field(max_length=300)]
_ENDING = ".about.toml"
_MOST_BYTES = 4_000_000


class _Part(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class Described(_Part):
    """What a variable means."""

    definition: Text = ""
    source: Text = ""
    contact: Text = ""


class MapFile(_Part):
    """Where the outlines of a variable's areas are, and which property holds its values."""

    file: Name
    key: Name


class About(_Part):
    """What is said beside a release."""

    about: Text = ""
    source: Text = ""
    contact: Text = ""
    variables: dict[Name, Described] = {}
    maps: dict[Name, MapFile] = {}


def about_of(release: Path, columns: frozenset[str]) -> About:
    """Read what stands beside a release."""
    path = release.with_suffix(_ENDING)
    if not path.is_file():
        return About()
    try:
        if path.stat().st_size > _MOST_BYTES:
            raise SpecError(f"{path}: is larger than {_MOST_BYTES // 1_000_000} MB")
        found = About(**parsed_toml(path.read_text("utf-8")))
    except UnicodeDecodeError as error:
        raise SpecError(f"{path}: is not UTF-8 (at byte {error.start + 1})") from None
    except OSError as error:
        raise SpecError(f"{path}: cannot be read ({error.strerror})") from None
    except tomllib.TOMLDecodeError as error:
        raise SpecError(f"{path}: is not TOML: {error}") from None
    except ValidationError as error:
        raise SpecError([_problem(path, e["loc"], e["msg"]) for e in error.errors()]) from None
    mistaken = [
        f"{path}: {part}.{name}: the release has no such column"
        for part, names in (("variables", found.variables), ("maps", found.maps))
        for name in names
        if name not in columns
    ]
    mistaken += [
        f"{path}: maps.{name}.file: {given.file!r} lies outside the release's folder"
        for name, given in found.maps.items()
        if not _is_beside(path, given.file)
    ]
    if mistaken:
        raise SpecError(mistaken)
    return found


def _is_beside(path: Path, file: str) -> bool:
    """Whether a file lies in the folder of another one, or below, when all links are followed."""
    try:
        return (path.parent / file).resolve().is_relative_to(path.parent.resolve())
    except (OSError, ValueError, RuntimeError):  # no name of a file; links in a circle
        return False


def _problem(path: Path, place: tuple[int | str, ...], message: str) -> str:
    """One mistake, and what is allowed there."""
    where = ".".join(map(str, place))
    part = {0: About, 1: About}.get(len(place), MapFile if place[0] == "maps" else Described)
    allowed = f"; allowed: {', '.join(part.model_fields)}" if "xtra" in message else ""
    return f"{path}: {where}: {message}{allowed}"
