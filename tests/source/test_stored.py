"""Codes in a file: as small as it packs them, and the same codes as in memory."""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from fixtures.measure import KEY, VINTAGE, column
from fixtures.source import col

import engine.source.opening
from engine.errors import DataError
from engine.keys import new_key
from engine.measure import coded_cells
from engine.params import PROFILES, SwapParams
from engine.release.sticky import make
from engine.schema import NULL_CODE, OTHER_CODE, SourceSpec
from engine.source import ROWS_WITH_TOKENS, EntityColumn, open_source, scratch_directory
from engine.source.entities import add_tokens, column_shapes, source_fingerprints
from engine.source.ingest import ingest
from engine.source.relation import PACKED, stored
from engine.source.scratch import confidential_connection
from engine.source.swapping import exchange
from engine.spec import ReleaseSpec

FORMS = [False, True]
COLUMNS = (
    column("who", "text"),
    column("age"),
    column("full", nullable=False),
    column("word", "text"),
)
EXTREME = 2**62


def people(n: int = 500) -> pd.DataFrame:
    rng = np.random.default_rng(4)
    age = rng.integers(0, 90, n).astype(object)
    age[rng.random(n) < 0.3] = None
    age[:2] = [-EXTREME, EXTREME]
    word = rng.choice(["a", "b", "c"], n).astype(object)
    word[::7] = None
    return pd.DataFrame(
        {
            "who": [f"p{i}" for i in range(n)],
            "age": pd.array(age, dtype="Int64"),
            "full": rng.integers(0, 4, n),
            "word": word,
        }
    )


@contextmanager
def opened(frame, columns=COLUMNS, entities=("who",), *, on_disk):
    with scratch_directory() as scratch:
        con = confidential_connection(scratch, on_disk=on_disk, threads=1)
        source = open_source(con, SourceSpec(path=None, format="frame"), frame)
        yield ingest(con, source, tuple(columns), tuple(entities))
        con.close()


def told(frame, *, on_disk, entities=("who",)):
    """All that is known of the rows: with tokens, their fingerprints and shapes."""
    columns = COLUMNS if entities else COLUMNS[1:]
    with opened(frame, columns, entities, on_disk=on_disk) as ingested:
        names = [ingested.sql_names[c.name] for c in ingested.columns]
        kinds = add_tokens(ingested, KEY, VINTAGE, tuple(c.name for c in ingested.columns))
        by = ["l0_0", "l0_1"] if kinds[0].tokens is None else ["e0"]
        listed = ", ".join([*names, *by])
        rows = sorted(ingested.con.execute(f"SELECT {listed} FROM {ROWS_WITH_TOKENS}").fetchall())
        if kinds[0].tokens is not None:
            rows = [(*row[:-1], *kinds[0].tokens[row[-1]].tolist()) for row in rows]
        prints = source_fingerprints(ingested, kinds, KEY, VINTAGE)
        return sorted(rows), prints, column_shapes(ingested, kinds, KEY, VINTAGE)


@pytest.mark.parametrize("entities", [("who",), ()])
def test_a_file_holds_the_codes_that_memory_holds(entities):
    assert told(people(), on_disk=True, entities=entities) == told(
        people(), on_disk=False, entities=entities
    )


@pytest.mark.parametrize("entities", [("who",), ()])
@pytest.mark.parametrize("frame", [people(), people()[:1], people().assign(who="p")])
def test_shapes_do_not_hang_on_how_many_columns_a_look_sums(frame, entities, monkeypatch):
    together = told(frame, on_disk=False, entities=entities)[-1]
    assert len(together) == 3
    assert len(set(together.values())) == (3 if len(frame) > 1 else 1)
    for at_once in (1, 3):
        monkeypatch.setattr("engine.source.entities.contents.MOST_AT_ONCE", at_once)
        assert told(frame, on_disk=False, entities=entities)[-1] == together


def test_so_it_does_where_entities_have_several_rows():
    frame = people()
    frame["who"] = [f"p{i // 3}" for i in range(len(frame))]
    assert told(frame, on_disk=True) == told(frame, on_disk=False)


def test_null_beside_small_codes_costs_a_fraction_of_a_byte():
    """Eight bytes a row where a code far from all others stood for it: then nothing can be packed."""
    n = 400_000
    age = pd.array(np.where(np.arange(n) % 3 == 0, None, np.arange(n) % 7), dtype="Int64")
    frame = pd.DataFrame({"who": np.arange(n), "age": age})
    with opened(frame, (column("who"), column("age")), on_disk=True) as ingested:
        add_tokens(ingested, KEY, VINTAGE, ())
        ingested.con.execute("CHECKPOINT")
        segments = (
            "SELECT column_name, count(DISTINCT block_id) FROM "
            f"pragma_storage_info('{ROWS_WITH_TOKENS}') WHERE block_id >= 0 GROUP BY ALL"
        )
        blocks = dict(ingested.con.execute(segments).fetchall())
        codes = f"SELECT c0, count(*) FROM {ROWS_WITH_TOKENS} GROUP BY ALL ORDER BY ALL"
        counted = ingested.con.execute(codes).fetchall()
    assert blocks[f"{PACKED}c0"] * 4 <= blocks["l0_0"]
    assert counted[0] == (NULL_CODE, len(range(0, n, 3)))
    assert [code for code, _ in counted[1:]] == [*range(7)]


def in_memory(con):
    """Bytes of tables that a connection holds in memory."""
    asked = "SELECT memory_usage_bytes FROM duckdb_memory() WHERE tag = 'BASE_TABLE'"
    return con.execute(asked).fetchall()[0][0]


def test_rows_that_are_kept_leave_memory_once_they_are_coded(monkeypatch):
    monkeypatch.setattr("engine.measure.coding.STAYING", "4MB")
    n = 400_000
    frame = pd.DataFrame({"who": np.arange(n), "age": np.arange(n) % 7})
    data = (column("age"),)
    with opened(frame, (column("who"), *data), on_disk=True) as ingested:
        kinds, con = add_tokens(ingested, KEY, VINTAGE, ()), ingested.con
        con.execute("CHECKPOINT")
        con.execute("SET memory_limit = '900MiB'")
        ((limit,),) = con.execute("SELECT current_setting('memory_limit')").fetchall()
        source = coded_cells(replace(ingested, is_kept=True), data, {}, kinds)
        # Else the tokens, of 16 bytes a row, are in memory twice.
        assert in_memory(con) < 16 * n
        assert con.execute("SELECT current_setting('memory_limit')").fetchall() == [(limit,)]
        assert int(source.cells(("age",)).n_rows.sum()) == n
        assert con.execute(f"SELECT count(*) FROM {ROWS_WITH_TOKENS}").fetchall() == [(n,)]


@pytest.mark.parametrize("on_disk", FORMS)
def test_what_does_not_fit_is_refused_wherever_it_lies(on_disk):
    frame = pd.DataFrame({"who": ["a", "b", "c"], "age": ["1", None, "many"]})
    with (
        pytest.raises(DataError, match="not whole numbers"),
        opened(frame, (COLUMNS[0], col("integer", "age")), on_disk=on_disk),
    ):
        pass


@pytest.mark.parametrize("on_disk", FORMS)
def test_a_null_that_is_not_allowed_is_refused_wherever_it_lies(on_disk):
    frame = people()
    frame["full"] = frame["age"]
    with (
        pytest.raises(DataError, match="column 'full': holds a null"),
        opened(frame, on_disk=on_disk),
    ):
        pass


def test_misfits_and_nulls_are_told_apart():
    with scratch_directory() as scratch:
        con = confidential_connection(scratch, on_disk=True)
        select = f"SELECT unnest([5, NULL, {NULL_CODE}]) AS c, 7 AS d"
        how = stored(con, select, "here", {"c"}, may_misfit=True)
        con.execute(f"CREATE TABLE t ({how.ddl})")
        con.execute(f"INSERT INTO t ({how.names}) SELECT {how.values} FROM ({select})")
        kept = con.execute(f"SELECT {PACKED}c, c, d FROM t ORDER BY rowid").fetchall()
        con.close()
    assert kept == [(5, 5, 7), (OTHER_CODE, None, 7), (None, NULL_CODE, 7)]


def test_records_exchange_nulls_in_a_file_as_in_memory():
    swap = SwapParams(columns=("age", "full"), within=(), similar=(), rare=("word",), rate=0.2)
    found = {}
    for on_disk in FORMS:
        with opened(people(), on_disk=on_disk) as ingested:
            kinds: tuple[EntityColumn, ...] = add_tokens(ingested, KEY, VINTAGE, ())
            listed = f"SELECT l0_0, c0, c1 FROM {ROWS_WITH_TOKENS} ORDER BY l0_0"
            before = ingested.con.execute(listed).fetchall()
            exchange(ingested, kinds, swap, KEY, VINTAGE)
            found[on_disk] = ingested.con.execute(listed).fetchall()
            assert found[on_disk] != before
    assert found[True] == found[False]
    assert any(code == NULL_CODE for _, code, _ in found[True])


def test_a_release_is_the_same_wherever_its_rows_lie(tmp_path, monkeypatch):
    people(3_000).to_parquet(tmp_path / "people.parquet")
    new_key(tmp_path / "key")
    spec = ReleaseSpec(
        title="t",
        logical_name="data",
        vintage="2024",
        key_path=tmp_path / "key",
        mode="sticky",
        source=SourceSpec(
            path=str(tmp_path / "people.parquet"), format="parquet", entities=("who",)
        ),
        columns=COLUMNS,
        privacy=PROFILES["standard"],
        tables=(("full",), ("word",), ("full", "word")),
    )
    hashes = []
    for least in (engine.source.opening.ON_DISK_BYTES, 0):
        monkeypatch.setattr(engine.source.opening, "ON_DISK_BYTES", least)
        hashes.append(make(spec, tmp_path / f"{least}.duckdb", jobs=1).content_hash)
    assert hashes[0] == hashes[1]
