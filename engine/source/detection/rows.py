"""Proposes how many rows of one entity are to count: the bounds from which the noise follows.

Takes the relation `source` and its entity columns; gives powers of two. The right bound cuts the rows of a few
entities only: with a lower one what is cut away outweighs the noise, with a higher one the noise outweighs it.
"A few" is a noisy threshold, so that no bound hangs on one person.

Source: Amin, Kulesza, Munoz Medina, Vassilvitskii, "Bounding user contributions: a bias-variance trade-off in
differential privacy", ICML 2019.
"""

from __future__ import annotations

from collections.abc import Sequence

import duckdb

from engine.params import MOST_ROWS
from engine.schema import quoted
from engine.source.detection.holders import Block
from engine.source.detection.thresholds import Thresholds
from engine.source.relation import fetch

_PLACE = "the source"
_POWERS = tuple(1 << power for power in range(MOST_ROWS.bit_length()))


def proposed_bound(
    con: duckdb.DuckDBPyConnection, entities: Sequence[str], thresholds: Thresholds
) -> int:
    """The smallest power of two that fewer entities than a threshold have more rows than."""
    found = [1]
    for entity in entities:
        held = f"SELECT count(*) AS n FROM source GROUP BY {quoted(entity)}"
        above = [f"count(*) FILTER (n > {power})" for power in _POWERS]
        row = fetch(con, f"SELECT {', '.join(above)} FROM ({held})", _PLACE)[0]
        found.append(_first_below(row, thresholds.of("rows", entity)))
    return max(found)


def proposed_bounds_of_values(block: Block, most: int, thresholds: Thresholds) -> dict[str, int]:
    """The same for the rows of a single value of each column: below the threshold for every one of its values.

    Parameters
    ----------
    most : int
        The bound for all rows: none is larger.
    """
    powers = [power for power in _POWERS if power < most]
    bounds = dict.fromkeys(block.names, 1)
    for entity in block.entities if powers else ():
        held = f"SELECT j, cell, count(*) AS n FROM ({block.laid_out((entity,))}) GROUP BY j, cell, who0"
        above = [f"count(*) FILTER (n > {power}) AS p{power}" for power in powers]
        largest = ", ".join(f"max(p{power})" for power in powers)
        for j, *row in block.fetch(
            f"SELECT j, {largest} FROM (SELECT j, {', '.join(above)} FROM ({held}) WHERE n > 1 GROUP BY j, cell) "
            "GROUP BY j"
        ):
            name = block.names[j]
            bound = _first_below(row, thresholds.of("rows", name, entity), last=most)
            bounds[name] = max(bounds[name], bound)
    return bounds


def _first_below(above: Sequence[int | None], threshold: int, *, last: int = MOST_ROWS) -> int:
    """The first power of two that fewer entities than the threshold lie above."""
    fitting = (p for p, n in zip(_POWERS, above, strict=False) if (n or 0) < threshold)
    return next(fitting, last)
