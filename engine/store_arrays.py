"""Fitted tables as the arrays that reach DuckDB, with the SELECT lists that type them.

Takes a `SyntheticTable`'s letters and cell groups; gives dicts of one-dimensional numpy arrays. No Python loop
runs over rows. Invariant: rows stay in the table's order.
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
    arrays: dict[str, Any] = {"n": table.n, "m": table.measured}
    made = []
    for j, name in enumerate(table.columns):
        carried = carriers[name]
        letters = table.letters[:, j]
        arrays[f"c{j}"] = carried.array[letters]
        value = carried.expression.format(f"c{j}")
        if carried.is_null.any() and carried.array.dtype != object:
            arrays[f"z{j}"] = carried.is_null[letters]
            value = f"CASE WHEN NOT z{j} THEN {value} END"
        made.append(f"{value} AS {quoted(name)}")
    count, measured = count_names(table.columns)
    made += [f"n AS {quoted(count)}", f"m AS {quoted(measured)}"]
    return arrays, ", ".join(made)


def group_arrays(groups: CellGroups, table_id: int) -> tuple[dict[str, Any], str]:
    """Return the arrays of a table's cell ranges, and the columns and SELECT list that store them."""
    arrays: dict[str, Any] = {
        "n": groups.n,
        "sd": groups.noise_sd.astype(np.float32),
        "m": groups.measured,
    }
    names, values = ["table_id"], [str(table_id)]
    for j in range(groups.kind.shape[1]):
        kind = groups.kind[:, j]
        arrays[f"l{j}"] = groups.low[:, j]
        arrays[f"s{j}"] = groups.high[:, j] - groups.low[:, j]
        low, span = f"l{j}", f"s{j}"
        if ((kind == KIND_NULL) | (kind == KIND_OTHER)).any():
            arrays[f"k{j}"] = kind
            low = f"CASE WHEN k{j} NOT IN ({KIND_NULL}, {KIND_OTHER}) THEN l{j} END"
            span = f"CASE k{j} WHEN {KIND_NULL} THEN 0 WHEN {KIND_OTHER} THEN -1 ELSE s{j} END"
        names += [f"low_{j + 1}", f"span_{j + 1}"]
        values += [low, span]
    names += ["n", "noise_sd", "measured"]
    return arrays, f"({', '.join(names)}) SELECT {', '.join(values)}, n, sd, m"
