"""Measure: the mechanism on the encoded rows of people. The last module that sees a true count."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from engine.errors import PrivacyError
from engine.measure.cells import DuckDBCells, SparkCells
from engine.measure.coding import coded_cells
from engine.measure.prefixes import coded_prefixes
from engine.mechanism import (
    ArrayCells,
    Cells,
    CellSource,
    Draws,
    Measured,
    measure_columns,
    measure_total,
    passing,
    row_bounds,
    summable,
)
from engine.schema import NULL_CODE, Column, Int64Array, UInt64Array
from engine.source import ROWS_WITH_TOKENS, EntityColumn, Ingested
from engine.spec import in_universe_order
from engine.texts import numeric_place


def measure_one_way(
    ingested: Ingested,
    entities: tuple[EntityColumn, ...],
    columns: tuple[Column, ...],
    draws: Draws,
) -> Measured:
    """Measure the total and every column; code ranked columns by released rank."""
    raw = encoded_cells(ingested, entities)
    ranked = [column for column in columns if column.is_ranked]
    values: dict[str, Mapping[int, object]] = {
        c.name: dict(enumerate(c.domain)) for c in ranked if c.public and c.domain is not None
    }
    hidden = [column for column in ranked if column.name not in values]
    for column, cells in zip(hidden, raw.each([(c.name,) for c in hidden]), strict=True):
        values[column.name] = released_values(cells, ingested, column, draws)
    source = coded_cells(ingested, columns, values, entities)
    return _measured(source, values, columns, draws, too_few="the source has fewer entities")


def measure_arrays(
    codes: dict[str, Int64Array],
    values: dict[str, Mapping[int, object]],
    lanes: UInt64Array,
    columns: tuple[Column, ...],
    draws: Draws,
) -> Measured:
    """Measure the total and every column of rows that lie in arrays, each row an entity."""
    source = ArrayCells(codes, len(lanes), ((lanes, None),))
    return _measured(source, values, columns, draws, too_few="fewer rows")


def _measured(
    source: CellSource,
    values: dict[str, Mapping[int, object]],
    columns: tuple[Column, ...],
    draws: Draws,
    *,
    too_few: str,
) -> Measured:
    """Measure the total and every column, in the order in which the fit needs them."""
    bounds = row_bounds(draws.max_rows, columns)
    total = measure_total(source, draws, bounds)
    if not total.n_nodes:
        raise PrivacyError(f"{too_few} than privacy.threshold asks for: nothing can be released")
    names = [column.name for column in in_universe_order(columns)]
    return measure_columns(source, names, values, total, draws, bounds, summable(columns))


def encoded_cells(ingested: Ingested, entities: tuple[EntityColumn, ...]) -> CellSource:
    """The source of cells of rows as they were encoded: ranked columns by positions in their lists."""
    if ingested.spark is not None:
        return SparkCells(ingested.spark, ingested.sql_names, entities)
    return DuckDBCells(ingested.con, ROWS_WITH_TOKENS, ingested.sql_names, entities)


def released_values(
    cells: Cells, ingested: Ingested, column: Column, draws: Draws
) -> Mapping[int, object]:
    """Values of a ranked column that may be shown, where no public domain says so: those with enough entities.

    Text is coded so that prefixes are ranges, unless its values have an order of their own.
    """
    if column.value_type == "text" and column.domain is None and not column.order:
        shown = coded_prefixes(
            cells, ingested.dictionaries[column.name], draws, column.hierarchy, column.tree
        )
        return {code: value for code, value in shown.items() if value != column.placeholder}
    return dict(enumerate(_listed(cells, ingested, column, draws)))


def _listed(cells: Cells, ingested: Ingested, column: Column, draws: Draws) -> tuple[object, ...]:
    """Single values only, in their order."""
    codes = np.sort(cells.codes[passing(cells, draws), 0])
    found = [ingested.dictionaries[column.name][code] for code in codes if code != NULL_CODE]
    if column.domain is None:
        shown = (value for value in found if value != column.placeholder)
        return tuple(sorted(shown, key=numeric_place) if column.order == "numeric" else shown)
    released = set(found)
    return tuple(value for value in column.domain if value in released)
