"""Compiled loops give what numpy gives, to the last bit; without them, or while they are compiled, nothing changes."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from types import SimpleNamespace

import numpy as np
import pytest
from fixtures.compiled import both, unload
from fixtures.fit import KEY, contradictory, noisy
from fixtures.wide import locked, people
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from engine import keys, sticky_prf
from engine.errors import InternalError
from engine.fit.compiled import linking, loops
from engine.fit.wide import fit_wide
from engine.keys import entity_tokens
from engine.sticky_prf import siphash


@pytest.fixture(scope="module")
def ready() -> Iterator[None]:
    """All loops are compiled, and none is in use."""
    pytest.importorskip("numba", reason="the extra `fast` is not installed")
    loops.compile_all()
    yield
    unload()


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


@pytest.mark.ci
@pytest.mark.parametrize("seed", [1, 4, 11])
def test_the_same_bits_of_noisy_tables(ready, seed):
    plain, compiled = both(lambda: fitted(lambda: noisy(seed, 50 + 173 * seed)))
    assert plain == compiled


@pytest.mark.ci
@pytest.mark.parametrize("seed", [2, 5])
def test_the_same_bits_of_tables_that_contradict_each_other(ready, seed):
    """So that bold rounds, exchanges and settling have much to do."""
    plain, compiled = both(lambda: fitted(lambda: contradictory(seed, 150 + 90 * seed)))
    assert plain == compiled
    assert any(one[2][0] > 1 for one in plain)


@pytest.mark.ci
@pytest.mark.parametrize("target", [None, "age"])
def test_the_same_bits_of_wide_tables(ready, target):
    rows = people(700)
    supports, tables = locked(rows, [("age", "region", "wealth"), ("major", "region", "spouse")])

    def made():
        fit = fit_wide(tuple(sorted(rows)), supports, tables, key=KEY, target=target)
        return fit.codes.tobytes(), fit.n.tobytes(), fit.off, fit.impossible

    plain, compiled = both(made)
    assert plain == compiled


@pytest.mark.parametrize("n", [0, 257, 40_000])
@pytest.mark.parametrize("n_words", [1, 7])
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


@pytest.mark.ci
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


def test_nothing_is_loaded_before_all_is_compiled(monkeypatch, tmp_path):
    monkeypatch.setattr(loops, "folder", lambda: tmp_path / "none")
    unload()
    assert not loops.are_compiled()
    assert not loops.load_compiled()
    assert loops.load_tokens() is None
    assert not any(map(loops.compiled, loops.MODULES))
    assert not sticky_prf._LOOPS


def test_what_is_not_whole_is_left_and_compiled_again(ready, monkeypatch, tmp_path):
    """A torn object would end the process; numpy gives the same."""
    kept = loops.folder()
    damaged = shutil.copytree(kept, tmp_path / "compiled-damaged")
    name = "walking.loops"
    whole = (damaged / name).read_bytes()
    (damaged / name).unlink()  # linked to the file in use
    (damaged / name).write_bytes(whole[: len(whole) // 2])
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
