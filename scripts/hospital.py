"""Tables of stays and of patients of a simulated hospital, under fresh keys: do their intervals hold, how wide?

Gives Markdown: per table the share of intervals that hold the true count, their half width, and how many times wider
they are than the shortest of their shape of which 94 % hold.
Usage: python scripts/hospital.py [--keys N] [--patients N] [--stays N]     (30 keys, 50,000 patients, 1,000,000 stays)
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pandas as pd
from measured import add_option, command_line, markdown, record

import engine
from queries.intervals import tabulate

STAYS = (
    ("ward",),
    ("sex",),
    ("born",),
    ("diagnosis",),
    ("days",),
    ("sex", "ward"),
    ("days", "ward"),
)
PATIENTS = (("sex",), ("born",), ("born", "sex"))
IN_WARDS = (("ward",), ("sex", "ward"), ("born", "ward"))
RELEASES = {"stays": ("", STAYS), "patients": ('count = "entities"\n', PATIENTS),
            "patients in each ward": ('count = "entities"\neach = "ward"\n', IN_WARDS)}  # fmt: skip
WANTED = 0.94
MILLION = 1_000_000
"""Stays from which figures are recorded by themselves."""

WARDS = ("Medicine", "Surgery", "Dialysis", "Oncology", "Children", "Maternity", "Eyes", "Emergency",
         "Hearts", "Nerves", "Skin", "Psychiatry")  # fmt: skip
CODES = 60
"""Diagnoses, each at home in one ward."""
START = np.datetime64("2021-01-01")
DAYS = 4 * 365


def hospital(patients: int = 5_000, stays: int = 100_000, *, seed: int = 14) -> pd.DataFrame:
    """One row a stay; the number of stays of a patient falls off like a power, up to 400 times the middle."""
    rng = np.random.default_rng(seed)
    weight = np.minimum(rng.pareto(1.6, patients) + 0.3, 60.0)
    of = np.concatenate(
        [np.arange(patients), rng.choice(patients, stays - patients, p=weight / weight.sum())]
    )
    sex = rng.choice(["F", "M"], patients)
    born = 2020 - np.clip(rng.gamma(6.0, 9.0, patients), 0, 100).astype(int)
    home = rng.choice(len(WARDS), patients, p=_falling(len(WARDS)))
    ward = np.where(rng.random(stays) < 0.7, home[of], rng.choice(len(WARDS), stays))
    code = ward + len(WARDS) * rng.choice(
        CODES // len(WARDS), stays, p=_falling(CODES // len(WARDS))
    )
    days = rng.geometric(0.22, stays)
    order = rng.permutation(stays)
    return pd.DataFrame(
        {
            "patient": 100_000 + of * 7,
            "sex": sex[of],
            "born": born[of],
            "ward": np.array(WARDS)[ward],
            "diagnosis": np.array([f"{'ABCDEFGHIJKL'[c % 12]}{c // 12}{c % 7}" for c in code]),
            "admitted": START + rng.integers(0, DAYS, stays).astype("timedelta64[D]"),
            "days": days,
            "cost": np.round(days * rng.lognormal(5.5, 0.5, stays)).astype(int),
        }
    ).iloc[order].reset_index(drop=True)  # fmt: skip


def _falling(n: int) -> np.ndarray:
    """Shares that fall off."""
    share = 1.0 / np.arange(1, n + 1)
    return share / share.sum()


def truth_of(
    frame: pd.DataFrame, unit: str, table: tuple[str, ...]
) -> dict[tuple[object, ...], int]:
    """True counts of a table."""
    if unit != "stays":
        frame = frame.drop_duplicates(["patient", *table])
    found = frame.groupby(list(table)).size()
    return {key if isinstance(key, tuple) else (key,): int(n) for key, n in found.items()}


def described(folder: Path, frame: pd.DataFrame) -> str:
    """A spec as `init` proposes it, without tables."""
    frame.to_parquet(folder / "stays.parquet")
    command = [sys.executable, "-c", "from engine.cli import main; main()", "init", "stays.parquet"]
    subprocess.run(
        [*command, "--entity", "patient", "-o", "stays.toml"],
        cwd=folder,
        check=True,
        capture_output=True,
    )
    text = (folder / "stays.toml").read_text("utf-8").split("[[tables]]")[0]
    return text.replace("[privacy]", '[privacy]\naccept_risk = "simulated"', 1)


def collected(
    folder: Path,
    frame: pd.DataFrame,
    keys: int,
    make_key: Callable[[Path, int], object] | None = None,
) -> dict[tuple[str, str], np.ndarray]:
    """Truth, value and both ends of every released figure, by unit and table, shape (4, n)."""
    text, found = described(folder, frame), {}
    for number in range(keys):
        for old in folder.glob("stays.key*"):
            old.unlink()
        if make_key:
            make_key(folder / "stays.key", number)
        else:
            engine.new_key(folder / "stays.key")
        for unit, (lines, tables) in RELEASES.items():
            listed = "".join(
                f"[[tables]]\ncolumns = {list(t)!r}\n".replace("'", '"') for t in tables
            )
            spec = folder / "release.toml"
            spec.write_text(text.replace("[release]\n", f"[release]\n{lines}", 1) + listed, "utf-8")
            with engine.build(spec, out=folder / "r.duckdb", jobs=1, force=True) as release:
                for table in tables:
                    shown = tabulate(release, table)
                    true = truth_of(frame, unit, table)
                    known = np.array([s != "not released" for s in shown.status])
                    right = np.array([true.get(key, 0) for key in shown.keys], dtype=float)
                    part = np.stack([right, shown.value, shown.low, shown.high])[:, known]
                    found.setdefault((unit, ", ".join(table)), []).append(part)
    return {key: np.concatenate(parts, axis=1) for key, parts in found.items()}


def line(found: np.ndarray) -> tuple[int, float, float, float]:
    """Number of intervals, share that holds, mean half width, times wider than the shortest."""
    truth, value, low, high = found
    half = np.maximum((high - low) / 2, 0.5)
    needed = float(np.quantile(np.abs(truth - value) / half, WANTED))
    holds = float(((truth >= low) & (truth <= high)).mean())
    return len(truth), holds, float(half.mean()), 1 / max(needed, 1e-9)


def main() -> None:
    """Run it."""
    reader = argparse.ArgumentParser(description=__doc__)
    reader.add_argument("--keys", type=int, default=30)
    reader.add_argument("--patients", type=int, default=50_000)
    reader.add_argument("--stays", type=int, default=1_000_000)
    add_option(reader)
    chosen = reader.parse_args()
    with tempfile.TemporaryDirectory() as scratch:
        found = collected(Path(scratch), hospital(chosen.patients, chosen.stays), chosen.keys)
    rows = []
    for (unit, table), parts in found.items():
        n, holds, half, wider = line(parts)
        rows.append((unit, table, f"{n:,}", f"{100 * holds:.1f}", f"{half:,.1f}", f"{wider:.2f}"))
    heads = (
        "counted",
        "table",
        "intervals",
        "% that hold",
        "mean half width",
        "times the shortest",
    )
    body = markdown(heads, rows)
    print(body)
    if chosen.record:
        command = command_line("scripts/hospital.py")
        if chosen.stays < MILLION:
            record("hospital", command, body)
        else:
            record("hospital-million", command, body)


if __name__ == "__main__":
    main()
