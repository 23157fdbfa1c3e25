"""Scratch folders and working files: ours alone, gone afterwards, and the same codes as in memory."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
from contextlib import contextmanager
from pathlib import Path

import duckdb
import numpy as np
import pandas as pd
import pytest
from fixtures.measure import KEY, VINTAGE, column

import engine.source.opening
from engine.errors import StoreError
from engine.key_files import new_key
from engine.params import PROFILES
from engine.release import make
from engine.schema import SourceSpec
from engine.source import ROWS_WITH_TOKENS, memory_connection, open_source, scratch_directory
from engine.source.entities import add_tokens, column_shapes, source_fingerprints
from engine.source.ingest import ingest
from engine.source.scratch import confidential_connection
from engine.spec import ReleaseSpec

REPO = Path(__file__).resolve().parents[2]


@pytest.fixture(autouse=True)
def base(tmp_path, monkeypatch):
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    return tmp_path / f"tablepack-{os.getuid()}"


def test_directory_is_ours_alone_and_gone_afterwards(base):
    with scratch_directory() as scratch:
        assert scratch.parent == base
        assert scratch.stat().st_mode & 0o777 == 0o700
        assert base.stat().st_mode & 0o777 == 0o700
        (scratch / "rows").write_text("x")
    assert not scratch.exists()


def test_it_is_gone_after_an_error():
    with pytest.raises(ZeroDivisionError), scratch_directory() as scratch:
        raise ZeroDivisionError
    assert not scratch.exists()


def test_left_overs_of_a_killed_process_are_swept(base):
    code = (
        "import sys, time\nfrom engine.source.scratch import scratch_directory\n"
        "with scratch_directory() as s:\n"
        "    (s / 'rows').write_text('CANARY')\n    print(s, flush=True)\n    time.sleep(60)\n"
    )
    process = subprocess.Popen(
        [sys.executable, "-c", code],
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "TMPDIR": str(base.parent), "PYTHONPATH": str(REPO)},
    )
    left = Path(process.stdout.readline().strip())
    with scratch_directory():
        assert (left / "rows").exists(), "a live process keeps its directory"
    process.send_signal(signal.SIGKILL)
    process.wait()
    process.stdout.close()
    assert (left / "rows").exists()
    with scratch_directory():
        assert not left.exists()


def test_a_directory_without_a_lock_is_swept_and_files_are_left_alone(base):
    base.mkdir(mode=0o700)
    (base / "half-made").mkdir()
    (base / "note").write_text("")
    with scratch_directory():
        assert not (base / "half-made").exists()
    assert (base / "note").exists()


def test_a_base_that_others_can_open_is_refused(base):
    base.mkdir(mode=0o700)
    base.chmod(0o755)
    with pytest.raises(StoreError, match="others can open it"), scratch_directory():
        pass


def test_a_base_that_is_a_link_is_refused(base, tmp_path):
    (tmp_path / "elsewhere").mkdir(mode=0o700)
    base.symlink_to(tmp_path / "elsewhere")
    with pytest.raises(StoreError, match="not a directory"), scratch_directory():
        pass


def test_a_base_of_another_user_is_refused(base, monkeypatch):
    base.mkdir(mode=0o700)
    other = os.getuid() + 1
    monkeypatch.setattr(os, "getuid", lambda: other)
    base.rename(base.parent / f"tablepack-{other}")
    with pytest.raises(StoreError, match="belongs to another user"), scratch_directory():
        pass


def test_the_connection_loads_nothing_and_reads_no_variables():
    with scratch_directory() as scratch:
        con = confidential_connection(scratch, threads=1, memory_limit="300MB")
        settings = dict(
            con.execute(
                "SELECT name, value FROM duckdb_settings() WHERE name IN ('threads', 'TimeZone', "
                "'autoload_known_extensions', 'autoinstall_known_extensions', "
                "'python_enable_replacements', 'temp_directory', 'enable_progress_bar')"
            ).fetchall()
        )
        con.close()
        assert settings == {
            "threads": "1",
            "TimeZone": "UTC",
            "autoload_known_extensions": "false",
            "autoinstall_known_extensions": "false",
            "python_enable_replacements": "false",
            "temp_directory": str(scratch / "spill"),
            "enable_progress_bar": "false",
        }


@pytest.mark.ci
def test_rows_on_disk_stay_in_the_scratch_directory_and_are_not_readable_there():
    with scratch_directory() as scratch:
        con = confidential_connection(scratch, on_disk=True, memory_limit="80MB", threads=2)
        con.execute(
            "CREATE TABLE rows AS SELECT 'CANARY' || i AS v, hash(i) AS h FROM range(2000000) t(i)"
        )
        con.execute("CHECKPOINT scratch")
        con.execute("CREATE TEMP TABLE sorted AS SELECT v, h, hash(h) AS g FROM rows ORDER BY h")
        files = [p for p in scratch.rglob("*") if p.is_file()]
        assert any(p.parent.name == "spill" for p in files)
        found = sum(p.read_bytes().count(b"CANARY") for p in files)
        can_encrypt = con.execute("SELECT current_setting('temp_file_encryption')").fetchone()
        cipher = con.execute(
            "SELECT cipher FROM duckdb_databases() WHERE database_name = 'scratch'"
        ).fetchone()
        con.close()
    if can_encrypt == (True,):
        assert found == 0
        assert cipher == ("CTR",)  # twice as fast as the default


def test_a_connection_in_memory_fails_rather_than_spill(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with memory_connection() as con:
        con.execute("SET memory_limit = '40MB'; SET threads = 1")
        with pytest.raises(duckdb.OutOfMemoryException):
            con.execute("SELECT * FROM range(30_000_000) t(i) ORDER BY hash(i)").fetchnumpy()
    assert list(tmp_path.rglob("*")) == []


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
