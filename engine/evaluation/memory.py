"""How much memory this process could still have: of the system, and of the control groups that a container puts it in.

Takes what Linux tells in files; gives bytes, None where nothing is told. A group's limit holds for all groups inside
it; what it has of files in memory is given back when it is wanted.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path, PurePosixPath

_SYSTEM = Path("/proc/meminfo")
_OWN = Path("/proc/self/cgroup")
_GROUPS = Path("/sys/fs/cgroup")
_NEW = ("memory.max", "memory.current", "inactive_file")
_OLD = ("memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file")
"""Files of a group, and a line of its `memory.stat`: the limit, what is used, what of it is given back."""


def free_memory() -> int | None:
    """Return the bytes that this process could have; None where the system does not say so, as others than Linux."""
    told = [free for free in (_of_system(), *_of_groups()) if free is not None]
    return min(told, default=None)


def _of_system() -> int | None:
    """Bytes that the system could give to processes."""
    kilobytes = _listed(_SYSTEM, "MemAvailable:")
    return None if kilobytes is None else kilobytes << 10


def _of_groups() -> Iterator[int | None]:
    """Bytes that are left of each group around this process."""
    for line in _lines(_OWN):
        kinds, _, path = line.partition(":")[2].partition(":")
        if kinds and "memory" not in kinds.split(","):
            continue
        roots = [_GROUPS / "memory"] if kinds else [_GROUPS, _GROUPS / "unified"]
        own = PurePosixPath("/", path.strip())
        for inside in (own, *own.parents):
            for root in roots:
                yield _left(root / inside.relative_to("/"), *(_OLD if kinds else _NEW))


def _left(folder: Path, limit: str, used: str, cached: str) -> int | None:
    """Bytes that a group may still have; None where it has no limit."""
    numbers = [text for name in (limit, used) for text in _lines(folder / name)[:1]]
    if len(numbers) < 2 or not all(text.isdigit() for text in numbers):
        return None
    most, has = map(int, numbers)
    return max(most - has + (_listed(folder / "memory.stat", cached) or 0), 0)


def _listed(file: Path, name: str) -> int | None:
    """The number beside a name in a file of such lines."""
    for line in _lines(file):
        if (words := line.split())[:1] == [name]:
            return int(words[1])
    return None


def _lines(file: Path) -> list[str]:
    """Lines of a file; none where it is not there."""
    with contextlib.suppress(OSError, UnicodeDecodeError):
        return file.read_text("utf-8").splitlines()
    return []
