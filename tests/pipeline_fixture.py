"""Helpers of the end-to-end tests: the command line as people run it, small specs, releases read from outside."""

from __future__ import annotations

import base64
import contextlib
import io
import json
import os
import signal
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from unittest import mock

import duckdb
import pytest

from engine.cli import main
from engine.simulation.census import simulate_census

ROOT = Path(__file__).resolve().parent.parent
COMMAND = [sys.executable, "-c", "from engine.cli import main; main()"]
TIMEOUT = 300
KEY = bytes(range(7, 39))

# Columns of the simulated census, one of every kind, as a spec spells them.
CENSUS = {
    "person_id": {"kind": "integer"},
    "region": {"kind": "category", "domain": [f"R{i}" for i in range(1, 10)], "public": True},
    "age": {"kind": "integer", "domain": {"min": 0, "max": 105}},
    "sex": {"kind": "category", "domain": ["Female", "Male"], "public": True},
    "education": {"kind": "category"},
    "birth_country": {"kind": "text"},
    "arrival_date": {"kind": "date"},
    "income": {"kind": "integer"},
    "carer": {"kind": "boolean"},
    "rent_weekly": {"kind": "decimal", "resolution": 0.01},
    "travel_km": {"kind": "real", "resolution": 0.125},
}
TWELVE = (
    ("age",),
    ("arrival_date",),
    ("income",),
    ("rent_weekly",),
    ("travel_km",),
    ("birth_country",),
    ("age", "sex"),
    ("income", "region"),
    ("birth_country", "education"),
    ("carer", "rent_weekly"),
    ("age", "region", "sex"),
    ("age", "carer", "education", "sex"),
)


def environment(tmp: Path | None = None, **more: str) -> dict[str, str]:
    """What a command sees: this checkout, scratch space of its own, a wide and colourless screen."""
    kept = {k: v for k, v in os.environ.items() if k not in ("NO_COLOR", "FORCE_COLOR")}
    return {
        **kept,
        "PYTHONPATH": str(ROOT),
        "COLUMNS": "200",
        **({"TMPDIR": str(tmp)} if tmp is not None else {}),
        **more,
    }


@dataclass(frozen=True)
class Done:
    """How a command ended."""

    returncode: int
    stdout: str
    stderr: str


def tablepack(*words: object, cwd: Path, tmp: Path | None = None, text: str = "") -> Done:
    """Run one command in this process: all of `main`, but without the second that starting Python takes."""
    out, err = io.StringIO(), io.StringIO()
    before = signal.getsignal(signal.SIGTERM)
    with (
        contextlib.chdir(cwd),
        contextlib.redirect_stdout(out),
        contextlib.redirect_stderr(err),
        mock.patch("sys.argv", ["tablepack", *map(str, words)]),
        mock.patch("sys.stdin", io.StringIO(text)),
        mock.patch("tempfile.tempdir", None if tmp is None else str(tmp)),
        mock.patch.dict(os.environ, {"COLUMNS": "200"}),
        pytest.raises(SystemExit) as ended,
    ):
        main()
    signal.signal(signal.SIGTERM, before)
    return Done(ended.value.code, out.getvalue(), err.getvalue())


def process(
    *words: object, cwd: Path, tmp: Path | None = None, text: str | None = None, **env: str
):
    """Run one command as people do, in a process of its own."""
    return subprocess.run(
        [*COMMAND, *map(str, words)],
        cwd=cwd,
        env=environment(tmp, **env),
        input=text,
        capture_output=True,
        text=True,
        timeout=TIMEOUT,
    )


def spec_text(
    path: str | Path,
    columns: dict[str, dict],
    tables,
    *,
    entities=("person_id",),
    key: str = "my.key",
    vintage: str = "2021",
    release: dict | None = None,
    source: dict | None = None,
) -> str:
    """A spec in TOML."""
    sections = {
        "release": {"vintage": vintage, "key": key, **(release or {})},
        "source": {"path": str(path), "entities": list(entities), **(source or {})},
    }
    lines = []
    for name, values in sections.items():
        lines += [f"[{name}]", *(f"{k} = {_toml(v)}" for k, v in values.items())]
    for name, values in columns.items():
        lines += [f"[columns.{_toml(name)}]", *(f"{k} = {_toml(v)}" for k, v in values.items())]
    for names in tables:
        lines += ["[[tables]]", f"columns = {_toml(list(names))}"]
    return "\n".join(lines) + "\n"


def _toml(value: object) -> str:
    """One TOML value; JSON but for tables."""
    if isinstance(value, dict):
        return "{" + ", ".join(f"{_toml(k)} = {_toml(v)}" for k, v in value.items()) + "}"
    return json.dumps(value, ensure_ascii=False)


def write_spec(folder: Path, *args, name: str = "release.toml", **more) -> Path:
    """A spec file, with a key beside it: always the same, so that a test does not depend on luck."""
    path = folder / name
    path.write_text(spec_text(*args, **more), encoding="utf-8")
    key = folder / more.get("key", "my.key")
    if not key.exists():
        key.touch(mode=0o600)
        key.write_bytes(KEY)
    return path


def make_census(folder: Path, people: int = 1500, seed: int = 7, *, csv: bool = False) -> Path:
    """A simulated census; gives the folder with people.parquet and events.parquet."""
    simulate_census(folder, people=people, seed=seed, csv=csv)
    return folder


def table_hashes(release: Path) -> dict[tuple[str, ...], str]:
    """Content hash of every table, read from the file with plain DuckDB."""
    with duckdb.connect(str(release), read_only=True) as con:
        rows = con.execute("SELECT columns, content_hash FROM catalog.tables").fetchall()
    return {tuple(columns): digest for columns, digest in rows}


def counts(release: Path, *columns: str) -> dict[tuple, int]:
    """Counts of one table, read from the file with plain DuckDB."""
    listed = ", ".join('"' + c.replace('"', '""') + '"' for c in columns)
    with duckdb.connect(str(release), read_only=True) as con:
        view = con.execute(
            "SELECT name FROM catalog.tables WHERE list_sort(columns) = list_sort(?)",
            [list(columns)],
        ).fetchall()[0][0]
        quoted = '"' + view.replace('"', '""') + '"'
        rows = con.execute(f"SELECT {listed}, count(*) FROM main.{quoted} GROUP BY ALL").fetchall()
    return {tuple(row[:-1]): row[-1] for row in rows}


def files_under(*folders: Path) -> list[Path]:
    """All files under some folders."""
    return [p for folder in folders for p in sorted(folder.rglob("*")) if p.is_file()]


def spellings(secret: bytes) -> dict[str, bytes]:
    """The ways in which a secret could be hidden in plain sight; base64 at each of its three offsets."""
    found = {"raw": secret, "hex": secret.hex().encode(), "HEX": secret.hex().upper().encode()}
    for offset in range(3):
        whole = base64.b64encode(bytes(offset) + secret)
        found[f"base64+{offset}"] = whole[4 if offset else 0 : len(whole) // 4 * 4 - 4]
    try:
        text = secret.decode("utf-8")
    except UnicodeDecodeError:
        return found
    return found | {"utf-16": text.encode("utf-16-le"), "utf-16-be": text.encode("utf-16-be")}


def places_of(secrets: list[bytes], content: dict[str, bytes]) -> list[tuple[str, str]]:
    """Where a secret shows, and how it is spelled there."""
    return [
        (place, how)
        for place, data in content.items()
        for secret in secrets
        for how, spelled in spellings(secret).items()
        if spelled in data
    ]


def content_of(*folders: Path, but: tuple[Path, ...] = ()) -> dict[str, bytes]:
    """The bytes of all files under some folders."""
    return {str(p): p.read_bytes() for p in files_under(*folders) if p not in but}


def left_over(scratch: Path) -> list[str]:
    """Scratch directories that are still there."""
    return [p.name for p in scratch.glob("tablepack-*/*") if p.is_dir()]
