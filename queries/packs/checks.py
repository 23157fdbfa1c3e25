"""Warnings before a pack goes out: nothing wrong, but seldom meant."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from queries.packs.model import Dimension
from queries.packs.sources import Sources
from queries.packs.spec import PackSpec


def warnings_of(sources: Sources, dimensions: Mapping[str, Dimension]) -> tuple[str, ...]:
    """Return what a publisher should look at."""
    return (
        *_untranslated(sources.spec),
        *(text for d in dimensions.values() for text in _overlapping(d)),
        *(text for d in dimensions.values() for text in _counted_elsewhere(d, sources)),
    )


def _untranslated(spec: PackSpec) -> Iterator[str]:
    """Languages that no text of the spec is in."""
    used = set(_keys(spec.model_dump()))
    for language in spec.pack.languages[1:]:
        if language not in used:
            yield (
                f"pack.languages: no text is in {language!r}; its files have all texts in "
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


def _counted_elsewhere(dimension: Dimension, sources: Sources) -> Iterator[str]:
    """Areas that another column of the release counts, too."""
    codes = [item.code for item in dimension.items if item.kind == "group"]
    others = sources.con.execute(
        "SELECT column_name FROM catalog.codes WHERE value IN (SELECT unnest(?::VARCHAR[])) AND column_name <> ? "
        "GROUP BY column_name HAVING 2 * count(*) > ? ORDER BY column_name",
        [codes, dimension.name, len(codes)],
    ).fetchall()
    for (column,) in others:
        yield (
            f"columns.{dimension.name}: groups are values of the column {column}, too, which counts them with noise of "
            "its own: the figures of both differ a little. A footnote should say so, or the pack have only one of them"
        )
