"""Reading for scores: all tables of a release, and the rows that they were made from.

Takes the path of a release, or of a CSV or Parquet file with the types of its columns; gives frames for
`engine.utility.comparison.compare`. Rows of the original are CONFIDENTIAL.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import duckdb
import numpy as np
import pandas as pd

import engine.manifest
from engine.errors import StoreError
from engine.schema import ColumnSet, column_set, literal, quoted
from engine.utility.comparison import Distinct


def read_tables(path: Path) -> dict[ColumnSet, Distinct]:
    """Read all tables of a release.

    Raises
    ------
    StoreError, DamagedRelease
        As `engine.manifest.open_release`.
    """
    con, _ = engine.manifest.open_release(path)
    with con:
        listed = con.execute(
            "SELECT columns, physical FROM catalog.tables ORDER BY width, name"
        ).fetchall()
        tables = {}
        for columns, physical in listed:
            frame = con.execute(f"FROM tables.{quoted(physical)}").df()
            n = frame.pop("n").to_numpy(np.int64)
            measured = frame.pop("measured").to_numpy(np.bool_)
            tables[column_set(columns)] = Distinct(frame=frame, n=n, measured=measured)
    return tables


def released_types(path: Path) -> dict[str, str]:
    """Return the SQL type of every column of a release; see `read_tables` for what it raises."""
    con, _ = engine.manifest.open_release(path)
    with con:
        listed = con.execute("SELECT name, sql_type FROM catalog.columns ORDER BY position")
        return dict(listed.fetchall())


def read_rows(
    path: Path, types: Mapping[str, str], *, nulls: tuple[str, ...] = ("",)
) -> pd.DataFrame:
    """Read some columns of a CSV or Parquet file with given types; columns that it lacks are left out.

    Parameters
    ----------
    path : Path
    types : dict of str to str
        Column -> DuckDB type.
    nulls : tuple of str
        Spellings of a blank in a CSV file.

    Raises
    ------
    StoreError
        The file cannot be read, or a value is not of its type; the value is not told.
    """
    spelled = ", ".join(map(literal, nulls))
    source = (
        f"read_parquet({literal(str(path))})"
        if path.suffix == ".parquet"
        else f"read_csv({literal(str(path))}, header = true, all_varchar = true, nullstr = [{spelled}])"
    )
    with duckdb.connect() as con:
        try:
            has = [row[0] for row in con.execute(f"DESCRIBE FROM {source}").fetchall()]
            listed = ", ".join(
                f"CAST({quoted(c)} AS {_through(t)}) AS {quoted(c)}"
                for c, t in types.items()
                if c in has
            )
            return con.execute(f"SELECT {listed} FROM {source}").df()
        except duckdb.Error:
            raise StoreError(f"{path}: cannot be read with the columns' types") from None


def _through(sql_type: str) -> str:
    """Type that whole numbers are read as: other tools write them as 1.0."""
    return "DOUBLE" if sql_type.endswith(("INT", "INTEGER")) else sql_type
