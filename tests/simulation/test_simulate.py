from __future__ import annotations

import os
import re
from pathlib import Path

import pandas as pd
import pytest
from fixtures.simulation import frame, query
from fixtures.spec import places

import engine.simulation.census as simulate
from engine.errors import SpecError, StoreError
from engine.simulation import simulate_census

# --- determinism and blocks


def test_same_seed_same_rows_other_seed_other_rows(tmp_path):
    first, again, other = (
        simulate_census(tmp_path / str(i), people=2_000, seed=seed)
        for i, seed in enumerate((11, 11, 12))
    )
    for name in ("people", "events"):
        rows = frame(getattr(first, name))
        pd.testing.assert_frame_equal(rows, frame(getattr(again, name)))
        assert not rows.equals(frame(getattr(other, name)))


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


@pytest.mark.parametrize(
    ("people", "seed", "keys"),
    [
        *((people, 1, ["people"]) for people in (999, 100_000_001, 1_000.0, True)),
        *((1_000, seed, ["seed"]) for seed in (-1, 0.5, None)),
        (1, -1, ["people", "seed"]),
    ],
)
def test_numbers_are_checked(tmp_path, people, seed, keys):
    with pytest.raises(SpecError) as caught:
        simulate_census(tmp_path / "new", people=people, seed=seed)
    assert places(caught.value.problems) == [f"census.{key}" for key in keys]
    assert not (tmp_path / "new").exists()


def test_only_an_empty_or_new_folder_will_do(tmp_path):
    path = tmp_path / "mine.txt"
    path.write_text("mine")
    for folder in (tmp_path, path, path / "below"):
        with pytest.raises(StoreError, match=re.escape(str(folder))):
            simulate_census(folder, people=1_000, seed=1)
    assert [found.name for found in tmp_path.iterdir()] == ["mine.txt"]


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


# --- scale
