"""The model of a pack from its sources: every dimension, table, title and note, ready for the formats.

Without tables in the spec, every released table of few columns becomes a long table of counts. Invariant: nothing here
is written; all that is refused is refused here.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Sequence

from engine.errors import PrivacyError, SpecError
from queries.packs.checks import warnings_of
from queries.packs.dimensions import dimension_of
from queries.packs.model import Dimension, Pack, PackTable
from queries.packs.sources import Sources
from queries.packs.spec import UNNAMED, PackInfo, PackSpec, TableSpec
from queries.packs.tables import table_of
from queries.packs.texts import texts
from queries.release import Release


def assemble(
    sources: Sources,
    *,
    unprotected: bool = False,
    progress: Callable[[int, int], None] | None = None,
) -> Pack:
    """Make the pack of a release.

    Parameters
    ----------
    unprotected : bool
        Take a release of mode dp that guarantees nothing.
    progress : callable, optional
        Called with the number of tables done, and of all.

    Raises
    ------
    SpecError
        The spec names columns, values or combinations that the release does not have.
    PrivacyError
        The release guarantees nothing.
    """
    release, spec = sources.release, sources.spec
    _check_protected(release, unprotected=unprotected)
    named = [c for t in spec.tables for c in (*t.names, *t.where, *([t.of] if t.of else []))]
    sources.check_columns([*spec.columns, *named])
    entries = spec.tables or _default_tables(release, spec)
    problems: list[str] = []
    dimensions: dict[str, Dimension] = {}
    for name in dict.fromkeys(name for t in entries for name in (*t.names, *t.where)):
        with _collected(problems):
            dimensions[name] = dimension_of(name, sources)
    _refuse(problems)
    tables: list[PackTable] = []
    for number, (name, entry) in enumerate(zip(_ids(entries), entries, strict=True), 1):
        with _collected(problems):
            tables.append(table_of(sources, entry, name, dimensions))
        if progress is not None:
            progress(number, len(entries))
    _refuse(problems)
    return _pack(sources, dimensions, tables)


def _pack(sources: Sources, dimensions: dict[str, Dimension], tables: Sequence[PackTable]) -> Pack:
    """Put the pack together, with what all its tables share."""
    release, spec, languages = sources.release, sources.spec, sources.languages
    columns = {*dimensions, *(t.of for t in spec.tables if t.of)}
    return Pack(
        info=_identified(spec.pack, release),
        languages=languages,
        titles=texts(spec.pack.title, languages, release.title or release.path.stem),
        descriptions=texts(spec.pack.description, languages),
        dimensions=dimensions,
        tables=tuple(tables),
        cards={t.answered: release.card(*t.answered) for t in tables if t.answered},
        footnotes=tuple(texts(note, languages) for note in spec.footnotes),
        notes=tuple(note for note in release.notes if _concerns(note, columns, release)),
        words=sources.words,
        warnings=warnings_of(sources, dimensions),
        release={
            "title": release.title,
            "vintage": release.vintage,
            "mode": release.mode,
            "key_id": release.key_id,
            "engine_version": release.engine_version,
            "content_hash": release.content_hash,
            "file": release.path.name if _has_release_file(spec) else "",
        },
    )


@contextlib.contextmanager
def _collected(problems: list[str]) -> Iterator[None]:
    """Collect the mistakes of one entry, and go on to the next: one error names them all."""
    try:
        yield
    except SpecError as error:
        problems += [p for p in error.problems if p not in problems]


def _refuse(problems: list[str]) -> None:
    if problems:
        raise SpecError(problems)


def _identified(info: PackInfo, release: Release) -> PackInfo:
    """Who publishes what, with an identifier that no other pack has where the spec gives none."""
    if info.identifier != UNNAMED:
        return info
    return info.model_copy(update={"identifier": f"{UNNAMED}:{release.content_hash}"})


def _has_release_file(spec: PackSpec) -> bool:
    """Whether the release file is in the pack; who chose tables has not chosen all that the release holds."""
    choice = spec.pack.release_file
    return not spec.tables if choice is None else choice


def _concerns(note: str, columns: set[str], release: Release) -> bool:
    """Whether a note of the release concerns a pack of some columns: not other columns' universes."""
    others = (c for c in release.columns if c not in columns)
    return not any(note.startswith(f"Universe of {c}, declared: ") for c in others)


def _check_protected(release: Release, *, unprotected: bool) -> None:
    """Refuse a release of mode dp without an epsilon."""
    if release.mode != "dp" or unprotected or not release.tables:
        return
    if release.card(*release.tables[0]).dp.get("epsilon") is None:
        raise PrivacyError(
            f"{release.path}: guarantees nothing: its counts carry no noise. It is for comparison only; "
            "--unprotected publishes it all the same"
        )


def _ids(entries: Sequence[TableSpec]) -> list[str]:
    """The ids of tables: given ones, and numbers that nobody gave."""
    taken = {t.id.lower() for t in entries}
    out = []
    for number, entry in enumerate(entries, 1):
        name = f"T{number:04d}"
        while name.lower() in taken:
            name += "_"
        out.append(entry.id or name)
    return out


def _default_tables(release: Release, spec: PackSpec) -> list[TableSpec]:
    """Every released table of few columns, as a long table with columns in the source's order."""
    out = [
        TableSpec(columns=[c for c in release.columns if c in columns])
        for columns in release.tables
        if len(columns) <= spec.pack.max_width
    ]
    if not out:
        raise SpecError(
            f"pack.max_width: no released table has at most {spec.pack.max_width} columns; raise it, or name [[tables]]"
        )
    return out
