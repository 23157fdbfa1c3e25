"""A plan of many tables: what each adds is little."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

import engine
from engine.key_files import new_key
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
    """Plans all pairs of so many columns; gives the number of statements and of tables."""
    new_key(tmp_path / "k.key")
    confidential = opening.confidential_connection

    def pairs_of(n_columns):
        rng = np.random.default_rng(n_columns)
        frame = pd.DataFrame({f"c{j}": rng.integers(0, 3, ROWS) for j in range(n_columns)})
        made = []
        monkeypatch.setattr(
            opening,
            "confidential_connection",
            lambda *a, **k: made.append(Counting(confidential(*a, **k))) or made[-1],
        )
        plan = engine.plan(
            frame,
            tables=2,
            key=tmp_path / "k.key",
            entities=[],
            vintage=str(n_columns),
        )
        return made[0].n, len(plan.tables)

    return pairs_of


@pytest.mark.ci
def test_statements_grow_with_columns_not_with_tables(planned):
    few, n_few = planned(6)
    many, n_many = planned(16)
    assert (n_few, n_many) == (6 + 15, 16 + 120)
    assert many <= 3 * few
