"""What a publisher should look at before a pack goes out: nothing wrong, but seldom meant.

Takes the spec and the dimensions of a pack; gives warnings.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import duckdb

from queries.packs.model import Dimension
from queries.packs.pack_spec import PackSpec


def doubts_of(
    spec: PackSpec, dimensions: Mapping[str, Dimension], con: duckdb.DuckDBPyConnection
) -> tuple[str, ...]:
    """Return warnings.

    Parameters
    ----------
    spec : PackSpec
    dimensions : mapping of str to Dimension
    con : duckdb.DuckDBPyConnection
        With the release in use.
    """
    return (
        *_untranslated(spec),
        *(text for d in dimensions.values() for text in _overlapping(d)),
        *(text for d in dimensions.values() for text in _counted_elsewhere(d, con)),
    )


def _untranslated(spec: PackSpec) -> Iterator[str]:
    """Languages that no text of the spec is in."""
    said = set(_keys(spec.model_dump()))
    for language in spec.pack.languages[1:]:
        if language not in said:
            yield (
                f"pack.languages: nothing is said in {language!r}; its files say everything in "
                f"{spec.pack.languages[0]!r}"
            )


def _keys(what: Any) -> Iterator[str]:
    """All keys of mappings, however deep."""
    if isinstance(what, dict):
        for key, value in what.items():
            yield str(key)
            yield from _keys(value)
    elif isinstance(what, list | tuple):
        for value in what:
            yield from _keys(value)


def _overlapping(dimension: Dimension) -> Iterator[str]:
    """Groups that have values in common, where neither lies in the other."""
    groups = [(item.code, set(item.members)) for item in dimension.items if item.kind == "group"]
    for i, (code, members) in enumerate(groups):
        for other, more in groups[i + 1 :]:
            common = members & more
            if common and common != members and common != more:
                yield (
                    f"columns.{dimension.name}.groups: {code!r} and {other!r} overlap: figures of groups do not add up "
                    "to the total"
                )


def _counted_elsewhere(dimension: Dimension, con: duckdb.DuckDBPyConnection) -> Iterator[str]:
    """Areas that another column of the release counts, too."""
    codes = [item.code for item in dimension.items if item.kind == "group"]
    found = con.execute(
        "SELECT column_name FROM catalog.codes WHERE value IN (SELECT unnest(?::VARCHAR[])) AND column_name <> ? "
        "GROUP BY column_name HAVING 2 * count(*) > ? ORDER BY column_name",
        [codes, dimension.name, len(codes)],
    ).fetchall()
    for (column,) in found:
        yield (
            f"columns.{dimension.name}: groups are values of the column {column}, too, which counts them with noise of "
            "its own: the figures of both differ a little. A footnote should say so, or only one be shown"
        )
