"""One variable in words: what it means, whom it is about, how it is held, and where it is released.

Takes an open release, its variables and what stands beside it; gives plain values.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from queries.intervals.universes import StatedUniverse, stated_universes
from queries.release import Release
from queries.serve.site.about import About, Described
from queries.serve.values import Variable, key_of

_KINDS = {
    "category": "categories",
    "text": "text",
    "boolean": "yes or no",
    "integer": "whole numbers",
    "decimal": "numbers",
    "real": "numbers",
    "date": "dates",
    "datetime": "points in time",
}


def definition_of(
    release: Release, variables: Mapping[str, Variable], about: About, name: str
) -> dict[str, Any]:
    """Return what is known of a variable; empty texts where nothing is said."""
    variable, said = variables[name], about.variables.get(name, Described())
    kind, base, exponent, is_public = release.sql(
        "SELECT kind, resolution_base, resolution_exponent, public FROM catalog.columns "
        f"WHERE position = {list(variables).index(name) + 1}"
    ).rows[0]
    universe = next((u for u in stated_universes(release) if u.column == name), None)
    step = base**exponent if base is not None and kind not in ("date", "datetime") else None
    return {
        "name": name,
        "label": variable.label,
        "definition": said.definition,
        "source": said.source or about.source,
        "contact": said.contact or about.contact,
        "applies": "" if universe is None else _whom(universe, variables),
        "kind": _KINDS.get(kind, kind),
        "step": None if step in (None, 1) else float(step),
        "is_public": bool(is_public),
        "n_values": len(variable.values),
        "n_tables": sum(name in table for table in release.tables),
    }


def _whom(universe: StatedUniverse, variables: Mapping[str, Variable]) -> str:
    """Whom a variable is about."""
    deciding = variables[universe.decided_by]
    if universe.listed is not None:
        labels = {v.value: v.label for v in deciding.values}
        words = ", ".join(labels.get(v, key_of(v)) for v in universe.listed)
    elif universe.low is None and universe.high is None:
        words = "any value"
    elif universe.high is None:
        words = f"{key_of(universe.low)} and over"
    elif universe.low is None:
        words = f"up to {key_of(universe.high)}"
    else:
        words = f"{key_of(universe.low)} to {key_of(universe.high)}"
    return f"{deciding.label}: {words}"
