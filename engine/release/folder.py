"""The measurement folder: all that crosses from where rows are seen to where tables are fitted, as files.

`order.json` says how to fit, one `.npz` file a column set holds its noisy counts, `exposure.json` what the release says
of what it discloses, and `manifest.json` comes last and makes the folder whole. Every file is put in place in one
step, so that a killed build leaves whole files only: what is there need not be measured again, as long as the folder
belongs to the same recipe. Reading runs no code that a file holds (no pickle).
"""

from __future__ import annotations

import contextlib
import hashlib
import io
import json
import os
import re
import time
import warnings
import zipfile
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import MISSING, fields, is_dataclass
from datetime import date, datetime
from datetime import time as time_of_day
from decimal import Decimal
from hashlib import blake2b
from pathlib import Path
from typing import Any, NoReturn

import numpy as np

from engine.errors import StoreError
from engine.fit.order import FitOrder, JointOrder
from engine.folders import lock_folder, read_build_id, remove_folder, sweep_folder, write_build_id
from engine.levels import Levels, Margin, StructuralZero
from engine.params import DPParams
from engine.relations import Relation, Relations
from engine.schema import (
    CodedUniverse,
    Column,
    ColumnSet,
    Measurement,
    Prefix,
    ReleaseHeader,
    Resolution,
    Sums,
    Universe,
    Writing,
)
from engine.units import Unit, Words

FORMAT = 2
"""Version of the folder's form."""
_SUMS = "sums of "
_OF_SUMS = ("node", "low", "high", "n", "scale")
_ORDER, _EXPOSURE, _MANIFEST, _README = "order.json", "exposure.json", "manifest.json", "README.txt"
_PLAIN_NAME = re.compile(r"[A-Za-z0-9_]{1,40}")
_LONGEST_NAME = 120
PAUSE_S = 0.005
"""Between two looks at whether a file has come."""
README = """\
What tablepack measured for one release: all that its fit is given. No row, no true count and no key of the source.

order.json     how to fit: columns, tables, public parameters, and a sampling key that decides nothing but where values
               are drawn inside released ranges (derived from the key file, which cannot be found from it)
*.npz          noisy counts, one file a column set, named by its number of columns and their names (0.npz: the total).
               In Python: numpy.load(file)["nodes"], one line a released range: its depth, the line of the range that
               holds it (parent), its noisy number of rows (n), and for each column kind, level and index of its range:
               2**level codes from index * 2**level on. "sums of X": noisy sums of column X, one line a group: a line of
               nodes that has the group's values of the other columns, the codes that values are clipped to (low, high),
               and the sum (n) of what they are above the middle of these. Mode dp: a noisy count for every combination
               of levels; "sums": of how far values of the last column stand above the middle of their level, for every
               combination of the others, in 1,024ths of its widest level.
exposure.json  mode sticky: what the release says of what it discloses
manifest.json  comes last: the SHA-256 of every file
build.json     a keyed digest of what was measured, by which an interrupted build goes on
lock           empty: held while a build writes here

tablepack fit FOLDER -o RELEASE makes the release from it.
"""


class MeasurementFolder:
    """A measurement folder, to be written or read. What is read is waited for until the folder is whole."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._hashes: dict[str, str] = {}
        self._said: dict[str, Any] = {}

    # Writing: the confidential side.

    def begin(
        self,
        recipe: str,
        order: FitOrder | JointOrder,
        first: Iterable[Measurement | Margin] = (),
    ) -> None:
        """Say how to fit, and what is measured so far; what was measured by another recipe goes.

        recipe: Keyed digest of all that decides a measurement, whichever others there are.
        """
        with _written(self.path):
            if read_build_id(self.path) != recipe:
                sweep_folder(self.path)
                write_build_id(self.path, recipe)
        values = {}
        for one in first:
            self.put(one)
            if isinstance(one, Measurement) and one.values is not None:
                values[one.columns[0]] = one.values
        self._write(_README, README.encode())
        self._write_json(_ORDER, {"format": FORMAT, "order": plain(order), "values": plain(values)})

    def put(self, measured: Measurement | Margin) -> None:
        """Write what was measured of one column set."""
        arrays = _of_margin(measured) if isinstance(measured, Margin) else _of_nodes(measured)
        file = io.BytesIO()
        with (
            warnings.catch_warnings()
        ):  # names beyond Latin-1 take a newer format of numpy's, which it remarks on
            warnings.simplefilter("ignore", UserWarning)
            np.savez(file, allow_pickle=False, **arrays)
        of = measured.sum_of if isinstance(measured, Margin) else ""
        self._write(file_name(measured.columns, of), file.getvalue())

    def has(self, columns: ColumnSet) -> bool:
        """Whether a column set was measured, by this build or by one that was stopped."""
        return (self.path / file_name(columns)).exists()

    def finish(self, exposure: dict[str, Any] | None = None) -> None:
        """Record the release's statement of exposure, and that the folder is whole; what else was measured goes."""
        with _written(self.path):
            for file in self.path.glob("*.npz"):
                if file.name not in self._hashes:
                    file.unlink()
        if exposure is not None:
            self._write_json(_EXPOSURE, exposure)
        files = dict(sorted(self._hashes.items()))
        self._write_json(_MANIFEST, {"format": FORMAT, "files": files})

    def remove(self) -> None:
        """Remove it."""
        with _written(self.path):
            remove_folder(self.path)

    def _write_json(self, name: str, value: dict[str, Any]) -> None:
        self._write(name, json.dumps(value, indent=1).encode())

    def _write(self, name: str, data: bytes) -> None:
        """Put a file in place in one step."""
        fresh = self.path / f".{name}.new"
        with _written(self.path):
            handle = os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
            with os.fdopen(handle, "wb") as file:
                file.write(data)
            fresh.replace(self.path / name)
        self._hashes[name] = hashlib.sha256(data).hexdigest()

    # Reading: the public side, and a build that goes on.

    def order(self) -> FitOrder | JointOrder:
        """How to fit."""
        raw = self._read_json(_ORDER)
        with self._understood(_ORDER):
            self._said = {key: restored(value) for key, value in raw.items()}
        order = self._said.get("order")
        if self._said.get("format") != FORMAT or not isinstance(order, FitOrder | JointOrder):
            self._refuse(_ORDER)
        return order

    def measurement(self, columns: ColumnSet) -> Measurement:
        """What was measured of a column set in mode sticky."""
        arrays = self._arrays(columns)
        with self._understood(file_name(columns)):
            values = self._said["values"].get(columns[0]) if len(columns) == 1 else None
            return _measurement(columns, arrays, values)

    def margin(self, columns: ColumnSet, sum_of: str = "") -> Margin:
        """What was measured of a column set in mode dp."""
        arrays = self._arrays(columns, sum_of)
        with self._understood(file_name(columns, sum_of)):
            return Margin(
                columns=columns,
                n=arrays["n"],
                variance=float(arrays["variance"]),
                branching=int(arrays["branching"]),
                tree=tuple(arrays[f"depth_{i + 1}"] for i in range(len(arrays) - 3)),
                sum_of=sum_of,
            )

    def exposure(self) -> dict[str, Any] | None:
        """What the release says of exposure, once the folder is whole."""
        self._read(_MANIFEST)
        return self._read_json(_EXPOSURE) if (self.path / _EXPOSURE).exists() else None

    def check(self) -> None:
        """Refuse a folder that is not whole, or was changed."""
        if not (self.path / _MANIFEST).exists():
            raise StoreError(
                f"{self.path}: is no measurement folder, or not whole (it has no {_MANIFEST}); make it with tablepack "
                "measure SPEC -o FOLDER, which goes on from what an interrupted run left"
            )
        manifest = self._read_json(_MANIFEST)
        for name, digest in manifest.get("files", {}).items():
            if manifest.get("format") != FORMAT or Path(name).name != name:
                self._refuse(_MANIFEST)
            if hashlib.sha256(self._read(name)).hexdigest() != digest:
                self._refuse(name)

    def _arrays(self, columns: ColumnSet, sum_of: str = "") -> dict[str, Any]:
        name = file_name(columns, sum_of)
        raw = self._read(name)
        with self._understood(name), np.load(io.BytesIO(raw), allow_pickle=False) as held:
            return dict(held)

    def _read_json(self, name: str) -> dict[str, Any]:
        raw = self._read(name)
        with self._understood(name):
            return dict(json.loads(raw))

    def _read(self, name: str) -> bytes:
        """The bytes of a file, waited for until the folder is whole."""
        while True:
            is_whole = (self.path / _MANIFEST).exists()  # before: what it names was there already
            try:
                raw = (self.path / name).read_bytes()
            except FileNotFoundError:
                if is_whole:
                    self._refuse(name)
                time.sleep(PAUSE_S)
                continue
            except OSError as error:
                raise StoreError(f"{self.path / name}: cannot be read ({error.strerror})") from None
            self._hashes[name] = hashlib.sha256(raw).hexdigest()
            return raw

    @contextlib.contextmanager
    def _understood(self, name: str) -> Iterator[None]:
        try:
            yield
        except (ValueError, TypeError, KeyError, AttributeError, EOFError, zipfile.BadZipFile):
            self._refuse(name)

    def _refuse(self, name: str) -> NoReturn:
        raise StoreError(
            f"{self.path / name}: is missing, damaged, or of another version of tablepack; measure again: tablepack "
            "measure SPEC -o FOLDER"
        )


@contextlib.contextmanager
def writing_folder(path: Path, *, force: bool = True) -> Iterator[MeasurementFolder]:
    """Hold a measurement folder that is to be written; what an interrupted run left there is gone on from.

    force: A whole one may be replaced.
    """
    with _written(path):
        lock = lock_folder(path, "a measurement folder")
    try:
        if (path / _MANIFEST).exists() and not force:
            raise StoreError(
                f"{path}: holds a whole measurement; replace it with --force (force=True), or choose another folder"
            )
        with _written(path):
            if (path / _MANIFEST).exists():
                sweep_folder(path)
            for name in (_MANIFEST, _ORDER, _EXPOSURE):
                (path / name).unlink(missing_ok=True)
        yield MeasurementFolder(path)
    finally:
        os.close(lock)


ENDING = ".measured-"
"""In the name of the folder of a build, which lies beside the key until the release is in place."""


def folder_of_build(key_path: Path, out: Path) -> Path:
    """The measurement folder of a build: one for each release that is made."""
    place = blake2b(os.fsencode(out), digest_size=4).hexdigest()
    return Path(os.path.abspath(key_path)).with_name(f"{key_path.name}{ENDING}{place}")


def remove_left(place: Path) -> list[Path]:
    """Remove the measurement folders that killed builds left in a folder; gives their names."""
    removed = []
    with contextlib.suppress(OSError):
        for folder in sorted(place.iterdir()):
            if ENDING not in folder.name or not (folder / "lock").exists():
                continue
            with contextlib.suppress(StoreError):  # a build is at work there
                lock = lock_folder(folder, "a measurement folder")
                remove_folder(folder)
                os.close(lock)
                removed.append(folder)
    return removed


def file_name(columns: ColumnSet, sum_of: str = "") -> str:
    """File of a column set: its width and its names, or a digest where these make no file name."""
    parts = (*columns, sum_of) if sum_of else columns
    width = f"{len(columns)}{'-sums' if sum_of else ''}"
    named = ".".join((width, *parts))
    if len(named) > _LONGEST_NAME or not all(map(_PLAIN_NAME.fullmatch, parts)):
        digest = blake2b(json.dumps(parts).encode(), digest_size=16).hexdigest()
        named = f"{width}-{digest}"
    return f"{named}.npz"


@contextlib.contextmanager
def _written(path: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise StoreError(f"{path}: cannot be written ({error.strerror})") from None


# Arrays.


def _of_nodes(tree: Measurement) -> dict[str, Any]:
    """One line a node, in the narrowest types that hold it."""
    parts: dict[str, Any] = {"depth": tree.depth, "parent": tree.parent, "n": tree.n}
    for j, name in enumerate(tree.columns):
        for what in ("kind", "level", "index"):
            parts[f"{name} {what}"] = getattr(tree, what)[:, j]
    nodes = np.empty(tree.n_nodes, dtype=[(name, _narrow(of)) for name, of in parts.items()])
    for name, of in parts.items():
        nodes[name] = of
    sums = {f"{_SUMS}{one.column}": _of_sums(one) for one in tree.sums}
    return {"nodes": nodes, "scale": tree.scale, **sums}


def _of_sums(sums: Sums) -> Any:
    """One line a group."""
    out = np.empty(len(sums.n), dtype=[(name, np.int64) for name in _OF_SUMS])
    for name in _OF_SUMS:
        out[name] = getattr(sums, name)
    return out


def _narrow(values: Any) -> Any:
    if values.dtype == np.uint8:
        return values.dtype
    ends = (int(values.min()), int(values.max())) if len(values) else (0, 0)
    return np.promote_types(*(np.min_scalar_type(min(end, -1 - end)) for end in ends))


def _measurement(columns: ColumnSet, arrays: Mapping[str, Any], values: Any) -> Measurement:
    nodes = arrays["nodes"]

    def stacked(what: str, as_type: Any) -> Any:
        found = np.empty((len(nodes), len(columns)), dtype=as_type)
        for j, name in enumerate(columns):
            found[:, j] = nodes[f"{name} {what}"]
        return found

    return Measurement(
        columns=columns,
        depth=np.ascontiguousarray(nodes["depth"]),
        kind=stacked("kind", np.uint8),
        level=stacked("level", np.uint8),
        index=stacked("index", np.int64),
        parent=nodes["parent"].astype(np.int64),
        n=nodes["n"].astype(np.int64),
        scale=arrays["scale"],
        values=values,
        sums=tuple(
            Sums(
                column=name,
                **{field: np.ascontiguousarray(arrays[_SUMS + name][field]) for field in _OF_SUMS},
            )
            for name in columns
            if _SUMS + name in arrays
        ),
    )


def _of_margin(margin: Margin) -> dict[str, Any]:
    return {
        "n": margin.n,
        "variance": np.float64(margin.variance),
        "branching": np.int64(margin.branching),
        **{f"depth_{i}": counts for i, counts in enumerate(margin.tree, 1)},
    }


# Plain values.

_CLASSES: dict[str, type] = {
    one.__name__: one
    for one in (
        *(FitOrder, JointOrder, ReleaseHeader, DPParams, Levels, StructuralZero, Prefix),
        *(Column, Resolution, Writing, Universe, CodedUniverse, Relation, Relations, Unit, Words),
    )
}
_TEXTS: dict[str, tuple[Any, Callable[[str], object]]] = {
    "datetime": (datetime, datetime.fromisoformat),  # before dates, of which it is one
    "date": (date, date.fromisoformat),
    "time": (time_of_day, time_of_day.fromisoformat),
    "decimal": (Decimal, Decimal),
}


def plain(value: Any) -> Any:
    """A value in JSON; what JSON has no word for is an object with a single key, a dollar sign and its type."""
    if isinstance(value, np.generic):
        value = value.item()
    if value is None or isinstance(value, bool | int | float | str):
        return value
    if isinstance(value, tuple):
        return [plain(one) for one in value]
    if isinstance(value, list):
        return {"$list": [plain(one) for one in value]}
    if isinstance(value, bytes):
        return {"$bytes": value.hex()}
    if isinstance(value, np.ndarray):
        about = {"type": value.dtype.str, "shape": list(value.shape)}
        return {"$array": about | {"values": value.ravel().tolist()}}
    if isinstance(value, dict):
        if all(isinstance(key, str) and not key.startswith("$") for key in value):
            return {key: plain(one) for key, one in value.items()}
        return {"$dict": [[plain(key), plain(one)] for key, one in value.items()]}
    for name, (of, _) in _TEXTS.items():
        if isinstance(value, of):
            return {f"${name}": str(value) if of is Decimal else value.isoformat()}
    if not is_dataclass(value) or type(value).__name__ not in _CLASSES:
        raise TypeError(f"{type(value).__name__} has no place in a measurement folder")
    own = {field.name: (getattr(value, field.name), field.default) for field in fields(value)}
    written = {
        name: plain(held)
        for name, (held, default) in own.items()
        if default is MISSING or isinstance(held, np.ndarray) or held != default
    }
    return {f"${type(value).__name__}": written}


def restored(value: Any) -> Any:
    """The value that `plain` wrote."""
    if isinstance(value, list):
        return tuple(restored(one) for one in value)
    if not isinstance(value, dict):
        return value
    name = next(iter(value), "")
    if not name.startswith("$"):
        return {key: restored(one) for key, one in value.items()}
    held = value[name]
    if name == "$list":
        return [restored(one) for one in held]
    if name == "$bytes":
        return bytes.fromhex(held)
    if name == "$array":
        return np.array(held["values"], dtype=np.dtype(held["type"])).reshape(held["shape"])
    if name == "$dict":
        return {restored(key): restored(one) for key, one in held}
    if name[1:] in _TEXTS:
        return _TEXTS[name[1:]][1](held)
    return _CLASSES[name[1:]](**{key: restored(one) for key, one in held.items()})
