"""Where results may be written: decided here for every command and every Python function.

Never replaced, even with `--force`: keys, journals, ledgers, manifests, releases and specs, which are recognised by
their content, so that links or other names make no difference; sources named by a spec that lies next to them or in
the working folder; and whatever the command reads. Any other file (including a source whose spec is elsewhere) is
replaced only with `--force`. Everything is written to a temporary file in the same folder and renamed when complete; a
file that appeared there meanwhile is left alone.
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
"""Kinds of files that callers may name."""
REQUESTS = ".requests.json"
"""Suffix of the file of table requests for a release."""
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
"""Suffixes of files that are found by name: not allowed for results, even if no such file exists yet."""
OF_KEYS = (".journal", ".exposure.json", ".ledger.json", ".measured")
"""Suffixes of the files next to a key that was used; they belong to it."""
_BY_NAME = {".key": KEY, ".toml": SPEC}
"""Suffixes that identify an existing file."""
_BY_FIELDS = {
    frozenset({"format_version", "accepts"}): "the manifest of a release",
    frozenset({"format", "digest", "charges"}): "a ledger of a key",
    frozenset({"format", "digest", "entries"}): "a ledger of a key",
    frozenset({"format", "begun", "entries"}): "a ledger of a key",
    frozenset({"format_version", "algorithm", "signature"}): "the signature of a release",
    frozenset({"format", "vintages"}): "the journal of a key",
}
"""Top-level fields of our JSON files."""
_KEY_BYTES = 32
_PLAIN = re.compile(rb"[\t\n\r\x20-\x7e]*")
_DUCKDB, _MAGIC = slice(8, 12), b"DUCK"
_SPEC_TABLE = re.compile(rb"^\s*\[\[?(release|source|tables|privacy|pack)\]", re.MULTILINE)
_LARGEST = 64 * 2**20
"""Larger files are not JSON or TOML of ours."""
_SPECS_READ = 200
_APPEARED = "{}: a file of this name appeared meanwhile; it was left alone"
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
    """Refuse a path to which no result may be written; call it before anything is computed.

    own: The kind of this output, such as `SPEC`: a file of this kind may be replaced, with `force`.
    inputs: Files or globs that are read to make it: never replaced.
    """
    target = Path(path)
    with _readable(target):
        if _descriptor(target) or _is_stream(target):
            return
        _check_name(target)
        there = target.resolve()
        if os.path.exists(target) and not there.exists():
            raise StoreError(f"{target}: is a file that was deleted; give another output")
        if target.is_symlink():
            _check_link(target, there)
        if there != target.absolute():
            _check_name(there)
        if there.is_dir():
            raise StoreError(f"{target}: is a directory; give a file")
        if not there.parent.is_dir():
            raise StoreError(f"{target}: its folder does not exist")
        if os.path.lexists(there):
            _check_replaced(target, there, force=force, own=own, inputs=inputs)


def check_new_key(path: StrPath) -> None:
    """Refuse a name for a new key if files of an older key of that name exist: its ledgers would be lost, or would
    count for the new key.
    """
    target = Path(path)
    with _readable(target):
        _check_name(target)
        for ending in () if os.path.lexists(target) else OF_KEYS:
            beside = target.with_name(target.name + ending)
            if os.path.lexists(beside):
                raise StoreError(
                    f"{target}: {RESERVED[ending]} of that name exists already ({beside.name}); restore that key, "
                    "or give another name"
                )


def _check_name(path: Path) -> None:
    """Refuse names with a reserved suffix, and files in folders with one."""
    for name in (path.name, path.parent.name):
        for ending, what in RESERVED.items():
            if name.lower().removesuffix(".lock").endswith(ending):
                raise StoreError(
                    f"{path}: names ending in {ending} are reserved for {what}; give another output"
                )


def _check_link(path: Path, there: Path) -> None:
    """Refuse dangling links, and links of other users: who can write to a folder could redirect our output."""
    if not os.path.lexists(there):
        raise StoreError(f"{path}: is a link to {there}, which does not exist; give a file")
    if hasattr(os, "geteuid") and path.lstat().st_uid not in (0, os.geteuid()):
        raise StoreError(f"{path}: is a link made by another user; give a file")


def _check_replaced(
    path: Path, there: Path, *, force: bool, own: str, inputs: Iterable[StrPath]
) -> None:
    """Refuse to replace a protected file, or any file without `force`."""
    if not there.is_file():
        raise StoreError(f"{path}: is not a file or a pipe; give a file")
    read = next((other for other in inputs if _is_same(there, other)), None)
    if read is not None:
        raise StoreError(f"{path}: is an input ({read}); give another output")
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
    """The kind of our file that a file is, by its content and then by its name; empty: none."""
    size = path.stat().st_size
    with path.open("rb") as file:
        head = file.read(2**16)
        is_database = head[_DUCKDB] == _MAGIC  # recognised by its header, however large
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
    """The kind of our JSON file that a text is."""
    try:
        fields = json.loads(text)
    except (ValueError, RecursionError):
        fields = {}
        # A truncated ledger is still a ledger.
        if re.search(rb'"digest"\s*:|"accepts"\s*:|"vintages"\s*:', text[: 2**16]):
            return "a ledger, journal or manifest"
    if not isinstance(fields, dict):
        return ""
    return next((what for known, what in _BY_FIELDS.items() if known <= fields.keys()), "")


def _is_spec(text: bytes) -> bool:
    """Whether a text is a spec: TOML with one of its sections."""
    return bool(_SPEC_TABLE.search(text)) and bool(_toml(text))


def _toml(text: bytes) -> dict[str, Any]:
    """What a text of TOML holds; empty if it is not TOML."""
    try:
        return tomllib.loads(text.decode("utf-8"))
    except (ValueError, RecursionError):
        return {}


def _spec_of_source(path: Path) -> str:
    """A spec, next to a file or in the working folder, that names the file as its source; empty: none."""
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
    """Whether a path or glob leads to a file, also through links or another spelling."""
    for candidate in (str(other), *glob.glob(str(other))):
        with contextlib.suppress(OSError, ValueError):
            if os.path.samefile(path, candidate):
                return True
    return False


def _descriptor(path: Path) -> int:
    """The descriptor of our own standard output or error if a path means one; 0 otherwise."""
    return _OURS.get(os.path.normpath(path), 0)


@contextlib.contextmanager
def _sent_to(descriptor: int) -> Iterator[Path]:
    """Lend a file that is copied to a descriptor when it is complete.

    Opening the descriptor's name would truncate the file behind it (`>> all.csv`).
    """
    stream = sys.__stdout__ if descriptor == 1 else sys.__stderr__
    if stream is None:  # closed by the shell: its number may belong to another file by now
        raise OSError(errno.EBADF, os.strerror(errno.EBADF))
    with tempfile.TemporaryDirectory(prefix="tablepack-") as folder:
        part = Path(folder) / "part"
        yield part
        stream.flush()
        with part.open("rb") as file, os.fdopen(os.dup(descriptor), "wb") as out:
            shutil.copyfileobj(file, out)


def _is_stream(path: Path) -> bool:
    """Whether a path is a pipe or a terminal, which is written directly."""
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
    """Lend a temporary file in the output's folder, which is renamed when it is complete; a pipe is lent itself.

    Output to `/dev/stdout` is appended to what was written there before.

    private: Mode 0600 from the first byte on; otherwise what the umask allows, restricted to the mode of the file that
        is replaced.
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
        # Short enough for any file system; hidden, because it is incomplete.
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
    """Write text as UTF-8 with line ends unchanged; parameters and errors as for `output_file`."""
    data = text.encode("utf-8", "replace")
    with output_file(path, force=force, own=own, inputs=inputs, private=private) as part:
        part.write_bytes(data)


def _check_part(part: Path, target: Path) -> None:
    """Refuse to rename anything but the file that was lent, such as a link that somebody put in its place."""
    found = part.lstat()
    if not stat.S_ISREG(found.st_mode) or found.st_nlink != 1:
        raise StoreError(
            f"{target}: its temporary file was replaced meanwhile; nothing was written"
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
    """Rename a finished file; without `force`, a file that appeared there meanwhile stays."""
    if force:
        part.replace(there)
        return
    try:
        os.link(part, there)
    except FileExistsError:
        raise StoreError(_APPEARED.format(there)) from None
    except OSError:  # no hard links here: take the name first, which only one process can
        _take_name(there)
        part.replace(there)


def _take_name(there: Path) -> None:
    """Create an empty file under a name that does not exist, not even as a link."""
    try:
        os.close(os.open(there, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600))
    except FileExistsError:
        raise StoreError(_APPEARED.format(there)) from None


def check_folder(path: StrPath) -> None:
    """Refuse any folder for results that is not empty or new."""
    target = Path(path)
    with _readable(target):
        there = target.resolve()
        _check_name(there)
        if os.path.lexists(there) and (not there.is_dir() or any(there.iterdir())):
            raise StoreError(f"{target}: is not an empty directory; give an empty or a new one")


@contextlib.contextmanager
def output_folder(path: StrPath) -> Iterator[Path]:
    """Lend a temporary folder, which is renamed when everything in it is complete."""
    target = Path(path)
    check_folder(target)
    with _readable(target):
        there = target.resolve()
        there.parent.mkdir(parents=True, exist_ok=True)
        part = Path(tempfile.mkdtemp(prefix=f".{there.name[:40]}.", dir=there.parent))
        try:
            yield part
            part.chmod(0o777 & ~_umask())
            part.replace(there)  # fails if it is not empty by now
        finally:
            shutil.rmtree(part, ignore_errors=True)


@contextlib.contextmanager
def _readable(path: Path) -> Iterator[None]:
    """Turn errors of the system, or of DuckDB, about a path into a StoreError."""
    if "\0" in str(path):
        raise StoreError("the path of an output contains a null character")
    try:
        yield
    except OSError as error:
        raise StoreError(f"{path}: cannot be written ({error.strerror or 'failed'})") from None
    except duckdb.IOException:
        why = "disk full, quota reached or folder read-only"
        raise StoreError(f"{path}: cannot be written ({why})") from None
