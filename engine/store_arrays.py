"""Fitted tables as the arrays that reach DuckDB, and the SELECT list that types them.

Takes a `SyntheticTable`'s letters and cell groups; gives dicts of one-dimensional numpy arrays, masked where
SQL has NULL: DuckDB reads a mask as it reads the numbers, where a CASE is planned anew for every table. No
Python loop runs over rows. Invariant: rows stay in the table's order.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from engine.decode import Carrier
from engine.schema import KIND_NULL, KIND_OTHER, CellGroups, SyntheticTable, quoted
from engine.store_catalog import count_names


def table_arrays(
    table: SyntheticTable, carriers: Mapping[str, Carrier]
) -> tuple[dict[str, Any], str]:
    """Return the arrays of a table, by the names the SELECT list beside them uses."""
    count, measured = count_names(table.columns)
    arrays: dict[str, Any] = {}
    made = []
    for j, name in enumerate(table.columns):
        carried = carriers[name]
        letters = table.letters[:, j]
        values = carried.array[letters]
        if carried.has_nulls and values.dtype != object:
            values = np.ma.MaskedArray(values, mask=carried.is_null[letters])
        arrays[f"c{j}"] = values
        made.append(f"{carried.expression.format(f'c{j}')} AS {quoted(name)}")
    arrays |= {"n": table.n, "m": table.measured}
    made += [f"n AS {quoted(count)}", f"m AS {quoted(measured)}"]
    return arrays, ", ".join(made)


def group_arrays(groups: CellGroups, table_id: int) -> dict[str, Any]:
    """Return the arrays of a table's cell ranges, by the names of their columns in `catalog.cell_ranges`."""
    arrays: dict[str, Any] = {"table_id": np.full(len(groups.n), table_id, dtype=np.int32)}
    for j in range(groups.kind.shape[1]):
        kind, low = groups.kind[:, j], groups.low[:, j]
        span = groups.high[:, j] - low
        other = kind == KIND_OTHER
        blank = other | (kind == KIND_NULL)
        if blank.any():
            low = np.ma.MaskedArray(low, mask=blank)
            span = np.where(blank, np.where(other, -1, 0), span)
        arrays[f"low_{j + 1}"], arrays[f"span_{j + 1}"] = low, span
    noise_sd = groups.noise_sd.astype(np.float32)
    return arrays | {"n": groups.n, "noise_sd": noise_sd, "measured": groups.measured}
