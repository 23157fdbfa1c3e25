"""The locked connection: what reads a release reaches nothing else, whatever it is asked."""

from __future__ import annotations

import duckdb
import pytest
from fixtures.tiny import tiny_release

import engine.store.opening
from engine.errors import StoreError
from engine.store import locked_connection, open_release

CANARY = "canary-77ab"
REACHING = (
    "SELECT content FROM read_text('{folder}/canary.txt')",
    "SELECT content FROM read_blob('{folder}/canary.txt')",
    "FROM read_csv('{folder}/canary.txt')",
    "FROM '{folder}/canary.txt'",
    "SELECT content FROM read_blob('{folder}/r.duckdb')",
    "ATTACH '{folder}/other.duckdb' AS other",
    "ATTACH '{folder}/r.duckdb' AS again",
    "COPY (SELECT 1) TO '{folder}/made.csv'",
    "EXPORT DATABASE '{folder}/made'",
    "INSTALL httpfs",
    "LOAD httpfs",
    "SET enable_external_access = true",
    "SET allowed_paths = ['/']",
    "SET disabled_filesystems = ''",
    "SET memory_limit = '100GB'",
    "SET threads = 64",
    "RESET lock_configuration",
    "PRAGMA enable_profiling = 'json'",
    "DELETE FROM release.catalog.notes",
    "FROM somewhere",
)


@pytest.fixture
def folder(tmp_path):
    tiny_release(tmp_path / "r.duckdb")
    (tmp_path / "canary.txt").write_text(CANARY)
    return tmp_path


def test_nothing_else_is_reached(folder):
    somewhere = duckdb.sql("SELECT 1 AS a")  # a Python variable that DuckDB would find by name
    con, _ = open_release(folder / "r.duckdb")
    before = sorted(folder.iterdir())
    with con:
        for sql in REACHING:
            with con.cursor() as cursor, pytest.raises(duckdb.Error) as error:
                cursor.execute(sql.format(folder=folder)).fetchall()
            assert CANARY not in str(error.value)
            assert sorted(folder.iterdir()) == before, sql
    del somewhere


def test_only_the_folder_given_is_written(folder):
    inside = folder / "out"
    inside.mkdir()
    con, _ = open_release(folder / "r.duckdb", folder=inside)
    with con:
        con.execute(f"COPY (SELECT 1 AS a) TO '{inside}/made.csv'")
        for sql in (*REACHING[:4], REACHING[5], *REACHING[7:]):
            with pytest.raises(duckdb.Error):
                con.execute(sql.format(folder=folder)).fetchall()
        with pytest.raises(duckdb.Error):
            con.execute(f"COPY (SELECT 1 AS a) TO '{inside}/../made.csv'")
    assert [p.name for p in inside.iterdir()] == ["made.csv"]
    assert not (folder / "made.csv").exists()


def test_limits_are_set_before_anything_is_attached(folder):
    con = locked_connection(folder / "r.duckdb", threads=1, memory="64MB")
    with con:
        found = con.execute(
            "SELECT current_setting('threads'), current_setting('memory_limit')"
        ).fetchall()
    assert found == [(1, "61.0 MiB")]


def test_an_opening_has_a_time_limit(folder, monkeypatch):
    def endless(con, *_):
        con.execute("SELECT sum(i) FROM range(1000000000000) AS r(i)").fetchall()

    monkeypatch.setattr(engine.store.opening, "OPENING_S", 0.2)
    monkeypatch.setattr(engine.store.opening, "_check", endless)
    with pytest.raises(StoreError, match=r"within 0\.2 seconds"):
        open_release(folder / "r.duckdb")


@pytest.mark.ci
def test_a_link_and_a_relative_path_open(folder, monkeypatch):
    (folder / "link.duckdb").symlink_to(folder / "r.duckdb")
    (folder / "link.duckdb.manifest.json").symlink_to(folder / "r.duckdb.manifest.json")
    monkeypatch.chdir(folder)
    for path in ("r.duckdb", "link.duckdb", "./../" + folder.name + "/r.duckdb"):
        con, _ = open_release(path)
        con.close()
