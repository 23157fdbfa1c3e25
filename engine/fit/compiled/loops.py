"""Compiled loops: numba's machine code of the fit's innermost steps, used once it is at hand (extra `fast`).

Each loop has a twin in numpy that gives the same bits; so it may be there or not, or come in the middle of a build, and
a release stays the same. Compiling takes seconds: `python -m engine.fit.compiled` does it, once an installation,
and keeps the code beside Python's own (`__pycache__`), in a folder named by all that decides it.
"""

from __future__ import annotations

import functools
import gc
import hashlib
import importlib
import os
import shutil
import sys
import threading
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from types import ModuleType

from engine.sticky_prf import use_loop

RAKING, SUMS, SINGLE, PAIRS, SETTLING, EXCHANGES, PLACING, DEALING, HASHING = MODULES = tuple(
    f"engine.fit.compiled.{name}"
    for name in (
        *("raking", "sums", "single", "pairs", "settling", "exchanges", "placing", "dealing"),
        "hashing",
    )
)
TOKENS = "engine.fit.compiled.tokens"
"""What the process left of the wall brings in, with `HASHING`; no other does."""
WITH_PARENT = "--with-parent"
"""Tells `python -m engine.fit.compiled` to end once its input closes, which happens however its parent ends."""
READY = "ready"
"""A file of this name says that all loops are compiled."""
_UNUSED = ("cffi", "scipy", "yaml")
"""numba imports them for what no loop of ours does, a third of the time that it takes to bring in the loops."""
_LOADING = threading.Lock()
_HOME = Path(__file__).resolve().parent
_DECIDING = ("llvmlite", "numba", "numpy")


def compiled(module: str) -> ModuleType | None:
    """Return a module of compiled loops, None unless `load_compiled` has brought it in."""
    return sys.modules.get(module)


def can_compile() -> bool:
    """Whether numba is installed, and the folder for its code can be written."""
    return folder() is not None and os.access(_HOME, os.W_OK)


def are_compiled() -> bool:
    """Whether all loops are compiled."""
    kept = folder()
    return kept is not None and (kept / READY).exists()


def load_compiled() -> bool:
    """Bring in the compiled loops if they are ready and not in yet; return whether they are in use.

    What cannot be brought in is left: numpy gives the same.
    """
    return _loaded(MODULES)


def load_tokens() -> ModuleType | None:
    """Bring in what makes tokens and hashes, as `load_compiled`; return what `engine.keys.use_loop` takes."""
    return compiled(TOKENS) if _loaded((HASHING, TOKENS)) else None


def _loaded(modules: tuple[str, ...]) -> bool:
    """Bring in some of the loops if they are ready; return whether they are in use."""
    with _LOADING:  # what another thread is importing is there by name before it is whole
        if all(compiled(module) for module in modules):
            return True
        try:
            if not are_compiled():
                return False
            _bring_in(modules)
        except Exception:  # noqa: BLE001  # machine code of others, on any machine: its twin is at hand
            for module in modules:
                sys.modules.pop(module, None)
            use_loop(None)
            return False
        return True


@functools.cache
def folder() -> Path | None:
    """Where the machine code is kept, by sources, versions and kind of machine; None without numba."""
    try:
        versions = [version(name) for name in _DECIDING]
    except PackageNotFoundError:
        return None
    digest = hashlib.blake2b(
        repr((versions, sys.version, os.uname().machine)).encode(), digest_size=8
    )
    for module in (*MODULES, TOKENS):
        digest.update(_source(module).read_bytes())
    return _HOME / "__pycache__" / f"compiled-{digest.hexdigest()}"


def compile_all() -> None:
    """Compile the loops; what an earlier run has compiled is kept, what older sources gave goes."""
    kept = folder()
    if kept is None:
        return
    kept.mkdir(parents=True, exist_ok=True)
    _bring_in((*MODULES, TOKENS))
    (kept / READY).touch()
    for other in kept.parent.glob("compiled-*"):
        if other != kept:
            shutil.rmtree(other, ignore_errors=True)


def _bring_in(modules: tuple[str, ...]) -> None:
    """Import loops, which loads their machine code or compiles it."""
    hidden = [name for name in _UNUSED if name not in sys.modules and _is_own_process()]
    sys.modules.update(dict.fromkeys(hidden))  # type: ignore[arg-type]  # None: as if it were not installed
    is_collecting = gc.isenabled()
    gc.disable()  # nothing of what is brought in goes again, and looking through it takes a tenth of the time
    try:
        config = importlib.import_module("numba").config
        config.CACHE_DIR = str(folder())
        for module in modules:
            importlib.import_module(module)
        use_loop(sys.modules[HASHING])
    finally:
        for name in hidden:
            del sys.modules[name]
        if is_collecting:
            gc.enable()


def _is_own_process() -> bool:
    """Whether Python was started for a module of ours: what others do in theirs may need all of numba.

    And whether nobody else imports meanwhile, who would find missing what is hidden.
    """
    if threading.current_thread() is not threading.main_thread():
        return False
    main = getattr(sys.modules.get("__main__"), "__spec__", None)
    return main is not None and main.name.startswith("engine.")


def _source(module: str) -> Path:
    """The file of a module of ours, which need not be imported."""
    return _HOME.parents[2] / Path(*module.split(".")).with_suffix(".py")
