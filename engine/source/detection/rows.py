"""Proposes how many rows of one entity are to count: the bounds from which the noise follows.

Takes the relation `source` and its entity columns; gives powers of two. The right bound cuts the rows of a few
entities only: with a lower one what is cut away outweighs the noise, with a higher one the noise outweighs it.
"A few" is a noisy threshold, so that no bound depends on one person.

The bound of a value answers to two things. Fewer entities than a threshold have more rows in its worst value. And over
all values of the column little is cut away beside the noise, or intervals would not hold: the noise is about 1.4 times
the bound, so a quarter of a bound a value is allowed, a sixth of the noise. Each entity stands for at most one bound of
it, in the value that it has most rows of, so that one more moves the comparison by one at most.

Source: Amin, Kulesza, Munoz Medina, Vassilvitskii, "Bounding user contributions: a bias-variance trade-off in
differential privacy", ICML 2019.
"""

from __future__ import annotations

from collections.abc import Sequence

import duckdb

from engine.params import MOST_ROWS
from engine.schema import Entity, entity_name
from engine.source.detection.holders import Block, by_place, who_sql
from engine.source.detection.thresholds import Thresholds
from engine.source.relation import fetch

_PLACE = "the source"
_VALUES = 4
"""Of so many values one bound may be cut away."""
_POWERS = tuple(1 << power for power in range(MOST_ROWS.bit_length()))


def proposed_bound(
    con: duckdb.DuckDBPyConnection, entities: Sequence[Entity], thresholds: Thresholds
) -> int:
    """The smallest power of two that fewer entities than a threshold have more rows than."""
    found = [1]
    for entity in entities:
        held = f"SELECT count(*) AS n FROM source GROUP BY {who_sql(entity)}"
        above = [f"count(*) FILTER (n > {power})" for power in _POWERS]
        row = fetch(con, f"SELECT {', '.join(above)} FROM ({held})", _PLACE)[0]
        found.append(_first_below(row, thresholds.of("rows", entity_name(entity))))
    return max(found)


def proposed_bounds_of_values(block: Block, most: int, thresholds: Thresholds) -> dict[str, int]:
    """The same for the rows of a single value of each column: where both its worst value and all of them allow it."""
    powers = [power for power in _POWERS if power < most]
    bounds = dict.fromkeys(block.names, 1)
    for entity in block.entities if powers else ():
        who = entity_name(entity)
        block.fetch(
            "CREATE OR REPLACE TABLE held AS SELECT j, cell, who0, count(*) AS n "
            f"FROM ({block.laid_out((entity,))}) GROUP BY ALL"
        )
        for j, above in _above_in_worst_value(block, powers).items():
            bound = _first_below(above, thresholds.of("rows", block.names[j], who), last=most)
            bounds[block.names[j]] = max(bounds[block.names[j]], bound)
        enough = [thresholds.of("rows", name, f"{who} values") for name in block.names]
        for j, (n_values, cut) in _cut_in_all_values(block, powers, enough).items():
            allowed = thresholds.of("rows", block.names[j], f"{who} cut") + n_values // _VALUES
            bound = _first_below(cut, allowed, last=most)
            bounds[block.names[j]] = max(bounds[block.names[j]], bound)
        block.fetch("DROP TABLE held")
    return bounds


def _above_in_worst_value(block: Block, powers: Sequence[int]) -> dict[int, Sequence[int]]:
    """The most entities that have more rows of one value than each power, by place of the column."""
    above = [f"count(*) FILTER (n > {power}) AS p{power}" for power in powers]
    largest = ", ".join(f"max(p{power})" for power in powers)
    rows = block.fetch(
        f"SELECT j, {largest} FROM (SELECT j, {', '.join(above)} FROM held WHERE n > 1 GROUP BY j, cell) GROUP BY j"
    )
    return {j: row for j, *row in rows}


def _cut_in_all_values(
    block: Block, powers: Sequence[int], enough: Sequence[int]
) -> dict[int, tuple[int, Sequence[float]]]:
    """How many values are the one of most rows of enough entities; then what each power cuts there, in bounds."""
    cut = [f"sum(least(n / {power} - 1, 1)) FILTER (n > {power}) AS c{power}" for power in powers]
    total = ", ".join(f"sum(c{power})" for power in powers)
    mainly = "SELECT j, max(ROW(n, cell)) AS main FROM held GROUP BY j, who0"
    rows = block.fetch(
        f"SELECT j, count(*) FILTER (people >= {by_place(enough)}), {total} "
        f"FROM (SELECT j, cell, count(*) AS people, {', '.join(cut)} FROM "
        f"(SELECT j, main[2] AS cell, main[1] AS n FROM ({mainly})) GROUP BY j, cell) GROUP BY j"
    )
    return {j: (n_values, cut) for j, n_values, *cut in rows}


def _first_below(above: Sequence[float | None], threshold: int, *, last: int = MOST_ROWS) -> int:
    """The first power of two that fewer entities than the threshold lie above, or that cuts less than it says."""
    fitting = (p for p, n in zip(_POWERS, above, strict=False) if (n or 0) < threshold)
    return next(fitting, last)
