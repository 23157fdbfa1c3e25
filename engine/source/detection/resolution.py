"""Detects the grid step of a column of numbers.

Takes a column of the relation `source`; gives the step. Invariant: a step as fine as a single entity's number
would reveal that entity, so the step is one that enough entities show, by a noisy threshold; so is the size that the
step of a continuous column is taken from.
"""

from __future__ import annotations

from collections.abc import Mapping

from engine.schema import ColumnKind, Resolution, literal
from engine.source.detection.holders import Block
from engine.source.detection.thresholds import Thresholds

NUMBER_PATTERN = r"[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?"
"""What counts as a number in a column of texts."""


def detected_resolutions(
    block: Block, kinds: Mapping[str, ColumnKind], thresholds: Thresholds
) -> dict[str, tuple[Resolution, bool]]:
    """Find the finest step that enough entities show.

    Returns: Whether it is a step of few decimal digits; else the column is continuous and the step a power of
    two.
    """
    text = "CAST(cell AS VARCHAR)"
    digits = (
        f"CASE WHEN contains(lower({text}), 'e') THEN 30 "
        f"ELSE length(rtrim(split_part({text}, '.', 2), '0')) END"
    )
    is_number = f"regexp_full_match({text}, {literal(NUMBER_PATTERN)})"
    enough = {name: thresholds.of("resolution", name, "digits") for name in kinds}
    found = {
        name: (Resolution(base=10, exponent=-reached), True)
        for name, reached in _reached(block, digits, is_number, enough).items()
        if reached <= (6 if kinds[name] == "decimal" else 4)
    }
    # Continuous: about a million steps up to the size that enough entities reach.
    number = "TRY_CAST(cell AS DOUBLE)"
    sizes = _reached(
        block,
        f"CAST(floor(log2(abs({number}))) AS BIGINT)",
        f"{is_number} AND {number} <> 0 AND isfinite({number})",
        {name: thresholds.of("resolution", name, "size") for name in kinds if name not in found},
    )
    return found | {
        name: (Resolution(base=2, exponent=max(min(size - 20, 60), -60)), False)
        for name, size in sizes.items()
    }


def _reached(
    block: Block, metric: str, condition: str, enough: Mapping[str, int]
) -> dict[str, int]:
    """The largest value of a whole-number metric of cells that enough entities reach, by column; 0 if none."""
    if not enough:
        return {}
    measured = (
        f"SELECT j, cell, n, {metric} AS m FROM cells WHERE {block.places(enough)} AND {condition}"
    )
    by_kind = [
        f"SELECT j, max(m) AS m, 1 AS n FROM ({block.laid_out((entity,))}) "
        f"JOIN (SELECT j, cell, m FROM ({measured})) USING (j, cell) GROUP BY j, who0"
        for entity in block.entities
    ]
    reached = [_largest(block, people, enough) for people in by_kind or [measured]]
    return {name: min(of_kind[name] for of_kind in reached) for name in enough}


def _largest(block: Block, people: str, enough: Mapping[str, int]) -> dict[str, int]:
    """The largest m that enough reach."""
    n_so_far, best = dict.fromkeys(enough, 0), dict[str, int]()
    for j, m, n in block.fetch(
        f"SELECT j, m, sum(n) FROM ({people}) GROUP BY j, m ORDER BY j, m DESC"
    ):
        name = block.names[j]
        n_so_far[name] += int(n)
        if n_so_far[name] >= enough[name]:
            best.setdefault(name, int(m))
    return {name: best.get(name, 0) for name in enough}
