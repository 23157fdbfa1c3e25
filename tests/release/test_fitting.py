from __future__ import annotations

import os
import pickle
import subprocess
import sys
import threading
import time
from concurrent.futures import Future
from pathlib import Path

import numpy as np
import pytest
from fixtures.fit import KEY, Fits, integer_column, measured, text_column, top_for, total_measured
from fixtures.fitting import (
    EVERY_SET,
    TREES,
    Shelf,
    environment,
    is_alive,
    order_of,
    proc,
)
from fixtures.pipeline import ROOT

from engine.errors import InternalError, StoreError
from engine.fit import lock_table
from engine.release import FitProcess
from engine.release.fitter import Finish, FitAnswer, Fitter, needed_tables
from engine.schema import CodedUniverse, Universe

CANARY = "canary-7f3a9c"


def run(fitter, sets):
    fitter.take(total_measured(50))
    for columns in [*((name,) for name in "ABCD"), *sets]:
        fitter.take(TREES[columns])


def fitted(tables, shelf=None, **settings) -> Shelf:
    shelf = shelf or Shelf()
    run(Fitter(order_of(tables, **settings), shelf), needed_tables(tuple(tables)))
    return shelf


def test_needed_tables():
    assert needed_tables(()) == ()
    assert needed_tables((("A",), ("B",))) == ()
    assert needed_tables((("A", "B"),)) == (("A", "B"),)
    assert needed_tables((("B",), ("A", "B", "C"), ("C", "D"))) == (
        ("A", "B"),
        ("A", "C"),
        ("B", "C"),
        ("C", "D"),
        ("A", "B", "C"),
    )
    four = needed_tables((("A", "B", "C", "D"),))
    assert len(four) == 6 + 4 + 1
    assert four == tuple(cs for cs in EVERY_SET if len(cs) > 1)


def test_only_published_tables_are_stored():
    shelf = fitted([("A",), ("A", "B", "C")])
    assert set(shelf.tables) == {("A",), ("A", "B", "C")}
    assert set(shelf.supports) == {"A", "B", "C"}


def test_tables_of_an_earlier_run_are_not_stored_again():
    shelf = fitted([("A",), ("A", "B"), ("C",)], Shelf([("A",), ("A", "B")]))
    assert set(shelf.tables) == {("C",)}


def test_other_tables_change_nothing():
    alone, all_of_them = fitted([("B", "C", "D")]), fitted(EVERY_SET)
    one, other = (s.tables["B", "C", "D"] for s in (alone, all_of_them))
    assert (one.codes == other.codes).all()
    assert (one.n == other.n).all()
    assert alone.cards["B", "C", "D"] == all_of_them.cards["B", "C", "D"]


def test_order_of_columns_and_of_tables_in_the_header_changes_nothing():
    one, other = fitted(EVERY_SET), fitted(EVERY_SET[::-1], names="DCBA")
    for columns in EVERY_SET:
        assert (one.tables[columns].codes == other.tables[columns].codes).all()
        assert (one.tables[columns].n == other.tables[columns].n).all()


def test_total_comes_first():
    fitter = Fitter(order_of([("A",)]), Shelf())
    with pytest.raises(InternalError, match="total"):
        fitter.take(TREES["A",])


@pytest.mark.parametrize("given", [(), (("A",),), (("A",), ("B",))])
def test_narrower_tables_come_first(given):
    fitter = Fitter(order_of([("A", "B", "C")]), Shelf())
    fitter.take(total_measured(50))
    for columns in given:
        fitter.take(TREES[columns])
    with pytest.raises(InternalError, match="before the narrower"):
        fitter.take(TREES["A", "B", "C"])


def test_total_itself_is_no_table():
    assert Fitter(order_of([("A",)]), Shelf()).take(total_measured(50)) is None


def test_negative_total_fits_nothing():
    shelf = Shelf()
    fitter = Fitter(order_of([("A",)]), shelf)
    fitter.take(total_measured(-2))
    assert fitter.take(TREES["A",]).n_rows == 0
    assert shelf.cards["A",].suppressed_share == 0.0


def test_memory_follows_what_is_still_needed():
    fitter = Fitter(order_of([("A", "B", "C"), ("C", "D")]), Shelf())
    fitter.take(total_measured(50))
    for name in "ABCD":
        fitter.take(TREES[name,])
    held = []
    for columns in (("A", "B"), ("A", "C"), ("B", "C"), ("C", "D"), ("A", "B", "C")):
        fitter.take(TREES[columns])
        held.append({c for c in fitter._tables if len(c) > 1})
    pairs = [("A", "B"), ("A", "C"), ("B", "C")]
    assert held == [set(pairs[:1]), set(pairs[:2]), set(pairs), set(pairs), set()]


def test_limits_reach_the_fit():
    data = np.repeat([0, 9], [10, 3])  # 8..15 passes with 3 rows, 9 alone does not
    tree = measured(("A",), data, (4,), threshold=4)
    for limits, largest in (({"A": (0, 9)}, 9), ({}, 15)):
        shelf = Shelf()
        fitter = Fitter(order_of([("A",)], names="A", limits=limits), shelf)
        fitter.take(total_measured(1000))
        fitter.take(tree)
        assert shelf.supports["A"].grid.max() == largest


def test_ranked_columns_are_limited_to_their_ranks():
    shelf = Shelf()
    fitter = Fitter(order_of([("T",)], columns=(text_column("T"),)), shelf)
    tree = measured(("T",), np.repeat([0, 4], [10, 3]), (3,), threshold=4, values=tuple("abcde"))
    fitter.take(total_measured(1000))
    fitter.take(tree)
    assert shelf.supports["T"].grid.max() == 4
    assert shelf.supports["T"].values == tuple("abcde")


def test_card_by_hand():
    # 20 rows: A = 0 with 12, A = 1 with 8; B = 0 with 10, B = 1 with 10. Of the four pairs (0, 0) has 9,
    # (1, 1) has 7, (0, 1) has 3 and (1, 0) has 1: with a threshold of 4 two of them are released.
    a = np.repeat([0, 0, 1, 1], [9, 3, 7, 1])
    b = np.repeat([0, 1, 1, 0], [9, 3, 7, 1])
    fits = Fits({"A": a, "B": b}, threshold=4)
    shelf = Shelf()
    fitter = Fitter(order_of([("A",), ("A", "B")], names="AB"), shelf)
    fitter.take(total_measured(20, scale=4))
    for columns in (("A",), ("B",), ("A", "B")):
        fitter.take(fits.measurement(columns))
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


def test_sampling_keys_differ_by_column_set():
    wide = np.repeat([1 << 20], 60) + np.arange(60) * 997
    columns = tuple(integer_column(name) for name in "AB")
    shelf = Shelf()
    fitter = Fitter(order_of([("A",), ("B",)], columns=columns), shelf)
    fitter.take(total_measured(60))
    for name in "AB":
        fitter.take(measured((name,), wide, (top_for(wide),), threshold=50))
    drawn = [set(shelf.supports[name].grid.tolist()) for name in "AB"]
    assert len(drawn[0] & drawn[1]) <= 3


# Under way.


class Later:
    """Workers that are done when the test says so."""

    def __init__(self):
        self.jobs: list[tuple[dict, Future]] = []

    def lock(self, **job) -> Future:
        self.jobs.append((job, Future()))
        return self.jobs[-1][1]

    def done(self, number: int) -> None:
        job, future = self.jobs[number]
        future.set_result(lock_table(**job))


def under_way(tables, sets) -> tuple[Fitter, Shelf, Later]:
    """A fitter that has settled all one-way tables and begun some others."""
    shelf, workers = Shelf(), Later()
    fitter = Fitter(order_of(tables), shelf, workers)
    fitter.begin(total_measured(50))
    for name in "ABCD":
        fitter.begin(TREES[name,])
    fitter.settle(0)
    for columns in sets:
        fitter.begin(TREES[columns])
    return fitter, shelf, workers


def test_what_is_told_of_measurements():
    fitter = Fitter(order_of([("A",)]), Shelf())
    fitter.begin(total_measured(50))
    fitter.begin(TREES["A",])
    assert fitter.settle(9) == [FitAnswer(columns=()), FitAnswer(columns=("A",), cells=4, gap=0)]
    assert fitter.settle(0) == []


def test_tables_are_stored_in_the_order_in_which_they_came():
    pairs = [("A", "B"), ("A", "C"), ("C", "D")]
    fitter, shelf, workers = under_way(pairs, pairs)
    workers.done(2)
    workers.done(1)
    assert fitter.settle(3) == []  # the first is still under way, and so many may be
    assert list(shelf.tables) == []
    workers.done(0)
    assert [f.columns for f in fitter.settle(3)] == pairs
    assert list(shelf.tables) == pairs


def test_settling_waits_for_no_more_than_it_must():
    pairs = [("A", "B"), ("A", "C"), ("C", "D")]
    fitter, shelf, workers = under_way(pairs, pairs)
    workers.done(0)
    assert [f.columns for f in fitter.settle(2)] == pairs[:1]
    waiter = threading.Timer(0.05, workers.done, (1,))
    waiter.start()
    assert [f.columns for f in fitter.settle(1)] == pairs[1:2]
    assert list(shelf.tables) == pairs[:2]
    waiter.join()


def test_a_table_waits_for_the_narrower_ones_it_is_locked_to_and_no_others():
    pairs = [("A", "B"), ("A", "C"), ("B", "C"), ("C", "D")]
    fitter, shelf, workers = under_way([*pairs, ("A", "B", "C")], pairs)
    waiters = [threading.Timer(0.02 * i, workers.done, (i,)) for i in range(3)]
    for waiter in waiters:
        waiter.start()
    fitter.begin(TREES["A", "B", "C"])  # C, D is not done yet
    assert list(shelf.tables) == pairs[:3]
    for i in (3, 4):
        workers.done(i)
    assert [f.columns for f in fitter.settle(0)] == [*pairs, ("A", "B", "C")]
    alone = fitted([("A", "B", "C")]).tables["A", "B", "C"]
    assert (shelf.tables["A", "B", "C"].codes == alone.codes).all()
    assert (shelf.tables["A", "B", "C"].n == alone.n).all()


def test_a_missing_narrower_table_is_not_waited_for():
    """What is under way is settled; then it is known that the table came too early."""
    fitter, _, workers = under_way([("A", "B", "C")], [("A", "B"), ("A", "C")])
    for i in range(2):
        workers.done(i)
    with pytest.raises(InternalError, match="before the narrower"):
        fitter.begin(TREES["A", "B", "C"])


def test_the_error_of_a_table_under_way_is_raised():
    fitter, shelf, workers = under_way([("A", "B"), ("A", "C")], [("A", "B"), ("A", "C")])
    workers.jobs[0][1].set_exception(StoreError("told"))
    workers.done(1)
    with pytest.raises(StoreError, match="told"):
        fitter.settle(0)
    assert list(shelf.tables) == []


def test_memory_follows_what_is_still_needed_with_tables_under_way_too():
    pairs = [("A", "B"), ("A", "C"), ("B", "C"), ("C", "D")]
    fitter, _, workers = under_way([("A", "B", "C"), ("C", "D")], pairs)
    for i in range(4):
        workers.done(i)
    fitter.begin(TREES["A", "B", "C"])
    held = {c for c in fitter._tables if len(c) > 1}
    assert held == set(pairs[:3])
    workers.done(4)
    fitter.settle(0)
    assert {c for c in fitter._tables if len(c) > 1} == set()


def test_a_column_comes_after_the_one_that_decides_its_universe():
    universe = CodedUniverse(declared=Universe(column="A"))
    fitter = Fitter(order_of([("A",), ("B",)], universes={"B": universe}), Shelf())
    fitter.take(total_measured(50))
    with pytest.raises(InternalError, match="before the one that decides its universe"):
        fitter.take(TREES["B",])
    fitter.take(TREES["A",])
    assert fitter.take(TREES["B",]).n_rows == 50


def test_total_comes_first_for_wider_tables_too():
    with pytest.raises(InternalError, match="total"):
        Fitter(order_of([("A", "B")]), Shelf()).begin(TREES["A", "B"])


# The process boundary.


needs_proc = pytest.mark.skipif(
    not Path("/proc/self/fd").is_dir(), reason="no /proc on this system"
)


@needs_proc
def test_child_has_no_handle_on_the_data(tmp_path, monkeypatch):
    monkeypatch.setenv("CANARY", CANARY)
    monkeypatch.setenv("HOME", f"/home/{CANARY}")
    data = tmp_path / f"{CANARY}.csv"
    data.write_text(CANARY)
    released = tmp_path / "out"
    released.mkdir()
    with data.open() as source:
        os.set_inheritable(source.fileno(), True)
        with FitProcess(order_of([("A",)], released / "r.duckdb")) as fit:
            fit.send(total_measured(50), ahead=0)
            fit.send(TREES["A",], ahead=0)
            assert CANARY.encode() in proc(os.getpid(), "environ") + b"".join(
                os.readlink(f"/proc/self/fd/{fd}").encode()
                for fd in os.listdir("/proc/self/fd")
                if os.path.exists(f"/proc/self/fd/{fd}")
            )
            assert CANARY.encode() not in proc(fit.pid, "environ")
            assert CANARY.encode() not in proc(fit.pid, "cmdline")
            open_files = [
                os.readlink(f"/proc/{fit.pid}/fd/{fd}") for fd in os.listdir(f"/proc/{fit.pid}/fd")
            ]
            assert len(open_files) >= 3
            assert not [f for f in open_files if CANARY in f]
            assert CANARY.encode() not in proc(fit.pid, "maps")
            assert os.readlink(f"/proc/{fit.pid}/cwd") == str(released)
            # No argument holds the sampling key either.
            assert (KEY * 2).hex().encode() not in proc(fit.pid, "cmdline") + proc(
                fit.pid, "environ"
            )


@needs_proc
def test_leaving_without_finish_ends_the_child(tmp_path):
    with FitProcess(order_of([("A",)], tmp_path / "r.duckdb")) as fit:
        fit.send(total_measured(50), ahead=0)
        pid = fit.pid
        assert Path(f"/proc/{pid}").exists()
    assert not Path(f"/proc/{pid}").exists()
    assert not (tmp_path / "r.duckdb").exists()


@needs_proc
def test_child_ends_when_its_parent_is_killed(tmp_path):
    path = tmp_path / "order.pickle"
    path.write_bytes(pickle.dumps(order_of([("A",)], tmp_path / "r.duckdb")))
    code = (
        "import pickle, sys, time\n"
        "from engine.release.fit_process import FitProcess\n"
        f"fit = FitProcess(pickle.load(open({str(path)!r}, 'rb')))\n"
        "print(fit.pid, flush=True)\n"
        "time.sleep(60)\n"
    )
    parent = subprocess.Popen(
        [sys.executable, "-c", code], stdout=subprocess.PIPE, cwd=ROOT, text=True, env=environment()
    )
    child = int(parent.stdout.readline())
    assert is_alive(child)
    parent.kill()
    parent.wait()
    parent.stdout.close()
    deadline = time.monotonic() + 10
    while is_alive(child) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert not is_alive(child)


def test_a_build_through_the_process_makes_the_release(tmp_path):
    path = tmp_path / "r.duckdb"
    with FitProcess(order_of([("A",), ("A", "B")], path)) as fit:
        assert fit.finished == frozenset()
        assert fit.send(total_measured(50), ahead=2) == []
        assert fit.send(TREES["A",], ahead=2) == []
        assert len(fit.send(TREES["B",], ahead=2)) == 1
        assert len(fit.send(TREES["A", "B"], ahead=0)) == 3
        *_, last = fit.finish()
    assert last == {"release": str(path)}
    assert path.exists()


def test_errors_of_the_child_are_raised_in_the_parent(tmp_path):
    with FitProcess(order_of([("A", "B")], tmp_path / "r.duckdb")) as fit:
        fit.send(total_measured(50), ahead=0)
        with pytest.raises(InternalError, match="before the narrower"):
            fit.send(TREES["A", "B"], ahead=0)
        with pytest.raises(InternalError, match="ended"):  # the child has gone
            fit.send(TREES["A",], ahead=0)


def test_child_that_cannot_start_a_build_leaves_nothing_open(tmp_path):
    with FitProcess(order_of([("A",)], tmp_path / "r.duckdb")):
        with pytest.raises(StoreError):
            FitProcess(order_of([("A",)], tmp_path / "r.duckdb"))


def test_child_imports_nothing_from_the_folder_of_the_release(tmp_path):
    (tmp_path / "engine").mkdir()
    for name in ("engine/__init__.py", "numpy.py", "duckdb.py", "json.py"):
        (tmp_path / name).write_text("raise SystemExit('imported from the folder of the release')")
    with FitProcess(order_of([("A",)], tmp_path / "r.duckdb")) as fit:
        fit.send(total_measured(50), ahead=0)


def test_parent_that_runs_from_a_checkout_without_installing(tmp_path):
    # sys.path[0] is "" there: the child must find the package although it starts elsewhere.
    path = tmp_path / "order.pickle"
    path.write_bytes(pickle.dumps(order_of([("A",)], tmp_path / "r.duckdb")))
    code = (
        "import pickle\n"
        "from engine.release.fit_process import FitProcess\n"
        f"with FitProcess(pickle.load(open({str(path)!r}, 'rb'))): pass\n"
    )
    bare = {k: v for k, v in os.environ.items() if k != "PYTHONPATH"}
    subprocess.run([sys.executable, "-c", code], cwd=ROOT, env=bare, check=True)


def test_modules_of_the_child_are_of_its_side(tmp_path):
    messages = b""
    path = tmp_path / "r.duckdb"
    for message in (order_of([("A",)], path), total_measured(50), TREES["A",], Finish()):
        raw = pickle.dumps(message)
        messages += len(raw).to_bytes(8, "little") + raw
    code = (
        "import sys\n"
        "from engine.release.fit_process import serve\n"
        "serve(sys.stdin.buffer, open(sys.argv[1], 'wb'))\n"
        "print(*sys.modules)\n"
    )
    child = subprocess.run(
        [sys.executable, "-c", code, str(tmp_path / "answers")],
        input=messages,
        stdout=subprocess.PIPE,
        cwd=ROOT,
        env=environment(),
        check=True,
    )
    loaded = set(child.stdout.decode().split())
    assert {"engine.release.fit_process", "engine.fit.locking", "engine.store.staging"} <= loaded
    left = ("engine.source", "engine.measure", "engine.spec")
    assert not [name for name in loaded if name.startswith(left)]
    assert path.exists()


def test_a_closed_pipe_ends_the_service_quietly(tmp_path):
    for raw in (b"", b"\x01\x00", len(pickle.dumps("x")).to_bytes(8, "little") + pickle.dumps("x")):
        code = "import sys; from engine.release.fit_process import serve; serve(sys.stdin.buffer, sys.stdout.buffer)"
        run = subprocess.run(
            [sys.executable, "-c", code],
            input=raw,
            capture_output=True,
            env=environment(),
            cwd=ROOT,
        )
        assert (run.returncode, run.stdout, run.stderr) == (0, b"", b"")
