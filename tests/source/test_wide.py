"""Sources of many columns are coded a few columns at a time: the same rows, and a cost that grows with the columns."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from fixtures.source import CENT, col

from engine.schema import SourceSpec
from engine.source import ingest as module
from engine.source import open_source
from engine.source.ingest import ingest
from engine.source.scratch import confidential_connection

N_ROWS = 5000
COLUMNS = (
    col("text", "id"),
    col("text", "a"),
    col("integer", "b"),
    col("category", "c", value_type="integer"),
    col("real", "d", resolution=CENT),
    col("text", "e"),
)


def people():
    rng = np.random.default_rng(3)
    frame = pd.DataFrame({
        "id": [f"p{i}" for i in rng.permutation(N_ROWS)],
        "a": rng.choice(["x", "y", None], N_ROWS),
        "b": pd.array(rng.integers(-9, 9, N_ROWS), dtype="Int64"),
        "c": rng.integers(0, 4, N_ROWS),
        "d": rng.integers(0, 999, N_ROWS) / 100,
        "e": rng.choice(list("uvw"), N_ROWS),
    })  # fmt: skip
    frame.loc[::7, "b"] = None
    return frame


def coded(con, source, frame=None, entities=("id",)):
    """Rows and dictionaries; the rows in the order of the codes where entities have none."""
    found = ingest(con, open_source(con, source, frame), COLUMNS, entities)
    rows = con.execute(
        "SELECT * EXCLUDE (e0), v FROM rows JOIN (SELECT id AS e0, value AS v FROM entity_0) USING (e0)"
    )
    tables = {name for (name,) in con.execute("SELECT table_name FROM duckdb_tables()").fetchall()}
    assert tables - {"entity_0"} == {"rows"}
    return sorted(rows.fetchall(), key=lambda row: row[-1]), found.dictionaries


@pytest.mark.ci
@pytest.mark.parametrize("on_disk", [False, True])
@pytest.mark.parametrize("form", ["csv", "parquet", "frame"])
def test_columns_coded_a_few_at_a_time_are_the_same_rows(tmp_path, monkeypatch, form, on_disk):
    frame = people()
    frame.to_csv(tmp_path / "d.csv", index=False)
    frame.to_parquet(tmp_path / "d.parquet", row_group_size=1000)
    given = frame if form == "frame" else None
    path = None if form == "frame" else str(tmp_path / f"d.{form}")

    def once():
        con = confidential_connection(tmp_path, on_disk=on_disk)
        try:
            return coded(con, SourceSpec(path=path, format=form), given)
        finally:
            con.close()
            (tmp_path / "confidential.duckdb").unlink(missing_ok=True)

    together = once()
    monkeypatch.setattr(module, "_MOST_CODED", 0)
    monkeypatch.setattr(module, "CODED_AT_ONCE", 2)
    assert once() == together
