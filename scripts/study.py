"""What studies share: where data lie, shipped specs placed beside them, keys, releases under several keys, options."""

from __future__ import annotations

import argparse
import hashlib
import json
import re
import shutil
import tempfile
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from measured import add_option

import engine
from engine.simulation import simulate_census
from engine.simulation.rules import CENSUS_RULES
from engine.source import begin_charges, begin_ledger
from engine.spec import ReleaseSpec

ROOT = Path(__file__).resolve().parents[1]
RELEASES, SHARED = ROOT / "releases", ROOT.parent / "shared"
NIST, SYNTHPOP = SHARED / "nist", SHARED / "synthpop"
FILES = {"nist": "national2019.csv", "sd2011": "SD2011.csv"}
FOLDERS = {"nist": NIST, "sd2011": SYNTHPOP}
NULLS = {"nist": ("N",), "sd2011": ("",), "census": ()}
SEED = 2021


def parser(
    doc: str | None,
    *,
    prog: str | None = None,
    keys: int | None = None,
    data: Iterable[str] = (),
    seed: int | None = None,
    folder: Path | None = None,
) -> argparse.ArgumentParser:
    """A command line with those of the options that studies share which are given a default."""
    reader = argparse.ArgumentParser(prog=prog, description=doc)
    if keys is not None:
        reader.add_argument("--keys", type=int, default=keys, help="fresh keys (%(default)s)")
    if data:
        reader.add_argument("--data", choices=tuple(data), action="append", help="only these data")
    if seed is not None:
        reader.add_argument("--seed", type=int, default=seed)
    reader.add_argument("--folder", type=Path, default=folder, help="work here, and use it again")
    add_option(reader)
    return reader


@contextmanager
def workplace(folder: Path | None) -> Iterator[Path]:
    if folder is not None:
        folder.mkdir(parents=True, exist_ok=True)
        yield folder.resolve()
        return
    with tempfile.TemporaryDirectory() as scratch:
        yield Path(scratch)


def missing(name: str, folder: Path | None = None) -> str | None:
    place = folder or FOLDERS.get(name)
    if place is None or (place / FILES[name]).exists():
        return None
    return f"no {FILES[name]} in {place}: give the folder that holds the data"


def folder_of(folder: Path | None, default: Path, *names: str) -> Path:
    """A folder that has some files; ends the run where it has not."""
    place = folder or default
    lacking = [name for name in names if not (place / name).exists()]
    if lacking:
        raise SystemExit(f"no {', '.join(lacking)} in {place}: give the folder that holds the data")
    return place


def null_spellings(spec: ReleaseSpec) -> tuple[str, ...]:
    return tuple(sorted({spelling for column in spec.columns for spelling in column.spellings}))


def data_file(name: str, folder: Path | None = None) -> Path:
    """A data set's file; ends the run where it is not there."""
    if reason := missing(name, folder):
        raise SystemExit(reason)
    return (folder or FOLDERS[name]) / FILES[name]


def census_file(folder: Path, people: int, seed: int = SEED) -> Path:
    """A simulated census and its rules, made where they are not there yet."""
    if not (folder / "people.parquet").exists():
        shutil.rmtree(folder, ignore_errors=True)
        simulate_census(folder, people=people, seed=seed)
    rules = [
        {"name": rule.name, "columns": rule.columns, "violated": rule.condition}
        for rule in CENSUS_RULES
    ]
    (folder / "rules.json").write_text(json.dumps(rules, indent=1))
    return folder / "people.parquet"


def spec_of(
    spec: str,
    folder: Path,
    *,
    source: Path,
    key: str | Path = "fresh.key",
    tables: Sequence[Sequence[str]] | str | None = None,
    accept_risk: str | None = None,
) -> Path:
    """Write a shipped spec into a folder, for data and a key of this machine, which is made where there is none.

    tables: column sets, or lines of TOML, in the place of the spec's own.
    """
    text = (RELEASES / spec).read_text("utf-8")
    text = re.sub(r'(?m)^key = "[^"]*"', f'key = "{(folder / key).resolve()}"', text, count=1)
    text = re.sub(r'(?m)^path = "[^"]*"', f'path = "{source.resolve()}"', text, count=1)
    workload = source.resolve().with_name("workload.json")
    text = re.sub(r'(?m)^file = "[^"]*workload.json"', f'file = "{workload}"', text)
    if tables is not None:
        if not isinstance(tables, str):
            tables = "".join(f"[[tables]]\ncolumns = {json.dumps(list(t))}\n\n" for t in tables)
        text = text[: text.index("[[tables]]")] + tables
    if accept_risk is not None:
        text = re.sub(r"(?m)^accept_risk = .*\n", "", text)
        text = text if "[privacy]" in text else text.replace("[source]", "[privacy]\n\n[source]", 1)
        text = text.replace("[privacy]\n", f'[privacy]\naccept_risk = "{accept_risk}"\n', 1)
    if not (folder / key).exists():
        engine.new_key(folder / key)
    path = folder / Path(spec).name
    path.write_text(text, "utf-8")
    return path


def drop_key(key: Path) -> None:
    """Remove a key with all that lies beside it: what it has measured, spent and exposed."""
    for old in key.parent.glob(f"{key.name}*"):
        shutil.rmtree(old) if old.is_dir() else old.unlink()


class Keys:
    """Keys derived from a text and their number, so that nobody has to believe that a key was not chosen."""

    def __init__(self, seed: str) -> None:
        self._seed = seed

    def __call__(self, path: Path, number: int) -> None:
        """Write one: always the same, whichever others a folder has already."""
        path.touch(mode=0o600)
        path.write_bytes(hashlib.sha256(f"{self._seed} {number}".encode()).digest())
        begin_charges(path)
        begin_ledger(path)


def releases(
    spec: Path, keys: int, make_key: Callable[[Path, int], object] | None = None
) -> Iterator[engine.Release]:
    """Releases of a spec with `fresh.key` beside it, one a key; those in its folder are used again."""
    key = spec.parent / "fresh.key"
    for number in range(keys):
        path = spec.parent / f"{spec.stem}-{number}.duckdb"
        if not path.exists():
            drop_key(key)
            if make_key:
                make_key(key, number)
            else:
                engine.new_key(key)
            engine.build(spec, out=path, jobs=1).close()
        with engine.open(path) as release:
            yield release
