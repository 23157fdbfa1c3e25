"""The process that fits: what it sees, how it and those that it starts end, and that it makes the release."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

import numpy as np
import pytest
from fixtures.fit import KEY, Fits, total_measured
from fixtures.fitting import (
    EVERY_SET,
    PAIRS,
    TREES,
    Shelf,
    environment,
    fitted_by,
    folder_at,
    is_alive,
    needs_proc,
    order_of,
    proc,
    put_all,
    wait_until,
)
from fixtures.pipeline import (
    ACCEPTED,
    CENSUS,
    ROOT,
    left_of_the_wall,
    make_census,
    table_hashes,
    write_spec,
)
from fixtures.planted import CANARY

from engine import errors
from engine.api.reading import read
from engine.processes import PASSED_ENVIRONMENT
from engine.release import build, fit, fit_process, measure
from engine.release.fit_process import FitOptions, FitProcess
from engine.release.folder import writing_folder
from engine.schema import CodedUniverse, Universe
from engine.store import verify_release

TABLES = [("A",), *PAIRS]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return folder_at(tmp_path_factory.mktemp("folder") / "measured", order_of(TABLES), TREES)


def test_a_folder_is_all_that_a_release_takes(folder, tmp_path):
    """However many tables are fitted at once."""
    hashes = []
    for jobs in (1, 3):
        path = fit(folder, tmp_path / f"{jobs}.duckdb", jobs=jobs)
        hashes.append(table_hashes(path))
        assert verify_release(path).key_id == "0011223344556677"
        assert not path.with_name(path.name + ".tmp").exists()
    assert hashes[0] == hashes[1]
    assert len(hashes[0]) == len(TABLES)


def test_it_starts_before_the_folder_is_there_and_waits_until_it_is_whole(tmp_path):
    order = order_of(TABLES)
    with (
        writing_folder(tmp_path / "measured") as held,
        FitProcess(held.path, tmp_path / "r.duckdb", FitOptions(jobs=1)) as process,
    ):
        put_all(held, order, TREES)
        wait_until(lambda: process.fitted() == 1 + 4 + len(PAIRS))
        assert is_alive(process.pid)
        assert not (tmp_path / "r.duckdb").exists()
        held.finish()
        staged = process.staged()
    assert staged.build_id == order.build_id
    assert not (tmp_path / "r.duckdb").exists()  # its parent puts it in place


@needs_proc
@pytest.mark.parametrize("jobs", [1, 2])
def test_it_has_no_handle_on_the_data(tmp_path, monkeypatch, planted, jobs):
    monkeypatch.setenv("SECRET_OF_THE_SESSION", CANARY)
    (planted / "do").write_text("look")
    data = tmp_path / f"{CANARY}.csv"
    data.write_text(CANARY)
    out = tmp_path / "out"
    out.mkdir()
    with (
        data.open() as source,
        writing_folder(tmp_path / "measured") as held,
        FitProcess(held.path, out / "r.duckdb", FitOptions(jobs=jobs)) as process,
    ):
        os.set_inheritable(source.fileno(), True)
        put_all(held, order_of(TABLES), TREES)
        wait_until((planted / "seen.json").exists)
        told = proc(process.pid, "environ") + proc(process.pid, "cmdline")
        files = []
        for fd in os.listdir(f"/proc/{process.pid}/fd"):
            with suppress(FileNotFoundError):  # closed since it was listed
                files.append(os.readlink(f"/proc/{process.pid}/fd/{fd}"))
        assert len(files) >= 3
        assert os.readlink(f"/proc/{process.pid}/cwd") == str(out)
        seen = json.loads((planted / "seen.json").read_text())
    assert CANARY.encode() not in told
    assert (KEY * 2).hex().encode() not in told  # not the sampling key either
    assert not [f for f in files if CANARY in f]
    assert CANARY not in json.dumps(seen)
    assert left_of_the_wall(seen["modules"]) == []
    assert seen["argv"][1:4] == ["-P", "-m", "engine.release.fit_process"]
    assert Path(seen["folder"]) == out
    allowed = {*PASSED_ENVIRONMENT, "PYTHONPATH", "OMP_NUM_THREADS", "LC_CTYPE", "SHLVL", "PWD"}
    assert set(seen["environment"]) <= allowed | {"_"}
    assert 1 <= len([*planted.glob("*.worker")]) <= jobs  # threads of the same process


def test_it_imports_nothing_from_the_folder_of_the_release(folder, tmp_path):
    (tmp_path / "engine").mkdir()
    for name in ("engine/__init__.py", "numpy.py", "duckdb.py", "json.py"):
        (tmp_path / name).write_text("raise SystemExit('imported from the folder of the release')")
    fit(folder, tmp_path / "r.duckdb", jobs=1)


# Errors.


@pytest.mark.parametrize(
    ("what", "kind", "words"),
    [
        ("told", errors.DataError, "this was told"),
        ("memory", errors.StoreError, fit_process.OUT_OF_MEMORY),
        ("kill", errors.StoreError, fit_process.OUT_OF_MEMORY),  # as the system does
        ("value", errors.InternalError, "ValueError in "),
    ],
)
@pytest.mark.parametrize("jobs", [1, pytest.param(2, marks=pytest.mark.ci)])
def test_errors_reach_the_parent_by_kind(folder, tmp_path, planted, what, kind, words, jobs):
    (planted / "do").write_text(what)
    with pytest.raises(errors.TablepackError) as raised:
        fit(folder, tmp_path / "r.duckdb", jobs=jobs)
    assert type(raised.value) is kind
    assert str(raised.value).startswith(words)
    assert CANARY not in str(raised.value)
    assert not (tmp_path / "r.duckdb").exists()
    (planted / "do").unlink()
    fit(folder, tmp_path / "r.duckdb", jobs=1)


# No orphan.


@needs_proc
def test_leaving_it_ends_it_whatever_its_threads_are_at(folder, tmp_path, planted):
    (planted / "do").write_text("slow")
    with FitProcess(folder, tmp_path / "r.duckdb", FitOptions(jobs=2)) as process:
        wait_until(lambda: len([*planted.glob("*.busy")]) == 2)
    assert not is_alive(process.pid)


@needs_proc
def test_it_ends_when_the_parent_is_killed(folder, tmp_path, planted):
    (planted / "do").write_text("slow")
    code = (
        "import sys, time\n"
        f"sys.path.insert(0, {str(tmp_path / 'site')!r})\n"
        "from pathlib import Path\n"
        "from engine.release.fit_process import FitOptions, FitProcess\n"
        f"fit = FitProcess(Path({str(folder)!r}), Path({str(tmp_path / 'r.duckdb')!r}), FitOptions(jobs=2))\n"
        "print(fit.pid, flush=True)\n"
        "time.sleep(600)\n"
    )
    parent = subprocess.Popen(
        [sys.executable, "-c", code], stdout=subprocess.PIPE, cwd=ROOT, text=True, env=environment()
    )
    child = int(parent.stdout.readline())
    wait_until(lambda: len([*planted.glob("*.busy")]) == 2)
    assert is_alive(child)
    parent.kill()
    parent.wait()
    parent.stdout.close()
    wait_until(lambda: not is_alive(child))


# Builds.


def fitted(tables, shelf=None, **settings) -> Shelf:
    return fitted_by(order_of(tables, **settings), TREES, shelf)


def test_tables_of_an_earlier_run_are_not_stored_again():
    shelf = fitted([("A",), ("A", "B"), ("C",)], Shelf([("A",), ("A", "B")]))
    assert set(shelf.tables) == {("C",)}


def test_other_tables_change_nothing():
    alone, all_of_them = fitted([("B", "C", "D")]), fitted(EVERY_SET)
    one, other = (s.tables["B", "C", "D"] for s in (alone, all_of_them))
    assert (one.codes == other.codes).all()
    assert (one.n == other.n).all()
    assert alone.cards["B", "C", "D"] == all_of_them.cards["B", "C", "D"]


def test_what_was_not_measured_is_missed():
    for missing in ((), ("A",), ("A", "B")):
        trees = {columns: tree for columns, tree in TREES.items() if columns != missing}
        with pytest.raises(KeyError):
            fitted_by(order_of([("A", "B")]), trees)


def test_card_by_hand():
    # 20 rows: A = 0 with 12, A = 1 with 8; B = 0 with 10, B = 1 with 10. Of the four pairs (0, 0) has 9,
    # (1, 1) has 7, (0, 1) has 3 and (1, 0) has 1: with a threshold of 4 two of them are released.
    a = np.repeat([0, 0, 1, 1], [9, 3, 7, 1])
    b = np.repeat([0, 1, 1, 0], [9, 3, 7, 1])
    fits = Fits({"A": a, "B": b}, threshold=4)
    trees = {columns: fits.measurement(columns) for columns in (("A",), ("B",), ("A", "B"))}
    order = order_of([("A",), ("A", "B")], names="AB")
    shelf = fitted_by(order, trees | {(): total_measured(20, scale=4)})
    card = shelf.cards["A", "B"]
    assert card.columns == ("A", "B")
    assert card.sub_tables == (("A",), ("B",))
    assert (card.mode, card.profile, card.vintage) == ("sticky", "standard", "v1")
    assert (card.key_id, card.engine_version) == ("0011223344556677", "0.1.0")
    assert (card.low_threshold, card.threshold_mean) == (3, 5)
    # The total's noise has variance 32, the top range takes it over, and each of its two values carries half of what
    # it is off: 2 / 4 of its own, and (2 + 32) / 4. The pairs are locked to these values.
    assert card.noise_sd == pytest.approx((0.5 + 8.5) ** 0.5)
    assert card.noise_sd_total == pytest.approx(4 * 2**0.5)
    assert card.buckets_released == 3  # the top bucket and two cells
    assert card.cells_released == 2
    table = shelf.tables["A", "B"]
    assert card.cells == len(table.n)
    assert card.rows == 20
    filled = table.n[~table.measured].sum()
    assert card.suppressed_share == pytest.approx(filled / 20)
    assert card.rounding_gap == 0
    assert card.rake_converged
    assert card.rake_cycles == table.rake_cycles >= 1
    assert card.rake_error == table.rake_error <= 0.01
    assert card.cells_per_entity == pytest.approx(2 / 20)
    one_way = shelf.cards["A",]
    assert one_way.sub_tables == ()
    assert (one_way.rows, one_way.cells, one_way.buckets_released) == (20, 2, 3)
    assert (one_way.suppressed_share, one_way.rake_cycles) == (0.0, 0)


def test_a_column_with_a_universe_is_fitted_after_the_one_that_decides_it():
    universe = CodedUniverse(declared=Universe(column="B"))
    shelf = fitted([("A",), ("B",)], names="AB", universes={"A": universe})
    assert shelf.tables["A",].n_rows == 50


@pytest.mark.ci
def test_source_and_key_may_be_gone_when_it_fits(tmp_path):
    """What comes out is what a build gives, but for the number of jobs."""
    make_census(tmp_path, people=1_000)
    tables = [("age",), ("age", "sex"), ("age", "education", "region")]
    text = write_spec(tmp_path, tmp_path / "people.parquet", CENSUS, tables, privacy=ACCEPTED)
    whole = table_hashes(build(read(text), tmp_path / "whole.duckdb", jobs=1))
    assert not [*tmp_path.glob("my.key.measured-*")]
    folder = measure(read(text), tmp_path / "measured")
    outside = tmp_path / "outside"
    folder.rename(outside)
    for path in tmp_path.iterdir():
        if path != outside:
            path.unlink()
    assert table_hashes(fit(outside, tmp_path / "r.duckdb", jobs=2)) == whole
