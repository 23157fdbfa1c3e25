"""All pairs of a simulated hospital of fine columns: 12 columns, moments in seconds, money in cents, 30,000 codes.

Builds all singles and pairs, beside the plain GROUP BYs of the same sets over encoded columns (the floor, checked to
count what the source holds) and what `plan` predicts. Every release is checked before its time counts. Gives Markdown.
Usage: python scripts/hospital_fine.py [--rows N,N ...] [--repeat N]          (100,000 and 1,000,000 rows; 2)
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import time
from itertools import combinations
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pandas as pd
from bench_cost import build_of, check, floor_of
from measured import add_option, command_line, markdown, record

import engine
from engine.schema import literal, quoted

CODES, DISTRICTS = 30_000, 400
START = np.datetime64("2021-01-01")
SECONDS = 4 * 365 * 86_400
WARDS = ("Medicine", "Surgery", "Dialysis", "Oncology", "Children", "Maternity", "Eyes", "Emergency",
         "Hearts", "Nerves", "Skin", "Psychiatry")  # fmt: skip
SPEC = """[release]
title = "Stays"
vintage = "2021-2024"
key = "stays.key"
unit = "stays"

[source]
path = "stays.parquet"
entities = ["stay"]

[privacy]
accept_risk = "simulated"

[columns.stay]
kind = "integer"
{columns}
[[tables]]
all = 1

[[tables]]
all = 2
"""
RELEASED = 'release = "simulated: of few rows, codes and costs are nearly unique"\n'
KINDS = {"sex": "category", "born": "integer", "district": "integer", "ward": "category", "diagnosis": "text",
         "days": "integer", "admitted": "timestamp", "discharged": "timestamp", "operated": "timestamp",
         "cost": "real", "drugs": "real", "heartbeats": "integer"}  # fmt: skip
"""The columns of the release, as `init` finds them."""
CENTS = "resolution = 0.01\n"
PUBLIC = {"sex", "ward"}
"""Columns whose every code is counted right but for noise."""


def hospital(rows: int, *, seed: int = 16) -> pd.DataFrame:
    """One row a stay, each of somebody else."""
    rng = np.random.default_rng(seed)
    ward = rng.choice(len(WARDS), rows, p=_falling(len(WARDS), 1.0))
    code = (ward * 7919 + rng.choice(CODES, rows, p=_falling(CODES, 0.9))) % CODES
    born = 2020 - np.clip(rng.gamma(6.0, 9.0, rows), 0, 100).astype(int)
    days = rng.geometric(0.22, rows)
    admitted = rng.integers(0, SECONDS, rows)
    stayed = days * 86_400 - rng.integers(0, 86_400, rows)
    operated = np.where(
        rng.random(rows) < 0.4, admitted + (stayed * rng.random(rows)).astype(int), -1
    )
    cost = np.round(days * rng.lognormal(10.1, 0.5, rows)).astype(int)
    drugs = np.round(cost * rng.beta(1.2, 6.0, rows)).astype(int)
    return pd.DataFrame(
        {
            "stay": np.arange(rows) * 7 + 1_000_003,
            "sex": rng.choice(["F", "M"], rows),
            "born": born,
            "district": rng.choice(DISTRICTS, rows, p=_falling(DISTRICTS, 0.6)),
            "ward": np.array(WARDS)[ward],
            "diagnosis": np.array([f"{'ABCDEFGHIJKLMNOP'[c % 16]}{c // 16:04d}" for c in range(CODES)])[code],
            "days": days,
            "admitted": START + admitted.astype("timedelta64[s]"),
            "discharged": START + (admitted + stayed).astype("timedelta64[s]"),
            "operated": np.where(operated < 0, np.datetime64("NaT", "s"), START + operated.astype("timedelta64[s]")),
            "cost": cost / 100,
            "drugs": drugs / 100,
            "heartbeats": np.round(rng.normal(75 + born % 7, 12, rows) * stayed / 60).astype(int),
        }
    )  # fmt: skip


def _falling(n: int, power: float) -> np.ndarray:
    """Shares that fall off."""
    share = np.arange(1.0, n + 1) ** -power
    return share / share.sum()


def prepared(place: Path, rows: int) -> list[list[str]]:
    """Source, encoded source, key and spec in a folder; the column sets of the release."""
    frame = hospital(rows)
    frame.to_parquet(place / "stays.parquet")
    encoded(frame).to_parquet(place / "encoded.parquet")
    engine.new_key(place / "stays.key")
    columns = "".join(
        f'\n[columns.{name}]\nkind = "{kind}"\n{RELEASED}' + (CENTS if kind == "real" else "")
        for name, kind in KINDS.items()
    )
    (place / "stays.toml").write_text(SPEC.format(columns=columns), "utf-8")
    return [list(names) for width in (1, 2) for names in combinations(sorted(KINDS), width)]


def encoded(frame: pd.DataFrame) -> pd.DataFrame:
    """The same columns as whole numbers."""
    out = {}
    for name, kind in KINDS.items():
        column = frame[name]
        if kind in ("category", "text"):
            out[name] = pd.Series(column.astype("category").cat.codes.astype("int32"))
        elif kind == "timestamp":
            seconds = (column - START) // pd.Timedelta(seconds=1)
            out[name] = seconds.astype("Int32")
        else:
            out[name] = (column * (100 if kind == "real" else 1)).round().astype("int32")
    return pd.DataFrame(out)


def check_floor(place: Path, tables: list[list[str]]) -> None:
    """The GROUP BYs that are timed count what the source holds: as many groups, rows and squares of them."""
    with duckdb.connect(config={"memory_limit": "3GB"}) as con:
        for columns in tables:
            chosen = ", ".join(map(quoted, columns))
            told = [
                con.execute(
                    f"SELECT count(*), sum(n), sum(n * n) FROM (SELECT count(*) AS n "
                    f"FROM read_parquet({literal(str(place / name))}) GROUP BY {chosen})"
                ).fetchall()
                for name in ("stays.parquet", "encoded.parquet")
            ]
            if told[0] != told[1]:
                raise SystemExit(f"{columns}: the encoded columns count other groups")


def planned(place: Path) -> dict[str, float]:
    """What `plan` says, and how long it takes, by a process of its own."""
    start = time.perf_counter()
    done = subprocess.run(
        [
            sys.executable,
            "-c",
            "from engine.cli import main; main()",
            "plan",
            "stays.toml",
            "--json",
        ],
        cwd=place,
        check=True,
        capture_output=True,
        text=True,
    )
    told = json.loads(done.stdout)
    return {
        "seconds": told["seconds"],
        "megabytes": told["megabytes"],
        "took": time.perf_counter() - start,
    }


def measured(rows: int, repeat: int) -> dict[str, Any]:
    """Everything about one size."""
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder)
        tables = prepared(place, rows)
        check_floor(place, tables)
        start = time.process_time()
        floor, _ = floor_of(str(place / "encoded.parquet"), tables, nulls=(), repeat=repeat)
        floor_cpu = (time.process_time() - start) / repeat
        narrow = [[name] for name in PUBLIC]
        _, truth = floor_of(str(place / "stays.parquet"), narrow, nulls=(), repeat=1)
        plan = planned(place)
        out = place / "stays.duckdb"
        job = {"spec": str(place / "stays.toml"), "out": str(out)}
        built = build_of(job, place)
        comparisons = check(out, truth, PUBLIC)
        return {
            "rows": rows, "tables": len(tables), "floor": floor, "floor_cpu": floor_cpu, "plan": plan, "built": built,
            "bytes": out.stat().st_size, "comparisons": comparisons,
        }  # fmt: skip


def line(told: dict[str, Any]) -> tuple[str, ...]:
    """Figures of one size as texts."""
    built, plan, floor = told["built"], told["plan"], told["floor"]
    cpu = built["measure_cpu_seconds"] + built["fit_cpu_seconds"]
    return (
        f"{told['rows']:,}",
        f"{told['tables']}",
        f"{floor:.1f} s",
        f"{told['floor_cpu']:.1f} s",
        f"{built['seconds']:.0f} s",
        f"{built['seconds'] / floor:.1f}",
        f"{4 * floor + 60:.0f} s",
        f"{built['peak_bytes'] / 1e9:.2f} GB",
        f"{built['measure_cpu_seconds']:.0f} + {built['fit_cpu_seconds']:.0f} s",
        f"{plan['seconds']:.0f} s",
        f"{plan['seconds'] / cpu:.2f}",
        f"{plan['megabytes'] / 1e3:.2f} GB",
        f"{told['bytes'] / 1e6:.0f} MB",
    )


HEADS = (
    "rows",
    "tables",
    "GROUP BYs",
    "processor",
    "built in",
    "times GROUP BYs",
    "wanted (4 times + 60 s)",
    "peak memory",
    "processor: measure + fit",
    "plan says",
    "over processor",
    "memory, plan",
    "file",
)


def main() -> None:
    """Run it."""
    reader = argparse.ArgumentParser(description=__doc__)
    reader.add_argument("--rows", default="100000,1000000")
    reader.add_argument("--repeat", type=int, default=2)
    add_option(reader)
    chosen = reader.parse_args()
    rows = []
    for size in chosen.rows.split(","):
        told = measured(int(size), chosen.repeat)
        print(json.dumps(told))
        rows.append(line(told))
    body = markdown(HEADS, rows)
    print(body)
    if chosen.record:
        record("hospital-fine", command_line("scripts/hospital_fine.py"), body)


if __name__ == "__main__":
    main()
