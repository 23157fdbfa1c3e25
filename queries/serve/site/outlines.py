"""Outlines of areas as paths that a browser draws: a GeoJSON file, projected and fitted into a box.

Takes a file and the property that holds an area's value; gives plain values. Longitudes are shortened by the cosine of
the middle latitude, which keeps shapes of a country right; coordinates that are no degrees are taken as they are.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from pathlib import Path
from stat import S_ISREG
from typing import Any

from engine.errors import SpecError
from engine.texts import parsed_json
from queries.serve.values import key_of

_SIZE = 1000
"""Width of the box, or height, whichever is the longer side."""
_MOST_BYTES, _MOST_AREAS = 50_000_000, 5_000
_FARTHEST = 1e9
"""Largest coordinate: metres from anywhere on Earth are less."""
_APART, _FEWEST_POINTS = 2, 2
"""Of the box: how far points of a ring are apart (a map is drawn at half the size), and what is no ring."""
Point = tuple[float, float]
Ring = list[Point]


def outlines_of(path: Path, key: str) -> dict[str, Any]:
    """Return the box and the areas in it: key and path of each."""
    areas = list(_areas(path, key))
    points = [point for _, rings in areas for ring in rings for point in ring]
    if not points:
        raise SpecError(f"{path}: no feature with areas has a property {key!r}")
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
    """Features with their value and rings."""
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
            raise SpecError(f"{path}: features[{i}]: is no GeoJSON feature with areas") from None
        except (ValueError, OverflowError) as error:
            raise SpecError(f"{path}: features[{i}]: is no GeoJSON ({error})") from None


def _features(path: Path) -> list[Any]:
    """The features of a file."""
    try:
        about = path.stat()
        if not S_ISREG(about.st_mode):  # a pipe would be waited for
            raise SpecError(f"{path}: is no file")
        if about.st_size > _MOST_BYTES:
            raise SpecError(f"{path}: is larger than {_MOST_BYTES // 1_000_000} MB")
        document = parsed_json(path.read_text("utf-8"))
        features = document["features"]
        if not isinstance(features, list):
            raise TypeError("features are a list")
    except SpecError:
        raise
    except OSError as error:
        raise SpecError(f"{path}: cannot be read ({error.strerror})") from None
    except (ValueError, TypeError, KeyError):
        raise SpecError(f"{path}: is no GeoJSON with a list of features") from None
    if len(features) > _MOST_AREAS:
        raise SpecError(f"{path}: more than {_MOST_AREAS:,} areas")
    return features


def _ring(ring: Any) -> Ring:
    points = [(float(point[0]), float(point[1])) for point in ring]
    if not all(abs(x) <= _FARTHEST for point in points for x in point):
        raise ValueError(f"a coordinate is no number from -{_FARTHEST:g} to {_FARTHEST:g}")
    return points


def _shape(rings: list[list[tuple[int, int]]]) -> str:
    """One area; rings that nobody would see are left out, save where there is no other."""
    kept = [points for points in map(_thinned, rings) if len(points) > _FEWEST_POINTS]
    return "".join(
        "M" + "L".join(f"{x} {y}" for x, y in points) + "Z"
        for points in kept or rings[:1]
        if points
    )


def _thinned(points: list[tuple[int, int]]) -> list[tuple[int, int]]:
    """One ring without the points that lie next to the one before: they are less than a pixel apart."""
    kept: list[tuple[int, int]] = []
    for x, y in points:
        if not kept or max(abs(x - kept[-1][0]), abs(y - kept[-1][1])) >= _APART:
            kept.append((x, y))
    return kept
