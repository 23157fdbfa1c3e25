"""Codes in a file: as small as it packs them, and the same codes as in memory."""

from __future__ import annotations

from contextlib import contextmanager

import numpy as np
import pandas as pd
import pytest
from fixtures.measure import KEY, VINTAGE, column

import engine.source.opening
from engine.key_files import new_key
from engine.params import PROFILES
from engine.release import make
from engine.schema import SourceSpec
from engine.source import ROWS_WITH_TOKENS, open_source, scratch_directory
from engine.source.entities import add_tokens, column_shapes, source_fingerprints
from engine.source.ingest import ingest
from engine.source.scratch import confidential_connection
from engine.spec import ReleaseSpec

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
