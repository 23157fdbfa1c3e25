"""What a release says of itself before any table, in either mode.

Takes the spec, the opened source and the columns of the release; gives a `ReleaseHeader`, all of it public.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from engine.guarantee import bound_sentences
from engine.schema import Column, Entity, ReleaseHeader
from engine.source import Opened
from engine.spec import ReleaseSpec
from engine.store import UNREVIEWED, as_text, grid_value, swap_sentences, words_of
from engine.units import ENTITIES
from engine.version import ENGINE_VERSION

_MOST_NAMED = 100
"""Columns that a note names, of many."""
CHOSEN_ONCE = (
    "Of an entity with more rows than count, those that count were chosen once, for all tables: groups add up, and all "
    "are too low by what was left out of them."
)


@dataclass(frozen=True, kw_only=True, slots=True)
class MeasuredRelease:
    """What is known of a release once it is measured."""

    key_id: str
    recipe: str | None  # Mode sticky: by which `add` may take tables from it
    exposure: dict[str, Any]  # Mode sticky: what it discloses, as `Exposure.as_dict`


def header_of(
    spec: ReleaseSpec,
    opened: Opened,
    columns: Sequence[Column],
    *,
    privacy: dict[str, Any],
    notes: tuple[str, ...] = (),
) -> ReleaseHeader:
    """The header of a release."""
    return ReleaseHeader(
        title=spec.title,
        logical_name=spec.logical_name,
        vintage=spec.vintage,
        mode=spec.mode,
        key_id=opened.key.id,
        privacy=privacy,
        engine_version=ENGINE_VERSION,
        columns=tuple(sorted(columns, key=lambda c: opened.source_order.index(c.name))),
        tables=spec.tables,
        unit=spec.unit,
        entity=spec.entity,
        is_reviewed=spec.is_reviewed,
        notes=(
            *spec.notes,
            *notes,
            *entity_notes(spec),
            *count_notes(spec),
            *(heavy_notes(spec) if spec.mode == "sticky" else ()),  # mode dp promises it
            *swap_notes(privacy.get("swap"), tuple(columns)),
            *universe_notes(tuple(columns)),
            *detected_notes(tuple(columns), spec.counted.detected, is_reviewed=spec.is_reviewed),
        ),
    )


def unpublishable(spec: ReleaseSpec) -> list[str]:
    """What `publish` will ask for, in time for the release to have it."""
    out = []
    if not spec.title.strip():
        out.append(
            'no title: a publication needs one (title = "..." in [release]), and a publisher (publisher = "..." in '
            "[pack] of a pack.toml, see tablepack publish --example)"
        )
    detected = [c.name for c in spec.columns if c.detected]
    if (detected or spec.counted.detected) and not spec.is_reviewed:
        out.append(
            "settings detected in the data are not reviewed: tablepack publish refuses them until a person has, and "
            f"says so (reviewed = true in [release]). Columns: {_some(tuple(detected)) or 'none, [privacy] only'}"
        )
    return out


def inputs_of(spec: ReleaseSpec) -> list[str | Path]:
    """Files that a release is made from: never replaced by it."""
    return [spec.key_path, *spec.source.paths]


def counted_of(spec: ReleaseSpec) -> dict[str, Any]:
    """What a release adds to its parameters where its rows are not those of the source: the column of its entities.

    So that a comparison with the data knows which rows of these it stands for.
    """
    if spec.count == "rows":
        return {}
    (by,) = spec.source.entities
    return {"counted": {"by": by if isinstance(by, str) else list(by), "each": spec.each}}


def entity_notes(spec: ReleaseSpec) -> list[str]:
    """A note for readers and its owner on entities that several columns name together."""
    return [
        f"Protected is whom {' and '.join(one)} name together."
        for one in spec.source.entities
        if not isinstance(one, str)
    ]


def count_notes(spec: ReleaseSpec) -> tuple[str, ...]:
    """A note for readers on what a row of the tables is, where it is not a row of the source."""
    if spec.count == "rows":
        return (CHOSEN_ONCE,) if spec.privacy.max_rows_by == "entity" else ()
    named = spec.entity.many if spec.entity != ENTITIES else _counted_name(spec.source.entities[0])
    if spec.each is None:
        return (f"Each of the {named} counts once, however many rows the source has of it.",)
    return (
        f"Each of the {named} counts once for each {spec.each} it is in (at most {spec.most} of them), so sums over "
        f"{spec.each} count some of them several times.",
    )


def _counted_name(entity: Entity) -> str:
    """What is counted, by the columns that name it."""
    return entity if isinstance(entity, str) else f"combinations of {' and '.join(entity)}"


def heavy_notes(spec: ReleaseSpec) -> list[str]:
    """Mode sticky: a note for readers and its owner on rows that are not counted."""
    return bound_sentences(spec.counted.max_rows, words_of(spec.unit, spec.entity))


def swap_notes(swap: dict[str, Any] | None, columns: tuple[Column, ...]) -> tuple[str, ...]:
    """A note for readers on records that were exchanged; none where none were, or not in these columns."""
    if swap is None or not {*swap["columns"]} & {column.name for column in columns}:
        return ()
    return (
        f"{' '.join(swap_sentences(swap))} It touches tables that show the exchanged columns beside others than those "
        "named here.",
    )


def detected_notes(
    columns: tuple[Column, ...], of_privacy: tuple[str, ...], *, is_reviewed: bool = False
) -> tuple[str, ...]:
    """A note for readers on what was found in the data, and whether anybody reviewed it; none where all is declared."""
    found = [f"{name} (privacy)" for name in of_privacy]
    settings = dict.fromkeys(setting for column in columns for setting in column.detected)
    found += [
        f"{setting} of {_some(tuple(c.name for c in columns if setting in c.detected))}"
        for setting in settings
    ]
    words = "Detected in the data, reviewed by the custodian" if is_reviewed else UNREVIEWED
    return (f"{words}: {'; '.join(found)}.",) if found else ()


def _some(names: tuple[str, ...]) -> str:
    """Names of columns; of very many, which `catalog.columns` lists too, the first ones."""
    more = len(names) - _MOST_NAMED
    named = ", ".join(names[:_MOST_NAMED])
    return f"{named} and {more:,} more (catalog.columns)" if more > 0 else named


def bounds_notes(
    columns: tuple[Column, ...], limits: Mapping[str, tuple[int, int]]
) -> tuple[str, ...]:
    """A note for readers on the columns that declare no bounds: between what their values lie, and how that was
    found.
    """
    found = [
        f"{column.name} from {ends[0]} to {ends[1]}"
        for column in columns
        if column.name in limits
        for ends in [[as_text(grid_value(column, code)) for code in limits[column.name]]]
    ]
    if not found:
        return ()
    named, more = "; ".join(found[:_MOST_NAMED]), len(found) - _MOST_NAMED
    rest = f"; and {more:,} more" if more > 0 else ""
    return (
        f"Bounds found in the data with noise, where none are declared: {named}{rest}. They are where released ranges "
        "end; the few rows beyond are shown inside.",
    )


def universe_notes(columns: tuple[Column, ...]) -> tuple[str, ...]:
    """Notes for readers on the declared universes whose deciding column is among the columns."""
    names = {column.name for column in columns}
    return tuple(
        f"Universe of {c.name}, declared: {c.universe}. Outside it every row is "
        f"{'null' if c.universe.outside is None else c.universe.outside}"
        f"{', inside it none is' if c.universe.complete else ''}; combinations against this are left out."
        for c in columns
        if c.universe is not None and c.universe.column in names
    )
