"""A plan of many tables: what each adds is little, and how far it is is told."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

import engine
from engine.exposure import tally
from engine.keys import new_key
from engine.source import opening

ROWS = 30


class Counting:
    """A connection that counts its statements."""

    def __init__(self, con) -> None:
        self._con = con
        self.n = 0

    def __getattr__(self, name):
        return getattr(self._con, name)

    def execute(self, sql, *parameters):
        self.n += 1
        return self._con.execute(sql, *parameters)


@pytest.fixture
def planned(tmp_path, monkeypatch):
    """Plans all pairs of so many columns; gives statements, calls of `alike`, tables and what was reported."""
    new_key(tmp_path / "k.key")
    confidential, alike = opening.confidential_connection, tally.alike

    def pairs_of(n_columns):
        rng = np.random.default_rng(n_columns)
        frame = pd.DataFrame({f"c{j}": rng.integers(0, 3, ROWS) for j in range(n_columns)})
        made, counted, told = [], [], []
        monkeypatch.setattr(
            opening,
            "confidential_connection",
            lambda *a, **k: made.append(Counting(confidential(*a, **k))) or made[-1],
        )
        monkeypatch.setattr(tally, "alike", lambda *given: counted.append(1) or alike(*given))
        plan = engine.plan(
            frame,
            tables=2,
            key=tmp_path / "k.key",
            entities=[],
            vintage=str(n_columns),
            progress=lambda *step: told.append(step),
        )
        return made[0].n, len(counted), len(plan.tables), told

    return pairs_of


def test_of_rows_whose_number_nobody_knows_no_time_is_told_before_they_are_read(tmp_path):
    new_key(tmp_path / "k.key")
    frame = pd.DataFrame({f"c{j}": np.arange(ROWS) % (j + 2) for j in range(4)})
    told = []
    release = engine.build(
        frame,
        tables=2,
        key=tmp_path / "k.key",
        entities=[],
        out=tmp_path / "r.duckdb",
        progress=lambda *step: told.append(step[0]),
    )
    assert release.path.exists()
    assert "pairs" in told
    assert "left" not in told[: told.index("tables")]


def test_statements_grow_with_columns_not_with_tables(planned):
    few, _, n_few, _ = planned(8)
    many, _, n_many, _ = planned(24)
    assert (n_few, n_many) == (8 + 28, 24 + 276)
    assert many <= 3 * few


def test_each_table_is_compared_with_narrower_ones_once(planned):
    _, alike, n_tables, _ = planned(8)
    assert alike == n_tables


def test_progress_is_told_from_the_first_table_to_the_reckoning(planned):
    *_, n_tables, told = planned(8)
    assert [step for step in told if step[0] == "planning"] == [
        ("planning", done + 1, n_tables) for done in range(n_tables)
    ]
    assert ("pairs", 0, 28) in told
    assert told[-1] == ("exposure", 0, 0)
