"""Compiled loops: machine code of the fit's innermost steps, used once it is at hand (extra `fast`).

Each loop has a twin in numpy that gives the same bits; so it may be there or not, or come in the middle of a build, and
a release stays the same. Compiling takes seconds: `python -m engine.fit.compiled` does it, once an installation,
and keeps the code beside Python's own (`__pycache__`), in a folder named by all that decides it. Bringing it in takes
a few hundredths of a second.
"""

from __future__ import annotations

import contextlib
import functools
import hashlib
import json
import os
import shutil
import threading
from collections.abc import Callable
from importlib.metadata import version
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np

from engine.errors import InternalError
from engine.sticky_prf import siphash, use_loop

RAKING, SUMS, WALKING, SETTLING, EXCHANGES, PLACING, DEALING, HASHING, TOKENS = MODULES = (
    *(
        "raking",
        "sums",
        "walking",
        "settling",
        "exchanges",
        "placing",
        "dealing",
        "hashing",
        "tokens",
    ),
)
"""Files of `engine.fit.compiled.sources`. `TOKENS` is for the process left of the wall."""
WITH_PARENT = "--with-parent"
"""Tells `python -m engine.fit.compiled` to end once its input closes, which happens however its parent ends."""
READY = "ready"
"""A file of this name says that all loops are compiled."""
_SOURCES = "engine.fit.compiled.sources"
_HOME = Path(__file__).resolve().parent
_DECIDING = ("llvmlite", "numba", "numpy")
_LOADING = threading.Lock()
_LOADED: dict[str, SimpleNamespace] = {}
_KEEPS: list[Any] = []
"""What holds the machine code in memory."""


def compiled(module: str) -> SimpleNamespace | None:
    """Return the compiled loops of a module by their names, None unless `load_compiled` has brought them in."""
    return _LOADED.get(module)


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
    with _LOADING:
        if _LOADED:
            return True
        kept = folder()
        if kept is None or not (kept / READY).exists():
            return False
        try:
            found = _brought_in(kept)
        except Exception:  # noqa: BLE001  # machine code of others, on any machine: its twin is at hand
            with contextlib.suppress(OSError):
                (kept / READY).unlink()  # so that the next build compiles what is not whole
            return False
        _LOADED.update(found)
        use_loop(found[HASHING])
        return True


def load_tokens() -> SimpleNamespace | None:
    """Bring in the compiled loops; return what makes tokens, for `engine.keys.use_loop`."""
    return compiled(TOKENS) if load_compiled() else None


@functools.cache
def folder() -> Path | None:
    """Where the machine code is kept, by sources, versions and kind of machine; None without numba."""
    try:
        versions = [version(name) for name in _DECIDING]
        import llvmlite.binding as llvm  # slow to import, and nobody else needs it

        processor = llvm.get_default_triple(), llvm.get_host_cpu_name()
        features = llvm.get_host_cpu_features().flatten()
    except Exception:  # noqa: BLE001  # not there, or not whole: numpy does without
        return None
    where = hashlib.blake2b(repr((versions, processor, features)).encode(), digest_size=4)
    sources = hashlib.blake2b(digest_size=8)
    own = (_HOME / "calls.py", _HOME / "linking.py")
    for path in (*own, *sorted((_HOME / "sources").glob("*.py"))):
        sources.update(path.read_bytes())
    return _HOME / "__pycache__" / f"compiled-{where.hexdigest()}-{sources.hexdigest()}"


def compile_all() -> None:
    """Compile the loops; what an earlier run has compiled is kept, what older sources gave goes."""
    kept = folder()
    if kept is None:
        return
    from engine.fit.compiled.linking import compiled_source

    kept.mkdir(parents=True, exist_ok=True)
    for module in MODULES:
        if _read(kept, module) is None:
            code, told = compiled_source(f"{_SOURCES}.{module}")
            head = json.dumps({"digest": _digest(code), "loops": told}).encode()
            _put(_file(kept, module), head + b"\n" + code)
    _check(_brought_in(kept))
    (kept / READY).touch()
    same = kept.name.rpartition("-")[0]
    for other in kept.parent.glob("compiled-*"):
        # What other versions and processors have made is theirs.
        if other != kept and other.name.rpartition("-")[0] in (same, "compiled"):
            shutil.rmtree(other, ignore_errors=True)


def _file(kept: Path, module: str) -> Path:
    """The file of a module: a line that says what its loops take and give, then its machine code."""
    return kept / f"{module}.loops"


def _check(found: dict[str, SimpleNamespace]) -> None:
    """Whether the machine code runs on this machine; where it ends this process, builds do without."""
    words, hashes = [np.arange(300, dtype=np.uint64)], []
    for loop in (None, found[HASHING]):
        use_loop(loop)
        hashes.append(siphash(bytes(16), words).tobytes())
    use_loop(compiled(HASHING))
    if hashes[0] != hashes[1]:
        raise InternalError("compiled loops give other hashes than numpy")


def _read(kept: Path, module: str) -> tuple[bytes, dict[str, Any]] | None:
    """The machine code of a module, and what is said of its loops; None where it is missing, or not whole."""
    try:
        head, _, code = _file(kept, module).read_bytes().partition(b"\n")
        told = json.loads(head)
    except (OSError, ValueError):
        return None
    # A torn object would end the process.
    return (code, told["loops"]) if told.get("digest") == _digest(code) else None


def _digest(code: bytes) -> str:
    """Tells whether machine code is whole."""
    return hashlib.blake2b(code, digest_size=16).hexdigest()


def _brought_in(kept: Path) -> dict[str, SimpleNamespace]:
    """The loops of all modules, out of their objects."""
    import llvmlite.binding as llvm

    from engine.fit.compiled.linking import machine

    engine = llvm.create_mcjit_compiler(llvm.parse_assembly(""), machine())
    told = {}
    for module in MODULES:
        if (found := _read(kept, module)) is None:
            raise InternalError(f"the machine code of {module} is not whole")
        code, told[module] = found
        engine.add_object_file(llvm.object_file.ObjectFileRef.from_data(code))
    engine.finalize_object()
    _KEEPS.append(engine)
    return {m: _loops_of(m, loops, engine.get_function_address) for m, loops in told.items()}


def _loops_of(module: str, told: dict[str, Any], address: Callable[[str], int]) -> SimpleNamespace:
    """The loops of a module, by what is said of them."""
    from engine.fit.compiled.calls import Kind, Loop
    from engine.fit.compiled.linking import release_of

    release = address(release_of(module))
    loops = {}
    for name, one in told.items():
        loops[name] = Loop(
            name=f"{module}.{name}",
            address=address(one["symbol"]),
            release=release,
            takes=[Kind(**kind) for kind in one["takes"]],
            gives=[Kind(**kind) for kind in one["gives"]],
            is_tuple=one["is_tuple"],
        )
    return SimpleNamespace(**loops)


def _put(path: Path, content: bytes) -> None:
    """Write a file that is whole once it has its name."""
    part = path.with_name(f"{path.name}.{os.getpid()}")
    part.write_bytes(content)
    part.replace(path)
