"""Open a release with what other people have: an older DuckDB, ibis, SQLAlchemy, pandas, polars, pyarrow.

In: a release. Out: a line a recipe; an error where one does not work. Nothing of tablepack is imported.
Usage: python scripts/recipes_peers.py RELEASE
"""

from __future__ import annotations

import importlib.util
import sys

import duckdb

COUNTS = """
    SELECT sex, count(*) AS people, noise_interval(count(*), 'age.sex') AS interval
    FROM "age.sex" GROUP BY sex ORDER BY sex
"""


def in_the_shell(path: str) -> str:
    """What one types at the prompt of the DuckDB shell, DBeaver or R: the file explains itself."""
    with duckdb.connect(path, read_only=True) as con:
        rows = con.execute(COUNTS).fetchall()
        assert all(i["low"] <= n <= i["high"] for _, n, i in rows), rows
        assert con.execute("FROM catalog.notes").fetchall()
        assert con.execute("FROM tables_with(['sex'])").fetchall()[0][0] == "sex"
        assert con.execute("FROM values_of('sex')").fetchall()
        assert con.execute("FROM card_of('sex')").fetchall()
        assert con.execute("SELECT label_of('sex', sex) FROM sex LIMIT 1").fetchall()
        assert con.execute("SELECT sum(n) FROM catalog.cells").fetchall()[0][0] > 0
        bare = con.execute(
            "SELECT count(*) FROM duckdb_columns() WHERE NOT internal AND comment IS NULL"
        ).fetchall()
        assert bare == [(0,)], bare
    with duckdb.connect() as con:  # attached beside one's own tables
        con.execute(f"ATTACH '{path}' AS r (READ_ONLY)")
        assert con.execute('SELECT count(*) FROM r."age.sex"').fetchall()[0][0] > 0
        assert con.execute("SELECT r.noise_interval(100)").fetchall()[0][0]["low"] < 100
    return f"DuckDB {duckdb.__version__}: {rows[0]}"


def in_frames(path: str) -> str:
    """pandas, polars and pyarrow, through DuckDB."""
    with duckdb.connect(path, read_only=True) as con:
        frame = con.sql(COUNTS).df()
        assert con.sql(COUNTS).pl().height == len(frame)
        assert con.sql(COUNTS).to_arrow_table().num_rows == len(frame)
    return f"pandas, polars, pyarrow: {len(frame)} rows, columns {list(frame.columns)}"


def in_ibis(path: str) -> str:
    """Ibis: tables as expressions."""
    import ibis

    con = ibis.duckdb.connect(path, read_only=True)
    people = con.table("age.sex")
    counts = people.group_by("sex").aggregate(people=people.count(), mean_age=people.age.mean())
    frame = counts.order_by("sex").execute()
    assert "age.sex" in con.list_tables()
    assert frame.people.sum() == people.count().execute()
    return f"ibis {ibis.__version__}: {frame.iloc[0].to_dict()}"


def in_sqlalchemy(path: str) -> str:
    """SQLAlchemy, by duckdb-sqlalchemy: reflection, and pandas.read_sql over it."""
    import pandas as pd
    import sqlalchemy as sa

    engine = sa.create_engine(f"duckdb:///{path}", connect_args={"read_only": True})
    with engine.connect() as con:
        people = sa.Table("age.sex", sa.MetaData(), autoload_with=con)
        query = sa.select(people.c.sex, sa.func.count().label("people")).group_by(people.c.sex)
        frame = pd.read_sql(query, con)
        assert "age.sex" in sa.inspect(con).get_view_names()
    engine.dispose()
    assert frame.people.sum() > 0
    return f"SQLAlchemy {sa.__version__}: {frame.to_dict('records')[0]}"


def main(path: str) -> None:
    """Try all recipes whose packages are here."""
    print(in_the_shell(path))
    for package, recipe in (
        ("polars", in_frames),
        ("ibis", in_ibis),
        ("duckdb_sqlalchemy", in_sqlalchemy),
    ):
        if importlib.util.find_spec(package) is not None:
            print(recipe(path))


if __name__ == "__main__":
    main(sys.argv[1])
