"""Codes in a file: as small as it packs them, and the same codes as in memory."""

from __future__ import annotations

from contextlib import contextmanager

import numpy as np
import pandas as pd
import pytest
from fixtures.measure import KEY, VINTAGE, column

import engine.source.opening
from engine.key_files import new_key
from engine.params import PROFILES, SwapParams
from engine.release import make
from engine.schema import NULL_CODE, SourceSpec
from engine.source import ROWS_WITH_TOKENS, EntityColumn, open_source, scratch_directory
from engine.source.entities import add_tokens, column_shapes, source_fingerprints
from engine.source.ingest import ingest
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


def test_so_it_does_where_entities_have_several_rows():
    frame = people()
    frame["who"] = [f"p{i // 3}" for i in range(len(frame))]
    assert told(frame, on_disk=True) == told(frame, on_disk=False)


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


@pytest.mark.ci
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
