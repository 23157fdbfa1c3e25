"""Detects the grid step of a column of numbers.

Takes a column of the relation `source`; gives the step, a power of ten. Invariant: a step as fine as a single entity's
number would reveal that entity, so the step is one that enough entities show, by a noisy threshold; so is the size that
the step of a continuous column is taken from. Where that is so fine that hardly anybody shares a value, nearly all
values would be suppressed: then the step is coarser, until values are shared.
"""

from __future__ import annotations

import math
from collections.abc import Mapping

from engine.schema import ColumnKind, Resolution, literal
from engine.source.detection.holders import Block, by_place
from engine.source.detection.thresholds import LEAST, Thresholds

NUMBER_PATTERN = r"[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?"
"""What counts as a number in a column of texts."""
_COARSER = 20
"""Steps that are tried, each ten times the one before: values of a column rarely span more powers of ten."""


def detected_resolutions(
    block: Block, kinds: Mapping[str, ColumnKind], thresholds: Thresholds
) -> dict[str, tuple[Resolution, Resolution | None]]:
    """Find the finest step that enough entities show and at which most of them share a value with enough others.

    Returns: The step, and the one in which the values are written; None for a continuous column.
    """
    text = "CAST(cell AS VARCHAR)"
    digits = (
        f"CASE WHEN contains(lower({text}), 'e') THEN 30 "
        f"ELSE length(rtrim(split_part({text}, '.', 2), '0')) END"
    )
    is_number = f"regexp_full_match({text}, {literal(NUMBER_PATTERN)})"
    enough = {name: thresholds.of("resolution", name, "digits") for name in kinds}
    fixed = {
        name: -reached
        for name, reached in _reached(block, digits, is_number, enough).items()
        if reached <= (6 if kinds[name] == "decimal" else 4)
    }
    # Continuous: at least a million steps up to the size that enough entities reach.
    number = "TRY_CAST(cell AS DOUBLE)"
    sizes = _reached(
        block,
        f"CAST(floor(log2(abs({number}))) AS BIGINT)",
        f"{is_number} AND {number} <> 0 AND isfinite({number})",
        {name: thresholds.of("resolution", name, "size") for name in kinds if name not in fixed},
    )
    finest = fixed | {
        name: max(min(math.ceil((size - 20) * math.log10(2)), 18), -18)
        for name, size in sizes.items()
    }
    shared = _shared(block, finest, f"{is_number} AND isfinite({number})", thresholds)
    return {
        name: (
            Resolution(exponent=exponent),
            Resolution(exponent=fixed[name]) if name in fixed else None,
        )
        for name, exponent in shared.items()
    }


def _shared(
    block: Block, finest: Mapping[str, int], condition: str, thresholds: Thresholds
) -> dict[str, int]:
    """The finest exponents, not below the given ones, at which more than half of the entities have values of many.

    Of each value all entities but the first `LEAST` count, and of an entity its smallest value only, so that one entity
    more or less changes the number by one. Where no step is coarse enough, the given exponents.
    """
    number = (
        "SELECT j, cell, n, TRY_CAST(cell AS DOUBLE) AS v FROM cells "
        f"WHERE {block.places(finest)} AND {condition}"
    )
    by_kind = [
        f"SELECT j, min(v) AS v, 1 AS n FROM ({block.laid_out((entity,))}) "
        f"JOIN (SELECT j, cell, v FROM ({number})) USING (j, cell) GROUP BY j, who0"
        for entity in block.entities
    ] or [number]
    enough = {name: thresholds.of("resolution", name, "shared") for name in finest}
    found, left = dict(finest), dict(finest)
    for _ in range(_COARSER):
        if not left:
            break
        at = by_place(left.get(name, 0) for name in block.names)
        counts = [
            block.fetch(
                f"SELECT j, sum(greatest(n - {LEAST}, 0)), sum(n) FROM "
                f"(SELECT j, round(v / 10.0 ** {at}) AS cell, sum(n) AS n FROM ({people}) GROUP BY ALL) GROUP BY j"
            )
            for people in by_kind
        ]
        is_shared = dict.fromkeys(left, True)
        for of_kind in counts:
            for j, crowded, total in of_kind:
                if block.names[j] in left and crowded - total // 2 < enough[block.names[j]]:
                    is_shared[block.names[j]] = False
        found |= {name: left.pop(name) for name, is_so in is_shared.items() if is_so}
        left = {name: exponent + 1 for name, exponent in left.items()}
    return found


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
