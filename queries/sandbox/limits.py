"""Limits of a process that runs statements of strangers: it may compute and answer over its pipe, nothing else.

DuckDB's own lock-down (`engine.store.opening`) closes files and settings to SQL. Its memory limit does not
count every string it holds, and nothing bounds an answer that becomes Python values. So the operating system limits
the process too: it opens no file and no socket (no descriptor is left), writes, makes, renames and starts none
(Landlock, where Linux has it), and an allocation beyond its share fails.
"""

from __future__ import annotations

import ctypes
import io
import pickle
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

from engine.errors import StoreError
from queries.sql import megabytes_of

_MIB = 2**20
_LEAST_MB = 64
_CREATE_RULESET, _RESTRICT_SELF = 444, 446  # numbers of the system calls, the same on every machine
_VERSION_FLAG = 1
_NO_NEW_PRIVILEGES = 38
_WRITES = 0b1_1111_1111_0011  # execute, write, remove and make files, folders, sockets, links
_TRUNCATE, _TRUNCATE_SINCE = 1 << 14, 3
_PLAIN = {
    "datetime": ("date", "datetime", "time", "timedelta", "timezone"),
    "decimal": ("Decimal",),
    "uuid": ("UUID", "SafeUUID"),
    "builtins": ("bytearray", "complex", "frozenset", "set"),
}


@dataclass(frozen=True, kw_only=True, slots=True)
class ProcessLimits:
    """What one process that answers statements may use."""

    seconds: float = 10.0  # Time of a statement
    memory_mb: int = 512  # What DuckDB may take by its own count
    process_mb: int = 1024  # Address space of the process beyond what opening the release took
    threads: int = 1
    rows: int = 100_000  # Rows of an answer; more are cut off
    answer_mb: int = 32  # Size of an answer; a larger one is refused
    # Time to start and to open the release: a busy machine may take long to read what is imported.
    start_s: float = 120.0


def shared_out(memory: str, n: int) -> int:
    """Return the megabytes that each of n processes may take of some memory, such as 500MB or 2GB."""
    share = (megabytes_of(memory) or 0) // max(n, 1)
    if share < _LEAST_MB:
        raise StoreError(
            f"memory {memory!r}: give a size such as 500MB or 2GB, at least {_LEAST_MB} MB for each of {n} processes"
        )
    return share


def deny_writes() -> bool:
    """Take from this thread, and those it starts, the right to change any file or start any program.

    Returns: False where the kernel has no Landlock. Call it before other threads run: they keep their rights.
    """
    if sys.platform != "linux":
        return False
    libc = ctypes.CDLL(None, use_errno=True)
    version = libc.syscall(_CREATE_RULESET, None, ctypes.c_size_t(0), _VERSION_FLAG)
    if version < 1:
        return False
    denied = ctypes.c_uint64(_WRITES | (_TRUNCATE if version >= _TRUNCATE_SINCE else 0))
    size = ctypes.c_size_t(ctypes.sizeof(denied))
    rules = libc.syscall(_CREATE_RULESET, ctypes.byref(denied), size, 0)
    if rules < 0 or libc.prctl(_NO_NEW_PRIVILEGES, 1, 0, 0, 0) != 0:
        return False
    is_restricted: bool = libc.syscall(_RESTRICT_SELF, rules, 0) == 0
    return is_restricted


def close_process(limits: ProcessLimits) -> None:
    """Let this process open no further file or socket, write none, and take no more memory than its share."""
    import resource

    if sys.platform == "linux":  # elsewhere the kernel does not hold to it
        most = address_space() + limits.process_mb * _MIB
        resource.setrlimit(resource.RLIMIT_AS, (most, most))
    resource.setrlimit(resource.RLIMIT_NOFILE, (0, 0))  # those open stay open
    resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))


def allow_time(limits: ProcessLimits) -> None:
    """Give this process the processor time of one more statement: beyond, the kernel ends it."""
    import resource

    used = resource.getrusage(resource.RUSAGE_SELF)
    spent = used.ru_utime + used.ru_stime
    most = int(spent + limits.seconds * (limits.threads + 1)) + 5
    resource.setrlimit(resource.RLIMIT_CPU, (most, resource.getrlimit(resource.RLIMIT_CPU)[1]))


def address_space() -> int:
    """Return the address space that this process takes, in bytes; Linux only."""
    import resource

    pages = int(Path("/proc/self/statm").read_text("ascii").split()[0])
    return pages * resource.getpagesize()


class _PlainOnly(pickle.Unpickler):
    """Reads numbers, text, lists and dates; whatever could do something is refused."""

    def find_class(self, module: str, name: str) -> Any:
        """Return the class of a date or a decimal; nothing else has a name here."""
        if name not in _PLAIN.get(module, ()):
            raise pickle.UnpicklingError(f"{module}.{name} is no plain value")
        return super().find_class(module, name)


def plain_loads(raw: bytes) -> Any:
    """Return the values in some bytes that another process pickled."""
    return _PlainOnly(io.BytesIO(raw)).load()


def write_frame(stream: BinaryIO, raw: bytes) -> None:
    """Send some bytes, their number first."""
    stream.write(len(raw).to_bytes(8, "little"))
    stream.write(raw)
    stream.flush()


def read_frame(stream: BinaryIO) -> bytes | None:
    """Return what `write_frame` sent; None where the pipe has closed, be it in the middle."""
    head = stream.read(8)
    size = int.from_bytes(head, "little")
    raw = stream.read(size) if len(head) == 8 else b""
    return raw if len(head) == 8 and len(raw) == size else None
