"""Access with other tools: a plain DuckDB, frames, macros and comments in the file, shell completion.

Ibis, SQLAlchemy and older DuckDB pin other versions than ours: `scripts/recipes` tries them.
"""

from __future__ import annotations

import dataclasses

import duckdb
import pytest
from fixtures.release import HEADER, SUPPORTS, TABLES, make_card, make_table
from fixtures.tiny import tiny_release

from engine.store import Staging
from engine.store.schema import COMMENTS, LAPLACE_95, NORMAL_95
from queries.sql.router import route


@pytest.fixture(scope="module")
def path(tmp_path_factory):
    return tiny_release(tmp_path_factory.mktemp("macros") / "r.duckdb")


@pytest.fixture
def con(path):
    with duckdb.connect(str(path), read_only=True) as con:
        yield con


def one(con, sql):
    return con.execute(sql).fetchall()[0][0]


def dp_release(path, *, cells_released=3, noise_sd=4.0):
    """A release in mode dp, made by hand: one table."""
    header = dataclasses.replace(HEADER, mode="dp", tables=(("SEX",),))
    table = make_table(("SEX",))
    card = dataclasses.replace(
        make_card(table), cells_released=cells_released, noise_sd=noise_sd, mode="dp"
    )
    with Staging.open(path, header, build_id="dp") as staging:
        for support in SUPPORTS.values():
            staging.put_support(support)
        staging.put_table(table, card)
        staging.finish()
    return path


def test_older_duckdb_can_read_the_storage(con):
    tags = one(con, "SELECT tags FROM duckdb_databases() WHERE NOT internal")
    assert tags["storage_version"].startswith("v1.2")


def test_noise_interval(con):
    half = 3  # 1.96 * 1.5, rounded up
    assert one(con, "SELECT noise_interval(10)") == {"low": 10 - half, "high": 10 + half}
    assert one(con, "SELECT noise_interval(1)") == {"low": 0, "high": 1 + half}
    assert one(con, "SELECT noise_interval(NULL)") is None
    assert one(con, "SELECT noise_interval(10, 'AGE.SEX')") == {"low": 7, "high": 13}
    assert one(con, "SELECT noise_interval(10, 'AGE.SEX', 4)") == {"low": 4, "high": 16}
    with pytest.raises(duckdb.Error, match="no table of that name"):
        con.execute("SELECT noise_interval(10, 'SEX.AGE')").fetchall()
    rows = con.execute(
        "SELECT SEX, count(*) AS n, noise_interval(count(*), 'SEX') AS i FROM \"SEX\" GROUP BY ALL"
    ).fetchall()
    assert all((i["low"], i["high"]) == (max(n - half, 0), n + half) for _, n, i in rows)


def test_noise_interval_in_mode_dp(tmp_path):
    """Laplace noise has longer tails; a table without measured counts has no interval."""
    with duckdb.connect(str(dp_release(tmp_path / "r.duckdb")), read_only=True) as con:
        assert LAPLACE_95 > NORMAL_95
        assert one(con, "SELECT noise_interval(100, 'SEX')") == {"low": 91, "high": 109}
        assert one(con, "SELECT noise_interval(100)") == {"low": 91, "high": 109}
        listed = "SELECT DISTINCT function_name FROM duckdb_functions() WHERE NOT internal"
        assert {n for (n,) in con.execute(listed).fetchall()} == COMMENTS.keys()
    modelled = dp_release(tmp_path / "s.duckdb", cells_released=0)
    with duckdb.connect(str(modelled), read_only=True) as con:
        assert one(con, "SELECT noise_interval(100, 'SEX')") is None
        assert one(con, "SELECT noise_interval(100)") is None


def test_tables_with_asks_first_the_table_that_answers(con):
    cells = {t: len(make_table(t).n) for t in TABLES}
    for wanted in (("AGE",), ("SEX",), ("AGE", "SEX"), ("INCOME",), ("INCOME", "AGE")):
        rows = con.execute(f"SELECT name, columns FROM tables_with({list(wanted)})").fetchall()
        assert tuple(rows[0][1]) == route(wanted, cells)
        assert len(rows) == sum(set(wanted) <= set(t) for t in TABLES)
    assert con.execute("FROM tables_with(['INCOME', 'TOWN'])").fetchall() == []


def test_frames_read_it(path):
    pytest.importorskip("polars")
    with duckdb.connect(str(path), read_only=True) as con:
        for frame in (con.sql('FROM "AGE.SEX"').df(), con.sql('FROM "AGE.SEX"').pl()):
            assert frame.shape == (24, 2)


def test_values_labels_and_cards(con):
    assert con.execute("SELECT value, label FROM values_of('SEX')").fetchall() == [
        ("f", "Women"),
        ("m", "Men"),
    ]
    assert one(con, "SELECT label_of('SEX', 'f')") == "Women"
    assert one(con, "SELECT label_of('AGE', 40)") == "40"
    assert one(con, "SELECT label_of('AGE', NULL)") is None
    found = con.execute("SELECT noise_sd, rows FROM card_of('AGE.SEX')").fetchall()
    assert found == [(1.5, make_table(("AGE", "SEX")).n_rows)]


def test_everything_has_a_comment(con):
    for what in ("columns", "tables", "views", "functions"):
        condition = "comment IS NULL AND NOT internal"
        assert con.execute(f"SELECT * FROM duckdb_{what}() WHERE {condition}").fetchall() == []
    about = (
        "SELECT comment FROM duckdb_columns() WHERE table_name = 'AGE.SEX' AND column_name = 'AGE'"
    )
    assert one(con, about).startswith("Age in years.")
    assert "noise_interval" in one(con, "SELECT note FROM catalog.notes WHERE topic = 'macros'")
