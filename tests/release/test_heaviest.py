"""No published field but noisy counts depends on who is heaviest: whole builds with and without a further giant."""

from __future__ import annotations

import json

import duckdb
import numpy as np
import pandas as pd
import pytest

import engine
from engine.schema import Column

COUNTS = {
    *("rows", "cells", "suppressed_share", "rounding_gap", "rake_cycles", "rake_error"),
    *("rake_converged", "cells_per_entity", "exposure"),
}
"""Fields of a card that follow from noisy counts."""
TABLES = [["ward"], ["day"], ["cause"], ["day", "ward"], ["cause", "ward"]]
COLUMNS = [
    Column(name="visitor", kind="integer", value_type="integer"),
    Column(name="day", kind="integer", value_type="integer", max_rows=4),
    Column(name="ward", kind="category", value_type="text"),
    Column(name="cause", kind="category", value_type="text", max_rows=8),
]


def visits(rng: np.random.Generator, visitors: dict[int, int]) -> pd.DataFrame:
    """So many rows of each visitor, spread evenly."""
    who = np.repeat(list(visitors), list(visitors.values()))
    return pd.DataFrame(
        {
            "visitor": who,
            "day": rng.integers(0, 8, len(who)),
            "ward": rng.choice(["north", "south", "west"], len(who)),
            "cause": rng.choice(["a", "b"], len(who)),
        }
    )


def published(frame: pd.DataFrame, folder, number: int, max_rows: int = 16) -> dict:
    """What a build publishes beside noisy counts and their hashes."""
    folder.mkdir()
    key = folder / "my.key"
    key.touch(mode=0o600)
    key.write_bytes(number.to_bytes(32, "little"))
    out = folder / "r.duckdb"
    engine.build(
        frame, out=out, tables=TABLES, key=key, columns=COLUMNS, entities=["visitor"],
        max_rows=max_rows, jobs=1,
    ).close()  # fmt: skip
    with duckdb.connect(str(out), read_only=True) as con:

        def rows(query: str) -> list:
            return con.execute(query).fetchall()

        cards = [json.loads(card) for (card,) in rows("SELECT card FROM catalog.cards")]
        return {
            "header": rows("SELECT * EXCLUDE (content_hash) FROM catalog.release"),
            "columns": rows("SELECT * EXCLUDE (content_hash) FROM catalog.columns"),
            "values": rows("SELECT * EXCLUDE (n) FROM catalog.codes ORDER BY ALL"),
            "notes": rows("SELECT * FROM catalog.notes WHERE topic <> 'exposure'"),
            "tables": rows(
                "SELECT name, noise_sd, tops, scale, cells_released FROM catalog.tables"
            ),
            "cells": rows(
                "SELECT * EXCLUDE (n) FROM catalog.cell_ranges WHERE measured ORDER BY ALL"
            ),
            "cards": [{k: v for k, v in card.items() if k not in COUNTS} for card in cards],
        }


def moved(tmp_path, number: int) -> list[str]:
    """Which published fields differ once a further, heaviest visitor comes."""
    rng = np.random.default_rng(number)
    others = {e: int(n) for e, n in enumerate(rng.integers(1, 9, 400))}
    frame = visits(rng, others | {998: 200, 999: 300})
    giant = visits(rng, {1_000: 700})
    before = published(frame, tmp_path / f"{number} before", number)
    after = published(pd.concat([frame, giant]), tmp_path / f"{number} after", number)
    return [name for name in before if before[name] != after[name]]


@pytest.mark.ci
def test_a_further_heaviest_visitor_moves_noisy_counts_only(tmp_path):
    assert moved(tmp_path, 0) == []


@pytest.mark.ci
def test_another_bound_moves_them(tmp_path):
    """The positive control: the comparison sees a scale that changes."""
    frame = visits(np.random.default_rng(0), dict.fromkeys(range(300), 6))
    one = published(frame, tmp_path / "16", 1)
    other = published(frame, tmp_path / "32", 1, max_rows=32)
    differing = {name for name in one if one[name] != other[name]}
    assert {"header", "tables", "cards", "cells"} <= differing
