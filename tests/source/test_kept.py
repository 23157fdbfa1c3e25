"""A build that was killed goes on from the encoded source; a changed source is encoded again; nothing stays."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from fixtures.pipeline import (
    ACCEPTED,
    CENSUS,
    KEY,
    content_of,
    environment,
    left_over,
    places_of,
    write_spec,
)

import engine
from engine.api.reading import read
from engine.cli.doctor import examine
from engine.errors import StoreError
from engine.keys import MasterKey
from engine.source import kept

TABLES = [("age",), ("sex",), ("age", "sex"), ("age", "region")]
BUILD = """
import json, os, signal, sys
from pathlib import Path
import engine.source.opening as opening
from engine.api.reading import read
from engine.release import build

spec, out, stop, told = map(Path, sys.argv[1:])
opening.ON_DISK_BYTES = 0  # any source counts as large
stages = []

def note(stage, done, total):
    stages.append(stage)
    told.write_text(json.dumps(stages))
    if stage == str(stop) and (done >= 1 or stage == "tokens"):
        os.kill(os.getpid(), signal.SIGKILL)

build(read(spec), out, jobs=1, force=True, progress=note)
"""


class Stage:
    """A folder in which builds of one source end, or are killed."""

    def __init__(self, folder: Path, census: Path) -> None:
        self.folder, self.scratch = folder, folder / "scratch"
        self.scratch.mkdir()
        self.source = folder / "people.parquet"
        self.source.write_bytes((census / "people.parquet").read_bytes())
        self.out = folder / "r.duckdb"
        self.rows = kept.kept_folder(self.out)

    def spec(self, columns=CENSUS, **more) -> Path:
        more = {"privacy": ACCEPTED} | more
        return write_spec(self.folder, self.source, columns, TABLES, **more)

    def run(self, spec: Path, stop: str = "never") -> tuple[int, list[str]]:
        """Exit code and stages of a build, killed in a stage."""
        told = self.folder / "told.json"
        done = subprocess.run(
            [sys.executable, "-c", BUILD, str(spec), str(self.out), stop, str(told)],
            env=environment(self.scratch),
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode in (0, -signal.SIGKILL), done.stderr
        return done.returncode, json.loads(told.read_text())

    def digest(self) -> str:
        with engine.open(self.out) as release:
            return release.content_hash


@pytest.fixture
def stage(tmp_path, census):
    return Stage(tmp_path, census)


@pytest.mark.ci
def test_a_killed_build_goes_on_from_the_encoded_source(stage):
    """The very first build of a vintage, before and after which the journal pins different things."""
    spec = stage.spec()
    assert stage.run(spec, "tables")[0] == -signal.SIGKILL
    assert stage.rows.stat().st_mode & 0o777 == 0o700
    for name in ("confidential.duckdb", "whole", "lock"):
        assert (stage.rows / name).stat().st_mode & 0o777 == 0o600
    code, stages = stage.run(spec)
    assert code == 0
    assert "taking up" in stages
    assert not {"reading", "tokens"} & {*stages}
    assert not stage.rows.exists()
    gone_on = stage.digest()
    stage.out.unlink()
    code, stages = stage.run(spec)
    assert (code, "reading" in stages, stage.rows.exists()) == (0, True, False)
    assert stage.digest() == gone_on
    assert left_over(stage.scratch) == []


@pytest.mark.slow
def test_what_changed_is_encoded_again(stage):
    """The file, a column of the spec; and the folder of a kill in the middle of reading holds nothing to go on from."""
    spec = stage.spec()
    assert stage.run(spec, "tokens")[0] == -signal.SIGKILL
    assert "reading" in stage.run(spec, "never")[1]
    assert stage.run(spec, "tables")[0] == -signal.SIGKILL
    os.utime(stage.source)
    assert "reading" in stage.run(spec, "tables")[1]
    fewer = {name: column for name, column in CENSUS.items() if name != "travel_km"}
    assert "reading" in stage.run(stage.spec(fewer), "tables")[1]
    assert "taking up" in stage.run(stage.spec(fewer), "tables")[1]
    whole = stage.rows / "confidential.duckdb"
    whole.write_bytes(whole.read_bytes()[:9000])  # torn
    code, stages = stage.run(stage.spec(fewer))
    assert (code, "reading" in stages, stage.rows.exists()) == (0, True, False)


@pytest.mark.ci
def test_what_is_kept_is_closed_and_holds_no_key(stage):
    assert stage.run(stage.spec(), "tables")[0] == -signal.SIGKILL
    key = MasterKey(KEY)
    secrets = [KEY, key.derive("kept", "2021"), key.derive("entity", "2021")]
    assert places_of(secrets, content_of(stage.rows)) == []
    values = [value.encode() for value in ("Female", "birth_country")]
    held = content_of(stage.rows)
    assert not [path for path, data in held.items() if any(value in data for value in values)]


def test_folders_of_others_are_refused_and_busy_ones_let_be(tmp_path):
    release = tmp_path / "r.duckdb"
    folder = kept.kept_folder(release)
    folder.mkdir(mode=0o755)
    with pytest.raises(StoreError, match="is not a folder that you alone can open"):
        kept._locked(folder)
    folder.chmod(0o700)
    lock = kept._locked(folder)
    assert kept._locked(folder) is None
    os.close(lock)


def test_an_error_leaves_nothing_and_an_interrupt_leaves_it(tmp_path, census):
    write_spec(tmp_path, census / "people.parquet", CENSUS, TABLES, privacy=ACCEPTED)
    spec, key = read(tmp_path / "release.toml"), MasterKey(KEY)
    folder = kept.kept_folder(tmp_path / "r.duckdb")
    with pytest.raises(KeyboardInterrupt), kept.kept_rows(tmp_path / "r.duckdb", spec, key, ()):
        raise KeyboardInterrupt
    assert folder.exists()
    with pytest.raises(StoreError), kept.kept_rows(tmp_path / "r.duckdb", spec, key, ()):
        raise StoreError("the disk is full")
    assert not folder.exists()
    (tmp_path / "r.duckdb.rows").write_text("")
    with pytest.raises(StoreError), kept.kept_rows(tmp_path / "r.duckdb", spec, key, ()):
        pass


@pytest.mark.slow
def test_doctor_says_what_a_build_that_was_stopped_left(stage):
    def told() -> dict[str, tuple[bool, str]]:
        return {f.check: (f.ok, f.detail) for f in examine(stage.out)}

    spec = stage.spec()
    assert "rows" not in told()
    assert stage.run(spec, "tables")[0] == -signal.SIGKILL
    ok, words = told()["rows"]
    assert ok
    assert re.search(r"r\.duckdb\.rows: [\d.]+ MB", words)
    stage.rows.chmod(0o755)
    assert not told()["rows"][0]
    stage.rows.chmod(0o700)
    assert stage.run(spec)[0] == 0
    assert "rows" not in told()


def test_doctor_says_what_builds_of_other_releases_left(tmp_path, monkeypatch):
    left = tmp_path / "abandoned.duckdb.rows"
    left.mkdir(mode=0o700)
    (left / "lock").touch(mode=0o600)
    (tmp_path / "mine.rows").mkdir()
    monkeypatch.chdir(tmp_path)
    for release in (None, tmp_path / "other.duckdb"):
        told = [f.detail for f in examine(release) if f.check == "rows"]
        assert len(told) == 1
        assert told[0].startswith(str(left))
