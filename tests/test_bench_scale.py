"""The benchmark of scale: it runs, its parts are other people, its model finds what was planted. No time is tested."""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import replace
from xml.etree import ElementTree

import bench_scale
import duckdb
import pytest
from bench_picture import draw_scale
from fixtures.pipeline import ROOT, environment

RUN = bench_scale.Run(
    engine="spark",
    cores=1,
    rows=1_000_000,
    tables=98,
    seconds=50.0,
    cpu_seconds=60.0,
    first_table_seconds=20.0,
    peak_bytes=2_000_000_000,
    measure_peak_bytes=1_500_000_000,
    disk_bytes=300_000_000,
    spilled_bytes=0,
    driver_cells=400_000,
    driver_bytes=9_000_000,
    content_hash="a",
    left_off=0.2,
)


def test_it_builds_and_says_what_it_took(tmp_path):
    words = ["--rows", "60000", "--spark-rows", "0", "--folder", str(tmp_path)]
    done = subprocess.run(
        [sys.executable, "scripts/bench_scale.py", *words],
        cwd=ROOT,
        env=environment(),
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    (run,) = json.loads((tmp_path / "scale.json").read_text())["runs"]
    assert (run["engine"], run["rows"], run["tables"]) == ("duckdb", 60_000, 98)
    assert 1e8 < run["peak_bytes"] < 4e9
    assert run["disk_bytes"] > 1e6  # the release
    assert int(run["content_hash"], 16) > 0
    assert "| 60,000 | duckdb |" in done.stdout
    root = ElementTree.parse(tmp_path / "scale.svg").getroot()  # our own file
    assert root.tag.endswith("svg")
    with duckdb.connect() as con:
        listed = f"FROM read_parquet('{tmp_path}/rows-60000/*.parquet')"
        found = con.execute(f"SELECT count(*), count(DISTINCT person_id) {listed}").fetchall()
        width = len(con.execute(f"SELECT * {listed} LIMIT 1").description)
    assert found == [(60_000, 60_000)]
    assert width == 1 + bench_scale.N_COLUMNS


def test_no_two_blocks_have_a_person_in_common():
    ids = [
        bench_scale.draw_people_of(block, people=100_000_000, seed=7)["person_id"]
        for block in (0, 399)
    ]
    together = {*ids[0].tolist(), *ids[1].tolist()}
    assert len(together) == 2 * bench_scale.BLOCK_PEOPLE
    assert 0 < min(together) <= max(together) <= 100_000_000


def test_the_tables_are_98():
    sets = bench_scale.scale_tables()
    assert [sum(len(s) == width for s in sets) for width in (1, 2, 3)] == [12, 66, 20]
    assert len({frozenset(s) for s in sets}) == 98


def test_the_model_finds_what_was_planted():
    planted = bench_scale.Model(start=12.0, scan_rate=4e8, cell_rate=2e5)
    shapes = [
        (100_000, 98, 90_000),
        (100_000, 12, 700),
        (1_000_000, 98, 400_000),
        (1_000_000, 12, 900),
    ]
    runs = [replace(RUN, rows=r, tables=t, driver_cells=c) for r, t, c in shapes]
    runs = [replace(run, seconds=planted.seconds(run)) for run in runs]
    found = bench_scale.model_of(runs)
    assert (found.start, found.scan_rate, found.cell_rate) == pytest.approx((12.0, 4e8, 2e5))
    assert found.seconds(replace(RUN, cores=2)) < found.seconds(RUN)


def test_a_negative_rate_is_none():
    runs = [replace(RUN, driver_cells=c, seconds=s) for c, s in ((100, 60.0), (500_000, 50.0))]
    assert bench_scale.model_of(runs).cell_rate == float("inf")


def test_how_far_the_time_left_was_off():
    told = [
        (0.5, "left", 90, 90),
        (2, "left", 6, 8),
        (3, "tables", 1, 2),
        (5, "left", 6, 11),
        (9.5, "left", 9, 9),
    ]
    assert bench_scale.left_off([*told, (10, "done", 1, 1)]) == pytest.approx(
        1.5 / 8
    )  # half a second is rounding
    assert bench_scale.left_off([(1, "done", 1, 1)]) is None


def test_releases_that_differ_end_the_run():
    bench_scale.check_equal([RUN, replace(RUN, engine="duckdb")])
    with pytest.raises(SystemExit, match="content hashes differ"):
        bench_scale.check_equal([RUN, replace(RUN, engine="duckdb", content_hash="b")])


def test_a_line_an_engine_is_drawn_in_each_panel():
    runs = [vars_of(replace(RUN, engine=e, rows=r)) for e in ("duckdb", "spark") for r in (10, 100)]
    root = ElementTree.fromstring(draw_scale(runs))
    assert len(list(root.iter("{http://www.w3.org/2000/svg}polyline"))) == 6


def vars_of(run: bench_scale.Run) -> dict:
    return {name: getattr(run, name) for name in run.__dataclass_fields__}
