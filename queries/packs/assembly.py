"""The model of a pack from its sources: every dimension, table, title and note, ready for the formats.

Without tables in the spec, released tables of few columns become long tables of counts; columns of many numbers are
grouped into bands. Refuses what must not be published (no title, unreviewed settings, no guarantee) and warns of likely
mistakes. Invariant: writes nothing; every refusal happens here.
"""

from __future__ import annotations

import contextlib
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from engine.errors import PrivacyError, SpecError
from engine.guarantee import Guarantee
from engine.schema import column_set
from engine.store import DRAFT_TITLE, UNREVIEWED
from queries.packs.dimensions import dimension_of
from queries.packs.model import Dimension, ItemKind, Pack, PackTable
from queries.packs.sources import Sources
from queries.packs.spec import UNNAMED, PackInfo, PackSpec, TableSpec, Text
from queries.packs.tables import table_of
from queries.packs.texts import missing_words, texts
from queries.release import Release

MOST_NAMED = 8
"""Columns or words that a message names."""
_NOT_FOR_READERS = ("blank", "locked margins", "joins", "macros", "exposure")
"""Topics of the release's notes that readers of its tables have no use for."""


def assemble(
    sources: Sources,
    *,
    unprotected: bool = False,
    accept_detected: bool = False,
    progress: Callable[[int, int], None] | None = None,
) -> Pack:
    """Make the pack of a release.

    accept_detected: Accept settings detected in the data without review; the pack says so.
    """
    release, spec = sources.release, sources.spec
    _check_protected(release, unprotected=unprotected)
    _check_publishable(release, spec, accept_detected=accept_detected)
    named = [c for t in spec.tables for c in (*t.names, *t.where, *([t.of] if t.of else []))]
    sources.check_columns([*spec.columns, *named])
    entries, left_out = spec.tables, tuple[str, ...]()
    if not spec.tables:
        every, most = [*_default_tables(release, spec)], spec.pack.max_tables
        if not every:
            raise SpecError(
                f"pack.max_width: no released table has at most {spec.pack.max_width} columns; raise it, or list "
                "[[tables]]"
            )
        entries = every[:most]
        if len(every) > most:
            left_out = (
                f"pack.max_tables: {len(every):,} tables are released; the {most:,} narrowest are in the pack. List "
                f"[[tables]], or set max_tables = {len(every)}",
            )
    problems: list[str] = []
    dimensions: dict[str, Dimension] = {}
    for name in dict.fromkeys(name for t in entries for name in (*t.names, *t.where)):
        with _collected(problems):
            dimensions[name] = dimension_of(name, sources, is_banded=not spec.tables)
    _refuse(problems)
    if not spec.tables:
        entries = [_in_bands(entry, dimensions, spec) for entry in entries]
    tables: list[PackTable] = []
    for number, (name, entry) in enumerate(zip(_ids(entries), entries, strict=True), 1):
        with _collected(problems):
            tables.append(table_of(sources, entry, name, dimensions))
        if progress is not None:
            progress(number, len(entries))
    _refuse(problems)
    warnings = (*_warnings(sources, dimensions), *left_out)
    return pack_of(sources, dimensions, tables, warnings)


def pack_of(
    sources: Sources,
    dimensions: Mapping[str, Dimension],
    tables: Sequence[PackTable],
    warnings: Sequence[str] = (),
) -> Pack:
    """Return a pack of some tables, with what all of them share."""
    release, spec, languages = sources.release, sources.spec, sources.languages
    cards = {t.answered: release.card(*t.answered) for t in tables if t.answered}
    shown = {*dimensions, *(t.of for t in spec.tables if t.of)}
    rows = sources.rows("SELECT topic, note FROM catalog.notes ORDER BY position")
    notes = [(topic, note) for topic, note in rows if _concerns(note, shown, release)]
    accepted = {risk for card in cards.values() if (risk := card.exposure.get("accept_risk"))}
    for_readers = [
        note
        for topic, note in notes
        if not (topic in _NOT_FOR_READERS or note.startswith("No row is"))
        or any(risk in note for risk in accepted)
    ]
    return Pack(
        info=_identified(spec.pack, release),
        languages=languages,
        titles=texts(spec.pack.title, languages, release.title or release.path.stem),
        descriptions=texts(spec.pack.description, languages),
        dimensions=dimensions,
        tables=tuple(tables),
        cards=cards,
        footnotes=tuple(texts(note, languages) for note in spec.footnotes),
        notes=_review_notes(release, spec, [note for _, note in notes]),
        reader_notes=_review_notes(release, spec, for_readers),
        guarantee=_guarantee(release),
        is_unreviewed=_is_unreviewed(release, spec),
        words=sources.words,
        warnings=tuple(warnings),
        release={
            "title": release.title,
            "vintage": release.vintage,
            "mode": release.mode,
            "key_id": release.key_id,
            "engine_version": release.engine_version,
            "content_hash": release.content_hash,
            "file": release.path.name if spec.pack.release_file else "",
        },
    )


@contextlib.contextmanager
def _collected(problems: list[str]) -> Iterator[None]:
    """Collect the mistakes of one entry and continue with the next: one error lists them all."""
    try:
        yield
    except SpecError as error:
        problems += [p for p in error.problems if p not in problems]


def _refuse(problems: list[str]) -> None:
    if problems:
        raise SpecError(problems)


def _identified(info: PackInfo, release: Release) -> PackInfo:
    """The publication data, with an identifier of its own where the spec gives none."""
    if info.identifier != UNNAMED:
        return info
    return info.model_copy(update={"identifier": f"{UNNAMED}:{release.content_hash}"})


def _concerns(note: str, columns: set[str], release: Release) -> bool:
    """Whether a note concerns a pack of some columns: the universes of other columns do not."""
    others = (c for c in release.columns if c not in columns)
    return not any(note.startswith(f"Universe of {c}, declared: ") for c in others)


def _check_protected(release: Release, *, unprotected: bool) -> None:
    """Refuse a release of mode dp without an epsilon."""
    held = _guarantee(release)
    if held is not None and not held.is_protected and not unprotected:
        raise PrivacyError(f"{release.path}: {held.promise()} --unprotected publishes it anyway")


def _guarantee(release: Release) -> Guarantee | None:
    """What a release of mode dp guarantees."""
    if release.mode != "dp" or not release.tables:
        return None
    return Guarantee.of(release.card(*release.tables[0]).dp)


def _check_publishable(release: Release, spec: PackSpec, *, accept_detected: bool) -> None:
    """Refuse a draft, a release without a title, and settings detected in the data that nobody reviewed."""
    if release.title.startswith(DRAFT_TITLE):
        raise PrivacyError(f"{release.path}: is a draft; build the release to publish it")
    if not release.title.strip() and not any(_stripped(spec.pack.title)):
        raise SpecError(
            f'{release.path}: has no title, and a publication needs one. Set title = "..." in [release] and build '
            "again, or in [pack] of a pack spec"
        )
    if _is_unreviewed(release, spec) and not accept_detected:
        raise PrivacyError(
            f"{release.path}: settings detected in the data have not been reviewed: {_listed(release.unreviewed)}. "
            "Check them in the spec, then set reviewed = true in [release] and build again, or in [pack] of a pack "
            "spec; --accept-detected publishes without review, and the pack says so"
        )


def _stripped(given: Text) -> list[str]:
    """The texts of all languages, without surrounding whitespace."""
    return [text.strip() for text in ([given] if isinstance(given, str) else given.values())]


def _is_unreviewed(release: Release, spec: PackSpec) -> bool:
    """Whether settings were detected in the data, and neither release nor spec says that they were reviewed."""
    return bool(release.unreviewed) and not spec.pack.reviewed


def _review_notes(release: Release, spec: PackSpec, notes: Sequence[str]) -> tuple[str, ...]:
    """Notes of the release for a pack, with whether the publisher reviewed what was detected in the data."""
    if not release.unreviewed:
        return tuple(notes)
    kept = [note for note in notes if not note.startswith(UNREVIEWED)]
    how = "reviewed by the publisher" if spec.pack.reviewed else "published without review"
    return (*kept, f"Detected in the data and {how}: {_listed(release.unreviewed)}.")


def _listed(found: Mapping[str, Sequence[str]]) -> str:
    """Columns with their settings; of many, the first ones."""
    named = [f"{', '.join(settings)} of {column}" for column, settings in found.items()]
    more = len(named) - MOST_NAMED
    rest = f"; and {more:,} more column{'' if more == 1 else 's'}" if more > 0 else ""
    return "; ".join(named[:MOST_NAMED]) + rest


def _warnings(sources: Sources, dimensions: Mapping[str, Dimension]) -> tuple[str, ...]:
    """What the publisher should check."""
    nobody = 'no publisher: the pack is cited as by an unnamed one (publisher = "..." in [pack])'
    return (
        *(() if sources.spec.pack.publisher else (nobody,)),
        *_untranslated(sources.spec),
        *(text for d in dimensions.values() for text in _overlapping(d)),
        *(text for d in dimensions.values() for text in _counted_elsewhere(d, sources)),
    )


def _untranslated(spec: PackSpec) -> Iterator[str]:
    """Languages in which the spec has no text, or in which pages have English words."""
    used = set(_keys(spec.model_dump()))
    for place, language in enumerate(spec.pack.languages):
        missing = missing_words(spec.words, language)
        if place and language not in used:
            yield (
                f"pack.languages: the spec has no text in {language!r}; its files have all texts in "
                f"{spec.pack.languages[0]!r}"
            )
        elif missing:
            named = ", ".join(repr(word) for word in missing[:MOST_NAMED])
            more = f" and {len(missing) - MOST_NAMED:,} more" if len(missing) > MOST_NAMED else ""
            yield f"words: no {language!r} text for {named}{more}; these appear in English"


def _keys(what: Any) -> Iterator[str]:
    """All keys of mappings, at any depth."""
    if isinstance(what, dict):
        for key, value in what.items():
            yield str(key)
            yield from _keys(value)
    elif isinstance(what, list | tuple):
        for value in what:
            yield from _keys(value)


def _overlapping(dimension: Dimension) -> Iterator[str]:
    """Groups that share values without one being part of the other."""
    groups = [(item.code, set(item.members)) for item in dimension.items if item.kind == "group"]
    for i, (code, members) in enumerate(groups):
        for other, more in groups[i + 1 :]:
            common = members & more
            if common and common != members and common != more:
                yield (
                    f"columns.{dimension.name}.groups: {code!r} and {other!r} overlap, so figures of groups do not add "
                    "up to the total"
                )


def _counted_elsewhere(dimension: Dimension, sources: Sources) -> Iterator[str]:
    """Areas that another column of the release counts as well."""
    codes = [item.code for item in dimension.items if item.kind == "group"]
    others = sources.rows(
        "SELECT column_name FROM catalog.codes WHERE value IN (SELECT unnest(?::VARCHAR[])) AND column_name <> ? "
        "GROUP BY column_name HAVING 2 * count(*) > ? ORDER BY column_name",
        *(codes, dimension.name, len(codes)),
    )
    for (column,) in others:
        yield (
            f"columns.{dimension.name}: its groups are also values of the column {column}, which is counted with noise "
            "of its own, so the figures of both differ slightly. Say so in a footnote, or publish only one of them"
        )


def _ids(entries: Sequence[TableSpec]) -> list[str]:
    """The ids of tables: those given, and unused numbers for the others."""
    taken = {t.id.lower() for t in entries}
    out = []
    for number, entry in enumerate(entries, 1):
        name = f"T{number:04d}"
        while name.lower() in taken:
            name += "_"
        out.append(entry.id or name)
    return out


def _default_tables(release: Release, spec: PackSpec) -> Iterator[TableSpec]:
    """Released tables of few columns; in the place of those that have the survey weights, weighted counts."""
    weight = release.weight
    for columns in release.tables:
        if len(columns) <= spec.pack.max_width and weight not in columns:
            names = [c for c in release.columns if c in columns]
            yield TableSpec(columns=names)
            if weight is not None and column_set((*columns, weight)) in release.tables:
                yield TableSpec(columns=names, measure="sum", of=weight)


def _in_bands(entry: TableSpec, dimensions: Mapping[str, Dimension], spec: PackSpec) -> TableSpec:
    """A default table with many numbers in bands, unless it still has too many combinations."""
    banded = [name for name in entry.columns if dimensions[name].places("group")]
    kinds: dict[str, tuple[ItemKind, ...]] = dict.fromkeys(banded, ("group",))
    n_cells = math.prod(
        len(dimensions[name].places(*kinds.get(name, ("value", "blank")))) for name in entry.columns
    )
    if not banded or n_cells > spec.pack.max_cells:
        return entry
    return entry.model_copy(update={"only_groups": banded})
