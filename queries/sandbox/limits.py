"""Limits of a process that runs untrusted SQL: it can compute and answer over its pipe, nothing else.

DuckDB's own lock-down (`engine.store.opening`) closes files and settings to SQL. But its memory limit does not count
every string, and nothing limits an answer converted to Python values. So the operating system limits the process as
well: it cannot open files or sockets (no descriptors are available), cannot write, create or rename files or start
programs (Landlock, where Linux has it), and allocations beyond its share fail.
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
_CREATE_RULESET, _RESTRICT_SELF = 444, 446  # system call numbers, the same on all architectures
_VERSION_FLAG = 1
_NO_NEW_PRIVILEGES = 38
_WRITES = 0b1_1111_1111_0011  # execute, write, remove and create files, folders, sockets, links
_TRUNCATE, _TRUNCATE_SINCE = 1 << 14, 3
_PLAIN = {
    "datetime": ("date", "datetime", "time", "timedelta", "timezone"),
    "decimal": ("Decimal",),
    "uuid": ("UUID", "SafeUUID"),
    "builtins": ("bytearray", "complex", "frozenset", "set"),
}


@dataclass(frozen=True, kw_only=True, slots=True)
class ProcessLimits:
    """Limits of one worker process."""

    seconds: float = 10.0  # Time per statement
    memory_mb: int = 512  # DuckDB's own memory limit
    process_mb: int = 1024  # Address space of the process on top of what opening the release took
    threads: int = 1
    rows: int = 100_000  # Rows per answer; more are cut off
    answer_mb: int = 32  # Size of an answer; larger ones are refused
    # Time to start and open the release: imports may be slow on a busy machine.
    start_s: float = 120.0


def shared_out(memory: str, n: int) -> int:
    """Return the megabytes for each of n processes that share some memory, such as 500MB or 2GB."""
    share = (megabytes_of(memory) or 0) // max(n, 1)
    if share < _LEAST_MB:
        raise StoreError(
            f"memory {memory!r}: specify a size such as 500MB or 2GB, at least {_LEAST_MB} MB for each of {n} processes"
        )
    return share


def deny_writes() -> bool:
    """Prevent this thread, and those it starts, from changing files and starting programs.

    Returns: False if the kernel has no Landlock. Call it before other threads start: they would keep their rights.
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
    """Prevent this process from opening files and sockets, writing files, and using more memory than its share."""
    import resource

    if sys.platform == "linux":  # not enforced elsewhere
        most = address_space() + limits.process_mb * _MIB
        resource.setrlimit(resource.RLIMIT_AS, (most, most))
    resource.setrlimit(resource.RLIMIT_NOFILE, (0, 0))  # those open stay open
    resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))


def allow_time(limits: ProcessLimits) -> None:
    """Allow the processor time of one more statement; beyond that, the kernel ends the process."""
    import resource

    used = resource.getrusage(resource.RUSAGE_SELF)
    spent = used.ru_utime + used.ru_stime
    most = int(spent + limits.seconds * (limits.threads + 1)) + 5
    resource.setrlimit(resource.RLIMIT_CPU, (most, resource.getrlimit(resource.RLIMIT_CPU)[1]))


def address_space() -> int:
    """Return the address space of this process in bytes; Linux only."""
    import resource

    pages = int(Path("/proc/self/statm").read_text("ascii").split()[0])
    return pages * resource.getpagesize()


class _PlainOnly(pickle.Unpickler):
    """Unpickles numbers, text, lists and dates; anything that could run code is refused."""

    def find_class(self, module: str, name: str) -> Any:
        """Return the class of a plain value; all others are refused."""
        if name not in _PLAIN.get(module, ()):
            raise pickle.UnpicklingError(f"{module}.{name} is not a plain value")
        return super().find_class(module, name)


def plain_loads(raw: bytes) -> Any:
    """Unpickle plain values from another process."""
    return _PlainOnly(io.BytesIO(raw)).load()


def write_frame(stream: BinaryIO, raw: bytes) -> None:
    """Send some bytes, preceded by their number."""
    stream.write(len(raw).to_bytes(8, "little"))
    stream.write(raw)
    stream.flush()


def read_frame(stream: BinaryIO) -> bytes | None:
    """Return what `write_frame` sent; None if the pipe was closed, even in the middle."""
    head = stream.read(8)
    size = int.from_bytes(head, "little")
    raw = stream.read(size) if len(head) == 8 else b""
    return raw if len(head) == 8 and len(raw) == size else None
