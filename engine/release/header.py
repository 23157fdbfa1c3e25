"""What a release says of itself before any table, in either mode.

Takes the spec, the opened source and the columns of the release; gives a `ReleaseHeader`, all of it public.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from engine.schema import Column, ReleaseHeader
from engine.source import Opened
from engine.spec import ReleaseSpec
from engine.version import ENGINE_VERSION


def header_of(
    spec: ReleaseSpec,
    opened: Opened,
    columns: Sequence[Column],
    *,
    privacy: dict[str, Any],
    notes: tuple[str, ...] = (),
) -> ReleaseHeader:
    """The header of a release.

    Parameters
    ----------
    columns : sequence of Column
        In any order; the header has them in the source's.
    privacy : dict
        The privacy parameters as plain values.
    notes : tuple of str
        Further sentences for readers, before those of the universes.
    """
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
        notes=(
            *spec.notes,
            *notes,
            *universe_notes(tuple(columns)),
            *detected_notes(tuple(columns), spec.privacy.detected),
        ),
    )


def detected_notes(columns: tuple[Column, ...], of_privacy: tuple[str, ...]) -> tuple[str, ...]:
    """A note for readers on what was found in the data and reviewed by nobody; none where all was.

    Parameters
    ----------
    of_privacy : tuple of str
        Detected settings of the section [privacy].
    """
    found = [f"{name} (privacy)" for name in of_privacy]
    settings = dict.fromkeys(setting for column in columns for setting in column.detected)
    found += [
        f"{setting} of {', '.join(c.name for c in columns if setting in c.detected)}"
        for setting in settings
    ]
    return (f"Detected in the data, not reviewed: {'; '.join(found)}.",) if found else ()


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
