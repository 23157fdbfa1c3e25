from __future__ import annotations

import contextlib
import os
import subprocess
import sys
from pathlib import Path

import duckdb
import pandas as pd
import pytest
from fixtures.simulation import N_PEOPLE, frame, query

import engine.simulation.census as simulate
from engine.errors import SpecError, StoreError
from engine.simulation import simulate_census

# --- determinism and blocks


def test_same_seed_same_rows_other_seed_other_rows(census, tmp_path):
    again = simulate_census(tmp_path / "again", people=N_PEOPLE, seed=11)
    other = simulate_census(tmp_path / "other", people=N_PEOPLE, seed=12)
    for name in ("people", "events"):
        first = frame(getattr(census, name))
        pd.testing.assert_frame_equal(first, frame(getattr(again, name)))
        assert not first.equals(frame(getattr(other, name)))


def test_blocks_join_without_gap_or_repeat(tmp_path, monkeypatch):
    monkeypatch.setattr(simulate, "BLOCK_PEOPLE", 1_500)
    seen = []
    census = simulate_census(
        tmp_path, people=4_000, seed=7, progress=lambda done, total: seen.append((done, total))
    )
    assert seen == [(1_500, 4_000), (3_000, 4_000), (4_000, 4_000)]
    ids = query(census, "SELECT person_id FROM people ORDER BY 1")
    assert [number for (number,) in ids] == list(range(1, 4_001))
    counted = query(census, "SELECT count(DISTINCT household_id) FROM people")
    assert counted == [(census.n_households,)]
    written = frame(census.people)
    for block, size in enumerate((1_500, 1_500, 1_000)):
        people, events = simulate.draw_block(block, people=4_000, seed=7)
        rows = written[block * 1_500 : block * 1_500 + size]
        assert (rows["person_id"].to_numpy() == people["person_id"]).all()
        assert (rows["age"].to_numpy() == people["age"]).all()
        assert set(events["person_id"]) <= set(people["person_id"])
    ages = [simulate.draw_block(b, people=4_000, seed=7)[0]["age"] for b in (0, 1)]
    assert (ages[0] != ages[1]).any()


# --- bad input


@pytest.mark.parametrize("people", [999, 100_000_001, 0, -5, 1_000.0, True, "2000"])
def test_number_of_people_is_checked(tmp_path, people):
    with pytest.raises(SpecError, match=r"census\.people: .* from 1,000 to 100,000,000"):
        simulate_census(tmp_path / "new", people=people, seed=1)
    assert not (tmp_path / "new").exists()


@pytest.mark.parametrize("seed", [-1, 0.5, None, False])
def test_seed_is_checked(tmp_path, seed):
    with pytest.raises(SpecError, match=r"census\.seed: .* whole number of 0 or above"):
        simulate_census(tmp_path, people=1_000, seed=seed)


def test_all_mistakes_are_told_at_once(tmp_path):
    with pytest.raises(SpecError) as caught:
        simulate_census(tmp_path, people=1, seed=-1)
    assert len(caught.value.problems) == 2


def test_a_folder_with_something_in_it_is_left_alone(tmp_path):
    (tmp_path / "mine.txt").write_text("mine")
    with pytest.raises(StoreError, match="is not an empty directory"):
        simulate_census(tmp_path, people=1_000, seed=1)
    assert [path.name for path in tmp_path.iterdir()] == ["mine.txt"]


def test_a_file_is_no_folder(tmp_path):
    path = tmp_path / "file"
    path.write_text("")
    with pytest.raises(StoreError, match="is not an empty directory"):
        simulate_census(path, people=1_000, seed=1)


def test_a_folder_that_cannot_be_made(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(StoreError, match="cannot write to"):
        simulate_census(tmp_path / "file" / "below", people=1_000, seed=1)


def test_a_folder_that_cannot_be_read(tmp_path, monkeypatch):
    def refuse(self):
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(Path, "iterdir", refuse)
    with pytest.raises(StoreError, match=r"cannot be written .*Permission denied"):
        simulate_census(tmp_path, people=1_000, seed=1)


@pytest.mark.parametrize("is_new", [True, False])
def test_nothing_is_left_when_the_disk_is_full(tmp_path, monkeypatch, is_new):
    folder = tmp_path / "census"
    if not is_new:
        folder.mkdir()
    replace = os.replace

    def full(source, target):
        if Path(source).name == "people.parquet":  # the second file to be moved
            raise OSError(28, "No space left on device")
        replace(source, target)

    monkeypatch.setattr(os, "replace", full)
    with pytest.raises(StoreError, match="No space left on device"):
        simulate_census(folder, people=1_000, seed=1)
    assert folder.exists() != is_new
    assert is_new or not any(folder.iterdir())


def test_an_error_of_duckdb_is_a_store_error(tmp_path, monkeypatch):
    def fail(*arguments):
        raise duckdb.IOException("could not write")

    monkeypatch.setattr(simulate, "merge_parts", fail)
    with pytest.raises(StoreError, match="IOException"):
        simulate_census(tmp_path, people=1_000, seed=1)
    assert not any(tmp_path.iterdir())


def test_nothing_is_left_when_interrupted(tmp_path):
    def interrupt(done, total):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        simulate_census(tmp_path / "new", people=1_000, seed=1, progress=interrupt)
    assert not (tmp_path / "new").exists()


@pytest.mark.skipif(not Path("/proc/self/task").exists(), reason="needs /proc")
def test_no_thread_writes_that_an_interrupted_one_would_wait_for(tmp_path):
    """DuckDB 2.0.0 may wait for its other threads for ever where the one that waits is interrupted."""

    def threads():
        found = set()
        for task in Path("/proc/self/task").iterdir():
            with contextlib.suppress(OSError):  # it ended meanwhile
                if not (task / "comm").read_text().startswith("jemalloc"):
                    found.add(int(task.name))
        return found

    before, meanwhile = threads(), []
    simulate_census(tmp_path, people=4_000, seed=7, progress=lambda *_: meanwhile.append(threads()))
    assert [one - before for one in meanwhile] == [set()]


# --- scale


@pytest.mark.slow
def test_a_million_people_in_bounded_memory(tmp_path):
    code = (
        "import re, sys, time; from pathlib import Path\n"
        "from engine.simulation.census import simulate_census\n"
        "start = time.perf_counter()\n"
        "simulate_census(Path(sys.argv[1]), people=1_000_000, seed=3)\n"
        "took = time.perf_counter() - start\n"
        # Not ru_maxrss: on Linux that of the process that started this one counts too.
        "print(took, int(re.search(r'VmHWM:\\s+(\\d+)', Path('/proc/self/status').read_text())[1]) / 1024)\n"
    )
    ran = subprocess.run(
        [sys.executable, "-c", code, str(tmp_path)],
        check=True,
        capture_output=True,
        text=True,
        cwd=Path(__file__).parents[2],
    )
    seconds, megabytes = map(float, ran.stdout.split())
    assert seconds < 60  # 7 s on two cores; the bound allows for a slow machine
    assert megabytes < 1_500
