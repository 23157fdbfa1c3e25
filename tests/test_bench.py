"""The benchmark in its quickest form: it runs, checks what it times, and says what it found. No time is tested."""

from __future__ import annotations

import json
import subprocess
import sys
from xml.etree import ElementTree

import bench_add
import bench_intervals
import bench_profile
import bench_steps
import duckdb
import numpy as np
import pytest
from bench_cost import build_of, check, floor_of
from bench_picture import draw, draw_steps
from bench_series import Line, many_tables, pair_tables, row_tables, targets
from fixtures.pipeline import (
    ACCEPTED,
    CENSUS,
    ROOT,
    environment,
    make_census,
    tablepack,
    write_spec,
)

from engine import build
from engine.api.reading import read
from queries.release import open_release

TABLES = [["region"], ["sex"], ["age"], ["region", "sex"], ["age", "region", "sex"]]


@pytest.fixture(scope="module")
def ran(tmp_path_factory):
    folder = tmp_path_factory.mktemp("bench")
    quickest = ["--rows", "1000", "--tables", "13", "--columns", "2", "--people", "1000"]
    quickest += ["--repeat", "1", "--nist", "", "--sd2011", ""]
    done = subprocess.run(
        [sys.executable, "scripts/bench_series.py", *quickest, "--folder", str(folder)],
        cwd=ROOT,
        env=environment(),
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return folder, done.stdout


def test_the_figures_have_their_shape(ran):
    folder, shown = ran
    told = json.loads((folder / "bench.json").read_text())
    assert [(x["series"], x["rows"], x["tables"], x["columns"]) for x in told["lines"]] == [
        ("rows", 1000, 72, 8),
        ("tables", 1000, 13, 12),
        ("columns", 1000, 3, 2),
    ]
    for line in told["lines"]:
        assert line["checked"] >= 2 * line["tables"]
        assert line["seconds"] > line["first_table_seconds"] > 0
        assert line["ratio"] == pytest.approx(line["seconds"] / line["floor_seconds"])
        # Two interpreters with numpy and DuckDB, and all of it in megabytes, not in pages or kilobytes.
        assert 60e6 < min(line["measure_peak_bytes"], line["fit_peak_bytes"])
        assert max(line["measure_peak_bytes"], line["fit_peak_bytes"]) < line["peak_bytes"] < 4e9
        assert min(line["measure_cpu_seconds"], line["fit_cpu_seconds"]) > 0
    assert told["machine"]["cores"] >= 1
    assert told["targets"] == []
    assert shown.count("\n") == 1 + len(told["lines"]) + 1
    assert not list(folder.glob("*.duckdb*"))


def test_the_picture_is_an_svg_of_three_panels(ran):
    folder, _ = ran
    root = ElementTree.parse(folder / "bench.svg").getroot()  # our own file
    words = [node.text for node in root.iter("{http://www.w3.org/2000/svg}text")]
    assert sum(word.startswith(("Rows", "Tables (", "Columns (")) for word in words) == 3
    assert sum(word.endswith("GB") for word in words) == 1
    assert len(list(root.iter("{http://www.w3.org/2000/svg}polyline"))) == 6
    assert (folder / "bench.svg").stat().st_size < 20_000


def test_a_picture_of_nothing_and_of_one_point():
    assert draw([]).startswith("<svg")
    one = {
        "series": "rows",
        "rows": 27_253,
        "seconds": 3.0,
        "floor_seconds": 0.2,
        "peak_bytes": 1e9,
    }
    assert "27.3 k" in draw([one]) or "27 k" in draw([one])


def test_the_series_ask_for_what_they_say():
    assert len(row_tables()) == 72
    assert {len(columns) for columns in row_tables()} == {1, 2, 3}
    assert len(many_tables(298)) == 298
    assert len(many_tables(10_000)) == 298
    assert [len(pair_tables(n)) for n in (4, 20)] == [10, 210]


@pytest.fixture(scope="module")
def built(tmp_path_factory):
    """A small release, and the true one-way counts of its source."""
    folder = tmp_path_factory.mktemp("checked")
    source = make_census(folder / "census") / "people.parquet"
    spec = write_spec(folder, source, CENSUS, TABLES)
    assert tablepack("build", spec, "-o", "r.duckdb", cwd=folder).returncode == 0
    seconds, truth = floor_of(str(source), TABLES, nulls=(), repeat=1)
    assert seconds > 0
    return folder / "r.duckdb", truth


PUBLIC = {"region", "sex"}


def test_a_right_release_passes(built):
    release, truth = built
    totals, values, margins = len(TABLES), 9 + 2, 2 + 1
    assert check(release, truth, PUBLIC) == totals + values + margins
    assert sum(truth["age"].values()) == 1500


@pytest.mark.parametrize(
    ("harm", "complaint"),
    [
        ("UPDATE catalog.tables SET rows = rows + 12 WHERE name = 'age'", "rows, 1500 in"),
        ("UPDATE tables.{sex} SET n = n + 20 WHERE sex = 'Male'", "off by more than noise"),
        ("DELETE FROM tables.{region} WHERE region = 'R3'", "off by more than noise"),
        ("UPDATE tables.{region.sex} SET n = n + 1 WHERE sex = 'Male'", "its card says 0"),
        ("DELETE FROM tables.{age.region.sex} WHERE sex = 'Male'", "its card says"),
    ],
)
def test_a_wrong_release_has_no_time(built, tmp_path, harm, complaint):
    release, truth = built
    copy = tmp_path / "harmed.duckdb"
    copy.write_bytes(release.read_bytes())
    with duckdb.connect(str(copy)) as con:
        names = dict(con.execute("SELECT name, physical FROM catalog.tables").fetchall())
        for name, physical in names.items():
            harm = harm.replace(f"{{{name}}}", physical)
        con.execute(harm)
    with pytest.raises(SystemExit, match=complaint):
        check(copy, truth, PUBLIC)


def test_a_build_that_fails_ends_the_run(tmp_path, capfd):
    job = {"source": "nowhere/p.parquet", "columns": ["sex"], "tables": [["sex"]]}
    with pytest.raises(SystemExit, match="failed"):
        build_of(job | {"key": "no.key", "out": str(tmp_path / "r.duckdb")}, tmp_path)
    assert "no.key" in capfd.readouterr().err


def test_targets_are_held_against_the_right_lines():
    def line(series, rows, seconds, floor=1.0, peak=10**9):
        figures = dict.fromkeys(
            ("first_table_seconds", "measure_cpu_seconds", "fit_cpu_seconds"), 0.0
        )
        sizes = {"measure_peak_bytes": 1, "fit_peak_bytes": 1, "release_bytes": 61_000_000}
        more = {"tables": 438, "columns": 24, "floor_seconds": floor}
        return Line(
            series=series,
            rows=rows,
            seconds=seconds,
            peak_bytes=peak,
            checked=1,
            **more,
            **figures,
            **sizes,
        )

    rows = [line("rows", 27_253, 2.0), line("rows", 1_000_000, 9.0, peak=3 * 10**9)]
    lines = [
        *rows,
        line("rows", 10_000_000, 99.0),
        line("nist", 27_253, 11.0),
        line("sd2011", 5_000, 9.0),
        line("tables", 1, 1.0),
    ]
    got = [(most, value, value <= most) for _, most, value in targets(lines)]
    assert got == [
        (4.0, 4.5, False),
        (2.0, 3.0, False),
        (12.0, 2.0, True),
        (4.0, 9.0, False),
        (4.0, 1.0, True),
        (12.0, 11.0, True),
        (8.0, 11.0, False),
        (60.0, 61.0, False),
        (10.0, 9.0, True),
    ]


def test_the_innermost_step_has_the_time(monkeypatch):
    now = iter([0.0, 2.0, 5.0, 6.0, 10.0, 11.0, 11.5, 12.0, 12.25, 20.0])
    monkeypatch.setattr(bench_profile.time, "process_time", lambda: next(now))
    clock = bench_profile.Clock()
    inner = clock.timed("raking", lambda: 7)  # from 5 to 6
    outer = clock.timed("rounding", lambda: inner() + 1)  # from 2 to 10
    assert outer() == 8
    assert (
        list(clock.timed("measuring", lambda: iter(()))()) == []
    )  # from 11 to 11.5 and from 12 to 12.25
    seconds = clock.stop()
    spent = {step: s for step, s in seconds.items() if s}
    assert spent == {
        bench_profile.FIRST: 2.0,
        "rounding": 3.0 + 4.0,
        "raking": 1.0,
        bench_profile.REST: 1.0 + 0.5 + 7.75,
        "measuring": 0.75,
    }


def test_a_generator_is_timed_while_it_works(monkeypatch):
    now = iter(range(100))
    monkeypatch.setattr(bench_profile.time, "process_time", lambda: float(next(now)))
    clock = bench_profile.Clock()

    def numbers():
        yield from "ab"

    assert list(clock.timed("measuring", numbers)()) == ["a", "b"]
    assert clock.stop()["measuring"] == 4.0  # the call, two values and the end


FOUND = {"name": "a <b>", "steps": {"one": 3.0, "two": 1.0}}
TIMES = {"then_seconds": 4.0, "now_seconds": 2.0, "then_cpu_seconds": 6.0, "now_cpu_seconds": 5.0}


def test_shares_and_ratios_by_hand():
    text = bench_steps.figures([FOUND | TIMES], "v1")
    assert "| one | 75% |" in text
    assert "| all, CPU seconds | 4.00 |" in text
    assert "| a <b> | 4.00 | 2.00 | 0.50 | 6.00 | 5.00 |" in text
    assert "seconds at v1" in text
    assert "now / then" not in bench_steps.figures([FOUND], None)
    root = ElementTree.fromstring(draw_steps([FOUND | TIMES, FOUND], "v1"))
    words = [node.text for node in root.iter("{http://www.w3.org/2000/svg}text")]
    assert "a <b>: 4.0 s of one core; in all 2.0 s, 4.0 s at v1" in words
    assert words.count("75%, 3.00 s") == 2
    bars = [float(r.get("width")) for r in root.iter("{http://www.w3.org/2000/svg}rect")][1:]
    assert bars == [300.0, 100.0, 300.0, 100.0]
    assert draw_steps([], None).startswith("<svg")


def steps(folder, *words):
    return subprocess.run(
        [sys.executable, "scripts/bench_steps.py", "--people", "1000", "--nist", "", "--repeat", "1",
         "--folder", str(folder), *words],
        cwd=ROOT, env=environment(), capture_output=True, text=True, check=False,
    )  # fmt: skip


def test_every_step_of_a_build_has_its_time(tmp_path):
    done = steps(tmp_path, "--against", "none")
    assert done.returncode == 0, done.stderr
    told = json.loads((tmp_path / "bench-steps.json").read_text())
    assert told["against"] is None
    (one,) = told["builds"]
    assert list(one["steps"]) == [bench_profile.FIRST, *bench_profile.STEPS, bench_profile.REST]
    loading = one["steps"].pop("loading compiled loops")
    assert loading >= 0  # a build as small as this one does without
    assert min(one["steps"].values()) > 0
    assert "now_seconds" not in one
    assert not list(tmp_path.glob("*.duckdb*"))
    ElementTree.parse(tmp_path / "bench-steps.svg")


IS_CLONE = (ROOT / ".git").exists()


@pytest.mark.skipif(not IS_CLONE, reason="no history here")
def test_versions_that_cannot_be_timed_are_refused(tmp_path):
    done = steps(tmp_path, "--against", "no-such-version")
    assert done.returncode == 1
    assert "git archive failed" in done.stderr


@pytest.mark.slow
@pytest.mark.skipif(not IS_CLONE, reason="no history here")
def test_two_versions_are_timed_in_one_run(tmp_path):
    done = steps(tmp_path, "--against", "HEAD")
    assert done.returncode == 0, done.stderr
    told = json.loads((tmp_path / "bench-steps.json").read_text())
    assert told["against"] == "HEAD"
    (one,) = told["builds"]
    assert min(one[name] for name in TIMES) > 0
    assert "seconds at HEAD" in done.stdout
    assert not (tmp_path / "against").exists()


@pytest.mark.skipif(not IS_CLONE, reason="no history here")
def test_the_last_release_is_a_tag_or_what_came_before_the_newest_version(monkeypatch):
    answers = {"tag": b"v1.10\nv1.9\n", "log": b"ccc\nbbb\n", "rev-parse": b"aaa\n"}
    asked = []

    def git(*words):
        asked.append(words)
        return answers[words[0]]

    monkeypatch.setattr(bench_steps, "git", git)
    assert bench_steps.last_release() == "v1.10"
    answers["tag"] = b""
    assert bench_steps.last_release() == "aaa"
    assert asked[-1] == ("rev-parse", "--short", "bbb^")
    answers["log"] = b""
    with pytest.raises(SystemExit, match="give --against REV"):
        bench_steps.last_release()


def test_one_more_table_over_a_full_build_by_hand():
    build = bench_add.Took(seconds=8.0, cpu_seconds=10.0)
    text = bench_add.figures(438, build, bench_add.Took(seconds=2.0, cpu_seconds=4.0))
    assert "| full build, 438 tables | 8.00 | 10.00 |" in text
    assert "| added / full build | 1/4.0 | 1/2.5 |" in text


def small_spec(folder, tables):
    make_census(folder, people=1_000)
    write_spec(folder, folder / "people.parquet", CENSUS, tables, privacy=ACCEPTED, name="s.toml")
    return folder / "s.toml"


def test_an_addition_is_timed_if_it_is_the_full_build(tmp_path):
    path = small_spec(tmp_path, TABLES)
    build, more = bench_add.compared(path, tmp_path, 1)
    assert min(build.seconds, build.cpu_seconds, more.seconds, more.cpu_seconds) > 0


def test_an_addition_that_is_not_the_full_build_has_no_time(tmp_path, monkeypatch):
    path = small_spec(tmp_path, TABLES)
    hashes = iter("abc")
    monkeypatch.setattr(bench_add, "content_hash", lambda _: next(hashes))
    with pytest.raises(SystemExit, match="is not that of a full build"):
        bench_add.compared(path, tmp_path, 1)


def test_commands_that_fail_and_specs_without_such_a_table_end_the_run(tmp_path):
    with pytest.raises(SystemExit, match="tablepack build failed: "):
        bench_add.timed("build", str(tmp_path / "none.toml"))
    with pytest.raises(SystemExit, match="no table of 3 columns"):
        bench_add.added_table(read(small_spec(tmp_path, TABLES[:-1])))


@pytest.fixture(scope="module")
def three_columns(tmp_path_factory):
    folder = tmp_path_factory.mktemp("intervals")
    with build(small_spec(folder, TABLES), out=folder / "r.duckdb"):
        return folder / "r.duckdb"


def test_intervals_are_timed_on_the_largest_table_of_three_columns(three_columns):
    rows = bench_intervals.compared(three_columns, 1)
    assert [row[:2] for row in rows] == [
        ["age x region x sex", kind] for kind in bench_intervals.KINDS
    ]
    without, beside, added = np.array([row[2:] for row in rows], dtype=float).T
    assert (without > 0).all()
    assert added == pytest.approx(beside - without, abs=0.11)  # each is rounded


def test_intervals_of_other_figures_are_not_timed(three_columns, monkeypatch):
    with open_release(three_columns) as release:
        table, of = bench_intervals.largest(release)
        texts = bench_intervals.statements("data", table, of)
        bench_intervals.check(release, texts)
        plain = release.sql

        def forged(text, *, intervals=False):
            return plain(f"SELECT * FROM ({text}) LIMIT 3" if intervals else text)

        monkeypatch.setattr(release, "sql", forged)
        with pytest.raises(SystemExit, match="not the figures"):
            bench_intervals.check(release, texts)


def test_intervals_are_not_timed_where_no_table_has_three_columns(tmp_path):
    with (
        build(small_spec(tmp_path, TABLES[:-1]), out=tmp_path / "r.duckdb") as release,
        pytest.raises(SystemExit, match="no table of three columns"),
    ):
        bench_intervals.largest(release)
