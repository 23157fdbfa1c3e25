"""Loops as objects: compiled without Python, called with arrays and numbers, and what is refused."""

from __future__ import annotations

import subprocess
import sys
from itertools import count
from pathlib import Path

import numpy as np
import pytest

from engine.errors import InternalError
from engine.fit.compiled import calls, linking, loops
from engine.fit.compiled.calls import Kind

pytest.importorskip("numba", reason="the extra `fast` is not installed")

HEAD = """
import numpy as np
from numba import boolean, float64, int64, njit, types, uint8, uint64, void
__all__ = ["loop"]
"""
EVERY = """
@njit(types.Tuple((float64[:, ::1], int64, float64, uint8[::1]))(
    int64, uint64, float64, boolean, int64[::1], float64[:, :], uint8[::1]))
def loop(a, b, c, is_high, one, two, few):
    out = np.empty((two.shape[1], two.shape[0]), dtype=np.float64)
    for i in range(two.shape[0]):
        for j in range(two.shape[1]):
            out[j, i] = two[i, j] + (c if is_high else a)
    total = int64(b)
    for i in range(len(one)):
        total += one[i]
        one[i] = -one[i]
    return out, total, c / 2, few[1:].copy()
"""
NAMES = count()


@pytest.fixture
def made(tmp_path, monkeypatch):
    """Makes a loop of a source, by the way of all loops."""
    monkeypatch.syspath_prepend(str(tmp_path))
    kept = tmp_path / "kept"
    kept.mkdir()

    def make(source: str):
        name = f"loops_of_a_test_{next(NAMES)}"
        (tmp_path / f"{name}.py").write_text(HEAD + source)
        code, told = linking.compiled_source(name)
        monkeypatch.setattr(loops, "MODULES", (name,))
        monkeypatch.setattr(loops, "_read", lambda *_: (code, told))
        return loops._brought_in(kept)[name].loop

    return make


@pytest.mark.parametrize(
    ("n", "rows", "columns", "few"), [(3, 2, 4, 5), (0, 0, 3, 1), (1, 6, 0, 2)]
)
@pytest.mark.parametrize("is_high", [True, False])
def test_all_kinds_go_there_and_come_back(made, n, rows, columns, few, is_high):
    loop = made(EVERY)
    one = np.arange(n) - 7
    two = np.random.default_rng(n).normal(size=(2 * rows, 3 * columns))[::2, ::3]
    small = np.arange(few, dtype=np.uint8)
    before, larger = one.copy(), np.uint64((1 << 63) + 5)
    out, total, half, rest = loop(-3, larger, np.float64(1.5), is_high, one, two, small)
    assert out.tolist() == (two.T + (1.5 if is_high else -3)).tolist()
    assert out.shape == (columns, rows)
    assert total == (int(before.sum()) + int(larger) + (1 << 63)) % (1 << 64) - (1 << 63)
    assert half == 0.75
    assert rest.dtype == np.uint8
    assert rest.tolist() == small[1:].tolist()
    assert one.tolist() == (-before).tolist()


@pytest.mark.parametrize(
    "one", [np.zeros(4, dtype=np.int32), np.zeros((2, 2), dtype=np.int64), np.arange(8)[::2]]
)
def test_other_arrays_are_refused(made, one):
    loop = made("@njit(int64(int64[::1]))\ndef loop(one):\n    return one[0]\n")
    assert loop(np.array([9])) == 9
    with pytest.raises(InternalError, match="loop takes int64 of 1 axes, side by side, not"):
        loop(one)


def test_other_numbers_of_arguments_are_refused(made):
    loop = made("@njit(int64(int64))\ndef loop(one):\n    return one\n")
    for values in ((), (1, 2)):
        with pytest.raises(ValueError, match="zip"):
            loop(*values)


def test_a_loop_may_give_nothing_or_a_single_array(made):
    assert (
        made("@njit(void(int64[::1]))\ndef loop(one):\n    one[0] = 5\n")(np.zeros(1, int)) is None
    )
    single = made("@njit(int64[::1](int64))\ndef loop(n):\n    return np.arange(n)\n")
    assert single(np.int64(3)).tolist() == [0, 1, 2]


def test_memory_that_there_is_not_is_told(made):
    loop = made("@njit(int64[::1](int64))\ndef loop(n):\n    return np.empty(n, dtype=np.int64)\n")
    assert len(loop(5)) == 5
    with pytest.raises(MemoryError):
        loop(1 << 55)


@pytest.mark.skipif(not Path("/proc/self/statm").exists(), reason="no /proc here")
def test_what_was_given_is_let_go(made):
    """300 arrays of 8 MB, some of which two results share."""
    loop = made(
        "@njit(types.UniTuple(int64[::1], 2)(int64))\n"
        "def loop(n):\n    one = np.ones(n, dtype=np.int64)\n    return one, one[: n // 2]\n"
    )

    def pages() -> int:
        return int(Path("/proc/self/statm").read_text().split()[1])

    loop(1_000_000)
    before = pages()
    for _ in range(300):
        whole, half = loop(1_000_000)
    assert (len(whole), int(half.sum())) == (1_000_000, 500_000)
    assert (pages() - before) * 4096 < 100_000_000


@pytest.mark.parametrize("needs", ["np.flatnonzero(one).sum()", "len(str(one[0]))"])
def test_what_needs_more_than_memory_is_not_compiled(made, needs):
    with pytest.raises(InternalError, match="compiled loops need"):
        made(f"@njit(int64(int64[::1]))\ndef loop(one):\n    return {needs}\n")


def test_other_words_than_numba_hands_over_are_seen(made, monkeypatch):
    """Another numba might lay out arrays otherwise: nothing is compiled then."""
    monkeypatch.setattr(calls, "_AHEAD", 4)
    monkeypatch.setattr(Kind, "llvm", property(lambda kind: ["ptr"] * kind.words))
    with pytest.raises(InternalError, match="numba hands over"):
        made("@njit(int64(int64[::1]))\ndef loop(one):\n    return one[0]\n")


def test_what_cannot_be_compiled_is_said_and_builds_go_on(tmp_path):
    """The compiler ends with an error; nobody waits for it."""
    words = (
        "from pathlib import Path; from engine.fit.compiled import linking, loops; "
        f"loops.folder = lambda: Path({str(tmp_path)!r}) / 'compiled-none'; "
        "linking._KNOWN = (); loops.compile_all()"
    )
    done = subprocess.run([sys.executable, "-c", words], capture_output=True, text=True)
    assert done.returncode == 1
    assert "InternalError: compiled loops need free, malloc" in done.stderr
    assert not (tmp_path / "compiled-none" / loops.READY).exists()
