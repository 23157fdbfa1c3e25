"""What stands between a release and the public: no title, lines that nobody reviewed; and what is seldom meant.

Takes a release and a pack spec; refuses, gives warnings, or notes for readers.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from engine.errors import PrivacyError, SpecError
from engine.store import UNREVIEWED
from queries.packs.model import Dimension
from queries.packs.sources import Sources
from queries.packs.spec import PackSpec, Text
from queries.release import Release

MOST_NAMED = 8
"""Columns that a message names."""


def check_publishable(release: Release, spec: PackSpec, *, accept_detected: bool) -> None:
    """Refuse what has no name, and what a machine found in the data and no person looked at."""
    if not release.title.strip() and not any(_texts(spec.pack.title)):
        raise SpecError(
            f'{release.path}: has no title, and what is published needs one: say title = "..." in [release] and build '
            "again, or in [pack] of a pack spec"
        )
    if is_unreviewed(release, spec) and not accept_detected:
        raise PrivacyError(
            f"{release.path}: what was detected in the data was reviewed by nobody: {_listed(release.unreviewed)}. "
            "Look at these lines of the spec, then say reviewed = true in [release] and build again, or in [pack] of a "
            "pack spec; --accept-detected publishes all the same, and the pack says so"
        )


def is_unreviewed(release: Release, spec: PackSpec) -> bool:
    """Whether lines were detected in the data, and nobody says that they were reviewed."""
    return bool(release.unreviewed) and not spec.pack.reviewed


def review_notes(release: Release, spec: PackSpec, notes: Iterable[str]) -> tuple[str, ...]:
    """Return the release's notes for a pack, with what became of lines that were marked as detected."""
    found = release.unreviewed
    kept = [note for note in notes if not note.startswith(UNREVIEWED)]
    if not found:
        return tuple(notes)
    if spec.pack.reviewed:
        return (*kept, f"Detected in the data, and reviewed by the publisher: {_listed(found)}.")
    return (
        *kept,
        f"Detected in the data, reviewed by nobody, and published all the same: {_listed(found)}.",
    )


def _listed(found: Mapping[str, Sequence[str]]) -> str:
    """Columns with their settings, the first ones by name."""
    told = [f"{', '.join(settings)} of {column}" for column, settings in found.items()]
    more = len(told) - MOST_NAMED
    return "; ".join(told[:MOST_NAMED]) + (f"; and of {more:,} columns more" if more > 0 else "")


def _texts(given: Text) -> list[str]:
    """The texts of all languages, without blanks around them."""
    return [text.strip() for text in ([given] if isinstance(given, str) else given.values())]


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
