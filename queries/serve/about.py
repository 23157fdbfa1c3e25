"""What accompanies a release: `census.about.toml` beside `census.duckdb` with definitions, sources, contacts and maps.

The file is optional and not signed: its contents are the responsibility of the server's operator.

    about = "What the release is about."
    contact = "statistics@example.org"

    [variables.age]
    definition = "Age on census day, in full years."
    source = "Census form, question 3"
    contact = "demography@example.org"

    [maps.region]               # a column whose values are areas
    file = "regions.geojson"    # in the same folder, or below it
    key = "code"                # the property of a feature that holds the column's value

Outlines are projected and scaled to a box: longitudes are shortened by the cosine of the middle latitude, which keeps
the shape of a country; coordinates that are not degrees are taken as they are.
"""

from __future__ import annotations

import math
import tomllib
from collections.abc import Iterator, Mapping
from pathlib import Path
from stat import S_ISREG
from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from engine.errors import SpecError
from engine.schema import Resolution, Universe
from engine.texts import parsed_json, parsed_toml
from queries.release import Release
from queries.serve.values import Variable, key_of, variable_of

Text = Annotated[str, Field(max_length=10_000)]
Name = Annotated[str, Field(max_length=300)]
_ENDING = ".about.toml"
_MOST_BYTES = 4_000_000
_KINDS = {
    "category": "categories",
    "text": "text",
    "boolean": "yes or no",
    "integer": "whole numbers",
    "decimal": "numbers",
    "real": "numbers",
    "date": "dates",
    "timestamp": "dates and times",
    "time": "times of day",
}
_SIZE = 1000
"""Longer side of the box."""
_MOST_MAP_BYTES, _MOST_AREAS = 50_000_000, 5_000
_FARTHEST = 1e9
"""Largest coordinate; projected coordinates in metres are smaller."""
_APART, _FEWEST_POINTS = 2, 2
"""Least distance between points of a ring in the box (maps are drawn at half the size); points of the smallest ring."""
Point = tuple[float, float]
Ring = list[Point]


class _Part(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class Described(_Part):
    """Definition of a variable."""

    definition: Text = ""
    source: Text = ""
    contact: Text = ""


class MapFile(_Part):
    """The outlines of a variable's areas: file, and the property with its values."""

    file: Name
    key: Name


class About(_Part):
    """The contents of the file."""

    about: Text = ""
    source: Text = ""
    contact: Text = ""
    variables: dict[Name, Described] = {}
    maps: dict[Name, MapFile] = {}


def about_of(release: Path, columns: frozenset[str]) -> About:
    """Read the file that accompanies a release; empty if there is none."""
    path = release.with_suffix(_ENDING)
    if not path.is_file():
        return About()
    try:
        if path.stat().st_size > _MOST_BYTES:
            raise SpecError(f"{path}: larger than {_MOST_BYTES // 1_000_000} MB")
        found = About(**parsed_toml(path.read_text("utf-8")))
    except UnicodeDecodeError as error:
        raise SpecError(f"{path}: not UTF-8 (at byte {error.start + 1})") from None
    except OSError as error:
        raise SpecError(f"{path}: cannot be read ({error.strerror})") from None
    except tomllib.TOMLDecodeError as error:
        raise SpecError(f"{path}: not valid TOML: {error}") from None
    except ValidationError as error:
        raise SpecError([_problem(path, e["loc"], e["msg"]) for e in error.errors()]) from None
    mistakes = [
        f"{path}: {part}.{name}: no such column in the release"
        for part, names in (("variables", found.variables), ("maps", found.maps))
        for name in names
        if name not in columns
    ]
    mistakes += [
        f"{path}: maps.{name}.file: {given.file!r} is outside the release's folder"
        for name, given in found.maps.items()
        if not _is_beside(path, given.file)
    ]
    if mistakes:
        raise SpecError(mistakes)
    return found


def _is_beside(path: Path, file: str) -> bool:
    """Whether a file is in the folder of another one or below, with all links followed."""
    try:
        return (path.parent / file).resolve().is_relative_to(path.parent.resolve())
    except (OSError, ValueError, RuntimeError):  # not a file name; circular links
        return False


def _problem(path: Path, place: tuple[int | str, ...], message: str) -> str:
    """One mistake, and what would be allowed."""
    where = ".".join(map(str, place))
    part = {0: About, 1: About}.get(len(place), MapFile if place[0] == "maps" else Described)
    allowed = f"; allowed: {', '.join(part.model_fields)}" if "xtra" in message else ""
    return f"{path}: {where}: {message}{allowed}"


def definition_of(
    release: Release, variables: Mapping[str, Variable], about: About, name: str
) -> dict[str, Any]:
    """Return what is known about a variable; missing texts are empty."""
    variable, described = variable_of(variables, name), about.variables.get(name, Described())
    column = release.described[name]
    return {
        "name": name,
        "label": variable.label,
        "definition": described.definition,
        "source": described.source or about.source,
        "contact": described.contact or about.contact,
        "applies": "" if column.universe is None else _whom(column.universe, variables),
        "kind": _KINDS.get(column.kind, column.kind),
        "step": _step(column.resolution),
        "is_public": column.public,
        "n_values": len(variable.values),
        "n_tables": sum(name in table for table in release.tables),
    }


def _step(resolution: Resolution | None) -> str | float | None:
    """A period, or the distance between numbers where it is not 1."""
    if resolution is None or (resolution.step == 1 and not resolution.period):
        return None
    return resolution.period or float(resolution.step)


def _whom(universe: Universe, variables: Mapping[str, Variable]) -> str:
    """The population a variable applies to, in words."""
    deciding = variables[universe.column]
    if universe.values is not None:
        labels = {v.value: v.label for v in deciding.values}
        words = ", ".join(labels.get(v, key_of(v)) for v in universe.values)
    elif universe.low is None and universe.high is None:
        words = "any value"
    elif universe.high is None:
        words = f"{key_of(universe.low)} and over"
    elif universe.low is None:
        words = f"up to {key_of(universe.high)}"
    else:
        words = f"{key_of(universe.low)} to {key_of(universe.high)}"
    return f"{deciding.label}: {words}"


def outlines_of(path: Path, key: str) -> dict[str, Any]:
    """Return the box and the areas in it, each with key and path."""
    areas = list(_areas(path, key))
    points = [point for _, rings in areas for ring in rings for point in ring]
    if not points:
        raise SpecError(f"{path}: no area has a property {key!r}")
    left, right = min(x for x, _ in points), max(x for x, _ in points)
    low, high = min(y for _, y in points), max(y for _, y in points)
    is_degrees = left >= -180 and right <= 180 and low >= -90 and high <= 90
    shrink = math.cos(math.radians((low + high) / 2)) if is_degrees else 1.0
    wide, tall = max((right - left) * shrink, 1e-9), max(high - low, 1e-9)
    scale = _SIZE / max(wide, tall)

    def place(point: Point) -> tuple[int, int]:
        return round((point[0] - left) * shrink * scale), round((high - point[1]) * scale)

    shapes = [
        {"key": value, "path": _shape([[place(p) for p in ring] for ring in rings])}
        for value, rings in areas
    ]
    box = {"width": max(1, round(wide * scale)), "height": max(1, round(tall * scale))}
    return {**box, "areas": shapes}


def _areas(path: Path, key: str) -> Iterator[tuple[str, list[Ring]]]:
    """Areas with their value and rings."""
    for i, feature in enumerate(_features(path)):
        try:
            value = (feature.get("properties") or {}).get(key)
            shape = feature.get("geometry") or {}
            if value is None or shape.get("type") not in ("Polygon", "MultiPolygon"):
                continue
            if not isinstance(value, str | int | float):
                raise ValueError(f"{key!r} is neither text nor a number")
            parts = shape["coordinates"]
            polygons = [parts] if shape["type"] == "Polygon" else parts
            yield key_of(value), [_ring(ring) for polygon in polygons for ring in polygon]
        except (TypeError, KeyError, AttributeError, IndexError):
            raise SpecError(f"{path}: features[{i}]: not a GeoJSON area") from None
        except (ValueError, OverflowError) as error:
            raise SpecError(f"{path}: features[{i}]: not valid GeoJSON ({error})") from None


def _features(path: Path) -> list[Any]:
    """The features of a file."""
    try:
        about = path.stat()
        if not S_ISREG(about.st_mode):  # a pipe would block
            raise SpecError(f"{path}: not a file")
        if about.st_size > _MOST_MAP_BYTES:
            raise SpecError(f"{path}: larger than {_MOST_MAP_BYTES // 1_000_000} MB")
        document = parsed_json(path.read_text("utf-8"))
        features = document["features"]
        if not isinstance(features, list):
            raise TypeError("features are a list")
    except SpecError:
        raise
    except OSError as error:
        raise SpecError(f"{path}: cannot be read ({error.strerror})") from None
    except (ValueError, TypeError, KeyError):
        raise SpecError(f"{path}: not GeoJSON with a list of features") from None
    if len(features) > _MOST_AREAS:
        raise SpecError(f"{path}: more than {_MOST_AREAS:,} areas")
    return features


def _ring(ring: Any) -> Ring:
    points = [(float(point[0]), float(point[1])) for point in ring]
    if not all(abs(x) <= _FARTHEST for point in points for x in point):
        raise ValueError(f"coordinates must be numbers from -{_FARTHEST:g} to {_FARTHEST:g}")
    return points


def _shape(rings: list[list[tuple[int, int]]]) -> str:
    """One area without invisibly small rings, unless it has no others."""
    kept = [points for points in map(_thinned, rings) if len(points) > _FEWEST_POINTS]
    return "".join(
        "M" + "L".join(f"{x} {y}" for x, y in points) + "Z"
        for points in kept or rings[:1]
        if points
    )


def _thinned(points: list[tuple[int, int]]) -> list[tuple[int, int]]:
    """One ring without points less than a pixel from the previous one."""
    kept: list[tuple[int, int]] = []
    for x, y in points:
        if not kept or max(abs(x - kept[-1][0]), abs(y - kept[-1][1])) >= _APART:
            kept.append((x, y))
    return kept
