"""What a release says of itself: about whom it is, how it was made, what its owner declared and accepted.

Takes an open release; gives `Facts`. All of it is public: it stands in the file's own catalogue.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import duckdb

from engine.errors import DamagedRelease
from engine.schema import Entity, as_entities
from engine.units import Unit, unit_from_json


@dataclass(frozen=True, kw_only=True, slots=True)
class Facts:
    """A release in its own words."""

    title: str
    vintage: str
    mode: str
    key_id: str
    version: str
    # unit, entity: What a row is, and whom the release protects.
    unit: Unit
    entity: Unit
    privacy: Mapping[str, Any]  # Parameters, as plain values
    detected: Mapping[str, tuple[str, ...]]  # Column -> settings that were found in the data
    is_reviewed: bool  # A person says that these were looked at
    notes: tuple[str, ...]  # Sentences about this release alone
    # Mode sticky: the most exposed groups, as its catalogue lists them.
    groups: tuple[Mapping[str, Any], ...] = ()
    # Columns of the source of whose values each counts once: that of the entities, and of `each`; none
    # where rows count.
    counted: tuple[Entity, ...] = ()


def facts_of(con: duckdb.DuckDBPyConnection) -> Facts:
    """Read them from the catalogue of an open release."""
    row = con.execute(
        "SELECT title, vintage, mode, key_id, engine_version, unit, entity, privacy, reviewed FROM catalog.release"
    ).fetchone()
    found = con.execute("SELECT name, detected FROM catalog.columns ORDER BY position").fetchall()
    notes = con.execute(
        "SELECT note FROM catalog.notes WHERE topic = 'release' ORDER BY position"
    ).fetchall()
    groups = _groups(con) if row is not None and row[2] == "sticky" else ()
    try:
        title, vintage, mode, key_id, version, unit, entity, privacy, is_reviewed = row or ()
        return Facts(
            title=title or "",
            vintage=vintage,
            mode=mode,
            key_id=key_id,
            version=version,
            unit=unit_from_json(unit),
            entity=unit_from_json(entity),
            privacy=dict(json.loads(privacy)),
            counted=_counted(json.loads(privacy).get("counted")),
            detected={name: tuple(settings) for name, settings in found if settings},
            is_reviewed=bool(is_reviewed),
            notes=tuple(note for (note,) in notes),
            groups=groups,
        )
    except (ValueError, TypeError, AttributeError, KeyError):
        raise DamagedRelease(
            "what the release says of itself is not what tablepack wrote"
        ) from None


def labels_in(
    con: duckdb.DuckDBPyConnection,
) -> tuple[dict[str, str], dict[str, dict[str, str]]]:
    """Return the labels of columns, and of their values as text, that an open release carries."""
    named = con.execute("SELECT name, label FROM catalog.columns WHERE label <> ''").fetchall()
    listed = con.execute(
        "SELECT column_name, coalesce(value, ''), label FROM catalog.codes WHERE label <> ''"
    ).fetchall()
    values: dict[str, dict[str, str]] = {}
    for name, value, label in listed:
        values.setdefault(name, {})[value] = label
    return dict(named), values


def _counted(told: Mapping[str, Any] | None) -> tuple[Entity, ...]:
    """The columns of whose values each counts once."""
    if told is None:
        return ()
    return as_entities([told["by"], *([told["each"]] if told["each"] is not None else [])])


def _groups(con: duckdb.DuckDBPyConnection) -> tuple[Mapping[str, Any], ...]:
    """The most exposed groups of a sticky release, in its own order; none where exposure was not computed."""
    has_them = con.execute(
        "SELECT count(*) FROM information_schema.tables WHERE table_schema = 'catalog' AND table_name = 'exposure'"
    ).fetchone()
    if has_them == (0,):
        return ()
    told = con.execute("FROM catalog.exposure")
    names = [column[0] for column in told.description]
    return tuple(dict(zip(names, values, strict=True)) for values in told.fetchall())
