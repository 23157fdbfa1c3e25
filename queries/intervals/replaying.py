"""A released table as the mechanism's input: its rows in codes, and what the release states of how it was made."""

from __future__ import annotations

import json
from typing import Any

import numpy as np

from engine.fit.replay import Mechanism, WeightedRows
from engine.params import PrivacyParams
from engine.schema import (
    KIND_NULL,
    KIND_OTHER,
    NULL_CODE,
    OTHER_CODE,
    CodedUniverse,
    Column,
    Int64Array,
    Universe,
)
from queries.intervals.buckets import ReleasedValues, TableBuckets
from queries.intervals.universes import StatedUniverse, stated_universes
from queries.sql import Session


def stored_codes(values: ReleasedValues) -> Int64Array:
    """Code of each released value of a column: its place on the grid, or what stands for a blank and the placeholder."""
    codes = np.where(values.kind == KIND_NULL, NULL_CODE, values.grid)
    return np.where(values.kind == KIND_OTHER, OTHER_CODE, codes)


def released_rows(table: TableBuckets) -> WeightedRows:
    """The distinct rows of a released table."""
    codes = {
        values.name: stored_codes(values)[table.rows[:, j]]
        for j, values in enumerate(table.released)
    }
    return WeightedRows(codes=codes, n=table.n)


def mechanism_of(release: Session, table: TableBuckets) -> Mechanism:
    """What the release states of how a table was made."""
    with release.cursor() as con:
        (privacy,) = con.execute("SELECT privacy FROM catalog.release").fetchall()[0]
        described = con.execute(
            "SELECT name, kind, value_type, public, placeholder FROM catalog.columns"
        ).fetchall()
    of_name = {name: rest for name, *rest in described}
    universes = [
        one
        for one in stated_universes(release)
        if one.column in table.columns and one.decided_by in table.columns
    ]
    return Mechanism(
        columns=tuple(
            _column(values, *of_name[values.name], universes) for values in table.released
        ),
        privacy=_privacy(json.loads(privacy)),
        universes={one.column: _coded(one, table) for one in universes},
    )


def _privacy(stated: dict[str, Any]) -> PrivacyParams:
    names = ("profile", "low_threshold", "threshold_mean", "layer_sd", "max_rows")
    return PrivacyParams(**{name: stated[name] for name in names if name in stated})


def _column(
    values: ReleasedValues,
    kind: Any,
    value_type: Any,
    public: bool,
    placeholder: str | None,
    universes: list[StatedUniverse],
) -> Column:
    own = next((one for one in universes if one.column == values.name), None)
    column = Column(
        name=values.name,
        kind=kind,
        value_type=value_type,
        public=public,
        placeholder=placeholder,
        step=values.step,
        universe=None if own is None else _universe(own),
    )
    if not column.is_ranked:
        return column
    ranks = range(int(values.grid[values.valued].max(initial=-1)) + 1)
    return Column(
        name=values.name,
        kind=kind,
        value_type=value_type,
        public=public,
        placeholder=placeholder,
        domain=tuple(ranks),
        universe=column.universe,
    )


def _universe(stated: StatedUniverse) -> Universe:
    return Universe(
        column=stated.decided_by,
        low=stated.low,
        high=stated.high,
        values=stated.listed,
        complete=stated.complete,
        outside=stated.outside,
    )


def _coded(stated: StatedUniverse, table: TableBuckets) -> CodedUniverse:
    """A universe by codes of the deciding column: of a list of values by their ranks."""
    deciding = table.released[table.columns.index(stated.decided_by)]
    universe = _universe(stated)
    low = high = None
    if stated.listed is None and (stated.low is not None or stated.high is not None):
        inside = deciding.within(stated.low, stated.high) & deciding.valued
        places = stored_codes(deciding)[inside]
        low = int(places.min()) if stated.low is not None and len(places) else None
        high = int(places.max()) if stated.high is not None and len(places) else None
    return CodedUniverse(declared=universe, low=low, high=high)
