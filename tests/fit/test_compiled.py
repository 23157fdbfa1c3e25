"""Compiled loops give what numpy gives, to the last bit; without them, or while they are compiled, nothing changes."""

from __future__ import annotations

import gc
import shutil
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import numpy as np
import pytest
from fixtures.compiled import both, unload
from fixtures.fit import contradictory, moving_of, noisy
from fixtures.fitting import PAIR
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from engine import keys, sticky_prf
from engine.fit.compiled import loops
from engine.fit.whole import walks
from engine.fit.whole.steps import steps_of
from engine.keys import entity_tokens
from engine.release import fit_workers
from engine.release.fit_workers import FitWorkers
from engine.sticky_prf import siphash

EVERY = [("A", "B"), ("A", "B", "C"), ("A", "B", "D"), ("B", "C", "D"), ("A", "B", "C", "D")]


def fitted(make) -> list[object]:
    """All that a fit gives of tables of two and more columns."""
    fits = make()
    out = []
    for columns in EVERY:
        table = fits.table(*columns)
        raked = (table.gap, table.rake_cycles, table.rake_error)
        out.append((table.codes.tobytes(), table.n.tobytes(), raked))
    return out


@pytest.mark.parametrize("seed", range(12))
def test_the_same_bits_of_noisy_tables(ready, seed):
    plain, compiled = both(lambda: fitted(lambda: noisy(seed, 50 + 173 * seed)))
    assert plain == compiled


@pytest.mark.parametrize("seed", range(6))
def test_the_same_bits_of_tables_that_contradict_each_other(ready, seed):
    """So that bold rounds, exchanges and settling have much to do."""
    plain, compiled = both(lambda: fitted(lambda: contradictory(seed, 150 + 90 * seed)))
    assert plain == compiled
    assert any(one[2][0] > 1 for one in plain)


@pytest.mark.parametrize("size", [20, 60, 100, 140])
def test_the_same_moves_in_fibres_of_many_cells(ready, size, monkeypatch):
    """Few and many cells of a fibre are sorted in two ways; equal lots, so that ties are left to the order of cells."""
    rng = np.random.default_rng(size)
    table = rng.integers(0, 4, (4, 3, size)) + 1
    start, x = rng.permuted(table, axis=2), rng.uniform(0, 5, table.size)
    real, ranked = walks._in_fibres, []

    def told(moving, cells, *more):
        ranked.extend(np.bincount(moving.fibre[cells]).tolist())
        return real(moving, cells, *more)

    monkeypatch.setattr(walks, "_in_fibres", told)

    def rounds() -> list[tuple[bytes, bytes]]:
        moving = replace(moving_of(table, start, 2, x), lot=np.arange(table.size) % 3)
        steps, found = steps_of(moving), []
        judged = [(margin, 1 + i) for i, margin in enumerate(moving.asked)]
        for number in range(12):
            moves = steps.single(moving.asked[number % 2], judged, number % 3, number)
            steps.move(*moves)
            found.append((moves[0].tobytes(), moves[1].tobytes()))
        return found

    plain, compiled = both(rounds)
    assert plain == compiled
    assert sum(len(source) > 0 for source, _ in plain) > 1
    assert 1 < max(ranked) <= size
    assert (max(ranked) > 24) == (size > 24)


@pytest.mark.parametrize("n", [0, 1, 255, 256, 257, 40_000])
@pytest.mark.parametrize("n_words", [1, 2, 7])
def test_the_same_hashes(ready, n, n_words):
    words = list(np.random.default_rng(n).integers(0, 1 << 64, (n_words, n), dtype=np.uint64))
    strided = list(np.stack(words, axis=1).T)
    plain, compiled = both(lambda: siphash(bytes(range(16)), words).tolist())
    assert plain == compiled
    assert both(lambda: siphash(bytes(range(16)), strided).tolist())[1] == plain


ENDS = np.iinfo(np.int64)
IDS = st.one_of(
    st.integers(ENDS.min, ENDS.max), st.text(max_size=300), st.binary(max_size=300), st.booleans()
)


@settings(deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(ids=st.lists(IDS, max_size=9), name=st.text(max_size=160), key=st.binary(max_size=64))
@example(ids=[], name="id", key=b"")
@example(ids=["x" * n for n in (*range(100, 121), 230, 248)], name="id", key=b"k")
@example(ids=[1], name="n" * 119, key=b"k" * 64)
@example(ids=[1, "a"], name="n" * 120, key=b"k")
def test_the_same_tokens(ready, ids, name, key):
    """Also of messages that end where a block of 128 bytes does, and of names that no loop takes."""
    plain, compiled = both(lambda: entity_tokens(key, ids, entity_column=name).tolist())
    assert plain == compiled


@pytest.mark.parametrize("n", [0, 1, 700])
def test_the_same_tokens_of_numbers_in_an_array(ready, n):
    edges = [0, -1, 9, 10, -10, ENDS.min, ENDS.max, 10**18, 10**18 - 1, -(10**18)]
    ids = np.array(edges + np.random.default_rng(n).integers(ENDS.min, ENDS.max, n).tolist())
    plain, compiled = both(lambda: entity_tokens(b"k", ids, entity_column="id").tolist())
    assert plain == compiled
    backwards = both(lambda: entity_tokens(b"k", ids[::-1], entity_column="id").tolist())[1]
    assert backwards == plain[::-1]


def test_tokens_are_made_by_the_loop(ready, monkeypatch):
    """Else the tests above would compare hashlib with itself; a process of the fit does without it."""
    unload()
    assert loops.load_compiled()
    assert loops.compiled(loops.TOKENS) is None
    module, called = loops.load_tokens(), []
    keys.use_loop(module)
    try:
        for name in ("numbers", "digests"):
            real = getattr(module, name)
            monkeypatch.setattr(
                module, name, lambda *v, real=real, name=name: (called.append(name), real(*v))
            )
        entity_tokens(b"k", np.array([5]), entity_column="id")
        entity_tokens(b"k", ["5"], entity_column="id")
    finally:
        unload()
    assert called == ["numbers", "digests", "digests"]


def test_every_loop_is_called(ready, monkeypatch):
    """Else the tests above would compare numpy with itself."""
    assert loops.load_compiled()
    called = set()
    names = {
        loops.RAKING: ["rake_by_variance"],
        loops.SUMS: ["by_part", "move", "penalty"],
        loops.SINGLE: ["single_moves"],
        loops.PAIRS: ["exchanges"],
        loops.SETTLING: ["exchange"],
        loops.HASHING: ["siphash"],
    }
    for module, called_for in names.items():
        for name in called_for:
            real = getattr(sys.modules[module], name)

            def told(*values, real=real, name=name):
                called.add(name)
                return real(*values)

            monkeypatch.setattr(sys.modules[module], name, told)
    try:
        fitted(lambda: contradictory(2, 300))
    finally:
        unload()
    assert called == {name for one in names.values() for name in one}


def test_nothing_is_loaded_before_all_is_compiled(monkeypatch, tmp_path):
    monkeypatch.setattr(loops, "folder", lambda: tmp_path / "none")
    unload()
    assert not loops.are_compiled()
    assert not loops.load_compiled()
    assert loops.load_tokens() is None
    assert not any(map(loops.compiled, (*loops.MODULES, loops.TOKENS)))
    assert not sticky_prf._LOOPS


def test_what_cannot_be_brought_in_is_left(ready, monkeypatch):
    unload()

    def broken(name):
        raise OSError

    monkeypatch.setattr(loops.importlib, "import_module", broken)
    assert not loops.load_compiled()
    assert loops.load_tokens() is None
    assert gc.isenabled()
    assert not any(map(loops.compiled, loops.MODULES))


def test_without_numba_there_is_no_folder(monkeypatch):
    monkeypatch.setattr(loops, "_DECIDING", ("no-such-package-of-anybody",))
    loops.folder.cache_clear()
    try:
        assert loops.folder() is None
        assert not loops.can_compile()
        assert not loops.are_compiled()
        loops.compile_all()
    finally:
        loops.folder.cache_clear()


def test_other_sources_have_another_folder(monkeypatch, tmp_path):
    pytest.importorskip("numba", reason="the extra `fast` is not installed")
    one = loops.folder()
    changed = tmp_path / "changed.py"
    changed.write_text("# other loops")
    monkeypatch.setattr(loops, "_source", lambda module: changed)
    loops.folder.cache_clear()
    try:
        other = loops.folder()
    finally:
        loops.folder.cache_clear()
    assert one != other
    assert one.parent == other.parent


def test_a_build_starts_to_compile_and_ends_it(monkeypatch):
    started = []
    real = fit_workers.start_interpreter

    def start(module, folder, *arguments):
        started.append((module, real("engine.release.fit_workers", folder)))
        return started[-1][1]

    monkeypatch.setattr(fit_workers, "start_interpreter", start)
    monkeypatch.setattr(fit_workers, "can_compile", lambda: True)
    monkeypatch.setattr(fit_workers, "are_compiled", lambda: False)
    with FitWorkers(2) as workers:
        workers._spent, workers._done = 9.0, 1
        workers.lock(**PAIR).result(timeout=60)
    assert [module for module, _ in started] == [
        *["engine.release.fit_workers"] * 2,
        "engine.fit.compiled",
    ]
    assert all(child.poll() is not None for _, child in started)


@pytest.mark.parametrize(
    ("own", "found"), [("engine.release.fit_process", set()), (None, {"scipy"})]
)
def test_our_own_processes_leave_out_what_no_loop_uses_and_can_import_it_later(ready, own, found):
    words = (
        "import sys; from importlib.machinery import ModuleSpec; import __main__; "
        f"__main__.__spec__ = {own!r} and ModuleSpec({own!r}, None); "
        "from engine.fit import load_compiled; assert load_compiled(); "
        "print(*sorted({'cffi', 'scipy'} & sys.modules.keys())); import scipy.linalg"
    )
    done = subprocess.run([sys.executable, "-c", words], capture_output=True, text=True, check=True)
    assert {*done.stdout.split()} - {"cffi"} == found


def test_a_thread_hides_nothing_from_others(ready):
    words = (
        "import sys, threading; from importlib.machinery import ModuleSpec; import __main__; "
        "__main__.__spec__ = ModuleSpec('engine.release.fit_process', None); "
        "from engine.fit import load_tokens; thread = threading.Thread(target=load_tokens); thread.start(); "
        "thread.join(); print('engine.fit.compiled.tokens' in sys.modules, 'scipy' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", words], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["True", "True"]


def test_several_threads_get_whole_loops(ready):
    """None of them is given a module that another one is still importing."""
    unload()
    with ThreadPoolExecutor(6) as threads:
        found = [threads.submit(loops.load_tokens) for _ in range(6)]
    try:
        assert all(hasattr(one.result(), "digests") for one in found)
    finally:
        unload()


def test_the_compiler_ends_with_its_parent():
    waiting = "import time; from engine.fit.compiled.__main__ import end_with_parent as e; e(); time.sleep(60)"
    child = subprocess.Popen([sys.executable, "-c", waiting], stdin=subprocess.PIPE)
    time.sleep(0.5)
    assert child.poll() is None
    child.stdin.close()
    assert child.wait(timeout=20) == 0


def test_older_machine_code_goes(ready):
    kept = loops.folder()
    old = kept.with_name("compiled-0000")
    old.mkdir(exist_ok=True)
    loops.compile_all()
    unload()
    assert kept.exists()
    assert not old.exists()
    shutil.rmtree(old, ignore_errors=True)
