"""A release as a plain DuckDB reads it, and the staging folder that it comes from."""

from __future__ import annotations

import dataclasses
import datetime
import json

import duckdb
import numpy as np
import pytest
from fixtures.release import (
    AGE,
    HEADER,
    INCOME,
    SEX,
    SUPPORTS,
    TABLES,
    TOWN,
    build_release,
    expanded,
    make_card,
    make_support,
    make_table,
    stage,
)
from fixtures.tiny import tiny_release

import engine.store.staging
from engine.errors import InternalError, StoreError
from engine.schema import (
    CellGroups,
    Column,
    SyntheticTable,
    Universe,
    quoted,
)
from engine.store import GeneratorCard, Staging, table_name, verify_release
from engine.store.manifest import FORMAT_VERSION, content_hash, read_manifest
from engine.store.staging import staging_folder
from engine.units import ENTITIES, ROWS


@pytest.fixture(scope="module")
def release(tmp_path_factory):
    return tiny_release(tmp_path_factory.mktemp("store") / "r.duckdb")


@pytest.fixture
def con(release):
    with duckdb.connect(str(release), read_only=True) as con:
        yield con


def sql_list(con, sql):
    return con.execute(sql).fetchall()


def test_views_show_a_row_per_synthetic_record(con):
    for columns in TABLES:
        listed = ", ".join(quoted(c) for c in columns)
        rows = sql_list(con, f"SELECT {listed} FROM {quoted(table_name(columns))}")
        assert rows == expanded(make_table(columns))


def test_views_keep_the_sources_column_order(con):
    con.execute('SELECT * FROM "AGE.TOWN"')
    assert [d[0] for d in con.description] == ["TOWN", "AGE"]


def test_stored_tables_keep_order_count_and_measured(con):
    table = make_table(("AGE", "SEX"))
    rows = sql_list(con, "SELECT n, measured FROM tables.t_0005")
    assert rows == list(zip(table.n.tolist(), table.measured.tolist(), strict=True))


def test_catalogue_of_the_release_and_its_tables(con, release):
    record = verify_release(release)
    row = sql_list(con, "SELECT * FROM catalog.release")
    assert row == [
        (
            "A tiny release", "data", "2026-1", "sticky", HEADER.key_id,
            json.dumps(HEADER.privacy, sort_keys=True), "0.1.0", FORMAT_VERSION, record.content_hash,
            ROWS.to_json(), ENTITIES.to_json(), False,
        )
    ]  # fmt: skip
    tables = sql_list(
        con,
        "SELECT table_id, name, columns, width, physical, rows, cells, content_hash "
        "FROM catalog.tables ORDER BY table_id",
    )
    made = [make_table(c) for c in TABLES]
    assert tables == [
        (i, table_name(t.columns), list(t.columns), len(t.columns), f"t_{i:04d}", t.n_rows, len(t.n),
         content_hash(t, SUPPORTS))
        for i, t in enumerate(made, 1)
    ]  # fmt: skip
    assert {name: digest for _, name, *_, digest in tables} == record.tables


def test_catalogue_of_columns_and_codes(con):
    rows = sql_list(
        con,
        "SELECT name, sql_type, null_spelling, placeholder, resolution, "
        "released_values FROM catalog.columns ORDER BY position",
    )
    assert rows == [
        ("TOWN", "VARCHAR", "N", "(other)", None, 4),
        ("AGE", "BIGINT", "N", None, None, 4),
        ("SEX", "VARCHAR", "N", None, None, 2),
        ("INCOME", "DOUBLE", "N", None, "1e-1", 4),
    ]
    codes = "SELECT value, label, kind, code, n FROM catalog.codes WHERE column_name = ? ORDER BY position"
    assert con.execute(codes, ["SEX"]).fetchall() == [
        ("f", "Women", "value", 0, 10),
        ("m", "Men", "value", 1, 10),
    ]
    assert con.execute(codes, ["TOWN"]).fetchall() == [
        (None, None, "null", 0, 10),
        ("Bath", None, "value", 0, 10),
        ('Ely, O\'Neill "x"', None, "value", 1, 10),
        ("(other)", None, "other", 0, 10),
    ]
    incomes = con.execute(codes, ["INCOME"]).fetchall()
    assert [(v, k) for v, _, k, _, _ in incomes] == [
        (None, "null"), ("-2.5", "negative"), ("0.0", "value"), ("0.3", "value")
    ]  # fmt: skip


@pytest.mark.parametrize("columns", TABLES)
def test_cells_give_back_the_groups(con, columns):
    groups = make_table(columns).groups
    rows = con.execute(
        "SELECT kind, low, high, n, noise_sd, measured, depth, scale FROM catalog.cells WHERE name = ?",
        [table_name(columns)],
    ).fetchall()
    valued = np.isin(groups.kind, (1, 2))
    for j, (kind, low, high, n, sd, measured, depth, scale) in enumerate(rows):
        assert kind == groups.kind[j].tolist()
        assert [v or 0 for v in low] == np.where(valued, groups.low, 0)[j].tolist()
        assert [v or 0 for v in high] == np.where(valued, groups.high, 0)[j].tolist()
        assert (n, sd, measured) == (groups.n[j], groups.noise_sd[j], groups.measured[j])
        assert (depth, scale) == (groups.depth[j], groups.scale[groups.depth[j]])
    assert len(rows) == len(groups.n)


def test_declared_universes_are_stored_as_values(tmp_path):
    day = Column(name="DAY", kind="date", value_type="date")
    columns = (
        dataclasses.replace(AGE, universe=Universe(column="SEX", values=("f", "a, b"))),
        dataclasses.replace(SEX, universe=Universe(column="AGE", low=-5, outside="f")),
        dataclasses.replace(day, universe=Universe(column="AGE", low=1, high=2, complete=False)),
        dataclasses.replace(TOWN, universe=Universe(column="GONE", low=1)),
        dataclasses.replace(
            INCOME, universe=Universe(column="DAY", high=datetime.date(2020, 2, 29))
        ),
    )
    supports = {"SEX": SUPPORTS["SEX"]}
    header = dataclasses.replace(HEADER, columns=columns, tables=(("SEX",),))
    path = build_release(tmp_path / "r.duckdb", header=header, supports=supports)
    with duckdb.connect(str(path), read_only=True) as con:
        assert sql_list(con, "FROM catalog.universes") == [
            ("AGE", "SEX", None, None, ["f", "a, b"], None, True),
            ("SEX", "AGE", "-5", None, None, "f", True),
            ("DAY", "AGE", "1", "2", None, None, False),
            ("INCOME", "DAY", None, "2020-02-29", None, None, True),
        ]


def test_cards_come_back_whole(con):
    card = make_card(make_table(("AGE", "TOWN")))
    ((text, sd),) = sql_list(
        con, "SELECT card, noise_sd FROM catalog.cards WHERE name = 'AGE.TOWN'"
    )
    assert GeneratorCard.from_json(text) == card
    assert sd == card.noise_sd


def test_notes_say_what_a_reader_must_know(con):
    topics = {t for (t,) in sql_list(con, "SELECT topic FROM catalog.notes")}
    assert topics >= {"noise", "not released", "blank", "placeholder", "locked margins", "release"}
    assert ("Made by hand.",) in sql_list(con, "SELECT note FROM catalog.notes")


def test_no_trace_of_what_was_not_put_or_was_rolled_back(tmp_path, monkeypatch):
    path = tmp_path / "r.duckdb"
    canary = "CANARY-5f1c-" * 4
    with Staging.open(path, HEADER, build_id="b") as staging:
        for support in SUPPORTS.values():
            staging.put_support(support)
        table = make_table(("AGE",))
        bad = dataclasses.replace(make_card(table), mode=canary)

        def insert(con, *args, **kwargs):
            real(con, *args, **kwargs)
            con.execute("SELECT error('stop')")

        real = engine.store.staging.insert_tables
        monkeypatch.setattr(engine.store.staging, "insert_tables", insert)
        monkeypatch.setattr(engine.store.staging, "BATCH_S", 0.0)
        staging.put_table(table, bad)
        with pytest.raises(InternalError, match="staging failed") as failed:
            staging.write()
        assert canary not in str(failed.value)
        monkeypatch.undo()
        assert staging.finished() == frozenset()
        stage(staging, HEADER, SUPPORTS)
        staging.finish()
    data = path.read_bytes()
    assert b"CANARY" not in data
    assert str(tmp_path).encode() not in data
    assert b"build_id" not in data
    assert sorted(p.name for p in tmp_path.iterdir()) == ["r.duckdb", "r.duckdb.manifest.json"]


def test_staging_is_private_and_resumes(tmp_path):
    path = tmp_path / "r.duckdb"
    with Staging.open(path, HEADER, build_id="one") as staging:
        assert staging_folder(path).stat().st_mode & 0o777 == 0o700
        for support in SUPPORTS.values():
            staging.put_support(support)
        for columns in TABLES[:3]:
            table = make_table(columns)
            staging.put_table(table, make_card(table))
    assert not path.exists()
    with Staging.open(path, HEADER, build_id="one") as staging:
        assert staging.finished() == frozenset(TABLES[:3])
        stage(staging, HEADER, SUPPORTS)
        record = staging.finish()
    assert record == verify_release(path)
    assert not staging_folder(path).exists()


def test_another_build_starts_afresh(tmp_path):
    path = tmp_path / "r.duckdb"
    with Staging.open(path, HEADER, build_id="one") as staging:
        staging.put_support(SUPPORTS["AGE"])
        staging.put_table(make_table(("AGE",)), make_card(make_table(("AGE",))))
    with Staging.open(path, HEADER, build_id="two") as staging:
        assert staging.finished() == frozenset()


@pytest.mark.parametrize("tear", ["staging.duckdb", "build.json"])
def test_torn_staging_starts_afresh(tmp_path, tear):
    path = tmp_path / "r.duckdb"
    with Staging.open(path, HEADER, build_id="one") as staging:
        staging.put_support(SUPPORTS["AGE"])
        staging.put_table(make_table(("AGE",)), make_card(make_table(("AGE",))))
    torn = staging_folder(path) / tear
    torn.write_bytes(b"x" * 1000)
    (staging_folder(path) / "spill").mkdir()
    with Staging.open(path, HEADER, build_id="one") as staging:
        assert staging.finished() == frozenset()
        stage(staging, HEADER, SUPPORTS)
        staging.finish()
    verify_release(path)


def test_two_builders(tmp_path):
    path = tmp_path / "r.duckdb"
    with (
        Staging.open(path, HEADER, build_id="one"),
        pytest.raises(StoreError, match="another build of this release"),
    ):
        Staging.open(path, HEADER, build_id="one")
    Staging.open(path, HEADER, build_id="one").close()


def test_a_release_is_replaced_but_nothing_else_is(tmp_path):
    path = tiny_release(tmp_path / "r.duckdb")
    first = verify_release(path).content_hash
    build_release(path, seed=1)
    assert verify_release(path).content_hash != first
    assert len(read_manifest(path).accepts) == 1

    foreign = tmp_path / "mine.duckdb"
    foreign.write_bytes(b"my thesis")
    with pytest.raises(StoreError, match="is not a release"):
        build_release(foreign)
    path.write_bytes(b"my other thesis")
    with pytest.raises(StoreError, match="does not match its manifest"):
        build_release(path)
    assert foreign.read_bytes() == b"my thesis"
    assert path.read_bytes() == b"my other thesis"


def test_targets_that_cannot_be(tmp_path):
    with pytest.raises(StoreError, match="is a directory"):
        build_release(tmp_path)
    with pytest.raises(StoreError, match="folder does not exist"):
        build_release(tmp_path / "no" / "r.duckdb")
    (tmp_path / "r.duckdb.tmp").mkdir()
    (tmp_path / "r.duckdb.tmp" / "diary.txt").write_text("my diary")
    with pytest.raises(StoreError, match="not a staging folder"):
        build_release(tmp_path / "r.duckdb")
    assert (tmp_path / "r.duckdb.tmp" / "diary.txt").exists()
    (tmp_path / "s.duckdb.tmp").write_text("a file")
    with pytest.raises(StoreError, match=r"cannot be written \(File exists\)"):
        build_release(tmp_path / "s.duckdb")


def large_table() -> tuple[SyntheticTable, dict]:
    """700 x 200 cells: more than DuckDB reads at once, or holds in one group of rows."""
    columns = tuple(Column(name=f"c{i}", kind="integer", value_type="integer") for i in range(2))
    codes = [(0, 0), *((1, code) for code in range(-9, 0))]
    supports = {
        c.name: make_support(c, [*codes, *((2, code) for code in range(size - 10))])
        for c, size in zip(columns, (700, 200), strict=True)
    }
    table = make_table(("c0", "c1"), supports)
    cells = np.indices((700, 200)).reshape(2, -1).T.astype(np.int32)
    pairs = list(zip(supports.values(), cells.T, strict=True))
    kind = np.stack([a.kind[at] for a, at in pairs], axis=1)
    code = np.stack([a.grid[at] for a, at in pairs], axis=1)
    kind[::5, 1], code[::5, 1] = 3, 0
    n = 1 + np.arange(len(cells)) % 3
    groups = CellGroups(
        kind=kind,
        low=code,
        high=code + 7 * (kind == 2),
        n=n,
        measured=n > 1,
        noise_sd=n / 2,
        depth=np.full(len(n), -1, dtype=np.int8),
    )
    table = dataclasses.replace(table, codes=cells, n=n, measured=n > 1, groups=groups)
    return table, supports


def test_large_tables_keep_every_blank_and_range(tmp_path):
    table, supports = large_table()
    columns = tuple(a.column for a in supports.values())
    header = dataclasses.replace(HEADER, columns=columns, tables=(table.columns,))
    with Staging.open(tmp_path / "r.duckdb", header, build_id="b") as staging:
        for support in supports.values():
            staging.put_support(support)
        staging.put_table(table, make_card(table))
        staging.finish()
    with duckdb.connect(str(tmp_path / "r.duckdb"), read_only=True) as con:
        stored = con.execute("SELECT * FROM tables.t_0001").fetchnumpy()
        ranges = con.execute("SELECT * FROM catalog.cell_ranges").fetchnumpy()
    for j, (name, support) in enumerate(supports.items()):
        codes, kind = table.codes[:, j], table.groups.kind[:, j]
        blank, ranged = support.kind[codes] == 0, np.isin(kind, (1, 2))
        assert np.array_equal(np.ma.getmaskarray(stored[name]), blank)
        assert np.array_equal(stored[name][~blank], support.grid[codes][~blank])
        low, span = ranges[f"low_{j + 1}"], ranges[f"span_{j + 1}"]
        assert np.array_equal(np.ma.getmaskarray(low), ~ranged)
        assert np.array_equal(low[ranged], table.groups.low[ranged, j])
        assert np.array_equal(span, np.select([kind == 2, kind == 3], [7, -1], 0))
    assert np.array_equal(stored["n"], table.n)
    assert np.array_equal(ranges["n"], table.n)
