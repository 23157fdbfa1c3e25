"""The model of a pack from its sources: every dimension, table, title and note, ready for the formats.

Without tables in the spec, released tables of few columns become long tables of counts, many numbers in bands.
Invariant: nothing here is written; all that is refused is refused here.
"""

from __future__ import annotations

import contextlib
import math
from collections.abc import Callable, Iterator, Mapping, Sequence

from engine.errors import PrivacyError, SpecError
from engine.schema import ColumnSet
from queries.packs.checks import check_publishable, is_unreviewed, review_notes, warnings_of
from queries.packs.dimensions import dimension_of
from queries.packs.model import Dimension, ItemKind, Pack, PackTable
from queries.packs.sources import Sources
from queries.packs.spec import UNNAMED, PackInfo, PackSpec, TableSpec
from queries.packs.tables import table_of
from queries.packs.texts import texts
from queries.release import Release


def assemble(
    sources: Sources,
    *,
    unprotected: bool = False,
    accept_detected: bool = False,
    progress: Callable[[int, int], None] | None = None,
) -> Pack:
    """Make the pack of a release.

    accept_detected: Take what was detected in the data and reviewed by nobody; the pack says so.
    """
    release, spec = sources.release, sources.spec
    _check_protected(release, unprotected=unprotected)
    check_publishable(release, spec, accept_detected=accept_detected)
    named = [c for t in spec.tables for c in (*t.names, *t.where, *([t.of] if t.of else []))]
    sources.check_columns([*spec.columns, *named])
    entries = spec.tables or _default_tables(release, spec)
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
        notes=review_notes(
            release, spec, [n for n in release.notes if _concerns(n, columns, release)]
        ),
        is_unreviewed=is_unreviewed(release, spec),
        words=sources.words,
        warnings=(*warnings_of(sources, dimensions), *_left_out(release, spec)),
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
    """The released tables of few columns, narrow ones first, with columns in the source's order."""
    out = [
        TableSpec(columns=[c for c in release.columns if c in columns])
        for columns in _narrow(release, spec)
    ]
    if not out:
        raise SpecError(
            f"pack.max_width: no released table has at most {spec.pack.max_width} columns; raise it, or name [[tables]]"
        )
    return out[: spec.pack.max_tables]


def _narrow(release: Release, spec: PackSpec) -> list[ColumnSet]:
    """Released tables of few columns."""
    return [columns for columns in release.tables if len(columns) <= spec.pack.max_width]


def _left_out(release: Release, spec: PackSpec) -> list[str]:
    """What is said of tables that nobody named and that are too many."""
    n = len(_narrow(release, spec))
    if spec.tables or n <= spec.pack.max_tables:
        return []
    return [
        f"pack.max_tables: {n:,} tables are released; the {spec.pack.max_tables:,} narrowest are in the pack. Name "
        f"[[tables]], or say max_tables = {n}"
    ]


def _in_bands(entry: TableSpec, dimensions: Mapping[str, Dimension], spec: PackSpec) -> TableSpec:
    """A table that nobody designed: many numbers in bands, unless there are too many combinations even so."""
    banded = [name for name in entry.columns if dimensions[name].places("group")]
    kinds: dict[str, tuple[ItemKind, ...]] = dict.fromkeys(banded, ("group",))
    n_cells = math.prod(
        len(dimensions[name].places(*kinds.get(name, ("value", "blank")))) for name in entry.columns
    )
    if not banded or n_cells > spec.pack.max_cells:
        return entry
    return entry.model_copy(update={"only_groups": banded})
