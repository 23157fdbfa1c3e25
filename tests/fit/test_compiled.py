"""Compiled loops give what numpy gives, to the last bit; without them, or while they are compiled, nothing changes."""

from __future__ import annotations

import shutil
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest
from fixtures.compiled import both, unload
from fixtures.fit import contradictory, moving_of, noisy
from fixtures.fitting import PAIR
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from engine import keys, sticky_prf
from engine.errors import InternalError
from engine.fit.candidates import MarginBounds
from engine.fit.compiled import linking, loops
from engine.fit.rake import rake
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


@pytest.mark.parametrize("seed", [0, 1, 2, 3, 5, 6])
def test_the_same_bits_of_tables_that_contradict_each_other(ready, seed):
    """So that bold rounds, exchanges and settling have much to do."""
    plain, compiled = both(lambda: fitted(lambda: contradictory(seed, 150 + 90 * seed)))
    assert plain == compiled
    assert any(one[2][0] > 1 for one in plain)


@pytest.mark.parametrize("cycles", [0, 1, 5, 30])
@pytest.mark.parametrize("n_margins", [1, 2, 3])
@pytest.mark.parametrize("n_cells", [0, 1, 70])
def test_the_same_raking(ready, n_cells, n_margins, cycles):
    """Of one margin and of several, some met from the start, empty sums, zeros, filled cells, and no cells."""

    def raked() -> list[tuple[object, ...]]:
        rng, found = np.random.default_rng(n_cells + 100 * n_margins), []
        for _ in range(20):
            x = rng.uniform(0, 9, n_cells) * (rng.random(n_cells) < 0.8)
            variance = np.where(rng.random(n_cells) < 0.5, rng.uniform(0, 5, n_cells), np.inf)
            margins = []
            for j in range(n_margins):
                of = rng.integers(0, 4 + j, n_cells)
                have = np.bincount(of, weights=x, minlength=5 + j)
                low = (have * rng.choice([0.5, 1.0, 1.5])).astype(np.int64)
                high = low + rng.integers(0, 3, len(low)) + (100 if rng.random() < 0.3 else 0)
                margins.append(MarginBounds(of=of, low=low, high=high))
            made = rake(x, margins, variance=variance, max_cycles=cycles, tolerance=0.001)
            found.append((made.x.tobytes(), made.cycles, made.error))
        return found

    plain, compiled = both(raked)
    assert plain == compiled
    if n_cells == 70 and cycles == 30:
        assert len({cycles for _, cycles, _ in plain}) > 1


@pytest.mark.parametrize("size", [20, 60, 100, 140])
def test_the_same_moves_in_fibres_of_many_cells(ready, size, monkeypatch):
    """Few and many cells of a fibre are sorted in two ways; equal lots, so that ties are left to the order of cells."""
    rng = np.random.default_rng(size)
    table = rng.integers(0, 4, (4, 3, size)) + 1
    starts = [rng.permuted(table, axis=2) for _ in range(4)]
    x = rng.uniform(0, 5, table.size)
    real, ranked = walks._in_fibres, []

    def told(moving, cells, *more):
        ranked.extend(np.bincount(moving.fibre[cells]).tolist())
        return real(moving, cells, *more)

    monkeypatch.setattr(walks, "_in_fibres", told)

    def rounds() -> list[tuple[object, bytes]]:
        found = []
        for most, start in enumerate(starts):
            moving = replace(moving_of(table, start, 2, x), lot=np.arange(table.size) % 3)
            steps = steps_of(moving)
            judged = [(margin, 1 + i) for i, margin in enumerate(moving.asked)]
            found.append((steps.go_on(judged, most, most), moving.n.tobytes()))
            steps.until_idle(moving.boxes, [*judged, (moving.boxes, 1)], 9)
            found.append((steps.penalty(), moving.n.tobytes()))
        return found

    plain, compiled = both(rounds)
    assert plain == compiled
    assert len({n for _, n in plain}) >= 6
    assert all(number > most for most, ((number, _), _) in enumerate(plain[::2]))
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
    """Else the tests above would compare hashlib with itself."""
    unload()
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
        loops.SUMS: ["by_part"],
        loops.WALKING: ["go_on", "until_idle"],
        loops.SETTLING: ["exchange"],
        loops.HASHING: ["siphash"],
    }
    for module, called_for in names.items():
        for name in called_for:
            real = getattr(loops.compiled(module), name)

            def told(*values, real=real, name=name):
                called.add(name)
                return real(*values)

            monkeypatch.setattr(loops.compiled(module), name, told)
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
    assert not any(map(loops.compiled, loops.MODULES))
    assert not sticky_prf._LOOPS


@pytest.mark.parametrize("content", [None, b"", b"{}", "half"])
def test_what_is_not_whole_is_left_and_compiled_again(ready, monkeypatch, tmp_path, content):
    """A torn object would end the process; numpy gives the same."""
    kept = loops.folder()
    damaged = shutil.copytree(kept, tmp_path / "compiled-damaged")
    name = "walking.loops"
    whole = (damaged / name).read_bytes()
    (damaged / name).unlink()
    if content is not None:
        (damaged / name).write_bytes(whole[: len(whole) // 2] if content == "half" else content)
    monkeypatch.setattr(loops, "folder", lambda: damaged)
    # As the compiler would make it again, in seconds.
    again = loops._read(kept, "walking")
    monkeypatch.setattr(linking, "compiled_source", lambda _: again)
    unload()
    assert loops.are_compiled()
    assert not loops.load_compiled()
    assert not loops.are_compiled()  # so that the next build compiles it
    assert loops.load_tokens() is None
    assert not any(map(loops.compiled, loops.MODULES))
    assert not sticky_prf._LOOPS
    loops.compile_all()
    assert (damaged / name).read_bytes() == whole
    assert loops.load_compiled()


def test_machine_code_that_gives_other_bits_is_not_used(ready, monkeypatch, tmp_path):
    """Found where it is compiled: then no build looks for it."""
    kept = loops.folder()
    other = shutil.copytree(kept, tmp_path / "compiled-other")
    (other / loops.READY).unlink()
    monkeypatch.setattr(loops, "folder", lambda: other)
    real = loops._brought_in

    def wrong(folder):
        found = real(folder)
        found[loops.HASHING] = SimpleNamespace(siphash=lambda start, words, out: out.fill(1))
        return found

    monkeypatch.setattr(loops, "_brought_in", wrong)
    with pytest.raises(InternalError, match="other hashes than numpy"):
        loops.compile_all()
    assert not loops.are_compiled()
    monkeypatch.setattr(loops, "_brought_in", real)
    loops.compile_all()
    assert loops.are_compiled()


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


def test_llvmlite_that_cannot_be_loaded_is_as_if_it_were_not_there(monkeypatch):
    """Its library is loaded at the first call, not when it is imported."""
    llvm = pytest.importorskip("llvmlite.binding", reason="the extra `fast` is not installed")

    def broken():
        raise OSError("could not find the library")

    monkeypatch.setattr(llvm, "get_host_cpu_name", broken)
    loops.folder.cache_clear()
    unload()
    try:
        assert loops.folder() is None
        assert not loops.load_compiled()
    finally:
        loops.folder.cache_clear()


def test_other_sources_have_another_folder(monkeypatch, tmp_path):
    pytest.importorskip("numba", reason="the extra `fast` is not installed")
    monkeypatch.setattr(loops, "_HOME", tmp_path)
    (tmp_path / "sources").mkdir()
    found = []
    try:
        for name in ("calls.py", "linking.py", "sources/sums.py", "sources/another.py"):
            (tmp_path / "calls.py").touch()
            (tmp_path / "linking.py").touch()
            (tmp_path / name).write_text("# other loops")
            loops.folder.cache_clear()
            found.append(loops.folder())
    finally:
        loops.folder.cache_clear()
    assert len(set(found)) == 4
    assert {one.parent for one in found} == {tmp_path / "__pycache__"}


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


def test_loading_takes_no_numba(ready):
    """Which takes ten times as long to bring in as all loops."""
    words = (
        "import sys; from engine.fit import load_compiled; assert load_compiled(); "
        "print(*sorted({'numba', 'scipy', 'llvmlite'} & sys.modules.keys()))"
    )
    done = subprocess.run([sys.executable, "-c", words], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["llvmlite"]


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
    own, _, sources = kept.name.rpartition("-")
    old = [kept.with_name(name) for name in (f"{own}-0000", "compiled-0000")]
    other = kept.with_name(f"compiled-0000-{sources}")  # of another machine that shares the folder
    for one in (*old, other):
        one.mkdir(exist_ok=True)
    loops.compile_all()
    unload()
    assert kept.exists()
    assert not any(one.exists() for one in old)
    assert other.exists()
    shutil.rmtree(other)
