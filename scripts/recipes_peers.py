"""Open a release with what other people have: an older DuckDB, its shell, ADBC, ibis, SQLAlchemy, pandas, polars.

In: a release. Out: a line a recipe; an error where one does not work. Nothing of tablepack is imported.
Usage: python scripts/recipes_peers.py RELEASE
"""

from __future__ import annotations

import importlib.util
import json
import subprocess
import sys
from pathlib import Path

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


def at_the_prompt(path: str, shell: Path) -> str:
    """The DuckDB shell itself: what it lists, and a statement typed in."""
    typed = f"{COUNTS.strip()};\nFROM catalog.notes;\n"
    command = [str(shell), "-readonly", "-json", path]
    done = subprocess.run(command, input=typed, capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stderr) == (0, ""), done.stderr
    counts, notes = (json.loads(part + "]") for part in done.stdout.split("]\n") if part.strip())
    assert all(row["interval"]["low"] <= row["people"] for row in counts), counts
    assert notes[0]["note"], notes
    listed = subprocess.run(
        [*command[:2], "-c", ".tables", path], capture_output=True, text=True, timeout=60
    )
    assert all(name in listed.stdout for name in ("age.sex", "notes", "codes")), listed.stdout
    version = subprocess.run([str(shell), "--version"], capture_output=True, text=True, timeout=60)
    return f"DuckDB shell {version.stdout.split()[0]}: {counts[0]}"


def in_adbc(path: str) -> str:
    """ADBC, by the driver that comes with DuckDB: what a tool browses (schemas, tables, columns, remarks), and SQL."""
    import adbc_driver_duckdb.dbapi as adbc

    with adbc.connect(path) as con, con.cursor() as cursor:
        seen = con.adbc_get_objects(depth="columns").read_all().to_pylist()
        columns = {
            (schema["db_schema_name"], table["table_name"], column["column_name"]): column
            for catalog in seen
            for schema in catalog["catalog_db_schemas"]
            if schema["db_schema_name"] in ("main", "catalog", "tables")
            and catalog["catalog_name"] not in ("system", "temp")
            for table in schema["db_schema_tables"]
            for column in table["table_columns"]
        }
        assert all(column["remarks"] for column in columns.values()), columns
        age = columns["main", "age.sex", "age"]
        cursor.execute(COUNTS)
        rows = cursor.fetch_arrow_table().num_rows
    return (
        f"ADBC: {len(columns)} columns with remarks, age.sex age: {age['remarks']!r}; {rows} rows"
    )


def in_frames(path: str) -> str:
    with duckdb.connect(path, read_only=True) as con:
        frame = con.sql(COUNTS).df()
        assert con.sql(COUNTS).pl().height == len(frame)
        assert con.sql(COUNTS).to_arrow_table().num_rows == len(frame)
    return f"pandas, polars, pyarrow: {len(frame)} rows, columns {list(frame.columns)}"


def in_ibis(path: str) -> str:
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
    print(in_the_shell(path))
    shell = Path(sys.executable).parent / "duckdb"
    if shell.exists():
        print(at_the_prompt(path, shell))
    for package, recipe in (
        ("polars", in_frames),
        ("adbc_driver_manager", in_adbc),
        ("ibis", in_ibis),
        ("duckdb_sqlalchemy", in_sqlalchemy),
    ):
        if importlib.util.find_spec(package) is not None:
            print(recipe(path))


if __name__ == "__main__":
    main(sys.argv[1])
