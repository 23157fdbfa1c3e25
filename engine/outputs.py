"""Where results may be written: the one place that decides, for every command and every Python function.

Takes the path of an output. Never replaced, whatever is asked for: a key, journal, ledger, manifest, release or spec;
they are known by what they hold, so a link, another name or another spelling of it does not help. Nor a source that a
spec names which lies beside it or in the working folder, or that the command reads. Any other file, so a source whose
spec lies elsewhere, is replaced only if the caller was told to (`--force`). All is written beside its place and gets
its name when it is whole; what appeared there meanwhile stays.
"""

from __future__ import annotations

import contextlib
import errno
import glob
import json
import os
import re
import secrets
import shutil
import stat
import sys
import tempfile
import tomllib
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import duckdb

from engine.errors import StoreError

StrPath = str | os.PathLike[str]
KEY, SPEC, RELEASE = "a key", "a spec", "a release"
"""Kinds of files that callers name."""
REQUESTS = ".requests.json"
"""Ending of the file of requests for tables beside a release."""
RESERVED = {
    ".journal": "the journal of a key",
    ".exposure.json": "a ledger of a key",
    ".ledger.json": "a ledger of a key",
    ".manifest.json": "the manifest of a release",
    ".measured": "the measured counts of a key",
    ".tally": "the tally of a key",
    ".wal": "the log of a database",
    ".sig": "the signature of a release",
    REQUESTS: "the requests to a release",
}
"""Endings of names that we read by their name alone: never those of results, also where nothing is there yet."""
OF_KEYS = (".journal", ".exposure.json", ".ledger.json", ".measured")
"""Endings of what lies beside a key that was used, and goes with it."""
_BY_NAME = {".key": KEY, ".toml": SPEC}
"""Endings that say what a file is where one is there."""
_BY_FIELDS = {
    frozenset({"format_version", "accepts"}): "the manifest of a release",
    frozenset({"format", "digest", "charges"}): "a ledger of a key",
    frozenset({"format", "digest", "entries"}): "a ledger of a key",
    frozenset({"format_version", "algorithm", "signature"}): "the signature of a release",
    frozenset({"format", "vintages"}): "the journal of a key",
}
"""Fields at the top of our JSON files."""
_KEY_BYTES = 32
_PLAIN = re.compile(rb"[\t\n\r\x20-\x7e]*")
_DUCKDB, _MAGIC = slice(8, 12), b"DUCK"
_SPEC_TABLE = re.compile(rb"^\s*\[\[?(release|source|tables|privacy|pack)\]", re.MULTILINE)
_LARGEST = 64 * 2**20
"""Text of more bytes is no JSON or TOML of ours."""
_SPECS_READ = 200
_APPEARED = "{}: appeared while its result was made; it was left alone"
_OURS = {
    **dict.fromkeys(("/dev/stdout", "/dev/fd/1", "/proc/self/fd/1"), 1),
    **dict.fromkeys(("/dev/stderr", "/dev/fd/2", "/proc/self/fd/2"), 2),
}
"""Names of this process's own standard output and error."""


def check_output(
    path: StrPath,
    *,
    force: bool = False,
    own: str = "",
    inputs: Iterable[StrPath] = (),
) -> None:
    """Refuse a path that no result may be written to; call it before anything is computed.

    own: The kind of file that this output is, such as `SPEC`: one of it may be replaced, with `force`.
    inputs: Files, or globs, that are read to make it: never replaced.
    """
    target = Path(path)
    with _readable(target):
        if _descriptor(target) or _is_stream(target):
            return
        _check_name(target)
        there = target.resolve()
        if os.path.exists(target) and not there.exists():
            raise StoreError(f"{target}: is a file that was removed; name a file")
        if target.is_symlink():
            _check_link(target, there)
        if there != target.absolute():
            _check_name(there)
        if there.is_dir():
            raise StoreError(f"{target}: is a directory; name a file")
        if not there.parent.is_dir():
            raise StoreError(f"{target}: its folder does not exist")
        if os.path.lexists(there):
            _check_replaced(target, there, force=force, own=own, inputs=inputs)


def check_new_key(path: StrPath) -> None:
    """Refuse a name for a new key beside which files of an older one lie: its ledgers would be lost, or taken
    for new.
    """
    target = Path(path)
    with _readable(target):
        _check_name(target)
        for ending in () if os.path.lexists(target) else OF_KEYS:
            beside = target.with_name(target.name + ending)
            if os.path.lexists(beside):
                raise StoreError(
                    f"{target}: {RESERVED[ending]} of that name lies beside it ({beside.name}); restore that key, "
                    "or give another name"
                )


def _check_name(path: Path) -> None:
    """Refuse names that say what a file of ours is, and folders of ours."""
    for name in (path.name, path.parent.name):
        for ending, what in RESERVED.items():
            if name.lower().removesuffix(".lock").endswith(ending):
                raise StoreError(
                    f"{path}: a name on {ending} is that of {what}; give another output"
                )


def _check_link(path: Path, there: Path) -> None:
    """Refuse a link to nothing, or of somebody else: who may write in a folder decides by it what is written where."""
    if not os.path.lexists(there):
        raise StoreError(f"{path}: is a link to {there}, which is not there; name a file")
    if hasattr(os, "geteuid") and path.lstat().st_uid not in (0, os.geteuid()):
        raise StoreError(f"{path}: is a link that somebody else made; name a file")


def _check_replaced(
    path: Path, there: Path, *, force: bool, own: str, inputs: Iterable[StrPath]
) -> None:
    """Refuse to replace a file that must stay, or any without `force`."""
    if not there.is_file():
        raise StoreError(f"{path}: is neither a file nor a pipe; name a file")
    read = next((other for other in inputs if _is_same(there, other)), None)
    if read is not None:
        raise StoreError(f"{path}: is read here ({read}); give another output")
    kind = kind_of(there)
    if kind and kind != own:
        raise StoreError(f"{path}: is {kind}, which is never replaced; give another output")
    spec = "" if kind else _spec_of_source(there)
    if spec:
        raise StoreError(
            f"{path}: is the source of {spec}, which is never replaced; give another output"
        )
    if not force:
        raise StoreError(
            f"{path}: exists; give another output, or --force (force=True) to replace it"
        )


def kind_of(path: Path) -> str:
    """Say which of our files a file is, by what it holds and then by its name; empty: none of ours."""
    size = path.stat().st_size
    with path.open("rb") as file:
        head = file.read(2**16)
        is_database = head[_DUCKDB] == _MAGIC  # known by its head, however large
        whole = head + file.read() if len(head) < size <= _LARGEST and not is_database else head
    if is_database:
        beside = path.with_name(path.name + ".manifest.json")
        return RELEASE if beside.exists() else "a DuckDB database"
    if size == _KEY_BYTES and not _PLAIN.fullmatch(head):
        return KEY
    if head.startswith(b"-----BEGIN "):
        return KEY
    if head.lstrip().startswith(b"{"):
        return _kind_of_json(whole)
    by_name = next((what for end, what in _BY_NAME.items() if path.name.lower().endswith(end)), "")
    return by_name or (SPEC if _is_spec(whole) else "")


def _kind_of_json(text: bytes) -> str:
    """Which of our JSON files a text is."""
    try:
        fields = json.loads(text)
    except (ValueError, RecursionError):
        fields = {}
        # A cut ledger is a ledger still.
        if re.search(rb'"digest"\s*:|"accepts"\s*:|"vintages"\s*:', text[: 2**16]):
            return "a ledger, journal or manifest"
    if not isinstance(fields, dict):
        return ""
    return next((what for known, what in _BY_FIELDS.items() if known <= fields.keys()), "")


def _is_spec(text: bytes) -> bool:
    """Whether a text is a spec of ours: TOML with one of its tables."""
    return bool(_SPEC_TABLE.search(text)) and bool(_toml(text))


def _toml(text: bytes) -> dict[str, Any]:
    """What a text of TOML holds; nothing where it is none."""
    try:
        return tomllib.loads(text.decode("utf-8"))
    except (ValueError, RecursionError):
        return {}


def _spec_of_source(path: Path) -> str:
    """Name of a spec, beside a file or in the working folder, that names the file as its source; empty: none."""
    for folder in dict.fromkeys((path.parent, Path.cwd())):
        for spec in sorted(folder.glob("*.toml"))[:_SPECS_READ]:
            with contextlib.suppress(OSError):
                source = _toml(spec.read_bytes()).get("source") if _is_small(spec) else None
                named = source.get("path") if isinstance(source, dict) else None
                listed = named if isinstance(named, list) else [named]
                if any(isinstance(n, str) and _is_same(path, spec.parent / n) for n in listed):
                    return str(spec)
    return ""


def _is_small(path: Path) -> bool:
    return path.is_file() and path.stat().st_size < _LARGEST // 64


def _is_same(path: Path, other: StrPath) -> bool:
    """Whether a path, or one that a glob finds, is a file: also by links, or another spelling."""
    for candidate in (str(other), *glob.glob(str(other))):
        with contextlib.suppress(OSError, ValueError):
            if os.path.samefile(path, candidate):
                return True
    return False


def _descriptor(path: Path) -> int:
    """The number of our own standard output or error, where a path is one; 0: it is none."""
    return _OURS.get(os.path.normpath(path), 0)


@contextlib.contextmanager
def _sent_to(descriptor: int) -> Iterator[Path]:
    """Lend a file that is sent to a descriptor when it is whole.

    To open its name would empty the file behind it (`>> all.csv`).
    """
    stream = sys.__stdout__ if descriptor == 1 else sys.__stderr__
    if stream is None:  # closed by the shell: its number may be another file's by now
        raise OSError(errno.EBADF, os.strerror(errno.EBADF))
    with tempfile.TemporaryDirectory(prefix="tablepack-") as folder:
        part = Path(folder) / "part"
        yield part
        stream.flush()
        with part.open("rb") as file, os.fdopen(os.dup(descriptor), "wb") as out:
            shutil.copyfileobj(file, out)


def _is_stream(path: Path) -> bool:
    """Whether a path is a pipe or a terminal: written as it is; never a file that a descriptor leads to."""
    try:
        mode = path.stat().st_mode
    except OSError:
        return False
    return stat.S_ISFIFO(mode) or stat.S_ISCHR(mode)


@contextlib.contextmanager
def output_file(
    path: StrPath,
    *,
    force: bool = False,
    own: str = "",
    inputs: Iterable[StrPath] = (),
    private: bool = False,
) -> Iterator[Path]:
    """Lend a file beside an output, which gets its name when it is whole; a pipe is lent itself.

    What goes to `/dev/stdout` follows what is there.

    private: Mode 0600 from its first byte; otherwise what the umask lets, and no more than the file that it
        replaces had.
    """
    target = Path(path)
    given = tuple(inputs)
    check_output(target, force=force, own=own, inputs=given)
    with _readable(target):
        if descriptor := _descriptor(target):
            with _sent_to(descriptor) as part:
                yield part
            return
        if _is_stream(target):
            yield target
            return
        there = target.resolve()
        # As short a name as another file's may need; hidden, for it is half a result.
        part = there.with_name(f".{there.name[:40]}.{secrets.token_hex(4)}.part")
        try:
            if private:
                os.close(os.open(part, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600))
            yield part
            _check_part(part, target)
            part.chmod(_mode(there, private=private))
            _sync(part)
            check_output(target, force=force, own=own, inputs=given)
            _place(part, there, force=force)
        finally:
            with contextlib.suppress(OSError):
                part.unlink(missing_ok=True)


def write_output(
    path: StrPath,
    text: str,
    *,
    force: bool = False,
    own: str = "",
    inputs: Iterable[StrPath] = (),
    private: bool = False,
) -> None:
    """Write text as UTF-8, lines as they are; parameters and errors as for `output_file`."""
    data = text.encode("utf-8", "replace")
    with output_file(path, force=force, own=own, inputs=inputs, private=private) as part:
        part.write_bytes(data)


def _check_part(part: Path, target: Path) -> None:
    """Refuse to give a name to what is not the file that was lent, as when somebody put a link in its place."""
    found = part.lstat()
    if not stat.S_ISREG(found.st_mode) or found.st_nlink != 1:
        raise StoreError(
            f"{target}: what was written for it was exchanged meanwhile; nothing was given its name"
        )


def _mode(there: Path, *, private: bool) -> int:
    """The mode of a new file."""
    if private:
        return 0o600
    wanted = 0o666 & ~_umask()
    with contextlib.suppress(OSError):
        return wanted & stat.S_IMODE(there.stat().st_mode)
    return wanted


def _umask() -> int:
    """The process's file creation mask (it can only be read by setting it)."""
    mask = os.umask(0o077)
    os.umask(mask)
    return mask


def _sync(path: Path) -> None:
    """Flush a file to the disk."""
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def _place(part: Path, there: Path, *, force: bool) -> None:
    """Give a finished file its name; without `force`, what appeared there meanwhile stays."""
    if force:
        part.replace(there)
        return
    try:
        os.link(part, there)
    except FileExistsError:
        raise StoreError(_APPEARED.format(there)) from None
    except OSError:  # a file system without hard links: take the name first, which only one can
        _take_name(there)
        part.replace(there)


def _take_name(there: Path) -> None:
    """Make an empty file of a name that nothing has, also no link."""
    try:
        os.close(os.open(there, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600))
    except FileExistsError:
        raise StoreError(_APPEARED.format(there)) from None


def check_folder(path: StrPath) -> None:
    """Refuse a folder that results may not be written to: anything but an empty or absent one."""
    target = Path(path)
    with _readable(target):
        there = target.resolve()
        _check_name(there)
        if os.path.lexists(there) and (not there.is_dir() or any(there.iterdir())):
            raise StoreError(f"{target}: is not an empty directory; name an empty or a new one")


@contextlib.contextmanager
def output_folder(path: StrPath) -> Iterator[Path]:
    """Lend a folder beside an output, which gets its name when all in it is whole."""
    target = Path(path)
    check_folder(target)
    with _readable(target):
        there = target.resolve()
        there.parent.mkdir(parents=True, exist_ok=True)
        part = Path(tempfile.mkdtemp(prefix=f".{there.name[:40]}.", dir=there.parent))
        try:
            yield part
            part.chmod(0o777 & ~_umask())
            part.replace(there)  # fails where something lies in it by now
        finally:
            shutil.rmtree(part, ignore_errors=True)


@contextlib.contextmanager
def _readable(path: Path) -> Iterator[None]:
    """Turn what the system, or DuckDB, says of a path into a StoreError."""
    if "\0" in str(path):
        raise StoreError("an output's path holds a null character; name a file")
    try:
        yield
    except OSError as error:
        raise StoreError(f"{path}: cannot be written ({error.strerror or 'failed'})") from None
    except duckdb.IOException:
        why = "disk full, quota reached or folder read-only"
        raise StoreError(f"{path}: cannot be written ({why})") from None
